r"""The band of dynamical stability: every limit of a network with one hidden layer, as a point of a plane.

Shown: the plane of $(q_\sigma,\tilde q)$, by which powers of the width outputs and rates scale, with the band
$-\frac12\le q_\sigma+\tilde q\le0$; the four lines where a condition on the limit holds; and the 13 regions that
they cut the band into, each number at its representative.
Look for: on each line one condition holds. Where two of them cross both do; at the neural-tangent point three
lines cross; no point lies on all four.

Source: Golikov, Figure 1, left; the numbers of the regions are ours.
"""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import numpy as np
import xarray as xr
from matplotlib.axes import Axes

from scalewise.experiments._form import settings
from scalewise.experiments._look import COLORS, INK, Number, attributes, panels
from scalewise.scaling.shallow import CONDITIONS, region, regions

TITLE = "The band of dynamical stability and its 13 regions"
TEXT = (
    "With one hidden layer a scaling is two exponents, of the output and of the learning rates. Above the band a "
    "step moves weights by more than their size, below it training changes outputs by a vanishing part. Inside, "
    "four lines separate what may diverge, vanish or stand still, and leave 13 limits. No point lies on all four "
    "lines: no limit keeps everything that a finite network has, unless its initial output is put back (IC-MF)."
)
# The plane that is shown; the band goes on in both directions.
_LEFT, _RIGHT, _BOTTOM, _TOP = -1.5, 0.2, -0.5, 1.5
_NAMED = {"R6": "NTK", "R10": "sym-default", "R12": "MF, IC-MF"}


@settings(steps=12)  # small: a coarse grid
class Config:
    """Settings.

    Args:
        steps: Points of the grid to a unit of either exponent, even, so that every line is met.
    """

    steps: int = 48


def run(config: Config) -> xr.Dataset:
    """Classify a grid of scalings.

    Returns:
        Over (q_tilde, q_sigma): ``number``, that of the region, 0 outside the band. Over region: its
        representative, ``representative_q_sigma`` and ``representative_q_tilde``, its ``dimension``, and how many
        conditions it satisfies, ``satisfied``.
    """
    q_sigma, q_tilde = (
        [
            Fraction(k, config.steps)
            for k in range(round(a * config.steps), round(b * config.steps) + 1)
        ]
        for a, b in ((_LEFT, _RIGHT), (_BOTTOM, _TOP))
    )
    every = regions()
    return xr.Dataset(
        {
            "number": (
                ("q_tilde", "q_sigma"),
                [[_region_number(a, b) for a in q_sigma] for b in q_tilde],
            ),
            "representative_q_sigma": ("region", [float(one.representative[0]) for one in every]),
            "representative_q_tilde": ("region", [float(one.representative[1]) for one in every]),
            "dimension": ("region", [one.dimension for one in every]),
            "satisfied": ("region", [len(one.satisfied) for one in every]),
        },
        {
            "region": [one.id for one in every],
            "q_sigma": [float(a) for a in q_sigma],
            "q_tilde": [float(b) for b in q_tilde],
        },
        attributes(config),
    )


def _region_number(q_sigma: Fraction, q_tilde: Fraction) -> int:
    try:
        return int(region(q_sigma, q_tilde).id[1:])
    except ValueError:
        return 0


def numbers(dataset: xr.Dataset) -> list[Number]:
    """Which points have a region, how many of each dimension there are, and what a limit can keep."""
    total = dataset.q_sigma + dataset.q_tilde
    inside = (total >= -0.5 - 1e-9) & (total <= 1e-9)
    wrong = (dataset.number > 0) != inside.transpose(*dataset.number.dims)
    found = np.unique(dataset.number.values[dataset.number.values > 0])
    return [
        Number("points whose region and place beside the band disagree", 0, int(wrong.sum())),
        Number("regions that the grid meets", 13, int(found.size)),
        *(
            Number(f"of dimension {d}", wanted, int((dataset.dimension == d).sum()))
            for d, wanted in ((2, 3), (1, 7), (0, 3))
        ),
        Number("most conditions that a limit satisfies", 3, int(dataset.satisfied.max())),
    ]


@panels(1, height=6.2)
def figure(dataset: xr.Dataset, axis: Axes) -> None:
    """The band with its lines and regions."""
    q = np.array([_LEFT, _RIGHT])
    axis.fill_between(q, -0.5 - q, -q, color=COLORS[0], alpha=0.13, lw=0)
    for number, (x, y) in _lines().items():
        equation, _, meaning = CONDITIONS[number].partition(": ")
        label = f"{_pretty(equation)}\n     {meaning.partition(',')[0]}"
        axis.plot(x, y, color=COLORS[number - 1], label=f"{number}  {label}")
    for name in dataset.region.values.tolist():
        _mark(axis, dataset.sel(region=name))
    axis.set(xlim=(_LEFT, _RIGHT), ylim=(_BOTTOM, _TOP), aspect="equal")
    axis.set(xlabel="q_σ, exponent of the output", ylabel="q̃, exponent of the learning rates")
    axis.set_title("the plane of scalings; shaded: dynamically stable")
    axis.legend(loc="upper left", bbox_to_anchor=(1.02, 1.0), borderaxespad=0.0)
    axis.grid(visible=False)


def _lines() -> dict[int, tuple[np.ndarray, np.ndarray]]:
    """Each line where it runs through the band; two of them are its edges."""
    q = np.array([_LEFT, _RIGHT])
    return {
        1: (np.array([-0.5, -0.5]), np.array([0.0, 0.5])),
        2: (np.array([-1.0, -0.5]), np.array([1.0, 0.0])),
        3: (q, -0.5 - q),
        4: (q, -q),
    }


def _mark(axis: Any, one: xr.Dataset) -> None:
    """The number of a region at its representative."""
    id = str(one.region.item())
    x, y = one.representative_q_sigma.item(), one.representative_q_tilde.item()
    dimension = one.dimension.item()
    if dimension == 0:
        axis.plot([x], [y], "o", ms=5.5, color=INK, mew=0)
    elif dimension == 1:
        axis.plot([x], [y], "o", ms=4.5, mfc="white", mec=INK, mew=0.8)
    # Away from the band on its lower edge, away from line 2 on it, in the middle of an open set.
    offset, side = (6, 4), "left"
    if np.isclose(x + y, -0.5) or id == "R5":
        offset, side = (-6, -10), "right"
    if dimension == 2:
        offset, side = (0, -3), "center"
    text = f"{id}  {_NAMED[id]}" if id in _NAMED else id
    axis.annotate(
        text, (x, y), offset, textcoords="offset points", color=INK, fontsize=8.5, ha=side
    )


def _pretty(equation: str) -> str:
    return equation.replace("q_sigma", "q_σ").replace("q_tilde", "q̃")
