"""Golden and property tests: powers fitted over widths and seeds, with errors that mean what they say."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from scalewise.plan import PlanError
from scalewise.plan._fits import Fit, Status, power_law

WIDTHS = np.array([64.0, 128.0, 256.0, 512.0, 1024.0])


@given(st.floats(-3, 3), st.floats(-0.2, 0.2), st.floats(1e-6, 1e6))
def test_a_law_without_noise_is_found_exactly(power: float, curvature: float, size: float) -> None:
    x = np.log2(WIDTHS)
    law = size * 2 ** (power * x + curvature * x**2)
    f = power_law(WIDTHS, np.stack([law, law], axis=1))
    assert f.status is Status.FITTED
    assert f.curvature == pytest.approx(curvature, abs=1e-9)
    # On evenly spaced points the line has the slope of the parabola in the middle.
    assert f.slope == pytest.approx(power + 2 * curvature * 8, abs=1e-9)
    assert f.last == pytest.approx(power + 2 * curvature * 10, abs=1e-8)
    assert f.sem == pytest.approx(0, abs=1e-9)


def test_uneven_widths() -> None:
    widths = np.array([10.0, 50.0, 60.0, 4000.0])
    x = np.log2(widths)
    law = 2 ** (0.3 * x - 0.05 * x**2)
    f = power_law(widths, np.stack([law] * 3, axis=1))
    line, square = np.polyfit(x, np.log2(law), 1)[0], np.polyfit(x, np.log2(law), 2)
    assert f.slope == pytest.approx(line)
    assert f.curvature == pytest.approx(square[0])
    assert f.last == pytest.approx(2 * square[0] * x[-1] + square[1])


def test_errors_are_those_of_repeated_measurements() -> None:
    rng = np.random.default_rng(0)
    spread = np.array([0.4, 0.35, 0.3, 0.25, 0.2])[:, None]
    fits = [
        power_law(WIDTHS, WIDTHS[:, None] ** -0.5 * 2 ** (spread * rng.normal(size=(5, 4))))
        for _ in range(2000)
    ]
    for name in ("slope", "curvature", "last"):
        values = np.array([getattr(f, name) for f in fits])
        sems = np.array([getattr(f, "sem" if name == "slope" else f"{name}_sem") for f in fits])
        # Of scatter that falls with the width the errors take the mean.
        assert np.sqrt(np.mean(sems**2)) == pytest.approx(values.std(), rel=0.12)
    slopes, errors = np.array([f.slope for f in fits]), np.array([f.error for f in fits])
    # As sure as three standard errors: 0.27 % outside, and the freedom is that of the scatter.
    assert np.mean(np.abs(slopes + 0.5) > errors) < 0.008


def test_the_scatter_of_every_width_counts() -> None:
    f = power_law(WIDTHS, WIDTHS[:, None] * np.array([[1.0, 2.0, 1.0, 2.0]]))
    assert f.dof == 15
    assert f.sem == pytest.approx(np.sqrt(1 / 3 / 4 / 10))
    # Student's t of 15 degrees where a normal deviate has 3.
    assert f.error == pytest.approx(3.586 * f.sem, rel=1e-3)


def test_what_has_no_power() -> None:
    sizes = np.ones((5, 2))
    for value, status in ((0.0, Status.ZERO), (np.inf, Status.DIVERGED), (np.nan, Status.ABSENT)):
        broken = sizes.copy()
        broken[3, 1] = value
        assert power_law(WIDTHS, broken).status is status
    both = sizes.copy()
    both[0, 0], both[1, 1] = np.nan, np.inf
    assert power_law(WIDTHS, both) == Fit(slope=np.inf, status=Status.DIVERGED)


def test_what_dies_out_is_no_power() -> None:
    law = 1 + 40 / WIDTHS
    wavy = np.stack([law, 1.001 * law, 0.999 * law], axis=1)
    f = power_law(WIDTHS, wavy)
    assert f.slope < -0.1
    assert f.tends_to(0.0, 0.0625)
    assert not f.tends_to(-0.5, 0.0625)
    wrong = power_law(WIDTHS, wavy * WIDTHS[:, None] ** -0.25)
    assert not wrong.tends_to(0.0, 0.0625)
    growing = power_law(WIDTHS, wavy * WIDTHS[:, None] ** 0.25)
    assert not growing.tends_to(0.0, 0.0625)


def test_curvature_is_doubt() -> None:
    rng = np.random.default_rng(1)
    noise = np.exp(0.01 * rng.normal(size=(5, 4)))
    pure = power_law(WIDTHS, WIDTHS[:, None] ** -0.25 * noise)
    assert pure.doubt - pure.error < 0.01
    # A correction that dies out: without the smallest width the slope is nearer to zero by what is doubted.
    bent = power_law(WIDTHS, (1 + 30 / WIDTHS[:, None]) * noise)
    x = np.log2(WIDTHS)
    rest = np.polyfit(x[1:], np.log2((1 + 30 / WIDTHS[:, None]) * noise)[1:].mean(axis=1), 1)[0]
    assert bent.tail == pytest.approx(rest)
    assert bent.doubt == pytest.approx(bent.error + rest - bent.slope)
    assert bent.doubt > 0.03
    assert power_law(WIDTHS, noise * np.inf).doubt == 0


def test_too_few_widths_or_seeds() -> None:
    with pytest.raises(PlanError, match=r"at least three different widths.*got 64, 128\."):
        power_law(WIDTHS[:2], np.ones((2, 3)))
    with pytest.raises(PlanError, match="got 64, 64, 128"):
        power_law(np.array([64.0, 64.0, 128.0]), np.ones((3, 3)))
    with pytest.raises(PlanError, match=r"`seeds` must be at least 2, .*got 1\."):
        power_law(WIDTHS, np.ones((5, 1)))
    with pytest.raises(PlanError, match="must be positive numbers; got 0, 1, 2"):
        power_law(np.arange(3.0), np.ones((3, 2)))
