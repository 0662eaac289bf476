"""The loss that costs no learning: of one constant answer, or of a table of the last token."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from scalewise._arrays import real_array
from scalewise._words import shown
from scalewise.plan._errors import PlanError


def baseline_of(given: Any) -> float | None:
    r"""The loss of the best predictor that needs no network.

    Of integers along one axis, which are labels, the entropy of their frequencies,
    $-\sum_yp_y\log p_y$. Of integers along two, sequences of tokens, the cross-entropy of the better of
    two tables: of frequencies, and of frequencies behind each token, $-\langle\log p(y|x)\rangle$. Tables are
    counted on every other sample and held against the rest, so that they know nothing of what they tell. Of
    other numbers the mean square about the mean of each column.

    Args:
        given: A number, which is kept; targets, of any library; or ``None``.

    Returns:
        In nats, or in squares of the targets' unit.

    Raises:
        PlanError: If it is not positive.

    Example:
        >>> import numpy as np
        >>> from scalewise.plan.proof._baseline import baseline_of
        >>> round(baseline_of(np.array([0, 1, 2, 3])), 4)  # log(4)
        1.3863
        >>> baseline_of(np.array([[1.0], [3.0]]))
        1.0
    """
    if given is None:
        return None
    try:
        if not isinstance(given, bool) and isinstance(given, float | int):
            value = float(given)
        else:
            y = real_array("`baseline`", given)
            value = float(y) if y.ndim == 0 else _of_targets(y)
    except (TypeError, ValueError):
        value = math.nan
    if not 0 < value < math.inf:
        raise PlanError(
            "`baseline` must be a positive number, the loss of a predictor that has learnt nothing, or targets "
            f"that are not all the same; got {shown(given)}."
        )
    return value


def _of_targets(y: np.ndarray) -> float:
    if y.dtype.kind not in "iub" or y.ndim > 2:
        flat = y.reshape(len(y), -1).astype(float)
        return float(((flat - flat.mean(axis=0)) ** 2).mean())
    if y.ndim == 1:
        _, counts = np.unique(y, return_counts=True)
        p = counts / counts.sum()
        return float(-(p * np.log(p)).sum())
    _, tokens = np.unique(y, return_inverse=True)
    return _of_tokens(tokens.reshape(y.shape))


def _of_tokens(tokens: np.ndarray) -> float:
    """The better of two tables, each half of the sequences told by the other half."""
    if len(tokens) < 2 or tokens.shape[1] < 2:
        raise ValueError
    size = int(tokens.max()) + 1
    one, two = [], []
    for known, asked in ((tokens[::2], tokens[1::2]), (tokens[1::2], tokens[::2])):
        # One more of each: a token that the known half lacks is rare, and not impossible.
        p = np.bincount(known.ravel(), minlength=size) + 1.0
        p /= p.sum()
        last, following = asked[:, :-1].ravel(), asked[:, 1:].ravel()
        pairs, counts = np.unique(
            known[:, :-1].ravel() * size + known[:, 1:].ravel(), return_counts=True
        )
        seen = np.bincount(known[:, :-1].ravel(), minlength=size)
        at = np.searchsorted(pairs, last * size + following).clip(max=len(pairs) - 1)
        hits = np.where(pairs[at] == last * size + following, counts[at], 0)
        # Counts, and as much of the frequencies as ten pairs weigh.
        behind = (hits + 10 * p[following]) / (seen[last] + 10)
        one.append(-np.log(p[following]))
        two.append(-np.log(behind))
    return float(min(np.concatenate(one).mean(), np.concatenate(two).mean()))
