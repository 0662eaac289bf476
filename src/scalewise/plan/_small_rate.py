"""The next learning rate to try, until features move by as little as a measurement wants them to.

What a network returns may jump, where a router's few chosen experts become others: then no rate makes features move
by one percent, though smaller ones move them by less. So rates that were too small and too large are both kept.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace


@dataclass(frozen=True)
class Bracket:
    """Rates that were tried.

    Args:
        low: The largest at which features moved too little.
        high: The least at which they moved too much.
    """

    low: float = 0.0
    high: float = math.inf

    def with_tried(self, lr: float, *, too_much: bool) -> Bracket:
        """This bracket after one more rate has been tried.

        Args:
            lr: The rate.
            too_much: Whether features moved too much at it, and not too little.
        """
        if too_much:
            return replace(self, high=min(lr, self.high))
        return replace(self, low=max(lr, self.low))

    def within(self, lr: float) -> float:
        """A rate between the two: that which is proposed, or what lies in the middle.

        Args:
            lr: What is proposed.
        """
        if self.low < lr < self.high or not self.both:
            return lr
        return math.sqrt(self.low * self.high)

    @property
    def both(self) -> bool:
        """True if some rates were too small and larger ones too large."""
        return 0 < self.low < self.high < math.inf

    @property
    def jumps(self) -> bool:
        """True if two rates that differ by little move features too little, and too much."""
        return 0 < self.low < self.high <= 1.5 * self.low
