r"""The verb `train_shallow` of one hidden layer: networks of finite width, and every limit of infinite width."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from typing import Annotated, Any

import numpy as np
import xarray as xr
from jaxtyping import Float

from scalewise._checked import Count, Index, checked
from scalewise._labelled import dataset
from scalewise._threads import blas_threads_for
from scalewise.limits._loop import FINISHED, Records, descend
from scalewise.limits._on import Finite, Lazy
from scalewise.limits._train import TrainingError, over_replicas
from scalewise.limits.shallow._kernels import draw_start
from scalewise.limits.shallow._methods import (
    LOSS_OF_ORDER,
    BatchSums,
    ConstantKernels,
    ShallowJob,
    UnitDescent,
)
from scalewise.limits.shallow._particles import ParticleDraw, UnitParticles
from scalewise.limits.shallow._reference import Reference, finite_units, limit_units
from scalewise.limits.shallow._scaling import ShallowScaling, limit_dynamics
from scalewise.limits.shallow._scaling import scaling as known_scaling
from scalewise.limits.shallow._task import check_task
from scalewise.scaling.spi import Exponent
from scalewise.tasks import Task

_OUTPUTS = ("time", "sample", "output")


@checked
def train_shallow(
    task: Task,
    reference: Reference,
    scaling: str | ShallowScaling | tuple[Exponent, ...],
    *,
    steps: Index,
    on: Finite | Lazy,
    every: Count | Sequence[Index] = 1,
    start: Annotated[Any, Float[np.ndarray, "..."]] | None = None,
    kernels: bool = False,
    throw: bool = True,
) -> xr.Dataset:
    r"""Train networks of one hidden layer in any scaling: at a finite width, or in the limit.

    At width $d$, with the bar a mean over the samples of the step, both from the state before it,
    $$\Delta\hat a_r=-\hat\eta_a\sigma\,\overline{\nabla\ell_a\,\phi(\hat w_r\cdot x_a)},\qquad
    \Delta\hat w_r=-\hat\eta_w\sigma\,\overline{\nabla\ell_w\,\hat a_r\phi'(\hat w_r\cdot x_w)\,x_w}.$$
    In the limit, where $q_\sigma+\tilde q<0$, kernels are constant,
    $$\Delta\tilde f(x)=-\hat\eta^*_a\overline{\nabla\ell_a\tilde K_a(x,x_a)}
    -\hat\eta^*_w\overline{\nabla\ell_w\tilde K_w(x,x_w)},$$
    and $\tilde f^{(0)}=g$ if $q_\sigma+\tilde q=-\frac12$, else 0. Where $q_\sigma+\tilde q=0$ the law $\mu$ of the
    units is carried along by its own step,
    $$\mu^{(k+1)}=(\mathrm{id}+\Delta\theta^{(k)})_\#\mu^{(k)},\qquad
    \Delta\theta=-\big(\hat\eta^*_a\sigma^*\overline{\nabla\ell_a\phi(\hat w\cdot x_a)},\
    \hat\eta^*_w\sigma^*\overline{\nabla\ell_w\hat a\phi'(\hat w\cdot x_w)x_w}\big),\qquad
    \tilde f=\sigma^*d^*\!\int\!\hat a\phi\,d\mu,$$
    with $\mu$ as particles in pairs of opposite $\hat a$, for few features scrambled Sobol points.

    Where rates of the two layers scale differently, one of them may have no part in the limit: its rate and its
    kernel are then 0, and `LimitDynamics` says which. The default has both.

    Where first weights outgrow their start, $q_\sigma+\tilde q_w=s>0$, the particles carry
    $\tilde w=u^{-s}\hat w$, which start at $u^{-s}\hat w^{(0)}\to0$, and see
    $u^{-s}\phi(u^s\tilde h)\to\phi'(\pm\infty)\tilde h$; the sign of $\hat w^{(0)}\cdot x$ decides wherever nothing
    has moved yet.

    The loss of a limit sees $g$ at step 0 and $\tilde f$ later, as `LimitDynamics` says; in IC-MF $\tilde f+g$
    throughout, which then is what is returned. Where only signs count, $g$ decides until the first sample that it
    has wrong: till then $\tilde f=0$.

    Args:
        task: What is learned: two classes by the logistic loss, in batches that hold no sample twice. A pair of
            batches gives last and first weights samples of their own.
        reference: $d^*$, $\sigma^*$, $\hat\eta^*$ and $\phi$.
        scaling: As for `scaling`.
        steps: How many, at least 0.
        on: `Finite(width)`, networks of that width; or `Lazy(units)`, the limit, with so many particles in each
            replica: an even number, best a power of 2. Their error falls like $\mathrm{units}^{-1/2}$, for fewer
            than 64 features faster; replicas with one `start` show it. Where kernels are constant the limit is
            exact, whatever the number. Replica $k$ is what seed + $k$ draws alone.
        every: Record every so many steps, and the last; or exactly the steps of a list.
        start: $g$ of a limit where it is known, such as ``start`` of networks: (sample, output), or one such table
            for each replica. By default it is drawn, by `draw_start`.
        kernels: Record diagonals of the tangent kernels too.
        throw: Raise if training diverges. If ``False`` the Dataset holds what there is up to then, and
            ``attrs["status"]`` says why it ended.

    Returns:
        Dataset over (replica, time, sample, output), test inputs after training samples: of networks ``logits``
        $f_d$; ``scaled_logits`` $\tilde f=u^{-p}f_d$ with $u=d/d^*$ and $p$ the scaling's `output_power`, which has
        a limit; ``loss``, of a limit what is left of it in units of its outputs: the logistic loss,
        $\max(0,-y\tilde f)$ where outputs diverge, its change $-\frac12y\tilde f$ where they vanish; with
        `kernels` ``kernel_a`` and ``kernel_w``, $u^{-p}K_a(x,x)$ and $u^{-p}K_w(x,x)$. Of each the mean over
        replicas, ``<name>_mean``, and with two or more its standard error, ``<name>_sem``. Over (replica, sample,
        output) ``start``, the first output of the sum in units of its own order,
        $u^{-q_\sigma-1/2}\sigma\sum\hat a\phi\to g$. ``attrs["status"]`` is ``"finished"`` or a sentence.

    Raises:
        ValueError: If the task is of another kind, the scaling has no limit known here (the message names the
            inequality), first weights outgrow their start and the activation does not become linear far away, or
            shapes, steps or records do not fit.
        TrainingError: A ValueError, if training diverges (the step is named); its ``found`` is the Dataset up to
            then.
        TypeError: If `task`, `reference` or `on` is another kind of thing.

    Source: Golikov (1)-(7), (25), (27), (28), (65)-(70), (87)-(93), (114)-(117), (131)-(134). His (4) has lost
        its minus sign; $\mu+\mathrm{div}(\mu\Delta\theta)$ has the wrong sign and is of first order in the rates;
        several equations of the main text drop $d^*$ or $\hat\eta^*\sigma^*$; (70) and (91) would freeze a network
        that has its first samples right. The batch mean and the Gram form are derived.

    Example:
        >>> import numpy as np
        >>> from scalewise.limits import Finite, Lazy, shallow
        >>> from scalewise.tasks import Task
        >>> task = Task(np.eye(3), np.array([1.0, -1.0, 1.0]), loss="logistic")
        >>> reference = shallow.Reference(8)
        >>> shallow.train_shallow(task, reference, "NTK", steps=2, on=Finite(16)).logits.shape
        (1, 3, 3, 1)
        >>> limit = shallow.train_shallow(task, reference, "MF", steps=2, on=Lazy(64))
        >>> limit.attrs["region"], bool(abs(limit.scaled_logits[:, 0]).max() < 1e-12)
        ('R12', True)
    """
    check_task(task)
    one = known_scaling(scaling)
    job = ShallowJob(task=task, steps=steps, every=every, reference=reference, kernels=kernels)
    with blas_threads_for(0), np.errstate(over="ignore", invalid="ignore"):
        found = (
            _finite(job, one, on, start) if isinstance(on, Finite) else _limit(job, one, on, start)
        )
    if throw and found.attrs["status"] != FINISHED:
        raise TrainingError(found.attrs["status"], found)
    return found


def _finite(job: ShallowJob, one: ShallowScaling, on: Finite, start: Any) -> xr.Dataset:
    """Networks of a width."""
    if start is not None:
        raise ValueError(
            "`start` is the initial output of a limit, and networks of finite width have their own. Leave it out, "
            "or take Lazy(units)."
        )
    reference, u = job.reference, on.width / job.reference.width
    units = finite_units(reference, one, on.width)
    particles = UnitParticles(
        job.task, reference.phi, ParticleDraw(on.width, _seeds(on), reference.law, dtype=on.dtype)
    )
    sums = np.concatenate([particles.outputs(slice(None)), particles.test_outputs()])
    first = reference.sigma * sums.T[..., None]
    added = sum(c * u ** float(p) for p, c in one.initial) * first
    records = descend(UnitDescent(job, particles, units, added=added), job)
    variables = _over_time(job, records, u ** float(one.output_power))
    if records.time:
        variables |= over_replicas("logits", _OUTPUTS, records.stacked("logits"), "f_d")
    about = {"width": float(on.width), "seed": on.seed}
    return _dataset(job, one, records, {**variables, **_start(u**-0.5 * first)}, about)


def _limit(job: ShallowJob, one: ShallowScaling, on: Lazy, start: Any) -> xr.Dataset:
    """The limit: constant kernels where weights stand still, particles where they move."""
    dynamics, reference = limit_dynamics(one), job.reference
    _check_particles(on)
    g = _given_start(job, on, start)
    seen = BatchSums(job.task, g, dynamics)
    job = replace(job, task=replace(job.task, loss=LOSS_OF_ORDER[dynamics.later]))
    if dynamics.moving:
        unit = _far_away(reference, on.dtype) if dynamics.silent_w else 1.0
        draw = ParticleDraw(
            on.width, _seeds(on), reference.law, True, dynamics.silent, unit=unit, dtype=on.dtype
        )
        method = UnitDescent(
            job,
            UnitParticles(job.task, reference.phi, draw),
            limit_units(reference, on.width, dynamics),
            added=g if dynamics.keeps else np.zeros_like(g),
            seen=seen,
        )
    else:
        begin = g if dynamics.remembers else np.zeros_like(g)
        method = ConstantKernels(job, begin, seen, dynamics)
    records = descend(method, job)
    about = {
        "width": math.inf,
        "particles": on.width,
        "seed": on.seed,
        "region": dynamics.region,
        "kernels": "moving" if dynamics.moving else "constant",
    }
    return _dataset(job, one, records, {**_over_time(job, records, 1.0), **_start(g)}, about)


def _seeds(on: Finite | Lazy) -> tuple[int, ...]:
    return tuple(range(on.seed, on.seed + on.replicas))


def _check_particles(on: Lazy) -> None:
    if on.width % 2:
        raise ValueError(
            f"Lazy(units) must have an even number of units here, because particles come in pairs; got {on.width}."
        )
    if on.compression is not None or not on.remember_tests:
        raise ValueError(
            "`compression` and `remember_tests` are for matrices between hidden layers, and one hidden layer has "
            "none. Leave them out."
        )


def _given_start(job: ShallowJob, on: Lazy, start: Any) -> np.ndarray:
    """Initial outputs in units of their own order, (replica, sample, output)."""
    if start is None:
        return draw_start(job.task, job.reference, on.replicas, seed=on.seed)
    g, shape = np.asarray(start, dtype=np.float64), (on.replicas, len(job.task.all_inputs), 1)
    if g.shape not in (shape, shape[1:]):
        raise ValueError(
            f"`start` must have shape {shape[1:]}, samples then test inputs by outputs, or {shape} with a table "
            f"for each replica; got {g.shape}."
        )
    return np.broadcast_to(g, shape)


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


def _over_time(job: ShallowJob, records: Records, factor: float) -> dict[str, Any]:
    """Recorded outputs, losses and kernels; outputs and kernels are divided by a factor."""
    if not records.time:
        return {}
    f = records.stacked("logits") / factor
    found = over_replicas("scaled_logits", _OUTPUTS, f, "u^-p f_t")
    found |= over_replicas("loss", ("time",), records.stacked("loss"), "L_t")
    for i, name in enumerate(("kernel_a", "kernel_w") if job.kernels else ()):
        K = records.stacked("kernel")[:, :, i] / factor
        found |= over_replicas(name, ("time", "sample"), K, f"u^-p K_{name[-1]}")
    return found


def _start(g: np.ndarray) -> dict[str, Any]:
    about = {"symbol": "g", "units": "dimensionless"}
    return {"start": (("replica", "sample", "output"), g, about)}


def _dataset(
    job: ShallowJob,
    one: ShallowScaling,
    records: Records,
    variables: dict[str, Any],
    about: dict[str, Any],
) -> xr.Dataset:
    task, reference = job.task, job.reference
    samples = np.arange(len(task.inputs) + len(task.test_inputs))
    return dataset(
        variables,
        coords={"time": records.time, "is_test": ("sample", samples >= len(task.inputs))},
        attrs={
            "scaling": one.name,
            **about,
            "output_power": float(one.output_power),
            "replicas": variables["start"][1].shape[0],
            "reference_width": reference.width,
            "sigma": reference.sigma,
            "rate_a": reference.rate_a,
            "rate_w": reference.rate_w,
            "activation": reference.phi.name,
            "activation_digest": reference.phi.digest(),
            "law": reference.law,
            "loss": task.loss.name,
            "status": records.status,
        },
    )
