"""What the user of a plan said besides sizes and strategy, and that read back from a file."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from scalewise.plan.spi import Inputs, RoleSpec


@dataclass(frozen=True)
class Options:
    """The user's words besides sizes and strategy; `at` says them again.

    Args:
        roles: Pattern of names to role.
        branch_outputs: Patterns of the tensors that end a residual branch.
        multiplied: Names of the multipliers that the forward pass applies.
        device: Where the model is built to learn its shapes.
        inputs: What the model is called with to see its forward pass.
        blocks: Pattern of names to the number of blocks that the optimizer treats apart.
        keep: Factors of the model's own code that are left as they are.
    """

    roles: Mapping[str, RoleSpec] = field(default_factory=dict)
    branch_outputs: tuple[str, ...] = ()
    multiplied: tuple[str, ...] = ()
    device: str = "meta"
    inputs: Inputs | None = field(default=None, compare=False, repr=False)
    blocks: Mapping[str, int | str] = field(default_factory=dict)
    keep: tuple[str, ...] = ()


def told(said: Mapping[str, Any]) -> Options:
    """The options that a file holds."""
    roles = {k: _spec(v) for k, v in said.get("roles", {}).items()}
    branches, multiplied = (tuple(said.get(k, ())) for k in ("branch_outputs", "multiplied"))
    device, blocks = said.get("device", "meta"), said.get("blocks", {})
    keep = tuple(said.get("keep", ()))
    return Options(roles, branches, multiplied, device, blocks=blocks, keep=keep)


def _spec(said: Any) -> RoleSpec:
    """A role as the user gave it; text has lists where they had tuples."""
    if isinstance(said, str):
        return said
    role, axes = said
    return (role, axes) if isinstance(axes, int) else (role, tuple(axes))
