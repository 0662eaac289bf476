"""Powers by axis: the one record in which every rule of a plan says how a setting goes with every size."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields
from fractions import Fraction

from scalewise._readable import readable

_ONE, _ZERO = Fraction(1), Fraction(0)


@dataclass(frozen=True)
@readable
class Powers:
    r"""$F^f\nu^w\lambda^dO^o\cdots$, exact exponents of the ratios of target to base.

    Args:
        fan_in: Of the number of terms the tensor sums over, as far as the width makes it.
        width: Of the width.
        depth: Of the depth.
        fan_out: Of the number of units the tensor writes to, as far as the width makes it.
        batch: Of the samples in one step.
        tokens: Of the samples of the whole training.
        parameters: Of the number of trained numbers.
        rank: Of an inner width beside the width, as that of a low-rank update.
        experts: Of the number of experts of which each sample sees a few.
        vocabulary: Of the number of words.
        queries: Of the number of heads of queries for each head of keys.

    Example:
        >>> from fractions import Fraction
        >>> from scalewise.plan import Powers
        >>> root = Powers(batch=Fraction(1, 2), tokens=Fraction(-1, 2))
        >>> root.factor({"batch": Fraction(4)}), (root**2).factor({"batch": Fraction(4)})
        (2.0, 4.0)
    """

    fan_in: Fraction = _ZERO
    width: Fraction = _ZERO
    depth: Fraction = _ZERO
    fan_out: Fraction = _ZERO
    batch: Fraction = _ZERO
    tokens: Fraction = _ZERO
    parameters: Fraction = _ZERO
    rank: Fraction = _ZERO
    experts: Fraction = _ZERO
    vocabulary: Fraction = _ZERO
    queries: Fraction = _ZERO

    def __mul__(self, other: Powers) -> Powers:
        # Nearly all are 0, and sums of fractions are slow.
        pairs = ((getattr(self, a), getattr(other, a)) for a in AXES)
        return Powers(*(x + y if x and y else x or y for x, y in pairs))

    def __pow__(self, power: int | Fraction) -> Powers:
        return Powers(*(x and x * power for x in (getattr(self, a) for a in AXES)))

    def factor(self, ratios: Mapping[str, Fraction]) -> float:
        """The number at ratios of target to base; exactly 1 where every ratio is 1, or where equal ratios cancel.

        Args:
            ratios: By the names of the exponents; what is missing does not change.

        Raises:
            ValueError: If a name is none of an exponent.
        """
        if unknown := sorted(set(ratios) - set(AXES)):
            raise ValueError(
                f"`ratios` must have names out of {', '.join(AXES)}; got {unknown[0]!r}."
            )
        total: dict[Fraction, Fraction] = {}
        for axis in AXES:
            if power := getattr(self, axis):  # nearly all are 0, and to hash fractions is slow
                ratio = ratios.get(axis, _ONE)
                total[ratio] = total.get(ratio, _ZERO) + power
        out = 1.0
        for ratio, power in total.items():
            if power and ratio != 1:
                out *= float(ratio) ** float(power)
        return out

    @property
    def of_width(self) -> Fraction:
        """The power of the width where both sides grow like it: what a slope against width is."""
        return self.fan_in + self.width + self.fan_out


AXES = tuple(f.name for f in fields(Powers))
