r"""One training run: the loop that real and lazy matrices share.

Arrays may have an axis of seeds in front. Gradients are carried back with their error factor, so that one row
per sample is enough for any number of outputs.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Protocol, runtime_checkable

import numpy as np

from scalewise.activations import Activation
from scalewise.limits.mlp._descent import SGD
from scalewise.limits.mlp._network import Network, Powers
from scalewise.limits.mlp._task import Task

__all__ = ["Matrix", "Records", "Run", "Start"]


@runtime_checkable
class Matrix(Protocol):
    """What a run asks of a matrix: `LazyMatrix` and `RealMatrix` have it."""

    def forward(self, X: np.ndarray, *, keep: int | None = None) -> tuple[np.ndarray, np.ndarray]:
        """Products and coordinates."""
        ...

    def backward(self, Y: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Products with the transpose, and coordinates."""
        ...

    def update(
        self,
        y: Any,
        x: Any,
        weights: Any,
        *,
        momentum: float | int = 0.0,
        shrink: float | int = 0.0,
    ) -> None:
        """Move by products of vectors."""
        ...


@dataclass
class Records:
    """What a run leaves: lists over the recorded times."""

    time: list[int]
    logits: list[np.ndarray]
    loss: list[np.ndarray]
    kernel: list[np.ndarray]
    features: list[np.ndarray]


class _Moving:
    """An array of parameters, and the velocity that momentum gives it."""

    def __init__(self, value: np.ndarray) -> None:
        self.value = value
        self._velocity: np.ndarray | None = None

    def step(self, change: np.ndarray, momentum: float | int, shrink: float | int) -> None:
        if shrink:
            change = change - shrink * self.value
        if momentum:
            if self._velocity is not None:
                change = momentum * self._velocity + change
            self._velocity = change
        self.value += change


@dataclass(frozen=True)
class Start:
    """What is drawn at the ends of a network, all of it standard normal.

    Args:
        widths: Of the hidden layers.
        first: Weights of the first layer, (…, features, width).
        last: Last weights, (…, outputs, width).
        biases: (…, width of the layer), ``None`` for a layer without.
    """

    widths: tuple[int, ...]
    first: np.ndarray
    last: np.ndarray
    biases: list[np.ndarray | None]


class Run:
    """State and steps of one training run.

    Args:
        net: The network.
        task: Samples and loss.
        sgd: The descent.
        powers: What stands before each term, at the width or in the limit.
        matrices: Of the layers between the first and the last.
        start: What the first and last weights and the biases start from.
        keep_tests: Whether lazy matrices remember test inputs.
    """

    def __init__(
        self,
        net: Network,
        task: Task,
        sgd: SGD,
        *,
        powers: Powers,
        matrices: Sequence[Matrix],
        start: Start,
        keep_tests: bool,
    ) -> None:
        self.net, self.task, self.sgd, self.powers = net, task, sgd, powers
        self.widths, self.matrices, self.keep_tests = start.widths, matrices, keep_tests
        self.dtype = start.first.dtype
        self.first = _Moving(start.first * self.dtype.type(math.sqrt(net.C_W[0])))
        scale = powers.iota * math.sqrt(net.C_W[-1] * net.ratios[-1])
        self.last = _Moving(start.last * self.dtype.type(scale))
        deviations = [p * math.sqrt(c) for p, c in zip(powers.bias, net.C_b, strict=True)]
        self.biases = [
            None if b is None else _Moving(b * self.dtype.type(s))
            for b, s in zip(start.biases, deviations, strict=True)
        ]
        self.phi = value_and_slope(net.activation)
        # Every layer below the last meets the last width in its gradients.
        self.rates = [
            sgd.eta * t * r / net.ratios[-1]
            for t, r in zip(powers.theta, net.lambda_W, strict=False)
        ]
        self.rates_b = [
            sgd.eta * t * r / net.ratios[-1]
            for t, r in zip(powers.theta_b[:-1], net.lambda_b, strict=False)
        ]

    def forward(self, X: np.ndarray, keep: int | None) -> tuple[np.ndarray, list, list, list]:
        """Outputs of the rows of X, features and slopes of each layer, coordinates met by each matrix."""
        h = X @ self.first.value
        features, slopes, coordinates = [], [], []
        for layer in range(self.net.hidden_layers):
            if layer:
                h, seen = self.matrices[layer - 1].forward(features[-1], keep=keep)
                coordinates.append(seen)
            bias = self.biases[layer]
            if bias is not None:
                h = h + bias.value[..., None, :]
            x, slope = self.phi(h)
            features.append(x)
            slopes.append(slope)
        f = features[-1] @ self.last.value.swapaxes(-1, -2) * (self.powers.kappa / self.widths[-1])
        if self.biases[-1] is not None:
            f = f + self.biases[-1].value[..., None, :]
        return f, features, slopes, coordinates

    def backward(self, errors: np.ndarray, slopes: list, count: int) -> tuple[list, list]:
        """Gradients of the preactivations times the error factors, and coordinates met by each matrix."""
        dh: list[Any] = [None] * self.net.hidden_layers
        coordinates: list[Any] = [None] * len(self.matrices)
        dx = errors @ self.last.value
        for layer in reversed(range(self.net.hidden_layers)):
            dh[layer] = dx * slopes[layer](count)
            if layer:
                dx, coordinates[layer - 1] = self.matrices[layer - 1].backward(dh[layer])
        return dh, coordinates

    def step(self, X: np.ndarray, y: np.ndarray, f: np.ndarray, seen: tuple) -> None:
        """One step on the first rows of X, which have targets."""
        P = len(y)
        features, slopes, met = seen
        f = f[..., :P, :]
        errors = (self.task.loss.gradient(f.astype(np.float64), y) / P).astype(self.dtype)
        dh, met_back = self.backward(errors, slopes, P)
        x = [a[..., :P, :] for a in features]
        shorten = self._clipping(X[:P], x, dh, errors)
        mu, shrink = self.sgd.momentum, self.sgd.eta * self.sgd.weight_decay
        ones = np.ones(P)
        if self.rates[0] or shrink:
            change = X[:P].T @ dh[0] * (-self.rates[0] * shorten)
            self.first.step(change.astype(self.dtype, copy=False), mu, shrink)
        for layer, W in enumerate(self.matrices, 1):
            if self.rates[layer] or shrink:
                weights = ones * (-self.rates[layer] * shorten[..., 0])
                W.update(
                    met_back[layer - 1],
                    met[layer - 1][..., :P, :],
                    weights,
                    momentum=mu,
                    shrink=shrink,
                )
        for layer, bias in enumerate(self.biases[:-1]):
            if bias is not None:
                change = dh[layer].sum(axis=-2) * (-self.rates_b[layer] * shorten[..., 0])
                bias.step(change.astype(self.dtype, copy=False), mu, 0.0)
        rate = self.sgd.eta * self.powers.upsilon * self.net.lambda_W[-1]
        change = errors.swapaxes(-1, -2) @ x[-1] * (-rate * shorten)
        self.last.step(change.astype(self.dtype, copy=False), mu, shrink)
        if self.biases[-1] is not None:
            rate = self.sgd.eta * self.powers.theta_b[-1] * self.net.lambda_b[-1]
            change = errors.sum(axis=-2) * (-rate * shorten[..., 0])
            self.biases[-1].step(change.astype(self.dtype, copy=False), mu, 0.0)

    def _clipping(self, X: np.ndarray, x: list, dh: list, errors: np.ndarray) -> np.ndarray:
        """The factor min(1, c/|g|) for each seed, with two axes of length 1 behind."""
        if self.sgd.clip is None:
            return np.ones((1, 1))
        eta, kappa, net = self.sgd.eta, self.powers.kappa, self.net

        def gram(a: np.ndarray, width: int) -> np.ndarray:
            return a @ a.swapaxes(-1, -2) / width

        squares: Any = 0.0
        inputs = X @ X.T
        for layer, n in enumerate(self.widths):
            backward = gram(dh[layer], n) * (kappa * n / self.widths[-1] / eta)
            squares = squares + self.rates[layer] * (backward * inputs).sum(axis=(-1, -2))
            if self.biases[layer] is not None:
                squares = squares + self.rates_b[layer] * backward.sum(axis=(-1, -2))
            inputs = gram(x[layer], n)
        wrong = errors @ errors.swapaxes(-1, -2)
        last = self.powers.upsilon * kappa * net.lambda_W[-1] * inputs
        if self.biases[-1] is not None:
            last = last + self.powers.theta_b[-1] * net.lambda_b[-1]
        norm = np.sqrt(squares + (wrong * last).sum(axis=(-1, -2)))
        factor = self.sgd.clip / np.maximum(norm, self.sgd.clip)
        return np.asarray(factor)[..., None, None]

    def train(self, steps: int, every: int, features: int) -> Records:
        """The whole run, recorded at step 0, each `every` steps, and at the end."""
        records = Records([], [], [], [], [])
        task = self.task
        everything = np.concatenate([task.inputs, task.test_inputs])
        for t in range(steps + 1):
            chosen = task.batch(t)
            watched = t % every == 0 or t == steps
            X, y, back = _rows(task, everything, chosen, watched)
            keep = None if self.keep_tests else len(y)
            f, x, slopes, met = self.forward(X.astype(self.dtype, copy=False), keep)
            if not np.isfinite(f).all():
                raise ValueError(
                    f"Outputs are not finite at step {t}: "
                    + (
                        f"training diverged. Lower `eta` (it is {self.sgd.eta})."
                        if t
                        else f"{self.net.activation.name} overflows before training. Scale the inputs "
                        "or `C_W` down."
                    )
                )
            if watched:
                self._record(records, t, f[..., back, :], [a[..., back, :] for a in x], features)
            if t < steps:
                self.step(X, y, f, (x, slopes, met))
        return records

    def _record(self, records: Records, t: int, f: np.ndarray, x: list, features: int) -> None:
        records.time.append(t)
        records.logits.append(f.astype(np.float64))
        y = self.task.targets
        loss = np.asarray(self.task.loss.value(records.logits[-1][..., : len(y), :], y))
        if loss.shape != (*f.shape[:-2], len(y)) or not np.isfinite(loss).all():
            problem = "is not finite" if loss.shape else "has no value for each sample"
            raise ValueError(
                f"The loss {self.task.loss.name} {problem} at step {t}: it takes outputs (..., sample, output) "
                f"and targets to finite numbers (..., sample); got shape {loss.shape}."
            )
        records.loss.append(loss.mean(axis=-1))
        rows = x[0].shape[-2]
        kernel = np.empty((*f.shape[:-2], len(x), rows, rows))
        for layer, (a, n) in enumerate(zip(x, self.widths, strict=True)):
            np.multiply(a @ a.swapaxes(-1, -2), 1 / n, out=kernel[..., layer, :, :])
        records.kernel.append(kernel)
        if features:
            records.features.append(np.stack([a[..., :features] for a in x], axis=-3))


def value_and_slope(
    activation: Activation,
) -> Callable[[np.ndarray], tuple[np.ndarray, Callable[[int], np.ndarray]]]:
    """A function from preactivations, which it may overwrite, to features and to a thunk for slopes.

    Few rows need a slope: the thunk takes how many, the first.
    """
    value, derivative = activation.derivatives[:2]
    if value is np.tanh:  # the function itself, whatever it is called: its slope is 1 - x²

        def tanh(h: np.ndarray) -> tuple[np.ndarray, Callable[[int], np.ndarray]]:
            x = np.tanh(h, out=h)

            def slope(count: int) -> np.ndarray:
                rows = x[..., :count, :]
                squares = rows * rows
                return np.subtract(1.0, squares, out=squares)

            return x, slope

        return tanh

    def both(h: np.ndarray) -> tuple[np.ndarray, Callable[[int], np.ndarray]]:
        def slope(count: int) -> np.ndarray:
            return np.asarray(derivative(h[..., :count, :]), h.dtype)

        return np.asarray(value(h), h.dtype), slope

    return both


def _rows(
    task: Task, everything: np.ndarray, chosen: np.ndarray | None, watched: bool
) -> tuple[np.ndarray, np.ndarray, Any]:
    """Inputs of a step, the taught ones first; their targets; where each watched input stands."""
    if chosen is None:
        return (everything if watched else task.inputs), task.targets, slice(None)
    y = task.targets[chosen]
    if not watched:
        return task.inputs[chosen], y, slice(None)
    rest = np.setdiff1d(np.arange(len(everything)), chosen)
    order = np.concatenate([chosen, rest])
    back = np.empty(len(everything), dtype=np.intp)
    back[order] = np.arange(len(order))
    return everything[order], y, back
