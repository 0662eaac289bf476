"""On what a program or a training runs: real matrices, or matrices revealed as needed."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from scalewise.limits._checks import is_number, positive, precision, whole

__all__ = ["Backend", "Finite", "Infinite", "Lazy", "finite", "infinite", "lazy"]


@dataclass(frozen=True)
class Finite:
    r"""Real Gaussian matrices of one width, many seeds at once; make it with `finite`.

    Args:
        width: $n$.
        replicas: How many independent networks.
        seed: Of the first; replica $k$ has the stream of (seed, $k$).
        dtype: ``float64`` or ``float32``.
    """

    width: int
    replicas: int
    seed: int
    dtype: Any


@dataclass(frozen=True)
class Lazy:
    r"""Gaussian matrices revealed as needed, `LazyMatrix`; make it with `lazy`.

    Args:
        width: $M$.
        replicas: How many independent runs, one after another.
        seed: Of the first; replica $k$ has the stream of (seed, $k$).
        compression: Directions smaller than this, relative to the vector, are not revealed.
        antithetic: Read-outs of opposite sign on two halves of the last hidden space, with equal noise.
        spread: First numbers of each hidden space from a net of points spread evenly over the particles.
        remember_tests: Whether directions of test inputs are remembered. If not, each of their outputs keeps its
            law given the trained network in the limit, at less cost.
        dtype: ``float64`` or ``float32``.
    """

    width: int
    replicas: int
    seed: int
    compression: float | int | None
    antithetic: bool
    spread: bool
    remember_tests: bool
    dtype: Any


@dataclass(frozen=True)
class Infinite:
    r"""Infinite width: lazy matrices of growing width until the error bar meets a tolerance; see `infinite`.

    Args:
        tolerance: Of the standard error of every output.
        replicas: Independent runs that give the error bar.
        seed: Of the first.
        memory: Bytes one run may use.
        start: Particles of the first attempt.
        compression: As for `Lazy`.
        antithetic: As for `Lazy`.
        spread: As for `Lazy`.
    """

    tolerance: float | int
    replicas: int
    seed: int
    memory: float | int
    start: int
    compression: float | int | None
    antithetic: bool
    spread: bool

    def at(self, width: int) -> Lazy:
        """The lazy backend with so many particles."""
        return lazy(
            width,
            replicas=self.replicas,
            seed=self.seed,
            compression=self.compression,
            antithetic=self.antithetic,
            spread=self.spread,
        )


Backend = Finite | Lazy | Infinite


def finite(n: int, *, replicas: int = 1, seed: int = 0, dtype: Any = np.float64) -> Finite:
    """Real Gaussian matrices of width $n$, `replicas` independent ones side by side.

    Args:
        n: The width, at least 1.
        replicas: How many, at least 1; error bars need two.
        seed: At least 0.
        dtype: ``float64`` or ``float32``.

    Raises:
        ValueError: If a number is out of range or the type another.

    Example:
        >>> from scalewise.limits import finite
        >>> finite(256, replicas=20).width
        256
    """
    _check(n, replicas, seed, dtype, "n")
    return Finite(n, replicas, seed, np.dtype(dtype))


def lazy(
    width: int,
    *,
    replicas: int = 1,
    seed: int = 0,
    compression: float | int | None = None,
    antithetic: bool = False,
    spread: bool = False,
    remember_tests: bool = True,
    dtype: Any = np.float64,
) -> Lazy:
    """Matrices of that width which are never drawn: equal in law to real ones, at a cost linear in it.

    Args:
        width: $M$, at least 1.
        replicas: How many independent runs; error bars need two.
        seed: At least 0.
        compression: As the tolerance of `LazyMatrix`; by default what the precision carries.
        antithetic: See `Lazy`; needs an even width, and is the limit's simulator, no longer a real network's.
        spread: See `Lazy`; for `train` only, and a simulator of the limit too: unbiased draws as before, which
            tell of the initial network and of the first step far more per particle. Best at powers of two.
        remember_tests: See `Lazy`.
        dtype: ``float64`` or ``float32``.

    Raises:
        ValueError: If a number is out of range or the type another.

    Example:
        >>> from scalewise.limits import lazy
        >>> lazy(width=10**6).replicas
        1
    """
    _check(width, replicas, seed, dtype, "width")
    if compression is not None and not (is_number(compression) and 0 < compression < 1):
        raise ValueError(f"`compression` must lie between 0 and 1; got {compression!r}.")
    if antithetic and width % 2:
        raise ValueError(
            f"`antithetic` pairs the coordinates and needs an even width; got {width}."
        )
    return Lazy(
        width, replicas, seed, compression, antithetic, spread, remember_tests, np.dtype(dtype)
    )


def infinite(
    tolerance: float | int,
    *,
    replicas: int = 8,
    seed: int = 0,
    memory: float | int = 4e9,
    start: int = 1024,
    compression: float | int | None = None,
    antithetic: bool = True,
    spread: bool = True,
) -> Infinite:
    """Infinite width, known to a tolerance: as many particles as the error bar of the replicas asks for.

    Args:
        tolerance: Of the standard error of every output, positive.
        replicas: At least 2. With few of them the error bar itself is uncertain, by a quarter for 8.
        seed: At least 0.
        memory: Bytes one run may use, positive.
        start: Particles of the first attempt; even, at least 2.
        compression: As for `lazy`.
        antithetic: As for `lazy`.
        spread: As for `lazy`.

    Raises:
        ValueError: If a number is out of range.

    Example:
        >>> from scalewise.limits import infinite
        >>> infinite(1e-3).replicas
        8
    """
    for name, value in (("tolerance", tolerance), ("memory", memory)):
        positive(name, value)
    _check(start, replicas, seed, np.float64, "start")
    if replicas < 2:
        raise ValueError(f"`replicas` must be at least 2, for an error bar; got {replicas}.")
    if start % 2:
        raise ValueError(f"`start` must be even and at least 2; got {start}.")
    return Infinite(tolerance, replicas, seed, memory, start, compression, antithetic, spread)


def _check(width: int, replicas: int, seed: int, dtype: Any, name: str) -> None:
    for label, value, least in ((name, width, 1), ("replicas", replicas, 1), ("seed", seed, 0)):
        whole(label, value, least)
    precision(dtype)
