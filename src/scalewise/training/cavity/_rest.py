r"""A neuron, or two, trained together with an infinitely wide rest of the last hidden layer.

The rest is a kernel machine: its outputs move by $-\Theta e$. A neuron with preactivations $z$ and last weights $a$
adds $\kappa\sigma(z)a$ to the outputs and moves by

$$\dot a=-\lambda_W\kappa\sum_{\tilde\alpha}\sigma(z_{\tilde\alpha})e_{\tilde\alpha},\qquad
  \dot z_\delta=-\kappa\sum_{\tilde\alpha}\Theta^{(L-1)}_{\delta\tilde\alpha}\sigma'(z_{\tilde\alpha})\,
  e_{\tilde\alpha}\cdot a,$$

$e$ the slope of the loss at the outputs of all together. All is expanded in the couplings.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from jaxtyping import Float

from scalewise.activations import Activation
from scalewise.tasks import Task
from scalewise.training.cavity._series import (
    Series,
    composed,
    constant,
    product,
    shifted,
    taylor,
)

OnTrain = Float[np.ndarray, "sample train"]


@dataclass(frozen=True, eq=False)
class Rest:
    r"""An infinitely wide network, as a neuron of its last hidden layer sees it.

    Args:
        task: Its training samples, targets and loss; samples everywhere are the training samples, then the tests.
        sigma: The activation.
        Theta: NTK of the output layer, between all samples and the training samples.
        below: NTK of the last hidden layer's preactivations, likewise.
        lambda_W: Learning rate of the last weights.
    """

    task: Task
    sigma: Activation
    Theta: OnTrain
    below: OnTrain
    lambda_W: float


class Neuron(NamedTuple):
    r"""Draws of one neuron at the start.

    Args:
        z: Preactivations on all samples, (draw, sample).
        a: Last weights, (draw, output) or the same for all draws, (output,).
    """

    z: np.ndarray
    a: np.ndarray


@dataclass(frozen=True)
class FlowPieces:
    """Steps of a training.

    Args:
        rates: Of each step, for the sum of the losses; of gradient flow pieces of time.
        momentum: What is left of the velocity.
        flows: Whether each is a piece of flow, by the classical Runge-Kutta rule, and not a step of descent.
    """

    rates: tuple[float, ...]
    momentum: float = 0.0
    flows: bool = False


State = list[
    Series
]  # time integrals: of the errors, then for each neuron of what drives z and what drives a


def trained(
    rest: Rest,
    course: FlowPieces,
    outputs: Float[np.ndarray, "draw sample output"],
    neurons: tuple[Neuron, ...],
    orders: tuple[int, int],
) -> Series:
    """Outputs of all together after training, (powers, powers', draw, sample, output).

    Args:
        rest: The infinitely wide network.
        course: How it is trained.
        outputs: Of the rest at the start, on all samples.
        neurons: One, or two that do not see each other but through the outputs.
        orders: Highest powers of their couplings.
    """
    count = len(rest.task.inputs)
    sums: State = [np.zeros((orders[0] + 1, orders[1] + 1, *outputs[:, :count].shape))]
    for neuron in neurons:
        sums.append(constant(np.zeros_like(neuron.z[:, :count]), orders))
        sums.append(constant(np.zeros((len(neuron.z), outputs.shape[-1])), orders))
    A = slice(0, count)
    seen = _Samples.of(rest, outputs, neurons, A)
    velocity: State = [np.zeros_like(part) for part in sums]
    for rate in course.rates:
        if course.flows:
            sums = _flowed(seen, sums, rate)
            continue
        velocity = [
            course.momentum * v + rate * push
            for v, push in zip(velocity, seen.push(sums), strict=True)
        ]
        sums = [part + v for part, v in zip(sums, velocity, strict=True)]
    ends = [seen.outputs(sums)[0]]
    if outputs.shape[1] > count:
        ends.append(_Samples.of(rest, outputs, neurons, slice(count, None)).outputs(sums)[0])
    return np.concatenate(ends, axis=3)


@dataclass(frozen=True, eq=False)
class _Samples:
    """Some of the samples, with what does not change while they are trained on."""

    rest: Rest
    rows: slice
    start: np.ndarray
    neurons: tuple[Neuron, ...]
    jets: tuple[list[np.ndarray], ...]  # sigma and its derivatives at the start, of each neuron

    @staticmethod
    def of(rest: Rest, outputs: np.ndarray, neurons: tuple[Neuron, ...], rows: slice) -> _Samples:
        jets = tuple([rest.sigma.derivative(n.z[:, rows], k) for k in range(4)] for n in neurons)
        return _Samples(rest, rows, outputs[:, rows], neurons, jets)

    def outputs(self, sums: State) -> tuple[Series, list[Series], list[Series]]:
        """Outputs of all together; of each neuron how far it moved, and its last weights."""
        orders = sums[0].shape[0] - 1, sums[0].shape[1] - 1
        found = -np.einsum("dt,pqmto->pqmdo", self.rest.Theta[self.rows], sums[0], optimize=True)
        found[0, 0] += self.start
        moved, weights = [], []
        for n, (neuron, jet) in enumerate(zip(self.neurons, self.jets, strict=True)):
            z = -sums[1 + 2 * n] @ self.rest.below[self.rows].T
            a = -self.rest.lambda_W * sums[2 + 2 * n]
            a[0, 0] += neuron.a
            # A neuron enters with its coupling: the highest power of its own motion is not seen.
            sigma = taylor(jet[: orders[n]], z)
            found += shifted(product(sigma, a, lambda s, w: s[..., None] * w[..., None, :]), n)
            moved.append(z)
            weights.append(a)
        return found, moved, weights

    def push(self, sums: State) -> State:
        """The integrands over time: errors, and what drives each neuron."""
        orders = sums[0].shape[0] - 1, sums[0].shape[1] - 1
        found, moved, weights = self.outputs(sums)
        task = self.rest.task
        error = composed(lambda f: task.loss.gradient(f, task.targets), found)
        pushes = [error]
        for n, jet in enumerate(self.jets):
            slope = taylor(jet[1 : max(orders[n], 2)], moved[n])
            along = product(weights[n], error, lambda a, e: (e * a[:, None, :]).sum(axis=-1))
            pushes.append(shifted(product(slope, along), n))
            sigma = taylor(jet[: orders[n]], moved[n])
            summed = product(sigma, error, lambda s, e: (s[..., None] * e).sum(axis=-2))
            pushes.append(shifted(summed, n))
        return pushes


def _flowed(seen: _Samples, sums: State, time: float) -> State:
    def moved(push: State, by: float) -> State:
        return [part + by * one for part, one in zip(sums, push, strict=True)]

    k1 = seen.push(sums)
    k2 = seen.push(moved(k1, time / 2))
    k3 = seen.push(moved(k2, time / 2))
    k4 = seen.push(moved(k3, time))
    mean = [(a + 2 * b + 2 * c + d) / 6 for a, b, c, d in zip(k1, k2, k3, k4, strict=True)]
    return moved(mean, time)
