"""Losses of one sample, and their slopes."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from scalewise._checked import checked
from scalewise._readable import readable
from scalewise._words import refuse_name

OfOutputs = Callable[[np.ndarray, np.ndarray], np.ndarray]


@checked
@dataclass(frozen=True)
@readable
class Loss:
    r"""A loss of one sample, $\mathcal L(f,y)$, and its gradient $\chi=\partial\mathcal L/\partial f$.

    Args:
        value: From outputs (…, sample, output) and targets (sample, output) to (…, sample).
        gradient: From the same to the shape of the outputs.
        name: For results.
        probabilities: Of classes, from outputs to the same shape, for losses that mean some: of one output that of
            the class 1.
    """

    value: OfOutputs
    gradient: OfOutputs
    name: str = "loss"
    probabilities: Callable[[np.ndarray], np.ndarray] | None = None

    def values(self, f: np.ndarray, y: np.ndarray) -> np.ndarray:
        """The loss of each sample, (..., sample), at outputs `f` and targets `y`.

        Raises:
            ValueError: If `value` gives another shape.
        """
        return self._checked("value", self.value(f, y), f.shape[:-1])

    def slopes(self, f: np.ndarray, y: np.ndarray) -> np.ndarray:
        """The gradient of the mean over the samples with respect to the outputs `f`, at targets `y`.

        Raises:
            ValueError: If `gradient` gives another shape.
        """
        return self._checked("gradient", self.gradient(f, y), f.shape) / f.shape[-2]

    def _checked(self, part: str, found: np.ndarray, shape: tuple[int, ...]) -> np.ndarray:
        array = np.asarray(found)
        if array.shape != shape:
            raise ValueError(
                f"The loss {self.name} must take outputs (..., sample, output) and targets to a `{part}` of shape "
                f"{shape} here; got shape {array.shape}."
            )
        return array


def _softmax(f: np.ndarray) -> np.ndarray:
    e = np.exp(f - f.max(axis=-1, keepdims=True))
    return e / e.sum(axis=-1, keepdims=True)


def _log_sum_exp(f: np.ndarray) -> np.ndarray:
    top = f.max(axis=-1, keepdims=True)
    return (top + np.log(np.exp(f - top).sum(axis=-1, keepdims=True)))[..., 0]


# Functions with names, so that a loss is equal to itself in another process.
def _half_square(f: np.ndarray, y: np.ndarray) -> np.ndarray:
    return ((f - y) ** 2).sum(axis=-1) / 2


def _difference(f: np.ndarray, y: np.ndarray) -> np.ndarray:
    return f - y


def _logistic(f: np.ndarray, y: np.ndarray) -> np.ndarray:
    return np.logaddexp(0.0, -y * f).sum(axis=-1)


def _logistic_slope(f: np.ndarray, y: np.ndarray) -> np.ndarray:
    return -y * np.exp(-np.logaddexp(0.0, y * f))


def _probability(f: np.ndarray) -> np.ndarray:
    return np.exp(-np.logaddexp(0.0, -f))


def _cross_entropy(f: np.ndarray, y: np.ndarray) -> np.ndarray:
    return _log_sum_exp(f) - (y * f).sum(axis=-1)


def _cross_entropy_slope(f: np.ndarray, y: np.ndarray) -> np.ndarray:
    return _softmax(f) - y


LOSSES = {
    "mse": Loss(_half_square, _difference, "mse"),
    # Targets of -1 and 1; targets that sum to 1.
    "logistic": Loss(_logistic, _logistic_slope, "logistic", _probability),
    "cross_entropy": Loss(_cross_entropy, _cross_entropy_slope, "cross_entropy", _softmax),
}


def known_loss(loss: str | Loss) -> Loss:
    """A loss by its name, or the loss itself."""
    if isinstance(loss, Loss):
        return loss
    if loss not in LOSSES:
        refuse_name("loss", loss, LOSSES, "a Loss")
    return LOSSES[loss]
