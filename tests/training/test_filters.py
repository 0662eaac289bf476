"""Property: what training leaves of an error is what the printed steps leave, to 50 digits, wherever h is."""

import math

import mpmath
import numpy as np
import pytest

from scalewise.training import Bayes, GradientDescent, GradientFlow
from scalewise.training._filters import Filter, after_flow, after_schedule, after_steps

EIGENVALUES = np.array([0.0, 1e-300, 1e-18, 1e-9, 0.0025, 0.03, 0.5, 1.0, 1.5, 1.8])
STEPS = [0, 1, 2, 7, 400]


def stepped(h: float, rates: list[float], momentum: float, ridge: float) -> tuple[float, float]:
    """Gain and rest after steps of the coefficient c of a linear model, error e + hc and penalty ρc²/2."""
    mpmath.mp.dps = 50
    c = v = mpmath.mpf(0)
    for rate in rates:
        v = momentum * v - mpmath.mpf(rate) * (1 + (mpmath.mpf(h) + mpmath.mpf(ridge)) * c)
        c += v
    return float(-c), float(1 + mpmath.mpf(h) * c)


def unlike(found: Filter, expected: list[list[tuple[float, float]]], what: str) -> list[str]:
    wrong = []
    for name, values, place in (("gain", found.gain, 0), ("left", found.left, 1)):
        exact = np.array([[pair[place] for pair in row] for row in expected])
        # A factor of the error is at most 1 in a training that converges; a gain has no scale but its own.
        allowed = 1e-11 * np.abs(exact) + (1e-13 if name == "left" else 0.0)
        if not (np.abs(values - exact) <= allowed).all():
            wrong.append(f"{what} {name}: {np.abs(values - exact).max():.1e}")
    return wrong


@pytest.mark.covers("B25")
def test_gradient_descent_is_its_recursion() -> None:
    wrong = []
    for momentum in (0.0, 0.3, 0.81):
        for ridge in (0.0, 0.05):
            steps = np.array(STEPS, dtype=float)
            found = after_steps(EIGENVALUES, steps, 1.0, momentum=momentum, ridge=ridge)
            expected = [
                [stepped(h, [1.0] * t, momentum, ridge) for h in EIGENVALUES] for t in STEPS
            ]
            wrong += unlike(found, expected, f"momentum {momentum}, ridge {ridge}")
            rates = [1.0, 0.2, 0.7, 0.4, 0.9, 0.1, 0.5]
            found = after_schedule(
                EIGENVALUES, steps[:4], np.array(rates), momentum=momentum, ridge=ridge
            )
            expected = [
                [stepped(h, rates[:t], momentum, ridge) for h in EIGENVALUES] for t in STEPS[:4]
            ]
            wrong += unlike(found, expected, f"schedule, momentum {momentum}, ridge {ridge}")
    assert wrong == []


@pytest.mark.covers("B25")
def test_gradient_flow_is_exponential_also_where_nothing_is_learned() -> None:
    wrong = []
    times = np.array([0.0, 1e-12, 1.0, 1e4])
    for ridge in (0.0, 1e-9, 0.05):
        expected = []
        mpmath.mp.dps = 50
        for t in times:
            row = []
            for h in EIGENVALUES:
                x = mpmath.mpf(h) + mpmath.mpf(ridge)
                gain = -mpmath.expm1(-x * t) / x if x else mpmath.mpf(t)
                row.append((float(gain), float(1 - mpmath.mpf(h) * gain)))
            expected.append(row)
        wrong += unlike(after_flow(EIGENVALUES, times, ridge=ridge), expected, f"ridge {ridge}")
    end = after_flow(EIGENVALUES[4:], np.array([math.inf]), ridge=0.05)
    np.testing.assert_allclose(end.gain[0], 1 / (EIGENVALUES[4:] + 0.05), rtol=1e-15)
    np.testing.assert_allclose(end.left[0], 0.05 / (EIGENVALUES[4:] + 0.05), rtol=1e-15)
    assert wrong == []


def test_the_end_of_every_training_is_the_same() -> None:
    h, wrong = np.array([0.1, 0.7, 1.1]), []
    for algorithm in (
        GradientFlow(),
        GradientFlow(1e5),
        GradientDescent(),
        GradientDescent(1.0, 10_000),
        GradientDescent(1.0, 10_000, momentum=0.6),
        Bayes(),
    ):
        found = algorithm.filter(h)
        if not (np.allclose(found.gain[0], 1 / h, rtol=1e-12) and np.abs(found.left).max() < 1e-12):
            wrong.append(algorithm)
    assert wrong == []


def test_units_of_the_loss_convert_as_the_table_says() -> None:
    h, count = np.array([0.2, 3.0]), 12
    wrong = []
    for momentum in (0.0, 0.5):
        mean = GradientDescent(0.3, 5, momentum=momentum, loss_units="mean")
        total = GradientDescent(0.3 / count, 5, momentum=momentum)
        for found, expected in zip(mean.filter(h, targets=count), total.filter(h), strict=True):
            wrong += [] if np.allclose(found, expected, rtol=1e-14) else [mean]
        most = mean.maximal_rate(h, targets=count)
        assert most == pytest.approx(count * total.maximal_rate(h), rel=1e-15)
        assert most == pytest.approx(2 * (1 + momentum) * count / 3.0, rel=1e-15)
    # neural-tangents: exp(-h t learning_rate / y.size) at a rate of 1.
    flow = GradientFlow(7.0, loss_units="mean").filter(h, targets=count)
    np.testing.assert_allclose(flow.left[0], np.exp(-h * 7.0 / count), rtol=1e-15)
    schedule = GradientDescent([0.3, 0.1], loss_units="mean").filter(h, targets=count)
    np.testing.assert_allclose(
        schedule.left[0], (1 - 0.3 * h / count) * (1 - 0.1 * h / count), rtol=1e-15
    )
    assert wrong == []


def test_the_rate_nobody_named_is_safe_and_the_largest_one_is_where_steps_diverge() -> None:
    h = np.array([0.4, 5.0])
    for momentum, ridge in ((0.0, 0.0), (0.7, 0.0), (0.7, 1.0)):
        own = GradientDescent(momentum=momentum, ridge=ridge)
        assert own.rate_used(h) == pytest.approx(0.8 / (5.0 + ridge), rel=1e-15)
        most = own.maximal_rate(h)
        sizes = [
            np.abs(
                after_steps(h, np.array([2000.0]), f * most, momentum=momentum, ridge=ridge).gain
            ).max()
            for f in (0.99, 1.01)
        ]
        assert sizes[0] < 10 / h.min()
        assert sizes[1] > 1e3
