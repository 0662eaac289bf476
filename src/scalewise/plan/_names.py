"""Names of tensors: without the prefixes of wrappers, and with layer numbers taken out."""

from __future__ import annotations

from collections.abc import Iterable
from fnmatch import fnmatchcase

_WRAPPERS = frozenset({"_orig_mod", "_fsdp_wrapped_module", "_checkpoint_wrapped_module"})


def pattern(name: str) -> str:
    """A name with every whole number between dots replaced by a star.

    Example:
        >>> from scalewise.plan._names import pattern
        >>> pattern("blocks.11.mlp.0.weight")
        'blocks.*.mlp.*.weight'
    """
    return ".".join("*" if part.isdigit() else part for part in name.split("."))


def bare(name: str, known: Iterable[str]) -> str:
    """A name as it is without wrappers around the model or inside it.

    Names that wrappers insert anywhere are taken out; ``module.`` (of data parallelism and averaged
    models) is taken from the front only, and only while the name is not a known one: a model may have
    a child called ``module``.

    Args:
        name: As the wrapped model gives it.
        known: The names of the plan.

    Example:
        >>> from scalewise.plan._names import bare
        >>> bare("module._orig_mod.head.weight", {"head.weight"})
        'head.weight'
    """
    names = known if isinstance(known, set | frozenset | dict) else set(known)
    out = ".".join(part for part in name.split(".") if part not in _WRAPPERS)
    while out not in names and out.startswith("module."):
        out = out.removeprefix("module.")
    return out


def matching(wanted: str, names: Iterable[str]) -> list[str]:
    """The names that a pattern with stars selects, or that equal it up to layer numbers."""
    return [n for n in names if fnmatchcase(n, wanted) or pattern(n) == wanted]
