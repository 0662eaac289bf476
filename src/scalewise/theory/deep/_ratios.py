r"""Sizes of the effects of finite width: every tensor over its own scale.

$$\frac V{nK^2},\ \frac{G^{\{1\}}}{nK},\ \frac{H^{\{1\}}}{n\Theta},\ \frac D{nK\Theta},\ \frac F{nK\Theta},\ \frac
A{n\Theta^2},\ \frac B{n\Theta^2},\ \frac P{n\Theta^2},\ \frac Q{n\Theta^2},\ \frac{RK}{n\Theta^3},\ \dots$$
At criticality, with the learning rates of the equivalence principle, all of them grow like $\ell/n$ (only $U$
stays behind): the aspect ratio is the parameter of the theory.
"""

from __future__ import annotations

import numpy as np
import xarray as xr
from jaxtyping import Float

from scalewise._arrays import float_array
from scalewise._checked import checked
from scalewise._labelled import dataset
from scalewise.networks.spi import Numbers, Plain
from scalewise.theory.deep._scaling_ansatz import dimensions
from scalewise.theory.single._single_input import single_input_flow


@checked
def finite_width_ratios(net: Plain, x: Numbers) -> xr.Dataset:
    r"""Dimensionless ratios of every tensor of one input, layer by layer.

    Args:
        net: The network; its own widths are the $n$ of the ratios.
        x: Inputs (samples, features), each by itself.

    Returns:
        A Dataset over ``layer`` and ``sample`` with one variable per tensor that exists, named by its
        letter, dimensionless; rtol 1e-9. Layer 1 does not fluctuate and is 0.

    Raises:
        ValueError: If the inputs do not fit the network.

    Source: PDLT (∞.170), (9.23)-(9.25), (11.62), (∞.19)-(∞.22).

    Example:
        >>> import numpy as np, scalewise as sw
        >>> net = sw.MLP(11, 100, "relu", input_dim=2, output_dim=1).at_criticality()
        >>> ratios = sw.theory.deep.finite_width_ratios(net, np.ones((1, 2)))
        >>> round(float(ratios.V.sel(layer=11, sample=0)), 12)  # 5 (l - 1) / n
        0.5
    """
    flow = single_input_flow(net, x)
    below = np.array([np.inf, *net.hidden_widths])[:, None]
    data = {}
    for letter, (p, q) in dimensions().items():
        tensor = getattr(flow, letter, None)
        if tensor is None or (q and flow.Theta is None):
            continue
        scale = flow.K**p * (flow.Theta**q if q and flow.Theta is not None else 1.0)
        attrs = {"units": "dimensionless", "equation": "PDLT (∞.170)", "symbol": letter}
        data[letter] = (("layer", "sample"), tensor / (below * scale), attrs)
    layers = np.arange(1, net.depth + 1)
    samples = np.arange(flow.K.shape[1])
    return dataset(data, {"layer": layers, "sample": samples}, net.attributes())


@checked
def output_scale(kernel: Numbers) -> Float[np.ndarray, " depth"]:
    r"""The factor that keeps outputs of networks of different depth the same size.

    $$z\mapsto z\,L^{p_0/2}\quad\text{or labels}\quad y\mapsto y\,L^{-p_0/2},$$
    here $\sqrt{K^{(1)}/K^{(L)}}$ itself, whose deep form that is.

    Args:
        kernel: $K^{(L)}$ for one input at the depths of interest, positive; preactivation².

    Returns:
        The factors on the outputs, 1 at the first; dimensionless, exact.

    Raises:
        ValueError: If a kernel is not positive and finite.

    Source: PDLT (∞.23)-(∞.26).

    Example:
        >>> import numpy as np
        >>> from scalewise.theory.deep import output_scale
        >>> output_scale(np.array([1.0, 0.25]))
        array([1., 2.])
    """
    K = float_array("`kernel`", kernel)
    if np.any(K <= 0):
        raise ValueError(f"`kernel` must be positive; got {K}.")
    return np.sqrt(K[0] / K)
