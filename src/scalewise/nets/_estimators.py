r"""The table of estimators: how each observable is read off the sums over an ensemble.

A new observable is a row here and a draw in one of the families.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np

from scalewise.nets._ensemble import Kind, Sums
from scalewise.nets._moments import CovarianceSums, MeanSums
from scalewise.nets._ntk import first_ntk
from scalewise.nets._ntk_statistics import Statistics
from scalewise.nets._program import first_layer as first_of_program
from scalewise.nets._program import measured_layers
from scalewise.nets._sampler import first_metric
from scalewise.networks import Network

Reading = Callable[[Sums, np.ndarray, int], tuple[np.ndarray, np.ndarray]]


@dataclass(frozen=True)
class SumPart:
    """A quantity that is drawn of every network of a family, and summed.

    Args:
        family: Key of `FAMILIES`.
        name: Among the parts of the family.
        entries: From the number of samples to how many numbers it is in each layer.
    """

    family: str
    name: str
    entries: Callable[[int], int]


@dataclass(frozen=True)
class Estimator:
    """How one observable is measured.

    Args:
        part: The ensemble that is drawn.
        sums: What must be summed of it.
        read: From sums, widths of the layers below and the number of samples to values and standard
            errors, both (layers, sample, ...).
        first: The exact value in layer 1; zero by default.
        slope_of: In words, what it is the slope of in 1/n, if it is one: then `read` gives that, at
            each width, and the fit over widths its slope.
    """

    part: SumPart
    sums: Kind
    read: Reading
    first: Callable[[Any, np.ndarray], np.ndarray] | None = None
    slope_of: str = ""

    @property
    def least(self) -> int:
        """Fewest networks from which a standard error can be made."""
        return 4 if self.sums is CovarianceSums else 2


def _pairs(samples: int) -> int:
    return samples * (samples + 1) // 2


def _index(samples: int) -> np.ndarray:
    """Where the pair (a, b) stands in the list of pairs a <= b."""
    index = np.zeros((samples, samples), dtype=int)
    index[np.triu_indices(samples)] = np.arange(_pairs(samples))
    return np.maximum(index, index.T)


def _mean_of_pairs(sums: Sums, n: np.ndarray, samples: int) -> tuple[np.ndarray, np.ndarray]:
    index = _index(samples)
    return sums.mean()[:, index], sums.mean_sem()[:, index]


def _mean_of_omega(sums: Sums, n: np.ndarray, samples: int) -> tuple[np.ndarray, np.ndarray]:
    """The mean NTK of the layer above but for lambda_b, which is the same at all widths."""
    index = _index(samples) + _pairs(samples)
    return sums.mean()[:, index], sums.mean_sem()[:, index]


def _mean_of_quads(sums: Sums, n: np.ndarray, samples: int) -> tuple[np.ndarray, np.ndarray]:
    """Width times a mean."""
    shape, n = (-1, *(samples,) * 4), n[:, None, None, None, None]
    return n * sums.mean().reshape(shape), n * sums.mean_sem().reshape(shape)


def _covariance(first: int, second: int) -> Reading:
    """Width times the covariance of two blocks of pairs, each counted from 0."""

    def read(sums: Sums, n: np.ndarray, samples: int) -> tuple[np.ndarray, np.ndarray]:
        assert isinstance(sums, CovarianceSums)
        rows = _index(samples)[:, :, None, None] + first * _pairs(samples)
        columns = _index(samples) + second * _pairs(samples)
        n = n[:, None, None]
        values, sems = n * sums.covariance(), n * sums.covariance_sem()
        return values[:, rows, columns], sems[:, rows, columns]

    return read


def _either(there: Reading, back: Reading) -> Reading:
    """The mean of two readings of the same, by one neuron and another and by the other and the one."""

    def read(sums: Sums, n: np.ndarray, samples: int) -> tuple[np.ndarray, np.ndarray]:
        one, other = there(sums, n, samples), back(sums, n, samples)
        return (one[0] + other[0]) / 2, (one[1] + other[1]) / 2

    return read


_between_halves = _either(_covariance(0, 1), _covariance(1, 0))


_METRIC = SumPart("layers", "metric", _pairs)
_NTK = SumPart("layers", "ntk", _pairs)
# The metric by either half of the neurons, where a neuron has a part that it remembers.
_HALVES = SumPart("layers", "halves", lambda samples: 2 * _pairs(samples))
# The metric and omega, the NTK of a layer averaged over its weights; both of another neuron behind them where two
# neurons have estimates of their own.
_JOINT = SumPart("statistics", "joint", lambda samples: 2 * _pairs(samples))
_JOINT_IN_PAIRS = SumPart("statistics", "joint", lambda samples: 4 * _pairs(samples))


def _quads(family: str, name: str) -> Estimator:
    return Estimator(SumPart(family, name, lambda samples: samples**4), MeanSums, _mean_of_quads)


ESTIMATORS: dict[str, Estimator] = {
    "kernel": Estimator(_METRIC, MeanSums, _mean_of_pairs, first_metric),
    "metric_nlo": Estimator(_METRIC, MeanSums, _mean_of_pairs, slope_of="the metric"),
    "four_point_vertex": Estimator(_METRIC, CovarianceSums, _covariance(0, 0)),
    "ntk": Estimator(_NTK, MeanSums, _mean_of_pairs, first_ntk),
    # Of the same mean as "ntk", from whole matrices: 1/n needs a tenth of the error, and small widths.
    "ntk_nlo": Estimator(_JOINT, MeanSums, _mean_of_omega, slope_of="the mean NTK"),
    "ntk_A": Estimator(_JOINT, CovarianceSums, _covariance(1, 1)),
    "ntk_B": _quads("statistics", "B"),
    "ntk_D": Estimator(_JOINT, CovarianceSums, _covariance(0, 1)),
    "ntk_F": _quads("statistics", "F"),
    "dntk_P": _quads("dntk", "P"),
    "dntk_Q": _quads("dntk", "Q"),
    "ddntk_R": _quads("dntk", "R"),
    "ddntk_S": _quads("dntk", "S"),
    "ddntk_T": _quads("dntk", "T"),
    "ddntk_U": _quads("dntk", "U"),
}


# Of the same rows, where two neurons have estimates of their own.
_IN_PAIRS = {
    "ntk_nlo": replace(ESTIMATORS["ntk_nlo"], part=_JOINT_IN_PAIRS),
    "ntk_A": Estimator(
        _JOINT_IN_PAIRS, CovarianceSums, _either(_covariance(1, 3), _covariance(3, 1))
    ),
    "ntk_D": Estimator(
        _JOINT_IN_PAIRS, CovarianceSums, _either(_covariance(0, 3), _covariance(2, 1))
    ),
}


# Where skip connections make a neuron remember itself, the vertex is of two neurons: the same one would add to it
# what it does not share with the others.
_WITH_SKIPS = {"four_point_vertex": Estimator(_HALVES, CovarianceSums, _between_halves)}


# Of layers of every kind, from real weights.
_PROGRAM = SumPart("program", "metric", _pairs)
_OF_ANY = {
    "kernel": Estimator(_PROGRAM, MeanSums, _mean_of_pairs, first_of_program),
    "metric_nlo": Estimator(_PROGRAM, MeanSums, _mean_of_pairs, slope_of="the metric"),
    "four_point_vertex": Estimator(_PROGRAM, CovarianceSums, _covariance(0, 0)),
    "ntk": Estimator(
        SumPart("program", "ntk", _pairs),
        MeanSums,
        _mean_of_pairs,
        partial(first_of_program, ntk=True),
    ),
}


_BY_HALVES = SumPart("program", "halves", lambda samples: 2 * _pairs(samples))
_OF_ANY_WITH_SKIPS = {"four_point_vertex": Estimator(_BY_HALVES, CovarianceSums, _between_halves)}


def estimators(net: Network) -> dict[str, Estimator]:
    """The estimator of each observable in a network."""
    layers = measured_layers(net)
    of = Statistics(net.program, layers, 1, ())
    found = ESTIMATORS | (_IN_PAIRS if of.in_pairs else {})
    if net.is_perceptron:
        return found | _WITH_SKIPS if any(net.skips) else found
    ends = [net.program.layers[layer - 1] for layer in layers]
    alone = all(net.program.averages_out(((end, 1.0),)) for end in ends)
    return found | _OF_ANY | ({} if alone else _OF_ANY_WITH_SKIPS)


def accumulators(rows: Iterable[Estimator]) -> dict[str, dict[str, Kind]]:
    """By family, the parts to be drawn and what to sum of each; a covariance gives the mean too."""
    families: dict[str, dict[str, Kind]] = {}
    for row in rows:
        parts = families.setdefault(row.part.family, {})
        if parts.get(row.part.name) is not CovarianceSums:
            parts[row.part.name] = row.sums
    return families
