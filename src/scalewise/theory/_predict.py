"""The verb `predict`: a network and inputs in, a labelled Dataset of what the theory says out."""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Sequence
from typing import Any

import numpy as np
import xarray as xr

from scalewise._checked import Told, checked
from scalewise._extras import require
from scalewise._labelled import dataset, variable
from scalewise._threads import blas_threads_for
from scalewise._version import __version__
from scalewise.networks import Network
from scalewise.networks.spi import (
    AnyNetwork,
    check_inputs,
    check_kernels,
    digest_of,
    refuse_laws_at_inputs,
    refuse_zero_inputs,
)
from scalewise.observables import OBSERVABLES, POSITION_DIMS, SAMPLE_DIMS, as_variable
from scalewise.selection import select, told_by
from scalewise.theory.flow._expansion import Expansion, expansion_parameter, pairs_to_watch
from scalewise.theory.flow._kernel_flow import KernelFlow, kernel_flow
from scalewise.theory.flow._natural_size import natural_sizes
from scalewise.theory.order._many_labels import KNOWN, many_labels
from scalewise.theory.order._many_shifts import many_shifts
from scalewise.theory.order._of_pairs import OfPairs
from scalewise.theory.order._one_input import KNOWN_OF_ONE, one_input
from scalewise.theory.order._tensor_flow import check_memory, tensor_flow
from scalewise.theory.order._terms import wanted
from scalewise.theory.order._whole import whole_tensors

Progress = Callable[[str, int, int], None]
Report = Callable[[int, int], None]
Tensors = dict[str, tuple[Any, Any]]


@checked
def predict(
    net: AnyNetwork,
    x: Any,
    *,
    observables: Collection[str] | str | None = None,
    layers: Sequence[int] | int | None = None,
    progress: Told = None,
) -> xr.Dataset:
    r"""Predict a network at initialisation on given inputs, layer by layer.

    Args:
        net: The network. Of an `MLP`, and of every network whose activations act on sums of random layers (dense,
            convolutions, graphs, skip connections), all observables are known; of others all but
            ``dntk_P``, ``dntk_Q`` and ``ddntk_R`` to ``ddntk_U``, with JAX.
        x: Inputs (samples, features), or ``(samples, *positions, features)``.
        observables: Names in ``scalewise.OBSERVABLES``, or their letters; ``"all"`` for all that exists for
            the activation; ``None`` for kernel, NTK and the preactivations' 1/n terms, the last only
            as long as they take some ten seconds at most: some 42 inputs through 3 layers, 23
            through 16; of a `Network` they have to be named, and need JAX. What is named is computed
            whatever it takes, if it fits the memory.
        layers: Which layers to keep, from 1 to the depth, or one of them; all that have one site if ``None``.
        progress: A function, called with (what, steps done, steps in all); nobody is told otherwise.

    Returns:
        A Dataset, float64, with dimensions ``layer`` and ``sample``, ``sample_1``, …: leading-order
        coefficients (``kernel``, ``ntk``) and coefficients of 1/n of the layer below (all others), with
        the sample indices in the printed order of the symbol; layers with positions add ``position`` and
        ``position_1``, counted along the last axis first. ``<name>_error`` is the numerical error
        where expectations were sampled or cubed, of a `Network` the standard error of independent
        samples; ``<name>_size`` comes with tensors beyond the preactivations: how large a coefficient of
        their dimension is (`natural_sizes`). ``expansion_parameter`` is
        $\epsilon=\max_{a\le b}V_{(ab)(ab)}/(n_{\ell-1}K_{aa}K_{bb})$ at the network's own widths, the small
        parameter of the 1/n expansion: every covariance of two entries of the metric is at most $\epsilon$ times
        the root of the four kernels it belongs to. All pairs of a few inputs are looked at, of many a choice
        (`scalewise.theory.expansion`); its attribute ``pairs`` says how many. The attributes ``left_out`` and
        ``left_out_because`` name what ``None`` or ``"all"`` would have held and does not, and why.

    Raises:
        ValueError: If the inputs do not fit the network, a name or a layer does not exist, or what is
            named does not exist for this activation or does not fit the memory.

    Source: PDLT (4.118), (4.119), (4.115), (8.63), (8.77)-(8.97), (11.49), (11.52), (∞.177)-(∞.181);
        what a kink leaves out, (∞.41)-(∞.44); the last layer alone, (∞.173); skip connections, (B.7)-(B.11),
        (B.23), and instead of (B.24) the whole memory of the neurons.

    Example:
        >>> import numpy as np, scalewise as sw
        >>> net = sw.MLP(3, 100, "relu", input_dim=2, output_dim=1, C_W=2.0)
        >>> sw.predict(net, np.array([[1.0, 1.0]])).kernel.values.ravel()
        array([2., 2., 2.])
    """
    inputs = check_inputs(net, x)
    chosen = select(observables, net, samples=len(inputs))
    kept = _layers(net, layers)
    if net.is_perceptron:
        data = _with_corrections(net, inputs, chosen.names, kept, progress)
    else:
        data = _leading(net, inputs, chosen.names, kept, progress)
    return _dataset(net, kept, inputs, data).assign_attrs(chosen.attributes())


def _leading(
    net: Network,
    inputs: np.ndarray,
    names: tuple[str, ...],
    kept: tuple[int, ...],
    progress: Progress | None,
) -> dict[str, xr.Variable]:
    """Kernel and NTK of any network, and what is known of it beyond them."""
    refuse_laws_at_inputs(net.program)
    tensors = _tensors_of(names)
    # How large terms of order 1/n can be is read off the vertex, whatever is asked for.
    needed = {**tensors, "four_point_vertex": "V"}
    beyond = _beyond(net, inputs, needed, kept, progress) if tensors else {}
    sized = [name for name in tensors if not OBSERVABLES[name].own_scale]
    with blas_threads_for():
        flow = kernel_flow(
            net,
            inputs,
            layers=kept,
            ntk="Theta" in map(_letter, names) or bool(sized),
            progress=_progress_on(progress, "kernel and NTK"),
        )
    trailing: tuple[str, ...] = ()
    shape = flow.K.shape[:3]
    if flow.K.ndim > 3:
        sites = math.prod(net.program.positions[net.program.layers[kept[0] - 1]])
        trailing, shape = POSITION_DIMS, (*shape, sites, sites)
    data = {
        name: as_variable(name, getattr(flow, _letter(name)).reshape(shape), trailing=trailing)
        for name in names
        if name not in tensors
    }
    for letter, error in zip(("K", "Theta"), flow.errors, strict=False):
        for name in names:
            if _letter(name) == letter:
                what = "Numerical error of the prediction"
                data[f"{name}_error"] = _beside(
                    data[name], data[name].dims, error.reshape(shape), what
                )
    if tensors:
        data |= _of_order_one(net, tensors, beyond, kept, flow)
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
        report = _progress_on(progress, "order 1/n, layers")
        with blas_threads_for():
            found = whole_tensors(net, inputs, whole, kept, report)
    if carried:
        report = _progress_on(progress, "order 1/n, layers carried back")
        with blas_threads_for(len(inputs) * len(inputs)):
            tensors_of = [letter for letter in carried if letter in KNOWN]
            shifts = [letter for letter in carried if letter not in KNOWN]
            if tensors_of:
                found |= many_labels(net, inputs, tensors_of, kept, report)
            if shifts:
                report = _progress_on(progress, "order 1/n, mean shifts of inputs")
                found |= many_shifts(net, inputs, shifts, kept, report)
    if by_units:
        require("jax", for_="Order 1/n of layers of every kind", extra="nets")
        # A room that few enter, and that needs JAX.
        from scalewise.theory.order._responses import order_one

        report = _progress_on(progress, "order 1/n, scrambles")
        with blas_threads_for():
            found |= order_one(net, inputs, by_units, kept, report)
    return found


def _of_order_one(
    net: Network,
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
        data[f"{name}_error"] = _beside(data[name], data[name].dims, error, what)
    K = np.einsum("laa->la", flow.K)
    size = K[:, :, None] * K[:, None]
    V = _squares(found["V"][0])
    relative = np.divide(V, size, out=np.zeros_like(V), where=size > 0).max(axis=(1, 2))
    below, count = np.array([net.widths[layer - 1] for layer in kept]), K.shape[1]
    data["expansion_parameter"] = _epsilon(relative / below, count * (count - 1) // 2)
    for name in tensors:
        row = OBSERVABLES[name]
        if not row.own_scale:
            assert flow.Theta is not None
            Theta, (k, t) = np.einsum("laa->la", flow.Theta), row.dimension
            power = np.zeros_like(K)
            np.power(K, float(k), out=power, where=K > 0)
            of_dimension = relative * (power * Theta**t).max(axis=1)
            data[f"{name}_size"] = _beside(
                data[name], ("layer",), of_dimension, "Size of its dimension"
            )
    return data


def _squares(V: np.ndarray | OfPairs) -> np.ndarray:
    """V(ab)(ab), by layer."""
    if isinstance(V, OfPairs):
        layers, a, b = np.ix_(*map(np.arange, V.shape[:3]))
        return V.at(layers, a, b, a, b)
    return np.einsum("labab->lab", V)


def _in_order(names: Sequence[str]) -> Callable[[str], tuple[int, bool]]:
    """Variables as they were asked for, each before its error."""
    places = {
        name: (place, late)
        for place, own in enumerate(names)
        for late, name in ((False, own), (True, f"{own}_error"))
    }
    return lambda name: places.get(name, (len(names), True))


def _check_sites(net: Network, kept: tuple[int, ...], name: str) -> None:
    """Refuse order 1/n of layers with positions."""
    several = [layer for layer in kept if not net.program.has_one_site(layer)]
    if several:
        raise ValueError(
            f"{name!r} is known of layers of one site, and layer {several[0]} has positions. Leave {name!r} out of "
            f"`observables`, or ask for `layers` among {', '.join(map(str, net.layers_of_one_site))}."
        )


def _with_corrections(
    net: Network,
    inputs: np.ndarray,
    names: tuple[str, ...],
    kept: tuple[int, ...],
    progress: Progress | None,
) -> dict[str, xr.Variable]:
    """Everything that is known of fully connected layers, and how large it can be."""
    tensors = _tensors_of(names)
    check_memory(net, len(inputs), list(tensors))
    pairs = len(inputs) * (len(inputs) + 1) // 2 if tensors else 0
    with blas_threads_for(pairs):
        return _compute(net, inputs, names, kept, progress)


def _compute(
    net: Network,
    inputs: np.ndarray,
    names: tuple[str, ...],
    kept: tuple[int, ...],
    progress: Progress | None,
) -> dict[str, xr.Variable]:
    tensors, skips = _tensors_of(names), any(net.skips)
    branch = net.numbered(skips=(0.0,) * net.depth) if skips else net
    if skips:
        refuse_zero_inputs(net, inputs, "a correlation of its first two layers")
    flow = kernel_flow(
        net,
        inputs,
        layers=None if tensors or skips else kept,
        ntk="Theta" in map(_letter, names) or wanted(tuple(tensors.values())).has_tangents,
        watched=pairs_to_watch(branch, inputs),
        progress=_progress_on(progress, "kernel and NTK"),
    )
    K = flow.diagonal
    # A kernel of 0 was let in with the inputs, and no power of it is taken.
    check_kernels(net, 1, np.where(K == 0, 1.0, K), power=4 if tensors else 2)
    report = _progress_on(progress, "tensors of finite width")
    beyond = _with_skips if skips else _without_skips
    found, epsilon = beyond(net, inputs, flow, list(tensors.values()), report)
    # A slice where it is one: no copy of what may be large.
    place = slice(None) if flow.layers == kept else [layer - 1 for layer in kept]
    data = _coefficients(flow, names, {name: found[x] for name, x in tensors.items()}, place)
    for name, size in natural_sizes(branch, flow.diagonal, names).items():
        size = size[[layer - 1 for layer in kept]]
        data[f"{name}_size"] = _beside(data[name], ("layer",), size, "Size of its dimension")
    data["expansion_parameter"] = _expansion(epsilon, kept)
    return data


def _coefficients(
    leading: KernelFlow,
    names: Sequence[str],
    tensors: Tensors,
    place: slice | list[int],
) -> dict[str, xr.Variable]:
    """Variables of the layers that are kept: leading orders by their letters, the others with their errors."""
    data: dict[str, xr.Variable] = {}
    for name in names:
        if name not in tensors:
            data[name] = as_variable(name, getattr(leading, _letter(name))[place])
    for name, (value, error) in tensors.items():
        data[name] = as_variable(name, value[place])
        what = "Numerical error of the prediction"
        data[f"{name}_error"] = _beside(data[name], data[name].dims, error[place], what)
    return data


def _letter(name: str) -> str:
    return OBSERVABLES[name].letter


def _tensors_of(names: Sequence[str]) -> dict[str, str]:
    """The letters of those observables that are not of leading order."""
    return {name: _letter(name) for name in names if OBSERVABLES[name].order}


def _without_skips(
    net: Network, inputs: np.ndarray, flow: KernelFlow, letters: list[str], report: Report | None
) -> tuple[Tensors, Expansion]:
    """Tensors of one input from tables, as far as these know them; others layer by layer."""
    # Tables hold third derivatives, too, and are made of those that have limits.
    alone = flow.K.shape[1] == 1 and not net.activation.unbounded
    known = [letter for letter in letters if alone and letter in KNOWN_OF_ONE]
    found = one_input(net, flow.K, known) if known else {}
    rest = [letter for letter in letters if letter not in found]
    if rest:
        among = tensor_flow(net, flow.K, flow.Theta, rest, progress=report)
        found |= {letter: (among.values[letter], among.errors[letter]) for letter in rest}
    return found, expansion_parameter(net, flow)


def _with_skips(
    net: Network, inputs: np.ndarray, flow: KernelFlow, letters: list[str], report: Report | None
) -> tuple[Tensors, Expansion]:
    """Every layer with every other; all at once."""
    # A room that few enter, and that brings an optimiser along.
    from scalewise.theory.residual._tensors import residual_tensors

    found = residual_tensors(net, inputs, flow.K, letters)
    if report is not None:
        report(net.depth - 1, net.depth - 1)
    return found


def _layers(net: Network, layers: Sequence[int] | int | None) -> tuple[int, ...]:
    """The layers to keep: those that are named, or all that have one site."""
    if layers is None:
        if not net.layers_of_one_site:
            raise ValueError(
                "No layer of this network has one site, and those are kept by default. Ask for others, such as "
                f"layers={net.depth}."
            )
        return net.layers_of_one_site
    kept = (layers,) if isinstance(layers, int) else tuple(layers)
    if not kept or any(not 1 <= layer <= net.depth for layer in kept):
        raise ValueError(f"`layers` must be numbers from 1 to the depth {net.depth}; got {layers}.")
    return tuple(sorted(set(kept)))


def _progress_on(progress: Progress | None, what: str) -> Report | None:
    if progress is None:
        return None
    return lambda done, total: progress(what, done, total)


def _beside(of: xr.Variable, dims: Any, values: np.ndarray | OfPairs, what: str) -> xr.Variable:
    """A companion of a variable in its own units."""
    return variable(dims, values, {"long_name": what, "units": of.attrs["units"]})


def _expansion(found: Expansion, kept: tuple[int, ...]) -> xr.Variable:
    return _epsilon(found.value[[layer - 1 for layer in kept]], found.pairs)


def _epsilon(values: np.ndarray, pairs: int) -> xr.Variable:
    """The small parameter at some layers, sought among so many pairs of distinct inputs."""
    return variable(
        ("layer",),
        values,
        {
            "symbol": "max_ab V_abab / (n K_aa K_bb)",
            "equation": "PDLT (5.128), over pairs",
            "units": "dimensionless",
            "long_name": "Largest relative variance of the metric: the small parameter of the theory.",
            "pairs": pairs,
        },
    )


def _dataset(
    net: Network, kept: tuple[int, ...], x: np.ndarray, data: dict[str, xr.Variable]
) -> xr.Dataset:
    used = {d for v in data.values() for d in v.dims}
    coords = {"layer": list(kept), **{d: np.arange(len(x)) for d in SAMPLE_DIMS if d in used}}
    for name in POSITION_DIMS:
        if name in used:
            coords[name] = np.arange(next(v.sizes[name] for v in data.values() if name in v.sizes))
    attrs = {
        "kind": "theory",
        **net.attributes(),
        "inputs": digest_of(x),
        "scalewise": __version__,
    }
    for name, found in data.items():
        # What is not in memory has been looked at where it was made.
        if isinstance(found._data, np.ndarray) and not np.all(np.isfinite(found.values)):
            raise FloatingPointError(
                f"The prediction of {name!r} is not finite; please report this network: {net}."
            )
    return dataset(data, coords, attrs)
