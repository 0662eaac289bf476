"""What a framework's adapter tells of a model: names, shapes and axes, and no array."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import NamedTuple

from scalewise._readable import readable
from scalewise.plan._roles import Kind


class Axes(NamedTuple):
    """The axes of a parameter, by what its module does with them."""

    kind: Kind
    fan_in: tuple[int, ...] = ()
    fan_out: tuple[int, ...] = ()


@dataclass(frozen=True)
@readable
class TensorDescription:
    """One parameter of a model.

    Args:
        name: Fully qualified name, without the prefixes of wrappers.
        shape: Its shape.
        kind: What its module does with it.
        fan_in: Axes that are summed over (or index a row, for a lookup).
        fan_out: Axes that number the neurons written to.
        owner: Name of the module that owns it; a bias takes its layer from the matrix of its owner.
        module: The owner's type, for messages.
        aliases: Other names under which the very same tensor appears: tied weights.
        of: Of lengths of weights the tensor that has their direction.
        bounded: Whether its module divides it by its largest singular value.
    """

    name: str
    shape: tuple[int, ...]
    kind: Kind
    fan_in: tuple[int, ...] = ()
    fan_out: tuple[int, ...] = ()
    owner: str = ""
    module: str = ""
    aliases: tuple[str, ...] = ()
    of: str = ""
    bounded: bool = False


@dataclass(frozen=True)
@readable
class ModelDescription:
    """A model as the planner sees it.

    Args:
        tensors: Every trainable parameter once, in the model's order.
        aliases: The description of a tied tensor under each of its other names: what the module there
            does with it.
        again: By name what the model's own code does with a tensor beside what its module does, as reading out
            with the transpose of a first layer.
    """

    tensors: tuple[TensorDescription, ...]
    aliases: dict[str, TensorDescription] = field(default_factory=dict)
    again: dict[str, TensorDescription] = field(default_factory=dict)

    def named(self) -> dict[str, TensorDescription]:
        """The tensors by name."""
        return {t.name: t for t in self.tensors}
