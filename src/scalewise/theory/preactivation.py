r"""The four-point vertex $V$ and the next-to-leading-order metric $G^{\{1\}}$, many inputs.

Both are pushforwards through the map $K^{(\ell)}\mapsto K^{(\ell+1)}$ (no inverse kernels). With
$M_{pq}=\langle\sigma^{(p)}_a\sigma^{(q)}_b\rangle_{K^{(\ell)}}$, $r_\ell=n_\ell/n_{\ell-1}$ and
$\delta$ a variation of $(K_{aa},K_{ab},K_{bb})$,
$$(J\delta)_{ab}=\tfrac12M_{20}\,\delta_{aa}+M_{11}\,\delta_{ab}+\tfrac12M_{02}\,\delta_{bb},$$
$$V^{(\ell+1)}=C_W^2\big[\langle\sigma\sigma\sigma\sigma\rangle-\langle\sigma\sigma\rangle
  \langle\sigma\sigma\rangle+r_\ell\,JV^{(\ell)}J^T\big],\qquad V^{(1)}=0,$$
$$G^{\{1\}(\ell+1)}=C_Wr_\ell\big[JG^{\{1\}(\ell)}+\tfrac12\,H\!:\!V^{(\ell)}\big],\qquad
  G^{\{1\}(1)}=0,$$
with $H$ the second derivative of $\langle\sigma_a\sigma_b\rangle$. Tensors are kept on unordered pairs.

Source: PDLT (4.119), (4.115) in the inverse-free form that Price's theorem gives.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace

import numpy as np
from jaxtyping import Float, Int
from scipy import sparse

from scalewise.activations import Activation
from scalewise.gaussian import (
    JointRule,
    joint_rule,
    pair_moment,
    pair_moments,
    single_moment,
)
from scalewise.network import MLP

__all__ = [
    "Pairs",
    "PreactivationFlow",
    "PreactivationState",
    "derivative_orders",
    "origin",
    "pair_derivatives",
    "pair_sources",
    "preactivation_flow",
    "preactivation_step",
    "preactivation_steps",
]

_FIRST = ((0, 0), (1, 1), (2, 0), (0, 2))
_SECOND = ((2, 2), (3, 1), (1, 3), (4, 0), (0, 4))
_MAX_QUADRATURE_PAIRS = 300  # nested quadrature costs a millisecond a pair; samples take over


@dataclass(frozen=True)
class PreactivationFlow:
    r"""$V$ and $G^{\{1\}}$ at every layer with numerical error bars.

    Args:
        V: Four-point vertex, preactivation⁴.
        V_error: Its estimated numerical error.
        G1: NLO metric, preactivation²; ``None`` if it was not asked for.
        G1_error: Its estimated numerical error.
    """

    V: Float[np.ndarray, "layer sample sample sample sample"]
    V_error: Float[np.ndarray, "layer sample sample sample sample"]
    G1: Float[np.ndarray, "layer sample sample"] | None
    G1_error: Float[np.ndarray, "layer sample sample"] | None


@dataclass(frozen=True)
class Pairs:
    """Unordered pairs of samples, and where each pair of two equal samples stands."""

    first: Int[np.ndarray, " pair"]
    second: Int[np.ndarray, " pair"]
    index: Int[np.ndarray, "sample sample"]

    @staticmethod
    def of(count: int) -> Pairs:
        r"""All pairs $a\le b$ of `count` samples."""
        first, second = np.triu_indices(count)
        index = np.empty((count, count), dtype=np.intp)
        index[first, second] = index[second, first] = np.arange(first.size)
        return Pairs(first, second, index)

    @property
    def aa(self) -> Int[np.ndarray, " pair"]:
        """For each pair (a, b) the place of (a, a)."""
        return self.index[self.first, self.first]

    @property
    def bb(self) -> Int[np.ndarray, " pair"]:
        """For each pair (a, b) the place of (b, b)."""
        return self.index[self.second, self.second]

    def two_legs(
        self, values: Float[np.ndarray, "*estimate pair"]
    ) -> Float[np.ndarray, "*estimate sample sample"]:
        """From unordered pairs to samples."""
        return values[..., self.index]

    def four_legs(
        self, values: Float[np.ndarray, "*estimate pair pair"]
    ) -> Float[np.ndarray, "*estimate sample sample sample sample"]:
        """From pairs of unordered pairs to samples."""
        return values[..., self.index[:, :, None, None], self.index]


def preactivation_flow(
    net: MLP,
    K: Float[np.ndarray, "layer sample sample"],
    *,
    metric_nlo: bool = True,
    progress: Callable[[int, int], None] | None = None,
) -> PreactivationFlow:
    r"""$V$ and, if asked for, $G^{\{1\}}$ at every layer.

    Args:
        net: The network; its hidden widths enter through their ratios.
        K: The kernel at every layer, from `kernel_flow`.
        metric_nlo: Whether to carry $G^{\{1\}}$ along.
        progress: Called with (layers done, layers).

    Returns:
        The flow. Entries with one or two distinct inputs: rtol 1e-10. Three and four distinct: a
        product rule for up to four inputs of a smooth activation, else shared Sobol samples, with
        the error bar that either reports.

    Raises:
        ValueError: If the activation jumps and has no closed form.
    """
    count = K.shape[1]
    shape = (net.depth, count, count)
    V, V_error = np.zeros((2, *shape, count, count))
    G1, G1_error = np.zeros((2, *shape))
    for layer, state in enumerate(preactivation_steps(net, K, metric_nlo=metric_nlo), 1):
        V[layer], V_error[layer] = map(state.pairs.four_legs, state.rule.combine(state.vertex))
        if metric_nlo:
            G1[layer], G1_error[layer] = map(state.pairs.two_legs, state.rule.combine(state.metric))
        if progress is not None:
            progress(layer, net.depth - 1)
    return PreactivationFlow(
        V, V_error, G1 if metric_nlo else None, G1_error if metric_nlo else None
    )


@dataclass(frozen=True)
class PreactivationState:
    r"""$V$ and $G^{\{1\}}$ of one layer, by estimate of the rule that combines them.

    Args:
        pairs: What the pair indices mean.
        rule: Combines the estimates.
        vertex: $V$ on unordered pairs.
        metric: $G^{\{1\}}$ on unordered pairs.
    """

    pairs: Pairs
    rule: JointRule
    vertex: Float[np.ndarray, "estimate pair pair"]
    metric: Float[np.ndarray, "estimate pair"]


def preactivation_steps(
    net: MLP, K: Float[np.ndarray, "layer sample sample"], *, metric_nlo: bool = True
) -> Iterator[PreactivationState]:
    r"""$V$ and $G^{\{1\}}$ of the layers 2, 3, …, one after the other.

    Args:
        net: The network.
        K: The kernel at every layer.
        metric_nlo: Whether to carry $G^{\{1\}}$ along; it stays 0 if not.
    """
    pairs = Pairs.of(K.shape[1])
    state: PreactivationState | None = None
    for layer in range(1, net.depth):
        kernel = K[layer - 1]
        rule = joint_rule(kernel, smooth=net.activation.is_smooth)
        moments = pair_derivatives(net.activation, kernel, pairs, second=metric_nlo)
        source = pair_sources(net.activation, kernel, pairs, rule, moments)
        state = preactivation_step(net, layer, moments, source, state or origin(pairs, rule))
        yield state


def origin(pairs: Pairs, rule: JointRule) -> PreactivationState:
    """The first layer, which does not fluctuate."""
    count = pairs.first.size
    vertex = np.zeros((rule.estimates, count, count))
    return PreactivationState(pairs, rule, vertex, vertex[..., 0])


def preactivation_step(
    net: MLP,
    layer: int,
    moments: dict[tuple[int, int], np.ndarray],
    source: Float[np.ndarray, "estimate pair pair"],
    state: PreactivationState,
) -> PreactivationState:
    r"""From `layer` to the next.

    Args:
        net: The network.
        layer: Counted from 1.
        moments: Of `pair_derivatives`; $G^{\{1\}}$ is carried along if they go to the fourth order.
        source: $\mathrm{Cov}_K[\sigma_a\sigma_b,\sigma_c\sigma_d]$ by estimate.
        state: Of `layer`.
    """
    pairs, vertex, metric = state.pairs, state.vertex, state.metric
    r = net.widths[layer] / net.widths[layer - 1] if layer > 1 else 1.0
    C_W, J = net.C_W[layer], _jacobian(moments, pairs)
    if (4, 0) in moments:
        push = metric @ J.T
        metric = C_W * r * (push + 0.5 * _curvature(moments, pairs, vertex))
    vertex = np.stack([J @ (J @ V).T for V in vertex])
    vertex *= r
    vertex += source
    vertex *= C_W**2
    return replace(state, vertex=vertex, metric=metric)


def derivative_orders(*, second: bool) -> tuple[tuple[int, int], ...]:
    r"""Orders $(p,q)$ of the moments that are first and, if asked for, second derivatives of $M_{00}$."""
    return _FIRST + _SECOND if second else _FIRST


def pair_derivatives(
    sigma: Activation, kernel: Float[np.ndarray, "sample sample"], pairs: Pairs, *, second: bool
) -> dict[tuple[int, int], Float[np.ndarray, " pair"]]:
    r"""$M_{pq}$ of all pairs, for first and, if asked for, second derivatives of $M_{00}$."""
    a, b = pairs.first, pairs.second
    A, B = kernel[a, a], kernel[b, b]
    C = np.where(a == b, A, np.clip(kernel[a, b], -np.sqrt(A * B), np.sqrt(A * B)))
    orders = derivative_orders(second=second)
    return {pq: m.value for pq, m in pair_moments(sigma, A, B, C, orders).items()}


def _jacobian(M: dict[tuple[int, int], np.ndarray], pairs: Pairs) -> sparse.csr_array:
    r"""$J$ as a matrix over pairs: three entries in a row."""
    count = pairs.first.size
    ab = np.arange(count)
    entries = np.concatenate([0.5 * M[2, 0], M[1, 1], 0.5 * M[0, 2]])
    rows, columns = np.tile(ab, 3), np.concatenate([pairs.aa, ab, pairs.bb])
    return sparse.csr_array((entries, (rows, columns)), shape=(count, count))


def _curvature(
    M: dict[tuple[int, int], np.ndarray], pairs: Pairs, V: np.ndarray
) -> Float[np.ndarray, "estimate pair"]:
    r"""$H\!:\!V=\sum V_{uv}\partial_u\partial_v\langle\sigma_a\sigma_b\rangle$, $u,v\in\{aa,ab,bb\}$."""
    aa, bb, ab = pairs.aa, pairs.bb, np.arange(pairs.first.size)
    return (
        0.25 * M[4, 0] * V[:, aa, aa]
        + 0.25 * M[0, 4] * V[:, bb, bb]
        + M[2, 2] * (V[:, ab, ab] + 0.5 * V[:, aa, bb])
        + M[3, 1] * V[:, aa, ab]
        + M[1, 3] * V[:, bb, ab]
    )


def pair_sources(
    sigma: Activation,
    kernel: np.ndarray,
    pairs: Pairs,
    rule: JointRule,
    M: dict[tuple[int, int], np.ndarray],
) -> Float[np.ndarray, "estimate pair pair"]:
    r"""$\mathrm{Cov}_K[\sigma_a\sigma_b,\sigma_c\sigma_d]$ from every node set of the rule.

    The part of $\sigma_a\sigma_b$ that is quadratic in $z$ is $J(zz-K)$, and what is left is
    uncorrelated with it. Its covariance is known, $J\,\mathrm{Cov}[zz,zz]\,J^T$, so only that of the
    rest is left to the nodes.
    """
    a, b = pairs.first, pairs.second
    wick = kernel[a][:, a] * kernel[b][:, b]
    wick += kernel[a][:, b] * kernel[b][:, a]
    J = _jacobian(M, pairs)
    quadratic = J @ (J @ wick).T
    known = _two_input_products(sigma, kernel, pairs)
    out = np.empty((rule.estimates, a.size, a.size))
    for slot, (nodes, weights) in zip(out, rule.nodes(), strict=True):
        s = sigma(nodes)
        square = nodes[a] * nodes[b]
        square -= kernel[a, b][:, None]
        rest = s[a] * s[b]
        rest -= M[0, 0][:, None]
        rest -= J @ square
        rest *= np.sqrt(weights)
        np.matmul(rest, rest.T, out=slot)  # of a matrix with itself: half the work
        slot += quadratic
        for rows, columns, value in known:
            exact = value - M[0, 0][rows] * M[0, 0][columns]
            slot[rows, columns] = slot[columns, rows] = exact
    return out


def _two_input_products(
    sigma: Activation, kernel: np.ndarray, pairs: Pairs
) -> list[tuple[np.ndarray, np.ndarray, np.ndarray]]:
    r"""Where $\langle\sigma\sigma\sigma\sigma\rangle$ has at most two distinct inputs, and its value."""
    K = np.diagonal(kernel)
    aa = np.diagonal(pairs.index)
    known = [(aa, aa, single_moment(sigma, K, (0, 0, 0, 0)).value)]
    ab = np.flatnonzero(pairs.first != pairs.second)
    cheap = sigma.is_smooth or sigma.is_scale_invariant
    if ab.size and (cheap or ab.size <= _MAX_QUADRATURE_PAIRS):
        a, b = pairs.first[ab], pairs.second[ab]
        limit = np.sqrt(K[a] * K[b])
        C = np.clip(kernel[a, b], -limit, limit)

        def moment(p: int, q: int) -> np.ndarray:
            return pair_moment(sigma, K[a], K[b], C, (0,) * p, (0,) * q).value

        m22 = moment(2, 2)
        known += [
            (aa[a], aa[b], m22),
            (ab, ab, m22),
            (aa[a], ab, moment(3, 1)),
            (aa[b], ab, moment(1, 3)),
        ]
    return known
