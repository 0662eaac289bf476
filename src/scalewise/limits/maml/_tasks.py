"""What MAML trains on, how, and how its answers are judged.

Source: TP4 J.2.1.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

import numpy as np
from jaxtyping import Float, Int

from scalewise._checked import Must, checked
from scalewise._readable import readable
from scalewise.limits._few_shot import Rate


@checked
@dataclass(frozen=True)
@readable
class Tasks:
    """A batch of few-shot classification tasks of equal shape.

    Args:
        support: Inputs to adapt to, ``(task, shot, input)``.
        support_class: Their classes from 0, ``(task, shot)``.
        query: Inputs to be judged on, ``(task, query, input)``.
        query_class: Their classes.

    Raises:
        ValueError: If shapes do not fit, there is no sample, a number is not finite, or a class is not a whole
            number of at least 0.
    """

    support: Float[np.ndarray, "task shot input"]
    support_class: Int[np.ndarray, "_task _shot"]
    query: Float[np.ndarray, "_task query _input"]
    query_class: Int[np.ndarray, "_task _query"]

    def __post_init__(self) -> None:
        for name in ("support", "query"):
            x, y = getattr(self, name), getattr(self, f"{name}_class")
            if not x.size:
                raise ValueError(
                    f"`Tasks.{name}` needs at least one task, one sample and one feature; got shape {x.shape}."
                )
            if y.size and y.min() < 0:
                raise ValueError(
                    f"`Tasks.{name}_class` must hold classes from 0 on; got {y.min()}."
                )
        fits = (
            self.support.shape[:2] == self.support_class.shape
            and self.query.shape[:2] == self.query_class.shape
            and len(self.support) == len(self.query) > 0
            and self.support.shape[2] == self.query.shape[2]
        )
        if not fits:
            raise ValueError(
                "`Tasks` needs inputs (task, sample, input) and classes (task, sample), with the same numbers of "
                f"tasks and features; got {self.support.shape} with {self.support_class.shape} and "
                f"{self.query.shape} with {self.query_class.shape}."
            )


@checked
@dataclass(frozen=True)
@readable
class Maml:
    r"""Hyperparameters of meta-training; the defaults are those of the source's experiment.

    The first order does not see that adaptation itself takes back what is the same for every input. Where one
    inner step takes back more than all of a class bias, at large $\epsilon$, the meta-gradient feeds the bias
    (`bias_response` tells), and the bias widens what is taken back: a run that starts beside this threshold, as the
    source's does, may leave for ever larger features, which clipping slows and does not stop. Measured on Omniglot,
    in 1000 meta-steps of the limit: two of six runs leave (four of six on images reduced bilinearly); the same two
    stay by the second order, and at $\epsilon=0.2$.

    Args:
        inner_rate: $\epsilon$, of the one step of adaptation.
        rate: $\eta$, of the meta-step.
        clip: $g$, largest norm of the summed gradient; infinite for none.
        weight_decay: $\gamma$, of the meta-step; adaptation has none.
        second_order: Whether to differentiate through the adaptation.

    Source: TP4 J.2.1.
    """

    inner_rate: Rate = 0.4
    rate: Rate = 0.1
    clip: Annotated[float | int, Must("a positive number", lambda v: v > 0)] = 0.5
    weight_decay: Rate = 0.0
    second_order: bool = False


@checked
def accuracies(
    outputs: Float[np.ndarray, "task query output"], classes: Int[np.ndarray, "_task _query"]
) -> Float[np.ndarray, " task"]:
    """Fraction of the queries of each task whose largest output is that of their class.

    Args:
        outputs: From `adapted_outputs`.
        classes: From `Tasks.query_class`.

    Returns:
        Shape ``(task,)``; tasks are independent, so their spread gives the standard error of the mean.

    Raises:
        ValueError: If shapes do not fit, there is no query, or a number is not finite.
    """
    if outputs.shape[:2] != classes.shape or not outputs.size:
        raise ValueError(
            "`classes` needs one class for each query of `outputs`, and at least one; got shapes "
            f"{classes.shape} and {outputs.shape}."
        )
    return (outputs.argmax(-1) == classes).mean(-1)
