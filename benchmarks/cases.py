"""What is measured, as plain numbers: both sides read this file, and it imports neither of them."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

FEATURES = 64


@dataclass(frozen=True)
class Case:
    """One comparison.

    Args:
        name: On the command line and in the table.
        kind: ``"kernel"`` (NNGP and NTK of the infinite network), ``"ntk"`` (the NTK of one real
            network) or ``"ensemble"`` (mean metric and NTK of many real networks).
        activation: As both sides know it.
        inputs: Number of inputs, of dimension `FEATURES`.
        depth: Weight layers.
        C_b: Bias variance of every layer.
        C_W: Rescaled weight variance of every layer.
        peer: What the peer is asked for; ``None`` where it cannot do the case.
        goal: What is aimed at, in words; the first number is compared with the ratio of CPU times.
        ratio: The ratio of CPU times aimed at, peer over ours.
        width: Hidden width, for real networks.
        outputs: Output neurons, for real networks.
        networks: Size of the ensemble.
    """

    name: str
    kind: str
    activation: str
    inputs: int
    depth: int
    C_b: float
    C_W: float
    peer: str | None
    goal: str
    ratio: float = 0.0
    width: int = 512
    outputs: int = 1
    networks: int = 0

    def x(self) -> np.ndarray:
        """The inputs: standard normal, no two norms alike."""
        return np.random.default_rng(0).standard_normal((self.inputs, FEATURES))

    @property
    def widths(self) -> tuple[int, ...]:
        return (FEATURES, *(self.width,) * (self.depth - 1), self.outputs)

    def normals(self) -> list[tuple[np.ndarray, np.ndarray]]:
        """Standard normal weights (n_l, n_{l-1}) and biases (n_l,): one network for both sides."""
        rng = np.random.default_rng(1)
        n = self.widths
        shapes = [(n[i + 1], n[i]) for i in range(self.depth)]
        return [(rng.standard_normal(s), rng.standard_normal(s[0])) for s in shapes]


GELU = {"C_b": 0.17292239075606735, "C_W": 1.9830582574375471}  # its half-stable critical point

CASES = {
    case.name: case
    for case in (
        Case(
            *("tanh", "kernel", "tanh", 512, 3, 0.0, 1.0),
            peer="`ElementwiseNumerical`, degree 25, jitted",
            goal="500x less CPU, error below 1e-10",
            ratio=500,
        ),
        Case(
            *("tanh-deep", "kernel", "tanh", 2048, 32, 0.0, 1.0),
            peer=None,
            goal="under 10 CPU s",
        ),
        Case(
            *("gelu", "kernel", "gelu", 2048, 32, GELU["C_b"], GELU["C_W"]),
            peer="`Gelu` in `stax.repeat`, jitted",
            goal="2x less CPU, under 400 MB",
            ratio=2,
        ),
        Case(
            *("erf", "kernel", "erf", 2048, 32, 0.0, math.pi / 4),
            peer="`Erf` in `stax.repeat`, jitted",
            goal="2x less CPU, under 400 MB",
            ratio=2,
        ),
        Case(
            *("relu", "kernel", "relu", 2048, 32, 0.0, 2.0),
            peer="`Relu` in `stax.repeat`, jitted",
            goal="2x less CPU, under 400 MB",
            ratio=2,
        ),
        Case(
            *("empirical-ntk", "ntk", "erf", 64, 3, 0.01, 1.0),
            peer="`empirical_ntk_fn`, `STRUCTURED_DERIVATIVES`, `vmap_axes=0`, jitted",
            goal="no slower",
            ratio=1,
            outputs=10,
        ),
        Case(
            *("ensemble", "ensemble", "erf", 64, 3, 0.01, 1.0),
            peer="`monte_carlo_kernel_fn`, `STRUCTURED_DERIVATIVES`, `vmap_axes=0`",
            goal="2x less CPU",
            ratio=2,
            outputs=10,
            networks=100,
        ),
    )
}
