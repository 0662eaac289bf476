"""How far the outputs of two families of networks are apart, from fits to a handful of each."""

from __future__ import annotations

from typing import Any

import numpy as np
from jaxtyping import Float
from scipy.special import betaln, digamma, gammaln

from scalewise._checked import FiniteNumber, Index, checked

Numbers = Float[np.ndarray, "..."] | FiniteNumber


@checked
def gaussian_divergence(m: Numbers, v: Numbers, m_star: Numbers, v_star: Numbers) -> Numbers:
    r"""$\mathrm{KL}(N(m,v)\,\|\,N(m_*,v_*))=\frac12\big[\ln\frac{v_*}{v}+\frac{v+(m-m_*)^2}{v_*}-1\big]$.

    Args:
        m: Means.
        v: Variances, positive.
        m_star: Means of the reference.
        v_star: Variances of the reference, positive.

    Raises:
        ValueError: If a variance is not positive.

    Source: Golikov (26), (135).

    Example:
        >>> from scalewise.limits import shallow
        >>> round(float(shallow.gaussian_divergence(0.3, 1.2, -0.1, 0.7)), 10)
        0.2019303211
    """
    m, v, m_star, v_star = _together(m=m, v=v, m_star=m_star, v_star=v_star)
    _refuse_unless_positive("variance", v, v_star)
    ratio = np.asarray(v) / v_star
    return 0.5 * (ratio - 1 - np.log(ratio) + (np.asarray(m) - m_star) ** 2 / v_star)


@checked
def logit_divergence(
    outputs: Float[np.ndarray, "seed ..."], reference: Float[np.ndarray, "other_seed ..."]
) -> Float[np.ndarray, "*_"] | float:
    r"""$D_\mathrm{logits}$: Kullback-Leibler divergence of Gaussian fits over seeds, for each input.

    Args:
        outputs: Of the limit, at least two seeds.
        reference: Of the reference networks.

    Returns:
        Divergence for each input; its mean over test inputs is what the source plots. For equal laws its
        expectation is not 0 but `divergence_floor`.

    Raises:
        ValueError: If there are fewer than two seeds, or all agree at an input.

    Source: Golikov (26), (135); several classes: a diagonal Gaussian, the sum over classes.
    """
    _check_equal_inputs("outputs", outputs, reference)
    (m, v), (m_star, v_star) = _moments("outputs", outputs), _moments("reference", reference)
    return gaussian_divergence(m, v, m_star, v_star)


@checked
def divergence_floor(seeds: Index, reference_seeds: Index | None = None) -> float:
    r"""Mean of `logit_divergence` between two samples of the same Gaussian law.

    $$\frac12\Big[\frac{n_*-1}{n_*-3}\Big(1+\frac1n+\frac1{n_*}\Big)-1
    +\psi\big(\tfrac{n_*-1}2\big)-\ln\tfrac{n_*-1}2-\psi\big(\tfrac{n-1}2\big)+\ln\tfrac{n-1}2\Big]$$

    Args:
        seeds: $n$, at least 2.
        reference_seeds: $n_*$, at least 4; $n$ for ``None``, and then it is $\frac{2n-1}{n(n-3)}$.

    Raises:
        ValueError: If there are too few seeds for a mean to exist.

    Source: derived, from the law of variances of Gaussian samples.

    Example:
        >>> from scalewise.limits import shallow
        >>> round(shallow.divergence_floor(10), 6)  # 19/70
        0.271429
    """
    n, n_star = seeds, seeds if reference_seeds is None else reference_seeds
    if n < 2 or n_star < 4:
        raise ValueError(
            f"The divergence has a mean only with 2 seeds or more, and 4 or more of the reference; got {n!r} and "
            f"{n_star!r}."
        )
    half, half_star = (n - 1) / 2, (n_star - 1) / 2
    logs = digamma(half_star) - np.log(half_star) - digamma(half) + np.log(half)
    return float(0.5 * (half_star / (half_star - 1) * (1 + 1 / n + 1 / n_star) - 1 + logs))


@checked
def beta_fit(
    probabilities: Float[np.ndarray, "seed ..."],
) -> tuple[Float[np.ndarray, "*_"] | float, Float[np.ndarray, "*_"] | float]:
    r"""Parameters of a Beta law by moments: $\alpha=ms$, $\beta=(1-m)s$, $s=\frac{m(1-m)}v-1$.

    Args:
        probabilities: Strictly between 0 and 1, at least two seeds.

    Raises:
        ValueError: If a probability is 0 or 1 or outside, or all agree.

    Source: Golikov (137), which calls them estimates of maximum likelihood.
    """
    _refuse_outside(probabilities)
    m, v = _moments("probabilities", probabilities)
    _refuse_wide(m * (1 - m) <= v, "Beta")
    strength = m * (1 - m) / v - 1
    return m * strength, (1 - m) * strength


@checked
def beta_divergence(
    alpha: Numbers, beta: Numbers, alpha_star: Numbers, beta_star: Numbers
) -> Numbers:
    r"""Kullback-Leibler divergence of two Beta laws.

    $$\ln\frac{B(\alpha_*,\beta_*)}{B(\alpha,\beta)}+(\alpha-\alpha_*)\psi(\alpha)+(\beta-\beta_*)\psi(\beta)
    +(\alpha_*-\alpha+\beta_*-\beta)\psi(\alpha+\beta)$$

    Args:
        alpha: $\alpha$.
        beta: $\beta$.
        alpha_star: $\alpha_*$ of the reference.
        beta_star: $\beta_*$ of the reference.

    Raises:
        ValueError: If a parameter is not positive.

    Source: derived, for Golikov (136).

    Example:
        >>> from scalewise.limits import shallow
        >>> round(float(shallow.beta_divergence(2.0, 3.0, 4.0, 1.5)), 10)
        1.4897365804
    """
    alpha, beta, alpha_star, beta_star = _together(
        alpha=alpha, beta=beta, alpha_star=alpha_star, beta_star=beta_star
    )
    _refuse_unless_positive("parameter of a Beta law", alpha, beta, alpha_star, beta_star)
    more = np.asarray(alpha_star) - alpha + beta_star - beta
    return (
        betaln(alpha_star, beta_star)
        - betaln(alpha, beta)
        + (np.asarray(alpha) - alpha_star) * digamma(alpha)
        + (np.asarray(beta) - beta_star) * digamma(beta)
        + more * digamma(np.asarray(alpha) + beta)
    )


@checked
def probability_divergence(
    probabilities: Float[np.ndarray, "seed ..."],
    reference: Float[np.ndarray, "other_seed ..."],
) -> Float[np.ndarray, "*_"] | float:
    r"""$D_\mathrm{prob}$: divergence of Beta fits over seeds, for each input.

    Args:
        probabilities: Of the limit.
        reference: Of the reference networks.

    Raises:
        ValueError: As for `beta_fit`.

    Source: Golikov (136), (137).
    """
    _check_equal_inputs("probabilities", probabilities, reference)
    alpha, beta = beta_fit(probabilities)
    alpha_star, beta_star = beta_fit(reference)
    return beta_divergence(alpha, beta, alpha_star, beta_star)


@checked
def dirichlet_fit(
    probabilities: Float[np.ndarray, "seed ... klass"],
) -> Float[np.ndarray, "... klass"]:
    r"""Parameters of a Dirichlet law by moments: $\alpha_i=m_is$, $s=\frac{\sum_im_i(1-m_i)}{\sum_iv_i}-1$.

    Args:
        probabilities: Strictly between 0 and 1, classes last, which add to 1.

    Raises:
        ValueError: If a probability is 0 or 1 or outside, they do not add to 1, or all agree.

    Source: Golikov, Appendix I, names the law; the fit, which for two classes is `beta_fit`, derived.
    """
    _refuse_outside(probabilities)
    if np.any(np.abs(probabilities.sum(-1) - 1) > 1e-6):
        raise ValueError("`probabilities` of the classes, along the last axis, must add to 1.")
    m, v = (np.asarray(part) for part in _moments("probabilities", probabilities))
    strength = np.sum(m * (1 - m), -1, keepdims=True) / np.sum(v, -1, keepdims=True) - 1
    _refuse_wide(strength <= 0, "Dirichlet")
    return m * strength


@checked
def dirichlet_divergence(
    alpha: Float[np.ndarray, "... klass"], alpha_star: Float[np.ndarray, "... _klass"]
) -> Float[np.ndarray, "*_"] | float:
    r"""Kullback-Leibler divergence of two Dirichlet laws.

    $$\ln\Gamma(\alpha_0)-\ln\Gamma(\alpha_{*0})+\sum_i\big[\ln\Gamma(\alpha_{*i})-\ln\Gamma(\alpha_i)
    +(\alpha_i-\alpha_{*i})(\psi(\alpha_i)-\psi(\alpha_0))\big],\qquad\alpha_0=\sum_i\alpha_i$$

    Args:
        alpha: Parameters, classes last.
        alpha_star: Of the reference.

    Raises:
        ValueError: If a parameter is not positive.

    Source: derived.
    """
    alpha, alpha_star = _together(alpha=alpha, alpha_star=alpha_star)
    if not alpha.ndim or alpha.shape[-1:] != alpha_star.shape[-1:]:
        raise ValueError(
            "`alpha` and `alpha_star` need the same classes along their last axes; got shapes "
            f"{alpha.shape} and {alpha_star.shape}."
        )
    _refuse_unless_positive("parameter of a Dirichlet law", alpha, alpha_star)
    total, total_star = alpha.sum(-1), alpha_star.sum(-1)
    slope = digamma(alpha) - digamma(total)[..., None]
    each = gammaln(alpha_star) - gammaln(alpha) + (alpha - alpha_star) * slope
    return gammaln(total) - gammaln(total_star) + each.sum(-1)


def _moments(name: str, values: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Mean and unbiased variance over the first axis."""
    if values.ndim < 1 or len(values) < 2:
        raise ValueError(
            f"`{name}` must have at least two seeds along its first axis, for a variance; got shape "
            f"{values.shape}."
        )
    with np.errstate(over="ignore", invalid="ignore"):
        v = values.var(axis=0, ddof=1)
    if not np.all(np.isfinite(v)) or np.any(v <= 0):
        raise ValueError(
            f"`{name}` must be finite and differ between seeds at every input: a law without a spread has no "
            "density to compare. An output that is exactly 0 at step 0, as in the MF limit, has none."
        )
    return np.asarray(values.mean(axis=0)), np.asarray(v)


def _together(**given: Any) -> tuple[np.ndarray, ...]:
    """Arrays that numpy can combine."""
    found = {name: np.asarray(values, dtype=np.float64) for name, values in given.items()}
    try:
        np.broadcast_shapes(*(values.shape for values in found.values()))
    except ValueError:
        names = ", ".join(f"`{name}`" for name in found)
        raise ValueError(
            f"{names} need shapes that go together; got {', '.join(str(v.shape) for v in found.values())}."
        ) from None
    return tuple(found.values())


def _check_equal_inputs(name: str, values: np.ndarray, reference: np.ndarray) -> None:
    if values.shape[1:] != reference.shape[1:]:
        raise ValueError(
            f"`{name}` and `reference` must be of the same inputs, with equal axes behind the seeds; got shapes "
            f"{values.shape} and {reference.shape}."
        )


def _refuse_wide(wide: Any, law: str) -> None:
    if np.any(wide):
        raise ValueError(
            f"`probabilities` spread more than any {law} law with their mean at some input, so there is no fit by "
            "moments. Take more seeds, or compare logits with `logit_divergence`."
        )


def _refuse_outside(probabilities: np.ndarray) -> None:
    if not np.all((probabilities > 0) & (probabilities < 1)):
        raise ValueError(
            "`probabilities` must lie strictly between 0 and 1; a logit beyond about 36 rounds to 1. "
            "Compare logits instead, with `logit_divergence`."
        )


def _refuse_unless_positive(what: str, *values: Numbers) -> None:
    for value in values:
        if not np.all(np.isfinite(value)) or np.any(np.asarray(value) <= 0):
            bad = np.asarray(value).ravel()
            raise ValueError(
                f"A {what} must be positive and finite; got {bad[~(np.isfinite(bad) & (bad > 0))][0]}."
            )
