"""Golden and agreement tests: fluctuations of the NTK, dNTK and ddNTK above the second layer."""

import itertools
from functools import cache

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import scalewise as sw
from forward_equations import derivatives, next_layer
from scalewise.nets import Parameters, layer_tensors, measure
from scalewise.nets._dntk import Differentials, sample_dntk
from scalewise.nets._ntk_statistics import Statistics, sample_statistics
from scalewise.observables import OBSERVABLES

SMOOTH = ("dntk_P", "dntk_Q", "ddntk_R", "ddntk_S", "ddntk_T", "ddntk_U")
X = np.array([[1.2, -0.4], [0.5, 0.9]])
WIDTHS = (2, 3, 3, 2)
NET = sw.MLP(
    3,
    [3, 3],
    "tanh",
    input_dim=2,
    output_dim=2,
    C_b=[0.1, 0.3, 0.2],
    C_W=[1.2, 1.7, 1.4],
    lambda_b=[0.4, 0.9, 0.6],
    lambda_W=[0.7, 1.3, 1.1],
)


@cache
def hidden():
    """Standard normal weights (n_l, n_{l-1}) and biases of the hidden layers of one network."""
    rng = np.random.default_rng(4)
    return tuple((rng.standard_normal((n, m)), rng.standard_normal(n)) for m, n in ((2, 3), (3, 3)))


@cache
def averaged():
    """Metric, NTK, and all correlators of two outputs, averaged over their weights: exactly.

    They are polynomials of degree 4 in the six weights, so three Gaussian nodes for each are enough.
    """
    weights, biases = [], []
    for layer, (w, b) in enumerate(hidden()):
        weights.append(w * np.sqrt(NET.C_W[layer] / WIDTHS[layer]))
        biases.append(b * np.sqrt(NET.C_b[layer]))
    below = layer_tensors(NET, Parameters((*weights, np.ones((2, 3))), (*biases, np.ones(2))), X)[1]
    nodes, mass = np.polynomial.hermite_e.hermegauss(3)
    s = X
    for w, b in zip(weights, biases, strict=True):
        z = s @ w.T + b
        s = np.tanh(z)
    slopes = derivatives(z.T, jnp.tanh)
    rate = NET.lambda_W[2] / 3
    own = np.einsum("ij,ab->ijab", np.eye(2), NET.lambda_b[2] + rate * (s @ s.T))
    sums = {}
    # All of them are even in the weights of either output: of a point and its mirror image, one counts twice.
    points = list(itertools.product(range(3), repeat=3))
    halves = [(k, 1 + (k != points[13])) for k in points[:14]]
    for (one, once), (two, twice) in itertools.product(halves, repeat=2):
        point = [*one, *two]
        p = once * twice * np.prod(mass[point]) / (2 * np.pi) ** 3
        W = nodes[point].reshape(2, 3) * np.sqrt(NET.C_W[2] / 3)
        t = next_layer(W, slopes, below, own, rate)
        z = W @ s.T
        H = t.ntk
        found = {
            "metric": np.einsum("a,b->ab", z[0], z[0]) + NET.C_b[2],
            "ntk": H[0, 0],
            # Different outputs: their mean NTK is zero, so no covariance has to be taken.
            "B": np.einsum("ab,cd->acbd", H[0, 1], H[0, 1]),
            "F": np.einsum("a,b,cd->acbd", z[0], z[1], H[0, 1]),
            "P": np.einsum("abc,d->abcd", t.dntk[0, 1, 1], z[0]),
            "Q": np.einsum("abc,d->abcd", t.dntk[0, 0, 1], z[1]),
            "R": t.dd_first[0, 0, 1, 1],
            "S": t.dd_second[0, 0, 1, 1],
            "T": np.einsum("abcd->acdb", t.dd_second[0, 1, 0, 1]),
            "U": np.einsum("abcd->adbc", t.dd_second[0, 1, 1, 0]),
        }
        for name, value in found.items():
            sums[name] = sums.get(name, 0) + p * value
    return sums


def drawn(sample, of, numbers):
    """What the ensemble keeps of networks whose random numbers are given."""
    with jax.enable_x64(True):
        found = sample(jnp.asarray(numbers), X, of=of)
    return {name: np.asarray(draws)[:, -1].mean(axis=0) for name, draws in found.items()}


OWN = np.concatenate([np.vstack([w.T, b]).ravel() for w, b in hidden()])


@pytest.mark.covers("B11")
@pytest.mark.thorough("test_the_weights_above_are_integrated_out_of_the_differentials")
def test_the_weights_above_are_integrated_out_of_the_ntk_statistics():
    found = drawn(
        sample_statistics, Statistics(NET.program, (3,), 2, ("joint", "B", "F")), OWN[None]
    )
    upper = np.triu_indices(2)
    metric, omega = np.split(found["joint"], 2)
    np.testing.assert_allclose(metric, averaged()["metric"][upper], rtol=1e-12)
    np.testing.assert_allclose(omega + NET.lambda_b[2], averaged()["ntk"][upper], rtol=1e-12)
    for name in ("B", "F"):
        np.testing.assert_allclose(found[name], averaged()[name].ravel(), rtol=1e-11, atol=1e-13)


@pytest.mark.covers("C10", "C13", "C29", "C35")
def test_the_weights_above_are_integrated_out_of_the_differentials():
    # All pairs of sign vectors in the layer of three neurons: traces without noise.
    signs = np.array(list(itertools.product([-1.0, 1.0], repeat=6)))
    of = Differentials(NET.program, (3,), 2, tuple("PQRSTU"), probes=2)
    found = drawn(sample_dntk, of, np.hstack([np.tile(OWN, (len(signs), 1)), signs]))
    for name in "PQRSTU":
        assert np.max(np.abs(averaged()[name])) > 0.01
        np.testing.assert_allclose(
            found[name], averaged()[name].ravel(), rtol=1e-9, atol=1e-12, err_msg=name
        )


# Setting of the leading-order values: three layers, C_b = 0.1, rates that differ from layer to layer.
INPUTS = np.array([[1.0, 0.5, -0.3], [0.2, 1.0, 0.8]])
ENTRIES = ["0000", "0001", "0011", "0101", "0110", "1100", "0111", "1000", "1111"]
LEADING = {
    "tanh": {
        "ntk_A": (
            0.025609,
            0.008454,
            0.00516,
            0.136229,
            0.136229,
            0.00516,
            0.010485,
            0.008454,
            0.031986,
        ),
        "ntk_B": (
            0.754714,
            0.464183,
            0.31732,
            0.653831,
            0.314692,
            0.31732,
            0.482007,
            0.464183,
            0.809326,
        ),
        "ntk_D": (
            *(-0.032881, -0.007447, -0.008836, 0.06268, 0.06268),
            *(-0.008055, -0.021604, -0.018872, -0.039574),
        ),
        "ntk_F": (
            0.101672,
            0.08481,
            0.030339,
            0.190357,
            0.026354,
            0.030339,
            0.04933,
            0.050123,
            0.106655,
        ),
    },
    "relu": {
        "ntk_A": (
            12.121137,
            5.91074,
            5.35695,
            5.476699,
            5.476699,
            5.35695,
            6.995223,
            5.91074,
            17.057537,
        ),
        "ntk_B": (
            6.255283,
            2.668038,
            1.789574,
            4.521616,
            1.681955,
            1.789574,
            2.997511,
            2.668038,
            7.899266,
        ),
        "ntk_D": (
            *(10.045578, 5.242297, 4.591598, 5.276911, 5.276911),
            *(4.722976, 7.024144, 5.87972, 14.6658),
        ),
        "ntk_F": (
            4.844844,
            2.485048,
            2.149622,
            4.258222,
            2.173654,
            2.149622,
            3.877782,
            3.442168,
            6.6068,
        ),
    },
}


@pytest.mark.covers("B11")
@pytest.mark.thorough(
    "tests/agreement/test_tensors_against_ensembles.py::test_leading_coefficients_over_widths"
)
@pytest.mark.parametrize(("name", "C_W"), [("relu", 2.0), ("tanh", 1.0)])
def test_the_ntk_statistics_reach_the_recursions_of_infinite_width(name, C_W):
    rates = {"lambda_b": [0.3, 0.5, 0.2], "lambda_W": [0.7, 1.1, 0.9]}
    net = sw.MLP(3, 8, name, input_dim=3, output_dim=1, C_b=0.1, C_W=C_W, **rates)
    names = list(LEADING[name])
    result = measure(net, INPUTS, networks=6_000, widths=[10, 20, 40], observables=names)
    for observable in names:
        largest = np.max(np.abs(LEADING[name][observable]))
        for entry, exact in zip(ENTRIES, LEADING[name][observable], strict=True):
            at = (2, *map(int, entry))
            value, sem = (float(result[observable + end].values[at]) for end in ("", "_sem"))
            # What the parabola leaves is cubic: c/(10 20 40) with c some 20 times the largest entry.
            assert abs(value - exact) < 4 * sem + 20 / 8000 * largest, (observable, entry)
            assert sem < 0.33 * largest, (observable, entry)


# The tower tanh, one input, K^(1) = 1, C_W = 1, C_b = 0, lambda_b = 1/l, lambda_W = 1, in layer 3.
TOWER = dict(
    zip(
        SMOOTH,
        (-0.69045436, -0.31284439, -7.9543422, 4.7441884, 0.7826894, 1.4663098),
        strict=True,
    )
)


@pytest.mark.covers("C10", "C13", "C29", "C35")
@pytest.mark.thorough(
    "tests/agreement/test_tensors_against_ensembles.py::test_leading_coefficients_over_widths"
)
def test_the_differentials_reach_the_recursions_of_infinite_width():
    rates = [1 / layer for layer in (1, 2, 3)]
    net = sw.MLP(3, 8, "tanh", input_dim=1, output_dim=1, lambda_b=rates)
    x, names = np.ones((1, 1)), list(SMOOTH)
    result = measure(net, x, networks=5_000, widths=[12, 48], observables=names)
    for name, exact in TOWER.items():
        value, sem = (float(result[name + end].values[2].item()) for end in ("", "_sem"))
        # What the line leaves is quadratic: c/(12 48), with c some 10 times the value.
        assert abs(value - exact) < 4 * sem + 10 / 576 * abs(exact), (name, value, sem)
        assert sem < 0.045 * abs(exact), (name, sem)


@pytest.mark.covers("B13")
def test_the_slope_of_the_mean_ntk_of_a_quadratic_network():
    # sigma = z²: E H^(3) is a straight line in 1/n, by Wick's theorem in K = K^(1) and H = H^(1).
    C, lw, K = 0.5, 0.7, 0.6
    net = sw.MLP(
        3, 8, "monomial(2)", input_dim=1, output_dim=1, C_W=[1.0, C, C], lambda_b=0.4, lambda_W=lw
    )
    x = np.array([[np.sqrt(K)]])
    H = 0.4 + lw * K
    slope = lw * 3 * C**2 * 96 * K**4
    slope += 4 * C * (lw * C * 96 * K**4 + 48 * H * C**2 * K**3 + 120 * H * C**2 * K**3)
    result = measure(net, x, networks=12_000, widths=[4, 12], observables=["ntk", "ntk_nlo"])
    value, sem = (float(result["ntk_nlo" + end].values[2].item()) for end in ("", "_sem"))
    assert abs(value - slope) < 4 * sem
    assert sem < 0.15 * slope
    assert np.all(result.ntk_nlo.values[0] == 0)
    assert np.all(np.abs(result.ntk_nlo.values[1]) < 4 * result.ntk_nlo_sem.values[1])
    # The mean of omega is the mean NTK but for lambda_b: both routes give the same intercept.
    metric = 3 * C * K**2
    theta = 0.4 + lw * 3 * metric**2 + 4 * C * metric * (0.4 + lw * metric / C + 4 * C * K * H)
    value, sem = (float(result["ntk" + end].values[2].item()) for end in ("", "_sem"))
    assert abs(value - theta) < 4 * sem


def rates_of_the_last_layer_only():
    C_b, C_W = 0.2, 1.1
    rates = {"lambda_b": [0.0, C_b], "lambda_W": [0.0, C_W]}
    return sw.MLP(2, 6, "gelu", input_dim=2, output_dim=1, C_b=C_b, C_W=C_W, **rates)


@pytest.mark.covers("C55")
def test_training_the_last_layer_alone_leaves_the_vertex():
    names = ["ntk_A", "ntk_B", "ntk_D", "ntk_F", *SMOOTH]
    result = measure(rates_of_the_last_layer_only(), X, networks=2000, observables=names)
    # The NTK is the metric, network by network; float32 rounds each draw to 1e-7.
    np.testing.assert_allclose(result.ntk_A[1], result.ntk_D[1], rtol=1e-4, atol=1e-6)
    for name in ("ntk_B", "ntk_F", *SMOOTH):
        assert np.all(result[name] == 0), name
    vertex = measure(
        rates_of_the_last_layer_only(), X, networks=2000, observables="four_point_vertex"
    )
    sem = np.hypot(result.ntk_A_sem.values[1], vertex.four_point_vertex_sem.values[1])
    error = np.abs(result.ntk_A.values[1] - vertex.four_point_vertex.values[1])
    np.testing.assert_array_less(error, 4 * sem)


SWAPS = {
    "ntk_B": ("badc", "cdab"),
    "ntk_F": ("cdab",),
    "dntk_P": ("acbd",),
    "dntk_Q": (),
    "ddntk_R": ("abdc",),
    "ddntk_S": ("badc",),
    "ddntk_T": ("dcba",),
    "ddntk_U": ("cdab",),
}


@pytest.mark.covers("B11", "C10", "C13", "C29", "C35")
def test_the_tensors_have_the_symmetries_of_their_legs():
    # Exact averages over the last weights of one network, then estimates from a few networks.
    for name, orders in SWAPS.items():
        values = averaged()[OBSERVABLES[name].letter]
        for order in orders:
            other = np.einsum(f"{order}->abcd", values)
            np.testing.assert_allclose(values, other, rtol=1e-9, atol=1e-13, err_msg=name)
    result = measure(NET, X, networks=50, observables=list(SWAPS)[:4], dtype="float64")
    for name in result.data_vars:
        if name.endswith("_sem"):
            continue
        values = result[name].values[2]
        scale = np.max(np.abs(values))
        for order in SWAPS[name]:
            other = np.einsum(f"{order}->abcd", values)
            np.testing.assert_allclose(values, other, atol=1e-10 * scale, err_msg=name)
        # And no other exchange of two legs.
        for i, j in itertools.combinations(range(4), 2):
            letters = list("abcd")
            letters[i], letters[j] = letters[j], letters[i]
            if "".join(letters) not in SWAPS[name]:
                other = np.einsum(f"{''.join(letters)}->abcd", values)
                assert np.max(np.abs(values - other)) > 1e-6 * scale, (name, letters)
