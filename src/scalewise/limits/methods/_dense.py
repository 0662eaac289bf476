r"""Training by weights: what real and lazy matrices share.

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
from scalewise.limits._loop import Job, Recorded
from scalewise.limits._network import Architecture, WidthPowers


@runtime_checkable
class TrainedMatrix(Protocol):
    """Matrix as a run uses it: `LazyMatrix` and `RealMatrix` are of this kind."""

    n_out: int

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
        """Subtract from the matrix the products of pairs of vectors, each times its weight."""
        ...


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
class InitialWeights:
    """The ends of a network before training: rows of the first weights, last weights, biases."""

    first: np.ndarray  # weights of the first layer, (…, features, width)
    last: np.ndarray  # $\hat W$, (…, outputs, width)
    biases: list[np.ndarray | None]  # (…, width of the layer), ``None`` for a layer without

    @classmethod
    def from_normal(
        cls,
        net: Architecture,
        powers: WidthPowers,
        first: np.ndarray,
        last: np.ndarray,
        biases: list,
    ) -> InitialWeights:
        """Standard normal numbers, each scaled as its layer is."""
        as_type = first.dtype.type
        scale = powers.iota * math.sqrt(net.C_W[-1] * net.ratios[-1])
        deviations = [p * math.sqrt(c) for p, c in zip(powers.bias, net.C_b, strict=True)]
        return cls(
            first * as_type(math.sqrt(net.C_W[0])),
            last * as_type(scale),
            [
                None if b is None else b * as_type(s)
                for b, s in zip(biases, deviations, strict=True)
            ],
        )


class DenseMethod:
    """State and steps of one run; the matrices between the first layer and the last are moved.

    `powers` stand before each term, at the width or in the limit; `keep_tests` has lazy matrices remember test
    inputs.
    """

    def __init__(
        self,
        job: Job,
        *,
        powers: WidthPowers,
        matrices: Sequence[TrainedMatrix],
        start: InitialWeights,
        keep_tests: bool,
    ) -> None:
        self.job, self.net, self.sgd, self.powers = job, job.net, job.sgd, powers
        self.matrices, self.keep_tests = matrices, keep_tests
        self.dtype = start.first.dtype
        self.widths = (start.first.shape[-1], *(W.n_out for W in matrices))
        self.first, self.last = _Moving(start.first), _Moving(start.last)
        self.biases = [None if b is None else _Moving(b) for b in start.biases]
        net = self.net
        self.phi = value_and_slope(net.activation)
        # Every layer below the last meets the last width in its gradients.
        self.rates = [
            self.sgd.eta * t * r / net.ratios[-1]
            for t, r in zip(powers.theta, net.lambda_W, strict=False)
        ]
        self.rates_b = [
            self.sgd.eta * t * r / net.ratios[-1]
            for t, r in zip(powers.theta_b[:-1], net.lambda_b, strict=False)
        ]
        task = job.task
        self._everything = task.all_inputs
        self._seen: tuple = ()

    def look(self, chosen: np.ndarray | None, watched: bool) -> Recorded:
        """Outputs and features; what the step needs of them is kept."""
        X, taught, back = _rows(self.job.task.inputs, self._everything, chosen, watched)
        X = X.astype(self.dtype, copy=False)
        f, features, slopes, met = self.forward(X, None if self.keep_tests else taught)
        self._seen = (X, taught, features, slopes, met)
        if not watched:
            return Recorded(f[..., :taught, :])
        shown = [x[..., back, :] for x in features]
        count = self.job.features
        coordinates = np.stack([x[..., :count] for x in shown], axis=-3) if count else None
        return Recorded(f[..., :taught, :], f[..., back, :], _overlaps(shown), coordinates)

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

    def step(self, errors: np.ndarray) -> None:
        """One step on the rows that were looked at first, which have targets."""
        X, P, features, slopes, met = self._seen
        errors = errors.astype(self.dtype)
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
    inputs: np.ndarray, everything: np.ndarray, chosen: np.ndarray | None, watched: bool
) -> tuple[np.ndarray, int, Any]:
    """Inputs of a step, the taught ones first; how many these are; where each watched input stands."""
    if chosen is None:
        return (everything if watched else inputs), len(inputs), slice(None)
    if not watched:
        return inputs[chosen], len(chosen), slice(None)
    rest = np.setdiff1d(np.arange(len(everything)), chosen)
    order = np.concatenate([chosen, rest])
    back = np.empty(len(everything), dtype=np.intp)
    back[order] = np.arange(len(order))
    return everything[order], len(chosen), back


def _overlaps(features: Sequence[np.ndarray]) -> np.ndarray:
    r"""$\langle x^\ell,x^\ell\rangle$ of every layer."""
    rows = features[0].shape[-2]
    kernel = np.empty((*features[0].shape[:-2], len(features), rows, rows))
    for layer, x in enumerate(features):
        np.multiply(x @ x.swapaxes(-1, -2), 1 / x.shape[-1], out=kernel[..., layer, :, :])
    return kernel
