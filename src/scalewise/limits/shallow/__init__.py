r"""One hidden layer at infinite width: every limit in the band of dynamical stability, and IC-MF.

A binary classifier $f_d(x)=\sigma\sum_{r=1}^d\hat a_r\phi(\hat w_r\cdot x)$ of width $d$ is scaled from a
reference of width $d^*$ by $\sigma\propto d^{q_\sigma}$ and rates $\propto d^{\tilde q}$. `train` trains it at any
width, and what is left of it at $d=\infty$; the exponents themselves are the business of
`scalewise.scaling.shallow`.
"""

from scalewise.limits.shallow._divergences import (
    beta_divergence,
    beta_fit,
    dirichlet_divergence,
    dirichlet_fit,
    divergence_floor,
    gaussian_divergence,
    logit_divergence,
    probability_divergence,
)
from scalewise.limits.shallow._errors import error_probability, termination
from scalewise.limits.shallow._kernels import draw_start, limit_kernels
from scalewise.limits.shallow._network import (
    KernelIncrements,
    Sample,
    ShallowNetwork,
    draw_network,
    kernel_increments,
    output,
    output_change,
    step,
    tangent_kernels,
)
from scalewise.limits.shallow._reference import Reference
from scalewise.limits.shallow._scaling import (
    SCALINGS,
    LimitDynamics,
    ShallowScaling,
    limit_dynamics,
    scaling,
)
from scalewise.limits.shallow._task import independent_batches
from scalewise.limits.shallow._train import train

__all__ = [
    "SCALINGS",
    "KernelIncrements",
    "LimitDynamics",
    "Reference",
    "Sample",
    "ShallowNetwork",
    "ShallowScaling",
    "beta_divergence",
    "beta_fit",
    "dirichlet_divergence",
    "dirichlet_fit",
    "divergence_floor",
    "draw_network",
    "draw_start",
    "error_probability",
    "gaussian_divergence",
    "independent_batches",
    "kernel_increments",
    "limit_dynamics",
    "limit_kernels",
    "logit_divergence",
    "output",
    "output_change",
    "probability_divergence",
    "scaling",
    "step",
    "tangent_kernels",
    "termination",
    "train",
]
