"""Working names of this room for the other rooms of scalewise; users have no need of them."""

# Losses of one sample, and their slopes.
from scalewise.tasks._losses import LOSSES as LOSSES
from scalewise.tasks._losses import known_loss as known_loss
