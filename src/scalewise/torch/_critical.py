"""`critical`: the initialisation that keeps sizes through a model, from the network that it is."""

from __future__ import annotations

from typing import Any

from scalewise._checked import Count, checked
from scalewise.plan import PlanError
from scalewise.plan.spi import given
from scalewise.reading._critical import CriticalInit, proposals
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
