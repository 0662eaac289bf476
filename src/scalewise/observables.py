"""The table of observables: what `predict` and `measure` both return, and under which name.

Theory and ensembles never import each other; this table is what they share. What is true of an observable
is said in its row and nowhere else: what every variable of a result carries as attributes, for which
activations it does not exist, what it corrects, how large it can be, how many numbers it is. How the theory
takes it from layer to layer is a row of `theory.flow`, how it is measured a row of `nets`. Which rows a call
computes is decided in `scalewise.selection`.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass

import xarray as xr

from scalewise import _obstacles as why
from scalewise._labelled import variable
from scalewise._readable import readable
from scalewise.networks import Network, _nodes
from scalewise.networks.spi import kind

__all__ = ["OBSERVABLES", "Observable", "Quantity", "as_variable", "of_letter"]

SAMPLE_DIMS = ("sample", "sample_1", "sample_2", "sample_3")
POSITION_DIMS = ("position", "position_1")  # of kernel and NTK in layers that have several
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
    obstacle: why.Obstacle = why.none
    dimension: tuple[int, int]
    own_scale: bool = False
    corrects: str = ""
    components: Count
    of_streams: why.Obstacle = why.none
    of_units: Callable[[Network], str] = why.of_units

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
        obstacles = [self.obstacle(sigma) for sigma in why.all_activations(net)]
        if self.obstacle is why.kink and any(
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
        """True if networks are needed in pairs: it is the covariance of what each has of two samples."""
        return self.components in (_symmetric_on_pairs, _matrix_on_pairs)

    @property
    def takes_jets(self) -> bool:
        """True if single units are followed with second and third derivatives."""
        return self.of_units is why.of_jets_of_units

    @property
    def sampled(self) -> bool:
        """True if it takes expectations of all pairs of pairs of inputs, which are costly."""
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
        obstacle=why.third,
        corrects="kernel",
        of_streams=why.jump,
        of_units=why.of_curved_units,
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
        obstacle=why.jump,
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
        obstacle=why.third_or_jump,
        dimension=(0, 1),
        corrects="ntk",
        of_streams=why.third_of_streams,
        of_units=why.of_tangents_of_units,
        components=_pairs,
    ),
    Observable(
        name="ntk_A",
        letter="A",
        symbol="A_(12)(34)",
        equation="PDLT (8.97)",
        units=f"({_NTK})²",
        meaning="Covariance of the NTKs (12) and (34) of two different outputs, times the width below.",
        obstacle=why.third_or_jump,
        dimension=(0, 2),
        of_units=why.of_bent_units,
        components=_symmetric_on_pairs,
    ),
    Observable(
        name="ntk_B",
        letter="B",
        symbol="B_1324",
        equation="PDLT (8.89)",
        units=f"({_NTK})²",
        meaning="Covariance of the off-diagonal NTKs (12) and (34) of two outputs, times the width below.",
        obstacle=why.third_or_jump,
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
        obstacle=why.third_or_jump,
        dimension=(1, 1),
        of_units=why.of_bent_units,
        components=_matrix_on_pairs,
    ),
    Observable(
        name="ntk_F",
        letter="F",
        symbol="F_1324",
        equation="PDLT (8.79)",
        units=f"preactivation² · {_NTK}",
        meaning="Correlation of two outputs at (12) with their off-diagonal NTK at (34), times the width.",
        obstacle=why.third_or_jump,
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
        obstacle=why.kink_of_a_curve,
        dimension=(0, 2),
        of_units=why.of_jets_of_units,
        components=_one_transposition,
    ),
    Observable(
        name="dntk_Q",
        letter="Q",
        symbol="Q_0123",
        equation="PDLT (11.52)",
        units=f"({_NTK})²",
        meaning="Correlation of an output with the dNTK on whose last leg it stands.",
        obstacle=why.kink_of_a_curve,
        dimension=(0, 2),
        of_units=why.of_jets_of_units,
        components=_without_symmetry,
    ),
    Observable(
        name="ddntk_R",
        letter="R",
        symbol="R_0123",
        equation="PDLT (∞.177)",
        units=f"({_NTK})³ / preactivation²",
        meaning="Mean of the first ddNTK, legs (01)(23) of equal outputs, times the width below.",
        obstacle=why.kink,
        dimension=(-1, 3),
        of_units=why.of_jets_of_units,
        components=_one_transposition,
    ),
    Observable(
        name="ddntk_S",
        letter="S",
        symbol="S_1234",
        equation="PDLT (∞.179)",
        units=f"({_NTK})³ / preactivation²",
        meaning="Mean of the second ddNTK, legs (12)(34) of equal outputs, times the width below.",
        obstacle=why.kink,
        dimension=(-1, 3),
        of_units=why.of_jets_of_units,
        components=_one_swap,
    ),
    Observable(
        name="ddntk_T",
        letter="T",
        symbol="T_1342",
        equation="PDLT (∞.180)",
        units=f"({_NTK})³ / preactivation²",
        meaning="Mean of the second ddNTK, legs (13)(42) of equal outputs, times the width below.",
        obstacle=why.kink,
        dimension=(-1, 3),
        of_units=why.of_jets_of_units,
        components=_one_swap,
    ),
    Observable(
        name="ddntk_U",
        letter="U",
        symbol="U_1423",
        equation="PDLT (∞.181)",
        units=f"({_NTK})³ / preactivation²",
        meaning="Mean of the second ddNTK, legs (14)(23) of equal outputs, times the width below.",
        obstacle=why.kink,
        dimension=(-1, 3),
        of_units=why.of_jets_of_units,
        components=_one_swap,
    ),
)
OBSERVABLES: dict[str, Observable] = {row.name: row for row in _ROWS}


def of_letter(letter: str) -> Observable:
    """The row of the observable that the theory calls by a `letter`."""
    return next(row for row in OBSERVABLES.values() if row.letter == letter)


def as_variable(
    name: str, values: object, *, trailing: tuple[str, ...] = (), **attrs: object
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
