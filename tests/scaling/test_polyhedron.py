"""Golden and property tests: the solid of stable strategies, its facets, vertices and chart."""

from fractions import Fraction as F
from itertools import product

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from refusals import unlike
from scalewise.scaling import ABC, Regime, Strategy, classify, mup, ntk, standard, uniform
from scalewise.scaling.polyhedron import FACETS, chart, facets, from_chart, stratum

few = settings(max_examples=50)
H = F(1, 2)
number = st.fractions(min_value=-2, max_value=2, max_denominator=8)


def slacks(a_1: F, a_2: F, b_2: F) -> tuple[F, ...]:
    """The inequalities in the letters of the chart, written by hand for c = 0, in the order of the facets."""
    r = min(a_2 + b_2, 2 * a_2) + 2 * a_1
    return a_2 + b_2 - H, r, a_2 - H, a_2 + b_2 + r - 1


QUARTERS = [F(k, 4) for k in range(-4, 6)]
POINTS = list(product(QUARTERS, repeat=3))


@pytest.mark.covers("E4")
def test_facets_are_the_inequalities_of_the_chart() -> None:
    for point in POINTS:
        found = slacks(*point)
        strategy = from_chart(*point)
        assert classify(strategy).stable == (min(found) >= 0)
        if min(found) >= 0:
            met = [name for name, slack in zip(FACETS, found, strict=True) if slack == 0]
            assert list(facets(strategy)) == met


@pytest.mark.covers("E4")
def test_two_vertices_and_the_edge_between() -> None:
    """Points of the solid that are the middle of no two others: the tangent kernel and maximal update."""
    solid = {p for p in POINTS if min(slacks(*p)) >= 0}
    steps = [d for d in product((-1, 0, 1), repeat=3) if any(d)]

    def shifted(point: tuple, d: tuple, sign: int) -> tuple:
        return tuple(x + F(sign * k, 4) for x, k in zip(point, d, strict=True))

    inside = {p for p in solid if all(abs(x) < 1 for x in p)}
    vertices = {
        p
        for p in inside
        if not any(shifted(p, d, 1) in solid and shifted(p, d, -1) in solid for d in steps)
    }
    assert vertices == {(F(0), H, F(0)), (-H, H, H)}
    assert vertices == {chart(ntk(depth=2)), chart(mup(depth=2))}
    for k in range(9):
        r = F(k, 16)
        assert chart(uniform(r, depth=2)) == (r - H, H, H - r)
        assert stratum(uniform(r, depth=2)) == ("NTK limit" if r else "feature learning")
        met = {"U = 1", "A + r = 1"} | ({"r = 0"} if r == 0 else set())
        assert set(facets(uniform(r, depth=2))) == met | ({"A = 1/2"} if r == H else set())


@few
@given(number, number, number, number)
def test_chart_and_back_in_every_gauge(a_1: F, a_2: F, b_2: F, theta: F) -> None:
    abc = ABC((a_1, a_2), (-a_1, b_2), 0)
    assert chart(abc.gauge(theta).to_strategy()) == (a_1, a_2, b_2)
    assert from_chart(a_1, a_2, b_2).equivalent(abc.to_strategy())


@few
@given(number, number, number, st.fractions(min_value=0, max_value=3, max_denominator=8))
def test_a_layer_may_always_be_slowed(a_1: F, a_2: F, b_2: F, theta: F) -> None:
    """The solid is unbounded: a_l + theta, b_l - theta stays within it for any layer."""
    if classify(from_chart(a_1, a_2, b_2)).stable:
        assert classify(from_chart(a_1 + theta, a_2, b_2)).stable
        assert classify(from_chart(a_1, a_2 + theta, b_2 - theta)).stable


@pytest.mark.covers("E4")
def test_names_of_the_parts() -> None:
    regimes = {
        Regime.TRIVIAL: {"trivial"},
        Regime.FEATURES: {"feature learning"},
        Regime.GP: {"GP limit"},
        Regime.KERNEL: {"NTK limit", "body NTK limit"},
    }
    seen = set()
    for point in POINTS:
        strategy = from_chart(*point)
        if classify(strategy).stable:
            name = stratum(strategy)
            assert name in regimes[classify(strategy).regime]
            seen.add(name)
    assert seen == set().union(*regimes.values())
    # Deeper ones have the same facets.
    assert facets(mup(depth=6)) == ("r = 0", "U = 1", "A + r = 1")
    assert stratum(ABC((0, H, 3 * H), (0, 0, -1), 0).to_strategy()) == "body NTK limit"


REFUSED = [
    (lambda: facets(standard()), "is unstable and lies outside the solid. Updates of layer 2"),
    (lambda: stratum(standard()), "is unstable and lies outside"),
    (lambda: chart(mup(depth=3)), r"with one hidden layer.*with 3 layers and a_1 \+ b_1 = 0"),
    (lambda: chart(Strategy((1, 0), (0, 0), 0)), "b_1 = 1/2"),
    (lambda: from_chart(0, float("nan"), 0), "`a_2` must be a finite number"),
]


def test_refusals() -> None:
    assert [] == unlike(REFUSED)
