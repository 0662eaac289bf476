r"""Closed forms of $M_{pq}=\langle\sigma^{(p)}(z_a)\sigma^{(q)}(z_b)\rangle$, a class per family.

Derivatives are distributions, so by Price's theorem every $M_{pq}$ is a derivative of $M_{00}$:
$$\partial_CM_{00}=M_{11},\quad\partial_AM_{00}=\tfrac12M_{20},\quad\partial_C^2M_{00}=M_{22},\quad
\partial_A\partial_CM_{00}=\tfrac12M_{31},\quad\partial_A^2M_{00}=\tfrac14M_{40}.$$
Only $p\ge q$ is written down: the rest follows by exchanging the legs,
$M_{qp}(A,B,C)=M_{pq}(B,A,C)$.

Where $|c|=1$ and a kink make a moment diverge like a power of $1/\sqrt{1-c^2}$, that part is set to
0 once $1-c^2<10^{-13}$ (the finite part): in every recursion its coefficient vanishes faster.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from scalewise.activations import Activation
from scalewise.gaussian._geometry import PairGeometry

_TWO_PI = 2 * math.pi


class _ClosedForm:
    """The six moments of one family at one set of pairs."""

    def __init__(self, activation: Activation, pair: PairGeometry):
        self.activation, self.pair = activation, pair

    def moment(self, p: int, q: int) -> np.ndarray:
        r"""$M_{pq}$, $p\ge q$, by the method of these orders."""
        return getattr(self, f"M_{p}{q}")()


def _sin_minus_angle_cos(angle: np.ndarray) -> np.ndarray:
    r"""$\sin\psi-\psi\cos\psi=\sum_{k\ge1}(-1)^{k+1}\frac{2k}{(2k+1)!}\psi^{2k+1}$."""
    small = np.minimum(angle, 0.5)
    series, term = np.zeros_like(small), small.copy()
    for k in range(1, 8):
        term = term * small**2 / (2 * k * (2 * k + 1))
        series = series + (-1) ** (k + 1) * 2 * k * term
    return np.where(angle < 0.5, series, np.sin(angle) - angle * np.cos(angle))


class _ScaleInvariant(_ClosedForm):
    r"""$\sigma(z)=a_\pm z$: PDLT (5.159)-(5.161), for unequal norms, with $\Delta=a_+-a_-$.

    $\psi$ is measured from the nearer of $c=1$ and $c=-1$, so that nothing cancels at either.
    """

    def __init__(self, activation: Activation, pair: PairGeometry):
        super().__init__(activation, pair)
        assert activation.slopes is not None
        minus, plus = activation.slopes
        self.jump = (plus - minus) ** 2 / _TWO_PI
        # <sigma sigma> of coincident and of antipodal inputs, per unit of C.
        self.end = np.where(pair.C >= 0, 0.5 * (plus**2 + minus**2), plus * minus)
        self.side = np.where(pair.C >= 0, 1.0, -1.0)
        self.angle = np.arctan2(np.sqrt(pair.determinant), np.abs(pair.C))

    def M_00(self) -> np.ndarray:
        # (Δ²/2π) sqrt(AB) (sin ψ - ψ cos ψ) + (a_+² + a_-²)/2 C
        return (
            self.jump * self.pair.root * _sin_minus_angle_cos(self.angle) + self.end * self.pair.C
        )

    def M_11(self) -> np.ndarray:
        # (a_+² + a_-²)/2 - Δ² ψ/2π
        return self.end - self.side * self.jump * self.angle

    def M_20(self) -> np.ndarray:
        # (Δ²/2π) sin ψ sqrt(B/A)
        return self.jump * np.sqrt(self.pair.determinant) / self.pair.A

    def M_22(self) -> np.ndarray:
        # Δ² times the density at z_a = z_b = 0
        return self.jump * _TWO_PI * self.pair.singular_density()

    def M_31(self) -> np.ndarray:
        # Stein, as z σ'' = 0: A M_31 + C M_22 = 0
        return -(self.pair.C / self.pair.A) * self.M_22()

    def M_40(self) -> np.ndarray:
        # Stein, as z σ''' = -σ'': A M_40 + C M_31 = -M_20
        return -(self.M_20() + self.pair.C * self.M_31()) / self.pair.A


class _Perceptron(_ClosedForm):
    r"""$\sigma(z)=\theta(z)$: $\sigma'=\delta$, and $D=AB-C^2$."""

    def M_00(self) -> np.ndarray:
        # 1/4 + arcsin(c)/2π
        return np.arctan2(np.sqrt(self.pair.determinant), -self.pair.C) / _TWO_PI

    def M_11(self) -> np.ndarray:
        # 1/(2π sqrt D)
        return self.pair.singular_density()

    def M_20(self) -> np.ndarray:
        # -(C/A)/(2π sqrt D)
        return -(self.pair.C / self.pair.A) * self.M_11()

    def M_22(self) -> np.ndarray:
        # C/(2π D^{3/2})
        return self.pair.C * self.pair.singular_density(1.5)

    def M_31(self) -> np.ndarray:
        # -B/(2π D^{3/2})
        return -self.pair.B * self.pair.singular_density(1.5)

    def M_40(self) -> np.ndarray:
        # Stein, as z δ'' = -2 δ': A M_40 + C M_31 = -2 M_20
        return -(2 * self.M_20() + self.pair.C * self.M_31()) / self.pair.A


class _Erf(_ClosedForm):
    r"""$\sigma(z)=\mathrm{erf}(z)$: with $D=(1+2A)(1+2B)-4C^2$, $M_{00}=\frac2\pi\arcsin\dots$."""

    def __init__(self, activation: Activation, pair: PairGeometry):
        super().__init__(activation, pair)
        self.a, self.b = 1 + 2 * pair.A, 1 + 2 * pair.B
        self.D = 1 + 2 * (pair.A + pair.B) + 4 * pair.determinant
        self.root = np.sqrt(self.D)

    def M_00(self) -> np.ndarray:
        # (2/π) arcsin(2C/sqrt(ab)) = (2/π) arctan(2C/sqrt D)
        return 2 / math.pi * np.arctan2(2 * self.pair.C, self.root)

    def M_11(self) -> np.ndarray:
        return 4 / math.pi / self.root

    def M_20(self) -> np.ndarray:
        return -8 / math.pi * self.pair.C / (self.a * self.root)

    def M_22(self) -> np.ndarray:
        return 16 / math.pi * self.pair.C / (self.D * self.root)

    def M_31(self) -> np.ndarray:
        return -8 / math.pi * self.b / (self.D * self.root)

    def M_40(self) -> np.ndarray:
        # 2 ∂_A M_20
        bracket = 2 / self.a + self.b / self.D
        return 16 / math.pi * self.pair.C / (self.a * self.root) * bracket


class _Gelu(_ClosedForm):
    r"""$\sigma(z)=z\Phi(z)$, with $a=1+A$, $b=1+B$, $D=ab-C^2$, $u=\frac1a+\frac1b$.

    $P=\langle\Phi(z_a)\Phi(z_b)\rangle=\frac14+\frac1{2\pi}\arcsin\frac C{\sqrt{ab}}$ has
    $\partial_CP=1/(2\pi\sqrt D)$; the rest is algebraic because $\sigma''=(2-z^2)\phi$.
    """

    def __init__(self, activation: Activation, pair: PairGeometry):
        super().__init__(activation, pair)
        self.a, self.b = 1 + pair.A, 1 + pair.B
        self.u = 1 / self.a + 1 / self.b
        self.D = 1 + pair.A + pair.B + pair.determinant
        self.root = np.sqrt(self.D)
        self.front = 1 / (_TWO_PI * self.root)
        self.P = np.arctan2(self.root, -pair.C) / _TWO_PI

    def M_00(self) -> np.ndarray:
        # C P + [AB - C² + C² u]/(2π sqrt D)
        pair = self.pair
        return pair.C * self.P + self.front * (pair.determinant + pair.C**2 * self.u)

    def M_11(self) -> np.ndarray:
        # P + C [u + 1/D]/(2π sqrt D)
        return self.P + self.front * self.pair.C * (self.u + 1 / self.D)

    def M_20(self) -> np.ndarray:
        # 2 ∂_A M_00 = [d + 2(B + d)/a - C²/D]/(2π a sqrt D), d = AB - C²
        d = self.pair.determinant
        bracket = d + 2 * (self.pair.B + d) / self.a - self.pair.C**2 / self.D
        return self.front / self.a * bracket

    def M_22(self) -> np.ndarray:
        # ∂_C M_11
        bracket = 1 + self.u + 1 / self.D + self.pair.C**2 * (self.u + 3 / self.D) / self.D
        return self.front * bracket

    def M_31(self) -> np.ndarray:
        # 2 ∂_A M_11
        a, b, D = self.a, self.b, self.D
        return -self.front * self.pair.C * (1 / a + 2 / a**2 + (self.u + 3 / D) * b / D)

    def M_40(self) -> np.ndarray:
        # 2 ∂_A M_20, with r = C²/D; nothing of order 0 is left to cancel at small A and B
        a, B, square = self.a, self.pair.B, self.pair.C**2
        r = square / self.D
        bracket = 2 * square / a * (1 + 4 / a) - B * (1 + 3 / a)
        bracket = bracket + r * (1 + (self.b + 6 + 3 * r) / a)
        return self.front / a * bracket


class _Sin(_ClosedForm):
    r"""$\sigma(z)=\sin z$: $e^{-(A+B)/2}$ times $\sinh C$ or $\cosh C$, without overflow."""

    def __init__(self, activation: Activation, pair: PairGeometry):
        super().__init__(activation, pair)
        # |C| - (A+B)/2 = -(√A-√B)²/2 - (√(AB) - |C|) ≤ 0
        largest = 0.5 * np.exp(np.abs(pair.C) - 0.5 * (pair.A + pair.B))
        self.odd = -np.sign(pair.C) * largest * np.expm1(-2 * np.abs(pair.C))
        self.even = largest * (1 + np.exp(-2 * np.abs(pair.C)))

    def M_00(self) -> np.ndarray:
        return self.odd

    def M_11(self) -> np.ndarray:
        return self.even

    def M_20(self) -> np.ndarray:
        return -self.odd

    def M_22(self) -> np.ndarray:
        return self.odd

    def M_31(self) -> np.ndarray:
        return -self.even

    def M_40(self) -> np.ndarray:
        return self.odd


class _Exp(_ClosedForm):
    r"""$\sigma(z)=e^z$: every moment is $e^{(A+B)/2+C}$."""

    def moment(self, p: int, q: int) -> np.ndarray:
        return np.exp(0.5 * (self.pair.A + self.pair.B) + self.pair.C)


class _Monomial(_ClosedForm):
    r"""$\sigma(z)=z^n$: Wick's theorem, summed over the number $j$ of pairings across the legs."""

    def moment(self, p: int, q: int) -> np.ndarray:
        # <z_a^m z_b^k> = Σ_j binom(m,j) binom(k,j) j! (m-j-1)!! (k-j-1)!!
        #                     C^j A^{(m-j)/2} B^{(k-j)/2}
        pair = self.pair
        assert self.activation.parameter is not None
        n = int(self.activation.parameter)
        m, k = n - p, n - q
        total = np.zeros_like(pair.C)
        if min(m, k) < 0 or (m - k) % 2:
            return total
        for j in range(m % 2, min(m, k) + 1, 2):
            left, right = (m - j) // 2, (k - j) // 2
            ways = math.comb(m, j) * math.comb(k, j) * math.factorial(j)
            ways *= _pairings(left) * _pairings(right)
            total = total + float(ways) * pair.C**j * pair.A**left * pair.B**right
        return float(math.perm(n, p) * math.perm(n, q)) * total


def _pairings(count: int) -> int:
    r"""$(2n-1)!!$, the number of ways to pair $2n$ legs."""
    return math.factorial(2 * count) // (2**count * math.factorial(count))


_FAMILIES: dict[str, type[_ClosedForm]] = {
    "scale_invariant": _ScaleInvariant,
    "perceptron": _Perceptron,
    "erf": _Erf,
    "gelu": _Gelu,
    "sin": _Sin,
    "exp": _Exp,
    "monomial": _Monomial,
}
_ORDERS = ((0, 0), (1, 1), (2, 0), (2, 2), (3, 1), (4, 0))


def closed_pair_moments(
    activation: Activation,
    A: float | np.ndarray,
    B: float | np.ndarray,
    C: float | np.ndarray,
    orders: Sequence[tuple[int, int]],
) -> dict[tuple[int, int], np.ndarray] | None:
    r"""Closed forms of $M_{pq}=\langle\sigma^{(p)}(z_a)\sigma^{(q)}(z_b)\rangle$; ``None`` if the family has none.

    Orders are (0,0), (1,1), (2,0), (0,2), (2,2), (3,1), (1,3), (4,0), (0,4). Correct to roundoff of
    $\sqrt{\langle\sigma^{(p)2}\rangle_A\langle\sigma^{(q)2}\rangle_B}$; singular parts at a kink are left out where
    $1-c^2<10^{-13}$.

    Source: PDLT (5.159)-(5.161) for the scale-invariant family; the others by direct integration
    and Price's theorem.
    """
    if activation.family not in _FAMILIES:
        return None
    for p, q in orders:
        if (max(p, q), min(p, q)) not in _ORDERS:
            raise ValueError(
                f"`orders` must be pairs (p, q) out of {_ORDERS} or their mirror images; "
                f"got {(p, q)}."
            )
    pair = PairGeometry.of(A, B, C)
    shape, pair = pair.C.shape, pair.flat
    form = _FAMILIES[activation.family]
    with np.errstate(over="ignore", invalid="ignore"):
        straight = form(activation, pair)
        mirrored = form(activation, pair.swapped) if any(p < q for p, q in orders) else straight
        moments = {
            (p, q): straight.moment(p, q) if p >= q else mirrored.moment(q, p) for p, q in orders
        }
    for order, value in moments.items():
        if not np.isfinite(value).all():
            worst = np.argmin(np.isfinite(value))
            raise ValueError(
                f"The moment {order} of {activation.name!r} does not fit into a double at "
                f"variances A = {pair.A[worst]:g}, B = {pair.B[worst]:g} and covariance C = "
                f"{pair.C[worst]:g}; make the variances smaller (a smaller C_W or fewer layers)."
            )
    return {order: value.reshape(shape) for order, value in moments.items()}
