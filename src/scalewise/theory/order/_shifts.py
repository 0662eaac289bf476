r"""$G^{\{1\}}$ and $H^{\{1\}}$: second derivatives of mean metric and NTK in the weight of one unit.

$\mathbb E_g[R'']$ is the sum of $d^2R$ over an orthonormal system of directions of the weights, and directions that
move no average which units feel do not contribute: it takes as many as there are such averages, or random signs
where these are very many. The NTK is moved, besides, by the squares of averages that hold one tangent; those are
moved by units and the tangents that they are given.

Given the path of a unit its tangents enter the NTK twice, so that they are averaged by hand. Where the same weights
are used three times they enter four times, see `scalewise.theory.order._paired`.

Source: derived; PDLT (4.115), (8.59) are its values for fully connected layers.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from scalewise.networks.spi import Program
from scalewise.theory.order._charged import Charged, own_tangents
from scalewise.theory.order._cumulants import shift_of_laws
from scalewise.theory.order._given import GivenUnits, equal
from scalewise.theory.order._influences import scaled, slopes
from scalewise.theory.order._letters import Letters
from scalewise.theory.order._paired import bent, meets_itself, moved
from scalewise.theory.order._particles import Particles, Weights
from scalewise.theory.order._populations import Populations, populations

_MOST_DIRECTIONS = 600  # beyond them random signs
_FEWEST_SIGNS, _MOST_SIGNS = 8, 128  # of each scramble
_SIGNED = 1 << 13  # labels times signs
_MOST_PAIRED = 1 << 13  # averages times products of copies, beyond which signs are random, too
_NOTHING = 1e-13  # of the largest variance of an average: what is rounding

Fields = Mapping[int, Any]


def shifts(
    fixed: Fields,
    given: GivenUnits,
    letters: Sequence[str],
    program: Program,
    ends: tuple[int, ...],
    *,
    scramble: int,
    counts: Sequence[int],
    labels: int,
) -> dict[str, np.ndarray]:
    """(layer, pair) by letter, over the width of the layer below.

    Args:
        fixed: Fields without weights.
        given: Paths of random layers, and tangents of these.
        letters: Which.
        program: The nodes.
        ends: The layers.
        scramble: Which of the independent draws.
        counts: How many averages there are, from `counted`.
        labels: Of the largest layer.
    """
    ntk, static = "H1" in letters, {"program": program, "ends": ends}
    paths = given.paths
    alone = equal(populations(program, ends), paths)
    if counts[0] > _MOST_DIRECTIONS:
        directions = _signs(alone, labels, (scramble, 1))
    else:
        directions = _directions(_influences(fixed, paths, ntk=ntk, **static))
    curved = 0.5 * np.asarray(_curvature(fixed, paths, directions, ntk=ntk, **static))
    curved = curved.reshape(1 + ntk, len(ends), -1)
    parts = {"G1": curved[0], "H1": curved[-1]}
    if not program.is_normal:
        parts["G1"] = parts["G1"] + np.asarray(shift_of_laws(fixed, paths, **static)).reshape(
            len(ends), -1
        )
    if ntk:
        copies, tangents = given.copies, given.tangents
        if counts[1] > _MOST_DIRECTIONS:
            whole = {p: np.zeros((copies, len(w))) for p, w in alone.items()}
            directions = _signs(whole, labels, (scramble, 2))
        else:
            directions = _directions(_charged_influences(fixed, paths, tangents, **static))
        change = np.asarray(_charged(fixed, paths, tangents, directions, **static))
        if meets_itself(program):
            change = change + _change_of_pairs(fixed, given, scramble, counts, labels, **static)
        parts["H1"] = parts["H1"] + change.reshape(len(ends), -1)
    return {letter: parts[letter] for letter in letters}


def _change_of_pairs(
    fixed: Fields,
    given: GivenUnits,
    scramble: int,
    counts: Sequence[int],
    labels: int,
    *,
    program: Program,
    ends: tuple[int, ...],
) -> np.ndarray:
    """The sum of changes of the NTK along directions of the weights of products of tangents."""
    static = {"program": program, "ends": ends, "exact": given.exact}
    own, copies = equal(populations(program, ends), given.paths), given.copies
    if counts[0] * copies**2 > _MOST_PAIRED:
        whole = {p: np.zeros((copies, copies, len(w))) for p, w in own.items()}
        directions = _signs(whole, labels, (scramble, 3))
    else:
        influences = _paired_influences(fixed, given.paths, given.tangents, **static)
        directions = _directions(influences)
    return np.asarray(_paired(fixed, given.paths, given.tangents, directions, **static))


def counted(
    program: Program, ends: tuple[int, ...], fixed: Fields, *, ntk: bool
) -> tuple[int, ...]:
    """How many averages units feel, without a single tangent and with one."""
    return felt(program, ends, fixed, ntk=ntk), charges(program, ends, fixed) if ntk else 0


def directions_of(counts: Sequence[int], labels: int) -> int:
    """In how many directions derivatives are taken."""
    signs = _signs_of(labels)
    return max(signs if count > _MOST_DIRECTIONS else count for count in counts)


def _signs_of(labels: int) -> int:
    return min(max(_SIGNED // labels, _FEWEST_SIGNS), _MOST_SIGNS)


def felt(program: Program, ends: tuple[int, ...], fixed: Fields, *, ntk: bool) -> int:
    """How many averages without a single tangent there are."""

    def count() -> Any:
        paths = _nothing(program, ends, fixed)
        own = populations(program, ends)
        return _averages(fixed, paths, equal(own, paths), program, ends, ntk=ntk)

    return jax.eval_shape(count).size


def charges(program: Program, ends: tuple[int, ...], fixed: Fields) -> int:
    """How many averages with a single tangent there are."""

    def count() -> Any:
        paths = _nothing(program, ends, fixed)
        given = {k: jnp.zeros((1, *x.shape)) for k, x in paths.items()}
        made, mine, nothing = _still(fixed, paths, given, program, ends)
        return _list(Charged.run(made, mine, nothing, ends).averages)

    return jax.eval_shape(count).size


def _nothing(program: Program, ends: tuple[int, ...], fixed: Fields) -> dict[int, Any]:
    own, inputs = populations(program, ends), len(next(iter(fixed.values())))
    return {k: jnp.zeros((inputs, *program.positions[k], own.inner[k])) for k in own.drawn}


def _signs(like: Mapping[int, Any], labels: int, seed: Sequence[int]) -> np.ndarray:
    """Random signs (direction, unit), whose products are those of all directions on average."""
    rng = np.random.default_rng(tuple(seed))
    size = sum(math.prod(x.shape) for x in like.values())
    signs = _signs_of(labels)
    return rng.choice([-1.0, 1.0], size=(signs, size)) / math.sqrt(signs)


def _directions(influences: Any) -> np.ndarray:
    """All that move an average, orthonormal, (direction, unit)."""
    D = np.asarray(influences)
    values, vectors = np.linalg.eigh(D @ D.T)
    some = values > _NOTHING * values.max(initial=0.0)
    return (vectors[:, some] / np.sqrt(values[some])).T @ D


def _list(averages: Sequence[Any]) -> Any:
    return jnp.concatenate([jnp.zeros(0), *(average.ravel() for average in averages)])


def _pairs(metrics: Sequence[Any]) -> Any:
    return jnp.concatenate([metric[np.triu_indices(len(metric))] for metric in metrics])


def _averages(
    fixed: Fields,
    paths: Fields,
    weights: Weights,
    program: Program,
    ends: tuple[int, ...],
    *,
    ntk: bool,
) -> Any:
    """All that units feel of others."""
    made = Particles.run(program, ends, fixed, weights, paths=paths)
    return _list(made.averages + (Letters(made).averages() if ntk else []))


@partial(jax.jit, static_argnames=("program", "ends", "ntk"))
def _influences(
    fixed: Fields, paths: Fields, *, program: Program, ends: tuple[int, ...], ntk: bool
) -> Any:
    """On all averages that units feel, scaled."""
    own = populations(program, ends)

    def averages(weights: Weights) -> Any:
        return _averages(fixed, paths, weights, program, ends, ntk=ntk)

    return scaled(own, slopes(averages, equal(own, paths))[1], centred=True)


@partial(jax.jit, static_argnames=("program", "ends", "ntk"))
def _curvature(
    fixed: Fields, paths: Fields, directions: Any, *, program: Program, ends: tuple[int, ...], ntk: bool
) -> Any:  # fmt: skip
    """The sum of second derivatives of all metrics along directions of the weights."""
    own = populations(program, ends)
    weights = equal(own, paths)

    def metrics(now: Weights) -> Any:
        made = Particles.run(program, ends, fixed, now, paths=paths)
        letters = Letters(made)
        found = [made.metric(end) for end in ends]
        return _pairs(found + ([letters.ntk(end) for end in ends] if ntk else []))

    def along(direction: Any) -> Any:
        step = _step(own, direction, weights)
        step = {p: part - part.mean() for p, part in step.items()}

        def slope(now: Weights) -> Any:
            return jax.jvp(metrics, (now,), (step,))[1]

        return jax.jvp(slope, (weights,), (step,))[1]

    return jax.lax.map(along, directions).sum(axis=0)


def _step(own: Populations, direction: Any, like: Weights) -> dict[int, Any]:
    """By population what a direction is."""
    counts = np.cumsum([like[p].size for p in own.units])[:-1]
    found = {}
    for p, part in zip(own.units, jnp.split(direction, counts), strict=True):
        scale = math.sqrt(like[p].shape[-1] * own.units[p])
        found[p] = part.reshape(like[p].shape) / scale
    return found


def _still(
    fixed: Fields, paths: Fields, given: Fields, program: Program, ends: tuple[int, ...]
) -> tuple[Particles, dict[int, Any], dict[int, Any]]:
    """The program at equal weights, all tangents, and no weights of them."""
    own = populations(program, ends)
    weights = equal(own, paths)
    made = Particles.run(program, ends, fixed, weights, paths=paths)
    copies = len(next(iter(given.values())))
    nothing = {p: jnp.zeros((copies, len(w))) for p, w in weights.items()}
    return made, own_tangents(made, given), nothing


@partial(jax.jit, static_argnames=("program", "ends"))
def _charged_influences(
    fixed: Fields, paths: Fields, given: Fields, *, program: Program, ends: tuple[int, ...]
) -> Any:
    """On all averages that hold one tangent, scaled."""
    made, mine, nothing = _still(fixed, paths, given, program, ends)

    def averages(weights: Weights) -> Any:
        return _list(Charged.run(made, mine, weights, ends).averages)

    return scaled(made.own, slopes(averages, nothing)[1])


@partial(jax.jit, static_argnames=("program", "ends"))
def _charged(
    fixed: Fields, paths: Fields, given: Fields, directions: Any, *, program: Program, ends: tuple[int, ...]
) -> Any:  # fmt: skip
    """The sum of changes of the NTK along directions of the weights of tangents."""
    made, mine, nothing = _still(fixed, paths, given, program, ends)

    def along(direction: Any) -> Any:
        step = _step(made.own, direction, nothing)
        change = Charged.run(made, mine, step, ends).change()
        return _pairs([change.ntk(end) for end in ends])

    return jax.lax.map(along, directions).sum(axis=0)


def _still_pairs(
    fixed: Fields, paths: Fields, copies: int, program: Program, ends: tuple[int, ...]
) -> tuple[Particles, dict[int, Any]]:
    """The program at equal weights, and no weights of products of tangents."""
    weights = equal(populations(program, ends), paths)
    made = Particles.run(program, ends, fixed, weights, paths=paths)
    return made, {p: jnp.zeros((copies, copies, len(w))) for p, w in weights.items()}


@partial(jax.jit, static_argnames=("program", "ends", "exact"))
def _paired_influences(
    fixed: Fields,
    paths: Fields,
    given: Fields,
    *,
    program: Program,
    ends: tuple[int, ...],
    exact: bool,
) -> Any:
    """On all averages of two tangents, scaled."""
    copies = len(next(iter(given.values())))
    made, nothing = _still_pairs(fixed, paths, copies, program, ends)

    def averages(weights: Weights) -> Any:
        return _list(moved(made, given, weights, exact=exact))

    return scaled(made.own, slopes(averages, nothing)[1])


@partial(jax.jit, static_argnames=("program", "ends", "exact"))
def _paired(
    fixed: Fields,
    paths: Fields,
    given: Fields,
    directions: Any,
    *,
    program: Program,
    ends: tuple[int, ...],
    exact: bool,
) -> Any:
    """The sum of changes of the NTK along directions of the weights of products of tangents."""
    copies = len(next(iter(given.values())))
    made, nothing = _still_pairs(fixed, paths, copies, program, ends)

    def along(direction: Any) -> Any:
        return _pairs(bent(made, given, _step(made.own, direction, nothing), ends, exact=exact))

    return jax.lax.map(along, directions).sum(axis=0)
