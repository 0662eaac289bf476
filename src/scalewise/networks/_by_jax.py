r"""A network with weights as JAX differentiates it: its fields, and its whole NTK.

A gradient by the weights of a layer is $\sum_p\delta(p)u(p)^T$ with $u$ what enters them and $\delta$ what flows
back into what they give. As outputs of a sample depend on that sample alone, one pass back gives all $\delta$.

Source: PDLT (8.6), (8.12); with site matrices derived.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import lru_cache, partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from scalewise.activations import Activation
from scalewise.networks import _products as products
from scalewise.networks._nodes import Draw
from scalewise.networks._products import Rates as Rates
from scalewise.networks._products import Side as Side
from scalewise.networks._program import Program
from scalewise.networks._weights import Parameters, Weights, by_node, fields


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
by_all_weights = partial(products.by_all_weights, xp=jnp)


def whole_ntk(program: Program, weights: Weights, rates: Rates, inputs: list[Any]) -> Any:
    """The NTK of one network on inputs, or between two sets of them: (output, sample, output, other sample)."""
    sides = [_slopes(program, weights, x) for x in inputs]
    left, right = sides[0], sides[-1]
    return by_all_weights(program, rates, left, right)


def _slopes(program: Program, weights: Weights, x: Any) -> dict[int, Side]:
    """Slopes of the outputs, by what every random layer gives."""
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


@partial(jax.jit, static_argnames="program")
def ntk_of(parameters: Parameters, inputs: list[Any], rates: Any, *, program: Program) -> Any:
    """The NTK of one network, (sample, other sample, output, output), on one set of inputs or between two."""
    weights = by_node(program, parameters, jnp)
    found = whole_ntk(program, weights, dict(zip(weights, rates, strict=True)), inputs)
    return found.transpose(1, 3, 0, 2)
