r"""Draws of dNTK and ddNTK correlations in layers of one site, from steps along gradients of real networks.

The weights of the layer are averaged over analytically. With $y$ what two of its neurons read (`_neurons.py`), what
they leave are contractions of the differentials of $f_v=v\cdot y$: with $v=y_\alpha$ on a leg that meets the
preactivation of sample $\alpha$, and traces over pairs of legs, which random signs on both legs of a pair estimate
without bias. All of it is exact at any width. With brackets for contractions, $\xi$ and $\eta$ for the signs and
$\lambda=\lambda_W/C_W$ of the layer, the tensors are $n$ times

    P_0123 = dH[y_3, xi, xi]_012               tilde Q_0123 = dH[xi, xi, y_3]_012
    F_1324 = H[y_1, y_2]_34                    Q_0123 = tilde Q_0123 + lambda F_1032
    R_0123 = lambda P_0231 + dd_I[eta, eta, xi, xi]_0123
    S_1234 = lambda H[eta, xi]_13 H[eta, xi]_24 + dd_II[eta, eta, xi, xi]_1234
    T_1342 = lambda² F_3142 + lambda (tilde Q_2413 + tilde Q_1324) + dd_II[xi, eta, xi, eta]_1234
    U_1423 = dd_II[xi, eta, eta, xi]_1234

Where nothing is averaged over, $\lambda$ is 0, and the legs of two neurons are on two halves of $y$.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property, partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from scalewise.nets import _slopes as slopes
from scalewise.nets._drawn import DrawnNumbers
from scalewise.nets._neurons import LayerNeurons
from scalewise.nets._passes import StepPasses
from scalewise.nets._slopes import Gradients
from scalewise.networks.spi import Program

# Random signs for each network, paired in a ring: each is once xi and once eta. An even number, for two halves.
PROBES = 4
SECOND = frozenset("RSTU")  # what takes steps along two vectors of signs


@dataclass(frozen=True)
class Differentials:
    """Which layers of a program are measured.

    Args:
        program: The nodes.
        layers: Of one site.
        samples: How many inputs.
        parts: Tensors, by their letters.
        probes: How many vectors of signs.
    """

    program: Program
    layers: tuple[int, ...]
    samples: int
    parts: tuple[str, ...]
    probes: int = PROBES

    @cached_property
    def neurons(self) -> tuple[LayerNeurons, ...]:
        """Neurons of each layer."""
        return tuple(LayerNeurons(self.program, layer) for layer in self.layers)

    @cached_property
    def numbers(self) -> DrawnNumbers:
        """The random numbers: weights, and vectors of signs for each layer."""
        read = tuple(k for own in self.neurons for k in own.read)
        return DrawnNumbers(
            self.program,
            read,
            self.samples,
            tuple(self.probes * own.entries for own in self.neurons),
        )

    @property
    def second(self) -> bool:
        """True if ddNTKs are among the tensors."""
        return not SECOND.isdisjoint(self.parts)

    def floats(self) -> int:
        """Roughly how many numbers a network takes at once."""
        N = self.samples
        gradients = 1 + 3 * N + (N * (N + 1) // 2 if self.second else 0)  # of one vector of signs
        whole = N * self.probes * gradients * slopes.whole_gradients(self.program)
        return self.numbers.floats(N, 3 * self.probes * gradients) + whole


class _Ring(NamedTuple):
    """One network and its vectors of signs."""

    passes: StepPasses
    signs: Any  # (probe, entry), each on the half of its neuron
    y: Any  # (sample, entry)
    others: Any  # (probe, sample, entry): y on the half of the other neuron
    each: Gradients  # of the signs
    values: Gradients  # of y, on the first half and on the second where they differ


class _Bent(NamedTuple):
    """Gradients along steps: those of one vector of signs, at every sample."""

    y: Any  # (step, sample, entry)
    slopes: Gradients  # of this vector, the next and the last one, an axis of steps in front
    twice: Any  # second derivatives of y: (pair of steps, sample, entry)
    curves: Gradients  # of the next vector, an axis of pairs in front


def _ring(passes: StepPasses, signs: Any) -> _Ring:
    """Gradients of all vectors of signs, and of y, at once."""
    count, neurons = len(signs), passes.neurons
    halves = jnp.stack(neurons.halves).astype(signs.dtype)
    mine = jnp.arange(count) % 2
    signs = signs * halves[mine]

    def rows(y: Any) -> Any:
        return jnp.concatenate(
            [signs, *(y * half for half in (halves[:1] if neurons.averaged else halves))]
        )

    y, found = passes.gradients(rows)
    each = slopes.chosen(passes.program, found, slice(0, count))
    values = slopes.chosen(passes.program, found, slice(count, None))
    return _Ring(passes, signs, y, y * halves[1 - mine][:, None], each, values)


def _bend(ring: _Ring, k: Any) -> _Bent:
    """Steps along one vector of signs, and along pairs of them."""
    passes, samples, count = ring.passes, len(ring.y), len(ring.signs)
    rows = ring.signs[jnp.stack([k, (k + 1) % count, (k - 1) % count])]
    steps = jax.vmap(partial(slopes.single, passes.program, ring.each, k))(jnp.arange(samples))
    first, second = (jax.tree.map(lambda a, e=e: a[e], steps) for e in np.triu_indices(samples))
    y, found = jax.vmap(partial(passes.along, rows))(steps)
    return _Bent(y, found, *jax.vmap(partial(passes.along_two, rows[1:2]))(first, second))


def _single(ring: _Ring, k: Any, at: _Bent) -> dict[str, Any]:
    """dH[y_3, xi, xi] and dH[xi, xi, y_3], (sample)^4 in the order 0123."""
    program, samples = ring.passes.program, len(ring.y)
    own = slopes.bent(program, slopes.chosen(program, ring.each, k[None]), at.slopes, 0)
    half = 0 if ring.passes.neurons.averaged else samples * ((k + 1) % 2)
    values = slopes.chosen(program, ring.values, half + jnp.arange(samples))
    bends = slopes.products(program, own, slopes.as_they_are(program, values))
    return {
        "P": jnp.einsum("bcan,dn->abcd", at.twice[_pair_of(samples)], ring.others[k]),
        "Q": jnp.einsum("abdc->abcd", bends),
    }


def _pair(ring: _Ring, k: Any, at: _Bent, after: _Bent) -> dict[str, Any]:
    """The contractions of two vectors of signs, (sample)^4 in the printed order of each tensor."""
    program, samples, count = ring.passes.program, len(ring.y), len(ring.signs)
    xi, eta = (slopes.chosen(program, ring.each, j[None]) for j in (k, (k + 1) % count))
    own, its = slopes.bent(program, xi, at.slopes, 0), slopes.bent(program, eta, after.slopes, 0)
    crossed = slopes.bent(program, eta, at.slopes, 1)  # eta bent along xi
    back = slopes.bent(program, xi, after.slopes, 2)
    twice = slopes.bent_twice(program, eta, at.slopes, at.curves, np.triu_indices(samples), 1)
    first = slopes.products(program, twice, slopes.as_they_are(program, eta))[
        :, _pair_of(samples), 0
    ]
    H = jnp.einsum("n,ban->ab", ring.signs[(k + 1) % count], at.y)
    S, T, U = (
        slopes.products(program, *pair)
        for pair in ((crossed, crossed), (own, its), (back, crossed))
    )
    return {
        "HH": jnp.einsum("ac,bd->abcd", H, H),
        "R": jnp.einsum("acdb->abcd", first),
        "S": jnp.einsum("acbd->abcd", S),
        "T": jnp.einsum("acbd->acdb", T),
        "U": jnp.einsum("acbd->adbc", U),
    }


def _pair_of(samples: int) -> np.ndarray:
    """Where the steps (a, b) stand in the list of pairs a <= b."""
    found = np.zeros((samples, samples), dtype=int)
    found[np.triu_indices(samples)] = np.arange(samples * (samples + 1) // 2)
    return np.maximum(found, found.T)


def _contractions(passes: StepPasses, signs: Any, second: bool) -> dict[str, Any]:
    """Means of all contractions over the signs of one network."""
    ring, each = _ring(passes, signs), jnp.arange(len(signs))
    at = jax.vmap(partial(_bend, ring))(each)
    found = jax.vmap(partial(_single, ring))(each, at)
    if second:
        after = jax.tree.map(lambda a: jnp.roll(a, -1, axis=0), at)
        found |= jax.vmap(partial(_pair, ring))(each, at, after)
    program, samples = passes.program, len(ring.y)
    first, last = (
        slopes.chosen(program, ring.values, r) for r in (slice(0, samples), slice(-samples, None))
    )
    F = slopes.products(program, *(slopes.as_they_are(program, v) for v in (first, last)))
    return {name: draws.mean(axis=0) for name, draws in found.items()} | {"F": F}


def _tensors(means: dict[str, Any], own: float) -> dict[str, Any]:
    """Draws of the tensors over n, with what the last weights' own steps add; `own` is lambda_W / C_W."""
    tilde, F = means["Q"], means["F"]
    found = {"P": means["P"], "Q": tilde + own * jnp.einsum("badc->abcd", F)}
    if "R" not in means:
        return found
    T = means["T"] + own**2 * jnp.einsum("cadb->acdb", F)
    T += own * (jnp.einsum("bdac->acdb", tilde) + jnp.einsum("acbd->acdb", tilde))
    return found | {
        "R": means["R"] + own * jnp.einsum("acdb->abcd", found["P"]),
        "S": means["S"] + own * means["HH"],
        "T": (T + jnp.einsum("dcba->abcd", T)) / 2,
        "U": (means["U"] + jnp.einsum("cdab->abcd", means["U"])) / 2,
    }


@partial(jax.jit, static_argnames="of")
def sample_dntk(numbers: Any, x: Any, *, of: Differentials) -> dict[str, Any]:
    r"""Unbiased draws of P, Q, R, S, T, U, for each network of a batch.

    Args:
        numbers: Standard normal numbers, (networks, as many as `of` needs).
        x: Inputs.
        of: Which layers, and which tensors.

    Returns:
        For each part (networks, layers, samples^4) in the printed order of its indices. The expectation of a draw,
        times the width below, is the coefficient of $1/n_{\ell-1}$ in (11.45), (∞.176) or (∞.178) at the widths of
        the network, all orders in 1/n included.

    Source: PDLT (11.24), (11.35), (11.43)-(11.45), (∞.174)-(∞.178); of any layers derived.
    """

    def one(own: Any) -> dict[str, Any]:
        weights, signs = of.numbers.drawn_from(own)
        layers = []
        for neurons, its in zip(of.neurons, signs, strict=True):
            if not neurons.above_random_layers:
                layers.append({part: jnp.zeros(len(x) ** 4) for part in of.parts})
                continue
            passes = StepPasses(neurons, weights, x)
            means = _contractions(passes, its.reshape(of.probes, -1), of.second)
            layers.append(_tensors(means, neurons.rate))
        return {part: jnp.stack([found[part].reshape(-1) for found in layers]) for part in of.parts}

    return jax.vmap(one)(numbers)
