"""Order 1/n of any network whose preactivations are Gaussian at infinite width, as whole arrays over its labels."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence

import numpy as np

from scalewise.gaussian.spi import with_shakes
from scalewise.networks import Network
from scalewise.networks.spi import Program, course
from scalewise.observables import of_letter
from scalewise.theory.flow._fields import Fields
from scalewise.theory.order._tensors import ALIKE, Tensors, apart, tensors_along
from scalewise.theory.order._terms import wanted
from scalewise.theory.order._way import Kernels, Make

Found = dict[str, tuple[np.ndarray, np.ndarray]]


def whole_runs(
    net: Network,
    x: np.ndarray,
    letters: Sequence[str],
    make: Make = ALIKE,
    together: int | None = None,
) -> list[list[Tensors]]:
    """Tensors of the last layer as `scalewise.theory.order._tensor_flow.tensor_runs` gives them, of any network.

    Args:
        net: The network.
        x: Checked inputs.
        letters: Which tensors.
        make: The expectations of an activation at a kernel.
        together: Labels of a population up to which these are of all of them; a dozen if ``None``.
    """
    program = net.program
    end = program.layers[-1]
    kernels = _kernels_on_labels(program, x, end, ntk=wanted(tuple(letters)).has_tangents)
    along = course(program, x, [end])
    ((_, runs),) = tensors_along(along, kernels, letters, make, together)
    return apart(runs)


def whole_tensors(
    net: Network,
    x: np.ndarray,
    letters: Collection[str],
    layers: Sequence[int],
    progress: Callable[[int, int], object] | None = None,
) -> Found:
    """Tensors at some layers of one site, each with its numerical error, by letter.

    Args:
        net: The network.
        x: Checked inputs.
        letters: Which tensors.
        layers: Which, counted from 1.
        progress: Called with (layers done, layers in all).
    """
    program = net.program
    ends = [program.layers[layer - 1] for layer in layers]
    along = course(program, x, ends)
    tangents = wanted(tuple(letters)).has_tangents
    kernels = _kernels_on_labels(program, x, max(ends), ntk=tangents)
    values, errors = (
        {a: np.zeros((len(layers), *(len(x),) * of_letter(a).legs)) for a in letters}
        for _ in range(2)
    )
    for done, (end, runs) in enumerate(tensors_along(along, kernels, tuple(letters)), 1):
        place = ends.index(end)
        for a in letters:
            values[a][place], errors[a][place] = with_shakes([run[a] for run in runs])
        if progress is not None:
            progress(done, len(layers))
    return {a: (values[a], errors[a]) for a in letters}


def _kernels_on_labels(program: Program, x: np.ndarray, last: int, *, ntk: bool) -> Kernels:
    """K, and Theta if it is wanted, of every random layer up to a node.

    Args:
        program: The nodes.
        x: (inputs, *positions, features).
        last: The node.
        ntk: Whether Theta is wanted.
    """
    crossed = [(True,) * len(positions) for positions in program.positions]
    fields, every = Fields(program, x, ntk, crossed), slice(0, len(x))
    draws, found = set(program.draws), {}
    for here, pair in fields.along(every, every, last):
        if here in draws:
            both = fields.matrices(pair, fields.places(here, every, every))
            found[here] = np.array(both.C), None if both.T is None else np.array(both.T)
    return found
