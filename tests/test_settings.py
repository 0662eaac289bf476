"""Conformance of the tests' own settings: types are checked as calls go on, and a grid loses no case."""

import numpy as np
import pytest
from beartype import beartype
from jaxtyping import TypeCheckError

from grids import each
from scalewise.activations._scale import reach
from scalewise.plan._fits import power_law


def half(number: int) -> float:
    return number / 2


def test_types_and_shapes_are_checked_in_the_first_call_of_a_file() -> None:
    with pytest.raises(TypeCheckError):
        reach("1")  # pyright: ignore
    with pytest.raises(TypeCheckError, match="width"):
        power_law(np.ones(3), np.ones((2, 4)))


def test_calls_are_checked_less_and_less_often(request: pytest.FixtureRequest) -> None:
    plugins = request.config.pluginmanager.get_plugins()
    own = next(p for p in plugins if hasattr(p, "_sampled"))
    sampled, checked = own._sampled(half, beartype), []
    for call in range(10):
        if call == 6:
            own._count_anew()  # as in another file
        with pytest.raises(TypeError) as caught:
            sampled("1")
        checked.append(caught.type is not TypeError)
    anew = [1, 2, 3, 4] if own.CHECKED == "test" else [7, 8, 9, 10]
    assert checked[:6] == [True, True, False, True, False, False]
    assert checked[6] is True
    assert checked[7:] == [call & (call - 1) == 0 for call in anew[1:]]
    del own._calls[half.__code__]

    def third(number: int) -> float:
        return number / 3

    checked = []
    for _ in range(17):  # made anew each time, and so is its check
        with pytest.raises(TypeError) as caught:
            own._sampled(third, beartype)("1")
        checked.append(caught.type is not TypeError)
    assert checked == [call in (1, 16) for call in range(1, 18)]


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
