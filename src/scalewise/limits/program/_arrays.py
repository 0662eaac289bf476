r"""Values that are arrays: coordinates of real vectors, or samples of the random variables $Z$."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from scalewise.activations import activation
from scalewise.limits._lazy import LazyMatrix
from scalewise.limits._real import RealMatrix
from scalewise.limits.program._values import ValueProduct

Draw = Callable[[int, int, float, bool], ValueProduct]


class Arrays:
    r"""Vectors as arrays (…, width), with an axis of seeds in front where there are many.

    `n` is what the program is told its width is, `math.inf` where values are samples of a limit; `product` makes a
    matrix from widths out and in, $\sigma$, and whether its transpose is used.
    """

    def __init__(
        self,
        width: int,
        n: float | int,
        *,
        streams: Sequence[np.random.Generator],
        seeds: bool,
        product: Draw,
    ) -> None:
        self.width, self.n, self.streams = width, n, streams
        self.seeds, self._product = seeds, product

    def spread(self, scalar: Any) -> Any:
        """One number per seed, broadcast over coordinates."""
        return scalar[..., None] if isinstance(scalar, np.ndarray) else scalar

    def mean(self, vector: np.ndarray) -> Any:
        """The coordinate average, one per seed."""
        with np.errstate(over="ignore", invalid="ignore"):
            found = vector.mean(axis=-1)
        return found if self.seeds else float(found)

    def size(self, ratio: float | int) -> int:
        """Width of a space."""
        return round(self.width * ratio)

    def gaussians(self, covariance: np.ndarray, ratio: float | int) -> list[np.ndarray]:
        """Vectors whose rows are independent draws of a Gaussian vector."""
        values, vectors = np.linalg.eigh(covariance)
        root = vectors * np.sqrt(np.maximum(values, 0.0))
        shape = (len(covariance), self.size(ratio))
        drawn = [root @ s.standard_normal(shape) for s in self.streams]
        together = np.stack(drawn, axis=1) if self.seeds else drawn[0]
        return list(together)

    def matrix(
        self, ratios: tuple[float | int, float | int], sigma: float | int, transposed: bool
    ) -> ValueProduct:
        """A Gaussian matrix."""
        return self._product(self.size(ratios[0]), self.size(ratios[1]), sigma, transposed)

    def apply(self, phi: Any, order: int, arguments: list[Any]) -> np.ndarray:
        """A nonlinearity, coordinate by coordinate."""
        with np.errstate(over="ignore", invalid="ignore"):
            if not order and callable(phi):
                found = np.asarray(phi(*arguments))
                shape = np.broadcast_shapes(*(np.shape(a) for a in arguments))
                if found.shape != shape:
                    name = getattr(phi, "__name__", type(phi).__name__)
                    raise ValueError(
                        f"A nonlinearity goes coordinate by coordinate, and {name} took arrays of shape "
                        f"{shape} to {found.shape}. Averages are mean(x), and constants are numbers."
                    )
                return found
            return activation(phi).derivative(arguments[0], order)


class OneVector:
    """Products of real matrices, one for each seed, or of a lazily revealed one, with a single vector."""

    def __init__(self, matrix: RealMatrix | LazyMatrix) -> None:
        self.matrix = matrix

    def times(self, x: np.ndarray) -> np.ndarray:
        """$Wx$."""
        return self.matrix.forward(x[..., None, :])[0][..., 0, :]

    def transposed_times(self, y: np.ndarray) -> np.ndarray:
        r"""$W^\top y$."""
        return self.matrix.backward(y[..., None, :])[0][..., 0, :]


class ReferenceProduct:
    r"""The rules of tensor programs as they are printed, on samples of $Z$.

    $$Z^{Wx}=\hat Z^{Wx}+\dot Z^{Wx},\qquad\dot Z^{Wx}=\sum_ia_iZ^{y^i},\quad a=\rho^{-1}C^+b,\quad
    C_{ij}=\mathbb EZ^{y^i}Z^{y^j},\quad b_i=\mathbb E\hat Z^{W^\top y^i}Z^x,$$
    over all $W^\top y^i$ so far, and $\hat Z^{Wx}$ Gaussian given the earlier $\hat Z^{Wx'}$ with covariance
    $\sigma^2\mathbb EZ^xZ^{x'}$, independent of everything else. Expectations are sample means; in small samples
    the empirical Gram matrix overfits.

    Source: Yang & Hu, *Tensor Programs IV*, G.3, ZHat, ZDot (33) and (40); $\rho=n_\text{out}/n_\text{in}$ derived.
    """

    def __init__(
        self, n_out: int, n_in: int, sigma: float | int, stream: np.random.Generator
    ) -> None:
        self.rho, self.sigma, self.stream = n_out / n_in, sigma, stream
        self._forward: list[tuple[np.ndarray, np.ndarray]] = []  # x and hat Z of W x
        self._backward: list[tuple[np.ndarray, np.ndarray]] = []  # y and hat Z of W^T y
        self.n_out, self.n_in = n_out, n_in

    def times(self, x: np.ndarray) -> np.ndarray:
        """$Z^{Wx}$."""
        dot = _correlated(x, self._backward, self.n_out) / self.rho
        hat = self._hat(x, self._forward, self.n_out, self.sigma)
        self._forward.append((x, hat))
        return hat + dot

    def transposed_times(self, y: np.ndarray) -> np.ndarray:
        r"""$Z^{W^\top y}$."""
        dot = _correlated(y, self._forward, self.n_in) * self.rho
        hat = self._hat(y, self._backward, self.n_in, self.sigma * math.sqrt(self.rho))
        self._backward.append((y, hat))
        return hat + dot

    def _hat(
        self,
        x: np.ndarray,
        seen: list[tuple[np.ndarray, np.ndarray]],
        size: int,
        sigma: float | int,
    ) -> np.ndarray:
        fresh = self.stream.standard_normal(size)
        variance = float((x * x).mean())
        if not seen:
            return sigma * math.sqrt(variance) * fresh
        old = np.stack([a for a, _ in seen])
        weights = _solved(old @ old.T / x.size, old @ x / x.size)
        left = max(variance - float(weights @ (old @ x)) / x.size, 0.0)
        known = weights @ np.stack([hat for _, hat in seen])
        return known + sigma * math.sqrt(left) * fresh


def _correlated(x: np.ndarray, seen: list[tuple[np.ndarray, np.ndarray]], size: int) -> np.ndarray:
    """Sum of a_i Z^{y^i} by Stein's lemma, over every y^i whose product came before x."""
    if not seen:
        return np.zeros(size)
    Y = np.stack([y for y, _ in seen])
    b = np.array([hat @ x for _, hat in seen]) / x.size
    return _solved(Y @ Y.T / size, b) @ Y


def _solved(gram: np.ndarray, b: np.ndarray) -> np.ndarray:
    return np.linalg.pinv(gram, rcond=1e-10, hermitian=True) @ b
