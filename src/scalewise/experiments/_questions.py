"""The arms of seven questions of scaling, as data."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from scalewise.experiments._arms import Arm

_HIDDEN = ("*.queries.*", "*.keys.*", "*.values.*", "*.up.*", "*.out_*")
_EMBEDDINGS = ("letters.*", "places.*")


def _rates_by_layer(power: float) -> tuple[tuple[str, str, float], ...]:
    """Rates of matrices inside and of the readout as a power of the width."""
    return tuple((pattern, "lr", power) for pattern in (*_HIDDEN, "head.*"))


_STANDARD = Arm("standard", rules="standard", init="critical", drift=-1.0)
_MAXIMAL = Arm("maximal updates", init="critical")


@dataclass(frozen=True)
class Case:
    """One arm of a question.

    Args:
        question: Its number.
        arm: The rules.
        over: What its sizes differ in: ``"width"``, ``"few widths"`` (every other, to 128), ``"to 256"``,
            ``"ends"`` (the base and the largest), ``"depth"`` or ``"nothing"``.
        optimizer: Its name.
        longer: Durations of the base that it is trained for.
        task: What it learns.
        weight_decay: At the base.
    """

    question: int
    arm: Arm
    over: str = "width"
    optimizer: str = "adamw"
    longer: int = 1
    task: str = "text"
    weight_decay: float = 0.0

    @property
    def label(self) -> str:
        """Unique among all cases."""
        more = f", {self.task}" if self.question == 4 else ""
        return f"{self.question}: {self.arm.name}{more}"


QUESTIONS = {
    1: "Does the standard parametrisation with the embeddings' rate times n equal maximal updates under AdamW?",
    2: "Do rates by layer on the standard parametrisation beat maximal updates?",
    3: "Is it weight decay that carries the rate after the warm-up?",
    4: "Which rule of duration holds for four times the steps?",
    5: "Which factor of Muon carries its rate?",
    6: "Residual exponent 1/2 or 1, at depths 2 to 32 of thin networks?",
    7: "How small may a base be?",
}
LONG, WIDE = 300, 256  # steps and width of what may say something
NO_RULE, ONE_RATE = "no rule", "one rate, decay of matrices times n"
DURATIONS = (None, "horizon", "root_horizon", "delphi", "completed")
LONG_WIDTH = 128  # of what is trained four times longer
MUON_WIDTH = 256  # orthogonal matrices of more cost more than the rest together
_DECAY = 0.5  # of the third question: it shrinks weights within the run


def _named(arm: Arm, name: str, **more: Any) -> Arm:
    return Arm(**{**arm.__dict__, "name": name, **more})


CASES = (
    Case(1, _STANDARD),
    Case(1, _named(_STANDARD, "standard, embeddings' rate times n",
                   powers=tuple((p, "lr", 1.0) for p in _EMBEDDINGS))),
    Case(1, _MAXIMAL),
    Case(2, _named(_STANDARD, "standard, matrices' rates over n", powers=_rates_by_layer(-1.0), drift=0.0)),
    Case(2, _named(_STANDARD, "standard, matrices' rates over root n", powers=_rates_by_layer(-0.5), drift=-0.5)),
    Case(2, _MAXIMAL),
    Case(3, _named(_MAXIMAL, "rates over n, rate times decay kept", decay="shrinkage"), "few widths", longer=4,
         weight_decay=_DECAY),
    Case(3, _named(_MAXIMAL, "rates over n, decay kept", decay="constant"), "few widths", longer=4,
         weight_decay=_DECAY),
    Case(3, _named(_MAXIMAL, "rates over n, no decay"), "few widths", longer=4),
    Case(3, _named(_STANDARD, ONE_RATE,
                   powers=tuple((p, "weight_decay", 1.0) for p in (*_HIDDEN, "head.*"))), "few widths", longer=4,
         weight_decay=_DECAY),
    *(Case(4, _named(_MAXIMAL, name or NO_RULE, policy=name), "nothing", longer=4, task=task, weight_decay=0.1)
      for task in ("text", "teacher") for name in DURATIONS),
    *(Case(4, _named(_MAXIMAL, "the base"), "nothing", task=task, weight_decay=0.1)
      for task in ("text", "teacher")),
    *(Case(5, _named(_STANDARD, f"{name}, one rate", adjust=name, drift=None), "to 256", optimizer="muon")
      for name in ("original", "match_rms_adamw", "spectral_norm")),
    *(Case(5, _named(_MAXIMAL, f"{name}, planned", adjust=name), "to 256", optimizer="muon")
      for name in ("original", "match_rms_adamw", "spectral_norm")),
    *(Case(6, Arm(f"exponent {said}", init="by hand", residual=residual), "depth")
      for said, residual in (("0", 0.0), ("1/2", 0.5), ("1", 1.0))),
    *(Case(7, _named(_MAXIMAL, f"base {base}, {said}", init=init, base=base), "ends")
      for init, said in (("critical", "critical"), ("drawn", "as built")) for base in (32, 64, 128)),
)  # fmt: skip
