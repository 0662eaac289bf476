"""Golden and property: kernel and NTK of layers of every kind against explicit site matrices, in every layout."""

import numpy as np
import pytest

import scalewise as sw
from architectures import RATES, by_matrices, compositions, tied_compositions
from grids import few
from scalewise.theory.flow import _pair_sets, _passing, _shifts
from scalewise.theory.flow._every_node import every_node, is_drawn, pairs_of
from scalewise.theory.flow._kernel_flow import kernel_flow, kernels_on
from scalewise.theory.flow._pair_sets import PairSet
from scalewise.theory.flow._passing import kernel_strips

RNG = np.random.default_rng(0)
SHAPES = {"line": (6, 2), "plane": (5, 6, 2)}


def network(sigma: str, name: str, shape: str, **rest) -> sw.Network:
    layers = (compositions(sigma) | tied_compositions(sigma))[name]
    return sw.Network(*layers, input_shape=SHAPES[shape], width=8, **(RATES | rest))


SIGMAS = ("tanh", "relu", "gelu")
CASES = [(s, n, p) for s in SIGMAS for n in compositions(s) for p in SHAPES]
CASES += [(s, n, "line") for s in SIGMAS for n in tied_compositions(s)]


@pytest.mark.parametrize(("sigma", "name", "shape"), few(CASES, every=10))
def test_outputs_are_those_of_site_matrices(sigma: str, name: str, shape: str) -> None:
    net = network(sigma, name, shape)
    x = RNG.normal(size=(3, *net.input_shape))
    flow = kernel_flow(net, x, layers=[net.depth])
    K, Theta = by_matrices(net.program, x)[net.program.layers[-1]]
    np.testing.assert_allclose(flow.K[0], K, rtol=1e-11)
    np.testing.assert_allclose(flow.Theta[0], Theta, rtol=1e-11)


@pytest.mark.parametrize("positions", [True, False])
@pytest.mark.parametrize(
    ("name", "shape"), [("pooled", "line"), ("heads that grow", "line"), ("pooled", "plane")]
)
def test_kernels_of_all_fields_are_those_of_site_matrices(
    name: str, shape: str, positions: bool
) -> None:
    net = network("gelu", name, shape)
    program, x = net.program, RNG.normal(size=(3, *net.input_shape))
    assert not is_drawn(program)
    known, found = (
        dict(enumerate(by_matrices(program, x))),
        every_node(program, x, positions=positions),
    )
    assert found.keys() == known.keys() - program.fixed
    least = 0
    for node, own in found.items():
        sites = int(np.prod(program.positions[node]))
        K = known[node][0].reshape(3, sites, 3, sites).swapaxes(1, 2)
        np.testing.assert_allclose(own.between, np.einsum("abpp->abp", K), rtol=1e-11)
        assert own.within is not None or not positions
        if own.within is not None:
            np.testing.assert_allclose(
                own.within, np.einsum("aapq->apq", K), rtol=1e-11, atol=1e-14
            )
        least += 9 * sites * (1 if own.within is None else sites)
    assert least <= pairs_of(program, 3, positions=positions)


def test_fields_without_weights_may_be_given() -> None:
    net = network("tanh", "pooled", "line")
    x, y = RNG.normal(size=(2, 3, *net.input_shape))
    found, want = every_node(net.program, x, given={0: y}), every_node(net.program, y)
    for node, own in want.items():
        np.testing.assert_array_equal(found[node].between, own.between)


def test_means_count_in_norms_of_tied_layers() -> None:
    """Behind activations that have one: between what a layer gives at its different uses."""
    block = sw.Shared(sw.Skip("relu", sw.LayerNorm(0.3), sw.Dense()), times=3)
    net = sw.Network(
        *(sw.Dense(), block, sw.GlobalAvgPool(), sw.Dense(1)), input_shape=(4, 2), width=8, **RATES
    )
    assert net.program.links
    x = RNG.normal(size=(3, 4, 2))
    flow = kernel_flow(net, x, layers=[net.depth])
    K, Theta = by_matrices(net.program, x)[net.program.layers[-1]]
    np.testing.assert_allclose(flow.K[0], K, rtol=1e-11)
    np.testing.assert_allclose(flow.Theta[0], Theta, rtol=1e-11)


TWICE = sw.Shared(sw.Conv((3, 2)), "gelu", sw.LayerNorm(0.1))
DEPTH = sw.Conv(3), sw.Shared(sw.Skip("relu", sw.Conv(3, padding="circular")), times=3), "tanh"
NEEDED = {  # how many pairs of positions two inputs have at most, of 5 x 6
    "flat": ((*DEPTH, sw.Flatten()), 30),
    "rows alone": ((*DEPTH, sw.AvgPool((1, 6)), sw.Dense(), "relu", sw.Flatten()), 5 * 6 * 6),
    "halves of rows": (
        (
            sw.Parallel([sw.Take([0, 2, 4], 1), TWICE], [sw.Take([1, 5, 3], 1), TWICE], factors=(1, 0.7)),
            *(sw.Dense(), "tanh", sw.Flatten()),
        ),
        5 * 6 * 6,
    ),
    "rows after rows": (
        (sw.Parallel([TWICE], [sw.Take([1, 0], 0), TWICE], join="positions"), sw.Dense(), "relu", sw.Flatten()),
        7 * 7 * 6,
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", NEEDED)
def test_fields_of_the_same_weights_meet_where_something_takes_them_together(name: str) -> None:
    layers, most = NEEDED[name]
    net = sw.Network(*layers, sw.Dense(1), input_shape=SHAPES["plane"], width=8, **RATES)
    assert net.program.links
    x = RNG.normal(size=(3, *net.input_shape))
    assert _passing.Passing.of(net, x, (net.depth,), ntk=True).fields.labels_of_pair == most
    flow = kernel_flow(net, x, layers=[net.depth])
    K, Theta = by_matrices(net.program, x)[net.program.layers[-1]]
    np.testing.assert_allclose(flow.K[0], K, rtol=1e-11)
    np.testing.assert_allclose(flow.Theta[0], Theta, rtol=1e-11)


@pytest.mark.parametrize("shape", SHAPES)
def test_a_layer_with_positions_has_each_with_each(shape: str) -> None:
    net = network("tanh", "skips in a skip", shape)
    x = RNG.normal(size=(3, *net.input_shape))
    every = by_matrices(net.program, x)
    for layer in range(1, net.depth):
        found = sw.predict(net, x, layers=layer)
        sites = int(np.prod(net.program.positions[net.program.layers[layer - 1]]))
        assert found.kernel.dims == ("layer", "sample", "sample_1", "position", "position_1")
        for name, want in zip(("kernel", "ntk"), every[net.program.layers[layer - 1]], strict=True):
            want = want.reshape(3, sites, 3, sites).transpose(0, 2, 1, 3)
            np.testing.assert_allclose(found[name].values[0], want, rtol=1e-11, atol=1e-14)


@pytest.mark.parametrize("name", ["pooled", "skip, flat", "in depth"])
def test_tiles_strips_rectangles_and_lists_are_cut_out_of_the_square(name, monkeypatch) -> None:
    net = network("swish", name, "plane")
    x = RNG.normal(size=(7, *net.input_shape))
    whole = kernel_flow(net, x, layers=[net.depth])
    monkeypatch.setattr(_pair_sets, "TILE", 3 * 900)  # three pairs of inputs at a time, or fewer
    monkeypatch.setattr(_passing, "_AT_ONCE", 2 * 900)  # two inputs with themselves
    again = kernel_flow(net, x, layers=[net.depth])
    for found, want in ((again.K, whole.K), (again.Theta, whole.Theta)):
        np.testing.assert_allclose(found, want, rtol=1e-11)
    for pairs, place in (
        (PairSet.between(x[:3], x[2:]), np.ix_([0, 1, 2], [2, 3, 4, 5, 6])),
        (PairSet.in_turn(x[:5], x[1:6]), (np.arange(5), np.arange(1, 6))),
        (PairSet.in_turn(x, x), (np.arange(7), np.arange(7))),
    ):
        for found, want in zip(kernels_on(net, pairs), (whole.K, whole.Theta), strict=True):
            np.testing.assert_allclose(found[0], want[0][place], rtol=1e-11)
    for rows, K, Theta in kernel_strips(net, x, ntk=True):
        np.testing.assert_allclose(K, whole.K[0][rows, rows.start :], rtol=1e-11)
        np.testing.assert_allclose(Theta, whole.Theta[0][rows, rows.start :], rtol=1e-11)


def test_channels_beside_themselves_are_the_same_channels() -> None:
    x = RNG.normal(size=(3, 6, 2))
    twice = sw.Parallel((), (), join="concat")
    plain = (sw.Conv(3), "tanh", sw.GlobalAvgPool(), sw.Dense(1))
    nets = [
        sw.Network(*layers, input_shape=(6, 2), width=8, **RATES)
        for layers in (plain, (*plain[:2], twice, *plain[2:]))
    ]
    for name in ("kernel", "ntk"):
        one, other = (sw.predict(net, x)[name].values for net in nets)
        np.testing.assert_allclose(other, one, rtol=1e-12)


def test_the_kernel_is_the_same_to_the_last_bit_without_the_ntk() -> None:
    net = network("swish", "pooled", "plane")
    x = RNG.normal(size=(4, *net.input_shape))
    alone = sw.predict(net, x, observables="kernel").kernel.values
    np.testing.assert_array_equal(alone, sw.predict(net, x).kernel.values)


def test_a_circular_network_does_not_see_a_shift_and_scales_with_its_inputs() -> None:
    layers = (sw.Conv(3, padding="circular"), "relu") * 2
    net = sw.Network(*layers, sw.GlobalAvgPool(), sw.Dense(1), input_shape=(4, 6, 2), width=8)
    x = RNG.normal(size=(3, 4, 6, 2))
    K = sw.predict(net, x).kernel.values
    moved = np.roll(x[1:2], (1, 2), axis=(1, 2))
    np.testing.assert_allclose(
        sw.predict(net, np.concatenate([x[:1], moved, x[2:]])).kernel.values, K, rtol=1e-12
    )
    np.testing.assert_allclose(sw.predict(net, 3 * x).kernel.values, 9 * K, rtol=1e-12)


def test_dense_layers_alone_are_a_perceptron() -> None:
    x = RNG.normal(size=(4, 3))
    layers = (sw.Dense(), "tanh", sw.Dense(), sw.Skip("tanh", sw.Dense(), factor=0.6), "tanh")
    net = sw.Network(*layers, sw.Dense(1), input_shape=3, width=8, **RATES)
    other = by_matrices(net.program, x[:, None])  # one position
    found = sw.predict(net, x, layers=[1, 3, 4])
    for layer in (1, 3, 4):
        for name, want in zip(("kernel", "ntk"), other[net.program.layers[layer - 1]], strict=True):
            np.testing.assert_allclose(found[name].sel(layer=layer), want, rtol=1e-11)
    residual = sw.networks.ResidualMLP(
        4, 8, "tanh", gamma=(0.0, 0.0, 0.6, 0.0), input_dim=3, output_dim=1, **RATES
    )
    for name in ("kernel", "ntk"):
        np.testing.assert_allclose(
            sw.predict(net, x)[name], sw.predict(residual, x)[name], rtol=1e-14
        )
    mlp = sw.MLP(3, 8, "tanh", input_dim=3, output_dim=1, **RATES)
    plain = sw.Network(
        sw.Dense(), "tanh", sw.Dense(), "tanh", sw.Dense(1), input_shape=3, width=8, **RATES
    )
    for name in ("kernel", "ntk"):
        np.testing.assert_array_equal(sw.predict(plain, x)[name], sw.predict(mlp, x)[name])


@pytest.mark.parametrize("sigma", ["relu", "leaky_relu", "tanh", "elu", "gelu"])
def test_black_borders_have_no_signal_and_the_slope_that_pytorch_has(sigma: str) -> None:
    """Windows that see nothing, without a bias: preactivations are exactly 0 at some positions."""
    rates = RATES | {"C_b": 0.0}
    layers = (sw.Conv(3), sigma, sw.Conv(3), sigma, sw.GlobalAvgPool(), sw.Dense(1))
    net = sw.Network(*layers, input_shape=(8, 1), width=8, **rates)
    x = np.zeros((2, 8, 1))
    x[:, 3:5, 0] = np.random.default_rng(1).normal(size=(2, 2))
    found = sw.predict(net, x)
    assert np.isfinite(found.kernel.values).all()
    # A border that is almost black, on the side where the slope is the left one, is the limit of it ...
    tiny = x.copy()
    tiny[:, [0, 7]] = 1e-9
    np.testing.assert_allclose(sw.predict(net, tiny).kernel.values, found.kernel.values, rtol=1e-7)
    # ... but for the NTK of an activation with a kink, whose slope there is the mean of both, not the left one.
    moves = not np.allclose(sw.predict(net, tiny).ntk.values, found.ntk.values, rtol=1e-6)
    assert moves == (sw.activation(sigma).is_scale_invariant)


def test_layers_of_different_positions_are_asked_for_one_by_one() -> None:
    net = network("tanh", "pooled", "line")
    x = RNG.normal(size=(2, 6, 2))
    assert sw.predict(net, x).layer.values.tolist() == [3, 4]
    with pytest.raises(ValueError, match="must have the same positions"):
        sw.predict(net, x, layers=[1, 4])


SLIDING = {
    "zeros": [sw.Conv(3), "relu", sw.Conv(2), "tanh"],
    "circular": [sw.Conv(3, padding="circular"), "relu", sw.Conv(4, padding="circular"), "gelu"],
    "dilated": [sw.Conv(3, dilation=2), "relu", sw.Conv(5), "relu"],
    "a norm in a skip": [sw.Conv(3), sw.Skip(sw.LayerNorm(), "relu", sw.Conv(3)), "tanh"],
    "dropout": [sw.Conv(3), "relu", sw.Dropout(0.8), sw.Conv(3), "relu"],
}


@pytest.mark.parametrize("largest", [1, 400])
@pytest.mark.parametrize("name", SLIDING)
def test_pairs_of_positions_go_shift_by_shift(name: str, largest: int, monkeypatch) -> None:
    """Along both axes, or along the first."""
    layers = [
        *SLIDING[name],
        sw.GlobalAvgPool(),
        sw.Dense(),
        "relu",
        sw.Dense(1),
    ]
    net = sw.Network(*layers, input_shape=(5, 6, 2), width=8, **RATES)
    x = np.random.default_rng(1).normal(size=(4, 5, 6, 2))
    monkeypatch.setattr(_shifts, "_LARGEST", largest)
    monkeypatch.setattr(_pair_sets, "TILE", 300)
    axes = len(_passing.Passing.of(net, x, (net.depth,), ntk=True).shifts.sizes)
    assert axes == {1: 2, 400: 1}[largest]
    K, Theta = by_matrices(net.program, x)[net.program.layers[-1]]
    square = kernel_flow(net, x, layers=[net.depth])
    listed = kernels_on(net, PairSet.in_turn(x, x[::-1]))
    for found, line, want in zip((square.K, square.Theta), listed, (K, Theta), strict=True):
        np.testing.assert_allclose(found[0], want, rtol=1e-11)
        np.testing.assert_allclose(line[0], want[np.arange(4), np.arange(4)[::-1]], rtol=1e-11)


@pytest.mark.parametrize(
    "layers",
    [
        [sw.Conv(3, stride=2), "relu", sw.GlobalAvgPool()],
        [sw.Conv(3, padding="valid"), "relu", sw.GlobalAvgPool()],
        [sw.Conv(3), "relu", sw.AvgPool(2), sw.GlobalAvgPool()],
        [sw.Local(3), "relu", sw.GlobalAvgPool()],
        [sw.Conv(3), "relu", sw.Flatten()],
    ],
)
def test_what_moves_positions_apart_does_not_go_shift_by_shift(layers, monkeypatch) -> None:
    net = sw.Network(*layers, sw.Dense(1), input_shape=(6, 6, 2), width=8, **RATES)
    monkeypatch.setattr(_shifts, "_LARGEST", 1)
    x = np.random.default_rng(1).normal(size=(3, 6, 6, 2))
    assert _passing.Passing.of(net, x, (net.depth,), ntk=True).shifts.sizes == ()
    found = kernel_flow(net, x, layers=[net.depth])
    K = by_matrices(net.program, x)[net.program.layers[-1]][0]
    np.testing.assert_allclose(found.K[0], K, rtol=1e-11)


def test_a_layer_with_positions_does_not_go_shift_by_shift(monkeypatch) -> None:
    net = network("relu", "pooled", "plane")
    x = np.random.default_rng(1).normal(size=(3, *net.input_shape))
    want = kernel_flow(net, x, layers=[1])
    monkeypatch.setattr(_shifts, "_LARGEST", 1)
    np.testing.assert_array_equal(kernel_flow(net, x, layers=[1]).K, want.K)


def test_a_few_inputs_with_positions_go_in_turn() -> None:
    net = network("relu", "pooled", "line")
    tiles = list(PairSet.square(RNG.normal(size=(3, *net.input_shape))).tiles(labels=36))
    assert [tile.shape for tile in tiles] == [(6,)]


def test_drawn_networks_have_the_ntk_of_black_borders() -> None:
    """At preactivations that are always 0 a drawn ReLU has the left slope, as at infinite width."""
    x = np.zeros((1, 6, 1))
    x[0, :3] = 1.0
    layers = (sw.Conv(1), "relu", sw.GlobalAvgPool(), sw.Dense(1))
    net = sw.Network(*layers, input_shape=(6, 1), width=64, C_W=2.0)
    theory = sw.predict(net, x)
    drawn = sw.measure(net, x, observables=["kernel", "ntk"], networks=400, progress=False)
    assert sw.compare(theory, drawn).passed
    assert theory.ntk.item() == pytest.approx(1.75)
