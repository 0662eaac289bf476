"""Working names of this room for the other rooms of scalewise; users have no need of them."""

# A network with weights as JAX differentiates it: its fields, and its whole NTK.
from scalewise.networks._by_jax import by_all_weights as by_all_weights
from scalewise.networks._by_jax import forward as forward
from scalewise.networks._by_jax import nothing as nothing
from scalewise.networks._by_jax import ntk_of as ntk_of
from scalewise.networks._by_jax import precision as precision
from scalewise.networks._by_jax import traced as traced
from scalewise.networks._by_jax import whole_ntk as whole_ntk
