"""A block that follows itself: where sizes and correlations settle, and the factors of small changes there."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from jaxtyping import Float

from scalewise.theory.blocks._block import Block, BlockStep, Pairs
from scalewise.theory.blocks._fixed_points import Row, settled, slope

_BEGIN = 0.5  # correlation
_LARGE, _SMALL = 1e9, 1e-13  # sizes, in units of where the search begins
_VANISHING = 1e-6  # likewise: this small they are 0 if 0 does not repel
_EXACT, _DRAWN = 1e-11, 1e-4  # tolerances
_TOGETHER = 1e-6, 1e-3  # likewise: correlations this close to 1 are 1 if that does not repel
# The longest jumps of log K and of correlations to a fixed point, and how much longer than a step they are.
_SIZES, _CORRELATIONS = (3.0, 1e12), (0.25, 1e5)
_NOTHING = 1e-14  # of a factor
_NUDGE = 1e-3  # of correlations, the larger of two


@dataclass(frozen=True)
class Settled:
    """Where blocks lead: sizes, correlations of an input with itself, and of two inputs."""

    K: float
    R: Pairs
    C: Pairs


@dataclass(frozen=True)
class RepeatedBlock:
    """A block, and which draws its averages are made with.

    Args:
        block: The block.
        scramble: The draws.
    """

    block: Block
    scramble: int

    @property
    def tolerance(self) -> float:
        """To which fixed points are found."""
        return _DRAWN if self.block.drawn else _EXACT

    @property
    def together(self) -> float:
        """As close to 1 correlations are 1, if they stay there."""
        return _TOGETHER[self.block.drawn]

    def through(
        self, K: Any, R: Pairs, C: Pairs | None = None, T: Pairs | None = None
    ) -> BlockStep:
        """One block."""
        return self.block.through(K, R, C, T, scramble=self.scramble)

    def all_of_it(
        self, K: float | None, near: Settled | None = None
    ) -> tuple[dict[str, Any], Settled]:
        """Every number of the record, and where blocks lead; from where others did, if that is known."""
        block = self.block
        K, R = self.signal(K, near)
        K_next = block.evenly(self.through(K, R).K)
        kept = K / K_next if K_next else 1.0
        chi_perp = self.growth(K, R, R)
        C = self.meeting(K, R, chi_perp * kept, near)
        between, chi_between = self.positions(K, R, kept)
        levels = 3 if block.drawn else 4
        found = {
            "K": K,
            "K_next": K_next,
            "chi_parallel": float(slope(lambda k: self.sizes(k, R), K, levels).mean()),
            "chi_perp": chi_perp,
            "correlation": float(block.own(C).mean()),
            "chi_correlation": kept * (chi_perp if C is R else self.growth(K, R, C)),
            "between": between,
            "chi_between": chi_between,
            "modes_parallel": None,
            "modes_perp": None,
            "modes_correlation": None,
        }
        if not block.mixes and block.positions:
            one = np.eye(block.places)[0]
            found["modes_parallel"] = self.waves(slope(lambda k: self.sizes(k, R, K), K, levels))
            found["modes_perp"] = self.waves(self.through(K, R, R, one).T)
            found["modes_correlation"] = self.waves(kept * self.through(K, R, C, one).T)
        return found, Settled(K, R, C)

    def sizes(self, K: float, R: Pairs, elsewhere: float | None = None) -> np.ndarray:
        """Sizes of all positions behind a block, of signals of one size, or another but at the first position."""
        every = np.full(self.block.places, K if elsewhere is None else elsewhere)
        every[0] = K
        return self.block.own(self.through(every, R).K)

    def signal(self, K: float | None, near: Settled | None) -> tuple[float, Pairs]:
        """The size and the correlations of positions to which one input tends; at a size, where that is given."""
        block = self.block
        scale = max((sigma.scale**2 for sigma in block.program.activations), default=1.0)
        R = block.alike(_BEGIN) if near is None else near.R
        block.evenly(self.through(K or scale, R).K)
        if K is not None and (K == 0 or not block.mixes):
            return K, block.alike(1.0)

        def step(u: Row) -> Row:
            size = scale * math.exp(u[0]) if K is None else K
            after = self.through(size, _pairs(u[1:], R) if block.mixes else R).K
            left = block.evenly(after)
            rest = _correlations(after).ravel() if block.mixes else u[1:]
            moved = u[0] if K is not None else math.log(left / scale) if left else -math.inf
            return np.concatenate([[moved], rest])

        own = R.ravel() if block.mixes else np.empty(0)
        start = np.concatenate([[0.0 if near is None or K == 0 else math.log(near.K / scale)], own])
        longest, most = (
            np.r_[one, np.full_like(own, each)]
            for one, each in zip(_SIZES, _CORRELATIONS, strict=True)
        )
        ends = math.log(_SMALL), math.log(_LARGE)
        far = lambda u: not ends[0] < u[0] < ends[1]  # noqa: E731
        u, still = settled(step, start, self.tolerance, longest=longest, most=most, far=far)
        size = scale * math.exp(u[0]) if K is None else K
        if size < _VANISHING * scale and self._vanishes(scale, R):
            return 0.0, block.alike(1.0)
        if not still and K is not None:
            raise ValueError(
                f"The correlations of positions do not settle at K = {K:g}. Choose other variances, or another K."
            )
        if not still:
            raise ValueError(
                f"The sizes of signals have no fixed point: this block takes {size:.3g} to "
                f"{block.evenly(self.through(size, R).K):.3g}, and so on. Give `K`, the size at which you ask, "
                "or a block that keeps sizes, such as one with a norm behind its last sum."
            )
        return size, self._snapped(size, _pairs(u[1:], R)) if block.mixes else R

    def meeting(self, K: float, R: Pairs, factor: float, near: Settled | None) -> Pairs:
        """The correlations to which those of two inputs tend; R if these become equal."""
        if K == 0.0:
            return R
        start = _BEGIN * R if near is None else near.C
        found, still = settled(
            lambda u: self._between(K, R, _pairs(u, R)).ravel(),
            start.ravel(),
            self.tolerance,
            longest=_CORRELATIONS[0],
            most=_CORRELATIONS[1],
        )
        C = found.reshape(R.shape)
        apart = 1 - float(self.block.own(C).mean())
        stays = float(self.block.own(self._between(K, R, R)).mean()) > 1 - self.tolerance
        if apart < self.together and stays and factor < 1 + self.together:
            return R
        if not still:
            raise ValueError(
                f"The correlation of two inputs does not settle; it is {1 - apart:.6g} at last. Choose other "
                "variances, or another K."
            )
        return C

    def growth(self, K: float, R: Pairs, C: Pairs, *, centred: bool = False) -> float:
        """The factor by which small differences grow in the long run.

        Args:
            K: Size.
            R: Correlations of an input with itself.
            C: Of two inputs.
            centred: Whether only what differs between positions counts.
        """
        own, off = self.block.own, np.eye(self.block.places) - 1 / self.block.places
        T = off if centred else np.ones_like(R) + self.block.alike(0.0)

        def grown(T: Pairs) -> Pairs:
            T = self.through(K, R, C, T).T
            return off @ T @ off if centred else T

        def step(u: Row) -> Row:
            T = grown(u.reshape(R.shape))
            size = own(T).sum()
            return (T / size).ravel() if size > _NOTHING else u

        u, _ = settled(step, (T / own(T).sum()).ravel(), self.tolerance)
        return max(float(own(grown(u.reshape(R.shape))).sum()), 0.0)

    def positions(self, K: float, R: Pairs, kept: float) -> tuple[float | None, float | None]:
        """The correlation of different positions of one input, and the factor of small changes."""
        block = self.block
        if not block.mixes or block.places < 2:
            return None, None
        off = ~np.eye(block.places, dtype=bool)
        between = float(R[off].mean())
        if between == 1.0:
            return between, kept * self.growth(K, R, R, centred=True)
        whole = np.ones_like(R)
        at = [
            _correlations(self.through(K, (1 - h) * R + h * whole).K)[off].mean()
            for h in (0.0, _NUDGE / 2, _NUDGE)
        ]
        half, one = (at[k] - at[0] for k in (1, 2))
        return between, float((4 * half - one) / (_NUDGE * (1 - between)))

    def waves(self, response: np.ndarray) -> Float[np.ndarray, "*positions"]:
        """Factors of waves, from what becomes of a change at the first position."""
        found = np.fft.fftn(response.reshape(self.block.positions))
        real = np.abs(found.imag).max() <= 1e-9 * max(float(np.abs(found).max()), 1e-300)
        return found.real if real else np.abs(found)

    def _between(self, K: float, R: Pairs, C: Pairs) -> Pairs:
        """Correlations of two inputs behind the block."""
        after = self.through(K, R, C)
        return after.C / _roots(self.block.own(after.K), self.block.mixes)

    def _snapped(self, K: float, R: Pairs) -> Pairs:
        """Correlations of positions, 1 to the last bit where positions become alike."""
        whole = np.ones_like(R)
        if 1 - float(R.min()) > self.together:
            return R
        stays = float(_correlations(self.through(K, whole).K).min()) > 1 - self.tolerance
        return whole if stays else R

    def _vanishes(self, scale: float, R: Pairs) -> bool:
        """True if signals of no size stay so, and do not repel."""
        tiny = 1e-12 * scale
        zero = self.block.own(self.through(0.0, R).K)
        return not zero.any() and bool(
            self.block.evenly(self.through(tiny, R).K) <= tiny * (1 + _VANISHING)
        )


def _pairs(row: Row, like: Pairs) -> Pairs:
    """Correlations out of a row of numbers, which a jump may have left a little too large."""
    return np.clip(row.reshape(like.shape), -1.0, 1.0)


def _correlations(K: Pairs) -> Pairs:
    """Correlations of an input with itself."""
    return K / _roots(np.diagonal(K), True)


def _roots(own: np.ndarray, mixes: bool) -> np.ndarray:
    """Roots of sizes: for every pair, or every position."""
    roots = np.sqrt(own)
    return np.multiply.outer(roots, roots) if mixes else own
