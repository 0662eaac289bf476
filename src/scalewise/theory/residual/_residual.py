r"""Residual networks: their susceptibilities, kernel and NTK, and the four-point vertex of many inputs.

$$z^{(\ell+1)}=b^{(\ell+1)}+W^{(\ell+1)}\sigma(z^{(\ell)})+\gamma\,z^{(\ell)},\qquad
  K^{(\ell+1)}=C_b+C_W\langle\sigma\sigma\rangle_{K^{(\ell)}}+\gamma^2K^{(\ell)}.$$

A skip connection lets a neuron remember itself: at infinite width its path through the layers is a
Gaussian process with covariance $\gamma^{\ell'-\ell}K^{(\ell)}$ between layers $\ell\le\ell'$. With
$\xi^{(\ell)}[F]$ the fluctuation of the average of $F(z^{(\ell)}_i)$ over $n$ such independent
neurons and $\mathcal J=C_WJ+\gamma^2$, the metric fluctuates by
$$\delta K^{(\ell+1)}=\mathcal J\,\delta K^{(\ell)}+C_W\,\xi^{(\ell)}[\sigma\sigma],\qquad
  \tfrac1nV^{(\ell)}=\mathrm{Cov}[\delta K,\delta K]+\mathrm{Cov}[\delta K,\xi[zz]]
  +\mathrm{Cov}[\xi[zz],\delta K].$$

Its mean is shifted by what the fluctuations do on average, and by what a neuron does to itself: it
widens, through the metric, the law of its own later value. With $\delta K^{(\ell)}=\sum_kg_{\ell k}\,
\xi^{(k)}[\sigma\sigma]$, $A=n\,\mathrm{Cov}[\delta K,\delta K]$, $H$ the second derivative of
$\langle\sigma\sigma\rangle$ and $\partial_\gamma$ that of a feature with respect to the metric,
$$G^{\{1\}(\ell+1)}=\mathcal JG^{\{1\}(\ell)}+C_W\Big[\tfrac12H\!:\!A^{(\ell)}+\sum_{k<\ell}\sum_{\gamma\delta}
  (g_{\ell k})_{\gamma\delta}\,\mathrm{Cov}\big[\partial_\gamma(\sigma_a\sigma_b)(z^{(\ell)}),
  (\sigma\sigma)_\delta(z^{(k)})\big]\Big],\quad g_{\ell+1,\ell}=C_W,\quad g_{\ell+1,k}=\mathcal Jg_{\ell k}.$$

PDLT (B.24) keeps of the memory between layers only the part of $\sigma\sigma$ that is quadratic in $z$:
$n\,\mathrm{Cov}[\xi^{(\ell)},\xi^{(\ell')}]=\sum_pc_p\gamma^{p(\ell'-\ell)}$ with the term $p=2$
alone. That is exact for linear networks and asymptotically so for the class $K^\star=0$, but not for
ReLU, whose term $p=1$ is the largest. Here all terms are kept; ensembles of real networks agree.

Source: PDLT (B.3), (B.11), (B.24); the memory beyond the quadratic part is derived.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from jaxtyping import Float

from scalewise.activations import Activation
from scalewise.critical import susceptibilities
from scalewise.gaussian import SHAKES, clipped, combined, joint_rule, pair_moments, with_shakes
from scalewise.networks import Network
from scalewise.networks._inputs import check_inputs, check_kernels, refuse_zero_inputs
from scalewise.selection import MOST_PATHS
from scalewise.theory.flow._pairs import (
    FIRST,
    Pairs,
    moments_on_pairs,
    pair_sources,
    shaken_expectations,
    values_of,
)

__all__ = [
    "ResidualFlow",
    "memory",
    "metric_jacobian",
    "residual_flow",
    "residual_fluctuations",
    "residual_kernels",
    "residual_susceptibilities",
    "vertices",
]

Array = Float[np.ndarray, "..."]
Moments = dict[tuple[int, int], np.ndarray]


def residual_susceptibilities(
    source: str | Activation | Callable[[Any], Any],
    K: float | Float[np.ndarray, ...],
    C_W: float,
    gamma: float,
) -> tuple[Float[np.ndarray, ...], Float[np.ndarray, ...]]:
    r"""The susceptibilities of a residual network: those of its branch plus $\gamma^2$.

    Args:
        source: Name, callable or `Activation`.
        K: Kernel of one input, preactivation².
        C_W: Rescaled weight variance of the branch.
        gamma: $\gamma$.

    Returns:
        $(\chi_\parallel,\chi_\perp)$, shaped like `K`, dimensionless.

    Raises:
        ValueError: As for `scalewise.critical.susceptibilities`.

    Source: PDLT (B.15), (B.16).

    Example:
        >>> from scalewise.theory.residual import residual_susceptibilities
        >>> print("{:.6f} {:.6f}".format(*residual_susceptibilities("relu", 3.0, 0.5, 0.75**0.5)))
        1.000000 1.000000
    """
    parallel, perp = susceptibilities(source, K, C_W)
    return parallel + gamma**2, perp + gamma**2


@dataclass(frozen=True)
class ResidualFlow:
    r"""Kernel and vertex of a residual network, layer by layer.

    Args:
        K: Kernel, preactivation².
        V: Four-point vertex, preactivation⁴; coefficient of $1/n_{\ell-1}$.
        V_error: Its estimated numerical error.
    """

    K: Float[np.ndarray, "layer sample sample"]
    V: Float[np.ndarray, "layer sample sample sample sample"]
    V_error: Float[np.ndarray, "layer sample sample sample sample"]


def residual_flow(net: Network, x: Any) -> ResidualFlow:
    r"""Kernel and four-point vertex of a residual network on given inputs.

    Args:
        net: The residual network.
        x: Inputs (samples, features).

    Returns:
        The flow. Kernels to 1e-10; $V$, of connected correlators of different neurons, with one
        variable per layer and input: exact quadrature for at most two of them, else shared Sobol
        samples with an error bar.

    Raises:
        ValueError: If the inputs do not fit, the kernel explodes or vanishes, or there are more
            than 48 hidden layers times inputs.

    Source: PDLT (B.7)-(B.11), (B.23); instead of (B.24) with the whole memory, see above.

    Example:
        >>> import scalewise as sw
        >>> from scalewise.networks import ResidualMLP
        >>> from scalewise.theory.residual import residual_flow
        >>> net = ResidualMLP(3, 50, "linear", gamma=[0, 0.8, 0.8], input_dim=1, output_dim=50)
        >>> net = net.at_criticality()
        >>> residual_flow(net, [[1.0]]).V.ravel().round(6)  # nothing but 2 (1 - 0.8^4) per layer
        array([0.    , 1.1808, 2.3616])
    """
    inputs = check_inputs(net, x, skips=True)
    pairs = Pairs.of(len(inputs))
    K, _ = residual_kernels(net, inputs)
    return ResidualFlow(K, *vertices(residual_fluctuations(net, K, pairs), K, pairs))


def vertices(
    runs: list[list[tuple[Array, Array]]], K: Float[np.ndarray, "layer sample sample"], pairs: Pairs
) -> tuple[Array, Array]:
    r"""$V$ on samples and its error, from what `residual_fluctuations` found."""
    V, V_error = np.zeros((2, len(K), *(K.shape[1],) * 4))
    for layer, here in enumerate(runs, 1):
        vertex = with_shakes([vertex for vertex, _ in here])
        V[layer], V_error[layer] = map(pairs.four_legs, vertex)
    return V, V_error


def residual_fluctuations(
    net: Network, K: Float[np.ndarray, "layer sample sample"], pairs: Pairs
) -> list[list[tuple[Array, Array]]]:
    r"""What fluctuates in the layers 2, 3, …: $V$ and $\mathrm{Cov}[\delta K,\delta K]$ on pairs of samples.

    Args:
        net: The residual network.
        K: Its kernel.
        pairs: Of its inputs.

    Returns:
        By layer a list of runs: one with the expectations as they are, by scramble where they are
        sampled, and some with all of them moved by their errors.
    """
    hidden, count = len(K) - 1, K.shape[1]
    if not hidden:
        return []
    if count * hidden > MOST_PATHS:
        raise ValueError(
            f"The vertex of a residual network correlates every layer with every other; {hidden} "
            f"hidden layers of {count} inputs are more than {MOST_PATHS} variables. Use fewer inputs."
        )
    paths = Pairs.of(count * hidden)
    joint = _path_kernel(net, K)
    rule = joint_rule(joint, smooth=net.activation.is_smooth)
    M = moments_on_pairs(net.activation, joint, paths, FIRST)
    covariance, slip = pair_sources(net.activation, joint, paths, rule, values_of(M))
    places = [
        paths.index[layer * count + pairs.first, layer * count + pairs.second]
        for layer in range(hidden)
    ]
    best = combined(covariance)[0]
    runs = [(values_of(M), covariance)]
    runs += [shaken_expectations(M, best, slip, seed) for seed in range(SHAKES)]
    found = [_vertices(net, K, pairs, moments, (source, places)) for moments, source in runs]
    return [list(layer) for layer in zip(*found, strict=True)]


def residual_kernels(
    net: Network, x: Float[np.ndarray, "sample feature"], *, ntk: bool = False
) -> tuple[
    Float[np.ndarray, "layer sample sample"], Float[np.ndarray, "layer sample sample"] | None
]:
    r"""Kernel and NTK of a residual network, layer by layer.

    $$\Theta^{(\ell+1)}=\lambda_b+\lambda_W\langle\sigma\sigma\rangle_{K^{(\ell)}}
    +\big(C_W\langle\sigma'\sigma'\rangle_{K^{(\ell)}}+\gamma^2\big)\Theta^{(\ell)}$$
    What a weight and the skip connection give together is linear in the weight, whose mean is 0.

    Args:
        net: The residual network.
        x: Checked inputs.
        ntk: Whether the NTK is wanted; ``None`` is returned in its place otherwise.

    Raises:
        ValueError: If an input is zero, or the kernel explodes or vanishes.
    """
    refuse_zero_inputs(net, x, "a correlation of its first two layers")
    first, second = np.triu_indices(len(x))
    index = Pairs.of(len(x)).index
    product = x @ x.T / net.input_dim
    K, Theta = net.C_b[0] + net.C_W[0] * product, net.lambda_b[0] + net.lambda_W[0] * product
    kernels, ntks = [K], [Theta]
    orders = [(0, 0), (1, 1)] if ntk else [(0, 0)]
    for layer in range(1, net.depth):
        A, B = np.diagonal(K)[first], np.diagonal(K)[second]
        C = np.where(first == second, A, clipped(A, B, K[first, second]))
        M = {pq: m.value[index] for pq, m in pair_moments(net.activation, A, B, C, orders).items()}
        C_W, skip = net.C_W[layer], net.skips[layer] ** 2
        if ntk:
            Theta = (C_W * M[1, 1] + skip) * Theta
            Theta = net.lambda_b[layer] + net.lambda_W[layer] * M[0, 0] + Theta
            ntks.append(Theta)
        with np.errstate(over="ignore"):
            K = net.C_b[layer] + C_W * M[0, 0] + skip * K
        check_kernels(net, layer + 1, np.diagonal(K))
        kernels.append(K)
    return np.stack(kernels), np.stack(ntks) if ntk else None


def memory(net: Network) -> Float[np.ndarray, "layer later"]:
    r"""The product of the $\gamma$ between two layers; 0 below the diagonal, 1 on it.

    Args:
        net: The residual network.
    """
    L = net.depth
    return np.array(
        [[np.prod(net.skips[k + 1 : m + 1]) if m >= k else 0.0 for m in range(L)] for k in range(L)]
    )


def _path_kernel(net: Network, K: np.ndarray) -> np.ndarray:
    """Covariance of (layer, sample) with (layer, sample), hidden layers only."""
    hidden, count = len(K) - 1, K.shape[1]
    remembered = memory(net)[:hidden, :hidden]
    block = np.zeros((hidden, count, hidden, count))
    for k in range(hidden):
        for m in range(k, hidden):
            block[k, :, m] = block[m, :, k] = remembered[k, m] * K[k]
    return block.reshape(hidden * count, hidden * count)


def _vertices(
    net: Network,
    K: np.ndarray,
    pairs: Pairs,
    M: Moments,
    sources: tuple[Array, list[np.ndarray]],
) -> list[tuple[np.ndarray, np.ndarray]]:
    r"""$V$ and $\mathrm{Cov}[\delta K,\delta K]$ of the layers 2, 3, …, by estimate and pair of pairs."""
    remembered = memory(net)
    covariance, places = sources
    hidden, a, b = len(places), pairs.first, pairs.second
    zero = np.zeros((len(covariance), a.size, a.size))
    metric, own, out = zero, zero, []  # Cov[dK, dK] and Cov[dK, xi[zz]]
    cross = [zero] * hidden  # Cov[dK, xi[ss] of layer k]
    for m in range(hidden):
        C_W, skip, n = net.C_W[m + 1], net.skips[m + 1] ** 2, net.widths[m + 1]
        here = {pq: value[places[m]] for pq, value in M.items()}

        def push(
            delta: np.ndarray, C_W: float = C_W, skip: float = skip, here: Moments = here
        ) -> np.ndarray:
            return C_W * metric_jacobian(here, pairs, delta) + skip * delta

        def noise(k: int, m: int = m, n: int = n) -> np.ndarray | float:
            if not remembered[m, k]:
                return 0.0
            return covariance[:, places[m][:, None], places[k]] / n

        once = push(cross[m])
        metric = push(push(metric).swapaxes(1, 2)) + C_W * (once + once.swapaxes(1, 2))
        metric = metric + C_W**2 * noise(m)
        cross = [push(cross[k]) + C_W * noise(k) if k > m else zero for k in range(hidden)]
        wick = K[m][a][:, a] * K[m][b][:, b] + K[m][a][:, b] * K[m][b][:, a]
        own = skip * (push(own) + C_W * metric_jacobian(here, pairs, wick[None]) / n)
        out.append((n * (metric + own + own.swapaxes(1, 2)), metric))
    return out


def metric_jacobian(M: Moments, pairs: Pairs, delta: np.ndarray) -> np.ndarray:
    r"""$J\delta$ on the first pair index of `delta` (estimate, pair, other)."""
    return (
        0.5 * M[2, 0][:, None] * delta[:, pairs.aa]
        + M[1, 1][:, None] * delta
        + 0.5 * M[0, 2][:, None] * delta[:, pairs.bb]
    )
