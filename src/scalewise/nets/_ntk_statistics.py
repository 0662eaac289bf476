r"""Fluctuations of the NTK in layers of one site, from the whole NTK of what two of their neurons read.

With $y$ what neurons read (`_neurons.py`) and $\Theta_{jk;\alpha\beta}$ its NTK, an average over the weights of the
layer leaves $\widehat G_{12}=C_b+y_1\cdot y_2$ and
$\omega_{12}=\frac{\lambda_W}{C_W}y_1\cdot y_2+\sum_j\Theta_{jj;12}$. Then
$A=n\,\mathrm{Cov}(\omega_{12},\omega_{34})$, $D=n\,\mathrm{Cov}(\widehat G_{12},\omega_{34})$, and $B$, $F$ are
$n$ times the means of $\sum_{jk}\Theta_{jk;12}\Theta_{jk;34}$ and $y_1^T\Theta_{34}y_2$: exact at any width. Given
the network below, different neurons are independent, so that their own weights add nothing to a covariance of two.

Where there are more entries than `ROWS`, neighbours are added up with random signs to as many groups. That leaves
sums over $j$, and over $j$ and $k$, without bias, if the two factors of a product have signs of their own.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property, partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from scalewise.nets._drawn import DrawnNumbers
from scalewise.nets._neurons import LayerNeurons
from scalewise.nets._passes import StepPasses
from scalewise.networks.spi import Program, Side, rates_of
from scalewise.networks.spi_jax import by_all_weights

ROWS = (
    128  # of the NTK: beyond it, an exact trace costs more than the networks that its noise would
)


@dataclass(frozen=True)
class Statistics:
    """Which layers of a program are measured.

    Args:
        program: The nodes.
        layers: Of one site.
        samples: How many inputs.
        parts: Of ``"joint"``, ``"B"`` and ``"F"``.
        rows: Entries, or groups of them, that the NTK is taken of.
    """

    program: Program
    layers: tuple[int, ...]
    samples: int
    parts: tuple[str, ...]
    rows: int = ROWS

    @cached_property
    def neurons(self) -> tuple[LayerNeurons, ...]:
        """Neurons of each layer."""
        return tuple(LayerNeurons(self.program, layer) for layer in self.layers)

    @cached_property
    def numbers(self) -> DrawnNumbers:
        """The random numbers: weights, and two signs of every entry where there are too many."""
        read = tuple(k for own in self.neurons for k in own.read)
        signs = tuple(
            own.entries for own in self.neurons for _ in range(2) if own.entries > self.rows
        )
        return DrawnNumbers(self.program, read, self.samples, signs)

    @property
    def in_pairs(self) -> bool:
        """True if two neurons of some layer have estimates of their own."""
        return any(not own.averaged or own.entries > self.rows for own in self.neurons)

    def floats(self) -> int:
        """Roughly how many numbers a network takes at once."""
        rows = max(min(own.entries, self.rows) * (1 + self.in_pairs) for own in self.neurons)
        whole = self.samples**2 * rows**2
        return self.numbers.floats(self.samples, rows + 1) + 3 * whole

    def own_signs(self, signs: list[Any]) -> list[list[Any]]:
        """Those of each layer."""
        rest = iter(signs)
        return [[next(rest), next(rest)] if own.entries > self.rows else [] for own in self.neurons]


def _vectors(neurons: LayerNeurons, signs: list[Any], rows: int) -> list[Any]:
    """Vectors of either neuron (row, entry): the entries themselves, or groups of neighbours with signs."""
    count = neurons.entries
    size = -(-count // rows)
    where = (np.arange(count) // size == np.arange(-(-count // size))[:, None]).astype(float)
    if size == 1:
        return [where[half > 0] for half in neurons.halves]
    return [where * half * sign for half, sign in zip(neurons.halves, signs, strict=True)]


def _of_layer(of: Statistics, passes: StepPasses, signs: list[Any]) -> dict[str, Any]:
    """One draw of each part in one layer of one network, flat."""
    neurons, samples = passes.neurons, len(passes.x)
    program, rates = neurons.program, rates_of(neurons.program)
    vectors = [v.astype(passes.x.dtype) for v in _vectors(neurons, signs, of.rows)]
    same = neurons.averaged and len(vectors[0]) == neurons.entries
    halves = [half.astype(passes.x.dtype) for half in neurons.halves]
    y, back = passes.sides()
    own = [back(v) for v in (vectors[:1] if same else vectors)]
    # With nothing random below a layer its NTK is the same in all networks.
    found: dict[str, Any] = {}
    if not neurons.above_random_layers:
        found = {part: jnp.zeros(samples**4) for part in of.parts if part != "joint"}
    if "B" in of.parts and neurons.above_random_layers:
        theta = by_all_weights(program, rates, own[0], own[-1])
        flat = jnp.moveaxis(theta, (1, 3), (0, 1)).reshape(samples**2, -1)
        found["B"] = jnp.swapaxes((flat @ flat.T).reshape((samples,) * 4), 1, 2).reshape(-1)
    if "F" in of.parts and neurons.above_random_layers:
        F = by_all_weights(program, rates, *(back(y * half) for half in halves))
        found["F"] = F.reshape(-1)
    if "joint" in of.parts:
        a, b = np.triu_indices(samples)
        blocks = []
        sides = own * (2 if same and of.in_pairs else 1)
        for half, side in zip(halves, sides, strict=False):
            gram = (y * half) @ y.T
            omega = neurons.rate * gram + _trace(program, rates, side)
            blocks += [(neurons.C_b + gram)[a, b], omega[a, b]]
        found["joint"] = jnp.concatenate(blocks)
    return found


def _trace(program: Program, rates: dict[int, Any], sides: dict[int, Side]) -> Any:
    """The sum over rows of the NTK of each."""
    if not sides:
        return 0.0

    def one(deltas: dict[int, Any]) -> Any:
        single = {k: (sides[k][0], delta[None]) for k, delta in deltas.items()}
        return by_all_weights(program, rates, single, single)[0, :, 0]

    return jax.vmap(one)({k: delta for k, (_, delta) in sides.items()}).sum(axis=0)


@partial(jax.jit, static_argnames="of")
def sample_statistics(numbers: Any, x: Any, *, of: Statistics) -> dict[str, Any]:
    r"""Ingredients of the NTK statistics, for each network of a batch.

    Args:
        numbers: Standard normal numbers, (networks, as many as `of` needs).
        x: Inputs.
        of: Which layers, and what of them.

    Returns:
        ``"joint"``: metric and omega of the pairs a <= b, (networks, layers, 2 pairs), and those of another neuron
        behind if `of` is in pairs; covariances between them times the width below are V, D and A. The others: draws
        whose means times the width below are the tensors, (networks, layers, samples^4) in the printed order of
        their indices.

    Source: PDLT (8.68), (8.69), (8.83), (8.90); of any layers derived.
    """

    def one(own: Any) -> dict[str, Any]:
        weights, signs = of.numbers.drawn_from(own)
        layers = []
        for neurons, its in zip(of.neurons, of.own_signs(signs), strict=True):
            layers.append(_of_layer(of, StepPasses(neurons, weights, x), its))
        return {part: jnp.stack([found[part] for found in layers]) for part in of.parts}

    return jax.vmap(one)(numbers)
