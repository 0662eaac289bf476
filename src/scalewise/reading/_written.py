"""From fields to the steps that build them, and to the parameters of the network that they make."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import lru_cache
from typing import Any

import numpy as np

from scalewise.activations import Activation, activation
from scalewise.networks.spi import IDENTITY, NORMAL, Hyperparameters, Matrix
from scalewise.reading._fields import (
    Combined,
    Entries,
    Function,
    Gains,
    KnownField,
    Linear,
    LogitsOf,
    Made,
    NumberField,
    Placed,
    Shares,
    Turned,
    Weight,
)
from scalewise.reading._reader import ModelReader, ParameterLaw
from scalewise.reading._steps import BuildStep, DrawnLayer, placed_inputs
from scalewise.reading._trees import (
    Entrywise,
    Tree,
    X,
    averages,
    functions_of,
    kinks,
    norm_in,
    number,
    peeled,
    slope,
)


@lru_cache(maxsize=256)
def _of_tree(tree: Tree, functions: tuple[Callable[..., Any], ...]) -> Activation:
    """The activation of a tree of some functions, which is found once."""
    del functions
    with suppress(ValueError):
        return activation(Entrywise(tree), name=None)
    return activation(Entrywise(tree), kinks=kinks(tree), name="function")


@dataclass
class Writer:
    """Steps as far as they are written.

    Args:
        read: What has been read.
        steps: The steps.
        drawn: For each name of a random layer the entries of its weights (channel, tap, channel below) and biases,
            and the factor of the weights.
    """

    read: ModelReader
    steps: list[BuildStep] = field(default_factory=list)
    drawn: dict[str, tuple[Entries, Entries | None, float]] = field(default_factory=dict)
    _made: dict[int, int] = field(default_factory=dict)
    _names: dict[tuple[Any, ...], str] = field(default_factory=dict)
    _biases: dict[bytes, set[bytes | None]] = field(default_factory=dict)
    _users: dict[bytes, set[bytes | None]] = field(default_factory=dict)

    def write(self, number: int) -> int:
        """The step that makes a field, after those that it needs."""
        self._see(number)
        stack = [number]
        while stack:
            here = stack[-1]
            if here in self._made:
                stack.pop()
                continue
            known = self.read.fields.known[here]
            needed = [k for k in self._below(known) if k not in self._made]
            if needed:
                stack.extend(reversed(needed))
                continue
            self._made[here] = self._step(known)
            stack.pop()
        return self._made[number]

    def _see(self, number: int) -> None:
        """Note with which biases weights are used, and where else biases are: one layer has the same always."""
        stack, seen = [number], {number}
        while stack:
            known = self.read.fields.known[stack.pop()]
            what = known.what
            if isinstance(what, Linear):
                biases = None if what.biases is None else what.biases.tobytes()
                self._biases.setdefault(what.weights.tobytes(), set()).add(biases)
                if biases is not None:
                    self._users.setdefault(biases, set()).add(what.weights.tobytes())
            if isinstance(what, Placed) and np.all(what.weights == what.weights[:1]):
                self._users.setdefault(what.weights[0].tobytes(), set()).add(None)
            stack.extend(k for k in self._below(known) if k not in seen)
            seen.update(self._below(known))

    def _is_apart(self, what: Linear) -> bool:
        """True if biases are a layer of their own: they, or the weights, are used without the other elsewhere."""
        if what.biases is None:
            return False
        weights, biases = what.weights.tobytes(), what.biases.tobytes()
        return len(self._biases[weights]) > 1 or len(self._users[biases]) > 1

    def check_weights(self, last: int) -> None:
        """Refuse parameters that enter several random layers otherwise than as the same weights; note a read-out.

        Args:
            last: The step of the outputs.
        """
        met = _overlapping({n: w for n, (w, _, _) in self.drawn.items() if w.dtype.kind != "f"})
        # Of each entry its last user, counted from 1.
        used = np.zeros(self.read.fields.end, dtype=np.int32)
        users = ["", *self.drawn]
        for name, (weights, _, _) in self.drawn.items():
            if name not in met:
                continue
            found = np.bincount(used[weights.ravel()], minlength=1)
            others = {users[k] for k in np.flatnonzero(found) if k}
            used[weights.ravel()] = users.index(name)
            if not others:
                continue
            own = self.steps[last]
            if own.verb == "draw" and own.given[0].name == name:
                self.read.notes[
                    f"`{sorted(others)[0]}` reads out, too, and is taken for independent weights there: outputs "
                    "for the tokens that are read are larger than this."
                ] = None
            else:
                self.read.fields.place = next(
                    s.place for s in self.steps if s.verb == "draw" and s.given[0].name == name
                )
                raise self.read.refuse(
                    f"uses `{sorted(others)[0]}` in two ways, and what such weights make together is not known. "
                    "Give each use weights of its own."
                )

    def _below(self, known: KnownField) -> tuple[int, ...]:
        what = known.what
        if isinstance(what, Linear | Function):
            return (what.of,)
        if isinstance(what, Combined):
            return tuple(k for k, _ in what.terms)
        if isinstance(what, Made):
            return tuple(k for k in what.of if k >= 0)
        if isinstance(what, Turned):
            raise self.read.refuse(
                "multiplies channels by numbers that differ, or puts them in another order, and channels of one "
                "kind have no order. Let parameters do that."
            )
        if isinstance(what, LogitsOf | Shares | Weight | Gains):
            raise self.read.refuse(
                "gives logits, weights of an attention or parameters to something that is not known. Let fields of "
                "channels come out."
            )
        return ()

    def _add(self, known: KnownField, verb: str, of: tuple[int, ...], *given: Any) -> int:
        self.steps.append(BuildStep(verb, of, given, known.place))
        return len(self.steps) - 1

    def _step(self, known: KnownField) -> int:
        what = known.what
        self.read.fields.place = known.place
        if isinstance(what, Linear):
            return self._random(known, what)
        if isinstance(what, Placed):
            return self._placed(known, what)
        if isinstance(what, NumberField):
            return self._numbers(known, what)
        if isinstance(what, Combined):
            own, factors = zip(*what.terms, strict=True)
            return self._add(known, "add", tuple(self._made[k] for k in own), *factors)
        if isinstance(what, Function):
            return self._function(known, what)
        if isinstance(what, Made):
            of = tuple(-1 if k < 0 else self._made[k] for k in what.of)
            if what.verb == "attend":
                size, power, *rest = what.given
                return self._add(known, "attend", of, size, power, False, *rest)
            return self._add(known, what.verb, of, *what.given)
        raise self.read.refuse(
            "uses its inputs in a way that is not known. Let a linear layer read them."
        )

    def _function(self, known: KnownField, what: Function) -> int:
        of = self._made[what.of]
        if averages(what.tree):
            norm = norm_in(what.tree)
            if (
                norm is None
                or (norm.groups > 1 and known.channels % norm.groups)
                or known.channels == 1
            ):
                raise self.read.refuse(
                    "computes with averages over channels what is not a norm. LayerNorm and RMSNorm are known."
                )
            step = self._add(known, "norm", (of,), norm.eps, norm.centred, False, norm.groups)
            return step if norm.factor == 1 else self._add(known, "add", (step,), norm.factor)
        if what.tree == X:
            return of
        if (factor := slope(what.tree)) is not None:
            return self._add(known, "add", (of,), factor)
        before, tree, behind = peeled(what.tree)
        if before != 1:
            of = self._add(known, "add", (of,), before)
        of = self._add(known, "apply", (of,), self._activation(tree))
        return of if behind == 1 else self._add(known, "add", (of,), behind)

    def _activation(self, tree: Tree) -> Activation:
        """A built-in activation, or one of its own; its kinks are where it looks at the sign of something."""
        try:
            return _of_tree(tree, functions_of(tree))
        except ValueError as error:
            raise self.read.refuse(f"computes a function that is not known: {error}") from error

    def _name(self, weights: Entries, biases: Entries | None, factor: float) -> str:
        """The name of the random layer with these entries: that of its parameter, numbered if it has several."""
        key = (weights.tobytes(), None if biases is None else biases.tobytes(), factor)
        if key not in self._names:
            (owner,) = self.read.fields.owners(weights)
            assert isinstance(owner.what, Weight)
            name, count = owner.what.name, 1
            while name in self.drawn:
                count += 1
                name = f"{owner.what.name} ({count})"
            self._names[key] = name
            self.drawn[name] = weights, biases, factor
        return self._names[key]

    def _law(self, entries: Entries, *, constant: bool = False) -> ParameterLaw:
        (owner,) = self.read.fields.owners(entries)
        assert isinstance(owner.what, Weight)
        law = self.read.laws[owner.what.name]
        if law.mean and not (constant and law.constant):
            raise self.read.refuse(
                f"has weights `{owner.what.name}` with the mean {law.mean:.3g}; those of a random layer have the "
                "mean 0. Draw them so."
            )
        return law

    def _random(self, known: KnownField, what: Linear) -> int:
        read = self.read
        if self._is_apart(what):
            assert what.biases is not None
            step = self._random(known, replace(what, biases=None))
            (owner,) = read.fields.owners(what.biases)
            assert isinstance(owner.what, Weight)
            if read.laws[owner.what.name].constant == 0 and not read.gains:
                read.held_constant(owner.what.name)
                return step
            rows = np.broadcast_to(what.biases, (known.places, known.channels))
            return self._add(known, "add", (step, self._placed(known, Placed(rows))), 1.0, 1.0)
        below = read.fields.known[what.of]
        fan_in = what.weights.shape[1] * what.weights.shape[2]
        law = self._law(what.weights)
        own = law.law
        if not own.is_normal and isinstance(below.what, Made) and below.what.verb == "read":
            read.notes[
                f"Weights that read the inputs are {own.name} and taken for normal: they add up {fan_in} numbers."
            ] = None
            own = NORMAL
        C_b = lambda_b = 0.0
        if what.biases is not None:
            biases = self._law(what.biases)
            C_b, lambda_b = biases.variance, biases.rate
        variance = law.variance * what.factor**2 * fan_in
        numbers = Hyperparameters(C_b, variance, lambda_b, law.rate * what.factor**2 * fan_in, own)
        name = self._name(what.weights, what.biases, what.factor)
        drawn = DrawnLayer(known.channels, what.windows, numbers, what.groups, name)
        return self._add(known, "draw", (self._made[what.of],), drawn)

    def _numbers(self, known: KnownField, what: NumberField) -> int:
        """Fixed numbers, as random ones of the same covariance over positions."""
        numbers = what.numbers
        values, vectors = np.linalg.eigh(numbers @ numbers.T / known.channels)
        keep = values > 1e-12 * values.max()
        root = vectors[:, keep] * np.sqrt(values[keep])
        count = root.shape[1]
        read = self._read_places(known, root * count**0.5)
        name = f"numbers of {known.place or 'the model'} ({known.number})"
        weights = np.linalg.lstsq(root * count**0.5, numbers, rcond=None)[0].T
        self.drawn[name] = weights[:, None, :], None, 1.0
        self.read.notes[
            f"Numbers that {f'`{known.place}`' if known.place else 'the model'} adds are taken for random ones of "
            "the same covariance over positions."
        ] = None
        own = Hyperparameters(0.0, 1.0, 0.0, 0.0, NORMAL)
        drawn = DrawnLayer(known.channels, (IDENTITY,) * len(known.positions), own, 1, name)
        return self._add(known, "draw", (read,), drawn)

    def _read_places(self, known: KnownField, root: np.ndarray) -> int:
        """The rows of a matrix as features of positions."""
        given = Matrix.of(root), known.positions
        return self._add(
            known, "read", (-1,), placed_inputs, given, "places", known.positions, root.shape[1]
        )

    def _placed(self, known: KnownField, what: Placed) -> int:
        """A random layer that reads which position it is."""
        rows, index = np.unique(what.weights, axis=0, return_inverse=True)
        count = len(rows)
        root = np.eye(count)[index.ravel()] * count**0.5
        read = self._read_places(known, root)
        law = self._law(what.weights, constant=True)
        numbers = Hyperparameters(0.0, law.variance, 0.0, law.rate, NORMAL)
        weights = rows.T[:, None, :]
        name = self._name(weights, None, count**-0.5)
        drawn = DrawnLayer(known.channels, (IDENTITY,) * len(known.positions), numbers, 1, name)
        step = self._add(known, "draw", (read,), drawn)
        if not law.constant:
            return step
        return self._add(
            known, "apply", (step,), self._activation(("add", X, number(law.constant)))
        )


def _overlapping(entries: Mapping[str, Entries]) -> set[str]:
    """Names of weights that may share entries: the range of one's entries overlaps another's."""
    spans = sorted((int(own.min()), int(own.max()), name) for name, own in entries.items())
    found: set[str] = set()
    end, last = -1, ""
    for low, high, name in spans:
        if low <= end:
            found |= {name, last}
        if high > end:
            end, last = high, name
    return found


def parameters(
    writer: Writer, values: Mapping[str, np.ndarray], names: list[str]
) -> tuple[list[np.ndarray], list[np.ndarray]]:
    """Weights (channel, tap, channel below) and biases of random layers, with the numbers of the model."""
    flat = {name: np.asarray(v, dtype=float).ravel() for name, v in values.items()}

    def numbers(entries: Entries) -> np.ndarray:
        (owner,) = writer.read.fields.owners(entries)
        assert isinstance(owner.what, Weight)
        constant = writer.read.laws[owner.what.name].constant or 0.0
        return flat[owner.what.name][entries - owner.start] - constant

    weights, biases = [], []
    for name in names:
        w, b, factor = writer.drawn[name]
        weights.append(factor * (w if w.dtype.kind == "f" else numbers(w)))
        biases.append(np.zeros(len(w)) if b is None else numbers(b))
    return weights, biases
