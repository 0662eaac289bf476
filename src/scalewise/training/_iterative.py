r"""Posterior and end of training for more samples than a factorisation has room for, by conjugate gradients.

$(\tilde H+\rho)X=(y,H_{\mathcal{AB}})$ is solved for many columns at once, with the preconditioner of Nyström: some
samples $S$, drawn at random, give $\tilde H\approx LL^T=H_{\mathcal AS}H_{SS}^{-1}H_{S\mathcal A}$, and
$(LL^T+\delta)^{-1}$ with $\delta$ the mean of what is left on the diagonal costs little. A product with $\tilde H$
takes the kernel as it is kept, or makes it anew a few rows at a time. The targets go first, as their few columns
cost little: they show how many steps there will be, or that there would be too many. With $X_{\mathcal B}$ of the
tests,

$$m=X_{\mathcal B}^Ty,\qquad{\rm Var}=K_{\beta\beta}-K_{\beta\mathcal A}X_\beta\ \text{(posterior)},\qquad
  K_{\beta\beta}-2K_{\beta\mathcal A}X_\beta+X_\beta^T\tilde KX_\beta\ \text{(ensemble)}.$$

Source: PDLT (10.40), (10.41), (6.57), (6.64), the diagonal.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from jaxtyping import Float
from scipy.linalg import cho_factor, cho_solve, eigh
from scipy.sparse.linalg import LinearOperator, eigsh

from scalewise._warn import warn
from scalewise.networks import Network
from scalewise.theory.spi import kernel_strips
from scalewise.training._asked import Arrays, Asked
from scalewise.training._kernel import twins
from scalewise.training._results import of_tests
from scalewise.training._sample_kernels import between, in_turn

DENSE = 15_000  # samples whose kernels, eigenvectors and workspace take 12 GiB
KEPT = 12 * 2**30  # bytes of a kernel that is not made anew for every product
_COLUMNS = 4 * 2**30  # bytes of all columns that are solved for, and of what goes with them
_PIVOTS, _MOST = 512, 4096  # samples of the preconditioner, within these bounds
_SHARE = 4  # one in so many
_STEPS = 1000
_TRIED = 100  # steps, after which their number is foretold
_PATIENCE = 120.0  # seconds, beyond which a user is told how long it takes
_RESIDUAL = 1e-9  # relative to the right-hand side
_LOST = 1e-7  # the residual that rounding may leave of one that was met
_GROWTH = 1e10  # of an error of the kernel, which has 1e-12
_LARGEST = 1e-4  # accuracy of the largest eigenvalue, against which a rate is held
_OUTCOMES = ("output_mean", "variance", "bias", "test_loss", "test_error")
Columns = Float[np.ndarray, "sample column"]
Times = Callable[[Columns], Columns]


@dataclass(frozen=True)
class _Kernels:
    """Training samples in random order, and tests.

    Args:
        net: The network.
        x: The training samples.
        count: How many train.
        learns: Which kernel learns, ``"ntk"`` or ``"kernel"``.
        whole: It, of the training samples, where there is room; its upper triangle is right.
        first: Its first rows, those of the preconditioner, with the training samples.
        towards: It, of training samples with tests.
        starts: The kernel that outputs start with, likewise.
        own: That of each test with itself.
    """

    net: Network
    x: np.ndarray
    count: int
    learns: str
    whole: np.ndarray | None
    first: np.ndarray
    towards: np.ndarray
    starts: np.ndarray
    own: np.ndarray

    def times(self, v: Columns) -> Columns:
        """Product of the kernel that learns with columns on the training samples."""
        return self._product(v, self.learns) if self.whole is None else self.whole @ v

    def starts_times(self, v: Columns) -> Columns:
        """Product of the kernel that outputs start with, likewise."""
        return self._product(v, "kernel")

    def _product(self, v: Columns, which: str) -> Columns:
        out = np.zeros_like(v)
        for rows, K, Theta in kernel_strips(self.net, self.x, ntk=which == "ntk"):
            H = Theta if which == "ntk" else K
            out[rows] += H @ v[rows.start :]
            beyond = rows.stop - rows.start
            out[rows.stop :] += H[:, beyond:].T @ v[rows]
        return out


def too_many(asked: Asked) -> bool:
    """True if there are more training samples than a factorisation has room for."""
    return len(asked.task.inputs) > DENSE


def beyond_factorisation(asked: Asked, names: Sequence[str]) -> dict[str, str]:
    """Which of some outcomes iterations do not give, each with a clause that says why."""
    count = len(asked.task.inputs)
    why = (
        f"{count} training samples are more than an eigendecomposition has room for, and conjugate gradients give "
        f"means and variances of tests alone; at most {DENSE} fit"
    )
    return {name: why for name in names if name not in _OUTCOMES}


def by_iteration(asked: Asked, names: Sequence[str]) -> tuple[Arrays, dict[str, object]]:
    """Means and variances of tests, and attributes that tell how well they are solved for.

    Args:
        asked: The call.
        names: Of what is wanted; all of `_OUTCOMES`.

    Returns:
        Outcomes with an axis of one time in front, and attributes.

    Raises:
        ValueError: If training stops on the way, a rate is too large, columns take too much memory, or the kernel
            is too ill-conditioned.
    """
    task, algorithm = asked.task, asked.algorithm
    _check(asked)
    order = np.random.default_rng(0).permutation(len(task.inputs))
    spread = any(name not in ("output_mean", "bias") for name in names)
    kernels = _kernels(asked, order)
    y, added = task.targets[order], asked.algorithm.diagonal
    if algorithm.but_rate != algorithm:
        algorithm.pace(np.array([_largest(kernels)]), targets=y.size)  # refused if too large
    system = _System(kernels, added)
    X, left, taught = system.solved(y)
    mean = X.T @ kernels.towards
    variance = np.zeros(len(kernels.own))
    if spread:
        X, residual, steps = system.solved(kernels.towards, like=taught)
        left, taught = max(left, residual), max(taught, steps)
        reached = np.einsum("ab,ab->b", kernels.starts, X)
        variance = kernels.own - reached
        if not algorithm.is_posterior:
            variance += np.einsum("ab,ab->b", X, kernels.starts_times(X)) - reached
        variance = np.maximum(variance, 0.0)
    if not added:
        known = twins(asked.task.inputs, asked.tests)
        again = np.flatnonzero(known >= 0)
        mean[:, again], variance[again] = asked.task.targets[known[again]].T, 0.0
    data = of_tests(asked, mean[None], variance[None] if spread else None)
    numerics = {
        "solver": "conjugate gradients",
        "residual": left,
        "iterations": taught,
        "kernel_kept": int(kernels.whole is not None),
    }
    return {name: data[name] for name in names}, numerics


def _check(asked: Asked) -> None:
    count, outputs = asked.task.targets.shape
    if not asked.algorithm.ends or asked.times is not None:
        raise ValueError(
            f"`times` and algorithms that stop take an eigendecomposition, for which {count} training samples are "
            f"more than there is room for. Train to the end, or on at most {DENSE}."
        )
    most = int(_COLUMNS // (64 * count)) - outputs
    if len(asked.tests) > most:
        raise ValueError(
            f"`task` has {len(asked.tests)} test inputs, and beside {count} training samples there is room for "
            f"{max(most, 0)}. Give them a part at a time."
        )


def _kernels(asked: Asked, order: np.ndarray) -> _Kernels:
    """All that is kept, in one pass over the pairs of samples."""
    net, way, count = asked.net, asked.algorithm, len(order)
    x, kinds = asked.task.inputs[order], (way.learns_with, way.starts_with)
    whole = np.empty((count, count)) if 8 * count**2 <= KEPT else None
    pivots = min(max(_PIVOTS, min(count // _SHARE, _MOST)), count)
    first = np.empty((pivots, count))
    for rows, K, Theta in kernel_strips(net, x, ntk=kinds[0] == "ntk"):
        a, b = rows.start, rows.stop
        seen = Theta if kinds[0] == "ntk" else K
        if whole is not None:
            whole[a:b, a:] = seen
            whole[a:, a:b] = seen.T
        if a < pivots:
            some = seen[: pivots - a]
            first[a : a + len(some), a:] = some
            first[a:, a : a + len(some)] = some.T[: pivots - a]
        elif whole is None:
            break
    towards, starts = (one[0] for one in between(net, x, asked.tests, kinds))
    own = in_turn(net, asked.tests, asked.tests, kinds[1])
    return _Kernels(net, x, count, kinds[0], whole, first, towards, starts, own)


class _System:
    """A linear system that is solved for different columns, with one preconditioner."""

    def __init__(self, kernels: _Kernels, added: float) -> None:
        self._kernels, self._added = kernels, added
        self._undo = _preconditioner(kernels, added)

    def solved(self, right: Columns, *, like: int = 0) -> tuple[Columns, float, int]:
        """Many columns at once, each with its own steps; those that are done leave.

        Args:
            right: Right-hand sides.
            like: How many steps other columns took, to tell how long these will take.

        Returns:
            The columns, the largest relative residual, and how many steps they took.
        """
        kernels, started = self._kernels, time.perf_counter()
        size = np.maximum(np.linalg.norm(right, axis=0), np.finfo(float).tiny)
        every, on = np.zeros_like(right), np.arange(right.shape[1])
        X, R, Z = every.copy(), right.copy(), self._undo(right)
        P, fit, residual = Z.copy(), np.einsum("ac,ac->c", R, Z), 1.0
        for step in range(_STEPS):
            left = np.linalg.norm(R, axis=0) / size[on]
            residual = float(left.max(initial=0.0))
            if residual <= _RESIDUAL:
                every[:, on] = X
                return every, _residual(kernels, right, self._added, every), step
            if step == 1:
                _tell_of_time(kernels, like, time.perf_counter() - started)
            _refuse_slow(kernels, step, residual, time.perf_counter() - started)
            some = left > _RESIDUAL
            if some.sum() < 0.75 * len(on):
                every[:, on], on, fit = X, on[some], fit[some]
                X, R, P = X[:, some], R[:, some], P[:, some]
            HP = kernels.times(P) + self._added * P
            length = _over(fit, np.einsum("ac,ac->c", P, HP))
            X += length * P
            R -= length * HP
            Z = self._undo(R)
            before, fit = fit, np.einsum("ac,ac->c", R, Z)
            P = Z + _over(fit, before) * P
        raise _hopeless(
            kernels,
            f"{_STEPS} steps of conjugate gradients leave {residual:.1e} of the right-hand sides",
        )


def _tell_of_time(kernels: _Kernels, steps: int, seconds: float) -> None:
    """A warning if all steps together try somebody's patience."""
    if steps * seconds > _PATIENCE:
        warn(
            f"Variances by {kernels.count} training samples take about {steps} steps of conjugate gradients of "
            f"{seconds:.2g} s each, {steps * seconds / 60:.1f} minutes in all. Give fewer test inputs, or a larger "
            "`noise_variance` or ridge, if that is too much; means alone take less.",
        )


def _refuse_slow(kernels: _Kernels, step: int, residual: float, seconds: float) -> None:
    """Refuse, once it can be foretold, what would take more steps than there are."""
    if step < _TRIED:
        return
    foretold = step * np.log(_RESIDUAL) / np.log(min(residual, 0.99))
    if foretold > _STEPS:
        raise _hopeless(
            kernels,
            f"{step} steps of conjugate gradients leave {residual:.1e} of the right-hand sides, so that they would "
            f"take about {foretold:.0f} steps and {foretold * seconds / step / 60:.1f} minutes",
        )


def _residual(kernels: _Kernels, right: Columns, added: float, X: Columns) -> float:
    """The residual as it is, unless rounding or the kernels' own error has made the columns what they are."""
    size = np.maximum(np.linalg.norm(right, axis=0), np.finfo(float).tiny)
    left = right - kernels.times(X) - added * X
    residual = float((np.linalg.norm(left, axis=0) / size).max(initial=0.0))
    ones = np.full((kernels.count, 1), kernels.count**-0.5)
    largest = float(np.linalg.norm(kernels.times(ones))) + added
    growth = largest * float((np.linalg.norm(X, axis=0) / size).max(initial=0.0))
    if residual > _LOST or growth > _GROWTH:
        raise _hopeless(
            kernels,
            f"a relative error of it grows {growth:.1e} times, and {residual:.1e} of the right-hand sides is left",
        )
    return residual


def _hopeless(kernels: _Kernels, why: str) -> ValueError:
    return ValueError(
        f"The kernel of the {kernels.count} training samples is too ill-conditioned: {why}. Give a ridge or a "
        "`noise_variance`, or drop samples that nearly repeat others."
    )


def _over(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """The quotient; of a column that is solved, 0."""
    some = b > 0
    return np.where(some, a / np.where(some, b, 1.0), 0.0)


def _preconditioner(kernels: _Kernels, added: float) -> Times:
    F = kernels.first
    h, U = eigh(F[:, : len(F)])
    keep = h > 1e-10 * h[-1]
    L = F.T @ (U[:, keep] / np.sqrt(h[keep]))
    own = np.einsum("ak,ak->a", L, L)
    rest = max(float(np.mean(np.maximum(_diagonal(kernels) - own, 0.0))), 1e-12 * float(own.mean()))
    delta = added + rest
    inner = L.T @ L
    inner.flat[:: len(inner) + 1] += delta
    factor = cho_factor(inner)
    return lambda v: (v - L @ cho_solve(factor, L.T @ v)) / delta


def _diagonal(kernels: _Kernels) -> np.ndarray:
    if kernels.whole is not None:
        return np.diagonal(kernels.whole)
    strips = kernel_strips(kernels.net, kernels.x, ntk=kernels.learns == "ntk")
    ntk = kernels.learns == "ntk"
    return np.concatenate([np.diagonal(Theta if ntk else K) for _, K, Theta in strips])


def _largest(kernels: _Kernels) -> float:
    """The largest eigenvalue of the kernel that learns."""
    shape, start = (kernels.count, kernels.count), np.ones(kernels.count)

    def of_column(v: np.ndarray) -> np.ndarray:
        return kernels.times(v.reshape(-1, 1))[:, 0]

    operator: Any = LinearOperator  # which SciPy makes one of its own kinds of
    H = operator(shape, matvec=of_column, dtype=np.dtype(float))
    options: Any = {"k": 1, "tol": _LARGEST, "v0": start, "return_eigenvectors": False}
    return float(eigsh(H, **options)[0])
