r"""What a trained ensemble gets wrong: expected loss, and the probability of the wrong class.

An output on a test sample is Gaussian, with a mean $m_i$ for each output and one variance $v$ for all.
"""

from __future__ import annotations

import numpy as np
from jaxtyping import Float
from scipy.special import ndtr

__all__ = ["class_error", "expected_loss", "true_classes"]

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
    """Whether targets name classes: one output of -1 and 1, or one entry above others that are all alike."""
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
