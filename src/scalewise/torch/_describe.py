"""From a module to a description: what each kind of module does with its parameters, axis by axis.

Parameters that are frozen are described too, since they are initialised and their outputs scale; only
parameter groups leave them out. Buffers and whole numbers are not described.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import torch
from torch import nn
from torch.nn.modules.batchnorm import _NormBase
from torch.nn.modules.conv import _ConvNd, _ConvTransposeNd
from torch.nn.parallel import DistributedDataParallel
from torch.nn.parameter import UninitializedParameter
from torch.optim.swa_utils import AveragedModel

from scalewise.plan import Kind, ModelDescription, PlanError, TensorDescription
from scalewise.plan.spi import Axes, bare
from scalewise.torch._parametrized import ComputedWeight, computed

_AROUND = (nn.DataParallel, DistributedDataParallel, AveragedModel)


Reader = Callable[[Any, str, int], Axes]
_UNKNOWN = Axes(Kind.UNKNOWN)
# What modules of many libraries call the sizes of what they are given, and of what they return.
_SIDES = (
    ("in_features", "out_features"), ("in_channels", "out_channels"), ("in_dim", "out_dim"),
    ("input_dim", "output_dim"), ("input_size", "output_size"), ("in_size", "out_size"), ("nx", "nf"),
    ("input_size", "hidden_size"),
)  # fmt: skip


def _bias(ndim: int) -> Axes:
    return Axes(Kind.BIAS, (), (ndim - 1,))


def _rows(_: nn.Module, name: str, ndim: int) -> Axes:
    """Matrices stored as (outputs, inputs): linear, recurrent and attention modules."""
    if name.startswith("bias") or name == "in_proj_bias":
        return _bias(ndim)
    known = name.startswith("weight_") or name.endswith("_proj_weight") or name == "weight"
    return Axes(Kind.MATRIX, (1,), (0,)) if known and ndim == 2 else _UNKNOWN


def _columns(_: nn.Module, name: str, ndim: int) -> Axes:
    """Matrices stored as (inputs, outputs)."""
    if name == "bias":
        return _bias(ndim)
    return Axes(Kind.MATRIX, (0,), (1,)) if name == "weight" and ndim == 2 else _UNKNOWN


def _linear(module: nn.Module, name: str, ndim: int) -> Axes:
    return _rows(module, name, ndim) if name in ("weight", "bias") else _UNKNOWN


def _conv(module: _ConvNd, name: str, ndim: int) -> Axes:
    kernel = tuple(range(2, ndim))
    if name == "bias":
        return _bias(ndim)
    if name != "weight":
        return _UNKNOWN
    if not isinstance(module, _ConvTransposeNd):
        # (outputs, inputs of one group, kernel): a depthwise one sums over its kernel alone.
        return Axes(Kind.MATRIX, (1, *kernel), (0,))
    if module.groups == 1:
        return Axes(Kind.MATRIX, (0, *kernel), (1,))
    # (inputs, outputs of one group, kernel): the first axis counts groups as well as their inputs.
    depthwise = module.groups == module.in_channels
    return Axes(Kind.MATRIX, kernel, (0, 1)) if depthwise else _UNKNOWN


def _embedding(_: nn.Module, name: str, ndim: int) -> Axes:
    return Axes(Kind.LOOKUP, (0,), (1,)) if name == "weight" else _UNKNOWN


def _gain(_: nn.Module, name: str, ndim: int) -> Axes:
    return Axes(Kind.GAIN, (), tuple(range(ndim))) if name in ("weight", "bias") else _UNKNOWN


def _bilinear(_: nn.Module, name: str, ndim: int) -> Axes:
    return _bias(ndim) if name == "bias" else _UNKNOWN


_READERS: dict[type[nn.Module], Reader] = {
    nn.Linear: _linear,
    nn.Bilinear: _bilinear,
    _ConvNd: _conv,
    nn.Embedding: _embedding,
    nn.EmbeddingBag: _embedding,
    nn.MultiheadAttention: _rows,
    nn.RNNBase: _rows,
    nn.RNNCellBase: _rows,
    nn.LayerNorm: _gain,
    nn.RMSNorm: _gain,
    nn.GroupNorm: _gain,
    _NormBase: _gain,
    nn.PReLU: _gain,
}


def _reader(module: nn.Module) -> Reader | None:
    for cls in type(module).__mro__:
        if cls in _READERS:
            return _READERS[cls]
        if cls.__name__ == "Conv1D" and cls.__module__.startswith("transformers."):
            return _columns
    return None


def _axes(module: nn.Module, name: str, shape: tuple[int, ...]) -> Axes:
    reader, ndim = _reader(module), len(shape)
    if reader is not None:
        return reader(module, name, ndim)
    # Norms of other people's making, by the name that they all share.
    if type(module).__name__.endswith(("RMSNorm", "LayerNorm")) and ndim == 1:
        return _gain(module, name, ndim)
    return _declared(module, shape)


def _declared(module: nn.Module, shape: tuple[int, ...]) -> Axes:
    """The sides of a matrix by the sizes that its module declares: what it does with them only the pass shows."""
    for one, two in _SIDES:
        sizes = getattr(module, one, None), getattr(module, two, None)
        if sizes[0] != sizes[1] and shape in (sizes, sizes[::-1]):
            into = shape.index(sizes[0])
            return Axes(Kind.UNKNOWN, (into,), (1 - into,))
    return _UNKNOWN


def places(model: nn.Module) -> dict[str, nn.Parameter]:
    """Every name of every floating-point parameter, without what wrappers insert around the model or inside."""
    raw = dict(unwrapped(model).named_parameters(remove_duplicate=False))
    return {bare(n, raw): p for n, p in raw.items() if p.is_floating_point() or p.is_complex()}


def unwrapped(model: nn.Module) -> nn.Module:
    """The model inside wrappers that hold all of it as their `module`: data parallelism, averages."""
    while isinstance(model, _AROUND):
        model = model.module
    return model


def describe(model: nn.Module) -> ModelDescription:
    """Names, shapes, axes and ties of a model's parameters.

    Args:
        model: Any module, on any device.

    Raises:
        PlanError: If a parameter has no shape yet, or is computed from others.
    """
    model = unwrapped(model)
    paths = {path for path, _ in model.named_modules(remove_duplicate=False)}
    found: dict[str, TensorDescription] = {}
    main: dict[int, str] = {}
    ties: dict[str, list[str]] = {}
    for name, parameter in places(model).items():
        first = main.setdefault(id(parameter), name)
        if first != name:
            ties.setdefault(first, []).append(name)
    known = computed(model)
    for path, module in model.named_modules(remove_duplicate=False):
        for local, parameter in module.named_parameters(recurse=False, remove_duplicate=False):
            if parameter.is_floating_point() or parameter.is_complex():
                own = known.get(id(parameter))
                tensor = _one(module, bare(path, paths), local, parameter, known=own is not None)
                if own is not None:
                    of = "" if own.direction is None else main[id(own.direction)]
                    tensor = _computed_as(tensor, own, bare(own.owner, paths), of)
                found[tensor.name] = tensor
    tensors = tuple(replace(found[n], aliases=tuple(ties.get(n, ()))) for n in main.values())
    others = {n: found[n] for names in ties.values() for n in names}
    return ModelDescription(tensors, others)


def _computed_as(
    tensor: TensorDescription, own: ComputedWeight, owner: str, of: str
) -> TensorDescription:
    """A parameter as what it is to the weight that the module around it uses."""
    module = type(own.module).__name__
    if own.part == "length":
        every = tuple(range(len(tensor.shape)))
        return replace(
            tensor, kind=Kind.GAIN, fan_in=(), fan_out=every, owner=owner, module=module, of=of
        )
    kind, fan_in, fan_out = _axes(own.module, own.local, tensor.shape)
    return replace(
        tensor, kind=kind, fan_in=fan_in, fan_out=fan_out, owner=owner, module=module,
        bounded=own.part == "bounded",
    )  # fmt: skip


def _computes(module: nn.Module, local: str) -> bool:
    """True if hooks compute a tensor that the module uses from this one, as older norms of weights do."""
    parts = local.split("_")
    bases = ("_".join(parts[:i]) for i in range(1, len(parts)))
    plain = vars(module)
    return any(isinstance(plain.get(base), torch.Tensor) for base in bases)


def _one(
    module: nn.Module, owner: str, local: str, parameter: nn.Parameter, *, known: bool = False
) -> TensorDescription:
    name = f"{owner}.{local}" if owner else local
    if isinstance(parameter, UninitializedParameter):
        raise PlanError(
            f"`{name}` of a {type(module).__name__} has no shape before the first batch. Let the "
            "factory pass one batch through the model, or name its sizes."
        )
    if known:
        return TensorDescription(name, tuple(parameter.shape), Kind.UNKNOWN)
    if ".parametrizations." in f".{name}." or _computes(module, local):
        raise PlanError(
            f"`{name}` is not a weight: a parametrization computes one from it, and how its size and "
            "step pass through is not known. Plan the model without the parametrization (weight_norm and "
            "spectral_norm of torch.nn.utils are known)."
        )
    kind, fan_in, fan_out = _axes(module, local, tuple(parameter.shape))
    return TensorDescription(
        name, tuple(parameter.shape), kind, fan_in, fan_out, owner, type(module).__name__
    )
