"""What a network chooses by: the largest of some numbers, such as the experts of a router.

Which numbers are the largest does not depend on their common size, just as what leaves a norm does not. And a sum
over all experts whose weights are zero but for the chosen few has as many terms as were chosen, however many there
are. A `Flow` asks here for both.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace

from scalewise.plan._values import Source, Value


class Choices:
    """Takes note of what keeps the order of entries, and of arrays that are zero but for a few of them.

    Args:
        sums: Sums over what was chosen: the module in whose code they are, among how many it was, and how many.
    """

    def __init__(self) -> None:
        self._ordered: dict[Source, Value] = {}
        self._few: dict[Source, tuple[int, int]] = {}
        self.sums: list[tuple[str, int, int]] = []

    def keeps_order(self, found: Value, values: Iterable[Value]) -> None:
        """An array that is as large as another where that is large: its softmax, say, or its sigmoid.

        Args:
            found: It.
            values: What it is made of.
        """
        of = [v for v in values if v.data]
        if len(of) == 1:
            self._ordered |= dict.fromkeys(found.parts, of[0])

    def follows(self, found: Value, value: Value) -> None:
        """An array over its own sum has the order that it has."""
        known = [self._ordered.get(s) for s in value.parts]
        if len(known) == 1 and known[0] is not None:
            self._ordered |= dict.fromkeys(found.parts, known[0])

    def compared(self, value: Value) -> list[Value]:
        """The arrays whose entries are compared where those of one are: before a softmax, and it itself.

        Args:
            value: The array of which the largest entries are chosen.
        """
        # What is taken off all of them alike, as their greatest before a softmax, changes no order.
        parts = {s: f for s, f in value.parts.items() if s.kind != "most"}
        value = replace(value, parts=parts)
        before = [self._ordered[s] for s in value.parts if s in self._ordered]
        # A bias for the balance of the load stands beside the scores that it is added to.
        return [v for b in before for v in self.compared(b)] or [value]

    def few(self, found: Value, length: int, count: int) -> None:
        """An array is zero but for a few entries along one of its axes.

        Args:
            found: It.
            length: Of the axis.
            count: Of the entries.
        """
        self._few |= dict.fromkeys(found.parts, (length, count))

    def terms(
        self,
        place: str,
        length: int,
        factors: Iterable[Value],
        pairs: Mapping[Source, tuple[Value, ...]],
    ) -> int:
        """Number of terms of a sum that are not zero.

        Args:
            place: The module in whose code it is.
            length: How many it has in all.
            factors: What is multiplied in each.
            pairs: What the factors are products of, entry by entry.
        """
        for source in (s for v in factors for s in v.parts):
            if source in self._few:
                of, count = self._few[source]
                if length % of:
                    return length
                self.sums.append((place, of, count))
                return length // of * count
            within = self.terms(place, length, pairs.get(source, ()), pairs)
            if within != length:
                return within
        return length
