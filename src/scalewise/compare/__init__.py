"""Theory held against an ensemble: finite-width predictions, z-scores and a verdict."""

from scalewise.compare._compare import compare
from scalewise.compare._comparison import Comparison, Entry
from scalewise.compare._width import at_width

__all__ = ["Comparison", "Entry", "at_width", "compare"]
