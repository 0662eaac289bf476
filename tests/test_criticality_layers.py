"""Golden and property: critical networks of any layers keep the size of signals, or say why they cannot."""

import numpy as np
import pytest

import scalewise as sw

RNG = np.random.default_rng(9)
DEEP = 60


def sizes(net: sw.Network, x: np.ndarray) -> np.ndarray:
    """K of the last layer for each input."""
    return np.diagonal(sw.predict(net, x, observables="kernel").kernel.values[-1])


@pytest.mark.parametrize(
    "block",
    [
        ("relu", sw.Conv(3, padding="circular")),
        (sw.Skip("relu", sw.Conv(3, padding="circular"), factor=0.8),),
        (sw.Parallel(["relu", sw.Dense()], ["relu", sw.Dense()], (), factors=(0.5, 0.4, 0.6)),),
        (
            sw.Parallel(
                ["relu", sw.Dense()], ["relu", sw.Conv(3, padding="circular")], join="concat"
            ),
        ),
    ],
)
def test_signals_keep_their_size_through_many_blocks(block: tuple) -> None:
    layers = (sw.Dense(), *block * DEEP, "relu", sw.Flatten(), sw.Dense(1))
    net = sw.Network(*layers, input_shape=(4, 2), width=8)
    x = RNG.normal(size=(2, 4, 2))
    start = 2 * (x**2).mean(axis=(1, 2))  # of the first layer, over positions
    found = sizes(net.at_criticality(), x)
    np.testing.assert_allclose(found, start, rtol=1e-10)
    assert (np.abs(np.log(sizes(net, x) / start)) > 1).all()


def test_a_chain_of_dense_layers_is_the_critical_perceptron() -> None:
    net = sw.Network(sw.Dense(), "gelu", sw.Dense(), "gelu", sw.Dense(1), input_shape=3, width=8)
    mlp = sw.MLP(3, 8, "gelu", input_dim=3, output_dim=1).at_criticality()
    critical = net.at_criticality()
    assert [critical.own(k).C_W for k in (1, 2, 3)] == list(mlp.C_W)
    assert [critical.own(k).C_b for k in (1, 2, 3)] == list(mlp.C_b)
    assert critical.criticality == mlp.criticality
    assert net.criticality is None
    assert critical.at_width(16).criticality == mlp.criticality
    residual = sw.networks.ResidualMLP(
        3, 8, "relu", gamma=(0.0, 0.6, 0.0), input_dim=3, output_dim=1
    ).at_criticality()
    other = sw.Network(
        sw.Dense(),
        sw.Skip("relu", sw.Dense(), factor=0.6),
        "relu",
        sw.Dense(1),
        input_shape=3,
        width=8,
    ).at_criticality()
    assert [other.own(k).C_W for k in (1, 2, 3)] == pytest.approx(list(residual.C_W))


REFUSED = {
    "has 'relu', 'tanh'": ("relu", sw.Dense(), "tanh"),
    "has none": (sw.Dense(),),
    r"Node \[2\].*without an activation in between": (sw.Dense(), "relu"),
    "sets the size of its signals by itself": (sw.LayerNorm(), "relu"),
    "keep all of their trunk": (sw.Skip("relu", sw.Dense()), "relu"),
    "branch that ends with Activate": (sw.Skip("relu", sw.Dense(), "relu", factor=0.5),),
    "product of branches": (
        "relu",
        sw.Parallel([sw.Dense()], [sw.Dense(), "relu"], join="product"),
    ),
    "Attention averages": ("relu", sw.Attention(size=4), "relu"),
    "'sigmoid' has no critical": ("sigmoid",),
}


@pytest.mark.parametrize("sentence", REFUSED)
def test_what_has_no_critical_point_says_why(sentence: str) -> None:
    layers = (sw.Dense(), *REFUSED[sentence], sw.Flatten(), sw.Dense(1))
    net = sw.Network(*layers, input_shape=(4, 2), width=8)
    with pytest.raises(ValueError, match=sentence):
        net.at_criticality()
