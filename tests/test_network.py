"""Golden tests: how many parameters a network has, and how its weights are distributed."""

from dataclasses import replace

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
    deeper = replace(by_rule, depth=9, output_dim=2)
    assert deeper == sw.MLP(9, 128, "relu", input_dim=64, output_dim=2, C_W=2.0)
    assert replace(by_rule, width=7).hidden_widths == by_rule.at_width(7).hidden_widths == (7,) * 3
    assert replace(by_rule, activation="tanh").activation.name == "tanh"
    with pytest.raises(
        ValueError, match=r"`MLP.C_W` must be one number for all, or one for each of the 5 layers"
    ):
        replace(replace(by_hand, width=128), depth=5)
    with pytest.raises(
        ValueError,
        match=r"`MLP.C_b` must be a finite number of at least 0, or one for each layer; got -1",
    ):
        replace(by_rule, C_b=-1.0)
    with pytest.raises(TypeError):
        sw.criticality("gelu").coefficients["nu"] = 0.0
