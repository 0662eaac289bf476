"""Records of the critical initialisation of an activation, and how they read."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from types import MappingProxyType
from typing import Any

from scalewise._readable import Rows, readable
from scalewise.activations import Activation

NO_CLASS = "none"


class WithFrozenTables:
    """A record that freezes the mappings it is given.

    Python does not pickle frozen mappings: the record is made again from plain ones.
    """

    def __post_init__(self) -> None:
        for name, value in _by_name(self).items():
            if isinstance(value, Mapping):
                object.__setattr__(self, name, MappingProxyType(dict(value)))

    def __reduce__(self) -> tuple[Any, ...]:
        plain = (dict(v) if isinstance(v, Mapping) else v for v in _by_name(self).values())
        return type(self), tuple(plain)


def _by_name(record: Any) -> dict[str, Any]:
    return {f.name: getattr(record, f.name) for f in fields(record)}


@dataclass(frozen=True)
@readable
class CriticalPoint(WithFrozenTables):
    r"""One pair $(C_b,C_W)$ at which both susceptibilities are 1, accepted or not.

    Args:
        K_star: The fixed point $K^\star$, preactivation²; ``None`` on a line of fixed points.
        C_b: Bias variance; negative where the point is not an initialisation.
        C_W: Rescaled weight variance, dimensionless.
        stability: ``"line"``, ``"stable"``, ``"half-stable"``, ``"unstable"``, or ``"none"`` where
            $C_b<0$.
        note: How it was found and what speaks for or against it.
        universality: ``"scale-invariant"``, ``"K*=0"``, ``"half-stable"``, ``"stable"`` (a
            $K^\star>0$ that attracts from both sides: a tuned activation) or ``"none"``, where
            signals do not stay near the point.
        coefficients: The numbers of the class, see `Criticality`.
        exponents: Its critical exponents; empty where no power law is known.
        attracts_from_below: Whether smaller kernels flow to $K^\star$; ``None`` where there are none
            (at $K^\star=0$ and on a line) and where $C_b<0$.
        attracts_from_above: Whether larger kernels do; ``None`` on a line and where $C_b<0$.
    """

    K_star: float | None
    C_b: float
    C_W: float
    stability: str
    note: str
    universality: str = NO_CLASS
    coefficients: Mapping[str, float] = field(default_factory=dict, hash=False)
    exponents: Mapping[str, float | None] = field(default_factory=dict, hash=False)
    attracts_from_below: bool | None = None
    attracts_from_above: bool | None = None

    def attributes(self) -> dict[str, object]:
        """The record as plain numbers, text and lists, for JSON."""
        return {
            name: dict(value) if isinstance(value, Mapping) else value
            for name, value in _by_name(self).items()
        }


@dataclass(frozen=True)
@readable
class FixedPoint:
    r"""A further fixed point of the kernel at the critical hyperparameters; it is not critical.

    Args:
        K: $K=C_b+C_W\langle\sigma\sigma\rangle_K$, preactivation².
        chi_parallel: $\chi_\parallel(K)$; below 1 kernels are attracted exponentially.
        chi_perp: $\chi_\perp(K)$.
    """

    K: float
    chi_parallel: float
    chi_perp: float


@dataclass(frozen=True)
@readable
class Criticality:
    r"""The critical initialisation of an activation, or why there is none.

    The coefficients of each class (at the critical hyperparameters, $\Delta K=K-K^\star$):

    - all classes: ``vertex_source``, $C_W^2[\langle\sigma^4\rangle-\langle\sigma^2\rangle^2]/K^2$
      at $K^\star$, and ``nu``, the slope in $V^{(\ell)}/nK^2\simeq\nu\ell/n$;
    - ``"scale-invariant"``: ``A_2``, ``A_4``, ``rho``, PDLT (5.61), (5.114), (5.163);
    - ``"K*=0"``: ``a_1``, ``a_2``, ``b_1``, PDLT (5.86)-(5.88), where $\sigma$ is smooth at 0. With
      a kink there, ``power`` and ``a`` in $C_Wg(K)=K+aK^{1+s}+\dots$, $s$ = ``power``;
    - ``"half-stable"``: ``atilde_1``, ``btilde_1`` in
      $\Delta K\mapsto\Delta K+\tilde a_1(\Delta K)^2$, $\chi_\perp=1+\tilde b_1\Delta K$, PDLT (5.102).

    The exponents $p$ of $K^{(\ell)}\sim\ell^{-p}$, PDLT (5.93): ``p_0`` of the kernel (of $\Delta K$
    for a half-stable point), ``p_parallel`` and ``p_perp`` of the difference and of the distance of
    two close inputs, ``p_V`` of the vertex, ``p_1`` of the bare NLO metric. ``None``: no power.
    The class ``"half-stable"`` reaches its exponents beyond $1/|\tilde a_1|K^\star$ layers (10⁴ for
    SWISH); before, it behaves like a scale-invariant one, and ``nu`` is that of this regime.

    Args:
        activation: The activation.
        C_b: Critical bias variance; ``None`` where there is no critical point.
        C_W: Critical rescaled weight variance; ``None`` where there is no critical point.
        K_star: Fixed point of the kernel; ``None`` where there is none, and on the line of fixed
            points of a scale-invariant activation, where every $K$ is one.
        chi_parallel: $\chi_\parallel(K^\star)$ as evaluated, not as demanded.
        chi_perp: $\chi_\perp(K^\star)$ as evaluated.
        found: How the point was found, a sentence; empty where there is none.
        reason: Why there is none, a sentence; empty where there is one.
        candidates: Every point with $\chi_\parallel=\chi_\perp=1$, the rejected ones included.
        point: The candidate that was chosen; ``None`` where there is none.
        trivial_fixed_points: Every other fixed point of the kernel at the chosen $(C_b,C_W)$.
    """

    activation: Activation
    C_b: float | None
    C_W: float | None
    K_star: float | None
    chi_parallel: float | None
    chi_perp: float | None
    found: str
    reason: str
    candidates: tuple[CriticalPoint, ...]
    point: CriticalPoint | None = None
    trivial_fixed_points: tuple[FixedPoint, ...] = ()

    @property
    def universality(self) -> str:
        """The universality class of the chosen point; ``"none"`` where there is no such point."""
        return NO_CLASS if self.point is None else self.point.universality

    @property
    def stability(self) -> str:
        """The stability of the chosen point; ``"none"`` where there is no such point."""
        return NO_CLASS if self.point is None else self.point.stability

    @property
    def coefficients(self) -> Mapping[str, float]:
        """The coefficients of the chosen point; empty where there is no such point."""
        return {} if self.point is None else self.point.coefficients

    @property
    def exponents(self) -> Mapping[str, float | None]:
        """The critical exponents of the chosen point; empty where none are known."""
        return {} if self.point is None else self.point.exponents

    def attributes(self) -> dict[str, object]:
        """The record as plain numbers, text and lists, for JSON."""
        names = ("C_b", "C_W", "K_star", "chi_parallel", "chi_perp", "found", "reason")
        return {
            "activation": self.activation.name,
            **{name: getattr(self, name) for name in names},
            "universality": self.universality,
            "stability": self.stability,
            "coefficients": dict(self.coefficients),
            "exponents": dict(self.exponents),
            "trivial_fixed_points": [vars(point).copy() for point in self.trivial_fixed_points],
            "candidates": [point.attributes() for point in self.candidates],
        }

    def _given(self) -> dict[str, object]:
        """Rows that a notebook lists."""
        return self.attributes()

    def _told(self) -> list[str | Rows]:
        lines: list[str | Rows]
        if self.C_b is None:
            lines = [f"{self.activation.name} has no critical initialisation: {self.reason}"]
        else:
            K_star = "every K" if self.K_star is None else f"{self.K_star:.13g}"
            lines = [
                f"{self.activation.name}: C_b = {self.C_b:.13g}, C_W = {self.C_W:.13g}",
                f"  K* = {K_star}, chi_parallel = {self.chi_parallel:.12f}, "
                f"chi_perp = {self.chi_perp:.12f}",
                f"  {self.found}",
                f"  universality class {self.universality}: {_listed(self.coefficients)}",
            ]
        if self.exponents:
            lines.append(f"  exponents: {_listed(self.exponents)}")
        for other in self.trivial_fixed_points:
            lines.append(
                f"  K = {other.K:.9g} is a fixed point too, but not a critical one: "
                f"chi_parallel = {other.chi_parallel:.9g}"
            )
        for point in self.candidates:
            if point.note not in (self.found + self.reason):
                lines.append(
                    f"  not chosen: C_b = {point.C_b:.13g}, C_W = {point.C_W:.13g}: {point.note}"
                )
        return lines


def _listed(numbers: Mapping[str, float | None]) -> str:
    return ", ".join(
        f"{name} = {'no power' if value is None else format(value, '.6g')}"
        for name, value in numbers.items()
    )
