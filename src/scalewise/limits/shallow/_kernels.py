"""Gaussian kernels of infinitely wide networks, and the outputs they start with."""

from __future__ import annotations

import numpy as np
from jaxtyping import Float

from scalewise._checked import Count, Index, checked
from scalewise.gaussian.spi import Places, Workspace, kernel_map
from scalewise.limits.shallow._reference import Reference
from scalewise.tasks import Task

_TILE = 256


@checked
def limit_kernels(
    reference: Reference,
    x: Float[np.ndarray, "input feature"],
    others: Float[np.ndarray, "other _feature"] | None = None,
) -> tuple[Float[np.ndarray, "input other"], Float[np.ndarray, "input other"]]:
    r"""Tangent kernels of infinitely wide networks at initialisation, in units of their own order.

    $$\tilde K_a=\sigma^{*2}d^*\,\mathbb E\,\phi(\hat w\cdot x)\phi(\hat w\cdot x'),\qquad
    \tilde K_w=\sigma^{*2}d^*\,\mathbb E\hat a^2\,\mathbb E\,\phi'(\hat w\cdot x)\phi'(\hat w\cdot x')\;x\cdot x'$$

    Args:
        reference: $d^*$, $\sigma^*$ and $\phi$.
        x: Inputs.
        others: Other inputs $x'$; the same for ``None``.

    Returns:
        $\tilde K_a$, $\tilde K_w$; closed form or Hermite series, rtol 1e-10.

    Raises:
        ValueError: If shapes do not fit, an input is 0, or a number is not finite.

    Source: Golikov (66), (67); (24) has lost $x\cdot x'$. Closed forms of piecewise linear $\phi$ derived.

    Example:
        >>> import numpy as np
        >>> from scalewise.limits import shallow
        >>> K_a, K_w = shallow.limit_kernels(shallow.Reference(1), np.array([[1.0, 0.5, -0.2]]),
        ...                                  np.array([[-0.3, 0.8, 0.4]]))
        >>> round(float(K_a[0, 0]), 10)
        0.144206289
    """
    for name, rows in (("x", x), ("others", x if others is None else others)):
        if rows.shape[1] != x.shape[1]:
            raise ValueError(
                f"`{name}` must have as many features as `x`, {x.shape[1]}; got {rows.shape[1]}."
            )
        if not rows.any(axis=1).all():
            raise ValueError(f"None of the rows of `{name}` may be 0. Drop them.")
        with np.errstate(over="ignore"):
            size = np.einsum("ij,ij->i", rows, rows)
        if not np.isfinite(size).all():
            raise ValueError(f"The squares of `{name}` overflow. Scale the inputs down.")
    both = x if others is None else np.concatenate([x, others])
    first = slice(0, len(both)) if others is None else slice(len(x), len(both))
    value, slope = expectations(reference, both, len(x), first)
    factor = reference.sigma**2 * reference.width
    return factor * value, factor * slope * (both[: len(x)] @ both[first].T)


def expectations(
    reference: Reference, table: np.ndarray, rows: int, columns: slice
) -> tuple[np.ndarray, np.ndarray]:
    r"""$\mathbb E\phi\phi$ and $\mathbb E\phi'\phi'$ of the first inputs with those of `columns`, tile by tile."""
    K = np.einsum("ij,ij->i", table, table)
    moments = kernel_map(reference.phi, K, slope=True)
    count = columns.stop - columns.start
    value, slope = np.empty((rows, count)), np.empty((rows, count))
    space = Workspace(moments.scratch, min(_TILE, rows) * count)
    for start in range(0, rows, _TILE):
        tile = slice(start, min(start + _TILE, rows))
        C = table[tile] @ table[columns].T
        dC = np.empty_like(C)
        moments.apply(Places(tile, columns), C, dC, space.take(C.shape))
        value[tile], slope[tile] = C, dC
    return value, slope


@checked
def draw_start(
    task: Task, reference: Reference, replicas: Count = 1, *, seed: Index = 0
) -> Float[np.ndarray, "replica sample output"]:
    r"""Initial outputs of infinitely wide networks in units of their own order, jointly at all inputs.

    $$g=\sigma^*d^{*1/2}\,\mathcal{GP}(0,\mathbb E\phi\phi)$$

    Args:
        task: Training samples, then test inputs.
        reference: $d^*$, $\sigma^*$ and $\phi$.
        replicas: How many draws.
        seed: Of the first; each of the others has the next.

    Raises:
        TypeError: If `task` or `reference` is another kind of thing.
        ValueError: If a count is out of range, or an input is 0.

    Source: Golikov (62), where $d^{*1/2}$ is missing and only the law of one input is given: a
        run needs all of them together.
    """
    K = limit_kernels(reference, task.all_inputs)[0]
    jitter = 1e-12 * np.trace(K) / len(K)
    try:
        root = np.linalg.cholesky(K + jitter * np.eye(len(K)))
    except np.linalg.LinAlgError:  # inputs that depend on each other linearly
        values, vectors = np.linalg.eigh(K)
        root = vectors * np.sqrt(np.maximum(values, 0.0))
    # The third stream of a seed; the first two are the weights' of a network.
    seeds = range(seed, seed + replicas)
    streams = [np.random.SeedSequence(s).spawn(3)[2] for s in seeds]
    noise = [np.random.Generator(np.random.Philox(s)).standard_normal(len(K)) for s in streams]
    return (np.stack(noise) @ root.T)[..., None]
