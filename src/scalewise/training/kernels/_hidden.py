"""The move of the last hidden layer by the first step of gradient descent, at order 1/n."""

from __future__ import annotations

import numpy as np
import xarray as xr

from scalewise._checked import checked
from scalewise._labelled import dataset
from scalewise.gaussian import pair_moment, single_moment
from scalewise.networks.spi import AnyPerceptron
from scalewise.tasks import Task
from scalewise.training._sample_kernels import between


@checked
def hidden_update(net: AnyPerceptron, task: Task) -> xr.Dataset:
    r"""The mean and the second moment of the first step, by the sum of half squares.

    $$\begin{aligned}
      \mathbb E[dz_{j;\delta}]&=-\eta\frac{n_LC_W}{n_{L-1}}\sum\Theta^{(L-1)}_{\delta\tilde\alpha}
      \langle\sigma_{\tilde\alpha}\sigma'_{\tilde\alpha}\rangle,\\
      \mathbb E[dz_{j;\delta_1}dz_{j;\delta_2}]&=\eta^2\frac{C_W}{n_{L-1}}\sum\Theta_{\delta_1\tilde\alpha_1}
      \Theta_{\delta_2\tilde\alpha_2}\langle\sigma'_{\tilde\alpha_1}\sigma'_{\tilde\alpha_2}\rangle
      \Big[n_LK^{(L)}_{\tilde\alpha_1\tilde\alpha_2}+\sum_iy_{i;\tilde\alpha_1}y_{i;\tilde\alpha_2}\Big].
    \end{aligned}$$

    Args:
        net: The network, of at least two layers.
        task: Training samples with targets, and test samples.

    Returns:
        Coefficients of $1/n_{L-1}$ for a neuron of the last hidden layer, training samples first: ``hidden_mean``,
        $n\,\mathbb E[dz^{(L-1)}_{j;\delta}]/\eta$, which is 0 at this order for odd activations, and
        ``second_moment``, $n\,\mathbb E[dz_{j;\delta_1}dz_{j;\delta_2}]/\eta^2$, of order $1/n^2$ between neurons.

    Raises:
        ValueError: If there is no hidden layer, or inputs do not fit.

    Source: PDLT (10.7)-(10.12), where the mean of the squared error is derived.
    """
    if net.depth < 2:
        raise ValueError("`net` must have a hidden layer; got depth 1.")
    L, n, y = net.depth, len(task.inputs), task.targets
    both, Thetas = between(net, task.all_inputs, task.inputs, layers=[L - 1, L])
    (K, last), Theta = both[:, :n], Thetas[0]
    d = np.diag(K)
    slope = single_moment(net.activation, d, (0, 1)).value
    slopes = pair_moment(net.activation, d[:, None], d, K, (1,), (1,)).value
    outputs, C_W = y.shape[1], net.C_W[-1]
    errors = outputs * last + y @ y.T
    mean = -outputs * C_W * Theta @ slope
    second = C_W * Theta @ (slopes * errors) @ Theta.T
    moments = {"hidden_mean": ("sample", mean), "second_moment": (("sample", "sample_1"), second)}
    return dataset(moments)
