r"""Slopes of the evidence by the hyperparameters of every layer, exact, carried down from the last.

With $S=(\tilde K+\sigma_\varepsilon^2)^{-1}$ the log evidence moves by $\sum_{ab}g_{ab}\,dK^{(L)}_{ab}$,
$g=\frac12\sum_iSy_iy_i^TS-\frac{n_L}2S$. As $K^{(\ell+1)}_{ab}=C_b+C_W\langle\sigma_a\sigma_b\rangle$ moves with
$K_{aa},K_{ab},K_{bb}$ of the layer below by Price's theorem,

$$\frac{\partial}{\partial C_b^{(\ell+1)}}=\sum_{ab}g_{ab},\qquad
  \frac{\partial}{\partial C_W^{(\ell+1)}}=\sum_{ab}g_{ab}\langle\sigma_a\sigma_b\rangle,\qquad
  g_{ab}\leftarrow C_W\langle\sigma'_a\sigma'_b\rangle g_{ab}
    +\delta_{ab}\,C_W\sum_c\langle\sigma''_a\sigma_c\rangle g_{ac},$$

one pass for all layers together. The prior does not know the learning rates, which have no part in it.
"""

from __future__ import annotations

import numpy as np
import xarray as xr

from scalewise._checked import NotNegative, checked
from scalewise._labelled import dataset
from scalewise.networks.spi import Plain
from scalewise.tasks import Task
from scalewise.training._algorithms import Bayes
from scalewise.training._asked import Asked
from scalewise.training._evidence import evidence_of
from scalewise.training._posteriors import REMEDY
from scalewise.training._spectrum import refuse_singular, spectrum
from scalewise.training._task import check_task
from scalewise.training.posterior._point import kernels_of
from scalewise.training.posterior._responses import first_moments


@checked
def log_evidence_slopes(net: Plain, task: Task, *, noise_variance: NotNegative = 0.0) -> xr.Dataset:
    r"""The gradient of the log evidence at infinite width by all hyperparameters of the prior.

    Args:
        net: The network.
        task: Its training samples.
        noise_variance: $\sigma_\varepsilon^2$ of every target, a variance.

    Returns:
        ``log_evidence``, in nats, and its derivatives by ``noise_variance`` and by ``C_b`` and ``C_W`` of every
        layer, from the first; exact to what the condition makes of the kernels' error. Moments of all pairs of
        samples are taken once for each hidden layer: for smooth activations without closed forms a second for 400
        samples.

    Raises:
        ValueError: If the task does not fit, the activation jumps, or the kernel is singular and there is no
            noise.

    Source: PDLT (6.34), its derivative; (4.115) through (4.118).

    Example:
        >>> import numpy as np, scalewise as sw
        >>> from scalewise.training import log_evidence_slopes
        >>> net = sw.MLP(2, 10, "linear", input_dim=1, output_dim=1, C_W=2.0)
        >>> log_evidence_slopes(net, sw.Task([[1.0]], [2.0])).C_W.values
        array([0., 0.])
    """
    asked = Asked(net, task, Bayes(noise_variance), at="train")
    check_task(asked)
    sigma, y = net.activation, task.targets
    if not sigma.is_continuous:
        raise ValueError(
            f"The activation {sigma.name!r} jumps, so its kernel has no derivative. Take one without jumps."
        )
    K = kernels_of(asked)
    found = spectrum(K[-1], "kernel of the training samples")
    if found.rank < len(y) and not noise_variance:
        refuse_singular(K[-1], y, found.rank, REMEDY)
    s = 1 / (found.h + noise_variance)
    u = (found.U * s) @ (found.U.T @ y)
    g = 0.5 * (u @ u.T - y.shape[1] * (found.U * s) @ found.U.T)
    by_noise, by_bias, by_weight = float(np.trace(g)), [], []
    for layer in range(net.depth - 1, 0, -1):
        M = first_moments(sigma, K[layer - 1])
        by_bias.append(g.sum())
        by_weight.append((g * M[0, 0]).sum())
        own = (M[2, 0] * g).sum(axis=1)
        g = net.C_W[layer] * (M[1, 1] * g + np.diag(own))
    by_bias.append(g.sum())
    by_weight.append((g * (task.inputs @ task.inputs.T)).sum() / net.input_dim)
    slopes = {"C_b": by_bias[::-1], "C_W": by_weight[::-1]}
    whole = {"log_evidence": evidence_of(found, y, noise_variance), "noise_variance": by_noise}
    return dataset(whole | {name: ("layer", by_layer) for name, by_layer in slopes.items()})
