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

Flat = np.ndarray  # (parameter,)


@checked
def curvature(
    module: torch.nn.Module, inputs: torch.Tensor, *, rates: Mapping[str, float] | None = None
) -> TorchCurvature:
    r"""What dNTK and ddNTKs of one model are made of, for `scalewise.training.predict_linearised`.

    Args:
        module: As of `tangents`; three times differentiable.
        inputs: Training samples, then test samples.
        rates: As of `tangents`.

    Returns:
        Derivatives along paths, in the precision of the parameters; each costs a few gradients, and no tensor of
        derivatives is made.

    Raises:
        ValueError: If the module has nothing to train, or a rate has the name of no parameter.

    Source: PDLT (11.8), (∞.5), (∞.7), along paths.

    Example:
        >>> import torch
        >>> from scalewise.torch import curvature
        >>> curvature(torch.nn.Linear(2, 1), torch.eye(2)).parameters
        3
    """
    named = {name: p for name, p in module.named_parameters() if p.requires_grad}
    given = dict(rates or {})
    if not named or given.keys() - named.keys():
        raise ValueError(
            f"`rates` must be by the names of parameters that are trained, {sorted(named)}; got {sorted(given)}."
        )
    each = [np.full(p.numel(), given.get(name, 1.0)) for name, p in named.items()]
    return TorchCurvature(module, inputs, named, np.concatenate(each))


class TorchCurvature:
    """The `Curvature` of a module.

    Args:
        module: The model.
        inputs: All samples.
        named: Parameters that are trained.
        rates: Of every parameter, in a row.
    """

    def __init__(
        self,
        module: torch.nn.Module,
        inputs: torch.Tensor,
        named: Mapping[str, torch.Tensor],
        rates: Flat,
    ) -> None:
        self._module, self._inputs, self._rates = module, inputs, rates
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
        some = self._like(errors)

        def loss(moved: dict[str, torch.Tensor]) -> torch.Tensor:
            return (some * self._columns(moved, len(errors))).sum()

        def slope(moved: dict[str, torch.Tensor]) -> torch.Tensor:
            return torch.cat([g.reshape(-1) for g in torch.func.grad(loss)(moved).values()])

        terms = self._series(slope, path)
        return [self._rates * term.double().numpy(force=True) for term in terms]

    def outputs(self, path: Sequence[Flat], count: int | None = None) -> list[np.ndarray]:
        """See `scalewise.training.Curvature`."""
        terms = self._series(lambda moved: self._columns(moved, count), path)
        return [term.double().numpy(force=True) for term in terms]

    def _columns(self, moved: dict[str, torch.Tensor], count: int | None) -> torch.Tensor:
        z = torch.func.functional_call(self._module, moved, (self._inputs[:count],))
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
