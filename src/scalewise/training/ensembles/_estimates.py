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

from scalewise.nets.spi import LOST, Sums
from scalewise.training.ensembles._reading import NetworkReading, whole
from scalewise.training.ensembles._training import FAILURES

EFFECTIVE = 100  # networks: with fewer, neither a posterior nor its standard error is to be trusted
Estimate = tuple[np.ndarray, np.ndarray]


class EstimateSource(ABC):
    """Means of what was read off networks."""

    @abstractmethod
    def mean(self, name: str) -> Estimate:
        """A mean with its standard error."""

    @abstractmethod
    def covariance_of_mean(self) -> np.ndarray:
        """Covariance of the mean outputs, (pair)."""

    @abstractmethod
    def numbers(self) -> dict[str, int | float]:
        """Attributes of a result: how many networks count, and how well."""

    @abstractmethod
    def complaints(self) -> list[str]:
        """Sentences about what the means are not to be trusted for."""


@dataclass(frozen=True)
class Means(EstimateSource):
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

    def numbers(self) -> dict[str, int | float]:
        """Networks that failed, and the error of flows that slide along kinks.

        Raises:
            ValueError: If fewer than two networks are left.
        """
        if LOST not in self.terms[0]:
            return {}
        failed, off = self._failed().sum(), self.terms[0]["off"]
        if off.count < 2:
            raise ValueError(
                f"`algorithm` trains no network to its end, or one alone: {' '.join(self.complaints())}"
            )
        return {"failed_networks": int(failed), "flow_error": float(off.mean()[0])}

    def complaints(self) -> list[str]:
        """Sentences on networks that failed."""
        if LOST not in self.terms[0]:
            return []
        total = self.terms[0][LOST].count
        return [
            f"{count} of {total} networks {what}. They are left out, and means are those of the others. {remedy}."
            for count, (what, remedy) in zip(self._failed(), FAILURES.items(), strict=True)
            if count
        ]

    def _failed(self) -> np.ndarray:
        """How many networks failed in each way."""
        lost = self.terms[0][LOST]
        return np.rint(lost.mean() * lost.count).astype(int)


@dataclass(frozen=True)
class Weighted(EstimateSource):
    """Means of networks that count differently, by the ratio of two means; its bias is one over their number."""

    sums: dict[str, Sums]
    level: float

    @property
    def effective(self) -> float:
        """As many equally heavy networks would say as much."""
        w, square = (float(self.sums[n].mean()[0]) for n in ("weight", "weight~"))
        return self.sums["weight"].count * w**2 / square

    def numbers(self) -> dict[str, int | float]:
        """As many networks as carry the weight.

        Raises:
            ValueError: If it is one alone, so that nothing has a standard error.
        """
        if not self.effective > 1:
            raise ValueError(f"`networks` must be more for this posterior: {self.complaints()[0]}")
        return {"effective_networks": self.effective}

    def complaints(self) -> list[str]:
        """Neither a posterior nor its standard error is to be trusted where few networks carry all the weight."""
        if self.effective >= EFFECTIVE:
            return []
        return [
            f"{self.effective:.3g} of {self.sums['weight'].count} networks carry all the weight of the posterior, "
            f"and {EFFECTIVE} are needed. Draw more, or take wider networks, fewer training samples or a larger "
            "`noise_variance`."
        ]

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
        """Covariance of the mean outputs, to leading order in one over the number of networks."""
        w, square = (float(self.sums[n].mean()[0]) for n in ("weight", "weight~"))
        m, its = self.mean("output")[0], self.sums["output~"].mean()
        a, b = np.triu_indices(m.size)
        found = self.sums["spread~"].mean() - m[a] * its[b] - its[a] * m[b] + square * m[a] * m[b]
        return found / (self.sums["weight"].count * w**2)


def _outputs(reading: NetworkReading, source: EstimateSource) -> Estimate:
    outputs = len(reading.centre)
    return _shaped(source.mean("output"), (outputs, -1))


def _bias(reading: NetworkReading, source: EstimateSource) -> Estimate:
    mean, sem = _outputs(reading, source)
    assert reading.task.test_targets is not None
    return mean - reading.task.test_targets.T, sem


def _joint(reading: NetworkReading, source: EstimateSource) -> Estimate:
    """The covariance of all outputs on all tests, (joint, joint)."""
    product, sem = source.mean("product")
    m = source.mean("output")[0]
    away = m - reading.centre[:, len(reading.task.inputs) :].ravel()
    a, b = np.triu_indices(m.size)
    found = product - away[a] * away[b] + source.covariance_of_mean()
    return whole(found, m.size), whole(sem, m.size)


def _covariance(reading: NetworkReading, source: EstimateSource) -> Estimate:
    outputs = len(reading.centre)
    value, sem = (
        a.reshape(outputs, len(a) // outputs, outputs, -1).transpose(0, 2, 1, 3)
        for a in _joint(reading, source)
    )
    return value, sem


def _variance(reading: NetworkReading, source: EstimateSource) -> Estimate:
    value, sem = (np.diag(a) for a in _joint(reading, source))
    return _shaped((value, sem), (len(reading.centre), -1))


def _change(reading: NetworkReading, source: EstimateSource) -> Estimate:
    outputs, samples = reading.centre.shape
    value, sem = (
        a.reshape(outputs, samples, outputs, samples).transpose(0, 2, 1, 3)
        for a in source.mean("ntk_change")
    )
    return value, sem


def _named(name: str) -> Callable[[NetworkReading, EstimateSource], Estimate]:
    return lambda reading, source: source.mean(name)


def _shaped(found: Estimate, shape: tuple[int, ...]) -> Estimate:
    return found[0].reshape(shape), found[1].reshape(shape)


# How what is known of trained networks is read off the means.
ESTIMATORS: dict[str, Callable[[NetworkReading, EstimateSource], Estimate]] = {
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
