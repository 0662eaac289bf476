"""What the modules of Flax NNX and Equinox do with their parameters, axis by axis."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from scalewise.jax._trees import class_of
from scalewise.plan import Kind
from scalewise.plan.spi import Axes

Shape = tuple[int, ...]
Reader = Callable[[Any, str, Shape], Axes]
UNKNOWN = Axes(Kind.UNKNOWN)


def axes_in_module(owner: Any, key: str, shape: Shape) -> tuple[Axes, str]:
    """Kind and axes of a parameter by the type of its module, and the name of that type.

    Args:
        owner: The module, or anything else.
        key: Name of the parameter in it.
        shape: Its shape. Axes in front of those that the module declares number copies of it, as
            `vmap` over its construction makes them.
    """
    for package, readers in (("flax.nnx", _NNX), ("equinox", _EQUINOX)):
        found = class_of(owner, package, tuple(readers))
        if found is not None:
            return readers[found](owner, key, shape), type(owner).__name__
    return UNKNOWN, type(owner).__name__


def _stacked(shape: Shape, declared: Shape, axes: Axes) -> Axes:
    """The axes behind those that number copies; unknown if the shape is not the declared one."""
    extra = len(shape) - len(declared)
    if extra < 0 or shape[extra:] != declared:
        return UNKNOWN
    return Axes(
        axes.kind, tuple(i + extra for i in axes.fan_in), tuple(i + extra for i in axes.fan_out)
    )


def _bias(shape: Shape) -> Axes:
    return Axes(Kind.BIAS, (), tuple(range(len(shape))))


def _gain(names: tuple[str, ...]) -> Reader:
    def read(_: Any, key: str, shape: Shape) -> Axes:
        return Axes(Kind.GAIN, (), tuple(range(len(shape)))) if key in names else UNKNOWN

    return read


def _matrix(key: str, weight: str, shape: Shape, declared: Shape, axes: Axes) -> Axes:
    if key == "bias":
        return _bias(shape)
    return _stacked(shape, declared, axes) if key == weight else UNKNOWN


def _nnx_linear(module: Any, key: str, shape: Shape) -> Axes:
    declared = (module.in_features, module.out_features)
    return _matrix(key, "kernel", shape, declared, Axes(Kind.MATRIX, (0,), (1,)))


def _nnx_general(module: Any, key: str, shape: Shape) -> Axes:
    ins, outs = len(module.in_features), len(module.out_features)
    declared = (*module.in_features, *module.out_features)
    axes = Axes(Kind.MATRIX, tuple(range(ins)), tuple(range(ins, ins + outs)))
    return _matrix(key, "kernel", shape, declared, axes)


def _nnx_einsum(module: Any, key: str, shape: Shape) -> Axes:
    """The letters of a kernel that the result lacks are summed over."""
    operands, _, result = module.einsum_str.replace(" ", "").partition("->")
    inputs, _, letters = operands.partition(",")
    if key == "kernel" and (not letters.isalpha() or not result):
        return UNKNOWN
    summed = tuple(i for i, c in enumerate(letters) if c not in result)
    written = tuple(i for i, c in enumerate(letters) if c in result and c not in inputs)
    declared = tuple(module.kernel_shape)
    return _matrix(key, "kernel", shape, declared, Axes(Kind.MATRIX, summed, written))


def _nnx_conv(module: Any, key: str, shape: Shape) -> Axes:
    declared = tuple(module.kernel_shape)
    last = len(declared) - 1
    kernel = tuple(range(last - 1))
    ins, out = (*kernel, last - 1), last
    if getattr(module, "transpose_kernel", False):
        ins, out = (*kernel, last), last - 1
    return _matrix(key, "kernel", shape, declared, Axes(Kind.MATRIX, ins, (out,)))


def _nnx_embed(module: Any, key: str, shape: Shape) -> Axes:
    declared = (module.num_embeddings, module.features)
    return _lookup(key == "embedding", shape, declared)


def _lookup(found: bool, shape: Shape, declared: Shape) -> Axes:
    return _stacked(shape, declared, Axes(Kind.LOOKUP, (0,), (1,))) if found else UNKNOWN


def _nnx_lora(module: Any, key: str, shape: Shape) -> Axes:
    a, b = module.lora_a.shape[-2:], module.lora_b.shape[-2:]
    sizes = {"lora_a": tuple(a), "lora_b": tuple(b)}
    if key not in sizes:
        return UNKNOWN
    return _stacked(shape, sizes[key], Axes(Kind.MATRIX, (0,), (1,)))


def _eqx_linear(module: Any, key: str, shape: Shape) -> Axes:
    sizes = (module.out_features, module.in_features)
    declared = tuple(1 if s == "scalar" else s for s in sizes)
    return _matrix(key, "weight", shape, declared, Axes(Kind.MATRIX, (1,), (0,)))


def _eqx_conv(module: Any, key: str, shape: Shape) -> Axes:
    # (outputs, inputs of one group, kernel), and so for the transposed ones too.
    kernel = tuple(module.kernel_size)
    declared = (module.out_channels, module.in_channels // module.groups, *kernel)
    axes = Axes(Kind.MATRIX, tuple(range(1, 2 + len(kernel))), (0,))
    return _matrix(key, "weight", shape, declared, axes)


def _eqx_embedding(module: Any, key: str, shape: Shape) -> Axes:
    return _lookup(key == "weight", shape, (module.num_embeddings, module.embedding_size))


def _eqx_cell(gates: int) -> Reader:
    def read(module: Any, key: str, shape: Shape) -> Axes:
        if key in ("bias", "bias_n"):
            return _bias(shape)
        columns = {"weight_ih": module.input_size, "weight_hh": module.hidden_size}
        if key not in columns:
            return UNKNOWN
        declared = (gates * module.hidden_size, columns[key])
        return _stacked(shape, declared, Axes(Kind.MATRIX, (1,), (0,)))

    return read


_NNX: dict[str, Reader] = {
    "Linear": _nnx_linear,
    "LinearGeneral": _nnx_general,
    "Einsum": _nnx_einsum,
    "Conv": _nnx_conv,
    "ConvTranspose": _nnx_conv,
    "Embed": _nnx_embed,
    "LoRA": _nnx_lora,
    **dict.fromkeys(
        ("BatchNorm", "GroupNorm", "InstanceNorm", "LayerNorm", "RMSNorm"),
        _gain(("scale", "bias")),
    ),
    "PReLU": _gain(("negative_slope",)),
}
_EQUINOX: dict[str, Reader] = {
    "Linear": _eqx_linear,
    "Conv": _eqx_conv,
    "ConvTranspose": _eqx_conv,
    "Embedding": _eqx_embedding,
    "GRUCell": _eqx_cell(3),
    "LSTMCell": _eqx_cell(4),
    **dict.fromkeys(("BatchNorm", "GroupNorm", "LayerNorm", "RMSNorm"), _gain(("weight", "bias"))),
    "PReLU": _gain(("negative_slope",)),
}
