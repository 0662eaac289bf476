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

from collections.abc import Callable, Hashable, Mapping
from dataclasses import dataclass, replace

import numpy as np
from jaxtyping import Float, Int
from scipy import sparse

from scalewise.activations import Activation
from scalewise.gaussian import (
    SHAKES,
    Estimate,
    JointRule,
    clipped,
    combined,
    feature_means,
    increment,
    joint_rule,
    pair_moments,
    resolved,
    shaken,
    two_input_covariances,
    unseen,
    with_shakes,
)
from scalewise.networks import MLP
from scalewise.theory.flow._trajectory import Part, along

__all__ = [
    "Pairs",
    "PreactivationFlow",
    "PreactivationState",
    "curvature",
    "derivative_orders",
    "origin",
    "pair_derivatives",
    "pair_sources",
    "preactivation_flow",
    "preactivation_step",
    "shaken_expectations",
    "values_of",
]

_FIRST = ((0, 0), (1, 1), (2, 0), (0, 2))
_SECOND = ((2, 2), (3, 1), (1, 3), (4, 0), (0, 4))
Moments = dict[tuple[int, int], Estimate]
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
    pairs = Pairs.of(count)
    shape = (net.depth, count, count)
    V, V_error = np.zeros((2, *shape, count, count))
    G1, G1_error = np.zeros((2, *shape))
    states = [origin(pairs)] * (1 + SHAKES)
    sigma = net.activation

    def evaluate(kernel: np.ndarray) -> _OnPairs:
        rule = joint_rule(kernel, smooth=sigma.is_smooth)
        moments = pair_derivatives(sigma, kernel, pairs, second=metric_nlo)
        return _OnPairs(moments, *pair_sources(sigma, kernel, pairs, rule, moments))

    for layer, here in enumerate(along(K[:-1], evaluate), 1):
        below = [(values_of(here.moments), here.source), *here.shaken()]
        states = [
            preactivation_step(net, layer, *expectations, state)
            for expectations, state in zip(below, states, strict=True)
        ]
        vertex = with_shakes([state.vertex for state in states])
        V[layer], V_error[layer] = map(pairs.four_legs, vertex)
        if metric_nlo:
            metric = with_shakes([state.metric for state in states])
            G1[layer], G1_error[layer] = map(pairs.two_legs, metric)
        if progress is not None:
            progress(layer, net.depth - 1)
    return PreactivationFlow(
        V, V_error, G1 if metric_nlo else None, G1_error if metric_nlo else None
    )


@dataclass(frozen=True)
class _OnPairs:
    """The expectations of one layer on unordered pairs: moments; sources, by estimate, and their error."""

    moments: Moments
    source: Float[np.ndarray, "_estimate pair pair"]
    slip: Float[np.ndarray, "pair pair"]

    def shaken(self) -> list[tuple[dict[tuple[int, int], np.ndarray], np.ndarray]]:
        """The same moved by their errors, a few times."""
        best = combined(self.source)[0]
        return [shaken_expectations(self.moments, best, self.slip, k) for k in range(SHAKES)]

    def parts(self) -> dict[Hashable, Part]:
        out: dict[Hashable, Part] = {
            pq: Part(m.value[None], m.error) for pq, m in self.moments.items()
        }
        return out | {"source": Part(self.source, self.slip)}

    def at(self, K: np.ndarray, parts: Mapping[Hashable, Part]) -> _OnPairs:
        moments = {
            pq: Estimate(parts[pq].value[0], parts[pq].error, m.engine)
            for pq, m in self.moments.items()
        }
        return _OnPairs(moments, parts["source"].value, parts["source"].error)


@dataclass(frozen=True)
class PreactivationState:
    r"""$V$ and $G^{\{1\}}$ of one layer: one of each, or one per scramble of a sample.

    Args:
        pairs: What the pair indices mean.
        vertex: $V$ on unordered pairs.
        metric: $G^{\{1\}}$ on unordered pairs.
    """

    pairs: Pairs
    vertex: Float[np.ndarray, "_estimate pair pair"]
    metric: Float[np.ndarray, "_estimate pair"]


def origin(pairs: Pairs) -> PreactivationState:
    """The first layer, which does not fluctuate."""
    count = pairs.first.size
    vertex = np.zeros((1, count, count))
    return PreactivationState(pairs, vertex, vertex[..., 0])


def values_of(moments: Moments) -> dict[tuple[int, int], np.ndarray]:
    """Moments without their errors."""
    return {pq: m.value for pq, m in moments.items()}


def shaken_expectations(
    moments: Moments, source: np.ndarray, slip: np.ndarray, seed: int
) -> tuple[dict[tuple[int, int], np.ndarray], np.ndarray]:
    """Moments and sources, each moved by its error: what `Shaken` is for tensors on samples."""
    moved = {pq: shaken(m.value, m.error, (seed, *pq)) for pq, m in moments.items()}
    return moved, shaken(source, slip, (seed,))[None]


def preactivation_step(
    net: MLP,
    layer: int,
    moments: dict[tuple[int, int], np.ndarray],
    source: Float[np.ndarray, "_estimate pair pair"],
    state: PreactivationState,
) -> PreactivationState:
    r"""From `layer` to the next.

    Args:
        net: The network.
        layer: Counted from 1.
        moments: Values of `pair_derivatives`; $G^{\{1\}}$ is carried along if they go to the fourth order.
        source: $\mathrm{Cov}_K[\sigma_a\sigma_b,\sigma_c\sigma_d]$ by estimate.
        state: Of `layer`.
    """
    pairs, vertex, metric = state.pairs, state.vertex, state.metric
    r = net.widths[layer] / net.widths[layer - 1] if layer > 1 else 1.0
    C_W, J = net.C_W[layer], _jacobian(moments, pairs)
    if (4, 0) in moments:
        push = metric @ J.T
        metric = C_W * r * (push + 0.5 * curvature(moments, pairs, vertex))
    vertex = np.stack([J @ (J @ V).T for V in vertex])
    vertex *= r
    vertex = vertex + source
    vertex *= C_W**2
    return replace(state, vertex=vertex, metric=metric)


def derivative_orders(*, second: bool) -> tuple[tuple[int, int], ...]:
    r"""Orders $(p,q)$ of the moments that are first and, if asked for, second derivatives of $M_{00}$."""
    return _FIRST + _SECOND if second else _FIRST


def pair_derivatives(
    sigma: Activation, kernel: Float[np.ndarray, "sample sample"], pairs: Pairs, *, second: bool
) -> Moments:
    r"""$M_{pq}$ of all pairs, for first and, if asked for, second derivatives of $M_{00}$."""
    a, b = pairs.first, pairs.second
    A, B = kernel[a, a], kernel[b, b]
    C = np.where(a == b, A, clipped(A, B, kernel[a, b]))
    orders = derivative_orders(second=second)
    return pair_moments(sigma, A, B, C, orders)


def _jacobian(M: dict[tuple[int, int], np.ndarray], pairs: Pairs) -> sparse.csr_array:
    r"""$J$ as a matrix over pairs: three entries in a row."""
    count = pairs.first.size
    ab = np.arange(count)
    entries = np.concatenate([0.5 * M[2, 0], M[1, 1], 0.5 * M[0, 2]])
    rows, columns = np.tile(ab, 3), np.concatenate([pairs.aa, ab, pairs.bb])
    return sparse.csr_array((entries, (rows, columns)), shape=(count, count))


def curvature(
    M: dict[tuple[int, int], np.ndarray], pairs: Pairs, V: np.ndarray
) -> Float[np.ndarray, "_estimate pair"]:
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
    sigma: Activation, kernel: np.ndarray, pairs: Pairs, rule: JointRule, moments: Moments
) -> tuple[Float[np.ndarray, "_estimate pair pair"], Float[np.ndarray, "pair pair"]]:
    r"""$\mathrm{Cov}_K[\sigma_a\sigma_b,\sigma_c\sigma_d]$, by scramble if it is sampled, and its error.

    The constant part of $\sigma_a\sigma_b$ drops out, the part that is quadratic in $z$ is $J(zz-K)$, and
    what is left is uncorrelated with it. Its covariance is known, $J\,\mathrm{Cov}[zz,zz]\,J^T$, so only
    that of the rest is left to the nodes. The error is what rounding and quadrature may have done.
    """
    a, b = pairs.first, pairs.second
    wick = kernel[a][:, a] * kernel[b][:, b]
    wick += kernel[a][:, b] * kernel[b][:, a]
    J = _jacobian(values_of(moments), pairs)
    quadratic = J @ (J @ wick).T
    known = _two_inputs(sigma, kernel, pairs)
    out, error = np.zeros((1, a.size, a.size)), np.zeros((a.size, a.size))
    if len(kernel) > 2 or len(known) == 1 < a.size:
        mean = feature_means(sigma, kernel, (0, 0))[a, b]

        def rests(nodes: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
            feature = _features(sigma, nodes, pairs)
            square = nodes[a] * nodes[b]
            square -= kernel[a, b][:, None]
            rest = feature - mean[:, None]
            rest -= J @ square
            return feature, rest

        out, error = _from_nodes(rule, rests, quadratic)
    for rows, columns, found in known:
        out[:, rows, columns] = out[:, columns, rows] = found.value
        error[rows, columns] = error[columns, rows] = found.error
    return out, error


def _features(sigma: Activation, nodes: np.ndarray, pairs: Pairs) -> np.ndarray:
    r"""$\sigma_a\sigma_b$ at the nodes without its constant part."""
    delta = increment(sigma, 0)
    s = delta(nodes)
    out = s[pairs.first] * s[pairs.second]
    if delta.centre:
        out += delta.centre * (s[pairs.first] + s[pairs.second])
    return out


def _from_nodes(
    rule: JointRule,
    rests: Callable[[np.ndarray], tuple[np.ndarray, np.ndarray]],
    quadratic: np.ndarray,
) -> tuple[np.ndarray, np.ndarray]:
    """Covariances by scramble, or of the finer product rule, and their errors beside the spread."""
    out: np.ndarray = np.empty((rule.estimates, *quadratic.shape))
    size: np.ndarray = np.zeros(len(quadratic))
    for slot, (nodes, weights) in zip(out, rule.nodes(), strict=True):
        feature, rest = rests(nodes)
        size = np.maximum(size, np.sqrt(feature * feature @ weights))
        rest *= np.sqrt(weights)
        np.matmul(rest, rest.T, out=slot)  # of a matrix with itself: half the work
        slot += quadratic
    natural = size[:, None] * size
    if rule.engine == "samples":
        return out, unseen(out, natural)
    error = resolved([*out], natural)
    if error is None:
        return _from_nodes(rule.samples, rests, quadratic)
    return out[-1:], error


def _two_inputs(
    sigma: Activation, kernel: np.ndarray, pairs: Pairs
) -> list[tuple[np.ndarray, np.ndarray, Estimate]]:
    r"""Where $\mathrm{Cov}[\sigma\sigma,\sigma\sigma]$ has at most two distinct inputs, and what it is."""
    K, family = np.diagonal(kernel), (0, 0, 0, 0)
    aa = np.diagonal(pairs.index)
    known = [(aa, aa, two_input_covariances(sigma, (K, K, K), [(family, 0)])[family, 0])]
    ab = np.flatnonzero(pairs.first != pairs.second)
    cheap = sigma.is_smooth or sigma.is_scale_invariant
    if ab.size and (cheap or ab.size <= _MAX_QUADRATURE_PAIRS):
        a, b = pairs.first[ab], pairs.second[ab]
        two = (K[a], K[b], clipped(K[a], K[b], kernel[a, b]))
        # Bit i of a pattern says that factor i stands on b.
        places = {
            0b1100: (aa[a], aa[b]),
            0b1010: (ab, ab),
            0b1000: (aa[a], ab),
            0b1011: (aa[b], ab),
        }
        found = two_input_covariances(sigma, two, [(family, pattern) for pattern in places])
        known += [(*place, found[family, pattern]) for pattern, place in places.items()]
    return known
