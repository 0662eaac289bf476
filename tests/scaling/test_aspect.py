"""Golden and property tests: gamma, its inverses, the web of limits, powers of width and depth."""

import math
from fractions import Fraction as F

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from grids import each
from refusals import unlike
from scalewise.scaling import (
    LIMITS,
    OBSERVED,
    Strategy,
    depth_for_gamma,
    differential_order,
    gamma,
    limit_of,
    meta,
    mup,
    observable_order,
    standard,
    width_for_gamma,
)

few = settings(max_examples=25)
unit = st.fractions(min_value=0, max_value=1, max_denominator=20)
size = st.floats(1.0, 1e4)


@pytest.mark.covers("C62")
@few
@given(size, size, unit)
def test_gamma_and_its_inverses(L: float, n: float, s: F) -> None:
    value = gamma(L, n, s)
    assert value == pytest.approx(L * math.exp(-(1 - s) * math.log(n)), rel=1e-12)
    assert depth_for_gamma(value, n, s) == pytest.approx(L, rel=1e-12)
    if s < F(9, 10):
        assert width_for_gamma(value, L, s) == pytest.approx(n, rel=1e-10)


@pytest.mark.covers("C62")
def test_doubling_the_width_at_fixed_gamma() -> None:
    depths = [depth_for_gamma(0.25, 1024, F(k, 4)) for k in range(5)]
    assert depths == pytest.approx([256, 256 / 2**2.5, 8, 2**0.5, 0.25])
    ratios = [
        depth_for_gamma(1, 2048, F(k, 4)) / depth_for_gamma(1, 1024, F(k, 4)) for k in range(5)
    ]
    assert ratios == pytest.approx([2 ** (1 - k / 4) for k in range(5)])


@pytest.mark.covers("C65")
@each(
    ("s", "e", "name", "scale", "aspect", "learns"),
    [
        (0, 0, "frozen_ntk", "0", "0", False),
        (F(3, 4), 0, "frozen_ntk", "0", "0", False),
        (F(1, 4), F(1, 2), "frozen_ntk", "0", "0", False),
        (0, 1, "infinite_width_and_depth", "finite", "finite", True),
        (1, 0, "mean_field", "finite", "0", True),
        (F(1, 4), F(3, 4), "missing", "finite", "0", True),
        (F(99, 100), F(1, 100), "missing", "finite", "0", True),
        (F(1, 2), 1, "unbounded", "infinite", "finite", True),
        (1, F(1, 9), "unbounded", "infinite", "0", True),
        (0, 2, "unbounded", "infinite", "infinite", True),
    ],
)
def test_web_of_limits(s: F, e: F, name: str, scale: str, aspect: str, learns: bool) -> None:
    limit = limit_of(s, e)
    assert (limit.name, limit.gamma, limit.aspect_ratio) == (name, scale, aspect)
    assert limit.learns_representations is learns
    assert limit.summary.endswith(".")
    assert name in LIMITS


@pytest.mark.covers("C65")
@few
@given(unit, st.fractions(min_value=0, max_value=2, max_denominator=10))
def test_limits_agree_with_gamma_at_great_width(s: F, e: F) -> None:
    n = 1e30
    slope = math.log(gamma(n ** float(e), n, s)) / math.log(n)
    fate = "finite" if abs(slope) < 1e-9 else "0" if slope < 0 else "infinite"
    assert limit_of(s, e).gamma == fate


@pytest.mark.covers("C62")
@few
@given(unit, st.integers(2, 9), st.fractions(max_denominator=5))
def test_orders_on_the_family_in_every_gauge(s: F, depth: int, g: F) -> None:
    """Yaida (4.3), (4.6), (4.9): a gauge changes nothing that is observed."""
    orders = [observable_order(meta(s, depth=depth).gauge(g), name) for name in OBSERVED]
    assert [o.width for o in orders] == [-s / 2, 0, -1, s - 1, s - 1]
    assert [o.depth for o in orders] == [0, 0, 1, 1, 1]


@pytest.mark.covers("C62")
@few
@given(unit, st.integers(1, 12))
def test_hierarchy_of_differentials(s: F, k: int) -> None:
    """(A15), (A17): k = 2m+1 is gamma^m with gamma = n^{s-1}; k = 2m is gamma^{m-1}/n."""
    m, width = k // 2, differential_order(meta(s, depth=2), k).width
    assert width == (-(1 - s) * m if k % 2 else -(1 - s) * (m - 1) - 1)


@each("strategy", [meta("1/3", depth=4), mup(depth=4), standard(depth=4)])
def test_two_ways_to_the_first_three(strategy: Strategy) -> None:
    for k, name in ((1, "eta_ntk"), (2, "z_eta2_dntk"), (3, "eta3_ddntk_I")):
        assert differential_order(strategy, k) == observable_order(strategy, name)


@pytest.mark.covers("C62")
def test_orders_off_the_family() -> None:
    """Standard parametrisation: each update grows with the width; one slow layer takes L^1 away."""
    expected = dict(zip(OBSERVED, (0, 1, 1, 2, 2), strict=True))
    for name, power in expected.items():
        order = observable_order(standard(depth=6), name)
        assert (order.width, order.depth) == (power, 0 if name == "z" else None)
    slow = Strategy((0, 0, 0), (0, 1, 0), 0)
    assert observable_order(slow, "eta_ntk").width == 0
    assert observable_order(slow, "eta3_ddntk_I").depth is None
    # Only the last layer learns: dH needs a hidden layer to move, so it falls with that layer's rate.
    last = Strategy((0, 0, 0), (2, 3, 0), 0)
    assert [observable_order(last, name).width for name in OBSERVED] == [0, 0, -3, -5, -3]


REFUSED = [
    (lambda: gamma(0, 10, 0), "`L` must be a positive finite number"),
    (lambda: gamma(4, float("inf"), 0), "`n` must be a positive finite number"),
    (lambda: gamma(4, 10, 2), "`s` must be from 0"),
    (lambda: depth_for_gamma(-1, 10, 0), "`gamma` must be a positive"),
    (lambda: width_for_gamma(1, 4, 1), "leaves gamma = L at every width"),
    (lambda: width_for_gamma(1e-9, 4, "999/1000"), "too close to 1"),
    (lambda: limit_of(0, -1), "`depth_exponent` must be a power of n of at least 0"),
    (
        lambda: observable_order(meta(0, depth=2), "loss"),
        "`observable` must be 'z', .*; got 'loss'",
    ),
    (lambda: differential_order(meta(0, depth=2), 0), "`k` must be a whole number of at least 1"),
    (
        lambda: observable_order(Strategy((0, "1/2", 0), (0, 0, 0), 0), "z"),
        "initialisation of hidden layer 2 with the width",
    ),
]


def test_refusals() -> None:
    assert [] == unlike(REFUSED)
