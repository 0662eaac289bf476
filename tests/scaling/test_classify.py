"""Golden and property tests: regimes of strategies, against the table of known ones and the theorems."""

from collections.abc import Callable
from fractions import Fraction as F
from itertools import product

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from grids import each, thorough
from scalewise.scaling import (
    ABC,
    Regime,
    Strategy,
    abc,
    classify,
    feature_learning,
    maximal_initialisation,
    maximal_updates,
    mean_field,
    meta,
    mup,
    ntk,
    readout_exponents,
    standard,
    uniform,
    update_exponents,
)

few = settings(max_examples=50)
H, Q = F(1, 2), F(1, 4)
exponent = st.fractions(min_value=-2, max_value=2, max_denominator=4)


def standard_with_rate(c: F, depth: int = 3) -> Strategy:
    return ABC((0,) * depth, (0, *(H,) * (depth - 1)), c).to_strategy()


def small_logits(depth: int) -> Strategy:
    """Standard parametrisation with the logits divided by the square root of the width."""
    return abc((*(0,) * (depth - 1), H), (0, *(H,) * (depth - 1)), 0)


W_ONLY = abc((100, 0, 100), (-100, H, H - 100), 1)
SLOW_READOUT = abc((-H, 0, 100 + H), (H, H, -100 + H), 0)
FROZEN_OUTPUT = abc((-H, 0, 100 + H), (H, H, H), -100)
# Yang & Hu, Table 1 and what its appendices B, D, E, M add: A, U, (r_l), init-stable, verdict, first learning layer
TABLE = {
    "standard": (standard(), H, 0, (0, -1), True, "unstable", None),
    "standard, one hidden": (standard(depth=2), H, 0, (0,), True, "unstable", None),
    "standard, lr 1/n": (
        standard_with_rate(F(1)),
        H,
        1,
        (F(3, 2), H),
        True,
        "kernel regime, stable",
        None,
    ),
    "standard, lr 1/n, one hidden": (
        standard_with_rate(F(1), 2),
        H,
        1,
        (F(3, 2),),
        True,
        "GP limit, stable",
        None,
    ),
    "ntk": (ntk(), H, 1, (H, H), True, "kernel regime, stable", None),
    "ntk, one hidden": (ntk(depth=2), H, 1, (H,), True, "kernel regime, stable", None),
    "mean field": (mean_field(depth=2), 1, 1, (0,), True, "feature learning, stable", 1),
    "mup": (mup(), 1, 1, (0, 0), True, "feature learning, stable", 1),
    "mup, deep": (mup(depth=5), 1, 1, (0,) * 4, True, "feature learning, stable", 1),
    "small logits": (small_logits(3), 1, 1, (1, 0), True, "feature learning, stable", 2),
    "small logits, one hidden": (small_logits(2), 1, 1, (1,), True, "GP limit, stable", None),
    "uniform 1/8": (
        uniform("1/8"),
        F(7, 8),
        1,
        (F(1, 8),) * 2,
        True,
        "kernel regime, stable",
        None,
    ),
    "frozen output": (FROZEN_OUTPUT, 101, 101, (0, 0), True, "trivial, stable", 1),
    "slow readout": (SLOW_READOUT, 1, 201, (0, 0), True, "feature learning, stable", 1),
    "middle layer only": (
        W_ONLY,
        H,
        201,
        (F(403, 2), H),
        True,
        "kernel regime, stable",
        None,
    ),
    "large initial outputs": (
        abc((0, H, Q), (0, 0, 0), 0),
        Q,
        H,
        (Q, Q),
        False,
        "unstable",
        None,
    ),
    "large hidden layer": (
        Strategy((0, -1, 1), (0, 0, 1), 1),
        1,
        1,
        (0, 0),
        False,
        "unstable",
        None,
    ),
}


@pytest.mark.covers("E1", "E2")
@each("name", TABLE)
def test_table_of_strategies(name: str) -> None:
    strategy, A, U, r_l, init_stable, verdict, first = TABLE[name]
    found = classify(strategy)
    assert readout_exponents(strategy) == (found.A, found.U) == (A, U)
    assert update_exponents(strategy) == found.r_l == r_l
    assert found.init_stable is init_stable
    assert str(found) == verdict
    assert found.stable is ("stable" in verdict and verdict != "unstable")
    assert found.first_learning_layer == first
    assert found.r == min(r_l)
    assert found.strategy is strategy


def by_the_letter(strategy: Strategy) -> tuple[tuple[F, ...], F, F]:
    """Definition 3.1 as printed, from the exponents a b c with their own fan-in conventions."""
    e = strategy.to_abc()
    last = e.depth - 1
    A, U = e.a[last] + e.b[last], 2 * e.a[last] + e.c
    return tuple(min(A, U) + e.c - 1 + 2 * e.a[i] + (i == 0) for i in range(last)), A, U


# Numbers only: a strategy is made of them inside each test.
any_numbers = st.integers(2, 5).flatmap(
    lambda L: st.tuples(
        st.lists(exponent, min_size=L, max_size=L),
        st.lists(exponent, min_size=L, max_size=L),
        exponent,
    )
)
# Most strategies are unstable; these are stable at initialisation, and many of them in training.
calm_numbers = st.tuples(
    st.sampled_from([H, F(3, 4), F(1), F(5, 4)]),
    st.sampled_from([F(3, 4), F(1), F(5, 4)]),
    st.lists(st.sampled_from([F(k, 4) for k in range(-1, 6)]), min_size=1, max_size=4),
)


def made_of(numbers: tuple) -> Strategy:
    return Strategy(*numbers) if isinstance(numbers[0], list) else from_invariants(*numbers)


def from_invariants(A: F, U: F, r_l: list[F]) -> Strategy:
    """The strategy, stable at initialisation, with these A, U, r_l: solved by hand at r = 0."""
    q = [r - min(A, U) for r in r_l]
    return Strategy([*(F(0) for _ in r_l), 2 * A - 1], [*q, U - 1], 0)


@pytest.mark.covers("E2")
@few
@given(st.one_of(any_numbers, calm_numbers), exponent)
def test_no_gauge_changes_a_verdict(numbers: tuple, g: F) -> None:
    strategy = made_of(numbers)
    found, other = classify(strategy), classify(strategy.gauge(g))
    assert (found.r_l, found.A, found.U) == by_the_letter(strategy)
    for name in ("r_l", "A", "U", "init_stable", "stable", "nontrivial", "regime", "reasons"):
        assert getattr(found, name) == getattr(other, name)
    assert (found.s, found.gamma, found.r) == (other.s, other.gamma, other.r)


@pytest.mark.covers("E2")
@few
@given(st.one_of(any_numbers, calm_numbers))
def test_theorems_as_printed(numbers: tuple) -> None:
    """N.6, N.8, N.12, N.13 in the letters a b c, the source's layer L+1 being our last."""
    strategy = made_of(numbers)
    found, e = classify(strategy), strategy.to_abc()
    *hidden, last = range(e.depth)
    A, U, r = e.a[last] + e.b[last], 2 * e.a[last] + e.c, found.r
    first_ones = [e.a[i] + e.b[i] == (H if i else 0) for i in hidden]
    assert found.init_stable == (all(first_ones) and A >= H)
    assert found.stable == (found.init_stable and r >= 0 and U >= 1 and A + r >= 1)
    assert found.nontrivial == (found.stable and (A + r == 1 or U == 1))
    learns = found.regime is Regime.FEATURES
    frozen = found.regime in (Regime.KERNEL, Regime.GP)
    assert learns == (found.nontrivial and r == 0)
    assert frozen == (found.nontrivial and r > 0)
    assert (found.regime is Regime.GP) == (found.stable and r > 0 and A + r > 1 and U == 1)
    assert (found.regime is Regime.UNSTABLE) == (not found.stable)
    assert learns + frozen == found.nontrivial
    if learns:
        assert A >= 1  # N.12.4: outputs start at 0
        assert found.initial_output_power < 0
    if found.nontrivial:
        assert max(found.output_powers) == 0
        assert found.readout_updated_maximally or found.readout_initialised_maximally
    if found.stable:
        assert max(found.output_powers) <= 0
        assert max(found.feature_powers) == -r
        assert list(found.feature_powers) == sorted(found.feature_powers)
        assert found.updated_maximally == tuple(own == 0 for own in found.r_l)
        assert any(found.updated_maximally) == (r == 0) == (found.first_learning_layer is not None)
        assert found.uniform_update == (max(found.r_l) == r)
        assert found.initial_gp == (A == H)


@few
@given(calm_numbers)
def test_invariants_determine_a_strategy(numbers: tuple) -> None:
    strategy = made_of(numbers)
    found = classify(strategy)
    again = from_invariants(found.A, found.U, list(found.r_l))
    assert again.equivalent(strategy)


def grid(depth: int) -> list[Strategy]:
    """Every abc in quarter steps that is stable at initialisation, one of each orbit (c = 0)."""
    quarters = [F(k, 4) for k in range(-4, 7)]
    rows = product(quarters, repeat=depth)
    return [
        abc((*a, last), (-a[0], *(H - x for x in a[1:]), A - last), 0)
        for *a, last in rows
        for A in quarters
        if A >= H
    ]


@pytest.mark.covers("E2")
@pytest.mark.parametrize("depth", [2, *thorough(3)])
def test_maximal_updates_are_unique(depth: int) -> None:
    """E.5: everything maximal is mup. M.3: uniform, both readouts maximal, a first GP: it is ntk."""
    found = [classify(strategy) for strategy in grid(depth)]
    maximal = [c.strategy for c in found if c.is_maximal]
    assert len(maximal) == 1
    assert maximal[0].equivalent(mup(depth=depth))
    tangent = [
        c.strategy
        for c in found
        if c.uniform_update
        and c.readout_updated_maximally
        and c.readout_initialised_maximally
        and c.initial_gp
    ]
    assert len(tangent) == 1
    assert tangent[0].equivalent(ntk(depth=depth))
    # M.4: without the GP it is the uniform parametrisations, and they are the family.
    uniform_ones = [
        c
        for c in found
        if c.uniform_update and c.readout_updated_maximally and c.readout_initialised_maximally
    ]
    assert sorted(c.r for c in uniform_ones) == [0, Q, H]
    for c in uniform_ones:
        assert c.strategy.equivalent(uniform(c.r, depth=depth))
        assert c.s == 1 - 2 * c.r
    # Stable ones of every kind are on the grid, so the theorems were put to a test.
    assert {c.regime for c in found} == set(Regime)


@pytest.mark.covers("E2")
@few
@given(st.fractions(min_value=0, max_value=1, max_denominator=12), st.integers(2, 7), exponent)
def test_the_family_is_uniform_and_maximal_at_its_readout(s: F, depth: int, g: F) -> None:
    found = classify(meta(s, depth=depth).gauge(g))
    assert found.r_l == ((1 - s) / 2,) * (depth - 1)
    assert found.uniform_update
    assert found.readout_updated_maximally
    assert found.readout_initialised_maximally
    assert found.is_maximal is (s == 1)
    assert found.initial_gp is (s == 0)
    assert found.initial_output_power == -s / 2
    assert found.output_powers == (0, 0)
    assert found.s == s
    assert found.regime is (Regime.FEATURES if s == 1 else Regime.KERNEL)


@each(
    ("strategy", "text"),
    [
        (ntk(), "L/n"),
        (mup(), "L"),
        (meta("1/2"), "L/n^(1/2)"),
        (meta("1/4"), "L/n^(3/4)"),
        (standard(), None),
    ],
)
def test_gamma_is_written_out(strategy: Strategy, text: str | None) -> None:
    assert classify(strategy).gamma == text


@pytest.mark.covers("E2")
@each(
    ("strategy", "sentences"),
    [
        (
            standard(),
            [
                "Updates of layer 2 blow up: r_2 = -1 is below 0.",
                "Updates of the last layer blow up the outputs: U = 0 is below 1.",
                "Moving features blow up the outputs: A + r = -1/2 is below 1.",
            ],
        ),
        (
            Strategy((1, -1, "-1/2"), (2, 2, 2), 0),
            [
                "Preactivations of layer 1 vanish at initialisation: a_1 + b_1 = 1/2 must be 0 (p_1 = 1).",
                "Preactivations of layer 2 grow at initialisation: a_2 + b_2 = 0 must be 1/2 (p_2 = -1).",
                "Outputs blow up at initialisation: A = 1/4 is below 1/2.",
            ],
        ),
        (
            mup(),
            [
                "Stable: r = 0 is not below 0, and neither U = 1 nor A + r = 1 below 1.",
                "Outputs move at order one by updates of the last layer (U = 1) and by moving features "
                "(A + r = 1).",
                "Features move at order one from layer 1 on: r_1 = 0.",
            ],
        ),
        (
            standard_with_rate(F(1), 2),
            [
                "Stable: r = 3/2 is not below 0, and neither U = 1 nor A + r = 2 below 1.",
                "Outputs move at order one by updates of the last layer (U = 1).",
                "Features do not move: the least r_l, of layer 1, is 3/2 and above 0.",
            ],
        ),
        (
            FROZEN_OUTPUT,
            [
                "Stable: r = 0 is not below 0, and neither U = 101 nor A + r = 101 below 1.",
                "Outputs do not move: U = 101 and A + r = 101 are both above 1.",
                "Features move at order one from layer 1 on: r_1 = 0.",
            ],
        ),
        (
            W_ONLY,
            [
                "Stable: r = 1/2 is not below 0, and neither U = 201 nor A + r = 1 below 1.",
                "Outputs move at order one by moving features (A + r = 1).",
                "Features do not move: the least r_l, of layer 2, is 1/2 and above 0.",
            ],
        ),
    ],
)
def test_reasons_name_inequality_and_layer(strategy: Strategy, sentences: list[str]) -> None:
    assert list(classify(strategy).reasons) == sentences


@each("make", [ntk, mup, standard])
def test_classify_at_another_depth(make: Callable) -> None:
    for depth in (2, 3, 5):
        assert classify(make().at_depth(depth)) == classify(make(depth=depth))


@pytest.mark.covers("C60")
@few
@given(st.one_of(any_numbers, calm_numbers))
def test_conditions_are_the_same_exponents(numbers: tuple) -> None:
    """Footnote 15 with (p_L - 1)/2 in its minimum is Yang and Hu's r_l, r and A + r - 1."""
    strategy = made_of(numbers)
    found = classify(strategy)
    assert maximal_updates(strategy) == found.r_l
    assert feature_learning(strategy) == found.r
    assert maximal_initialisation(strategy) == found.A + found.r - 1


def test_a_footnote_as_printed_would_deny_that_a_slow_readout_learns_features() -> None:
    strategy = abc((-H, 0, F(3, 4)), (H, H, Q), 0)
    p, q, r = strategy.p, strategy.q, strategy.r
    assert 1 + min(q[:-1]) - r + min(q[-1] - r, (p[-1] + 1) / 2) == H
    assert feature_learning(strategy) == 0
    assert classify(strategy).regime is Regime.FEATURES
