"""Why an observable does not exist for an activation, or is not known of a network: clauses, empty where it is.

An observable of order 1/n takes derivatives: of activations in expectations, or in each of single units.
"""

from __future__ import annotations

import math
from collections.abc import Callable

from scalewise.activations import Activation
from scalewise.networks import Network, _nodes

Obstacle = Callable[[Activation], str]


def none(sigma: Activation) -> str:
    """For an observable that exists for every activation."""
    return ""


def jump(sigma: Activation) -> str:
    """For an observable that takes a first derivative."""
    if sigma.is_continuous:
        return ""
    places = ", ".join(f"{kink.location:g}" for kink in sigma.kinks if kink.jump)
    return f"the activation jumps at z = {places}, and its derivative is a delta function there"


def third(sigma: Activation) -> str:
    """For one that takes a third derivative, as that of a product of two."""
    places = ", ".join(f"{z:g}" for z in sigma.unbounded)
    return (
        f"it takes a third derivative, which grows without bound at the kink z = {places}"
        if places
        else ""
    )


def third_or_jump(sigma: Activation) -> str:
    """For one that takes a first and a third derivative."""
    return jump(sigma) or third(sigma)


def kink(sigma: Activation) -> str:
    """For one that takes all three derivatives."""
    places = ", ".join(f"{z:g}" for z in sigma.split_points)
    return jump(sigma) or (
        ""
        if sigma.is_smooth
        else f"it takes three derivatives, and the activation has a kink at z = {places}"
    )


def kink_of_a_curve(sigma: Activation) -> str:
    """For one that multiplies the second derivative by others."""
    bent = any(kink.slope_jump for kink in sigma.kinks) and not sigma.is_piecewise_linear
    return third_or_jump(sigma) or (
        "the second derivative is a delta function beside a curved part" if bent else ""
    )


def third_of_streams(sigma: Activation) -> str:
    """For one that takes third derivatives in channels that remember what they were."""
    places = ", ".join(f"{z:g}" for z in sigma.split_points)
    if sigma.is_smooth:
        return ""
    return (
        "along skip connections it takes third derivatives in each channel, and there is a kink at "
        f"z = {places}"
    )


def of_units(net: Network) -> str:
    """For one that takes a slope in each unit, whose random numbers are all normal."""
    if any(isinstance(node, _nodes.Drop) for node in net.program.nodes):
        return "masks of Dropout are not among the random numbers whose influence is followed"
    return few_normed(net) or next(filter(None, map(jump, all_activations(net))), "")


def few_normed(net: Network) -> str:
    """For one that expands the inverse of a variance over channels, which has a mean if these are enough."""
    program = net.program
    for node in program.nodes:
        if isinstance(node, _nodes.Normalise):
            least = 4 if node.centred else 3
            count = program.channels[node.of[0]] // node.groups
            count *= math.prod(program.positions[node.of[0]]) if node.joint else 1
            if count < least:
                return (
                    f"a norm over {count} channels divides by a variance whose inverse has no mean, so that there "
                    f"is no expansion in 1/n; it takes {least} channels at least"
                )
    return ""


def of_bent_units(net: Network) -> str:
    """Reason why an observable of second derivatives in each unit is unknown, a clause; empty if it is known."""
    if any(isinstance(node, _nodes.Max) for node in net.program.nodes):
        return "it takes second derivatives in each channel, and a maximum has kinks"
    for sigma in all_activations(net):
        if not sigma.is_smooth:
            places = ", ".join(f"{z:g}" for z in sigma.split_points)
            return (
                f"it takes second derivatives in each channel, and there is a kink at z = {places}"
            )
    return of_units(net)


def of_curved_units(net: Network) -> str:
    """For one that takes two slopes in each unit, and has one set of units for a layer."""
    for node in net.program.nodes:
        several = isinstance(node, _nodes.Draw | _nodes.Normalise) and node.groups > 1
        if isinstance(node, _nodes.Attend) and node.grows:
            several = net.program.channels[node.of[0]] > node.size
        if several:
            return "channels that fall into groups or heads are so many smaller sets of units"
    return _alike_means(net) or of_bent_units(net)


def of_jets_of_units(net: Network) -> str:
    """For one that takes derivatives along several letters in each unit."""
    return _alike_means(net) or of_bent_units(net)


def _alike_means(net: Network) -> str:
    """For one that expands the root of a covariance to second order, which must not grow out of a singular one."""
    for node in net.program.nodes:
        free = isinstance(node, _nodes.Attend) and node.grows and not (node.tied or node.causal)
        if free and math.prod(net.program.positions[node.of[0]]) > 1:
            return (
                "with free keys, heads that grow let all positions see the same mean at infinite width, and not in "
                "a network: second derivatives of a covariance that is singular there have no finite noise"
            )
    return ""


def of_tangents_of_units(net: Network) -> str:
    """For one that takes products of tangents of one unit, too."""
    odd = next((law.name for law in net.program.laws[:-1] if not law.is_normal), "")
    if odd:
        return (
            f"weights that are {odd} leave a fourth cumulant of neurons and tangents together, which is not "
            "among what is followed in each channel"
        )
    return of_curved_units(net)


def all_activations(net: Network) -> list[Activation]:
    """Activations of layers and of heads."""
    heads = [node.sigma for node in net.program.nodes if isinstance(node, _nodes.Attend)]
    return [*net.activations, *(sigma for sigma in heads if sigma is not None)]
