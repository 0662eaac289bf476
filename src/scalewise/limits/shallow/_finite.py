"""Networks of finite width in any scaling, many seeds at once."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import xarray as xr

from scalewise._threads import blas_threads_for
from scalewise.limits._checks import whole
from scalewise.limits.shallow._particles import Draw, Particles
from scalewise.limits.shallow._run import (
    Units,
    as_dataset,
    check_run,
    check_seeds,
    loss_slope,
    recorded,
    run_particles,
)
from scalewise.limits.shallow._scaling import ShallowScaling, scaling
from scalewise.limits.shallow._task import Reference, Task

__all__ = ["finite_units", "train_finite"]


def finite_units(reference: Reference, one: ShallowScaling, width: int) -> Units:
    """The factors of a network of this width."""
    u = width / reference.width
    try:
        sigma = reference.sigma * u ** float(one.q_sigma)
        u_a, u_w = u ** float(one.q_tilde_a), u ** float(one.q_tilde_w)
        kernel_a, kernel_w = u_a * sigma**2, u_w * sigma**2
    except OverflowError:
        raise ValueError(
            f"The powers of {one} overflow at {width} units, {u:.3g} times `Reference.width`. Take smaller "
            "exponents or another width."
        ) from None
    return Units(
        output=sigma,
        rate_a=reference.rate_a * u_a * sigma,
        rate_w=reference.rate_w * u_w * sigma,
        kernel_a=kernel_a,
        kernel_w=kernel_w,
    )


def train_finite(
    task: Task,
    reference: Reference,
    source: str | tuple[Any, ...] | ShallowScaling,
    width: int,
    *,
    steps: int,
    seeds: int | Sequence[int] = 1,
    record: Sequence[int] | None = None,
    kernels: bool = False,
    gram: bool | None = None,
    dtype: Any = np.float64,
) -> xr.Dataset:
    r"""Train networks of width $d$ by gradient descent.

    $$\Delta\hat a_r=-\hat\eta_a\sigma\,\overline{\nabla\ell_a\,\phi(\hat w_r\cdot x_a)},\qquad
    \Delta\hat w_r=-\hat\eta_w\sigma\,\overline{\nabla\ell_w\,\hat a_r\phi'(\hat w_r\cdot x_w)\,x_w}$$
    with the bar a mean over the samples of the step, both from the state before it.

    Args:
        task: What is learned, with which samples at each step.
        reference: $d^*$, $\sigma^*$, $\hat\eta^*$ and $\phi$.
        source: The scaling, as for `scaling`.
        width: $d$.
        steps: Number of steps.
        seeds: How many networks, or their seeds.
        record: Steps to write down; all for ``None``.
        kernels: Whether to write down $K_a(x,x)$ and $K_w(x,x)$ too.
        gram: Whether first weights are kept in the span of the samples, with equal results up to rounding;
            ``None`` chooses what costs less.
        dtype: ``float64``, or ``float32`` at half the cost.

    Returns:
        Over (step, seed, input), samples first, then probes: ``logits`` $f_d$; ``scaled_logits``
        $\tilde f_d=u^{-p}f_d$ with $p$ the scaling's `output_power`, which has a limit; with `kernels`
        ``kernel_a``, ``kernel_w`` divided by $u^p$ as well. Over (seed, input): ``start``, the first output of the
        sum in units of its own order, $u^{-q_\sigma-1/2}\sigma\sum\hat a\phi$, to be given to `train_limit`.

    Raises:
        ValueError: If the width is below 1, steps, seeds or records do not fit, or training overflows.

    Source: Golikov (1)-(7), (25), (27), (28); (4) has lost its minus sign. The batch mean and the Gram form
        are derived.

    Example:
        >>> import numpy as np
        >>> from scalewise.limits import shallow
        >>> task = shallow.Task(np.eye(3), np.array([1.0, -1.0, 1.0]))
        >>> shallow.train_finite(task, shallow.Reference(8), "NTK", 16, steps=2).logits.shape
        (3, 1, 3)
    """
    check_run(task, reference, dtype)
    whole("width", width, 1, what="counts hidden units")
    task.check_steps(steps)
    one, chosen, numbers = scaling(source), recorded(steps, record), check_seeds(seeds)
    units = finite_units(reference, one, width)
    u = width / reference.width
    power = float(one.output_power)
    with blas_threads_for(0), np.errstate(over="ignore", invalid="ignore"):
        draw = Draw(width, numbers, reference.law, dtype=dtype)
        particles = Particles(task, reference.phi, draw, gram=gram)
        first = np.concatenate([particles.outputs(slice(None)), particles.probe_outputs()])
        added = reference.sigma * sum(c * u ** float(p) for p, c in one.initial) * first

        def slope(k: int, f: np.ndarray, rows: np.ndarray, y: np.ndarray) -> np.ndarray:
            return loss_slope(f + added[rows] if one.initial else f, y, 0)

        trace = run_particles(
            task, particles, units, slope, steps=steps, record=chosen, kernels=kernels
        )
    logits = np.stack(trace.outputs) + added
    variables = {
        "logits": logits,
        "scaled_logits": logits / u**power,
        "start": reference.sigma * u**-0.5 * first,
    }
    for i, name in enumerate(("kernel_a", "kernel_w") if kernels else ()):
        variables[name] = np.stack([pair[i] for pair in trace.kernels]) / u**power
    attrs = {"scaling": one.name, "width": width, "output_power": power, **_attributes(reference)}
    return as_dataset(task, numbers, trace, variables, attrs)


def _attributes(reference: Reference) -> dict[str, Any]:
    return {
        "reference_width": reference.width,
        "sigma": reference.sigma,
        "rate_a": reference.rate_a,
        "rate_w": reference.rate_w,
        "activation": reference.phi.name,
        "activation_digest": reference.phi.digest(),
        "law": reference.law,
    }
