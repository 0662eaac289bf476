"""A torch module along paths of its parameters: what it does beyond its first derivatives."""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

import numpy as np
import torch

from scalewise._checked import checked
from scalewise._memory import Memory, bytes_of
from scalewise.torch._tangent_ways import check_alone, check_repeats, trained

Flat = np.ndarray  # (parameter,)
PASSES = 8  # as much as the forward pass keeps: with the way back, twice along a path


@checked
def curvature(
    module: torch.nn.Module,
    inputs: torch.Tensor,
    *,
    rates: Mapping[str, float] | None = None,
    memory: Memory = "1 GiB",
) -> TorchCurvature:
    r"""Derivatives that make dNTK and ddNTKs of one model, for `scalewise.training.predict_linearised`.

    Args:
        module: As of `tangents`; three times differentiable.
        inputs: Training samples, then test samples.
        rates: As of `tangents`.
        memory: Budget in bytes, or a text such as ``"1 GiB"``, for what the model's passes keep: where all samples
            do not fit, they are taken in blocks. A few vectors of all parameters come on top.

    Returns:
        Derivatives along paths, in the precision of the parameters; each costs a few gradients, and no tensor of
        derivatives is made.

    Raises:
        ValueError: If the module draws random numbers, has nothing to train or no numbers (on the device ``meta``),
            a rate has the name of no parameter, or samples that must be taken in blocks are mixed by the module.

    Source: PDLT (11.8), (∞.5), (∞.7), along paths.

    Example:
        >>> import torch
        >>> from scalewise.torch import curvature
        >>> curvature(torch.nn.Linear(2, 1), torch.eye(2)).parameters
        3
    """
    given = dict(rates or {})
    named = trained(module, given)
    check_repeats(module, inputs[:1])
    each = [np.full(p.numel(), given.get(name, 1.0)) for name, p in named.items()]
    several = max(1, bytes_of(memory) // (PASSES * _graph(module, inputs[:1])))
    if several < len(inputs):
        check_alone(module, inputs)
    return TorchCurvature(module, inputs, named, np.concatenate(each), several)


def _graph(module: torch.nn.Module, sample: torch.Tensor) -> int:
    """Bytes that the forward pass of a sample keeps."""
    sizes = {p.data_ptr(): 0 for p in module.parameters()}

    def pack(tensor: torch.Tensor) -> torch.Tensor:
        sizes.setdefault(tensor.data_ptr(), tensor.numel() * tensor.element_size())
        return tensor

    buffers = {name: b.clone() for name, b in module.named_buffers()}
    with torch.autograd.graph.saved_tensors_hooks(pack, lambda tensor: tensor):
        torch.func.functional_call(module, buffers, (sample,))
    return sum(sizes.values()) + 1


class TorchCurvature:
    """The `Curvature` of a module.

    Args:
        module: The model.
        inputs: All samples.
        named: Parameters that are trained.
        rates: Of every parameter, in a row.
        several: Samples at once.
    """

    def __init__(
        self,
        module: torch.nn.Module,
        inputs: torch.Tensor,
        named: Mapping[str, torch.Tensor],
        rates: Flat,
        several: int,
    ) -> None:
        self._module, self._inputs, self._rates = module, inputs, rates
        self._several = several
        self._named = {name: p.detach() for name, p in named.items()}

    @property
    def parameters(self) -> int:
        """How many there are."""
        return self._rates.size

    @property
    def obstacle(self) -> str:
        """None that one could see."""
        return ""

    def gradients(self, errors: np.ndarray, path: Sequence[Flat] = ()) -> list[Flat]:
        """See `scalewise.training.Curvature`."""
        weighed = self._like(errors)

        def slope(moved: dict[str, torch.Tensor], some: slice) -> torch.Tensor:
            def loss(moved: dict[str, torch.Tensor]) -> torch.Tensor:
                return (weighed[some] * self._columns(moved, some)).sum()

            return torch.cat([g.reshape(-1) for g in torch.func.grad(loss)(moved).values()])

        blocks = [
            self._series(partial(slope, some=some), path) for some in self._blocks(len(errors))
        ]
        terms = [
            sum(part.double().numpy(force=True) for part in parts)
            for parts in zip(*blocks, strict=True)
        ]
        return [self._rates * term for term in terms]

    def outputs(self, path: Sequence[Flat], count: int | None = None) -> list[np.ndarray]:
        """See `scalewise.training.Curvature`."""
        size = len(self._inputs) if count is None else count
        blocks = [
            self._series(partial(self._columns, some=some), path) for some in self._blocks(size)
        ]
        return [
            np.concatenate([part.double().numpy(force=True) for part in parts])
            for parts in zip(*blocks, strict=True)
        ]

    def _blocks(self, count: int) -> list[slice]:
        return [
            slice(start, min(start + self._several, count))
            for start in range(0, count, self._several)
        ]

    def _columns(self, moved: dict[str, torch.Tensor], some: slice) -> torch.Tensor:
        z = torch.func.functional_call(self._module, moved, (self._inputs[some],))
        return z[:, None] if z.ndim == 1 else z

    def _like(self, values: np.ndarray) -> torch.Tensor:
        one = next(iter(self._named.values()))
        return torch.as_tensor(np.array(values), dtype=one.dtype, device=one.device)

    def _series(
        self, f: Callable[[dict[str, torch.Tensor]], torch.Tensor], path: Sequence[Flat]
    ) -> list[torch.Tensor]:
        """Terms of f along the path, from order 0 to that of the path."""
        cuts = [p.numel() for p in self._named.values()]
        steps = [self._like(theta).split(cuts) for theta in path]

        def at(t: torch.Tensor) -> torch.Tensor:
            moved = {}
            for place, (name, p) in enumerate(self._named.items()):
                parts = (t ** (k + 1) * s[place].view_as(p) for k, s in enumerate(steps))
                moved[name] = sum(parts, p)
            return f(moved)

        terms, derivative, start = [], at, self._like(np.zeros(()))
        for order in range(len(steps) + 1):
            terms.append(derivative(start) / math.factorial(order))
            derivative = partial(_slope, derivative)
        return terms


def _slope(f: Callable[[torch.Tensor], Any], t: torch.Tensor) -> torch.Tensor:
    with (
        warnings.catch_warnings()
    ):  # torch warns of what it calls itself, the first time that it does
        warnings.simplefilter("ignore", DeprecationWarning)
        return torch.func.jvp(f, (t,), (torch.ones_like(t),))[1]
