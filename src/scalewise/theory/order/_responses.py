r"""$V$ and $G^{\{1\}}$ of any network, by the influence of single units.

A metric $R$ is a function of the weights of units of each population $p$, in which a network has $n_p$ of them.
With the influence of a unit $R'_p(g_i)=\partial R/\partial w_i-\sum_jw_j\partial R/\partial w_j$, two derivatives
in the weight of one unit give
$$\mathrm{Cov}[R_1,R_2]=\sum_p\frac1{n_p}\mathbb E_g[R_1'R_2'],\qquad
  \mathbb E[R]-R_\infty=\frac12\sum_p\frac1{n_p}\mathbb E_g[R''_p(g)],$$
both to order $1/n$; $V$ and $G^{\{1\}}$ are these times the width of the layer below. One pass back gives the
influence of all units. The trace $\mathbb E_g[R'']$ is the sum of $d^2R$ over an orthonormal system of directions
of the weights, and directions that move no average which units feel do not contribute: it takes as many as there
are such averages, or random signs where these are very many.

The metric of a layer whose weights are averaged over is its covariance given what is below. That of another, a sum
with what neurons remember, is $\langle zz'\rangle$ over neurons; two different neurons share what it has but for
$\mathrm{Cov}_g[zz',zz']/n_p$, which $V$ is without.

Units are scrambled Sobol points with both signs; independent scrambles give the error.

Source: von Mises' expansion, derived for networks; PDLT (4.115), (4.119) are its values for fully connected layers.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Sequence
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from scalewise.networks._architecture import Architecture
from scalewise.networks._by_jax import precision
from scalewise.networks._forward import fixed_fields
from scalewise.networks._program import Program
from scalewise.theory.flow._units import Scrambled, normals
from scalewise.theory.order._particles import Particles, Weights
from scalewise.theory.order._populations import Populations, populations

_SCRAMBLES = 16
_MOST_LABELS = 2048  # of one node
_NUMBERS = 1 << 22  # of one field: its labels times its units
_FEWEST, _MOST = 1 << 10, 1 << 14  # units
_MOST_DIRECTIONS = 600  # beyond them random signs
_SIGNS = 128
_NOTHING = 1e-13  # of the largest variance of an average: what is rounding

Found = dict[str, tuple[np.ndarray, np.ndarray]]


def order_one(
    net: Architecture,
    x: np.ndarray,
    letters: Collection[str],
    layers: Sequence[int],
    progress: Callable[[int, int], object] | None = None,
) -> Found:
    r"""$V$ and $G^{\{1\}}$ at some layers of one site, each with its standard error, by letter.

    Args:
        net: The network.
        x: Checked inputs.
        letters: ``"V"``, ``"G1"`` or both.
        layers: Which, counted from 1.
        progress: Called with (scrambles done, scrambles in all).

    Raises:
        ValueError: If there are too many labels, or the network has what is not known.
    """
    program = net.program
    ends = tuple(program.layers[layer - 1] for layer in layers)
    own = populations(program, ends)
    _check_ends(program, own, ends)
    shapes = {"V": (len(ends), *(len(x),) * 4), "G1": (len(ends), *(len(x),) * 2)}
    if not own.drawn:  # a first layer does not fluctuate
        return {letter: (np.zeros(shapes[letter]), np.zeros(shapes[letter])) for letter in letters}
    count = _units(program, own, len(x))
    below = [net.widths[layer - 1] for layer in layers]
    place, sums = _place(len(x)), {letter: Scrambled() for letter in letters}
    with precision("float64"):
        fixed = fixed_fields(program, x)
        felt = _felt(fixed, program, ends) if "G1" in sums else 0
        fewer = _fewer(count, len(x) * _most_labels(program, own), felt)
        for scramble in range(_SCRAMBLES):
            if "V" in sums:
                g = _drawn(program, own, len(x), count, scramble)
                influence, alone = _responses(fixed, g, program=program, ends=ends)
                sums["V"].add(_vertices(influence, alone, ends, below, len(x)))
            if "G1" in sums:
                g = _drawn(program, own, len(x), fewer, scramble)
                signs = felt > _MOST_DIRECTIONS
                directions = (
                    _signs(own, fewer, scramble) if signs else _directions(fixed, g, program, ends)
                )
                sums["G1"].add(_shifts(fixed, g, directions, program, ends, below))
            if progress is not None:
                progress(scramble + 1, _SCRAMBLES)
    flat = place.ravel()
    at = {"V": (slice(None), flat[:, None], flat), "G1": (slice(None), flat)}
    found: Found = {}
    for letter, own_sums in sums.items():
        mean, error = (values[at[letter]].reshape(shapes[letter]) for values in own_sums.result())
        found[letter] = mean, error
    return found


def _check_ends(program: Program, own: Populations, ends: tuple[int, ...]) -> None:
    """Refuse layers of one site whose neurons are those of heads, or of several kinds."""
    for end in ends:
        if program.averages_out(((end, 1.0),)):
            continue
        (population, _), *others = own.parts[end]
        if others or own.inner[population] > 1:
            raise ValueError(
                f"Layer {program.layers.index(end) + 1} of this network has neurons of several kinds, or of heads, "
                "of which order 1/n is not known. Ask for other layers with `layers`."
            )


def _most_labels(program: Program, own: Populations) -> int:
    """Of one input, of the channels of one unit in one layer."""
    sites = [math.prod(program.positions[k]) * own.inner[p] for k, p in own.drawn.items()]
    return max(sites, default=1)


def _units(program: Program, own: Populations, inputs: int) -> int:
    """How many are drawn."""
    most = _most_labels(program, own)
    if inputs * most > _MOST_LABELS:
        raise ValueError(
            f"{inputs} inputs have {inputs * most:,} labels in a layer of this network, and order 1/n is made for "
            f"at most {_MOST_LABELS:,}: {_MOST_LABELS // most} inputs would fit. Give fewer, or pool earlier."
        )
    return _power(_NUMBERS // (inputs * most), _MOST)


def _fewer(count: int, labels: int, directions: int) -> int:
    """How many are drawn for second derivatives in so many directions."""
    directions = _SIGNS if directions > _MOST_DIRECTIONS else max(1, directions)
    return _power(2 * _NUMBERS // (labels * directions), count)


def _power(count: int, most: int) -> int:
    """The power of 2 below a number, within what is allowed."""
    return 1 << (min(max(count, _FEWEST), most).bit_length() - 1)


def _drawn(
    program: Program, own: Populations, inputs: int, count: int, scramble: int
) -> dict[int, np.ndarray]:
    """Normal numbers (label, channel) of all random layers, those of a population together."""
    found = {}
    for p in own.units:
        draws = [k for k, other in own.drawn.items() if other == p]
        labels = [inputs * math.prod(program.positions[k]) for k in draws]
        inner = own.inner[p]
        whole = normals(sum(labels) * inner, count // 2, (scramble, p))
        parts = np.split(whole, np.cumsum([inner * size for size in labels])[:-1])
        for k, part, size in zip(draws, parts, labels, strict=True):
            apart = part.reshape(size, inner, -1).swapaxes(1, 2)
            found[k] = apart.reshape(size, -1)
    return found


def _equal(own: Populations, g: dict[int, Any]) -> dict[int, Any]:
    """Equal weights of all units."""
    counts = {p: g[k].shape[1] // own.inner[p] for k, p in own.drawn.items()}
    return {p: jnp.full(count, 1 / count) for p, count in counts.items()}


def _pairs(metrics: list[Any]) -> Any:
    return jnp.concatenate([metric[np.triu_indices(len(metric))] for metric in metrics])


def _scaled(own: Populations, slopes: Weights) -> Any:
    """Influences (entry, unit) times the root of what a unit weighs: their products over units are covariances."""
    parts = [
        (slopes[p] - slopes[p].mean(axis=1, keepdims=True)) / math.sqrt(slopes[p].shape[1] * own.units[p])
        for p in own.units
    ]  # fmt: skip
    return jnp.concatenate(parts, axis=1)


def _slopes(values: Callable[[Weights], Any], weights: Weights) -> tuple[Any, Weights]:
    """A list of numbers, and their derivatives one after the other, so that one pass back is in memory."""
    found, back = jax.vjp(values, weights)
    (slopes,) = jax.lax.map(back, jnp.eye(len(found)))
    return found, slopes


@partial(jax.jit, static_argnames=("program", "ends"))
def _responses(
    fixed: dict[int, Any], g: dict[int, Any], *, program: Program, ends: tuple[int, ...]
) -> tuple[Any, dict[int, Any]]:
    """Scaled influences on all metrics; and of layers that neurons remember $zz'$ of each unit, likewise scaled."""
    own = populations(program, ends)
    weights = _equal(own, g)

    def metrics(now: Weights) -> Any:
        made = Particles.run(program, ends, fixed, g, now)
        return _pairs([made.metric(end) for end in ends])

    _, slopes = _slopes(metrics, weights)
    made = Particles.run(program, ends, fixed, g, weights)
    alone = {}
    for end in ends:
        if not program.averages_out(((end, 1.0),)):
            z = made.fields[end].reshape(len(made.fields[end]), -1)
            first, second = np.triu_indices(len(z))
            square = z[first] * z[second]
            count, n = z.shape[1], own.units[own.parts[end][0][0]]
            alone[end] = (square - square.mean(axis=1, keepdims=True)) / math.sqrt(count * n)
    return _scaled(own, slopes), alone


def _vertices(
    influence: Any,
    alone: dict[int, Any],
    ends: tuple[int, ...],
    below: Sequence[int],
    samples: int,
) -> np.ndarray:
    """(layer, pair, pair)."""
    pairs, found = samples * (samples + 1) // 2, []
    for number, (end, n) in enumerate(zip(ends, below, strict=True)):
        here = np.asarray(influence[number * pairs : (number + 1) * pairs])
        V = here @ here.T
        if end in alone:
            itself = np.asarray(alone[end])
            V = V - itself @ itself.T
        found.append(n * V)
    return np.stack(found)


def _place(samples: int) -> np.ndarray:
    """Where the pair (a, b) stands in the list of pairs a <= b."""
    place = np.zeros((samples, samples), dtype=int)
    first, second = np.triu_indices(samples)
    place[first, second] = place[second, first] = np.arange(len(first))
    return place


def _shifts(
    fixed: dict[int, Any],
    g: dict[int, Any],
    directions: np.ndarray,
    program: Program,
    ends: tuple[int, ...],
    below: Sequence[int],
) -> np.ndarray:
    """(layer, pair)."""
    curved = _curvature(fixed, g, directions, program=program, ends=ends)
    return 0.5 * np.array(below)[:, None] * np.asarray(curved).reshape(len(ends), -1)


def _signs(own: Populations, count: int, scramble: int) -> np.ndarray:
    """Random signs (direction, unit), whose products are those of all directions on average."""
    rng = np.random.default_rng((scramble, 1))
    return rng.choice([-1.0, 1.0], size=(_SIGNS, count * len(own.units))) / math.sqrt(_SIGNS)


def _directions(
    fixed: dict[int, Any], g: dict[int, Any], program: Program, ends: tuple[int, ...]
) -> np.ndarray:
    """All that move an average, orthonormal, (direction, unit)."""
    D = np.asarray(_all_influences(fixed, g, program=program, ends=ends))
    values, vectors = np.linalg.eigh(D @ D.T)
    some = values > _NOTHING * values.max(initial=0.0)
    return (vectors[:, some] / np.sqrt(values[some])).T @ D


def _averages(
    fixed: dict[int, Any],
    g: dict[int, Any],
    weights: Weights,
    program: Program,
    ends: tuple[int, ...],
) -> Any:
    """All that units feel of others."""
    made = Particles.run(program, ends, fixed, g, weights)
    return jnp.concatenate([jnp.zeros(0), *(average.ravel() for average in made.averages)])


def _felt(fixed: dict[int, Any], program: Program, ends: tuple[int, ...]) -> int:
    """How many these are."""
    own, inputs = populations(program, ends), len(next(iter(fixed.values())))
    g = {
        k: np.zeros((inputs * math.prod(program.positions[k]), own.inner[p]))
        for k, p in own.drawn.items()
    }
    return jax.eval_shape(lambda: _averages(fixed, g, _equal(own, g), program, ends)).size


@partial(jax.jit, static_argnames=("program", "ends"))
def _all_influences(
    fixed: dict[int, Any], g: dict[int, Any], *, program: Program, ends: tuple[int, ...]
) -> Any:
    """On all averages that units feel, scaled."""
    own = populations(program, ends)

    def averages(weights: Weights) -> Any:
        return _averages(fixed, g, weights, program, ends)

    return _scaled(own, _slopes(averages, _equal(own, g))[1])


@partial(jax.jit, static_argnames=("program", "ends"))
def _curvature(
    fixed: dict[int, Any], g: dict[int, Any], directions: Any, *, program: Program, ends: tuple[int, ...]
) -> Any:  # fmt: skip
    """The sum of second derivatives of all metrics along directions of the weights."""
    own = populations(program, ends)
    weights = _equal(own, g)

    def metrics(now: Weights) -> Any:
        made = Particles.run(program, ends, fixed, g, now)
        return _pairs([made.metric(end) for end in ends])

    def along(direction: Any) -> Any:
        counts = np.cumsum([len(weights[p]) for p in own.units])[:-1]
        step = {}
        for p, part in zip(own.units, jnp.split(direction, counts), strict=True):
            step[p] = (part - part.mean()) / math.sqrt(len(part) * own.units[p])

        def slope(now: Weights) -> Any:
            return jax.jvp(metrics, (now,), (step,))[1]

        return jax.jvp(slope, (weights,), (step,))[1]

    return jax.lax.map(along, directions).sum(axis=0)
