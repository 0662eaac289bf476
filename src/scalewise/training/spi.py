"""Working names of this room for the other rooms of scalewise; users have no need of them."""

# The protocol of algorithms: everything that a prediction or an ensemble asks of one.
from scalewise.training._algorithm import settled as settled

# Ways to train, as data: each says which kernel it learns with, and what it does to an eigendirection of it.
from scalewise.training._algorithms import BY_WORD as BY_WORD

# The reach of coefficients of 1/n, and warnings where it is less than what is asked of them.
from scalewise.training._expansion import VARIANCES as VARIANCES
from scalewise.training._expansion import warn_of_signs as warn_of_signs
from scalewise.training._expansion import without_warning as without_warning

# Kinks that training moves, and the power of the width that they bring.
from scalewise.training._moved_kinks import HALF as HALF

# The table of what is known of trained networks: names, symbols, dimensions, and when a call can have them.
from scalewise.training._outcomes import LARGE as LARGE

# The NTK of one model within a budget of memory: in blocks of tensors, samples and read-outs.
from scalewise.training._row_blocks import Kept as Kept
from scalewise.training._row_blocks import Ntk as Ntk
from scalewise.training._row_blocks import RowBlock as RowBlock
from scalewise.training._row_blocks import check_room as check_room
from scalewise.training._row_blocks import groups as groups
from scalewise.training._row_blocks import ntk_by_blocks as ntk_by_blocks

# Tensors of the last layer on some samples, made once for all algorithms that are asked about them.
from scalewise.training.width._tensors import shared_tensors as shared_tensors

# What an algorithm weighs the tensors of an output with, in eigendirections of the NTK of the training samples.
from scalewise.training.width._weights import converged as converged
