"""Working names of this room for the other rooms of scalewise; users have no need of them."""

# How sure an ensemble can be of the standard error that it finds in itself, and what it can decide.
from scalewise.comparison._certainty import limit_among as limit_among

# Theory held against an ensemble of real networks, in standard errors.
from scalewise.comparison._compare import Measurement as Measurement

# What the theory says of networks of a finite width, and of ensembles extrapolated in the width.
from scalewise.comparison._width import Prediction as Prediction
