r"""Running a program: the same text on real matrices, lazy ones, printed rules, or exactly."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from typing import Annotated, Any

import numpy as np
import xarray as xr

from scalewise._checked import Must, checked
from scalewise._labelled import dataset
from scalewise._threads import blas_threads_for
from scalewise.limits._lazy import LazyMatrix
from scalewise.limits._noise import generator
from scalewise.limits._on import Exact, Finite, Infinite, Lazy, Printed
from scalewise.limits._real import RealMatrix, check_memory
from scalewise.limits._tolerance import standard_error, until_known
from scalewise.limits.program._arrays import Arrays, OneVector, ReferenceProduct
from scalewise.limits.program._exact import Polynomials
from scalewise.limits.program._space import Space
from scalewise.limits.program._values import Scalar

Program = Annotated[Callable[[Space], dict[str, Any]], Must("a function of a limits.program.Space")]


@checked
def run(program: Program, on: Finite | Lazy | Infinite | Printed | Exact) -> xr.Dataset:
    r"""Run a program at a finite width or in the limit.

    Args:
        program: A function of a `Space` that returns a dictionary of scalars, or of nested lists of them.
        on: `Finite(n)` or `Lazy(width)`, which are equal in law (`space.n` is the width); or, at infinite width,
            `Infinite(tolerance)`, `Printed(samples)` or `Exact()`.
            Programs run in double precision, and nothing in them is antithetic.

    Returns:
        Dataset with a variable for each name, the mean over replicas, and ``_sem`` beside it where there are two
        or more.

    Raises:
        ValueError: If a scalar is not finite, spaces do not fit, a transpose was not declared, the exact backend
            meets what is not a polynomial, or the tolerance is out of reach.
        TypeError: If the program returns anything but scalars, or `on` is none of these.

    Source: Yang & Hu, *Tensor Programs IV*, G.4 and Algorithm 1.

    Example:
        >>> from scalewise.limits import Lazy, run
        >>> def program(space):
        ...     W, v = space.matrix("W"), space.vector()
        ...     return {"square": space.mean(space.apply("tanh", W @ v) ** 2)}
        >>> bool(abs(run(program, Lazy(10**5)).square - 0.3943) < 0.005)
        True
    """
    with blas_threads_for():
        if isinstance(on, Infinite):
            return _to_tolerance(program, on)
        if isinstance(on, Finite):
            streams = [generator((on.seed, k)) for k in range(on.replicas)]
            found = program(Space(_real(on.width, streams)))
            return _dataset(_by_name(found, on.replicas), on)
        if isinstance(on, Exact):
            return _dataset(_by_name(program(Space(Polynomials())), 1), on)
        return _dataset(_replicas(program, on, on.width if isinstance(on, Lazy) else math.inf), on)


def _replicas(program: Program, on: Lazy | Printed, n: float | int) -> dict[str, np.ndarray]:
    runs = []
    for k in range(on.replicas):
        stream = generator((on.seed, k))
        maker = _lazy(on, n, stream) if isinstance(on, Lazy) else _printed(on, stream)
        runs.append(_by_name(program(Space(maker)), 1))
    return {name: np.concatenate([r[name] for r in runs]) for name in runs[0]}


def _real(width: int, streams: list[np.random.Generator]) -> Arrays:
    held = 0.0

    def product(n_out: int, n_in: int, sigma: float | int, transposed: bool) -> OneVector:
        nonlocal held
        held += float(n_out) * n_in
        check_memory(width, len(streams), held, np.float64)
        return OneVector(RealMatrix(n_out, n_in, streams=streams, sigma=sigma))

    return Arrays(width, width, streams=streams, seeds=True, product=product)


def _lazy(on: Lazy, n: float | int, stream: np.random.Generator) -> Arrays:
    def product(n_out: int, n_in: int, sigma: float | int, transposed: bool) -> OneVector:
        return OneVector(
            LazyMatrix(n_out, n_in, seed=stream, sigma=sigma, tolerance=on.compression)
        )

    return Arrays(on.width, n, streams=[stream], seeds=False, product=product)


def _printed(on: Printed, stream: np.random.Generator) -> Arrays:
    def product(n_out: int, n_in: int, sigma: float | int, transposed: bool) -> ReferenceProduct:
        return ReferenceProduct(n_out, n_in, sigma, stream)

    return Arrays(on.samples, math.inf, streams=[stream], seeds=False, product=product)


def _to_tolerance(program: Program, on: Infinite) -> xr.Dataset:
    def found(width: int) -> tuple[dict[str, np.ndarray], float]:
        values = _replicas(program, on.at(width), math.inf)
        return values, max(float(standard_error(v).max()) for v in values.values())

    # How many vectors a program looks along is not known before; a thousand is many.
    values, width, missed = until_known(
        on,
        found,
        what="particles",
        start=on.start,
        bytes_each=8 * 1000,
        held="a thousand vectors",
        instead="Raise `tolerance`, `memory` or `replicas`",
    )
    if missed:
        raise ValueError(missed)
    return _dataset(values, on.at(width))


def _by_name(found: Any, replicas: int) -> dict[str, np.ndarray]:
    if not isinstance(found, dict) or not found:
        raise TypeError(
            "A program must return a dictionary of scalars by name, at least one; got "
            f"{'an empty one' if found == {} else type(found).__name__}. Return averages of vectors: "
            '{"m": mean(x * y)}.'
        )
    return {name: _collected(value, replicas) for name, value in found.items()}


def _collected(value: Any, replicas: int) -> np.ndarray:
    """Scalars in nested lists as an array, replicas first."""
    if isinstance(value, Scalar):
        return np.broadcast_to(np.asarray(value.value, dtype=np.float64), (replicas,)).copy()
    if isinstance(value, int | float | np.floating):
        if not math.isfinite(value):
            raise ValueError(f"A program returned {value}. Return finite numbers.")
        return np.full(replicas, float(value))
    if isinstance(value, Iterable) and not isinstance(value, str | dict):
        parts = [_collected(v, replicas) for v in value]
        if len({part.shape for part in parts}) > 1:
            raise ValueError(
                "A program returned a list whose parts are of unequal length. Return a name for each."
            )
        return np.stack(parts, axis=1) if parts else np.empty((replicas, 0))
    raise TypeError(
        f"A program must return scalars by name, or lists of them; got {type(value).__name__}. Return averages of "
        "vectors: mean(x * y)."
    )


def _dataset(found: dict[str, np.ndarray], on: Any) -> xr.Dataset:
    variables = {}
    for name, values in found.items():
        dims = tuple(f"{name}_{i}" for i in range(values.ndim - 1))
        variables[name] = (dims, values.mean(axis=0))
        if len(values) > 1:
            variables[f"{name}_sem"] = (dims, standard_error(values))
    return dataset(variables, attrs={"backend": repr(on)})
