"""Golden tests: how many parameters a network has, and how its weights are distributed."""

import pytest

import scalewise as sw


@pytest.mark.covers("A1.1", "A1.3")
def test_parameters_are_counted() -> None:
    # The network that PDLT draws: four inputs, three hidden layers of five, one output.
    assert sw.MLP(4, 5, "tanh", input_dim=4, output_dim=1).parameters == 91
    assert sw.MLP(3, (7, 2), "relu", input_dim=3, output_dim=4).parameters == 28 + 16 + 12


def test_aspect_ratio_is_depth_over_width() -> None:
    assert sw.MLP(8, 64, "tanh", input_dim=3, output_dim=1).aspect_ratio == pytest.approx(1 / 8)
    assert sw.MLP(1, 64, "tanh", input_dim=3, output_dim=1).aspect_ratio == 0


def test_a_network_is_a_value():
    """Equal to the same network written by hand, found in a set, and replaced field by field."""
    by_rule = sw.MLP(4, 128, "relu", input_dim=64, output_dim=10).at_criticality()
    by_hand = sw.MLP(4, (128,) * 3, "relu", input_dim=64, output_dim=10, C_W=[2.0] * 4)
    assert by_rule == by_hand
    assert len({by_rule, by_hand}) == 1
    assert by_hand.criticality is by_rule.criticality is sw.criticality("relu")
    assert len({sw.criticality(name) for name in ("tanh", "relu", "gelu", "tanh")}) == 3
    assert sw.MLP(4, 128, "relu", input_dim=64, output_dim=10).criticality is None
    assert by_rule.replace(width=7).hidden_widths == by_rule.at_width(7).hidden_widths == (7,) * 3
    uneven = sw.MLP(4, (8, 16, 8), "relu", input_dim=64, output_dim=10, C_W=[1.0, 2.0, 2.0, 1.0])
    assert uneven.at_width([4, 8, 4]).widths == (64, 4, 8, 4, 10)
    assert uneven.at_width(5).widths == (64, 5, 5, 5, 10)
    assert uneven.at_width(5).C_W == uneven.C_W
    narrow = sw.Network(
        sw.Dense(3), "relu", sw.Dense(), "relu", sw.Dense(1), input_shape=2, width=8
    )
    assert narrow.is_perceptron
    assert narrow.at_width(16).widths == (2, 3, 16, 1)  # a layer that says how many keeps them
    with pytest.raises(
        ValueError, match=r"`C_W` must be one number for all, or one for each of the 5 layers"
    ):
        sw.MLP(5, 128, "relu", input_dim=64, output_dim=10, C_W=by_hand.C_W)
    with pytest.raises(
        ValueError,
        match=r"`C_b` must be a finite number of at least 0, or one for each layer; got -1",
    ):
        sw.MLP(5, 128, "relu", input_dim=64, output_dim=10, C_b=-1.0)
    with pytest.raises(TypeError, match=r"changes layers, input_shape, width, .*; got depth"):
        by_rule.replace(depth=9)
    with pytest.raises(ValueError, match=r"own C_W, so another one of the network changes nothing"):
        sw.Network(sw.Dense(C_W=2.0), "relu", sw.Dense(1, C_W=1.5), input_shape=3, width=8).replace(
            C_W=3.0
        )
    with pytest.raises(TypeError):
        sw.criticality("gelu").coefficients["nu"] = 0.0


@pytest.mark.parametrize("depth", [1, 2, 4])
@pytest.mark.parametrize("skip", [0.0, 0.5])
def test_what_is_known_of_perceptrons_is_what_their_programs_say(depth: int, skip: float) -> None:
    """However they were written; and others are not taken for one."""
    numbers = {
        "C_b": 0.1,
        "C_W": [1.5, 1.2, 1.1, 0.7][:depth],
        "lambda_W": [1.0, 2.0, 3.0, 4.0][:depth],
    }
    net = sw.networks.ResidualMLP(
        depth, 8, "tanh", input_dim=3, output_dim=2, gamma=skip, **numbers
    )
    read = type(net.by_layer).of(net.program)
    assert net.by_layer == read
    assert read.said == repr(net)
    again = sw.Network(*net.layers, input_shape=3, width=net.width, **vars(net.usual))
    assert again == net
    assert (again.skips, again.is_plain) == (net.skips, depth < 3 or not skip)
    assert eval(repr(net), vars(sw.networks)) == net


def test_other_networks_are_not_taken_for_perceptrons() -> None:
    dense, end = sw.Dense(), sw.Dense(1)
    for layers, shape in (
        ((dense, "tanh", dense, "relu", end), 3),
        ((dense, "tanh", "tanh", end), 3),
        ((dense, dense, "tanh", end), 3),
        (("tanh", dense, "tanh", end), 3),
        ((dense, "tanh", sw.LayerNorm(), dense, "tanh", end), 3),
        ((dense, "tanh", sw.Skip(dense, "tanh", dense), "tanh", end), 3),
        ((dense, sw.Parallel(["tanh", dense], ["tanh", dense], factors=(1, 1)), "tanh", end), 3),
        ((dense, sw.Shared("tanh", dense, times=2), "tanh", end), 3),
        ((sw.Flatten(), dense, "tanh", end), (3, 2)),
        ((dense, "tanh", sw.Dense(law="uniform"), "tanh", end), 3),
        ((dense, sw.Parallel(["tanh", dense], [], factors=(0.5, 1)), "tanh", end), 3),
    ):
        net = sw.Network(*layers, input_shape=shape, width=8)
        assert not net.is_perceptron, net
    uniform = sw.Network(dense, "tanh", sw.Dense(1, law="uniform"), input_shape=3, width=8)
    assert [uniform.own(layer).law.name for layer in (1, 2)] == ["normal", "uniform"]
