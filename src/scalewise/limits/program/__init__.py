"""Tensor programs: plain Python over vectors, matrices and scalars that runs at finite and infinite width."""

from scalewise.limits.program._run import run
from scalewise.limits.program._space import Space
from scalewise.limits.program._values import Matrix, Scalar, Vector
from scalewise.limits.program.increments import Thetas, incremental, thetas
from scalewise.limits.program.library import trained

__all__ = [
    "Matrix",
    "Scalar",
    "Space",
    "Thetas",
    "Vector",
    "incremental",
    "run",
    "thetas",
    "trained",
]
