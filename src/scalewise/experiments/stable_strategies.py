r"""The solid of stable strategies: four facets, two corners, and the edges along which features move.

How an output layer starts, how much it and the layers below it move, decide what training does at infinite width.
With one hidden layer these are all exponents there are, up to a gauge, and stable is what satisfies
$$A\ge\tfrac12,\qquad r\ge0,\qquad U\ge1,\qquad A+r\ge1 .$$

Shown: left, the boundary of this solid, which has no end in three directions, with the exponents drawn as
$x/(1+x)$; right, its part where outputs are learned, the facets $U=1$ and $A+r=1$, each drawn together at its
points at infinity.
Look for: maximal update and neural-tangent scaling are its only corners, joined by the edge of the uniform
strategies; features move on the two edges $r=0$ that leave maximal update, and nowhere else.

Source: Yang & Hu, *Tensor Programs IV*, Figures 2 and 7; Appendix M. Corners and edges are found from the
inequalities, and each inequality is held against the classification of strategies on both of its sides.
"""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from itertools import combinations
from typing import Any

import numpy as np
import xarray as xr
from matplotlib.axes import Axes

from scalewise.experiments._form import settings
from scalewise.experiments._look import COLORS, INK, MUTED, Number, Table, attributes, panels
from scalewise.scaling import Strategy, classify, mup, ntk, uniform
from scalewise.scaling.polyhedron import FACETS, chart, facets, from_chart, stratum

TITLE = "The solid of stable strategies"
TEXT = (
    "A strategy says by which powers of the width a network is initialised and trained. The stable ones form a "
    "solid with four facets; outputs are learned on two of them. Maximal update and neural-tangent scaling are "
    "its corners. Features move on the edges r = 0 alone; everything else that learns is a kernel method. "
    "Standard initialisation with a learning rate of 1/n lies on the edge of the Gaussian process."
)
# Coefficients of (r, A, U) and the right-hand side, in the order of FACETS: A, r, U and A + r.
_PLANES = (((0, 1, 0), "1/2"), ((1, 0, 0), 0), ((0, 0, 1), 1), ((1, 1, 0), 1))
_READOUT, _BODY = 2, 3  # the facets on which outputs are learned
Point = tuple[Fraction, ...]


@settings(steps=6)  # small: a coarse grid
class Config:
    """Settings.

    Args:
        steps: Points along an edge, and along either side of a facet.
        outside: Instability is looked for one over this outside of each facet.
    """

    steps: int = 24
    outside: int = 100


def strategy_at(point: Sequence[Any]) -> Strategy:
    """The strategy of a network with one hidden layer, from its exponents (r, A, U)."""
    r, A, U = (Fraction(x) for x in point)
    return from_chart((r - min(A, U)) / 2, U / 2, A - U / 2)


def corners() -> dict[tuple[int, ...], Point]:
    """Where three planes meet in a point of the solid: the planes, and (r, A, U)."""
    found = {}
    for three in combinations(range(len(_PLANES)), 3):
        rows = np.array([_PLANES[k][0] for k in three], dtype=float)
        if round(np.linalg.det(rows)):
            right = [float(Fraction(_PLANES[k][1])) for k in three]
            point = tuple(Fraction(x).limit_denominator(100) for x in np.linalg.solve(rows, right))
            if min(_above(point)) >= 0:
                found[three] = point
    return found


def edges() -> dict[tuple[int, ...], tuple[Point, Point]]:
    """Where two planes bound the solid: a corner, and the way along the edge to the other or to infinity."""
    found = {}
    for two in combinations(range(len(_PLANES)), 2):
        ends = [point for three, point in corners().items() if set(two) <= set(three)]
        first, second = (_PLANES[k][0] for k in two)
        way = np.cross(first, second)
        if len(ends) == 2:
            found[two] = (ends[0], tuple(b - a for a, b in zip(*ends, strict=True)))
        for sign in (1, -1) if len(ends) == 1 else ():
            toward = tuple(sign * Fraction(int(x)) for x in way)
            far = tuple(a + b for a, b in zip(ends[0], toward, strict=True))
            if min(_above(far)) >= 0:
                found[two] = (ends[0], toward)
    return found


def _above(point: Sequence[Fraction]) -> list[Fraction]:
    """By how much a point satisfies each inequality."""
    return [
        sum((c * x for c, x in zip(row, point, strict=True)), Fraction(0)) - Fraction(right)
        for row, right in _PLANES
    ]


def _grid(plane: int, steps: int) -> list[Point]:
    """Points of a facet, exactly, on halves and quarters and so on up to 3."""
    values = [Fraction(3 * k, steps) for k in range(steps + 1)]
    grid = []
    for x in values:
        for y in values:
            r, A, U = {
                0: (x, Fraction(1, 2), 1 + y),
                1: (Fraction(0), 1 + x, 1 + y),
                2: (x, Fraction(1, 2) + y, Fraction(1)),
                3: (x / 6, 1 - x / 6, 1 + y),
            }[plane]
            if min(_above((r, A, U))) >= 0:
                grid.append((r, A, U))
    return grid


def run(config: Config) -> xr.Dataset:
    r"""Find the corners and edges, and classify strategies on every facet and just outside it.

    Returns:
        Over corner: ``corner`` $(r,A,U)$ and ``place`` $(a_1,a_2,b_2)$; over edge: ``start`` and ``toward``;
        over facet: ``points`` classified, ``wrong``, those whose facets or stability are not what the
        inequalities say, and ``beyond``, the share of unstable ones a step away; over (facet, stratum):
        ``count``; and ``uniform``, the share of uniform strategies on the edge between the corners.
    """
    found, joined = corners(), edges()
    names = ("feature learning", "NTK limit", "GP limit", "body NTK limit", "trivial")
    wrong, outside, points = [], [], []
    count = np.zeros((len(_PLANES), len(names)), dtype=int)
    for plane, (row, _) in enumerate(_PLANES):
        grid = _grid(plane, config.steps)
        off = 0
        for point in grid:
            one = strategy_at(point)
            met = tuple(n for n, x in zip(FACETS, _above(point), strict=True) if x == 0)
            off += not classify(one).stable or facets(one) != met
            count[plane, names.index(stratum(one))] += 1
        inner = [point for point in grid if sum(x == 0 for x in _above(point)) == 1]
        away = [
            tuple(x - Fraction(c, config.outside) for x, c in zip(p, row, strict=True))
            for p in inner
        ]
        outside.append(np.mean([not classify(strategy_at(p)).stable for p in away]))
        wrong.append(off)
        points.append(len(grid))
    along = [Fraction(k, 2 * config.steps) for k in range(config.steps + 1)]
    same = [strategy_at((r, 1 - r, 1)).equivalent(uniform(r, depth=2)) for r in along]
    axes = ["r", "A", "U"]
    return xr.Dataset(
        {
            "corner": (("corners", "exponent"), _floats(found.values())),
            "place": (
                ("corners", "coordinate"),
                _floats(chart(strategy_at(p)) for p in found.values()),
            ),
            "start": (("edge", "exponent"), _floats(a for a, _ in joined.values())),
            "toward": (("edge", "exponent"), _floats(b for _, b in joined.values())),
            "points": ("facet", points),
            "wrong": ("facet", wrong),
            "beyond": ("facet", outside),
            "count": (("facet", "stratum"), count),
            "uniform": ((), float(np.mean(same))),
        },
        {
            "exponent": axes,
            "coordinate": ["a_1", "a_2", "b_2"],
            "facet": list(FACETS),
            "stratum": list(names),
            "edge": [", ".join(list(FACETS)[k] for k in two) for two in joined],
        },
        attributes(config),
    )


def _floats(rows: Any) -> np.ndarray:
    return np.array([[float(x) for x in row] for row in rows])


def numbers(dataset: xr.Dataset) -> list[Number]:
    """Corners found beside those of the source, and inequalities beside the classification."""
    rows = [Number("corners", 2, dataset.sizes["corners"])]
    for name, strategy in (("maximal update", mup(depth=2)), ("NTK", ntk(depth=2))):
        wanted = np.array([float(x) for x in chart(strategy)])
        distance = float(np.abs(dataset.place.values - wanted).max(axis=1).min())
        rows.append(Number(f"distance of {name} from a corner", 0, distance))
    # A surface closed by one point at infinity.
    ends = dataset.sizes["corners"] + 1
    euler = ends - dataset.sizes["edge"] + dataset.sizes["facet"]
    learns = dataset["count"].sel(stratum="trivial") == 0
    moves = dataset["count"].sel(stratum="feature learning").sum("facet")
    flat = dataset["count"].sel(stratum="feature learning", facet="r = 0")
    return [
        *rows,
        Number("edges", 5, dataset.sizes["edge"]),
        Number("corners and infinity, less edges, and facets", 2, euler),
        Number("facets on which every strategy learns", 2, int(learns.sum())),
        Number("strategies of facets classified otherwise", 0, int(dataset.wrong.sum())),
        Number("unstable just outside, share", 1, float(dataset.beyond.min())),
        Number("edge between the corners uniform, share", 1, float(dataset["uniform"])),
        Number("feature learning where r > 0", 0, int(moves - flat - _shared(dataset))),
    ]


def _shared(dataset: xr.Dataset) -> int:
    """Points with r = 0 on the two facets where outputs are learned."""
    steps = dataset.attrs["steps"] + 1
    return sum(int(p[0] == 0) for k in (_READOUT, _BODY) for p in _grid(k, steps - 1))


def tables(dataset: xr.Dataset) -> list[Table]:
    """The facets: how many strategies of each kind were found on them."""
    head = ("facet", "what training has there", *dataset.stratum.values.tolist())
    rows = tuple(
        (name, FACETS[name], *(str(int(n)) for n in dataset["count"].sel(facet=name)))
        for name in dataset.facet.values.tolist()
    )
    return [Table("Strategies on the facets, classified", head, rows)]


@panels(2, height=4.4)
def figure(dataset: xr.Dataset, left: Axes, right: Axes) -> None:
    """The boundary of the solid, and the part of it that learns."""
    _draw_solid(left, dataset)
    _draw_caricature(right)
    for axis in (left, right):
        axis.set(xticks=[], yticks=[], aspect="equal")
        axis.grid(visible=False)
        for side in axis.spines.values():
            side.set_visible(False)


def _flat(points: Any) -> np.ndarray:
    """(r, A, U) on paper: every exponent as x/(1+x), its infinity at 1, seen from r = A = U = 0."""
    r, A, U = np.moveaxis(np.asarray(points, dtype=float), -1, 0)
    with np.errstate(invalid="ignore"):
        r, A, U = (np.where(np.isinf(x), 1.0, x / (1 + x)) for x in (r, A, U))
    return np.stack([U - 0.8 * r, A - 0.35 * r - 0.25 * U], axis=-1)


def _draw_solid(axis: Any, dataset: xr.Dataset) -> None:
    inf = np.inf
    t = np.linspace(0, 0.5, 30)
    bend = np.stack([t, 1 - t, np.ones_like(t)], axis=-1)  # the edge between the corners
    far = np.stack([t, 1 - t, np.full_like(t, inf)], axis=-1)
    patches = {
        "A = 1/2": [(0.5, 0.5, 1), (inf, 0.5, 1), (inf, 0.5, inf), (0.5, 0.5, inf)],
        "r = 0": [(0, 1, 1), (0, inf, 1), (0, inf, inf), (0, 1, inf)],
        "U = 1": [*bend, (inf, 0.5, 1), (inf, inf, 1), (0, inf, 1)],
        "A + r = 1": [*bend, *far[::-1]],
    }
    shades = dict(zip(patches, (COLORS[4], COLORS[1], COLORS[0], COLORS[2]), strict=True))
    for name, outline in patches.items():
        corner = _flat(outline)
        axis.fill(*corner.T, color=shades[name], alpha=0.13, lw=0)
        middle = (corner.min(axis=0) + corner.max(axis=0)) / 2
        axis.text(*middle, name, color=shades[name], ha="center", va="center")
    for start, toward in zip(dataset.start.values, dataset.toward.values, strict=True):
        bounded = np.abs(toward).max() < 1
        steps = np.linspace(0, 1, 40) if bounded else np.append(np.geomspace(1, 1e4, 60) - 1, 1e9)
        line = _flat(start + steps[:, None] * toward)
        axis.plot(*line.T, color=INK, lw=2.0 if bounded else 1.0)
    _name_strategies(axis)
    axis.set_title("stable strategies with one hidden layer: exponents as x/(1 + x)")


def _name_strategies(axis: Any) -> None:
    named = {
        "maximal update": ((0, 1, 1), (7, 3)),
        "NTK": ((0.5, 0.5, 1), (9, -1)),
        # a = (0, 0), b = (0, 1/2), c = 1
        "standard, η ∝ 1/n": ((1.5, 0.5, 1), (-90, 3)),
    }
    for name, (point, shift) in named.items():
        x, y = _flat(point)
        axis.plot([x], [y], "o", ms=6, color=INK)
        axis.annotate(name, (x, y), shift, textcoords="offset points", color=INK)


def _draw_caricature(axis: Any) -> None:
    """Two triangles on the edge between the corners, each drawn together at infinity."""
    mu, tangent = np.array([0.0, 0.5]), np.array([0.0, -0.5])
    for sign, name, color in ((-1, "GP limit", COLORS[0]), (1, "body NTK limit", COLORS[2])):
        infinity = np.array([1.1 * sign, 0.0])
        axis.fill(*np.array([mu, tangent, infinity]).T, color=color, alpha=0.13, lw=0)
        axis.plot(*np.array([mu, infinity]).T, color=COLORS[1], lw=2.0)
        axis.plot(*np.array([tangent, infinity]).T, color=color, lw=1.2)
        axis.text(0.42 * sign, -0.03, name, color=color, ha="center")
        axis.text(0.62 * sign, 0.30, "r = 0", color=COLORS[1], ha="center")
        axis.plot(*infinity, "o", ms=6, mfc="none", color=MUTED)
        facet = "U = 1" if sign < 0 else "A + r = 1"
        axis.annotate(
            f"{facet}\nat infinity",
            infinity,
            (0, -32),
            textcoords="offset points",
            ha="center",
            color=MUTED,
        )
    axis.plot(*np.array([mu, tangent]).T, color=INK, lw=2.0)
    axis.plot(*np.array([mu, tangent]).T, "o", ms=6, color=INK)
    axis.text(0.0, 0.56, "maximal update", ha="center", color=INK)
    axis.text(0.0, -0.62, "NTK", ha="center", color=INK)
    axis.text(0.03, 0.0, "uniform r", color=INK, rotation=90, va="center")
    axis.set(xlim=(-1.35, 1.35), ylim=(-0.8, 0.75))
    axis.set_title("those that learn; orange: features move")
