"""The theory's column: sizes, correlations and susceptibilities at the places of a model that was read."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from scalewise._readable import readable
from scalewise.networks import Network
from scalewise.networks.spi import Draw, Read
from scalewise.reading.spi import tokens
from scalewise.signals._seen import Seen
from scalewise.theory.spi import NodeKernels, every_node, is_drawn, pairs_of

_MOVED = 1e-2  # of the size of an input
_SAME = 3e-5  # between sizes of one array in two precisions
_SAMPLES = 2
_COST = 1e7  # pairs of labels over all fields; a second or two
_DRAWN = 4.0  # times as much where averages are estimated
_SCRAMBLES = 2  # sets of draws there
_CERTAIN = 0.1  # of a susceptibility, the error that it may have


@dataclass(frozen=True)
@readable
class Foreseen:
    r"""The theory of a place, at infinite width.

    Args:
        size: $\sqrt K$, averaged over samples and positions; preactivation, by quadrature or draws of the theory.
        samples: The correlation of two samples at the same position.
        positions: The same of two positions of a sample.
        chi_parallel: By what a small difference in size is multiplied since the place before.
        chi_perp: The same of a small difference between two inputs, squared.
    """

    size: float
    samples: float | None = None
    positions: float | None = None
    chi_parallel: float | None = None
    chi_perp: float | None = None


def foreseen(
    net: Network, values: Sequence[np.ndarray], x: np.ndarray, rows: Sequence[Seen]
) -> tuple[list[Foreseen | None], str]:
    """The theory of each row, and why not more is known.

    Args:
        net: The model as a network.
        values: Of its nodes what they hold with the weights of the model, by which rows are recognised.
        x: The inputs, as the network takes them.
        rows: The rows.
    """
    few, program = x[:_SAMPLES], net.program
    most = _COST / (_DRAWN if is_drawn(program) else 1.0)
    wanted = (pairs_of(program, len(few) + 2, positions=p) <= most for p in (True, False))
    positions = next((p for p, fits in zip((True, False), wanted, strict=True) if fits), None)
    if positions is None:
        sites = max(math.prod(program.positions[k]) for k in program.layers)
        return [None] * len(rows), (
            f"The theory is left out: {sites} positions in {net.depth} layers are too many pairs for a report. "
            "Give smaller inputs, or call `predict` on `scalewise.torch.network(...)`."
        )
    of = _matched(net, values, rows)
    draws = list(_kernels(net, few, positions=positions))
    kernels = {
        row: [_joined(own, nodes, program.channels) for own in draws] for row, nodes in of.items()
    }
    out: list[Foreseen | None] = [None] * len(rows)
    for row, own in kernels.items():
        before = kernels.get(_before(rows, row))
        chi = [None if before is None else _chi(before, own, len(few) + k) for k in (0, 1)]
        out[row] = _told(own, len(few), chi)
    return out, ""


def _kernels(net: Network, few: np.ndarray, *, positions: bool) -> Iterator[dict[int, NodeKernels]]:
    """Kernels of all fields for the samples, and for the first one made longer and moved; of each set of draws."""
    program = net.program
    words = {
        k: node
        for k, node in enumerate(program.nodes)
        if isinstance(node, Read) and node.make is tokens
    }
    moved = np.concatenate([few, few[:1], few[:1]])
    given = {}
    for (
        k,
        make,
    ) in words.items():  # a word is a direction of its own, and another one at a right angle to it
        given[k] = hot = make(moved, np)
        hot[-2] *= 1 + _MOVED
        hot[-1] += _MOVED * np.roll(hot[-1], 1, axis=-1)
    if not words:
        moved = _moved(few)
    for scramble in range(_SCRAMBLES if is_drawn(program) else 1):
        yield every_node(program, moved, positions=positions, scramble=scramble, given=given)


def _moved(x: np.ndarray) -> np.ndarray:
    """The samples, the first of them made longer, and moved at a right angle."""
    first = x[:1]
    noise = np.random.default_rng(0).normal(size=first.shape)
    noise -= first * np.sum(noise * first) / max(float(np.sum(first * first)), 1e-300)
    noise *= float(np.sqrt(np.sum(first * first) / np.sum(noise * noise)))
    return np.concatenate([x, (1 + _MOVED) * first, first + _MOVED * noise])


def _matched(
    net: Network, values: Sequence[np.ndarray], rows: Sequence[Seen]
) -> dict[int, tuple[int, ...]]:
    """The nodes that hold the numbers of each row: one, or what a module computes in one product."""
    program = net.program
    alone = [(k,) for k in range(len(program.nodes)) if k not in program.fixed]
    draws = [k for (k,) in alone if isinstance(program.nodes[k], Draw)]
    together: dict[tuple[object, ...], list[int]] = {}
    for k in draws if program.modules else ():
        key = program.modules[k], program.nodes[k].of, program.positions[k]
        together.setdefault(key, []).append(k)
        together.setdefault((program.modules[k], program.positions[k]), []).append(k)
    packed = [tuple(own) for own in together.values() if len(own) > 1]
    found: dict[int, tuple[int, ...]] = {}
    taken: set[int] = set()
    for nodes in (*alone, *packed):
        squares = sum(float(np.square(values[k]).sum()) for k in nodes)
        size = math.sqrt(squares / sum(values[k].size for k in nodes))
        place = program.modules[nodes[0]] if program.modules else ""
        near = [
            k
            for k, row in enumerate(rows)
            if k not in found
            and row.size > 0
            and size > 0
            and abs(math.log(row.size / size)) < _SAME
            and row.what != "attention"
            and place in (row.place, "")
        ]
        if near and not taken.intersection(nodes):
            found[near[0]] = nodes
            taken.update(nodes)
    return found


def _before(rows: Sequence[Seen], row: int) -> int:
    """The row of which a row is the next; -1 if there is none."""
    own = rows[row]
    if own.joined is not None:
        before = own.joined.entry if own.joined.before is None else own.joined.before
        return -1 if before is None else before
    if own.chain is None or own.chain[1] < 2:
        return -1
    start, count = own.chain
    same = [
        k for k in range(row) if rows[k].chain == (start, count - 1) and rows[k].drawn is not None
    ]
    return same[-1] if same else -1


def _joined(
    kernels: Mapping[int, NodeKernels], nodes: Sequence[int], channels: Sequence[int]
) -> NodeKernels:
    """The kernel of some fields whose channels stand beside each other."""
    whole = sum(channels[k] for k in nodes)
    own = [(channels[k] / whole, kernels[k]) for k in nodes]
    between = sum((share * k.between for share, k in own), start=np.zeros(()))
    known = [share * k.within for share, k in own if k.within is not None]
    within = sum(known, start=np.zeros(())) if len(known) == len(own) else None
    return NodeKernels(between, within)


def _told(draws: Sequence[NodeKernels], samples: int, chi: Sequence[float | None]) -> Foreseen:
    """Size and correlations of the samples that were not moved."""
    K = np.mean([own.between[:samples, :samples] for own in draws], axis=0)
    diagonal = np.einsum("iip->ip", K)
    size = math.sqrt(max(float(diagonal.mean()), 0.0))
    between = within = None
    if diagonal.min() > 0:
        root = np.sqrt(diagonal)
        if samples > 1:
            alike = K / (root[:, None] * root[None])
            between = float(alike[~np.eye(samples, dtype=bool)].mean())
        if K.shape[2] > 1 and all(own.within is not None for own in draws):
            own = np.mean([own.within[:samples] for own in draws if own.within is not None], axis=0)
            alike = own / (root[:, :, None] * root[:, None])
            within = float(alike[:, ~np.eye(K.shape[2], dtype=bool)].mean())
    return Foreseen(size, between, within, *chi)


def _chi(before: Sequence[NodeKernels], here: Sequence[NodeKernels], k: int) -> float | None:
    """By what a small difference is multiplied, if sets of draws agree on it."""
    found = []
    for one, two in zip(before, here, strict=True):
        first, second = (_difference(own.between.sum(axis=2), k) for own in (one, two))
        if not first or second is None:
            return None
        found.append(second / first)
    mean = sum(found) / len(found)
    return mean if max(found) - min(found) <= _CERTAIN * abs(mean) else None


def _difference(K: np.ndarray, k: int) -> float | None:
    """Between the first input and one that was made longer (the last but one), or moved (the last)."""
    longer = k == len(K) - 2
    found = K[k, k] - K[0, 0] if longer else K[k, k] + K[0, 0] - 2 * K[0, k]
    # A difference of what norms have made equal is rounding.
    return float(found) if abs(found) > 1e-9 * abs(K[0, 0]) else None
