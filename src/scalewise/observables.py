"""The table of observables: what `predict` and `measure` both return, and under which name.

Theory and ensembles never import each other; this table is what they share. What is true of an observable
is said in its row and nowhere else: what every variable of a result carries as attributes, for which
activations it does not exist, what it corrects, how large it can be, how many numbers it is. How the theory
takes it from layer to layer is a row of `theory.flow`, how it is measured a row of `nets`. Which rows a call
computes is decided in `scalewise.selection`.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import xarray as xr

from scalewise._labelled import variable
from scalewise._readable import readable
from scalewise.activations import Activation
from scalewise.networks import _nodes
from scalewise.networks._course import kind
from scalewise.networks._network import Network

__all__ = ["OBSERVABLES", "Observable", "Quantity", "as_variable", "exists", "of_letter"]

SAMPLE_DIMS = ("sample", "sample_1", "sample_2", "sample_3")
POSITION_DIMS = ("position", "position_1")  # of kernel and NTK in layers that have several
Obstacle = Callable[[Activation], str]


def _none(sigma: Activation) -> str:
    return ""


def _jump(sigma: Activation) -> str:
    """What has a derivative in it."""
    if sigma.is_continuous:
        return ""
    places = ", ".join(f"{kink.location:g}" for kink in sigma.kinks if kink.jump)
    return f"the activation jumps at z = {places}, and its derivative is a delta function there"


def _third(sigma: Activation) -> str:
    """What takes a third derivative, as a derivative of a product of two."""
    places = ", ".join(f"{z:g}" for z in sigma.unbounded)
    return (
        f"it takes a third derivative, which grows without bound at the kink z = {places}"
        if places
        else ""
    )


def _third_or_jump(sigma: Activation) -> str:
    return _jump(sigma) or _third(sigma)


def _kink(sigma: Activation) -> str:
    """What needs three derivatives."""
    places = ", ".join(f"{z:g}" for z in sigma.split_points)
    return _jump(sigma) or (
        ""
        if sigma.is_smooth
        else f"it takes three derivatives, and the activation has a kink at z = {places}"
    )


def _kink_of_a_curve(sigma: Activation) -> str:
    """What multiplies the second derivative by others."""
    bent = any(kink.slope_jump for kink in sigma.kinks) and not sigma.is_piecewise_linear
    return _third_or_jump(sigma) or (
        "the second derivative is a delta function beside a curved part" if bent else ""
    )


def _third_of_streams(sigma: Activation) -> str:
    """What takes third derivatives in channels that remember what they were."""
    places = ", ".join(f"{z:g}" for z in sigma.split_points)
    if sigma.is_smooth:
        return ""
    return (
        "along skip connections it takes third derivatives in each channel, and there is a kink at "
        f"z = {places}"
    )


def _of_units(net: Network) -> str:
    """What takes a slope in each of single units, and normal numbers alone."""
    if any(isinstance(node, _nodes.Dropout) for node in net.program.nodes):
        return "masks of Dropout are not among the random numbers whose influence is followed"
    return next(filter(None, map(_jump, _all_activations(net))), "")


def _of_bent_units(net: Network) -> str:
    """What takes two slopes in each."""
    if any(isinstance(node, _nodes.Max) for node in net.program.nodes):
        return "it takes second derivatives in each channel, and a maximum has kinks"
    for sigma in _all_activations(net):
        if not sigma.is_smooth:
            places = ", ".join(f"{z:g}" for z in sigma.split_points)
            return (
                f"it takes second derivatives in each channel, and there is a kink at z = {places}"
            )
    return _of_units(net)


def _of_curved_units(net: Network) -> str:
    """What takes two slopes in each, and one set of units for a layer."""
    for node in net.program.nodes:
        several = isinstance(node, _nodes.Draw | _nodes.Norm) and node.groups > 1
        if isinstance(node, _nodes.Attend) and node.grows:
            several = net.program.channels[node.of[0]] > node.size
        if several:
            return "channels that fall into groups or heads are so many smaller sets of units"
    return _of_bent_units(net)


def _of_jets_of_units(net: Network) -> str:
    """What takes derivatives along several letters in each."""
    return _of_bent_units(net)


def _of_tangents_of_units(net: Network) -> str:
    """What takes their products in one unit, too."""
    again = Counter(
        net.program.weights_of(k)
        for k, node in enumerate(net.program.nodes)
        if isinstance(node, _nodes.Draw)
    )
    if max(again.values(), default=0) > 2 or _meets_itself(net, again):
        return "a neuron whose weights act on it three times or more takes expectations of four of its tangents"
    odd = next((law.name for law in net.program.laws[:-1] if not law.is_normal), "")
    if odd:
        return (
            f"weights that are {odd} leave a fourth cumulant of neurons and tangents together, which is not "
            "among what is followed in each channel"
        )
    return _of_curved_units(net)


def _meets_itself(net: Network, again: Counter[int]) -> bool:
    """Whether what weights make that are used again is added to other random layers, as in states."""
    program = net.program
    return any(
        isinstance(program.nodes[k], _nodes.Draw) and again[program.weights_of(k)] > 1
        for node in program.nodes
        if isinstance(node, _nodes.Sum)
        for k in node.of
    )


def _all_activations(net: Network) -> list[Activation]:
    """Those of heads, too."""
    heads = [node.sigma for node in net.program.nodes if isinstance(node, _nodes.Attend)]
    return [*net.activations, *(sigma for sigma in heads if sigma is not None)]


Count = Callable[[int, int], int]


@dataclass(frozen=True, kw_only=True)
@readable
class Quantity(ABC):
    r"""A row of a table of what verbs return; networks at initialisation and trained ones have a table each.

    Args:
        name: The variable's name in a Dataset.
        symbol: As in the source.
        equation: Where it is defined or computed.
        order: Power of 1/n of the term: 0 leading, 1 for a coefficient of 1/n.
        units: In powers of the preactivation.
        meaning: One sentence.
    """

    name: str
    symbol: str
    equation: str
    order: int = 1
    units: str
    meaning: str

    @property
    @abstractmethod
    def dims(self) -> tuple[str, ...]:
        """Named dimensions of the variable."""

    def variable(
        self, values: object, *, leading: tuple[str, ...] = (), trailing: tuple[str, ...] = ()
    ) -> xr.Variable:
        """`values` as the labelled variable of a result, `leading` and `trailing` dimensions around its own."""
        attrs = {
            "symbol": self.symbol,
            "equation": self.equation,
            "order": self.order,
            "units": self.units,
            "long_name": self.meaning,
        }
        return variable((*leading, *self.dims, *trailing), values, attrs)


@dataclass(frozen=True, kw_only=True)
@readable
class Observable(Quantity):
    r"""One row of the table of networks at initialisation; see `Quantity` for what every row has.

    Args:
        letter: Of the source, in plain letters: its name inside the theory.
        legs: How many sample indices it has, 2 or 4.
        words: What running text calls it; its name if empty.
        default: Whether it is computed when nothing is named.
        obstacle: Why it does not exist for an activation, a clause; an empty text if it exists.
        dimension: Powers of kernel and NTK that it scales with.
        own_scale: Whether its diagonal, over the halves of its sample indices, says how large its entries
            could be, as that of a positive semidefinite matrix does. Of others the theory says it.
        corrects: The observable whose 1/n correction this is; empty for the others.
        of_streams: Why it does not exist for an activation along skip connections, likewise.
        of_units: Why it is not read off the response of a network to its single units, likewise, where activations
            act on other things than random layers.
        components: How many independent numbers it is for $N$ inputs and $P=N(N+1)/2$ pairs of them.
    """

    letter: str
    legs: int = 4
    words: str = ""
    default: bool = False
    obstacle: Obstacle = _none
    dimension: tuple[int, int]
    own_scale: bool = False
    corrects: str = ""
    components: Count
    of_streams: Obstacle = _none
    of_units: Callable[[Network], str] = _of_units

    def obstacle_of(self, net: Network) -> str:
        """Why `net`, a network, does not have it: a clause, or an empty text if it has."""
        obstacles = [self.obstacle(sigma) for sigma in net.activations]
        plain = net.is_plain
        if self.order and not plain:
            obstacles += self._beyond(net)
        return next(filter(None, obstacles), "")

    def _beyond(self, net: Network) -> list[str]:
        found = kind(net.program)
        if not isinstance(found, str):
            return list(map(self.of_streams, net.activations)) if found.remembers else []
        return [self.of_units(net)]

    def obstacle_drawn(self, net: Network) -> str:
        """Why `net` has none that could be measured, likewise: drawn networks need no recursion."""
        obstacles = [self.obstacle(sigma) for sigma in _all_activations(net)]
        if self.obstacle is _kink and any(
            isinstance(node, _nodes.Max) for node in net.program.nodes
        ):
            obstacles.append("it takes three derivatives, and a maximum has kinks")
        return next(filter(None, obstacles), "")

    @property
    def dims(self) -> tuple[str, ...]:
        """Named dimensions of the variable."""
        return ("layer", *SAMPLE_DIMS[: self.legs])

    @property
    def covariance(self) -> bool:
        """Whether networks are needed in pairs: it is the covariance of what each has of two samples."""
        return self.components in (_symmetric_on_pairs, _matrix_on_pairs)

    @property
    def takes_jets(self) -> bool:
        """Whether single units are followed with second and third derivatives."""
        return self.of_units is _of_jets_of_units

    @property
    def sampled(self) -> bool:
        """Whether it takes expectations of all pairs of pairs of inputs, which are costly."""
        return self.order > 0


_NTK = "preactivation² / learning rate"


# Independent components, from symmetries.
def _pairs(N: int, P: int) -> int:
    return P


def _matrix_on_pairs(N: int, P: int) -> int:
    return P * P


def _symmetric_on_pairs(N: int, P: int) -> int:
    return P * (P + 1) // 2


def _two_swaps(N: int, P: int) -> int:
    return (N**4 + 3 * N**2) // 4


def _one_swap(N: int, P: int) -> int:
    return (N**4 + N**2) // 2


def _one_transposition(N: int, P: int) -> int:
    return N * N * P


def _without_symmetry(N: int, P: int) -> int:
    return N**4


_ROWS = (
    Observable(
        name="kernel",
        letter="K",
        symbol="K",
        equation="PDLT (4.118)",
        order=0,
        legs=2,
        units="preactivation²",
        meaning="Covariance of the preactivations of one neuron over two samples.",
        words="kernel",
        default=True,
        dimension=(1, 0),
        own_scale=True,
        components=_pairs,
    ),
    Observable(
        name="metric_nlo",
        letter="G1",
        symbol="G^{1}",
        equation="PDLT (4.115)",
        legs=2,
        units="preactivation²",
        meaning="The 1/n correction of that covariance, times the width of the layer below.",
        words="1/n correction of the kernel",
        default=True,
        dimension=(1, 0),
        own_scale=True,
        obstacle=_third,
        corrects="kernel",
        of_streams=_jump,
        of_units=_of_curved_units,
        components=_pairs,
    ),
    Observable(
        name="four_point_vertex",
        letter="V",
        symbol="V",
        equation="PDLT (4.119)",
        units="preactivation⁴",
        meaning="Covariance of the metric's fluctuations, times the width of the layer below.",
        words="four-point vertex",
        default=True,
        dimension=(2, 0),
        own_scale=True,
        components=_symmetric_on_pairs,
    ),
    Observable(
        name="ntk",
        letter="Theta",
        symbol="Theta",
        equation="PDLT (8.63)",
        order=0,
        legs=2,
        units=_NTK,
        meaning="Mean neural tangent kernel of one output.",
        words="neural tangent kernel",
        default=True,
        obstacle=_jump,
        dimension=(0, 1),
        own_scale=True,
        components=_pairs,
    ),
    Observable(
        name="ntk_nlo",
        letter="H1",
        symbol="H^{1}",
        equation="PDLT (8.59), (9.3)",
        legs=2,
        units=_NTK,
        meaning="The 1/n correction of the mean NTK, times the width of the layer below.",
        obstacle=_third_or_jump,
        dimension=(0, 1),
        corrects="ntk",
        of_streams=_third_of_streams,
        of_units=_of_tangents_of_units,
        components=_pairs,
    ),
    Observable(
        name="ntk_A",
        letter="A",
        symbol="A_(12)(34)",
        equation="PDLT (8.97)",
        units=f"({_NTK})²",
        meaning="Covariance of the NTKs (12) and (34) of two different outputs, times the width below.",
        obstacle=_third_or_jump,
        dimension=(0, 2),
        of_units=_of_bent_units,
        components=_symmetric_on_pairs,
    ),
    Observable(
        name="ntk_B",
        letter="B",
        symbol="B_1324",
        equation="PDLT (8.89)",
        units=f"({_NTK})²",
        meaning="Covariance of the off-diagonal NTKs (12) and (34) of two outputs, times the width below.",
        obstacle=_third_or_jump,
        dimension=(0, 2),
        components=_two_swaps,
    ),
    Observable(
        name="ntk_D",
        letter="D",
        symbol="D_1234",
        equation="PDLT (8.77)",
        units=f"preactivation² · {_NTK}",
        meaning="Covariance of the metric (12) with the NTK (34), times the width below.",
        obstacle=_third_or_jump,
        dimension=(1, 1),
        of_units=_of_bent_units,
        components=_matrix_on_pairs,
    ),
    Observable(
        name="ntk_F",
        letter="F",
        symbol="F_1324",
        equation="PDLT (8.79)",
        units=f"preactivation² · {_NTK}",
        meaning="Correlation of two outputs at (12) with their off-diagonal NTK at (34), times the width.",
        obstacle=_third_or_jump,
        dimension=(1, 1),
        components=_one_swap,
    ),
    Observable(
        name="dntk_P",
        letter="P",
        symbol="P_0123",
        equation="PDLT (11.49)",
        units=f"({_NTK})²",
        meaning="Correlation of an output with its dNTK whose two other legs share an output.",
        obstacle=_kink_of_a_curve,
        dimension=(0, 2),
        of_units=_of_jets_of_units,
        components=_one_transposition,
    ),
    Observable(
        name="dntk_Q",
        letter="Q",
        symbol="Q_0123",
        equation="PDLT (11.52)",
        units=f"({_NTK})²",
        meaning="Correlation of an output with the dNTK on whose last leg it stands.",
        obstacle=_kink_of_a_curve,
        dimension=(0, 2),
        of_units=_of_jets_of_units,
        components=_without_symmetry,
    ),
    Observable(
        name="ddntk_R",
        letter="R",
        symbol="R_0123",
        equation="PDLT (∞.177)",
        units=f"({_NTK})³ / preactivation²",
        meaning="Mean of the first ddNTK, legs (01)(23) of equal outputs, times the width below.",
        obstacle=_kink,
        dimension=(-1, 3),
        of_units=_of_jets_of_units,
        components=_one_transposition,
    ),
    Observable(
        name="ddntk_S",
        letter="S",
        symbol="S_1234",
        equation="PDLT (∞.179)",
        units=f"({_NTK})³ / preactivation²",
        meaning="Mean of the second ddNTK, legs (12)(34) of equal outputs, times the width below.",
        obstacle=_kink,
        dimension=(-1, 3),
        of_units=_of_jets_of_units,
        components=_one_swap,
    ),
    Observable(
        name="ddntk_T",
        letter="T",
        symbol="T_1342",
        equation="PDLT (∞.180)",
        units=f"({_NTK})³ / preactivation²",
        meaning="Mean of the second ddNTK, legs (13)(42) of equal outputs, times the width below.",
        obstacle=_kink,
        dimension=(-1, 3),
        of_units=_of_jets_of_units,
        components=_one_swap,
    ),
    Observable(
        name="ddntk_U",
        letter="U",
        symbol="U_1423",
        equation="PDLT (∞.181)",
        units=f"({_NTK})³ / preactivation²",
        meaning="Mean of the second ddNTK, legs (14)(23) of equal outputs, times the width below.",
        obstacle=_kink,
        dimension=(-1, 3),
        of_units=_of_jets_of_units,
        components=_one_swap,
    ),
)
OBSERVABLES: dict[str, Observable] = {row.name: row for row in _ROWS}


def of_letter(letter: str) -> Observable:
    """The row of the observable that the theory calls by a `letter`."""
    return next(row for row in OBSERVABLES.values() if row.letter == letter)


def exists(row: Observable, activation: Activation) -> bool:
    """Whether the observable of a `row` exists for an `activation`."""
    return not row.obstacle(activation)


def as_variable(
    name: str, values: np.ndarray, *, trailing: tuple[str, ...] = (), **attrs: object
) -> xr.Variable:
    """`values` as the labelled variable of the observable `name`, with the attributes of its row and `attrs`.

    Args:
        name: In the table.
        values: Over the dimensions of the row, and those behind them.
        trailing: Dimensions behind those of the row.
        attrs: More attributes.
    """
    found = OBSERVABLES[name].variable(values, trailing=trailing)
    found.attrs.update(attrs)
    return found
