"""Conformance of the tests' own settings: types are checked as calls go on, and a grid loses no case."""

import numpy as np
import pytest
from jaxtyping import TypeCheckError

from grids import each
from scalewise.activations._scale import reach
from scalewise.plan._fits import power_law


def test_types_and_shapes_are_checked_in_a_sample_of_calls() -> None:
    for call in range(1, 9):
        with pytest.raises(Exception) as caught:  # noqa: PT011
            reach("1")  # pyright: ignore
        if call in (1, 2, 4, 8):
            assert isinstance(caught.value, TypeCheckError), call
    with pytest.raises(TypeCheckError, match="width"):
        power_law(np.ones(3), np.ones((2, 4)))


def test_a_grid_runs_every_case_and_lists_what_fails() -> None:
    seen = []

    @each(("n", "more"), [(1, 2), (2, 4), (3, 6), (5, 10)])
    def grid(n: int, more: int, least: int) -> None:
        seen.append(n)
        assert more > least

    with pytest.raises(AssertionError, match=r"2 of 4 cases fail:\n\{'n': 1, 'more': 2\}: Assert"):
        grid(least=4)
    grid(least=1)
    assert seen == [1, 2, 3, 5] * 2
    with pytest.raises(ValueError, match="without cases"):
        each("n", [])
