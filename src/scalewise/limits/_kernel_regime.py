r"""The kernel regime: strategies whose features do not move, and the constant kernels that train them.

$$f_{t+1}(\xi)=f_t(\xi)-\frac\eta P\sum_\mu\Theta(\xi,\xi_\mu)\,\chi_{t\mu},\qquad
  \Theta=[U=1]\,\Sigma^{LL}+[A+r=1]\sum_{\ell:\,r_\ell=r}\Sigma^{\ell-1,L}$$
The exponents alone say which layers of weights put their share into the kernel: all of them in the
neural-tangent strategy, all but the first in the standard one at rates $\eta/n$, the last alone in the GP limit.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Any

import numpy as np
from jaxtyping import Float

from scalewise._checked import Count, Index, checked
from scalewise._readable import readable
from scalewise.activations import Activation
from scalewise.gaussian import pair_moments
from scalewise.limits._network import Architecture
from scalewise.scaling import classify, readout_exponents, update_exponents

Square = Float[np.ndarray, "sample sample"]
Inputs = Annotated[Any, Float[np.ndarray, "sample feature"]]


@checked
@dataclass(frozen=True)
@readable
class LayerKernels:
    r"""Kernels of the layers of an infinitely wide network before training.

    Args:
        features: $G^0,\dots,G^L$: $G^0=\xi^\top\xi'$ and $G^\ell=\mathbb E\phi(Z^{h^\ell})\phi(Z^{h^\ell})$,
            ``(layer + 1, sample, sample)``.
        slopes: $D^1,\dots,D^L$: $C_W^{\ell+1}\,\mathbb E\phi'(Z^{h^\ell})\phi'(Z^{h^\ell})$,
            ``(layer, sample, sample)``.
    """

    features: Float[np.ndarray, "_layer sample sample"]
    slopes: Float[np.ndarray, "_hidden sample sample"]

    @checked
    def sigma(self, m: Index, l: Index | None = None) -> Square:  # noqa: E741
        r"""$\Sigma^{ml}=G^m\prod_{j=m+1}^lD^j$: what weights $m+1$ teach layer $l+1$, $l=L$ by default.

        Args:
            m: From 0 to $l$.
            l: From 0 to $L$.

        Raises:
            ValueError: If the two are not layers in this order.
        """
        last = len(self.slopes)
        top = last if l is None else l
        if not m <= top <= last:
            raise ValueError(
                f"`m` and `l` must be layers with 0 <= m <= l <= {last}; got m = {m}, l = {top}."
            )
        return self.features[m] * np.prod(self.slopes[m:top], axis=0)


@checked
def layer_kernels(net: Architecture, inputs: Inputs) -> LayerKernels:
    r"""Kernels of all hidden layers at initialisation.

    $$K^1=C_W^1\xi^\top\xi'+C_b^1,\quad G^\ell=\langle\phi\phi\rangle_{K^\ell},\quad
      D^\ell=C_W^{\ell+1}\langle\phi'\phi'\rangle_{K^\ell},\quad K^{\ell+1}=C_W^{\ell+1}G^\ell+C_b^{\ell+1}$$

    Args:
        net: The network; of its strategy nothing is used.
        inputs: ``(samples, features)``.

    Returns:
        `LayerKernels`; closed forms, Hermite series or quadrature, rtol 1e-10.

    Raises:
        ValueError: If `inputs` are not a finite matrix, an input has no preactivations, or the activation jumps.

    Source: TP4 Definition N.28; variances and biases as in the recursions of the neural tangent kernel.

    Example:
        >>> import numpy as np
        >>> from scalewise.limits import Architecture, layer_kernels
        >>> from scalewise.scaling import ntk
        >>> found = layer_kernels(Architecture(ntk(depth=2), "relu"), np.eye(2))
        >>> round(float(found.sigma(1)[0, 1]), 10)  # 1/2 pi
        0.1591549431
    """
    X = np.asarray(inputs, dtype=np.float64)
    if not X.size:
        raise ValueError(
            f"`inputs` must hold at least one sample of at least one feature; got shape {X.shape}."
        )
    if not net.activation.is_continuous:
        raise ValueError(
            f"The activation {net.activation.name!r} jumps, so gradients do not say how outputs move and no "
            "kernel of gradients is the limit. Take a continuous activation."
        )
    with np.errstate(over="ignore", invalid="ignore"):
        K = net.C_W[0] * (X @ X.T) + net.C_b[0]
    if not np.isfinite(K).all():
        raise ValueError("The squares of `inputs` overflow. Scale the inputs down.")
    if np.any(np.diag(K) == 0):
        raise ValueError(
            f"Input {int(np.argmin(np.diag(K)))} is a vector of zeros and C_b = 0 in the first layer, so it has "
            "no preactivations. Drop it, or give `Architecture` a C_b above 0."
        )
    features, slopes = [X @ X.T], []
    for C_W, C_b in zip(net.C_W[1:], net.C_b[1:], strict=True):
        G, slope = _moments(net.activation, K)
        features.append(G)
        slopes.append(C_W * slope)
        K = C_W * G + C_b
    return LayerKernels(np.array(features), np.array(slopes))


def _moments(sigma: Activation, K: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Products of values and of slopes for all pairs, of which half are computed."""
    i, j = np.triu_indices(len(K))
    found = pair_moments(sigma, K[i, i], K[j, j], K[i, j], ((0, 0), (1, 1)))
    G, slope = np.empty_like(K), np.empty_like(K)
    G[i, j] = G[j, i] = found[0, 0].value
    slope[i, j] = slope[j, i] = found[1, 1].value
    return G, slope


@checked
def initial_kernel(net: Architecture, inputs: Inputs) -> Square:
    r"""Covariance of the initial outputs: $C_W^{L+1}G^L+C_b^{L+1}$ if $A=\frac12$, and 0 else.

    Args:
        net: The network, in any stable strategy.
        inputs: ``(samples, features)``.

    Returns:
        ``(sample, sample)``, output², the same for every output; accuracy of `layer_kernels`.

    Raises:
        ValueError: As for `layer_kernels`.

    Source: TP4 N.4.1, Theorem N.6.

    Example:
        >>> import numpy as np
        >>> from scalewise.limits import Architecture, initial_kernel
        >>> from scalewise.scaling import mup, ntk
        >>> [initial_kernel(Architecture(s, "relu"), np.eye(1)).item() for s in (ntk(depth=2), mup(depth=2))]
        [0.5, 0.0]
    """
    G = layer_kernels(net, inputs).features[-1]
    if readout_exponents(net.strategy)[0] * 2 != 1:
        return np.zeros_like(G)
    return net.C_W[-1] * G + net.C_b[-1]


@checked
def motion_kernel(
    net: Architecture, inputs: Inputs, layer: Count, *, decoupled: bool = False
) -> Square:
    r"""Kernel by which a step on one input moves the preactivations of a hidden layer along their gradient.

    $$n^{r_{\le\ell}}\,\delta h^\ell(\xi)=-\eta\chi\,dh^\ell_0(\xi')\,M^\ell(\xi',\xi)+\dots,\qquad
      M^\ell=\sum_{m\le\ell,\;r_m=r_{\le\ell}}\lambda_W^m\,\Sigma^{m-1,\ell-1}+\text{biases},\qquad
      r_{\le\ell}=\min_{m\le\ell}r_m,$$
    where the dots are Gaussian, independent of the gradient, and make no difference to the outputs.

    Args:
        net: The network, in a strategy with $r>0$.
        inputs: ``(samples, features)``.
        layer: $\ell$, a hidden layer from 1.
        decoupled: Whether gradients are carried back by independent copies: then only a layer's own weights do
            anything that later layers understand.

    Returns:
        ``(sample, sample)``, dimensionless; accuracy of `layer_kernels`.

    Raises:
        ValueError: If there is no such layer or features move. Else as for `layer_kernels`.

    Source: TP4 Lemma N.29; variances, rates, biases and the decoupled form derived.

    Example:
        >>> import numpy as np
        >>> from scalewise.limits import Architecture, motion_kernel
        >>> from scalewise.scaling import ntk
        >>> net = Architecture(ntk(depth=3), "relu")
        >>> [motion_kernel(net, np.eye(1), layer).round(12).item() for layer in (1, 2)]  # 1; 1/2 + 1/2
        [1.0, 1.0]
    """
    _refuse_moving_features(net)
    if layer > net.hidden_layers:
        raise ValueError(
            f"`layer` must be a hidden layer from 1 to {net.hidden_layers}; got {layer!r}."
        )
    return _motion(net, layer_kernels(net, inputs), layer, decoupled)


def _motion(net: Architecture, kernels: LayerKernels, layer: int, decoupled: bool) -> Square:
    strategy = net.strategy
    A, U = readout_exponents(strategy)
    r_l = update_exponents(strategy)
    r = min(r_l[:layer])
    found = np.zeros_like(kernels.features[0])
    for m in range(layer - 1 if decoupled else 0, layer):
        back = np.prod(kernels.slopes[m : layer - 1], axis=0)
        if r_l[m] == r:
            found += net.lambda_W[m] * kernels.features[m] * back
        if min(A, U) + strategy.q_bias[m] - strategy.r == r:
            found += net.lambda_b[m] * back
    return found


@checked
def limit_kernel(net: Architecture, inputs: Inputs, *, decoupled: bool = False) -> Square:
    r"""The kernel whose gradient descent is training at infinite width, for any stable strategy with $r>0$.

    $$\begin{aligned}\Theta&=[U=1]\,\lambda_W^{L+1}\Sigma^{LL}+[A+r=1]\,M^LD^L+[q^b_{L+1}=r']\,\lambda_b^{L+1},\\
      M^LD^L&=\sum_{\ell\le L,\;r_\ell=r}\lambda_W^\ell\,\Sigma^{\ell-1,L}
      +\sum_{\ell\le L,\;r^b_\ell=r}\lambda_b^\ell\prod_{j=\ell}^LD^j,\end{aligned}$$
    where $r_\ell$ are the `update_exponents`, $r^b_\ell$ the same with the exponents of biases, $r'$ the exponent
    of the global rate, and $M^L$ the `motion_kernel` of the last hidden layer.

    Args:
        net: The network.
        inputs: ``(samples, features)``.
        decoupled: Whether gradients are carried back by independent copies of the matrices. Then of all hidden
            layers only the last has a share.

    Returns:
        ``(sample, sample)``, dimensionless; accuracy of `layer_kernels`. All 0 for a trivial strategy.

    Raises:
        ValueError: If features move ($r=0$): no kernel describes that training. Else as for `layer_kernels`.

    Source: TP4 Theorem N.31, N.34, with its flags reduced to exponents; variances, rates, biases and the
        decoupled form derived.

    Example:
        >>> import numpy as np
        >>> from scalewise.limits import Architecture, limit_kernel
        >>> from scalewise.scaling import ntk
        >>> limit_kernel(Architecture(ntk(depth=2), "relu"), np.eye(1)).round(12).item()  # 1/2 + 1/2
        1.0
    """
    _refuse_moving_features(net)
    kernels = layer_kernels(net, inputs)
    strategy = net.strategy
    A, U = readout_exponents(strategy)
    last = net.hidden_layers
    theta = np.zeros_like(kernels.features[0])
    if A + min(update_exponents(strategy)) == 1:
        theta += _motion(net, kernels, last, decoupled) * kernels.slopes[-1]
    if U == 1:
        theta += net.lambda_W[last] * kernels.features[last]
    if strategy.q_bias[last] == strategy.r:
        theta += net.lambda_b[last]
    return theta


def _refuse_moving_features(net: Architecture) -> None:
    found = classify(net.strategy)
    if found.r == 0:
        raise ValueError(
            f"The strategy {net.strategy} is not in the kernel regime: {found.reasons[-1]} No "
            "constant kernel describes its training; use `scalewise.limits.train` with on=Infinite(...)."
        )
