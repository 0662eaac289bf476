r"""Every tensor of order 1/n of any network, by the influence of single units.

A metric $R$ is a function of the weights of units of each population $p$, in which a network has $n_p$ of them.
With the influence of a unit $R'_p(g_i)=\partial R/\partial w_i-\sum_jw_j\partial R/\partial w_j$, two derivatives
in the weight of one unit give
$$\mathrm{Cov}[R_1,R_2]=\sum_p\frac1{n_p}\mathbb E_g[R_1'R_2'],\qquad
  \mathbb E[R]-R_\infty=\frac12\sum_p\frac1{n_p}\mathbb E_g[R''_p(g)],$$
both to order $1/n$; tensors are these times the width of the layer below. One pass back gives the influence of
all units. The NTK is a metric of tangents, $\langle z^az^a\rangle$, and its fluctuations are covariances of
influences on averages of two tangents or of one.

$P$ to $U$ take the jets of all units, see `scalewise.theory.order._unit_jets`.

The metric of a layer whose weights are averaged over is its covariance given what is below. That of another, a sum
with what neurons remember, is $\langle zz'\rangle$ over neurons; two different neurons share what it has but for
$\mathrm{Cov}_g[zz',zz']/n_p$, which $V$ is without, and likewise $B$ and $F$.

Units are scrambled Sobol points with both signs; independent scrambles give the error.

Source: von Mises' expansion, derived for networks; PDLT (4.115), (4.119) are its values for fully connected layers.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Iterator, Sequence

import numpy as np

from scalewise.networks import Network
from scalewise.networks.spi import Program, fixed_fields
from scalewise.networks.spi_jax import precision
from scalewise.observables import of_letter
from scalewise.theory.flow._units import Scrambled
from scalewise.theory.order._given import GivenUnits, drawn, given, start
from scalewise.theory.order._influences import FACTORS, Gathered, blocks, expanded, place, rows_of
from scalewise.theory.order._populations import Populations, populations
from scalewise.theory.order._shifts import counted, directions_of, shifts
from scalewise.theory.order._unit_jets import LETTERS, third_derivatives

_SCRAMBLES = 16
_NUMBERS = 1 << 22  # of one field: its labels times its units
_FEWEST, _MOST = 1 << 10, 1 << 14  # units
_NUMBERS_OF_JETS, _MOST_OF_JETS = 1 << 16, 1 << 13  # the same where fields have jets
_ROUNDED = 1e-8  # of a tensor, by what is added to covariances

Found = dict[str, tuple[np.ndarray, np.ndarray]]
Tensors = dict[str, np.ndarray]


def order_one(
    net: Network,
    x: np.ndarray,
    letters: Collection[str],
    layers: Sequence[int],
    progress: Callable[[int, int], object] | None = None,
) -> Found:
    r"""Tensors of order 1/n at some layers of one site, each with its standard error, by letter.

    All come from weighted units on 16 independent scrambles: $V$, $D$, $A$ from slopes in their weights, tangents
    averaged by hand given a path; $B$ and $F$ from slopes in weights of tangents; $G^{\{1\}}$ and $H^{\{1\}}$ from
    second derivatives; $P$ to $U$ from slopes of jets. Of a tanh MLP with four layers and three inputs, with 4,096
    units, the standard error is at most .1 % of the largest entry of $V$, $A$, $B$, $D$ and $F$, and 2 % of that of
    the others; they agree with the recursions within 3.5 standard errors, entry by entry. Of heads of four channels
    at four positions $P$ to $U$ are known to 1.5 % of the largest of their dimension, and what is small among them
    by cancellation to no more of its own: the noise is that of signs, and falls as one over the root of the units.

    Args:
        net: The network.
        x: Checked inputs.
        letters: Of all tensors, $G^{\{1\}}$ and $H^{\{1\}}$ as ``"G1"`` and ``"H1"``.
        layers: Which, counted from 1.
        progress: Called with (scrambles done, scrambles in all).

    Raises:
        ValueError: If there are too many labels, or the network has what is not known.
    """
    sums = {letter: Scrambled() for letter in letters}
    for scramble, found in enumerate(_scrambles(net, x, letters, layers), 1):
        for letter, values in found.items():
            sums[letter].add(values)
        if progress is not None:
            progress(scramble, _SCRAMBLES)
    result: Found = {}
    for letter, own_sums in sums.items():
        mean, error = own_sums.result()
        error = np.hypot(error, _ROUNDED * np.abs(mean))
        result[letter] = _whole(letter, mean, len(x)), _whole(letter, error, len(x))
    return result


def unit_runs(net: Network, x: np.ndarray, letters: Sequence[str]) -> list[list[Tensors]]:
    """Tensors of the last layer as `scalewise.theory.order._whole.whole_runs` gives them, of any network.

    One run, whose estimates are independent scrambles.

    Args:
        net: The network.
        x: Checked inputs.
        letters: Which tensors.
    """
    found = _scrambles(net, x, letters, [net.depth])
    return [[{a: _whole(a, v, len(x))[0] for a, v in one.items()} for one in found]]


def _scrambles(
    net: Network, x: np.ndarray, letters: Collection[str], layers: Sequence[int]
) -> Iterator[Tensors]:
    """By letter what each scramble gives, (layer, ...)."""
    program = net.program
    ends = tuple(program.layers[layer - 1] for layer in layers)
    own = populations(program, ends)
    _check_ends(program, own, ends)
    below = [net.widths[layer - 1] for layer in layers]
    with precision("float64"):
        # A first layer does not fluctuate.
        asked = _Asked(program, ends, x, tuple(letters)) if own.drawn else None
        for scramble in range(_SCRAMBLES):
            if asked is None:
                shapes = {a: (len(ends), *(len(x),) * of_letter(a).legs) for a in letters}
                yield {a: np.zeros(shape) for a, shape in shapes.items()}
            else:
                ways = asked.fluctuations, asked.shifts, asked.third_derivatives
                yield {a: v for way in ways for a, v in way(scramble, below).items()}


def _whole(letter: str, values: np.ndarray, inputs: int) -> np.ndarray:
    """(layer, sample, ...) from what is kept of it."""
    if values.ndim == 2:
        return values[:, place(inputs)[0].ravel()].reshape(-1, inputs, inputs)
    return expanded(letter, values, inputs) if letter in FACTORS and values.ndim == 3 else values


class _Asked:
    """A request, of one scramble.

    Args:
        program: The nodes.
        ends: The layers.
        x: Inputs.
        letters: Which tensors.
    """

    def __init__(
        self, program: Program, ends: tuple[int, ...], x: np.ndarray, letters: tuple[str, ...]
    ) -> None:
        self.program, self.ends, self.inputs = program, ends, len(x)
        self.own = populations(program, ends)
        self.tensors = [letter for letter in letters if letter in FACTORS]
        self.corrections = [letter for letter in letters if of_letter(letter).corrects]
        self.third = [letter for letter in letters if letter in LETTERS]
        self.averages = sorted({name for letter in self.tensors for name in FACTORS[letter]})
        self.fixed = fixed_fields(program, x)
        self.labels = _most_labels(program, self.own)
        self.count = _power(_NUMBERS // (self.inputs * self.labels), _MOST)
        if self.corrections:
            self.averaged = counted(program, ends, self.fixed, ntk="H1" in self.corrections)
            labels = self.inputs * self.labels
            directions = max(1, directions_of(self.averaged, labels))
            self.fewer = _power(2 * _NUMBERS // (labels * directions), self.count)

    def fluctuations(self, scramble: int, below: Sequence[int]) -> Tensors:
        """(layer, entry, entry)."""
        if not self.tensors:
            return {}
        charged = any(name in ("ab", "za") for name in self.averages)
        units = self._units(self.count, scramble, tangents=charged)
        found = Gathered(self.inputs, self.ends, self.tensors)
        for block in blocks(self.inputs, self.labels):
            rows = rows_of(self.fixed, units, block, self.averages, self.program, self.ends)
            found.add(block, rows)
        return found.tensors(below)

    def shifts(self, scramble: int, below: Sequence[int]) -> Tensors:
        """(layer, pair)."""
        if not self.corrections:
            return {}
        units = self._units(self.fewer, scramble, tangents="H1" in self.corrections)
        found = shifts(
            self.fixed,
            units,
            self.corrections,
            self.program,
            self.ends,
            scramble=scramble,
            counts=self.averaged,
            labels=self.inputs * self.labels,
        )
        return {letter: np.array(below)[:, None] * values for letter, values in found.items()}

    def third_derivatives(self, scramble: int, below: Sequence[int]) -> Tensors:
        """(layer, sample, sample, sample, sample)."""
        if not self.third:
            return {}
        count = _power(_NUMBERS_OF_JETS // (self.inputs * self.labels), _MOST_OF_JETS)
        g = drawn(self.program, self.own, self.inputs, count, scramble)
        seed = scramble, len(g)
        found = third_derivatives(self.fixed, g, self.third, self.program, self.ends, seed)
        return {a: np.array(below).reshape(-1, 1, 1, 1, 1) * v for a, v in found.items()}

    def _units(self, count: int, scramble: int, *, tangents: bool) -> GivenUnits:
        """Paths, and tangents where they are wanted."""
        program, own = self.program, self.own
        g = drawn(program, own, self.inputs, count, scramble)
        paths, laws = start(self.fixed, g, program=program, ends=self.ends, letters=tangents)
        return given(program, own, {k: np.asarray(z) for k, z in paths.items()}, laws, scramble)


def _check_ends(program: Program, own: Populations, ends: tuple[int, ...]) -> None:
    """Refuse layers of one site whose neurons are those of heads, or of several kinds."""
    for end in ends:
        if program.averages_out(((end, 1.0),)):
            continue
        part, *others = own.parts[end]
        if others or part.inner > 1:
            raise ValueError(
                f"Layer {program.layers.index(end) + 1} of this network has neurons of several kinds, or of heads, "
                "of which order 1/n is not known. Ask for other layers with `layers`."
            )


def _most_labels(program: Program, own: Populations) -> int:
    """The most labels of one input, of the channels of one unit in one layer."""
    sites = [math.prod(program.positions[k]) * own.inner[k] for k in own.drawn]
    return max(sites, default=1)


def _power(count: int, most: int) -> int:
    """The power of 2 below a number, within what is allowed."""
    return 1 << (min(max(count, _FEWEST), most).bit_length() - 1)
