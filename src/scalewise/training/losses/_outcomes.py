"""Outcomes of training by another loss than the squared error, for which outputs are not independent."""

from __future__ import annotations

from dataclasses import replace

from scalewise.training._asked import Asked
from scalewise.training._outcomes import OUTCOMES, Outcome
from scalewise.training.cavity._correction import cavity_obstacle

_SOURCE = "PDLT (10.33), (10.36), (10.55), derived"


def _row(name: str, meaning: str, over: tuple[str, ...] = (), units: str = "") -> Outcome:
    """The row of the squared error, with the dimensions that it has here."""
    row = OUTCOMES[name]
    return replace(
        row,
        meaning=meaning,
        equation=_SOURCE,
        over=over or row.over,
        at_width=(),
        units=units or row.units,
    )


def _probabilities(asked: Asked) -> str:
    named = asked.task.loss.probabilities is not None
    return "" if named else f"the loss {asked.task.loss.name!r} has no `probabilities`"


def _cavity(asked: Asked) -> str:
    net, algorithm = asked.plain, asked.algorithm
    if net is None:
        return "of this loss order 1/n is known of an `MLP`"
    if asked.times is not None:
        return "it is known at the algorithm's own time; give that its `steps` or its `time`"
    if net.depth > 2:
        return (
            f"a network of depth {net.depth} has more than one hidden layer; `training.cavity.cavity_correction` "
            "gives the part of the last one"
        )
    return cavity_obstacle(net, asked.task, algorithm)


def _by_cavities(name: str) -> Outcome:
    """The coefficient of 1/n of the squared error, found without its tensors."""
    row = OUTCOMES[name]
    return replace(row, equation="derived", obstacles=(*row.obstacles, _cavity))


_EACH, _TRAIN, _LOSS = ("output", "test"), ("output", "train"), "nat, or as the loss"
_ROWS = (
    _row("output_mean", "Mean output of trained networks on test samples."),
    _row(
        "output_covariance",
        "Covariance of outputs on test samples, which training makes depend on each other.",
        ("output", "output_1", "test", "test_1"),
    ),
    _row("variance", "Variance of each output on test samples, over initialisations.", _EACH),
    replace(
        OUTCOMES["output_mean"],
        name="class_probability",
        symbol="E[p_i;β]",
        equation="PDLT (6.11), (10.38), derived",
        units="dimensionless",
        meaning="Mean probability that a trained network gives to each class; of one output, to the class 1.",
        obstacles=(*OUTCOMES["output_mean"].obstacles, _probabilities),
    ),
    _row("test_loss", "Expected loss of each test sample, a negative log-likelihood.", units=_LOSS),
    _row("test_error", "Probability that a trained network puts a test sample into a wrong class."),
    _row("train_mean", "Mean output of trained networks on the training samples."),
    _row("train_variance", "Variance of each output on the training samples.", _TRAIN),
    _row("train_loss", "Expected loss of each training sample.", units=_LOSS),
    _by_cavities("output_mean_nlo"),
    _by_cavities("output_covariance_nlo"),
    _by_cavities("variance_nlo"),
)
LOSS_OUTCOMES: dict[str, Outcome] = {row.name: row for row in _ROWS}
