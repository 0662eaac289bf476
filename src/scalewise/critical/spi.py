"""Working names of this room for the other rooms of scalewise; users have no need of them."""

# Susceptibilities and the expectations they are made of, the limit of small kernels included.
from scalewise.critical._moments import jet as jet

# Records of the critical initialisation of an activation, and how they read.
from scalewise.critical._record import WithFrozenTables as WithFrozenTables
