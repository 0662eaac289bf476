"""Rows of a report of signals, measured while the model runs: sums of squares of what it gives and of gradients."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any

import torch
from torch import Tensor

from scalewise.signals import Looks, Seen, Units

# Outputs between which an activation has a slope, and inputs above which: beyond, little is left of it.
_STEEP = {"tanh": (-0.95, 0.95), "sigmoid": (0.01, 0.99)}
_AWAKE = {"swish": -6.5, "gelu": -3.0, "mish": -6.5, "softplus": -4.6}
_MANY = 4  # keys, of which one may have more weight than others


@dataclass
class Uses:
    """Numbers of one row, summed over the times at which the model is there.

    Args:
        seen: The row, without them.
        squares: The sum of squares of what it gives.
        numbers: Of how many numbers.
        slopes: The sum of squares of the gradient.
        count: How often.
        arrays: What it gives, where that is kept.
        last: Whether channels are the last axis.
    """

    seen: Seen
    squares: float = 0.0
    numbers: int = 0
    slopes: float = 0.0
    count: int = 0
    arrays: list[Tensor] = field(default_factory=list)
    last: bool = True


class PlaceRows:
    """Rows in the order in which the model comes to them.

    Args:
        keep: Whether to keep what they give; otherwise their gradients are measured.
    """

    def __init__(self, keep: bool) -> None:
        self.uses: list[Uses] = []
        self._keep = keep
        self._index: dict[tuple[Any, ...], int] = {}
        self._pending: list[tuple[Tensor, int]] = []
        self._behind: dict[int, frozenset[int]] = {}

    def __getitem__(self, index: int) -> Uses:
        return self.uses[index]

    def index(self, key: tuple[Any, ...]) -> int:
        """Where a row is, or will be."""
        return self._index.get(key, len(self.uses))

    def count(self, place: str, what: str) -> int:
        """How many rows of a kind there are at a place."""
        return sum(key[:2] == (place, what) for key in self._index)

    def behind(self, index: int) -> frozenset[int]:
        """Numbers of all that a row was computed from."""
        return self._behind[index]

    def add(
        self, key: tuple[Any, ...], seen: Seen, out: Tensor, *, last: bool, of: frozenset[int]
    ) -> int:
        """Measure a row that may have been met before.

        Args:
            key: By which it is known.
            seen: What else is known of it.
            out: What it gives.
            last: Whether channels are the last axis.
            of: Numbers of all that it was computed from.
        """
        index = self.index(key)
        if index == len(self.uses):
            self._index[key] = index
            self.uses.append(Uses(seen, last=last))
        self.measure(index, out, 1)
        self._behind[index] = of
        return index

    def measure(self, index: int, out: Tensor, count: int) -> None:
        """Add what a row gives, or with the count -1 take away what was added last."""
        uses = self.uses[index]
        own = out.detach()
        uses.squares += count * float(own.float().square().sum())
        uses.numbers += count * own.numel()
        uses.count += count
        if count < 0:
            if uses.arrays:
                uses.arrays.pop()
            self._pending = [(t, i) for t, i in self._pending if i != index]
            return
        if self._keep:
            uses.arrays.append(own.float().clone())
        else:
            self._pending.append((out, index))

    def ask_for_gradients(self) -> None:
        """Register what has been measured since, before anything is changed in place."""
        for tensor, index in self._pending:
            if tensor.requires_grad:

                def add(slope: Tensor, index: int = index) -> None:
                    self.uses[index].slopes += float(slope.detach().float().square().sum())

                tensor.register_hook(add)
        self._pending = []

    def measured(self, samples: int) -> list[Seen]:
        """The rows with sizes; after a backward pass with gradients."""
        found = []
        often = {uses.seen.place for uses in self.uses if uses.count > 1}
        for uses in self.uses:
            units = uses.seen.units
            if units is not None and units.name == "sigmoid" and uses.seen.place in often:
                # Gates of a recurrence are shut or open on purpose, to keep what was read long ago.
                units = replace(units, saturated=None)
            size = math.sqrt(max(uses.squares, 0.0) / max(uses.numbers, 1))
            gradient = math.sqrt(uses.slopes / samples)
            whole = math.sqrt(max(uses.squares, 0.0) / samples)
            found.append(
                replace(
                    uses.seen, size=size, gradient=gradient, influence=gradient * whole, units=units
                )
            )
        return found


def correlations(
    call: Callable[[int], PlaceRows], samples: int
) -> tuple[list[float | None], list[float | None]]:
    """The correlations between samples and between positions, of every row.

    Args:
        call: From the number of a sample to the rows of a pass of it alone, with what was computed kept.
        samples: How many.
    """
    passes = [call(k).uses for k in range(samples)]
    if len({tuple((u.seen.place, u.seen.what) for u in rows) for rows in passes}) != 1:
        return [], []
    between: list[float | None] = []
    within: list[float | None] = []
    for own in zip(*passes, strict=True):
        flat = [torch.cat([a.flatten() for a in u.arrays]) for u in own]
        alike = samples > 1 and len({len(f) for f in flat}) == 1
        between.append(_alike(torch.stack(flat)) if alike else None)
        within.append(_positions(own))
    return between, within


def _positions(of: tuple[Uses, ...]) -> float | None:
    if of[0].seen.what == "attention":
        return None
    found = []
    for uses, a in ((u, a) for u in of for a in u.arrays[:4]):
        rows = a.flatten(0, -2) if uses.last else a.movedim(1, -1).flatten(0, -2)
        if a.ndim > 1 and len(rows) > 1:
            found.append(_alike(rows[:256]))
    known = [f for f in found if f is not None]
    return sum(known) / len(known) if known else None


def _alike(rows: Tensor) -> float | None:
    """The mean cosine of different rows."""
    norms = rows.norm(dim=1)
    if not bool((norms > 0).all()) or not bool(torch.isfinite(norms).all()):
        return None
    unit = rows / norms[:, None]
    count = len(rows)
    return float((unit.sum(dim=0).square().sum() - count) / (count * (count - 1)))


def units_of(name: str, x: Tensor, out: Tensor, last: bool) -> Units:
    """The units of an activation, as many as are dead or flat.

    Args:
        name: The activation, as `scalewise.activation` calls it.
        x: What it reads.
        out: What it gives, which may have been written over that.
        last: Whether channels are the last axis.
    """
    values, dead, saturated = out.detach(), None, None
    axis = values.ndim - 1 if last else min(1, values.ndim - 1)

    def by_unit(own: Tensor) -> Tensor:
        return own.movedim(axis, 0).flatten(1) if own.ndim > 1 else own[:, None]

    if name == "relu":
        dead = float((by_unit(values) == 0).all(dim=1).float().mean())
    elif name in _AWAKE and x.data_ptr() != out.data_ptr():
        dead = float((by_unit(x.detach()) < _AWAKE[name]).all(dim=1).float().mean())
    if name in _STEEP:
        low, high = _STEEP[name]
        saturated = float(((values < low) | (values > high)).float().mean())
    return Units(name, dead, saturated, values.shape[axis] if values.ndim else 1)


def looks_of(logits: Tensor, weights: Tensor) -> Looks | None:
    """How an attention looks at its keys; ``None`` if no query has four of them."""
    there = logits > -1e9
    many = there.sum(-1) >= _MANY
    if not bool(many.any()):
        return None
    count = there.sum(-1)[many].float()
    kept = torch.where(there, logits, torch.zeros_like(logits))[many]
    mean = kept.sum(-1) / count
    variance = (kept.square().sum(-1) / count - mean.square()).mean()
    return Looks(float(weights[many].amax(-1).mean()), float(count.mean()), float(variance))


def drowned(name: str, args: Any) -> tuple[float, float] | None:
    """The number that a norm adds to variances, and its share in them; ``None`` where it adds none.

    Args:
        name: The operation; ``rsqrt`` or ``sqrt`` for the root of variances by which numbers are multiplied.
        args: What it is called with; for a root that and the number.
    """
    x, eps = args[0].detach().float(), args[-1]
    if not isinstance(eps, float | int) or eps <= 0 or not x.numel():
        return None
    if name in ("rsqrt", "sqrt"):
        return eps, float((eps * x.square() if name == "rsqrt" else eps / x.square()).mean())
    if "batch_norm" in name:
        variances = args[4]
    elif name == "native_group_norm":
        variances = x.reshape(len(x), args[6], -1).var(-1, unbiased=False)
    else:
        flat = x.flatten(x.ndim - len(args[1]))
        variances = flat.square().mean(-1) if "rms" in name else flat.var(-1, unbiased=False)
    if not isinstance(variances, Tensor) or not bool((variances > 0).any()):
        return None
    return eps, float((eps / (eps + variances.detach())).mean())
