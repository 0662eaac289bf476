"""A model that was read, as a layer: the verbs of the builder that it calls, one after another."""

from __future__ import annotations

from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any

import numpy as np

from scalewise._readable import readable
from scalewise.networks.spi import Builder, Field, Hyperparameters, Layer, Matrix, Taps
from scalewise.reading._fields import Input
from scalewise.reading._trees import Tree, evaluate


def gathered_entries(
    x: Any, xp: Any, source: Input, index: tuple[int, ...], shape: tuple[int, ...], tree: Tree
) -> Any:
    """Features that are entries of an input, and functions of them, (sample, *positions, feature).

    Args:
        x: Inputs.
        xp: NumPy or JAX's.
        source: Which numbers of a sample, and what is computed of them first.
        index: Which of these, one after another; -1 where there is 0.
        shape: Positions along each axis, then features.
        tree: What is made of each.
    """
    at = np.array(index)
    flat = x.reshape(len(x), -1)[:, source.offset : source.offset + source.size]
    for link in source.links:
        flat = evaluate(link.tree, flat, xp) @ xp.asarray(link.sums.array.T, dtype=x.dtype)
        flat = flat + xp.asarray(link.added, dtype=x.dtype)
    flat = evaluate(tree, flat, xp)
    found = xp.take(flat, np.maximum(at, 0), axis=1) * (at >= 0).astype(x.dtype)
    return found.reshape(len(x), *shape)


def tokens(x: Any, xp: Any, index: tuple[int, ...], positions: tuple[int, ...], count: int) -> Any:
    """Tokens among the entries of an input, as features: the square root of their number at the place of each.

    Args:
        x: Inputs.
        xp: NumPy or JAX's.
        index: Which entries, one after another.
        positions: Along each axis.
        count: How many tokens there are.
    """
    found = xp.take(x.reshape(len(x), -1), np.array(index), axis=1)
    if xp is np and (np.any(found != np.round(found)) or found.min() < 0 or found.max() >= count):
        raise ValueError(
            f"`x` must be tokens, whole numbers from 0 to {count - 1}; they reach from {found.min():g} to "
            f"{found.max():g}. Give what the model is called with."
        )
    hot = (found[..., None] == np.arange(count)) * float(count) ** 0.5
    return hot.reshape(len(x), *positions, count)


def placed_inputs(x: Any, xp: Any, root: Matrix, positions: tuple[int, ...]) -> Any:
    """Features of positions, the rows of `root`, the same for all inputs."""
    own = root.array.reshape(1, *positions, root.size)
    return xp.asarray(np.broadcast_to(own, (len(x), *own.shape[1:])), dtype=x.dtype)


@dataclass(frozen=True)
class DrawnLayer(Layer):
    """A random layer by itself, as `Builder.tied` takes it.

    Args:
        channels: How many outputs; as a fraction, over the width of the network.
        windows: One for each axis of positions.
        own: Its hyperparameters.
        groups: Into how many the channels of both sides fall.
        name: Whose weights it has: layers of one name share them.
    """

    channels: int | Fraction
    windows: tuple[Taps, ...]
    own: Hyperparameters
    groups: int
    name: str

    def into(self, build: Builder, of: Field) -> Field:
        """Add one node."""
        count = self.channels
        channels = count if isinstance(count, int) else int(count * build.width)
        return build.draw(of, channels, self.windows, self.own, groups=self.groups)


@dataclass(frozen=True)
class BuildStep:
    """One call of the builder.

    Args:
        verb: What is called.
        of: The steps whose fields it is called with; -1 is the inputs.
        given: Its other arguments.
        place: The module of the model that does it.
    """

    verb: str
    of: tuple[int, ...]
    given: tuple[Any, ...] = ()
    place: str = ""


@dataclass(frozen=True)
@readable
class Traced(Layer):
    """A model as it was read: one layer, which holds all of it.

    Args:
        steps: What it does.
        notes: What was taken for something else, in sentences.
    """

    steps: tuple[BuildStep, ...]
    notes: tuple[str, ...] = field(default=(), compare=False)

    def into(self, build: Builder, of: Field) -> Field:
        """Every step in turn."""
        fields: list[Field] = []
        for step in self.steps:
            own = [of if k < 0 else fields[k] for k in step.of]
            build.name = f"The model's {step.place}" if step.place else "The model"
            start = len(build.nodes)
            fields.append(_played(build, step, own))
            build.modules.update(dict.fromkeys(range(start, len(build.nodes)), step.place))
        return fields[-1]

    def _given(self) -> dict[str, Any]:
        return {"steps": len(self.steps)}


def _played(build: Builder, step: BuildStep, own: list[Field]) -> Field:
    """The field of one step."""
    given = step.given
    match step.verb:
        case "read":
            make, arguments, said, positions, features = given
            return build.read(own[0], make, features, positions, given=arguments, said=said)
        case "draw":
            (drawn,) = given
            return build.tied(drawn.name, [drawn], own[0])
        case "add":
            return build.add(own, given)
        case "multiply":
            return build.multiply(own)
        case "join":
            return build.join(own)
        case "stack":
            return build.stack(own, *given)
        case "attend":
            size, power, grows, causal, turns, norm, group, bias = given
            changed = {"grows": grows, "causal": causal, "turns": turns, "norm": norm}
            changed |= {"group": group, "bias": bias}
            return build.attend((own[0], own[1], own[2]), size, power, None, **changed)
        case "run":
            return build.run(given, own[0])
        case "norm":
            eps, centred, joint, groups = given
            return build.norm(own[0], eps, centred=centred, joint=joint, groups=groups)
        case _:
            return getattr(build, step.verb)(own[0], *given)
