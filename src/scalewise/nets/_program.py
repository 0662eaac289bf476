r"""Really drawn networks of any layers: the program with weights, and what of a layer they are averaged over.

One draw, one forward pass and one pass back for each layer that is measured. With $u$ what enters the weights of a
layer, a sample's sites and taps in one vector of $m$ entries, the weights of that layer are averaged over exactly:
$$\widehat G=C_b+\frac{C_W}mu\cdot u',\qquad
  \widehat H=\lambda_b+\frac{\lambda_W}mu\cdot u'+\frac{C_W}m\sum_j\nabla u_j\cdot\nabla u_j',$$
the sum over $j$ by one random sign for each entry, which leaves it unbiased.

Source: PDLT (8.6), (8.12), (8.59); with site matrices derived.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from functools import cached_property, partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from scalewise.nets._drawn import DrawnNumbers
from scalewise.networks import Network
from scalewise.networks.spi import Draw, Program, Weights, fields, last_entering, rates_of
from scalewise.networks.spi_jax import by_all_weights, forward, nothing

Part = tuple[tuple[int, float], ...]  # fields with factors, that are added up


@dataclass(frozen=True)
class DrawnProgram:
    """A program with the numbers that its networks need.

    Args:
        program: The nodes.
        layers: Layers that are measured, each of one site; the highest is nobody's input.
        slopes: Whether their NTKs are wanted.
        samples: How many inputs: masks are drawn for each.
        halves: Whether metrics by either half of the neurons are wanted, where no weights are averaged over.
    """

    program: Program
    layers: tuple[int, ...]
    slopes: bool
    samples: int = 0
    halves: bool = False

    @cached_property
    def numbers(self) -> DrawnNumbers:
        """The numbers: weights of what lies below the layers that are measured, and signs."""
        parts = [(layer, part) for layer in self.layers for part in self.parts(layer)]
        read = tuple(k for _, part in parts for k in self.read(part))
        signs = tuple(self.entries(part) for _, part in parts) if self.slopes else ()
        return DrawnNumbers(self.program, read, self.samples, signs)

    @property
    def sizes(self) -> list[tuple[int, ...]]:
        """Shapes of the random numbers of a network: weights and biases, then signs."""
        return self.numbers.sizes

    def parts(self, layer: int) -> list[Part]:
        """The fields that a layer adds up; by halves, all that is added up in each neuron."""
        if self.halves:
            return [((self.program.layers[layer - 1], 1.0),)]
        return self.program.parts(self.program.layers[layer - 1])

    def averaged(self, part: Part) -> Draw | None:
        """The random layer over whose weights a part is averaged."""
        made = self.program.nodes[part[0][0]]
        return made if isinstance(made, Draw) and self.program.averages_out(part) else None

    def read(self, part: Part) -> tuple[int, ...]:
        """Fields read by a random layer whose weights are averaged over; other fields themselves."""
        own = self.averaged(part)
        return own.of if own else tuple(k for k, _ in part)

    def entries(self, part: Part) -> int:
        """How many numbers enter an average over a field."""
        node, own = part[0][0], self.averaged(part)
        if own is None:
            return self.program.channels[node]
        return self.program.fan_in(node) * own.groups

    def floats(self, samples: int) -> int:
        """Roughly how many numbers a network takes at once."""
        program = self.program
        sites = sum(
            math.prod(program.positions[k]) * program.channels[k] * (3 if self.slopes else 2)
            for k in range(len(program.nodes))
        )
        windows = sum(
            math.prod(program.positions[k]) * program.fan_in(k) * (3 if self.slopes else 2)
            for k in self.numbers.weighted
            if isinstance(program.nodes[k], Draw)
        )
        drawn = [k for k in self.numbers.weighted if isinstance(program.nodes[k], Draw)]
        gradients = max((program.fan_in(k) * program.channels[k] for k in drawn), default=0)
        own = sum(math.prod(size) for size in self.sizes)
        return own * 3 + samples * (sites + windows + gradients * self.slopes)

    def drawn_from(self, numbers: Any) -> tuple[Weights, list[Any]]:
        """Weights, biases and signs from the numbers of one network."""
        return self.numbers.drawn_from(numbers)


def metric_and_ntk(
    drawn: DrawnProgram,
    weights: Weights,
    x: Any,
    layer: int,
    signs: list[Any],
    neurons: slice = slice(None),
) -> tuple[Any, Any]:
    """Metric and NTK of a network, averaged over weights of one layer; the NTK means nothing without slopes.

    Args:
        drawn: The program with its numbers.
        weights: Of the network.
        x: Inputs.
        layer: Which.
        signs: For the trace of the NTK.
        neurons: Over which neurons is averaged where a part has no weights to average over.
    """
    program, ends = drawn.program, drawn.parts(layer)
    below = max(k for end in ends for k in drawn.read(end))
    samples, rates = len(x), rates_of(program)

    def probed(nudges: dict[int, Any]) -> tuple[Any, tuple[list[Any], dict[int, Any]]]:
        found, seen = forward(program, weights, x, nudges=nudges, last=below)
        features, total = [], 0.0
        for end in ends:
            if drawn.averaged(end):
                ((node, factor),) = end
                features.append(factor * last_entering(program, found, node, jnp))
            else:
                whole: Any = sum(f * found[k].reshape(samples, -1) for k, f in end)
                features.append(whole[:, neurons])
        if drawn.slopes:
            for end, u, s in zip(ends, features, signs, strict=True):
                own = drawn.averaged(end)
                total = total + math.sqrt((own.own.C_W if own else 1.0) / len(s)) * (u @ s).sum()
        return total, (features, seen)

    zero = {k: own for k, own in nothing(program, weights, x).items() if k <= below}
    if drawn.slopes and zero:
        back, (features, seen) = jax.grad(probed, has_aux=True)(zero)
    else:
        _, (features, seen) = probed({})
        back = {}
    G = H = jnp.zeros((samples, samples), features[0].dtype)
    for end, u in zip(ends, features, strict=True):
        gram, made = (u @ u.T) / u.shape[1], drawn.averaged(end)
        if made:
            own, square = made.own, end[0][1] ** 2
            G = G + square * own.C_b + own.C_W * gram
            H = H + square * own.lambda_b + own.lambda_W * gram
        else:
            G = G + gram
    if back:
        sides = {k: (seen[k], delta[None]) for k, delta in back.items() if k in seen}
        H = H + by_all_weights(program, rates, sides, sides)[0, :, 0]
    return G, H


def measured_layers(net: Network) -> tuple[int, ...]:
    """Layers of one site that are measured: all but the first, which does not fluctuate."""
    return tuple(layer for layer in net.layers_of_one_site if layer > 1)


def first_layer(net: Network, x: np.ndarray, *, ntk: bool = False) -> np.ndarray:
    """Metric or NTK of a first layer of one site, which do not fluctuate."""
    program = net.program
    node = program.nodes[program.draws[0]]
    assert isinstance(node, Draw)
    below, _ = fields(program, {}, x, last=node.of[0])
    u = last_entering(program, below, program.draws[0])
    own, gram = node.own, u @ u.T / u.shape[1]
    return own.lambda_b + own.lambda_W * gram if ntk else own.C_b + own.C_W * gram


@partial(jax.jit, static_argnames="drawn")
def sample_program(numbers: Any, x: Any, *, drawn: DrawnProgram) -> tuple[Any, Any, Any]:
    """Metrics and NTKs of a batch: (network, layer, sample, sample) each; and metrics by halves, an axis before."""
    plain = replace(drawn, slopes=False)

    def half(weights: Weights, first: int) -> Any:
        neurons = slice(first, None, 2)
        return jnp.stack(
            [metric_and_ntk(plain, weights, x, k, [], neurons)[0] for k in drawn.layers]
        )

    def one(own: Any) -> tuple[Any, Any, Any]:
        weights, signs = drawn.drawn_from(own)
        metrics, ntks, used = [], [], 0
        for layer in drawn.layers:
            count = len(drawn.parts(layer))
            G, H = metric_and_ntk(drawn, weights, x, layer, signs[used : used + count])
            used += count
            metrics.append(G)
            ntks.append(H)
        halves = jnp.stack([half(weights, k) for k in (0, 1)]) if drawn.halves else ()
        return jnp.stack(metrics), jnp.stack(ntks), halves

    metrics, ntks, halves = jax.vmap(one)(numbers)
    return metrics, ntks, jnp.moveaxis(halves, 1, 0) if drawn.halves else halves
