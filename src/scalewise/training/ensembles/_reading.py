r"""Readings of the outputs of a network, and parts of them whose mean is known and can be taken off again.

All that an ensemble tells is made of means: of outputs, of products of outputs about a centre that is chosen
beforehand, of losses. A control variate has the same means of something that is nearly the same and costs nothing
to know:

- *free*: $\zeta=z_0-R\,z_{0,\mathcal A}$ of the network before training. Its last weights and their negatives are
  equally likely, so $\mathbb E[\zeta]=0$ for every fixed matrix $R$, and given the hidden layers its covariance is
  $(1,-R)\,\widehat G\,(1,-R)^T\delta_{ij}$: both exact at any width.
- *linear*: the outputs that training would lead to if the NTK of this very network stayed as it is. Their means
  come
  from many more networks that nobody trains, with the free control once more.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from jaxtyping import Float

from scalewise.tasks import Task
from scalewise.training._generalisation import class_error, true_classes

Outputs = Float[np.ndarray, "network output sample"]
Parts = dict[str, np.ndarray]


@dataclass(frozen=True)
class NetworkReading:
    r"""The quantities that are read off each network.

    Args:
        task: Training samples come first among all samples.
        R: $\partial z/\partial y$ of the mean NTK, all samples by training samples.
        centre: About which products are taken, near the mean outputs.
    """

    task: Task
    R: Float[np.ndarray, "sample train"]
    centre: Float[np.ndarray, "output sample"]

    @property
    def names(self) -> tuple[str, ...]:
        """Names of the quantities that `of` gives."""
        tests = self.task.test_inputs
        z = np.zeros((1, self.task.targets.shape[1], len(self.task.inputs) + len(tests)))
        return tuple(self.of(z))

    def of(
        self, z: Outputs, spread: Float[np.ndarray, "network sample sample"] | None = None
    ) -> Parts:
        """Everything, from outputs; or from means of Gaussian outputs with a spread, alike for each output.

        Args:
            z: On all samples.
            spread: Covariance between samples; outputs are independent.
        """
        count, task = len(self.task.inputs), self.task
        tests = z[:, :, count:]
        many = tests.shape[1] * tests.shape[2]  # may be 0, where -1 has no meaning
        away = (tests - self.centre[:, count:]).reshape(len(z), many)
        products = away[:, :, None] * away[:, None, :]
        if spread is not None:
            own = spread[:, count:, count:]
            eye = np.eye(z.shape[1])
            products = products + np.einsum("ij,kab->kiajb", eye, own).reshape(products.shape)
        flat = tests.reshape(len(z), many)
        variances = 0.0 if spread is None else np.einsum("kaa->ka", spread)
        found = {
            "output": flat,
            "product": upper(products),
            "train_loss": _loss(z[:, :, :count], task.targets.T, _of(variances, slice(count))),
        }
        if task.test_targets is not None and len(task.test_inputs):
            known = _of(variances, slice(count, None))
            found["test_loss"] = _loss(tests, task.test_targets.T, known)
            if true_classes(task.targets, task.test_targets):
                flatly = np.zeros((len(z), tests.shape[-1])) + known
                found["test_error"] = class_error(tests, flatly, task.test_targets.T)
        return found

    def free(
        self,
        linear: Outputs,
        square: Outputs,
        spread: Float[np.ndarray, "network joint joint"],
        mean: Outputs | None = None,
    ) -> Parts:
        r"""The quantities of $\bar z+\zeta$, less their mean over the last weights: on average 0.

        Args:
            linear: $\zeta$ in all that is linear in it; any response $R$ that the sign of the last weights does not
                change will do.
            square: $\zeta$ in all that is quadratic in it, with the fixed $R$.
            spread: The covariance of the latter given the hidden layers.
            mean: $\bar z$, `centre` by default.
        """
        count, task, outputs = len(self.task.inputs), self.task, linear.shape[1]
        middle = np.broadcast_to(self.centre, linear.shape) if mean is None else mean
        variances = np.einsum("kjj->kj", spread).reshape(linear.shape)
        many = outputs * (linear.shape[2] - count)
        tests, twice = (a[:, :, count:].reshape(len(a), many) for a in (linear, square))
        products = twice[:, :, None] * twice[:, None, :]
        own = spread.reshape(len(spread), outputs, linear.shape[2], outputs, -1)
        products = products - own[:, :, count:, :, count:].reshape(products.shape)
        if mean is not None:
            away = (mean - self.centre)[:, :, count:].reshape(len(mean), many)
            cross = away[:, :, None] * tests[:, None, :]
            products = products + cross + cross.transpose(0, 2, 1)
        random = 0.5 * (square**2 - variances).sum(axis=1)

        def loss(here: slice, y: np.ndarray) -> np.ndarray:
            return ((middle[:, :, here] - y) * linear[:, :, here]).sum(axis=1) + random[:, here]

        found = {
            "output": tests,
            "product": upper(products),
            "train_loss": loss(slice(count), task.targets.T),
        }
        if task.test_targets is not None and len(task.test_inputs):
            found["test_loss"] = loss(slice(count, None), task.test_targets.T)
        return found


def upper(matrices: Float[np.ndarray, "network joint joint"]) -> Float[np.ndarray, "network pair"]:
    """The entries on and above the diagonal."""
    a, b = np.triu_indices(matrices.shape[-1])
    return matrices[:, a, b]


def whole(pairs: Float[np.ndarray, " pair"], size: int) -> Float[np.ndarray, "joint joint"]:
    """The inverse of `upper`, of one matrix."""
    a, b = np.triu_indices(size)
    matrix = np.empty((size, size))
    matrix[a, b] = matrix[b, a] = pairs
    return matrix


def _of(variances: np.ndarray | float, here: slice) -> np.ndarray | float:
    return variances[:, here] if isinstance(variances, np.ndarray) else variances


def _loss(z: np.ndarray, y: np.ndarray, variances: np.ndarray | float) -> np.ndarray:
    """Half the squared error of each sample, (network, sample)."""
    return 0.5 * ((z - y) ** 2).sum(axis=1) + 0.5 * len(y) * variances
