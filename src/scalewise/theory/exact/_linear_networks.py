r"""Deep linear networks, solved exactly: every correlator at every width and depth.

Given $\widehat G^{(\ell)}$ the preactivations of layer $\ell$ are Gaussian, so a product of metrics
over a pairing $\pi$ of $2m$ legs obeys a closed linear recursion,
$$\mathbb E\Big[\prod_{(ab)\in\pi}\widehat G^{(\ell+1)}_{ab}\Big]=C_W^m\sum_{\pi'}
  n_\ell^{\,c(\pi,\pi')-m}\,\mathbb E\Big[\prod_{(ab)\in\pi'}\widehat G^{(\ell)}_{ab}\Big],$$
with $c(\pi,\pi')$ the number of loops that the two pairings form together. A correlator is the sum of
these over the pairings that its neuron indices allow. For one input it collapses to
$\prod_\ell c_{2m}(n_\ell)$. The second half is the exact law of the metric of any scale-invariant
activation for one input, a product of independent means.

Source: PDLT chapter 3; the recursion over pairings for several inputs is derived from (4.71).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Annotated, Any

import numpy as np
from jaxtyping import Float

from scalewise._checked import Count, Index, NotNegative, checked
from scalewise.networks import Network
from scalewise.networks.spi import Numbers, Plain, check_inputs
from scalewise.theory.exact._pairings import even_partitions, pairings, transfer

MAX_LEGS = 8


@checked
def pairing_factor(n: Count, m: Index) -> float:
    r"""The factor of one hidden layer of width $n$ in the $2m$-point correlator, beyond $C_W^m$.

    $$c_{2m}(n)=\Big(1+\frac2n\Big)\Big(1+\frac4n\Big)\cdots\Big(1+\frac{2m-2}n\Big)
      =\mathbb E\big[(\chi^2_n/n)^m\big]$$

    Args:
        n: Width, at least 1.
        m: Half the number of legs, at least 0.

    Returns:
        The factor, dimensionless; exact.

    Raises:
        ValueError: If the width or the order is too small.

    Source: PDLT (3.46).

    Example:
        >>> from scalewise.theory.exact import pairing_factor
        >>> pairing_factor(8, 3)
        1.875
    """
    return math.prod((1 + 2 * k / n for k in range(1, m)), start=1.0)


@checked
def double_scaling_moment(m: Index, r: NotNegative) -> float:
    r"""$G_{2m}^{(L)}/(G_2^{(L)})^m$ for $n,L\to\infty$ at fixed $r=L/n$.

    $$\frac{G^{(L)}_{2m}}{(G^{(L)}_2)^m}\to e^{m(m-1)r}$$
    Use `cumulants` for connected correlators: $e^{2r}-1$, $e^{6r}-3e^{2r}+2$, and so on.

    Args:
        m: Half the number of legs, at least 0.
        r: Aspect ratio $L/n$, at least 0.

    Returns:
        The limit, dimensionless. At finite $n$ it needs $m(m-1)\ll n$.

    Source: PDLT (3.55)-(3.57).

    Example:
        >>> from scalewise.theory.exact import double_scaling_moment
        >>> print(f"{double_scaling_moment(2, 0.5):.6f}")
        2.718282
    """
    return math.exp(m * (m - 1) * r)


@checked
def cumulants(
    moments: Annotated[Any, Float[np.ndarray, " order"]],
) -> Float[np.ndarray, " order"]:
    r"""Cumulants $\kappa_1,\kappa_2,\dots$ of one variable from its moments $\mu_1,\mu_2,\dots$.

    $$\kappa_m=\mu_m-\sum_{k=1}^{m-1}\binom{m-1}{k-1}\kappa_k\,\mu_{m-k}$$
    With $\mu_m=G_{2m}$ these are the connected coefficients $G_4-G_2^2$, $G_6-3G_2G_4+2G_2^3$, ….

    Args:
        moments: $\mu_1,\dots,\mu_m$, in powers of any unit.

    Returns:
        $\kappa_1,\dots,\kappa_m$ in the same units; exact up to cancellation.

    Source: PDLT (3.29), (3.57).

    Example:
        >>> from scalewise.theory.exact import cumulants
        >>> cumulants([1.0, 3.0, 15.0])
        array([1., 2., 8.])
    """
    mu = [1.0, *map(float, moments)]
    kappa = [0.0]
    for m in range(1, len(mu)):
        lower = sum(math.comb(m - 1, k - 1) * kappa[k] * mu[m - k] for k in range(1, m))
        kappa.append(mu[m] - lower)
    return np.array(kappa[1:])


@checked
def linear_correlator(
    net: Plain,
    x: Numbers,
    neurons: Sequence[int],
    samples: Sequence[int],
    *,
    layer: int | None = None,
) -> float:
    r"""The exact correlator $\mathbb E[z_{i_1;\alpha_1}\cdots z_{i_{2m};\alpha_{2m}}]$ of a layer.

    Args:
        net: A network with a linear activation and $C_b=0$; any widths and depth.
        x: Inputs (samples, features).
        neurons: $i_1,i_2,\dots$, from 0; one for every leg, at most eight.
        samples: $\alpha_1,\alpha_2,\dots$, rows of `x`.
        layer: $\ell$; the output if ``None``.

    Returns:
        The correlator, preactivation to the number of legs; exact. Odd ones vanish.

    Raises:
        ValueError: If the network is not linear or has biases, or indices do not fit.

    Source: PDLT (3.15), (3.21)-(3.25), (3.44)-(3.47) for one input.

    Example:
        >>> import scalewise as sw
        >>> from scalewise.theory.exact import linear_correlator
        >>> net = sw.MLP(2, 4, "linear", input_dim=1, output_dim=2)
        >>> linear_correlator(net, [[1.0]], (0, 0, 1, 1), (0, 0, 0, 0))  # 1 + 2/n
        1.5
    """
    inputs, last = check_inputs(net, x), _layer(net, layer)
    legs = _legs(net, inputs, neurons, samples, last)
    return _moment(net, _first_metric(net, inputs), legs, last)


@checked
def connected_linear_correlator(
    net: Plain,
    x: Numbers,
    neurons: Sequence[int],
    samples: Sequence[int],
    *,
    layer: int | None = None,
) -> float:
    r"""The exact connected correlator (joint cumulant) of preactivations of one layer.

    $$\mathbb E[z_1\cdots z_k]\big|_{\rm conn}=\sum_{\text{partitions }P}(-1)^{|P|-1}(|P|-1)!
      \prod_{B\in P}\mathbb E\Big[\prod_{a\in B}z_a\Big]$$

    Args:
        net: A network with a linear activation and $C_b=0$.
        x: Inputs (samples, features).
        neurons: As for `linear_correlator`.
        samples: As for `linear_correlator`.
        layer: $\ell$; the output if ``None``.

    Returns:
        The cumulant, preactivation to the number of legs; exact up to cancellation.

    Raises:
        ValueError: As for `linear_correlator`.

    Source: PDLT (1.54), (3.29), (3.57).
    """
    inputs, last = check_inputs(net, x), _layer(net, layer)
    legs = _legs(net, inputs, neurons, samples, last)
    G = _first_metric(net, inputs)
    total = 0.0
    for partition in even_partitions(tuple(range(len(legs)))):
        blocks = math.prod(_moment(net, G, tuple(legs[a] for a in b), last) for b in partition)
        total += (-1) ** (len(partition) - 1) * math.factorial(len(partition) - 1) * blocks
    return total


@checked
def linear_vertex(net: Plain, x: Numbers) -> Float[np.ndarray, "layer sample sample sample sample"]:
    r"""The covariance of the metric of a linear network, exact at finite width, every layer.

    $$\mathbb E[\widehat{\Delta G}_{12}\widehat{\Delta G}_{34}]=\frac1{n_{\ell-1}}V^{(\ell)}_{(12)(34)}
      =\sum_{\ell'<\ell}\frac1{n_{\ell'}}\big(K_{13}K_{24}+K_{14}K_{23}\big)+O(1/n^2)$$

    Args:
        net: A network with a linear activation and $C_b=0$.
        x: Inputs (samples, features).

    Returns:
        The covariance itself, preactivation⁴: with its $1/n$, to all orders; exact.

    Raises:
        ValueError: If the network is not linear or has biases.

    Source: PDLT (3.28), (4.76); several inputs derived.
    """
    G = _first_metric(net, check_inputs(net, x))
    count = len(G)
    a, b, c, d = np.indices((count,) * 4).reshape(4, -1)
    state = np.stack([G[a, b] * G[c, d], G[a, c] * G[b, d], G[a, d] * G[b, c]])
    out = [np.zeros((count,) * 4)]
    for layer in range(1, net.depth):
        state = _slope(net) ** 2 * net.C_W[layer] ** 2 * (transfer(net.widths[layer], 2) @ state)
        G = _slope(net) * net.C_W[layer] * G
        out.append((state[0] - G[a, b] * G[c, d]).reshape((count,) * 4))
    return np.stack(out)


@checked
def observable_covariance(
    net: Plain, x: Numbers, *, layer: int | None = None
) -> Float[np.ndarray, "sample sample sample sample"]:
    r"""Covariance of the fluctuating observables $\mathcal O_{12}=\frac1{n_\ell}\sum_jz_{j;1}z_{j;2}$.

    $$\mathrm{Var}\,\mathcal O=\Big[\prod_{\ell'\le\ell}\Big(1+\frac2{n_{\ell'}}\Big)-1\Big]G_2^2$$
    for one input. It holds the neurons' own fluctuation on top of that of the metric.

    Args:
        net: A network with a linear activation and $C_b=0$.
        x: Inputs (samples, features).
        layer: $\ell$; the output if ``None``.

    Returns:
        $\mathrm{Cov}[\mathcal O_{12},\mathcal O_{34}]$, preactivation⁴; exact.

    Raises:
        ValueError: If the network is not linear or has biases, or the layer does not exist.

    Source: PDLT (3.31)-(3.33); printed there to first order in $1/n$.
    """
    G = _first_metric(net, check_inputs(net, x))
    last, count = _layer(net, layer), len(G)
    a, b, c, d = np.indices((count,) * 4).reshape(4, -1)
    state = np.stack([G[a, b] * G[c, d], G[a, c] * G[b, d], G[a, d] * G[b, c]])
    scale = 1.0
    for below in range(1, last):
        scale *= _slope(net) * net.C_W[below]
        state = transfer(net.widths[below], 2) @ state
    fluctuating = (transfer(net.widths[last], 2) @ state)[0]
    return scale**2 * (fluctuating - G[a, b] * G[c, d]).reshape((count,) * 4)


@checked
def metric_moments(net: Plain, x: Numbers, *, order: int = 4) -> Float[np.ndarray, "layer order"]:
    r"""Moments of the metric of one input, for any scale-invariant activation, at finite width.

    $$\widehat G^{(\ell+1)}=\widehat G^{(\ell)}\,\frac{C_W}{n_\ell}\sum_{j=1}^{n_\ell}\sigma(u_j)^2,
      \qquad u_j\sim N(0,1)\text{ fresh in every layer},$$
    so $\mathbb E[\widehat G^m]$ is a product over layers of moments of a mean, made here from the
    cumulants of $\sigma(u)^2$, whose moments are $(2k-1)!!\,(a_+^{2k}+a_-^{2k})/2$.

    Args:
        net: A network with a scale-invariant activation and $C_b=0$ behind the first layer.
        x: One input (1, features).
        order: The highest moment, at least 1.

    Returns:
        $\mathbb E[(\widehat G^{(\ell)})^m]$ for $m=1,\dots$, preactivation$^{2m}$; exact.

    Raises:
        ValueError: If the activation is not scale-invariant, there are biases behind the first
            layer, there is not one input, or `order` is below 1.

    Source: PDLT (4.69)-(4.70), (5.120); the law is derived, its first term is (5.120).

    Example:
        >>> import scalewise as sw
        >>> from scalewise.theory.exact import metric_moments
        >>> net = sw.MLP(2, 10, "relu", input_dim=1, output_dim=1, C_W=[1, 2])
        >>> metric_moments(net, [[1.0]], order=3)[1]  # 1, 1 + 5/n, (n+4)(n+11)/n^2
        array([1.  , 1.5 , 2.94])
    """
    inputs = check_inputs(net, x)
    slopes = net.activation.slopes
    if slopes is None or any(net.C_b[1:]):
        raise ValueError(
            "The exact law of the metric is known for a scale-invariant activation with C_b = 0 "
            f"behind the first layer; got {net.activation.name!r} with C_b = {net.C_b}. Use "
            "scalewise.predict for the 1/n expansion."
        )
    if len(inputs) != 1 or order < 1:
        raise ValueError(
            "`x` must hold one input and `order` be at least 1; "
            f"got {len(inputs)} inputs and order = {order}."
        )
    powers = np.arange(1, order + 1)
    mean = net.C_b[0] + net.C_W[0] * np.mean(inputs**2)
    out = [mean**powers]
    odd = np.cumprod(2.0 * powers - 1)
    single = odd * 0.5 * (slopes[0] ** (2 * powers) + slopes[1] ** (2.0 * powers))
    for layer in range(1, net.depth):
        n = net.widths[layer]
        of_mean = _moments_of(cumulants(single) * float(n) ** (1 - powers))
        out.append(out[-1] * of_mean * net.C_W[layer] ** powers)
    return np.stack(out)


def _moments_of(kappa: np.ndarray) -> np.ndarray:
    """The inverse of `cumulants`."""
    mu = [1.0]
    for m in range(1, len(kappa) + 1):
        terms = (math.comb(m - 1, k - 1) * kappa[k - 1] * mu[m - k] for k in range(1, m + 1))
        mu.append(sum(terms))
    return np.array(mu[1:])


def _slope(net: Network) -> float:
    """The square of the activation's slope."""
    minus, plus = net.activation.slopes or (0.0, 1.0)
    if minus != plus or any(net.C_b):
        raise ValueError(
            "Correlators are exact for a linear activation with C_b = 0; got "
            f"{net.activation.name!r} with C_b = {net.C_b}. Use scalewise.predict for the others."
        )
    return plus * plus


def _first_metric(net: Network, x: np.ndarray) -> np.ndarray:
    _slope(net)
    return net.C_W[0] / net.input_dim * (x @ x.T)


def _layer(net: Network, layer: int | None) -> int:
    last = net.depth if layer is None else layer
    if not 1 <= last <= net.depth:
        raise ValueError(f"`layer` must be from 1 to the depth {net.depth}; got {layer}.")
    return last


def _legs(
    net: Network, x: np.ndarray, neurons: Sequence[int], samples: Sequence[int], layer: int
) -> tuple[tuple[int, int], ...]:
    legs = tuple(zip(neurons, samples, strict=False))
    if len(neurons) != len(samples) or len(legs) > MAX_LEGS:
        raise ValueError(
            f"`neurons` and `samples` must have one entry for each of at most {MAX_LEGS} legs; "
            f"got {len(neurons)} and {len(samples)}."
        )
    width = net.widths[layer]
    for i, a in legs:
        if not (0 <= i < width and 0 <= a < len(x)):
            raise ValueError(
                f"Layer {layer} has neurons 0 to {width - 1} and `x` has samples 0 to {len(x) - 1}; "
                f"got neuron {i} of sample {a}."
            )
    return legs


def _moment(net: Network, G: np.ndarray, legs: tuple[tuple[int, int], ...], layer: int) -> float:
    if len(legs) % 2:
        return 0.0
    m = len(legs) // 2
    ways = pairings(2 * m)
    state = np.array([math.prod(G[legs[a][1], legs[b][1]] for a, b in p) for p in ways])
    for below in range(1, layer):
        factor = (_slope(net) * net.C_W[below]) ** m
        state = factor * (transfer(net.widths[below], m) @ state)
    allowed = [all(legs[a][0] == legs[b][0] for a, b in p) for p in ways]
    return float(np.sum(state[allowed]))
