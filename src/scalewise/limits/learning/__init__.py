"""What is learned: one step as a function of its rate, what pretraining leaves, and readouts for given outputs."""

from scalewise.limits.learning._conditioned import conditioned_readout
from scalewise.limits.learning._derivatives import (
    LearningDerivatives,
    OneStep,
    derivatives,
    one_step,
    sigma_gelu,
)
from scalewise.limits.learning._transfer import transfer_gap

__all__ = [
    "LearningDerivatives",
    "OneStep",
    "conditioned_readout",
    "derivatives",
    "one_step",
    "sigma_gelu",
    "transfer_gap",
]
