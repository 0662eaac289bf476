"""Theory held against an ensemble: finite-width predictions, z-scores and a verdict."""

from scalewise.comparison._compare import compare as compare
from scalewise.comparison._comparison import Comparison as Comparison
from scalewise.comparison._comparison import Entry as Entry
from scalewise.comparison._width import at_width as at_width
