r"""The verb: an ensemble of real networks as a Dataset of means with standard errors."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import xarray as xr

from scalewise._threads import blas_threads_for
from scalewise._version import __version__
from scalewise.nets._arguments import (
    check_count,
    check_memory,
    check_names,
    check_seed,
    check_size,
)
from scalewise.nets._ensemble import Ensemble, Sums, metric_ensemble, ntk_ensemble, run
from scalewise.nets._extrapolate import check_widths, degree, fit
from scalewise.nets._moments import CovarianceSums
from scalewise.nets._networks import check_dtype
from scalewise.nets._ntk import first_ntk
from scalewise.nets._progress import Reporter
from scalewise.nets._sampler import first_metric
from scalewise.nets._store import open_store
from scalewise.network import MLP, check_inputs, digest_of
from scalewise.observables import OBSERVABLES, SAMPLE_DIMS, as_variable

__all__ = ["measure"]

Measured = dict[str, tuple[np.ndarray, np.ndarray]]


def measure(
    net: MLP,
    x: Any,
    *,
    networks: int = 1000,
    seed: int = 0,
    widths: Sequence[int] | None = None,
    observables: Sequence[str] | str | None = None,
    dtype: str = "float32",
    memory: int | str = "1 GiB",
    store: str | os.PathLike[str] | None = None,
    progress: Callable[[int, int], Any] | bool | None = None,
) -> xr.Dataset:
    r"""Measure observables on an ensemble of networks at initialisation.

    $$G^{(\ell)}=\mathbb E[\widehat G^{(\ell)}],\qquad V^{(\ell)}_{(12)(34)}=n_{\ell-1}
    \mathrm{Cov}(\widehat G^{(\ell)}_{12},\widehat G^{(\ell)}_{34}),\qquad
    H^{(\ell)}=\mathbb E[\widehat H^{(\ell)}_{ii}].$$

    At one set of widths ``kernel`` is the mean metric $G=K+G^{\{1\}}/n_{\ell-1}+\dots$, and the others
    too include all orders in 1/n. With `widths` each is measured at several widths and extrapolated to
    1/n = 0 by a polynomial of degree 1 (two widths) or 2; the slope of the metric is ``metric_nlo``.

    Args:
        net: The network.
        x: (samples, features).
        networks: How many networks, for each width; at least 2, and 4 for ``four_point_vertex``.
        seed: Same seed, same numbers, whatever the batches.
        widths: First hidden widths to extrapolate from, two or more; the other hidden widths keep
            their ratios to it.
        observables: Names to measure; all that can be, by default. ``metric_nlo`` needs `widths`.
        dtype: ``"float32"`` or ``"float64"``, of the networks; sums are float64.
        memory: Budget in bytes, or a text such as ``"1 GiB"``.
        store: A path ending in ``.zarr``: the run is saved there after every batch, and the same call
            resumes it.
        progress: ``None``: a bar if the run takes over two seconds and standard error is a terminal;
            ``False``: nothing; a callable is called with (done, total) networks.

    Returns:
        A Dataset with dimensions ``layer`` (1..L), ``sample``, ``sample_1``, … For each observable a
        variable (float64, in its units) and its standard error ``<name>_sem``. The estimators of a
        single width are unbiased. Layer 1 does not fluctuate and is exact.

    Raises:
        ValueError: If an argument breaks its rule, `x` does not fit, the NTK is asked of an activation
            that jumps, preactivations overflow, the result exceeds `memory`, or `store` holds a run
            with other arguments.

    Source: PDLT (4.69)-(4.76) for the preactivations, (8.6), (8.12), (8.59) for the NTK.

    Example:
        >>> import numpy as np, scalewise as sw
        >>> from scalewise.nets import measure
        >>> net = sw.MLP(3, 20, "relu", input_dim=2, output_dim=1, C_W=2.0)
        >>> result = measure(net, np.eye(2), networks=100, observables="kernel")
        >>> bool(abs(result.kernel[2, 0, 0] - 1.0) < 4 * result.kernel_sem[2, 0, 0])
        True
    """
    names = check_names(net, observables, widths)
    networks = check_count(networks, names)
    seed, dtype, budget = check_seed(seed), check_dtype(dtype), check_memory(memory)
    x = check_inputs(net, x)
    check_size(net, len(x), names, budget)
    shapes = (net,) if widths is None else check_widths(net, widths)
    epsilon = np.array([[1 / n for n in shape.widths[1:-1]] for shape in shapes])
    attributes = {
        "kind": "ensemble",
        **net.attributes(),
        "networks": networks,
        "seed": seed,
        "dtype": dtype,
        "widths": [] if widths is None else sorted(int(w) for w in widths),
        "inputs": digest_of(x),
    }
    record = None
    if store is not None:
        fixed = {"observables": list(names), "memory": budget, **_fingerprint(net, x)}
        record = open_store(store, {**attributes, **fixed})
    plans = [_plan(shape, x, names, dtype) for shape in shapes] if net.depth > 1 else []
    with blas_threads_for(), Reporter(progress, networks * sum(map(len, plans))) as report:
        sums = [
            [run(e, networks, seed=seed, memory=budget, dtype=dtype, store=record, report=report)
             for e in plan]
            for plan in plans
        ]  # fmt: skip
    parts = [_estimates(s, e, len(x), names) for s, e in zip(sums, epsilon, strict=False)]
    deep = parts[0] if widths is None and parts else _extrapolated(parts, epsilon, names)
    result = _dataset(net, x, deep, names)
    result.attrs = {
        **attributes,
        "extrapolated": int(widths is not None),
        **({} if widths is None else {"extrapolation_degree": degree(len(shapes))}),
        "scalewise": __version__,
    }
    if record is not None:
        record.finish(result)
    return result


def _fingerprint(net: MLP, x: np.ndarray) -> dict[str, Any]:
    """What the attributes do not say: how many inputs, and the values behind the activation's name."""
    values = net.activation(np.linspace(-4.0, 4.0, 33))
    return {
        "samples": len(x),
        "activation_values": [float(f"{v:.9g}") for v in values],
    }


def _plan(net: MLP, x: np.ndarray, names: tuple[str, ...], dtype: str) -> list[Ensemble]:
    plan = []
    if set(names) - {"ntk"}:
        covariance = "four_point_vertex" in names
        plan.append(metric_ensemble(net, x, covariance=covariance, dtype=dtype))
    if "ntk" in names:
        plan.append(ntk_ensemble(net, x, dtype=dtype))
    return plan


def _estimates(
    sums: list[Sums], epsilon: np.ndarray, samples: int, names: tuple[str, ...]
) -> Measured:
    """Values and standard errors in the layers 2..L at one width."""
    index = np.zeros((samples, samples), dtype=int)
    index[np.triu_indices(samples)] = np.arange(samples * (samples + 1) // 2)
    index = np.maximum(index, index.T)
    measured: Measured = {}
    if set(names) - {"ntk"}:
        metric = sums[0]
        measured["kernel"] = metric.mean()[:, index], metric.mean_sem()[:, index]
        if isinstance(metric, CovarianceSums):
            n = 1 / epsilon[:, None, None]
            square = (slice(None), index[:, :, None, None], index)
            V, V_sem = n * metric.covariance(), n * metric.covariance_sem()
            measured["four_point_vertex"] = V[square], V_sem[square]
    if "ntk" in names:
        measured["ntk"] = sums[-1].mean()[:, index], sums[-1].mean_sem()[:, index]
    return measured


def _extrapolated(parts: list[Measured], epsilon: np.ndarray, names: tuple[str, ...]) -> Measured:
    """Values and standard errors in the layers 2..L at infinite width."""
    fitted: Measured = {}
    for name in parts[0] if parts else ():
        layers = []
        for layer, e in enumerate(epsilon.T):
            values = np.stack([part[name][0][layer] for part in parts])
            layers.append(fit(values, np.stack([part[name][1][layer] for part in parts]), e))
        fitted[name] = (
            np.stack([c[0] for c, _ in layers]),
            np.stack([s[0] for _, s in layers]),
        )
        if name == "kernel" and "metric_nlo" in names:
            fitted["metric_nlo"] = (
                np.stack([c[1] for c, _ in layers]),
                np.stack([s[1] for _, s in layers]),
            )
    return fitted


def _dataset(net: MLP, x: np.ndarray, deep: Measured, names: tuple[str, ...]) -> xr.Dataset:
    """Layer 1, which is exact, and the measured layers above it."""
    samples = len(x)
    exact = {"kernel": first_metric(net, x), "ntk": first_ntk(net, x)}
    variables = {}
    for name in names:
        legs = OBSERVABLES[name].legs
        first = exact.get(name, np.zeros((samples,) * legs))[None]
        empty = np.zeros((0, *(samples,) * legs))
        values, sems = deep.get(name, (empty, empty))
        variables[name] = as_variable(name, np.concatenate([first, values]))
        variables[f"{name}_sem"] = xr.Variable(
            variables[name].dims,
            np.concatenate([np.zeros_like(first), sems]),
            {
                "long_name": f"Standard error of the measured {name}.",
                "units": OBSERVABLES[name].units,
            },
        )
    dims = SAMPLE_DIMS[: max(OBSERVABLES[name].legs for name in names)]
    coordinates = {"layer": np.arange(1, net.depth + 1), **{d: np.arange(samples) for d in dims}}
    return xr.Dataset(variables, coordinates)
