r"""The covariance of trained outputs at order 1/n, and the change of their NTK, between samples and outputs.

$z(T)_\delta=\zeta_\delta+F_\delta$, and $F$ is a polynomial of the initial outputs through $e=z-y$. What of $F$
contracts with $\zeta_{j\delta'}$ through $z$ alone is $-C_{\delta'\tilde\alpha}$ times the derivative of the mean
by $y_{j\tilde\alpha}$. Left are the covariance of $\zeta$ itself, that of $\widehat{\Delta H}$ with itself, and
what of $\zeta\zeta\widehat{\Delta H}$ and $\zeta\widehat{dH}$ is not a product.

Source: PDLT (∞.166), (∞.167), of which the text has one term, derived; (∞.117) at the end of training, averaged by
    Wick's theorem.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from jaxtyping import Float

from scalewise.training.tiles._mean import Share, slope_of
from scalewise.training.tiles._setting import Setting
from scalewise.training.tiles._sums import Sums
from scalewise.training.tiles._tiles import Labels

ByOutputs = dict[tuple[int, int], np.ndarray]
Full = Float[np.ndarray, "output output_1 sample sample_1"]


class AskedPairs:
    """Sums over two training samples, of two samples and two outputs, that are asked of the tensors.

    Args:
        setting: What is trained.
        sums: What is asked is added to them.
    """

    def __init__(self, setting: Setting, sums: Sums) -> None:
        self._setting, self._sums = setting, sums
        self._same: list[tuple[int, float]] = []
        self._crossed: list[int] = []

    def same(self, letter: str, labels: Labels, w: np.ndarray, factor: float = 1.0) -> None:
        """Ask for a sum that is one for all outputs, and 0 between them.

        Args:
            letter: Of a tensor.
            labels: In the order of its indices.
            w: What labels 2 and 3 are contracted with.
            factor: Of the sum.
        """
        self._same.append((self._sums.add_pairs(letter, labels, w[None]), factor))

    def crossed(self, letter: str, labels: Labels, w: ByOutputs) -> None:
        """With a matrix for each pair of outputs; otherwise as `same`."""
        n = range(self._setting.outputs)
        stacked = np.array([w[i, j] for i in n for j in n])
        self._crossed.append(self._sums.add_pairs(letter, labels, stacked))

    def found(self) -> Full:
        """After the sums."""
        n = self._setting.outputs
        same = sum(factor * self._sums[place][:, :, 0] for place, factor in self._same)
        crossed = np.sum([self._sums[place] for place in self._crossed], axis=0)
        shape = n, n, *crossed.shape[:2]
        return np.moveaxis(crossed, 2, 0).reshape(shape) + same_for_all(n, np.asarray(same))


class Spread:
    """The covariance, asked of the tensors.

    Args:
        setting: What is trained.
        sums: What is asked is added to them.
        whole: Whether the covariance is asked, or only what `moved` gives.
    """

    def __init__(self, setting: Setting, sums: Sums, *, whole: bool) -> None:
        self._setting, self._sums = setting, sums
        self._moved = _moved(setting, sums)
        self._mixed = _mixed(setting, sums) if whole else None

    def moved(self) -> Full:
        r"""The covariance that $\widehat{\Delta H}$ adds, by which training itself is random; after the sums."""
        return _left_twice(self._setting, self._moved.found())

    def covariance(self, parts: Mapping[str, Share]) -> Full:
        """The coefficient of the covariance; after the sums.

        Args:
            parts: Of the mean.
        """
        setting = self._setting
        assert self._mixed is not None
        slope = np.sum([slope_of(setting, share) for share in parts.values()], axis=0)
        # Of output i and sample d with ζ of output j and sample e; the other order is added in the end.
        half = -np.einsum("ijda,ea->ijde", slope, setting.C)
        half += _left_twice(setting, self._mixed.found())
        both = half + half.transpose(1, 0, 3, 2)
        G1 = self._sums.one_pair("G1")
        initial = same_for_all(setting.outputs, _left_twice(setting, G1[None, None]))
        return both + self.moved() + initial


class Change:
    r"""The coefficient of $\mathbb E[\widehat H(T)-\widehat H(0)]$, asked of the tensors.

    Args:
        setting: What is trained.
        sums: What is asked is added to them.
    """

    def __init__(self, setting: Setting, sums: Sums) -> None:
        n, g = setting.outputs, setting.gain
        A, B = setting.weighted(setting.pairs("A")), setting.weighted(setting.pairs("B"))
        self._half = half = AskedPairs(setting, sums)
        half.same("P", (0, 1, 2, 3), g, -1.0)
        half.same("Q", (0, 1, 2, 3), g, -float(n))
        half.same("Q", (0, 2, 1, 3), g, -1.0)
        half.same("R", (0, 1, 2, 3), own(B))
        half.same("S", (0, 1, 2, 3), own(B))
        half.same("T", (0, 1, 3, 2), own(A))
        half.crossed("R", (0, 2, 3, 1), B)
        half.crossed("R", (0, 2, 1, 3), transposed(turned(B)))
        half.crossed("T", (0, 2, 3, 1), B)
        half.crossed("U", (0, 2, 1, 3), transposed(turned(B)))
        half.crossed("S", (0, 2, 1, 3), A)
        half.crossed("U", (0, 2, 3, 1), transposed(turned(A)))

    def found(self) -> Full:
        """After the sums, the two ends of the NTK exchanged and added."""
        half = self._half.found()
        return half + half.transpose(1, 0, 3, 2)


def _moved(setting: Setting, sums: Sums) -> AskedPairs:
    r"""The contraction by which $A$ and $B$ add to the covariance, asked of the sums."""
    g, pairs = setting.gain, AskedPairs(setting, sums)
    twice = {key: g @ w @ g for key, w in setting.weighted().items()}
    pairs.same("B", (0, 1, 2, 3), own(twice))
    pairs.crossed("A", (0, 2, 1, 3), twice)
    pairs.crossed("B", (0, 2, 3, 1), twice)
    return pairs


def _mixed(setting: Setting, sums: Sums) -> AskedPairs:
    r"""Through $D$, $F$, $P$, $Q$ the half with $\zeta$ behind."""
    n, g, pairs = setting.outputs, setting.gain, AskedPairs(setting, sums)
    A, B = setting.weighted(setting.pairs("A")), setting.weighted(setting.pairs("B"))
    # Labels: 0 the leg of the output, 1 that of ζ, 2 and 3 what is trained on.
    pairs.same("D", (1, 2, 0, 3), g, -1.0)
    pairs.same("F", (1, 0, 2, 3), g, -float(n))
    pairs.same("F", (1, 2, 3, 0), g, -1.0)
    pairs.same("P", (0, 2, 3, 1), own(B))
    pairs.same("Q", (2, 3, 0, 1), own(A))
    pairs.crossed("Q", (0, 2, 3, 1), B)
    pairs.crossed("Q", (0, 2, 3, 1), transposed(turned(B)))
    pairs.crossed("Q", (2, 0, 3, 1), A)
    pairs.crossed("P", (2, 0, 3, 1), turned(A))
    return pairs


def own(w: ByOutputs) -> np.ndarray:
    """The sum over pairs of the same output."""
    return np.sum([matrix for (i, j), matrix in w.items() if i == j], axis=0)


def turned(w: ByOutputs) -> ByOutputs:
    """Outputs exchanged."""
    return {(i, j): w[j, i] for i, j in w}


def transposed(w: ByOutputs) -> ByOutputs:
    """Samples exchanged."""
    return {pair: matrix.T for pair, matrix in w.items()}


def same_for_all(outputs: int, matrix: Float[np.ndarray, "*more sample sample_1"]) -> Full:
    """A matrix for each output, and 0 between them."""
    return np.eye(outputs)[:, :, None, None] * matrix


def _left_twice(setting: Setting, values: Full) -> Full:
    """Less what training corrects, on both samples."""
    once = np.moveaxis(setting.left(np.moveaxis(values, 2, 0)), 0, 2)
    return np.moveaxis(setting.left(np.moveaxis(once, 3, 0)), 0, 3)
