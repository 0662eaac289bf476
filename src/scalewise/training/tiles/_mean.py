r"""The mean of trained outputs at order 1/n: tensors of four samples, contracted with an algorithm's weights.

In eigendirections $p,q,r$ of $\tilde H$ weights are $z_{pq}$ and $z_{pqr}$, sums of products of functions of one of
them, so that of a tensor no more is needed than sums over two of its samples. The mean of an output is a polynomial
of the targets; its derivative by them is what the covariance with initial outputs takes, which enter as $z-y$
and are Gaussian. Neurons pair in three ways, $\delta_{i1}\delta_{23}$, $\delta_{i2}\delta_{13}$,
$\delta_{i3}\delta_{12}$, each with a tensor. Of the first, for weights times tensor $w_{\delta pqr}$,
$$m_{i\delta}=-\sum w_{\delta pqr}\big[y_{ip}(\textstyle\sum_jy_{jq}y_{jr}+n_LK_{qr})
  +y_{iq}K_{pr}+y_{ir}K_{pq}\big].$$

Source: PDLT (∞.160)-(∞.165), derived by Wick's theorem from (∞.141) and (∞.154) with the signs put right.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np
from jaxtyping import Float

from scalewise.training.tiles._setting import Setting
from scalewise.training.tiles._sums import Sums
from scalewise.training.tiles._tiles import Labels

Along = Float[np.ndarray, "test train"]
Across = Float[np.ndarray, "test output output_1 train"]
Functions = Float[np.ndarray, "column direction"]
# Tensors by the training leg, 1 to 3, whose neuron pairs with the initial output, or with the test leg; 0 for the
# test leg. Labels 1, 2 and 3 are the legs of the weights.
Legs = dict[int, tuple[str, Labels]]
FIRST: dict[str, tuple[str, Legs]] = {
    "dntk_A": ("A", {1: ("P", (1, 0, 2, 3)), 2: ("Q", (1, 0, 2, 3)), 0: ("Q", (1, 2, 0, 3))}),
    "dntk_B": ("B", {0: ("P", (0, 1, 2, 3)), 2: ("Q", (0, 1, 2, 3)), 1: ("Q", (0, 2, 1, 3))}),
}
SECOND: dict[str, tuple[str, Legs]] = {
    "ddntk_I_A": ("IA", {1: ("R", (1, 0, 2, 3)), 2: ("R", (1, 3, 0, 2)), 3: ("R", (1, 2, 3, 0))}),
    "ddntk_I_B": ("IB", {1: ("R", (0, 1, 2, 3)), 2: ("R", (0, 2, 3, 1)), 3: ("R", (0, 3, 1, 2))}),
    "ddntk_II_A": ("IIA", {1: ("T", (1, 0, 3, 2)), 2: ("U", (1, 3, 2, 0)), 3: ("S", (1, 2, 0, 3))}),
    "ddntk_II_B": ("IIB", {1: ("S", (0, 1, 2, 3)), 2: ("T", (0, 2, 3, 1)), 3: ("U", (0, 3, 1, 2))}),
}
PARTS = ("ntk_nlo", "ntk_fluctuation", *FIRST, *SECOND)
# Where the test leg stands, training legs in their order: a tensor asked under other names of these is the same.
_USUAL = {0: (0, 2, 3, 1), 1: (2, 0, 3, 1), 2: (2, 3, 0, 1), 3: (2, 3, 1, 0)}


@dataclass
class Share:
    r"""A part of the mean of the outputs, as a function of the targets.

    Args:
        along: $L_{\delta\tilde\alpha}$ with $m_{i\delta}=\sum L_{\delta\tilde\alpha}y_{i\tilde\alpha}$.
        across: $\partial m_{i\delta}/\partial y_{j\tilde\alpha}-\delta_{ij}L_{\delta\tilde\alpha}$, with axes
            $\delta,i,j,\tilde\alpha$; ``None`` if $L$ does not depend on the targets.
    """

    along: Along
    across: Across | None = None


_Read = tuple[Functions, tuple[int, int] | None]


class _Column(NamedTuple):
    """Sums over two legs, each with a function of the third one."""

    matrices: Float[np.ndarray, "column train train"]
    f: Functions
    outputs: tuple[int, int] | None = None


@dataclass
class MeanPart:
    """A part that is asked for: which sums it is made of.

    Args:
        setting: What is trained.
        sums: What they are added to.
    """

    setting: Setting
    sums: Sums
    _columns: dict[tuple[str, Labels, tuple[int, int]], list[_Column]] = field(
        default_factory=lambda: defaultdict(list)
    )
    _places: list[tuple[int, list[_Read]]] = field(default_factory=list)
    _cubic: bool = False

    def first(self, name: str, legs: Legs) -> MeanPart:
        r"""From $\widehat{dH}$: $\sum z_{pq}\mathbb E[\widehat{dH}\,e_pe_q]$.

        Args:
            name: Of the weights.
            legs: Tensors with the initial output as label 3, which is that of the first error, or of the second.
        """
        U, n = self.setting.U, self.setting.outputs
        one, two = np.moveaxis(getattr(self.setting.weights, name), 1, 0)
        for leg, (letter, labels) in legs.items():
            for error, f, g in ((1, one, two), (2, two, one)):
                times = -n if leg == error else -1
                matrices = np.einsum("ap,tp,bp->tab", times * U, f, U, optimize=True)
                self._add(letter, labels, (error, 3), _Column(matrices, g))
        return self._asked()

    def second(self, name: str, legs: Legs) -> MeanPart:
        r"""From a second differential: $\sum z_{pqr}\mathbb E[\widehat{dd}H]\,\mathbb E[e_pe_qe_r]$.

        Args:
            name: Of the weights.
            legs: Tensors by the leg whose neuron is that of the test leg.
        """
        self._cubic = True
        K, y, n = self.setting.eigen_K, self.setting.eigen_y, self.setting.outputs
        f = dict(enumerate(np.moveaxis(getattr(self.setting.weights, name), 1, 0), 1))
        for own, (letter, labels) in legs.items():
            one, two = (leg for leg in (1, 2, 3) if leg != own)
            for left, over, inner in (
                (own, (one, two), y.T @ y + n * K),
                (one, (own, two), K),
                (two, (own, one), K),
            ):
                self._add(letter, labels, over, _Column(self._between(f, over, -inner), f[left]))
                if left == own:
                    continue
                for i, j in np.ndindex(n, n):
                    matrices = self._between(f, over, -np.multiply.outer(y[i], y[j]))
                    self._add(letter, labels, over, _Column(matrices, f[left], (i, j)))
        return self._asked()

    def through(self, terms: Sequence[tuple[str, Labels, tuple[int, int], float]]) -> MeanPart:
        """Two legs contracted with the gain, and the third one multiplied with it.

        Args:
            terms: Letters, labels, the two legs, and a number.
        """
        g = self.setting.gain
        for letter, labels, over, factor in terms:
            column = _Column(factor * g[None], self.setting.weights.gain[None])
            self._add(letter, labels, over, column)
        return self._asked()

    def share(self) -> Share:
        """After the sums."""
        s, shape = self.setting, (len(self.setting.K), self.setting.count)
        along = np.zeros(shape)
        across = np.zeros((s.outputs, s.outputs, *shape))
        for place, columns in self._places:
            found, start = self.sums[place], 0
            for f, outputs in columns:
                part = found[:, :, start : start + len(f)]
                start += len(f)
                # Column by column in eigendirections, each times its function there.
                eigen = np.tensordot(part, s.U, (1, 0))
                value = np.einsum("dtp,tp->dp", eigen, f) @ s.U.T
                if outputs is None:
                    along += value
                else:
                    across[outputs] += value
        return Share(s.left(along), s.left(np.moveaxis(across, 2, 0)) if self._cubic else None)

    def _between(
        self, f: dict[int, Functions], over: tuple[int, int], inner: np.ndarray
    ) -> Float[np.ndarray, "column train train"]:
        """On samples, what stands between two legs in eigendirections."""
        U, (x, y) = self.setting.U, over
        return (U * f[x][:, None]) @ inner @ (U * f[y][:, None]).swapaxes(1, 2)

    def _add(self, letter: str, labels: Labels, over: tuple[int, int], column: _Column) -> None:
        """Under the usual names of labels."""
        usual = _USUAL[labels.index(0)]
        named = dict(zip(labels, usual, strict=True))
        x, y = (named[leg] for leg in over)
        matrices, f, outputs = column
        if x > y:
            x, y, matrices = y, x, matrices.swapaxes(1, 2)
        self._columns[letter, usual, (x, y)].append(_Column(matrices, f, outputs))

    def _asked(self) -> MeanPart:
        for (letter, labels, over), columns in self._columns.items():
            weights = np.concatenate([matrices for matrices, *_ in columns])
            place = self.sums.add(letter, labels, over, weights)
            self._places.append((place, [(f, outputs) for _, f, outputs in columns]))
        self._columns.clear()
        return self


class Mean:
    """Asked of the tensors.

    Args:
        setting: What is trained.
        sums: What is asked is added to them.
    """

    def __init__(self, setting: Setting, sums: Sums) -> None:
        self._setting, self._sums = setting, sums
        self._parts = {"ntk_fluctuation": _through(setting, sums)}
        for name, (weights, legs) in FIRST.items():
            self._parts[name] = MeanPart(setting, sums).first(weights, legs)
        for name, (weights, legs) in SECOND.items():
            self._parts[name] = MeanPart(setting, sums).second(weights, legs)

    def parts(self) -> dict[str, Share]:
        """The parts of the mean by name, 0 on training samples; to be read once the sums are done."""
        H1 = self._sums.one_pair("H1")[:, self._setting.train]
        found = {name: part.share() for name, part in self._parts.items()}
        found["ntk_nlo"] = Share(self._setting.left(H1 @ self._setting.gain))
        return {name: found[name] for name in PARTS}


def mean_of(setting: Setting, share: Share) -> Float[np.ndarray, "output sample"]:
    """The part of the mean."""
    return setting.y @ share.along.T


def slope_of(setting: Setting, share: Share) -> Float[np.ndarray, "output output_1 sample train"]:
    """Its derivative by the targets, the output first."""
    out = np.zeros((setting.outputs, setting.outputs, *share.along.shape))
    for i in range(setting.outputs):
        out[i, i] = share.along
    return out if share.across is None else out + np.moveaxis(share.across, 0, 2)


def _through(setting: Setting, sums: Sums) -> MeanPart:
    r"""$-\mathbb E[\widehat{\Delta H}_{\delta1}\,g\,\widehat{\Delta H}_{23}]\,g$."""
    return MeanPart(setting, sums).through(
        (
            # A_(d 1 2 3), B_(d 2 1 3) and, summed over the neurons of the inner legs, B_(d 3 1 2).
            ("A", (0, 1, 2, 3), (1, 2), -1.0),
            ("B", (0, 1, 2, 3), (1, 2), -1.0),
            ("B", (0, 1, 2, 3), (2, 3), -float(setting.outputs)),
        )
    )
