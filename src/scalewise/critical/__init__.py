r"""Critical initialisation of an activation: which $C_b,C_W$ neither amplify nor damp signals.

The method is chosen from what is known of the function, never from its name: scale invariance gives
a line of fixed points; the expansion at 0 decides about $K^\star\to0$; roots of one function of $K$
give every $K^\star>0$. The universality class, its coefficients and exponents follow from the same
numbers.
"""

from scalewise.critical._equivalence import equivalent_rates as equivalent_rates
from scalewise.critical._equivalence import rates_along as rates_along
from scalewise.critical._loci import parallel_locus as parallel_locus
from scalewise.critical._loci import perpendicular_locus as perpendicular_locus
from scalewise.critical._loci import susceptibility_ratio as susceptibility_ratio
from scalewise.critical._moments import susceptibilities as susceptibilities
from scalewise.critical._record import Criticality as Criticality
from scalewise.critical._record import CriticalPoint as CriticalPoint
from scalewise.critical._record import FixedPoint as FixedPoint
from scalewise.critical._search import criticality as criticality
from scalewise.critical._universality import slope_coefficients as slope_coefficients
from scalewise.critical._universality import taylor_coefficients as taylor_coefficients
