"""What only the user can say of a model: asked all at once, with the answer that most models need."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from scalewise.plan._errors import PlanError


@dataclass(frozen=True)
class Question:
    """One question to the user.

    Args:
        text: Whole sentences: what is not known, and how to say it.
        answers: By argument of `plan` what most models need, as ``{"roles": {"head.weight": "output"}}``.
    """

    text: str
    answers: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Wording:
    """Phrases that an adapter adds to questions.

    Args:
        readout: How to say that an embedding reads out; ``{name}`` stands for its name.
        bare: What else may tell the roles of tensors that no module speaks for.
        readouts: Whether `plan` has an argument for embeddings that read out.
        columns: Whether matrices that no module speaks for are (inputs, outputs), as everywhere in the framework.
    """

    readout: str = "If it reads out, let a module do it that shares the embedding's weights"
    bare: str = ""
    readouts: bool = False
    columns: bool = False


class Asked(PlanError):
    """Error with all questions that only the user can answer.

    Args:
        text: All questions, as sentences.
        answers: By argument of `plan` what most models need.
    """

    def __init__(self, text: str, answers: Mapping[str, Any]) -> None:
        super().__init__(text)
        self.answers = answers


def ask(questions: Sequence[Question]) -> None:
    """Raise an error if a question is open.

    Args:
        questions: All that must be known.

    Raises:
        Asked: With every question, if there are any.
    """
    if not questions:
        return
    if len(questions) == 1:
        raise Asked(questions[0].text, questions[0].answers)
    together: dict[str, Any] = {}
    for question in questions:
        for key, value in question.answers.items():
            if isinstance(value, Mapping):
                together[key] = {**together.get(key, {}), **value}
            else:
                together[key] = [*together.get(key, []), *value]
    listed = "\n".join(f"{i}. {q.text}" for i, q in enumerate(questions, 1))
    said = ", ".join(f"{k}={_written(v)}" for k, v in together.items())
    likely = f"\nMost models of this kind need {said}: check it against yours." if said else ""
    raise Asked(
        f"The plan needs answers to {len(questions)} questions.\n{listed}{likely}", together
    )


def _written(value: Any) -> str:
    """Answer as one writes it in a call."""
    if isinstance(value, Mapping):
        return "{" + ", ".join(f'"{k}": "{v}"' for k, v in value.items()) + "}"
    return "[" + ", ".join(f'"{v}"' for v in dict.fromkeys(value)) + "]"
