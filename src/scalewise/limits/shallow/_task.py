"""What a network with one hidden layer learns, and the reference network that fixes its constants."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from jaxtyping import Float, Int

from scalewise.activations import Activation, activation
from scalewise.limits._checks import array, is_number, is_whole, table, whole

__all__ = ["LAWS", "Reference", "Task", "independent_batches"]

LAWS = ("normal", "uniform")


@dataclass(frozen=True)
class Reference:
    r"""The network of width $d^*$ that a scaling starts from.

    $f=\sigma^*\sum_{r=1}^{d^*}\hat a_r\phi(\hat w_r\cdot x)$ with $\hat a_r,\hat w_{ri}$ independent, of mean 0 and
    variance 1, trained with rates $\hat\eta^*_a,\hat\eta^*_w$ of these hatted weights:
    $\hat\eta=\eta/\sigma^2_\theta$ where $\eta$ is the rate of the weights $\theta=\sigma_\theta\hat\theta$
    themselves. A variance of first weights other than 1 belongs into the inputs.

    Args:
        width: $d^*$, at least 1.
        sigma: $\sigma^*$, positive; output per unit of $\hat a\phi$.
        rate_a: $\hat\eta^*_a$, at least 0.
        rate_w: $\hat\eta^*_w$, at least 0.
        activation: $\phi$, a name or an `Activation`, continuous.
        law: Law of the weights, ``"normal"`` or ``"uniform"``. Kernels of limits take preactivations as
            Gaussian, which with uniform weights they are only for many features.

    Raises:
        ValueError: If a number is out of its range, the law is unknown, or the activation jumps.

    Source: Golikov (1)-(7).

    Example:
        >>> from scalewise.limits import shallow
        >>> shallow.Reference(width=64, rate_a=0.5, rate_w=0.5).sigma
        0.125
    """

    width: int
    sigma: float = math.nan
    rate_a: float = 1.0
    rate_w: float = 1.0
    activation: str | Activation = "leaky_relu(0.1)"
    law: str = "normal"

    def __post_init__(self) -> None:
        whole("Reference.width", self.width, 1, what="counts units")
        if is_number(self.sigma) and math.isnan(self.sigma):
            object.__setattr__(self, "sigma", self.width**-0.5)
        for name, lowest in (
            ("sigma", "positive"),
            ("rate_a", "at least 0"),
            ("rate_w", "at least 0"),
        ):
            value = getattr(self, name)
            good = is_number(value) and math.isfinite(value) and value >= 0
            if not good or (value == 0 and lowest == "positive"):
                raise ValueError(f"`Reference.{name}` must be finite and {lowest}; got {value!r}.")
        if self.sigma > 1e150:
            raise ValueError(f"`Reference.sigma` must have a finite square; got {self.sigma}.")
        if self.law not in LAWS:
            raise ValueError(f"`Reference.law` must be one of {', '.join(LAWS)}; got {self.law!r}.")
        if not self.phi.is_continuous:
            raise ValueError(
                f"`Reference.activation` must be continuous, for a step follows its slope; "
                f"{self.phi.name!r} jumps."
            )

    @property
    def phi(self) -> Activation:
        r"""$\phi$."""
        return activation(self.activation)


@dataclass(frozen=True, eq=False)
class Task:
    r"""Two classes to be told apart with the loss $\ell(y,z)=\ln(1+e^{-yz})$, and the samples of each step.

    Args:
        inputs: $x$, shape (sample, feature).
        labels: $y$, +1 or -1, shape (sample,).
        probes: Inputs where outputs are only looked at, shape (probe, feature).
        rows_a: Which samples step $k$ takes for $\hat a$, shape (step, batch): losses are averaged over them;
            ``None`` takes all of them in every step.
        rows_w: The same for $\hat w$; ``None`` takes those of `rows_a`.

    Raises:
        ValueError: If shapes do not fit, a label is neither 1 nor -1, an input is 0 or not finite, or a step
            takes a sample twice or one that is not there.
    """

    # Shapes are checked below, with sentences.
    inputs: Float[np.ndarray, ...]
    labels: Float[np.ndarray, ...] | Int[np.ndarray, ...]
    probes: Float[np.ndarray, ...] | None = None
    rows_a: Int[np.ndarray, ...] | None = None
    rows_w: Int[np.ndarray, ...] | None = None

    def __post_init__(self) -> None:
        x = table("Task.inputs", self.inputs, finite=False)
        y = table("Task.labels", self.labels, finite=False)
        if x.ndim != 2 or not x.size:
            raise ValueError(f"`Task.inputs` has shape (sample, feature); got {x.shape}.")
        if y.shape != x.shape[:1] or not np.all(np.abs(y) == 1):
            raise ValueError(
                f"`Task.labels` needs 1 or -1 for each of {len(x)} samples; got shape {y.shape} with "
                f"values {np.unique(y)[:4].tolist()}."
            )
        probes = np.empty((0, x.shape[1]))
        if self.probes is not None:
            probes = table("Task.probes", self.probes, finite=False)
            object.__setattr__(self, "probes", probes)
        object.__setattr__(self, "inputs", x)
        object.__setattr__(self, "labels", y)
        if probes.ndim != 2 or probes.shape[1] != x.shape[1]:
            raise ValueError(
                f"`Task.probes` needs {x.shape[1]} features like the inputs; got shape {probes.shape}."
            )
        for name, rows in (("inputs", x), ("probes", probes)):
            with np.errstate(over="ignore", invalid="ignore"):
                size = np.einsum("ij,ij->i", rows, rows)
            if not np.all(np.isfinite(size)) or np.any(size == 0):
                bad = int(np.argmin(np.isfinite(size) & (size > 0)))
                raise ValueError(
                    f"`Task.{name}` must be finite and none of them 0, for without a bias an output there "
                    f"is constant; row {bad} has |x|² = {size[bad]}."
                )
        for name in ("rows_a", "rows_w"):
            if getattr(self, name) is not None:
                object.__setattr__(self, name, _checked_rows(name, getattr(self, name), len(x)))
        if self.rows_a is None and self.rows_w is not None:
            raise ValueError("`Task.rows_w` needs `rows_a` beside it; give both, or neither.")
        if (
            self.rows_w is not None
            and self.rows_a is not None
            and len(self.rows_a) != len(self.rows_w)
        ):
            raise ValueError(
                f"`Task.rows_a` and `rows_w` must have the same number of steps; got {len(self.rows_a)} "
                f"and {len(self.rows_w)}."
            )

    @property
    def all_inputs(self) -> np.ndarray:
        """Samples, then probes."""
        return self.inputs if self.probes is None else np.concatenate([self.inputs, self.probes])

    def rows(self, step: int) -> tuple[np.ndarray, np.ndarray]:
        r"""The samples of step $k$ for $\hat a$ and for $\hat w$."""
        if self.rows_a is None:
            everything = np.arange(len(self.inputs))
            return everything, everything
        return self.rows_a[step], (self.rows_a if self.rows_w is None else self.rows_w)[step]

    def check_steps(self, steps: int) -> None:
        """Refuse more steps than there are batches."""
        if not is_whole(steps) or steps < 0:
            raise ValueError(f"`steps` must be a whole number of at least 0; got {steps!r}.")
        if self.rows_a is not None and steps > len(self.rows_a):
            raise ValueError(
                f"`steps` is {steps}, but the task has batches for {len(self.rows_a)} steps only."
            )


def _checked_rows(name: str, given: np.ndarray, samples: int) -> np.ndarray:
    rows = array(f"Task.{name}", given, ("step", "batch"), whole=True)
    if rows.ndim != 2 or not rows.size or rows.min() < 0 or rows.max() >= samples:
        raise ValueError(
            f"`Task.{name}` has shape (step, batch) and holds samples 0 to {samples - 1}; got shape "
            f"{rows.shape}" + (f" with {rows.min()} to {rows.max()}." if rows.size else ".")
        )
    ordered = np.sort(rows, axis=1)
    if np.any(ordered[:, 1:] == ordered[:, :-1]):
        raise ValueError(
            f"`Task.{name}` takes a sample twice in one step; draw without replacement."
        )
    return rows


def independent_batches(
    samples: int, steps: int, *, batch: int = 1, seed: int = 0
) -> tuple[Int[np.ndarray, "step batch"], Int[np.ndarray, "step batch"]]:
    r"""Batches for `Task`: at each step one for $\hat a$ and, independent of it, one for $\hat w$.

    Args:
        samples: How many there are.
        steps: Number of steps.
        batch: Samples of one step, without replacement.
        seed: Seed of the draw.

    Raises:
        ValueError: If a count is out of its range.

    Source: Golikov, Section 2, where the two gradients see independent samples.

    Example:
        >>> from scalewise.limits import shallow
        >>> [rows.shape for rows in shallow.independent_batches(8, 5, batch=2)]
        [(5, 2), (5, 2)]
    """
    for name, value, least in (("samples", samples, 1), ("steps", steps, 1), ("seed", seed, 0)):
        whole(name, value, least)
    if not is_whole(batch) or not 1 <= batch <= samples:
        raise ValueError(
            f"`batch` must be from 1 to the {samples} samples there are; got {batch!r}."
        )
    rng = np.random.Generator(np.random.Philox(seed))
    both = rng.random((2, steps, samples)).argsort(axis=-1)[..., :batch]
    return both[0], both[1]
