"""What a program or a training runs on: values that are checked when they are made."""

from __future__ import annotations

from dataclasses import KW_ONLY, dataclass
from typing import Annotated, Any

import numpy as np
from jaxtyping import Float

from scalewise._checked import Count, Index, Must, Positive, Precision, at_least, checked
from scalewise._readable import readable

Compression = Annotated[float | int, Must("a number between 0 and 1", lambda v: 0 < v < 1)]
_DOUBLE = np.dtype(np.float64)


@checked
@dataclass(frozen=True)
@readable
class Finite:
    r"""Real Gaussian matrices of width $n$, `replicas` independent networks side by side.

    Args:
        width: $n$, at least 1.
        replicas: How many, at least 1; error bars need two.
        seed: Of the first, at least 0; replica $k$ has the stream of (seed, $k$).
        dtype: ``float64`` or ``float32``.

    Example:
        >>> from scalewise.limits import Finite
        >>> Finite(256, replicas=20).width
        256
    """

    width: Count
    _: KW_ONLY
    replicas: Count = 1
    seed: Index = 0
    dtype: Precision = _DOUBLE


@checked
@dataclass(frozen=True)
@readable
class Lazy:
    r"""Matrices of width $M$ that are never drawn: equal in law to real ones, at a cost linear in the width.

    In `shallow.train_shallow`, where no matrix lies between hidden layers: the limit, by $M$ particles.

    Args:
        width: $M$, at least 1.
        replicas: How many independent runs, one after another; error bars need two.
        seed: Of the first, at least 0; replica $k$ has the stream of (seed, $k$).
        compression: Directions smaller than this, relative to the vector, are not revealed; by default what the
            precision carries.
        antithetic: Read-outs of opposite sign on two halves of the last hidden space, with equal noise. Needs an
            even width, makes that of the last hidden layer even, and simulates the limit instead of a real network.
        spread: First numbers of each hidden space from a net of points spread evenly over the particles. For
            `train` only; it simulates the limit too, with unbiased draws that tell far more per particle of the
            initial network and of the first step. Best at powers of two.
        remember_tests: Whether directions of test inputs are remembered. If not, each of their outputs keeps its
            law given the trained network in the limit, at less cost.
        dtype: ``float64`` or ``float32``.

    Raises:
        ValueError: If a number is out of range or the type is another one.

    Example:
        >>> from scalewise.limits import Lazy
        >>> Lazy(10**6).replicas
        1
    """

    width: Count
    _: KW_ONLY
    replicas: Count = 1
    seed: Index = 0
    compression: Compression | None = None
    antithetic: bool = False
    spread: bool = False
    remember_tests: bool = True
    dtype: Precision = _DOUBLE

    def __post_init__(self) -> None:
        if self.antithetic and self.width % 2:
            raise ValueError(
                f"`antithetic` pairs the coordinates and needs an even width; got {self.width}."
            )


@checked
@dataclass(frozen=True)
@readable
class Infinite:
    r"""Infinite width, known to a tolerance: as many particles as the error bar of the replicas asks for.

    In the kernel regime, where there are no particles, as many draws of the initial outputs.

    Args:
        tolerance: Of the standard error of every output, positive.
        replicas: Independent runs that give the error bar, at least 2. With few of them the error bar itself is
            uncertain, by a quarter for 8.
        seed: Of the first, at least 0.
        memory: Bytes that one run may use, positive.
        start: Particles of the first attempt; even, at least 2.
        compression: As for `Lazy`.
        antithetic: As for `Lazy`.
        spread: As for `Lazy`.

    Example:
        >>> from scalewise.limits import Infinite
        >>> Infinite(1e-3).replicas
        8
    """

    tolerance: Positive
    _: KW_ONLY
    replicas: Annotated[int, at_least(2)] = 8  # an error bar needs two
    seed: Index = 0
    memory: Positive = 4e9
    start: Annotated[
        int, Must("an even whole number of at least 2", lambda v: v > 1 and v % 2 == 0)
    ] = 1024
    compression: Compression | None = None
    antithetic: bool = True
    spread: bool = True

    def at(self, width: int) -> Lazy:
        """The lazy backend with `width` particles."""
        return Lazy(
            width,
            replicas=self.replicas,
            seed=self.seed,
            compression=self.compression,
            antithetic=self.antithetic,
            spread=self.spread,
        )


@checked
@dataclass(frozen=True)
@readable
class Exact:
    """The limit without samples: of linear or polynomial programs, and of the training of linear networks.

    Example:
        >>> from scalewise.limits import Exact, run
        >>> float(run(lambda space: {"m": space.mean(space.vector() ** 4)}, Exact()).m)
        3.0
    """


@checked
@dataclass(frozen=True, eq=False)
@readable
class Kernel:
    r"""Infinite width in the kernel regime, from given or drawn initial outputs: nothing else is random.

    Args:
        start: $f_0$ of training samples, then test inputs: ``(samples, outputs)`` or
            ``(replicas, samples, outputs)``. By default drawn from `initial_kernel`.
        replicas: How many independent draws of $f_0$, at least 1; with `start`, its own number counts.
        seed: Of the draws, at least 0.

    Raises:
        ValueError: If a number is out of range, or `start` is not an array of finite numbers.

    Example:
        >>> from scalewise.limits import Kernel
        >>> Kernel(start=[[0.0]]).start.shape
        (1, 1, 1)
    """

    start: Annotated[Any, Float[np.ndarray, "..."]] | None = None
    _: KW_ONLY
    replicas: Count = 1
    seed: Index = 0

    def __post_init__(self) -> None:
        if self.start is None:
            return
        f = np.array(self.start, dtype=np.float64)
        if f.ndim not in (2, 3) or not f.size:
            raise ValueError(
                "`Kernel.start` must have shape (samples, outputs) or (replicas, samples, outputs); got "
                f"{f.shape}."
            )
        f = f if f.ndim == 3 else f[None]
        f.setflags(write=False)
        object.__setattr__(self, "start", f)
        object.__setattr__(self, "replicas", len(f))


@checked
@dataclass(frozen=True)
@readable
class Printed:
    """The rules ZHat and ZDot as printed, on so many samples of Z: slow, and an oracle for programs.

    Args:
        samples: At least 2; with fewer than some thousand the empirical Gram matrices overfit.
        replicas: Independent runs, at least 1.
        seed: Of the first, at least 0.

    Source: Yang & Hu, *Tensor Programs IV*, G.3, (40).

    Example:
        >>> from scalewise.limits import Printed
        >>> Printed(4096).samples
        4096
    """

    samples: Annotated[int, at_least(2)]
    _: KW_ONLY
    replicas: Count = 1
    seed: Index = 0
