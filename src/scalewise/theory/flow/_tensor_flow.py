r"""The tensors of finite width through all layers: one table of recursions, and the flow that runs it.

A row is a step from one layer to the next. What it takes it says by the names of its parameters: the letters of
tensors of this layer, ``F_next`` for one of the next layer, ``Theta``, and of the network ``C_W``, ``lambda_W``
and the ratio of widths ``r``. Which recursions a tensor needs, and in which order steps are taken, is read off
these names. Expectations it asks the layer for, and they are made as they are asked for.

Source: PDLT ch. 8, 11, ∞.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from graphlib import TopologicalSorter

import numpy as np
from jaxtyping import Float

from scalewise._checked import Told, checked
from scalewise.activations import Activation
from scalewise.gaussian import SCRAMBLES, SHAKES, with_shakes
from scalewise.networks import MLP
from scalewise.networks._mlp import WithoutSkips
from scalewise.observables import OBSERVABLES, of_letter
from scalewise.theory.flow._ddntk import next_R, next_S, next_T, next_U
from scalewise.theory.flow._dntk import next_P, next_Q
from scalewise.theory.flow._layer import SCRAMBLES as LAYER_SCRAMBLES
from scalewise.theory.flow._layer import Expectations, Layer, Matrix, Shaken, as_many, layers_of
from scalewise.theory.flow._ntk_statistics import next_A, next_B, next_D, next_F, next_H1
from scalewise.theory.flow._pairs import Pairs
from scalewise.theory.flow._preactivation import next_G1, next_V

_NEXT = "_next"
_RATES = ("C_W", "lambda_W", "Theta", "r")
_MEMORY = 12 * 2**30  # bytes
Tensors = dict[str, np.ndarray]
_ALIKE = partial(Layer, alike=True)


@dataclass(frozen=True)
class Recursion:
    """How a tensor goes from one layer to the next."""

    # From the expectations of a layer, and what else its parameters name, to the tensor of the
    # next.
    step: Callable[..., np.ndarray]
    # Whether it stands on unordered pairs of inputs, and is told so of its like; others stand on
    # samples, and are told so of all.
    on_pairs: bool = False

    @property
    def takes(self) -> tuple[str, ...]:
        """What it is told beside the expectations."""
        return tuple(inspect.signature(self.step).parameters)[1:]

    @property
    def below(self) -> tuple[str, ...]:
        """Tensors of this layer."""
        return tuple(x for x in self.takes if x not in _RATES and not x.endswith(_NEXT))

    @property
    def beside(self) -> tuple[str, ...]:
        """Tensors of the next layer."""
        return tuple(x.removesuffix(_NEXT) for x in self.takes if x.endswith(_NEXT))


RECURSIONS: dict[str, Recursion] = {
    "V": Recursion(next_V, on_pairs=True),
    "G1": Recursion(next_G1, on_pairs=True),
    "D": Recursion(next_D),
    "A": Recursion(next_A),
    "F": Recursion(next_F),
    "B": Recursion(next_B),
    "H1": Recursion(next_H1),
    "P": Recursion(next_P),
    "Q": Recursion(next_Q),
    "R": Recursion(next_R),
    "S": Recursion(next_S),
    "T": Recursion(next_T),
    "U": Recursion(next_U),
}


@dataclass(frozen=True)
class TensorFlow:
    """Tensors at every layer, by their letters."""

    # Arrays with a layer axis and two or four sample axes in printed order.
    values: dict[str, Float[np.ndarray, "layer ..."]]
    # Their numerical errors, from the estimates of the nodes.
    errors: dict[str, Float[np.ndarray, "layer ..."]]


def closure(letters: Iterable[str]) -> tuple[tuple[str, ...], bool]:
    r"""The recursions that tensors need, in the order of their steps, and whether they need $\Theta$."""
    graph: dict[str, tuple[str, ...]] = {}
    waiting = list(letters)
    while waiting:
        letter = waiting.pop()
        if letter not in graph:
            row = RECURSIONS[letter]
            graph[letter] = row.beside
            waiting += (*row.below, *row.beside)
    order = tuple(TopologicalSorter(graph).static_order())
    return order, any("Theta" in RECURSIONS[letter].takes for letter in order)


def check_memory(net: MLP, samples: int, names: Sequence[str]) -> None:
    """Refuse tensors that do not fit the memory."""
    if not names or samples == 1:
        return
    needed, _ = closure(OBSERVABLES[name].letter for name in names)
    low = sum(RECURSIONS[letter].on_pairs for letter in needed)
    pairs, four = samples * (samples + 1) // 2, samples**4
    few = net.activation.is_smooth and samples <= 4
    work = 3 * pairs**2 * ((1 if few else SCRAMBLES) + SHAKES) if low else 0
    if len(needed) > low:
        at_once = 2 * len(needed) + 8
        work += four * at_once * ((1 if few else LAYER_SCRAMBLES) + SHAKES)
    result = 2 * net.depth * sum(samples ** OBSERVABLES[name].legs for name in names)
    if 8 * (work + result) > _MEMORY:
        one = len(names) == 1
        raise ValueError(
            f"{', '.join(map(repr, names))} of {samples} inputs through {net.depth} layers "
            f"{'takes' if one else 'take'} {8 * (work + result) / 2**30:.0f} GiB. Leave "
            f"{'it' if one else 'them'} out of `observables`, or predict for fewer inputs at a time: "
            "each entry depends on the inputs of its own indices only."
        )


@checked
def tensor_flow(
    net: WithoutSkips,
    K: Float[np.ndarray, "layer sample sample"],
    Theta: Float[np.ndarray, "layer sample sample"] | None,
    letters: Sequence[str],
    *,
    progress: Told = None,
) -> TensorFlow:
    r"""Every tensor asked for, at every layer.

    Args:
        net: The network.
        K: Its kernel.
        Theta: Its NTK; may be ``None`` if only $V$ and $G^{\{1\}}$ are asked for.
        letters: Which tensors, out of `RECURSIONS`.
        progress: Called with (layers done, layers).

    Returns:
        The flow; a tensor is the same, to the last bit, whatever else is asked for. Entries of one or two
        distinct inputs: rtol 1e-9. Three and four distinct: a product rule for up to four inputs of a smooth
        activation, else shared Sobol samples, with the error bar that either reports.

    Raises:
        ValueError: If an expectation does not exist or does not converge.
    """
    pairs = Pairs.of(K.shape[1])
    zeros = {x: _on_samples(x, _nothing(x, pairs), pairs)[0] for x in letters}
    values, errors = (
        {x: np.zeros((net.depth, *zero.shape)) for x, zero in zeros.items()} for _ in range(2)
    )
    for index, runs in enumerate(_runs(net, K, Theta, letters, pairs), 1):
        for x in letters:
            found = with_shakes([run[x] for run in runs])
            values[x][index], errors[x][index] = (_on_samples(x, part, pairs) for part in found)
        if progress is not None:
            progress(index, net.depth - 1)
    return TensorFlow(values, errors)


def tensor_runs(
    net: WithoutSkips,
    K: Float[np.ndarray, "layer sample sample"],
    Theta: Float[np.ndarray, "layer sample sample"] | None,
    letters: Sequence[str],
    make: Callable[[Activation, Matrix], Layer] = _ALIKE,
) -> list[list[Tensors]]:
    """Tensors of the last layer as a function of them needs them to have an error of its own.

    Runs are for `scalewise.gaussian.with_shakes`: in each the tensors of every estimate, by letter; first the
    estimates from the nodes, then one for each shake.

    Args:
        net: The network.
        K: Its kernel.
        Theta: Its NTK.
        letters: Which tensors, out of `RECURSIONS`.
        make: The expectations of one layer. By nodes all entries are wrong alike, because such a function contracts
            them with inverse kernels.
    """
    pairs = Pairs.of(K.shape[1])
    *_, runs = _runs(net, K, Theta, letters, pairs, make)
    estimates = [{x: _on_samples(x, as_many(run[x]), pairs) for x in letters} for run in runs]
    counts = [max(len(tensor) for tensor in run.values()) for run in estimates]
    return [
        [{x: t[min(i, len(t) - 1)] for x, t in run.items()} for i in range(count)]
        for run, count in zip(estimates, counts, strict=True)
    ]


def _runs(
    net: MLP,
    K: np.ndarray,
    Theta: np.ndarray | None,
    letters: Sequence[str],
    pairs: Pairs,
    make: Callable[[Activation, Matrix], Layer] = Layer,
) -> Iterator[list[Tensors]]:
    """Layer by layer from the second: the tensors with an axis of estimates, and those with moved expectations."""
    order, _ = closure(letters)
    runs = [{letter: _nothing(letter, pairs) for letter in order} for _ in range(1 + SHAKES)]
    for index, layer in enumerate(layers_of(net.activation, K[:-1], make), 1):
        seen = [layer, *(Shaken(layer, seed) for seed in range(SHAKES))]
        rates = _rates(net, index, None if Theta is None else Theta[index - 1])
        runs = [
            _step(expectations, rates, run, order)
            for expectations, run in zip(seen, runs, strict=True)
        ]
        yield runs


def _nothing(letter: str, pairs: Pairs) -> np.ndarray:
    """A tensor of the first layer, which does not fluctuate."""
    legs = of_letter(letter).legs
    if RECURSIONS[letter].on_pairs:
        return np.zeros((1, *(pairs.first.size,) * (legs // 2)))
    return np.zeros((1, *(len(pairs.index),) * legs))


def _on_samples(letter: str, tensor: np.ndarray, pairs: Pairs) -> np.ndarray:
    if not RECURSIONS[letter].on_pairs:
        return tensor
    return pairs.four_legs(tensor) if of_letter(letter).legs == 4 else pairs.two_legs(tensor)


def _rates(net: MLP, index: int, Theta: np.ndarray | None) -> dict[str, object]:
    """What the steps from layer `index` are told of the network."""
    r = net.widths[index] / net.widths[index - 1] if index > 1 else 1.0
    return {"C_W": net.C_W[index], "lambda_W": net.lambda_W[index], "Theta": Theta, "r": r}


def _step(
    layer: Expectations, rates: dict[str, object], old: Tensors, order: Sequence[str]
) -> Tensors:
    """The tensors that follow from those of this layer."""
    new: Tensors = {}
    told: dict[tuple[str, bool], np.ndarray] = {}

    def tell(name: str, *, on_pairs: bool) -> object:
        if name in rates:
            return rates[name]
        letter = name.removesuffix(_NEXT)
        tensor = (old if name == letter else new)[letter]
        if on_pairs or not RECURSIONS[letter].on_pairs:
            return tensor
        if (name, on_pairs) not in told:
            told[name, on_pairs] = _on_samples(letter, as_many(tensor), layer.pairs)
        return told[name, on_pairs]

    for letter in order:
        row = RECURSIONS[letter]
        new[letter] = row.step(layer, **{x: tell(x, on_pairs=row.on_pairs) for x in row.takes})
    return new
