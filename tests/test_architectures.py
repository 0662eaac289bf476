"""Property and refusals: networks as values made of layers, and the sentence for layers that do not fit."""

import pickle

import numpy as np
import pytest

import scalewise as sw
from grids import each
from scalewise.networks._nodes import Draw, Sum
from scalewise.networks._sites import Transposed, Window

IMAGE = {"input_shape": (8, 8, 3), "width": 16}


def small(**changes) -> sw.Network:
    layers = (sw.Conv(3), sw.Skip("relu", sw.Conv(3)), "relu", sw.GlobalAvgPool(), sw.Dense(10))
    return sw.Network(*layers, **(IMAGE | changes))


def test_a_network_is_a_value() -> None:
    net = small()
    assert net == small()
    assert hash(net) == hash(small())
    assert net != small(C_W=2.0)
    assert len({net, small(), net.at_width(8)}) == 2
    assert net.replace(C_W=2.0) == small(C_W=2.0)
    assert net.at_width(8) == small(width=8)
    assert pickle.loads(pickle.dumps(net)) == net
    assert eval(repr(sw.Conv(3, stride=(2, 1))), vars(sw)) == sw.Conv(3, stride=(2, 1))


def test_sizes_are_those_of_the_layers() -> None:
    net = small()
    assert (net.depth, net.output_dim, net.widths) == (3, 10, (3, 16, 16, 10))
    assert net.parameters == 16 * (27 + 1) + 16 * (144 + 1) + 10 * (16 + 1)
    assert "8 x 8 x 3 to 10 outputs" in str(net)
    assert "sum of [0], [2]" not in str(net)  # the inputs are not added to anything


def test_a_perceptron_is_the_program_of_its_layers() -> None:
    net = sw.networks.ResidualMLP(4, 8, "tanh", gamma=0.5, input_dim=3, output_dim=2, C_b=0.2)
    program = net.program
    assert [type(program.nodes[k]) for k in program.layers] == [Draw, Sum, Sum, Draw]
    assert program.channels[-1] == 2
    assert net.parameters == 4 * 8 + 2 * 9 * 8 + 9 * 2
    assert program.own(3) == net.own(3)


@each(("window", "size", "sees"), [
    (Window(3, padding="zero"), 4, [[None, 0, 1], [0, 1, 2], [1, 2, 3], [2, 3, None]]),
    (Window(2, padding="circular"), 3, [[0, 1], [1, 2], [2, 0]]),
    (Window(3, 2, padding="zero"), 5, [[None, 0, 1], [1, 2, 3], [3, 4, None]]),
    (Window(2, 2, 3, "valid"), 8, [[0, 3], [2, 5], [4, 7]]),
    (Window(5, padding="circular"), 2, [[0, 1, 0, 1, 0], [1, 0, 1, 0, 1]]),
    (Transposed(Window(2, 2, padding="zero")), 2, [[0, None], [None, 0], [1, None], [None, 1]]),
    (Transposed(Window(2, 3)), 2, [[0, None], [None, 0], [None, None], [1, None], [None, 1]]),
    (Window(3, 1, 2, "zero"), 3, [[None, 0, 2], [None, 1, None], [0, 2, None]]),
])  # fmt: skip
def test_what_a_window_sees(window: Window | Transposed, size: int, sees: list) -> None:
    found = [[None] * window.taps for _ in range(window.length(size))]
    for tap, pieces in enumerate(window.pieces(size)):
        for piece in pieces:
            places, seen = range(len(found))[piece.to], range(size)[piece.of]
            assert len(places) == len(seen)
            for place, at in zip(places, seen, strict=True):
                found[place][tap] = at
    assert found == sees


REFUSED = {
    "moves along positions, and there are none": ((sw.Conv(3), "relu", sw.Dense(1)), {"input_shape": 5}),
    "stand at one site, and here there are 8 x 8": ((sw.Conv(3), "relu", sw.Dense(1)), {}),
    "does not fit into 8 x 8 positions": ((sw.Conv(9, padding="valid"), "relu", sw.Dense(1)), {}),
    "Flatten has made channels": ((sw.Conv(3), sw.Flatten(), sw.Conv(3), sw.Dense(1)), {}),
    "needs positions": ((sw.Conv(3), sw.Flatten(), sw.AvgPool(2), sw.Dense(1)), {}),
    "numbers for 3 axes of positions, and there are 2": ((sw.Conv((3, 3, 3)), sw.Dense(1)), {}),
    "is its read-out": ((sw.Conv(3), "relu", sw.GlobalAvgPool()), {}),
    "Dense with its number of outputs": ((sw.GlobalAvgPool(), sw.Dense()), {}),
    "needs layers": ((), {}),
    "adds 16 channels at 8 x 8 positions to 4 channels": (
        (sw.Conv(3), sw.Skip("relu", sw.Conv(3, 4)), sw.GlobalAvgPool(), sw.Dense(1)), {}
    ),
    "adds the inputs": ((sw.Skip(sw.Conv(3, 3)), sw.GlobalAvgPool(), sw.Dense(1)), {}),
    "Layer 2.2.1, Conv.*numbers for 1 axes": (
        (sw.Conv(3), sw.Parallel([sw.Dense()], [sw.Conv((3,))]), sw.GlobalAvgPool(), sw.Dense(1)), {}
    ),
    "matrix of 5 positions, and there are 8": (
        (sw.Aggregate(np.eye(5)), sw.Dense(), sw.GlobalAvgPool(), sw.Dense(1)), {}
    ),
    "along axis 2, and there are 2 axes": (
        (sw.Aggregate(np.eye(8), axis=2), sw.Dense(), sw.GlobalAvgPool(), sw.Dense(1)), {}
    ),
    "Aggregate.*Flatten has made channels": ((sw.Flatten(), sw.Aggregate(np.eye(5)), sw.Dense(1)), {}),
    "needs at least 2 channels": ((sw.Conv(3, 1), sw.RMSNorm(), sw.GlobalAvgPool(), sw.Dense(1)), {}),
    "MaxPool.*Flatten has made channels": ((sw.Conv(3), sw.Flatten(), sw.MaxPool(2), sw.Dense(1)), {}),
    "multiplies 16 channels at 8 x 8 positions by 4 channels": (
        (sw.Parallel([sw.Conv(3)], [sw.Conv(3, 4)], join="product"), sw.GlobalAvgPool(), sw.Dense(1)), {}
    ),
    "multiplies the inputs by": (
        (sw.Parallel((), [sw.Conv(3, 3)], join="product"), sw.GlobalAvgPool(), sw.Dense(1)), {}
    ),
    "puts the channels at 8 x 8 positions beside those at 4 x 4": (
        (sw.Parallel([sw.Conv(3)], [sw.Conv(3, stride=2)], join="concat"), sw.GlobalAvgPool(), sw.Dense(1)), {}
    ),
    "puts the inputs beside": (
        (sw.Parallel((), [sw.Conv(3)], join="concat"), sw.GlobalAvgPool(), sw.Dense(1)), {}
    ),
    "Layer 3, Activate.*channels of several kinds": (
        (sw.Parallel([sw.Conv(3)], [sw.Conv(5)], join="concat"), sw.RMSNorm(), "relu", sw.Dense(1)), {}
    ),
    "attention.*comes before weights that are used again": (
        (sw.Conv(3), sw.Shared(sw.Skip(sw.Attention(size=4)), times=2), sw.GlobalAvgPool(), sw.Dense(1)), {}
    ),
    "Layer 2.1, Conv.*has weights that take 3 channels": (
        (sw.Shared(sw.Conv(3)), sw.Shared(sw.Conv(3)), sw.GlobalAvgPool(), sw.Dense(1)), {}
    ),
    "Recurrent.*goes along one axis of positions": ((sw.Recurrent("tanh"), sw.Dense(1)), {}),
    "after one another along axis 0": (
        (sw.Parallel([sw.Conv(3)], [sw.Conv(3, stride=2)], join="positions"), sw.GlobalAvgPool(), sw.Dense(1)), {}
    ),
    "takes the channels of one position": ((sw.Conv(3), sw.Flatten(), sw.RMSNorm(), sw.Dense(1)), {}),
    "Layer 2.2, Conv": (
        (sw.Conv(3), sw.Skip("relu", sw.Conv((3,))), sw.GlobalAvgPool(), sw.Dense(1)), {}
    ),
}  # fmt: skip


@pytest.mark.parametrize("sentence", REFUSED)
def test_layers_that_do_not_fit_are_named(sentence: str) -> None:
    layers, changes = REFUSED[sentence]
    with pytest.raises(ValueError, match=sentence):
        sw.Network(*layers, **(IMAGE | changes))


def test_what_stands_for_a_layer() -> None:
    with pytest.raises(TypeError, match="must be a layer such as"):
        sw.Network(sw.Dense, "relu", sw.Dense(1), input_shape=3, width=2)
    with pytest.raises(ValueError, match="No activation is called"):
        sw.Network(sw.Dense(), "rely", sw.Dense(1), input_shape=3, width=2)
    named = sw.Network(sw.Dense(), "tanh", sw.Dense(1), input_shape=3, width=2)
    assert named == sw.Network(sw.Dense(), np.tanh, sw.Dense(1), input_shape=3, width=2)
    with pytest.raises(ValueError, match=r"`Skip` needs the layers of its branch"):
        sw.Skip()


def test_inputs_of_another_shape_are_refused() -> None:
    net = small()
    with pytest.raises(ValueError, match=r"\(samples, positions, positions, features\)"):
        sw.predict(net, np.ones((2, 192)))
    with pytest.raises(ValueError, match=r"inputs of \(8, 8, 1\).*input_shape=\(8, 8, 3\)"):
        sw.predict(net, np.ones((2, 8, 8, 1)))
    with pytest.raises(
        ValueError, match="2 inputs have 256 labels in it, and pairs of pairs fit of 64"
    ):
        sw.predict(net, np.ones((2, 8, 8, 3)), observables="P")
    with pytest.raises(TypeError, match=r"scalewise\.MLP"):
        sw.predict("mlp", np.ones((2, 3)))


def test_a_sum_over_all_positions_is_so_many_averages() -> None:
    x = np.random.default_rng(0).normal(size=(2, 4, 3))
    nets = [
        sw.Network(sw.Dense(), "relu", pool, sw.Dense(1), input_shape=(4, 3), width=8)
        for pool in (sw.GlobalAvgPool(), sw.GlobalSumPool(), sw.SumPool(4))
    ]
    average, total, window = (sw.predict(net, x).kernel.values[-1] for net in nets)
    np.testing.assert_allclose(total, 16 * average, rtol=1e-12)
    np.testing.assert_allclose(window, total, rtol=1e-12)


def test_a_skip_is_two_branches_of_which_one_is_empty() -> None:
    branch = ("relu", sw.Conv(3))
    net = small()
    layers = (net.layers[0], sw.Parallel((), branch), *net.layers[2:])
    assert net.replace(layers=layers).program == net.program
    factors = net.replace(layers=(layers[0], sw.Parallel(branch, (), factors=(1, 2)), *layers[2:]))
    assert [node.factors for node in factors.program.nodes if isinstance(node, Sum)] == [(1.0, 2.0)]
    with pytest.raises(ValueError, match="needs two branches or more"):
        sw.Parallel(branch)
    with pytest.raises(ValueError, match="are those of a sum, and `join` is 'product'"):
        sw.Parallel(branch, (), factors=(1, 2), join="product")
    with pytest.raises(ValueError, match="3 numbers for 2 branches"):
        sw.Parallel(branch, (), factors=(1, 2, 3))
