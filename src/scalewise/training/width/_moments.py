r"""Mean and covariance of trained outputs at order 1/n, and what training changes of the NTK.

Fluctuations of the network are $\zeta_\delta=z_\delta-\Theta_{\delta0}g\,z_0$, which training does not read,
and $\widehat{\Delta H}\sim n^{-1/2}$, $\widehat{dH},\widehat{dd}\sim n^{-1}$. An output is at a time

$$z_\delta(T)=m_\delta+\zeta_\delta-M_{\delta1}e_1+N_{\delta2}e_2+\sum Z\,\widehat{dH}\,ee
  +\sum Z\,\widehat{dd}\,eee,$$

with $M$ the NTK's fluctuation once, $N$ twice, weighed as all the others are. Expectations are Wick's, of
$E_{ij;12}=\delta_{ij}K_{12}+y_{i1}y_{j2}=\mathbb E[ee]$, $C_{\delta1}=\mathbb E[\zeta_\delta z_1]$ and the tensors;
$\mathbb E[z\widehat{\Delta H}]=\mathbb E[\widehat{dH}]=0$, for they are odd in the last weights.

Source: PDLT (∞.154), (∞.160)-(∞.165) with the sign of (∞.162), the symmetry of $Z_B$ in (∞.163) and the order of
$T$ and $U$ in (∞.165) put right; (∞.166), (∞.167), of which the text has one term; (∞.117).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from jaxtyping import Float

from scalewise.training.width._contractions import Frame, PairTensor, contract, expectation
from scalewise.training.width._weights import Reaches

LETTERS = ("V", "G1", "H1", "A", "B", "D", "F", "P", "Q", "R", "S", "T", "U")
# Which tensor each projector weighs, with the places of the test leg and of the training legs.
_BRACKETS = {
    "dntk_A": ("A", "dHz", (1, 0, 2, 3)),
    "dntk_B": ("B", "dHz", (0, 1, 2, 3)),
    "ddntk_I_A": ("IA", "ddH_I", (1, 0, 2, 3)),
    "ddntk_I_B": ("IB", "ddH_I", (0, 1, 2, 3)),
    "ddntk_II_A": ("IIA", "ddH_II", (2, 0, 1, 3)),
    "ddntk_II_B": ("IIB", "ddH_II", (0, 1, 2, 3)),
}
PARTS = ("ntk_nlo", "ntk_fluctuation", *_BRACKETS)
Covariance = Float[np.ndarray, "output test output test"]


@dataclass(frozen=True)
class Moments:
    r"""Everything at order 1/n of one algorithm at one time, from the tensors of the last layer.

    Args:
        frame: Directions and tests.
        reaches: What the algorithm weighs tensors with.
        y: Targets by direction.
        K: Kernel of directions and tests.
        tensors: By letter, on training samples and tests.
    """

    frame: Frame
    reaches: Reaches
    y: Float[np.ndarray, "output direction"]
    K: Float[np.ndarray, "sample sample"]
    tensors: Mapping[str, np.ndarray]

    @cached_property
    def _turned(self) -> dict[str, np.ndarray]:
        return {x: self.frame.turned(tensor) for x, tensor in self.tensors.items()}

    @cached_property
    def E(self) -> Float[np.ndarray, "output output direction direction"]:
        r"""$\mathbb E[e_{i1}e_{j2}]$."""
        n, eye = self.frame.count, np.eye(len(self.y))
        return np.einsum("ij,ab->ijab", eye, self.K[:n, :n]) + np.einsum(
            "ia,jb->ijab", self.y, self.y
        )

    @cached_property
    def C(self) -> Float[np.ndarray, "test direction"]:
        r"""$\mathbb E[\zeta_\delta z_1]$."""
        return self.frame.left(self.K, 0)[:, : self.frame.count]

    @cached_property
    def leading(self) -> Float[np.ndarray, "test test"]:
        """Covariance at infinite width."""
        return self.frame.left(self.frame.left(self.K, 0), 1)

    @cached_property
    def mean(self) -> Float[np.ndarray, "output test"]:
        """At infinite width."""
        return (self.y * self.frame.gain) @ self.frame.T.T

    def blocks(self, name: str) -> tuple[PairTensor, ...]:
        """An expectation over four neurons, in directions."""
        return expectation(name, self._turned)

    @cached_property
    def _once(self) -> Float[np.ndarray, "test direction"]:
        r"""$\mathbb E[M]$: of the mean NTK."""
        return self.frame.weighed(self._turned["H1"], self.reaches["H"])

    @cached_property
    def _twice(self) -> tuple[PairTensor, ...]:
        r"""$\mathbb E[N]$: of $\widehat{\Delta H}_{\delta1}\widehat{\Delta H}_{12}$, neurons $ijjk$."""
        blocks = []
        for block in self.blocks("HH"):
            joined = np.einsum("daab->dab", block.values)
            blocks.append(block.with_values(self.frame.weighed(joined, self.reaches["HH"])))
        return tuple(blocks)

    @cached_property
    def weighed(self) -> dict[str, tuple[PairTensor, ...]]:
        """Each bracket with its projector: test, training legs; behind those of the dNTK the sample of $z$."""
        return {
            part: tuple(
                b.with_values(self.frame.weighed(b.values, self.reaches[projector]))
                for b in (block.moved(*places) for block in self.blocks(name))
            )
            for part, (projector, name, places) in _BRACKETS.items()
        }

    def sum(self, blocks: tuple[PairTensor, ...], *args, out: str) -> np.ndarray:
        """`contract` over all outputs."""
        return contract(blocks, *args, out=out, outputs=len(self.y))

    def mean_parts(self) -> dict[str, Float[np.ndarray, "output test"]]:
        """The mean, by the part that adds it."""
        y, n = self.y, self.frame.count
        parts = {
            "ntk_nlo": y @ self._once.T,
            "ntk_fluctuation": -self.sum(self._twice, ("ijjk", "dab"), ("kb", y), out="id"),
        }
        eee = self._cubes()
        for part, (_, name, _) in _BRACKETS.items():
            blocks = self.weighed[part]
            if name == "dHz":
                own = tuple(b.with_values(b.values[..., :n]) for b in blocks)
                first = self.sum(own, ("ijkj", "daba"), ("kb", y), out="id")
                parts[part] = -first - self.sum(own, ("ijkk", "dabb"), ("ja", y), out="id")
            else:
                parts[part] = self.sum(blocks, ("ijkl", "dabc"), ("jklabc", eee), out="id")
        return parts

    def _cubes(self) -> np.ndarray:
        r"""$\mathbb E[e_{j1}e_{k2}e_{l3}]$."""
        y, n, eye = self.y, self.frame.count, np.eye(len(self.y))
        K = self.K[:n, :n]
        return -(
            np.einsum("ja,klbc->jklabc", y, self.E)
            + np.einsum("kb,jl,ac->jklabc", y, eye, K)
            + np.einsum("lc,jk,ab->jklabc", y, eye, K)
        )

    @cached_property
    def both(self) -> tuple[PairTensor, ...]:
        r"""$\mathbb E[M_{\delta1}M_{\epsilon2}]$: test, direction, test, direction."""
        blocks = []
        for block in self.blocks("HH"):
            first = self.frame.weighed(block.values, self.reaches["H"]).transpose(2, 3, 0, 1)
            both = self.frame.weighed(first, self.reaches["H"]).transpose(2, 3, 0, 1)
            blocks.append(block.with_values(both))
        return tuple(blocks)

    @cached_property
    def initial(self) -> tuple[PairTensor, ...]:
        r"""$\mathbb E[M_{\delta1}z_2\zeta_\epsilon]$: test, direction, sample, test."""
        blocks = []
        for block in self.blocks("zzH"):
            moved = block.moved(2, 3, 0, 1)
            seen = self.frame.weighed(moved.values, self.reaches["H"])
            blocks.append(moved.with_values(self.frame.left(seen, 3)))
        return tuple(blocks)

    def ntk_term(self) -> Covariance:
        """The covariance that fluctuations of the NTK add, independent of initial outputs."""
        return self.sum(self.both, ("ijkl", "daeb"), ("jlab", self.E), out="idke")

    def covariance(self) -> Covariance:
        """Covariance of (output, test) with (output, test)."""
        eye = np.eye(len(self.y))
        left = self.frame.left
        total = np.einsum("ij,de->idje", eye, left(left(self._turned["G1"], 0), 1))
        half = -np.einsum("ij,da,ea->idje", eye, self._once, self.C)
        own = tuple(b.with_values(b.values[:, :, : self.frame.count]) for b in self.initial)
        half = half - self.sum(own, ("ijjk", "daae"), out="idke")
        half = half + self.sum(self._twice, ("ijjk", "dab"), ("eb", self.C), out="idke")
        for part, (_, name, _) in _BRACKETS.items():
            half = half + (self._of_dntk(part) if name == "dHz" else self._of_ddntk(part))
        return total + self.ntk_term() + half + half.transpose(2, 3, 0, 1)

    def _of_dntk(self, part: str) -> Covariance:
        r"""$\mathbb E[\widehat{dH}\,e_1e_2\,\zeta]$: $\zeta$ with the tensor, or with one of the errors."""
        n, blocks = self.frame.count, self.weighed[part]
        left = tuple(b.with_values(self.frame.left(b.values, 3)) for b in blocks)
        own = tuple(b.with_values(b.values[..., :n]) for b in blocks)
        return (
            self.sum(left, ("ijkl", "dabe"), ("jkab", self.E), out="idle")
            + self.sum(own, ("ijkj", "daba"), ("eb", self.C), out="idke")
            + self.sum(own, ("ijkk", "dabb"), ("ea", self.C), out="idje")
        )

    def _of_ddntk(self, part: str) -> Covariance:
        r"""$\mathbb E[\widehat{dd}]\,\mathbb E[eee\,\zeta]$."""
        blocks = self.weighed[part]
        legs = ("ijkl", "dabc")
        return (
            self.sum(blocks, legs, ("ea", self.C), ("klbc", self.E), out="idje")
            + self.sum(blocks, legs, ("eb", self.C), ("jlac", self.E), out="idke")
            + self.sum(blocks, legs, ("ec", self.C), ("jkab", self.E), out="idle")
        )

    def ntk_change(self) -> Float[np.ndarray, "output output sample sample"]:
        """Change of the NTK between directions and tests, from the start to the end."""
        n, g = self.frame.count, self.reaches["H"].beyond
        half = 0.5 * np.multiply.outer(g, g)
        own = tuple(b.with_values(b.values[..., :n, :n]) for b in self.blocks("dHz"))
        first = tuple(b.with_values(b.values[..., :n, :n]) for b in self.blocks("ddH_I"))
        second = tuple(b.with_values(b.values[..., :n, :n]) for b in self.blocks("ddH_II"))
        crossed = tuple(
            b.with_values(b.values[:, :, :n, :n])
            for b in (block.moved(0, 2, 1, 3) for block in self.blocks("ddH_II"))
        )
        errors = ("klcd", self.E)
        change = -self.sum(own, ("ijkk", "abcc"), ("c", g), out="ijab")
        for blocks, weights in ((first, half), (second, half), (crossed, self.reaches["A"].beyond)):
            change = change + self.sum(
                blocks, ("ijkl", "abcd"), ("cd", weights), errors, out="ijab"
            )
        return change + change.transpose(1, 0, 3, 2)
