"""What an adapter measures on real networks of several widths, in the form that a check reads."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum

import numpy as np
from jaxtyping import Float

from scalewise._readable import readable
from scalewise.plan._growth import Growth


class Quantity(StrEnum):
    """A size, always a root mean square over entries.

    | name | of what |
    |---|---|
    | `weight` | a tensor's entries at initialisation about their mean; the mean itself where all are equal |
    | `gradient` | its gradient, at the first step that has one |
    | `step` | the change of its entries in that step |
    | `rate` | its learning rate: that change, over the gradient where the optimizer follows it |
    | `update` | the change of its entries by all steps |
    | `own_change` | the change of its module's output that its own update makes, on the new inputs |
    | `output` | its module's output at initialisation |
    | `change` | the change of its module's output by all steps |
    | `features` | what the readout reads, at initialisation |
    | `features_change` | the change of what the readout reads by all steps |
    | `passed` | what the readout, as it was, makes of that change |
    | `grown_change` | of what reads out, its change without what tensors of fixed size make, such as biases |
    | `logits` | attention logits at initialisation |
    | `logits_change` | their change by what all steps did to the tensors of their module |
    | `logits_step` | how far these queries and keys moved: their changes times one another's size |

    What belongs to a module stands with one of its tensors, the one that sums or looks up.
    """

    WEIGHT = "weight"
    GRADIENT = "gradient"
    STEP = "step"
    RATE = "rate"
    UPDATE = "update"
    OWN_CHANGE = "own_change"
    OUTPUT = "output"
    CHANGE = "change"
    FEATURES = "features"
    FEATURES_CHANGE = "features_change"
    PASSED = "passed"
    GROWN_CHANGE = "grown_change"
    LOGITS = "logits"
    LOGITS_CHANGE = "logits_change"
    LOGITS_STEP = "logits_step"


@dataclass(frozen=True)
@readable
class Measurement:
    """Sizes of the tensors of real networks before and after a few steps.

    Args:
        widths: As the factory was called with, ascending.
        tensors: Names, in the order in which their modules are first called.
        modules: The module of each tensor; empty where no single module shows what it does.
        readouts: Tensors that read out; a tied one by the name it has at the readout.
        sizes: For each quantity an array (tensor, width, seed): NaN where there is none, infinite where
            it is not finite.
        steps: How many optimiser steps were taken.
        zero_readout: Whether the readout starts at zero.
        lr: The learning rate at the base, ``None`` where the user's own setup chose it.
        precision: Rounding unit of the parameters.
        nonlinearity: For each width how far the change of features is from linear in the size of the
            step: 0 is linear, 1 is not at all; NaN where it could not be told.
        constant: Tensors of equal entries at initialisation.
        growth: How the sides of tensors grow over these widths; a tensor that is missing grows as from base
            to target.
        attention: For each kind of module whose code makes attention logits (its name, with stars for the
            numbers of layers), and for `logits`, `logits_change` and `logits_step`, the sizes; NaN where the
            logits were not seen before and after.
        returned: The change of what the model as a whole returns, without what tensors of fixed size make; ``None``
            or NaN where that was not seen.
        returned_first: The size of what it returns at initialisation, in the same way.
        multiplied: Where no tensor reads out, those whose outputs the model multiplies with each other.
        whole: What stands for the model as a whole: the model, or the loss where a framework shows no more.
    """

    widths: Float[np.ndarray, " width"]
    tensors: tuple[str, ...]
    modules: tuple[str, ...]
    readouts: tuple[str, ...]
    sizes: Mapping[Quantity, Float[np.ndarray, "tensor width seed"]] = field(repr=False)
    steps: int
    zero_readout: bool
    lr: float | None
    precision: float
    nonlinearity: Float[np.ndarray, " width"]
    constant: frozenset[str] = frozenset()
    growth: Mapping[str, Growth] = field(default_factory=dict)
    attention: Mapping[tuple[str, Quantity], Float[np.ndarray, "width seed"]] = field(
        default_factory=dict, repr=False
    )
    returned: Float[np.ndarray, "width seed"] | None = field(default=None, repr=False)
    returned_first: Float[np.ndarray, "width seed"] | None = field(default=None, repr=False)
    multiplied: tuple[str, ...] = ()
    whole: str = "the model"

    @property
    def seeds(self) -> int:
        """Number of networks of each width."""
        return self.sizes[Quantity.WEIGHT].shape[2]

    def of(self, name: str, quantity: Quantity) -> Float[np.ndarray, "width seed"]:
        """The sizes of one quantity of one tensor."""
        return self.sizes[quantity][self.tensors.index(name)]

    def beside(self, name: str, quantity: Quantity) -> Float[np.ndarray, "width seed"]:
        """Sizes that belong to the module of a tensor: they stand with one of the tensors that it holds."""
        module = self.modules[self.tensors.index(name)]
        pairs = zip(self.tensors, self.modules, strict=True)
        found = [self.of(n, quantity) for n, m in pairs if m == module] if module else []
        return next((f for f in found if not np.isnan(f).any()), self.of(name, quantity))

    @property
    def seen(self) -> bool:
        """True if what a readout reads and returns was seen; without one, what the model multiplies and returns."""
        if not self.readouts:
            moved = [self.returned, *(self.beside(n, Quantity.CHANGE) for n in self.multiplied)]
            first, *rest = (m is not None and not np.isnan(m).any() for m in moved)
            return first and any(rest)
        wanted = (Quantity.CHANGE, Quantity.FEATURES_CHANGE)
        return all(any(not np.isnan(self.of(n, q)).any() for n in self.readouts) for q in wanted)

    @property
    def unseen(self) -> tuple[str, ...]:
        """Readouts that have a part in the loss, though what they read and return was not seen."""
        wanted = (Quantity.CHANGE, Quantity.FEATURES_CHANGE)
        return tuple(
            n
            for n in self.readouts
            if any(np.isnan(self.beside(n, q)).any() for q in wanted)
            and np.any(self.of(n, Quantity.GRADIENT) != 0)
        )
