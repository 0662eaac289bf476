"""Golden and property tests: every tensor keeps its digits on any scale of kernel and activation.

Against quadrature with fifty digits, the single-input flow, a sum over the plane of nodes, and the units
of the preactivation.
"""

import dataclasses
from functools import cache

import jax.numpy as jnp
import mpmath as mp
import numpy as np
import pytest

import scalewise as sw
from grids import thorough
from kinked import bent, elu, hard_tanh
from networks import inputs_with_kernel, net
from scalewise.activations import Activation
from scalewise.observables import OBSERVABLES
from scalewise.theory.single import single_input_flow

RATES = {"lambda_b": 0.3, "lambda_W": 0.7}
SMOOTH = ("tanh", "sin", "erf", "gelu", "swish", "softplus", "sigmoid", "quadratic")
FIFTY = {
    "tanh": (mp.tanh, lambda z: mp.sech(z) ** 2),
    "softplus": (lambda z: mp.log1p(mp.exp(z)), lambda z: 1 / (1 + mp.exp(-z))),
    "sin": (mp.sin, mp.cos),
}


def nodes(A, B, c) -> tuple[np.ndarray, np.ndarray]:
    """z_a and z_b with fifty digits, and their weights, by a product of Gauss-Hermite rules."""
    x, w = _rule(24)
    za, zb = mp.sqrt(A) * x[:, None], mp.sqrt(B) * (c * x[:, None] + mp.sqrt(1 - c * c) * x)
    return np.stack(np.broadcast_arrays(za, zb)), np.multiply.outer(w, w)


@cache
def _rule(n: int) -> tuple[np.ndarray, np.ndarray]:
    start, _ = np.polynomial.hermite_e.hermegauss(n)
    x = [mp.findroot(lambda t: mp.hermite(n, t / mp.sqrt(2)), mp.mpf(s)) for s in start]
    w = np.array([1 / mp.hermite(n - 1, t / mp.sqrt(2)) ** 2 for t in x])
    return np.array(x), w / w.sum()


@pytest.mark.parametrize("name", ["softplus", *thorough("tanh", "sin")])
def test_layer_two_to_fifty_digits(name: str) -> None:
    misses = []
    with mp.workdps(50):
        for K in (1e-12, 1e-3):
            kernel = K * np.array([[1.0, -0.6], [-0.6, 0.5]])
            x = inputs_with_kernel(kernel)
            found = sw.predict(
                net(2, name, features=2, **RATES), x, observables=["ntk_A", "ntk_D"], layers=2
            )
            gram = x @ x.T / 2
            A, B, C = (mp.mpf(float(v)) for v in (gram[0, 0], gram[1, 1], gram[0, 1]))
            theta = {(i, j): mp.mpf("0.3") + mp.mpf("0.7") * g for i, j, g in
                     ((0, 0, A), (0, 1, C), (1, 1, B))}  # fmt: skip

            z, weights = nodes(A, B, C / mp.sqrt(A * B))
            s, own = (np.frompyfunc(function, 1, 1)(z) for function in FIFTY[name])
            metric = {(i, j): s[i] * s[j] for i, j in theta}
            omega = {
                (i, j): mp.mpf("0.7") * metric[i, j] + theta[i, j] * own[i] * own[j]
                for i, j in theta
            }
            for i, j, k, m in ((0, 0, 0, 0), (0, 1, 0, 1), (0, 0, 1, 1)):
                for tensor, left in (("ntk_A", omega), ("ntk_D", metric)):
                    one, other = left[i, j], omega[k, m]
                    mean = np.sum(weights * one)
                    want = float(np.sum(weights * (one - mean) * other))
                    value = float(found[tensor].values[0, i, j, k, m])
                    error = float(found[f"{tensor}_error"].values[0, i, j, k, m])
                    if not abs(value - want) <= error < 1e-6 * abs(want):
                        misses.append((K, tensor, (i, j, k, m), value, want, error))
    assert misses == []


SCALES = {name: 10.0**power for name, power in zip(SMOOTH, 2 * (-12, -2, 0, 4), strict=True)}
EVERYWHERE = [("tanh", 1e-2), ("tanh", 1.0), ("leaky_relu(0.3)", 1e-12)]
FEW = [(name, SCALES[name]) for name in ("tanh", "softplus", "erf")] + [("tanh", 1e4)]
REST = [(name, K) for name, K in SCALES.items() if (name, K) not in FEW] + EVERYWHERE


@pytest.mark.parametrize("cases", [FEW, *thorough(REST)], ids=["few", "rest"])
def test_one_input_on_every_scale(cases) -> None:
    misses = []
    for name, K in cases:
        network = net(3, name, features=1, **RATES)
        # Beside another input it does not go through the tables that it is compared with.
        x = np.array([[np.sqrt(K)], [-0.6 * np.sqrt(K)]])
        flow, alone = sw.predict(network, x, observables="all"), single_input_flow(network, x)
        for tensor, row in OBSERVABLES.items():
            if tensor not in flow or not row.order:
                continue
            first = flow[tensor].values, flow[f"{tensor}_error"].values
            value, error = (part.reshape(3, -1)[:, 0] for part in first)
            want = getattr(alone, row.letter)[:, 0]
            # The tables of the single-input flow are good to 1e-9 themselves.
            if not np.all(np.abs(value - want) <= error + 2e-9 * np.abs(want)):
                misses.append((name, K, tensor, value, want, error))
    assert misses == []


def scaled(name: str, s: float) -> Activation:
    """sigma(s z)/s by name, with derivatives of its own and no closed form."""
    base = sw.activation(name)
    return dataclasses.replace(
        base,
        name=f"{name} scaled",
        derivatives=tuple(
            lambda z, k=k: base.derivatives[k](s * z) * s ** (k - 1) for k in range(4)
        ),
        family=None,
        taylor=None,
    )


@pytest.mark.parametrize("names", [["gelu"], *thorough(["tanh", "softplus", "sin"])], ids=str)
def test_units_of_the_preactivation_do_not_matter(names) -> None:
    x = inputs_with_kernel(np.array([[1.0, 0.3], [0.3, 0.8]]))
    tensors = [name for name, row in OBSERVABLES.items() if row.order]
    powers = {"metric_nlo": 2, "ntk_nlo": 2}
    misses = []
    for name in names:
        flows = {
            s: sw.predict(
                net(3, scaled(name, s), features=2, lambda_b=0.3 / s**2, lambda_W=0.7),
                x / s,
                observables=tensors,
            )
            for s in (1.0, 1e-6, 1e6)
        }
        for s in (1e-6, 1e6):
            for tensor in tensors:
                one, other = flows[1.0][tensor].values, flows[s][tensor].values
                gap = np.abs(other * s ** powers.get(tensor, 4) - one).max()
                if gap > 1e-9 * np.abs(one).max():
                    misses.append((name, s, tensor, gap / np.abs(one).max()))
    assert misses == []


@pytest.mark.parametrize(
    ("name", "K"),
    [
        ("tanh", 1e-4),
        ("softplus", 1e-12),
        *thorough(("gelu", 1e-4), ("tanh", 1e-12), ("tanh", 1.0)),
    ],
)
def test_vertex_and_variance_of_the_ntk_are_covariances(name, K) -> None:
    x = np.array([[1.0, 0.2], [0.3, -0.9], [-1.0, -0.2], [1.0, 0.2]]) * np.sqrt(K)
    names = ["four_point_vertex", "ntk_A"]
    flow = sw.predict(net(3, name, features=2, **RATES), x, observables=names)
    for tensor in names:
        for layer in (1, 2):
            value = flow[tensor].values[layer].reshape(16, 16)
            error = np.linalg.norm(flow[f"{tensor}_error"].values[layer])
            eigenvalues = np.linalg.eigvalsh(value)
            assert eigenvalues[0] > -error, tensor
            assert error < 1e-2 * eigenvalues[-1], tensor


def test_three_inputs_are_the_sum_over_the_plane() -> None:
    kernel = 0.2 * np.array([[1.0, 0.3, -0.5], [0.3, 0.8, 0.1], [-0.5, 0.1, 1.2]])
    x, w = np.polynomial.hermite_e.hermegauss(40)
    u = np.stack(np.meshgrid(x, x, x, indexing="ij")).reshape(3, -1)
    weights = np.einsum("i,j,k->ijk", w, w, w).ravel() / w.sum() ** 3
    z = np.linalg.cholesky(kernel) @ u
    for name in ("softplus", "sigmoid"):
        sigma = sw.activation(name)
        s = sigma(z)
        pairs = np.einsum("am,bm->abm", s, s)
        pairs -= (pairs @ weights)[..., None]
        want = np.einsum("abm,cdm,m->abcd", pairs, pairs, weights)
        network = net(2, sigma, features=3, **RATES)
        found = sw.predict(network, inputs_with_kernel(kernel), layers=2)
        np.testing.assert_allclose(
            found.four_point_vertex.values[0], want, atol=1e-8 * np.abs(want).max()
        )


@pytest.mark.parametrize(
    "cases",
    [
        [("tanh", 10.0), ("gelu", 100.0)],
        *thorough([("tanh", 1.0), ("tanh", 100.0), ("hardtanh", 1e4)]),
    ],
    ids=["some", "more"],
)
def test_stated_errors_hold_where_nodes_see_little(cases, monkeypatch) -> None:
    # What nodes say of entries with two inputs, against what these are: products that two levels see
    # alike and wrongly, samples that a rare event never meets.
    z = np.random.default_rng(0).normal(size=(3, 5))
    few = np.array([len(set(legs)) <= 2 for legs in np.ndindex(3, 3, 3, 3)]).reshape((3,) * 4)
    over, misses = [], []
    for name, K in cases:
        network, x = net(2, name, features=3, **RATES), inputs_with_kernel(K * z @ z.T / 5)
        names = ["ntk_A", "ntk_B"]
        exact = sw.predict(network, x, observables=names, layers=2)
        with monkeypatch.context() as patch:
            patch.setattr("scalewise.gaussian._four._on_two_inputs", lambda *_: None)
            seen = sw.predict(network, x, observables=names, layers=2)
        for tensor in names:
            off = np.abs(seen[tensor].values - exact[tensor].values)[0][few]
            stated = (
                seen[f"{tensor}_error"].values[0][few] + exact[f"{tensor}_error"].values[0][few]
            )
            if np.any(off > stated):
                misses.append((name, K, tensor, (off / stated).max()))
            if K >= 10.0:
                over.append(np.median(stated / off))
    assert misses == []
    assert np.median(over) < 20.0


@pytest.mark.parametrize("make", [bent, *thorough(elu, hard_tanh)])
def test_mean_ntk_next_to_a_kink(make) -> None:
    # Two inputs and the first again; beside the second kink of one function that is enough for both.
    x = np.array([[1.0, 0.2], [0.3, -0.9], [1.0, 0.2]])[:: 1 if make is hard_tanh else 2]
    network = net(3, make(), features=2, C_b=0.1, **RATES)
    flow = sw.predict(network, x, observables=["ntk_nlo"])
    alone = single_input_flow(network, x)
    assert alone.H1 is not None
    value, error = flow.ntk_nlo.values, flow.ntk_nlo_error.values
    np.testing.assert_allclose(np.einsum("laa->la", value), alone.H1, rtol=1e-8, atol=1e-15)
    # Coincident inputs are one input; nearby ones are close to it, and know how well.
    np.testing.assert_allclose(value[:, 0, -1], alone.H1[:, 0], rtol=1e-8, atol=1e-15)
    near = sw.predict(network, np.array([[1.0, 0.2], [1.0, 0.2001]]), observables=["ntk_nlo"])
    gap = np.abs(near.ntk_nlo.values[-1, 0, 1] - alone.H1[-1, 0])
    assert gap < 3e-3 * abs(alone.H1[-1, 0]) + near.ntk_nlo_error.values[-1, 0, 1]
    assert np.all(error < 1e-7)


def test_a_users_relu_has_the_closed_form() -> None:
    relu = sw.activation(lambda z: jnp.maximum(z, 0.0) + 0 * z, kinks=(0.0,), name="mine")
    relu = dataclasses.replace(relu, slopes=None)
    names = ["kernel", "ntk", "four_point_vertex", "metric_nlo", "ntk_nlo"]
    x = np.array([[1.0, 0.2], [0.3, -0.9]])
    mine, built = (
        sw.predict(net(3, s, features=2, C_b=0.1, **RATES), x, observables=names)
        for s in (relu, "relu")
    )
    for name in names:
        np.testing.assert_allclose(mine[name], built[name], rtol=1e-8, atol=1e-12)


def test_vertex_of_a_users_step() -> None:
    step = sw.activation(lambda z: jnp.where(z >= 0, 1.0, 0.0), kinks=(0.0,), name="step")
    x = np.array([[1.0, 0.2], [0.3, -0.9]])
    names = ["four_point_vertex", "metric_nlo"]
    mine, built = (
        sw.predict(net(3, s, features=2, C_b=0.1), x, observables=names)
        for s in (step, "perceptron")
    )
    for name in names:
        np.testing.assert_allclose(mine[name], built[name], rtol=1e-9, atol=1e-12)
