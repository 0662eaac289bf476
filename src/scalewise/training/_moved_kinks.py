r"""Kinks that training moves, and the power of the width that they bring.

Where the slope of an activation jumps, neurons near the jump at a training sample change sides while a network is
trained, and means over networks approach infinite width as $n^{-1/2}$: derived for one hidden layer in `kinks`,
and measured for two (ReLU at widths 32 to 512: powers 1/2, 1, 3/2 fit, without 1/2 none do). Where hidden layers
do not learn, or networks are given their posterior, no neuron moves for that reason and the first power is 1.
"""

from __future__ import annotations

from scalewise.networks import Network, _nodes
from scalewise.training._algorithm import Algorithm

HALF = 0.5


def places(net: Network) -> tuple[float, ...]:
    """Where slopes of activations jump, in units of the preactivation."""
    found = {k.location for sigma in net.activations for k in sigma.kinks if k.slope_jump or k.jump}
    return tuple(sorted(found))


def moved(net: Network, algorithm: Algorithm) -> bool:
    """True if training moves neurons over kinks: then expansions are in powers of $n^{-1/2}$.

    Args:
        net: The network; a maximum over positions has kinks, too.
        algorithm: How it is trained.
    """
    if not algorithm.trains_hidden or not _learns_below(net):
        return False
    return bool(places(net)) or any(isinstance(node, _nodes.Max) for node in net.program.nodes)


def in_words(net: Network) -> str:
    """Where the kinks are, to be put behind 'kinks'."""
    found = places(net)
    return f"at z = {', '.join(f'{z:g}' for z in found)}" if found else "of maxima"


def _learns_below(net: Network) -> bool:
    """True if parameters below the last layer learn."""
    if not net.is_perceptron:
        return True
    own = [net.own(layer) for layer in range(1, net.depth)]
    return any(layer.lambda_b or layer.lambda_W for layer in own)
