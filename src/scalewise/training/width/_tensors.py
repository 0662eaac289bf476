"""Tensors of the last layer on some samples, made once for all algorithms that are asked about them."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field

import numpy as np
from jaxtyping import Float

from scalewise.activations import Activation
from scalewise.networks import Network
from scalewise.networks.spi import course
from scalewise.theory.spi import ALIKE, as_arrays, in_parts, runs_of, tensor_runs
from scalewise.training._asked import Arrays
from scalewise.training.tiles._rules import Accuracy
from scalewise.training.tiles._whole import Layers
from scalewise.training.width._moments import LETTERS

_NEVER = ("B", "F", "P", "Q", "R", "S", "T", "U")  # 0 where nothing below the last layer learns
_TOGETHER = 32  # labels of a population, of which expectations as accurate as asked are made all
_KEPT = 2**30  # bytes of tensors that a call after this one may want again
Runs = list[list[Arrays]]
_SHARED: ContextVar[dict[object, Runs] | None] = ContextVar("tensors", default=None)


@contextmanager
def shared_tensors() -> Iterator[None]:
    """Within, tensors of the same network on the same samples are made once; the first stay that fit the memory."""
    if _SHARED.get() is not None:
        yield
        return
    token = _SHARED.set({})
    try:
        yield
    finally:
        _SHARED.reset(token)


@dataclass(frozen=True)
class Samples:
    """Different inputs, with their kernel and NTK.

    Args:
        inputs: All different.
        K: Their kernel, at every layer of a fully connected network, otherwise at the last.
        Theta: Their NTK, likewise.
    """

    inputs: Float[np.ndarray, "sample *positions feature"]
    K: Float[np.ndarray, "layer sample sample"]
    Theta: Float[np.ndarray, "layer sample sample"]
    _layers: dict[Accuracy, Layers] = field(default_factory=dict, repr=False)

    @classmethod
    def of(
        cls,
        x: Float[np.ndarray, "all *positions feature"],
        kernels: dict[str, Float[np.ndarray, "layer all all"]],
    ) -> tuple[Samples, np.ndarray]:
        """Inputs of which some may be equal, with the place of each among the different ones.

        Args:
            x: The inputs.
            kernels: Their ``"kernel"`` and their ``"ntk"``.
        """
        different, first, places = np.unique(
            x + 0.0, axis=0, return_index=True, return_inverse=True
        )
        K, Theta = (kernels[kind][:, first][:, :, first] for kind in ("kernel", "ntk"))
        return cls(different, K, Theta), places

    def layers(self, accuracy: Accuracy) -> Layers:
        """Expectations of the layers, made once for networks that differ by their widths."""
        return self._layers.setdefault(accuracy, Layers(accuracy))

    def runs(self, net: Network, accuracy: Accuracy | None = None) -> Runs:
        """Estimates of all tensors for `with_shakes`.

        Args:
            net: The network, that may have other widths.
            accuracy: Of expectations over more than two samples; ``None`` for those over nodes.
        """
        kept, key = _SHARED.get(), (net, self.inputs.tobytes(), accuracy)
        if kept is not None and key in kept:
            return kept[key]
        letters = letters_of(net)
        found = self._made(net, letters, accuracy)
        none = {x: np.zeros((len(self.inputs),) * 4) for x in LETTERS if x not in letters}
        runs = [[none | one for one in run] for run in found]
        if kept is not None and _size(runs) + sum(map(_size, kept.values())) <= _KEPT:
            kept[key] = runs
        return runs

    def fluctuations(self, net: Network) -> Arrays:
        """Tensors of the fluctuations of the NTK alone, the mean of all estimates."""
        run = self._made(net, ("A", "B"), None)[0]
        return {x: np.mean([one[x] for one in run], axis=0) for x in run[0]}

    def _made(self, net: Network, letters: tuple[str, ...], accuracy: Accuracy | None) -> Runs:
        make = ALIKE if accuracy is None else self.layers(accuracy)
        if net.is_plain:
            return tensor_runs(net, self.K, self.Theta, letters, make)
        together = None if accuracy is None else _TOGETHER
        return runs_of(net, self.inputs, letters, make, together)


def has_accuracies(net: Network, x: Float[np.ndarray, "sample *positions feature"]) -> bool:
    """True if all expectations are as accurate as asked, and none is over nodes or units."""
    if not net.is_plain and not as_arrays(net, len(x), letters_of(net)):
        return False
    own = course(net.program, x, [net.program.layers[-1]])
    return all(
        _is_analytic(population.sigma) and not in_parts(own, root, _TOGETHER)
        for root, population in own.populations.items()
    )


def most_labels(net: Network, x: Float[np.ndarray, "sample *positions feature"]) -> int:
    """The largest number of labels of a population: entries of expectations are its fourth power."""
    return course(net.program, x, [net.program.layers[-1]]).most_labels


def _is_analytic(sigma: Activation) -> bool:
    """True if conditioned expectations exist, and nodes have something left to tell."""
    return sigma.is_smooth and not sigma.is_scale_invariant and sigma.family != "exp"


def letters_of(net: Network) -> tuple[str, ...]:
    """Tensors that are not 0, PDLT (∞.173)."""
    below = [net.program.own(layer) for layer in range(1, net.depth)]
    learns = any(own.lambda_b or own.lambda_W for own in below)
    return LETTERS if learns else tuple(x for x in LETTERS if x not in _NEVER)


def _size(runs: Runs) -> int:
    return sum(tensor.nbytes for run in runs for one in run for tensor in one.values())
