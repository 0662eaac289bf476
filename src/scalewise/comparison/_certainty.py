r"""How sure an ensemble can be of the standard error that it finds in itself, and what it can decide.

Some things make $t=(\text{measured}-\text{predicted})/\text{sem}$ of few networks larger than a normal number. All
are mended alike for every observable, trained or not:

- An ensemble that happens to measure too little also finds too small an error, because what is measured fluctuates
  in proportion to its size. Under the theory the error is that of an observable of the predicted size: it is
  multiplied by predicted over measured, where that is above 1.
- The error is estimated, and $t$ follows Student's law. A mean over $N$ numbers of kurtosis $k$ has
  $2(N-1)/(k-1)$ degrees of freedom. What a network has of a layer is a product over the layers below, nearly
  log-normal with the expansion parameter $\epsilon$ as its relative variance, so that
  $k(\epsilon)=w^4+2w^3+3w^2-3$ with $w=1+\epsilon$: 3 of wide networks. Means are given half of these degrees of
  freedom, for NTKs have heavier tails than metrics; covariances a seventh of those of means of wide networks, since
  the square of a normal number has the kurtosis 15. A number of which less is estimated has more, by Welch and
  Satterthwaite: $\nu\,(\text{error}/\text{sem})^4$.
- Trained networks are treated alike, with the small parameter of training, and all their numbers as means.
- A $t$ of few networks is told as the normal number that is as rare (`_normal.py`).

Above $\epsilon=1/2$ neither the error nor what the theory neglects is known, and nothing is decided. The factors 2
and 7 were chosen on some settings and counted on others, of which three had not been looked at before the form of
this law was chosen: ``benchmarks/results/verdicts.md`` marks them.

Source: B. L. Welch, Biometrika 34 (1947) 28; the rest is derived and measured.
"""

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from scipy import special

from scalewise._words import listed
from scalewise.comparison._comparison import Scores, in_words
from scalewise.comparison._normal import deviation
from scalewise.training.spi import LARGE

_FALSE_ALARMS = 1e-3
_OF_MEANS, _OF_COVARIANCES = 2.0, 7.0
_STEP, _MOST_STEPS = 1.05, 600


def limit_among(count: int, *, least: float = 4.0) -> float:
    """Standard errors that fewer than one in a thousand sets of so many right numbers exceed; at least `least`."""
    if count == 0:
        return least
    return max(least, float(math.sqrt(2.0) * special.erfcinv(min(_FALSE_ALARMS / count, 1.0))))


def freedom(attrs: Mapping[str, Any], each: np.ndarray) -> np.ndarray:
    """Degrees of freedom of the standard errors of an ensemble: one for `each` so many networks.

    The attributes are those of a measurement: ``networks``, or the ``effective_networks`` of a posterior, and
    ``ensembles``, of how many of different seeds it is made.
    """
    networks = float(attrs.get("effective_networks", attrs["networks"]))
    return np.asarray((networks - float(attrs.get("ensembles", 1))) / each)


def lost(epsilon: np.ndarray, *, covariance: bool) -> np.ndarray:
    """Share of the networks lost at these expansion parameters, by the kurtosis of log-normal numbers."""
    w = 1 + epsilon
    kurtosis = w**4 + 2 * w**3 + 3 * w**2 - 3
    return np.asarray((_OF_COVARIANCES if covariance else _OF_MEANS) * (kurtosis - 1) / 2)


def shrunk(predicted: np.ndarray, measured: np.ndarray) -> np.ndarray:
    """By how much an observable was measured too small, at least 1; from two sizes of it."""
    ratio = np.divide(predicted, measured, out=np.ones_like(predicted), where=measured > 0)
    return np.asarray(np.maximum(1.0, ratio))


def undecided(scores: Sequence[Scores], limit: float) -> dict[str, float]:
    """Observables of which no entry could be told from 0, and how many times as many networks would do.

    That is infinite where every entry is of a layer of which nothing is decided. What the theory has as 0 is left
    out, for no ensemble could tell it from itself; so is what is small beside another observable, as a coefficient
    of 1/n is.
    """
    found = {}
    for s in scores:
        told = s.distinct & ~s.exact & (np.abs(s.predicted) > s.floor)
        if s.beside_another or not told.any():
            continue
        told &= ~s.in_layers(s.beyond)
        error, size = s.sem[told], np.abs(s.predicted[told])
        nu = np.broadcast_to(s.freedom, s.sem.shape)[told]
        if not told.any():
            found[s.name] = math.inf
        elif not (deviation(limit, nu) * error < size).any():
            found[s.name] = _more(error / size, nu, limit)
    return found


def why_undecided(
    found: Mapping[str, float], scores: Sequence[Scores], networks: int, *, without: bool
) -> str:
    """Sentences on what the verdict leaves out, or `without` one on why there is none; empty if nothing is."""
    told = []
    few = {name: factor for name, factor in found.items() if math.isfinite(factor)}
    if few:
        most = networks * max(few.values())
        digits = 10.0 ** max(math.floor(math.log10(most)) - 1, 0)
        told.append(
            f"{networks} networks are too few to tell {in_words(few)} from 0"
            f"{'' if without else ', which the verdict leaves out'}. "
            f"Take about {math.ceil(most / digits) * digits:.0f} networks, or compare other `observables`."
        )
    beyond = sorted({int(i) for s in scores if s.layers is not None for i in s.layers[s.beyond]})
    if beyond:
        layers = f"layer{'s' if len(beyond) > 1 else ''} {listed(map(str, beyond), 'and')}"
        told.append(
            f"The verdict leaves out {layers}, where the expansion parameter exceeds {LARGE:g}: what the theory "
            "neglects may be as large as what is there. Take wider networks."
        )
    return " ".join(told)


def _more(relative: np.ndarray, nu: np.ndarray, limit: float) -> float:
    """The factor by which networks must be more, until the entry that is known best differs from 0."""
    factor = 1.0
    for _ in range(_MOST_STEPS):
        factor *= _STEP
        if (deviation(limit, factor * nu) * relative < math.sqrt(factor)).any():
            break
    return factor
