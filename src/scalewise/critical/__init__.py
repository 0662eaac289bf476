r"""Critical initialisation of an activation: which $C_b,C_W$ neither amplify nor damp signals.

The method is chosen from what is known of the function, never from its name: scale invariance gives
a line of fixed points; the expansion at 0 decides about $K^\star\to0$; roots of one function of $K$
give every $K^\star>0$. The universality class, its coefficients and exponents follow from the same
numbers.
"""

from scalewise.critical._equivalence import equivalent_rates, rates_along
from scalewise.critical._loci import parallel_locus, perpendicular_locus, susceptibility_ratio
from scalewise.critical._moments import susceptibilities
from scalewise.critical._record import Criticality, CriticalPoint, FixedPoint
from scalewise.critical._search import criticality
from scalewise.critical._universality import slope_coefficients, taylor_coefficients

__all__ = [
    "CriticalPoint",
    "Criticality",
    "FixedPoint",
    "criticality",
    "equivalent_rates",
    "parallel_locus",
    "perpendicular_locus",
    "rates_along",
    "slope_coefficients",
    "susceptibilities",
    "susceptibility_ratio",
    "taylor_coefficients",
]
