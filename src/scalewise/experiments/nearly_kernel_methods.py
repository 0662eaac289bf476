r"""Nearly-kernel methods: four ways to train a model whose features learn a little.

Shown: the prediction of a quadratic model on a test sample, less that of its linear part, over $\epsilon$, for four
ways of training; each beside models that are really fitted or descended. Then what these predictions of first order
leave out, and polynomials through a noisy line.
$$z=\sum_jW_j\phi_j+\tfrac\epsilon2\sum W_{j_1}W_{j_2}\psi_{j_1j_2},\qquad
  m=k\tilde k^{-1}y+\sum[\mu-k\tilde k^{-1}\mu](Z_A,Z_B)yy$$
Look for: four slopes, of which the text takes two to be one; a remainder of $\epsilon^2$; nearly as many turns as
the degree allows.

Source: PDLT (11.104)-(11.142), footnote 25 corrected: plots F11-3 and F11-4 for chapter 11.
"""

from __future__ import annotations

import numpy as np
import xarray as xr
from matplotlib.axes import Axes
from numpy.random import Generator

from scalewise.experiments._form import computed, each, power, settings
from scalewise.experiments._look import COLORS, MUTED, Number, attributes, log_axes, panels, points
from scalewise.training.nearly_kernel import (
    Descent,
    DirectOptimisation,
    MinimumNorm,
    QuadraticModel,
    TrainedKernel,
    nearly_kernel_prediction,
    nearly_linear_regression,
    polynomial_features,
    ridge_regression,
    trained_kernel_prediction,
    turning_points,
)

TITLE = "Four ways to train what is nearly a kernel method"
TEXT = (
    "A quadratic model with more parameters than samples. At ε = 0 all ways agree; at first order the "
    "pseudoinverse, the trained kernel, gradient descent and the interpolant of least norm give four "
    "answers. Points: models fitted and descended. What is left falls as ε². Right: a noisy line, fitted "
    "by a straight line and by a polynomial with as many coefficients as samples."
)
_TRAIN, _FEATURES = 3, 8


@settings(epsilons=(0.01, 0.005), lines=40)  # small: fewer lines
class Config:
    r"""Settings.

    Args:
        epsilons: $\epsilon$, of which the smallest two give the power.
        rate: $\eta$ over the largest rate.
        degree: $n_f$ of the polynomials; as many samples and one more.
        noise: Standard deviation of their targets about a line.
        lines: Noisy lines that are fitted.
        seed: Of features, meta features, targets.
    """

    epsilons: tuple[float, ...] = (0.04, 0.02, 0.01, 0.005)
    rate: float = 0.4
    degree: int = 9
    noise: float = 0.2
    lines: int = 200
    seed: int = 0


def run(config: Config) -> xr.Dataset:
    r"""Predict, fit and descend.

    Returns:
        Over (way, epsilon): ``moved``, the prediction on the test less that at $\epsilon=0$, ``fitted`` by the
        model itself, ``left``, their difference. Over (kind, place): ``line``, one polynomial. Over kind:
        ``turns``, the mean number of turning points, with ``turns_sem``, and ``error``, the root mean square
        distance from the line.
    """
    ways = {
        "direct optimisation": DirectOptimisation(),
        "trained kernel": TrainedKernel(),
        "gradient descent": Descent(config.rate),
        "least norm": MinimumNorm(),
    }
    found = computed(_cell, {"way": ways, "epsilon": list(config.epsilons)}, config=config)
    data = found.merge(_lines(config))
    data.attrs = attributes(config)
    return data


def _model(config: Config, epsilon: float) -> tuple[QuadraticModel, np.ndarray]:
    """Three training samples and a test; rates are in units of the largest eigenvalue of their kernel."""
    rng = np.random.default_rng([config.seed, 8])
    phi = rng.standard_normal((_TRAIN + 1, _FEATURES))
    phi[0] += phi[-1]  # so that the test has something to learn from
    phi /= np.sqrt(np.linalg.eigvalsh(phi[:_TRAIN] @ phi[:_TRAIN].T)[-1])
    psi = rng.standard_normal((_TRAIN + 1, _FEATURES, _FEATURES))
    return QuadraticModel(phi, psi + psi.transpose(0, 2, 1), epsilon), np.array(
        [[1.0], [-0.4], [0.7]]
    )


def _cell(way, epsilon: float, *, config: Config) -> xr.Dataset:
    model, y = _model(config, epsilon)
    found = nearly_kernel_prediction(model.kernel, model.meta_kernel, y, way)[-1, 0]
    linear, _ = _model(config, 0.0)
    base = nearly_kernel_prediction(linear.kernel, linear.meta_kernel, y, way)[-1, 0]
    match way:
        case DirectOptimisation():
            fitted = model.outputs(nearly_linear_regression(model, y).weights)[-1, 0]
        case TrainedKernel():
            fitted = trained_kernel_prediction(model.kernel, model.meta_kernel, y)[-1, 0]
        case MinimumNorm():
            fitted = model.outputs(_least_norm(model, y))[-1, 0]
        case _:
            fitted = model.outputs(_descended(model, y, config.rate))[-1, 0]
    return xr.Dataset({"moved": found - base, "fitted": fitted - base, "left": fitted - found})


def _descended(model: QuadraticModel, y: np.ndarray, rate: float) -> np.ndarray:
    W = np.zeros((1, _FEATURES))
    slowest = np.linalg.eigvalsh(model.kernel[:_TRAIN, :_TRAIN])[0]
    for _ in range(int(30 / rate / slowest)):
        W = model.descended(W, y, rate)
    return W


def _least_norm(model: QuadraticModel, y: np.ndarray) -> np.ndarray:
    """By Newton's method for the weights, each step the shortest that keeps to the fit."""
    W = ridge_regression(model, y, 1e-9).weights
    for _ in range(200):
        J = model.effective_features(W)[0, :_TRAIN]
        gap = y[:, 0] - model.outputs(W)[:_TRAIN, 0]
        # The point of least norm on the tangent of all weights that fit.
        W = (np.linalg.pinv(J) @ (gap + J @ W[0]))[None]
    return W


def _lines(config: Config) -> xr.Dataset:
    """Polynomials with as many coefficients as samples, and straight lines."""
    rng: Generator = np.random.default_rng([config.seed, 9])
    x, place = np.linspace(-1, 1, config.degree + 1), np.linspace(-1, 1, 201)
    y = 0.5 * x + 0.2 + config.noise * rng.standard_normal((config.lines, len(x)))
    curves, turns, errors = [], [], []
    for degree in (config.degree, 1):
        W = np.linalg.pinv(polynomial_features(x, degree)) @ y.T
        z = polynomial_features(place, degree) @ W
        curves.append(z[:, 0])
        turns.append([turning_points(w, -1.0, 1.0) for w in W.T])
        errors.append(np.sqrt(np.mean((z - 0.5 * place[:, None] - 0.2) ** 2)))
    counted = np.array(turns, dtype=float)
    return xr.Dataset(
        {
            "line": (("kind", "place"), curves),
            "turns": ("kind", counted.mean(axis=1)),
            "turns_sem": ("kind", counted.std(axis=1, ddof=1) / config.lines**0.5),
            "error": ("kind", errors),
            "sampled": ("sample", y[0]),
        },
        {"kind": [f"degree {config.degree}", "degree 1"], "place": place, "sample": x},
    )


def numbers(dataset: xr.Dataset) -> list[Number]:
    """The move of each way, and the power of the rest."""
    rows = []
    first = float(dataset.epsilon[-2])
    for way, one in each(dataset.isel(epsilon=[-2, -1]), "way"):
        expected = float(one.moved[0])
        taken = float(4 * one.fitted[1] - one.fitted[0])  # the second order cancels
        rows.append(
            Number(
                f"moved at ε = {first:g}, {way}: theory, models",
                expected,
                taken,
                0.0,
                0.02 * abs(expected),
            )
        )
        if np.abs(one.left).max() > 1e-9:
            slope, _ = power(one.epsilon, one.left)
            rows.append(Number(f"power of ε in what is left, {way}", 2.0, slope, 0.0, 0.35))
    return rows


@panels(3, height=3.6)
def figure(dataset: xr.Dataset, left: Axes, middle: Axes, right: Axes) -> None:
    """Predictions, remainders, polynomials."""
    for k, (way, one) in enumerate(each(dataset, "way")):
        left.plot([0, *one.epsilon], [0, *one.moved], color=COLORS[k], label=way)
        points(left, one.epsilon, one.fitted, color=COLORS[k])
        middle.plot(one.epsilon, np.abs(one.left), "o-", ms=3.6, color=COLORS[k])
    left.set(xlabel="ε", title="prediction on a test, less that at ε = 0")
    left.legend(loc="best")
    log_axes(middle)
    middle.set(xlabel="ε", title="what the first order leaves")
    for k, (kind, one) in enumerate(each(dataset, "kind")):
        label = f"{kind}: {float(one.turns):.1f} turns"
        right.plot(dataset.place, one.line, color=COLORS[1 - k], label=label)
    right.plot(dataset.sample, dataset.sampled, "s", color=MUTED, ms=4)
    right.set(xlabel="x", ylim=(-1.2, 1.8), title="polynomials through a noisy line")
    right.legend(loc="upper left")
