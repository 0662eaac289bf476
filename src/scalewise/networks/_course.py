r"""A network as random layers that read activations of Gaussian preactivations: their labels, and what mixes them.

Every preactivation is a sum of random layers on mixed labels, $h_m=\sum_jL_{mj}u_j$, and every random layer reads
a sum of activations, $u_t=b+\sum_\tau W^\tau B_\tau\sum_mR_{tm}\sigma(h_m)$. A label is an input at a position.
Fixed maps of positions, windows, graphs and masks are matrices over labels, found by what they do to fields that
are 1 at one label.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Sequence
from dataclasses import dataclass, field
from functools import lru_cache

import numpy as np
from jaxtyping import Float

from scalewise.activations import Activation
from scalewise.networks._forward import entering, fixed_fields, forward
from scalewise.networks._nodes import Draw, Mix, Pointwise, PositionMap, Sum, Weigh
from scalewise.networks._program import Program

Matrix = Float[np.ndarray, "_label _other"]
Form = dict[int, Matrix]  # by node, of which a field is a sum


class Unfit(ValueError):
    """A network whose preactivations are not of this kind; the message is a clause."""


@dataclass(frozen=True)
class CourseStep:
    r"""A random layer that reads activations.

    Args:
        draw: Its node.
        points: The activations that it reads, by their nodes.
        taps: $B_\tau$ on all their labels, one after the other.
    """

    draw: int
    points: tuple[int, ...]
    taps: Sequence[Matrix]


@dataclass
class Population:
    """Channels that are drawn together.

    Args:
        sigma: What acts on all of their preactivations.
        n: How many they are.
        points: Activations, by their nodes.
        forms: Of the preactivations of each.
    """

    sigma: Activation
    n: int
    points: list[int] = field(default_factory=list)
    forms: dict[int, Form] = field(default_factory=dict)


@dataclass
class NetworkCourse:
    """Labels of a network of Gaussian preactivations, as `course` finds them.

    Args:
        program: The nodes.
        inputs: How many there are.
        fixed: Fields without weights.
        steps: In their order.
        populations: By the first of their random layers.
        of_point: The population of each activation.
        ends: The forms of the layers that were asked for.
        labels: Of each random layer.
        kinds_only: Whether matrices are sums of their columns, because nobody will read them.
        first: Random layers that read the inputs, which do not fluctuate.
    """

    program: Program
    inputs: int
    fixed: dict[int, np.ndarray] = field(default_factory=dict)
    steps: list[CourseStep] = field(default_factory=list)
    populations: dict[int, Population] = field(default_factory=dict)
    of_point: dict[int, int] = field(default_factory=dict)
    ends: dict[int, Form] = field(default_factory=dict)
    labels: dict[int, int] = field(default_factory=dict)
    kinds_only: bool = False
    first: set[int] = field(default_factory=set)
    _joined: dict[int, int] = field(default_factory=dict)

    def population(self, draw: int) -> int:
        """The population of a random layer."""
        while self._joined[draw] != draw:
            draw = self._joined[draw]
        return draw

    def join(self, draws: Collection[int]) -> None:
        """Random layers whose channels meet."""
        roots = sorted({self.population(draw) for draw in draws})
        for root in roots[1:]:
            self._joined[root] = roots[0]

    def add_draw(self, here: int) -> None:
        """A random layer, in a population of its own as yet."""
        self._joined[here] = here
        self.labels[here] = self.labels_of(here)

    def start(self, node: int) -> Matrix:
        """A field as a sum of itself."""
        labels = self.labels_of(node)
        return np.ones((labels, 1)) if self.kinds_only else np.eye(labels)

    @property
    def remembers(self) -> bool:
        """True if a preactivation is a sum of several random layers."""
        forms = [form for known in self.populations.values() for form in known.forms.values()]
        return any(len(form) > 1 for form in (*forms, *self.ends.values()))

    @property
    def most_labels(self) -> int:
        """The most labels that channels which are drawn together have, of all inputs."""
        known = self.populations.values()
        return max((sum(map(self.labels_of, one.points)) for one in known), default=0)

    @property
    def most_read(self) -> int:
        """The most labels that one random layer reads."""
        return max((sum(map(self.labels_of, step.points)) for step in self.steps), default=0)

    def labels_of(self, node: int) -> int:
        """Number of labels: inputs times positions."""
        return self.inputs * math.prod(self.program.positions[node])


def course(program: Program, x: np.ndarray, ends: Sequence[int]) -> NetworkCourse:
    """The network behind some layers.

    Args:
        program: The nodes.
        x: (inputs, *positions, features).
        ends: The layers.

    Raises:
        Unfit: If a node is of another kind, or mixes what should stay apart.
    """
    return _filled(NetworkCourse(program, len(x), fixed_fields(program, x)), ends)


def _filled(found: NetworkCourse, ends: Sequence[int]) -> NetworkCourse:
    program = found.program
    forms: dict[int, Form] = {}
    for here in program.behind(ends):
        if here not in program.fixed:
            forms[here] = _form(found, here, forms)
    for here in forms:
        if isinstance(program.nodes[here], Pointwise):
            _place(found, here, forms[program.nodes[here].of[0]])
    for end in ends:
        form = forms[end]
        if not form.keys() <= found._joined.keys():
            raise Unfit(f"layer [{end}] is not a sum of random layers")
        found.ends[end] = form
    return found


def _form(found: NetworkCourse, here: int, forms: dict[int, Form]) -> Form:
    """Terms of the sum that a field is, by node: a map of positions for each."""
    program = found.program
    node = program.nodes[here]
    if isinstance(node, Draw):
        found.add_draw(here)
        _read(found, here, node, forms)
        return {here: found.start(here)}
    if isinstance(node, Pointwise):
        form = forms[node.of[0]]
        if not form.keys() <= found._joined.keys():
            raise Unfit(f"node [{here}], {node.said}, acts on what is not Gaussian")
        found.join(form)
        return {here: found.start(here)}
    if isinstance(node, Sum):
        total: Form = {}
        for factor, below in zip(node.factors, node.of, strict=True):
            if below in program.fixed:
                raise Unfit(f"node [{here}], {node.said}, adds inputs")
            for key, matrix in forms[below].items():
                part = factor * matrix
                total[key] = total[key] + part if key in total else part
        _join_all(found, total)
        return total
    if isinstance(node, PositionMap | Mix | Weigh):
        return {key: _applied(found, here, matrix) for key, matrix in forms[node.of[0]].items()}
    raise Unfit(f"node [{here}], {node.said}, is neither a sum nor an activation")


def _join_all(found: NetworkCourse, form: Form) -> None:
    """The channels of all that is added are drawn together."""
    draws = [key for key in form if key in found._joined]
    points = [key for key in form if key not in found._joined]
    if draws and points:
        raise Unfit("a sum has activations and random layers in it")
    found.join(draws)


def _applied(found: NetworkCourse, here: int, matrix: Matrix) -> Matrix:
    """A map of positions after another one."""
    if found.kinds_only:
        return found.start(here)
    program = found.program
    node, below = program.nodes[here], program.nodes[here].of[0]
    sizes = program.positions[below]
    count = found.labels_of(below) // math.prod(sizes)
    x = matrix.reshape(count, *sizes, -1)
    beside = [found.fixed[k] for k in node.of[1:]]
    return forward(node, [x, *beside], sizes).reshape(-1, matrix.shape[1])


def _read(found: NetworkCourse, here: int, node: Draw, forms: dict[int, Form]) -> None:
    """Note how a random layer reads activations: which ones, and through which maps of positions."""
    program, below = found.program, node.of[0]
    if node.again is not None or node.groups > 1:
        raise Unfit(f"node [{here}], {node.said}, shares weights or has groups")
    if below in program.fixed:
        found.first.add(here)
        return
    form = forms[below]
    if form.keys() & found._joined.keys():
        raise Unfit(f"node [{here}], {node.said}, reads what no activation has made")
    points = tuple(sorted(form))
    # Activations that are added up are those of one channel, whatever random layers they act on.
    found.join([draw for point in points for draw in forms[program.nodes[point].of[0]]])
    whole = np.concatenate([form[point] for point in points], axis=1)
    sizes = program.positions[below]
    count = found.labels_of(below) // math.prod(sizes)
    seen = entering(whole.reshape(count, *sizes, -1), node.windows, sizes)
    taps = seen.reshape(found.labels[here], node.taps, -1).swapaxes(0, 1) / math.sqrt(node.taps)
    if not node.shared:
        places = np.arange(found.labels[here]) % math.prod(program.positions[here])
        alone = places == np.arange(places.max() + 1)[:, None]
        taps = (alone[:, None, :, None] * taps).reshape(-1, *taps.shape[1:])
    found.steps.append(CourseStep(here, points, list(taps)))


def _place(found: NetworkCourse, here: int, form: Form) -> None:
    """An activation in its population."""
    program = found.program
    node = program.nodes[here]
    assert isinstance(node, Pointwise)
    root = found.population(next(iter(form)))
    known = found.populations.get(root)
    if known is None:
        known = found.populations[root] = Population(node.sigma, program.channels[here])
    if known.sigma != node.sigma:
        raise Unfit(f"node [{here}], {node.said}, acts beside another activation on a stream")
    known.points.append(here)
    known.forms[here] = form
    found.of_point[here] = root


@lru_cache(maxsize=256)
def kind(program: Program) -> NetworkCourse | str:
    """Kind of a network, on one input and without matrices; or the reason why it is not of this kind, a clause.

    Args:
        program: The nodes.
    """
    try:
        return _filled(NetworkCourse(program, 1, kinds_only=True), program.layers)
    except Unfit as reason:
        return str(reason)
