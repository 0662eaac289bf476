"""Order 1/n: what networks of finite width have beyond kernel and NTK, and how much they differ from one another.

Whole arrays from one rule where preactivations are Gaussian at infinite width; of networks of any layers from how
they respond to single units, with JAX.
"""

from scalewise.theory.order._tensor_flow import tensor_flow as tensor_flow
