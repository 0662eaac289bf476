r"""Order 1/n of a network with skip connections, as `predict` returns it.

The small parameter is the one of networks without, $\epsilon=\max_{a\le b}V_{(ab)(ab)}/nK_{aa}K_{bb}$. Its
vertex is that of a few inputs, chosen by their norms alone, so that it is the same whatever is asked for.
"""

from __future__ import annotations

from collections.abc import Collection

import numpy as np
from jaxtyping import Float

from scalewise.networks import Network
from scalewise.observables import of_letter
from scalewise.selection import MOST_PATHS, too_large
from scalewise.theory.flow._expansion import Expansion
from scalewise.theory.order._one_input import KNOWN_OF_ONE, one_input
from scalewise.theory.order._whole import whole_tensors

_WATCHED = 24  # layers times inputs: a vertex of them takes a second
Samples = Float[np.ndarray, "..."]
Tensors = dict[str, tuple[Float[np.ndarray, "layer ..."], Float[np.ndarray, "layer ..."]]]


def residual_tensors(
    net: Network, x: Samples, K: Samples, letters: Collection[str]
) -> tuple[Tensors, Expansion]:
    """Tensors at every layer with their errors, by letter, and the small parameter."""
    few = _watched(net, K[0])
    some = K[:, few][:, :, few]
    if len(few) == K.shape[1]:  # one vertex for both
        near = found = _tensors(net, x, K, {"V", *letters})
    else:
        found, near = _tensors(net, x, K, letters), _tensors(net, x[few], some, {"V"})
    return {letter: found[letter] for letter in letters}, _expansion(net, some, near["V"][0])


def _tensors(net: Network, x: Samples, K: Samples, letters: Collection[str]) -> Tensors:
    if not letters:
        return {}
    known: Tensors = {}
    if len(x) == 1:
        # Tables of tangents are made of derivatives that have limits.
        some = {"V", "G1"} if net.activation.unbounded else KNOWN_OF_ONE
        known = one_input(net, K, [letter for letter in letters if letter in some])
    rest = [letter for letter in letters if letter not in known]
    if rest:
        _check_size(net, len(x), rest)
        known |= whole_tensors(net, x, rest, range(1, net.depth + 1))
    return known


def _check_size(net: Network, count: int, letters: Collection[str]) -> None:
    """Refuse tensors that do not fit into the memory."""
    hidden = net.depth - 1
    if count * hidden > MOST_PATHS:
        raise ValueError(
            f"The vertex of a residual network correlates every layer with every other; {hidden} "
            f"hidden layers of {count} inputs are more than {MOST_PATHS} variables. Use fewer inputs."
        )
    for letter in letters:
        row = of_letter(letter)
        if why := too_large(net, count, row):
            raise ValueError(
                f"{row.name!r} of this network does not fit into the memory: {why}. Give fewer inputs, or leave "
                f"{row.name!r} out of `observables`."
            )


def _watched(net: Network, first: Float[np.ndarray, "sample sample"]) -> np.ndarray:
    """Numbers of the inputs whose vertex is looked at: evenly over the norms, in an order of their own."""
    K, rows = np.diagonal(first), first.sum(axis=1)
    order = np.lexsort((rows, K))
    room = max(1, _WATCHED // max(1, net.depth - 1))
    if room == 1:
        return order[len(order) // 2 :][:1]
    place = np.linspace(0, len(order) - 1, min(room, len(order))).round().astype(int)
    return np.sort(order[place])


def _expansion(
    net: Network, K: Samples, V: Float[np.ndarray, "layer sample sample sample sample"]
) -> Expansion:
    below = np.array(net.widths[:-1], dtype=np.float64)
    own = np.einsum("laa->la", K)
    relative = np.einsum("labab->lab", V) / (own[:, :, None] * own[:, None])
    count = K.shape[1]
    return Expansion(relative.max(axis=(1, 2)) / below, count * (count - 1) // 2)
