r"""A network with weights: parameters layer by layer, and the fields computed with them, as arrays of any library.

$$z(p)=b+\sum_\tau W^\tau(B_\tau x)(p).$$
Random layers stand in the order in which the program computes them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np

from scalewise._readable import readable
from scalewise.activations import Activation
from scalewise.networks._forward import entering, forward
from scalewise.networks._nodes import (
    Attend,
    Draw,
    Drop,
    Hyperparameters,
    InputNode,
    Node,
    Pointwise,
)
from scalewise.networks._program import Program

ArrayShape = tuple[int, ...]
Weights = dict[
    int, tuple[Any, Any]
]  # by node, as `fields` takes them: (what enters, channel), and biases


@readable
class Parameters(NamedTuple):
    r"""`weights` and `biases` of random layers that have their own; of dense ones (n_l, n_{l-1}) and (n_l,).

    A convolution has weights (channel, \*taps, channel below): those of one group are below where there are groups.
    Where each place has its own weights, the places stand in front, of biases too.
    """

    weights: tuple[Any, ...]
    biases: tuple[Any, ...]


def shapes_of(program: Program) -> dict[int, tuple[ArrayShape, ArrayShape]]:
    """Shapes of the weights and biases of every random layer that has its own, by its node."""
    found: dict[int, tuple[ArrayShape, ArrayShape]] = {}
    for here, node in enumerate(program.nodes):
        if isinstance(node, Draw) and node.again is None:
            lead = () if node.shared else program.positions[here]
            taps = tuple(own.taps for own in node.windows) if node.taps > 1 else ()
            n, below = program.channels[here], program.channels[node.of[0]] // node.groups
            found[here] = (*lead, n, *taps, below), (*lead, n)
    return found


def check_shapes(program: Program, given: Any, called: str) -> None:
    """Refuse parameters of another network.

    Args:
        program: Of the network.
        given: Arrays, as `Parameters` has them.
        called: What the message calls them.
    """
    shapes = shapes_of(program)
    counts = len(given.weights), len(given.biases)
    if counts != (len(shapes), len(shapes)):
        raise ValueError(
            f"{called} must be those of the network's {len(shapes)} random layers; got weights of {counts[0]} and "
            f"biases of {counts[1]}."
        )
    pairs = zip(shapes.items(), given.weights, given.biases, strict=True)
    for layer, ((node, wanted), W, b) in enumerate(pairs, 1):
        got = np.shape(W), np.shape(b)
        if got != wanted:
            raise ValueError(
                f"{called} do not fit random layer {layer}, node [{node}] of the network: its weights have shape "
                f"{wanted[0]} and its biases {wanted[1]}; got {got[0]} and {got[1]}."
            )


def refuse_masks(program: Program) -> None:
    """Refuse a network that is not a function of its parameters alone."""
    if any(isinstance(node, Drop) for node in program.nodes):
        raise ValueError(
            "`net` has Dropout, whose masks are drawn anew at every step of a training, which is then random by "
            "itself. Leave it out."
        )


def by_node(program: Program, parameters: Parameters, xp: Any = np) -> Weights:
    """Parameters as `fields` takes them."""
    found: Weights = {}
    pairs = zip(shapes_of(program), parameters.weights, parameters.biases, strict=True)
    for node, W, b in pairs:
        n, places = program.channels[node], program.places(node)
        lead = (places,) if places > 1 else ()
        found[node] = xp.swapaxes(W.reshape(*lead, n, -1), -1, -2), b.reshape(*lead, n)
    return found


@lru_cache(maxsize=64)
def bare(program: Program) -> Program:
    """The program without hyperparameters and names, so that networks that differ in these alone are one."""
    return replace(program, nodes=tuple(map(_bare, program.nodes)))


def _bare(node: Node) -> Node:
    if isinstance(node, Draw):
        return replace(node, own=Hyperparameters(1.0, 1.0, 1.0, 1.0))
    if isinstance(node, Pointwise | Attend) and node.sigma is not None:
        return replace(node, sigma=replace(node.sigma, name="any"))
    return node


def rates_of(program: Program) -> dict[int, tuple[float, float]]:
    r"""$\lambda_b$, and $\lambda_W$ over the fan-in, of every random layer."""
    return {
        here: (node.own.lambda_b, node.own.lambda_W / program.fan_in(here))
        for here, node in enumerate(program.nodes)
        if isinstance(node, Draw) and node.again is None
    }


def fields(
    program: Program,
    weights: Weights,
    x: Any,
    *,
    last: int | None = None,
    nudges: Mapping[int, Any] | None = None,
    steps: Callable[[int, Any], Any] | None = None,
    xp: Any = np,
    function: Callable[[Activation], Callable[[Any], Any]] = lambda sigma: sigma,
) -> tuple[list[Any], dict[int, Any]]:
    """Every field (sample, *positions, channels) that the weights allow, and what enters the weights.

    Args:
        program: The nodes.
        weights: Of random layers by node; of Dropout its mask and nothing.
        x: Inputs.
        last: The node to end with; the outputs for ``None``.
        nudges: Added to the outputs of random layers: to differentiate by them.
        steps: From a random layer and what enters its weights to what a change of these adds to its outputs.
        xp: NumPy or JAX's.
        function: From an activation to a function of such arrays.
    """
    found: list[Any] = []
    seen: dict[int, Any] = {}
    nodes = program.nodes if last is None else program.nodes[: last + 1]
    for here, node in enumerate(nodes):
        below = [found[k] for k in node.of]
        lacking = isinstance(node, Draw | Drop) and program.weights_of(here) not in weights
        if any(b is None for b in below) or lacking:
            found.append(None)
        elif isinstance(node, InputNode):
            found.append(x)
        elif isinstance(node, Draw):
            W, b = weights[program.weights_of(here)]
            seen[here] = entering(below[0], node.windows, program.positions[node.of[0]], xp)
            z = (times(seen[here], W, node, xp) + b).reshape(*seen[here].shape[:-1], -1)
            z = z + steps(here, seen[here]) if steps else z
            found.append(z + nudges[here] if nudges and here in nudges else z)
        elif isinstance(node, Drop):
            found.append(weights[here][0] * below[0])
        else:
            found.append(forward(node, below, program.positions[node.of[0]], xp, function))
    return found, seen


def last_entering(program: Program, found: list[Any], node: int, xp: Any = np) -> Any:
    """Numbers that enter the weights of a random layer: (sample, numbers)."""
    made = program.nodes[node]
    assert isinstance(made, Draw)
    seen = entering(found[made.of[0]], made.windows, program.positions[made.of[0]], xp)
    return seen.reshape(len(seen), -1)


def in_groups(u: Any, node: Draw, xp: Any) -> Any:
    """Numbers that enter a random layer, group by group: (sample, site, group, number)."""
    apart = u.reshape(len(u), -1, node.taps, node.groups, u.shape[-1] // node.taps // node.groups)
    return xp.moveaxis(apart, 3, 2).reshape(*apart.shape[:2], node.groups, -1)


def times(u: Any, W: Any, node: Draw, xp: Any) -> Any:
    """Product of what enters a random layer and its weights; (sample, site, channel) if there are several sets."""
    if W.ndim == 3:
        return xp.einsum("spm,pmn->spn", u.reshape(len(u), len(W), -1), W)
    if node.groups == 1:
        return u @ W
    W = W.reshape(len(W), node.groups, -1)
    apart = xp.einsum("spgm,mgn->spgn", in_groups(u, node, xp), W)
    return apart.reshape(*apart.shape[:2], -1)
