"""From passes of a model to its network, and proof that the network computes what the model does."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction

import numpy as np

from scalewise.networks import Network
from scalewise.networks.spi import Parameters, by_node, fields, shapes_of
from scalewise.reading._fields import Entries, KnownField, NotSeparableError, UnreadError
from scalewise.reading._growing import fixed, scaled
from scalewise.reading._reader import ModelReader
from scalewise.reading._steps import BuildStep, Traced
from scalewise.reading._written import Writer, parameters

_SAME = 1e-5  # between outputs of the model and of the network with its weights, over their size: float32 inside


@dataclass(frozen=True)
class Pass:
    """One pass of a model, as it was seen.

    Args:
        read: All of it.
        entries: Of what it returns.
        output: That itself.
        x: The inputs, as the network takes them.
        values: Parameters by name.
    """

    read: ModelReader
    entries: Entries
    output: np.ndarray
    x: np.ndarray
    values: Mapping[str, np.ndarray]


@dataclass(frozen=True)
class ReadModel:
    """A model at one width, as steps.

    Args:
        seen: The pass.
        writer: What wrote the steps.
        steps: The steps.
        entries: Of the outputs that are kept, in the last field.
        output: These outputs.
    """

    seen: Pass
    writer: Writer
    steps: tuple[BuildStep, ...]
    entries: Entries
    output: np.ndarray

    @property
    def notes(self) -> tuple[str, ...]:
        """Sentences on what was taken for something else."""
        constant = list(self.seen.read.constant)
        told = [f"`{name}`" for name in constant[:3]] + [f"{len(constant) - 3} more"] * (
            len(constant) > 3
        )
        verb = (
            "begins as one number, and what it learns is"
            if len(constant) == 1
            else "begin as one number, and what they learn is"
        )
        first = (
            [f"{', '.join(told)} {verb} not counted (gains=True counts it)."] if constant else []
        )
        return (*first, *self.seen.read.notes)

    def parameters(self, net: Network, values: Mapping[str, np.ndarray]) -> Parameters:
        """The weights and biases of the network that a model of such parameters has."""
        names = list(dict.fromkeys(s.given[0].name for s in self.steps if s.verb == "draw"))
        weights, biases = parameters(self.writer, values, names)
        shapes = shapes_of(net.program).values()
        shaped = (w.reshape(own) for w, (own, _) in zip(weights, shapes, strict=True))
        return Parameters(tuple(shaped), tuple(biases))


def in_a_row(rows: Sequence[np.ndarray], samples: bool) -> np.ndarray:
    """Inputs as a network takes them: one as it is, several with the numbers of a sample in a row."""
    rows = [r if samples else r[None] for r in rows]
    if len(rows) == 1:
        return rows[0] if rows[0].ndim > 1 else rows[0][:, None]
    return np.concatenate([r.reshape(len(r), -1) for r in rows], axis=1)


def read_model(seen: Callable[[bool], Pass], at: tuple[int, ...] | None) -> ReadModel:
    """A model as steps.

    Args:
        seen: From whether all positions are one axis to a pass.
        at: Which position of the outputs is kept, along each axis; all for ``None``.

    Raises:
        UnreadError: If something is not understood; with its place.
    """
    for flat in (False, True):
        try:
            own = seen(flat)
            known, entries = own.read.settled(own.entries)
            output = own.output
            if at is not None:
                known, entries, output = _kept(own.read, known, entries, output, at)
            writer = Writer(own.read)
            last = writer.write(known.number)
            writer.check_weights(last)
        except NotSeparableError:
            continue
        if last != len(writer.steps) - 1:
            writer.steps.append(BuildStep("add", (last,), (1.0,)))
        return ReadModel(own, writer, tuple(writer.steps), entries - known.start, output)
    raise UnreadError(
        "The model moves positions otherwise for each sample, or for each channel, and that is not known."
    )


def _kept(
    read: ModelReader, known: KnownField, entries: Entries, output: np.ndarray, at: tuple[int, ...]
) -> tuple[KnownField, Entries, np.ndarray]:
    """One position of the outputs."""
    d = read.fields.decoded(entries)
    axes = [a for a in range(entries.ndim) if np.any(d.position != d.position.take([0], axis=a))]
    sizes = tuple(entries.shape[a] for a in axes)
    if len(at) != len(sizes) or any(not -n <= k < n for k, n in zip(at, sizes, strict=False)):
        raise UnreadError(
            f"`at` must be a position of the outputs, which have {' x '.join(map(str, sizes)) or 'no'} positions; "
            f"got {at}. Give one number for each axis, such as at={tuple(n - 1 for n in sizes)}."
        )
    index: list[int | slice] = [0] * entries.ndim
    for a, k in zip(axes, at, strict=True):
        index[a] = k
    row = int(d.position[tuple(index)])
    made = read.row(known, np.eye(known.places)[[row]])
    keep = d.position == row
    return made, made.start + d.sample[keep] * made.channels + d.channel[keep], output[keep]


def network_from(one: ReadModel, width: int, wide: ReadModel | None) -> Network:
    """The network of a model.

    Args:
        one: The model.
        width: Its width.
        wide: The same of twice the width, which tells what grows; ``None`` if there is no other, and all but the
            outputs does.

    Raises:
        UnreadError: If the network with the model's weights does not compute what the model returned.
    """
    if wide is None:
        steps = fixed(one.steps, width)
    else:
        if len(wide.steps) != len(one.steps) or any(
            (a.verb, a.of) != (b.verb, b.of) for a, b in zip(one.steps, wide.steps, strict=True)
        ):
            raise UnreadError(
                "The model does something else at twice the width. Let the factory build the same model at every "
                "width."
            )
        if all(
            a.given == b.given
            for a, b in zip(one.steps, wide.steps, strict=True)
            if a.verb == "draw"
        ):
            raise UnreadError(
                f"The factory builds the same model at the widths {width} and {2 * width}, so nothing tells which "
                "of its sizes are widths. Let its layers follow the width; or give the model itself, of which all "
                "hidden layers are taken to grow."
            )
        steps = scaled(one.steps, wide.steps, width, Fraction(2))
    notes = (*one.notes, *_few(steps))
    net = Network(Traced(steps, notes), input_shape=one.seen.x.shape[1:], width=width)
    if not any(
        step.verb == "run" for step in one.steps
    ):  # what is given has no weights of the model
        check_same(net, one)
    return net


def _few(steps: tuple[BuildStep, ...]) -> list[str]:
    """Notes on hidden layers whose channels stay few."""
    drawn = [
        step
        for step in steps[:-1]
        if step.verb == "draw" and isinstance(step.given[0].channels, int)
    ]
    last = max((k for k, step in enumerate(steps) if step.verb == "draw"), default=0)
    places = {f"`{s.place}` ({s.given[0].channels})": None for s in drawn if s is not steps[last]}
    if not places:
        return []
    return [
        f"Layers whose channels are as many at every width are taken for wide: {', '.join(places)}."
    ]


def check_same(net: Network, one: ReadModel) -> None:
    """Refuse a network that with the model's weights computes something else than the model."""
    program = net.program
    given = by_node(program, one.parameters(net, one.seen.values))
    found = fields(program, given, one.seen.x)[0][-1].reshape(-1)[one.entries]
    apart = np.abs(found - one.output).max() / max(np.abs(one.output).max(), 1e-300)
    if not apart < _SAME:
        raise UnreadError(
            f"The network that was read computes something else than the model: outputs differ by {apart:.1e} of "
            "their size. Something of the model was misread, so it is not given."
        )
