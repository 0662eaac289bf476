r"""Tensors of order 1/n in eigendirections, weighed, and contracted over neurons that are never written out.

Four neurons pair in three ways, each of which comes with one tensor on four samples. Samples are the training
directions and then the tests.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np
from jaxtyping import Float

from scalewise.theory.spi import pairings
from scalewise.training.width._weights import Reach

Operand = tuple[str, np.ndarray]


@dataclass(frozen=True)
class PairTensor:
    """One pairing of the neurons of an expectation.

    Args:
        pairs: Places of neurons that are the same one, such as ``((0, 1), (2, 3))``.
        values: On four samples, in the order of the places.
    """

    pairs: tuple[tuple[int, int], tuple[int, int]]
    values: np.ndarray

    def moved(self, *places: int) -> PairTensor:
        """The block with its places in another order: the first of the new is the old `places[0]`."""
        where = {old: new for new, old in enumerate(places)}
        first, second = ((where[a], where[b]) for a, b in self.pairs)
        return PairTensor((first, second), self.values.transpose(places))

    def with_values(self, values: np.ndarray) -> PairTensor:
        """Other values."""
        return PairTensor(self.pairs, values)


def expectation(name: str, tensors: Mapping[str, np.ndarray]) -> tuple[PairTensor, ...]:
    """The blocks of an expectation over four neurons.

    Args:
        name: As `scalewise.theory.correlators.neuron_tensor` calls it.
        tensors: By letter.
    """
    blocks = []
    for pairs, letter, places in pairings(name):
        first, second = (tuple("abcd".index(x) for x in pair) for pair in pairs.split(","))
        order = [places.index(x) for x in "abcd"]
        blocks.append(PairTensor((first, second), tensors[letter].transpose(order)))  # pyright: ignore[reportArgumentType]
    return tuple(blocks)


def contract(
    blocks: Sequence[PairTensor],
    legs: tuple[str, str],
    *operands: Operand,
    out: str,
    outputs: int,
) -> np.ndarray:
    """A sum over neurons and samples.

    Args:
        blocks: Of an expectation.
        legs: A letter for each of its four neurons, and one for each sample of its values.
        operands: What multiplies them: letters and array.
        out: Letters of the result.
        outputs: How many neurons there are.
    """
    neurons, samples = legs
    eye, total = np.eye(outputs), 0.0
    for block in blocks:
        same = ["".join(neurons[place] for place in pair) for pair in block.pairs]
        letters = ",".join([*same, samples, *(letters for letters, _ in operands)])
        arrays = [eye, eye, block.values, *(array for _, array in operands)]
        path = _path(f"{letters}->{out}", *(array.shape for array in arrays))
        total = total + np.einsum(f"{letters}->{out}", *arrays, optimize=path)
    return np.asarray(total)


@lru_cache(maxsize=1024)
def _path(letters: str, *shapes: tuple[int, ...]) -> list[Any]:
    """The order of products, which takes longer to find than to go where samples are few."""
    return np.einsum_path(letters, *map(np.empty, shapes), optimize="greedy")[0]


@dataclass(frozen=True)
class Frame:
    r"""Training directions and test samples.

    A direction that $\tilde\Theta$ does not have is left out: no parameter moves an output there, and every tensor
    is 0.

    Args:
        U: Eigenvectors of $\tilde\Theta$, of eigenvalues above 0.
        T: $\Theta_{\mathcal{BA}}U$.
        gain: $g$ at the end of the training.
    """

    U: Float[np.ndarray, "sample direction"]
    T: Float[np.ndarray, "test direction"]
    gain: Float[np.ndarray, " direction"]

    @property
    def count(self) -> int:
        """Number of directions."""
        return self.U.shape[1]

    def turned(self, tensor: np.ndarray) -> np.ndarray:
        """All axes, training samples first, from samples to directions; tests stay."""
        n = len(self.U)
        for axis in range(tensor.ndim):
            moved = np.moveaxis(tensor, axis, 0)
            turned = np.concatenate([np.tensordot(self.U.T, moved[:n], 1), moved[n:]])
            tensor = np.moveaxis(turned, 0, axis)
        return tensor

    def left(self, tensor: np.ndarray, axis: int) -> np.ndarray:
        r"""$\zeta_\delta=z_\delta-\Theta_{\delta0}g\,z_0$ of the tests on one axis: what training does not read."""
        moved = np.moveaxis(tensor, axis, 0)
        read = np.tensordot(self.T * self.gain, moved[: self.count], 1)
        return np.moveaxis(moved[self.count :] - read, 0, axis)

    def weighed(self, tensor: np.ndarray, reach: Reach) -> np.ndarray:
        """A tensor as it is seen in tests: test first, then training directions, then what is not weighed."""
        n, legs = self.count, reach.beyond.ndim
        more = (1,) * (tensor.ndim - 1 - legs)
        trained = tensor[(slice(None), *(slice(n),) * legs)]
        within = trained[:n] * reach.within.reshape(*reach.within.shape, *more)
        beyond = trained[n:] * reach.beyond.reshape(*reach.beyond.shape, *more)
        return beyond - np.tensordot(self.T, within, 1)
