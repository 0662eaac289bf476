r"""From sums over ensembles to what is known of trained networks, each with its standard error.

A mean is a sum of means over independent ensembles: of trained networks less a control, and of the control. With
products about a fixed centre $c$,

$${\rm Cov}=\langle(z-c)(z-c)^T\rangle-(m-c)(m-c)^T+V,$$

$V$ the estimated covariance of the mean $m$ itself. This is unbiased at any number of networks, and without a
control the covariance with one over the number of networks less 1.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from scalewise.nets._ensemble import Sums
from scalewise.training.ensembles._reading import Reading, whole

Estimate = tuple[np.ndarray, np.ndarray]


class Source(ABC):
    """Means of what was read off networks."""

    @abstractmethod
    def mean(self, name: str) -> Estimate:
        """A mean with its standard error."""

    @abstractmethod
    def covariance_of_mean(self) -> np.ndarray:
        """Of the mean outputs, (pair)."""


@dataclass(frozen=True)
class Means(Source):
    """Plain means, added over independent ensembles."""

    terms: Sequence[dict[str, Sums]]

    def mean(self, name: str) -> Estimate:
        """Each ensemble that has it adds its mean."""
        sums = [term[name] for term in self.terms if name in term]
        sem = np.sqrt(sum(s.mean_sem() ** 2 for s in sums))
        return np.sum([s.mean() for s in sums], axis=0), sem

    def covariance_of_mean(self) -> np.ndarray:
        """Unbiased."""
        found = 0.0
        for term in self.terms:
            m, u = term["output"].mean(), term["spread"]
            a, b = np.triu_indices(m.size)
            found = found + (u.mean() - m[a] * m[b]) / (u.count - 1)
        return np.asarray(found)


@dataclass(frozen=True)
class Weighted(Source):
    """Means of networks that count differently, by the ratio of two means; its bias is one over their number."""

    sums: dict[str, Sums]
    level: float

    @property
    def effective(self) -> float:
        """As many equally heavy networks would say as much."""
        w, square = (float(self.sums[n].mean()[0]) for n in ("weight", "weight~"))
        return self.sums["weight"].count * w**2 / square

    def mean(self, name: str) -> Estimate:
        """The ratio, with the standard error of its linear part."""
        w, square = (float(self.sums[n].mean()[0]) for n in ("weight", "weight~"))
        if name == "log_evidence":
            sem = self.sums["weight"].mean_sem()[0] / w
            return np.array(self.level + np.log(w)), np.array(sem)
        own, its = self.sums[name], self.sums[f"{name}~"].mean()
        value = own.mean() / w
        raw = (own.s2 + 2 * own.pilot * own.s1) / own.count + own.pilot**2
        variance = raw - 2 * value * its + value**2 * square
        return value, np.sqrt(np.maximum(variance, 0.0) / own.count) / w

    def covariance_of_mean(self) -> np.ndarray:
        """To leading order in one over the number of networks."""
        w, square = (float(self.sums[n].mean()[0]) for n in ("weight", "weight~"))
        m, its = self.mean("output")[0], self.sums["output~"].mean()
        a, b = np.triu_indices(m.size)
        found = self.sums["spread~"].mean() - m[a] * its[b] - its[a] * m[b] + square * m[a] * m[b]
        return found / (self.sums["weight"].count * w**2)


def _outputs(reading: Reading, source: Source) -> Estimate:
    outputs = len(reading.centre)
    return _shaped(source.mean("output"), (outputs, -1))


def _bias(reading: Reading, source: Source) -> Estimate:
    mean, sem = _outputs(reading, source)
    assert reading.task.test_targets is not None
    return mean - reading.task.test_targets.T, sem


def _joint(reading: Reading, source: Source) -> Estimate:
    """The covariance of all outputs on all tests, (joint, joint)."""
    product, sem = source.mean("product")
    m = source.mean("output")[0]
    away = m - reading.centre[:, len(reading.task.inputs) :].ravel()
    a, b = np.triu_indices(m.size)
    found = product - away[a] * away[b] + source.covariance_of_mean()
    return whole(found, m.size), whole(sem, m.size)


def _covariance(reading: Reading, source: Source) -> Estimate:
    outputs = len(reading.centre)
    value, sem = (
        a.reshape(outputs, len(a) // outputs, outputs, -1).transpose(0, 2, 1, 3)
        for a in _joint(reading, source)
    )
    return value, sem


def _variance(reading: Reading, source: Source) -> Estimate:
    value, sem = (np.diag(a) for a in _joint(reading, source))
    return _shaped((value, sem), (len(reading.centre), -1))


def _change(reading: Reading, source: Source) -> Estimate:
    outputs, samples = reading.centre.shape
    value, sem = (
        a.reshape(outputs, samples, outputs, samples).transpose(0, 2, 1, 3)
        for a in source.mean("ntk_change")
    )
    return value, sem


def _named(name: str) -> Callable[[Reading, Source], Estimate]:
    return lambda reading, source: source.mean(name)


def _shaped(found: Estimate, shape: tuple[int, ...]) -> Estimate:
    return found[0].reshape(shape), found[1].reshape(shape)


# How what is known of trained networks is read off the means.
ESTIMATORS: dict[str, Callable[[Reading, Source], Estimate]] = {
    "output_mean": _outputs,
    "output_covariance": _covariance,
    "variance": _variance,
    "bias": _bias,
    "test_loss": _named("test_loss"),
    "test_error": _named("test_error"),
    "train_loss": _named("train_loss"),
    "log_evidence": _named("log_evidence"),
    "ntk_change": _change,
}
