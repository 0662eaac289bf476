"""Golden and property tests: order 1/n as whole arrays over labels, where preactivations are Gaussian."""

import jax.numpy as jnp
import numpy as np
import pytest

import scalewise as sw
from grids import thorough
from scalewise.networks import ResidualMLP
from scalewise.networks._course import kind
from scalewise.selection import select
from scalewise.theory.order import _responses
from scalewise.theory.order._many_labels import KNOWN as KNOWN_CARRIED
from scalewise.theory.order._many_labels import many_labels
from scalewise.theory.order._many_shifts import SHIFTS, many_shifts
from scalewise.theory.order._responses import order_one
from scalewise.theory.order._whole import whole_tensors

ROWS = [row for row in sw.OBSERVABLES.values() if row.order]
X = np.random.default_rng(3).normal(size=(2, 4))
RATES = {"C_b": 0.1, "C_W": 1.5, "lambda_b": 0.5, "lambda_W": 1.0}


def of_labels(rng: np.random.Generator, features: int, labels: int) -> np.ndarray:
    """Two samples whose positions have correlations of a half."""
    common, own = rng.normal(size=(features, 1)), rng.normal(size=(features, labels))
    return np.sqrt(0.5) * (common + own).T.reshape(2, -1, features)


SEED = np.random.default_rng(7)
PLACED = [of_labels(SEED, *shape) for shape in ((10, 12), (12, 10), (10, 12))]


def bent(z):
    """Neither odd nor even."""
    return jnp.tanh(z) + 0.3 * jnp.tanh(z) ** 2


def convolutions() -> sw.Network:
    """Three layers, circular, with global pooling."""
    layers = (sw.Conv(3, padding="circular"), "tanh") * 2
    return sw.Network(
        *layers, sw.GlobalAvgPool(), sw.Dense(8), width=64, input_shape=(6, 10), **RATES
    )


def graph() -> sw.Network:
    """Three layers on five nodes."""
    edges = np.zeros((5, 5))
    for a, b in ((0, 1), (0, 2), (1, 2), (2, 3), (3, 4)):
        edges[a, b] = edges[b, a] = 1.0
    degree = (edges + np.eye(5)).sum(axis=1)
    mixing = (edges + np.eye(5)) / np.sqrt(np.outer(degree, degree))
    layers = (sw.Aggregate(mixing), sw.Dense(), bent) * 2
    return sw.Network(
        *layers, sw.GlobalAvgPool(), sw.Dense(8), width=64, input_shape=(5, 12), **RATES
    )


def stream() -> sw.Network:
    """Two residual convolutions."""
    blocks = (sw.Skip("tanh", sw.Conv(3, padding="circular")) for _ in range(2))
    rates = RATES | {"C_b": 0.05, "C_W": 0.8}
    ends = sw.GlobalAvgPool(), sw.Dense(8)
    first = sw.Conv(3, padding="circular")
    return sw.Network(first, *blocks, "tanh", *ends, width=64, input_shape=(6, 10), **rates)


# The entry of the first sample alone, and the error to which it is known: by other codes for the same jets, and the
# last row by single units.
KNOWN = {
    "convolutions": (
        convolutions,
        PLACED[0],
        {
            "V": (0.08643, 4e-5),
            "A": (0.0824, 1e-4),
            "D": (0.0040, 1e-4),
            "B": (0.8159, 4e-4),
            "F": (0.1419, 1e-4),
            "G1": (-0.00984, 1e-5),
            "H1": (0.0031, 1e-4),
        },
    ),
    "curved convolutions": (
        convolutions,
        PLACED[0],
        {
            "P": (-0.151, 1e-3),
            "Q": (-0.025, 5e-4),
            "R": (-1.078, 2e-3),
            "S": (0.830, 1e-3),
            "T": (0.0860, 5e-4),
            "U": (0.1744, 5e-4),
        },
    ),
    "graph": (
        graph,
        PLACED[1],
        {
            "V": (0.37249, 5e-5),
            "A": (0.8830, 2e-4),
            "D": (-0.1164, 1e-4),
            "B": (3.3371, 3e-4),
            "F": (0.4387, 1e-4),
            "G1": (-0.08737, 2e-5),
            "H1": (-0.1030, 1e-4),
        },
    ),
    "stream": (stream, PLACED[2], {"A": (0.1831, 5e-4), "F": (0.1204, 5e-4)}),
}


@pytest.mark.parametrize(
    "name", ["convolutions", *thorough("curved convolutions", "graph", "stream")]
)
def test_positions_have_the_tensors_of_independent_recursions(name: str) -> None:
    make, x, known = KNOWN[name]
    net = make()
    found = whole_tensors(net, x, tuple(known), (net.depth,))
    for letter, (want, slip) in known.items():
        value, error = (part.ravel()[0] for part in found[letter])
        assert abs(value - want) < 1.5 * error + 4 * slip, letter
        assert error < 0.02 * abs(want) + 2e-3, letter


@pytest.mark.parametrize("name", ["gelu", *thorough("tanh", "sin")])
def test_one_position_is_a_fully_connected_layer(name: str) -> None:
    """And a sum of two random layers is one of both variances and rates."""
    rates = {"C_b": 0.1, "lambda_b": 0.3}
    mlp = sw.MLP(
        3, [30, 20], name, input_dim=4, output_dim=2, C_W=[1, 1.3, 1], lambda_W=[1, 0.9, 1], **rates
    )
    want = sw.predict(mlp, X, observables="all")
    split = sw.Parallel(
        [sw.Conv(1, channels=20, C_b=0.06, C_W=0.9, lambda_b=0.1, lambda_W=0.2)],
        [sw.Conv(1, channels=20, C_b=0.04, C_W=0.4, lambda_b=0.2, lambda_W=0.7)],
    )
    for middle in (sw.Conv(1, channels=20, C_W=1.3, lambda_W=0.9), split):
        layers = (sw.Conv(1, channels=30), name, middle, name, sw.Flatten(), sw.Dense(2))
        net = sw.Network(*layers, width=30, input_shape=(1, 4), **rates)
        found = sw.predict(net, X[:, None], observables="all", layers=net.depth)
        for row in sw.OBSERVABLES:
            values = want[row].values[-1]
            slack = 1e-9 * np.abs(values).max()
            np.testing.assert_allclose(found[row].values[-1], values, rtol=1e-9, atol=slack)


def test_positions_of_one_sample_are_inputs_beside_each_other() -> None:
    """Every entry of every tensor, read off by weights that differ: what no layer mixes are more inputs."""
    w, rates = np.array([0.9, -0.4]), {"C_b": 0.1, "C_W": 1.3, "lambda_b": 0.3, "lambda_W": 0.8}
    x = np.random.default_rng(6).normal(size=(2, 2, 4))
    mlp = sw.MLP(3, [30, 20], "gelu", input_dim=4, output_dim=1, **rates)
    alone = sw.predict(mlp, x.reshape(4, 4), observables="all")
    layers = (sw.Conv(1, channels=30), "gelu", sw.Conv(1, channels=20), "gelu")
    reading = sw.Aggregate(np.stack([w, [0.2, 1.5]])), sw.Take(0), sw.Dense(1)
    net = sw.Network(*layers, *reading, width=30, input_shape=(2, 4), **rates)
    by = {
        "whole": whole_tensors(net, x, [row.letter for row in ROWS], (3,)),
        "carried": many_labels(net, x, KNOWN_CARRIED, [3]) | many_shifts(net, x, SHIFTS, [3]),
    }
    for how, found in by.items():
        for row in ROWS:
            if row.letter not in found:
                continue
            legs = alone[row.name].values[-1].reshape((2, 2) * row.legs)
            for leg in range(row.legs):
                legs = np.tensordot(legs, w, axes=(leg + 1, 0))
            value, error = (part[0] for part in found[row.letter])
            slack = 1e-9 * np.abs(legs).max() if how == "whole" else 6 * error
            np.testing.assert_array_less(np.abs(value - legs), slack + 1e-12, f"{how}: {row.name}")
            assert np.max(error) < 0.02 * np.abs(legs).max(), f"{how}: {row.name}"


def test_units_of_a_stream_respond_as_its_arrays(monkeypatch: pytest.MonkeyPatch) -> None:
    """Skip connections over positions, of a kink: two codes that share no formula."""
    monkeypatch.setattr(_responses, "_MOST", 1 << 12)
    x = np.random.default_rng(5).normal(size=(2, 2, 3))
    conv = sw.Conv(2, padding="circular")
    net = sw.Network(
        conv, sw.Skip("relu", conv), "relu", sw.GlobalAvgPool(), sw.Dense(1), width=32, input_shape=(2, 3), **RATES
    )  # fmt: skip
    (units, noise), (whole, error) = (
        how(net, x, ("V",), (net.depth,))["V"] for how in (order_one, whole_tensors)
    )
    assert np.all(np.abs(units - whole) < 6 * noise + error)
    assert noise.max() < 0.03 * np.abs(whole).max()


def test_activations_of_two_layers_that_are_added_are_of_one_channel(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A skip connection behind the activation: their channels meet in the sum."""
    monkeypatch.setattr(_responses, "_MOST", 1 << 12)
    layers = (sw.Dense(), "tanh", sw.Skip(sw.Dense(), "tanh"), sw.Dense(), "tanh", sw.Dense(1))
    net = sw.Network(*layers, width=32, input_shape=(4,), **RATES)
    units, whole = (how(net, X, ("V", "G1"), (net.depth,)) for how in (order_one, whole_tensors))
    for letter, (value, error) in whole.items():
        other, noise = units[letter]
        assert np.all(np.abs(other - value) < 6 * noise + 2 * error), letter
        assert noise.max() < 0.03 * np.abs(value).max()


def test_the_mean_ntk_of_a_stream_is_shifted_as_measured() -> None:
    """Neurons that remember: their own past is in the shift, at one width, with what the next order is allowed."""
    net = sw.Network(
        sw.Dense(), sw.Skip("gelu", sw.Dense()), sw.Skip("gelu", sw.Dense()), "gelu", sw.Dense(2),
        width=24, input_shape=(4,), C_b=0.05, C_W=1.0, lambda_b=0.5,
    )  # fmt: skip
    theory = sw.predict(net, X, observables=["ntk", "ntk_nlo"], layers=net.depth)
    seen = sw.measure(net, X, networks=6000, seed=5, observables=["ntk"], progress=False)
    shift = net.width * (seen.ntk.values[-1] - theory.ntk.values[-1])
    noise = net.width * seen.ntk_sem.values[-1]
    np.testing.assert_array_less(
        np.abs(shift - theory.ntk_nlo.values[-1]),
        4 * noise + 0.1 * np.abs(theory.ntk_nlo.values[-1]),
    )
    assert np.all(np.diag(theory.ntk_nlo.values[-1]) > 3 * np.diag(noise))


def test_hidden_layers_of_a_stream_have_every_tensor() -> None:
    net = ResidualMLP(3, 30, "tanh", gamma=0.9, C_b=0.1, C_W=0.8, input_dim=4, output_dim=2)
    found = sw.predict(net, X, observables="all")
    assert set(found.attrs["left_out"]) == set()
    assert all(row in found for row in sw.OBSERVABLES)
    A = found.ntk_A.values
    np.testing.assert_allclose(A, A.transpose(0, 3, 4, 1, 2), rtol=1e-9, atol=1e-12)


def test_what_does_not_fit_is_said() -> None:
    images = np.zeros((1, 8, 8, 2)) + 0.1
    layers = (sw.Conv(3), "tanh", sw.GlobalAvgPool(), sw.Dense(1))
    net = sw.Network(*layers, width=16, input_shape=(8, 8, 2))
    message = (
        r"'dntk_P' of this network does not fit into the memory: 1 inputs have 64 labels in a layer"
    )
    with pytest.raises(ValueError, match=message):
        sw.predict(net, images, observables="dntk_P")
    chosen = select("all", net, samples=1)
    assert "arrays over four of them fit of 32" in chosen.left_out["dntk_P"]
    # A unit of heads has as many labels as these have channels.
    layers = (sw.Dense(), sw.Skip(sw.Attention(size=16)), sw.GlobalAvgPool(), sw.Dense(1))
    heads = sw.Network(*layers, width=32, input_shape=(64, 2))
    told = select("all", heads, samples=3).left_out["four_point_vertex"]
    assert "3 inputs have 3,072 labels in a layer" in told
    assert "2 inputs would fit" in told
    assert "four_point_vertex" in select("all", heads, samples=2).names
    # Arrays with four inputs are larger than what units take.
    layers = (sw.Dense(), sw.LayerNorm(), "tanh", sw.Dense(1))
    normed = sw.Network(*layers, width=32, input_shape=(4,))
    for samples in (101, 2049):
        told = select("all", normed, samples=samples).left_out["four_point_vertex"]
        assert f"arrays with four of {samples} inputs fit of 100: 100 inputs would fit" in told
    assert "four_point_vertex" in select("all", normed, samples=100).names
    assert "metric_nlo" not in select("all", normed, samples=2049).names
    assert {"four_point_vertex", "ntk_A"} <= set(chosen.names)
    kinked = sw.Network(
        sw.Dense(), sw.Skip("relu", sw.Dense()), "relu", sw.Dense(1), width=8, input_shape=(4,)
    )
    with pytest.raises(ValueError, match=r"along skip connections it takes third derivatives"):
        sw.predict(kinked, X, observables="ntk_nlo")


def test_other_networks_say_why_they_are_others() -> None:
    reasons = {
        "layer norm, acts on|is neither a sum": (sw.Dense(), sw.LayerNorm(), "tanh", sw.Dense(1)),
        "acts on what is not Gaussian": (sw.Dense(), "tanh", "tanh", sw.Dense(1)),
        "reads what no activation has made": (sw.Dense(), sw.Dense(), "tanh", sw.Dense(1)),
        "acts beside another activation": (
            sw.Dense(), sw.Skip("relu", sw.Dense()), "tanh", sw.Dense(1)
        ),
        "a sum has activations and random layers": (
            sw.Dense(), sw.Skip("tanh", sw.Dense(), "tanh"), sw.Dense(1)
        ),
    }  # fmt: skip
    for words, layers in reasons.items():
        net = sw.Network(*layers, width=8, input_shape=(4,))
        found = kind(net.program)
        assert isinstance(found, str), words
        assert any(word in found for word in words.split("|")), (words, found)
    twin = sw.Shared(sw.Dense())
    pair = sw.Parallel([sw.Take(0), twin, "tanh"], [sw.Take(1), twin, "tanh"], join="sum")
    found = kind(sw.Network(pair, sw.Dense(1), width=8, input_shape=(2, 4)).program)
    assert isinstance(found, str)
    assert "shares weights" in found
