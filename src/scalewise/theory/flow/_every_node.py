r"""Covariances of all fields of a network on a few inputs: of random layers, and of what stands between them."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from jaxtyping import Float

from scalewise.networks.spi import Attend, Program, forward
from scalewise.theory.flow._fields import Fields
from scalewise.theory.flow._positions import crossings

_HEADS = 1 << 9  # as many as a report needs


@dataclass(frozen=True)
class NodeKernels:
    r"""Covariances $\langle x_a(s)x_b(t)\rangle$ of one field over channels at infinite width.

    Args:
        between: Of two inputs at the same position, (input, input, position), preactivation².
        within: Of two positions of an input, (input, position, position), preactivation²; ``None`` where the
            network does not need them and they are not wanted.
    """

    between: Float[np.ndarray, "input input position"]
    within: Float[np.ndarray, "input position position"] | None


def every_node(
    program: Program,
    x: np.ndarray,
    *,
    positions: bool = True,
    scramble: int = 0,
    given: Mapping[int, np.ndarray] | None = None,
) -> dict[int, NodeKernels]:
    """Kernels of every field that has weights, by node.

    Args:
        program: The network's.
        x: Inputs as the network takes them, a few.
        positions: Whether pairs of different positions are wanted.
        scramble: Which draws, where averages are estimated.
        given: Fields without weights, by node, in place of what the program makes of the inputs.

    Returns:
        Kernels as accurate as those of `kernel_flow`; where `is_drawn`, of one set of draws: sizes
        to half a percent, covariances of positions to two.

    Source: PDLT (4.118), and as in `scalewise.theory.flow._rules`.
    """
    crossed = _crossed(program, positions)
    fields, every = (
        Fields(program, x, False, crossed, scramble=scramble, heads=_HEADS),
        slice(0, len(x)),
    )
    fields.fixed = _fixed(program, x, given or {})
    found = {}
    for here, pair in fields.along(every, every, len(program.nodes) - 1):
        if here not in program.fixed:
            sizes, sites = program.positions[here], math.prod(program.positions[here])
            axes = list(range(2, 2 + len(sizes)))
            beyond = [axis for axis, each in zip(axes, crossed[here], strict=True) if each]
            same = np.einsum(pair.C, [0, 1, *axes, *beyond], [0, 1, *axes])
            within = None
            if all(crossed[here]):
                whole = pair.C.reshape(len(x), len(x), sites, sites)
                within = np.einsum("aapq->apq", whole).copy()
            # Copies, for the arrays of a walk are used again.
            found[here] = NodeKernels(same.reshape(len(x), len(x), sites).copy(), within)
    return found


def pairs_of(program: Program, inputs: int, *, positions: bool = True) -> int:
    """The number of pairs of labels that `every_node` computes with, over all fields."""
    crossed = _crossed(program, positions)
    return inputs**2 * sum(
        math.prod(sizes) * math.prod(s for s, each in zip(sizes, own, strict=True) if each)
        for sizes, own in zip(program.positions, crossed, strict=True)
    )


def is_drawn(program: Program) -> bool:
    """True if averages are estimated by draws: of units, or of heads that do not grow."""
    heads = any(isinstance(node, Attend) and not node.grows for node in program.nodes)
    return heads or bool(program.estimated)


def _crossed(program: Program, positions: bool) -> list[tuple[bool, ...]]:
    wanted = range(len(program.nodes)) if positions else ()
    return crossings(program, [k for k in wanted if k not in program.fixed])


def _fixed(
    program: Program, x: np.ndarray, given: Mapping[int, np.ndarray]
) -> dict[int, np.ndarray]:
    found: dict[int, np.ndarray] = {}
    for here in sorted(program.fixed):
        node = program.nodes[here]
        if here in given:
            found[here] = given[here]
        elif node.of:
            below = [found[k] for k in node.of]
            found[here] = forward(node, below, program.positions[node.of[0]])
        else:
            found[here] = x
    return found
