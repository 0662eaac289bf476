r"""$G^{\{1\}}$ of weights that are not normal, by single units: fourth cumulants move the law of each.

Given the layer below, a neuron $z=Lg$ with standard normal $g$ has the fourth cumulant of a sum over $k$ taps and
$n$ channels, $\kappa\,C_W^2/k^2n\sum_\tau\langle x_\tau^{\otimes4}\rangle$ with $x_\tau$ what a channel gives to
all labels through a tap. To order $1/n$ its density is that of $g$ times
$$1+w(g),\qquad w(g)=\frac{\kappa\,C_W^2}{24\,k^2n}\sum_\tau\big\langle
  (g\cdot v)^4-6v^2(g\cdot v)^2+3v^4\big\rangle,\qquad v=L^{-1}x_\tau,$$
Hermite's polynomial of degree 4 along each $v$; a metric $R$ shifts by $\mathbb E_g[R'w]$ with its influence $R'$.

Source: derived, by Edgeworth's expansion.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from scalewise.networks.spi import Draw, Program, entering
from scalewise.theory.order._given import equal
from scalewise.theory.order._influences import slopes
from scalewise.theory.order._particles import Particles, Weights, rooted, whitened
from scalewise.theory.order._populations import populations

_AT_ONCE, _MOST = 1024, 2048  # channels together, and of one layer that are looked at

Fields = Mapping[int, Any]


@partial(jax.jit, static_argnames=("program", "ends"))
def shift_of_laws(fixed: Fields, paths: Fields, *, program: Program, ends: tuple[int, ...]) -> Any:
    r"""The contribution of laws of weights to metrics, the pairs $a\le b$ of each layer one after the other.

    Args:
        fixed: Fields without weights.
        paths: Of random layers.
        program: The nodes.
        ends: The layers.
    """
    own = populations(program, ends)
    weights = equal(own, paths)

    def metrics(now: Weights) -> Any:
        made = Particles.run(program, ends, fixed, now, paths=paths)
        found = [made.metric(end) for end in ends]
        return jnp.concatenate([metric[np.triu_indices(len(metric))] for metric in found])

    count, found = slopes(metrics, weights)
    made = Particles.run(program, ends, fixed, weights, paths=paths)
    total = jnp.zeros_like(count)
    for draw, calls in made.calls.items():
        node, p = program.nodes[draw], own.drawn[draw]
        assert isinstance(node, Draw)
        if node.own.law.excess:
            moved = found[p] - found[p].mean(axis=-1, keepdims=True)
            score = _score(made, node, calls).reshape(moved.shape[-1], own.inner[draw]).sum(axis=1)
            total = total + moved @ score / moved.shape[-1]
    return total


def _score(made: Particles, node: Draw, calls: list[int]) -> Any:
    """$w$ of each channel of random layers that have the same weights."""
    program, (first, *_) = made.program, calls
    scale, L = rooted(made.joint(made.covariances, calls))
    g = whitened(scale, L, jnp.concatenate([made.flat(k) for k in calls]))
    some, shares = _some(made, node.of[0])
    x = jnp.concatenate([_taps(made, k)[..., some] for k in calls])
    if not node.shared:  # each place is a tap of its own
        sizes = [math.prod(program.positions[k]) for k in calls]
        where = np.concatenate(
            [np.arange(made.labels(k)) % size for k, size in zip(calls, sizes, strict=True)]
        )
        alone = (where[:, None] == np.arange(sizes[0])).astype(float)
        x = (alone[:, :, None, None] * x[:, None]).reshape(len(x), -1, x.shape[-1])
    shares = jnp.broadcast_to(shares, x.shape[1:]).ravel()
    v = whitened(scale, L, x.reshape(len(x), -1))
    size = math.gcd(v.shape[1], _AT_ONCE)

    def part(some: tuple[Any, Any]) -> Any:
        own, share = some
        along, square = g.T @ own, (own * own).sum(axis=0)
        return (along**4 - 6 * square * along**2 + 3 * square**2) @ share

    chunks = jnp.moveaxis(v.reshape(len(v), -1, size), 1, 0), shares.reshape(-1, size)
    law, fan_in = node.own.law, program.fan_in(first)
    factor = law.excess * node.own.C_W**2 / (24 * node.taps * fan_in)
    return factor * jax.lax.map(part, chunks).sum(axis=0)


def _some(made: Particles, below: int) -> tuple[Any, Any]:
    """Channels with both signs of as many units as are looked at, and their shares."""
    shares = made.shares(below)
    count = shares.shape[0]
    if count <= _MOST or len(made.own.parts[below]) > 1:
        return slice(None), shares
    first = np.arange(_MOST // 2)
    both = np.concatenate([first, count // 2 + first])
    return both, shares[both] / shares[both].sum()


def _taps(made: Particles, here: int) -> Any:
    """Numbers that a random layer reads, (label, tap, channel)."""
    node = made.program.nodes[here]
    assert isinstance(node, Draw)
    (below,) = node.of
    seen = entering(made.fields[below], node.windows, made.program.positions[below], jnp)
    return seen.reshape(made.labels(here), node.taps, -1)
