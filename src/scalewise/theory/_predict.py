"""The verb `predict`: a network and inputs in, a labelled Dataset of what the theory says out."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import xarray as xr

from scalewise._threads import blas_threads_for
from scalewise._version import __version__
from scalewise.network import MLP, check_inputs, check_kernels, digest_of
from scalewise.observables import SAMPLE_DIMS, as_variable
from scalewise.selection import select
from scalewise.theory.flow._expansion import Expansion, expansion_parameter, pairs_to_watch
from scalewise.theory.flow._kernel_flow import KernelFlow, kernel_flow
from scalewise.theory.flow._natural_size import natural_sizes
from scalewise.theory.flow._one_input import one_input
from scalewise.theory.flow._preactivation import preactivation_flow
from scalewise.theory.flow._tensor_flow import TENSORS, check_memory, tensor_flow

__all__ = ["predict"]

_PREACTIVATION = {"four_point_vertex", "metric_nlo"}
Progress = Callable[[str, int, int], None]


def predict(
    net: MLP,
    x: Any,
    *,
    observables: Sequence[str] | str | None = None,
    layers: Sequence[int] | int | None = None,
    progress: Progress | None = None,
) -> xr.Dataset:
    r"""What the theory says of a network on given inputs, layer by layer.

    Args:
        net: The network: shape, activation and hyperparameters.
        x: Inputs (samples, features).
        observables: Names out of ``scalewise.OBSERVABLES``; ``"all"`` for everything that exists for
            the activation; ``None`` for kernel, NTK and the preactivations' 1/n terms, the last only
            as long as they take some ten seconds at most: some 42 inputs through 3 layers, 23
            through 16. What is named is computed whatever it takes, if it fits the memory.
        layers: Which layers to keep, from 1 to the depth, or one of them; all if ``None``.
        progress: Called with (what, steps done, steps in all).

    Returns:
        A Dataset, float64, with dimensions ``layer`` and ``sample``, ``sample_1``, …: leading-order
        coefficients (``kernel``, ``ntk``) and coefficients of 1/n of the layer below (all others), with
        the sample indices in the printed order of the symbol. ``<name>_error`` is the numerical error
        where expectations were sampled or cubed; ``<name>_size`` comes with tensors beyond the
        preactivations: how large a coefficient of their dimension is (`natural_sizes`). ``expansion_parameter`` is
        $\epsilon=\max_{a\le b}V_{(ab)(ab)}/(n_{\ell-1}K_{aa}K_{bb})$ at the network's own widths, the small
        parameter of the 1/n expansion: every covariance of two entries of the metric is at most $\epsilon$ times
        the root of the four kernels it belongs to. All pairs of a few inputs are looked at, of many a choice
        (`scalewise.theory.expansion`); its attribute ``pairs`` says how many. The attributes ``left_out`` and
        ``left_out_because`` name what ``None`` or ``"all"`` would have held and does not, and why.

    Raises:
        ValueError: If the inputs do not fit the network, a name or a layer does not exist, or what is
            named does not exist for this activation or does not fit the memory.

    Source: PDLT (4.118), (4.119), (4.115), (8.63), (8.77)-(8.97), (11.49), (11.52), (∞.177)-(∞.181).

    Example:
        >>> import numpy as np, scalewise as sw
        >>> net = sw.MLP(3, 100, "relu", input_dim=2, output_dim=1, C_W=2.0)
        >>> sw.predict(net, np.array([[1.0, 1.0]])).kernel.values.ravel()
        array([2., 2., 2.])
    """
    if not isinstance(net, MLP):
        raise TypeError(f"`net` must be a scalewise.MLP; got {type(net).__name__}.")
    inputs = check_inputs(net, x)
    chosen = select(observables, net.activation, samples=len(inputs), depth=net.depth)
    kept = _layers(net, layers)
    tensors = [name for name in chosen.names if name in TENSORS]
    check_memory(net, len(inputs), tensors)
    pairs = len(inputs) * (len(inputs) + 1) // 2 if tensors else 0
    with blas_threads_for(pairs):
        data = _compute(net, inputs, chosen.names, kept, progress)
    return _dataset(net, kept, inputs, data).assign_attrs(chosen.attributes())


def _compute(
    net: MLP,
    inputs: np.ndarray,
    names: tuple[str, ...],
    kept: tuple[int, ...],
    progress: Progress | None,
) -> dict[str, xr.Variable]:
    tensors = tuple(name for name in names if name in TENSORS)
    beyond = set(tensors) - _PREACTIVATION
    data: dict[str, xr.Variable] = {}
    flow = kernel_flow(
        net,
        inputs,
        layers=None if tensors else kept,
        ntk="ntk" in names or bool(beyond),
        watched=pairs_to_watch(net, inputs),
        progress=_progress_on(progress, "kernel and NTK"),
    )
    for layer, K in enumerate(flow.diagonal, 1):
        check_kernels(net, layer, K[K > 0], power=4 if tensors else 2)
    # A slice where it is one: no copy of what may be large.
    place = slice(None) if flow.layers == kept else [layer - 1 for layer in kept]
    if "kernel" in names:
        data["kernel"] = as_variable("kernel", flow.K[place])
    if "ntk" in names and flow.Theta is not None:
        data["ntk"] = as_variable("ntk", flow.Theta[place])
    if tensors:
        for name, (value, error) in _tensors(net, flow, tensors, progress).items():
            data[name] = as_variable(name, value[place])
            data[f"{name}_error"] = _error_of(data[name], error[place])
    for name, size in natural_sizes(net, flow.diagonal, names).items():
        data[f"{name}_size"] = _size(data[name], size[[layer - 1 for layer in kept]])
    data["expansion_parameter"] = _expansion(expansion_parameter(net, flow), kept)
    return data


def _tensors(
    net: MLP, flow: KernelFlow, names: tuple[str, ...], progress: Progress | None
) -> dict[str, tuple[np.ndarray, np.ndarray]]:
    """Each tensor and its error: one input from tables; V and G^{1} alone on unordered pairs."""
    if flow.K.shape[1] == 1:
        found = one_input(net, flow.K, [TENSORS[name] for name in names])
    elif set(names) <= _PREACTIVATION:
        report = _progress_on(progress, "four-point vertex")
        low = preactivation_flow(net, flow.K, metric_nlo="metric_nlo" in names, progress=report)
        found = {"V": (low.V, low.V_error), "G1": (low.G1, low.G1_error)}
    else:
        assert flow.Theta is not None
        letters = tuple(TENSORS[name] for name in names)
        report = _progress_on(progress, "tensors of finite width")
        high = tensor_flow(net, flow.K, flow.Theta, letters, progress=report)
        found = {x: (high.values[x], high.errors[x]) for x in letters}
    return {
        name: (value, error)
        for name in names
        for value, error in (found[TENSORS[name]],)
        if value is not None and error is not None
    }


def _layers(net: MLP, layers: Sequence[int] | int | None) -> tuple[int, ...]:
    if layers is None:
        return tuple(range(1, net.depth + 1))
    kept = (layers,) if isinstance(layers, int | np.integer) else tuple(layers)
    whole = all(isinstance(layer, int | np.integer) for layer in kept)
    if not kept or not whole or any(not 1 <= layer <= net.depth for layer in kept):
        raise ValueError(f"`layers` must be numbers from 1 to the depth {net.depth}; got {layers}.")
    return tuple(sorted({int(layer) for layer in kept}))


def _progress_on(progress: Progress | None, what: str) -> Callable[[int, int], None] | None:
    if progress is None:
        return None
    return lambda done, total: progress(what, done, total)


def _error_of(variable: xr.Variable, error: np.ndarray) -> xr.Variable:
    attrs = {"long_name": "Numerical error of the prediction", "units": variable.attrs["units"]}
    return xr.Variable(variable.dims, error, attrs)


def _size(variable: xr.Variable, size: np.ndarray) -> xr.Variable:
    attrs = {"long_name": "Size of its dimension", "units": variable.attrs["units"]}
    return xr.Variable(("layer",), size, attrs)


def _expansion(found: Expansion, kept: tuple[int, ...]) -> xr.Variable:
    return xr.Variable(
        ("layer",),
        found.value[[layer - 1 for layer in kept]],
        {
            "symbol": "max_ab V_abab / (n K_aa K_bb)",
            "equation": "PDLT (5.128), over pairs",
            "units": "dimensionless",
            "long_name": "Largest relative variance of the metric: the small parameter of the theory.",
            "pairs": found.pairs,
        },
    )


def _dataset(
    net: MLP, kept: tuple[int, ...], x: np.ndarray, data: dict[str, xr.Variable]
) -> xr.Dataset:
    used = {d for v in data.values() for d in v.dims}
    coords = {"layer": list(kept), **{d: np.arange(len(x)) for d in SAMPLE_DIMS if d in used}}
    attrs = {
        "kind": "theory",
        **net.attributes(),
        "inputs": digest_of(x),
        "scalewise": __version__,
    }
    dataset = xr.Dataset(data, coords, attrs)
    for name, variable in dataset.data_vars.items():
        if not np.all(np.isfinite(variable.values)):
            raise FloatingPointError(
                f"The prediction of {name!r} is not finite; please report this network: {net}."
            )
    return dataset
