"""Conformance: every named strategy through every condition; golden values on the family."""

from fractions import Fraction as F

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from grids import each
from scalewise.scaling import (
    Strategy,
    feature_learning,
    has_equivalent_rates,
    is_meta_critical,
    learns_at_finite_rate,
    maximal_initialisation,
    maximal_updates,
    mean_field,
    meta,
    metaparameter_of,
    mup,
    ntk,
    standard,
)

few = settings(max_examples=25)
unit = st.fractions(min_value=0, max_value=1, max_denominator=20)
exponent = st.fractions(min_value=-2, max_value=2, max_denominator=8)
DEPTH = 5
# strategy: meta-critical, equivalent rates, finite learning, feature learning, maximal initialisation
TABLE = [
    (ntk(depth=DEPTH), True, True, True, F(1, 2), 0),
    (meta("1/2", depth=DEPTH), True, True, True, F(1, 4), 0),
    (mup(depth=DEPTH), True, True, True, 0, 0),
    (mean_field(depth=DEPTH), True, True, True, 0, 0),
    # lr of order one: r = -1 in the table of Yang & Hu, and A = 1/2.
    (standard(depth=DEPTH), True, False, False, -1, F(-3, 2)),
]


@pytest.mark.covers("C59", "C60")
@each(("strategy", "critical", "rates", "finite", "features", "start"), TABLE)
def test_table(
    strategy: Strategy, critical: bool, rates: bool, finite: bool, features: F, start: F
) -> None:
    assert is_meta_critical(strategy) is critical
    assert has_equivalent_rates(strategy) is rates
    assert learns_at_finite_rate(strategy) is finite
    assert feature_learning(strategy) == features
    assert maximal_initialisation(strategy) == start


@pytest.mark.covers("C59", "C60")
@few
@given(unit, exponent, st.integers(2, 8))
def test_family_meets_every_principle_in_every_gauge(s: F, g: F, depth: int) -> None:
    member = meta(s, depth=depth).gauge(g)
    assert is_meta_critical(member)
    assert has_equivalent_rates(member)
    assert learns_at_finite_rate(member)
    assert metaparameter_of(member) == s
    assert feature_learning(member) == (1 - s) / 2
    assert maximal_updates(member) == ((1 - s) / 2,) * (depth - 1)
    assert maximal_initialisation(member) == 0


@pytest.mark.covers("C59")
@few
@given(st.integers(2, 5), st.lists(exponent, min_size=5, max_size=5), exponent, exponent, st.data())
def test_the_principles_leave_the_family_only(
    depth: int, p: list[F], q_1: F, r: F, data: st.DataObject
) -> None:
    """Solving (3.3), (3.11), (3.14) by hand gives a gauge orbit of the family, and nothing else."""
    hidden = [F(0)] * (depth - 1)
    s = p[0]
    q = [q_1] * (depth - 1) + [q_1 + s]
    found = Strategy([*hidden, s], q, q_1 + s)
    expected = s if 0 <= s <= 1 else None
    assert metaparameter_of(found) == expected
    if expected is not None:
        assert found.equivalent(meta(s, depth=depth))
    i = data.draw(st.integers(0, depth - 1))
    broken = Strategy(found.p, [*q[:i], q[i] + 1, *q[i + 1 :]], found.r)
    assert metaparameter_of(broken) is None
    assert metaparameter_of(Strategy([1, *found.p[1:]], q, found.r)) is None or depth == 2


@pytest.mark.covers("C60")
@each("layer", [0, 1, 2])
def test_slow_layers_are_not_updated_maximally(layer: int) -> None:
    strategy = mup(depth=4)
    q = list(strategy.q)
    q[layer] += F(1, 3)
    updates = maximal_updates(Strategy(strategy.p, q, 0))
    assert updates == tuple(F(1, 3) if i == layer else 0 for i in range(3))


def test_a_readout_that_hardly_moves_counts_with_its_initialisation() -> None:
    """A = (p_L + 1)/2 = 2/3 and not U = 3 shrinks what reaches the hidden layers: counted by hand."""
    slow = Strategy((0, 0, F(1, 3)), (0, F(1, 4), 2), 0)
    assert feature_learning(slow) == F(2, 3)
    assert maximal_updates(slow) == (F(2, 3), F(11, 12))
    assert maximal_initialisation(slow) == F(2, 3) + F(2, 3) - 1
