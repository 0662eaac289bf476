"""Golden tests: every tensor of the second layer, exact at any width, by quadrature in two inputs."""

from functools import cache
from math import erf

import numpy as np
import pytest

import scalewise as sw
from grids import thorough
from scalewise.nets import measure

X = np.array([[1.2, -0.4], [0.5, 0.9]])
C_b, C_W = [0.1, 0.3], [1.2, 1.7]
LAMBDA_B, LAMBDA_W = [0.4, 0.9], [0.7, 1.3]
SMOOTH = ["dntk_P", "dntk_Q", "ddntk_R", "ddntk_S", "ddntk_T", "ddntk_U"]
KINKED = ["ntk_A", "ntk_B", "ntk_D", "ntk_F", "dntk_P", "dntk_Q"]


def normal(z):
    return np.exp(-z * z / 2) / np.sqrt(2 * np.pi), 0.5 * (1 + np.vectorize(erf)(z / np.sqrt(2)))


def gelu(z):
    density, below = normal(z)
    return z * below, below + z * density, density * (2 - z * z), density * (z**3 - 4 * z)


def tanh(z):
    t = np.tanh(z)
    u = 1 - t * t
    return t, u, -2 * t * u, u * (6 * t * t - 2)


SIGMAS = {
    "tanh": tanh,
    "sin": lambda z: (np.sin(z), np.cos(z), -np.sin(z), -np.cos(z)),
    "gelu": gelu,
    "relu": lambda z: (np.maximum(z, 0), (z > 0) * 1.0, 0 * z, 0 * z),
}


def plane(factor, kinked):
    """Nodes (2, nodes) of the Gaussian with covariance factor factor^T, and their weights."""
    if not kinked:
        u, w = np.polynomial.hermite_e.hermegauss(70)
        grid = np.stack(np.meshgrid(u, u, indexing="ij")).reshape(2, -1)
        return factor @ grid, np.outer(w, w).ravel() / (2 * np.pi)
    # Rays: powers of the radius are exact with r²/2 as the variable, angles are split at the kinks.
    t, w_t = np.polynomial.laguerre.laggauss(12)
    kinks = np.sort(
        np.concatenate([np.arctan2(-r[0], r[1]) + np.pi * np.arange(-2, 3) for r in factor])
    )
    edges = np.unique([-np.pi, np.pi, *kinks[(kinks > -np.pi) & (kinks < np.pi)]])
    v, w_v = np.polynomial.legendre.leggauss(40)
    half = np.diff(edges)[:, None] / 2
    angles = (edges[:-1, None] + half * (1 + v)).ravel()
    w_a = (half * w_v).ravel() / (2 * np.pi)
    rays = np.stack([np.cos(angles), np.sin(angles)])
    nodes = (rays[:, None] * np.sqrt(2 * t)[:, None]).reshape(2, -1)
    return factor @ nodes, np.outer(w_t, w_a).ravel()


@cache
def exact(name):
    """PDLT (8.32), (8.33), (8.38), (8.39), (11.31), (11.32) and (∞.177)-(∞.181) without F, B, P, Q."""
    G, H = (c + w / 2 * (X @ X.T) for c, w in ((C_b[0], C_W[0]), (LAMBDA_B[0], LAMBDA_W[0])))
    z, weights = plane(np.linalg.cholesky(G), name == "relu")
    s = SIGMAS[name](z)
    C, rate = C_W[1], LAMBDA_W[1]

    def mean(a, b, c, d):
        """<s^(a)_1 s^(b)_2 s^(c)_3 s^(d)_4>, samples 1234 in this order."""
        return np.einsum("ak,bk,ck,dk,k->abcd", s[a], s[b], s[c], s[d], weights)

    def times(pattern, values, *pairs):
        inputs = ",".join(["abcd", *pattern.split()[0].split(",")])
        return np.einsum(f"{inputs}->{pattern.split()[1]}", values, *pairs)

    omega = np.einsum("ak,bk->abk", s[0], s[0]) * rate
    omega += C * H[..., None] * np.einsum("ak,bk->abk", s[1], s[1])
    metric = C * np.einsum("ak,bk->abk", s[0], s[0])

    def covariance(one, two):
        product = np.einsum("abk,cdk,k->abcd", one, two, weights)
        return product - np.einsum("ab,cd->abcd", one @ weights, two @ weights)

    P = C**2 * times("ab,ac abcd", mean(2, 1, 1, 0), H, H)
    bends = C**2 * times("ab,ac,bd abcd", mean(2, 2, 1, 1), H, H, H)
    T = rate**2 * times("ab abcd", mean(1, 1, 0, 0), H)
    T += C * rate * times("ab,bd abcd", mean(1, 2, 0, 1), H, H)
    T += C * rate * times("ab,ac abcd", mean(2, 1, 1, 0), H, H)
    return {
        "ntk_A": covariance(omega, omega),
        "ntk_B": C**2 * times("ab,cd acbd", mean(1, 1, 1, 1), H, H),
        "ntk_D": covariance(metric, omega),
        "ntk_F": C**2 * times("cd acbd", mean(0, 0, 1, 1), H),
        "dntk_P": P,
        "dntk_Q": P + rate * C * times("ac abcd", mean(1, 0, 1, 0), H),
        "ddntk_R": rate * C * times("ac,ad abcd", mean(2, 0, 1, 1), H, H)
        + C**2 * times("ab,ac,ad abcd", mean(3, 1, 1, 1), H, H, H),
        "ddntk_S": C * rate * times("ac,bd abcd", mean(1, 1, 1, 1), H, H) + bends,
        "ddntk_T": np.einsum("abcd->acdb", T + bends),
        "ddntk_U": np.einsum("abcd->adbc", bends),
    }


@pytest.mark.covers("C12", "C28", "B11")
@pytest.mark.parametrize(
    ("name", "observables"),
    [("tanh", KINKED[:4] + SMOOTH), *thorough(("relu", KINKED), ("sin", KINKED), ("gelu", SMOOTH))],
)
def test_the_second_layer_is_exact_at_any_width(name, observables):
    rates = {"lambda_b": LAMBDA_B, "lambda_W": LAMBDA_W}
    net = sw.MLP(2, 4, name, input_dim=2, output_dim=1, C_b=C_b, C_W=C_W, **rates)
    result = measure(net, X, networks=30_000, observables=observables, seed=1)
    for observable in observables:
        value, sem = (result[observable + end].values[1] for end in ("", "_sem"))
        theory = exact(name)[observable]
        # Some 500 entries are compared in this file; P of ReLU is zero without an error.
        np.testing.assert_array_less(np.abs(value - theory), 4.5 * sem + 1e-6, err_msg=observable)
        assert np.max(sem) < 0.025 * max(np.max(np.abs(theory)), 1e-3), observable
        order = {"ntk_A": "cdab", "ddntk_T": "dcba", "ddntk_U": "cdab"}.get(observable, "abcd")
        np.testing.assert_allclose(value, np.einsum(f"{order}->abcd", value), rtol=1e-4, atol=1e-6)
        assert np.all(result[observable].values[0] == 0)
        assert np.all(result[observable + "_sem"].values[0] == 0)


def test_the_rules_of_this_file_agree():
    # Both rules, on what both can integrate: a quartic, whose Gaussian mean is Wick's.
    G = np.array([[1.0, 0.4], [0.4, 0.7]])
    for kinked in (True, False):
        z, weights = plane(np.linalg.cholesky(G), kinked)
        np.testing.assert_allclose((z[0] ** 2 * z[1] ** 2) @ weights, 0.7 + 2 * 0.4**2, rtol=1e-10)
        np.testing.assert_allclose(np.sum(weights), 1, rtol=1e-12)
