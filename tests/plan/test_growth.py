"""Golden tests: powers of a fan-in as powers of the width, with sizes that grow as they like."""

from fractions import Fraction

import numpy as np
import pytest

from described_models import planned
from scalewise import scaling
from scalewise.plan import Kind, ModelDescription, TensorDescription, predicted
from scalewise.plan._growth import Growth, growth_between, growth_over, of_width, written
from scalewise.plan._rules import Powers


def odd(n: int, depth: int) -> ModelDescription:
    """A bilinear layer, and a matrix to sizes that are rounded up to multiples of 64."""
    hidden = 64 * -(-8 * n // (3 * 64))
    tensors = [
        ("first.weight", (n, 10)),
        ("pair.weight", (n, n, n)),
        ("up.weight", (hidden, n)),
        ("down.weight", (n, hidden)),
        ("head.weight", (5, n)),
    ]
    return ModelDescription(
        tuple(
            TensorDescription(
                name, shape, Kind.MATRIX, tuple(range(1, len(shape))), (0,), name[:-7], "Linear"
            )
            for name, shape in tensors
        )
    )


SIZES = (16, 32, 64, 128, 256)


def test_predictions_are_the_slopes_of_the_plans_own_factors() -> None:
    plans = [planned(scaling.mup(), "sgd", model=odd, base=16, target=n) for n in SIZES]
    x = np.log(np.array(SIZES, dtype=float))
    for name in ("pair.weight", "up.weight", "down.weight", "head.weight"):
        growth = growth_over(plans, name)
        p = predicted(plans[-1], name, growth={name: growth})
        for setting, power in (("init", p.weight), ("lr", p.rate)):
            factors = np.log([getattr(q.factors(name), setting) for q in plans])
            assert float(power) == pytest.approx(np.polyfit(x, factors, 1)[0], abs=0.012), name
    assert growth_over(plans, "pair.weight") == Growth(Fraction(2), Fraction(1))
    assert growth_over(plans, "head.weight") == Growth(Fraction(1), Fraction(0))
    # 64, 128, 192, 384, 704 units.
    assert float(growth_over(plans, "down.weight").fan_in) == pytest.approx(0.86, abs=0.02)


def test_from_base_to_target() -> None:
    plan = planned(scaling.mup(), "sgd", model=odd, base=16, target=256)
    assert growth_between(plan, plan["pair.weight"]) == Growth(Fraction(2), Fraction(1))
    assert growth_between(plan, plan["first.weight"]) == Growth(Fraction(0), Fraction(1))
    still = planned(scaling.mup(), "sgd", model=odd, base=16, target=16)
    assert growth_between(still, still["head.weight"]) == Growth(Fraction(1), Fraction(0))
    assert growth_between(still, still["pair.weight"]) == Growth()


def test_written_powers() -> None:
    assert of_width(Powers(Fraction(-1, 2), Fraction(1)), Growth(Fraction(2))) == 0
    assert [written(p) for p in (Fraction(-1, 2), Fraction(3, 16), Fraction(-433, 1000), 0.25)] == [
        "-1/2", "3/16", "-0.43", "0.25",
    ]  # fmt: skip
