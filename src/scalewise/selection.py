"""Which observables a call computes: those named, or those that exist and that one can have.

`predict` and `measure` choose by the same rule, so that what they return by default can be compared.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, NamedTuple

from scalewise._readable import readable
from scalewise.activations import Activation
from scalewise.gaussian.spi import joint_work
from scalewise.networks import Network, _nodes
from scalewise.networks.spi import kind
from scalewise.observables import OBSERVABLES, Observable

__all__ = ["MOST_PATHS", "Selection", "known", "omissions", "select"]

# Multiplications that the default may spend on expectations over all pairs of pairs of inputs: some ten
# seconds on one core. It is a number of operations and no time, so that it is the same everywhere.
DEFAULT_WORK = 2.5e11
# Hidden layers times inputs. Skip connections correlate them all: the covariances of their pairs fill a gigabyte
# beyond it.
MOST_PATHS = 48
# Labels, which are inputs at positions: of all layers whose channels meet, and of one layer where four of them meet
# in one expectation. Arrays over pairs of pairs of them fill the memory beyond.
MOST_LABELS, MOST_READ = 64, 32
# Labels between any two of which covariances fit the memory, and inputs of which arrays with four do. Slopes of
# read-outs are carried back through the layers at so many.
MOST_CARRIED, MOST_SHIFTED, MOST_INPUTS = 1 << 13, 1 << 11, 100
CARRIED = ("V", "A", "B", "D", "F", "G1", "H1")
MOST_OF_UNITS = 1 << 11  # labels of one layer whose single units are followed
MOST_OF_JETS = 48  # where their second and third derivatives are
_MOST_PLACES = 128  # of layers that have weights of their own at each
# Pairs of inputs times pairs of layers whose four-dimensional expectations take some ten seconds.
_MOST_PASTS = 60


@dataclass(frozen=True)
@readable
class Selection:
    """Observables that are computed, and those that "default" or "all" lack for a reason.

    Args:
        names: Observables, in the order of the table.
        left_out: The reason for each that was left out, a sentence.
    """

    names: tuple[str, ...]
    left_out: dict[str, str] = field(default_factory=dict)

    def without(self, left_out: dict[str, str]) -> Selection:
        """A selection with more left out: `left_out` says why, by name."""
        names = tuple(name for name in self.names if name not in left_out)
        reasons = self.left_out | left_out
        return Selection(names, {name: reasons[name] for name in OBSERVABLES if name in reasons})

    def attributes(self) -> dict[str, list[str]]:
        """As attributes of a Dataset, which hold lists but no tables."""
        return {
            "left_out": list(self.left_out),
            "left_out_because": list(self.left_out.values()),
        }


def known(names: Collection[str] | str) -> tuple[str, ...]:
    """The `names`, checked, each once and in the order of the table; ``"all"`` for all of them.

    The letter of an observable, as in formulas, stands for its name.

    Raises:
        ValueError: If there is none, or one is not in the table; the message lists the known ones.
    """
    if isinstance(names, str) and names == "all":
        return tuple(OBSERVABLES)
    spelled = {row.letter: name for name, row in OBSERVABLES.items()}
    given = (names,) if isinstance(names, str) else names
    wanted = [spelled.get(name, name) for name in given]
    for name in wanted:
        if name not in OBSERVABLES:
            raise ValueError(
                f"`observables` does not know {name!r}; the known ones are "
                f"{', '.join(OBSERVABLES)}, their letters {', '.join(spelled)}, and 'all'."
            )
    if not wanted:
        raise ValueError(f"`observables` is empty; choose from {', '.join(OBSERVABLES)}.")
    return tuple(name for name in OBSERVABLES if name in wanted)


def select(
    names: Collection[str] | str | None,
    net: Network,
    *,
    samples: int,
    drawn: bool = False,
) -> Selection:
    """The observables to compute for a network on its inputs.

    Args:
        names: Names; ``None`` for the default ones, without those that take more than `DEFAULT_WORK`
            multiplications; ``"all"`` for the whole table, whatever it takes. Neither holds what does
            not exist for the network, or is not known of its kind.
        net: The network.
        samples: How many inputs there are.
        drawn: Whether networks are drawn. What is named is then refused only if it does not exist; the others are
            still those that can be predicted too.

    Raises:
        ValueError: If something named does not exist for the network, or is not in the table.
    """
    if names is not None and not (isinstance(names, str) and names == "all"):
        wanted = known(names)
        _require_existing(wanted, net, drawn)
        return Selection(wanted)
    rows = [row for row in OBSERVABLES.values() if row.default or names == "all"]
    left_out, skips = {}, any(net.skips)
    for row in rows:
        obstacle = row.obstacle_of(net)
        if obstacle:
            named = drawn and not row.obstacle_drawn(net)
            remedy = " Name it in `observables` to measure it." if named else ""
            left_out[row.name] = f"{obstacle[0].upper()}{obstacle[1:]}.{remedy}"
        elif row.sampled and names == "all" and (why := _unfit(row, net, samples)):
            left_out[row.name] = f"{why[0].upper()}{why[1:]}."
        elif skips:
            left_out[row.name] = _too_much_with_skips(
                row, samples, net.depth, by_default=names is None
            )
        elif names is None and row.sampled and not net.is_perceptron:
            left_out[row.name] = (
                "Of layers of every kind it takes longer than a default should. Name it in "
                "`observables` to have it."
            )
        elif names is None and row.sampled:
            left_out[row.name] = _too_much(net.activations, samples, net.depth)
    left_out = {name: reason for name, reason in left_out.items() if reason}
    return Selection(tuple(row.name for row in rows)).without(left_out)


def _require_existing(names: Sequence[str], net: Network, drawn: bool) -> None:
    """Refuse observables that do not exist for a network."""
    for name in names:
        row = OBSERVABLES[name]
        obstacle = row.obstacle_drawn(net) if drawn else row.obstacle_of(net)
        if obstacle:
            names_of = " and ".join(repr(sigma.name) for sigma in net.activations)
            of = names_of if names_of and net.is_perceptron else "this network"
            if drawn or row.obstacle_drawn(net):
                remedy = f"Leave {name!r} out of `observables`."
                raise ValueError(f"{name!r} does not exist for {of}: {obstacle}. {remedy}")
            raise ValueError(
                f"{name!r} is not known of {of}: {obstacle}. `measure` finds it by drawing networks; else leave "
                f"{name!r} out of `observables`."
            )


def too_large(net: Network, samples: int, row: Observable) -> str:
    """Why arrays over labels of a network are too large for an observable, a clause; an empty text if they fit.

    Args:
        net: A network whose activations act on sums of random layers, see `scalewise.networks._course.kind`.
        samples: How many inputs there are.
        row: The observable, of order 1/n.
    """
    found = kind(net.program)
    assert not isinstance(found, str)
    most = samples * found.most_labels
    if most > MOST_LABELS:
        fit = _fitting(MOST_LABELS // found.most_labels)
        return f"{samples} inputs have {most} labels in it, and pairs of pairs fit of {MOST_LABELS}: {fit}"
    read = samples * found.most_read
    with_four = row.dimension[1] > 0 or (found.remembers and row.corrects)
    if with_four and read > MOST_READ:
        return (
            f"{samples} inputs have {read} labels in a layer of it, and arrays over four of them fit of "
            f"{MOST_READ}"
        )
    return ""


def too_many(net: Network, samples: int, row: Observable, layers: Sequence[int]) -> str:
    """Why an observable is not had by carrying read-outs back through the layers, a clause; empty if it is.

    Args:
        net: A network whose activations act on sums of random layers.
        samples: How many inputs there are.
        row: The observable.
        layers: Layers of one site, counted from 1.
    """
    program, found = net.program, kind(net.program)
    assert not isinstance(found, str)
    if row.letter not in CARRIED:
        return "nobody has derived its slopes"
    if row.corrects and not all(sigma.is_smooth for sigma in net.activations):
        return "second derivatives of products of activations have kinks"
    if any(
        isinstance(node, _nodes.Draw) and program.places(here) > _MOST_PLACES
        for here, node in enumerate(program.nodes)
    ):
        return "weights of a layer differ from place to place"
    labels, most = samples * found.most_labels, MOST_SHIFTED if row.corrects else MOST_CARRIED
    if labels > most or samples > MOST_INPUTS:
        fit = min(most // found.most_labels, MOST_INPUTS)
        return (
            f"{samples} inputs have {labels} labels in it, and pairs fit of {most} labels and of "
            f"{MOST_INPUTS} inputs: {_fitting(fit)}"
        )
    return ""


def _not_by_units(net: Network, samples: int, row: Observable) -> str:
    """Why single units do not tell an observable, a clause; empty if they do."""
    if why := row.of_units(net):
        return why
    most = MOST_OF_JETS if row.takes_jets else MOST_OF_UNITS
    program = net.program
    # Fields have all channels of a head for one unit; what jets cost is covariances, which have none.
    heads = {
        read: node.size * node.together
        for node in program.nodes
        if isinstance(node, _nodes.Attend) and not (node.grows or row.takes_jets)
        for read in node.of[:3]
    }
    each = max(math.prod(program.positions[k]) * heads.get(k, 1) for k in program.draws)
    if row.legs > 2 and samples > MOST_INPUTS:
        fit = min(most // each, MOST_INPUTS)
        return f"arrays with four of {samples} inputs fit of {MOST_INPUTS}: {_fitting(fit)}"
    if samples * each <= most:
        return ""
    return (
        f"{samples} inputs have {samples * each:,} labels in a layer, and they are followed at {most:,}: "
        f"{_fitting(most // each)}"
    )


def _fitting(count: int) -> str:
    """How many inputs would fit, a clause."""
    several = f"{count} inputs would fit"
    return {0: "not one input fits", 1: "one input would fit"}.get(count, several)


@readable
class Told(NamedTuple):
    """The evaluator of an observable of order 1/n, and why not a cheaper one.

    Args:
        by: Whole arrays, read-outs that are carried back, single units, or nothing.
        reason: Why neither of the first two does, a clause.
        units: Why units do not, likewise.
    """

    by: Literal["whole", "carried", "units", ""]
    reason: str = ""
    units: str = ""


def told_by(net: Network, samples: int, row: Observable, layers: Sequence[int]) -> Told:
    """The evaluator of an observable of order 1/n, of some layers of one site.

    Args:
        net: The network; of fully connected layers without skip connections others tell it.
        samples: How many inputs there are.
        row: The observable.
        layers: Which, counted from 1.
    """
    reason = many = ""
    gaussian = not isinstance(kind(net.program), str)
    if gaussian:
        reason = too_large(net, samples, row)
        if not reason:
            return Told("whole")
        many = too_many(net, samples, row, layers)
        if not many:
            return Told("carried")
    why = _not_by_units(net, samples, row)
    if why and row.letter in CARRIED:
        reason = many
    return Told("" if why else "units", reason, why)


def told_together(net: Network, samples: int, rows: Sequence[Observable]) -> Told:
    """The evaluator of several observables of the last layer at once, in estimates that belong together.

    Args:
        net: The network; of fully connected layers without skip connections others tell them.
        samples: How many inputs there are.
        rows: The observables, of order 1/n.
    """
    reason = ""
    if not isinstance(kind(net.program), str):
        reason = next(filter(None, (too_large(net, samples, row) for row in rows)), "")
        if not reason:
            return Told("whole")
    why = next(filter(None, (_not_by_units(net, samples, row) for row in rows)), "")
    if not why and samples > MOST_READ:
        why = (
            f"arrays over four of {samples} inputs are large, and many estimates fit of {MOST_READ}"
        )
    return Told("" if why else "units", reason, why)


def _unfit(row: Observable, net: Network, samples: int) -> str:
    """Reason why nothing computes an observable of so many inputs, a clause; empty if something does."""
    if net.is_plain or (
        net.is_perceptron and samples == 1
    ):  # as it is, or from tables at any depth
        return ""
    told = told_by(net, samples, row, net.layers_of_one_site)
    # Units do not tell of every hidden layer of a stream, which `predict` of fully connected layers does.
    unknown = not told.by or (told.by == "units" and net.is_perceptron)
    return (told.reason or f"of single units, {told.units}") if unknown else ""


def omissions(attributes: Mapping[str, Any]) -> list[str]:
    """Sentences on what a result leaves out, one or two for each reason.

    Args:
        attributes: Of what `predict` or `measure` returned.
    """
    names: dict[str, list[str]] = {}
    reasons = attributes.get("left_out_because", [])
    for name, why in zip(attributes.get("left_out", []), reasons, strict=True):
        names.setdefault(str(why), []).append(str(name))
    return [f"Without {', '.join(these)}: {why}" for why, these in names.items()]


def _too_much(activations: Sequence[Activation], samples: int, depth: int) -> str:
    """Why the default does without expectations over pairs of pairs of inputs, if it does."""
    smooth = all(sigma.is_smooth for sigma in activations)
    if (depth - 1) * joint_work(samples, smooth=smooth) <= DEFAULT_WORK:
        return ""
    return (
        f"Expectations over all pairs of pairs of {samples} inputs through {depth} layers take longer "
        "than a default should. Name it in `observables` to have it, or use fewer inputs."
    )


def _too_much_with_skips(row: Observable, samples: int, depth: int, *, by_default: bool) -> str:
    """Why a network whose neurons remember themselves does without an observable, if it does."""
    hidden, pairs = depth - 1, samples * (samples - 1) // 2
    if not row.sampled or samples == 1:
        return ""
    if hidden * samples > MOST_PATHS:
        return (
            f"With skip connections every layer is correlated with every other, and {hidden} hidden layers "
            f"of {samples} inputs are more than {MOST_PATHS} variables. Use fewer inputs."
        )
    # The mean remembers what a neuron did itself, by an expectation for each pair of inputs and of layers.
    if by_default and row.corrects and pairs * hidden * (hidden - 1) // 2 > _MOST_PASTS:
        return (
            f"What {samples} inputs leave in each of {hidden} hidden layers with skip connections takes "
            "longer than a default should. Name it in `observables` to have it, or use fewer inputs."
        )
    return ""
