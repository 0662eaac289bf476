r"""Programs that come up again and again: training of a network, written down once for every backend."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from scalewise._checked import Index, checked
from scalewise.limits._descent import SGD
from scalewise.limits._loop import Job
from scalewise.limits._network import Architecture, powers
from scalewise.limits.program._space import Space
from scalewise.limits.program._values import ProgramMatrix, Vector
from scalewise.tasks import Loss, Task
from scalewise.tasks.spi import LOSSES

__all__ = ["error_factor", "sample_by_sample", "taught", "trained"]


@checked
def trained(
    net: Architecture,
    task: Task,
    sgd: SGD,
    *,
    steps: Index,
    decoupled: bool = False,
    observe: Callable[..., Any] | None = None,
) -> Callable[[Space], Any]:
    r"""The program of training in the form without increments.

    $$h^\ell_t=W^\ell_0x^{\ell-1}_t-\eta\vartheta_\ell\sum_{s<t}\chi_s\langle x^{\ell-1}_s,x^{\ell-1}_t\rangle
    dh^\ell_s,$$
    $$dx^{\ell-1}_t=W^{\ell\top}_0dh^\ell_t-\eta\vartheta_\ell\sum_{s<t}\chi_s\langle dh^\ell_s,dh^\ell_t\rangle
    x^{\ell-1}_s .$$

    Args:
        net: The network; without biases, of equal widths, and one output.
        task: Samples, of which each step teaches one; outputs of its `test_inputs` are returned.
        sgd: The rate; no momentum, no decay, no clipping.
        steps: How many.
        decoupled: Whether gradients are carried back by an independent copy of each matrix (Theorem F.1).
        observe: A function of the space and of lists over steps of dictionaries (``x``, ``h``, ``dh``, ``dx`` by
            layer, ``back`` for $W^\top_0dh$ of the second layer, and ``chi``) that returns more scalars by name.

    Returns:
        A program that returns ``f``: outputs of the test inputs over time, (time, test).

    Raises:
        TypeError: If an argument is another kind of thing.
        ValueError: If a step teaches several samples, there are several outputs, the descent is not plain, or the
            network has biases, unequal widths or unequal rates.

    Source: Yang & Hu, *Tensor Programs IV*, N.4, N.5 without increments; F.1, F.2 for two hidden layers.

    Example:
        >>> import numpy as np
        >>> from scalewise.limits import SGD, Architecture, Exact, run
        >>> from scalewise.tasks import Task
        >>> from scalewise.limits.program import trained
        >>> from scalewise.scaling import mup
        >>> net, task = Architecture(mup(depth=2), "linear"), Task([[1.0]], [1.0], test_inputs=[[1.0]])
        >>> run(trained(net, task, SGD(0.1), steps=2), Exact()).f.values.round(6).tolist()
        [[0.0], [0.2], [0.36288]]
    """
    job = sample_by_sample(net, task, sgd, steps, decoupled)

    def program(space: Space) -> dict[str, Any]:
        state = _State(space, job)
        seen, outputs = [], []
        for t in range(job.steps + 1):
            outputs.append([state.forward(xi)[0] for xi in task.test_inputs])
            if t < job.steps:
                i = int(taught(task, t)[0])
                seen.append(state.step(task.inputs[i], task.targets[i, 0]))
        found = {"f": outputs}
        if observe is not None:
            found |= observe(space, seen)
        return found

    return program


def sample_by_sample(net: Architecture, task: Task, sgd: SGD, steps: int, decoupled: bool) -> Job:
    """The training as a program can do it: plain descent on one sample after another.

    Args:
        net: Trained.
        task: What is taught.
        sgd: How.
        steps: How often.
        decoupled: Whether initial outputs are 0.
    """
    if task.targets.shape[1] != 1:
        raise ValueError(
            f"A program of training must have one output; `targets` have {task.targets.shape[1]} columns. Use "
            "`train`."
        )
    if any(len(taught(task, t)) != 1 for t in range(steps)):
        raise ValueError(
            "A program of training teaches one sample per step; give the task `batches` such as [[0], [1], [0]]."
        )
    if sgd != SGD(sgd.eta):
        raise ValueError(
            "A program of training is plain descent; set `momentum` and `weight_decay` of `sgd` to 0 and `clip` to "
            "None, or use `train`."
        )
    if any(net.has_biases) or {*net.ratios, *net.lambda_W} != {1.0}:
        raise ValueError(
            "A program of training is of a network without biases, of equal widths and rates (`ratios` and "
            "`lambda_W` 1). `train` has them all."
        )
    return Job(net=net, task=task, sgd=sgd, steps=steps, decoupled=decoupled)


def taught(task: Task, t: int) -> np.ndarray:
    """Indices of the samples of a `task` that teach at step `t`."""
    chosen = task.batch(t)
    return np.arange(len(task.inputs)) if chosen is None else chosen


class _State:
    """Initial matrices and vectors, and every update as products of vectors of the program."""

    def __init__(self, space: Space, job: Job) -> None:
        self.space, self.job, self.L = space, job, job.net.hidden_layers
        self.at = powers(job.net.strategy, space.n)
        self.U = [
            space.vector(sigma=job.net.C_W[0] ** 0.5) for _ in range(job.task.inputs.shape[1])
        ]
        self.W: list[ProgramMatrix] = []
        self.back: list[ProgramMatrix] = []
        for layer in range(2, self.L + 1):
            sigma = job.net.C_W[layer - 1] ** 0.5
            W = space.matrix(f"W{layer}", sigma=sigma, transposed=not job.decoupled)
            self.W.append(W)
            self.back.append(
                space.matrix(f"copy of W{layer}", sigma=sigma) if job.decoupled else W.T
            )
        self.last: Any = space.vector(sigma=job.net.C_W[-1] ** 0.5) * self.at.iota
        self.past: list[dict[str, Any]] = []

    def forward(self, xi: np.ndarray) -> tuple[Any, list[Vector], list[Vector]]:
        """Output, preactivations and features of one input."""
        h: Any = self.space.combine([float(v) for v in xi], self.U)
        hs, xs = [], []
        for layer in range(self.L):
            if layer:
                h = self.W[layer - 1] @ xs[-1]
                for old in self.past:
                    overlap = self.space.mean(old["x"][layer - 1] * xs[-1])
                    h = h + (self._weight(layer, old) * overlap) * old["dh"][layer]
            hs.append(h)
            xs.append(self.space.apply(self.job.net.activation, h))
        f = self.at.kappa * self.space.mean(self.last * xs[-1])
        return f, hs, xs

    def step(self, xi: np.ndarray, target: float | int) -> dict[str, Any]:
        """One step of gradient descent on one sample."""
        space, job = self.space, self.job
        f, hs, xs = self.forward(xi)
        chi = error_factor(job.task.loss, f, target)
        dh: list[Any] = [None] * self.L
        dxs: list[Any] = [None] * self.L
        dx, back = self.last, None
        for layer in reversed(range(self.L)):
            dxs[layer] = dx
            dh[layer] = dx * space.apply(job.net.activation, hs[layer], order=1)
            if layer:
                dx = back = self.back[layer - 1] @ dh[layer]
                for old in self.past:
                    overlap = space.mean(old["dh"][layer] * dh[layer])
                    dx = dx + (self._weight(layer, old) * overlap) * old["x"][layer - 1]
        new = {"h": hs, "x": xs, "dh": dh, "dx": dxs, "back": back, "chi": chi, "f": f}
        self.past.append(new)
        self.U = [
            u + (float(v) * self._weight(0, new)) * dh[0] for u, v in zip(self.U, xi, strict=True)
        ]
        self.last = self.last + (-job.sgd.eta * self.at.upsilon * chi) * xs[-1]
        return new

    def _weight(self, layer: int, old: dict[str, Any]) -> Any:
        return -self.job.sgd.eta * self.at.theta[layer] * old["chi"]


def error_factor(loss: Loss, f: Any, y: float | int) -> Any:
    r"""$\chi=\partial\mathcal L/\partial f$ of a `loss` at output `f` and target `y`, a scalar of the program."""
    if loss == LOSSES["mse"]:  # linear, so that it exists where scalars are polynomials
        return f - y
    value = loss.gradient(np.asarray(f.value)[..., None], np.asarray([y]))[..., 0]
    return type(f)(f.algebra, value)
