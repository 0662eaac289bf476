"""Networks at initialisation, as theory predicts them: exact recursions, no randomness."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from scalewise.theory._predict import predict

if TYPE_CHECKING:
    from scalewise.theory import (
        action,
        blocks,
        correlators,
        deep,
        exact,
        flow,
        information,
        note,
        order,
        residual,
        single,
    )

__all__ = [
    "action",
    "blocks",
    "correlators",
    "deep",
    "exact",
    "flow",
    "information",
    "note",
    "order",
    "predict",
    "residual",
    "single",
]


def __getattr__(name: str) -> Any:
    # Rooms that nobody enters are not imported.
    if name in __all__:
        return import_module(f"scalewise.theory.{name}")
    raise AttributeError(f"module 'scalewise.theory' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted(__all__)
