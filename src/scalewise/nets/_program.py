r"""Really drawn networks of any layers: the program with weights, and what of a layer they are averaged over.

One draw, one forward pass and one pass back for each layer that is measured. With $u$ what enters the weights of a
layer, a sample's sites and taps in one vector of $m$ entries, the weights of that layer are averaged over exactly:
$$\widehat G=C_b+\frac{C_W}mu\cdot u',\qquad
  \widehat H=\lambda_b+\frac{\lambda_W}mu\cdot u'+\frac{C_W}m\sum_j\nabla u_j\cdot\nabla u_j',$$
the sum over $j$ by one random sign for each entry, which leaves it unbiased. A gradient by the weights of a layer
below is $\sum_p\delta(p)u(p)^T$ with $\delta$ what flows back into its outputs. As outputs of a sample depend on
that sample alone, one pass back gives the $\delta$ of all.

Source: PDLT (8.6), (8.12), (8.59); with site matrices derived.
"""

from __future__ import annotations

import itertools
import math
from dataclasses import dataclass
from functools import partial
from statistics import NormalDist
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from scalewise.nets._networks import traced
from scalewise.networks._architecture import Architecture
from scalewise.networks._forward import entering, forward
from scalewise.networks._program import Draw, Dropout, Program, Source

Weights = dict[int, tuple[Any, Any]]
Part = tuple[tuple[int, float], ...]  # fields with factors, that are added up


@dataclass(frozen=True)
class Drawn:
    """A program with the numbers that its networks need.

    Args:
        program: The nodes.
        layers: Layers that are measured, each of one site; the highest is nobody's input.
        slopes: Whether their NTKs are wanted.
        samples: How many inputs: masks are drawn for each.
    """

    program: Program
    layers: tuple[int, ...]
    slopes: bool
    samples: int = 0

    @property
    def weighted(self) -> list[int]:
        """The random layers that are drawn: what lies below those that are measured."""
        nodes = self.program.nodes
        below = (k for layer in self.layers for part in self.parts(layer) for k in self.read(part))
        found = (k for k in self.program.behind(below) if isinstance(nodes[k], Draw | Dropout))
        return sorted({self.program.weights_of(k) for k in found})

    def parts(self, layer: int) -> list[Part]:
        """The fields that a layer adds up."""
        return self.program.parts(self.program.layers[layer - 1])

    def averaged(self, part: Part) -> Draw | None:
        """The random layer over whose weights a part is averaged."""
        made = self.program.nodes[part[0][0]]
        return made if isinstance(made, Draw) and self.program.averages_out(part) else None

    def read(self, part: Part) -> tuple[int, ...]:
        """What a random layer, over whose weights is averaged, reads; other fields themselves."""
        own = self.averaged(part)
        return own.of if own else tuple(k for k, _ in part)

    def entries(self, part: Part) -> int:
        """How many numbers enter an average over a field."""
        node, own = part[0][0], self.averaged(part)
        if own is None:
            return self.program.channels[node]
        return self.program.fan_in(node) * own.groups

    @property
    def sizes(self) -> list[tuple[int, ...]]:
        """Shapes of the random numbers of a network: weights and biases, then signs."""
        shapes: list[tuple[int, ...]] = []
        for node in self.weighted:
            channels, sites = self.program.channels[node], self.program.positions[node]
            if isinstance(self.program.nodes[node], Dropout):
                shapes += [(self.samples, *sites, channels), ()]
                continue
            places = self.program.places(node)
            lead = (places,) if places > 1 else ()
            shapes += [(*lead, self.program.fan_in(node), channels), (*lead, channels)]
        if self.slopes:
            shapes += [(self.entries(k),) for layer in self.layers for k in self.parts(layer)]
        return shapes

    def floats(self, samples: int) -> int:
        """Roughly how many numbers a network takes at once."""
        program = self.program
        sites = sum(
            math.prod(program.positions[k]) * program.channels[k] * (3 if self.slopes else 2)
            for k in range(len(program.nodes))
        )
        windows = sum(
            math.prod(program.positions[k]) * program.fan_in(k) * (3 if self.slopes else 2)
            for k in self.weighted
            if isinstance(program.nodes[k], Draw)
        )
        drawn = [k for k in self.weighted if isinstance(program.nodes[k], Draw)]
        gradients = max((program.fan_in(k) * program.channels[k] for k in drawn), default=0)
        own = sum(math.prod(size) for size in self.sizes)
        return own * 3 + samples * (sites + windows + gradients * self.slopes)

    def drawn_from(self, numbers: Any) -> tuple[Weights, list[Any]]:
        """Weights, biases and signs from the numbers of one network."""
        offsets = np.cumsum([0, *map(math.prod, self.sizes)])
        shaped = [
            numbers[a:b].reshape(shape)
            for a, b, shape in zip(offsets[:-1], offsets[1:], self.sizes, strict=True)
        ]
        weights: Weights = {}
        for k, node in enumerate(self.weighted):
            made = self.program.nodes[node]
            if isinstance(made, Dropout):
                limit = NormalDist().inv_cdf(made.keep) if made.keep < 1 else math.inf
                below = shaped[2 * k] < limit
                weights[node] = below.astype(shaped[2 * k].dtype) / made.keep, None
                continue
            assert isinstance(made, Draw)
            C_b, C_W = made.own.C_b, made.own.C_W / self.program.fan_in(node)
            weights[node] = math.sqrt(C_W) * shaped[2 * k], math.sqrt(C_b) * shaped[2 * k + 1]
        signs = [jnp.where(s < 0, -1.0, 1.0).astype(s.dtype) for s in shaped[2 * len(weights) :]]
        return weights, signs


def fields(
    program: Program, weights: Weights, x: Any, nudges: dict[int, Any], last: int
) -> tuple[list[Any], dict[int, Any]]:
    """Every field (sample, *positions, channels) up to a node that its weights allow, and what enters the weights.

    `nudges` are added to the outputs of random layers: to differentiate by them.
    """
    found: list[Any] = []
    seen: dict[int, Any] = {}
    for here, node in enumerate(program.nodes[: last + 1]):
        below = [found[k] for k in node.of]
        lacking = isinstance(node, Draw | Dropout) and program.weights_of(here) not in weights
        if any(b is None for b in below) or lacking:
            found.append(None)
        elif isinstance(node, Source):
            found.append(x)
        elif isinstance(node, Draw):
            W, b = weights[program.weights_of(here)]
            seen[here] = entering(below[0], node.windows, program.positions[node.of[0]], jnp)
            z = (_times(seen[here], W, node) + b).reshape(*seen[here].shape[:-1], -1)
            found.append(z + nudges[here] if here in nudges else z)
        elif isinstance(node, Dropout):
            found.append(weights[here][0] * below[0])
        else:
            found.append(forward(node, below, program.positions[node.of[0]], jnp, traced))
    return found, seen


def last_entering(program: Program, found: list[Any], node: int) -> Any:
    """What enters the weights of a random layer: (sample, numbers)."""
    made = program.nodes[node]
    assert isinstance(made, Draw)
    seen = entering(found[made.of[0]], made.windows, program.positions[made.of[0]], jnp)
    return seen.reshape(len(seen), -1)


def metric_and_ntk(
    drawn: Drawn, weights: Weights, x: Any, layer: int, signs: list[Any]
) -> tuple[Any, Any]:
    """Of one network, averaged over the weights of one layer; the second means nothing without slopes."""
    program, ends = drawn.program, drawn.parts(layer)
    below = max(k for end in ends for k in drawn.read(end))
    samples = len(x)
    drawn_below = [
        k
        for k, node in enumerate(program.nodes[: below + 1])
        if isinstance(node, Draw) and program.weights_of(k) in weights
    ]

    def probed(nudges: dict[int, Any]) -> tuple[Any, tuple[list[Any], dict[int, Any]]]:
        found, seen = fields(program, weights, x, nudges, below)
        features, total = [], 0.0
        for end in ends:
            if drawn.averaged(end):
                ((node, factor),) = end
                features.append(factor * last_entering(program, found, node))
            else:
                features.append(sum(f * found[k].reshape(samples, -1) for k, f in end))
        if drawn.slopes:
            for end, u, s in zip(ends, features, signs, strict=True):
                own = drawn.averaged(end)
                total = total + math.sqrt((own.own.C_W if own else 1.0) / len(s)) * (u @ s).sum()
        return total, (features, seen)

    zero = {
        k: jnp.zeros((samples, *program.positions[k], program.channels[k]), x.dtype)
        for k in drawn_below
    }
    if drawn.slopes and zero:
        back, (features, seen) = jax.grad(probed, has_aux=True)(zero)
    else:
        _, (features, seen) = probed({})
        back = {}
    G, H = 0.0, 0.0
    for end, u in zip(ends, features, strict=True):
        gram, made = (u @ u.T) / u.shape[1], drawn.averaged(end)
        if made:
            own, square = made.own, end[0][1] ** 2
            G = G + square * own.C_b + own.C_W * gram
            H = H + square * own.lambda_b + own.lambda_W * gram
        else:
            G = G + gram
    return G, H + by_all_weights(program, seen, back)


def by_all_weights(program: Program, seen: dict[int, Any], back: dict[int, Any]) -> Any:
    """What all random layers give to the NTK, from what enters them and what flows back into their outputs."""
    total, uses = 0.0, {}
    for k in back:
        if k in seen:
            uses.setdefault(program.weights_of(k), []).append(k)
    for first, nodes in uses.items():
        node = program.nodes[first]
        assert isinstance(node, Draw)
        total = total + by_weights(node, [seen[k] for k in nodes], [back[k] for k in nodes])
    return total


def _grouped(u: Any, node: Draw) -> Any:
    """What enters a random layer, group by group: (sample, site, group, number)."""
    apart = u.reshape(len(u), -1, node.taps, node.groups, u.shape[-1] // node.taps // node.groups)
    return jnp.moveaxis(apart, 3, 2).reshape(*apart.shape[:2], node.groups, -1)


def _times(u: Any, W: Any, node: Draw) -> Any:
    """What enters a random layer times its weights; (sample, site, channel) where there are several sets."""
    if W.ndim == 3:
        return jnp.einsum("spm,pmn->spn", u.reshape(len(u), len(W), -1), W)
    if node.groups == 1:
        return u @ W
    apart = jnp.einsum("spgm,mgn->spgn", _grouped(u, node), W.reshape(len(W), node.groups, -1))
    return apart.reshape(*apart.shape[:2], -1)


def by_weights(node: Draw, us: list[Any], deltas: list[Any]) -> Any:
    """What a random layer gives to the NTK: products of gradients by its weights and biases.

    Args:
        node: The layer.
        us: What enters it, wherever its weights are used.
        deltas: What flows back into its outputs there.
    """
    samples, own = len(us[0]), node.own
    flat = [delta.reshape(samples, -1, delta.shape[-1]) for delta in deltas]
    if not node.shared:
        seen = [u.reshape(samples, d.shape[1], -1) for u, d in zip(us, flat, strict=True)]
        total = 0.0
        for (u, d), (v, e) in itertools.product(zip(seen, flat, strict=True), repeat=2):
            slopes, entries = (jnp.einsum("apm,bpm->pab", *both) for both in ((d, e), (u, v)))
            total = total + own.lambda_b * slopes.sum(axis=0)
            total = total + own.lambda_W / u.shape[2] * (slopes * entries).sum(axis=0)
        return total
    u = _together([_grouped(u, node) for u in us])
    delta = _together(flat)
    bias = delta.sum(axis=1)
    apart = delta.reshape(*u.shape[:3], -1)
    weight = sum(_products(u[:, :, g], apart[:, :, g]) for g in range(node.groups))
    return own.lambda_b * (bias @ bias.T) + own.lambda_W / u.shape[3] * weight


def _together(parts: list[Any]) -> Any:
    """The sites of some fields after one another."""
    return parts[0] if len(parts) == 1 else jnp.concatenate(parts, axis=1)


def _products(u: Any, delta: Any) -> Any:
    """Products of gradients by weights that all sites share: of what enters (sample, site, m), and flows back."""
    samples, sites, m = u.shape
    n = delta.shape[2]
    if samples * sites**2 * (m + n) < m * n * (sites + samples):
        rows, entries = (v.reshape(-1, v.shape[-1]) for v in (delta, u))
        each = (rows @ rows.T) * (entries @ entries.T)
        return each.reshape(samples, sites, samples, sites).sum(axis=(1, 3))
    gradient = jnp.einsum("apm,apn->amn", u, delta).reshape(samples, -1)
    return gradient @ gradient.T


def measured_layers(net: Architecture) -> tuple[int, ...]:
    """The layers of one site that fluctuate, or that weights of others are averaged over."""
    return tuple(layer for layer in net.layers_of_one_site if layer > 1)


def first_layer(net: Architecture, x: np.ndarray, *, ntk: bool = False) -> np.ndarray:
    """What does not fluctuate: the metric, or the NTK, of a first layer of one site."""
    program = net.program
    node = program.nodes[program.draws[0]]
    assert isinstance(node, Draw)
    below, _ = fields(program, {}, x, {}, node.of[0])
    u = np.asarray(last_entering(program, below, program.draws[0]), np.float64)
    own, gram = node.own, u @ u.T / u.shape[1]
    return own.lambda_b + own.lambda_W * gram if ntk else own.C_b + own.C_W * gram


@partial(jax.jit, static_argnames="drawn")
def sample_program(numbers: Any, x: Any, *, drawn: Drawn) -> tuple[Any, Any]:
    """Metrics and NTKs of a batch: (network, layer, sample, sample) each."""

    def one(own: Any) -> tuple[Any, Any]:
        weights, signs = drawn.drawn_from(own)
        metrics, ntks, used = [], [], 0
        for layer in drawn.layers:
            count = len(drawn.parts(layer))
            G, H = metric_and_ntk(drawn, weights, x, layer, signs[used : used + count])
            used += count
            metrics.append(G)
            ntks.append(H)
        return jnp.stack(metrics), jnp.stack(ntks)

    return jax.vmap(one)(numbers)
