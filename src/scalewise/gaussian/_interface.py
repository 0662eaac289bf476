"""The one interface to Gaussian expectations of up to two distinct inputs."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Annotated, Any, Literal

import numpy as np
from jaxtyping import Float

from scalewise._checked import Index, Must, checked
from scalewise.activations import Activation
from scalewise.activations.spi import ActivationLike, Order
from scalewise.gaussian._closed import closed_pair_moments
from scalewise.gaussian._constant import refuse_jump_at_zero, with_constants
from scalewise.gaussian._estimate import Estimate
from scalewise.gaussian._hermite import PairSeries
from scalewise.gaussian._kinked_moments import kinked_pair_moments
from scalewise.gaussian._polar import polar_moment
from scalewise.gaussian._quadrature import pair_quadrature, single_quadrature

PAIR_ORDERS = ((0, 0), (1, 1), (2, 0), (0, 2), (2, 2), (3, 1), (1, 3), (4, 0), (0, 4))
Orders = Annotated[
    Sequence[Order],
    Must("derivative orders, at least one, each 0, 1, 2 or 3", lambda v: len(v) > 0),
]
Pairs = Annotated[
    Sequence[tuple[int, int]],
    Must(
        f"a sequence of pairs out of {PAIR_ORDERS}",
        lambda v: 0 < len(set(v)) == len(set(v) & set(PAIR_ORDERS)),
    ),
]
Numbers = Annotated[Any, Float[np.ndarray, "..."]]
_SERIES_TOLERANCE = 1e-12
_UNCONVERGED = 1e-6
_WIDE, _NARROW = 30.0, 1e-4  # spreads beyond which a kink is not the likeliest reason
_REACH = 17.0  # spreads, how far a rule for pairs takes an activation
_SMALLEST = 1e-140  # of a variance: determinants of pairs must be numbers too
_CLOSED = 4e-13  # the worst that cancellation does to a closed form: GELU, opposite inputs, K = 1e3


def product(sigma: Activation, orders: tuple[int, ...]) -> Callable[[np.ndarray], np.ndarray]:
    r"""The function $z\mapsto\prod_i\sigma^{(p_i)}(z)$ of derivatives of `orders` $p_i$."""
    return partial(_product, sigma, orders)


def _product(sigma: Activation, orders: tuple[int, ...], z: np.ndarray) -> np.ndarray:
    distinct = {p: sigma.derivatives[p](z) for p in set(orders)}
    value = distinct[orders[0]]
    for p in orders[1:]:
        value = value * distinct[p]
    return value


@checked
def single_moment(
    source: ActivationLike, K: Numbers, orders: Orders, *, power: Index = 0
) -> Estimate:
    r"""Expectation over one Gaussian preactivation of a product of derivatives of an activation.

    $$\Big\langle z^m\prod_i\sigma^{(p_i)}(z)\Big\rangle_{z\sim N(0,K)}$$
    Derivatives are taken almost everywhere: at a kink there is no delta function.

    Args:
        source: The activation.
        K: Variances, any shape, at least 0; in units preactivation².
        orders: $p_1,p_2,\dots$, each from 0 to 3.
        power: $m$; $\langle zF'\rangle/2K=d\langle F\rangle/dK$, PDLT (5.53).

    Returns:
        Value and estimated absolute error, shaped like `K`; quadrature, rtol 1e-12.

    Raises:
        ValueError: If a variance is negative or not finite, or an order is not 0 to 3.

    Source: PDLT (4.118), (5.53).

    Example:
        >>> from scalewise.gaussian import single_moment
        >>> bool(abs(single_moment("tanh", 1.0, (0, 0)).value - 0.3942944904) < 1e-10)
        True
    """
    sigma, legs = source, tuple(orders)
    variance = _variances("K", K)
    if sigma.family == "exp" and power == 0:
        return _exact(_log_normal(0.5 * len(legs) ** 2 * variance), variance.shape)
    function = product(sigma, legs)
    value, error = single_quadrature(
        (lambda z: z**power * function(z)) if power else function, variance, sigma.split_points
    )
    doubtful = error > _UNCONVERGED * np.abs(value)
    if doubtful.any():
        # Either the parts of the integral cancel, which is harmless, or it has not converged.
        square = _square_of(function, power)
        size = np.sqrt(single_quadrature(square, variance[doubtful], sigma.split_points)[0])
        _refuse_unconverged(sigma, variance[doubtful], error[doubtful] / np.maximum(size, 1e-300))
    return Estimate(value, error, "quadrature")


def _log_normal(exponent: np.ndarray) -> np.ndarray:
    """The mean of a log-normal number, refused where a double cannot hold it."""
    if exponent.size and np.max(exponent) > 700.0:
        raise ValueError(
            f"An expectation of 'exp' overflows: it is exp({np.max(exponent):.4g}). Make the variances "
            "smaller (a smaller C_W or fewer layers), or use an activation that grows more slowly."
        )
    return np.exp(exponent)


def _square_of(function: Callable, power: int) -> Callable[[np.ndarray], np.ndarray]:
    return lambda z: z ** (2 * power) * function(z) ** 2


def _refuse_unconverged(sigma: Activation, K: np.ndarray, relative: np.ndarray) -> None:
    """A number that is not known to six digits is not returned: say what is probably wrong."""
    if relative.size == 0 or np.max(relative) <= _UNCONVERGED:
        return
    worst = int(np.argmax(relative))
    raise ValueError(
        f"The expectations of {sigma.name!r} over preactivations of variance {K.flat[worst]:.3g} do "
        f"not converge (relative error about {relative.flat[worst]:.1g}). "
        + why_unconverged(sigma, float(K.flat[worst]))
    )


def why_unconverged(sigma: Activation, K: float) -> str:
    """Probable fault of `sigma` if its expectations at variance `K` do not converge, and what to do about it."""
    spread = float(np.sqrt(K))
    low, high = sigma.domain
    if min(-low, high) < _REACH * spread:
        return f"Preactivations spread over {spread:.3g}, and {sigma.beyond}"
    if sigma.unbounded:
        places = ", ".join(f"{z:g}" for z in sigma.unbounded)
        return (
            f"Its third derivative grows without bound at z = {places}: without it the theory knows the kernel, "
            "the NTK and the four-point vertex. For more, make it smooth, for example with (z**2 + 1e-4)**1.25 "
            "in place of abs(z)**2.5."
        )
    if spread > _WIDE * sigma.scale:
        return (
            f"Preactivations spread over {spread:.3g}, and the activation goes on varying on the scale "
            f"of {sigma.scale:.3g}: make C_b, C_W or the inputs smaller. Kinks beyond 10^4 scales are not "
            "looked for: name those in scalewise.activation(..., kinks=(...))."
        )
    if spread < _NARROW * sigma.scale:
        return (
            f"Preactivations of size {spread:.3g} are so small on the activation's own scale of "
            f"{sigma.scale:.3g} that it is lost in rounding: write it without cancellation "
            "(expm1, log1p), or make C_b, C_W or the inputs larger."
        )
    return (
        "Most likely the activation has a kink that was not found or declared: name it in "
        "scalewise.activation(..., kinks=(...)). If it has none, it varies too fast on that scale: "
        "make C_b, C_W or the inputs smaller."
    )


@checked
def pair_moment(
    source: ActivationLike, A: Numbers, B: Numbers, C: Numbers, orders_a: Orders, orders_b: Orders
) -> Estimate:
    r"""$\langle\prod_i\sigma^{(p_i)}(z_a)\prod_j\sigma^{(q_j)}(z_b)\rangle$ for two inputs.

    Derivatives almost everywhere, as in `single_moment`; for the distributional ones see
    `pair_moments`.

    Args:
        source: The activation.
        A: Variances of $z_a$; preactivation². Positive where the activation or a derivative jumps at 0.
        B: Variances of $z_b$.
        C: Covariances, $C^2\le AB$; the three broadcast.
        orders_a: $p_1,p_2,\dots$, each from 0 to 3.
        orders_b: $q_1,q_2,\dots$.

    Returns:
        Value and estimated error; Hermite series or quadrature, rtol 1e-10.

    Raises:
        ValueError: If the kernel is indefinite or not finite, or an order is not 0 to 3.
    """
    sigma, p, q = source, tuple(orders_a), tuple(orders_b)
    shape, (a, b, c) = _pairs(sigma, A, B, C)
    still = (a == 0) | (b == 0)
    if still.any():
        found = single_moment(sigma, a, p).times(single_moment(sigma, b, q))
        if not still.all():
            rest = pair_moment(sigma, a[~still], b[~still], c[~still], p, q)
            found.value[~still], found.error[~still] = rest.value, rest.error
        return Estimate(found.value.reshape(shape), found.error.reshape(shape), "quadrature")
    if sigma.slopes is not None:
        return _exact(polar_moment(sigma.slopes, a, b, c, p, q), shape)
    if sigma.family == "exp":
        exponent = 0.5 * (len(p) ** 2 * a + len(q) ** 2 * b) + len(p) * len(q) * c
        return _exact(_log_normal(exponent), shape)
    f, g = product(sigma, p), product(sigma, q)
    if sigma.is_smooth:
        series = PairSeries(a, b, c)
        value, error, size = series.moment(series.table(f), series.table(g))
        missed = error > _SERIES_TOLERANCE * size
    else:
        value, error, missed = np.zeros_like(a), np.zeros_like(a), np.ones(a.shape, bool)
    if missed.any():
        value[missed], error[missed] = pair_quadrature(
            f, g, a[missed], b[missed], c[missed], sigma.split_points
        )
        size = np.sqrt(
            single_moment(sigma, a[missed], p * 2).value
            * single_moment(sigma, b[missed], q * 2).value
        )
        _refuse_unconverged(sigma, a[missed], error[missed] / np.maximum(size, 1e-300))
    return Estimate(value.reshape(shape), error.reshape(shape), _engine_name(missed))


@checked
def pair_moments(
    source: ActivationLike,
    A: Numbers,
    B: Numbers,
    C: Numbers,
    orders: Pairs = ((0, 0), (1, 1)),
    *,
    engine: Literal["auto", "closed", "hermite", "quadrature"] = "auto",
) -> dict[tuple[int, int], Estimate]:
    r"""The moments $M_{pq}=\langle\sigma^{(p)}(z_a)\sigma^{(q)}(z_b)\rangle$ of pairs of inputs.

    Derivatives in the sense of distributions, so that by Price's theorem the $M_{pq}$ are the
    derivatives of $M_{00}(A,B,C)$: $\partial_C=M_{11}$, $\partial_A=\frac12M_{20}$,
    $\partial_A\partial_B=\frac14M_{22}$, and so on. Where a kink makes one diverge at $|c|=1$, the
    finite part is returned: its coefficient in every recursion vanishes faster.

    Args:
        source: The activation.
        A: Variances of $z_a$; preactivation². Positive where the activation or a derivative jumps at 0.
        B: Variances of $z_b$.
        C: Covariances, $C^2\le AB$; the three broadcast.
        orders: Pairs $(p,q)$ out of `PAIR_ORDERS`.
        engine: ``"auto"`` (closed form, else Hermite series, else quadrature) or one of them.

    Returns:
        For each $(p,q)$ the value and its estimated absolute error; rtol 1e-10 of
        $\sqrt{\langle\sigma^{(p)2}\rangle_A\langle\sigma^{(q)2}\rangle_B}$.

    Raises:
        ValueError: If the kernel is indefinite or not finite, an order is unknown, the engine asked
            for does not serve this activation, or the moment does not exist.

    Source: PDLT (4.118), (5.53); Price's theorem.

    Example:
        >>> from scalewise.gaussian import pair_moments
        >>> round(float(pair_moments("relu", 1.0, 1.0, 0.0)[0, 0].value), 12)  # 1/2 pi
        0.159154943092
    """
    sigma, wanted = source, tuple(orders)
    shape, pairs = _pairs(sigma, A, B, C)
    found = with_constants(sigma, pairs, wanted, partial(_varying, sigma, wanted, engine))
    return {
        pq: Estimate(e.value.reshape(shape), e.error.reshape(shape), e.engine)
        for pq, e in found.items()
    }


def _varying(
    sigma: Activation,
    wanted: tuple[tuple[int, int], ...],
    engine: str,
    A: np.ndarray,
    B: np.ndarray,
    C: np.ndarray,
) -> dict[tuple[int, int], Estimate]:
    """`pair_moments` of pairs of positive variances."""
    if engine in ("auto", "closed"):
        closed = closed_pair_moments(sigma, A, B, C, wanted)
        if closed is not None:
            return {pq: _exact(value, value.shape) for pq, value in closed.items()}
        if engine == "closed":
            raise ValueError(
                f"{sigma.name!r} has no closed forms; use engine='auto', 'hermite' or 'quadrature'."
            )
    if engine == "hermite" and not sigma.is_smooth:
        raise ValueError(
            f"{sigma.name!r} has kinks and no convergent Hermite series; use engine='quadrature'."
        )
    if sigma.is_smooth:
        return _smooth_moments(sigma, (A, B, C), wanted, engine)
    values, errors = kinked_pair_moments(sigma, A, B, C, wanted)
    return {pq: Estimate(values[pq], errors[pq], "quadrature") for pq in wanted}


def _smooth_moments(
    sigma: Activation,
    abc: tuple[np.ndarray, ...],
    wanted: tuple[tuple[int, int], ...],
    engine: str,
) -> dict[tuple[int, int], Estimate]:
    A, B, C = abc
    series = PairSeries(A, B, C)
    # The table of the fourth derivative is made from the third's and loses a factor of its order.
    tables = {
        p: series.table(
            sigma.derivatives[p], sigma.parity * (-1) ** p, rtol=1e-9 if p == 3 else 1e-7
        )
        for p in {min(p, 3) for pq in wanted for p in pq}
    }
    if 3 in tables:
        tables[4] = series.derivative(tables[3])
    out = {}
    for p, q in wanted:
        value, error, size = series.moment(tables[p], tables[q])
        missed = (error > _SERIES_TOLERANCE * size) | (engine == "quadrature")
        if missed.any() and engine != "hermite":
            a, b, c = (v[missed] for v in abc)
            direct, doubt = kinked_pair_moments(sigma, a, b, c, [(p, q)])
            value[missed], error[missed] = direct[p, q], doubt[p, q]
            # In the recursions M_pq multiplies p + q powers of z: at tiny variances that is its scale.
            power = -(p + q) / 2
            scale = np.maximum(
                _rms(sigma, a, p) * _rms(sigma, b, q),
                _rms(sigma, a, 0) * _rms(sigma, b, 0) * np.sqrt(a) ** power * np.sqrt(b) ** power,
            )
            _refuse_unconverged(sigma, a, error[missed] / np.maximum(scale, 1e-300))
        name = "hermite" if engine == "hermite" else _engine_name(missed)
        out[p, q] = Estimate(value, error, name)
    return out


def _rms(sigma: Activation, K: np.ndarray, order: int) -> np.ndarray:
    r"""$\langle(\sigma^{(p)})^2\rangle^{1/2}$; the fourth derivative from the third and the scale."""
    square = _square_of(sigma.derivatives[min(order, 3)], 0)
    root = np.sqrt(single_quadrature(square, K, sigma.split_points)[0])
    return root / np.minimum(sigma.scale, np.sqrt(K)) if order == 4 else root


def _exact(value: np.ndarray, shape: tuple[int, ...]) -> Estimate:
    """A closed form: its error is what cancellation may do to it."""
    value = np.asarray(value).reshape(shape)
    return Estimate(value, _CLOSED * np.abs(value), "closed")


def _engine_name(missed: np.ndarray) -> str:
    if not missed.any():
        return "hermite"
    return "quadrature" if missed.all() else "hermite+quadrature"


def _variances(name: str, K: np.ndarray) -> np.ndarray:
    if np.any(K < 0):
        raise ValueError(f"`{name}` must be a variance of at least 0; got {K[K < 0].flat[0]}.")
    return np.asarray(K, dtype=np.float64)


def _pairs(
    sigma: Activation, A: np.ndarray, B: np.ndarray, C: np.ndarray
) -> tuple[tuple[int, ...], tuple[np.ndarray, np.ndarray, np.ndarray]]:
    given = _variances("A", A), _variances("B", B), np.asarray(C, dtype=np.float64)
    try:
        a, b, c = np.broadcast_arrays(*given)
    except ValueError:
        shapes = ", ".join(str(v.shape) for v in given)
        raise ValueError(
            f"`A`, `B` and `C` must have shapes that fit together; got {shapes}."
        ) from None
    excess = c * c - a * b
    if np.any(excess > 1e-10 * a * b + 1e-300):
        k = np.argmax(excess)
        raise ValueError(
            "The kernel of a pair must be positive semidefinite, C² <= A·B; got "
            f"A={a.flat[k]:.6g}, B={b.flat[k]:.6g}, C={c.flat[k]:.6g}."
        )
    if np.any(a == 0) or np.any(b == 0):
        refuse_jump_at_zero(sigma)
    for name, variance in (("A", a), ("B", b)):
        lost = (variance > 0) & ~((variance > _SMALLEST) & (variance < 1 / _SMALLEST))
        if lost.any():
            raise ValueError(
                f"`{name}` holds the variance {variance[lost][0]:.3g}, and AB - C² would leave the range "
                f"of float64: rescale, to variances from {_SMALLEST:g} to {1 / _SMALLEST:g}."
            )
    return a.shape, (a.ravel(), b.ravel(), c.ravel())
