"""Predictions of what wide networks learn: kernels in, no network trained."""

from importlib import import_module
from typing import Any

from scalewise.training._algorithm import Algorithm as Algorithm
from scalewise.training._algorithm import Stepwise as Stepwise
from scalewise.training._algorithms import NTKGP as NTKGP
from scalewise.training._algorithms import Bayes as Bayes
from scalewise.training._algorithms import GradientDescent as GradientDescent
from scalewise.training._algorithms import GradientFlow as GradientFlow
from scalewise.training._algorithms import LastLayer as LastLayer
from scalewise.training._algorithms import Projectors as Projectors
from scalewise.training._algorithms import TwoStepNewton as TwoStepNewton
from scalewise.training._design import Design as Design
from scalewise.training._design import design as design
from scalewise.training._draws import log_score as log_score
from scalewise.training._draws import sample_outputs as sample_outputs
from scalewise.training._evidence import hypothesis_probabilities as hypothesis_probabilities
from scalewise.training._evidence import leave_one_out as leave_one_out
from scalewise.training._evidence import log_evidence as log_evidence
from scalewise.training._evidence import log_evidence_slope as log_evidence_slope
from scalewise.training._evidence_slopes import log_evidence_slopes as log_evidence_slopes
from scalewise.training._expansion import AccuracyWarning as AccuracyWarning
from scalewise.training._expansion import ExpansionWarning as ExpansionWarning
from scalewise.training._filters import Filter as Filter
from scalewise.training._given import predict_linearised as predict_linearised
from scalewise.training._kernel_objects import NetworkKernel as NetworkKernel
from scalewise.training._kernel_objects import kernel_of as kernel_of
from scalewise.training._motions import ByDescent as ByDescent
from scalewise.training._outcomes import OUTCOMES as OUTCOMES
from scalewise.training._outcomes import Outcome as Outcome
from scalewise.training._predict import predict_training as predict_training
from scalewise.training._surveys import algorithms_side_by_side as algorithms_side_by_side
from scalewise.training._surveys import evidence_of_networks as evidence_of_networks
from scalewise.training._surveys import ntk_motion as ntk_motion
from scalewise.training.posterior._renormalised import (
    renormalised_posterior as renormalised_posterior,
)
from scalewise.training.width._meeting import MeetingWidth as MeetingWidth
from scalewise.training.width._meeting import width_for_loss as width_for_loss


def __getattr__(name: str) -> Any:
    """Rooms of this one, which bring what few need: networks, in one of them."""
    if name in ("dynamics", "ensembles", "kernels", "nearly_kernel"):
        return import_module(f"{__name__}.{name}")
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
