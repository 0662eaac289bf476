"""The table of what is known of trained networks: names, symbols, dimensions, and when a call can have them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np
import xarray as xr

from scalewise._readable import readable
from scalewise.networks.spi import Draw
from scalewise.observables import Quantity
from scalewise.training._asked import Asked
from scalewise.training._generalisation import true_classes

_OUTPUT = "preactivation"
LARGE = 0.5  # of the learning parameter over the width: from here on an order says little about the next


Obstacle = Callable[[Asked], str]


@dataclass(frozen=True, kw_only=True)
@readable
class Outcome(Quantity):
    """One row; see `Quantity` for what every row has.

    Args:
        over: Its dimensions, behind that of time.
        at_width: Its dimensions at a finite width, where those are more: it is the same for each ``output`` and 0
            between an ``output`` and another, ``output_1``. Empty where they are `over`.
        power: Of 1/n, where it is not the order.
        corrects: What it is the coefficient of 1/n of, or of `power`; that may begin at this order and have no row.
            Empty for the leading order, and for coefficients that are not added to anything.
        corrected_as: Whose coefficient of 1/n is its own too; empty where it has one itself, or none.
        obstacles: Clauses that say why a call cannot have it; empty texts if it can.
        in_time: Whether it changes while a network is trained.
        spread: Whether it takes the covariance of outputs, or its diagonal.
    """

    order: int = 0
    power: float | None = None
    over: tuple[str, ...]
    at_width: tuple[str, ...] = ()
    corrects: str = ""
    corrected_as: str = ""
    obstacles: tuple[Obstacle, ...] = ()
    in_time: bool = True
    spread: bool = False

    @property
    def dims(self) -> tuple[str, ...]:
        """Named dimensions of the variable, without that of time."""
        return self.over

    @property
    def exponent(self) -> float:
        """The power of 1/n that it is multiplied by."""
        return float(self.order) if self.power is None else self.power

    def variable(
        self, values: object, *, leading: tuple[str, ...] = (), trailing: tuple[str, ...] = ()
    ) -> xr.Variable:
        """As of every row; where the power is not the order, an attribute tells it."""
        found = super().variable(values, leading=leading, trailing=trailing)
        if self.power is not None:
            found.attrs["power"] = self.power
        return found

    def of_outputs(self, values: np.ndarray, outputs: int) -> np.ndarray:
        """Values of the dimensions `over` as an array of those that it has at a finite width.

        Args:
            values: Their last axes are `over`.
            outputs: How many there are.
        """
        more = len(self.at_width) - len(self.over) if self.at_width else 0
        each = np.eye(outputs) if more == 2 else np.ones((outputs,) * more)
        lead, own = values.shape[: values.ndim - len(self.over)], len(self.over)
        spread = values.reshape((*lead, *(1,) * more, *values.shape[values.ndim - own :]))
        return np.asarray(spread * each.reshape(each.shape + (1,) * own))

    def obstacle(self, asked: Asked) -> str:
        """Why a call that has `asked` for it cannot have it, a clause."""
        return self.obstacle_of_networks(asked)

    def obstacle_of_networks(self, asked: Asked) -> str:
        """Why it cannot be measured on networks that are trained, whatever theory knows.

        Args:
            asked: The call.
        """
        return next((why for obstacle in self.obstacles if (why := obstacle(asked))), "")


def _tests(asked: Asked) -> str:
    if not len(asked.task.test_inputs):
        return "the task has no test inputs"
    return "at='train' leaves out the test samples" if asked.at == "train" else ""


def _train(asked: Asked) -> str:
    return "at='test' leaves out the training samples" if asked.at == "test" else ""


def _answers(asked: Asked) -> str:
    return "the task has no test targets" if asked.task.test_targets is None else ""


def _spreads(asked: Asked) -> str:
    return "covariance=None leaves it out" if asked.covariance is None else ""


def _whole(asked: Asked) -> str:
    return "" if asked.covariance == "full" else f"covariance={asked.covariance!r} leaves it out"


def _classes(asked: Asked) -> str:
    known, wanted = asked.task.targets, asked.task.test_targets
    named = wanted is not None and true_classes(known, wanted)
    return "" if named else "targets do not name classes, as those of Task.of_classes do"


def _evidence(asked: Asked) -> str:
    return "" if asked.algorithm.has_evidence else "only Bayes has an evidence"


def _targets(asked: Asked) -> str:
    return "" if (asked.task.targets**2).any() else "the targets are 0, and have no direction"


def _last_layer(asked: Asked) -> str:
    last = isinstance(asked.net.program.nodes[-1], Draw)
    return "" if last else "a skip connection around the last layer adds to its kernel"


_LEADING = (
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
        at_width=("output", "output_1", "test", "test_1"),
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
        at_width=("output", "test"),
        obstacles=(_tests, _spreads),
        spread=True,
    ),
    Outcome(
        name="bias",
        symbol="m_i;β - y_i;β",
        equation="PDLT (10.52), (10.56)",
        units=_OUTPUT,
        meaning="Mean output on test samples less their targets.",
        over=("output", "test"),
        corrected_as="output_mean",
        obstacles=(_tests, _answers),
    ),
    Outcome(
        name="test_loss",
        symbol="E[L_β]",
        equation="PDLT (10.52)",
        units="preactivation²",
        meaning="Expected half square of the error of each test sample, summed over outputs.",
        over=("test",),
        obstacles=(_tests, _answers, _spreads),
        spread=True,
    ),
    Outcome(
        name="test_error",
        symbol="P[wrong class of β]",
        equation="PDLT (10.40), (10.41), derived",
        units="dimensionless",
        meaning="Probability that a trained network puts a test sample into a wrong class.",
        over=("test",),
        obstacles=(_tests, _answers, _spreads, _classes),
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
        at_width=("output", "train"),
        obstacles=(_train, _spreads),
        spread=True,
    ),
    Outcome(
        name="train_loss",
        symbol="E[L_α]",
        equation="PDLT (10.52), of training samples",
        units="preactivation²",
        meaning="Expected half square of the error of each training sample, summed over outputs.",
        over=("train",),
        obstacles=(_train, _spreads),
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
_LED = {row.name: row for row in _LEADING}


def _next(name: str, equation: str, meaning: str, symbol: str = "") -> Outcome:
    """The coefficient of 1/n of a leading order: known where that is, on the dimensions of a finite width."""
    row = _LED[name]
    return replace(
        row,
        name=f"{name}_nlo",
        symbol=f"{symbol or row.symbol}^{{1}}",
        equation=equation,
        order=1,
        meaning=f"Coefficient of 1/n of {meaning}.",
        over=row.at_width or row.over,
        at_width=(),
        corrects=name,
        spread=False,
    )


def _half(row: Outcome) -> Outcome:
    """The coefficient of n^(-1/2), where training moves neurons over kinks, from the row of that of 1/n."""
    meaning = row.meaning.replace("1/n", "n^(-1/2)", 1).removesuffix(".")
    return replace(
        row,
        name=f"{row.corrects}_half",
        symbol=f"{row.symbol.removesuffix('^{1}')}^{{1/2}}",
        equation="derived",
        power=0.5,
        meaning=f"{meaning}, where training moves neurons over kinks.",
    )


_MEAN = "PDLT (∞.160)-(∞.165) with three misprints put right; of Bayes (6.88)"
_SPREAD = "PDLT (∞.166), (∞.167), derived"
_BEHIND = (
    _next("output_mean", _MEAN, "the mean output on test samples"),
    Outcome(
        name="output_mean_nlo_by_part",
        symbol="m_i;β^{1}, part by part",
        equation=_MEAN,
        order=1,
        units=_OUTPUT,
        meaning="What each kind of tensor adds to the coefficient of 1/n of the mean output.",
        over=("part", "output", "test"),
        obstacles=(_tests,),
    ),
    Outcome(
        name="output_mean_nlo_by_layer",
        symbol="m_i;β^{1}, layer by layer",
        equation="PDLT (∞.160)-(∞.165), derived",
        order=1,
        units=_OUTPUT,
        meaning="What the finite width of each hidden layer adds to the coefficient of 1/n of the mean output.",
        over=("layer", "output", "test"),
        obstacles=(_tests,),
    ),
    _next(
        "output_covariance",
        _SPREAD,
        "the covariance between test samples and between outputs",
        "Cov[z_i1;β1, z_i2;β2]",
    ),
    _next("variance", _SPREAD, "the variance of each output on test samples"),
    _next(
        "test_loss",
        "PDLT (10.52), (∞.160), derived",
        "the expected half square of the error of each test sample",
    ),
    _next(
        "test_error",
        "PDLT (∞.154), (4.77), derived",
        "the probability of a wrong class, by four cumulants of the outputs",
    ),
    _next("train_mean", _MEAN, "the mean output on the training samples"),
    _next("train_variance", _SPREAD, "the variance of each output on the training samples"),
    _next(
        "train_loss",
        "PDLT (10.52), (∞.160), derived",
        "the expected half square of the error of each training sample",
    ),
    Outcome(
        name="ntk_change_nlo",
        symbol="E[H_ij;δ1δ2(end) - H_ij;δ1δ2(start)]^{1}",
        equation="PDLT (∞.117)",
        order=1,
        units="preactivation² / learning rate",
        meaning="Coefficient of 1/n of the change of the mean NTK by training; training samples, then tests.",
        over=("output", "output_1", "sample", "sample_1"),
        corrects="ntk_change",
    ),
    Outcome(
        name="alignment_nlo",
        symbol="y dH y / y H y",
        equation="PDLT (∞.117), derived",
        order=1,
        units="dimensionless",
        meaning="Coefficient of 1/n of the relative change of the NTK along the training targets.",
        over=(),
        corrects="alignment",
        obstacles=(_targets,),
    ),
    Outcome(
        name="learning_parameter",
        symbol="n ε_learn",
        equation="derived",
        order=1,
        units="dimensionless",
        meaning="Largest share of the variance of a test sample that fluctuations of the NTK add, times the width.",
        over=(),
        obstacles=(_tests,),
    ),
    _next("log_evidence", "PDLT (6.34), derived", "the log evidence"),
    Outcome(
        name="feature_change_nlo",
        symbol="E[σ_δ1·σ_δ2 / n_l | y]^{1} - E[σ_δ1·σ_δ2 / n_l]^{1}",
        equation="PDLT (6.101), (6.104), (6.107)",
        order=1,
        units="activation²",
        meaning="Coefficient of 1/n of what the posterior changes of mean products of activations, by layer.",
        over=("layer", "sample", "sample_1"),
        corrects="feature_change",
        obstacles=(_evidence,),
        in_time=False,
    ),
)
_KNOWN_OVER_KINKS = ("output_mean", "output_covariance", "variance", "test_loss")
_KNOWN_OVER_KINKS += ("train_mean", "train_variance", "train_loss", "ntk_change")
_OVER_KINKS = tuple(_half(row) for row in _BEHIND if row.corrects in _KNOWN_OVER_KINKS)
OUTCOMES: dict[str, Outcome] = {row.name: row for row in (*_LEADING, *_BEHIND, *_OVER_KINKS)}
