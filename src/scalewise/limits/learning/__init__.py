"""What is learned: one step as a function of its rate, what pretraining leaves, and readouts for given outputs."""

from scalewise.limits.learning._conditioned import conditioned_readout as conditioned_readout
from scalewise.limits.learning._derivatives import derivatives as derivatives
from scalewise.limits.learning._derivatives import one_step as one_step
from scalewise.limits.learning._derivatives import sigma_gelu as sigma_gelu
from scalewise.limits.learning._transfer import transfer_gap as transfer_gap
