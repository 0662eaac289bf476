"""What a report is written from, and how its parts are looked up."""

from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np
import xarray as xr

from scalewise._checked import checked
from scalewise._readable import readable
from scalewise.comparison import Comparison
from scalewise.comparison.spi import Measurement, Prediction
from scalewise.networks import Network
from scalewise.networks.spi import Plain
from scalewise.report._style import Draft, kept


@checked
@dataclass(frozen=True)
@readable
class Convolution:
    """A convolutional network on the same inputs, as images.

    Attributes:
        net: The network.
        comparison: From `compare` of what was predicted of it and measured.
    """

    net: Network
    comparison: Comparison


@checked
@dataclass(frozen=True)
@readable
class Results:
    """One network, what was predicted, what was measured, and how far they are apart.

    Attributes:
        net: The network; its `criticality` is told if it has one.
        theory: From `predict`.
        ensemble: From `measure`.
        comparison: From `compare` of the two.
        susceptibilities: Variables ``chi_parallel`` and ``chi_perp`` over a coordinate ``K``, at
            the network's weight variance; left out of the report for ``None``.
        run: What a reader needs to make the same run: ``command``, ``data``, ``samples``,
            ``data_seed``, and whatever else should be told.
        convolution: A convolutional network on the same inputs; left out of the report for ``None``.
    """

    net: Plain
    theory: Prediction
    ensemble: Measurement
    comparison: Comparison
    susceptibilities: xr.Dataset | None = None
    run: Mapping[str, object] = field(default_factory=dict)
    convolution: Convolution | None = None

    @property
    def layers(self) -> np.ndarray:
        """Numbers of the layers, 1 to L."""
        return np.asarray(self.theory["layer"].values)

    @property
    def samples(self) -> int:
        """Number of inputs."""
        return self.theory.sizes["sample"]

    @property
    def expansion(self) -> np.ndarray:
        """The expansion parameter of every layer at the widths of the network."""
        return np.asarray(self.theory["expansion_parameter"].values)

    def holds(self, name: str) -> bool:
        """True if the theory says something of the observable `name`."""
        return name in self.comparison.predicted

    def predicted(self, name: str, *index: int) -> np.ndarray:
        """The compared prediction of `name` at the samples `index`, along the layers."""
        return _line(self.comparison.predicted[name], index)

    def bias(self, name: str, *index: int) -> np.ndarray:
        """The stated size of the neglected order of `name` at the samples `index`, along the layers."""
        return _line(self.comparison.predicted[f"{name}_bias"], index)

    def measured(self, name: str, *index: int) -> tuple[np.ndarray | None, np.ndarray | None]:
        """Mean and standard error of `name` at the samples `index` along the layers, if they were measured."""
        if name not in self.ensemble or f"{name}_sem" not in self.ensemble:
            return None, None
        dims = self.comparison.predicted[name].dims
        mean, sem = (self.ensemble[key].transpose(*dims) for key in (name, f"{name}_sem"))
        return _line(mean, index), _line(sem, index)

    def few_samples(self, count: int = 4) -> list[int]:
        """`count` samples, from the shortest to the longest input."""
        first = np.asarray(self._first_kernel())
        return kept(np.diag(first), count)

    def input_label(self, sample: int) -> str:
        """Label of a `sample` in figures, with its rank if it is the first or the last."""
        order = np.argsort(np.diag(self._first_kernel()), kind="stable")
        rank = {int(order[0]): "shortest", int(order[-1]): "longest"} if len(order) > 1 else {}
        return f"{rank[sample]} ({sample})" if sample in rank else f"input {sample}"

    def few_pairs(self, count: int = 4) -> list[tuple[int, int]]:
        """`count` pairs of different samples, from the least to the most alike."""
        first = self._first_kernel()
        root = np.sqrt(np.diag(first))
        a, b = np.triu_indices(self.samples, 1)
        alike = (first / np.outer(root, root))[a, b]
        return [(int(a[i]), int(b[i])) for i in kept(alike, count)]

    def _first_kernel(self) -> np.ndarray:
        if self.holds("kernel"):
            return self.comparison.predicted["kernel"].values[0]
        return np.eye(self.samples)


def shown(
    results: Results,
    draft: Draft,
    name: str,
    index: tuple[int, ...],
    label: str,
    *,
    unit: float | np.ndarray = 1.0,
    aside: float = 0.0,
) -> None:
    """Draw an entry of an observable along the layers, in some unit: predicted, with its bias, and measured."""
    mean, sem = results.measured(name, *index)
    draft.compared(
        results.layers,
        results.predicted(name, *index) / unit,
        results.bias(name, *index) / unit,
        None if mean is None else mean / unit,
        None if sem is None else sem / unit,
        label=label,
        aside=aside,
    )


def _line(data: xr.DataArray, index: tuple[int, ...]) -> np.ndarray:
    return np.asarray(data.values[(slice(None), *index)], dtype=np.float64)
