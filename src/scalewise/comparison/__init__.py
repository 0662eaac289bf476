"""Theory held against an ensemble: finite-width predictions, z-scores and a verdict."""

from scalewise.comparison._compare import compare
from scalewise.comparison._comparison import Comparison, Entry
from scalewise.comparison._width import at_width

__all__ = ["Comparison", "Entry", "at_width", "compare"]
