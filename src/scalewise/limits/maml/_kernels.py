r"""MAML of a kernel model: the Gaussian-process and neural-tangent baselines of few-shot learning.

$$f_Q(\xi)=\sum_{(\zeta,q)\in Q}q\,K(\zeta,\xi)$$
Training a linear layer on features of inner product $K$ only ever adds examples to $Q$: adaptation pushes
$(\xi_i,-\epsilon\chi_i)$ and pops them again, the meta-step pushes $(\hat\xi_i,-\rho\eta\hat\chi_i)$ of the
queries. $Q$ is an array that grows by doubling.

Printed, the queries are pushed and clipped task after task; the text around it adds the gradients of a batch
and clips once. The two differ, and both are here; the batch is the default.

Source: TP4 J.2.3, Algorithm 4.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Annotated, Any

import numpy as np
from jaxtyping import Float

from scalewise._arrays import finite_array
from scalewise._checked import Count, Index, Must, NotNegative, Precision, checked
from scalewise._readable import readable
from scalewise.limits._few_shot import Rate, softmax_loss
from scalewise.limits.maml._tasks import Maml, Tasks

Kernel = Annotated[
    Callable[[np.ndarray, np.ndarray], np.ndarray],
    Must("a function of two arrays of rows, such as limits.maml.ReluGP()"),
]
_TILE = 4096  # stored examples per product: the kernel of more would not stay in cache


@checked
@dataclass(frozen=True)
@readable
class ReluGP:
    r"""Kernel of the last features of a wide ReLU net: only the readout is trained.

    $$K(\xi,\zeta)=\mathbb E\,\phi(g)\phi(g'),\qquad (g,g')\sim\mathcal N(0,q),\quad
      q(\xi,\zeta)=\sigma_u^2\xi^\top\zeta+\sigma_b^2$$

    Args:
        sigma_u: $\sigma_u$ of the first layer.
        sigma_b: $\sigma_b$ of its biases.

    Source: TP4 J.2.3; the closed form is the arc-cosine kernel.

    Example:
        >>> import numpy as np
        >>> from scalewise.limits.maml import ReluGP
        >>> ReluGP(1.0, 0.0)(np.array([[1.0, 0.0]]), np.array([[1.0, 0.0], [0.0, 1.0]])).round(6).tolist()
        [[0.5, 0.159155]]
    """

    sigma_u: NotNegative = 1.0
    sigma_b: NotNegative = 1.0

    def __call__(
        self, x: Float[np.ndarray, "*task a input"], y: Float[np.ndarray, "*_"]
    ) -> Float[np.ndarray, "*task a b"]:
        """K of every pair of rows; axes in front are kept apart."""
        return ReluNTK(self.sigma_u, 0.0, self.sigma_b)(x, y)


@checked
@dataclass(frozen=True)
@readable
class ReluNTK:
    r"""Tangent kernel of a wide ReLU net with one hidden layer, all but the last bias trained.

    $$K(\xi,\zeta)=\mathbb E\,\phi(g)\phi(g')+\sigma_v^2(\xi^\top\zeta+1)\,\mathbb E\,\phi'(g)\phi'(g')$$

    Args:
        sigma_u: $\sigma_u$ of the first layer.
        sigma_v: $\sigma_v$ of the readout.
        sigma_b: $\sigma_b$ of the biases.

    Source: TP4 J.2.3; the trained biases are the 1, derived.

    Example:
        >>> import numpy as np
        >>> from scalewise.limits.maml import ReluNTK
        >>> float(ReluNTK(1.0, 1.0, 0.0)(np.ones((1, 1)), np.ones((1, 1)))[0, 0])
        1.5
    """

    sigma_u: NotNegative = 1.0
    sigma_v: NotNegative = 1.0
    sigma_b: NotNegative = 1.0

    def __call__(
        self, x: Float[np.ndarray, "*task a input"], y: Float[np.ndarray, "*_"]
    ) -> Float[np.ndarray, "*task a b"]:
        """K of every pair of rows; axes in front are kept apart."""
        size, cosine, dot = _geometry(x, y, self.sigma_u, self.sigma_b)
        beyond = math.pi - np.arccos(cosine)
        readout = size * (np.sqrt(1 - cosine**2) + beyond * cosine)  # 2 pi E phi(g) phi(g')
        return (readout + self.sigma_v**2 * (dot + 1) * beyond) / (2 * math.pi)


def _geometry(
    x: np.ndarray, y: np.ndarray, sigma_u: float, sigma_b: float
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """|g||g'|, cosine of the angle between them, and the product of the inputs."""
    x, y = finite_array("`x`", x), finite_array("`y`", y)
    if min(x.ndim, y.ndim) < 2 or x.shape[-1] != y.shape[-1] or x.ndim != y.ndim:
        raise ValueError(
            "A kernel takes two arrays of rows with equally many features, `x` and `y`, and equally many axes in "
            f"front; got shapes {x.shape} and {y.shape}."
        )
    with np.errstate(over="ignore", invalid="ignore"):
        dot = x @ y.swapaxes(-1, -2)
        squares = [sigma_u**2 * np.einsum("...i,...i->...", z, z) + sigma_b**2 for z in (x, y)]
        size = np.sqrt(squares[0])[..., :, None] * np.sqrt(squares[1])[..., None, :]
    if not np.isfinite(size).all():
        raise ValueError("The kernel overflows at these inputs. Scale them down.")
    q = sigma_u**2 * dot + sigma_b**2
    cosine = np.divide(q, size, out=np.ones_like(size), where=size > 0)
    return size, np.clip(cosine, -1, 1, out=cosine), dot


class _Buffer:
    """Rows that models share: one that has seen them all may add to them, any other copies."""

    def __init__(self, columns: tuple[int, ...], dtype: Any) -> None:
        self.parts = [np.empty((64, c), dtype) for c in columns]
        self.used = 0

    def extended(self, count: int, rows: tuple[np.ndarray, ...]) -> _Buffer:
        added = len(rows[0])
        target = self
        if count != self.used or count + added > len(self.parts[0]):
            target = _Buffer((), np.float64)
            room = max(2 * (count + added), 64)
            target.parts = [np.empty((room, part.shape[1]), part.dtype) for part in self.parts]
            for new, old in zip(target.parts, self.parts, strict=True):
                new[:count] = old[:count]
        for part, row in zip(target.parts, rows, strict=True):
            part[count : count + added] = row
        target.used = count + added
        return target


@checked
@dataclass(frozen=True)
@readable
class KernelModel:
    r"""$f_Q$: a kernel and the examples stored so far.

    Args:
        kernel: ``kernel(x, y)`` of rows, with axes in front kept apart.
        count: How many examples are stored.
    """

    kernel: Kernel
    count: int
    _buffer: _Buffer
    _such_as = "limits.maml.kernel_model(kernel, inputs, outputs)"

    @property
    def x(self) -> Float[np.ndarray, "stored input"]:
        r"""The inputs $\zeta$."""
        return self._buffer.parts[0][: self.count]

    @property
    def q(self) -> Float[np.ndarray, "stored output"]:
        """Their coefficients."""
        return self._buffer.parts[1][: self.count]

    @checked
    def extended(
        self, x: Float[np.ndarray, "_more _input"], q: Float[np.ndarray, "_more _output"]
    ) -> KernelModel:
        r"""The model with more examples stored: $Q\cup\{(\zeta,q)\}$; this one is not changed.

        Args:
            x: Inputs.
            q: Their coefficients, one row each.

        Raises:
            ValueError: If shapes do not fit.
        """
        if len(x) != len(q) or (x.shape[1], q.shape[1]) != (self.x.shape[1], self.q.shape[1]):
            raise ValueError(
                f"`x` and `q` must be equally many rows of {self.x.shape[1]} and {self.q.shape[1]} numbers; got "
                f"{x.shape} and {q.shape}."
            )
        buffer = self._buffer.extended(self.count, (x, q))
        return replace(self, count=self.count + len(x), _buffer=buffer)


@checked
def kernel_model(
    kernel: Kernel, inputs: Count, outputs: Count, *, dtype: Precision = np.float64
) -> KernelModel:
    r"""The empty model, $f_Q=0$.

    Args:
        kernel: `ReluGP`, `ReluNTK`, or any function of two arrays of rows.
        inputs: $d$, at least 1.
        outputs: $d_o$, at least 1.
        dtype: Of the stored rows.

    Source: TP4 Algorithm 4, line 1.

    Example:
        >>> from scalewise.limits.maml import ReluGP, kernel_model
        >>> kernel_model(ReluGP(), 784, 5).count
        0
    """
    return KernelModel(kernel, 0, _Buffer((inputs, outputs), dtype))


@checked
def kernel_outputs(
    model: KernelModel, x: Float[np.ndarray, "sample input"]
) -> Float[np.ndarray, "sample output"]:
    r"""$f_Q(\xi)=\sum_{(\zeta,q)}qK(\zeta,\xi)$, shape ``(sample, output)``.

    Args:
        model: The examples stored.
        x: Inputs.

    Raises:
        ValueError: If the inputs have another dimension.

    Source: TP4 J.2.3.
    """
    if x.shape[-1] != model.x.shape[1]:
        raise ValueError(
            f"`x` must have {model.x.shape[1]} features for this model; got {x.shape[-1]}."
        )
    x = x.astype(model.x.dtype, copy=False)
    f = np.zeros((len(x), model.q.shape[1]), model.x.dtype)
    for start in range(0, model.count, _TILE):
        rows = slice(start, start + _TILE)
        f += _values(model, x, model.x[rows]) @ model.q[rows]
    return f


def _values(model: KernelModel, x: np.ndarray, y: np.ndarray) -> np.ndarray:
    """The kernel of all pairs of rows, which must be one finite number each."""
    with np.errstate(over="ignore", invalid="ignore"):
        found = np.asarray(model.kernel(x, y))
    wanted = (*x.shape[:-1], y.shape[-2])
    if found.shape != wanted or not np.isfinite(found).all():
        raise ValueError(
            f"`kernel` must give one finite number for each pair of rows, shape {wanted}; got shape {found.shape}"
            f"{' with numbers that are not finite: scale the inputs down' if found.shape == wanted else ''}."
        )
    return found


@checked
def kernel_adapted_outputs(
    model: KernelModel, tasks: Tasks, *, steps: Index = 20, inner_rate: Rate = 0.4
) -> Float[np.ndarray, "task query output"]:
    r"""Outputs on the queries after adapting to each task on its own, from the meta-trained model each time.

    Args:
        model: The meta-trained model.
        tasks: Any number of them.
        steps: Of gradient descent on the support.
        inner_rate: $\epsilon$.

    Returns:
        Shape ``(task, query, output)``; exact.

    Raises:
        ValueError: If shapes do not fit, `steps` is negative, or adaptation diverges.

    Source: TP4 Algorithm 4, lines 5-20; several steps repeat lines 7-12.
    """
    X = np.concatenate([tasks.support, tasks.query], axis=1).astype(model.x.dtype, copy=False)
    T, m, D = X.shape
    s = tasks.support.shape[1]
    F = kernel_outputs(model, X.reshape(-1, D)).reshape(T, m, -1)
    K = _values(model, X, X[:, :s])
    with np.errstate(over="ignore", invalid="ignore"):
        for _ in range(steps):
            _, chi = softmax_loss(F[:, :s], tasks.support_class)
            F = F - inner_rate * K @ chi
    if not np.isfinite(F).all():
        raise ValueError(
            f"Adaptation diverged within {steps} steps: outputs are not finite. Lower `inner_rate`, which is "
            f"{inner_rate}."
        )
    return F[:, s:]


@checked
def kernel_step(
    model: KernelModel, tasks: Tasks, settings: Maml, *, batched: bool = True
) -> tuple[KernelModel, float]:
    r"""One meta-step over a batch of tasks.

    $$G^2=\sum_{ij}\hat\chi_i\cdot\hat\chi_j\,K(\hat\xi_i,\hat\xi_j),\qquad\rho=\min(1,g/G),\qquad
      Q\leftarrow Q\cup\{(\hat\xi_i,-\rho\eta\hat\chi_i)\}$$

    Args:
        model: Before the step.
        tasks: The batch.
        settings: Rates and clipping; first order only.
        batched: Whether the gradients of the tasks are added, clipped and applied together, as the text
            says; otherwise task after task, as Algorithm 4 is printed.

    Returns:
        The model after the step, and the mean loss of the queries before their push.

    Raises:
        ValueError: If the settings ask for the second order, or shapes do not fit.

    Source: TP4 Algorithm 4.
    """
    if settings.second_order:
        raise ValueError(
            "`maml.kernel_step` is Algorithm 4, which is first order; got `Maml.second_order=True`."
        )
    if not batched:
        losses = []
        for i in range(len(tasks.support)):
            one = slice(i, i + 1)
            task = Tasks(
                tasks.support[one],
                tasks.support_class[one],
                tasks.query[one],
                tasks.query_class[one],
            )
            model, value = kernel_step(model, task, settings)
            losses.append(value)
        return model, float(np.mean(losses))
    F = kernel_adapted_outputs(model, tasks, steps=1, inner_rate=settings.inner_rate)
    values, chi = softmax_loss(F, tasks.query_class)
    x = tasks.query.reshape(-1, tasks.query.shape[-1]).astype(model.x.dtype, copy=False)
    chi = chi.reshape(len(x), -1)
    with np.errstate(over="ignore", invalid="ignore"):
        square = float(np.vdot(chi @ chi.T, model.kernel(x, x)))
    if not math.isfinite(square):
        raise ValueError(
            f"The squared norm of the gradient is {square}: the kernel of the queries overflows. Scale the inputs "
            "of `tasks` down."
        )
    G = math.sqrt(max(square, 0.0))
    rate = settings.rate * (settings.clip / G if settings.clip < G else 1.0)
    keep = 1 - settings.rate * settings.weight_decay
    if keep != 1:
        fresh = kernel_model(model.kernel, x.shape[1], chi.shape[1], dtype=model.x.dtype.type)
        model = fresh.extended(model.x, keep * model.q)
    return model.extended(x, -rate * chi), float(np.mean(values))
