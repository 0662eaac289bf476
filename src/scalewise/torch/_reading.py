"""`network`: a module as a network."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Annotated, Any

import torch
from torch import Tensor, nn
from torch.utils import _pytree as pytree

from scalewise._checked import Count, Must, checked
from scalewise.networks import Network
from scalewise.networks.spi import Layer
from scalewise.plan import PlanError
from scalewise.plan.spi import Inputs
from scalewise.plan.spi import given as called_with
from scalewise.reading.spi import (
    GivenLayers,
    MixedSamplesError,
    ParameterLaw,
    ReadModel,
    UnreadError,
    layers_of,
    network_from,
    read_model,
)
from scalewise.torch._drawn import drawn, told_by_entries
from scalewise.torch._given import without_numbers
from scalewise.torch._network import traced

ModelOrFactory = Annotated[
    nn.Module | Callable[..., Any],
    Must("a module, or a function of the width that returns a new one"),
]


class FixedSizesError(PlanError):
    """A factory that builds its model at one width alone."""


@checked(error=PlanError)
def network(
    build: ModelOrFactory,
    inputs: Any,
    *,
    width: Count | None = None,
    at: int | Sequence[int] | None = None,
    gains: bool = False,
    given: Mapping[str, Any] | None = None,
) -> Network:
    r"""Read a model into a network, by the operations of one forward pass.

    Args:
        build: A function of the width that returns a new model, called at `width` and at twice as much; or a model
            with freshly drawn weights, whose hidden layers are then all taken to grow.
        inputs: What the model is called with: a tensor, a tuple of arguments or a dict of named ones. The first
            axis of every tensor is that of the samples, unless the model computes something else of some samples
            alone; then all of it is one sample.
        width: The network's; of a model the channels of its first layer for ``None``.
        at: Of outputs that have positions the one that is kept, such as ``-1`` of a language model: observables of
            order $1/n$ and trainings are those of outputs at one site. All are kept for ``None``.
        gains: Whether parameters that begin as one number (gains and biases of norms) count for what they learn.
        given: Layers of ours for modules that are not understood: name of the module to a layer or several, which
            take what it is first called with. Their numbers are not the model's, and nothing checks them.

    Returns:
        The network of that width, whose inputs are the model's: of several tensors the numbers of a sample in a
        row. Variances are those with which the factory draws, exactly where it fills tensors with normal or uniform
        numbers; of a model those of its entries. Learning rates are 1 for every parameter.

    Raises:
        PlanError: If something the model does is not known; with the place. If it draws random numbers, has none
            (on the device ``meta``, quantised), or the factory builds it at one width alone. Or if the network with
            the model's weights does not return what the model returns, in double precision.

    Example:
        >>> import torch, scalewise as sw
        >>> def build(width):
        ...     return torch.nn.Sequential(
        ...         torch.nn.Linear(8, width, bias=False), torch.nn.Tanh(), torch.nn.Linear(width, 1))
        >>> net = sw.torch.network(build, torch.ones(2, 8), width=64)
        >>> net.depth, [round(own, 6) for own in net.C_W]
        (2, [0.333333, 0.333333])
    """
    made = called_with(inputs)
    if made is None:
        raise PlanError(
            "`inputs` must be what the model is called with, such as a tensor of a few samples."
        )
    try:
        layers = layers_of(given)
        place = None if at is None else (at,) if isinstance(at, int) else tuple(at)
        return network_and_model(build, made, width, place, gains, layers)[0]
    except (UnreadError, MixedSamplesError) as error:
        raise PlanError(str(error)) from error


def network_and_model(
    build: Any,
    made: Inputs,
    width: int | None,
    at: tuple[int, ...] | None,
    gains: bool,
    layers: Mapping[str, tuple[Layer, ...]],
) -> tuple[Network, ReadModel]:
    """See `network`; and the model of that width, as it was read."""
    if isinstance(build, nn.Module):
        one = read_module(
            build, told_by_entries(build), made, at, gains, GivenLayers(layers, width or 1)
        )
        first = next(s.given[0].channels for s in one.steps if s.verb == "draw")
        return network_from(one, first if width is None else width, None), one
    if width is None:
        raise PlanError("`width` must be given with a factory, such as width=64.")
    one = read_module(*drawn(lambda: build(width)), made, at, gains, GivenLayers(layers, width))
    try:
        twice = drawn(lambda: build(2 * width))
    except Exception as error:
        raise FixedSizesError(
            f"The factory does not build the model at width {2 * width}: it raised {type(error).__name__}"
            f"{f': {error}' if str(error) else ''}. Let its layers follow the width; or give the model itself, of "
            "which all hidden layers are taken to grow."
        ) from error
    wide = read_module(*twice, made, at, gains, GivenLayers(layers, 2 * width))
    return network_from(one, width, wide), one


def read_module(
    model: nn.Module,
    laws: Mapping[str, ParameterLaw],
    inputs: Inputs,
    at: tuple[int, ...] | None,
    gains: bool,
    given: GivenLayers,
) -> ReadModel:
    """A module as steps, whose parameters are drawn by these laws; see `network` for the others."""
    lost = given.layers.keys() - {name for name, _ in model.named_modules()}
    if lost:
        raise UnreadError(
            f"`given` must be by the names of modules; the model has no {sorted(lost)}."
        )
    if refused := without_numbers(model):
        raise UnreadError(refused)
    try:
        samples = has_samples(model, inputs)
    except Exception as error:
        raise UnreadError(
            f"The model cannot be called with `inputs`: it raised {type(error).__name__}: {error}. Give what it is "
            "called with: a tensor, a tuple of arguments or a dict of named ones."
        ) from error
    return read_model(
        lambda flat: traced(model, laws, inputs, given, flat=flat, gains=gains, samples=samples), at
    )


def has_samples(model: nn.Module, inputs: Inputs) -> bool:
    """True if the first axis is that of the samples: some of them alone give the same."""
    tensors = [
        t for t in pytree.tree_leaves((inputs.args, dict(inputs.kwargs))) if isinstance(t, Tensor)
    ]
    counts = {len(t) if t.ndim else 0 for t in tensors}
    if len(counts) != 1:
        return False
    (count,) = counts
    if count < 2:
        return True
    model.eval()

    def first(args: Any, kwargs: Any) -> Tensor:
        with torch.no_grad():
            return next(
                t for t in pytree.tree_leaves(model(*args, **kwargs)) if isinstance(t, Tensor)
            )

    whole = first(inputs.args, inputs.kwargs)
    some = pytree.tree_map(
        lambda v: v[:1] if isinstance(v, Tensor) else v, (inputs.args, dict(inputs.kwargs))
    )
    try:
        alone = first(*some)
    except Exception:
        return False
    return alone.shape[1:] == whole.shape[1:] and torch.allclose(
        alone, whole[:1], rtol=1e-3, atol=1e-5
    )
