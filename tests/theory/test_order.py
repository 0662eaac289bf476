"""Golden and agreement: order 1/n of any layers, against recursions where there are some, and drawn networks."""

from collections.abc import Callable

import numpy as np
import pytest

import scalewise as sw
from scalewise.networks import ResidualMLP
from scalewise.networks.layers import Excite
from scalewise.theory.order import _responses, _shifts
from scalewise.theory.order._populations import populations
from scalewise.theory.order._responses import order_one

RNG = np.random.default_rng(7)
PLAIN, PLACED = RNG.normal(size=(3, 4)), RNG.normal(size=(2, 6, 3))
Layers = tuple[object, ...]


@pytest.fixture
def fast(monkeypatch: pytest.MonkeyPatch) -> None:
    """As many units as an error of a percent takes."""
    monkeypatch.setattr(_responses, "_MOST", 1 << 12)


def both(net: sw.Network, x: np.ndarray, letters: list[str]) -> None:
    """By units and by recursions, at all layers, within 6 of the stated errors, which are 3 % at most."""
    found = order_one(net, x, letters, range(1, net.depth + 1))
    known = sw.predict(net, x, observables=letters)
    for letter, (value, error) in found.items():
        name = {"V": "four_point_vertex", "G1": "metric_nlo"}[letter]
        exact, scale = known[name].values, np.abs(known[name].values[-1]).max()
        assert error.max() < 0.03 * scale
        np.testing.assert_array_less(np.abs(value - exact), 6 * error + 1e-9)


@pytest.mark.usefixtures("fast")
@pytest.mark.parametrize(
    "sigma",
    ["tanh", *(pytest.param(name, marks=pytest.mark.thorough) for name in ("relu", "gelu"))],
)
def test_fully_connected_layers_have_their_recursions(sigma: str) -> None:
    net = sw.MLP(3, [20, 50], sigma, input_dim=4, output_dim=1, C_b=0.1, C_W=1.5)
    both(net, PLAIN, ["V"] if sigma == "relu" else ["V", "G1"])


@pytest.mark.usefixtures("fast")
def test_neurons_that_remember_have_theirs() -> None:
    """At hidden layers, too, where two neurons share less than the metric fluctuates."""
    net = ResidualMLP(3, 30, "tanh", input_dim=4, output_dim=1, C_b=0.1, C_W=0.8, gamma=0.9)
    both(net, PLAIN[:2], ["V", "G1"])


def test_what_is_left_of_a_layer_without_fluctuations_is_nothing() -> None:
    net = sw.MLP(1, 5, "tanh", input_dim=4, output_dim=1)
    for value, error in order_one(net, PLAIN, ["V", "G1"], (1,)).values():
        assert not value.any()
        assert not error.any()


NETWORKS: dict[str, tuple[Layers, np.ndarray]] = {
    "norm": (
        (sw.Dense(), sw.LayerNorm(), "tanh", sw.Dense(), sw.LayerNorm(), "gelu", sw.Dense(1)),
        PLAIN,
    ),
    "conv": (
        (
            sw.Conv(3, padding="circular"), "tanh", sw.Conv(3, padding="circular"), "tanh",
            sw.GlobalAvgPool(), sw.Dense(1),
        ),
        PLACED,
    ),
    "kinks": (
        (
            sw.Conv(3), "relu", sw.Conv(3, stride=2), sw.MaxPool(2), sw.Flatten(), sw.Dense(),
            "relu", sw.Dense(1),
        ),
        PLACED,
    ),
    "attention": (
        (
            sw.Dense(), "tanh", sw.Skip(sw.Attention(size=4)), "tanh", sw.GlobalAvgPool(),
            sw.Dense(1),
        ),
        PLACED,
    ),
    "heads that grow": (
        (
            sw.Dense(), "tanh", sw.Skip(sw.Attention(heads=2, tied=True)), "tanh",
            sw.GlobalAvgPool(), sw.Dense(1),
        ),
        PLACED,
    ),
    "groups": (
        (
            sw.Conv(3), sw.GroupNorm(4), "tanh", sw.Conv(3, groups=4), "tanh", sw.GlobalAvgPool(),
            sw.Dense(1),
        ),
        PLACED,
    ),
    "gates of channels": (
        (sw.Conv(3), "tanh", Excite(2, "tanh"), sw.GlobalAvgPool(), sw.Dense(1)),
        PLACED,
    ),
    "beside": (
        (
            sw.Dense(), "tanh", sw.Parallel([sw.Dense(), "tanh"], [], join="concat"), sw.Dense(),
            "tanh", sw.Dense(1),
        ),
        PLAIN,
    ),
    "skips": (
        (sw.Dense(), sw.Skip("tanh", sw.Dense()), sw.Skip("tanh", sw.Dense()), "tanh", sw.Dense(1)),
        PLAIN,
    ),
    "again": (
        (sw.Dense(), "tanh", sw.Shared(sw.Dense(), "tanh", times=2), sw.Dense(1)),
        PLAIN,
    ),
}  # fmt: skip


def network(name: str, width: int = 64) -> sw.Network:
    layers, x = NETWORKS[name]
    return sw.Network(*layers, input_shape=x.shape[1:], width=width, C_b=0.1, C_W=1.2)


def extrapolated(name: str, make: Callable[[int], sw.Network], networks: int) -> None:
    """At every layer that is alone at its site, from widths 64 and 128 to 1/n = 0."""
    x = NETWORKS[name][1]
    theory = sw.predict(make(64), x, observables="V")
    value, own = theory.four_point_vertex.values, theory.four_point_vertex_error.values
    parts = [
        sw.measure(make(n), x, networks=networks, observables="V", seed=n, progress=False)
        for n in (64, 128)
    ]
    V, sem = (
        [part[key].values for part in parts]
        for key in ("four_point_vertex", "four_point_vertex_sem")
    )
    limit = 2 * V[1] - V[0]
    error = np.sqrt(4 * sem[1] ** 2 + sem[0] ** 2 + own**2)
    assert error[-1].max() < 0.2 * value[-1].max()
    assert own[-1].max() < 0.02 * value[-1].max()
    np.testing.assert_array_less(np.abs(limit - value), 4.5 * error + 1e-12)


@pytest.mark.usefixtures("fast")
def test_drawn_networks_with_norms_agree() -> None:
    extrapolated("norm", lambda n: network("norm", n), 1500)


@pytest.mark.usefixtures("fast")
@pytest.mark.thorough("test_drawn_networks_with_norms_agree")
@pytest.mark.parametrize("name", [name for name in NETWORKS if name != "norm"])
def test_drawn_networks_of_every_kind_agree(name: str) -> None:
    extrapolated(name, lambda n: network(name, n), 4000)


@pytest.mark.usefixtures("fast")
def test_the_mean_metric_of_networks_with_norms_is_shifted() -> None:
    """By four standard errors of drawn networks and more, which it explains."""
    net = network("norm", 32)
    theory = sw.predict(net, PLAIN, observables=["kernel", "metric_nlo"]).isel(layer=-1)
    drawn = sw.measure(net, PLAIN, networks=8000, observables="kernel", progress=False).isel(
        layer=-1
    )
    apart = (drawn.kernel - theory.kernel) / drawn.kernel_sem
    assert float(abs(apart).max()) > 4
    assert float(abs(apart - theory.metric_nlo / 32 / drawn.kernel_sem).max()) < 3.5


def test_random_signs_do_in_place_of_all_directions(monkeypatch: pytest.MonkeyPatch) -> None:
    """On average, with more noise."""
    net = sw.MLP(3, [20, 50], "tanh", input_dim=4, output_dim=1, C_b=0.1, C_W=1.5)
    monkeypatch.setattr(_responses, "_MOST", 1 << 10)
    monkeypatch.setattr(_shifts, "_MOST_DIRECTIONS", 0)
    value, error = order_one(net, PLAIN[:2], ["G1"], (3,))["G1"]
    exact = sw.predict(net, PLAIN[:2], observables="G1").metric_nlo.values[-1]
    assert error.max() < 0.2 * np.abs(exact).max()
    np.testing.assert_array_less(np.abs(value[0] - exact), 5 * error[0])


def test_channels_that_meet_are_one_unit() -> None:
    program = network("attention").program
    own = populations(program, (program.layers[-1],))
    assert sorted((count, own.inner[k]) for k, count in own.units.items()) == [(16, 4), (64, 1)]
    program = network("beside").program
    assert len(populations(program, (program.layers[-1],)).units) == 3
    for name in ("skips", "again"):
        program = network(name).program
        assert len(populations(program, (program.layers[-1],)).units) == 1


@pytest.mark.usefixtures("fast")
def test_predict_tells_order_one_with_its_error_and_the_small_parameter() -> None:
    net = network("skips")
    found = sw.predict(net, PLAIN[:2], observables=["V", "kernel"])
    assert list(found) == [
        "kernel",
        "four_point_vertex",
        "four_point_vertex_error",
        "expansion_parameter",
    ]
    V, K = found.four_point_vertex.values, found.kernel.values
    assert V.shape == (4, 2, 2, 2, 2)
    own = np.einsum("laa->la", K)
    relative = np.einsum("labab->lab", V) / (64 * own[:, :, None] * own[:, None])
    np.testing.assert_allclose(found.expansion_parameter[1:], relative.max(axis=(1, 2))[1:])
    assert sw.predict(network("norm"), PLAIN).attrs["left_out"] == [
        "metric_nlo",
        "four_point_vertex",
    ]
    drawn = sw.measure(net, PLAIN[:2], networks=500, observables=["V", "kernel"], progress=False)
    assert sw.compare(found, drawn).passed


REFUSED: dict[str, tuple[Layers, str, dict[str, object]]] = {
    "there is a kink at z = 0": (
        (sw.Conv(3), sw.LayerNorm(), "relu", sw.GlobalAvgPool(), sw.Dense(1)), "G1", {}
    ),
    "a maximum has kinks": (
        (sw.Conv(3), sw.MaxPool(2), sw.GlobalAvgPool(), sw.Dense(1)), "G1", {}
    ),
    "so many smaller sets of units": (
        (sw.Conv(3), sw.GroupNorm(2), "tanh", sw.GlobalAvgPool(), sw.Dense(1)), "G1", {}
    ),
    "masks of Dropout": (
        (sw.Conv(3), "tanh", sw.Dropout(0.5), sw.GlobalAvgPool(), sw.Dense(1)), "V", {}
    ),
    "second derivatives in each channel, and there is a kink at z = 0": (
        (sw.Conv(3), sw.LayerNorm(), "relu", sw.GlobalAvgPool(), sw.Dense(1)), "P", {}
    ),
    "the activation jumps at z = 0": (
        (sw.Conv(3), sw.LayerNorm(), "perceptron", sw.GlobalAvgPool(), sw.Dense(1)), "V", {}
    ),
    "layer 1 has positions": (
        (sw.Conv(3), "tanh", sw.GlobalAvgPool(), sw.Dense(1)), "V", {"layers": 1}
    ),
}  # fmt: skip


@pytest.mark.parametrize("sentence", REFUSED)
def test_what_is_not_known_is_refused(sentence: str) -> None:
    layers, letter, asked = REFUSED[sentence]
    net = sw.Network(*layers, input_shape=(6, 3), width=16)
    with pytest.raises(ValueError, match=sentence):
        sw.predict(net, PLACED, observables=letter, **asked)


def test_more_labels_than_fit_are_refused_with_how_many_do() -> None:
    parts = ("tanh", sw.GlobalAvgPool(), sw.Dense(1))
    net = sw.Network(sw.Dense(), sw.LayerNorm(), *parts, input_shape=(1000, 1), width=4)
    with pytest.raises(ValueError, match=r"3,000 labels .* at 2,048: 2 inputs would fit"):
        sw.predict(net, np.ones((3, 1000, 1)), observables="V")
    net = sw.Network(sw.Dense(), *parts, input_shape=(1000, 1), width=4)
    message = r"9 inputs have 9000 labels in it, .* of 8192 labels .*: 8 inputs would .* at 2,048: 2 inputs would"
    with pytest.raises(ValueError, match=message):
        sw.predict(net, np.ones((9, 1000, 1)), observables="V")
    with pytest.raises(ValueError, match=r"pairs of pairs fit of 64: not one input fits"):
        sw.predict(net, np.ones((1, 1000, 1)), observables="Q")
