"""Golden, property and agreement tests of correlations with the NTK and its differentials.

Real networks with one hidden layer, whose whole arrays are exact at any width, and whose correlations with
any other observable are extrapolated over two widths; then networks with two hidden layers.
"""

import math

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import scalewise as sw
from grids import thorough
from scalewise.nets import Parameters, init_weights, layer_tensors
from scalewise.theory.correlators import (
    dntk_correlation,
    neuron_tensor,
    ntk_correlation,
)
from scalewise.theory.correlators._gaussian_derivatives import gaussian_neurons

X = np.array([[1.1, -0.4, 0.3], [0.2, 0.9, -0.8]])
RATES = {"lambda_b": (0.4, 0.3, 0.5), "lambda_W": (0.9, 1.2, 0.7)}
VARIANCES = {"C_b": (0.2, 0.1, 0.3), "C_W": (1.4, 1.6, 1.2)}
TENSORS = ("four_point_vertex", *(f"ntk_{x}" for x in "ABDF"), "dntk_P", "dntk_Q")
DDNTK = tuple(f"ddntk_{x}" for x in "RSTU")


def network(depth: int, width: int, name: str = "gelu") -> sw.Network:
    own = {key: value[:depth] for key, value in {**RATES, **VARIANCES}.items()}
    return sw.MLP(depth, width, name, input_dim=3, output_dim=2, **own)


def last(theory, name: str) -> np.ndarray:
    return theory[name].values[-1]


def hidden_layers(net, x, size, rng) -> tuple[np.ndarray, list[np.ndarray], np.ndarray, np.ndarray]:
    """(W, [sigma and derivatives], H, b) of networks with one hidden layer: the network is axis 0."""
    n = net.widths[1]
    kernel = net.C_b[0] + net.C_W[0] / net.input_dim * x @ x.T
    z = rng.normal(size=(size, n, len(x))) @ np.linalg.cholesky(kernel).T
    slopes = [net.activation.derivative(z, k) for k in range(4)]
    H = net.lambda_b[0] + net.lambda_W[0] / net.input_dim * x @ x.T
    W = rng.normal(size=(size, 2, n)) * math.sqrt(net.C_W[1] / n)
    b = rng.normal(size=(size, 2, 1)) * math.sqrt(net.C_b[1])
    return W, slopes, H, b


def ntk(net, W, slopes, H) -> np.ndarray:
    """(8.12) above a first layer."""
    s, s1 = slopes[:2]
    own = net.lambda_b[1] + net.lambda_W[1] / W.shape[2] * np.einsum("nka,nkb->nab", s, s)
    legs = W[:, :, None] * s1.swapaxes(1, 2)[:, None]
    inner = np.einsum("niak,njbk->nijab", legs, legs, optimize=True) * H
    return inner + np.einsum("ij,nab->nijab", np.eye(2), own)


def dntk(net, W, slopes, H) -> np.ndarray:
    """(11.24) above a first layer, where nothing has bent yet."""
    s, s1, s2 = slopes[:3]
    W1, W2 = (np.einsum("nik,nka->niak", W, d) for d in (s1, s2))
    bent = np.einsum("niak,njbk,nlck,ab,ac->nijlabc", W2, W1, W1, H, H, optimize=True)
    rate = net.lambda_W[1] / W.shape[2]
    new = np.einsum("ij,nlck,nka,nkb,ac->nijlabc", np.eye(2), W1, s1, s, H, optimize=True) * rate
    return bent + new + new.transpose(0, 1, 3, 2, 4, 6, 5)


def ddntk(net, W, slopes, H) -> tuple[np.ndarray, np.ndarray]:
    """(∞.174) and (∞.175) above a first layer."""
    s, s1, s2, s3 = slopes
    W1, W2, W3 = (np.einsum("nik,nka->niak", W, d) for d in (s1, s2, s3))
    eye, rate = np.eye(2), net.lambda_W[1] / W.shape[2]

    def total(spec, *arrays) -> np.ndarray:
        return np.einsum(spec + "->nijklabcd", *arrays, optimize=True)

    first = total("niax,njbx,nkcx,nldx,ab,ac,ad", W3, W1, W1, W1, H, H, H)
    new = rate * total("ij,nxb,nkcx,nldx,nxa,ac,ad", eye, s, W1, W1, s2, H, H)
    for k in (1, 2, 3):
        first += np.swapaxes(np.swapaxes(new, 2, 1 + k), 6, 5 + k)
    second = total("niax,njbx,nkcx,nldx,ab,ac,bd", W2, W2, W1, W1, H, H, H)
    second += rate * total("ij,nkcx,nldx,nxa,nxb,ac,bd", eye, W1, W1, s1, s1, H, H)
    diagonal = np.einsum("nxa,nxb,nxc,nxd,ab->nabcd", s1, s1, s, s, H, optimize=True)
    second += rate**2 * np.einsum("ik,jl,nabcd->nijklabcd", eye, eye, diagonal)
    lone = rate * total("ik,njbx,nldx,nxc,nxa,ba,bd", eye, W2, W1, s, s1, H, H)
    return first, second + lone + lone.transpose(0, 2, 1, 4, 3, 6, 5, 8, 7)


def test_the_networks_of_this_file_are_those_of_the_package() -> None:
    net = network(2, 3)
    parameters = init_weights(net, 4, dtype="float64")
    (w, v), (b, _) = (list(map(np.asarray, p)) for p in parameters)
    z = w @ X.T + b[:, None]
    slopes = [net.activation.derivative(z, k)[None] for k in range(4)]
    H = net.lambda_b[0] + net.lambda_W[0] / net.input_dim * X @ X.T
    tensors = layer_tensors(net, Parameters(*parameters), X)[1]
    first, second = ddntk(net, v[None], slopes, H)
    np.testing.assert_allclose(ntk(net, v[None], slopes, H)[0], tensors.ntk, rtol=1e-10)
    np.testing.assert_allclose(dntk(net, v[None], slopes, H)[0], tensors.dntk, atol=1e-12)
    np.testing.assert_allclose(first[0], tensors.dd_first, atol=1e-12)
    np.testing.assert_allclose(second[0], tensors.dd_second, atol=1e-12)


class Mean:
    """Mean and standard error, batch by batch."""

    def __init__(self) -> None:
        self.count, self.first, self.second = 0, 0.0, 0.0

    def add(self, values: np.ndarray) -> None:
        self.count += len(values)
        self.first = self.first + values.sum(axis=0)
        self.second = self.second + np.square(values).sum(axis=0)

    @property
    def value(self) -> np.ndarray:
        return self.first / self.count

    @property
    def noise(self) -> np.ndarray:
        return np.sqrt((self.second / self.count - self.value**2) / self.count)


def agrees(mean: Mean, expected: np.ndarray, *, teeth: float = 15.0) -> None:
    """All entries within 5 standard errors, for some hundreds; the signal far above them."""
    np.testing.assert_array_less(np.abs(mean.value - expected), 5 * mean.noise + 1e-12)
    assert np.max(np.abs(expected) / (mean.noise + 1e-12)) > teeth


@pytest.mark.covers("B11", "C35")
def test_whole_arrays_of_the_second_layer() -> None:
    """(8.67), (8.82), (11.45), (∞.11), (∞.12) at width 4, all neurons and samples."""
    net = network(2, 4)
    theory = sw.predict(net, X, observables=["kernel", "ntk", *TENSORS, *DDNTK])
    V, A, B, D, F, P, Q = (last(theory, name) for name in TENSORS)
    R, S, T, U = (last(theory, name) for name in DDNTK)
    expected = {
        "zzzz": neuron_tensor("zzzz", 4, 2, V=V),
        "zzH": neuron_tensor("zzH", 4, 2, D=D, F=F),
        "HH": neuron_tensor("HH", 4, 2, A=A, B=B),
        "dHz": neuron_tensor("dHz", 4, 2, P=P, Q=Q),
        "dd1": neuron_tensor("ddH_I", 4, 2, R=R),
        "dd2": neuron_tensor("ddH_II", 4, 2, S=S, T=T, U=U),
    }
    means = {name: Mean() for name in expected}
    eye, K, Theta = np.eye(2), last(theory, "kernel"), last(theory, "ntk")
    pairs = np.einsum("ij,ab->ijab", eye, K)
    rng = np.random.default_rng(11)
    for _ in range(10):
        W, slopes, H, b = hidden_layers(net, X, 4000, rng)
        z = W @ slopes[0] + b
        fluctuation = ntk(net, W, slopes, H) - np.einsum("ij,ab->ijab", eye, Theta)
        zz = np.einsum("nia,njb->nijab", z, z)
        means["zzH"].add(np.einsum("nijab,nklcd->nijklabcd", zz, fluctuation))
        means["HH"].add(np.einsum("nijab,nklcd->nijklabcd", fluctuation, fluctuation))
        means["dHz"].add(np.einsum("nijkabc,nld->nijklabcd", dntk(net, W, slopes, H), z))
        means["zzzz"].add(np.einsum("nijab,nklcd->nijklabcd", zz, zz))
        for name, values in zip(("dd1", "dd2"), ddntk(net, W, slopes, H), strict=True):
            means[name].add(values)
    gaussian = np.einsum("ijab,klcd->ijklabcd", pairs, pairs)
    gaussian = gaussian + gaussian.transpose(0, 2, 1, 3, 4, 6, 5, 7)
    gaussian = gaussian + np.einsum("ilad,jkbc->ijklabcd", pairs, pairs)
    expected["zzzz"] = expected["zzzz"] + gaussian
    for name, mean in means.items():
        agrees(mean, expected[name])


def stacked(z) -> np.ndarray:
    """Observables of two neurons and two samples; one of them has a kink."""
    return np.stack(
        [
            np.cos(z[0, 0] - 0.7 * z[1, 1]),
            np.tanh(z[0, 0]) * np.tanh(z[1, 1] - 0.3),
            z[0, 0] * z[0, 1] * z[1, 0],
            z[1, 1] ** 2 * z[0, 0] * z[1, 0],
            np.maximum(z[0, 1], 0.0) * z[1, 0] ** 2,
        ]
    )


@pytest.mark.covers("B12", "C11")
def test_any_observable_of_the_second_layer() -> None:
    """(8.71) and (11.42): n times the correlation at widths 8 and 24, extrapolated to 1/n = 0."""
    found = []
    for width, batches in ((8, 10), (24, 10)):
        net = network(2, width)
        theory = sw.predict(net, X, observables=["kernel", "ntk", *TENSORS])
        Theta = np.einsum("ij,ab->ijab", np.eye(2), last(theory, "ntk"))
        means, rng = (Mean(), Mean()), np.random.default_rng(width)
        for _ in range(batches):
            W, slopes, H, b = hidden_layers(net, X, 4000, rng)
            values = width * stacked((W @ slopes[0] + b).transpose(1, 2, 0)).T
            means[0].add(np.einsum("no,n...->no...", values, ntk(net, W, slopes, H) - Theta))
            means[1].add(np.einsum("no,n...->no...", values, dntk(net, W, slopes, H)))
        found.append(means)
    K, D, F, P, Q = (last(theory, name) for name in ("kernel", "ntk_D", "ntk_F", *TENSORS[-2:]))
    rest = {"neurons": 2, "smooth": False}
    theories = (
        ntk_correlation(stacked, K, D, F, 1, **rest),
        dntk_correlation(stacked, K, P, Q, 1, **rest),
    )
    for narrow, wide, (value, error) in zip(*found, theories, strict=True):
        limit = 1.5 * wide.value - 0.5 * narrow.value
        noise = np.hypot(1.5 * wide.noise, 0.5 * narrow.noise)
        size = np.max(np.abs(value).reshape(5, -1), axis=1).reshape(5, *(1,) * (value.ndim - 1))
        # 1/n^2 at widths 8 and 24: (a few)^2 / 192 of the largest entry.
        np.testing.assert_array_less(np.abs(limit - value), 4.5 * noise + 4 * error + 0.05 * size)
        # Even observables meet the NTK, odd ones its differential.
        assert np.sum(np.max(np.abs(value / noise).reshape(5, -1), axis=1) > 12) >= 2


@pytest.mark.covers("B12", "C11")
@pytest.mark.thorough("test_any_observable_of_the_second_layer")
def test_two_hidden_layers() -> None:
    """Correlations in layer 3, networks differentiated by definition, at widths 10 and 30."""
    found = []
    for width, count in ((10, 20_000), (30, 14_000)):
        net = network(3, width)
        z, H, dH = differentiated(net, count, seed=width)
        values = width * stacked(z.transpose(1, 2, 0)).T
        theory = sw.predict(net, X, observables=["kernel", "ntk", *TENSORS])
        means = (Mean(), Mean())
        # The mean NTK is measured: Theta alone would leave H^{1} <O> behind.
        means[0].add(np.einsum("no,n...->no...", values, H - H.mean(axis=0)))
        means[1].add(np.einsum("no,n...->no...", values, dH))
        found.append(means)
    K, D, F, P, Q = (last(theory, name) for name in ("kernel", "ntk_D", "ntk_F", *TENSORS[-2:]))
    rest = {"neurons": 2, "smooth": False}
    theories = (
        ntk_correlation(stacked, K, D, F, 1, **rest)[0],
        dntk_correlation(stacked, K, P, Q, 1, **rest)[0],
    )
    for narrow, wide, value in zip(*found, theories, strict=True):
        limit = 1.5 * wide.value - 0.5 * narrow.value
        noise = np.hypot(1.5 * wide.noise, 0.5 * narrow.noise)
        size = np.max(np.abs(value).reshape(5, -1), axis=1).reshape(5, *(1,) * (value.ndim - 1))
        np.testing.assert_array_less(np.abs(limit - value), 4.5 * noise + 0.1 * size)
        assert np.max(np.abs(value / noise)) > 8


def differentiated(net, count, seed) -> tuple[np.ndarray, ...]:
    """z, H and dH of many networks of any depth, as they are defined: (8.7), (11.8)."""
    rng, sigma, x = np.random.default_rng(seed), net.activation.traceable(), jnp.asarray(X.T)
    leaves, rates = [], []
    for layer in range(net.depth):
        n, m = net.widths[layer : layer + 2]
        leaves.append(rng.normal(size=(count, m, n)) * math.sqrt(net.C_W[layer] / n))
        leaves.append(rng.normal(size=(count, m, 1)) * math.sqrt(net.C_b[layer]))
        rates += [net.lambda_W[layer] / n, net.lambda_b[layer]]

    def forward(leaves):
        out = leaves[0] @ x + leaves[1]
        for W, b in zip(leaves[2::2], leaves[3::2], strict=True):
            out = W @ sigma(out) + b
        return out

    def one(leaves):
        rows = [r.reshape(4, *r.shape[2:]) for r in jax.jacrev(forward)(leaves)]
        scaled = [r * rate for r, rate in zip(rows, rates, strict=True)]

        def along(v, w):
            return jax.jvp(lambda p: jax.jvp(forward, (p,), (v,))[1], (leaves,), (w,))[1]

        second = jax.vmap(lambda v: jax.vmap(lambda w: along(v, w))(scaled))(scaled)
        H = sum(jnp.einsum("p...,q...->pq", a, b) for a, b in zip(rows, scaled, strict=True))
        return forward(leaves), H, second

    leaves = [jnp.asarray(leaf, jnp.float32) for leaf in leaves]
    z, H, second = (np.asarray(a, float) for a in jax.jit(jax.vmap(one))(leaves))
    second = second.reshape(-1, *(2,) * 6)  # j b k c i a
    H = H.reshape(-1, 2, 2, 2, 2).transpose(0, 1, 3, 2, 4)
    return z, H, second.transpose(0, 5, 1, 3, 6, 2, 4)


def made_up(samples: int = 2, seed: int = 0) -> tuple[np.ndarray, ...]:
    """K and D, F, P, Q with the symmetries of their definitions."""
    rng = np.random.default_rng(seed)
    K = np.cov(rng.normal(size=(samples, 4 * samples))) + np.eye(samples)
    D, F, P, Q = rng.normal(size=(4, *(samples,) * 4))
    D = D + D.transpose(1, 0, 2, 3)
    D = D + D.transpose(0, 1, 3, 2)
    return K, D, F + F.transpose(2, 3, 0, 1), P + P.transpose(0, 2, 1, 3), Q


@pytest.mark.covers("C11")
def test_products_of_preactivations_give_the_tensors_back() -> None:
    """Quadratic and linear observables: the operators are the whole arrays."""
    K, D, F, P, Q = made_up()
    value, _ = ntk_correlation(lambda z: np.einsum("iam,jbm->ijabm", z, z), K, D, F, 7, neurons=2)
    np.testing.assert_allclose(
        value, neuron_tensor("zzH", 7, 2, D=D, F=F).transpose(0, 1, 4, 5, 2, 3, 6, 7), atol=1e-10
    )
    value, _ = dntk_correlation(lambda z: z, K, P, Q, 7, neurons=2)
    np.testing.assert_allclose(
        value, neuron_tensor("dHz", 7, 2, P=P, Q=Q).transpose(3, 7, 0, 1, 2, 4, 5, 6), atol=1e-10
    )


@pytest.mark.covers("B12")
def test_printed_form_with_inverse_metrics() -> None:
    """(8.71) as printed, its expectations by a product rule of its own."""
    K, D, F, _, _ = made_up()
    x, w = np.polynomial.hermite_e.hermegauss(24)
    u = np.stack(np.meshgrid(x, x, x, x, indexing="ij")).reshape(2, 2, -1)
    weights = np.einsum("a,b,c,d->abcd", w, w, w, w).ravel() / w.sum() ** 4
    z = np.einsum("ab,ibm->iam", np.linalg.cholesky(K), u)

    def observable(z):
        return np.cos(z[0, 0] - 0.4 * z[1, 1]) + z[0, 1] * np.sin(0.5 * z[1, 0])

    pairs = np.einsum("iam,jbm,m->ijab", z, z, weights * observable(z), optimize=True)
    pairs -= np.einsum("ij,ab->ijab", np.eye(2), K) * (weights @ observable(z))
    raised = np.einsum("ijab,ac,bd->ijcd", pairs, np.linalg.inv(K), np.linalg.inv(K))
    printed = 0.5 * np.einsum("mmab,abcd,ij->ijcd", raised, D, np.eye(2))
    printed = (printed + np.einsum("ijab,acbd->ijcd", raised, F)) / 9
    value, error = ntk_correlation(observable, K, D, F, 9, neurons=2)
    np.testing.assert_allclose(value, printed, atol=1e-9)
    assert np.max(error) < 1e-8


def test_a_neuron_that_is_not_seen_has_the_shared_part_only() -> None:
    K, D, F, P, Q = made_up()
    value, _ = ntk_correlation(lambda z: np.cos(z[0, 0]), K, D, F, 5, neurons=2)
    assert np.max(np.abs(value[0, 1])) < 1e-12
    none, _ = ntk_correlation(lambda z: np.cos(z[0, 0]), K, D, 0 * F, 5, neurons=2)
    np.testing.assert_allclose(value[1, 1], none[0, 0], atol=1e-12)
    alone, _ = dntk_correlation(lambda z: z[0, 0] ** 3, K, P, Q, 5, neurons=3)
    assert np.max(np.abs(alone[1, 1, 1])) < 1e-12
    assert np.max(np.abs(alone[0, 1, 2])) < 1e-12
    np.testing.assert_allclose(alone[0, 1, 1], alone[0, 2, 2], atol=1e-12)


@pytest.mark.covers("B12")
@pytest.mark.parametrize("name", ["relu", *thorough("tanh")])
def test_coincident_inputs_are_one_input(name) -> None:
    names = ["kernel", "ntk_D", "ntk_F", "dntk_P", "dntk_Q"]
    net = network(2, 50, name)
    one = [last(sw.predict(net, X[:1], observables=names), v) for v in names]
    both = [last(sw.predict(net, X[[0, 0]], observables=names), v) for v in names]

    def mean(z):
        return np.tanh(z.mean(axis=1)[0]) * (1 + z[0, -1])

    for function, legs in ((ntk_correlation, (1, 2)), (dntk_correlation, (3, 4))):
        single, _ = function(mean, one[0], one[legs[0]], one[legs[1]], 50)
        double, _ = function(mean, both[0], both[legs[0]], both[legs[1]], 50)
        np.testing.assert_allclose(double, np.broadcast_to(single, double.shape), rtol=1e-5)


@pytest.mark.covers("B11", "C35")
def test_symmetries_of_whole_arrays() -> None:
    """What the expectations are symmetric in, the arrays are: (∞.11) in all legs but the first."""
    net = network(3, 20)
    theory = sw.predict(net, X, observables=[*TENSORS, *DDNTK])
    V, A, B, D, F, P, Q = (last(theory, name) for name in TENSORS)
    R, S, T, U = (last(theory, name) for name in DDNTK)

    def legs(array, order):
        return array.transpose(*order, *(4 + k for k in order))

    for array, orders in (
        (neuron_tensor("zzzz", 20, 2, V=V), [(1, 0, 2, 3), (0, 2, 1, 3), (3, 1, 2, 0)]),
        (neuron_tensor("zzH", 20, 2, D=D, F=F), [(1, 0, 2, 3), (0, 1, 3, 2)]),
        (neuron_tensor("HH", 20, 2, A=A, B=B), [(1, 0, 2, 3), (2, 3, 0, 1)]),
        (neuron_tensor("dHz", 20, 2, P=P, Q=Q), [(0, 2, 1, 3)]),
        (neuron_tensor("ddH_I", 20, 2, R=R), [(0, 2, 1, 3), (0, 1, 3, 2), (0, 3, 2, 1)]),
        (neuron_tensor("ddH_II", 20, 2, S=S, T=T, U=U), [(1, 0, 3, 2)]),
    ):
        for order in orders:
            np.testing.assert_allclose(legs(array, order), array, rtol=1e-8, atol=1e-12)


def test_refusals() -> None:
    K, D, F, P, Q = made_up()

    def first(z):
        return z[0, 0]

    for bad in (0, math.inf, math.nan):
        with pytest.raises(ValueError, match="`n` must be a finite number of at least 1"):
            ntk_correlation(first, K, D, F, bad)
    with pytest.raises(ValueError, match="`neurons` must be a whole number of at least 1; got 0"):
        dntk_correlation(first, K, P, Q, 5, neurons=0)
    with pytest.raises(ValueError, match="`F` must hold finite numbers only"):
        ntk_correlation(first, K, D, np.nan * F, 5)
    with pytest.raises(ValueError, match="`F` must have 4 axes as long as `K`"):
        gaussian_neurons(K, 1, smooth=True).lowered("F", F[:1, :1, :1, :1], (0, 2))
    with pytest.raises(ValueError, match="`D` varies in a direction in which `K` does not"):
        ntk_correlation(first, np.ones((2, 2)), D, F, 5)
    with pytest.raises(ValueError, match="`K` must be symmetric and positive semidefinite"):
        ntk_correlation(first, -K, D, F, 5)
    with pytest.raises(ValueError, match="`K` must hold finite numbers only"):
        ntk_correlation(first, K * np.nan, D, F, 5)
    with pytest.raises(ValueError, match="`K` vanishes"):
        ntk_correlation(first, 0 * K, D, F, 5)
    with pytest.raises(ValueError, match="`observable` must return finite values"):
        dntk_correlation(lambda z: np.nan * z[0, 0], K, P, Q, 5)
    with pytest.raises(ValueError, match="`n` must be a finite number of at least 1; got 0"):
        neuron_tensor("zzzz", 0, 1, V=D)
    with pytest.raises(ValueError, match="`T` must be finite, with four equal axes"):
        neuron_tensor("ddH_II", 5, 1, S=D, T=np.nan * D, U=D)
    with pytest.raises(ValueError, match=r"`expectation` must be one of 'zzzz', 'zzH'.*; got 'zH'"):
        neuron_tensor("zH", 5, 1, D=D)
    with pytest.raises(ValueError, match=r"'zzH' is made of D, F; got D. Pass these"):
        neuron_tensor("zzH", 5, 1, D=D)
