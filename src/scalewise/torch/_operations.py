"""What operations of PyTorch make of entries."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.utils import _pytree as pytree

from scalewise.reading.spi import (
    Entries,
    ModelReader,
    Operand,
    Plain,
    contracted,
    embedded,
    entrywise,
    normed,
    reduced,
    softmax,
)
from scalewise.torch._windows import adaptive, convolution, pool, scattered

# What moves entries and nothing else: done to entries as it is done to numbers.
_MOVES = frozenset(
    """view _unsafe_view reshape _reshape_alias t transpose permute expand unsqueeze squeeze slice select split
    split_with_sizes unbind unsafe_split unsafe_split_with_sizes unsafe_chunk chunk clone _to_copy detach alias cat
    stack repeat repeat_interleave constant_pad_nd roll flip as_strided triu tril copy diagonal gather index
    index_select movedim contiguous lift_fresh unfold pixel_shuffle pixel_unshuffle narrow T mT numpy_T view_copy
    upsample_nearest1d upsample_nearest2d to""".split()  # noqa: SIM905
)
_UNARY = {
    name: name
    for name in """neg tanh sigmoid relu silu erf erfc exp expm1 log log1p sqrt rsqrt reciprocal abs sign sin cos
    mish hardsigmoid hardswish square""".split()  # noqa: SIM905
}
_FRESH = frozenset(
    """zeros_like ones_like empty_like full_like new_zeros new_ones new_empty new_full rand_like randn_like sym_size
    is_same_size _local_scalar_dense""".split()  # noqa: SIM905
)  # what does not look at numbers
_BINARY = frozenset(["mul", "div", "maximum", "minimum"])


class Operations:
    """Entries of what an operation returns, from those of its arguments."""

    read: ModelReader

    def entries(self, tensor: Any) -> Any:
        """The entries of a tensor; ``None`` of numbers."""
        raise NotImplementedError

    def _operand(self, own: Any) -> Any:
        if not isinstance(own, Tensor):
            return Plain(np.array(float(own)))
        entries = self.entries(own)
        if entries is None:
            return Plain(own.detach().double().numpy())
        assert isinstance(entries, Tensor)
        return entries.numpy()

    def _moved(self, own: Any) -> Any:
        """An argument of what moves entries."""
        if not isinstance(own, Tensor):
            return own
        entries = self.entries(own)
        if entries is not None:
            return entries
        if not own.dtype.is_floating_point:
            return own
        if own.any():
            raise self.read.refuse(
                "puts numbers beside its fields that are not 0. Let parameters hold them."
            )
        return torch.zeros(own.shape, dtype=torch.long)

    def _result(
        self, name: str, func: Any, args: Any, kwargs: Any, out: Any, in_place: bool
    ) -> Any:
        read = self.read
        x = args[0] if args else None
        if name in _FRESH:
            return None
        if name in _MOVES:
            if name == "copy":
                value = self._moved(args[1])
                return value.expand(args[0].shape).numpy()
            if name == "_to_copy" and not out.dtype.is_floating_point and not self._is_input(x):
                raise read.refuse("rounds what it computes. Leave that out of the model.")
            if name in ("_to_copy", "lift_fresh", "to"):
                return self._moved(x).clone()
            if name == "constant_pad_nd" and (args[2] if len(args) > 2 else kwargs.get("value", 0)):
                raise read.refuse("pads with a number that is not 0. Pad with zeros.")
            given, named = pytree.tree_map(self._moved, (args, kwargs))
            if name.startswith("upsample_nearest"):
                return func(given[0].double(), *given[1:], **named).long()
            return func(*given, **named)
        operand = self._operand
        if name in ("add", "sub", "rsub"):
            other = operand(args[1])
            alpha = kwargs.get("alpha", args[2] if len(args) > 2 else 1)
            one = operand(x)
            if alpha != 1:
                target = (
                    entrywise(read, "mul", [other, Plain(np.array(float(alpha)))])
                    if not isinstance(other, Plain)
                    else Plain(alpha * other.value)
                )
                other = target
            if name == "rsub":
                return entrywise(read, "sub", [other, one])
            return entrywise(read, name, [one, other])
        if name in _UNARY:
            return entrywise(read, _UNARY[name], [operand(x)])
        if name in _BINARY:
            return entrywise(read, name, [operand(x), operand(args[1])])
        found = self._function(name, args, kwargs)
        if found is not None:
            return found
        return self._sum(name, func, args, kwargs, out)

    def _is_input(self, own: Any) -> bool:
        return isinstance(own, Tensor) and not own.dtype.is_floating_point

    def _function(self, name: str, args: Any, kwargs: Any) -> Any:
        """A function with numbers of its own."""
        read, operand = self.read, self._operand

        def of(own: str, *numbers: Any) -> Any:
            return entrywise(read, own, [operand(args[0]), *(operand(n) for n in numbers)])

        given = list(args[1:])
        match name:
            case "pow":
                return of("pow", args[1])
            case "gelu":
                tanh = kwargs.get("approximate", "none") == "tanh"
                return of("gelu_tanh" if tanh else "gelu")
            case "leaky_relu":
                return of(name, *(given or [0.01]))
            case "elu":
                return of(name, *given, *[1.0] * (3 - len(given)))
            case "celu":
                alpha = given[0] if given else 1.0
                return of("elu", alpha, 1.0, 1.0 / alpha)
            case "selu":
                return of("elu", 1.6732632423543772, 1.0507009873554805, 1.0)
            case "softplus":
                return of(name, given[0] if given else 1.0)
            case "log_sigmoid_forward":
                return of("log_sigmoid")
            case "hardtanh" | "clamp" | "clamp_min" | "clamp_max":
                usual = [-1.0, 1.0] if name == "hardtanh" else [None, None]
                low, high = [*given, *usual[len(given) :], None][:2]
                if name == "clamp_max":
                    low, high = None, given[0]
                low = -np.inf if low is None else low
                high = np.inf if high is None else high
                return of("clamp", low, high)
            case "where" | "masked_fill":
                return self._where(name, args)
            case "_softmax" | "_safe_softmax":
                return softmax(read, operand(args[0]), args[1])
            case "glu":
                halves = np.split(operand(args[0]), 2, axis=given[0] if given else -1)
                return entrywise(read, "mul", [halves[0], entrywise(read, "sigmoid", [halves[1]])])
            case "native_dropout" | "dropout":
                return operand(args[0])
        return None

    def _where(self, name: str, args: Any) -> Any:
        """A mask: of logits, or of what becomes 0."""
        read = self.read
        mask, one, two = args if name == "where" else (args[1], args[2], args[0])
        given = [self._operand(own) for own in (mask, one, two)]
        if not isinstance(given[0], Plain):
            raise read.refuse("chooses by what it computes, entry by entry. Use an activation.")
        return entrywise(read, "where", given)

    def _sum(self, name: str, func: Any, args: Any, kwargs: Any, out: Any) -> Any:
        """The reading of operations that add up entries."""
        read, operand = self.read, self._operand
        x = args[0]
        match name:
            case "mm" | "bmm":
                return contracted(read, operand(x), operand(args[1]))
            case "mv":
                return contracted(read, operand(x), operand(args[1])[:, None])[:, 0]
            case "addmm" | "baddbmm":
                product = contracted(read, operand(args[1]), operand(args[2]))
                if kwargs.get("alpha", 1) != 1:
                    product = entrywise(read, "mul", [product, operand(kwargs["alpha"])])
                if not kwargs.get("beta", 1):
                    return product
                return entrywise(read, "add", [product, operand(x)])
            case "convolution":
                found = convolution(read, operand(x), operand(args[1]), args[1], args[3:9])
                return self._with_gains(found, None, args[2], 1)
            case "embedding":
                return embedded(read, operand(x), operand(args[1]))
            case (
                "avg_pool2d"
                | "avg_pool3d"
                | "avg_pool1d"
                | "max_pool2d_with_indices"
                | "max_pool3d_with_indices"
            ):
                return pool(read, name, operand(x), list(args[1:]))
            case "_adaptive_avg_pool2d" | "_adaptive_avg_pool3d":
                return adaptive(read, operand(x), args[1])
            case "scatter_add" | "index_add" | "scatter_reduce":
                if any(self.entries(t) is not None for t in (args[2], x)) or x.any():
                    raise read.refuse(
                        "adds rows up where its inputs say. Let the places be the same for all samples."
                    )
                return scattered(read, name, operand(args[3]), args, kwargs)
        for found in (self._normed(name, args), self._averaged(name, args, kwargs)):
            if found is not None:
                return found
        if read.of_weights(
            [
                e.numpy()
                for t in pytree.tree_leaves((args, kwargs))
                if isinstance(e := self.entries(t), Tensor)
            ]
        ):
            raise read.refuse(
                "computes weights from weights. Let it use them as they are, times a number."
            )
        raise read.refuse(
            f"calls {func._schema.name}, which is not known. Give that module as a layer of `given`."
        )

    def _normed(self, name: str, args: Any) -> Any:
        """A norm, or ``None``."""
        read, operand = self.read, self._operand
        x = args[0]
        match name:
            case "native_layer_norm":
                shape = args[1]
                if len(shape) > 1:
                    raise read.refuse("norms over several axes. Norm over channels alone.")
                return self._with_gains(
                    normed(read, operand(x), True, args[4], None), args[2], args[3], -1
                )
            case "_fused_rms_norm":
                return self._rms(x, args)
            case "native_group_norm":
                own = normed(read, operand(x), False, args[7], args[6])
                return self._with_gains(own, args[1], args[2], 1)
            case (
                "native_batch_norm"
                | "_native_batch_norm_legit_no_training"
                | "cudnn_batch_norm"
                | "_batch_norm_no_update"
            ):
                return self._batch_norm(name, args)
        return None

    def _averaged(self, name: str, args: Any, kwargs: Any) -> Any:
        """A reduction, or ``None``."""
        read, operand = self.read, self._operand
        x = args[0]
        match name:
            case "mean" | "sum" | "amax":
                axes = kwargs.get("dim", args[1] if len(args) > 1 else None)
                keep = kwargs.get("keepdim", args[2] if len(args) > 2 else False)
                how = "max" if name == "amax" else name
                return self._reduced(operand(x), axes, keep, how)
            case "linalg_vector_norm" | "norm":
                axes = kwargs.get("dim", args[2] if len(args) > 2 else None)
                keep = kwargs.get("keepdim", args[3] if len(args) > 3 else False)
                total = self._reduced(entrywise(read, "square", [operand(x)]), axes, keep, "sum")
                return entrywise(read, "sqrt", [total])
            case "var":
                axes, keep = args[1], kwargs.get("keepdim", False)
                return self._variance(operand(x), axes, keep, kwargs.get("correction", 1))
            case "var_mean":
                axes, keep = args[1], kwargs.get("keepdim", False)
                own = operand(x)
                return (
                    self._variance(own, axes, keep, kwargs.get("correction", 1)),
                    self._reduced(own, axes, keep, "mean"),
                )
        return None

    def _reduced(self, x: Entries, axes: Any, keep: bool, how: str) -> Any:
        axes = (
            list(range(x.ndim))
            if axes is None or axes == []
            else [axes]
            if isinstance(axes, int)
            else list(axes)
        )
        axes = [a % x.ndim for a in axes]
        shape = tuple(1 if a in axes else n for a, n in enumerate(x.shape))
        found = reduced(self.read, x, axes, how)
        found = np.asarray(found).reshape(shape)
        return found if keep else found.reshape([n for a, n in enumerate(shape) if a not in axes])

    def _variance(self, x: Entries, axes: Any, keep: bool, correction: float) -> Any:
        mean = self._reduced(x, axes, True, "mean")
        apart = entrywise(self.read, "sub", [x, mean])
        found = self._reduced(entrywise(self.read, "square", [apart]), axes, keep, "mean")
        count = x.size / np.asarray(mean).size
        factor = Plain(np.array(count / (count - (correction or 0))))
        return entrywise(self.read, "mul", [found, factor])

    def _with_gains(self, own: Operand, gain: Any, bias: Any, axis: int) -> Operand:
        for name, by in (("mul", gain), ("add", bias)):
            if by is not None:
                shape = [1] * np.ndim(own)
                shape[axis] = -1
                raw = self._operand(by)
                raw = (
                    Plain(raw.value.reshape(shape))
                    if isinstance(raw, Plain)
                    else raw.reshape(shape)
                )
                own = entrywise(self.read, name, [own, raw])
        return own

    def _rms(self, x: Any, args: Any) -> Operand:
        read, own = self.read, self._operand(x)
        eps = args[3] if len(args) > 3 and args[3] is not None else torch.finfo(x.dtype).eps
        square = self._reduced(entrywise(read, "square", [own]), [-1], True, "mean")
        root = entrywise(
            read, "rsqrt", [entrywise(read, "add", [square, Plain(np.array(float(eps)))])]
        )
        return self._with_gains(entrywise(read, "mul", [own, root]), args[2], None, -1)

    def _batch_norm(self, name: str, args: Any) -> Operand:
        if name == "native_batch_norm" and args[5]:
            raise self.read.refuse(
                "normalises over its batch, as in training. Put it into evaluation mode."
            )
        x, gain, bias, mean, var = args[:5]
        eps = args[-1]
        root = 1 / np.sqrt(var.detach().double().numpy() + eps)
        shape = [1, -1] + [1] * (x.ndim - 2)
        own = self._operand(x)
        own = entrywise(
            self.read, "sub", [own, Plain(mean.detach().double().numpy().reshape(shape))]
        )
        own = entrywise(self.read, "mul", [own, Plain(root.reshape(shape))])
        return self._with_gains(own, gain, bias, 1)
