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

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from scalewise.nets._networks import traced
from scalewise.networks import Network
from scalewise.networks._program import Draw, Norm, Pointwise, Program, Source, Sum
from scalewise.networks._sites import IDENTITY, Matrix, Taps, Window

Weights = dict[int, tuple[Any, Any]]


@dataclass(frozen=True)
class Drawn:
    """A program with the numbers that its networks need.

    Args:
        program: The nodes.
        layers: Layers that are measured, each of one site; the highest is nobody's input.
        slopes: Whether their NTKs are wanted.
    """

    program: Program
    layers: tuple[int, ...]
    slopes: bool

    @property
    def weighted(self) -> list[int]:
        """The random layers that are drawn: what lies below those that are measured."""
        nodes = self.program.nodes
        below = (
            read
            for layer in self.layers
            for part, _ in self.parts(layer)
            for read in self.read(part)
        )
        return [k for k in self.program.behind(below) if isinstance(nodes[k], Draw)]

    def parts(self, layer: int) -> list[tuple[int, float]]:
        """The fields that a layer adds up, with their factors."""
        return self.program.parts(self.program.layers[layer - 1])

    def read(self, part: int) -> tuple[int, ...]:
        """What a random layer, over whose weights is averaged, reads; another field itself."""
        node = self.program.nodes[part]
        return node.of if isinstance(node, Draw) else (part,)

    def entries(self, part: int) -> int:
        """How many numbers enter an average over a field."""
        node, channels = self.program.nodes[part], self.program.channels[part]
        return self.program.fan_in(part) if isinstance(node, Draw) else channels

    @property
    def sizes(self) -> list[tuple[int, ...]]:
        """Shapes of the random numbers of a network: weights and biases, then signs."""
        shapes: list[tuple[int, ...]] = []
        for node in self.weighted:
            channels = self.program.channels[node]
            shapes += [(self.program.fan_in(node), channels), (channels,)]
        if self.slopes:
            shapes += [(self.entries(k),) for layer in self.layers for k, _ in self.parts(layer)]
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
        )
        gradients = max((program.fan_in(k) * program.channels[k] for k in self.weighted), default=0)
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
            assert isinstance(made, Draw)
            C_b, C_W = made.own.C_b, made.own.C_W / self.program.fan_in(node)
            weights[node] = math.sqrt(C_W) * shaped[2 * k], math.sqrt(C_b) * shaped[2 * k + 1]
        signs = [jnp.where(s < 0, -1.0, 1.0).astype(s.dtype) for s in shaped[2 * len(weights) :]]
        return weights, signs


def entering(x: Any, windows: Sequence[Taps], sizes: Sequence[int]) -> Any:
    """What the taps of windows see: (sample, *positions, taps times channels)."""
    for axis, (window, size) in enumerate(zip(windows, sizes, strict=True), 1):
        if window.is_identity:
            continue
        index = np.zeros((window.length(size), window.taps), dtype=int)
        there = np.zeros(index.shape, dtype=bool)
        for tap, pieces in enumerate(window.pieces(size)):
            for piece in pieces:
                index[piece.to, tap] = np.arange(size)[piece.of]
                there[piece.to, tap] = True
        seen = jnp.take(x, index, axis=axis)  # (..., place, tap, ..., taps of axes before, channel)
        if not there.all():
            seen = seen * there.reshape(*there.shape, *(1,) * (seen.ndim - axis - 2)).astype(
                x.dtype
            )
        x = jnp.moveaxis(seen, axis + 1, -2)
    positions = x.shape[: 1 + len(windows)]
    return x.reshape(*positions, -1)


def spread(x: Any, along: Sequence[Window | Matrix], sizes: Sequence[int]) -> Any:
    """A fixed map of positions: matrices, and sums over the taps of windows."""
    for axis, own in enumerate(along, 1):
        if isinstance(own, Matrix):
            x = jnp.moveaxis(jnp.tensordot(own.array.astype(x.dtype), x, (1, axis)), 0, axis)
    channels = x.shape[-1]
    windows = [IDENTITY if isinstance(own, Matrix) else own for own in along]
    seen = entering(x, windows, sizes)
    return seen.reshape(*seen.shape[:-1], -1, channels).sum(axis=-2)


def normed(x: Any, node: Norm) -> Any:
    """Channels over their root mean square."""
    if node.centred:
        x = x - x.mean(axis=-1, keepdims=True)
    return x / jnp.sqrt((x * x).mean(axis=-1, keepdims=True) + node.eps)


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
        if any(b is None for b in below) or (isinstance(node, Draw) and here not in weights):
            found.append(None)
        elif isinstance(node, Source):
            found.append(x)
        elif isinstance(node, Draw):
            W, b = weights[here]
            seen[here] = entering(below[0], node.windows, program.positions[node.of[0]])
            z = seen[here] @ W + b
            found.append(z + nudges[here] if here in nudges else z)
        elif isinstance(node, Pointwise):
            found.append(traced(node.sigma)(below[0]))
        elif isinstance(node, Norm):
            found.append(normed(below[0], node))
        elif isinstance(node, Sum):
            found.append(sum(f * b for f, b in zip(node.factors, below, strict=True)))
        else:
            sizes = program.positions[node.of[0]]
            found.append(node.factor * spread(below[0], node.along, sizes))
    return found, seen


def last_entering(program: Program, found: list[Any], node: int) -> Any:
    """What enters the weights of a random layer, or the channels of another field: (sample, numbers)."""
    made = program.nodes[node]
    if isinstance(made, Draw):
        seen = entering(found[made.of[0]], made.windows, program.positions[made.of[0]])
    else:
        seen = found[node]
    return seen.reshape(len(seen), -1)


def metric_and_ntk(
    drawn: Drawn, weights: Weights, x: Any, layer: int, signs: list[Any]
) -> tuple[Any, Any]:
    """Of one network, averaged over the weights of one layer; the second means nothing without slopes."""
    program, ends = drawn.program, drawn.parts(layer)
    below = max(k for end, _ in ends for k in drawn.read(end))
    samples = len(x)
    shapes = {
        k: (samples, *program.positions[k], program.channels[k]) for k in weights if k <= below
    }

    def probed(nudges: dict[int, Any]) -> tuple[Any, tuple[list[Any], dict[int, Any]]]:
        found, seen = fields(program, weights, x, nudges, below)
        features = [last_entering(program, found, end) for end, _ in ends]
        total = 0.0
        if drawn.slopes:
            for (end, factor), u, s in zip(ends, features, signs, strict=True):
                total = total + factor * _scale(program, end, u.shape[1]) * (u @ s).sum()
        return total, (features, seen)

    zero = {k: jnp.zeros(shape, x.dtype) for k, shape in shapes.items()}
    if drawn.slopes and zero:
        back, (features, seen) = jax.grad(probed, has_aux=True)(zero)
    else:
        _, (features, seen) = probed({})
        back = {}
    G, H = 0.0, 0.0
    for (end, factor), u in zip(ends, features, strict=True):
        gram, made = factor**2 * (u @ u.T) / u.shape[1], program.nodes[end]
        if isinstance(made, Draw):
            own = made.own
            G = G + factor**2 * own.C_b + own.C_W * gram
            H = H + factor**2 * own.lambda_b + own.lambda_W * gram
        else:
            G = G + gram
    for k, delta in back.items():
        H = H + _by_weights(program.nodes[k], seen[k], delta)
    return G, H


def _scale(program: Program, node: int, count: int) -> float:
    made = program.nodes[node]
    return math.sqrt((made.own.C_W if isinstance(made, Draw) else 1.0) / count)


def _by_weights(node: Any, u: Any, delta: Any) -> Any:
    """What a random layer gives to the NTK: products of gradients by its weights and biases."""
    samples, own = len(u), node.own
    u, delta = (v.reshape(samples, -1, v.shape[-1]) for v in (u, delta))
    sites, m, n = u.shape[1], u.shape[2], delta.shape[2]
    bias = delta.sum(axis=1)
    if samples * sites**2 * (m + n) < m * n * (sites + samples):
        rows, entries = (v.reshape(-1, v.shape[-1]) for v in (delta, u))
        each = (rows @ rows.T) * (entries @ entries.T)
        weight = each.reshape(samples, sites, samples, sites).sum(axis=(1, 3))
    else:
        gradient = jnp.einsum("apm,apn->amn", u, delta).reshape(samples, -1)
        weight = gradient @ gradient.T
    return own.lambda_b * (bias @ bias.T) + own.lambda_W / m * weight


def measured_layers(net: Network) -> tuple[int, ...]:
    """The layers of one site that fluctuate, or that weights of others are averaged over."""
    return tuple(
        layer for layer in range(1, net.depth + 1) if net.program.has_one_site(layer) and layer > 1
    )


def first_layer(net: Network, x: np.ndarray, *, ntk: bool = False) -> np.ndarray:
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
