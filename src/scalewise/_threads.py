"""How many threads the linear algebra may use.

The recursions make thousands of small matrix products, and an ensemble thousands of small QR
factorisations. A BLAS that wakes all cores for each of them spends more time waiting than computing, ten
times more where the cores are busy; only the products over many pairs of samples are worth a second
thread.
"""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext

import scipy.linalg  # noqa: F401  NumPy and SciPy each bring a BLAS: a controller sees what is loaded
from threadpoolctl import ThreadpoolController

__all__ = ["blas_threads_for"]

_MANY_PAIRS = 400
# Finding the libraries takes longer than many a prediction: once, with the imports.
_CONTROLLER = ThreadpoolController()


def blas_threads_for(pairs: int = 0) -> AbstractContextManager[object]:
    """One BLAS thread inside the context, unless there are many pairs of samples."""
    return nullcontext() if pairs > _MANY_PAIRS else _CONTROLLER.limit(limits=1, user_api="blas")
