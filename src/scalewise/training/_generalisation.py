r"""Errors of a trained ensemble: expected loss, and the probability of the wrong class.

An output on a test sample is Gaussian, with a mean $m_i$ for each output and one variance $v$ for all.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from itertools import combinations_with_replacement
from math import factorial, prod

import numpy as np
from jaxtyping import Float
from numpy.polynomial.hermite_e import hermeval
from scipy.special import ndtr

_NODES, _WEIGHTS = np.polynomial.hermite_e.hermegauss(96)  # products of Φ vary on the scale of 1
Outputs = Float[np.ndarray, "*time output sample"]
Variances = Float[np.ndarray, "*time sample"]


def expected_loss(
    mean: Outputs, variance: Variances, y: Float[np.ndarray, "output sample"]
) -> Variances:
    r"""$\frac12\sum_i\{(m_i-y_i)^2+v\}$ of each sample: half of squared bias plus variance.

    Source: PDLT (10.52), of one sample.
    """
    return 0.5 * (((mean - y) ** 2).sum(axis=-2) + len(y) * variance)


def true_classes(*targets: Float[np.ndarray, "_sample output"]) -> bool:
    """True if targets name classes: one output of -1 and 1, or one entry above others that are all alike."""
    y = np.concatenate(targets)
    if y.shape[1] == 1:
        return bool((np.abs(y) == 1).all())
    ordered = np.sort(y, axis=1)
    step = ordered[:, -1] - ordered[:, -2]
    alike = np.ptp(ordered[:, :-1], axis=1) <= 1e-12 * step
    return bool((alike & (step > 0)).all() and np.ptp(step) <= 1e-12 * step.max())


def class_error(
    mean: Outputs, variance: Variances, y: Float[np.ndarray, "output sample"]
) -> Variances:
    r"""The probability that a network drawn at random puts a sample into a wrong class.

    Of one output by its sign, $\Phi(-my/\sqrt v)$. Of several by the largest,
    $1-\int d\Phi(x)\prod_{j\ne c}\Phi(x+(m_c-m_j)/\sqrt v)$. Without variance it is 0 or 1, and shared in a tie.

    Source: PDLT (10.40), (10.41), (10.52), the error in place of the loss; derived.
    """
    spread = np.sqrt(variance)
    sure = spread == 0
    unit = np.where(sure, 1.0, spread)
    if len(y) == 1:
        ahead = mean[..., 0, :] * y[0]
        return np.where(sure, 0.5 * (1 - np.sign(ahead)), ndtr(-ahead / unit))
    right = np.expand_dims(np.argmax(y, axis=0), tuple(range(mean.ndim - 1)))
    own = np.take_along_axis(mean, right, axis=-2)
    ahead = own - mean
    other = np.arange(len(y))[:, None] != np.argmax(y, axis=0)
    correct = np.zeros_like(variance)
    for x, weight in zip(_NODES, _WEIGHTS / _WEIGHTS.sum(), strict=True):
        beats = np.where(other, ndtr(x + ahead / unit[..., None, :]), 1.0)
        correct += weight * beats.prod(axis=-2)
    tied = (ahead == 0).sum(axis=-2)
    return np.where(sure, 1 - (ahead >= 0).all(axis=-2) / tied, 1 - correct)


def class_error_nlo(
    mean: Float[np.ndarray, "output sample"],
    variance: Float[np.ndarray, " sample"],
    y: Float[np.ndarray, "output sample"],
    cumulants: Sequence[Float[np.ndarray, "..."]],
) -> Float[np.ndarray, " sample"]:
    r"""The coefficient of 1/n of the probability of a wrong class, from those of the cumulants of the outputs.

    $$P^{\{1\}}=\Big(\kappa_i\partial_i+\tfrac12\kappa_{ij}\partial_i\partial_j
      +\tfrac16\kappa_{ijk}\partial_i\partial_j\partial_k
      +\tfrac1{24}\kappa_{ijkl}\partial_i\partial_j\partial_k\partial_l\Big)P(m,v)$$

    with $P$ of `class_error` and derivatives by the mean. 0 where there is no variance, and no doubt.

    Args:
        mean: At infinite width.
        variance: Likewise, the same for all outputs.
        y: Targets that name classes.
        cumulants: Coefficients of 1/n of the first cumulant, the second and so on, symmetric in the outputs.

    Source: PDLT (4.44)-(4.64), the nearly-Gaussian distribution by its cumulants; (10.52); derived.
    """
    sure = variance == 0
    unit = np.where(sure, 1.0, np.sqrt(variance))
    if len(y) == 1:
        ahead = (mean * y)[0] / unit
        terms = [
            (-y[0] / unit) ** k * _slope(-ahead, k) * cumulant.reshape(-1) / factorial(k)
            for k, cumulant in enumerate(cumulants, 1)
        ]
        return np.where(sure, 0.0, np.sum(terms, axis=0))
    right = np.argmax(y, axis=0)
    # How far the right output is ahead of each of the others: their mean, and their cumulants.
    others = np.array([[j for j in range(len(y)) if j != c] for c in right])
    eye = np.eye(len(y))
    apart = (eye[right][:, None] - eye[others]) / unit[:, None, None]
    x = _NODES[:, None, None] + np.einsum("bji,ib->bj", apart, mean)
    most = len(cumulants)
    beats = np.stack([_slope(x, k) for k in range(most + 1)])
    total = np.zeros_like(variance)
    for k, cumulant in enumerate(cumulants, 1):
        for axis in range(k):
            cumulant = np.moveaxis(
                np.einsum("bji,i...b->j...b", apart, np.moveaxis(cumulant, axis, 0)), 0, axis
            )
        for ends in combinations_with_replacement(range(len(y) - 1), k):
            times = Counter(ends)
            each = [beats[times[j], :, :, j] for j in range(len(y) - 1)]
            found = np.tensordot(_WEIGHTS / _WEIGHTS.sum(), np.prod(each, axis=0), 1)
            total -= cumulant[ends] * found / prod(map(factorial, times.values()))
    return np.where(sure, 0.0, total)


def _slope(x: np.ndarray, order: int) -> np.ndarray:
    r"""$\Phi^{(k)}(x)$."""
    if not order:
        return ndtr(x)
    density = np.exp(-0.5 * x**2) / np.sqrt(2 * np.pi)
    return (-1) ** (order - 1) * hermeval(x, [0.0] * (order - 1) + [1.0]) * density
