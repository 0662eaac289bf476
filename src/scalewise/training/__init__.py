"""What networks of infinite width will have learned: kernels in, no network trained."""

from scalewise.training._algorithms import (
    NTKGP,
    Bayes,
    GradientDescent,
    GradientFlow,
    LastLayer,
    Projectors,
    TwoStepNewton,
)
from scalewise.training._design import Design, design
from scalewise.training._draws import log_score, sample_outputs
from scalewise.training._evidence import (
    LeftOut,
    hypothesis_probabilities,
    leave_one_out,
    log_evidence,
    log_evidence_slope,
)
from scalewise.training._evidence_slopes import EvidenceSlopes, log_evidence_slopes
from scalewise.training._given import predict_linearised
from scalewise.training._kernel_objects import NetworkKernel, kernel_of
from scalewise.training._outcomes import OUTCOMES, Outcome
from scalewise.training._predict import predict_training
from scalewise.training._routes import ExpansionWarning
from scalewise.training._surveys import (
    algorithms_side_by_side,
    evidence_of_networks,
    ntk_motion,
)
from scalewise.training.posterior._renormalised import renormalised_posterior
from scalewise.training.width._meeting import MeetingWidth, width_for_loss

__all__ = [
    "NTKGP",
    "OUTCOMES",
    "Bayes",
    "Design",
    "EvidenceSlopes",
    "ExpansionWarning",
    "GradientDescent",
    "GradientFlow",
    "LastLayer",
    "LeftOut",
    "MeetingWidth",
    "NetworkKernel",
    "Outcome",
    "Projectors",
    "TwoStepNewton",
    "algorithms_side_by_side",
    "design",
    "evidence_of_networks",
    "hypothesis_probabilities",
    "kernel_of",
    "leave_one_out",
    "log_evidence",
    "log_evidence_slope",
    "log_evidence_slopes",
    "log_score",
    "ntk_motion",
    "predict_linearised",
    "predict_training",
    "renormalised_posterior",
    "sample_outputs",
    "width_for_loss",
]
