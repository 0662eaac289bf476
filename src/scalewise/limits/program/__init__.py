"""Tensor programs: plain Python over vectors, matrices and scalars that runs at finite and infinite width."""

from scalewise.limits.program._run import run as run
from scalewise.limits.program._space import Space as Space
from scalewise.limits.program._values import ProgramMatrix as ProgramMatrix
from scalewise.limits.program._values import Scalar as Scalar
from scalewise.limits.program._values import Vector as Vector
from scalewise.limits.program.increments import Thetas as Thetas
from scalewise.limits.program.increments import incremental as incremental
from scalewise.limits.program.increments import thetas as thetas
from scalewise.limits.program.library import trained as trained
