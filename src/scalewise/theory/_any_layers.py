"""Predictions for any layers: kernel and NTK of a program, and order 1/n by the evaluator that tells it."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import numpy as np
import xarray as xr

from scalewise._arrays import evenly
from scalewise._extras import require
from scalewise._threads import blas_threads_for
from scalewise.networks import Network
from scalewise.networks.spi import refuse_laws_at_inputs
from scalewise.observables import OBSERVABLES, POSITION_DIMS, as_variable, of_letter
from scalewise.selection import told_by
from scalewise.theory._variables import (
    SIZE,
    Progress,
    Tensors,
    beside,
    epsilon,
    epsilon_of_ntk,
    letter_of,
    letters_of,
    progress_on,
)
from scalewise.theory.flow._kernel_flow import KernelFlow, kernel_flow
from scalewise.theory.flow._natural_size import (
    INDEPENDENT,
    natural_sizes,
    ntk_variance,
    of_one_input,
)
from scalewise.theory.order._many_labels import KNOWN, many_labels
from scalewise.theory.order._many_shifts import many_shifts
from scalewise.theory.order._of_pairs import OfPairs
from scalewise.theory.order._whole import whole_tensors

_ALONE = 2  # inputs whose tensors say how large what is neglected is: the smallest and the largest


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
    # What scatters has tensors: those of the NTK say how far it is from its mean of order 1/n, too.
    wanted = of_one_input([*tensors, *(["ntk_B"] if "ntk" in names and tensors else [])])
    with blas_threads_for():
        flow = kernel_flow(
            net,
            inputs,
            layers=kept,
            ntk="Theta" in map(letter_of, names) or bool(wanted),
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
        norms = _of_norms(net, inputs, kept)
        data |= _of_order_one(net, tensors, beyond, kept, flow, norms)
        if wanted:
            alone = _of_some_alone(net, inputs, wanted, beyond, kept, flow)
            scatter = norms + _scatter_of_ntk(net, inputs, alone, kept, norms)
            data |= _sizes(net, data, alone, kept, scatter)
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
    tensors: dict[str, str],
    found: Tensors,
    kept: tuple[int, ...],
    flow: KernelFlow,
    norms: np.ndarray,
) -> dict[str, xr.Variable]:
    """As variables; and the small parameter."""
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
    values = np.maximum(relative / below, norms)
    data["expansion_parameter"] = epsilon(values, count * (count - 1) // 2, net.exact_layers)
    return data


def _of_norms(net: Network, inputs: np.ndarray, kept: tuple[int, ...]) -> np.ndarray:
    """The relative variance of what norms below each layer divide by; 0 of a layer without."""
    if not any(net.program.norms(net.program.layers[layer - 1]) for layer in kept):
        return np.zeros(len(kept))
    require("jax", for_="Order 1/n of networks with norms", extra="nets")
    # Needs JAX.
    from scalewise.theory.order._norms import norm_fluctuations

    return norm_fluctuations(net, inputs, kept)


def _of_some_alone(
    net: Network,
    inputs: np.ndarray,
    wanted: Sequence[str],
    found: Tensors,
    kept: tuple[int, ...],
    flow: KernelFlow,
) -> dict[str, np.ndarray]:
    """Tensors of some inputs alone, by letter: out of those that were found, or of each input by itself."""
    some = _by_norm(inputs)
    assert flow.Theta is not None
    alone = {"Theta": np.einsum("laa->la", flow.Theta)[:, some]}
    at = np.s_[np.arange(len(kept))[:, None], *(some,) * 4]
    for x in (x for x in wanted if x in found):
        value = found[x][0]
        alone[x] = value.at(*at) if isinstance(value, OfPairs) else value[at]
    missing = {
        row.name: x
        for x in wanted
        if x not in found
        and not (row := of_letter(x)).obstacle_of(net)
        and told_by(net, 1, row, kept).by
    }
    if missing:
        each = [_beyond(net, inputs[[a]], missing, kept, None) for a in some]
        for x in missing.values():
            alone[x] = np.concatenate([one[x][0].reshape(-1, 1) for one in each], axis=1)
    return alone


def _scatter_of_ntk(
    net: Network,
    inputs: np.ndarray,
    alone: dict[str, np.ndarray],
    kept: tuple[int, ...],
    norms: np.ndarray,
) -> np.ndarray:
    """What one NTK adds to the small parameter of each layer, but for the norms themselves.

    Where weights are used again, it is the largest up to that layer: a read-out that averages over uses has a small
    variance, but what it reads of them does not follow independent neurons.
    """
    draws, watched = net.program.draws, kept
    again = any(net.program.weights_of(draw) != draw for draw in draws)
    if again:
        watched = tuple(layer for layer in net.layers_of_one_site if layer <= kept[-1])
    if watched != kept:
        some = inputs[_by_norm(inputs)]
        with blas_threads_for():
            flow = kernel_flow(net, some, layers=watched)
        alone = _of_some_alone(net, some, of_one_input(["ntk_B"]), {}, watched, flow)
    found = ntk_variance(alone) / np.array([net.widths[layer - 1] for layer in watched])
    if again:
        return np.maximum.accumulate(found)[[watched.index(layer) for layer in kept]]
    return np.where(norms > 0, found, INDEPENDENT * found)


def _by_norm(inputs: np.ndarray) -> np.ndarray:
    """Numbers of some inputs, the smallest and the largest among them."""
    return evenly([float(np.linalg.norm(one)) for one in inputs], _ALONE)


def _sizes(
    net: Network,
    data: dict[str, xr.Variable],
    alone: dict[str, np.ndarray],
    kept: tuple[int, ...],
    scatter: np.ndarray,
) -> dict[str, xr.Variable]:
    """How far the NTK scatters, and the sizes of the observables that do not say theirs."""
    below = np.array([net.widths[layer - 1] for layer in kept])
    small = data["expansion_parameter"].values
    found = {"ntk_expansion_parameter": epsilon_of_ntk(scatter)}
    names = [name for name in data if name in OBSERVABLES]
    sizes = natural_sizes(alone, small * below, names)
    if "ntk" in data:
        more = np.divide(scatter, small, out=np.ones_like(small), where=small > 0)
        sizes["ntk"] = np.sqrt(np.maximum(more, 1.0)) * alone["Theta"].max(axis=1)
    for name, size in sizes.items():
        found[f"{name}_size"] = beside(data[name], ("layer",), size, SIZE)
    return found


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
