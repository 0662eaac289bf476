r"""Single neurons of a hidden layer, drawn from its Gaussian, and what each of them does to the last metric.

One of $n_\ell$ neurons with activations $s$ moves the metric right behind its layer by
$\frac{C_W}{n_\ell}(ss^T-\langle\sigma\sigma\rangle)$, and that of the last layer by $\frac1{n_\ell}\Delta$,

$$\Delta={\rm diag}(s)\,\beta\,{\rm diag}(s)+{\rm diag}(d)\,\alpha+\alpha^T{\rm diag}(d)
  -\beta\circ\langle\sigma\sigma\rangle,\qquad d_a=s_a^2-\langle\sigma_a^2\rangle,$$

with $C_W$ in the $\alpha,\beta$ of `_responses`. No $\Delta$ is ever made: its products with vectors are a few
matrix products for all neurons at once.

Source: PDLT (4.74)-(4.76), neuron by neuron; derived.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from jaxtyping import Float
from scipy import special

from scalewise.training.posterior._point import Point
from scalewise.training.posterior._responses import Response

NUMBERS = 1 << 21  # of one array by sample and neuron: a dozen of them are alive
Matrix = Float[np.ndarray, "sample sample"]
ByNeuron = Float[np.ndarray, "_sample _neuron"]


class Nodes:
    r"""Scrambled Sobol points of $z\sim N(0,K)$, as many as one likes, in pieces that fit the memory.

    Args:
        K: Covariance of the layer.
        seed: Of the scramble.
    """

    def __init__(self, K: Matrix, seed: int) -> None:
        from scipy.stats import qmc  # here, because its import takes as long as many a prediction

        value, vector = np.linalg.eigh(K)
        keep = value > 1e-15 * value[-1]
        # Largest variance on the first coordinate: Sobol points are most uniform there.
        self._root = (vector[:, keep] * np.sqrt(value[keep]))[:, ::-1]
        self._sobol = qmc.Sobol(self._root.shape[1], rng=np.random.default_rng(seed))
        self._most = 1 << max(4, int(np.log2(NUMBERS / len(K))))

    def draw(self, count: int) -> Iterator[ByNeuron]:
        """The next `count` points."""
        for start in range(0, count, self._most):
            uniform = self._sobol.random(min(self._most, count - start))
            normal = special.ndtri(np.clip(uniform, 1e-16, 1 - 1e-16))
            yield self._root @ normal.T


@dataclass(frozen=True)
class Push:
    r"""The change $\Delta$ of the last metric that fields $x$ with known second moments make, one for each neuron.

    Args:
        point: What is expanded about.
        means: $\langle x_ax_b\rangle$.
        alpha: $\alpha$, with all factors.
        beta: $\beta$, likewise.
        is_last: Whether the metric that they change is the last one: $\alpha=0$, and one number is $\beta$.
    """

    point: Point
    means: Matrix
    alpha: Matrix
    beta: Matrix
    is_last: bool

    @classmethod
    def by(cls, response: Response, point: Point, means: Matrix, scale: float = 1.0) -> Push:
        """The push of fields that change a metric by `scale` times their products."""
        return cls(point, means, scale * response.alpha, scale * response.beta, response.is_last)

    def times(self, x: ByNeuron, v: ByNeuron) -> ByNeuron:
        r"""$\Delta v$ on all samples, for one vector on the training samples, or one for each neuron."""
        A = self.point.train
        if self.is_last:
            along = np.einsum("am,am->m", x[A], np.broadcast_to(v, x[A].shape))
            return self.beta[0, 0] * (x * along) - self._centre[:, A] @ v
        d = self._d(x)
        found = self.beta[:, A] @ (x[A] * v)
        found *= x
        found += d * (self.alpha[:, A] @ v)
        found += self.alpha[A].T @ (d[A] * v)
        found -= self._centre[:, A] @ v
        return found

    def total(self, x: ByNeuron, v: ByNeuron) -> Float[np.ndarray, " sample"]:
        r"""$\Delta v$ on all samples, one vector for each neuron, summed over the neurons."""
        A = self.point.train
        if self.is_last:
            found = self.beta[0, 0] * (x @ np.einsum("am,am->m", x[A], v))
        else:
            d = self._d(x)
            found = np.einsum("ab,ab->a", self.beta[:, A], x @ (x[A] * v).T)
            found += np.einsum("ab,ab->a", self.alpha[:, A], d @ v.T)
            found += self.alpha[A].T @ np.einsum("am,am->a", d[A], v)
        return found - self._centre[:, A] @ v.sum(axis=1)

    def form(self, Y: Float[np.ndarray, "some some"], x: ByNeuron) -> np.ndarray:
        r"""$\sum Y_{ab}\Delta_{ab}$ for a symmetric $Y$ on the first samples: the training samples, or all."""
        A = slice(len(Y))
        W = self.weights(Y)
        return np.einsum("am,am->m", x[A], W @ x[A]) - np.einsum("ab,ab->", W, self.means[A, A])

    def weights(self, Y: Float[np.ndarray, "some some"]) -> Float[np.ndarray, "some some"]:
        r"""$W$ with $\sum Y_{ab}\Delta_{ab}=\sum W_{ab}(x_ax_b-\langle x_ax_b\rangle)$."""
        A = slice(len(Y))
        return Y * self.beta[A, A] + np.diag(2 * (Y * self.alpha[A, A]).sum(axis=1))

    def _d(self, x: ByNeuron) -> ByNeuron:
        return x * x - np.diagonal(self.means)[:, None]

    @cached_property
    def _centre(self) -> Matrix:
        return self.beta * self.means
