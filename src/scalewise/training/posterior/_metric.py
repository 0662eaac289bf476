r"""Posteriors at order 1/n of networks of any layers, from mean and covariance of the metric of the last one.

Given the hidden layers the outputs are Gaussian with metric $K+\Delta$. So a network enters by
$\mathbb E[\Delta]=G^{\{1\}}/n$ and ${\rm Cov}[\Delta,\Delta]=V/n$ on the samples, and no more. With $S,u_i,T$ of
`Point`, $D=T\Delta_{\cdot\mathcal A}$ and the change $w=\frac12{\rm tr}\,Y\Delta$ of the log evidence,
$Y=\sum_iu_iu_i^T-n_LS$,
$$\begin{aligned}
m^{\{1\}}_i&=\langle wD\rangle u_i-\langle DS\Delta\rangle u_i+D[G^{\{1\}}]u_i,\\
{\rm Cov}^{\{1\}}_{ij}&=\delta_{ij}\big(\langle wT\Delta T^T\rangle-\langle DSD^T\rangle+TG^{\{1\}}T^T\big)
  +\langle Du_i(Du_j)^T\rangle,\\
\log p^{\{1\}}&=\langle\tfrac12w^2+\tfrac{n_L}4{\rm tr}\,S\Delta S\Delta-\tfrac12\sum_iu_i\Delta S\Delta u_i\rangle
  +w[G^{\{1\}}],
\end{aligned}$$
averages being contractions with $V$. Where the hidden layers are not learned, $w=0$.

Source: PDLT (6.88) for the mean; covariance and evidence derived.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from jaxtyping import Float

from scalewise.gaussian.spi import at_least_usual, with_shakes
from scalewise.networks import Network
from scalewise.observables import of_letter
from scalewise.theory.spi import runs_of, untold
from scalewise.training._asked import Arrays, Asked
from scalewise.training._kernels import SampleKernels
from scalewise.training._route import Route, RouteResult
from scalewise.training.posterior._added import PARTS, Added, outcomes
from scalewise.training.posterior._point import Point
from scalewise.training.posterior._route import NEURONS, conditions_last_layer, point_of
from scalewise.training.width._dense import unknown_readout
from scalewise.training.width._widened import shared_channels, without

_LETTERS = ("V", "G1")
Vertex = Float[np.ndarray, "sample sample sample sample"]
Metric = Float[np.ndarray, "sample sample"]


def _obstacle(asked: Asked, name: str) -> str:
    net = asked.net
    if net.is_plain:  # those who tell it say why they do not
        return NEURONS.obstacle(asked, name) or "single neurons tell it"
    if why := unknown_readout(net):
        return why
    for letter in _LETTERS:
        if why := of_letter(letter).obstacle_of(net):
            return why
    count = len(asked.task.inputs) + len(asked.tests)
    if why := untold(net, count, _LETTERS):
        return f"{why}. Give fewer samples"
    if name == "output_mean_nlo_by_layer":
        return shared_channels(net)
    return ""


def _run(kernels: SampleKernels, names: Sequence[str]) -> RouteResult:
    asked, net, task = kernels.asked, kernels.asked.net, kernels.asked.task
    at = point_of(kernels, whole="output_covariance_nlo" in names)
    x = np.concatenate([task.inputs, asked.tests])
    several = net.depth - 1 if "output_mean_nlo_by_layer" in names else 1
    nets = [net, *(without(net, layer) for layer in range(1, several))]
    runs: list[list[Arrays]] = []
    for run in zip(*(_metrics(one, x) for one in nets), strict=True):
        runs.append([])
        for metrics in zip(*run, strict=True):
            added = [_added(asked, at, metric) for metric in metrics]
            found = outcomes(asked, at, added[:1])
            found["output_mean_nlo_by_layer"] = _by_layer([one.mean for one in added])
            runs[-1].append(found)
    values, errors = {}, {}
    for name in names:
        each = [np.concatenate([one[name] for one in run]) for run in runs]
        values[name], error = with_shakes(each)
        errors[name] = at_least_usual(values[name], error)
    coords: dict[str, Sequence[str] | Sequence[int]] = {}
    if "output_mean_nlo_by_part" in names:
        coords["part"] = list(PARTS)
    if "output_mean_nlo_by_layer" in names:
        coords["layer"] = list(range(1, net.depth))
    return RouteResult(values, errors, coords)


def _metrics(net: Network, x: np.ndarray) -> list[list[tuple[Vertex, Metric]]]:
    r"""Every estimate of $V$ and $G^{\{1\}}$ on some samples, equal ones among them, in every run."""
    different, places = np.unique(x + 0.0, axis=0, return_inverse=True)
    places = places.ravel()
    at = [np.ix_(*(places,) * legs) for legs in (4, 2)]
    return [
        [(one["V"][at[0]], one["G1"][at[1]]) for one in run]
        for run in runs_of(net, different, _LETTERS)
    ]


def _added(asked: Asked, at: Point, metric: tuple[Vertex, Metric]) -> Added:
    """Coefficients that one estimate adds."""
    V, G1 = metric
    A, T, u, S, outputs = at.train, at.T, at.u, at.S, at.u.shape[1]
    D = np.einsum("bx,xayc->bayc", T, V[:, A])  # of the first metric; the second is free
    inverse = np.einsum("baec,ea,ci->ib", D[..., A, A], S, u, optimize=True)
    own = "bc" if at.whole else "b"
    second = own[-1]
    within = np.einsum(f"baye,ae,{second}y->{own}", D[..., A], S, T, optimize=True)
    between = np.einsum(f"baye,ai,ej,{second}y->ij{own}", D[..., A], u, u, T, optimize=True)
    X, evidence = np.zeros_like(G1), 0.0
    if asked.algorithm.has_evidence:
        Y = u @ u.T - outputs * S
        X = 0.5 * np.einsum("ae,aexy->xy", Y, V[A, A])
        seen = V[A, A, A, A]
        bent = outputs / 4 * np.einsum("ab,bcda,cd->", S, seen, S, optimize=True)
        bent -= 0.5 * np.einsum("ai,abcd,bc,di->", u, seen, S, u, optimize=True)
        learned = 0.25 * np.einsum("ae,ae->", Y, X[A, A])
        evidence = learned + bent + 0.5 * np.einsum("ae,ae->", Y, G1[A, A])
    shifts = [(T @ change[:, A] @ u).T for change in (X, G1)]
    wide = T @ (X + G1) @ T.T
    square = np.einsum("bx,by,bv,bw,xyvw->b", T, T, T, T, V, optimize=True)
    skew = np.einsum("bx,by,bv,ai,xyva->ib", T, T, T, u, V[..., A], optimize=True)
    of = {
        "mean": np.stack([shifts[0], -inverse, shifts[1]]),
        "within": (wide if at.whole else np.diagonal(wide)) - within,
        "between": between,
        "noise": np.einsum("bb->b", within) if at.whole else within,
        "skew": skew,
        "square": square,
        "evidence": np.asarray(evidence),
    }
    return Added(**{name: value[None] for name, value in of.items()})


def _by_layer(means: Sequence[np.ndarray]) -> np.ndarray:
    """The share of each hidden layer in a mean, from all of it and from it without each but the last."""
    whole, *rest = (mean.sum(axis=1) for mean in means)
    own = [whole - without_it for without_it in rest]
    return np.stack([*own, whole - sum(own)], axis=1)


METRIC = Route(
    "fluctuations of the metric",
    conditions_last_layer,
    NEURONS.outcomes - {"feature_change_nlo"},
    _obstacle,
    _run,
    kinds=("kernel",),
)
