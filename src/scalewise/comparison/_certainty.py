r"""How sure an ensemble can be of the standard error that it finds in itself, and what it can decide.

Three things make $t=(\text{measured}-\text{predicted})/\text{sem}$ of few networks larger than a normal number. All
three are mended alike for every observable, trained or not:

- An ensemble that happens to measure too little also finds too small an error, because what is measured fluctuates
  in proportion to its size. Under the theory the error is that of an observable of the predicted size: it is
  multiplied by predicted over measured, where that is above 1.
- The error is estimated. $t$ follows Student's law with $\nu=(N-1)/(2+3\epsilon)$ degrees of freedom: $N-1$ of
  normal networks, of which skewness leaves the less the larger the expansion parameter $\epsilon$ is. A number of
  which less is estimated has more, by Welch and Satterthwaite: $\nu\,(\text{error}/\text{sem})^4$.
- A $t$ of few networks is told as the normal number that is as rare (`_normal.py`).

The constants 2 and 3 were chosen on ensembles of tanh, sin, gelu, ReLU and linear networks, and counted on
others: ``benchmarks/results/verdicts.md``.

Source: B. L. Welch, Biometrika 34 (1947) 28; the rest is derived and measured.
"""

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from scalewise.comparison._comparison import Scores
from scalewise.comparison._normal import deviation

_LOST, _LOST_BY_WIDTH = 2.0, 3.0
_STEP, _MOST_STEPS = 1.05, 600


def freedom(attrs: Mapping[str, Any], epsilon: float) -> float:
    """Degrees of freedom of the standard errors of an ensemble, at the largest expansion parameter of its networks.

    The attributes are those of a measurement: ``networks``, or the ``effective_networks`` of a posterior, and
    ``ensembles``, of how many of different seeds it is made.
    """
    networks = float(attrs.get("effective_networks", attrs["networks"]))
    return (networks - float(attrs.get("ensembles", 1))) / (_LOST + _LOST_BY_WIDTH * epsilon)


def shrunk(predicted: np.ndarray, measured: np.ndarray) -> np.ndarray:
    """By how much an observable was measured too small, at least 1; from two sizes of it."""
    return np.maximum(
        1.0, np.divide(predicted, measured, out=np.ones_like(predicted), where=measured > 0)
    )


def undecided(scores: Sequence[Scores], limit: float) -> dict[str, float]:
    """Observables of which no entry could be told from 0, and how many times as many networks would do.

    What the theory has as 0 is left out, for no ensemble could tell it from itself; so is what is small beside
    another observable, as a coefficient of 1/n is.
    """
    found = {}
    for s in scores:
        told = s.distinct & ~s.exact & (np.abs(s.predicted) > s.floor)
        if s.beside_another or not told.any():
            continue
        error, size = s.sem[told], np.abs(s.predicted[told])
        nu = np.broadcast_to(s.freedom, s.sem.shape)[told]
        if not (deviation(limit, nu) * error < size).any():
            found[s.name] = _more(error / size, nu, limit)
    return found


def why_undecided(found: Mapping[str, float], networks: int) -> str:
    """A sentence on them, empty if there are none."""
    if not found:
        return ""
    names, most = list(found), networks * max(found.values())
    digits = 10.0 ** max(math.floor(math.log10(most)) - 1, 0)
    which = f"{', '.join(names[:-1])} and {names[-1]}" if len(names) > 1 else names[0]
    which = which.replace("_", " ")
    return (
        f"{networks} networks are too few to tell {which} from 0. Take about "
        f"{math.ceil(most / digits) * digits:.0f} networks, or compare other `observables`."
    )


def _more(relative: np.ndarray, nu: np.ndarray, limit: float) -> float:
    """The factor by which networks must be more, until the entry that is known best differs from 0."""
    factor = 1.0
    for _ in range(_MOST_STEPS):
        factor *= _STEP
        if (deviation(limit, factor * nu) * relative < math.sqrt(factor)).any():
            break
    return factor
