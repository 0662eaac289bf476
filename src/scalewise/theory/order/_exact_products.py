r"""Products of changes that are quadratic in preactivations, exactly, where a unit moves one layer alone.

Through taps $B_\tau$ a unit moves $\delta\Sigma_{st}=C_W\sum_\tau\sum_{uv}B_{\tau su}B_{\tau tv}(x_ux_v-M_{00})$.
What is linear or quadratic in its preactivations at the few labels $u$ that $s$ sees and $v$ that $t$ sees,
$\ell^Tz+z^TQz-\mathrm{tr}\,QK$, has
$$\mathrm{Cov}[q,q']=\ell^TK\ell'+2\,\mathrm{tr}\,QKQ'K,$$
and of a field and a tangent $\ell^Ty+z^TRy$ has $\ell^T\Theta\ell'+\mathrm{tr}\,R^TKR'\Theta$.

Source: Isserlis' theorem.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from jaxtyping import Float, Int
from scipy import sparse

from scalewise.theory.order._layout import Hop
from scalewise.theory.order._second_order import Products
from scalewise.theory.order._strips import Kernels
from scalewise.theory.order._unit_responses import UnitScene

Batch = Float[np.ndarray, "_pair _seen _seen2"]
_MOST_SEEN = 40  # labels


@dataclass(frozen=True)
class Sight:
    """The labels that each label of a layer sees.

    Args:
        at: Which, of all that are read; the first of their input where there are fewer.
        taps: By tap, label and place its factor.
    """

    at: Int[np.ndarray, "_label _seen"]
    taps: Float[np.ndarray, "_tap _label _seen"]


def sight(hop: Hop) -> Sight | None:
    """Labels that those of a layer see; ``None`` if there are too many."""
    maps = hop.taps.maps
    union = sparse.csr_array(sum((abs(one) for one in maps[1:]), abs(maps[0])))
    counts = np.diff(union.indptr)
    most = int(counts.max(initial=0))
    if not 0 < most <= _MOST_SEEN:
        return None
    made, read = hop.taps.sizes
    at = np.repeat(np.arange(len(counts)) // made * read, most).reshape(-1, most)
    there = np.arange(most) < counts[:, None]
    at[there] = union.indices
    rows = np.repeat(np.arange(len(counts)), most)
    taps = [np.asarray(one[rows, at.ravel()]).reshape(at.shape) * there for one in maps]
    return Sight(at, np.array(taps))


@dataclass(frozen=True)
class Quadratic:
    """Forms that are linear and quadratic in preactivations and tangents of what is seen, one for each pair.

    Args:
        Q: In two preactivations; or in one and a tangent, in this order.
        linear: In one of them.
    """

    Q: Batch
    linear: Float[np.ndarray, "_pair _seen"]

    def times(self, factor: float) -> Quadratic:
        """A multiple."""
        return Quadratic(factor * self.Q, factor * self.linear)

    def plus(self, other: Quadratic) -> Quadratic:
        """The sum."""
        return Quadratic(self.Q + other.Q, self.linear + other.linear)


@dataclass(frozen=True)
class ExactProducts:
    """A layer that units move, and what its labels see of it.

    Args:
        known: The network at infinite width.
        maker: The layer.
        seen: What its labels see.
        K: Covariances of what it reads.
        Theta: Of tangents; none where the NTK is not wanted.
        alone: Changes of each label with itself, and those of a field beside its own tangent.
    """

    known: Kernels
    maker: Hop
    seen: Sight
    K: np.ndarray
    Theta: np.ndarray | None
    alone: tuple[Quadratic, Quadratic | None]

    @staticmethod
    def of(known: Kernels, maker: Hop, own: list[UnitScene], *, ntk: bool) -> ExactProducts | None:
        """With a scene of each input alone; ``None`` if labels see too much."""
        seen = sight(maker)
        if seen is None:
            return None
        K = known.whole(known.K, maker.lifts)
        Theta = known.whole(known.Theta, maker.lifts) if ntk else None
        made = known.layout.draw_size(maker.draw)
        parts = []
        for at in own:
            labels = np.arange(at.a * made, (at.a + 1) * made)
            form = _Form.of(at, maker, seen, labels, labels, paired=True)
            parts.append((form.alone(0), form.alone_mixed() if ntk else None))
        first = _joined([part for part, _ in parts])
        mixed = _joined([part for _, part in parts if part is not None]) if ntk else None
        C_W = maker.node.own.C_W
        return ExactProducts(
            known,
            maker,
            seen,
            K,
            Theta,
            (first.times(C_W), None if mixed is None else mixed.times(C_W)),
        )

    def products(self, at: UnitScene) -> Products:
        """Products of all pairs of labels of a scene."""
        made = self.known.layout.draw_size(self.maker.draw)
        second = np.arange(at.first * made, (at.last + 1) * made)
        rows = [self._row(at, s, second) for s in range(at.a * made, (at.a + 1) * made)]
        aa, bb, ab, *others = (np.array(part) for part in zip(*rows, strict=True))
        K, Theta, X = (tuple(others[start : start + 3]) for start in (0, 3, 6))
        return Products((aa[:, 0], bb[0], ab), K, Theta or None, X or None)

    def _row(self, at: UnitScene, s: int, second: np.ndarray) -> list[np.ndarray]:
        """Products of one label with all second ones, in the order of `Products`."""
        rates, first = self.maker.node.own, np.full_like(second, s)
        places = np.concatenate([self.seen.at[first], self.seen.at[second]], axis=1)
        K = self.K[places[:, :, None], places[:, None]]
        form = _Form.of(at, self.maker, self.seen, first, second, paired=False)
        c = form.across(0).times(rates.C_W)
        a, b = (_placed(self.alone[0], of, side) for of, side in ((first, 0), (second, 1)))
        one, other, both = (_Moved.of(x, K) for x in (a, b, c))
        found = [x.with_(y) for x, y in ((one, one), (other, other), (one, other))]
        found += [x.with_(both) for x in (one, other, both)]
        if self.Theta is None or self.alone[1] is None:
            return found
        T = _Moved.of(form.across(1).times(rates.C_W).plus(form.across(0).times(rates.lambda_W)), K)
        Theta = self.Theta[places[:, :, None], places[:, None]]
        X, Y = (form.mixed(turned=turned).times(rates.C_W) for turned in (False, True))
        s_alone, t_alone = (
            _placed(self.alone[1], of, side) for of, side in ((first, 0), (second, 1))
        )
        beside, t_beside = (_Beside.of(x, K, Theta) for x in (X, t_alone))
        mixed = (
            beside.with_(s_alone),
            t_beside.with_(s_alone) + beside.with_(Y),
            t_beside.with_(Y),
        )
        return [*found, *(x.with_(T) for x in (one, other, both)), *mixed]


@dataclass(frozen=True)
class _Form:
    """Forms that pairs of labels are made of, at the labels that they see.

    Args:
        W: Factors of the taps.
        M: Moments.
        Theta: Covariances of tangents.
        bent: Whether there are linear parts.
    """

    W: Batch
    M: dict[tuple[int, int], Batch]
    Theta: Batch | None
    bent: bool

    @staticmethod
    def of(
        at: UnitScene,
        maker: Hop,
        seen: Sight,
        first: np.ndarray,
        second: np.ndarray,
        *,
        paired: bool,
    ) -> _Form:
        """Forms of pairs; if they are paired with themselves both stand on the same labels."""
        size = len(maker.at)
        u, v = seen.at[first] - at.a * size, seen.at[second] - at.first * size
        W = np.einsum("tpu,tpv->puv", seen.taps[:, first], seen.taps[:, second])
        places = u[:, :, None], v[:, None]
        M = {pq: values[places] for pq, values in at.moments[maker.draw].items() if sum(pq) < 5}
        Theta = at.Theta[maker.draw][places] if maker.draw in at.Theta else None
        assert not paired or np.array_equal(first, second)
        sigma = at.known.layout.course.populations[maker.root].sigma
        return _Form(W, M, Theta, not sigma.parity)

    def _weights(self, p: int) -> Batch:
        return self.W if not p or self.Theta is None else self.W * self.Theta

    def across(self, p: int) -> Quadratic:
        r"""$\sigma^{(p)}\sigma^{(p)}$, times $\Theta$ for derivatives; preactivations of both labels in turn."""
        W, M = self._weights(p), self.M
        half = 0.5 * W * M[1 + p, 1 + p]
        left = _diagonal(0.5 * (W * M[2 + p, p]).sum(axis=2))
        right = _diagonal(0.5 * (W * M[p, 2 + p]).sum(axis=1))
        Q = _blocks(left, half, half.swapaxes(1, 2), right)
        if not self.bent:
            return Quadratic(Q, np.zeros(Q.shape[:2]))
        slopes = (W * M[1 + p, p]).sum(axis=2), (W * M[p, 1 + p]).sum(axis=1)
        return Quadratic(Q, np.concatenate(slopes, axis=1))

    def alone(self, p: int) -> Quadratic:
        """Products of a label with itself."""
        W, M = self._weights(p), self.M
        Q = W * M[1 + p, 1 + p] + _diagonal((W * M[2 + p, p]).sum(axis=2))
        slopes = 2 * (W * M[1 + p, p]).sum(axis=2)
        return Quadratic(Q, slopes if self.bent else np.zeros_like(slopes))

    def mixed(self, *, turned: bool) -> Quadratic:
        """A field at the first label and a tangent at the second, or turned over."""
        W, M = self.W, self.M
        R, zero = W * M[1, 1], np.zeros_like(W)
        if turned:
            own, slopes = (W * M[2, 0]).sum(axis=2), (W * M[1, 0]).sum(axis=2)
            Q = _blocks(_diagonal(own), zero, R.swapaxes(1, 2), zero)
            linear = np.concatenate([slopes, np.zeros_like(slopes)], axis=1)
        else:
            own, slopes = (W * M[0, 2]).sum(axis=1), (W * M[0, 1]).sum(axis=1)
            Q = _blocks(zero, R, zero, _diagonal(own))
            linear = np.concatenate([np.zeros_like(slopes), slopes], axis=1)
        return Quadratic(Q, linear if self.bent else np.zeros_like(linear))

    def alone_mixed(self) -> Quadratic:
        """Products of a label with itself."""
        W, M = self.W, self.M
        Q = W * M[1, 1] + _diagonal((W * M[0, 2]).sum(axis=1))
        slopes = (W * M[0, 1]).sum(axis=1)
        return Quadratic(Q, slopes if self.bent else np.zeros_like(slopes))


@dataclass(frozen=True)
class _Moved:
    """A form in preactivations, and what their covariance makes of it."""

    QK: Batch
    linear: np.ndarray
    moved: np.ndarray

    @staticmethod
    def of(form: Quadratic, K: Batch) -> _Moved:
        return _Moved(form.Q @ K, form.linear, np.einsum("pu,puv->pv", form.linear, K))

    def with_(self, other: _Moved) -> Float[np.ndarray, " _pair"]:
        """The covariance with another form."""
        found = 2 * np.einsum("puv,pvu->p", self.QK, other.QK)
        return found + np.einsum("pu,pu->p", self.moved, other.linear)


@dataclass(frozen=True)
class _Beside:
    """A form in a field and a tangent, and what their covariances make of it."""

    moved: Batch
    linear: np.ndarray

    @staticmethod
    def of(form: Quadratic, K: Batch, Theta: Batch) -> _Beside:
        return _Beside(K @ form.Q @ Theta, np.einsum("pu,puv->pv", form.linear, Theta))

    def with_(self, other: Quadratic) -> Float[np.ndarray, " _pair"]:
        """The covariance with another form."""
        found = np.einsum("puv,puv->p", self.moved, other.Q)
        return found + np.einsum("pu,pu->p", self.linear, other.linear)


def _diagonal(values: Float[np.ndarray, "_pair _seen"]) -> Batch:
    return values[:, :, None] * np.eye(values.shape[1])


def _blocks(a: Batch, b: Batch, c: Batch, d: Batch) -> Batch:
    return np.concatenate([np.concatenate([a, b], axis=2), np.concatenate([c, d], axis=2)], axis=1)


def _placed(form: Quadratic, labels: np.ndarray, side: int) -> Quadratic:
    """Forms of single labels among what both labels of a pair see."""
    Q, linear = form.Q[labels], form.linear[labels]
    zero, nothing = np.zeros_like(Q), np.zeros_like(linear)
    if side:
        return Quadratic(_blocks(zero, zero, zero, Q), np.concatenate([nothing, linear], axis=1))
    return Quadratic(_blocks(Q, zero, zero, zero), np.concatenate([linear, nothing], axis=1))


def _joined(parts: list[Quadratic]) -> Quadratic:
    return Quadratic(
        np.concatenate([part.Q for part in parts]), np.concatenate([part.linear for part in parts])
    )
