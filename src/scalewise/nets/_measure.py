r"""The verb: an ensemble of real networks as a Dataset of means with standard errors."""

from __future__ import annotations

import os
from collections.abc import Callable, Collection, Sequence
from typing import Any

import numpy as np
import xarray as xr

from scalewise._checked import Count, checked
from scalewise._labelled import dataset, variable
from scalewise._memory import Memory, bytes_of
from scalewise._threads import blas_threads_for
from scalewise._version import __version__
from scalewise.nets._arguments import check_count, check_size, choose
from scalewise.nets._devices import generator
from scalewise.nets._ensemble import NetworkEnsemble, Sums, run
from scalewise.nets._estimators import Estimator, accumulators, estimators
from scalewise.nets._extrapolate import check_widths, extrapolation, fit
from scalewise.nets._families import FAMILIES
from scalewise.nets._networks import Dtype, Seed
from scalewise.networks import Network
from scalewise.networks.spi import AnyNetwork, check_inputs, digest_of
from scalewise.observables import OBSERVABLES, SAMPLE_DIMS, as_variable
from scalewise.sweeps.spi import Reporter, kept, opened

Measured = dict[str, tuple[np.ndarray, np.ndarray]]


@checked
def measure(
    net: AnyNetwork,
    x: Any,
    *,
    networks: Count = 1000,
    seed: Seed = 0,
    widths: Sequence[Count] | None = None,
    observables: Collection[str] | str | None = None,
    dtype: Dtype = "float32",
    memory: Memory = "1 GiB",
    store: str | os.PathLike[str] | None = None,
    progress: Callable[[int, int], Any] | bool | None = None,
) -> xr.Dataset:
    r"""Measure observables on an ensemble of networks at initialisation.

    $$G^{(\ell)}=\mathbb E[\widehat G^{(\ell)}],\qquad V^{(\ell)}_{(12)(34)}=n_{\ell-1}
    \mathrm{Cov}(\widehat G^{(\ell)}_{12},\widehat G^{(\ell)}_{34}),\qquad
    H^{(\ell)}=\mathbb E[\widehat H^{(\ell)}_{ii}],$$
    and $n_{\ell-1}$ times what multiplies each product of Kronecker deltas in
    $\mathrm{Cov}(\widehat H,\widehat H)$ (``ntk_A``, ``ntk_B``), $\mathbb E[zz\widehat{\Delta H}]$
    (``ntk_D``, ``ntk_F``), $\mathbb E[\widehat{dH}z]$ (``dntk_P``, ``dntk_Q``),
    $\mathbb E[\widehat{dd_IH}]$ (``ddntk_R``) and $\mathbb E[\widehat{dd_{II}H}]$ (``ddntk_S``,
    ``ddntk_T``, ``ddntk_U``), with the sample indices in the order of the subscripts in the table of
    observables. The weights of layer $\ell$ are averaged over analytically.

    At one set of widths ``kernel`` is the mean metric $G=K+G^{\{1\}}/n_{\ell-1}+\dots$, and the others
    too include all orders in 1/n. With `widths` each is measured at several widths and extrapolated to
    1/n = 0 by a polynomial of degree 1 (two widths) or 2; the slope of the metric is ``metric_nlo``,
    that of the mean NTK ``ntk_nlo``.

    The networks are shared out to all local devices of JAX; ``with jax.default_device(device):`` keeps
    them on one.

    Args:
        net: The network: an `MLP`, a `ResidualMLP`, or a `Network` of any layers. Neurons that a skip connection
            lets remember what they were are taken in pairs, where others are averaged over their weights.
        x: (samples, features), or ``(samples, *positions, features)``.
        networks: How many networks, for each width; at least 2, and 4 for what is a
            covariance: ``four_point_vertex``, ``ntk_A``, ``ntk_D``.
        seed: Same seed, same numbers, whatever the batches and however many devices of a kind share
            them; processors and accelerators have different generators, which the attribute
            ``random_numbers`` names.
        widths: First hidden widths to extrapolate from, two or more; the other hidden widths keep
            their ratios to it.
        observables: Names to measure, or their letters, ``"all"``, or ``None``, by the rule of `predict`: what
            exists for the activation, and by default no vertex of more inputs than `predict` takes
            by default. What `predict` does not know of a network is measured if it is named. The two slopes,
            ``metric_nlo`` and ``ntk_nlo``, need `widths`.
        dtype: ``"float32"`` or ``"float64"``, of the networks; sums are float64.
        memory: Budget in bytes, or a text such as ``"1 GiB"``, of all devices together; each gets an
            equal part of the networks, rounded up to a whole one.
        store: A folder, or an address of fsspec: the run is saved there after every batch, and the same
            call resumes it.
        progress: ``None``: a bar if the run takes over two seconds and standard error is a terminal;
            ``False``: nothing; a callable is called with (done, total) networks.

    Returns:
        A Dataset with dimensions ``layer`` (1..L, but for layers that have positions), ``sample``, ``sample_1``, …
        For each observable a variable (float64, in its units) and its standard error ``<name>_sem``. The estimators
        of a single width are unbiased. Layer 1 does not fluctuate and is exact. The attributes ``left_out``
        and ``left_out_because`` name what ``None`` or ``"all"`` would have held, and why it does not.

    Raises:
        ValueError: If an argument breaks its rule, `x` does not fit, something named does not exist
            for the activation, preactivations overflow, the result exceeds `memory`, or `store` holds
            a run with other arguments.

    Source: PDLT (4.69)-(4.76) for the preactivations, (8.6), (8.12), (8.59) for the NTK, (8.67), (8.82)
        for its fluctuations, (11.45), (∞.176), (∞.178) for dNTK and ddNTK, (11.35) for the average over
        the last weights.

    Example:
        >>> import numpy as np, scalewise as sw
        >>> from scalewise.nets import measure
        >>> net = sw.MLP(3, 20, "relu", input_dim=2, output_dim=1, C_W=2.0)
        >>> result = measure(net, np.eye(2), networks=100, observables="kernel")
        >>> bool(abs(result.kernel[2, 0, 0] - 1.0) < 4 * result.kernel_sem[2, 0, 0])
        True
    """
    x = check_inputs(net, x)
    chosen = choose(net, observables, widths, len(x))
    names = chosen.names
    check_count(networks, names)
    budget = bytes_of(memory)
    check_size(net, len(x), names, budget)
    shapes = (net,) if widths is None else check_widths(net, widths)
    layers = net.layers_of_one_site
    epsilon = np.array([[1 / shape.widths[k - 1] for k in layers if k > 1] for shape in shapes])
    attributes = {
        "kind": "ensemble",
        **net.attributes(),
        "networks": networks,
        "seed": seed,
        "dtype": dtype,
        "random_numbers": generator(),
        "widths": [] if widths is None else sorted(widths),
        "inputs": digest_of(x),
    }
    fixed = {"observables": list(names), "memory": budget, "samples": len(x)}
    plans = [_plan(shape, x, names, dtype) for shape in shapes] if net.depth > 1 else []
    total = networks * sum(map(len, plans))
    with opened(store, {**attributes, **fixed}) as record:
        with blas_threads_for(), Reporter(progress, total, "networks") as report:
            sums = [
                {
                    family: run(
                        e,
                        networks,
                        seed=seed,
                        memory=budget,
                        dtype=dtype,
                        record=record,
                        report=report,
                    )
                    for family, e in plan.items()
                }
                for plan in plans
            ]
        rows = {name: row for name, row in estimators(net).items() if name in names}
        parts = [_estimates(s, e, len(x), rows) for s, e in zip(sums, epsilon, strict=False)]
        deep = parts[0] if widths is None and parts else _extrapolated(parts, epsilon, rows)
        result = _dataset(net, x, layers, deep, rows)
        if not net.is_perceptron:
            result["expansion_parameter"] = _expansion(
                result, parts, epsilon, layers, net, networks
            )
        result.attrs = {
            **attributes,
            **chosen.attributes(),
            **extrapolation(widths),
            "scalewise": __version__,
        }
        return kept(result, record)


def _plan(
    net: Network, x: np.ndarray, names: tuple[str, ...], dtype: str
) -> dict[str, NetworkEnsemble]:
    """The ensembles to be drawn at one set of widths, in the order of the families."""
    kinds = accumulators(estimators(net)[name] for name in names)
    return {f: build(net, x, kinds[f], dtype) for f, build in FAMILIES.items() if f in kinds}


def _estimates(
    sums: dict[str, dict[str, Sums]], epsilon: np.ndarray, samples: int, rows: dict[str, Estimator]
) -> Measured:
    """Values and standard errors in the layers 2..L at one set of widths."""
    return {
        name: row.read(sums[row.part.family][row.part.name], 1 / epsilon, samples)
        for name, row in rows.items()
    }


def _extrapolated(
    parts: list[Measured], epsilon: np.ndarray, rows: dict[str, Estimator]
) -> Measured:
    """Values, or slopes, with standard errors in the layers 2..L at infinite width."""
    fitted: Measured = {}
    for name in parts[0] if parts else ():
        order = 1 if rows[name].slope_of else 0
        values, sems = (np.stack([part[name][k] for part in parts]) for k in (0, 1))
        layers = [fit(values[:, i], sems[:, i], e) for i, e in enumerate(epsilon.T)]
        fitted[name] = (
            np.stack([c[order] for c, _ in layers]),
            np.stack([s[order] for _, s in layers]),
        )
    return fitted


def _dataset(
    net: Network,
    x: np.ndarray,
    layers: tuple[int, ...],
    deep: Measured,
    rows: dict[str, Estimator],
) -> xr.Dataset:
    """Layer 1, which is exact, if it is one of the layers, and the measured layers above it."""
    samples = len(x)
    variables = {}
    for name, row in rows.items():
        legs, exact = OBSERVABLES[name].legs, row.first
        first = np.zeros((1, *(samples,) * legs)) if exact is None else exact(net, x)[None]
        first = first[: layers.count(1)]
        empty = np.zeros((0, *(samples,) * legs))
        values, sems = deep.get(name, (empty, empty))
        variables[name] = as_variable(name, np.concatenate([first, values]))
        variables[f"{name}_sem"] = variable(
            variables[name].dims,
            np.concatenate([np.zeros_like(first), sems]),
            {
                "long_name": f"Standard error of the measured {name}.",
                "units": OBSERVABLES[name].units,
            },
        )
    dims = SAMPLE_DIMS[: max(OBSERVABLES[name].legs for name in rows)]
    coordinates = {"layer": np.array(layers), **{d: np.arange(samples) for d in dims}}
    return dataset(variables, coordinates)


def _expansion(
    result: xr.Dataset,
    parts: list[Measured],
    epsilon: np.ndarray,
    layers: tuple[int, ...],
    net: Network,
    networks: int,
) -> xr.Variable:
    """The largest relative variance of the metric that networks had, at the network's own width."""
    found = np.zeros(len(layers))
    if parts and "kernel" in parts[0]:
        own = np.array([1 / net.widths[k - 1] for k in layers if k > 1])
        value, sem = parts[0]["kernel"]
        size = np.einsum("laa->la", value)
        relative = networks * sem**2 / (size[:, :, None] * size[:, None, :])
        found[layers.count(1) :] = relative.max(axis=(1, 2)) * own / epsilon[0]
    return variable(
        ("layer",),
        found,
        {
            "symbol": "max_ab V_abab / (n K_aa K_bb)",
            "units": "dimensionless",
            "long_name": "Largest relative variance of the metric, as it was measured.",
            "exact_layers": net.exact_layers,
        },
    )
