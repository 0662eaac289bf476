"""Working names of this room for the other rooms of scalewise; users have no need of them."""

# Exponents as exact fractions, and what is asked of them before anything is made of them.
from scalewise.scaling._exact import EXPONENT as EXPONENT
from scalewise.scaling._exact import Exponent as Exponent

# The strategies that have a name, each for a network of given depth.
from scalewise.scaling._strategies import strategy_of as strategy_of
