r"""Leading covariances of an observable of one layer with metric and NTK of the layers above it.

In the next layer an observable $O$ meets its own neurons, $1/n_\ell$ of all, and through $V$ and $D$ all the
others. Further up only means are left to push forward:
$$\mathbb E[O\,\widehat{\Delta G}^{(\ell+2)}_{12}]=\tfrac{C_W}2\sum_{ab}\langle\partial_a\partial_b
  (\sigma_1\sigma_2)\rangle_K\,\mathbb E[O\,\widehat{\Delta G}^{(\ell+1)}_{ab}]+O(1/n^2),$$
for one input multiplication by $\chi_\parallel$. So an observable is correlated at order $1/n$ with every
layer above it, not with the next alone.

Source: PDLT (8.54), (8.70), (8.71); for one input and two layers (6.107), whose footnote 35 says that
the correlation is $O(1/n^2)$: it is $O(1/n)$.
"""

from __future__ import annotations

import numpy as np
import xarray as xr
from jaxtyping import Float

from scalewise._checked import Count, checked
from scalewise._labelled import dataset
from scalewise.networks import Network
from scalewise.networks.spi import Plain
from scalewise.theory.correlators._gaussian_derivatives import (
    NeuronMoments,
    Observable,
    gaussian_neurons,
)
from scalewise.theory.flow._layer import LayerExpectations

NEEDED = ("kernel", "ntk", "four_point_vertex", "ntk_D")
Pairs = Float[np.ndarray, "sample sample out"]


@checked
def interlayer_covariance(
    observable: Observable,
    net: Plain,
    theory: xr.Dataset,
    layer: int,
    *,
    neurons: Count = 1,
    smooth: bool = True,
) -> xr.Dataset:
    r"""Covariance of an observable of one layer with the metric and the NTK of every layer above it.

    $$\mathrm{Cov}[O,\widehat G^{(\ell+1)}_{12}]=\frac{C_W}{n_\ell}\sum_i\mathrm{Cov}_K(O,\sigma_{i;1}
      \sigma_{i;2})+\frac{C_W}{4n_{\ell-1}}\langle\partial_a\partial_b(\sigma_1\sigma_2)\rangle_K
      V_{(ab)(cd)}\sum_i\langle\partial_{i;c}\partial_{i;d}O\rangle_K$$
    $$\mathrm{Cov}[O,\widehat H^{(\ell+1)}_{12}]=\frac1{n_\ell}\sum_i\mathrm{Cov}_K(O,\Omega_{i;12})
      +\frac1{n_{\ell-1}}\Big[\tfrac14\langle\partial_a\partial_b\Omega_{12}\rangle_KV_{(ab)(cd)}
      +\tfrac{C_W}2\langle\sigma'_1\sigma'_2\rangle_KD_{cd12}\Big]
      \sum_i\langle\partial_{i;c}\partial_{i;d}O\rangle_K$$
    with $\Omega_{12}=\lambda_W\sigma_1\sigma_2+C_W\Theta_{12}\sigma'_1\sigma'_2$. A mean over all neurons of the
    layer, $\frac1{n_\ell}\sum_jf(z_j)$, has the covariances of $f$ of one of them.

    Args:
        observable: From preactivations (neuron, sample, node) of the layer to values (..., node).
        net: The network.
        theory: What `predict` says of it, all layers, with kernel, ntk, four_point_vertex and ntk_D.
        layer: $\ell$, below the last.
        neurons: How many neurons the observable looks at.
        smooth: Whether observable and activation are smooth; if so, a product rule is taken for up to
            six coordinates.

    Returns:
        ``metric``, $\mathrm{Cov}[O,\widehat G_{12}]$, and ``ntk``, $\mathrm{Cov}[O,\widehat H_{ii;12}]$ for one
        neuron $i$, over the layers above, the axes of the observable and two samples, in units of the observable
        times preactivation² and NTK; with the suffix ``_error`` their numerical errors. Neglected: $O(1/n^2)$.

    Raises:
        ValueError: If `theory` lacks an observable or a layer, `layer` is none below the last, or the
            observable returns what is not finite.

    Source: PDLT (8.54), (8.70), (8.71), (8.77).

    Example:
        >>> import numpy as np, scalewise as sw
        >>> from scalewise.theory.correlators import interlayer_covariance
        >>> net = sw.MLP(2, 50, "linear", input_dim=1, output_dim=1)
        >>> names = ["kernel", "ntk", "four_point_vertex", "ntk_D"]
        >>> theory = sw.predict(net, np.ones((1, 1)), observables=names)
        >>> found = interlayer_covariance(lambda z: z[0, 0] ** 2, net, theory, 1)
        >>> print(f"{found.metric.item():.10f}")  # 2/n
        0.0400000000
    """
    count = _check(net, theory, layer)
    K, Theta, V, D = (theory[name].values for name in NEEDED)
    at = layer - 1
    gaussian = gaussian_neurons(
        K[at], neurons, smooth=smooth and net.activation.is_smooth, name="kernel"
    )
    n_below = net.widths[at]
    V_u = gaussian.lowered("four_point_vertex", V[at], (2, 3)) / (2 * n_below)
    D_u = gaussian.lowered("ntk_D", D[at], (0, 1)) / (2 * n_below)
    layers = range(layer + 1, net.depth + 1)
    expectations = [LayerExpectations(net.activation, K[above - 2]) for above in layers]
    estimates, out = [], ()
    for moments in gaussian.moments(observable, 2):
        out = moments.weighted.shape[:-1]
        bend = np.einsum("...iris->...rs", moments.hermite[2]).reshape(-1, *V_u.shape[2:])
        metric = np.einsum("abrs,ors->abo", V_u, bend)
        ntk = np.einsum("rsab,ors->abo", D_u, bend)
        own = _own_neurons(moments, net, net.widths[layer])
        flow = []
        for above, given in zip(layers, expectations, strict=True):
            metric, ntk = _next(net, above, given, Theta[above - 2], (metric, ntk), own)
            own = None
            flow.append(np.stack([metric, ntk]))
        estimates.append(np.stack(flow))
    value, error = (
        a.transpose(1, 0, 4, 2, 3).reshape(2, len(layers), *out, count, count)
        for a in gaussian.combine(estimates)
    )
    dims = ("layer", *(f"observable_{axis}" for axis in range(len(out))), "sample", "sample_1")
    found = {"metric": value[0], "ntk": value[1], "metric_error": error[0], "ntk_error": error[1]}
    return dataset({name: (dims, part) for name, part in found.items()}, {"layer": list(layers)})


def _own_neurons(moments: NeuronMoments, net: Network, width: int) -> tuple[Pairs, Pairs]:
    r"""$\frac1{n_\ell}\sum_i\mathrm{Cov}_K$ of the observable with $\sigma_1\sigma_2$ and $\sigma'_1\sigma'_2$."""
    weighted = moments.weighted.reshape(-1, len(moments.weights))
    centred = weighted - weighted.sum(axis=1, keepdims=True) * moments.weights
    found = []
    for order in (0, 1):
        s = net.activation.derivative(moments.z, order)
        found.append(sum(np.einsum("am,bm,om->abo", f, f, centred, optimize=True) for f in s))
    return found[0] / width, found[1] / width


def _next(
    net: Network,
    above: int,
    given: LayerExpectations,
    Theta: np.ndarray,
    below: tuple[Pairs, Pairs],
    own: tuple[Pairs, Pairs] | None,
) -> tuple[Pairs, Pairs]:
    """One layer up: covariances with metric and NTK, from those of the layer below."""
    metric, ntk = below
    C_W, lambda_W = net.C_W[above - 1], net.lambda_W[above - 1]
    pushed = [_pushed(given, p, metric) for p in (0, 1)]
    if own is not None:
        pushed = [a + b for a, b in zip(pushed, own, strict=True)]
    slopes = Theta[:, :, None] * pushed[1] + given.M(1, 1)[:, :, None] * ntk
    return C_W * pushed[0], lambda_W * pushed[0] + C_W * slopes


def _pushed(given: LayerExpectations, p: int, T: Pairs) -> Pairs:
    r"""The change of $M_{pp}$ with a change $T$ of the metric, by Price's theorem."""
    same = np.einsum("aao->ao", T)
    curved, slopes = given.M(p + 2, p)[:, :, None], given.M(p + 1, p + 1)[:, :, None]
    other = given.M(p, p + 2)[:, :, None]
    return 0.5 * curved * same[:, None] + slopes * T + 0.5 * other * same[None]


def _check(net: Network, theory: xr.Dataset, layer: int) -> int:
    missing = [name for name in NEEDED if name not in theory]
    if missing:
        raise ValueError(
            f"`theory` lacks {', '.join(missing)}; predict the network with observables={list(NEEDED)}."
        )
    if theory.sizes["layer"] != net.depth:
        raise ValueError(
            f"`theory` must have all {net.depth} layers of the network; got {theory.sizes['layer']}. "
            "Predict without `layers`."
        )
    if not 1 <= layer < net.depth:
        raise ValueError(
            f"`layer` must lie below the last, from 1 to {net.depth - 1}; got {layer}."
        )
    return theory.sizes["sample"]
