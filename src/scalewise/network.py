"""The network whose behaviour is predicted and measured: shape and hyperparameters, no weights."""

from __future__ import annotations

import hashlib
import math
import numbers
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from jaxtyping import Float

from scalewise._arrays import float_array, real_array
from scalewise.activations import Activation
from scalewise.activations import activation as to_activation
from scalewise.critical import Criticality, criticality, equivalent_rates, rates_along

__all__ = ["MLP", "check_inputs", "check_kernels", "digest_of", "refuse_zero_inputs"]

# One number, or one for each layer, in any form that `scalewise._arrays` reads.
PerLayer = Any
_DECADES = 280  # of float64 on either side of 1, with some to spare for factors


class _Same(tuple):
    """One number for every layer: `dataclasses.replace` with another depth repeats it for the new layers."""


@dataclass(frozen=True, init=False)
class MLP:
    r"""A multilayer perceptron at initialisation, in PDLT's parametrisation.

    $$z^{(1)}=b^{(1)}+W^{(1)}x,\qquad z^{(\ell+1)}=b^{(\ell+1)}+W^{(\ell+1)}\sigma(z^{(\ell)}),
    \qquad f(x)=z^{(L)},$$
    $$b^{(\ell)}_i\sim N(0,C_b^{(\ell)}),\qquad W^{(\ell)}_{ij}\sim N(0,C_W^{(\ell)}/n_{\ell-1}),$$
    and learning rates $\lambda_b^{(\ell)}$ for biases, $\lambda_W^{(\ell)}/n_{\ell-1}$ for weights.

    A network is a value: equal to any other with the same numbers, hashable, and ``dataclasses.replace(net,
    depth=8)`` is the same network with more layers, where every number that was given once for all layers is
    repeated.

    Args:
        depth: $L$, the number of weight layers, at least 1.
        width: Width of every hidden layer, or the $L-1$ hidden widths. Ignored for depth 1.
        activation: Name, callable or `Activation`.
        input_dim: $n_0$.
        output_dim: $n_L$.
        C_b: Bias variance, one number or one per layer; at least 0.
        C_W: Rescaled weight variance, one number or one per layer; positive.
        lambda_b: Learning-rate factor of the biases; at least 0.
        lambda_W: Learning-rate factor of the weights; at least 0.

    Raises:
        ValueError: If a size is below 1, a variance or rate is negative or not finite, or a list
            has the wrong length. The message names the argument and the value.

    Source: PDLT (2.5), (2.19)-(2.20), (8.6).

    Example:
        >>> import scalewise as sw
        >>> net = sw.MLP(4, 128, "tanh", input_dim=64, output_dim=10)
        >>> net.widths
        (64, 128, 128, 128, 10)
    """

    depth: int
    width: tuple[int, ...]
    activation: Activation
    input_dim: int
    output_dim: int
    C_b: tuple[float, ...]
    C_W: tuple[float, ...]
    lambda_b: tuple[float, ...]
    lambda_W: tuple[float, ...]

    def __init__(
        self,
        depth: int,
        width: Any,
        activation: str | Activation | Callable[[Any], Any],
        *,
        input_dim: int,
        output_dim: int,
        C_b: PerLayer = 0.0,
        C_W: PerLayer = 1.0,
        lambda_b: PerLayer = 1.0,
        lambda_W: PerLayer = 1.0,
    ) -> None:
        depth = _size("depth", depth, "counts weight layers")
        store = object.__setattr__
        store(self, "depth", depth)
        store(self, "width", _hidden_widths(width, depth))
        store(self, "activation", to_activation(activation))
        store(self, "input_dim", _size("input_dim", input_dim, "is the number of features"))
        store(self, "output_dim", _size("output_dim", output_dim, "is the number of outputs"))
        store(self, "C_b", _per_layer("C_b", C_b, depth))
        store(self, "C_W", _per_layer("C_W", C_W, depth, positive=True))
        store(self, "lambda_b", _per_layer("lambda_b", lambda_b, depth))
        store(self, "lambda_W", _per_layer("lambda_W", lambda_W, depth))

    @property
    def hidden_widths(self) -> tuple[int, ...]:
        r"""$(n_1,\dots,n_{L-1})$."""
        return tuple(self.width)

    @property
    def criticality(self) -> Criticality | None:
        """The record of the critical point that all layers are at; ``None`` if they are not."""
        record = criticality(self.activation)
        critical = ({record.C_b}, {record.C_W})
        return record if (set(self.C_b), set(self.C_W)) == critical else None

    @property
    def widths(self) -> tuple[int, ...]:
        r"""$(n_0,n_1,\dots,n_L)$."""
        return (self.input_dim, *self.hidden_widths, self.output_dim)

    @property
    def parameters(self) -> int:
        r"""$P=\sum_\ell(n_\ell+n_\ell n_{\ell-1})$, PDLT (2.7).

        Example:
            >>> import scalewise as sw
            >>> sw.MLP(4, 5, "tanh", input_dim=4, output_dim=1).parameters
            91
        """
        n = self.widths
        return sum(n[i] * (1 + n[i - 1]) for i in range(1, len(n)))

    @property
    def aspect_ratio(self) -> float:
        r"""$r=L/n$ with $1/n$ the mean of $1/n_\ell$ over the hidden layers; 0 for depth 1."""
        hidden = self.hidden_widths
        return self.depth * sum(1 / n for n in hidden) / len(hidden) if hidden else 0.0

    def at_criticality(self) -> MLP:
        """The same network with the critical `C_b`, `C_W` of its activation in every layer.

        Returns:
            A copy whose `criticality` is the record that the numbers come from.

        Raises:
            ValueError: If the activation has no critical point; the message says why.
        """
        record = criticality(self.activation)
        if record.C_b is None or record.C_W is None:
            raise ValueError(
                f"{self.activation.name!r} has no critical initialisation: {record.reason} "
                "Set C_b and C_W yourself, or choose another activation."
            )
        return replace(self, C_b=record.C_b, C_W=record.C_W)

    def at_width(self, width: int | Sequence[int]) -> MLP:
        """The same network with other hidden widths."""
        return replace(self, width=width)

    def with_equivalent_learning_rates(
        self, lambda_b: float = 1.0, lambda_W: float = 1.0, *, kernel: float | None = None
    ) -> MLP:
        r"""The same network with rates that let every layer contribute equally to the NTK.

        $$\lambda_b^{(\ell)}=\tilde\lambda_b/L,\qquad\lambda_W^{(\ell)}=\tilde\lambda_W/L$$
        for a scale-invariant activation (and, at $K=K^\star$, a half-stable one);
        $$\lambda_b^{(\ell)}=\tilde\lambda_b\,\ell^{-p_\perp}L^{p_\perp-1},\qquad
          \lambda_W^{(\ell)}=\tilde\lambda_W(L/\ell)^{p_\perp-1}$$
        for the class $K^\star=0$, where contributions are equal asymptotically in $\ell$. The NTK
        of the output is then independent of the depth. With `kernel` the rates are computed layer
        by layer from the products of $\chi_\perp$ instead: for an input of that kernel all
        contributions are exactly equal, at any hyperparameters and for any activation.

        Args:
            lambda_b: $\tilde\lambda_b$, at least 0.
            lambda_W: $\tilde\lambda_W$, at least 0.
            kernel: $K^{(1)}=C_b+C_W|x|^2/n_0$ of a typical input; ``None`` to use the rule of the
                activation's class, at its critical hyperparameters.

        Returns:
            A copy; $\lambda_W^{(\ell)}$ is divided by $n_{\ell-1}$ by the network itself.

        Raises:
            ValueError: If a rate is negative or not finite; without `kernel`, if the activation has
                no class or $C_b,C_W$ are not critical behind the first layer; with `kernel`, if the
                signal explodes or vanishes.

        Source: PDLT (9.94)-(9.96), (9.28). The rule with `kernel`, and those of half-stable points
        and of a kink at 0, follow from the same demand; they are not printed.

        Example:
            >>> import scalewise as sw
            >>> net = sw.MLP(4, 128, "tanh", input_dim=64, output_dim=10).at_criticality()
            >>> net.with_equivalent_learning_rates(lambda_b=12.0).lambda_b
            (12.0, 6.0, 4.0, 3.0)
        """
        for name, rate in (("lambda_b", lambda_b), ("lambda_W", lambda_W)):
            _per_layer(name, rate, 1)
        if kernel is not None:
            bias, weight = rates_along(
                self.activation, kernel, self.C_b, self.C_W, lambda_b, lambda_W
            )
        else:
            record = criticality(self.activation)
            bias, weight = equivalent_rates(record, self.depth, lambda_b, lambda_W)
            _require_criticality(self, record)
        return replace(self, lambda_b=bias, lambda_W=weight)

    def attributes(self) -> dict[str, object]:
        """What a result must carry to be computed again: plain numbers, text and lists."""
        return {
            "depth": self.depth,
            "hidden_widths": list(self.hidden_widths),
            "activation": self.activation.name,
            "activation_digest": self.activation.digest(),
            "input_dim": self.input_dim,
            "output_dim": self.output_dim,
            "C_b": list(self.C_b),
            "C_W": list(self.C_W),
            "lambda_b": list(self.lambda_b),
            "lambda_W": list(self.lambda_W),
        }

    def __str__(self) -> str:
        hidden = sorted(set(self.hidden_widths))
        width = "none" if not hidden else hidden[0] if len(hidden) == 1 else self.hidden_widths
        return (
            f"MLP(depth={self.depth}, width={width}, activation={self.activation.name!r}, "
            f"input_dim={self.input_dim}, output_dim={self.output_dim})"
        )


def _require_criticality(net: MLP, record: Criticality) -> None:
    """Refuse hyperparameters behind the first layer that are not those of the record."""
    C_b, C_W = record.C_b, record.C_W
    for layer in range(1, net.depth):
        here = (net.C_b[layer], net.C_W[layer])
        if C_b is None or C_W is None or not np.allclose(here, (C_b, C_W), rtol=1e-9, atol=0):
            raise ValueError(
                f"The learning rates of the class {record.universality!r} are those at criticality, "
                f"C_b = {C_b} and C_W = {C_W}, but layer {layer + 1} has {here}. Call "
                "at_criticality() first, or give `kernel`, the kernel of a typical input in the "
                "first layer."
            )


def check_inputs(net: MLP, x: Any) -> Float[np.ndarray, "sample feature"]:
    """Inputs as a float64 array that `net` can take; refused if a result would not be a number.

    Args:
        net: The network.
        x: (samples, features): an array, tensor, data frame or nested list of real numbers.

    Raises:
        ValueError: If `x` is not a non-empty matrix of finite numbers with `net.input_dim` columns,
            an entry is masked, or a sample's first-layer kernel leaves the range of float64. It may be
            0 (a zero input vector with C_b = 0) where the next one is not and sigma is smooth at 0.
    """
    array = float_array("`x`", x)
    if array.ndim != 2 or 0 in array.shape:
        raise ValueError(
            "`x` must have shape (samples, features) with at least one of each; "
            f"got shape {array.shape}. For a single input write x[None, :]."
        )
    if array.shape[1] != net.input_dim:
        raise ValueError(
            f"`x` has {array.shape[1]} features, but the network takes input_dim={net.input_dim}. "
            "Change one of the two."
        )
    if not np.all(np.isfinite(array)):
        row, column = np.argwhere(~np.isfinite(array))[0]
        raise ValueError(
            f"`x` must be finite; x[{row}, {column}] is {array[row, column]}. Clean the data first."
        )
    with np.errstate(over="ignore", under="ignore"):
        variance = net.C_b[0] + net.C_W[0] * np.mean(array * array, axis=1)
    if np.any(variance == 0):
        zero = int(np.argmin(variance))
        if np.any(array[zero]):
            raise ValueError(
                f"`x` is too small: |x|²/n_0 underflows in sample {zero}. Rescale it, or set it to 0."
            )
        _refuse_lost_signal(net, zero)
    if not np.all(np.isfinite(variance)):
        raise ValueError(
            f"`x` is too large: |x|²/n_0 overflows in sample {int(np.argmax(variance))}. Rescale it."
        )
    check_kernels(net, 1, variance[variance > 0])
    return array


def _refuse_lost_signal(net: MLP, sample: int) -> None:
    """Refuse an input without a first-layer kernel where the layers above cannot do with that."""
    sigma, refused = (
        net.activation,
        f"`x` holds a zero input vector (sample {sample}) and C_b = 0, ",
    )
    remedy = "Drop that sample or set C_b > 0 in the first layer."
    if net.depth == 1:
        return
    if net.C_b[1] + net.C_W[1] * float(sigma(np.zeros(1))[0]) ** 2 == 0:
        raise ValueError(
            refused
            + "so its preactivations are all 0 and have no correlation with anything. "
            + remedy
        )
    if 0.0 in sigma.split_points:
        raise ValueError(
            refused
            + f"so its preactivations are exactly 0, where {sigma.name!r} or a derivative of it "
            "jumps and has no value. " + remedy
        )


def refuse_zero_inputs(net: MLP, x: Float[np.ndarray, "sample feature"], what: str) -> None:
    """Refuse inputs whose preactivations in the first layer are all 0.

    Args:
        net: The network.
        x: Checked inputs.
        what: What they do not have then, with its verb: "an angle".

    Raises:
        ValueError: If there is one.
    """
    zero = ~np.any(x, axis=1)
    if net.C_b[0] == 0 and zero.any():
        raise ValueError(
            f"`x` holds a zero input vector (sample {int(np.argmax(zero))}) and C_b = 0, so it does not "
            f"have {what}. Drop that sample or set C_b > 0 in the first layer."
        )


def check_kernels(
    net: MLP, layer: int, K: Float[np.ndarray, "*_layer sample"], *, power: int = 2
) -> None:
    r"""Refuse kernels that explode or vanish, or of which what is computed from them would.

    Args:
        net: The network.
        layer: The layer they are of, counted from 1.
        K: Kernels of single inputs, preactivation²; with an axis of layers in front, of those from it on.
        power: The highest power of them that occurs: 1 of kernel and NTK alone, 2 in their relative variance,
            4 in the squares by which expectations of four factors are judged.

    Raises:
        ValueError: If that power of a kernel does not fit into a float64.
    """
    largest = 10.0 ** (_DECADES / power)
    needs = "" if power == 1 else f", and what is asked for needs K^{power}"
    good = (K > 1 / largest) & (K < largest)
    if not np.all(good):
        place = tuple(np.argwhere(~good)[0])
        layer += int(place[0]) if K.ndim > 1 else 0
        raise ValueError(
            f"The kernel of {net.activation.name!r} leaves the range of float64 at layer {layer} "
            f"(K = {K[place]:.3g}{needs}): with "
            f"C_b = {net.C_b[layer - 1]:g}, C_W = {net.C_W[layer - 1]:g} signals explode or vanish. Use "
            "fewer layers, other scales of the inputs, or critical hyperparameters: net.at_criticality()."
        )


def digest_of(x: Float[np.ndarray, "sample feature"]) -> str:
    """A short fingerprint of the inputs, so that two results can tell whether theirs are the same."""
    return hashlib.sha256(np.ascontiguousarray(x).tobytes()).hexdigest()[:16]


def _size(name: str, value: Any, meaning: str) -> int:
    if isinstance(value, bool) or not isinstance(value, numbers.Integral) or value < 1:
        raise ValueError(
            f"`MLP.{name}` {meaning} and must be a whole number of at least 1; got {value!r}."
        )
    return int(value)


def _hidden_widths(width: Any, depth: int) -> tuple[int, ...]:
    meaning = "is a number of neurons"
    if hasattr(width, "__array__"):
        width = real_array("`MLP.width`", width).tolist()
    if isinstance(width, _Same) and width:
        width = width[0]
    if not isinstance(width, Sequence) or isinstance(width, str):
        return _Same((_size("width", width, meaning),) * (depth - 1))
    if len(width) != depth - 1:
        raise ValueError(
            f"`MLP.width` needs one width for each of the {depth - 1} hidden layers of a network "
            f"of depth {depth}; got {len(width)}. Give {depth - 1}, or one number for all."
        )
    return tuple(_size("width", n, meaning) for n in width)


def _per_layer(name: str, value: Any, depth: int, *, positive: bool = False) -> tuple[float, ...]:
    given = real_array(f"`MLP.{name}`", value[0] if isinstance(value, _Same) else value)
    many = given.ndim > 0
    values = tuple(given.ravel().tolist()) if many else (given.item(),) * depth
    if len(values) != depth or given.ndim > 1:
        raise ValueError(
            f"`MLP.{name}` needs one number for each of the {depth} layers; got {len(values)}. "
            f"Give {depth}, or one number for all."
        )
    rule = "positive and finite" if positive else "finite and at least 0"
    for layer, v in enumerate(values, 1):
        if not math.isfinite(v) or v < 0 or (positive and v == 0):
            place = f" in layer {layer}" if many else ""
            raise ValueError(f"`MLP.{name}` must be {rule}; got {v!r}{place}.")
    kept = tuple(float(v) for v in values)
    return kept if many else _Same(kept)
