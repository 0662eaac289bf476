"""Critical initialisation of an activation."""

from __future__ import annotations

from dataclasses import dataclass

from scalewise.activations import Activation

__all__ = ["Criticality", "criticality"]


@dataclass(frozen=True)
class Criticality:
    activation: Activation
    C_b: float | None
    C_W: float | None
    K_star: float | None
    chi_parallel: float | None
    chi_perp: float | None
    found: str
    reason: str


def criticality(source) -> Criticality:
    raise NotImplementedError
