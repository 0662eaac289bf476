"""The theory's column: sizes, correlations and susceptibilities at the places of a model that was read."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from scalewise._readable import readable
from scalewise.networks import Network
from scalewise.networks.spi import Attend
from scalewise.signals._seen import Seen

_MOVED = 1e-2  # of the size of an input
_SAME = 3e-5  # between sizes of one array in two precisions
_SAMPLES = 2
_COST = 3e6  # pairs of positions over all layers; a second or two
_CERTAIN = 0.1  # of a difference, the error that it may have


@dataclass(frozen=True)
@readable
class Foreseen:
    r"""What the theory says of a place, at infinite width.

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
    """What is known of each row, and why not more.

    Args:
        net: The model as a network.
        values: Of its nodes what they hold with the weights of the model, by which rows are recognised.
        x: The inputs, as the network takes them.
        rows: The rows.
    """
    nothing: list[Foreseen | None] = [None] * len(rows)
    program = net.program
    sites = [math.prod(program.positions[k]) for k in program.layers]
    few = x[:_SAMPLES]
    movable = few.dtype.kind == "f" and not any(
        "token" in str(getattr(n, "said", "")) for n in _readings(net)
    )
    inputs = _moved(few) if movable else few
    cost = sum((len(inputs) * s) ** 2 for s in sites) * (20 if _draws(net) else 1)
    if cost > _COST:
        return nothing, (
            f"The theory is left out: {max(sites)} positions in {net.depth} layers are too many pairs for a "
            "report. Give smaller inputs, or call `predict` on `scalewise.torch.network(...)`."
        )
    of = _matched(net, values, rows)
    out = list(nothing)
    kernels = {of[layer]: own for layer, own in _kernels(net, inputs, list(of)).items()}
    for row, own in kernels.items():
        told = own.told(len(few))
        before = _before(rows, row)
        if movable and before in kernels:
            parallel, perp = (own.grown(kernels[before], which, len(few)) for which in (0, 1))
            told = replace(told, chi_parallel=parallel, chi_perp=perp)
        out[row] = told
    note = "" if movable else "The susceptibilities are left out: tokens cannot be moved a little."
    return out, note


def _kernels(net: Network, inputs: np.ndarray, layers: list[int]) -> dict[int, _Kernel]:
    """Of layers, from 0, their kernels; those of the same positions in one call."""
    from scalewise.theory import predict  # who measures alone need not import it

    program, found = net.program, {}
    groups: dict[tuple[int, ...], list[int]] = {}
    for layer in layers:
        groups.setdefault(program.positions[program.layers[layer]], []).append(layer)
    for group in groups.values():
        own = predict(net, inputs, layers=[k + 1 for k in group], observables="kernel")
        error = own.kernel_error.values if "kernel_error" in own else None
        for i, layer in enumerate(group):
            found[layer] = _Kernel(
                _square(own.kernel.values[i]), None if error is None else _square(error[i])
            )
    return found


def _readings(net: Network) -> list[object]:
    return [getattr(n, "make", n) for n in net.program.nodes]


def _draws(net: Network) -> bool:
    return bool(net.program.estimated) or any(isinstance(n, Attend) for n in net.program.nodes)


def _moved(x: np.ndarray) -> np.ndarray:
    """The samples, the first of them made longer, and moved at a right angle."""
    first = x[:1]
    noise = np.random.default_rng(0).normal(size=first.shape)
    noise -= first * np.sum(noise * first) / max(float(np.sum(first * first)), 1e-300)
    noise *= float(np.sqrt(np.sum(first * first) / np.sum(noise * noise)))
    return np.concatenate([x, (1 + _MOVED) * first, first + _MOVED * noise])


def _square(own: np.ndarray) -> np.ndarray:
    """(sample, sample, position, position)."""
    n = own.shape[0]
    places = round(math.sqrt(own.size // (n * n)))
    return own.reshape(n, n, places, places)


def _matched(net: Network, values: Sequence[np.ndarray], rows: Sequence[Seen]) -> dict[int, int]:
    """Of layers, from 0, the rows that hold the same numbers."""
    program, found, taken = net.program, {}, set()
    for layer, node in enumerate(program.layers):
        size = float(np.sqrt(np.mean(np.square(values[node]))))
        place = program.modules[node] if program.modules else ""
        near = [
            k
            for k, row in enumerate(rows)
            if k not in taken and row.size > 0 and size > 0 and abs(math.log(row.size / size)) < _SAME
            and row.what != "attention" and place in (row.place, "")
        ]  # fmt: skip
        if near:
            found[layer] = near[0]
            taken.add(near[0])
    return found


def _before(rows: Sequence[Seen], row: int) -> int:
    """The row of which a row is the next; -1 if there is none."""
    own = rows[row]
    if own.joined is not None:
        return -1 if own.joined.before is None else own.joined.before
    if own.chain is None or own.chain[1] < 2:
        return -1
    start, count = own.chain
    same = [
        k for k in range(row) if rows[k].chain == (start, count - 1) and rows[k].drawn is not None
    ]
    return same[-1] if same else -1


@dataclass(frozen=True)
class _Kernel:
    K: np.ndarray
    error: np.ndarray | None

    def told(self, samples: int) -> Foreseen:
        """Size and correlations of the samples that were not moved."""
        K = self.K[:samples, :samples]
        places = K.shape[2]
        diagonal = np.einsum("iipp->ip", K)
        size = math.sqrt(max(float(diagonal.mean()), 0.0))
        between = within = None
        root = np.sqrt(np.maximum(diagonal, 1e-300))
        if diagonal.min() > 0:
            if samples > 1:
                alike = np.einsum("ijpp->ijp", K) / (root[:, None] * root[None])
                between = float(alike[~np.eye(samples, dtype=bool)].mean())
            if places > 1:
                alike = np.einsum("iipq->ipq", K) / (root[:, :, None] * root[:, None])
                within = float(alike[:, ~np.eye(places, dtype=bool)].mean())
        return Foreseen(size, between, within)

    def _difference(self, which: int, samples: int) -> float | None:
        k = samples + which
        own = np.einsum("ijpp->ij", self.K)
        found = own[k, k] - own[0, 0] if which == 0 else own[k, k] + own[0, 0] - 2 * own[0, k]
        if self.error is not None:
            errors = np.einsum("ijpp->ij", self.error)
            if errors[[k, 0, 0], [k, 0, k]].max() > _CERTAIN * abs(found):
                return None
        # A difference of what norms have made equal is rounding.
        return float(found) if abs(found) > 1e-9 * abs(own[0, 0]) else None

    def grown(self, before: _Kernel, which: int, samples: int) -> float | None:
        """A difference over that of the place before."""
        one, two = before._difference(which, samples), self._difference(which, samples)
        return None if one is None or two is None or not one else two / one
