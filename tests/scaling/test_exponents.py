"""Golden and property tests: strategies in two notations, their gauge, and the named ones."""

from collections.abc import Callable
from fractions import Fraction as F

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from grids import each
from refusals import unlike
from scalewise.scaling import (
    ABC,
    LayerExponents,
    Strategy,
    abc,
    has_equivalent_rates,
    mean_field,
    meta,
    metaparameter_of,
    mup,
    ntk,
    pqr,
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
UNEVEN = Strategy((0,) * 5, (0, 1, 1, 2, 0), 0)


@pytest.mark.covers("C58")
@few
@given(numbers)
def test_abc_and_back_is_exact(numbers: tuple) -> None:
    strategy = Strategy(*numbers)
    assert strategy.to_abc().to_strategy() == strategy
    assert strategy.to_abc().to_strategy().to_abc() == strategy.to_abc()


@pytest.mark.covers("C58")
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


@pytest.mark.covers("C58", "E1")
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


@pytest.mark.covers("C58", "C59")
@each("depth", [2, 3, 7])
def test_table_of_named_strategies(depth: int) -> None:
    """Yaida, fn 2, with the abc table of Yang & Hu."""
    zeros, last = (0,) * depth, (*(0,) * (depth - 1), 1)
    assert ntk(depth=depth) == Strategy(zeros, zeros, 0)
    assert mup(depth=depth) == Strategy(last, (*(-1,) * (depth - 1), 0), 0)
    assert mup(depth=depth).gauge(1) == mean_field(depth=depth) == Strategy(last, last, 1)
    rates = (0, *(-1,) * (depth - 1))
    assert standard(depth=depth) == Strategy(zeros, rates, 0, plain_biases=True)
    assert meta(0, depth=depth) == ntk(depth=depth)
    assert meta(1, depth=depth) == mean_field(depth=depth)
    assert mup(depth=depth).to_abc() == ABC(
        (F(-1, 2), *(0,) * (depth - 2), F(1, 2)), (F(1, 2),) * depth, 0
    )
    assert ntk(depth=depth).to_abc() == ABC((0, *(F(1, 2),) * (depth - 1)), zeros, 0)


@pytest.mark.covers("E1")
@few
@given(numbers, exponent)
def test_plain_biases_have_the_bare_rate_of_their_weights(numbers: tuple, g: F) -> None:
    """n^r n^{-q_bias} is n^r n^{-q} / fan-in in every layer, in every gauge and through either notation."""
    plain = Strategy(*numbers, plain_biases=True)
    fan_in = (0, *(1,) * (plain.depth - 1))
    for same in (plain.gauge(g), plain.to_abc().gauge(g).to_strategy(), plain.canonical()):
        assert same.plain_biases
        bare = [same.r - q - f for q, f in zip(same.q, fan_in, strict=True)]
        assert [same.r - q for q in same.q_bias] == bare
        assert same.equivalent(plain)
    scaled = Strategy(*numbers)
    assert scaled.q_bias == scaled.q
    assert scaled != plain
    assert not scaled.equivalent(plain)
    assert scaled.to_abc() != plain.to_abc()
    assert not scaled.to_abc().equivalent(plain.to_abc())
    assert len({scaled, plain, scaled.to_abc(), plain.to_abc()}) == 4
    assert has_equivalent_rates(plain) is has_equivalent_rates(scaled)
    assert metaparameter_of(plain) == metaparameter_of(scaled)
    assert ("plain_biases=True" in repr(plain)) is ("plain_biases=True" in repr(plain.to_abc()))
    assert repr(plain) == repr(scaled)[:-1] + ", plain_biases=True)"


@pytest.mark.covers("E1")
@few
@given(exponent, exponent, exponent, exponent, st.integers(2, 7))
def test_another_depth_repeats_the_hidden_layers(a: F, b: F, c: F, d: F, depth: int) -> None:
    three = Strategy((a, b, c), (d, a, b), c, "own", plain_biases=True)
    other = three.at_depth(depth)
    assert other.p == (a, *(b,) * (depth - 2), c)
    assert other.q == (d, *(a,) * (depth - 2), b)
    assert (other.r, other.name, other.plain_biases) == (c, "own", True)
    assert other.first == LayerExponents(a, d, d)
    assert other.last == LayerExponents(c, b, b + 1)
    if depth > 2:
        assert other.hidden == LayerExponents(b, a, a + 1)
        assert other.at_depth(3) == three


@each("make", [ntk, mup, mean_field, standard])
@each("depth", [2, 3, 6])
def test_named_strategies_have_three_layers_unless_asked(make: Callable, depth: int) -> None:
    assert make().depth == 3
    assert make().at_depth(depth) == make(depth=depth)
    assert meta("1/2").at_depth(depth) == meta("1/2", depth=depth)
    assert uniform("1/4").at_depth(depth) == uniform("1/4", depth=depth)


@few
@given(numbers)
def test_verbs_make_what_the_classes_do(numbers: tuple) -> None:
    assert pqr(*numbers) == Strategy(*numbers)
    assert abc(*numbers) == ABC(*numbers).to_strategy()
    assert pqr(*numbers, plain_biases=True) == Strategy(*numbers, plain_biases=True)
    assert abc(*numbers, plain_biases=True).plain_biases
    assert (str(pqr(*numbers)), str(abc(*numbers, name="mine"))) == ("pqr", "mine")


@pytest.mark.covers("C59")
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


REFUSED = [
    (
        lambda: Strategy((0, 0), (0,) * 3, 0),
        "`p` and `q` must have one exponent for each layer",
    ),
    (lambda: ABC((0, 0), (0,) * 3, 0), "`a` and `b` must have one exponent for each layer"),
    (lambda: Strategy((0,), (0,), 0), "network of depth 2 or more; got 1 and 1"),
    (
        lambda: Strategy((0, float("nan")), (0, 0), 0),
        "`Strategy.p` must be .* each a finite number",
    ),
    (lambda: meta(1.5, depth=3), "`s` must be from 0"),
    (lambda: meta(-0.1, depth=3), "`s` must be from 0"),
    (lambda: uniform(0.6, depth=3), "`r` must be from 0 .maximal update. to 1/2"),
    (lambda: ntk(depth=1), "`depth` must be a whole number of at least 2, counting"),
    (lambda: mup(depth=1), "`depth` must be a whole number of at least 2, counting"),
    (lambda: mean_field(depth=1), "`depth` must be a whole number of at least 2, counting"),
    (lambda: ntk().at_depth(1), "`depth` must be a whole number of at least 2, counting"),
    (lambda: ntk(depth=2).hidden, "ntk has two layers, the first and the last"),
    (lambda: ntk(depth=2).at_depth(3), "no exponents for hidden layers between"),
    (lambda: UNEVEN.hidden, "layers 2 and 4 differ"),
    (lambda: UNEVEN.at_depth(6), "layers 2 and 4 differ"),
    (lambda: UNEVEN.at_depth(2), "Give layers 2 to L-1 the same exponents"),
]


def test_refusals() -> None:
    assert [] == unlike(REFUSED)
