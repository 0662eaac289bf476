"""Callables traced by JAX: once in float64, and refused in a sentence if they are not functions of z."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from scalewise.activations._recognise import NotTraceableError

# All programs of a callable have this shape: to compile them takes longest, and one shape is compiled once.
BLOCK = 1024


def traced(function: Callable[[Any], Any], label: str) -> Callable[[Any], Any]:
    """The callable, elementwise and of JAX, with values of the type of its argument: float64 from float64.

    Raises:
        NotTraceableError: If JAX cannot trace it.
        ValueError: If it changes the shape, returns complex numbers, computes in less than float64, or
            treats entries together.
    """
    z = np.linspace(-4.1, 4.2, BLOCK)

    # A function of this call: JAX keeps programs by it, and the callable may compute something else by the next.
    def own(z: Any) -> Any:
        return function(z)

    with jax.enable_x64(True):
        try:
            closed, out = jax.make_jaxpr(function, return_shape=True)(z)
        except Exception as error:
            reason = (str(error).splitlines() or [type(error).__name__])[0]
            raise NotTraceableError(
                f"JAX cannot trace the activation {label!r}, and its values are not those of a built-in "
                "one. Write it as a function of one array with jax.numpy instead of numpy or torch, and "
                "choose between cases with jax.numpy.where instead of `if`. JAX says: "
                f"{reason}"
            ) from error
        if getattr(out, "shape", None) != z.shape:
            raise ValueError(
                f"The activation {label!r} must return an array of the shape it is given; for shape "
                f"{z.shape} it returned {getattr(out, 'shape', type(out))}. Write it as an elementwise "
                "function of one array."
            )
        if jnp.issubdtype(out.dtype, jnp.complexfloating):
            raise ValueError(
                f"The activation {label!r} returns complex numbers ({out.dtype}), and preactivations of "
                "the next layer must be real. Take the part that you mean, for example with jax.numpy.real."
            )
        _refuse_lower_precision(closed.jaxpr, label)
        _refuse_shared_entries(own, z, label)
    if out.dtype == np.float64:
        return own
    return lambda z: jnp.asarray(function(z)).astype(jnp.asarray(z).dtype)


def values_at(function: Callable[[Any], Any], z: np.ndarray) -> np.ndarray:
    """Values in float64, block by block."""
    padded = np.zeros((-(-z.size // BLOCK), BLOCK))
    padded.ravel()[: z.size] = z
    with jax.enable_x64(True):
        found = [np.asarray(jax.jit(function)(block), dtype=np.float64) for block in padded]
    return np.concatenate(found)[: z.size]


def _refuse_lower_precision(jaxpr: Any, label: str) -> None:
    """A cast of what depends on z: numbers that are only parameters have no axes."""
    for step in _steps(jaxpr):
        for value, result in zip(step.invars[:1], step.outvars[:1], strict=False):
            before, after = (getattr(x.aval, "dtype", None) for x in (value, result))
            if before is None or after is None or not result.aval.shape:
                continue
            if not (jnp.issubdtype(before, jnp.floating) and jnp.issubdtype(after, jnp.floating)):
                continue
            if (
                jnp.finfo(after).bits < jnp.finfo(before).bits
                or step.primitive.name == "reduce_precision"
            ):
                digits = max(int(jnp.finfo(after).precision), 1)
                raise ValueError(
                    f"The activation {label!r} computes in {after} inside, to about {digits} digits, where the "
                    "theory computes to 10 and more. Remove the cast, or cast to z.dtype."
                )


def _steps(jaxpr: Any) -> Iterator[Any]:
    for step in jaxpr.eqns:
        yield step
        for parameter in step.params.values():
            for inner in parameter if isinstance(parameter, tuple | list) else (parameter,):
                inner = getattr(inner, "jaxpr", inner)
                if hasattr(inner, "eqns"):
                    yield from _steps(inner)


def _refuse_shared_entries(function: Callable[[Any], Any], z: np.ndarray, label: str) -> None:
    """An entry's value must not depend on the others, as it does after softmax or a normalisation."""
    compiled = jax.jit(function)
    shuffled = np.random.default_rng(0).permutation(BLOCK)
    # Other company: half of the entries give way to other numbers, and the rest change places.
    other = np.where(np.arange(BLOCK) % 2, z[shuffled], 0.3)
    found = np.asarray(compiled(other))[1::2]
    alone = np.asarray(compiled(z))[shuffled][1::2]
    with np.errstate(invalid="ignore"):
        apart = np.abs(found * 1.0 - alone * 1.0) > 1e-9 * np.maximum(1.0, np.abs(alone))
    if apart.any():
        raise ValueError(
            f"The activation {label!r} does not act entry by entry: its value at z = "
            f"{z[shuffled][1::2][np.argmax(apart)]:.4g} depends on the other entries. The theory needs a "
            "function of one number; leave normalisations and softmax out of it."
        )
