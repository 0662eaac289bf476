"""Property and golden tests: order 1/n of many labels by carrying read-outs back, against whole arrays."""

import tracemalloc

import jax.numpy as jnp
import numpy as np
import pytest

import scalewise as sw
from grids import thorough
from scalewise.networks._network import Network
from scalewise.selection import select, told_by
from scalewise.theory.order import (
    _exact_products,
    _many_labels,
    _many_shifts,
    _second_chaos,
    _units,
)
from scalewise.theory.order._many_labels import KNOWN, many_labels
from scalewise.theory.order._many_shifts import SHIFTS, many_shifts
from scalewise.theory.order._whole import whole_tensors

RATES = {"C_b": 0.1, "C_W": 1.5, "lambda_b": 0.5, "lambda_W": 1.0}
RNG = np.random.default_rng(11)
LINES, POINTS = RNG.normal(size=(2, 4, 3)), RNG.normal(size=(3, 4))


def network(*layers: object, shape: tuple[int, ...] = (4, 3), **own: object) -> sw.Network:
    """Of random layers that are not alike."""
    return sw.Network(*layers, input_shape=shape, **{"width": 8, **RATES, **own})


def graph() -> sw.Network:
    """Two layers of a graph, where all labels mix."""
    mixing = np.eye(4) * 0.6 + 0.1
    layers = (sw.Aggregate(mixing), sw.Dense(), "gelu") * 2
    return network(*layers, sw.GlobalAvgPool(), sw.Dense(1))


def short_stream() -> sw.Network:
    """Channels that remember, without positions."""
    blocks = (sw.Skip("gelu", sw.Dense()) for _ in range(2))
    return network(sw.Dense(), *blocks, "gelu", sw.Dense(1), shape=(4,), C_W=0.8)


def ends(net: Network) -> list[int]:
    """Layers of one site that fluctuate, sums of random layers among them."""
    return [k for k in net.layers_of_one_site if k > 1]


def stream(sigma: str) -> sw.Network:
    """Channels that remember."""
    blocks = (sw.Skip(sigma, sw.Conv(3)) for _ in range(2))
    return network(sw.Conv(3), *blocks, sigma, sw.GlobalAvgPool(), sw.Dense(1))


def pooled_stream() -> sw.Network:
    """Channels that remember what they were at all positions."""
    blocks = (
        sw.Conv(3),
        sw.Skip("gelu", sw.Conv(3)),
        sw.GlobalAvgPool(),
        sw.Skip("gelu", sw.Dense()),
    )
    return network(*blocks, "gelu", sw.Dense(1), C_W=0.8)


POOL = sw.GlobalAvgPool()
NETWORKS: dict[str, tuple[Network, np.ndarray]] = {
    "fully connected": (
        sw.MLP(4, [30, 20, 40], "tanh", input_dim=4, output_dim=2, **RATES),
        POINTS,
    ),
    "bent": (sw.MLP(3, [30, 20], "gelu", input_dim=4, output_dim=2, **RATES), POINTS),
    "kinked": (
        network(sw.Conv(3), "relu", sw.Conv(3), "relu", POOL, sw.Dense(1)),
        LINES,
    ),
    "strides": (
        network(
            sw.Conv(3), "gelu", sw.AvgPool(2), sw.Conv(3, stride=2), "gelu", sw.Flatten(), sw.Dense(1)
        ),
        LINES,
    ),
    "pool first": (
        network(sw.Conv(3), sw.AvgPool(2), "tanh", sw.Conv(2), "tanh", POOL, sw.Dense(1)),
        LINES,
    ),
    "images": (
        network(sw.Conv(3), "sin", sw.Conv(3, channels=12), "sin", POOL, sw.Dense(), "sin", sw.Dense(1)),
        LINES,
    ),
    "few features": (
        network(sw.Conv(1), "gelu", sw.Conv(3), "gelu", POOL, sw.Dense(1), shape=(6, 1)),
        RNG.normal(size=(3, 6, 1)),
    ),
    "graph": (graph(), LINES),
    "short stream": (short_stream(), POINTS[:2]),
    "pooled stream": (pooled_stream(), LINES),
    "stream": (stream("tanh"), LINES),
    "bent stream": (stream("gelu"), LINES),
}  # fmt: skip


@pytest.mark.parametrize(
    "name",
    [
        "kinked",
        "images",
        "short stream",
        "pooled stream",
        *thorough(
            "strides",
            "few features",
            "fully connected",
            "bent",
            "pool first",
            "graph",
            "stream",
            "bent stream",
        ),
    ],
)
def test_read_outs_carried_back_have_the_tensors_of_whole_arrays(name: str) -> None:
    """At every layer of one site, within five of their errors, which are a few percent at most."""
    net, x = NETWORKS[name]
    layers = ends(net)
    found, known = (how(net, x, KNOWN, layers) for how in (many_labels, whole_tensors))
    for letter in KNOWN:
        (value, error), (want, slip) = found[letter], known[letter]
        scale = np.abs(want).max(axis=(1, 2, 3, 4))
        assert np.all(error.max(axis=(1, 2, 3, 4)) < 0.04 * scale), letter
        assert np.all(np.abs(value - want) < 5 * error + slip), letter


@pytest.fixture
def few_units(monkeypatch: pytest.MonkeyPatch) -> None:
    """As many as an error of some percent takes."""
    monkeypatch.setattr(_many_shifts, "_MOST", 1 << 13)


@pytest.mark.usefixtures("few_units")
@pytest.mark.parametrize(
    "name",
    [
        "images",
        "strides",
        "short stream",
        *thorough(
            *("fully connected", "bent", "pool first", "graph", "stream", "bent stream"),
            "pooled stream",
        ),
    ],
)
def test_mean_shifts_are_those_of_whole_arrays(name: str) -> None:
    """Within five of their errors, which are a tenth at most, or a third where channels remember."""
    net, x = NETWORKS[name]
    layers = ends(net)
    found, known = (how(net, x, SHIFTS, layers) for how in (many_shifts, whole_tensors))
    for letter in SHIFTS:
        (value, error), (want, slip) = found[letter], known[letter]
        scale = np.abs(want).max()
        assert error.max() < (0.3 if name.endswith("stream") else 0.1) * scale, letter
        assert np.all(np.abs(value - want) < 5 * error + slip + 1e-9 * scale), letter


def test_what_is_quadratic_is_exact_and_the_rest_is_little(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without exact products the same is found, with several times the error."""
    monkeypatch.setattr(_many_shifts, "_MOST", 1 << 11)
    monkeypatch.setattr(_units, "_SPREAD", 0)
    net, x = NETWORKS["strides"]
    value, error = many_shifts(net, x, ["G1"], [net.depth])["G1"]
    monkeypatch.setattr(_exact_products, "_MOST_SEEN", 0)
    other, noise = many_shifts(net, x, ["G1"], [net.depth])["G1"]
    assert np.all(np.abs(value - other) < 5 * np.hypot(error, noise))
    assert 3 * np.median(error) < np.median(noise)


def test_the_order_of_inputs_is_no_matter() -> None:
    net, x = NETWORKS["strides"]
    x = np.concatenate([x, x[:1] + 0.3])
    order = np.array([2, 0, 1])
    one, other = (many_labels(net, inputs, "VF", [net.depth]) for inputs in (x, x[order]))
    for letter in "VF":
        (value, error), (turned, noise) = one[letter], other[letter]
        for axis in range(1, 5):
            value, error = (np.take(part, order, axis) for part in (value, error))
        assert np.all(np.abs(value - turned) < 5 * np.hypot(error, noise))


def test_neither_parts_nor_single_precision_change_what_is_found(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Factors by parts, one later input at a time, in half the digits: the same to these."""
    net, x = NETWORKS["few features"]
    known = many_labels(net, x, KNOWN, [net.depth])
    monkeypatch.setattr(_second_chaos, "_ROOM", 1)
    monkeypatch.setattr(_second_chaos, "_TOGETHER", 2)
    monkeypatch.setattr(_many_labels, "_TOGETHER", 2)
    for letter, (value, error) in many_labels(net, x, KNOWN, [net.depth]).items():
        np.testing.assert_allclose(value, known[letter][0], rtol=1e-10, atol=1e-12)
        np.testing.assert_allclose(error, known[letter][1], rtol=1e-6)
    monkeypatch.setattr(_many_labels, "_DOUBLE", 0)
    for letter, (value, _) in many_labels(net, x, KNOWN, [net.depth]).items():
        scale = np.abs(known[letter][0]).max()
        np.testing.assert_allclose(value / scale, known[letter][0] / scale, atol=2e-5)


def test_errors_are_between_what_scrambles_say_and_what_is_usual() -> None:
    """Of numbers whose variances differ by a factor of two or so: none is far too large or too small."""
    rng = np.random.default_rng(0)
    values, errors = (_many_labels.OfPairs("V", 1, 24) for _ in range(2))
    values.stored[:] = rng.choice([-1.0, 1.0], size=values.stored.shape)
    for spread, low, high in ((0.0, 0.85, 1.3), (0.35, 0.5, 2.0)):
        true = np.exp(spread * rng.normal(size=errors.stored.shape))
        freedom = _units.SCRAMBLES - 1
        own = true * rng.chisquare(freedom, size=true.shape) / freedom
        errors.stored[:] = own * _units.SCRAMBLES * freedom
        _many_labels._settle_errors(values, errors, 0)
        ratio = errors.stored / np.sqrt(true)
        assert low < ratio.min()
        assert ratio.max() < high
        assert errors.stored.max() < np.sqrt(own.max())


def test_graphs_of_their_own_are_those_of_each_input() -> None:
    """What differs from input to input stands in the block of its own."""
    layer = [sw.Features(3), sw.Aggregate(), sw.Dense(), "tanh", sw.Aggregate(), sw.Dense(), "tanh"]
    net = network(*layer, POOL, sw.Dense(1), shape=(3, 6))
    graphs = np.stack([np.eye(3), np.full((3, 3), 0.4)])
    x = np.concatenate([LINES[:, :3], graphs], axis=-1)
    found, known = (how(net, x, "VF", [net.depth]) for how in (many_labels, whole_tensors))
    for letter in "VF":
        (value, error), (want, slip) = found[letter], known[letter]
        assert np.all(np.abs(value - want) < 5 * error + slip), letter


def test_predict_carries_back_what_whole_arrays_do_not_bear() -> None:
    net = network(sw.Conv(3), "tanh", sw.Conv(3), "tanh", POOL, sw.Dense(1), shape=(6, 6, 3))
    x = RNG.normal(size=(2, 6, 6, 3))
    told: list[str] = []
    names = ["four_point_vertex", "ntk_A", "ntk_F"]
    found = sw.predict(net, x, observables=names, progress=lambda what, *_: told.append(what))
    assert "order 1/n, layers carried back" in told
    for name in names:
        value, error = found[name].values, found[f"{name}_error"].values
        assert 0 < error.max() < 0.05 * np.abs(value).max()
    assert {"four_point_vertex", "ntk_B"} <= set(select("all", net, samples=2).names)


def test_what_varies_too_fast_for_mean_shifts_is_named() -> None:
    def wild(z):
        return jnp.tanh(300 * z) / 3

    net = network(sw.Conv(3), wild, sw.Conv(3), wild, POOL, sw.Dense(1))
    with pytest.raises(ValueError, match=r"take fifth derivatives of 'wild'.*leave 'metric_nlo'"):
        many_shifts(net, LINES, ["G1"], [net.depth])


def test_memory_grows_as_labels_squared(monkeypatch: pytest.MonkeyPatch) -> None:
    """Four times as many labels take sixteen times as much at the most."""
    monkeypatch.setattr(_many_labels, "_MOST", 1 << 8)
    monkeypatch.setattr(_many_labels, "_FEWEST", 1 << 8)
    peaks = []
    for size in (6, 12):
        net = network(
            sw.Conv(3), "tanh", sw.Conv(3), "tanh", POOL, sw.Dense(1), shape=(size, size, 3)
        )
        x = np.random.default_rng(2).normal(size=(2, size, size, 3))
        tracemalloc.start()
        many_labels(net, x, "V", [net.depth])
        peaks.append(tracemalloc.get_traced_memory()[1])
        tracemalloc.stop()
    assert peaks[1] < 16 * peaks[0]


def test_many_inputs_are_read_where_they_are_asked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each number that symmetry leaves is kept once; entries, parts and the whole are those of arrays."""
    net = network(sw.Conv(3), "tanh", POOL, sw.Dense(1))
    monkeypatch.setattr("scalewise.selection.MOST_LABELS", 1)
    whole = sw.predict(net, LINES, observables=KNOWN, layers=net.depth)
    monkeypatch.setattr(_many_labels, "_TOGETHER", 2)
    monkeypatch.setattr(_many_labels, "_SMALL", 1)
    found = sw.predict(net, LINES, observables=KNOWN, layers=net.depth)
    # Pairs beside those whose later input is no later: of the first input one, of the second two.
    kept = {"V": 1 + 2 * 3, "D": 2 * (1 + 2 * 3), "B": 1 + 2 * 4, "F": 1 + 3 * 4}
    parts = many_labels(net, LINES, KNOWN, [net.depth])
    assert {letter: parts[letter][0].stored.size for letter in kept} == kept
    for name in [name for name in whole.data_vars if whole[name].dims[1:]]:
        some = {"sample": 1, "sample_1": slice(0, 2), "sample_2": [1, 0]}
        np.testing.assert_array_equal(
            found[name].isel(some), found[name].values[:, 1, :2][:, :, [1, 0]]
        )
        # The least of errors is that of read-outs that are taken together.
        alike = {"rtol": 2.0 if "error" in name else 1e-11, "atol": 1e-12, "err_msg": name}
        np.testing.assert_allclose(found[name].values, whole[name].values, **alike)
    B = found.ntk_B.values
    np.testing.assert_array_equal(B, B.transpose(0, 3, 4, 1, 2))
    np.testing.assert_allclose(found.expansion_parameter, whole.expansion_parameter, rtol=1e-11)


def test_activations_that_are_added_up_are_those_of_one_channel() -> None:
    """Two linear branches are one random layer of twice the variance, by arrays and by read-outs alike."""
    branch = [sw.Dense(C_b=0.05, C_W=0.75, lambda_b=0.25, lambda_W=0.5), "linear"]
    rest = ("tanh", sw.Dense(1))
    two = network(sw.Parallel(branch, branch, join="sum"), sw.Dense(), *rest, shape=(4,))
    one = network(sw.Dense(), "linear", sw.Dense(), *rest, shape=(4,))
    want, slip = whole_tensors(one, POINTS, "VB", [one.depth])["V"]
    value, error = whole_tensors(two, POINTS, "VB", [two.depth])["V"]
    np.testing.assert_array_less(np.abs(value - want), 5 * (error + slip) + 1e-9)
    value, error = many_labels(two, POINTS, "V", [two.depth])["V"]
    np.testing.assert_array_less(np.abs(value - want), 5 * error + slip)


def test_where_inputs_are_0_a_kink_adds_nothing() -> None:
    """Two of six positions that are not 0, seen one by one: the same as these alone, at a third of their size."""
    x = np.zeros((2, 6, 3))
    x[:, 2:4] = LINES[:, :2]
    parts = (sw.Conv(1), "relu", sw.Conv(1), "relu", POOL, sw.Dense(1))
    wide, narrow = (
        network(*parts, shape=(size, 3), C_b=0.0, lambda_b=0.0, C_W=2.0) for size in (6, 2)
    )
    found, known = many_labels(wide, x, KNOWN, [3]), whole_tensors(narrow, x[:, 2:4], KNOWN, [3])
    for letter in KNOWN:
        (value, error), (want, slip) = found[letter], known[letter]
        assert np.all(np.abs(81 * value - want) < 5 * 81 * error + slip), letter


def test_all_leaves_out_what_nothing_tells_of_so_many_labels() -> None:
    """Neither whole arrays nor read-outs carried back nor single units: left out with a reason, and not refused."""
    layers = (sw.Conv(1), "tanh", sw.GlobalAvgPool(), sw.Dense(1))
    net = sw.Network(*layers, input_shape=(96, 96, 1), width=16)
    row = sw.OBSERVABLES["four_point_vertex"]
    assert told_by(net, 1, row, net.layers_of_one_site).by == ""
    assert "pairs fit of" in select("all", net, samples=1).left_out["four_point_vertex"]
    assert told_by(net, 1, sw.OBSERVABLES["dntk_P"], net.layers_of_one_site).units
