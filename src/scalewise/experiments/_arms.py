"""Rules that a decoder is drawn and trained by, as data: arms of a comparison, and trainings of one at one size."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

Size = tuple[int, int]  # width and depth


@dataclass(frozen=True)
class Arm:
    r"""Rules by which a decoder of any size is drawn and trained.

    Args:
        name: In tables.
        rules: A strategy: ``"standard"`` or ``"mup"``.
        based: Whether every size is scaled from the base; otherwise each is as its code draws it.
        init: How the base is drawn: ``"drawn"`` as its code does, ``"critical"`` as the theory proposes, or
            ``"by hand"``: variances 1/fan-in, embeddings of unit size, a halved readout, branches over $\sqrt 2$.
        tuned: Whether constants are those that were tuned at the base.
        residual: $\alpha$: branches are multiplied by $L^{-\alpha}$; under maximal updates alone.
        adjust: What Muon multiplies its steps by.
        decay: What weight decay follows, by name.
        policy: What batch and duration ask for, by name.
        powers: Factors that are powers of the width over that of the base: pattern of names, setting, exponent.
        base: The width of the base, where it is not that of the comparison.
        drift: Octaves by which its best rate may move for each octave of width; ``None`` if nobody knows.
    """

    name: str
    rules: str = "mup"
    based: bool = True
    init: str = "drawn"
    tuned: bool = False
    residual: float = 1.0
    adjust: str = "match_rms_adamw"
    decay: str | None = None
    policy: str | None = None
    powers: tuple[tuple[str, str, float], ...] = ()
    base: int | None = None
    drift: float | None = 0.0


@dataclass(frozen=True)
class Common:
    """Settings that all trainings of a comparison share.

    Args:
        task: A sequence of `corpus`.
        base: Width and depth where hyperparameters are tuned.
        batch: Texts of a step at the base.
        steps: Duration at the base.
        context: Symbols of a text.
        held: Texts of the loss.
        symbols: Length of the sequence.
    """

    task: str
    base: Size
    batch: int
    steps: int
    context: int
    held: int
    symbols: int


@dataclass(frozen=True)
class Cell:
    """Trainings of one arm at one size, which differ by rate and seed.

    Args:
        arm: Its rules.
        size: Width and depth.
        rates: Learning rates of the base.
        seeds: How many networks at each.
        optimizer: Its name.
        steps: Duration.
        batch: Texts of a step.
        weight_decay: At the base.
        constants: What was tuned at the base.
        swap: A setting, names of tensors, and an arm with its rate: whose setting these tensors have instead.
    """

    arm: Arm
    size: Size
    rates: tuple[float, ...]
    seeds: int
    optimizer: str
    steps: int
    batch: int
    weight_decay: float = 0.1
    constants: Any = None
    swap: tuple[str, tuple[str, ...], Cell] | None = None

    @property
    def label(self) -> str:
        """In a store and on a progress bar."""
        n, L = self.size
        return (
            f"{self.optimizer}, {self.steps} steps of {self.batch}, {self.arm.name}, n={n}, L={L}"
        )
