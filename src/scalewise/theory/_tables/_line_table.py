r"""Single-input expectations as piecewise Chebyshev series in $\log K$.

An expectation over $N(0,K)$ is analytic in $\log K$ in a strip at least as wide as that in which the
activation may be turned in the complex plane, so sixteen nodes on half a unit of $\log K$ give all
digits. A panel is made when a kernel first falls into it, from quadrature at its nodes, and is halved
until its last coefficients are at the rounding error.
"""

from __future__ import annotations

import math
from functools import lru_cache

import numpy as np
from jaxtyping import Float
from numpy.polynomial import chebyshev

from scalewise.activations import Activation
from scalewise.theory._tables._line_moments import (
    closed_line_moments,
    line_moments,
    moment_names,
    moments_at_zero,
)

_NODES = 16
_TO_A_UNIT = 2  # panels to a unit of log K
_MOST_PARTS = 64
_ROUNDING, _CLOSED = 3e-14, 4e-15
_NEAR = 1e-8  # of the own scale squared: where limits K -> 0 are read, between rounding and bias
# T_k at the Chebyshev points, a discrete cosine transform; the angles are reduced before the cosine,
# because a bias of a few roundings would add up over many layers.
_COSINES = np.cos(
    np.pi / (2 * _NODES) * (np.outer(np.arange(_NODES), 2 * np.arange(_NODES) + 1) % (4 * _NODES))
)


class LineTable:
    r"""The expectations of one activation at any $K$; panels are made as they are needed."""

    def __init__(self, sigma: Activation, names: tuple[str, ...] | None = None):
        self.sigma = sigma
        self.names = names or moment_names(sigma)
        self._panels: dict[int, np.ndarray] = {}  # (part, moment, coefficient)
        self._sizes: dict[int, np.ndarray] = {}  # (part, moment)
        self._powers: dict[int, list[list[float]]] = {}

    def square(self, K: float) -> float:
        r"""$\langle\sigma^2\rangle_K$ at one $K$: the hot step of the kernel sequence."""
        if K == 0.0:
            return moments_at_zero(self.sigma)["g"]
        if self.sigma.slopes is not None:
            minus, plus = self.sigma.slopes
            return 0.5 * (minus * minus + plus * plus) * K
        if self.sigma.family == "exp":
            return math.exp(2 * K) if K < 350 else math.inf
        t = math.log(K) * _TO_A_UNIT
        index = math.floor(t)
        powers = self._powers.get(index) or self._make_powers(index)
        place = (t - index) * len(powers)
        part = min(int(place), len(powers) - 1)
        x = 2 * (place - part) - 1
        total = 0.0
        for coefficient in powers[part]:
            total = total * x + coefficient
        return total

    def moments(self, K: Float[np.ndarray, " point"]) -> dict[str, Float[np.ndarray, " point"]]:
        """Every expectation at many kernels, by name, as accurate as `line_moments`."""
        return self.estimates(K)[0]

    def estimates(
        self, K: Float[np.ndarray, " point"]
    ) -> tuple[dict[str, Float[np.ndarray, " point"]], dict[str, Float[np.ndarray, " point"]]]:
        """Every expectation at many kernels, and its error: that of `line_moments`, and of the table.

        Args:
            K: Positive kernels.
        """
        closed = closed_line_moments(self.sigma, K)
        if closed is not None:
            known = dict(zip(moment_names(self.sigma), closed, strict=True))
            return known, {name: _CLOSED * np.abs(value) for name, value in known.items()}
        out, size = np.empty((2, len(self.names), K.size))
        still = K == 0.0
        t = np.log(np.where(still, _NEAR * self.sigma.scale**2, K)) * _TO_A_UNIT
        index = np.floor(t).astype(np.int64)
        self._make_missing(np.unique(index).tolist())
        order = np.argsort(index, kind="stable")
        starts = np.flatnonzero(np.diff(index[order], prepend=index[order[0]] - 1))
        for rows in np.split(order, starts[1:]):
            key = int(index[rows[0]])
            panel = self._panel(key)
            place = (t[rows] - key) * len(panel)
            parts = np.minimum(place.astype(np.int64), len(panel) - 1)
            for part in np.unique(parts):
                here = parts == part
                basis = chebyshev.chebvander(2 * (place[here] - part) - 1, _NODES - 1)
                out[:, rows[here]] = panel[part] @ basis.T
                size[:, rows[here]] = self._sizes[key][part][:, None]
        if still.any():  # beside what is known exactly there, limits of derivatives
            for name, value in moments_at_zero(self.sigma).items():
                if name in self.names:
                    out[self.names.index(name), still] = value
                    size[self.names.index(name), still] = 0.0
        errors = _ROUNDING * size
        return dict(zip(self.names, out, strict=True)), dict(zip(self.names, errors, strict=True))

    def _panel(self, index: int) -> np.ndarray:
        if index not in self._panels:
            self._panels[index], self._sizes[index] = self._make_panel(index)
        return self._panels[index]

    def _make_powers(self, index: int) -> list[list[float]]:
        """Coefficients of powers, the highest first; they fall fast, so nothing is lost."""
        place = self.names.index("g")
        powers = [chebyshev.cheb2poly(part[place]) for part in self._panel(index)]
        self._powers[index] = [
            [0.0] * (_NODES - len(p)) + [float(c) for c in p[::-1]] for p in powers
        ]
        return self._powers[index]

    def _make_missing(self, indices: list[int]) -> None:
        """Panels in one part each, at once; where one part does not do, the panel is left out."""
        missing = [index for index in indices if index not in self._panels]
        if missing:
            made, sizes, good = self._interpolated(np.array(missing, float), 1.0)
            for index, panel, size, fine in zip(missing, made, sizes, good, strict=True):
                if fine:
                    self._panels[index], self._sizes[index] = panel[None], size[None]

    def _make_panel(self, index: int) -> tuple[np.ndarray, np.ndarray]:
        parts = 1
        while parts <= _MOST_PARTS:
            panel, size, good = self._interpolated(index + np.arange(parts) / parts, 1 / parts)
            if good.all():
                return panel, size
            parts *= 2
        raise ValueError(
            f"The expectations of {self.sigma.name!r} vary too fast with the kernel near "
            f"K = {math.exp(index / _TO_A_UNIT):.3g} to be tabulated. Make C_b, C_W or the inputs "
            "smaller, or use a smoother activation."
        )

    def _interpolated(
        self, left: np.ndarray, length: float
    ) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """(part, moment, coefficient) of parts of the table, sizes, and whether each is fine enough."""
        transform = _COSINES * (2 / _NODES)
        transform[0] /= 2
        t = left[:, None] + 0.5 * (_COSINES[1] + 1) * length
        value, size = line_moments(self.sigma, np.exp(t.ravel() / _TO_A_UNIT), self.names)
        value = value.reshape(len(self.names), len(left), _NODES)
        size = size.reshape(value.shape).max(axis=-1).T
        panel = np.einsum("mpn,cn->pmc", value, transform)
        tail = np.abs(panel[..., -2:]).max(axis=-1)
        return panel, size, np.all(tail <= _ROUNDING * size + 1e-290, axis=1)


def estimates_of(
    table: LineTable, K: Float[np.ndarray, "layer input"]
) -> tuple[dict[str, np.ndarray], dict[str, np.ndarray]]:
    """Expectations from each layer to the next by name, and their errors."""
    below = K[:-1]
    if not below.size:
        none = {name: np.empty(below.shape) for name in table.names}
        return none, none
    value, error = (
        {name: m.reshape(below.shape) for name, m in known.items()}
        for known in table.estimates(below.ravel())
    )
    return value, error


@lru_cache(maxsize=32)
def line_table(sigma: Activation, names: tuple[str, ...] | None = None) -> LineTable:
    """The table of an activation, kept for the next flow."""
    return LineTable(sigma, names)
