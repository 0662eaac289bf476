r"""A network with weights as JAX differentiates it: its fields, and its whole NTK.

A gradient by the weights of a layer is $\sum_p\delta(p)u(p)^T$ with $u$ what enters them and $\delta$ what flows
back into what they give. As outputs of a sample depend on that sample alone, one pass back gives all $\delta$.

Source: PDLT (8.6), (8.12); with site matrices derived.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import lru_cache, partial
from itertools import product
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from scalewise.activations import Activation
from scalewise.networks._nodes import Draw
from scalewise.networks._program import Program
from scalewise.networks._weights import Parameters, Weights, by_node, fields, in_groups

Side = tuple[Any, Any]  # what enters a random layer, and what flows back into its outputs
Rates = dict[int, Any]  # two numbers, of biases and weights of every random layer, by its node


@lru_cache(maxsize=64)
def traced(activation: Activation) -> Callable[[Any], Any]:
    """The JAX function of an activation: the same object each time, so that JAX compiles once."""
    return activation.traceable()


@contextmanager
def precision(dtype: str) -> Iterator[None]:
    """A scope in which JAX computes in `dtype`, with no tensor-core shortcut for float32."""
    # The shortcut, TF32, rounds what is multiplied to 11 binary digits. Emulated in a tanh network of width
    # 1000 it moves the kernel by 1e-4, a fifth of V/(nK), and so 2K dK, the change of what is subtracted for a
    # fourth cumulant, by two fifths of the cumulant V/n itself. Only a covariance of the same draws bears it
    # (V moves by 1e-4).
    with jax.enable_x64(dtype == "float64"), jax.default_matmul_precision("highest"):
        yield


forward = partial(fields, xp=jnp, function=traced)


def whole_ntk(program: Program, weights: Weights, rates: Rates, inputs: list[Any]) -> Any:
    """The NTK of one network on inputs, or between two sets of them: (output, sample, output, other sample)."""
    sides = [_slopes(program, weights, x) for x in inputs]
    left, right = sides[0], sides[-1]
    return by_all_weights(program, rates, left, right)


def by_all_weights(
    program: Program, rates: Rates, left: dict[int, Side], right: dict[int, Side]
) -> Any:
    """What all random layers give to the NTK: of each its weights, wherever they are used."""
    first, second = (_by_use(program, sides) for sides in (left, right))
    total: Any = 0.0
    for k in first:
        node = program.nodes[k]
        assert isinstance(node, Draw)
        for one, other in product(first[k], second[k]):
            total = total + by_weights(node, rates[k], one, other)
    return total


def _by_use(program: Program, sides: dict[int, Side]) -> dict[int, list[Side]]:
    """For each set of weights what enters and flows back; all its uses in one, if all sites are alike."""
    found: dict[int, list[Side]] = {}
    for k, side in sides.items():
        found.setdefault(program.weights_of(k), []).append(side)
    for k, uses in found.items():
        node = program.nodes[k]
        assert isinstance(node, Draw)
        if len(uses) > 1 and node.shared:
            us, deltas = zip(*(_by_site(*side) for side in uses), strict=True)
            found[k] = [(jnp.concatenate(us, axis=1), jnp.concatenate(deltas, axis=2))]
    return found


def _slopes(program: Program, weights: Weights, x: Any) -> dict[int, Side]:
    """Of the outputs, by what every random layer gives."""
    zero, shape = nothing(program, weights, x), (len(x), program.channels[-1])

    def summed(nudges: dict[int, Any]) -> tuple[Any, dict[int, Any]]:
        # Outputs of a sample depend on that sample alone, so the slopes of a sum are those of each.
        found, seen = forward(program, weights, x, nudges=nudges)
        return found[-1].reshape(shape).sum(axis=0), seen

    _, pulled, seen = jax.vjp(summed, zero, has_aux=True)
    (back,) = jax.vmap(pulled)(np.eye(shape[1], dtype=x.dtype))
    return {k: (seen[k], delta) for k, delta in back.items()}


def nothing(program: Program, weights: Weights, x: Any) -> dict[int, Any]:
    """Zeros to add to what random layers give."""
    return {
        k: np.zeros((len(x), *program.positions[k], program.channels[k]), x.dtype)
        for k, node in enumerate(program.nodes)
        if isinstance(node, Draw) and program.weights_of(k) in weights
    }


def by_weights(node: Draw, rates: Any, left: Side, right: Side) -> Any:
    """What a random layer gives to the NTK, (row, sample, row, other sample): products of gradients.

    Args:
        node: The layer.
        rates: Of its biases and of its weights.
        left: What enters (sample, *positions, m), and what flows back in some rows (row, sample, *positions, n).
        right: The same of other samples.
    """
    (u, delta), (v, other) = (_by_site(*side) for side in (left, right))
    if not node.shared:
        slopes = jnp.einsum("rapn,sbpn->prasb", delta, other)
        entries = jnp.einsum("apm,bpm->pab", u, v)[:, None, :, None]
        return (slopes * (rates[0] + rates[1] * entries)).sum(axis=0)
    if node.groups == 1:
        return _products(rates, (u, delta), (v, other))
    us, vs = (in_groups(side, node, jnp) for side in (u, v))
    deltas, others = (jnp.split(side, node.groups, axis=3) for side in (delta, other))
    return sum(
        _products(rates, (us[:, :, g], deltas[g]), (vs[:, :, g], others[g]))
        for g in range(node.groups)
    )


def _by_site(u: Any, delta: Any) -> Side:
    delta = delta.reshape(*delta.shape[:2], -1, delta.shape[-1])
    return u.reshape(len(u), delta.shape[2], -1), delta


def _products(rates: Any, left: Side, right: Side) -> Any:
    """Products of gradients by weights and biases that all sites share."""
    (u, delta), (v, other) = left, right
    rows, samples, sites, n = delta.shape
    m, count = u.shape[2], rows * samples
    if count * sites**2 * (m + n) < m * n * (sites + count):
        slopes, entries = _gram(delta, other), rates[0] + rates[1] * _gram(u, v)
        if sites == 1:
            return slopes[:, :, 0, :, :, 0] * entries[:, 0, :, 0][:, None]
        # No einsum: of one sample it is many tiny products, and XLA 0.10 gets some thousand of them wrong on CPUs.
        return (slopes * entries[None, :, :, None]).sum(axis=(2, 5))
    bias = _gram(delta.sum(axis=2), other.sum(axis=2))
    gradients = (jnp.einsum("apm,rapn->ramn", *side) for side in (left, right))
    weights = _gram(*(gradient.reshape(*gradient.shape[:2], -1) for gradient in gradients))
    return rates[0] * bias + rates[1] * weights


def _gram(a: Any, b: Any) -> Any:
    """Scalar products over the last axis, of each with each."""
    flat = a.reshape(-1, a.shape[-1]) @ b.reshape(-1, b.shape[-1]).T
    return flat.reshape(*a.shape[:-1], *b.shape[:-1])


@partial(jax.jit, static_argnames="program")
def ntk_of(parameters: Parameters, inputs: list[Any], rates: Any, *, program: Program) -> Any:
    """The NTK of one network, (sample, other sample, output, output), on one set of inputs or between two."""
    weights = by_node(program, parameters, jnp)
    found = whole_ntk(program, weights, dict(zip(weights, rates, strict=True)), inputs)
    return found.transpose(1, 3, 0, 2)
