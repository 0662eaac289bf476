r"""Attention at infinite width: heads that grow, whose weights do not fluctuate, and finite heads, which are drawn.

With $p$ the weights of one input and $p'$ of another, $C_v$ and $T_v$ those of the values,
$$C=\langle pC_vp'^T\rangle,\qquad T=\langle pT_vp'^T\rangle+d^{-2\alpha}\big\langle T_q\circ F[kk'^T]
  +qq'^T\circ F[T_k]\big\rangle,$$
where $F[X]$ is the sum over $u,u'$ of $X_{uu'}$ with what a change of the logits of $u$ and of $u'$ makes of $C$,
$$F[X]=p(X\circ C_v)p'^T-\big((pC_v)\circ(pX)\big)p'^T-p\big((C_vp'^T)\circ(Xp'^T)\big)+(pC_vp'^T)\circ(pXp'^T)$$
for softmax, and $\sigma'(X\circ C_v)\sigma'^T$ for a function of each logit. Where heads grow, tangents do not move
their weights. With a norm of queries and keys the logit of $s$ and $u$ changes with channel $i$ of the query by
$a_i(s,u)$, and of the key by $b_i(s,u)$, so that what stands behind $T_v$ is
$$\textstyle\sum_i\big\langle T_q\circ(D_iC_vD_i'^T)+F_i[T_k]\big\rangle,\quad D_i=p\circ(a_i-(p\circ a_i)11^T),$$
with $F_i$ as $F$, but $p\circ b_i$ for the $p$ that stands beside $X$.

Matrices that are added to logits for heads in turn are averaged over, as often each. Keys and values that several
heads share change nothing here: weights behind heads are independent, so that the product of two heads has no part
in $C$ or $T$, and groups of heads grow in number.

Source: Hron et al., arXiv:2006.10540, for heads that grow; for finite heads derived.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from jaxtyping import Float

from scalewise.gaussian.spi import Places
from scalewise.networks.spi import Attend, attention, logits_of, seen, slopes_of_logits
from scalewise.theory.flow._units import normals, rooted

_WORK = 1 << 31  # multiplications for a scramble
_FEWEST, MOST_HEADS = 1 << 5, 1 << 12
_AT_ONCE = 1 << 22  # numbers

Blocks = Float[np.ndarray, "input input place place"]
Keys = Float[np.ndarray, "input input position position"]


class Mixing:
    """Positions mixed by a matrix of each input: given, or the weights of heads that grow.

    Args:
        weights: The matrices.
        K: What they were made of.
    """

    def __init__(self, weights: Float[np.ndarray, "input place position"], K: np.ndarray) -> None:
        self._weights, self.K = weights, K

    @classmethod
    def attending(
        cls,
        logits: Float[np.ndarray, "input place position"],
        node: Attend,
        mask: Float[np.ndarray, "input 1 position"] | None,
    ) -> Mixing:
        """By logits: kernels of the queries, or 0 of free keys.

        Args:
            logits: Of every input.
            node: What kind of attention.
            mask: 1 at the keys that are there; ``None`` if all are.
        """
        return cls(attention(node, logits, np, mask=mask), logits)

    def apply(self, at: Places, tile: np.ndarray, out: np.ndarray) -> None:
        """A covariance of positions becomes one of places."""
        p, q = self._weights[at.rows], self._weights[at.columns].swapaxes(1, 2)
        if at.by_rows:
            p, q = p[:, None], q[None]
        places = p.shape[-1]
        lead = tile.shape[: 1 + at.by_rows]
        out[...] = (p @ tile.reshape(*lead, places, places) @ q).reshape(out.shape)


def drawn_heads(
    node: Attend,
    kernels: tuple[Blocks, Keys, Keys],
    tangents: tuple[Blocks, Keys, Keys] | None,
    seed: tuple[int, int],
    mask: Float[np.ndarray, "input position"] | None = None,
    most: int = MOST_HEADS,
) -> tuple[Blocks, Blocks | None]:
    """C and T of what heads of finite size give, by drawn heads.

    Args:
        node: What kind of attention.
        kernels: Of queries, keys and values.
        tangents: Likewise, if they are wanted.
        seed: Which draws.
        mask: 1 at the keys that are there; ``None`` if all are.
        most: How many heads are drawn where these are cheap.
    """
    Kq, Kk, Kv = kernels
    inputs, places, size = len(Kq), max(Kq.shape[-1], Kk.shape[-1]), node.size
    channels = 1 if node.is_plain or tangents is None else size  # that are followed one by one
    work = (inputs * places) ** 2 * places * channels
    turn = max(1, len(node.bias))
    heads = -(-int(np.clip(_WORK // work, _FEWEST, most)) // turn) * turn
    keys_there = None if mask is None else mask[:, None, None]
    q, k = (_channels(K, heads * size, (*seed, side)) for side, K in enumerate((Kq, Kk)))
    C = np.zeros_like(Kq)
    T = None if tangents is None else np.zeros_like(Kq)
    step = max(1, _AT_ONCE // max(1, inputs * places * max(places * channels, size)) // turn) * turn
    for start in range(0, heads, step):
        own = slice(start * size, min(heads, start + step) * size)
        Q, K = (np.moveaxis(v[..., own].reshape(*v.shape[:2], -1, size), 2, 1) for v in (q, k))
        logits = logits_of(node, Q, K, np)
        p = attention(node, logits, np, mask=keys_there)
        # What a change of the logits moves: by itself, of softmax, or by a function of each.
        moved = p
        if node.sigma is not None:
            there = seen(node, logits.shape[-2:], keys_there)
            moved = there * node.sigma.derivatives[1](logits)
        of_logits = None if tangents is None else _changes(node, moved, Q, K)
        for a in range(inputs):
            for b in range(a, inputs):
                C[a, b] += _sum(p[a] @ Kv[a, b] @ p[b].swapaxes(-1, -2))
                if T is not None and tangents is not None and of_logits is not None:
                    T[a, b] += _sum(p[a] @ tangents[2][a, b] @ p[b].swapaxes(-1, -2))
                    T[a, b] += of_logits(a, b, Kv[a, b], tangents[0][a, b], tangents[1][a, b])
    return _whole(C / heads), None if T is None else _whole(T / heads)


def _changes(node: Attend, p: np.ndarray, Q: np.ndarray, K: np.ndarray) -> Callable[..., Any]:
    """Tangents of queries and keys seen through the logits; p are the slopes of a function of each of these.

    A function of two inputs, by their numbers, and of C_v, T_q and T_k between them.
    """
    softmax = node.sigma is None
    if node.is_plain:
        scale = float(node.size) ** -node.power

        def plain(a: int, b: int, C: Any, Tq: Any, Tk: Any) -> Any:
            both = p[[a, b]]
            keys, queries = (X[a] @ X[b].swapaxes(-1, -2) for X in (K, Q))
            found = Tq * _changed(both, both, C, keys, softmax=softmax)
            found += _changed(both, both, C, Tk, softmax=softmax) * queries
            return scale**2 * _sum(found)

        return plain
    # (input, head, channel, position, other)
    by_query, by_key = (
        p[:, :, None] * np.moveaxis(s, -1, 2) for s in slopes_of_logits(node, Q, K, np)
    )
    if softmax:
        by_query -= p[:, :, None] * by_query.sum(axis=-1, keepdims=True)

    def by_channels(a: int, b: int, C: Any, Tq: Any, Tk: Any) -> Any:
        found = _sum(_sum(by_query[a] @ C @ by_query[b].swapaxes(-1, -2))) * Tq
        own = _changed(by_key[[a, b]], p[[a, b], :, None], C, Tk, softmax=softmax)
        return found + _sum(_sum(own))

    return by_channels


def _changed(
    w: np.ndarray, p: np.ndarray, C: np.ndarray, X: np.ndarray, *, softmax: bool
) -> np.ndarray:
    """F[X], head by head, with w for the p that stands beside X."""
    left, right = w[0], w[1].swapaxes(-1, -2)
    found = left @ (X * C) @ right
    if not softmax:
        return found
    pC, Cp = p[0] @ C, C @ p[1].swapaxes(-1, -2)
    pX = left @ X
    found -= (pC * pX) @ right
    found -= left @ (Cp * (X @ right))
    return found + (p[0] @ Cp) * (pX @ right)


def _channels(K: Blocks | Keys, count: int, seed: tuple[int, ...]) -> np.ndarray:
    """(input, place, channel), a whole number of heads."""
    inputs, places = len(K), K.shape[-1]
    whole = K.swapaxes(1, 2).reshape(inputs * places, -1)
    half = -(-count // 2)
    power = 1 << (half - 1).bit_length()
    drawn = rooted(whole) @ normals(len(whole), power, seed)
    order = np.random.default_rng(seed).permutation(drawn.shape[1])[:count]
    return drawn[:, order].reshape(inputs, places, count)


def _sum(heads: np.ndarray) -> np.ndarray:
    return heads.sum(axis=0)


def _whole(upper: Blocks) -> Blocks:
    """From pairs a <= b to all."""
    for a, b in np.ndindex(upper.shape[:2]):
        if a > b:
            upper[a, b] = upper[b, a].T
    return upper
