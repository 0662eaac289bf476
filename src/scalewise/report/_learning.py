"""What the page of a training is written from: one network, one task, what was predicted and what was trained."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np
import xarray as xr

from scalewise._checked import checked
from scalewise._readable import readable
from scalewise.comparison import Comparison
from scalewise.networks import Network
from scalewise.tasks import Task


@checked
@dataclass(frozen=True)
@readable
class LearnedPanels:
    """Results of one network and one task, before and after training.

    Attributes:
        net: The network.
        task: With test inputs and targets.
        theory: From `predict_training`; figures of the order 1/n are drawn if it has that.
        ensembles: From `measure_training`, by width; none if nothing was trained.
        comparison: Of theory and ensemble at the width of the network, if there is one.
        algorithms: From `algorithms_side_by_side`.
        evidence: From `evidence_of_networks`.
        motion: From `ntk_motion`, if the change of the NTK was predicted.
        run: What a reader needs to make the same run: ``command`` and whatever else should be told.
    """

    net: Network
    task: Task
    theory: xr.Dataset
    algorithms: xr.Dataset
    evidence: xr.Dataset
    ensembles: Mapping[int, xr.Dataset] = field(default_factory=dict)
    comparison: Comparison | None = None
    motion: xr.Dataset | None = None
    run: Mapping[str, object] = field(default_factory=dict)

    @property
    def width(self) -> int:
        """Width of the last hidden layer, in whose powers everything is expanded."""
        return self.net.widths[-2]

    @property
    def loss(self) -> float:
        """Mean over the test samples of the loss at infinite width."""
        return float(self.theory.test_loss.mean())

    @property
    def slope(self) -> float | None:
        """Coefficient of 1/n in the loss, if that was found."""
        name = "test_loss_nlo"
        return float(self.theory[name].mean()) if name in self.theory else None

    @property
    def small(self) -> float | None:
        """The small parameter of the expansion at the width of the network."""
        name = "learning_parameter"
        return float(self.theory[name]) / self.width if name in self.theory else None

    @property
    def why_no_order(self) -> str:
        """The reason why the order 1/n is not known, to end a sentence with; empty if nobody said one."""
        attrs = self.theory.attrs
        why = dict(zip(attrs["left_out"], attrs["left_out_because"], strict=True))
        return f", because {why['test_loss_nlo']}" if "test_loss_nlo" in why else ""

    def at(self, n: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Mean test loss at widths `n`, and the size of what that neglects."""
        n = np.asarray(n, dtype=float)
        if self.slope is None or self.small is None:
            return np.full_like(n, self.loss), np.zeros_like(n)
        change = self.slope / n
        return self.loss + change, np.abs(change) * self.small * self.width / n

    def measured_loss(self) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Widths, mean test losses of the ensembles and their standard errors.

        The samples of a test set share their networks, so their errors are added, not their squares.
        """
        found = sorted(self.ensembles.items())
        n = np.array([width for width, _ in found], dtype=float)
        mean = np.array([float(data.test_loss.mean()) for _, data in found])
        sem = np.array([float(data.test_loss_sem.mean()) for _, data in found])
        return n, mean, sem

    def own_ensemble(self) -> xr.Dataset | None:
        """The ensemble at the width of the network."""
        return self.ensembles.get(self.width)
