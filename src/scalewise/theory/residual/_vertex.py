r"""Residual networks: how their metric fluctuates, and the four-point vertex of several inputs.

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

import numpy as np
from jaxtyping import Float
from scipy import sparse

from scalewise.gaussian import SHAKES, combined, joint_rule, with_shakes
from scalewise.networks._perceptron import Perceptron
from scalewise.selection import MOST_PATHS
from scalewise.theory.flow._pairs import (
    FIRST,
    Pairs,
    jacobian,
    moments_on_pairs,
    pair_sources,
    shaken_expectations,
    values_of,
)

OnPairs = Float[np.ndarray, "_estimate pair pair"]
Samples = Float[np.ndarray, "layer sample sample"]
Vertex = Float[np.ndarray, "layer sample sample sample sample"]
Runs = list[list[tuple[OnPairs, OnPairs]]]
Moments = dict[tuple[int, int], np.ndarray]


def vertices(runs: Runs, K: Samples, pairs: Pairs) -> tuple[Vertex, Vertex]:
    r"""$V$ on samples and its error, from what `fluctuations` found."""
    V, V_error = np.zeros((2, len(K), *(K.shape[1],) * 4))
    for layer, here in enumerate(runs, 1):
        vertex = with_shakes([vertex for vertex, _ in here])
        V[layer], V_error[layer] = map(pairs.four_legs, vertex)
    return V, V_error


def fluctuations(net: Perceptron, K: Samples, pairs: Pairs) -> Runs:
    r"""What fluctuates in the layers 2, 3, …: $V$ and $\mathrm{Cov}[\delta K,\delta K]$ on pairs of samples.

    By layer a list of runs: one with the expectations as they are, by scramble where they are sampled, and some
    with all of them moved by their errors.
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


def memory(net: Perceptron) -> Float[np.ndarray, "layer later"]:
    r"""The product of the $\gamma$ between two layers; 0 below the diagonal, 1 on it."""
    out = np.eye(net.depth)
    for later in range(1, net.depth):
        out[:later, later] = out[:later, later - 1] * net.skips[later]
    return out


def _path_kernel(net: Perceptron, K: np.ndarray) -> np.ndarray:
    """Covariance of (layer, sample) with (layer, sample), hidden layers only."""
    hidden, count = len(K) - 1, K.shape[1]
    remembered = memory(net)[:hidden, :hidden]
    block = np.zeros((hidden, count, hidden, count))
    for k in range(hidden):
        for m in range(k, hidden):
            block[k, :, m] = block[m, :, k] = remembered[k, m] * K[k]
    return block.reshape(hidden * count, hidden * count)


def _vertices(
    net: Perceptron,
    K: np.ndarray,
    pairs: Pairs,
    M: Moments,
    sources: tuple[OnPairs, list[np.ndarray]],
) -> list[tuple[np.ndarray, np.ndarray]]:
    r"""$V$ and $\mathrm{Cov}[\delta K,\delta K]$ of the layers 2, 3, …, by estimate and pair of pairs."""
    remembered = memory(net)
    covariance, places = sources
    hidden, a, b = len(places), pairs.first, pairs.second
    zero = np.zeros((len(covariance), a.size, a.size))
    metric, own, out = zero, zero, []  # Cov[dK, dK] and Cov[dK, xi[zz]]
    cross = [zero] * hidden  # Cov[dK, xi[ss] of layer k]
    for m in range(hidden):
        C_W, n = net.C_W[m + 1], net.widths[m + 1]
        J = jacobian({pq: value[places[m]] for pq, value in M.items()}, pairs)
        P = response(net, m + 1, J, pairs)
        noise = [
            covariance[:, places[m][:, None], places[k]] / n if remembered[m, k] else zero
            for k in range(m, hidden)
        ]
        once = pushed(P, cross[m])
        metric = pushed(P, pushed(P, metric).swapaxes(1, 2)) + C_W * (once + once.swapaxes(1, 2))
        metric = metric + C_W**2 * noise[0]
        ahead = zip(cross[m + 1 :], noise[1:], strict=True)
        cross[m + 1 :] = [pushed(P, known) + C_W * fresh for known, fresh in ahead]
        wick = K[m][a][:, a] * K[m][b][:, b] + K[m][a][:, b] * K[m][b][:, a]
        own = net.skips[m + 1] ** 2 * (pushed(P, own) + C_W * (J @ wick) / n)
        out.append((n * (metric + own + own.swapaxes(1, 2)), metric))
    return out


def response(net: Perceptron, layer: int, J: sparse.csr_array, pairs: Pairs) -> sparse.csr_array:
    r"""$\mathcal J=C_WJ+\gamma^2$ over pairs, from a layer, counted from 1, to the next."""
    same = sparse.eye_array(pairs.first.size, format="csr")
    return net.C_W[layer] * J + net.skips[layer] ** 2 * same


def pushed(P: sparse.csr_array, T: OnPairs) -> OnPairs:
    r"""$\mathcal J$ applied to the first of two pairs."""
    return np.stack([P @ one for one in T])
