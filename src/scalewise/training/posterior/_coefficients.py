r"""Mean, covariance, evidence and features of a posterior at order 1/n, layer by layer, from single neurons.

Given the hidden layers the outputs are Gaussian with metric $\widehat G=K+\widehat{\Delta G}$, so the posterior is
a mixture of Gaussians, each counted as probable as it makes the targets. To order 1/n hidden layers add, each with
$n_{L-1}/n_\ell$ times an average over one of its neurons, and with
$X=\langle w\Delta\rangle$, $C[Y]=TYT^T$, $D[Y]=TY_{\cdot\mathcal A}$,

$$\begin{aligned}
m^{\{1\}}_i&=D[X]u_i-\langle DS\Delta u_i\rangle+D[G^{\{1\}}]u_i,\\
{\rm Cov}^{\{1\}}_{ij}&=\delta_{ij}\big(C[X]-\langle DSD^T\rangle+C[G^{\{1\}}]\big)
  +\langle Du_i(Du_j)^T\rangle,\\
\log p^{\{1\}}&=\langle\tfrac12w^2+\tfrac{n_L}4{\rm tr}S\Delta S\Delta-\tfrac12\sum_iu_i\Delta S\Delta u_i\rangle
  +w[G^{\{1\}}].
\end{aligned}$$

Of one test sample, third and fourth cumulants are $\langle c\,Du_i\rangle\delta_{jk}$ and
$\langle c^2\rangle\delta_{ij}\delta_{kl}$ over all pairings of the outputs.

The mean metric of every layer changes by its $X$. Where the hidden layers are not learned, $w=0$: what is left is
the last layer trained alone.

Source: PDLT (6.88), (6.99), (6.104), (6.107), of which (6.108) is too small (deeper layers change at 1/n as well);
    covariance and evidence derived.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from jaxtyping import Float

from scalewise.networks import Network
from scalewise.training.posterior._added import Added
from scalewise.training.posterior._averages import TOLERANCE, Layered, exact, sampled
from scalewise.training.posterior._neurons import Push
from scalewise.training.posterior._point import Point
from scalewise.training.posterior._responses import LayerResponse, Slope, responses

_SEEDS = 1000  # between layers


@dataclass(frozen=True)
class OfLayer:
    r"""Coefficients of the finite width of one layer, with an axis of scrambles in front; times $n_{L-1}$.

    Args:
        layer: $\ell$.
        added: To the posterior.
        learned: $X$ of the metric right behind the layer, from the neurons of the layer itself.
        here: How that metric answers to the one before the layer.
        points: How many neurons each scramble has.
    """

    layer: int
    added: Added
    learned: Float[np.ndarray, "_scramble sample sample"]
    here: Slope
    points: int


def by_layer(
    net: Network,
    K: Float[np.ndarray, "layer sample sample"],
    point: Point,
    *,
    weighted: bool,
    tails: bool = False,
    tolerance: float = TOLERANCE,
) -> Iterator[OfLayer]:
    """The hidden layers, the last first.

    Args:
        net: The network.
        K: Its kernel at every layer, of training samples and then test samples.
        point: What is expanded about, at the last layer.
        weighted: Whether networks count as the evidence says; otherwise all the same.
        tails: Whether third and fourth cumulants are wanted.
        tolerance: Of standard errors, relative.
    """
    for step in responses(net, K):
        layer = step.layer
        own, C_W = K[layer - 1], net.C_W[layer]
        layered = Layered(
            net=net,
            K=own,
            push=Push.by(step.above, point, step.means, C_W),
            quadratic=Push.by(step.whole, point, own),
            weighted=weighted,
            tails=tails,
            seed=_SEEDS * layer,
            tolerance=tolerance,
        )
        yield _of_layer(layer, layered, step, net.widths[-2] / net.widths[layer])


def _of_layer(layer: int, layered: Layered, step: LayerResponse, r: float) -> OfLayer:
    at, known = layered.push.point, exact(layered)
    rest, points = sampled(layered, _sizes(known, at))
    A = at.train
    names = ("inverse", "between", "within", *(("skew", "square") if layered.tails else ()))
    of = {name: known[name] + rest[name] for name in names}
    G1 = r * _mean_shift(rest, step, layered.net.C_W[layer])
    X = np.zeros_like(G1)
    if layered.weighted:
        X = r * _learned(known["learned"], rest, layered, step)
    top = step.above.first(X)
    shifts = [(at.T @ Y[..., A] @ at.u).swapaxes(-1, -2) for Y in (top, G1)]
    mean = np.stack([shifts[0], -r * of["inverse"], shifts[1]], axis=1)
    changed = at.T @ (top + G1)
    if at.whole:
        within = changed @ at.T.T - r * of["within"]
        noise = np.einsum("ebb->eb", of["within"])
    else:
        within = np.einsum("ebx,bx->eb", changed, at.T) - r * of["within"]
        noise = of["within"]
    evidence = np.zeros(len(X))
    if layered.weighted:
        evidence = r * (known["evidence"] + rest["evidence"])
        evidence = evidence + 0.5 * np.einsum("ab,eab->e", layered.Y, G1[:, A, A])
    skew, square = (r * of[name] if layered.tails else None for name in ("skew", "square"))
    added = Added(
        mean=mean,
        within=within,
        between=r * of["between"],
        noise=r * noise,
        skew=skew,
        square=square,
        evidence=evidence,
    )
    return OfLayer(layer, added, X, step.here, points)


def _learned(
    quadratic: np.ndarray, rest: dict[str, np.ndarray], layered: Layered, step: LayerResponse
) -> np.ndarray:
    r"""$X$ right behind a layer."""
    w = rest["weight"][:, None, None]
    by_sigma = layered.net.C_W[step.layer] * (rest["weighted"] - w * step.means)
    return by_sigma + step.here.first(quadratic - (rest["quadratic"] - w * layered.K))


def _mean_shift(rest: dict[str, np.ndarray], step: LayerResponse, C_W: float) -> np.ndarray:
    r"""$G^{\{1\}}$ of the last layer from the neurons of one, in units of their width."""
    own, means = np.diagonal(step.means), step.means
    V = C_W**2 * (rest["aabb"] - own[:, None] * own)
    crossed = C_W**2 * (rest["aaab"] - own[:, None] * means)
    return step.above.second(V, crossed, C_W**2 * (rest["aabb"] - means**2))


def _sizes(known: dict[str, np.ndarray], at: Point) -> dict[str, float]:
    """How large averages are; a mean could be as large as its deviation, which cancels in it."""
    sizes = {name: float(np.abs(value).max(initial=0.0)) for name, value in known.items()}
    deviation = np.sqrt(at.variance.max(initial=0.0))
    if deviation:
        sizes["inverse"] = max(sizes["inverse"], sizes["within"] / float(deviation))
    if "learned" in sizes:
        sizes["weighted"] = sizes.pop("learned")
    return sizes
