"""Golden tests: how many parameters a network has, and how its weights are distributed."""

import pytest

import scalewise as sw


def test_parameters_are_counted() -> None:
    # The network that PDLT draws: four inputs, three hidden layers of five, one output.
    assert sw.MLP(4, 5, "tanh", input_dim=4, output_dim=1).parameters == 91
    assert sw.MLP(3, (7, 2), "relu", input_dim=3, output_dim=4).parameters == 28 + 16 + 12


def test_aspect_ratio_is_depth_over_width() -> None:
    assert sw.MLP(8, 64, "tanh", input_dim=3, output_dim=1).aspect_ratio == pytest.approx(1 / 8)
    assert sw.MLP(1, 64, "tanh", input_dim=3, output_dim=1).aspect_ratio == 0
