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
        kind: ``"kernel"`` (NNGP and NTK of the infinite network), ``"rectangle"`` (its NTK between two
            sets of inputs), ``"ntk"`` (the NTK of one real network) or ``"ensemble"`` (mean metric and NTK
            of many real networks).
        activation: As both sides know it.
        inputs: Number of inputs.
        depth: Weight layers.
        C_b: Bias variance of every layer.
        C_W: Rescaled weight variance of every layer.
        peer: What the peer is asked for; ``None`` where it cannot do the case.
        title: In the table, in words.
        ratio: The ratio of CPU times aimed at, peer over ours, on the first call and on a repeated one.
        error: The largest error aimed at.
        seconds: The most CPU seconds of the first call.
        megabytes: The most memory.
        width: Hidden width, for real networks.
        outputs: Output neurons, for real networks.
        networks: Size of the ensemble.
        features: Dimension of the inputs.
        others: How many inputs stand on the other side of a rectangle.
    """

    name: str
    kind: str
    activation: str
    inputs: int
    depth: int
    C_b: float
    C_W: float
    peer: str | None
    title: str
    ratio: float | None = None
    error: float | None = None
    seconds: float | None = None
    megabytes: float | None = None
    width: int = 512
    outputs: int = 1
    networks: int = 0
    features: int = FEATURES
    others: int = 0

    def x(self) -> np.ndarray:
        """The inputs: standard normal, no two norms alike."""
        return np.random.default_rng(0).standard_normal((self.inputs, self.features))

    def y(self) -> np.ndarray:
        """Those on the other side of the pairs: the same, but for a rectangle."""
        if not self.others:
            return self.x()
        return np.random.default_rng(2).standard_normal((self.others, self.features))

    @property
    def widths(self) -> tuple[int, ...]:
        return (self.features, *(self.width,) * (self.depth - 1), self.outputs)

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
            title="tanh, 512 inputs, depth 3, against 2-d quadrature of degree 25",
            ratio=500,
            error=1e-10,
        ),
        Case(
            *("tanh-deep", "kernel", "tanh", 2048, 32, 0.0, 1.0),
            peer=None,
            title="tanh, 2048 inputs, depth 32 (theirs does not fit in memory)",
            seconds=10,
        ),
        Case(
            *("elu", "kernel", "elu", 512, 3, 0.0, 1.0),
            peer=None,
            title="ELU, 512 inputs, depth 3: a kink, and no closed form",
            seconds=1,
            error=1e-10,
        ),
        Case(
            *("gelu", "kernel", "gelu", 2048, 32, GELU["C_b"], GELU["C_W"]),
            peer="`Gelu` in `stax.repeat`, jitted",
            title="GELU, 2048 inputs, depth 32, closed forms on both sides",
            ratio=2,
            megabytes=400,
        ),
        Case(
            *("erf", "kernel", "erf", 2048, 32, 0.0, math.pi / 4),
            peer="`Erf` in `stax.repeat`, jitted",
            title="erf, the same",
            ratio=2,
            megabytes=400,
        ),
        Case(
            *("relu", "kernel", "relu", 2048, 32, 0.0, 2.0),
            peer="`Relu` in `stax.repeat`, jitted",
            title="ReLU, the same",
            ratio=2,
            megabytes=400,
        ),
        Case(
            *("rectangle", "rectangle", "tanh", 10_000, 3, 0.0, 1.0),
            peer=None,
            title="NTK of 10 000 × 1000 inputs of dimension 784, tanh, depth 3",
            seconds=2,
            error=1e-10,
            features=784,
            others=1000,
        ),
        Case(
            *("empirical-ntk", "ntk", "erf", 64, 3, 0.01, 1.0),
            peer="`empirical_ntk_fn`, `STRUCTURED_DERIVATIVES`, `vmap_axes=0`, jitted",
            title="NTK of one network, 3 layers of 512, 64 × 64 inputs, 10 outputs",
            ratio=1,
            outputs=10,
        ),
        Case(
            *("ensemble", "ensemble", "erf", 64, 3, 0.01, 1.0),
            peer="`monte_carlo_kernel_fn`, `STRUCTURED_DERIVATIVES`, `vmap_axes=0`",
            title="mean kernel and NTK of 100 such networks",
            ratio=2.5,
            outputs=10,
            networks=100,
        ),
    )
}
