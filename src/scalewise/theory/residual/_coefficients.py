r"""What `predict` says of a network with skip connections: each observable that has a recursion there.

The small parameter is the one of networks without, $\epsilon=\max_{a\le b}V_{(ab)(ab)}/nK_{aa}K_{bb}$. Its
vertex is that of a few inputs, chosen by their norms alone, so that it is the same whatever is asked for.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import dataclass

import numpy as np
from jaxtyping import Float

from scalewise.networks import Network
from scalewise.theory.flow._expansion import Expansion
from scalewise.theory.flow._pairs import Pairs
from scalewise.theory.residual._residual import residual_fluctuations, residual_kernels, vertices
from scalewise.theory.residual._residual_metric import drift
from scalewise.theory.residual._residual_single_input import residual_single_input

__all__ = ["ResidualCoefficients", "residual_coefficients"]

_CORRECTIONS = ("V", "G1")
_WATCHED = 24  # layers times inputs: a vertex of them takes a second
_ALONE, _ALONE_AT_KINKS = 1e-8, 1e-5  # relative errors of `residual_single_input`
Layers = Float[np.ndarray, "layer ..."]
Report = Callable[[str, int, int], None]


@dataclass(frozen=True)
class ResidualCoefficients:
    r"""Coefficients at every layer, in the letters of the source.

    Args:
        K: Kernel, preactivation².
        Theta: NTK; ``None`` if it was not asked for.
        corrections: $V$ and $G^{\{1\}}$ with their errors, by letter, as far as asked for.
        epsilon: The small parameter.
    """

    K: Layers
    Theta: Layers | None
    corrections: dict[str, tuple[Layers, Layers]]
    epsilon: Expansion


def residual_coefficients(
    net: Network,
    x: Float[np.ndarray, "sample feature"],
    letters: Collection[str],
    *,
    report: Report | None = None,
) -> ResidualCoefficients:
    """The observables asked for, on inputs that were checked.

    Args:
        net: The network.
        x: Checked inputs.
        letters: Of observables that are known with skip connections.
        report: Called with (what, steps done, steps in all).

    Raises:
        ValueError: If the kernel explodes or vanishes, an expectation does not converge, or there are too
            many inputs and layers for a vertex.
    """
    tell = report or (lambda what, done, total: None)
    K, Theta = residual_kernels(net, x, ntk="Theta" in letters)
    tell("kernel and NTK", 1, 1)
    few = _watched(net, K[0])
    some = K[:, few][:, :, few]
    wanted = {letter for letter in _CORRECTIONS if letter in letters}
    if len(few) == len(x):  # one vertex for both
        near = found = _corrections(net, K, {"V", *wanted})
    else:
        near, found = _corrections(net, some, {"V"}), _corrections(net, K, wanted)
    tell("four-point vertex", 1, 1)
    epsilon = _epsilon(net, some, near["V"][0])
    return ResidualCoefficients(K, Theta, {letter: found[letter] for letter in wanted}, epsilon)


def _corrections(
    net: Network, K: Float[np.ndarray, "layer sample sample"], letters: Collection[str]
) -> dict[str, tuple[Layers, Layers]]:
    if not letters:
        return {}
    count = K.shape[1]
    if count == 1 and net.activation.is_continuous:
        _, V, G1 = residual_single_input(net, float(K[0, 0, 0]))
        off = any(kink.location for kink in net.activation.kinks)
        alone = {
            "V": (V.reshape(-1, 1, 1, 1, 1), _ALONE),
            "G1": (G1.reshape(-1, 1, 1), _ALONE_AT_KINKS if off else _ALONE),
        }
        return {
            letter: (value, relative * np.abs(value))
            for letter, (value, relative) in alone.items()
            if letter in letters
        }
    pairs = Pairs.of(count)
    runs = residual_fluctuations(net, K, pairs)
    steps = {
        "V": lambda: vertices(runs, K, pairs),
        "G1": lambda: drift(net, K, pairs, runs),
    }
    return {letter: steps[letter]() for letter in _CORRECTIONS if letter in letters}


def _watched(net: Network, first: Float[np.ndarray, "sample sample"]) -> np.ndarray:
    """Numbers of the inputs whose vertex is looked at: evenly over the norms, in an order of their own."""
    K, rows = np.diagonal(first), first.sum(axis=1)
    order = np.lexsort((rows, K))
    room = max(1, _WATCHED // max(1, net.depth - 1))
    if room == 1:
        return order[len(order) // 2 :][:1]
    place = np.linspace(0, len(order) - 1, min(room, len(order))).round().astype(int)
    return np.sort(order[place])


def _epsilon(net: Network, K: Float[np.ndarray, "layer few few"], V: Layers) -> Expansion:
    below = np.array(net.widths[:-1], dtype=np.float64)
    own = np.einsum("laa->la", K)
    relative = np.einsum("labab->lab", V) / (own[:, :, None] * own[:, None])
    count = K.shape[1]
    return Expansion(relative.max(axis=(1, 2)) / below, count * (count - 1) // 2)
