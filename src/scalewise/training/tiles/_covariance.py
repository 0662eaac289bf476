r"""The covariance of trained outputs at order 1/n, between samples and between outputs.

$z(T)_\delta=\zeta_\delta+F_\delta$, and $F$ is a polynomial of the initial outputs through $e=z-y$. What of $F$
contracts with $\zeta_{j\delta'}$ through $z$ alone is $-C_{\delta'\tilde\alpha}$ times the derivative of the mean
by $y_{j\tilde\alpha}$. Left are the covariance of $\zeta$ itself, that of $\widehat{\Delta H}$ with itself, and
what of $\zeta\zeta\widehat{\Delta H}$ and $\zeta\widehat{dH}$ is not a product.

Source: PDLT (∞.166), (∞.167), of which the text has one term, derived.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

import numpy as np
from jaxtyping import Float

from scalewise.training.tiles._contractions import Share
from scalewise.training.tiles._mean import Sources, blocks, slope_of
from scalewise.training.tiles._recursions import Tensors
from scalewise.training.tiles._setting import Setting
from scalewise.training.tiles._sites import Site
from scalewise.training.tiles._tiles import Key, Labels, Tile, Value

__all__ = [
    "contracted",
    "crossed",
    "ntk_term",
    "own",
    "same_for_all",
    "spread",
    "tiles_of_pairs",
    "turned",
]

Matrix = Float[np.ndarray, "sample sample_1"]
ByOutputs = dict[tuple[int, int], np.ndarray]
Full = Float[np.ndarray, "output output_1 sample sample_1"]


def spread(
    setting: Setting,
    stack: Sequence[Site],
    found: tuple[Mapping[str, Share], Matrix],
    sources: Sources = None,
) -> tuple[Full, Full]:
    r"""The coefficient of the covariance, and of it what `ntk_term` gives.

    Args:
        setting: What is trained.
        stack: Its hidden layers.
        found: Parts of the mean, and $G^{\{1\}}$, from `shares`.
        sources: The layers whose width is finite; all if ``None``.
    """
    parts, G1 = found
    slope = np.sum([slope_of(setting, share) for share in parts.values()], axis=0)
    # Of output i and sample d with ζ of output j and sample e; the other order is added in the end.
    half = -np.einsum("ijda,ea->ijde", slope, setting.C)
    first, second = [], []
    for tensors in tiles_of_pairs(setting, stack, sources):
        first.append(_moved(setting, tensors))
        second.append(_mixed(setting, tensors))
    moved = _left_twice(setting, np.concatenate(first, axis=2))
    half += _left_twice(setting, np.concatenate(second, axis=2))
    both = half + half.transpose(1, 0, 3, 2)
    initial = same_for_all(setting.outputs, _left_twice(setting, G1[None, None]))
    return both + moved + initial, moved


def ntk_term(setting: Setting, stack: Sequence[Site], sources: Sources = None) -> Full:
    r"""What $\widehat{\Delta H}$ adds with itself, by which training itself is random.

    Args:
        setting: What is trained.
        stack: Its hidden layers.
        sources: The layers whose width is finite; all if ``None``.
    """
    pieces = [_moved(setting, tensors) for tensors in tiles_of_pairs(setting, stack, sources)]
    return _left_twice(setting, np.concatenate(pieces, axis=2))


def tiles_of_pairs(setting: Setting, stack: Sequence[Site], sources: Sources) -> Iterator[Tensors]:
    """A few samples, all samples, and twice the training samples; one tile after the other."""
    every, train = np.arange(len(setting.K)), setting.train
    kept: dict[Key, Value | None] = {}
    for rows in blocks(stack, every.size, every.size, train.size):
        yield Tensors(stack, Tile((rows, every, train, train), kept), sources=sources)


def _moved(setting: Setting, tensors: Tensors) -> Full:
    r"""Through $A$ and $B$, the first sample in the tile."""
    n, g = setting.outputs, setting.gain
    twice = {key: g @ w @ g for key, w in setting.weighted().items()}
    inner = contracted(tensors, "B", (0, 1, 2, 3), own(twice))
    found = crossed(tensors, "A", (0, 2, 1, 3), twice) + crossed(tensors, "B", (0, 2, 3, 1), twice)
    return found + same_for_all(n, inner)


def _mixed(setting: Setting, tensors: Tensors) -> Full:
    r"""Through $D$, $F$, $P$, $Q$ the half with $\zeta$ behind, the first sample in the tile."""
    n, g = setting.outputs, setting.gain
    A, B = setting.weighted(setting.weights.A), setting.weighted(setting.weights.B)
    # Labels: 0 the leg of the output, 1 that of ζ, 2 and 3 what is trained on.
    same = -contracted(tensors, "D", (1, 2, 0, 3), g)
    same -= n * contracted(tensors, "F", (1, 0, 2, 3), g) + contracted(
        tensors, "F", (1, 2, 3, 0), g
    )
    same += contracted(tensors, "P", (0, 2, 3, 1), own(B))
    same += contracted(tensors, "Q", (2, 3, 0, 1), own(A))
    found = crossed(tensors, "Q", (0, 2, 3, 1), B) + crossed(tensors, "Q", (0, 3, 2, 1), turned(B))
    found += crossed(tensors, "Q", (2, 0, 3, 1), A) + crossed(tensors, "P", (2, 0, 3, 1), turned(A))
    return found + same_for_all(n, same)


def contracted(
    tensors: Tensors, letter: str, labels: Labels, w: Float[np.ndarray, "train train_1"]
) -> Float[np.ndarray, "test sample"]:
    """A tensor with its last two labels contracted with a matrix."""
    return np.einsum("abcd,cd->ab", tensors.last(letter, *labels), w)


def crossed(tensors: Tensors, letter: str, labels: Labels, w: ByOutputs) -> Full:
    """The same with a matrix for each pair of outputs."""
    size = 1 + max(i for i, _ in w)
    stacked = np.array([w[i, j] for i in range(size) for j in range(size)])
    found = np.einsum("abcd,kcd->kab", tensors.last(letter, *labels), stacked, optimize=True)
    return found.reshape(size, size, *found.shape[1:])


def own(w: ByOutputs) -> np.ndarray:
    """The sum over pairs of the same output."""
    return np.sum([matrix for (i, j), matrix in w.items() if i == j], axis=0)


def turned(w: ByOutputs) -> ByOutputs:
    """Outputs exchanged."""
    return {(i, j): w[j, i] for i, j in w}


def same_for_all(outputs: int, matrix: Float[np.ndarray, "*more sample sample_1"]) -> Full:
    """The same for all outputs, and none between them."""
    return np.eye(outputs)[:, :, None, None] * matrix


def _left_twice(setting: Setting, values: Full) -> Full:
    """Less what training corrects, on both samples."""
    once = np.moveaxis(setting.left(np.moveaxis(values, 2, 0)), 0, 2)
    return np.moveaxis(setting.left(np.moveaxis(once, 3, 0)), 0, 3)
