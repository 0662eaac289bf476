"""Working names of this room for the other rooms of scalewise; users have no need of them."""

# An activation function with all that the theory needs of it: derivatives, kinks, units.
from scalewise.activations._activation import Order as Order

# The built-in activations, and the verb that turns a name or a callable into an `Activation`.
from scalewise.activations._catalogue import ActivationLike as ActivationLike
