"""Limits of infinite width: constant kernels where weights stand still, particles where they move."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import xarray as xr
from jaxtyping import Float

from scalewise._threads import blas_threads_for
from scalewise.gaussian import kernel_map
from scalewise.limits._checks import is_whole, table
from scalewise.limits.shallow._finite import _attributes
from scalewise.limits.shallow._kernels import draw_start, expectations
from scalewise.limits.shallow._particles import Draw, Particles
from scalewise.limits.shallow._run import (
    Trace,
    Units,
    as_dataset,
    check_outputs,
    check_run,
    check_seeds,
    loss_slope,
    recorded,
    run_particles,
)
from scalewise.limits.shallow._scaling import (
    LimitDynamics,
    ShallowScaling,
    limit_dynamics,
    scaling,
)
from scalewise.limits.shallow._task import Reference, Task

__all__ = ["train_limit"]


def train_limit(
    task: Task,
    reference: Reference,
    source: str | tuple[Any, ...] | ShallowScaling,
    *,
    steps: int,
    seeds: int | Sequence[int] = 1,
    start: Float[np.ndarray, "seed input"] | None = None,
    record: Sequence[int] | None = None,
    kernels: bool = False,
    units: int = 1 << 14,
    dtype: Any = np.float64,
) -> xr.Dataset:
    r"""Train at infinite width: in any scaling of the band, the default and other unequal rates, IC-MF.

    Where $q_\sigma+\tilde q<0$ kernels are constant,
    $$\Delta\tilde f(x)=-\hat\eta^*_a\overline{\nabla\ell_a\tilde K_a(x,x_a)}
    -\hat\eta^*_w\overline{\nabla\ell_w\tilde K_w(x,x_w)},$$
    and $\tilde f^{(0)}=g$ if $q_\sigma+\tilde q=-\frac12$, else 0. Where $q_\sigma+\tilde q=0$ the law $\mu$ of the
    units is carried along by its own step,
    $$\mu^{(k+1)}=(\mathrm{id}+\Delta\theta^{(k)})_\#\mu^{(k)},\qquad
    \Delta\theta=-\big(\hat\eta^*_a\sigma^*\overline{\nabla\ell_a\phi(\hat w\cdot x_a)},\
    \hat\eta^*_w\sigma^*\overline{\nabla\ell_w\hat a\phi'(\hat w\cdot x_w)x_w}\big),\qquad
    \tilde f=\sigma^*d^*\!\int\!\hat a\phi\,d\mu,$$
    with $\mu$ as particles in pairs of opposite $\hat a$, for few features scrambled Sobol points.

    Where rates of the two layers scale differently, one of them may have no part in this: its rate and its
    kernel are then 0, and `LimitDynamics` says which. The default has both.

    Where first weights outgrow their start, $q_\sigma+\tilde q_w=s>0$, the particles carry
    $\tilde w=u^{-s}\hat w$, which start at $u^{-s}\hat w^{(0)}\to0$, and see
    $u^{-s}\phi(u^s\tilde h)\to\phi'(\pm\infty)\tilde h$; the sign of $\hat w^{(0)}\cdot x$ decides wherever nothing
    has moved yet.

    The loss sees $g$ at step 0 and $\tilde f$ later, as
    `LimitDynamics` says; in IC-MF $\tilde f+g$ throughout, which then is what is returned. Where only signs
    count, $g$ decides until the first sample that it has wrong: till then $\tilde f=0$.

    Args:
        task: What is learned.
        reference: $d^*$, $\sigma^*$, $\hat\eta^*$ and $\phi$.
        source: The scaling, as for `scaling`.
        steps: Number of steps.
        seeds: How many draws of $g$ and of the particles, or their seeds.
        start: $g$, where it is known, such as ``start`` of `train_finite`; drawn for ``None``.
        record: Steps to write down; all for ``None``.
        kernels: Whether to write down diagonals of $\tilde K_a$, $\tilde K_w$ too.
        units: Particles of each seed, an even number, best a power of 2. Their error falls like
            $\mathrm{units}^{-1/2}$, for fewer than 64 features faster; seeds with one `start` show it.
        dtype: Of the particles.

    Returns:
        Over (step, seed, input): ``scaled_logits`` $\tilde f$; with `kernels` ``kernel_a``, ``kernel_w``. Over
        (seed, input): ``start`` $g$. Exact for constant kernels.

    Raises:
        ValueError: If the scaling has no limit known here (the message names the inequality), or first weights
            outgrow their start and the activation does not become linear far away, or shapes, steps or
            records do not fit.

    Source: Golikov (65)-(70), (87)-(93), (114)-(117), (131)-(134). His $\mu+\mathrm{div}(\mu\Delta\theta)$ has the
        wrong sign and is of first order in the rates; several equations of the main text drop $d^*$ or
        $\hat\eta^*\sigma^*$; (70) and (91) would freeze a network that has its first samples right.

    Example:
        >>> import numpy as np
        >>> from scalewise.limits import shallow
        >>> task = shallow.Task(np.eye(3), np.array([1.0, -1.0, 1.0]))
        >>> limit = shallow.train_limit(task, shallow.Reference(8), "MF", steps=2, units=64)
        >>> limit.attrs["region"], bool(abs(limit.scaled_logits[0]).max() < 1e-12)
        ('R12', True)
    """
    check_run(task, reference, dtype)
    one = scaling(source)
    dynamics = limit_dynamics(one)
    task.check_steps(steps)
    chosen, numbers = recorded(steps, record), check_seeds(seeds)
    if not is_whole(units) or units < 2 or units % 2:
        raise ValueError(
            f"`units` must be an even number, for particles come in pairs; got {units!r}."
        )
    with blas_threads_for(0), np.errstate(over="ignore", invalid="ignore"):
        g = draw_start(task, reference, numbers) if start is None else table("start", start)
        if g.shape != (len(numbers), len(task.all_inputs)):
            raise ValueError(
                f"`start` has shape (seed, input), here {(len(numbers), len(task.all_inputs))}, samples "
                f"first and then probes; got {g.shape}."
            )
        g = g.T.astype(np.float64)
        slope = _Seen(g, dynamics)
        if dynamics.moving:
            unit = _far_away(reference, dtype) if dynamics.silent_w else 1.0
            draw = Draw(
                units, numbers, reference.law, True, dynamics.silent, unit=unit, dtype=dtype
            )
            particles = Particles(task, reference.phi, draw)
            trace = run_particles(
                task, particles, _limit_units(reference, units, dynamics), slope,
                steps=steps, record=chosen, kernels=kernels,
            )  # fmt: skip
        else:
            begin = g if dynamics.remembers else np.zeros_like(g)
            trace = _run_kernels(
                task, reference, slope, begin, steps=steps, record=chosen, dynamics=dynamics
            )
    found = np.stack(trace.outputs) + (g if dynamics.keeps else 0.0)
    variables = {"scaled_logits": found, "start": g}
    for i, name in enumerate(("kernel_a", "kernel_w") if kernels else ()):
        variables[name] = np.stack([pair[i] for pair in trace.kernels])
    return as_dataset(task, numbers, trace, variables, _limit_attributes(one, dynamics, reference))


def _far_away(reference: Reference, dtype: Any) -> float:
    r"""A unit of first weights beside which their start is nothing but still has a sign.

    The unit is far below what a step does and far above what rounding leaves of orthogonal inputs.
    """
    phi = reference.phi
    t = np.array([-1e8, -1e6, 1e6, 1e8])
    with np.errstate(all="ignore"):
        slope, chord = phi.derivatives[1](t), phi.derivatives[0](t) / t
    both = np.array([slope, chord])
    settled = np.isfinite(both).all() and np.allclose(
        both, slope[[0, 0, 3, 3]], rtol=1e-4, atol=1e-4
    )
    if not settled or np.abs(slope).max() < 1e-2:
        raise ValueError(
            f"First weights outgrow their start in this scaling, and {phi.name!r} does not become linear far "
            "away, which a limit needs here. Take an activation that grows linearly, such as 'leaky_relu', or "
            "a smaller q_tilde_w."
        )
    return float(np.finfo(dtype).eps ** 0.75)


class _Seen:
    r"""Derivatives of the loss at infinite width: of $g$ until something was learned, of $\tilde f$ from then on.

    A network that has every sample of its first steps right where only signs count has not moved:
    $\tilde f$ is still 0 and it is the sign of $g$ that decides.
    """

    def __init__(self, g: np.ndarray, dynamics: LimitDynamics) -> None:
        self._g, self._dynamics = g, dynamics
        self._awake = np.zeros(g.shape[1], dtype=bool)
        self._stirred = self._awake.copy()
        self._step = 0

    def __call__(self, k: int, f: np.ndarray, rows: np.ndarray, y: np.ndarray) -> np.ndarray:
        if k != self._step:
            self._step, self._awake = k, self._stirred.copy()
        g = self._g[rows]
        seen = loss_slope(f + g if self._dynamics.keeps else f, y, self._dynamics.later)
        slope = np.where(self._awake, seen, loss_slope(g, y, self._dynamics.first))
        self._stirred |= np.any(slope != 0, axis=0)
        return slope


def _limit_units(reference: Reference, units: int, dynamics: LimitDynamics) -> Units:
    """Factors of a limit; 0 for a layer without a part in it."""
    share = reference.width / units
    by_a, by_w = float(dynamics.by_a), float(dynamics.by_w)
    return Units(
        output=reference.sigma * share,
        rate_a=by_a * reference.rate_a * reference.sigma,
        rate_w=by_w * reference.rate_w * reference.sigma,
        kernel_a=by_a * reference.sigma**2 * share,
        kernel_w=by_w * reference.sigma**2 * share,
    )


def _run_kernels(
    task: Task,
    reference: Reference,
    slope: Any,
    begin: np.ndarray,
    *,
    steps: int,
    record: tuple[int, ...],
    dynamics: LimitDynamics,
) -> Trace:
    """Constant kernels: samples step by step, probes from the summed coefficients when written down."""
    table = np.asarray(task.all_inputs, dtype=np.float64)
    samples = len(task.inputs)
    value, dots = expectations(reference, table, len(table), slice(0, samples))
    dots *= table @ table[:samples].T
    factor = reference.sigma**2 * reference.width
    by_a, by_w = float(dynamics.by_a), float(dynamics.by_w)
    step_a = -factor * (by_a * reference.rate_a) * value
    step_w = -factor * (by_w * reference.rate_w) * dots
    both = step_a[:samples] + step_w[:samples]
    K = np.einsum("ij,ij->i", table, table)
    moments = kernel_map(reference.phi, K, slope=True)
    assert moments.diagonal_slope is not None
    seeds = begin.shape[1]
    diagonal = tuple(
        np.repeat(by * factor * d[:, None], seeds, axis=1)
        for by, d in ((by_a, moments.diagonal), (by_w, moments.diagonal_slope * K))
    )
    labels = np.asarray(task.labels, dtype=np.float64)
    alpha, omega = np.zeros((samples, seeds)), np.zeros((samples, seeds))
    f, trace = begin[:samples].copy(), Trace(record, [], [])
    for k in range(steps + 1):
        if k in record:
            probes = begin[samples:] + step_a[samples:] @ alpha + step_w[samples:] @ omega
            trace.outputs.append(np.concatenate([f, probes]))
            check_outputs(k, trace.outputs[-1])
            trace.kernels.append((diagonal[0], diagonal[1]))
        if k == steps:
            break
        rows_a, rows_w = task.rows(k)
        chi_a = slope(k, f[rows_a], rows_a, labels[rows_a, None]) / rows_a.size
        chi_w = slope(k, f[rows_w], rows_w, labels[rows_w, None]) / rows_w.size
        alpha[rows_a] += chi_a
        omega[rows_w] += chi_w
        if task.rows_a is None:
            f = f + both @ chi_a
        else:
            f = f + step_a[:samples, rows_a] @ chi_a + step_w[:samples, rows_w] @ chi_w
        check_outputs(k + 1, f)
    return trace


def _limit_attributes(
    one: ShallowScaling, dynamics: LimitDynamics, reference: Reference
) -> dict[str, Any]:
    return {
        "scaling": one.name,
        "region": dynamics.region,
        "kernels": "moving" if dynamics.moving else "constant",
        "output_power": float(one.output_power),
        **_attributes(reference),
    }
