"""Coefficients of 1/n after training from an independent quadrature, and how stated errors compare with them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple
from unittest.mock import patch

import numpy as np
import xarray as xr

import scalewise as sw
from scalewise.activations import Activation
from scalewise.theory.flow._layer import LayerExpectations
from scalewise.theory.flow._trajectory import LayerEstimates, Parts
from scalewise.training import GradientFlow
from scalewise.training.width import _tensors

NAMES = ["output_mean_nlo", "output_covariance_nlo", "ntk_change_nlo"]
ACCURACIES = (None, 3e-3)


class Case(NamedTuple):
    """A network and a task: `kind` says how the inputs lie."""

    activation: str
    kind: str
    depth: int
    seed: int


DAILY = (
    Case("tanh", "plane", 2, 0),
    Case("gelu", "collinear", 2, 2),
    Case("gelu", "line", 2, 1),
)
OTHERS = (
    *(
        Case(name, kind, 2, seed)
        for name in ("tanh", "erf", "gelu", "swish", "sin")
        for kind in ("plane", "line", "collinear")
        for seed in range(3)
    ),
    Case("tanh", "space", 3, 0),
    Case("erf", "space", 3, 1),
)


class Pull(NamedTuple):
    """An outcome at an accuracy that was asked for: stated and true error, both relative to its size."""

    algorithm: str
    accuracy: float | None
    outcome: str
    stated: float
    true: float

    @property
    def pull(self) -> float:
        """The true error over the stated one."""
        return self.true / self.stated


def pulls(
    net: sw.Network, task: sw.Task, algorithms: Sequence[Any] = (GradientFlow(),)
) -> Iterator[Pull]:
    """Of all outcomes at each accuracy."""

    def found(accuracy: float | None) -> list[xr.Dataset]:
        with _tensors.shared_tensors():
            return [
                sw.predict_training(net, task, way, observables=NAMES, accuracy=accuracy)
                for way in algorithms
            ]

    with patch.object(_tensors.Samples, "layers", lambda *_: Exact()):
        known = found(None)
    for accuracy in ACCURACIES:
        for way, one, right in zip(algorithms, found(accuracy), known, strict=True):
            for part in NAMES:
                stated, true = size(one[f"{part}_error"]), size(one[part] - right[part])
                unit = size(one[part])
                yield Pull(repr(way), accuracy, part, stated / unit, true / unit)


def setting(case: Case) -> tuple[sw.Network, sw.Task]:
    """Six samples, three through three layers, the last one a test."""
    x = inputs(case.kind, 6 if case.depth == 2 else 3, case.seed)
    y = np.random.default_rng(case.seed).standard_normal((len(x), 1))
    shape = (case.depth, 10**6, case.activation)
    net = sw.MLP(*shape, input_dim=x.shape[1], output_dim=1, C_W=1.4, lambda_b=0.5)
    return net, sw.Task(x[:-1], y[:-1], test_inputs=x[-1:], test_targets=y[-1:])


def inputs(kind: str, count: int, seed: int) -> np.ndarray:
    """In a plane, in space, in a line but for a hundredth, and with some in one direction."""
    rng = np.random.default_rng(seed)
    x = rng.standard_normal((count, 3 if kind == "space" else 2))
    if kind == "line":
        x[:, 1] *= 0.01
    if kind == "collinear":
        x[1], x[-1] = -0.6 * x[0], 1.3 * x[2]
    return x


def size(values: object) -> float:
    """Root mean square."""
    return float(np.sqrt(np.mean(np.square(np.asarray(values)))))


def product_rule(
    sigma: Activation, x: np.ndarray, orders: tuple[int, ...], nodes: int
) -> np.ndarray:
    """A trapezoid rule in the few dimensions of the inputs: all entries, exponentially accurate."""
    line = np.linspace(-8.0, 8.0, nodes)
    u = np.stack(np.meshgrid(*[line] * x.shape[1], indexing="ij")).reshape(x.shape[1], -1)
    w = np.exp(-(u**2).sum(axis=0) / 2)
    a, b, c, d = (sigma.derivative(x @ u, p) if p else sigma(x @ u) for p in orders)
    left = (a[:, None] * b * (w / w.sum())).reshape(len(x) ** 2, -1)
    return (left @ (c[:, None] * d).reshape(len(x) ** 2, -1).T).reshape((len(x),) * 4)


class Plane(LayerExpectations):
    """The expectations of a layer whose inputs lie in few dimensions, by a product rule."""

    inner = 0

    def of_family(self, family: tuple[int, int, int, int]) -> Parts:
        value, vector = np.linalg.eigh(self.K)
        keep = value > 1e-12 * value[-1]
        x = vector[:, keep] * np.sqrt(value[keep])
        found = product_rule(self.sigma, x, family, {1: 800, 2: 240, 3: 72}[x.shape[1]])
        left, right = self.M(*family[:2]), self.M(*family[2:])
        covariance = found - left[:, :, None, None] * right
        none = np.zeros_like(self.K)
        return {
            "covariance": LayerEstimates(covariance[None], np.zeros_like(covariance)),
            "left": LayerEstimates(left[None], none),
            "right": LayerEstimates(right[None], none),
        }

    def of_source(self) -> Parts:
        a, b = self.pairs.first, self.pairs.second
        found = self.of_family((0, 0, 0, 0))["covariance"].value[:, a, b][:, :, a, b]
        return {"source": LayerEstimates(found, np.zeros(found.shape[1:]))}


class Exact:
    """Makes layers that no accuracy changes."""

    def __call__(self, sigma: Activation, K: np.ndarray) -> Plane:
        return Plane(sigma, K)
