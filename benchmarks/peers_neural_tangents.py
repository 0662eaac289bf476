"""Their side of every case: neural-tangents in its best shape, one case per process.

Runs in an environment of its own (`peers_environment.py`) and imports nothing of ours.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable
from typing import Any

import clock
import jax
import numpy as np
from cases import Case

jax.config.update("jax_enable_x64", True)
warnings.filterwarnings("ignore")

import jax.numpy as jnp  # noqa: E402
import neural_tangents as nt  # noqa: E402
from jax._src.interpreters import ad as complete  # noqa: E402
from jax.interpreters import ad  # noqa: E402
from neural_tangents import stax  # noqa: E402

# STRUCTURED_DERIVATIVES uses two names that this jax.interpreters.ad no longer passes on.
ad.source_info_util = complete.source_info_util
ad.config = jax.config

STRUCTURED = nt.NtkImplementation.STRUCTURED_DERIVATIVES


def dense(case: Case, width: int) -> Any:
    W_std, b_std = math.sqrt(case.C_W), math.sqrt(case.C_b)
    return stax.Dense(width, W_std=W_std, b_std=b_std, parameterization="ntk")


def nonlinearity(case: Case) -> Any:
    if case.activation == "tanh":
        return stax.ElementwiseNumerical(jnp.tanh, deg=25)
    return {"gelu": stax.Gelu, "erf": stax.Erf, "relu": stax.Relu}[case.activation]()


def kernel(case: Case) -> tuple[Callable[[], Any], Callable[[Any], clock.Results]]:
    x = case.x()
    jitted = None

    def call() -> Any:
        nonlocal jitted
        if jitted is None:
            hidden = stax.serial(nonlinearity(case), dense(case, case.width))
            blocks = (
                [hidden] * (case.depth - 1)
                if case.activation == "tanh"
                else [stax.repeat(hidden, case.depth - 1)]
            )
            kernel_fn = stax.serial(dense(case, case.width), *blocks)[2]
            jitted = jax.jit(lambda x: kernel_fn(x, None, ("nngp", "ntk")))
        return jax.block_until_ready(jitted(x))

    return call, lambda r: clock.corner(r.nngp, r.ntk)


def serial(case: Case) -> Any:
    layers = [dense(case, width) for width in case.widths[1:]]
    hidden = [part for layer in layers[:-1] for part in (layer, nonlinearity(case))]
    return stax.serial(*hidden, layers[-1])


def ntk(case: Case) -> tuple[Callable[[], Any], Callable[[Any], clock.Results]]:
    x = case.x()
    params: list[Any] = []
    for w, b in case.normals():
        params += [(w.T, b[None]), ()]
    jitted = None

    def call() -> Any:
        nonlocal jitted
        if jitted is None:
            ntk_fn = nt.empirical_ntk_fn(
                serial(case)[1], trace_axes=(), vmap_axes=0, implementation=STRUCTURED
            )
            jitted = jax.jit(lambda p: ntk_fn(x, None, p))
        return jax.block_until_ready(jitted(params[:-1]))

    return call, lambda r: {"ntk": np.asarray(r)}


def ensemble(case: Case) -> tuple[Callable[[], Any], Callable[[Any], clock.Results]]:
    x = case.x()
    sample = None

    def sampler(n_samples: Any) -> Any:
        init, apply, _ = serial(case)
        return nt.monte_carlo_kernel_fn(
            init,
            apply,
            jax.random.PRNGKey(0),
            n_samples=n_samples,
            vmap_axes=0,
            implementation=STRUCTURED,
        )

    def call() -> Any:
        nonlocal sample
        sample = sample or sampler(case.networks)
        return jax.block_until_ready(sample(x, None, ("nngp", "ntk")))

    def arrays(r: Any) -> clock.Results:
        # Not timed: single draws, from the means over 1, 2, 3, ... networks, for the error bar.
        counts = list(range(1, case.networks + 1))
        means = [(k.nngp, k.ntk) for k in sampler(counts)(x, None, ("nngp", "ntk"))]
        found = {"kernel": np.asarray(r.nngp), "ntk": np.asarray(r.ntk)}
        for i, name in enumerate(("kernel", "ntk")):
            totals = np.array([n * m[i] for n, m in zip(counts, means, strict=True)])
            draws = np.diff(totals, axis=0, prepend=np.zeros_like(totals[:1]))
            found[f"{name}_sem"] = draws.std(axis=0, ddof=1) / math.sqrt(case.networks)
        return found

    return call, arrays


if __name__ == "__main__":
    clock.main(lambda case: {"kernel": kernel, "ntk": ntk, "ensemble": ensemble}[case.kind](case))
