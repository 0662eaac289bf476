"""Networks and programs at infinite width, and at any finite one by the same text."""

from scalewise.limits.lazy import LazyMatrix

__all__ = [
    "LazyMatrix",
]
