"""Many independent cells of work as one labelled Dataset, in one process or on a cluster.

`sweep` evaluates a function on a grid; what is finished is kept in a store and never computed again.
"""

from scalewise.sweeps._sweep import SweepError as SweepError
from scalewise.sweeps._sweep import sweep as sweep
