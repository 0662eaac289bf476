r"""Averages over the neurons of one layer: everything of the posterior that is of order 1/n.

With $u_i=Sy_i$, $Y=\sum_iu_iu_i^T-n_LS$ and $D=T\Delta_{\cdot\mathcal A}$ of one neuron, its change of the
metric makes the targets more probable by $w=\frac12\sum Y_{ab}\Delta_{ab}$, and the averages are

$$\langle w\Delta\rangle,\quad\langle DS\Delta u_i\rangle,\quad\langle Du_i\,(Du_j)^T\rangle,
  \quad\langle DSD^T\rangle,\quad\tfrac12\langle w^2\rangle+\tfrac{n_L}4\langle{\rm tr}\,S\Delta S\Delta\rangle
  -\tfrac12\sum_i\langle u_i^T\Delta S\Delta u_i\rangle .$$

With $c_b=(T\Delta T^T)_{bb}$, its change of the variance of a test sample, $\langle c_bD_bu_i\rangle$ and
$\langle c_b^2\rangle$ are what third and fourth cumulants are made of.

Each is that of the quadratic part, exactly, and that of the rest, over nodes (`_wick`).

Source: PDLT (6.92)-(6.100), (6.88) neuron by neuron; derived.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

import numpy as np

from scalewise.gaussian.spi import combined
from scalewise.networks import Network
from scalewise.training.posterior._neurons import Nodes, Push
from scalewise.training.posterior._responses import Slope
from scalewise.training.posterior._wick import (
    after_inverse,
    learned,
    products,
    squares,
    weight_variance,
)

SCRAMBLES, SAMPLES = 8, 512  # half as many scrambles of more samples
FIRST, ALWAYS, MOST = (
    1 << 8,
    1 << 12,
    1 << 14,
)  # points of a scramble; up to the second whatever they take
_FINEST = 16  # times as many where a finer tolerance is asked for
TOLERANCE = 0.005  # of a standard error, relative to the size of what it is a part of
WORK = 5e10  # multiplications that the nodes of one layer may take for more
EXACT, PROBES = (
    256,
    3,
)  # training samples that are gone through one by one; probes of a scramble beyond
Sums = dict[str, np.ndarray]


def scrambles(samples: int) -> int:
    """The number of scrambles for so many samples: each keeps a few matrices on these."""
    return SCRAMBLES if samples <= SAMPLES else SCRAMBLES // 2


@dataclass(frozen=True)
class Layered:
    r"""One hidden layer, with what averages over its neurons depend on.

    Args:
        net: The network.
        K: Kernel of the layer.
        push: Of a neuron's activations to the last metric.
        quadratic: Of $zz^T-K$.
        weighted: Whether networks count as the evidence says.
        tails: Whether third and fourth cumulants are wanted.
        seed: Of its nodes and probes.
        tolerance: Of a standard error, relative to the size of what it is a part of.
    """

    net: Network
    K: np.ndarray
    push: Push
    quadratic: Push
    weighted: bool
    tails: bool
    seed: int
    tolerance: float = TOLERANCE

    @property
    def Y(self) -> np.ndarray:
        """The change of the metric that makes the targets more probable."""
        at = self.push.point
        return at.u @ at.u.T - at.u.shape[1] * at.S


def exact(layer: Layered) -> Sums:
    """Averages of the quadratic part, with an axis of scrambles where directions are probed."""
    at, Q = layer.push.point, layer.quadratic
    u, targets = at.u, at.u.shape[1]
    own = [products(Q, u[:, i]) for i in range(targets)]
    of: Sums = {"inverse": np.array([at.T @ after_inverse(Q, one) for one in u.T])}
    of["between"] = _between(Q, own)
    spread, trace, A = [], [], at.train
    for probed in squares(Q, _probes(at.root, layer.seed, scrambles(len(layer.K)))):
        trace.append(np.einsum("ab,ab->", at.S, probed[A, A]))
        both = at.T @ probed @ at.T.T
        spread.append(both if at.whole else np.diagonal(both))
    of["within"] = np.array(spread)
    if layer.tails:
        pushed = Slope(Q.alpha, Q.beta)
        of["skew"], of["square"] = np.zeros((targets, len(at.T))), np.zeros(len(at.T))
        for b, T in enumerate(at.T):
            Y = np.outer(T, T)
            of["skew"][:, b] = 2 * T @ pushed.first(learned(Q, Y))[:, A] @ u
            of["square"][b] = 4 * weight_variance(Q, Y)
    if layer.weighted:
        of["learned"] = learned(Q, layer.Y)
        half = sum(np.einsum("ab,ab->", at.S, one[A, A]) for one in own)
        known = 0.5 * weight_variance(Q, layer.Y) - 0.5 * half
        of["evidence"] = known + 0.25 * targets * np.array(trace)
    return of


def _between(Q: Push, own: list[np.ndarray]) -> np.ndarray:
    r"""$\langle Du_i(Du_j)^T\rangle$, or of each test alone."""
    at = Q.point
    count, targets = len(at.T), len(own)
    found = np.empty((targets, targets, count, count) if at.whole else (targets, targets, count))
    for i in range(targets):
        for j in range(i, targets):
            both = at.T @ (own[i] if i == j else products(Q, at.u[:, i], at.u[:, j]))
            seen = both @ at.T.T if at.whole else np.einsum("ba,ba->b", both, at.T)
            found[i, j], found[j, i] = seen, seen.T
    return found


def _probes(root: np.ndarray, seed: int, count: int) -> Iterator[np.ndarray]:
    r"""Vectors $v$ with $\sum vv^T=S$ on average: exactly, of few samples, or random ones for each scramble."""
    rank = root.shape[1]
    if rank <= EXACT:
        yield root
        return
    for k in range(count):
        signs = np.random.default_rng((seed, k)).choice((-1.0, 1.0), size=(rank, PROBES))
        yield root @ signs / np.sqrt(PROBES)


def sampled(layer: Layered, sizes: dict[str, float]) -> tuple[Sums, int]:
    """Averages of the rest, with an axis of scrambles in front, and the number of points of each scramble.

    Args:
        layer: The layer.
        sizes: How large those averages are, without the rest, that the tolerance is asked of.
    """
    outputs, seed, count = layer.push.point.u.shape[1], layer.seed, scrambles(len(layer.K))
    runs = [
        _Run(Nodes(layer.K, seed + k), np.random.default_rng((seed, k, 1))) for k in range(count)
    ]
    # Each product of a matrix with vectors on the samples, for each neuron and again for its quadratic part.
    products = 4 * (4 + 6 * outputs) * count * len(layer.K) ** 2
    finer = min(max(1, round(TOLERANCE / layer.tolerance)), _FINEST)
    most = np.clip(1 << int(np.log2(max(finer * WORK / products, 1.0))), ALWAYS, finer * MOST)
    points = FIRST
    while True:
        for run in runs:
            run.extend(layer, points)
        if points >= most or all(
            _known(runs, name, size, layer.tolerance) for name, size in sizes.items()
        ):
            names = tuple(runs[0].sums)
            of = {x: np.array([run.sums.pop(x) for run in runs]) / points for x in names}
            return of, points
        points *= 2


@dataclass
class _Run:
    """One scramble, as far as it has been gone through."""

    nodes: Nodes
    signs: np.random.Generator
    done: int = 0
    sums: Sums = field(default_factory=dict)

    def extend(self, layer: Layered, points: int) -> None:
        """Up to so many points in all."""
        for z in self.nodes.draw(points - self.done):
            for name, value in _of_some(layer, z, self.signs):
                self.sums[name] = self.sums[name] + value if name in self.sums else value
        self.done = points


def _known(runs: list[_Run], name: str, size: float, tolerance: float) -> bool:
    value, error = combined(np.array([run.sums[name] / run.done for run in runs]))
    size = max(np.max(np.abs(value), initial=0.0), size)
    return bool(np.max(error, initial=0.0) <= tolerance * size)  # empty without tests


def _of_some(
    layer: Layered, z: np.ndarray, signs: np.random.Generator
) -> Iterator[tuple[str, np.ndarray]]:
    """Sums over some neurons, by name."""
    at, push, Q, s = layer.push.point, layer.push, layer.quadratic, layer.net.activation(z)
    A, targets = at.train, at.u.shape[1]

    def rest(v: np.ndarray) -> np.ndarray:
        return push.times(s, v) - Q.times(z, v)

    moved = [rest(one[:, None]) for one in at.u.T]
    inverse = [at.S @ one[A] for one in moved]
    yield "inverse", np.array([at.T @ (push.total(s, v) - Q.total(z, v)) for v in inverse])
    Du = np.array([at.T @ one for one in moved])
    yield "between", _outer(Du, whole=at.whole)
    if layer.tails:
        c = np.array(
            [push.form(Y, s) - Q.form(Y, z) for Y in (np.outer(T, T) for T in at.T)]
        ).reshape(len(at.T), -1)
        yield "skew", np.einsum("ibm,bm->ib", Du, c)
        yield "square", (c**2).sum(axis=1)
    probed = rest(at.root @ signs.choice((-1.0, 1.0), size=(at.root.shape[1], z.shape[1])))
    off = at.T @ probed
    yield "within", off @ off.T if at.whole else (off**2).sum(axis=1)
    square = s * s
    yield "aabb", square @ square.T
    yield "aaab", (square * s) @ s.T
    if layer.weighted:
        w = 0.5 * (push.form(layer.Y, s) - Q.form(layer.Y, z))
        yield "weight", w.sum()
        yield "weighted", (s * w) @ s.T
        yield "quadratic", (z * w) @ z.T
        trace = ((at.root.T @ probed[A]) ** 2).sum()
        half = sum((one[A] * v).sum() for one, v in zip(moved, inverse, strict=True))
        yield "evidence", 0.5 * (w**2).sum() + 0.25 * targets * trace - 0.5 * half


def _outer(Du: np.ndarray, *, whole: bool) -> np.ndarray:
    if not whole:
        return np.einsum("ibm,jbm->ijb", Du, Du)
    flat = Du.reshape(-1, Du.shape[-1])
    return (flat @ flat.T).reshape(2 * Du.shape[:2]).transpose(0, 2, 1, 3)
