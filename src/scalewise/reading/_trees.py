"""Functions of one field, as trees: what a model computes entry by entry, and averages over channels in between."""

from __future__ import annotations

import math
import sys
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy import special

# ("x",) is the field itself, ("c", number) a number, ("mean", tree, groups) an average over the channels of each
# group, ("peak", tree) the largest of all channels, and (name, *trees) a function of entries at the same place.
Tree = tuple[Any, ...]
X: Tree = ("x",)


def number(value: float) -> Tree:
    """A number as a tree."""
    return ("c", float(value))


def one_number(value: np.ndarray) -> float | None:
    """The number that all entries are."""
    first = float(value.flat[0])
    return first if np.all(value == first) or (np.isnan(first) and np.isnan(value).all()) else None


def _special(xp: Any) -> Any:
    return special if xp is np else sys.modules["jax"].scipy.special


def _softplus(xp: Any, x: Any, beta: Any = 1.0) -> Any:
    return xp.logaddexp(beta * x, 0.0) / beta


def _gelu(xp: Any, x: Any) -> Any:
    return x * _special(xp).ndtr(x)


def _gelu_tanh(xp: Any, x: Any) -> Any:
    return 0.5 * x * (1 + xp.tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * x**3)))


def _sigmoid(xp: Any, x: Any) -> Any:
    return _special(xp).expit(x)


def _elu(xp: Any, x: Any, alpha: Any = 1.0, scale: Any = 1.0, inside: Any = 1.0) -> Any:
    return scale * xp.where(x > 0, x, alpha * xp.expm1(inside * xp.minimum(x, 0.0)))


FUNCTIONS: dict[str, Callable[..., Any]] = {
    "add": lambda xp, x, y: x + y,
    "sub": lambda xp, x, y: x - y,
    "mul": lambda xp, x, y: x * y,
    "div": lambda xp, x, y: x / y,
    "neg": lambda xp, x: -x,
    "pow": lambda xp, x, y: x**y,
    "square": lambda xp, x: x * x,
    "reciprocal": lambda xp, x: 1 / x,
    "sqrt": lambda xp, x: xp.sqrt(x),
    "rsqrt": lambda xp, x: 1 / xp.sqrt(x),
    "exp": lambda xp, x: xp.exp(x),
    "expm1": lambda xp, x: xp.expm1(x),
    "log": lambda xp, x: xp.log(x),
    "log1p": lambda xp, x: xp.log1p(x),
    "abs": lambda xp, x: xp.abs(x),
    "sign": lambda xp, x: xp.sign(x),
    "sin": lambda xp, x: xp.sin(x),
    "cos": lambda xp, x: xp.cos(x),
    "tanh": lambda xp, x: xp.tanh(x),
    "sigmoid": _sigmoid,
    "erf": lambda xp, x: _special(xp).erf(x),
    "erfc": lambda xp, x: _special(xp).erfc(x),
    "relu": lambda xp, x: xp.maximum(x, 0.0),
    "maximum": lambda xp, x, y: xp.maximum(x, y),
    "minimum": lambda xp, x, y: xp.minimum(x, y),
    "clamp": lambda xp, x, low=-np.inf, high=np.inf: xp.clip(x, low, high),
    "leaky_relu": lambda xp, x, slope=0.01: xp.where(x > 0, x, slope * x),
    "elu": _elu,
    "silu": lambda xp, x: x * _sigmoid(xp, x),
    "gelu": _gelu,
    "gelu_tanh": _gelu_tanh,
    "softplus": _softplus,
    "log_sigmoid": lambda xp, x: -_softplus(xp, -x),
    "mish": lambda xp, x: x * xp.tanh(_softplus(xp, x)),
    "hardsigmoid": lambda xp, x: xp.clip(x / 6 + 0.5, 0.0, 1.0),
    "hardswish": lambda xp, x: x * xp.clip(x / 6 + 0.5, 0.0, 1.0),
    "greater": lambda xp, x, y: x > y,
    "less": lambda xp, x, y: x < y,
    "greater_equal": lambda xp, x, y: x >= y,
    "less_equal": lambda xp, x, y: x <= y,
    "equal": lambda xp, x, y: x == y,
    "not_equal": lambda xp, x, y: x != y,
    "not": lambda xp, x: xp.logical_not(x),
    "and": lambda xp, x, y: xp.logical_and(x, y),
    "or": lambda xp, x, y: xp.logical_or(x, y),
    "exp2": lambda xp, x: xp.exp2(x),
    "cbrt": lambda xp, x: xp.cbrt(x),
    "where": lambda xp, c, x, y: xp.where(c, x, y),
}  # by the names of trees; each is called with a library and arrays of it


def evaluate(tree: Tree, x: Any, xp: Any = np) -> Any:
    """The values of a tree.

    Args:
        tree: The tree.
        x: The field, (..., channel).
        xp: NumPy or JAX's.
    """
    if tree[0] == "x":
        return x
    if tree[0] == "c":
        return tree[1]
    if tree[0] == "mean":
        own = evaluate(tree[1], x, xp)
        if tree[2] == 1:
            return own.mean(axis=-1, keepdims=True)
        apart = own.reshape(*own.shape[:-1], tree[2], -1).mean(axis=-1, keepdims=True)
        return (apart + 0 * own.reshape(*apart.shape[:-1], -1)).reshape(own.shape)
    if tree[0] == "peak":
        return evaluate(tree[1], x, xp).max(axis=-1, keepdims=True)
    return FUNCTIONS[tree[0]](xp, *(evaluate(own, x, xp) for own in tree[1:]))


def functions_of(tree: Tree) -> tuple[Callable[..., Any], ...]:
    """The functions that a tree is made of."""
    return tuple(FUNCTIONS[name] for name, *_ in _all(tree) if name in FUNCTIONS)


def averages(tree: Tree) -> bool:
    """True if there is an average over channels in it, or the largest of them."""
    return tree[0] in ("mean", "peak") or any(averages(t) for t in tree[1:] if isinstance(t, tuple))


def inside(tree: Tree, other: Tree) -> Tree:
    """A tree of another field, where that is a tree itself."""
    if tree == X:
        return other
    return tuple(inside(t, other) if isinstance(t, tuple) else t for t in tree)


def slope(tree: Tree) -> float | None:
    """The factor of a tree that multiplies its field; ``None`` if it does anything else."""
    if averages(tree):
        return None
    x = np.array([-2.0, 0.3, 1.7])
    with np.errstate(all="ignore"):
        y = np.broadcast_to(evaluate(tree, x), x.shape)
    factor = float(y[0] / x[0])
    return factor if np.allclose(y, factor * x, rtol=1e-12, atol=0) and factor else None


def peeled(tree: Tree) -> tuple[float, Tree, float]:
    """Factors before and behind a function, and the function between them."""
    behind = 1.0
    while tree[0] == "mul" and ("c" in (tree[1][0], tree[2][0])):
        one, two = (tree[2], tree[1]) if tree[1][0] == "c" else (tree[1], tree[2])
        behind, tree = behind * two[1], one
    found = {slope(t) for t in _straightest(tree)}
    (before,) = found if len(found) == 1 else (1.0,)
    if before in (None, 1.0):
        return 1.0, tree, behind
    return before, _without(tree), behind


def _straightest(tree: Tree) -> list[Tree]:
    """The largest parts of a tree that multiply its field."""
    if tree[0] in ("x", "mul", "div", "neg") and slope(tree) is not None:
        return [tree]
    return [own for t in tree[1:] if isinstance(t, tuple) for own in _straightest(t)]


def _without(tree: Tree) -> Tree:
    if tree[0] in ("x", "mul", "div", "neg") and slope(tree) is not None:
        return X
    return tuple(_without(t) if isinstance(t, tuple) else t for t in tree)


@dataclass(frozen=True)
class Entrywise:
    """A tree as a function of arrays, entry by entry."""

    tree: Tree

    def __call__(self, z: Any) -> Any:
        """Values of the tree at the entries of an array, computed by the library of that array."""
        xp = np if isinstance(z, np.ndarray | float) else sys.modules["jax"].numpy
        return evaluate(self.tree, z, xp)


def kinks(tree: Tree) -> tuple[float, ...]:
    """Where it bends or jumps: where what such a function looks at changes its side."""
    found: set[float] = set()
    for name, *given in _all(tree):
        edges = {
            "relu": [0.0],
            "abs": [0.0],
            "sign": [0.0],
            "leaky_relu": [0.0],
            "elu": [0.0],
            "hardsigmoid": [-3.0, 3.0],
            "hardswish": [-3.0, 3.0],
        }.get(name, [])
        if name in (
            "maximum",
            "minimum",
            "greater",
            "less",
            "greater_equal",
            "less_equal",
            "clamp",
        ):
            edges = [t[1] for t in given[1:] if t[0] == "c"]
        at = _straight(given[0]) if edges else None
        if at:
            found |= {(edge - at[1]) / at[0] for edge in edges if math.isfinite(edge)}
    return tuple(sorted(found))


def _all(tree: Tree) -> list[Tree]:
    below = [t for t in tree[1:] if isinstance(t, tuple)]
    return [tree, *(other for t in below for other in _all(t))]


def _straight(tree: Tree) -> tuple[float, float] | None:
    """Slope and offset of a straight line; ``None`` of anything else."""
    x = np.array([-1.0, 0.0, 1.0, 2.5])
    with np.errstate(all="ignore"):
        y = np.broadcast_to(evaluate(tree, x), x.shape)
    a, b = float(y[2] - y[1]), float(y[1])
    return (a, b) if a and np.allclose(y, a * x + b, rtol=1e-12, atol=1e-14) else None


@dataclass(frozen=True)
class NormOf:
    """A norm over channels, times a number."""

    eps: float
    centred: bool
    factor: float
    groups: int = 1


def norm_in(tree: Tree) -> NormOf | None:
    """The norm that a tree computes, found by what it makes of some channels; ``None`` if it computes none."""
    if not averages(tree):
        return None
    groups = max((t[2] for t in _all(tree) if t[0] == "mean"), default=1)
    x = np.random.default_rng(0).normal(size=(6, 12)) * np.geomspace(1e-3, 1e3, 6)[:, None] + 0.4
    whole = np.concatenate([x] * groups, axis=-1)
    with np.errstate(all="ignore"):
        y = np.broadcast_to(evaluate(tree, whole), whole.shape)[:, :12]
        if not np.isfinite(y).all():
            return None
        for centred in (False, True):
            z = x - x.mean(axis=-1, keepdims=True) if centred else x
            square = (z * z).mean(axis=-1)
            # y = f z / sqrt(square + eps), so that (z / y)^2 is a straight line in the square
            ratio = ((z / y) ** 2)[:, 0]
            slope = (ratio[-1] - ratio[-2]) / (square[-1] - square[-2])
            factor = math.sqrt(1 / slope) if slope > 0 else math.nan
            eps = max(float((ratio * factor**2 - square)[0]), 0.0)
            factor *= math.copysign(1.0, y[-1, 0] * z[-1, 0])
            eps = 0.0 if eps < 1e-14 else eps
            if np.allclose(y, factor * z / np.sqrt(square + eps)[:, None], rtol=1e-6, atol=1e-12):
                return NormOf(float(f"{eps:.7g}"), centred, float(f"{factor:.12g}"), groups)
    return None


def softmax_in(tree: Tree, count: int) -> float | None:
    """The number times which a row enters the softmax that a tree makes of it; ``None`` if it makes none.

    Args:
        tree: The tree, of a field whose channels are the numbers of a row.
        count: How many numbers a row has; at least 2.
    """
    x = np.random.default_rng(0).normal(size=(6, count)) * np.geomspace(0.1, 30, 6)[:, None] + 0.4
    with np.errstate(all="ignore"):
        y = np.broadcast_to(evaluate(tree, x), x.shape)
        factor = float(np.log(y[0, 1] / y[0, 0]) / (x[0, 1] - x[0, 0]))
    factor = 1.0 if abs(factor - 1) < 1e-9 else factor
    same = factor > 0 and np.allclose(
        y, special.softmax(factor * x, axis=-1), rtol=1e-6, atol=1e-12
    )
    return factor if same else None
