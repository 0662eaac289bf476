"""The verb `predict`: a network and inputs in, a labelled Dataset of what the theory says out."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Any

import numpy as np
import xarray as xr

from scalewise._arrays import evenly
from scalewise._checked import Told, checked
from scalewise._threads import blas_threads_for
from scalewise.networks import Network
from scalewise.networks.spi import (
    AnyNetwork,
    check_inputs,
    check_kernels,
    refuse_zero_inputs,
)
from scalewise.observables import as_variable, of_letter
from scalewise.selection import select
from scalewise.theory._any_layers import of_any_layers
from scalewise.theory._variables import (
    SIZE,
    Progress,
    Report,
    Tensors,
    as_dataset,
    beside,
    epsilon,
    epsilon_of_ntk,
    letter_of,
    letters_of,
    progress_on,
)
from scalewise.theory.flow._expansion import Expansion, expansion_parameter, pairs_to_watch
from scalewise.theory.flow._kernel_flow import KernelFlow, kernel_flow
from scalewise.theory.flow._natural_size import (
    INDEPENDENT,
    natural_sizes,
    ntk_variance,
    of_one_input,
)
from scalewise.theory.order._one_input import KNOWN_OF_ONE, one_input
from scalewise.theory.order._tensor_flow import check_memory, tensor_flow
from scalewise.theory.order._terms import wanted
from scalewise.theory.single._single_input import single_input_tensors

# Of one input alone all tensors are smooth functions of K_aa: a few, extremes included, tell their maxima.
_ALONE = 16
# Layers times inputs, where each layer is correlated with all: tensors of so many take a second.
_REMEMBERED = 24


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
            convolutions, graphs, skip connections), all observables are known; of others those that
            single units tell, with JAX: no mean shift or third derivative of kinks and of heads that grow with
            free keys, and ``dntk_P`` to ``ddntk_U`` to some percent of the largest of their dimension.
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
        samples. Tensors beyond the preactivations bring ``<name>_size`` and ``ntk_expansion_parameter``, from which
        `at_width` tells what is neglected of them: a size of their kind, and half the relative variance of the NTK
        of one output, all of it where weights are used again or norms are below. ``expansion_parameter`` is
        $\epsilon=\max_{a\le b}V_{(ab)(ab)}/(n_{\ell-1}K_{aa}K_{bb})$ at the network's own widths, the small
        parameter of the 1/n expansion: every covariance of two entries of the metric is at most $\epsilon$ times
        the root of the four kernels it belongs to. Where norms are below a layer it is at least the largest
        relative variance of what one of them divides by, 2/n for a norm of n Gaussian channels. All pairs of a few
        inputs are looked at, of many a choice (`scalewise.theory.expansion`); ``pairs`` says how many.
        The attributes ``left_out`` and ``left_out_because`` name what ``None`` or ``"all"`` would have held and
        does not, and why.

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
        data = of_any_layers(net, inputs, chosen.names, kept, progress)
    return as_dataset(net, kept, inputs, data).assign_attrs(chosen.attributes())


def _with_corrections(
    net: Network,
    inputs: np.ndarray,
    names: tuple[str, ...],
    kept: tuple[int, ...],
    progress: Progress | None,
) -> dict[str, xr.Variable]:
    """Everything that is known of fully connected layers, and how large it can be."""
    tensors = letters_of(names)
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
    tensors, skips = letters_of(names), any(net.skips)
    branch = net.numbered(skips=(0.0,) * net.depth) if skips else net
    if skips:
        refuse_zero_inputs(net, inputs, "a correlation of its first two layers")
    flow = kernel_flow(
        net,
        inputs,
        layers=None if tensors or skips else kept,
        ntk="Theta" in map(letter_of, names) or wanted(tuple(tensors.values())).has_tangents,
        watched=pairs_to_watch(branch, inputs),
        progress=progress_on(progress, "kernel and NTK"),
    )
    K = flow.diagonal
    # A kernel of 0 was let in with the inputs, and no power of it is taken.
    check_kernels(net, 1, np.where(K == 0, 1.0, K), power=4 if tensors else 2)
    report = progress_on(progress, "tensors of finite width")
    beyond = _with_skips if skips else _without_skips
    found, expansion = beyond(net, inputs, flow, list(tensors.values()), report)
    # A slice where it is one: no copy of what may be large.
    place = slice(None) if flow.layers == kept else [layer - 1 for layer in kept]
    data = _coefficients(flow, names, {name: found[x] for name, x in tensors.items()}, place)
    of_kept = [layer - 1 for layer in kept]
    data["expansion_parameter"] = epsilon(expansion.value[of_kept], expansion.pairs)
    if letters := of_one_input(names):
        below = np.array(net.widths[:-1], dtype=np.float64)
        alone = _of_some_alone(net, inputs, flow, letters)
        of_ntk = INDEPENDENT * ntk_variance(alone) / below
        data["ntk_expansion_parameter"] = epsilon_of_ntk(of_ntk[of_kept])
        for name, size in natural_sizes(alone, below * expansion.value, names).items():
            data[f"{name}_size"] = beside(data[name], ("layer",), size[of_kept], SIZE)
    return data


def _of_some_alone(
    net: Network, inputs: np.ndarray, flow: KernelFlow, letters: Sequence[str]
) -> dict[str, np.ndarray]:
    """Tensors of some inputs alone, by letter, at every layer: from tables, or every layer with every other."""
    K, Theta, skips = flow.diagonal, flow.Theta, any(net.skips)
    assert Theta is not None
    most = max(1, _REMEMBERED // max(1, net.depth - 1)) if skips else _ALONE
    some = evenly(K[0], most)
    alone = {"Theta": np.einsum("laa->la", Theta)[:, some]}
    if not skips:
        found = single_input_tensors(net, K[:, some])
        return alone | {letter: found[letter] for letter in letters if letter in found}
    # A room that few enter, and that brings an optimiser along.
    from scalewise.theory.residual._tensors import residual_tensors

    known = [letter for letter in letters if not of_letter(letter).obstacle_of(net)]
    each = [residual_tensors(net, inputs[[a]], flow.K[:, [[a]], [[a]]], known)[0] for a in some]
    return alone | {x: np.stack([one[x][0].ravel() for one in each], axis=1) for x in known}


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
            data[name] = as_variable(name, getattr(leading, letter_of(name))[place])
    for name, (value, error) in tensors.items():
        data[name] = as_variable(name, value[place])
        what = "Numerical error of the prediction"
        data[f"{name}_error"] = beside(data[name], data[name].dims, error[place], what)
    return data


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
        found |= tensor_flow(net, flow.K, flow.Theta, rest, progress=report)
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
