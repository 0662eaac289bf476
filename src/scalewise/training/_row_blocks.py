r"""The NTK of one model within a budget of memory: in blocks of tensors, samples and read-outs.

$$\widehat H_{rr';\alpha\alpha'}=\sum_p\lambda_p\sum_{\mu\in p}
  \frac{dz_{r;\alpha}}{d\theta_\mu}\frac{dz_{r';\alpha'}}{d\theta_\mu}$$

is a sum over tensors $p$. A group of tensors whose derivatives fit the budget for all samples takes one pass
through the model; a tensor that does not fit alone takes its rows, pairs of a sample and a read-out, block by
block, and each pair of blocks once.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np
from jaxtyping import Float

ROWS = (
    0.75  # of the budget, for derivatives: the model's own pass and sums in float64 take the rest
)
Ntk = Float[np.ndarray, "sample sample_1 read read_1"]


class Kept(NamedTuple):
    """Bytes that the derivatives by one tensor take.

    Args:
        sample: For each sample.
        row: For each sample and each read-out.
    """

    sample: int
    row: int

    def of(self, reads: int) -> int:
        """For a sample with so many read-outs."""
        return self.sample + reads * self.row


class RowBlock(NamedTuple):
    """Some rows.

    Args:
        samples: Which.
        reads: Which read-outs of each.
    """

    samples: slice
    reads: slice


# Tensors whose derivatives are in memory together, and blocks of rows: one for several tensors, unless read-outs
# are averaged.
Group = tuple[tuple[int, ...], tuple[RowBlock, ...]]


def groups(
    kept: Sequence[Kept], samples: int, reads: int, *, memory: int, mean: bool
) -> list[Group]:
    """Groups of rows that are in memory together, in turn.

    Args:
        kept: Of every tensor.
        samples: How many.
        reads: How many read-outs.
        memory: Budget in bytes; a block of one row is the least, whatever it takes.
        mean: Whether read-outs are averaged, and so never meet each other.
    """
    room = int(ROWS * memory)
    at_once = reads
    if mean:
        left = room // samples - sum(each.sample for each in kept)
        at_once = min(reads, max(1, left // max(1, sum(each.row for each in kept))))
    found: list[Group] = []
    open_, size = [], 0
    whole = tuple(_blocks(samples, samples, reads, at_once))
    for number, each in enumerate(kept):
        need = samples * each.of(at_once)
        if need > room:
            found.append(((number,), _cut(each, samples, reads, room // 2, mean)))
            continue
        if size + need > room:
            found.append((tuple(open_), whole))
            open_, size = [], 0
        open_.append(number)
        size += need
    return [*found, (tuple(open_), whole)] if open_ else found


def _cut(each: Kept, samples: int, reads: int, room: int, mean: bool) -> tuple[RowBlock, ...]:
    """The rows of one tensor, two blocks of which are in memory together."""
    at_once = 1 if mean else min(reads, max(1, (room - each.sample) // max(1, each.row)))
    return tuple(_blocks(samples, max(1, room // each.of(at_once)), reads, at_once))


def _blocks(samples: int, several: int, reads: int, at_once: int) -> Iterator[RowBlock]:
    for j in range(0, reads, at_once):
        for i in range(0, samples, several):
            yield RowBlock(slice(i, min(i + several, samples)), slice(j, min(j + at_once, reads)))


def ntk_by_blocks(
    plan: Sequence[Group],
    rows: Callable[[RowBlock, tuple[int, ...]], Any],
    products: Callable[[Any, Any], Ntk],
    shape: tuple[int, int],
    *,
    mean: bool,
) -> Ntk:
    """The sum over groups, and over pairs of their blocks.

    Args:
        plan: The groups.
        rows: Derivatives of a block by some tensors.
        products: The contribution of these tensors to the NTK of two blocks, (samples, samples, reads, reads); with
            `mean` summed over equal read-outs, (samples, samples, 1, 1).
        shape: Samples and read-outs.
        mean: Whether the NTK is averaged over read-outs.
    """
    samples, reads = shape
    H = np.zeros((samples, samples, *((1, 1) if mean else (reads, reads))))
    for tensors, blocks in plan:
        for place, one in enumerate(blocks):
            own = rows(one, tensors)
            for other in blocks[place:]:
                if mean and one.reads != other.reads:
                    continue
                part = products(own, own if other is one else rows(other, tensors))
                at = (slice(None), slice(None)) if mean else (one.reads, other.reads)
                H[one.samples, other.samples, *at] += part
                if other is not one:
                    H[other.samples, one.samples, *at[::-1]] += part.transpose(1, 0, 3, 2)
            del own  # before those of the next block come
    return H / reads if mean else H


def check_room(samples: int, reads: int, memory: int) -> None:
    """Refuse an NTK that does not fit the budget itself."""
    need = 8 * (samples * reads) ** 2
    if need > memory:
        raise ValueError(
            f"`memory` is {memory / 2**30:.3g} GiB, and the NTK of {samples} samples and {reads} outputs takes "
            f"{need / 2**30:.3g} GiB. Raise `memory`, take fewer samples, or ask for the mean over outputs, "
            "`outputs='mean'`, or for some of them, `outputs=np.eye(outputs)[:10]`."
        )
