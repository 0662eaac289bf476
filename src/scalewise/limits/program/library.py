r"""Programs that come up again and again: training of a network, written down once for every backend."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from scalewise.limits._checks import number, table
from scalewise.limits._losses import LOSSES
from scalewise.limits._network import Network, powers
from scalewise.limits.program._space import Space
from scalewise.limits.program._values import Matrix, Vector

__all__ = ["Training", "error_factor", "trained"]


@dataclass(frozen=True)
class Training:
    r"""Training one sample at a time, as a program.

    Args:
        net: The network; without biases, of equal widths, and one output.
        samples: $\xi_t$ of each step, (steps, features); each is taught once.
        targets: $y_t$, (steps,).
        watched: Inputs whose outputs are recorded before each step and at the end, (watched, features).
        eta: Learning rate.
        decoupled: Whether gradients are carried back by an independent copy of each matrix (Theorem F.1).
        loss: ``"mse"`` or ``"logistic"``.

    Raises:
        ValueError: If shapes disagree, a number is not finite, the loss another, or the network has biases,
            unequal widths or unequal rates.
    """

    net: Network
    samples: np.ndarray
    targets: np.ndarray
    watched: np.ndarray
    eta: float | int
    decoupled: bool = False
    loss: str = "mse"

    def __post_init__(self) -> None:
        for name in ("samples", "targets", "watched"):
            object.__setattr__(self, name, table(name, getattr(self, name)))
        X, y, watched = self.samples, self.targets, self.watched
        if X.ndim != 2 or watched.ndim != 2 or X.shape[1] != watched.shape[1] or not X.shape[1]:
            raise ValueError(
                "`samples` must have shape (steps, features) and `watched` (watched, features), with as many "
                f"features; got {X.shape} and {watched.shape}."
            )
        if y.shape != (len(X),):
            raise ValueError(
                f"`targets` must have one number for each of {len(X)} samples; got shape {y.shape}."
            )
        number("eta", self.eta, "a number")
        if self.loss not in LOSSES or self.loss == "cross_entropy":
            raise ValueError(f"`loss` must be mse or logistic, of one output; got {self.loss!r}.")
        net = self.net
        if any(net.has_biases) or {*net.ratios, *net.lambda_W} != {1.0}:
            raise ValueError(
                "A `Training` program is of a network without biases, of equal widths and rates (`ratios` and "
                "`lambda_W` 1). `train` has them all."
            )


def trained(job: Training, observe: Callable[..., Any] | None = None) -> Callable[[Space], Any]:
    r"""The program of training in the form without increments.

    $$h^\ell_t=W^\ell_0x^{\ell-1}_t-\eta\vartheta_\ell\sum_{s<t}\chi_s\langle x^{\ell-1}_s,x^{\ell-1}_t\rangle
    dh^\ell_s,$$
    $$dx^{\ell-1}_t=W^{\ell\top}_0dh^\ell_t-\eta\vartheta_\ell\sum_{s<t}\chi_s\langle dh^\ell_s,dh^\ell_t\rangle
    x^{\ell-1}_s .$$

    Args:
        job: What is trained on what.
        observe: A function of the space and of lists over steps of dictionaries (``x``, ``h``, ``dh``, ``dx`` by
            layer, ``back`` for $W^\top_0dh$ of the second layer, and ``chi``) that returns more scalars by name.

    Returns:
        A program that returns ``f``: outputs of the watched inputs over time.

    Source: Yang & Hu, *Tensor Programs IV*, N.4, N.5 without increments; F.1, F.2 for two hidden layers.

    Example:
        >>> import numpy as np
        >>> from scalewise.limits import Network, Exact, run
        >>> from scalewise.limits.program import Training, trained
        >>> from scalewise.scaling import mup
        >>> one = np.ones((2, 1))
        >>> job = Training(Network(mup(depth=2), "linear"), one, one[:, 0], one[:1], eta=0.1)
        >>> run(trained(job), Exact()).f.values.round(6).tolist()
        [[0.0], [0.2], [0.36288]]
    """

    def program(space: Space) -> dict[str, Any]:
        state = _State(space, job)
        steps, outputs = [], []
        for t in range(len(job.samples) + 1):
            outputs.append([state.forward(xi)[0] for xi in job.watched])
            if t < len(job.samples):
                steps.append(state.step(job.samples[t], job.targets[t]))
        found = {"f": outputs}
        if observe is not None:
            found |= observe(space, steps)
        return found

    return program


class _State:
    """Initial matrices and vectors, and every update as products of vectors of the program."""

    def __init__(self, space: Space, job: Training) -> None:
        self.space, self.job, self.L = space, job, job.net.hidden_layers
        self.at = powers(job.net.strategy, space.n)
        self.U = [space.vector(sigma=job.net.C_W[0] ** 0.5) for _ in range(job.samples.shape[1])]
        self.W: list[Matrix] = []
        self.back: list[Matrix] = []
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
        chi = error_factor(job.loss, f, target)
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
        self.last = self.last + (-job.eta * self.at.upsilon * chi) * xs[-1]
        return new

    def _weight(self, layer: int, old: dict[str, Any]) -> Any:
        return -self.job.eta * self.at.theta[layer] * old["chi"]


def error_factor(loss: str, f: Any, y: float | int) -> Any:
    r"""$\chi=\partial\mathcal L/\partial f$ as a scalar of the program."""
    if loss == "mse":
        return f - y
    value = LOSSES[loss].gradient(np.asarray(f.value)[..., None], np.asarray([y]))[..., 0]
    return type(f)(f.algebra, value)
