"""Paths of random layers that single units are given, and tangents of these.

Units are scrambled Sobol points with both signs. Of few tangents the columns of a root of their covariance are
taken in turn, whose products add up to averages without noise; of many some are drawn for each path.

Source: derived.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from scalewise.networks.spi import Program
from scalewise.theory.flow._units import normals, rooted
from scalewise.theory.order._letters import Letters
from scalewise.theory.order._particles import Particles
from scalewise.theory.order._populations import Populations, populations

_COLUMNS = 12  # of roots, taken in turn
_COPIES = 4  # of drawn tangents on each path

Fields = dict[int, Any]


@dataclass(frozen=True)
class GivenUnits:
    """Paths of random layers, and tangents of these.

    Args:
        paths: (sample, *positions, channel).
        tangents: (copy, sample, *positions, channel); their products add up to their covariance over copies.
        exact: Whether copies are the columns of a root, and not drawn.
    """

    paths: Fields
    tangents: Fields
    exact: bool

    @property
    def copies(self) -> int:
        """How many."""
        return len(next(iter(self.tangents.values()), ()))


def equal(own: Populations, paths: Mapping[int, Any]) -> dict[int, Any]:
    """Equal weights of all units.

    Args:
        own: The populations.
        paths: (..., channel) of random layers.
    """
    counts = {p: paths[k].shape[-1] // own.inner[k] for k, p in own.drawn.items()}
    return {p: jnp.full(count, 1 / count) for p, count in counts.items()}


def drawn(program: Program, own: Populations, inputs: int, count: int, scramble: int) -> Fields:
    """Normal numbers (label, channel) of all random layers, those of a population together."""
    found = {}
    for p in own.units:
        draws = [k for k, other in own.drawn.items() if other == p]
        sizes = [(inputs * math.prod(program.positions[k]), own.inner[k]) for k in draws]
        whole = normals(sum(map(math.prod, sizes)), count // 2, (scramble, p))
        found |= dict(zip(draws, _by_layer(whole, sizes), strict=True))
    return found


def _by_layer(whole: np.ndarray, sizes: list[tuple[int, int]]) -> list[np.ndarray]:
    """(label, channel) of each from (label times channel of a unit of all, unit)."""
    parts = np.split(whole, np.cumsum([math.prod(size) for size in sizes])[:-1])
    return [
        part.reshape(*size, -1).swapaxes(1, 2).reshape(size[0], -1)
        for part, size in zip(parts, sizes, strict=True)
    ]


@partial(jax.jit, static_argnames=("program", "ends", "letters"))
def start(
    fixed: Mapping[int, Any], g: Mapping[int, Any], *, program: Program, ends: tuple[int, ...], letters: bool
) -> tuple[dict[int, Any], dict[int, Any]]:  # fmt: skip
    """Random layers at equal weights; and by weights covariances of tangents over all their labels.

    Args:
        fixed: Fields without weights.
        g: Normal numbers.
        program: The nodes.
        ends: Those that are read.
        letters: Whether tangents are wanted.
    """
    own = populations(program, ends)
    made = Particles.run(program, ends, fixed, equal(own, g), normals=g)
    laws = {}
    if letters:
        found = Letters(made)
        for weights, calls in made.calls.items():
            pairs = {(k, m): found.law(k, m) for k in calls for m in calls}
            laws[weights] = made.joint(pairs, calls)
    return {k: made.fields[k] for k in own.drawn}, laws


def given(
    program: Program, own: Populations, paths: Fields, laws: Mapping[int, Any], scramble: int
) -> GivenUnits:
    """Paths, with tangents if there are covariances of these.

    Args:
        program: The nodes.
        own: The populations.
        paths: What random layers gave.
        laws: By weights the covariance of tangents.
        scramble: Which of the independent draws.
    """
    if not laws:
        return GivenUnits(paths, {}, True)
    groups: dict[int, list[int]] = {}
    for k in sorted(own.drawn):
        groups.setdefault(program.weights_of(k), []).append(k)
    sizes = {weights: len(laws[weights]) * own.inner[weights] for weights in groups}
    columns = dict.fromkeys(own.units, 0)
    for weights, size in sizes.items():
        columns[own.drawn[weights]] += size
    copies, taken = max(columns.values()), dict.fromkeys(own.units, 0)
    exact = copies <= _COLUMNS
    copies = copies if exact else _COPIES
    found: Fields = {}
    for weights, calls in groups.items():
        p, rho = own.drawn[weights], rooted(np.asarray(laws[weights]))
        inner, units = own.inner[weights], paths[weights].shape[-1] // own.inner[weights]
        if exact:
            whole = np.zeros((copies, len(rho), units, inner))
            for c in range(inner):
                first = taken[p] + c * len(rho)
                whole[first : first + len(rho), :, :, c] = rho.T[:, :, None]
            taken[p] += sizes[weights]
        else:
            several = [
                normals(len(rho) * inner, units // 2, (scramble, p, weights, copy))
                for copy in range(copies)
            ]
            apart = np.stack(several).reshape(copies, len(rho), inner, units).swapaxes(2, 3)
            whole = np.einsum("st,ctui->csui", rho, apart, optimize=True) / math.sqrt(copies)
        edges = np.cumsum([math.prod(paths[k].shape[:-1]) for k in calls])[:-1]
        for k, part in zip(calls, np.split(whole, edges, axis=1), strict=True):
            found[k] = part.reshape(copies, *paths[k].shape)
    return GivenUnits(paths, found, exact)
