"""The table of what is known of trained networks: names, symbols, dimensions, and when a call can have them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Literal

from scalewise._words import refuse_name
from scalewise.networks import Network
from scalewise.observables import Quantity
from scalewise.tasks import Task
from scalewise.training._algorithms import Algorithm, Bayes
from scalewise.training._generalisation import true_classes

__all__ = ["OUTCOMES", "Asked", "Outcome", "chosen"]

_OUTPUT = "preactivation"


@dataclass(frozen=True)
class Asked:
    """What a call wants to know.

    Args:
        net: The network.
        task: What it is trained on.
        algorithm: How.
        covariance: How much of the covariance.
        at: Where.
    """

    net: Network
    task: Task
    algorithm: Algorithm
    covariance: Literal["full", "diagonal"] | None
    at: Literal["test", "train", "both"]


Obstacle = Callable[[Asked], str]


@dataclass(frozen=True, kw_only=True)
class Outcome(Quantity):
    """One row; see `Quantity` for what every row has.

    Args:
        over: Its dimensions, behind that of time.
        obstacles: Clauses that say why a call cannot have it; empty texts if it can.
        in_time: Whether it changes while a network is trained.
        spread: Whether it takes the covariance of outputs, or its diagonal.
    """

    order: int = 0
    over: tuple[str, ...]
    obstacles: tuple[Obstacle, ...] = ()
    in_time: bool = True
    spread: bool = False

    @property
    def dims(self) -> tuple[str, ...]:
        """Named dimensions of the variable, without that of time."""
        return self.over

    def obstacle(self, asked: Asked) -> str:
        """Why a call cannot have it, a clause."""
        return next((why for obstacle in self.obstacles if (why := obstacle(asked))), "")


def _tests(asked: Asked) -> str:
    if not len(asked.task.test_inputs):
        return "the task has no test inputs"
    return "at='train' leaves out the test samples" if asked.at == "train" else ""


def _train(asked: Asked) -> str:
    return "at='test' leaves out the training samples" if asked.at == "test" else ""


def _answers(asked: Asked) -> str:
    return "the task has no test targets" if asked.task.test_targets is None else ""


def _spread(asked: Asked) -> str:
    return "covariance=None leaves it out" if asked.covariance is None else ""


def _whole(asked: Asked) -> str:
    return "" if asked.covariance == "full" else f"covariance={asked.covariance!r} leaves it out"


def _classes(asked: Asked) -> str:
    known, wanted = asked.task.targets, asked.task.test_targets
    named = wanted is not None and true_classes(known, wanted)
    return "" if named else "targets do not name classes, as those of Task.of_classes do"


def _evidence(asked: Asked) -> str:
    here = isinstance(asked.algorithm, Bayes)
    return "" if here else "only Bayes has an evidence"


def _last_layer(asked: Asked) -> str:
    skipped = asked.net.skips[-1] != 0
    return "a skip connection around the last layer adds to its kernel" if skipped else ""


_ROWS = (
    Outcome(
        name="output_mean",
        symbol="m_i;β",
        equation="PDLT (10.40), (6.64)",
        units=_OUTPUT,
        meaning="Mean output of trained networks on test samples.",
        over=("output", "test"),
        obstacles=(_tests,),
    ),
    Outcome(
        name="output_covariance",
        symbol="Cov[z_i;β1, z_i;β2]",
        equation="PDLT (10.41), (6.57)",
        units="preactivation²",
        meaning="Covariance of one output between test samples; outputs are independent at infinite width.",
        over=("test", "test_1"),
        obstacles=(_tests, _whole),
        spread=True,
    ),
    Outcome(
        name="variance",
        symbol="Cov[z_i;β, z_i;β]",
        equation="PDLT (10.41), (6.57)",
        units="preactivation²",
        meaning="Variance of each output on test samples, over initialisations or of the posterior.",
        over=("test",),
        obstacles=(_tests, _spread),
        spread=True,
    ),
    Outcome(
        name="bias",
        symbol="m_i;β - y_i;β",
        equation="PDLT (10.52), (10.56)",
        units=_OUTPUT,
        meaning="Mean output on test samples less their targets.",
        over=("output", "test"),
        obstacles=(_tests, _answers),
    ),
    Outcome(
        name="test_loss",
        symbol="E[L_β]",
        equation="PDLT (10.52)",
        units="preactivation²",
        meaning="Expected half square of the error of each test sample, summed over outputs.",
        over=("test",),
        obstacles=(_tests, _answers, _spread),
        spread=True,
    ),
    Outcome(
        name="test_error",
        symbol="P[wrong class of β]",
        equation="PDLT (10.40), (10.41), derived",
        units="dimensionless",
        meaning="Probability that a trained network puts a test sample into a wrong class.",
        over=("test",),
        obstacles=(_tests, _answers, _spread, _classes),
        spread=True,
    ),
    Outcome(
        name="train_mean",
        symbol="m_i;α",
        equation="PDLT (10.33), (∞.88)",
        units=_OUTPUT,
        meaning="Mean output of trained networks on the training samples.",
        over=("output", "train"),
        obstacles=(_train,),
    ),
    Outcome(
        name="train_covariance",
        symbol="Cov[z_i;α1, z_i;α2]",
        equation="PDLT (10.33), (∞.88)",
        units="preactivation²",
        meaning="Covariance of one output between training samples.",
        over=("train", "train_1"),
        obstacles=(_train, _whole),
        spread=True,
    ),
    Outcome(
        name="train_variance",
        symbol="Cov[z_i;α, z_i;α]",
        equation="PDLT (10.33), (∞.88)",
        units="preactivation²",
        meaning="Variance of each output on the training samples.",
        over=("train",),
        obstacles=(_train, _spread),
        spread=True,
    ),
    Outcome(
        name="train_loss",
        symbol="E[L_α]",
        equation="PDLT (10.52), of training samples",
        units="preactivation²",
        meaning="Expected half square of the error of each training sample, summed over outputs.",
        over=("train",),
        obstacles=(_train, _spread),
        spread=True,
    ),
    Outcome(
        name="spectrum",
        symbol="h",
        equation="PDLT (10.33)",
        units="preactivation² / learning rate, or preactivation²",
        meaning="Eigenvalues of the kernel of the training samples that learns: NTK, or kernel.",
        over=("direction",),
        in_time=False,
    ),
    Outcome(
        name="log_evidence",
        symbol="log p(y|H)",
        equation="PDLT (6.34)",
        units="nat",
        meaning="Logarithm of the probability density of all training targets.",
        over=(),
        obstacles=(_evidence,),
        in_time=False,
    ),
    Outcome(
        name="log_evidence_slope",
        symbol="d log p(y|H) / dx",
        equation="PDLT (6.34), derived",
        units="nat / preactivation²; of C_W, nat",
        meaning="Derivative of the log evidence by the noise variance and by C_b and C_W of the last layer.",
        over=("hyperparameter",),
        obstacles=(_evidence, _last_layer),
        in_time=False,
    ),
)
OUTCOMES: dict[str, Outcome] = {row.name: row for row in _ROWS}


def chosen(names: Sequence[str] | None, asked: Asked) -> tuple[tuple[str, ...], dict[str, str]]:
    """What a call computes, and of the rest why not.

    Raises:
        ValueError: If a name does not exist, or what is named cannot be had.
    """
    why = {name: row.obstacle(asked) for name, row in OUTCOMES.items()}
    for name in names or ():
        if name not in OUTCOMES:
            refuse_name("observables", name, OUTCOMES)
        if why[name]:
            raise ValueError(f"`observables` cannot hold {name!r} here, because {why[name]}.")
    wanted = OUTCOMES if names is None else dict.fromkeys(names)
    left_out = {name: why[name] for name in wanted if why[name]}
    return tuple(name for name in OUTCOMES if name in wanted and not why[name]), left_out
