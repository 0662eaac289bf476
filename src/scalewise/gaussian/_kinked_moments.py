r"""$M_{pq}=\langle\sigma^{(p)}(z_a)\sigma^{(q)}(z_b)\rangle$ by quadrature, derivatives as distributions.

The regular parts are integrated over the plane; what stands at kinks and jumps is in `_kinks`. The fourth
and fifth derivative are traded for the third by Stein's identity in $z_a$ alone, with $\rho=C/A$,
$$\langle f'g\rangle=\tfrac1A\langle zfg\rangle-\rho\langle fg'\rangle,\qquad
  \langle f''g\rangle=\tfrac1{A^2}\langle z^2fg\rangle-\tfrac1A\langle fg\rangle
  -\tfrac{2\rho}A\langle zfg'\rangle+\rho^2\langle fg''\rangle,$$
so the 2-by-2 kernel is never inverted.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from scalewise.activations import Activation
from scalewise.gaussian._geometry import PairGeometry
from scalewise.gaussian._kinks import Corner, LegAtKink, corners_of, tilted_third
from scalewise.gaussian._quadrature import line_rule, pair_table

KINKED_ORDERS = (
    *((0, 0), (1, 1), (2, 0), (0, 2), (2, 2), (3, 1), (1, 3), (4, 0), (0, 4)),
    *((3, 3), (4, 2), (2, 4), (5, 1), (1, 5)),
)
_ROUNDOFF = 1e-14
# Functions of a leg by number: derivatives 0 to 3; then z r, r and z² r with r of `tilted_third`.
_TILTED = {0: 5, 1: 4, 2: 6}


def kinked_pair_moments(
    activation: Activation,
    A: float | np.ndarray,
    B: float | np.ndarray,
    C: float | np.ndarray,
    orders: Sequence[tuple[int, int]],
) -> tuple[dict[tuple[int, int], np.ndarray], dict[tuple[int, int], np.ndarray]]:
    r"""$M_{pq}=\langle\sigma^{(p)}(z_a)\sigma^{(q)}(z_b)\rangle$ with kinks or jumps, and its error.

    Where two kinks meet at $|c|=1$ the density of two delta functions diverges; below $1-c^2=10^{-13}$ it is left
    out (the finite part).
    """
    for order in orders:
        if order not in KINKED_ORDERS:
            raise ValueError(f"`orders` must be pairs (p, q) out of {KINKED_ORDERS}; got {order}.")
    pair = PairGeometry.of(A, B, C)
    shape, pair = pair.C.shape, pair.flat
    third = tilted_third(activation)
    functions = [
        *activation.derivatives,
        lambda z: z * third(z),
        third,
        lambda z: z * z * third(z),
    ]
    places = {_place(order, term[1:]) for order in orders for term in _terms(order, pair)}
    legs_a, legs_b = (sorted({place[side] for place in places}) for side in (0, 1))
    table, table_error = pair_table(
        [functions[i] for i in legs_a],
        [functions[j] for j in legs_b],
        pair,
        activation.split_points,
    )
    corners, values, errors = corners_of(activation), {}, {}
    for order in orders:
        high, low = max(order), min(order)
        view = pair if order[0] >= order[1] else pair.swapped
        value, error = _at_a(activation, corners, view, (high, low))
        for factor, i, n in _terms(order, view):
            a, b = _place(order, (i, n))
            term, slip = table[legs_a.index(a), legs_b.index(b)], 0.0
            slip = table_error[legs_a.index(a), legs_b.index(b)]
            beside, doubt = _at_b(activation, corners, view, functions[i], (i, n))
            value = value + factor * (term + beside)
            error = error + np.abs(factor) * (slip + doubt)
        if high > 3:
            error = error + _subtraction_noise(activation, view, high, low)
        error = error + _ROUNDOFF * np.abs(value)
        values[order], errors[order] = value.reshape(shape), error.reshape(shape)
    return values, errors


def _terms(
    order: tuple[int, int], view: PairGeometry
) -> Iterator[tuple[np.ndarray | float, int, int]]:
    """Factor, function of the leg with more derivatives, derivative of the other: Stein's identity."""
    p, q = max(order), min(order)
    rho, A = view.C / view.A, view.A
    if p <= 3:
        yield 1.0, p, q
    elif p == 4:
        yield 1 / A, _TILTED[1], q
        yield -rho, _TILTED[0], q + 1
    else:
        yield 1 / A**2, _TILTED[2], q
        yield -1 / A, _TILTED[0], q
        yield -2 * rho / A, _TILTED[1], q + 1
        yield rho**2, _TILTED[0], q + 2


def _place(order: tuple[int, int], legs: tuple[int, int]) -> tuple[int, int]:
    """Functions of z_a and of z_b: the legs exchanged where the order asks for it."""
    return legs if order[0] >= order[1] else (legs[1], legs[0])


def _at_a(
    activation: Activation, corners: Sequence[Corner], pair: PairGeometry, order: tuple[int, int]
) -> tuple[np.ndarray, np.ndarray]:
    """The delta functions on the first leg, against all that stands on the second."""
    p, q = order
    value, error = np.zeros_like(pair.A), np.zeros_like(pair.A)
    for corner in corners:
        leg = LegAtKink(activation, corners, pair, corner.location)
        for j in range(p if p <= 3 else 3):
            if corner.jumps[j]:
                term, slip = leg.delta(p - 1 - j, lambda i, leg=leg: leg.derivative(0, q + i))
                value = value + corner.jumps[j] * term
                error = error + np.abs(corner.jumps[j]) * slip
        if p > 3 and corner.location == 0.0 and corner.jumps[3]:  # see `tilted_third`
            term, slip = leg.delta(p - 4, lambda i, leg=leg: leg.derivative(0, q + i))
            value, error = value + corner.jumps[3] * term, error + np.abs(corner.jumps[3]) * slip
    return value, error


def _at_b(
    activation: Activation,
    corners: Sequence[Corner],
    pair: PairGeometry,
    function,
    legs: tuple[int, int],
) -> tuple[np.ndarray, np.ndarray]:
    """A function of the first leg against the delta functions on the second."""
    i, n = legs
    value, error = np.zeros_like(pair.A), np.zeros_like(pair.A)
    for corner in corners:
        if not any(corner.jumps[:n]):
            continue
        leg = LegAtKink(activation, corners, pair.swapped, corner.location)

        def means(k: int, leg: LegAtKink = leg) -> tuple[np.ndarray, np.ndarray]:
            return leg.derivative(i, k) if i <= 3 else leg.weighted(function, k)

        for j in range(n):
            if corner.jumps[j]:
                term, slip = leg.delta(n - 1 - j, means)
                value = value + corner.jumps[j] * term
                error = error + np.abs(corner.jumps[j]) * slip
    return value, error


def _subtraction_noise(activation: Activation, pair: PairGeometry, p: int, q: int) -> np.ndarray:
    """Rounding error of r_3(z) - r_3(0), times what stands with it."""
    beside = 1e-12 * activation.scale * np.array([-1.0, 1.0])
    third = np.max(np.abs(activation.derivatives[3](beside)))
    z, w = line_rule(pair.B, activation.split_points, 1)
    other = np.sqrt(np.sum(w * activation.derivatives[q](z) ** 2, axis=-1))
    return np.finfo(float).eps * third / pair.A ** (0.5 * (p - 3)) * other
