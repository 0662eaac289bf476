r"""Evidence of the targets: its derivatives, odds of hypotheses, and each sample left out once.

At infinite width the outputs of a network are $n_L$ independent Gaussian processes with kernel $K$, so with
$S=(\tilde K+\sigma_\varepsilon^2)^{-1}$

$$\log p(y|\mathcal H)=-\frac{n_L}2\log|2\pi S^{-1}|-\frac12\sum_iy_i^TSy_i .$$
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Any

import numpy as np
import xarray as xr
from jaxtyping import Float

from scalewise._checked import FiniteNumber, NotNegative, checked
from scalewise._labelled import dataset
from scalewise.training._posteriors import REMEDY
from scalewise.training._spectrum import Spectrum, refuse_singular, spectrum

Kernel = Annotated[Any, Float[np.ndarray, "sample sample_1"]]
Targets = Annotated[Any, Float[np.ndarray, "sample output"]]


@checked
def log_evidence(
    kernel: Kernel,
    targets: Targets,
    *,
    noise_variance: NotNegative = 0.0,
    per_sample: bool = False,
) -> float:
    r"""The logarithm of the probability density of the targets before training.

    Args:
        kernel: $\tilde K$ of the training samples (sample, sample), preactivation².
        targets: $y$ (sample, output).
        noise_variance: $\sigma_\varepsilon^2$ of every target, a variance.
        per_sample: Whether to divide by the number of samples; the total otherwise.

    Returns:
        Natural logarithm, exact to rounding times the condition of the kernel.

    Raises:
        ValueError: If shapes disagree, or the kernel is singular and there is no noise.

    Source: PDLT (6.34), (6.36), (6.45), (6.48); noise (6.10).

    Example:
        >>> from scalewise.training import log_evidence
        >>> round(log_evidence([[1.0]], [[1.0]]), 6)
        -1.418939
    """
    found, y = _decomposed(kernel, targets, noise_variance)
    return evidence_of(found, y, noise_variance) / (len(y) if per_sample else 1)


@checked
def log_evidence_slope(
    kernel: Kernel, targets: Targets, derivative: Kernel, *, noise_variance: NotNegative = 0.0
) -> float:
    r"""The derivative of the log evidence with respect to whatever moves the kernel.

    $$\frac{\partial\log p}{\partial x}=\frac12\sum_iy_i^TS\frac{\partial\tilde K}{\partial x}Sy_i
      -\frac{n_L}2{\rm tr}\,S\frac{\partial\tilde K}{\partial x}.$$

    Args:
        kernel: $\tilde K$ (sample, sample).
        targets: $y$ (sample, output).
        derivative: $\partial\tilde K/\partial x$: the identity for the noise variance; for the last layer, ones
            for $C_b$ and $(K-C_b)/C_W$ for $C_W$.
        noise_variance: $\sigma_\varepsilon^2$.

    Raises:
        ValueError: As `log_evidence`.

    Source: PDLT (6.34), its derivative.
    """
    found, y = _decomposed(kernel, targets, noise_variance)
    s = 1 / (found.h + noise_variance)
    if derivative.shape != kernel.shape:
        raise ValueError(
            f"`derivative` must have the shape of `kernel`, {kernel.shape}; got {derivative.shape}."
        )
    turned = found.U.T @ derivative @ found.U
    part = s[:, None] * (found.U.T @ y)
    trace = (s * np.diag(turned)).sum()
    return float(0.5 * (part * (turned @ part)).sum() - 0.5 * y.shape[1] * trace)


@checked
def hypothesis_probabilities(
    log_evidences: Sequence[FiniteNumber], prior: Sequence[NotNegative] | None = None
) -> Float[np.ndarray, " hypothesis"]:
    r"""How probable each of several hypotheses is, given the targets.

    $$p(\mathcal H|y)\propto p(y|\mathcal H)\,p(\mathcal H).$$

    The ratio of two is their posterior odds; with equal priors it is the Bayes factor, whose logarithm is the
    difference of the log evidences.

    Args:
        log_evidences: $\log p(y|\mathcal H)$ of each.
        prior: $p(\mathcal H)$ of each, up to a common factor; equal if ``None``.

    Returns:
        Probabilities, from differences of logarithms: none overflows.

    Raises:
        ValueError: If there are no hypotheses, or priors that do not fit.

    Source: PDLT (6.29)-(6.31).

    Example:
        >>> from scalewise.training import hypothesis_probabilities
        >>> hypothesis_probabilities([-1000.0, -1000.0])
        array([0.5, 0.5])
    """
    found = np.array(log_evidences, dtype=float)
    weights = np.ones_like(found) if prior is None else np.array(prior, dtype=float)
    if not found.size:
        raise ValueError(
            "`log_evidences` must hold the log evidence of at least one hypothesis; got none."
        )
    if weights.shape != found.shape or not weights.any():
        raise ValueError(
            f"`prior` must hold one number for each of {found.size} hypotheses, not all 0; got {weights.size}."
        )
    possible = weights > 0
    odds = weights * np.exp(np.where(possible, found - found[possible].max(), 0.0))
    return odds / odds.sum()


@checked
def leave_one_out(
    kernel: Kernel, targets: Targets, *, noise_variance: NotNegative = 0.0
) -> xr.Dataset:
    r"""Each training sample as the posterior of all others predicts it, in closed form.

    $$m_{i;a}=y_{i;a}-\frac{(Sy_i)_a}{S_{aa}},\qquad v_a=\frac1{S_{aa}}.$$

    Args:
        kernel: $\tilde K$ (sample, sample).
        targets: $y$ (sample, output).
        noise_variance: $\sigma_\varepsilon^2$; the variances contain it.

    Returns:
        ``output_mean`` over (sample, output), and over samples ``variance``, of one target and its noise, and
        ``log_score``, the logarithm of the density of its targets, whose sum is the pseudo-likelihood; from one
        eigendecomposition.

    Raises:
        ValueError: As `log_evidence`.

    Source: PDLT (6.53)-(6.66) with one sample as the test; Rasmussen & Williams (2006), on cross-validation.

    Example:
        >>> from scalewise.training import leave_one_out
        >>> leave_one_out([[2.0, 1.0], [1.0, 2.0]], [[1.0], [0.0]]).output_mean.values.ravel().round(12)
        array([0. , 0.5])
    """
    found, y = _decomposed(kernel, targets, noise_variance)
    s = 1 / (found.h + noise_variance)
    variance = 1 / np.einsum("ax,x,ax->a", found.U, s, found.U)
    off = found.U @ (s[:, None] * (found.U.T @ y)) * variance[:, None]
    score = -0.5 * (off**2 / variance[:, None] + np.log(2 * np.pi * variance)[:, None]).sum(axis=1)
    each = {"variance": ("sample", variance), "log_score": ("sample", score)}
    return dataset({"output_mean": (("sample", "output"), y - off)} | each)


def evidence_of(found: Spectrum, y: np.ndarray, noise_variance: float) -> float:
    """The log evidence from a spectrum of full rank, or one with noise."""
    h = found.h + noise_variance
    part = found.U.T @ y
    return float(-0.5 * (y.shape[1] * np.log(2 * np.pi * h).sum() + (part**2 / h[:, None]).sum()))


def last_slopes(
    found: Spectrum, y: np.ndarray, noise_variance: float, *, C_b: float, C_W: float
) -> Float[np.ndarray, " hyperparameter"]:
    r"""`log_evidence_slope` along the noise variance and along $C_b$, $C_W$ of the last layer, without a product.

    In the eigenbasis the changes are 1, $oo^T$ with $o=U^T1$, and $(h-C_boo^T)/C_W$.
    """
    s, ones = 1 / (found.h + noise_variance), found.U.sum(axis=0)
    part = s[:, None] * (found.U.T @ y)
    by_noise, by_kernel = (
        0.5 * (weight * ((part**2).sum(axis=1) - y.shape[1] * s)).sum() for weight in (1.0, found.h)
    )
    by_bias = 0.5 * ((ones @ part) ** 2).sum() - 0.5 * y.shape[1] * (s * ones**2).sum()
    return np.array([by_noise, by_bias, (by_kernel - C_b * by_bias) / C_W])


def _decomposed(
    kernel: np.ndarray, y: np.ndarray, noise_variance: float
) -> tuple[Spectrum, np.ndarray]:
    if len(y) != len(kernel):
        raise ValueError(
            f"`targets` must have a row for each of the {len(kernel)} samples of `kernel`; got {len(y)}."
        )
    found = spectrum(kernel, "kernel of the training samples")
    if found.rank < len(y) and not noise_variance:
        refuse_singular(kernel, y, found.rank, REMEDY)
    return found, y
