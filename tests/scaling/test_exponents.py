"""Golden and property tests: strategies in two notations, their gauge, and the named ones."""

from fractions import Fraction as F

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from scalewise.scaling import (
    ABC,
    Strategy,
    mean_field,
    meta,
    metaparameter_of,
    mup,
    ntk,
    standard,
    uniform,
)

exponent = st.fractions(min_value=-3, max_value=3, max_denominator=12)
unit = st.fractions(min_value=0, max_value=1, max_denominator=12)


def _rows(depth: int) -> st.SearchStrategy:
    row = st.lists(exponent, min_size=depth, max_size=depth)
    return st.tuples(row, row, exponent)


numbers = st.integers(2, 6).flatmap(_rows)  # p, q, r
few = settings(max_examples=25)


@few
@given(numbers)
def test_abc_and_back_is_exact(numbers: tuple) -> None:
    strategy = Strategy(*numbers)
    assert strategy.to_abc().to_strategy() == strategy
    assert strategy.to_abc().to_strategy().to_abc() == strategy.to_abc()


@few
@given(numbers)
def test_each_notation_gives_the_same_variances_and_updates(numbers: tuple) -> None:
    """Powers of n of Var(W), Var(b) and of an update, counted from either notation by hand."""
    strategy = Strategy(*numbers)
    abc = strategy.to_abc()
    for i in range(strategy.depth):
        fan_in = 0 if i == 0 else 1
        assert -2 * abc.a[i] - 2 * abc.b[i] == -strategy.p[i] - fan_in
        # dW = n^{-a} dw = -n^{-2a-c} grad_W; the learning rate of W is n^r n^{-q} / fan-in.
        assert -2 * abc.a[i] - abc.c == strategy.r - strategy.q[i] - fan_in


@few
@given(numbers, exponent, exponent)
def test_gauge_is_an_additive_group_and_the_same_in_both_notations(
    numbers: tuple, g: F, h: F
) -> None:
    strategy = Strategy(*numbers)
    assert strategy.gauge(g).gauge(h) == strategy.gauge(g + h)
    assert strategy.gauge(g).gauge(-g) == strategy
    assert strategy.gauge(2 * g).to_abc() == strategy.to_abc().gauge(g)
    assert strategy.equivalent(strategy.gauge(g))
    assert strategy.to_abc().equivalent(strategy.to_abc().gauge(h))
    assert strategy.gauge(g).canonical() == strategy.canonical()


@few
@given(numbers, st.integers(0, 5), exponent.filter(bool))
def test_any_other_change_is_another_strategy(numbers: tuple, i: int, shift: F) -> None:
    strategy = Strategy(*numbers)
    i %= strategy.depth
    q = [*strategy.q[:i], strategy.q[i] + shift, *strategy.q[i + 1 :]]
    p = [*strategy.p[:i], strategy.p[i] + shift, *strategy.p[i + 1 :]]
    assert not strategy.equivalent(Strategy(strategy.p, q, strategy.r))
    assert not strategy.equivalent(Strategy(p, strategy.q, strategy.r))
    assert not strategy.equivalent(Strategy(strategy.p, strategy.q, strategy.r + shift))


@pytest.mark.parametrize("depth", [2, 3, 7])
def test_table_of_named_strategies(depth: int) -> None:
    """Yaida, fn 2, with the abc table of Yang & Hu."""
    zeros, last = (0,) * depth, (*(0,) * (depth - 1), 1)
    assert ntk(depth=depth) == Strategy(zeros, zeros, 0)
    assert mup(depth=depth) == Strategy(last, (*(-1,) * (depth - 1), 0), 0)
    assert mup(depth=depth).gauge(1) == mean_field(depth=depth) == Strategy(last, last, 1)
    assert standard(depth=depth) == Strategy(zeros, (0, *(-1,) * (depth - 1)), 0)
    assert meta(0, depth=depth) == ntk(depth=depth)
    assert meta(1, depth=depth) == mean_field(depth=depth)
    assert mup(depth=depth).to_abc() == ABC(
        (F(-1, 2), *(0,) * (depth - 2), F(1, 2)), (F(1, 2),) * depth, 0
    )
    assert ntk(depth=depth).to_abc() == ABC((0, *(F(1, 2),) * (depth - 1)), zeros, 0)


@few
@given(unit, st.integers(2, 9))
def test_uniform_parametrisation_is_the_family(s: F, depth: int) -> None:
    assert uniform((1 - s) / 2, depth=depth).equivalent(meta(s, depth=depth))
    assert metaparameter_of(uniform((1 - s) / 2, depth=depth)) == s


def test_decimals_are_read_as_written() -> None:
    assert meta(0.1, depth=2) == meta("1/10", depth=2) == meta(F(1, 10), depth=2)
    assert str(meta(0.25, depth=2)) == "meta(s=1/4)"


def test_equal_strategies_hash_alike_whatever_their_name() -> None:
    assert len({meta(1, depth=3), mean_field(depth=3), mup(depth=3)}) == 2
    assert meta(1, depth=3) != "mean_field"
    assert len({mup(depth=3).to_abc(), mup(depth=3).gauge(0).to_abc()}) == 1


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (
            lambda: Strategy((0, 0), (0,) * 3, 0),
            "`p` and `q` must have one exponent for each layer",
        ),
        (lambda: ABC((0, 0), (0,) * 3, 0), "`a` and `b` must have one exponent for each layer"),
        (lambda: Strategy((0,), (0,), 0), "Without a hidden layer there is no width"),
        (lambda: Strategy((0, float("nan")), (0, 0), 0), "`p_2` is an exponent"),
        (lambda: Strategy((0, 0), (0, 0), "half"), "`r` is an exponent"),
        (lambda: Strategy((0, 0), (0, 0), True), "`r` is an exponent"),
        (lambda: Strategy(1, (0, 0), 0), "`p` needs one exponent per layer"),
        (lambda: meta(1.5, depth=3), "`s` must lie between 0"),
        (lambda: meta(-0.1, depth=3), "`s` must lie between 0"),
        (lambda: uniform(0.6, depth=3), "`r` of a uniform parametrisation"),
        (lambda: ntk(depth=1), "`depth` counts weight layers"),
        (lambda: mup(depth=1), "`depth` counts weight layers"),
        (lambda: mean_field(depth=1), "`depth` counts weight layers"),
    ],
)
def test_refusals(make: object, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        make()
