r"""The tensors of finite width through all layers: what each needs of the others, and in which order.

$V,G^{\{1\}}\to D\to A$; $F$, $B$, $U$ by themselves; $H^{\{1\}}$ from $V,G^{\{1\}},D,F$; $P$ from $B$, $Q$ from
$F$; $R$ from $B,P$; $S$ from $B$; $T$ from $F,Q$. A step takes the tensors of one layer to the next.

Source: PDLT ch. 8, 11, ∞.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from jaxtyping import Float

from scalewise.gaussian import SCRAMBLES, SHAKES, with_shakes
from scalewise.networks import MLP
from scalewise.theory.flow._ddntk import next_R, next_S, next_T, next_U
from scalewise.theory.flow._dntk import next_P, next_Q
from scalewise.theory.flow._layer import SCRAMBLES as LAYER_SCRAMBLES
from scalewise.theory.flow._layer import Expectations, Family, Layer, Shaken
from scalewise.theory.flow._ntk_statistics import next_A, next_B, next_D, next_F, next_H1
from scalewise.theory.flow._preactivation import (
    Pairs,
    PreactivationState,
    derivative_orders,
    origin,
    preactivation_step,
)
from scalewise.theory.flow._trajectory import along

__all__ = ["TENSORS", "TensorFlow", "check_memory", "tensor_flow"]

TENSORS = {
    "metric_nlo": "G1",
    "four_point_vertex": "V",
    "ntk_nlo": "H1",
    "ntk_A": "A",
    "ntk_B": "B",
    "ntk_D": "D",
    "ntk_F": "F",
    "dntk_P": "P",
    "dntk_Q": "Q",
    "ddntk_R": "R",
    "ddntk_S": "S",
    "ddntk_T": "T",
    "ddntk_U": "U",
}
_NEEDS = {
    "H1": ("V", "G1", "D", "F"),
    "A": ("V", "D"),
    "D": ("V",),
    "P": ("B",),
    "Q": ("F",),
    "R": ("B", "P"),
    "S": ("B",),
    "T": ("F", "Q"),
}
_ORDER = ("F", "B", "D", "A", "H1", "P", "Q", "R", "S", "T", "U")
_FAMILIES: dict[str, tuple[Family, ...]] = {
    "V": ((0, 0, 0, 0),),
    "D": ((0, 0, 0, 0), (0, 0, 1, 1)),
    "A": ((0, 0, 0, 0), (0, 0, 1, 1), (1, 1, 1, 1)),
    "F": ((0, 0, 1, 1),),
    "B": ((1, 1, 1, 1),),
    "P": ((2, 0, 1, 1),),
    "Q": ((2, 0, 1, 1),),
    "R": ((2, 0, 1, 1), (3, 1, 1, 1)),
    "S": ((1, 1, 1, 1), (2, 2, 1, 1)),
    "T": ((0, 0, 1, 1), (2, 0, 1, 1), (2, 2, 1, 1)),
    "U": ((2, 2, 1, 1),),
}
# Pair moments M_pq, p >= q, that the step of each takes.
_JACOBIAN = ((1, 1), (2, 0))
_SLOPES = ((1, 1), (2, 2), (3, 1))
_ORDERS: dict[str, tuple[tuple[int, int], ...]] = {
    "V": ((0, 0), *_JACOBIAN),
    "G1": ((0, 0), *_JACOBIAN, (2, 2), (3, 1), (4, 0)),
    "H1": (*_JACOBIAN, *_SLOPES, (4, 0), (3, 3), (4, 2), (5, 1)),
    "D": (*_JACOBIAN, *_SLOPES),
    "A": (*_JACOBIAN, *_SLOPES),
    "F": _JACOBIAN,
    "B": ((1, 1),),
    "P": _JACOBIAN,
    "Q": (*_JACOBIAN, *_SLOPES),
    "R": (*_JACOBIAN, *_SLOPES),
    "S": ((1, 1), (2, 2)),
    "T": (*_JACOBIAN, *_SLOPES),
    "U": ((1, 1),),
}
_MEMORY = 12 * 2**30  # bytes
Tensors = dict[str, np.ndarray]


@dataclass(frozen=True)
class TensorFlow:
    """Tensors at every layer, by their letters.

    Args:
        values: Arrays with a layer axis and two or four sample axes in printed order.
        errors: Their numerical errors, from the estimates of the nodes.
    """

    values: dict[str, Float[np.ndarray, "layer ..."]]
    errors: dict[str, Float[np.ndarray, "layer ..."]]


def check_memory(net: MLP, samples: int, names: Sequence[str]) -> None:
    """Refuse tensors that do not fit the memory.

    Args:
        net: The network.
        samples: How many inputs.
        names: Observables, out of `TENSORS`; none takes nothing.

    Raises:
        ValueError: With what they take and the remedy.
    """
    letters = {TENSORS[name] for name in names}
    if not letters or samples == 1:
        return
    pairs, four = samples * (samples + 1) // 2, samples**4
    few = net.activation.is_smooth and samples <= 4
    result = 2 * net.depth * four * len(letters - {"G1", "H1"})
    if letters <= {"V", "G1"}:
        work = 3 * pairs**2 * ((1 if few else SCRAMBLES) + SHAKES)
    else:
        work = (
            four
            * (2 * len(_closure(tuple(letters))) + 8)
            * ((1 if few else LAYER_SCRAMBLES) + SHAKES)
        )
    if 8 * (work + result) > _MEMORY:
        one = len(letters) == 1
        raise ValueError(
            f"{', '.join(map(repr, names))} of {samples} inputs through {net.depth} layers "
            f"{'takes' if one else 'take'} {8 * (work + result) / 2**30:.0f} GiB. Leave "
            f"{'it' if one else 'them'} out of `observables`, or predict for fewer inputs at a time: "
            "each entry depends on the inputs of its own indices only."
        )


def tensor_flow(
    net: MLP,
    K: Float[np.ndarray, "layer sample sample"],
    Theta: Float[np.ndarray, "layer sample sample"],
    letters: Sequence[str],
    *,
    progress: Callable[[int, int], None] | None = None,
) -> TensorFlow:
    """Every tensor asked for, at every layer.

    Args:
        net: The network.
        K: Its kernel.
        Theta: Its NTK.
        letters: Which tensors, values of `TENSORS`.
        progress: Called with (layers done, layers).

    Returns:
        The flow. Entries of one or two distinct inputs: rtol 1e-9. Three and four distinct: what the
        nodes of `joint_rule` give, with an error bar.
    """
    needed = _closure(letters)
    families = tuple(sorted({f for letter in needed for f in _FAMILIES.get(letter, ())}))
    count = K.shape[1]
    shapes = {x: (net.depth, *(count,) * (2 if x in ("G1", "H1") else 4)) for x in letters}
    values = {x: np.zeros(shape) for x, shape in shapes.items()}
    errors = {x: np.zeros(shape) for x, shape in shapes.items()}
    runs = [_start(count)] * (1 + SHAKES)
    orders = sorted({pq for letter in needed for pq in _ORDERS[letter]})
    layers = along(K[:-1], lambda kernel: Layer(net.activation, kernel, families, orders))
    for index, layer in enumerate(layers, 1):
        seen = [layer, *(Shaken(layer, seed) for seed in range(SHAKES))]
        runs = [
            _step(net, index, expectations, Theta[index - 1], run, needed)
            for expectations, run in zip(seen, runs, strict=True)
        ]
        for x in letters:
            found = with_shakes([run.tensors[x] for run in runs])
            values[x][index], errors[x][index] = found
        if progress is not None:
            progress(index, net.depth - 1)
    return TensorFlow(values, errors)


@dataclass(frozen=True)
class _Run:
    """The tensors of one layer by letter, and the state of $V$ and $G^{1}$ on pairs."""

    tensors: Tensors
    low: PreactivationState


def _start(count: int) -> _Run:
    four = np.zeros((1, *(count,) * 4))
    zeros = {x: four[..., 0, 0] if x in ("G1", "H1") else four for x in TENSORS.values()}
    return _Run(zeros, origin(Pairs.of(count)))


def _closure(letters: Sequence[str]) -> set[str]:
    needed: set[str] = set()
    waiting = list(letters)
    while waiting:
        letter = waiting.pop()
        if letter not in needed:
            needed.add(letter)
            waiting += _NEEDS.get(letter, ())
    return needed


def _preactivation(
    net: MLP, index: int, layer: Expectations, low: PreactivationState, *, metric_nlo: bool
) -> PreactivationState:
    r"""$V$ and $G^{\{1\}}$ of the next layer, from the expectations that the other tensors need too."""
    a, b = low.pairs.first, low.pairs.second
    moments = {pq: layer.M(*pq)[a, b] for pq in derivative_orders(second=metric_nlo)}
    source = layer.covariance((0, 0, 0, 0))[:, a, b][:, :, a, b]
    return preactivation_step(net, index, moments, source, low)


def _step(
    net: MLP, index: int, layer: Expectations, Theta: np.ndarray, run: _Run, needed: set[str]
) -> _Run:
    """The tensors that follow from those of layer `index`."""
    old, low = run.tensors, run.low
    r = net.widths[index] / net.widths[index - 1] if index > 1 else 1.0
    rates = {"C_W": net.C_W[index], "Theta": Theta, "r": r}
    full = {**rates, "lambda_W": net.lambda_W[index]}
    new: Tensors = {}
    steps: dict[str, Callable[[], np.ndarray]] = {
        "F": lambda: next_F(layer, old["F"], **rates),
        "B": lambda: next_B(layer, old["B"], **rates),
        "D": lambda: next_D(layer, old["V"], old["D"], **full),
        "A": lambda: next_A(layer, (old["V"], old["D"], old["A"]), **full),
        "H1": lambda: next_H1(layer, (old["V"], old["D"], old["F"]), old["G1"], old["H1"], **full),
        "P": lambda: next_P(layer, old["P"], old["B"], **rates),
        "Q": lambda: next_Q(layer, old["Q"], old["F"], new["F"], **full),
        "R": lambda: next_R(layer, (old["B"], old["P"], old["R"]), **full),
        "S": lambda: next_S(layer, old["S"], old["B"], **full),
        "T": lambda: next_T(layer, (old["F"], old["Q"], old["T"]), **full),
        "U": lambda: next_U(layer, old["U"], **rates),
    }
    for letter in _ORDER:
        if letter in needed:
            new[letter] = steps[letter]()
    if "V" in needed:
        low = _preactivation(net, index, layer, low, metric_nlo="G1" in needed)
        new["V"], new["G1"] = low.pairs.four_legs(low.vertex), low.pairs.two_legs(low.metric)
    return _Run(new, low)
