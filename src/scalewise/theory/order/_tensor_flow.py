r"""The tensors of finite width of fully connected layers, at every layer with their errors.

Source: PDLT ch. 8, 11, ∞, as what one rule makes of a chain of layers; see `_terms`.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
from jaxtyping import Float

from scalewise._checked import Told, checked
from scalewise.gaussian.spi import SCRAMBLES, SHAKES, with_shakes
from scalewise.networks import Network
from scalewise.networks.spi import Plain, course
from scalewise.observables import OBSERVABLES, of_letter
from scalewise.theory.flow._layer import SCRAMBLES as LAYER_SCRAMBLES
from scalewise.theory.flow._layer import LayerExpectations
from scalewise.theory.order._tensors import ALIKE, Tensors, apart, tensors_along
from scalewise.theory.order._terms import wanted
from scalewise.theory.order._way import Make

_MEMORY = 12 * 2**30  # bytes


def check_memory(net: Network, samples: int, names: Sequence[str]) -> None:
    """Refuse tensors that do not fit the memory."""
    if not names or samples == 1:
        return
    needed = wanted(tuple(OBSERVABLES[name].letter for name in names))
    pairs, four = samples * (samples + 1) // 2, samples**4
    few = net.activation.is_smooth and samples <= 4
    work = 3 * pairs**2 * ((1 if few else SCRAMBLES) + SHAKES) if needed.covariances else 0
    if needed.has_tangents:
        at_once = 2 * (len(needed.covariances) + len(needed.shifts)) + 8
        work += four * at_once * ((1 if few else LAYER_SCRAMBLES) + SHAKES)
    result = 2 * net.depth * sum(samples ** OBSERVABLES[name].legs for name in names)
    if 8 * (work + result) > _MEMORY:
        one = len(names) == 1
        raise ValueError(
            f"{', '.join(map(repr, names))} of {samples} inputs through {net.depth} layers "
            f"{'takes' if one else 'take'} {8 * (work + result) / 2**30:.0f} GiB. Leave "
            f"{'it' if one else 'them'} out of `observables`, or predict for fewer inputs at a time: "
            "each entry depends on the inputs of its own indices only."
        )


@checked
def tensor_flow(
    net: Plain,
    K: Float[np.ndarray, "layer sample sample"],
    Theta: Float[np.ndarray, "layer sample sample"] | None,
    letters: Sequence[str],
    *,
    progress: Told = None,
) -> dict[str, tuple[np.ndarray, np.ndarray]]:
    r"""Every tensor asked for, at every layer.

    Args:
        net: The network.
        K: Its kernel.
        Theta: Its NTK; may be ``None`` if only $V$ and $G^{\{1\}}$ are asked for.
        letters: Which tensors, out of `scalewise.theory.order._jets.TENSORS`.
        progress: Called with (layers done, layers).

    Returns:
        By letter the tensor, with a layer axis and two or four sample axes in printed order, and its numerical
        error, from the estimates of the nodes. A tensor is the same, to the last bit, whatever else is asked for.
        Entries of one or two distinct inputs: rtol 1e-9. Three and four distinct: a product rule for up to four
        inputs of a smooth activation, else shared Sobol samples, with the error bar that either reports.

    Raises:
        ValueError: If an expectation does not exist or does not converge.
    """
    values, errors = (
        {x: np.zeros((net.depth, *(K.shape[1],) * of_letter(x).legs)) for x in letters}
        for _ in range(2)
    )
    every = range(1, net.depth + 1)
    for index, (_, runs) in enumerate(_along(net, K, Theta, letters, LayerExpectations, every), 1):
        for x in letters:
            values[x][index], errors[x][index] = with_shakes([run[x] for run in runs])
        if progress is not None:
            progress(index, net.depth - 1)
    return {x: (values[x], errors[x]) for x in letters}


def tensor_runs(
    net: Plain,
    K: Float[np.ndarray, "layer sample sample"],
    Theta: Float[np.ndarray, "layer sample sample"] | None,
    letters: Sequence[str],
    make: Make = ALIKE,
) -> list[list[Tensors]]:
    """Tensors of the last layer as a function of them needs them to have an error of its own.

    Runs are for `scalewise.gaussian.with_shakes`: in each the tensors of every estimate, by letter; first the
    estimates from the nodes, then one for each shake.

    Args:
        net: The network.
        K: Its kernel.
        Theta: Its NTK.
        letters: Which tensors, out of `scalewise.theory.order._jets.TENSORS`.
        make: The expectations of one layer. By nodes all entries are wrong alike, because such a function contracts
            them with inverse kernels.
    """
    ((_, runs),) = _along(net, K, Theta, letters, make, [net.depth])
    return apart(runs)


def _along(
    net: Network,
    K: np.ndarray,
    Theta: np.ndarray | None,
    letters: Sequence[str],
    make: Make,
    layers: Sequence[int],
) -> Iterator[tuple[int, list[Tensors]]]:
    """Some layers, by their nodes, with an axis of estimates: as they are, and with moved expectations."""
    program = net.program
    anything = np.zeros((K.shape[1], net.input_dim))
    ends = [program.layers[layer - 1] for layer in layers]
    kernels = {
        draw: (K[index], None if Theta is None else Theta[index])
        for index, draw in enumerate(program.draws)
    }
    yield from tensors_along(course(program, anything, ends), kernels, letters, make)
