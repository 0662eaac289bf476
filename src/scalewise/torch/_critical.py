"""`critical`: the initialisation that keeps sizes through a model; and bases of plans that start from it."""

from __future__ import annotations

import inspect
from collections.abc import Mapping
from typing import Any

from scalewise._checked import Count, checked
from scalewise.plan import PlanError
from scalewise.plan.spi import given, stds_of_kinds
from scalewise.reading.spi import CriticalInit, factors_of, proposals
from scalewise.torch._network import inputs_in_a_row
from scalewise.torch._reading import ModelOrFactory, network


@checked(error=PlanError)
def critical(build: ModelOrFactory, inputs: Any, *, width: Count | None = None) -> CriticalInit:
    r"""The variance of every weight with which signals keep their size, beside the one that the factory draws.

    With $m$ the mean square of what a layer reads, at infinite width, its weights get $C_W=(t-C_b)/m$. Behind
    inputs, tokens, norms and activations $t=1$; a layer that ends one of the $B$ branches of a stream gets $t=1/B$,
    and the read-out $1/4$. Behind activations that no norm follows it is the critical $C_W$ of the activation,
    which keeps gradients, too. What begins as 0 stays so.

    Args:
        build: A function of the width that returns a new model, or a model; as `network` takes it.
        inputs: What the model is called with; sizes are means over these.
        width: Of the model; with a factory.

    Returns:
        A table, and `constants` for ``plan(..., constants=...)`` or its argument ``init="critical"``.

    Raises:
        PlanError: If the model is not read.

    Example:
        >>> import torch, scalewise as sw
        >>> def build(width):
        ...     return torch.nn.Sequential(
        ...         torch.nn.Linear(8, width), torch.nn.ReLU(), torch.nn.Linear(width, width),
        ...         torch.nn.ReLU(), torch.nn.Linear(width, 1))
        >>> found = sw.torch.critical(build, torch.ones(2, 8), width=64)
        >>> [p.proposed for p in found.proposals][1]
        2.0
    """
    made = given(inputs)
    if made is None:
        raise PlanError(
            "`inputs` must be what the model is called with, such as a tensor of a few samples."
        )
    net = network(build, made, width=width)
    return CriticalInit(net, proposals(net, inputs_in_a_row(made, net.input_shape)))


def critical_base(build: Any, base: Mapping[str, Any], width: str, inputs: Any) -> CriticalInit:
    """How the base is to be drawn."""
    if inputs is None:
        raise PlanError(
            'init="critical" reads the model, and needs what it is called with: give `inputs`, such as a tensor of '
            "a few samples."
        )
    names = inspect.signature(build).parameters
    own = {k: v for k, v in base.items() if k in names and k != width}
    return critical(lambda n: build(**{width: n}, **own), inputs, width=base[width])


def of_layers(found: CriticalInit, deepens: bool, deeper: bool) -> dict[str, dict[str, float]]:
    """Constants of the base that further layers have as well, where the depth can change."""
    if not deepens:
        return found.constants
    try:
        return stds_of_kinds(factors_of(found.proposals))
    except PlanError:
        if deeper:
            raise
        return found.constants
