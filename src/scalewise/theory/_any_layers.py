"""Predictions for any layers: kernel and NTK of a program, and order 1/n by the evaluator that tells it."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import numpy as np
import xarray as xr

from scalewise._extras import require
from scalewise._threads import blas_threads_for
from scalewise.networks import Network
from scalewise.networks.spi import refuse_laws_at_inputs
from scalewise.observables import OBSERVABLES, POSITION_DIMS, as_variable
from scalewise.selection import told_by
from scalewise.theory._variables import (
    Progress,
    Tensors,
    beside,
    epsilon,
    letter_of,
    letters_of,
    progress_on,
)
from scalewise.theory.flow._kernel_flow import KernelFlow, kernel_flow
from scalewise.theory.order._many_labels import KNOWN, many_labels
from scalewise.theory.order._many_shifts import many_shifts
from scalewise.theory.order._of_pairs import OfPairs
from scalewise.theory.order._whole import whole_tensors


def of_any_layers(
    net: Network,
    inputs: np.ndarray,
    names: tuple[str, ...],
    kept: tuple[int, ...],
    progress: Progress | None,
) -> dict[str, xr.Variable]:
    """Kernel and NTK of any network, and what is known of it beyond them."""
    refuse_laws_at_inputs(net.program)
    tensors = letters_of(names)
    # How large terms of order 1/n can be is read off the vertex, whatever is asked for.
    needed = {**tensors, "four_point_vertex": "V"}
    beyond = _beyond(net, inputs, needed, kept, progress) if tensors else {}
    sized = [name for name in tensors if not OBSERVABLES[name].own_scale]
    with blas_threads_for():
        flow = kernel_flow(
            net,
            inputs,
            layers=kept,
            ntk="Theta" in map(letter_of, names) or bool(sized),
            progress=progress_on(progress, "kernel and NTK"),
        )
    trailing: tuple[str, ...] = ()
    shape = flow.K.shape[:3]
    if flow.K.ndim > 3:
        sites = math.prod(net.program.positions[net.program.layers[kept[0] - 1]])
        trailing, shape = POSITION_DIMS, (*shape, sites, sites)
    data = {
        name: as_variable(name, getattr(flow, letter_of(name)).reshape(shape), trailing=trailing)
        for name in names
        if name not in tensors
    }
    for letter, error in zip(("K", "Theta"), flow.errors, strict=False):
        for name in names:
            if letter_of(name) == letter:
                what = "Numerical error of the prediction"
                data[f"{name}_error"] = beside(
                    data[name], data[name].dims, error.reshape(shape), what
                )
    if tensors:
        data |= _of_order_one(net, inputs, tensors, beyond, kept, flow)
    return {name: data[name] for name in sorted(data, key=_in_order(names))}


def _beyond(
    net: Network,
    inputs: np.ndarray,
    tensors: dict[str, str],
    kept: tuple[int, ...],
    progress: Progress | None,
) -> Tensors:
    """Order 1/n of any network, by letter: as whole arrays, by carrying read-outs back, or by units."""
    _check_sites(net, kept, next(iter(tensors)))
    by: dict[str, list[str]] = {"whole": [], "carried": [], "units": []}
    for name, letter in tensors.items():
        told = told_by(net, len(inputs), OBSERVABLES[name], kept)
        if not told.by:
            why = f"takes its single units, but {told.units}"
            if told.reason:
                why = (
                    f"does not fit into the memory: {told.reason}. Single units do not tell it either: "
                    f"{told.units}"
                )
            raise ValueError(
                f"{name!r} of this network {why}. Give fewer inputs, or leave {name!r} out of `observables`."
            )
        by[told.by].append(letter)
    whole, carried, by_units = by.values()
    found: Tensors = {}
    if whole:
        report = progress_on(progress, "order 1/n, layers")
        with blas_threads_for():
            found = whole_tensors(net, inputs, whole, kept, report)
    if carried:
        report = progress_on(progress, "order 1/n, layers carried back")
        with blas_threads_for(len(inputs) * len(inputs)):
            tensors_known = [letter for letter in carried if letter in KNOWN]
            shifts = [letter for letter in carried if letter not in KNOWN]
            if tensors_known:
                found |= many_labels(net, inputs, tensors_known, kept, report)
            if shifts:
                report = progress_on(progress, "order 1/n, mean shifts of inputs")
                found |= many_shifts(net, inputs, shifts, kept, report)
    if by_units:
        require("jax", for_="Order 1/n of layers of every kind", extra="nets")
        # A room that few enter, and that needs JAX.
        from scalewise.theory.order._responses import order_one

        report = progress_on(progress, "order 1/n, scrambles")
        with blas_threads_for():
            found |= order_one(net, inputs, by_units, kept, report)
    return found


def _of_order_one(
    net: Network,
    inputs: np.ndarray,
    tensors: dict[str, str],
    found: Tensors,
    kept: tuple[int, ...],
    flow: KernelFlow,
) -> dict[str, xr.Variable]:
    """As variables, with the sizes of those that do not say theirs; and the small parameter."""
    data: dict[str, xr.Variable] = {}
    for name, letter in tensors.items():
        value, error = found[letter]
        data[name] = as_variable(name, value)
        what = "Error of the prediction"
        data[f"{name}_error"] = beside(data[name], data[name].dims, error, what)
    K = np.einsum("laa->la", flow.K)
    size = K[:, :, None] * K[:, None]
    V = _squares(found["V"][0])
    relative = np.divide(V, size, out=np.zeros_like(V), where=size > 0).max(axis=(1, 2))
    below, count = np.array([net.widths[layer - 1] for layer in kept]), K.shape[1]
    if any(net.program.norms(net.program.layers[layer - 1]) for layer in kept):
        require("jax", for_="Order 1/n of networks with norms", extra="nets")
        # Needs JAX.
        from scalewise.theory.order._norms import norm_fluctuations

        relative = np.maximum(relative, below * norm_fluctuations(net, inputs, kept))
    data["expansion_parameter"] = epsilon(relative / below, count * (count - 1) // 2)
    for name in tensors:
        row = OBSERVABLES[name]
        if not row.own_scale:
            assert flow.Theta is not None
            Theta, (k, t) = np.einsum("laa->la", flow.Theta), row.dimension
            power = np.zeros_like(K)
            np.power(K, float(k), out=power, where=K > 0)
            of_dimension = relative * (power * Theta**t).max(axis=1)
            data[f"{name}_size"] = beside(
                data[name], ("layer",), of_dimension, "Size of its dimension"
            )
    return data


def _squares(V: np.ndarray | OfPairs) -> np.ndarray:
    """V(ab)(ab), by layer."""
    if isinstance(V, OfPairs):
        layers, a, b = np.ix_(*map(np.arange, V.shape[:3]))
        return V.at(layers, a, b, a, b)
    return np.einsum("labab->lab", V)


def _check_sites(net: Network, kept: tuple[int, ...], name: str) -> None:
    """Refuse order 1/n of layers with positions."""
    several = [layer for layer in kept if not net.program.has_one_site(layer)]
    if several:
        raise ValueError(
            f"{name!r} is known of layers of one site, and layer {several[0]} has positions. Leave {name!r} out of "
            f"`observables`, or ask for `layers` among {', '.join(map(str, net.layers_of_one_site))}."
        )


def _in_order(names: Sequence[str]) -> Callable[[str], tuple[int, bool]]:
    """Variables as they were asked for, each before its error."""
    places = {
        name: (place, late)
        for place, own in enumerate(names)
        for late, name in ((False, own), (True, f"{own}_error"))
    }
    return lambda name: places.get(name, (len(names), True))
