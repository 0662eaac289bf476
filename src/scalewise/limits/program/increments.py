r"""Training as a program of increments, with a scalar $\theta$ for every power of the width.

At finite width this is plain gradient descent, rearranged such that every vector has coordinates of order one in
every stable strategy. At infinite width each scalar is 0 or 1, and the same text gives feature learning and the
kernel regime alike.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from itertools import accumulate
from typing import Annotated, Any

import numpy as np
from jaxtyping import Float

from scalewise._checked import Index, checked
from scalewise._readable import readable
from scalewise.limits._descent import SGD
from scalewise.limits._loop import Job
from scalewise.limits._network import Architecture, Width, power
from scalewise.limits.program._space import Space
from scalewise.limits.program._values import ProgramMatrix, Vector
from scalewise.limits.program.library import error_factor, sample_by_sample, taught
from scalewise.scaling import Strategy, readout_exponents, update_exponents
from scalewise.tasks import Task

__all__ = ["Thetas", "incremental", "thetas"]


@checked
@dataclass(frozen=True)
@readable
class Thetas:
    r"""The scalars of the program of increments, tuples by hidden layer.

    Args:
        f: $\theta_f=n^{-\min(A,U)}$; 0 in the limit.
        h: $\theta_\ell$, by which $h^\ell$ and $x^\ell$ move.
        x_h: $\theta_{x^{\ell-1}/h^\ell}$.
        W_h: $\theta_{W^\ell/h^\ell}$.
        Wx_h: $\theta_{W^\ell x^{\ell-1}/h^\ell}$.
        iota: $n^{-A}/\theta_f$.
        last: $\theta_{L+1/f}$.
        f_last: $\theta'_{L+1}=n\theta_{L+1}$.
        f_features: $\theta'_{Lf}=n\theta_L\theta_f$.
    """

    f: float | int
    h: tuple[float, ...]
    x_h: tuple[float, ...]
    W_h: tuple[float, ...]
    Wx_h: tuple[float, ...]
    iota: float | int
    last: float | int
    f_last: float | int
    f_features: float | int


@checked
def thetas(strategy: Strategy, n: Width) -> Thetas:
    r"""The scalars of a stable strategy at width $n$, or their limits.

    Args:
        strategy: Stable.
        n: Width, or `math.inf`.

    Returns:
        Exact.

    Source: Yang & Hu, *Tensor Programs IV*, N.3. Where Assumption N.20 fails ($A>U$), $\theta_f=n^{-U}$ and initial
        last weights are multiplied with $\iota$ (derived).

    Example:
        >>> import math
        >>> from scalewise.limits.program import thetas
        >>> from scalewise.scaling import ntk
        >>> thetas(ntk(), math.inf).f_features, thetas(ntk(), math.inf).h
        (1.0, (0.0, 0.0))
    """
    A, U = readout_exponents(strategy)
    least, r_l = min(A, U), update_exponents(strategy)
    so_far = list(accumulate(r_l, min))
    below = [so_far[0], *so_far[:-1]]
    pairs = list(zip(r_l, so_far, below, strict=True))
    return Thetas(
        f=power(n, -least),
        h=tuple(power(n, -r) for r in so_far),
        x_h=tuple(power(n, here - under) for _, here, under in pairs),
        W_h=tuple(power(n, here - own) for own, here, _ in pairs),
        Wx_h=tuple(power(n, here - own - under) for own, here, under in pairs),
        iota=power(n, least - A),
        last=power(n, least - U),
        f_last=power(n, 1 - U),
        f_features=power(n, 1 - least - so_far[-1]),
    )


Start = Annotated[Any, Float[np.ndarray, " sample"]]


@checked
def incremental(
    net: Architecture, task: Task, sgd: SGD, *, steps: Index, start: Start | None = None
) -> Callable[[Space], Any]:
    r"""The program of training by increments.

    $$\delta h^\ell_t=\theta_{x/h}W_0\delta x^{\ell-1}_t-\eta\theta_{Wx/h}\sum_{s\le t-2}\chi_s\langle x^{\ell-1}_s,
    \delta x^{\ell-1}_t\rangle dh^\ell_s-\eta\chi_{t-1}\theta_{W/h}\langle x^{\ell-1}_{t-1},x^{\ell-1}_t\rangle
    dh^\ell_{t-1},$$
    $$h_t=h_{t-1}+\theta_\ell\delta h_t,\quad
    \delta x_t=\theta_\ell^{-1}(\phi(h_t)-\phi(h_{t-1}))\to\phi'(h)\delta h,$$
    $$\delta f_t=\theta'_{L+1}\langle\delta W_t,x_t\rangle+\theta'_{Lf}\langle\hat W_{t-1},\delta x_t\rangle .$$

    Args:
        net: The network; without biases, of equal widths, and one output.
        task: Samples, of which each step teaches one; outputs of its `test_inputs` are returned.
        sgd: The rate; no momentum, no decay, no clipping.
        steps: How many.
        start: Limits of the outputs at initialisation, of the samples and then of the test inputs: draws of a
            Gaussian process where $A=\frac12$. 0 by default. At finite width they are computed.

    Returns:
        A program that returns ``f``: outputs of the test inputs over time; and by step the two parts of their
        change, ``by_last`` through the last weights and ``by_features`` through the features.

    Raises:
        TypeError: If an argument is another kind of thing.
        ValueError: If `start` has another length, or as for `trained`.

    Source: Yang & Hu, *Tensor Programs IV*, N.4 and N.5; the parts of a change (59), (12). In (56) the
        sum over $s\le t-2$ is printed with $\theta_{W/h}$ and $x_t$ in place of $\theta_{Wx/h}$ and $\delta x_t$.

    Example:
        >>> import numpy as np
        >>> from scalewise.limits import SGD, Architecture, Infinite, run
        >>> from scalewise.tasks import Task
        >>> from scalewise.limits.program import incremental
        >>> from scalewise.scaling import ntk
        >>> net, task = Architecture(ntk(depth=2), "linear"), Task([[1.0]], [1.0], test_inputs=[[1.0]])
        >>> program = incremental(net, task, SGD(0.25), steps=1)
        >>> kernel = run(program, Infinite(0.02))  # one step of gradient descent with kernel 2
        >>> bool(abs(kernel.f.values[1, 0] - 0.5) < 0.1)
        True
    """
    job = sample_by_sample(net, task, sgd, steps, decoupled=False)
    inputs = np.concatenate([task.inputs, task.test_inputs])
    if start is not None and len(start) != len(inputs):
        raise ValueError(
            f"`start` needs an output for each of {len(inputs)} inputs, samples first; got {len(start)}."
        )

    def program(space: Space) -> dict[str, Any]:
        state = _Increments(space, job, inputs, start)
        watched = slice(len(task.inputs), None)
        outputs, by_last, by_features = [state.f[watched]], [], []
        for t in range(steps):
            last, moved = state.step(t)
            outputs.append(state.f[watched])
            by_last.append(last[watched])
            by_features.append(moved[watched])
        return {"f": outputs, "by_last": by_last, "by_features": by_features}

    return program


class _Increments:
    """Preactivations, features and outputs of every input, moved step by step."""

    def __init__(
        self, space: Space, job: Job, inputs: np.ndarray, start: np.ndarray | None
    ) -> None:
        self.space, self.job, self.inputs, self.L = space, job, inputs, job.net.hidden_layers
        self.theta = thetas(job.net.strategy, space.n)
        C_W = job.net.C_W
        U = [space.vector(sigma=C_W[0] ** 0.5) for _ in range(inputs.shape[1])]
        self.W: list[ProgramMatrix] = [
            space.matrix(f"W{layer}", sigma=C_W[layer - 1] ** 0.5, transposed=True)
            for layer in range(2, self.L + 1)
        ]
        self.last: Any = self.theta.iota * space.vector(sigma=C_W[-1] ** 0.5)
        self.h: list[list[Vector]] = []
        self.x: list[list[Vector]] = []
        for xi in inputs:
            h: list[Any] = [space.combine([float(v) for v in xi], U)]
            x: list[Vector] = []
            for layer in range(self.L):
                if layer:
                    h.append(self.W[layer - 1] @ x[-1])
                x.append(space.apply(job.net.activation, h[-1]))
            self.h.append(h)
            self.x.append(x)
        self.f: list[Any]
        if math.isinf(space.n):
            self.f = [space.scalar(0.0 if start is None else start[i]) for i in range(len(inputs))]
        else:
            scale = space.n * self.theta.f
            self.f = [scale * space.mean(self.last * x[-1]) for x in self.x]
        self.past: list[dict[str, Any]] = []

    def step(self, t: int) -> tuple[list[Any], list[Any]]:
        """One step: what it does to every output, through the last weights and the features."""
        space, job, th = self.space, self.job, self.theta
        i = int(taught(job.task, t)[0])
        chi = error_factor(job.task.loss, self.f[i], job.task.targets[i, 0])
        self.past.append(self._backward(i, chi))
        now = self.past[-1]
        delta_last = (-job.sgd.eta * chi) * now["x"][-1]
        by_last, by_features = [], []
        for i in range(len(self.inputs)):
            delta_x = self._forward(i)
            by_features.append(th.f_features * space.mean(self.last * delta_x))
            by_last.append(th.f_last * space.mean(delta_last * self.x[i][-1]))
        self.f = [
            sum(parts[1:], parts[0]) for parts in zip(self.f, by_last, by_features, strict=True)
        ]
        self.last = self.last + th.last * delta_last
        return by_last, by_features

    def _backward(self, i: int, chi: Any) -> dict[str, Any]:
        space, job, th = self.space, self.job, self.theta
        dh: list[Any] = [None] * self.L
        dx = self.last
        for layer in reversed(range(self.L)):
            dh[layer] = dx * space.apply(job.net.activation, self.h[i][layer], order=1)
            if layer:
                dx = self.W[layer - 1].T @ dh[layer]
                for old in self.past:
                    overlap = space.mean(old["dh"][layer] * dh[layer])
                    weight = -job.sgd.eta * th.W_h[layer] * th.h[layer] * old["chi"] * overlap
                    dx = dx + weight * old["x"][layer - 1]
        return {"dh": dh, "x": list(self.x[i]), "chi": chi, "xi": self.inputs[i]}

    def _forward(self, i: int) -> Vector:
        """Move one input through a step; the increment of its last features."""
        space, job, th = self.space, self.job, self.theta
        *before, now = self.past
        delta_x: Any = None
        for layer in range(self.L):
            if layer == 0:
                overlap: Any = float(now["xi"] @ self.inputs[i])
                delta_h = (-job.sgd.eta * overlap * now["chi"]) * now["dh"][0]
            else:
                delta_h = th.x_h[layer] * (self.W[layer - 1] @ delta_x)
                for old in before:
                    overlap = space.mean(old["x"][layer - 1] * delta_x)
                    weight = -job.sgd.eta * th.Wx_h[layer] * old["chi"] * overlap
                    delta_h = delta_h + weight * old["dh"][layer]
                overlap = space.mean(now["x"][layer - 1] * self.x[i][layer - 1])
                weight = -job.sgd.eta * th.W_h[layer] * now["chi"] * overlap
                delta_h = delta_h + weight * now["dh"][layer]
            h = self.h[i][layer]
            new = h + th.h[layer] * delta_h
            if th.h[layer]:
                x = space.apply(job.net.activation, new)
                delta_x = (x - self.x[i][layer]) / th.h[layer]
                self.h[i][layer], self.x[i][layer] = new, x
            else:
                delta_x = space.apply(job.net.activation, h, order=1) * delta_h
        return delta_x
