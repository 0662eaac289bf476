"""Kernels of the samples of a request, each pair evaluated once for the leading order and for what a width adds."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from jaxtyping import Float

from scalewise.training._asked import Asked
from scalewise.training._sample_kernels import between, in_turn
from scalewise.training._spectrum import Spectrum, spectrum

BLOCK = 1024  # test samples at a time where only variances are kept; no fewer than there are training samples
_CALLED = {"ntk": "NTK", "kernel": "kernel"}
Layers = Float[np.ndarray, "layer sample sample"]
OfTests = tuple[slice, np.ndarray, np.ndarray, np.ndarray]


@dataclass(frozen=True, eq=False)
class SampleKernels:
    """Kernels of training samples with each other and with tests.

    Args:
        asked: The request.
        kinds: ``"ntk"``, ``"kernel"`` or both, beside those that the algorithm learns and starts with.
        deep: Whether they are wanted at every layer of a fully connected network, and not at the last alone.
        size: Number of tests in one square with all training samples; 0 where tests are wanted beside training
            samples, and each by itself, but not with each other.
    """

    asked: Asked
    kinds: tuple[str, ...] = ()
    deep: bool = False
    size: int = 0

    @property
    def _own(self) -> tuple[str, str]:
        """The kernel that learns, and the one that outputs start with."""
        return self.asked.algorithm.learns_with, self.asked.algorithm.starts_with

    @cached_property
    def on_samples(self) -> tuple[np.ndarray, np.ndarray]:
        """The kernel that learns and the one that outputs start with, of the training samples."""
        if not self.size:
            learns, starts = between(self.asked.learner, self.asked.task.inputs, kinds=self._own)
            return learns[0], starts[0]
        A = slice(0, len(self.asked.task.inputs))
        learns, starts = (self._squares[0][kind][-1][A, A] for kind in self._own)
        return learns, starts

    @cached_property
    def trained(self) -> Spectrum:
        """The spectrum of the kernel that learns, of the training samples."""
        learns, name = self.on_samples[0], _CALLED[self._own[0]]
        return spectrum(learns, f"{name} of the training samples")

    def on_tests(self, *, whole: bool) -> Iterator[OfTests]:
        """By block of tests: its place, kernels by training sample and test, and a kernel of the tests.

        The first is of the kernel that learns; the other two are of the one that outputs start with.

        Args:
            whole: Whether the last is of all pairs of the block, or of each test with itself.
        """
        count, starts_with = len(self.asked.task.inputs), self._own[1]
        for place, block in enumerate(self._blocks):
            if self.size:
                learns, starts = (self._squares[place][kind][-1] for kind in self._own)
                A, B = slice(0, count), slice(count, None)
                own = starts[B, B] if whole else np.diagonal(starts)[B]
                yield block, learns[A, B], starts[A, B], own
            else:
                net, x, tests = self.asked.learner, self.asked.task.inputs, self.asked.tests[block]
                learns, starts = between(net, x, tests, self._own)
                yield block, learns[0], starts[0], in_turn(net, tests, tests, starts_with)

    def square(self, tests: slice | None = None) -> dict[str, Layers]:
        """Kernels of all training samples, then of some tests, by kind; of all tests if none are named."""
        first, last, _ = (tests or slice(None)).indices(len(self.asked.tests))
        place = next(k for k, block in enumerate(self._blocks) if last <= block.stop)
        block, found = self._blocks[place], self._squares[place]
        if (first, last) == (block.start, block.stop):
            return found
        count = len(self.asked.task.inputs)
        some = np.arange(count + last - first)
        some[count:] += first - block.start
        return {kind: layers[:, some][:, :, some] for kind, layers in found.items()}

    @property
    def _blocks(self) -> list[slice]:
        """Tests that are looked at together."""
        count = len(self.asked.tests)
        size = self.size or max(BLOCK, len(self.asked.task.inputs))
        starts = range(0, max(count, self.size > 0), size)
        return [slice(start, min(start + size, count)) for start in starts]

    @cached_property
    def _squares(self) -> list[dict[str, Layers]]:
        asked, kinds = self.asked, tuple(dict.fromkeys((*self._own, *self.kinds)))
        layers = range(1, asked.net.depth + 1) if self.deep and asked.plain else None
        x = asked.task.inputs
        inputs = [np.concatenate([x, asked.tests[block]]) for block in self._blocks]
        return [
            dict(zip(kinds, between(asked.learner, some, None, kinds, layers=layers), strict=True))
            for some in inputs
        ]
