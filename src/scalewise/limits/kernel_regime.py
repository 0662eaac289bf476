r"""The kernel regime: strategies whose features do not move, trained at infinite width by a constant kernel.

$$f_{t+1}(\xi)=f_t(\xi)-\frac\eta P\sum_\mu\Theta(\xi,\xi_\mu)\,\chi_{t\mu},\qquad
  \Theta=[U=1]\,\Sigma^{LL}+[A+r=1]\sum_{\ell:\,r_\ell=r}\Sigma^{\ell-1,L}$$
The exponents alone say which layers of weights put their share into the kernel: all of them in the
neural-tangent strategy, all but the first in the standard one at rates $\eta/n$, the last alone in the GP limit.
Nothing is sampled but the initial outputs, a Gaussian process if $A=\frac12$ and 0 else.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
import xarray as xr
from jaxtyping import Float

from scalewise.activations import Activation
from scalewise.gaussian import pair_moments
from scalewise.limits._lazy import generator
from scalewise.limits.mlp import SGD, Network, Task
from scalewise.scaling import readout_exponents

__all__ = ["LayerKernels", "initial_kernel", "layer_kernels", "limit_kernel", "train_kernel"]

Kernel = Float[np.ndarray, "sample sample"]


@dataclass(frozen=True)
class LayerKernels:
    r"""Kernels of the layers of an infinitely wide network before training.

    Args:
        features: $G^0,\dots,G^L$: $G^0=\xi^\top\xi'$ and $G^\ell=\mathbb E\phi(Z^{h^\ell})\phi(Z^{h^\ell})$,
            ``(layer + 1, sample, sample)``.
        slopes: $D^1,\dots,D^L$: $C_W^{\ell+1}\,\mathbb E\phi'(Z^{h^\ell})\phi'(Z^{h^\ell})$,
            ``(layer, sample, sample)``.
    """

    features: Float[np.ndarray, "_layer sample sample"]
    slopes: Float[np.ndarray, "_hidden sample sample"]

    def sigma(self, m: int, l: int | None = None) -> Kernel:  # noqa: E741
        r"""$\Sigma^{ml}=G^m\prod_{j=m+1}^lD^j$: what weights $m+1$ teach layer $l+1$, $l=L$ by default.

        Args:
            m: From 0 to $l$.
            l: From 0 to $L$.

        Raises:
            ValueError: If the two are no layers in this order.
        """
        last = len(self.slopes)
        top = last if l is None else l
        if not 0 <= m <= top <= last:
            raise ValueError(
                f"`m` and `l` must be layers with 0 <= m <= l <= {last}; got m = {m}, l = {top}."
            )
        return self.features[m] * np.prod(self.slopes[m:top], axis=0)


def layer_kernels(net: Network, inputs: Any) -> LayerKernels:
    r"""Kernels of all hidden layers at initialisation.

    $$K^1=C_W^1\xi^\top\xi'+C_b^1,\quad G^\ell=\langle\phi\phi\rangle_{K^\ell},\quad
      D^\ell=C_W^{\ell+1}\langle\phi'\phi'\rangle_{K^\ell},\quad K^{\ell+1}=C_W^{\ell+1}G^\ell+C_b^{\ell+1}$$

    Args:
        net: The network; of its strategy nothing is used.
        inputs: ``(samples, features)``.

    Returns:
        `LayerKernels`; closed forms, Hermite series or quadrature, rtol 1e-10.

    Raises:
        ValueError: If `inputs` are not a finite matrix, an input has no preactivations, or the activation jumps.

    Source: TP4 Definition N.28; variances and biases as in the recursions of the neural tangent kernel.

    Example:
        >>> import numpy as np
        >>> from scalewise.limits import Network, layer_kernels
        >>> from scalewise.scaling import ntk
        >>> found = layer_kernels(Network(ntk(depth=2), "relu"), np.eye(2))
        >>> round(float(found.sigma(1)[0, 1]), 10)  # 1/2 pi
        0.1591549431
    """
    X = np.asarray(inputs, dtype=np.float64)
    if X.ndim != 2 or not X.size or not np.isfinite(X).all():
        raise ValueError(
            f"`inputs` must be a finite matrix of shape (samples, features); got shape {X.shape}"
            f"{'' if np.isfinite(X).all() else ' with numbers that are not finite'}."
        )
    if not net.activation.is_continuous:
        raise ValueError(
            f"The activation {net.activation.name!r} jumps, so gradients do not say how outputs move and no "
            "kernel of gradients is the limit. Take a continuous activation."
        )
    K = net.C_W[0] * (X @ X.T) + net.C_b[0]
    if np.any(np.diag(K) == 0):
        raise ValueError(
            f"Input {int(np.argmin(np.diag(K)))} is a vector of zeros and C_b = 0 in the first layer, so it has "
            "no preactivations. Drop it, or give `Network` a C_b above 0."
        )
    features, slopes = [X @ X.T], []
    for C_W, C_b in zip(net.C_W[1:], net.C_b[1:], strict=True):
        G, slope = _moments(net.activation, K)
        features.append(G)
        slopes.append(C_W * slope)
        K = C_W * G + C_b
    return LayerKernels(np.array(features), np.array(slopes))


def _moments(sigma: Activation, K: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Products of values and of slopes for all pairs, of which half are computed."""
    i, j = np.triu_indices(len(K))
    found = pair_moments(sigma, K[i, i], K[j, j], K[i, j], ((0, 0), (1, 1)))
    G, slope = np.empty_like(K), np.empty_like(K)
    G[i, j] = G[j, i] = found[0, 0].value
    slope[i, j] = slope[j, i] = found[1, 1].value
    return G, slope


def initial_kernel(net: Network, inputs: Any) -> Kernel:
    r"""Covariance of the initial outputs: $C_W^{L+1}G^L+C_b^{L+1}$ if $A=\frac12$, and 0 else.

    Args:
        net: The network, in any stable strategy.
        inputs: ``(samples, features)``.

    Returns:
        ``(sample, sample)``, output², the same for every output; accuracy of `layer_kernels`.

    Raises:
        ValueError: As for `layer_kernels`.

    Source: TP4 N.4.1, Theorem N.6.

    Example:
        >>> import numpy as np
        >>> from scalewise.limits import Network, initial_kernel
        >>> from scalewise.scaling import mup, ntk
        >>> [initial_kernel(Network(s, "relu"), np.eye(1)).item() for s in (ntk(depth=2), mup(depth=2))]
        [0.5, 0.0]
    """
    G = layer_kernels(net, inputs).features[-1]
    if readout_exponents(net.strategy)[0] * 2 != 1:
        return np.zeros_like(G)
    return net.C_W[-1] * G + net.C_b[-1]


def limit_kernel(net: Network, inputs: Any) -> Kernel:
    r"""The kernel whose gradient descent is training at infinite width, for any stable strategy with $r>0$.

    $$\Theta=[U=1]\,\lambda_W^{L+1}\Sigma^{LL}+\sum_{\ell\le L}[A+r_\ell=1]\,\lambda_W^\ell\,\Sigma^{\ell-1,L}
      +\sum_{\ell\le L}[A+r^b_\ell=1]\,\lambda_b^\ell\prod_{j=\ell}^LD^j+[q^b_{L+1}=r']\,\lambda_b^{L+1},$$
    where $r_\ell$ are the `update_exponents`, $r^b_\ell$ the same with the exponents of biases and $r'$ the
    exponent of the global rate.

    Args:
        net: The network.
        inputs: ``(samples, features)``.

    Returns:
        ``(sample, sample)``, dimensionless; accuracy of `layer_kernels`. All 0 for a trivial strategy.

    Raises:
        ValueError: If features move ($r=0$): no kernel describes that training. Else as for `layer_kernels`.

    Source: TP4 Theorem N.31, N.34, with its flags reduced to exponents; variances, rates and biases derived.

    Example:
        >>> import numpy as np
        >>> from scalewise.limits import Network, limit_kernel
        >>> from scalewise.scaling import ntk
        >>> limit_kernel(Network(ntk(depth=2), "relu"), np.eye(1)).round(12).item()  # 1/2 + 1/2
        1.0
    """
    _refuse_moving_features(net)
    kernels = layer_kernels(net, inputs)
    strategy = net.strategy
    A, U = readout_exponents(strategy)
    least, last = min(A, U), strategy.depth - 1
    theta = np.zeros_like(kernels.features[0])
    for layer in range(last):
        back = np.prod(kernels.slopes[layer:], axis=0)
        if A + least + strategy.q[layer] - strategy.r == 1:
            theta += net.lambda_W[layer] * kernels.features[layer] * back
        if A + least + strategy.q_bias[layer] - strategy.r == 1:
            theta += net.lambda_b[layer] * back
    if U == 1:
        theta += net.lambda_W[last] * kernels.features[last]
    if strategy.q_bias[last] == strategy.r:
        theta += net.lambda_b[last]
    return theta


def train_kernel(
    net: Network,
    task: Task,
    sgd: SGD,
    *,
    steps: int,
    every: int = 1,
    start: Any = None,
    replicas: int = 1,
    seed: int = 0,
) -> xr.Dataset:
    r"""Train a network of infinite width in the kernel regime: outputs and loss over time, no weights.

    $$g_t=\tfrac1P\chi_t\min(1,c/\lVert g\rVert),\quad v_t=\mu v_{t-1}-\eta\,\Theta g_t,\quad f_{t+1}=f_t+v_t,\qquad
      \lVert g\rVert^2=\tfrac1{P^2}\chi_t^\top\Theta\chi_t$$
    Initial outputs are drawn jointly for all inputs where they do not vanish; given them, nothing is random.

    Args:
        net: The network, in a strategy with $r>0$.
        task: Samples, watched inputs, batches (single samples included) and any loss.
        sgd: The descent; no weight decay.
        steps: How many, at least 0.
        every: Record every so many steps, and the last.
        start: $f_0$ of training samples, then test inputs: ``(samples, outputs)`` or
            ``(replicas, samples, outputs)``. By default drawn from `initial_kernel`.
        replicas: How many independent draws of $f_0$; with `start`, its own number counts.
        seed: Of the draws, at least 0.

    Returns:
        Dataset over (replica, time, sample, output): ``logits``, ``loss`` over (replica, time), ``kernel`` and
        ``initial_kernel`` over (sample, sample_1). Exact given the kernel, of rtol 1e-10.

    Raises:
        ValueError: If features move, weights decay (the kernel would shrink with them), a count is out of range,
            `start` has another shape or is not finite, or training diverges (the step is named).

    Source: TP4 Theorem N.31, N.34 (where $f_0\to0$ is meant), N.4.1; momentum and clipping derived.

    Example:
        >>> import numpy as np
        >>> from scalewise.limits import Network, SGD, Task, train_kernel
        >>> from scalewise.scaling import ntk
        >>> task = Task(np.eye(1), np.ones(1))
        >>> found = train_kernel(Network(ntk(depth=2), "relu"), task, SGD(0.5), steps=2, start=[[0.0]])
        >>> found.logits.values.ravel().round(12).tolist()
        [0.0, 0.5, 0.75]
    """
    for name, value, least in (("steps", steps, 0), ("every", every, 1),
                               ("replicas", replicas, 1), ("seed", seed, 0)):  # fmt: skip
        if value < least:
            raise ValueError(f"`{name}` must be at least {least}; got {value}.")
    if sgd.weight_decay:
        raise ValueError(
            "Weight decay shrinks the initial weights and the kernel with them, so no constant kernel is the "
            f"limit; got weight_decay = {sgd.weight_decay}. Set it to 0, or train at a finite width."
        )
    X = np.concatenate([task.inputs, task.test_inputs])
    theta, K = limit_kernel(net, X), initial_kernel(net, X)
    shape = (len(X), task.targets.shape[1])
    f = _drawn(K, (replicas, *shape), seed) if start is None else _given(start, shape)
    time, logits = [], []
    v = np.zeros_like(f)
    for t in range(steps + 1):
        if not np.isfinite(f).all():
            raise ValueError(
                f"Outputs are not finite at step {t}: training diverged. Lower `eta` (it is {sgd.eta})."
            )
        if t % every == 0 or t == steps:
            time.append(t)
            logits.append(f.copy())
        if t < steps:
            with np.errstate(over="ignore", invalid="ignore"):
                v = sgd.momentum * v + _change(theta, f, task, sgd, t)
                f = f + v
    return _dataset(net, task, time, np.stack(logits, axis=1), (theta, K))


def _change(theta: np.ndarray, f: np.ndarray, task: Task, sgd: SGD, t: int) -> np.ndarray:
    """What one step adds to all outputs."""
    chosen = task.batch(t)
    rows = np.arange(len(task.inputs)) if chosen is None else np.asarray(chosen, dtype=np.intp)
    errors = task.loss.gradient(f[:, rows], task.targets[rows]) / len(rows)
    if sgd.clip is not None:
        square = np.einsum("rio,ij,rjo->r", errors, theta[np.ix_(rows, rows)], errors)
        norm = np.sqrt(np.maximum(square, 0.0))
        errors = errors * (sgd.clip / np.maximum(norm, sgd.clip))[:, None, None]
    return -sgd.eta * (theta[:, rows] @ errors)


def _drawn(K: np.ndarray, shape: tuple[int, int, int], seed: int) -> np.ndarray:
    """Outputs with covariance K over the samples, independent over replicas and outputs."""
    values, vectors = np.linalg.eigh(K)
    root = vectors * np.sqrt(np.maximum(values, 0.0))
    streams = [generator((seed, k)) for k in range(shape[0])]
    return np.stack([root @ s.standard_normal(shape[1:]) for s in streams])


def _given(start: Any, shape: tuple[int, int]) -> np.ndarray:
    f = np.array(start, dtype=np.float64)
    if f.ndim not in (2, 3) or f.shape[-2:] != shape or not f.size:
        raise ValueError(
            f"`start` must have shape {shape}, samples then test inputs by outputs, or one such table for each "
            f"replica; got {f.shape}."
        )
    if not np.isfinite(f).all():
        raise ValueError("`start` must hold finite numbers only.")
    return f if f.ndim == 3 else f[None]


def _refuse_moving_features(net: Network) -> None:
    found = net.strategy.classify()
    if found.r == 0:
        raise ValueError(
            f"The strategy {net.strategy} is no kernel regime: {found.reasons[-1]} No constant kernel describes "
            "its training; use `scalewise.limits.train` with on=infinite(...)."
        )


def _dataset(
    net: Network, task: Task, time: list[int], logits: np.ndarray, kernels: tuple[Any, Any]
) -> xr.Dataset:
    y = task.targets
    loss = task.loss.value(logits[:, :, : len(y)], y).mean(axis=-1)
    square = ("sample", "sample_1")
    units = {"units": "dimensionless"}
    return xr.Dataset(
        {
            "logits": (("replica", "time", "sample", "output"), logits, units | {"symbol": "f_t"}),
            "loss": (("replica", "time"), loss, units | {"symbol": "L_t"}),
            "kernel": (square, kernels[0], units | {"symbol": "Theta"}),
            "initial_kernel": (square, kernels[1], units | {"symbol": "K^(L+1)"}),
        },
        coords={"time": time, "is_test": ("sample", np.arange(logits.shape[2]) >= len(y))},
        attrs={
            "width": math.inf,
            "strategy": str(net.strategy),
            "activation": str(net.activation),
            "regime": str(net.strategy.classify().regime),
            "loss": task.loss.name,
        },
    )
