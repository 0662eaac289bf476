r"""Every part of the mean of trained outputs at order 1/n, tile by tile of samples.

Source: PDLT (∞.160)-(∞.165) with three misprints put right.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
from jaxtyping import Float

from scalewise.training.tiles._contractions import TRAINED_PARTS, Share
from scalewise.training.tiles._recursions import Tensors
from scalewise.training.tiles._setting import Setting
from scalewise.training.tiles._sites import Site
from scalewise.training.tiles._tiles import Key, Tile, Value

__all__ = ["blocks", "mean_of", "shares", "slope_of"]

_TILE = 400_000  # numbers of an array over a tile
_GIVEN = 6_000_000  # numbers of an array of samples given two others
Sources = frozenset[int] | None


def shares(
    setting: Setting, stack: Sequence[Site], sources: Sources = None
) -> tuple[dict[str, Share], Float[np.ndarray, "sample sample"]]:
    r"""Parts of the mean by name, 0 on training samples, and $G^{\{1\}}$, which comes with them.

    Args:
        setting: What is trained.
        stack: Its hidden layers.
        sources: The layers whose width is finite; all if ``None``.
    """
    train, every = setting.train, np.arange(len(setting.K))
    pairs = Tensors(stack, Tile((every, every, train, train)), sources=sources)
    linear = {"ntk_nlo": pairs.last("H1", 0, 1)[:, train] @ setting.gain}
    tiled: dict[str, list[Share]] = {part: [] for part in TRAINED_PARTS}
    through = []
    kept: dict[Key, Value | None] = {}
    for rows in blocks(stack, len(setting.K), len(train), len(train)):
        tensors = Tensors(stack, Tile((rows, train, train, train), kept), sources=sources)
        through.append(_through(setting, tensors))
        for part, share in TRAINED_PARTS.items():
            tiled[part].append(share(setting, tensors))
    linear["ntk_fluctuation"] = -np.concatenate(through)
    found = {part: Share(setting.left(along)) for part, along in linear.items()}
    return found | {part: _joined(setting, pieces) for part, pieces in tiled.items()}, pairs.last(
        "G1", 0, 1
    )


def blocks(stack: Sequence[Site], count: int, second: int, train: int) -> Iterator[np.ndarray]:
    """Places 0 to `count`, a few at a time, so that a tile fits into memory.

    Args:
        stack: The hidden layers.
        count: Of all samples.
        second: Of the samples of the second label.
        train: Of those of the third and the fourth.
    """
    triples = second * train
    given = triples * max(site.given.rule.terms * site.given.rule.w.size for site in stack)
    step = max(1, min(_TILE // (triples * train), _GIVEN // given))
    for start in range(0, count, step):
        yield np.arange(start, min(start + step, count))


def mean_of(setting: Setting, share: Share) -> Float[np.ndarray, "output sample"]:
    """The part of the mean."""
    return setting.y @ share.along.T


def slope_of(setting: Setting, share: Share) -> Float[np.ndarray, "output output_1 sample train"]:
    """Its derivative by the targets, the output first."""
    out = np.zeros((setting.outputs, setting.outputs, *share.along.shape))
    for i in range(setting.outputs):
        out[i, i] = share.along
    return out if share.across is None else out + np.moveaxis(share.across, 0, 2)


def _through(setting: Setting, tensors: Tensors) -> Float[np.ndarray, "test train"]:
    r"""$\mathbb E[\widehat{\Delta H}_{\delta1}\,g\,\widehat{\Delta H}_{23}]\,g$."""
    A, B, g = tensors.last("A", 0, 1, 2, 3), tensors.last("B", 0, 1, 2, 3), setting.gain
    # A_(d 1 2 3), B_(d 2 1 3) and, summed over the neurons of the inner legs, B_(d 3 1 2).
    found = np.einsum("dabc,ab->dc", A, g) + np.einsum("dabc,ab->dc", B, g)
    return (found + setting.outputs * np.einsum("dcab,ab->dc", B, g)) @ g


def _joined(setting: Setting, pieces: Sequence[Share]) -> Share:
    along = setting.left(np.concatenate([piece.along for piece in pieces]))
    if pieces[0].across is None:
        return Share(along)
    return Share(
        along, setting.left(np.concatenate([p.across for p in pieces if p.across is not None]))
    )
