r"""Expectations of derivatives of a function over Gaussian neurons, with no derivative taken.

In coordinates $u=R^+z$ with $RR^T=K$, Stein's identity gives
$$\langle\partial_{i_1r_1}\cdots\partial_{i_kr_k}O\rangle=\langle O\,\mathrm{He}_{i_1r_1\dots i_kr_k}(u)
\rangle .$$
A tensor whose legs lie in the span of $K$ is contracted in these coordinates: nothing is inverted along
directions in which the inputs do not differ, and $O$ may have kinks.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from jaxtyping import Float

from scalewise.gaussian.spi import JointRule, joint_rule

# Beyond the four coordinates of `joint_rule`: derivatives are noisier than values, so that a coarse
# product rule still beats samples.
_MORE_LEVELS = {5: (12, 14), 6: (8, 9)}
Observable = Callable[[Float[np.ndarray, "neuron sample node"]], Any]


@dataclass(frozen=True)
class NeuronMoments:
    """Moments of an observable over one set of nodes."""

    z: Float[np.ndarray, "neuron sample node"]  # the nodes
    # Values of the observable times the weights of the nodes.
    weighted: Float[np.ndarray, "*out node"]
    weights: Float[np.ndarray, " node"]  # of the nodes
    # Expectations of its derivatives of order 0, 1, …: an axis pair (neuron, direction) for each
    # derivative, after the axes of the observable.
    hermite: tuple[np.ndarray, ...]


@dataclass(frozen=True)
class GaussianNeurons:
    """Independent neurons with one kernel over the samples."""

    # $R$ with $RR^T=K$, columns for the directions in which the samples differ.
    root: Float[np.ndarray, "sample direction"]
    inverse: Float[np.ndarray, "direction sample"]  # $R^+$
    neurons: int
    rule: JointRule  # nodes for all their coordinates

    def moments(self, observable: Observable, order: int) -> Iterator[NeuronMoments]:
        """For each estimate of the rule, expectations of derivatives up to `order`, at most 3."""
        for u, weights in self.rule.nodes():
            by_neuron = u.reshape(self.neurons, -1, u.shape[1])
            z = np.einsum("ar,irm->iam", self.root, by_neuron)
            weighted = _values(observable, z) * weights
            yield NeuronMoments(z, weighted, weights, self._hermite(u, weighted, order))

    def lowered(
        self, name: str, tensor: np.ndarray, axes: Sequence[int], *, dims: int = 4
    ) -> np.ndarray:
        """A tensor with some axes in the coordinates `direction`, refused if it leaves their span."""
        count = len(self.root)
        if tensor.shape != (count,) * dims:
            raise ValueError(
                f"`{name}` must have {dims} axes as long as `K`; got shape {tensor.shape} "
                f"for {count} samples."
            )
        return lowered(name, tensor, self.root, self.inverse, axes)

    def combine(self, estimates: Sequence[Any]) -> tuple[np.ndarray, np.ndarray]:
        """Value and numerical error."""
        return self.rule.combine(np.stack(estimates))

    def _hermite(self, u: np.ndarray, weighted: np.ndarray, order: int) -> tuple[np.ndarray, ...]:
        out, size = weighted.shape[:-1], len(u)
        flat, eye = weighted.reshape(-1, u.shape[1]), np.eye(size)
        first, zeroth = flat @ u.T, flat.sum(axis=1)
        found = [zeroth, first]
        if order >= 2:
            found.append(np.stack([(flat * row) @ u.T for row in u], axis=1))
            found[2] -= zeroth[:, None, None] * eye
        if order == 3:
            outer = (u[:, None] * u - eye[:, :, None]).reshape(-1, u.shape[1])
            third = np.stack([(flat * row) @ outer.T for row in u], axis=1)
            third = third.reshape(-1, size, size, size)
            third -= np.einsum("ox,yz->oyxz", first, eye) + np.einsum("ox,yz->oyzx", first, eye)
            found.append(third)
        legs = (self.neurons, self.root.shape[1])
        return tuple(t.reshape(out + legs * k) for k, t in enumerate(found[: order + 1]))


def check_square(name: str, K: np.ndarray) -> None:
    """Refuse what is not a square matrix."""
    if K.ndim != 2 or K.shape[0] != K.shape[1]:
        raise ValueError(f"`{name}` must be a square matrix; got shape {K.shape}.")


def gaussian_neurons(
    K: Float[np.ndarray, "_ _"], neurons: int, *, smooth: bool, name: str = "K"
) -> GaussianNeurons:
    """Neurons with a kernel, and nodes for functions of them.

    Of smooth functions up to six coordinates take a product rule.
    """
    check_square(name, K)
    value, vector = np.linalg.eigh(K)
    if not np.allclose(K, K.T, rtol=1e-10, atol=0) or value[0] < -1e-9 * max(value[-1], 0.0):
        raise ValueError(
            f"`{name}` must be symmetric and positive semidefinite; its smallest eigenvalue is "
            f"{value[0]:.3g} against a largest of {value[-1]:.3g}."
        )
    keep = value > 1e-12 * value[-1]
    if not np.any(keep):
        raise ValueError(f"`{name}` vanishes: there is nothing to take expectations over.")
    scale = np.sqrt(value[keep])
    root = vector[:, keep] * scale
    size = neurons * len(scale)
    if smooth and size in _MORE_LEVELS:
        rule = JointRule("product", np.eye(size), 0, _MORE_LEVELS[size])
    else:
        rule = joint_rule(np.eye(size), smooth=smooth)
    return GaussianNeurons(root, (vector[:, keep] / scale).T, neurons, rule)


def _values(observable: Observable, z: np.ndarray) -> np.ndarray:
    values = np.asarray(observable(z), dtype=np.float64)
    if values.ndim == 0 or values.shape[-1] != z.shape[-1] or not np.all(np.isfinite(values)):
        raise ValueError(
            "`observable` must return finite values with the nodes on the last axis: it got "
            f"preactivations of shape {z.shape} and returned shape {values.shape}."
        )
    return values


def lowered(
    name: str, tensor: np.ndarray, root: np.ndarray, inverse: np.ndarray, axes: Sequence[int]
) -> np.ndarray:
    """A tensor over samples with some axes in the coordinates of `root`; refused if it leaves their span."""
    out = _on_axes(tensor, inverse, axes)
    again = _on_axes(out, root, axes)
    largest = np.max(np.abs(tensor), initial=0.0)
    if not np.allclose(again, tensor, rtol=1e-6, atol=1e-6 * largest):
        raise ValueError(
            f"`{name}` varies in a direction in which `K` does not: samples that coincide in one "
            "must coincide in the other. Take both from the same prediction."
        )
    return out


def _on_axes(tensor: np.ndarray, matrix: np.ndarray, axes: Sequence[int]) -> np.ndarray:
    for axis in axes:
        tensor = np.moveaxis(np.tensordot(matrix, tensor, axes=(1, axis)), 0, axis)
    return tensor
