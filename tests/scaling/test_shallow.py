"""Golden and property tests: the plane of one hidden layer, its 13 regions, and the verdicts in them."""

from collections import Counter
from fractions import Fraction as F
from itertools import product

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from grids import each
from refusals import unlike
from scalewise.scaling import (
    Strategy,
    classify,
    mean_field,
    meta,
    mup,
    ntk,
    shallow,
    standard,
    uniform,
)

few = settings(max_examples=50)
exponent = st.fractions(min_value=-3, max_value=3, max_denominator=8)
H = F(1, 2)
BAND = [(F(q, 8), F(t, 8)) for q, t in product(range(-14, 6), range(-10, 16)) if -4 <= q + t <= 0]


def holds(condition: str, q_sigma: F, q_tilde: F) -> bool:
    """A condition as it is written, evaluated in exact numbers."""
    spelled = condition.replace("2 q_sigma", "2*q_sigma").replace(" = ", " == ").replace("1/2", "H")
    return bool(eval(spelled, {"H": H, "q_sigma": q_sigma, "q_tilde": q_tilde}))


@pytest.mark.covers("E21")
@each("point", BAND)
def test_each_point_of_the_band_lies_in_exactly_one_region(point: tuple) -> None:
    found = shallow.region(*point)
    inside = [r.id for r in shallow.regions() if all(holds(c, *point) for c in r.conditions)]
    assert inside == [found.id]
    # The lines through it, with their equations read off the text.
    lines = [i for i, text in shallow.CONDITIONS.items() if holds(text.split(":")[0], *point)]
    assert list(found.satisfied) == lines


def test_every_region_is_met_and_their_dimensions_are_those_of_the_lines() -> None:
    assert {shallow.region(*p).id for p in BAND} == {f"R{i}" for i in range(1, 14)}
    assert Counter(r.dimension for r in shallow.regions()) == {2: 3, 1: 7, 0: 3}
    assert [r.id for r in shallow.regions()] == [f"R{i}" for i in range(1, 14)]
    # A region of dimension 0 is one point of the grid, and the others are more.
    counts = Counter(shallow.region(*p).id for p in BAND)
    for found in shallow.regions():
        assert (counts[found.id] == 1) is (found.dimension == 0)
        assert shallow.region(*found.representative) == found
        assert len(found.satisfied) == {0: 2 + (found.id == "R6"), 1: 1, 2: 0}[found.dimension]
    kept = {r.id: r.satisfied for r in shallow.regions() if r.dimension == 0}
    assert kept == {"R6": (1, 2, 3), "R10": (1, 4), "R12": (2, 4)}


@pytest.mark.covers("E21")
@each("point", BAND)
def test_verdicts_of_tensor_programs(point: tuple) -> None:
    """Stable and nontrivial if and only if kernels are of order one: R5, R6, R12."""
    found, verdict = shallow.region(*point), classify(shallow.to_strategy(*point))
    assert str(verdict.regime) == found.verdict
    assert verdict.nontrivial is (found.signs[1] == 0) is (2 in found.satisfied)
    assert verdict.nontrivial is (found.id in ("R5", "R6", "R12"))
    assert verdict.region == found
    s = sum(point)
    if found.verdict != "unstable":
        assert verdict.initial_gp is (1 in found.satisfied)
        assert verdict.r == -s
        assert any(verdict.updated_maximally) is (4 in found.satisfied)


@pytest.mark.covers("E1")
@few
@given(exponent, exponent, exponent, exponent)
def test_coordinates_and_strategies(q: F, a: F, w: F, g: F) -> None:
    strategy = shallow.to_strategy(q, a, w)
    assert shallow.coordinates(strategy.gauge(g)) == (q, a, w)
    assert shallow.to_strategy(*shallow.coordinates(strategy)) == strategy
    e = shallow.to_strategy(q, a).to_abc()
    assert (e.a, e.b, e.c) == ((0, -q), (0, 0), -a)
    # Rates of the hatted weights: those of the bare ones over the square of what they are multiplied with.
    bare_a = strategy.r - strategy.q[1] - 1
    assert bare_a - 2 * q == a
    assert strategy.r - strategy.q[0] == w


def test_named_strategies_in_the_plane() -> None:
    for strategy, where in (
        (ntk(depth=2), "R6"),
        (mup(depth=2), "R12"),
        (mean_field(depth=2), "R12"),
        (meta("1/2", depth=2), "R5"),
        (uniform("1/8", depth=2), "R5"),
        (shallow.to_strategy("-1/2", "1/2"), "R10"),
    ):
        found = classify(strategy).region
        assert found is not None
        assert found.id == where
    for r in (F(1, 8), F(3, 8)):
        assert shallow.coordinates(uniform(r, depth=2)) == (r - 1, 1 - 2 * r, 1 - 2 * r)
    # Default scaling is standard parametrisation: unequal rates, outside the plane.
    assert shallow.coordinates(standard(depth=2)) == (-H, 1, 0)
    assert classify(standard(depth=2)).region is None
    assert classify(shallow.to_strategy(0, 1)).region is None
    assert classify(ntk()).region is None
    assert classify(Strategy((1, 0), (0, 0), 0)).region is None


@pytest.mark.covers("E21")
@few
@given(exponent, exponent, st.integers(1, 5))
def test_equal_rates_stay_or_blow_up(q: F, tilde: F, k: int) -> None:
    """Lemma 3: below s = 0 weights keep their order; above, they gain n^s in each step."""
    s, start, later = (
        q + tilde,
        shallow.powers_after(0, q, tilde),
        shallow.powers_after(k, q, tilde),
    )
    assert (start.a, start.w, start.f) == (0, 0, q + H)
    assert start.kernel_a == start.kernel_w == 2 * q + tilde + 1
    assert start.change_f == 2 * q + tilde + 1 + max(s, F(0))
    growth = max(s, F(0)) * k
    assert later.a == later.w == growth
    assert later.kernel_a == later.kernel_w == 2 * q + tilde + 1 + 2 * growth
    if s <= 0:
        assert later.f == max(q + H, 2 * q + tilde + 1)
        assert (later.f == 2 * q + tilde + 1) is (s >= -H)  # the band, seen from the outputs


@pytest.mark.covers("E21")
def test_default_scaling_by_steps() -> None:
    """App. D: input weights do not move in the first step, and the logits jump by n."""
    first, second = (shallow.powers_after(k, -H, 1, 0) for k in (0, 1))
    assert (first.kernel_a, first.kernel_w, first.change_a, first.change_w) == (1, 0, H, -H)
    assert (second.a, second.w, second.f) == (H, 0, 1)
    assert (second.kernel_w, second.change_w) == (1, 0)


@few
@given(exponent, exponent, exponent)
def test_bookkeeping_of_the_first_step_is_that_of_a_classification(q: F, a: F, w: F) -> None:
    """Two derivations of one thing: r_1 with A for min(A, U), since the readout has not moved yet."""
    found, first = classify(shallow.to_strategy(q, a, w)), shallow.powers_after(0, q, a, w)
    assert first.f == found.initial_output_power
    assert first.kernel_a == 1 - found.U
    assert first.change_w == -(found.r_l[0] - min(found.A, found.U) + found.A)


@few
@given(exponent, exponent, exponent)
def test_the_deep_letters_at_depth_two(q: F, a: F, w: F) -> None:
    assert shallow.deep_strategy((0, q), (w, a)).equivalent(shallow.to_strategy(q, a, w))


@pytest.mark.covers("E1")
@each("depth", [2, 3, 6])
def test_deep_strategies(depth: int) -> None:
    """Yang & Hu's strategies in Golikov's letters; their powers counted from W = sigma w-hat."""
    halves = (-H,) * (depth - 2)
    assert shallow.deep_strategy((0, *halves, -1), (1,) * depth).equivalent(mup(depth=depth))
    assert shallow.deep_strategy((0, *halves, -H), (0,) * depth).equivalent(ntk(depth=depth))
    proposal = shallow.deep_strategy((0, *(-1,) * (depth - 1)), (1, *(2,) * (depth - 2), 1))
    found = classify(proposal)
    assert found.init_stable is (depth == 2)
    if depth == 2:
        assert found.region == shallow.region(-1, 1)
    else:
        assert found.reasons[0].startswith("Preactivations of layer 2 vanish at initialisation")
    mixed = shallow.deep_strategy((F(1, 3), *halves, F(1, 4)), (F(1, 5),) * depth)
    assert mixed.p == (F(-2, 3), *(F(0),) * (depth - 2), F(-3, 2))
    bare = [mixed.r - q - (i > 0) for i, q in enumerate(mixed.q)]
    assert bare == [2 * F(1, 3) + F(1, 5), *(F(-4, 5),) * (depth - 2), 2 * F(1, 4) + F(1, 5)]


REFUSED = [
    (lambda: shallow.region(0, 1), r"lies above the band .* each step moves the weights"),
    (lambda: shallow.region(-1, "1/4"), r"lies below the band .* vanishing part of what they"),
    (lambda: shallow.region("a", 0), "`q_sigma` must be a finite number"),
    (lambda: shallow.to_strategy(0, 0, "x"), "`q_tilde_w` must be a finite number"),
    (lambda: shallow.coordinates(ntk()), r"has depth 3. Take strategy.at_depth\(2\)"),
    (lambda: shallow.coordinates(Strategy((1, 0), (0, 0), 0)), "has p_1 = 1"),
    (lambda: shallow.deep_strategy((0, 0), (0,) * 3), "`q` and `q_tilde` must have one"),
    (lambda: shallow.powers_after(-1, 0, 0), "`k` must be a whole"),
]


def test_refusals() -> None:
    assert [] == unlike(REFUSED)
