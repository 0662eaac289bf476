r"""One multilayer perceptron with given weights: its outputs and NTK, and Taylor series along a path of parameters.

Along $\theta+\sum_{k\ge1}\tau^k\theta^{(k)}$ everything is a series in $\tau$: a product of two has the terms
$\sum_{i+j=k}a^{(i)}b^{(j)}$, and with $\delta=\tau z^{(1)}+\tau^2z^{(2)}+\dots$

$$\sigma(z+\delta)=\sigma+\tau\,\sigma'z^{(1)}+\tau^2\big(\sigma'z^{(2)}+\tfrac12\sigma''(z^{(1)})^2\big)
  +\tau^3\big(\sigma'z^{(3)}+\sigma''z^{(1)}z^{(2)}+\tfrac16\sigma'''(z^{(1)})^3\big)+\dots$$

Forwards that gives outputs, backwards gradients, for the price of a few passes and without a tensor of derivatives.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
from jaxtyping import Float

from scalewise.activations import Activation
from scalewise.networks import Network
from scalewise.networks._weights import by_node, fields
from scalewise.training._one_network import Tangents, parameters_of

Series = list[np.ndarray]  # terms of a series in the length of a path, from order 0
Flat = Float[np.ndarray, " parameter"]


class Layers(NamedTuple):
    r"""One network on its way through some inputs.

    Args:
        weights: $W$ of every layer, float64.
        biases: $b$ of every layer.
        entering: What enters each layer: inputs, then activations (sample, n_(l-1)).
        slopes: $\sigma'$ of each hidden layer (sample, n_l).
        z: Its outputs (sample, output).
    """

    weights: list[np.ndarray]
    biases: list[np.ndarray]
    entering: list[np.ndarray]
    slopes: list[np.ndarray]
    z: np.ndarray


def layers_of(net: Network, given: Any, x: Float[np.ndarray, "sample feature"]) -> Layers:
    """A forward pass.

    Args:
        net: Shape and activation.
        given: Weights and biases.
        x: Inputs.

    Raises:
        ValueError: If weights have other shapes than the network's.
    """
    parameters, program = parameters_of(net, given), net.program
    found, seen = fields(program, by_node(program, parameters), x)
    slopes = [net.activation.derivative(found[k]) for k in program.draws[:-1]]
    entering = [seen[k] for k in program.draws]
    weights, biases = map(list, parameters)
    return Layers(weights, biases, entering, slopes, found[-1])


def tangents_of(net: Network, given: Any, x: Float[np.ndarray, "sample feature"]) -> Tangents:
    r"""Outputs and NTK of a network with given weights, layer by layer.

    Args:
        net: Its shape, activation and rates.
        given: Weights and biases.
        x: Inputs.

    Raises:
        ValueError: As `layers_of`.

    Source: PDLT (8.12), (8.16)-(8.18).
    """
    found, n = layers_of(net, given, x), net.widths
    size, outputs = found.z.shape
    back = np.broadcast_to(np.eye(outputs), (size, outputs, outputs)).reshape(size * outputs, -1)
    H = np.zeros((size, outputs, size, outputs))
    for layer in reversed(range(net.depth)):
        seen = found.entering[layer] @ found.entering[layer].T
        rates = net.lambda_b[layer] + net.lambda_W[layer] / n[layer] * seen
        H += (back @ back.T).reshape(H.shape) * rates[:, None, :, None]
        if layer:
            back = (back @ found.weights[layer]) * np.repeat(
                found.slopes[layer - 1], outputs, axis=0
            )
    return Tangents(found.z, H.transpose(0, 2, 1, 3))


@dataclass(frozen=True)
class CurvedMLP:
    r"""What a perceptron does beyond its first derivatives; see `Curvature`.

    Args:
        net: Its shape, activation and rates.
        given: Weights and biases.
        x: Training samples, then test samples.

    Source: PDLT (11.8), (∞.5), (∞.7) along one path, by forward and backward passes.
    """

    net: Network
    given: Any
    x: Float[np.ndarray, "sample feature"]

    @cached_property
    def _start(self) -> Layers:
        return layers_of(self.net, self.given, self.x)

    @cached_property
    def _rates(self) -> Flat:
        n, found = self.net.widths, self._start
        weights = [
            np.full(W.size, self.net.lambda_W[k] / n[k]) for k, W in enumerate(found.weights)
        ]
        biases = [np.full(b.size, self.net.lambda_b[k]) for k, b in enumerate(found.biases)]
        return np.concatenate([*weights, *biases])

    @property
    def parameters(self) -> int:
        """How many there are."""
        return self._rates.size

    @property
    def obstacle(self) -> str:
        """Whether the activation is smooth."""
        sigma = self.net.activation
        return "" if sigma.is_smooth else f"the activation {sigma.name!r} has no third derivative"

    def gradients(
        self, errors: Float[np.ndarray, "train output"], path: Sequence[Flat] = ()
    ) -> list[Flat]:
        """See `Curvature`."""
        x = self.x[: len(errors)]
        Ws, bs = self._series(path)
        sigma, order = self.net.activation, len(path)
        entering, slopes = [[x, *(np.zeros_like(x) for _ in path)]], []
        for W, b in zip(Ws[:-1], bs[:-1], strict=True):
            z = _preactivations(entering[-1], W, b)
            slopes.append(_along(sigma, z, 1))
            entering.append(_along(sigma, z, 0))
        back = [errors, *(np.zeros_like(errors) for _ in path)]
        by_weights, by_biases = [], []
        for layer in reversed(range(len(Ws))):
            by_weights.append(_product([d.T for d in back], entering[layer]))
            by_biases.append([d.sum(axis=0) for d in back])
            if layer:
                below = _product(back, Ws[layer])
                back = _product(below, slopes[layer - 1], np.multiply)
        parts = (*by_weights[::-1], *by_biases[::-1])
        return [
            self._rates * np.concatenate([part[k].ravel() for part in parts])
            for k in range(order + 1)
        ]

    def outputs(self, path: Sequence[Flat], count: int | None = None) -> list[np.ndarray]:
        """See `Curvature`."""
        x = self.x[:count]
        Ws, bs = self._series(path)
        z = _preactivations([x, *(np.zeros_like(x) for _ in path)], Ws[0], bs[0])
        for W, b in zip(Ws[1:], bs[1:], strict=True):
            z = _preactivations(_along(self.net.activation, z, 0), W, b)
        return z

    def _series(self, path: Sequence[Flat]) -> tuple[list[Series], list[Series]]:
        """Weights and biases of every layer along the path."""
        found = self._start
        parts = [*found.weights, *found.biases]
        cuts = np.cumsum([part.size for part in parts])[:-1]
        orders = [
            [p.reshape(part.shape) for p, part in zip(np.split(theta, cuts), parts, strict=True)]
            for theta in path
        ]
        series = [[part, *(o[k] for o in orders)] for k, part in enumerate(parts)]
        return series[: len(found.weights)], series[len(found.weights) :]


def _product(a: Series, b: Series, times: Any = np.matmul) -> Series:
    """Term by term, of two series of the same length."""
    found = [times(a[0], b[k]) for k in range(len(a))]
    for k in range(len(a)):
        for i in range(1, k + 1):
            found[k] = found[k] + times(a[i], b[k - i])
    return found


def _preactivations(a: Series, W: Series, b: Series) -> Series:
    return [s + t for s, t in zip(_product(a, [w.T for w in W]), b, strict=True)]


def _along(sigma: Activation, z: Series, order: int) -> Series:
    """A derivative of the activation along a series of preactivations, up to the third derivative of all."""
    own, *rest = (sigma.derivative(z[0], order + k) for k in range(len(z)))
    found = [own]
    if rest:
        found.append(rest[0] * z[1])
    if len(rest) > 1:
        found.append(rest[0] * z[2] + rest[1] * z[1] ** 2 / 2)
    if len(rest) > 2:
        found.append(rest[0] * z[3] + rest[1] * z[1] * z[2] + rest[2] * z[1] ** 3 / 6)
    return found
