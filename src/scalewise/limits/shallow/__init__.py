r"""One hidden layer at infinite width: every limit in the band of dynamical stability, and IC-MF.

A binary classifier $f_d(x)=\sigma\sum_{r=1}^d\hat a_r\phi(\hat w_r\cdot x)$ of width $d$ is scaled from a
reference of width $d^*$ by $\sigma\propto d^{q_\sigma}$ and rates $\propto d^{\tilde q}$. `train_shallow` trains it
at any width, and what is left of it at $d=\infty$; the exponents themselves are the business of
`scalewise.scaling.shallow`.
"""

from scalewise.limits.shallow._divergences import beta_divergence as beta_divergence
from scalewise.limits.shallow._divergences import beta_fit as beta_fit
from scalewise.limits.shallow._divergences import dirichlet_divergence as dirichlet_divergence
from scalewise.limits.shallow._divergences import dirichlet_fit as dirichlet_fit
from scalewise.limits.shallow._divergences import divergence_floor as divergence_floor
from scalewise.limits.shallow._divergences import gaussian_divergence as gaussian_divergence
from scalewise.limits.shallow._divergences import logit_divergence as logit_divergence
from scalewise.limits.shallow._divergences import probability_divergence as probability_divergence
from scalewise.limits.shallow._errors import error_probability as error_probability
from scalewise.limits.shallow._errors import termination as termination
from scalewise.limits.shallow._kernels import draw_start as draw_start
from scalewise.limits.shallow._kernels import limit_kernels as limit_kernels
from scalewise.limits.shallow._network import Sample as Sample
from scalewise.limits.shallow._network import ShallowNetwork as ShallowNetwork
from scalewise.limits.shallow._network import draw_network as draw_network
from scalewise.limits.shallow._network import kernel_increments as kernel_increments
from scalewise.limits.shallow._network import output as output
from scalewise.limits.shallow._network import output_change as output_change
from scalewise.limits.shallow._network import step as step
from scalewise.limits.shallow._network import tangent_kernels as tangent_kernels
from scalewise.limits.shallow._reference import Reference as Reference
from scalewise.limits.shallow._scaling import SCALINGS as SCALINGS
from scalewise.limits.shallow._scaling import LimitDynamics as LimitDynamics
from scalewise.limits.shallow._scaling import ShallowScaling as ShallowScaling
from scalewise.limits.shallow._scaling import limit_dynamics as limit_dynamics
from scalewise.limits.shallow._scaling import scaling as scaling
from scalewise.limits.shallow._task import independent_batches as independent_batches
from scalewise.limits.shallow._train import train_shallow as train_shallow
