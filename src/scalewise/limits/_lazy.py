r"""A Gaussian matrix that is never drawn: it is revealed only in the directions somebody looks in.

Training multiplies a matrix with a few vectors per step, and moves it by products of those vectors. All that
is ever seen of $W$ is $We$ for the directions $e$ of the inputs and $W^\top f$ for the directions $f$ of the
gradients. Given these, a Gaussian matrix is what they say on those two spans and fresh noise beside them:

$$We=\sum_jf_j\langle W^\top f_j,e\rangle+P_F^\perp\xi .$$

That is the exact conditional law, so what is computed is equal in law to a matrix of any width, at a cost
linear in it. The first term is the correlation part of a tensor program, the second its Gaussian part.

The vectors are kept as they came, unless they lie nearly within the span of those before. Orthonormal directions
exist only as coordinates on them, through Cholesky factors of Gram matrices, and what $We$ has in the span of the
$f_j$ exists only as a small matrix: three skinny products per look, seldom five.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
from jaxtyping import Float

from scalewise._arrays import finite_array, real_array
from scalewise._checked import Count, Index, Positive, Precision, checked
from scalewise.limits._directions import DirectionsSeen, Side
from scalewise.limits._noise import ParticleNoise, generator

_FLOOR = {np.dtype(np.float64): 1e-5, np.dtype(np.float32): 1e-2}
_DEFAULT = {np.dtype(np.float64): 1e-4, np.dtype(np.float32): 1e-2}


class NotFiniteError(ValueError):
    """Vectors or weights that are not finite numbers: training has diverged, or an activation overflowed."""


@checked
class LazyMatrix:
    r"""A Gaussian matrix of entries $N(0,\sigma^2/n_\text{in})$ and its rank-one updates, revealed as needed.

    $$\begin{aligned}W_t&=s_tW_0+\tfrac1{n_\text{in}}F^\top R_tE,\\
    W_0e&=\sum_jf_j\tfrac{\langle W_0^\top f_j,e\rangle}{\vphantom{|}}+P_F^\perp\xi,\quad\xi\sim N(0,\sigma^2),\\
    W_0^\top f&=\rho\sum_ie_i\langle W_0e_i,f\rangle+P_E^\perp\psi,\quad\psi\sim N(0,\sigma^2\rho),\end{aligned}$$
    with $\rho=n_\text{out}/n_\text{in}$, directions $e_i$ and $f_j$ orthonormal under coordinate averages, and
    $\langle W_0^\top f_j,e\rangle$ the average over the output space of $f_j\odot W_0e$.

    Args:
        n_out: Width of the output space.
        n_in: Width of the input space.
        seed: An integer, a sequence of integers, or a NumPy `Generator` to draw from.
        sigma: $\sigma$, positive.
        tolerance: Directions whose part outside what is known is smaller than this, relative to the vector, are
            not revealed: 1e-4 by default, 1e-2 in single precision. A larger one compresses a long run, at
            an error of its own size in the product. What rounding may have made is never revealed.
        dtype: ``float64`` or ``float32``.
        capacity: Rows to allocate at first; they grow by doubling.
        antithetic: Draw equal noise for the two halves of the output space. A simulator of the limit then,
            no longer equal in law to a matrix: read-outs of opposite sign cancel its lowest-order noise.
        decoupled: Let $W^\top$ be an independent copy, as if products backward met another matrix.
        noise: What draws the numbers on the output and on the input space; by default both from `seed`.

    Raises:
        ValueError: If a width is below 1, `sigma` is not positive, `tolerance` is below what the precision
            carries or not below 1, or the type is another.

    Source: Yang & Hu, *Tensor Programs IV*, G.3 and (40) with $C=1$; the law is that of Bolthausen and of Bayati
        and Montanari. Rectangular factors, and coordinates instead of orthogonalised vectors: derived.

    Example:
        >>> import numpy as np
        >>> from scalewise.limits import LazyMatrix
        >>> W = LazyMatrix(1000, 1000, seed=0)
        >>> x = np.ones((1, 1000))
        >>> once, twice = W.forward(x)[0], W.forward(2 * x)[0]
        >>> bool(np.allclose(2 * once, twice)), W.directions
        (True, (1, 0))
    """

    def __init__(
        self,
        n_out: Count,
        n_in: Count,
        *,
        seed: Index | np.random.Generator | Sequence[Index],
        sigma: Positive = 1.0,
        tolerance: float | int | None = None,
        dtype: Precision = np.float64,
        capacity: Count = 16,
        antithetic: bool = False,
        decoupled: bool = False,
        noise: tuple[ParticleNoise, ParticleNoise] | None = None,
    ) -> None:
        self.dtype = np.dtype(dtype)
        self.tolerance = _tolerance(tolerance, self.dtype)
        if antithetic and n_out % 2:
            raise ValueError(f"`antithetic` needs two halves, so an even `n_out`; got {n_out}.")
        self.n_out, self.n_in, self.sigma = n_out, n_in, float(sigma)
        self.antithetic, self.decoupled = antithetic, decoupled
        self.rho = n_out / n_in
        self.scale = 1.0
        if noise is None:
            stream = generator(seed)
            noise = ParticleNoise(stream, n_out, paired=antithetic), ParticleNoise(stream, n_in)
        self._noise = noise
        self._in = Side(n_in, capacity, self.dtype)
        self._out = Side(n_out, capacity, self.dtype)
        # On (directions in, directions out): <e_i, psi_j>, <xi_i, f_j>, what W e_i has along f_j beside xi_i,
        # what W^T f_j has along e_i beside psi_j, the updates, and their velocity.
        self._e_psi, self._xi_f, self._along, self._back, self._moved = (
            np.zeros((capacity, capacity)) for _ in range(5)
        )
        self._velocity: np.ndarray | None = None
        self._drift = 0.0

    @property
    def directions(self) -> tuple[int, int]:
        """Numbers of directions that have been revealed, of the input and of the output space."""
        return self._in.count, self._out.count

    @property
    def nbytes(self) -> int:
        """Memory in use: four rows of numbers for each pair of directions, and small matrices."""
        return self._in.nbytes + self._out.nbytes + 5 * self._moved.nbytes

    def forward(
        self, X: Float[np.ndarray, "batch n_in"], *, keep: int | None = None
    ) -> tuple[Float[np.ndarray, "batch n_out"], Float[np.ndarray, "batch direction"]]:
        r"""$W_tx$ for each row, and the coordinates of the rows, which `update` takes.

        Args:
            X: Vectors of the input space, one a row.
            keep: Remember only the directions of so many rows, the first; the others get their noise and are
                forgotten, so that another look at them is independent. All by default.

        Returns:
            The products, equal in law to those with a real matrix, up to `tolerance`; and coordinates.

        Raises:
            ValueError: If the shape is another or a number is not finite.
        """
        near, far = self._in, self._out
        k, j = near.count, far.count
        look = self._look("X", X, near)
        noise = self._draw(far, len(look.kept), self._noise[0], self.sigma)
        b = len(noise)
        if b and j and not self.decoupled:
            new = slice(k, k + b)
            self._e_psi[new, :j] = look.inverse @ (look.images - look.left @ self._e_psi[:k, :j])
            self._xi_f[new, :j] = far.averages(noise) @ far.inverse.T
            self._along[new, :j] = self._e_psi[new, :j] / self.rho - self._xi_f[new, :j]
        if b:
            near.append(look)
        C = look.coordinates
        along = self._scaled(self._along[: k + b, :j]) + self._moved[: k + b, :j]
        Y = far.combine(C @ along @ far.inverse, self._scaled(C))
        if keep is not None:
            self._forget(k + int(np.searchsorted(look.kept, keep)))
        return Y, C

    def backward(
        self, Y: Float[np.ndarray, "batch n_out"]
    ) -> tuple[Float[np.ndarray, "batch n_in"], Float[np.ndarray, "batch direction"]]:
        r"""$W_t^\top y$ for each row, and the coordinates of the rows, which `update` takes.

        Args:
            Y: Vectors of the output space, one a row.

        Returns:
            As for `forward`.

        Raises:
            ValueError: If the shape is another or a number is not finite.
        """
        near, far = self._out, self._in
        k, i = near.count, far.count
        look = self._look("Y", Y, near)
        noise = self._draw(far, len(look.kept), self._noise[1], self.sigma * math.sqrt(self.rho))
        b = len(noise)
        if b and i and not self.decoupled:
            new = slice(k, k + b)
            self._xi_f[:i, new] = (
                look.inverse @ (look.images - look.left @ self._xi_f[:i, :k].T)
            ).T
            self._e_psi[:i, new] = (far.averages(noise) @ far.inverse.T).T
            self._back[:i, new] = self.rho * self._xi_f[:i, new] - self._e_psi[:i, new]
        if b:
            near.append(look)
        C = look.coordinates
        moved = self._moved[:i, : k + b]
        along = self._scaled(self._back[:i, : k + b]) + (
            moved if self.rho == 1.0 else self.rho * moved
        )
        return far.combine(C @ along.T @ far.inverse, self._scaled(C)), C

    def update(
        self,
        y: Float[np.ndarray, "_batch direction_out"],
        x: Float[np.ndarray, "_batch direction_in"],
        weights: Float[np.ndarray, " _batch"],
        *,
        momentum: float | int = 0.0,
        shrink: float | int = 0.0,
    ) -> None:
        r"""Move the matrix by products of vectors it has seen.

        $$V\leftarrow\mu V+\tfrac1{n_\text{in}}\sum_aw_ay_ax_a^\top-\kappa W,\qquad W\leftarrow W+V.$$

        Args:
            y: Coordinates from `backward`, one a row.
            x: Coordinates from `forward`.
            weights: $w_a$; minus learning rate and error factor belong here.
            momentum: $\mu$.
            shrink: $\kappa$, learning rate times weight decay; $W_0$ shrinks with the rest.

        Raises:
            ValueError: If a weight is not finite, shapes do not fit, or there are coordinates of directions that
                were never revealed.
        """
        y, x = self._revealed("y", y, self._out), self._revealed("x", x, self._in)
        weights = np.asarray(weights)
        if not len(y) == len(x) == weights.size or weights.ndim != 1:
            raise ValueError(
                "`y`, `x` and `weights` of an update need as many rows and numbers as there are products; got "
                f"shapes {y.shape}, {x.shape} and {weights.shape}."
            )
        if not np.isfinite(weights).all():
            raise NotFiniteError(
                "`weights` of an update must be finite numbers; the gradient has overflowed. Lower "
                "the learning rate."
            )
        self._grow()
        i, j = x.shape[1], y.shape[1]
        step = (x.T * weights) @ y
        if momentum == 0.0 and shrink == 0.0:
            self._moved[:i, :j] += step
            return
        if self._velocity is None:
            self._velocity = np.zeros_like(self._moved)
        self._velocity *= momentum
        self._velocity[:i, :j] += step
        self._velocity -= shrink * self._moved
        self._drift = momentum * self._drift - shrink * self.scale
        self._moved += self._velocity
        self.scale += self._drift

    def _look(self, name: str, vectors: np.ndarray, near: Side) -> DirectionsSeen:
        vectors = real_array(f"`{name}`", vectors)
        if vectors.ndim != 2 or vectors.shape[1] != near.width:
            raise ValueError(
                f"`{name}` must have shape (batch, {near.width}), one vector a row; got {vectors.shape}. "
                f"This matrix maps vectors of width {self.n_in} to width {self.n_out}."
            )
        with np.errstate(over="ignore", invalid="ignore"):
            look = near.look(vectors.astype(self.dtype, copy=False), self.tolerance)
        if look is None:
            raise NotFiniteError(
                f"`{name}` holds numbers that are not finite, or whose squares are not. Lower the learning "
                "rate, or see which nonlinearity overflows."
            )
        return look

    def _revealed(self, name: str, given: np.ndarray, side: Side) -> np.ndarray:
        """Coordinates on known directions; beyond these, those of rows that `keep` forgot are zeros."""
        found = finite_array(f"`{name}`", given, ("batch", "direction"))
        if found.shape[1] > len(self._moved) or np.any(found[:, side.count :]):
            raise ValueError(
                f"`{name}` of an update must be coordinates on the {side.count} directions revealed so far; "
                f"got shape {found.shape}. Take what `{'forward' if name == 'x' else 'backward'}` returned."
            )
        return found

    def _draw(self, far: Side, rows: int, noise: ParticleNoise, sigma: float | int) -> np.ndarray:
        """Images of new directions on the far side."""
        found = far.fresh(rows)
        if rows:
            noise.fill(found)
            if sigma != 1.0:
                found *= sigma
        self._grow()
        return found

    def _scaled(self, values: np.ndarray) -> np.ndarray:
        return values if self.scale == 1.0 else self.scale * values

    def _forget(self, count: int) -> None:
        k = self._in.count
        self._in.count = self._out.images = count
        for known in (self._e_psi, self._xi_f, self._along):
            known[count:k] = 0.0

    def _grow(self) -> None:
        size, old = max(self._in.images, self._out.images), len(self._moved)
        if size <= old:
            return
        size = max(size, 2 * old)
        for name in ("_e_psi", "_xi_f", "_along", "_back", "_moved", "_velocity"):
            array = getattr(self, name)
            if array is not None:
                new = np.zeros((size, size))
                new[:old, :old] = array
                setattr(self, name, new)


def _tolerance(given: float | int | None, dtype: np.dtype) -> float:
    if given is None:
        return _DEFAULT[dtype]
    if not _FLOOR[dtype] <= given < 1:
        raise ValueError(
            f"`LazyMatrix.tolerance` must lie from {_FLOOR[dtype]:g} (what {dtype} carries) to below 1; got "
            f"{given!r}."
        )
    return given
