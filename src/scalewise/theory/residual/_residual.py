r"""Residual networks: the noun, their susceptibilities, and the four-point vertex of many inputs.

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

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from jaxtyping import Float

from scalewise._arrays import float_array
from scalewise.activations import Activation
from scalewise.critical import susceptibilities
from scalewise.gaussian import SHAKES, combined, joint_rule, with_shakes
from scalewise.network import MLP, check_inputs, refuse_zero_inputs
from scalewise.theory.flow._pairs import (
    Pairs,
    pair_derivatives,
    pair_sources,
    shaken_expectations,
    values_of,
)

__all__ = ["ResidualFlow", "ResidualMLP", "residual_flow", "residual_susceptibilities"]

_MOST_PATHS = 48  # layers times inputs: the covariances of their pairs fill a gigabyte beyond it
Array = Float[np.ndarray, "..."]
Moments = dict[tuple[int, int], np.ndarray]


@dataclass(frozen=True, init=False)
class ResidualMLP:
    r"""A multilayer perceptron with skip connections: every layer adds $\gamma_\ell$ times its input.

    $$z^{(\ell)}=b^{(\ell)}+W^{(\ell)}\sigma(z^{(\ell-1)})+\gamma_\ell z^{(\ell-1)}$$
    It wraps the network of its branches, so that shapes and hyperparameters have one place; the
    factor $\xi$ of PDLT (B.3) is absorbed in $C_b$ and $C_W$.

    Args:
        branch: The network without skip connections.
        gamma: $\gamma$ of every layer from the second to the last hidden one, which have the same
            width on both sides; or $\gamma_1,\dots,\gamma_L$ with $\gamma_1=0$, if the trunk is to
            reach the output or $\gamma$ to vary.

    Raises:
        ValueError: If a $\gamma$ is negative or not finite, their number is wrong, the first is not
            0, or a layer with a skip is not as wide as the one below it.

    Source: PDLT (B.3)-(B.6), (B.9).

    Example:
        >>> import scalewise as sw
        >>> from scalewise.theory.residual import ResidualMLP
        >>> net = ResidualMLP(sw.MLP(4, 64, "relu", input_dim=3, output_dim=1), 0.8)
        >>> net.gamma
        (0.0, 0.8, 0.8, 0.0)
    """

    branch: MLP
    gamma: tuple[float, ...]

    def __init__(self, branch: MLP, gamma: float | int | Sequence[float | int]) -> None:
        L = branch.depth
        given = float_array("`gamma`", gamma)
        one = given.ndim == 0
        given = np.atleast_1d(given)
        gammas = tuple(given.tolist())
        if one:
            gammas = tuple(gammas[0] if 1 < layer < L else 0.0 for layer in range(1, L + 1))
        if not (np.all(np.isfinite(given)) and np.all(given >= 0)):
            raise ValueError(f"`gamma` must be finite and at least 0; got {gamma}.")
        if len(gammas) != L or gammas[0]:
            raise ValueError(
                f"`gamma` needs one number for each of the {L} layers, 0 for the first, which has "
                f"nothing to skip; got {gamma}. One number stands for the hidden layers."
            )
        for layer in range(2, L + 1):
            wide, below = branch.widths[layer], branch.widths[layer - 1]
            if gammas[layer - 1] and wide != below:
                raise ValueError(
                    f"A layer with a skip connection must be as wide as the one below; layer {layer} "
                    f"has width {wide} over {below}. Use equal widths, or gamma = 0 there."
                )
        object.__setattr__(self, "branch", branch)
        object.__setattr__(self, "gamma", gammas)

    def at_criticality(self) -> ResidualMLP:
        r"""The same network at $C_b=(1-\gamma^2)C_b^{\rm crit}$, $C_W=(1-\gamma^2)C_W^{\rm crit}$.

        Raises:
            ValueError: If the activation has no critical point, or a $\gamma$ is 1 or greater.

        Source: PDLT (B.19)-(B.21). At $\gamma=1$ only $C_W=0$ would be critical; half-stable points
        keep their $K^\star$.
        """
        if max(self.gamma) >= 1:
            raise ValueError(
                f"Criticality needs gamma < 1, since C_W is proportional to 1 - gamma^2; got "
                f"{max(self.gamma)}. Take a smaller gamma; gamma_star of the aspect ratio gives one."
            )
        point = self.branch.at_criticality()
        left = [1 - g * g for g in self.gamma]
        C_b = [c * f for c, f in zip(point.C_b, left, strict=True)]
        C_W = [c * f for c, f in zip(point.C_W, left, strict=True)]
        return ResidualMLP(replace(point, C_b=C_b, C_W=C_W), self.gamma)


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


def residual_flow(net: ResidualMLP, x: Any) -> ResidualFlow:
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
        >>> from scalewise.theory.residual import ResidualMLP, residual_flow
        >>> mlp = sw.MLP(3, 50, "linear", input_dim=1, output_dim=50)
        >>> net = ResidualMLP(mlp, [0, 0.8, 0.8]).at_criticality()
        >>> residual_flow(net, [[1.0]]).V.ravel().round(6)  # nothing but 2 (1 - 0.8^4) per layer
        array([0.    , 1.1808, 2.3616])
    """
    mlp = net.branch
    inputs = check_inputs(mlp, x)
    count, hidden = len(inputs), mlp.depth - 1
    if count * hidden > _MOST_PATHS:
        raise ValueError(
            f"The vertex of a residual network correlates every layer with every other; {hidden} "
            f"hidden layers of {count} inputs are more than {_MOST_PATHS} variables. Use fewer "
            "inputs, or residual_single_input."
        )
    pairs = Pairs.of(count)
    K = residual_kernels(net, inputs, pairs)
    V, V_error = np.zeros((2, len(K), *(count,) * 4))
    for layer, runs in enumerate(residual_fluctuations(net, K, pairs), 1):
        vertex = with_shakes([vertex for vertex, _ in runs])
        V[layer], V_error[layer] = map(pairs.four_legs, vertex)
    return ResidualFlow(K, V, V_error)


def residual_fluctuations(
    net: ResidualMLP, K: Float[np.ndarray, "layer sample sample"], pairs: Pairs
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
    mlp, hidden, count = net.branch, len(K) - 1, K.shape[1]
    if not hidden:
        return []
    paths = Pairs.of(count * hidden)
    joint = _path_kernel(net, K)
    rule = joint_rule(joint, smooth=mlp.activation.is_smooth)
    M = pair_derivatives(mlp.activation, joint, paths, second=False)
    covariance, slip = pair_sources(mlp.activation, joint, paths, rule, values_of(M))
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
    net: ResidualMLP, x: Float[np.ndarray, "sample feature"], pairs: Pairs
) -> Float[np.ndarray, "layer sample sample"]:
    """The kernel of a residual network, layer by layer; refused where it explodes or vanishes."""
    mlp = net.branch
    refuse_zero_inputs(mlp, x, "a correlation of its first two layers")
    K = mlp.C_b[0] + mlp.C_W[0] / mlp.input_dim * (x @ x.T)
    out = [K]
    for layer in range(1, mlp.depth):
        mean = pair_derivatives(mlp.activation, K, pairs, second=False)[0, 0].value[pairs.index]
        with np.errstate(over="ignore"):
            K = mlp.C_b[layer] + mlp.C_W[layer] * mean + net.gamma[layer] ** 2 * K
        if not (np.all(np.isfinite(K)) and np.all(np.diagonal(K) > 1e-140)):
            raise ValueError(
                f"The kernel explodes or vanishes in layer {layer + 1}. Use fewer layers, or "
                "critical hyperparameters: net.at_criticality()."
            )
        out.append(K)
    return np.stack(out)


def memory(net: ResidualMLP) -> Float[np.ndarray, "layer later"]:
    r"""The product of the $\gamma$ between two layers; 0 below the diagonal, 1 on it.

    Args:
        net: The residual network.
    """
    L = net.branch.depth
    return np.array(
        [[np.prod(net.gamma[k + 1 : m + 1]) if m >= k else 0.0 for m in range(L)] for k in range(L)]
    )


def _path_kernel(net: ResidualMLP, K: np.ndarray) -> np.ndarray:
    """Covariance of (layer, sample) with (layer, sample), hidden layers only."""
    hidden, count = len(K) - 1, K.shape[1]
    remembered = memory(net)[:hidden, :hidden]
    block = np.zeros((hidden, count, hidden, count))
    for k in range(hidden):
        for m in range(k, hidden):
            block[k, :, m] = block[m, :, k] = remembered[k, m] * K[k]
    return block.reshape(hidden * count, hidden * count)


def _vertices(
    net: ResidualMLP,
    K: np.ndarray,
    pairs: Pairs,
    M: Moments,
    sources: tuple[Array, list[np.ndarray]],
) -> list[tuple[np.ndarray, np.ndarray]]:
    r"""$V$ and $\mathrm{Cov}[\delta K,\delta K]$ of the layers 2, 3, …, by estimate and pair of pairs."""
    mlp, remembered = net.branch, memory(net)
    covariance, places = sources
    hidden, a, b = len(places), pairs.first, pairs.second
    zero = np.zeros((len(covariance), a.size, a.size))
    metric, own, out = zero, zero, []  # Cov[dK, dK] and Cov[dK, xi[zz]]
    cross = [zero] * hidden  # Cov[dK, xi[ss] of layer k]
    for m in range(hidden):
        C_W, skip, n = mlp.C_W[m + 1], net.gamma[m + 1] ** 2, mlp.widths[m + 1]
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
