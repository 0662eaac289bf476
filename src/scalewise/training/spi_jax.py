"""Working names of this room for the other rooms of scalewise; users have no need of them."""

# A function of parameters as JAX differentiates it along paths of these.
from scalewise.training._by_jax import AlongPath as AlongPath
from scalewise.training._by_jax import JaxCurvature as JaxCurvature
