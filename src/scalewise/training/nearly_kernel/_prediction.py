r"""Predictions of nearly-linear models in sample space: a kernel, a meta kernel, targets, and a way to train.

The dual identities that lead there are, with $M=\sum_{\tilde\alpha}\phi\phi^T$,
$$\begin{aligned}
  \phi_{\tilde\alpha}M^{-1}\phi_{\dot\beta}&=k_{\dot\beta\tilde\alpha_1}\tilde k^{\tilde\alpha_1\tilde\alpha}
    &&(11.125)\\
  \epsilon\,\phi_{\tilde\alpha_1}M^{-1}\psi_\delta M^{-1}\phi_{\tilde\alpha_2}&=
    \mu_{\delta\tilde\alpha_3\tilde\alpha_4}
    \tilde k^{\tilde\alpha_3\tilde\alpha_1}\tilde k^{\tilde\alpha_4\tilde\alpha_2}&&(11.131)\\
  \epsilon\,\phi_{\tilde\alpha}M^{-1}\psi_{\delta_1}\phi_{\delta_2}&=
    \mu_{\delta_1\delta_2\tilde\alpha_1}\tilde k^{\tilde\alpha_1\tilde\alpha}&&(11.139)
\end{aligned}$$
where the last is printed without $\epsilon$.
"""

from __future__ import annotations

from typing import Annotated, Any

import numpy as np
from jaxtyping import Float

from scalewise._checked import checked
from scalewise.training._spectrum import Spectrum, regular
from scalewise.training.nearly_kernel._ways import Way

Kernel = Annotated[Any, Float[np.ndarray, "sample sample"]]
MetaKernel = Annotated[Any, Float[np.ndarray, "sample sample sample"]]
Targets = Annotated[Any, Float[np.ndarray, "train output"]]
_sum = np.einsum


@checked
def nearly_kernel_prediction(
    kernel: Kernel, meta_kernel: MetaKernel, targets: Targets, way: Way
) -> Float[np.ndarray, "sample output"]:
    r"""Prediction of a nearly-linear model on all samples once it is trained.

    $$z(x_\delta)=k_{\delta\cdot}\tilde k^{-1}y
      +\sum\big[\mu_{\delta12}-k_{\delta\cdot}\tilde k^{-1}\mu_{\cdot12}\big]Z_B^{1234}y_3y_4
      +\sum\big[\mu_{1\delta2}-k_{\delta\cdot}\tilde k^{-1}\mu_{1\cdot2}\big]Z_A^{1234}y_3y_4$$

    Args:
        kernel: $k$ on all samples, the training samples first.
        meta_kernel: $\mu_{\delta_0\delta_1\delta_2}$, $\epsilon$ included.
        targets: (training samples, outputs).
        way: How it is trained: `DirectOptimisation`, `TrainedKernel`, `MinimumNorm` or `Descent`.

    Returns:
        Outputs, (samples, outputs), up to $O(\epsilon^2)$; the targets on the training samples.

    Raises:
        ValueError: If shapes disagree, the kernel of the training samples is singular, or a descent diverges.

    Source: PDLT (11.132)-(11.136), (11.142).

    Example:
        >>> import numpy as np
        >>> from scalewise.training.nearly_kernel import DirectOptimisation, nearly_kernel_prediction
        >>> k, mu = np.array([[1.0, 0.5], [0.5, 1.0]]), np.zeros((2, 2, 2))
        >>> nearly_kernel_prediction(k, mu, [[2.0]], DirectOptimisation())
        array([[2.],
               [1.]])
    """
    found, R = _checked(kernel, meta_kernel, targets)
    turned = found.U.T @ targets
    A, B = (
        _sum("aA,bB,AB,Ai,Bi->abi", found.U, found.U, Z, turned, turned, optimize=True)
        for Z in way.projectors(found.h)
    )
    count = len(targets)
    mu = meta_kernel[:, :count, :count]
    moved = meta_kernel[:count, :, :count].transpose(1, 0, 2)
    added = _sum("dab,abi->di", _beyond(mu, R), B) + _sum("dab,abi->di", _beyond(moved, R), A)
    return R @ targets + added


@checked
def trained_kernel(
    kernel: Kernel, meta_kernel: MetaKernel, targets: Targets
) -> Float[np.ndarray, "output sample sample_1"]:
    r"""$k^\sharp_{ii}=\frac12[k+k^E_{ii}(\theta^*)]$, with the kernel at the end of direct optimisation.

    $$k^E_{ii;\delta_1\delta_2}(\theta^*)=k_{\delta_1\delta_2}+\sum
      (\mu_{\delta_1\delta_2\tilde\alpha_1}+\mu_{\delta_2\delta_1\tilde\alpha_1})
      \tilde k^{\tilde\alpha_1\tilde\alpha_2}y_{i;\tilde\alpha_2}+O(\epsilon^2)$$

    Args:
        kernel: As in `nearly_kernel_prediction`.
        meta_kernel: Likewise.
        targets: Likewise.

    Returns:
        One kernel for each output.

    Raises:
        ValueError: As `nearly_kernel_prediction` does.

    Source: PDLT (11.138), (11.140); $\epsilon$ belongs to the second line of (11.138), where it is not printed.
    """
    found, _ = _checked(kernel, meta_kernel, targets)
    bent = _sum("dea,ai->ide", meta_kernel[:, :, : len(targets)], found.solve(targets))
    return kernel + (bent + bent.transpose(0, 2, 1)) / 2


@checked
def trained_kernel_prediction(
    kernel: Kernel, meta_kernel: MetaKernel, targets: Targets
) -> Float[np.ndarray, "sample output"]:
    r"""Kernel regression with the trained kernel, $k^\sharp_{\delta\cdot}(\tilde k^\sharp)^{-1}y$.

    It is the prediction of `TrainedKernel` up to $O(\epsilon^2)$, not that of `DirectOptimisation`.

    Args:
        kernel: As in `nearly_kernel_prediction`.
        meta_kernel: Likewise.
        targets: Likewise.

    Raises:
        ValueError: As `nearly_kernel_prediction` does.

    Source: PDLT (11.141), (11.142).
    """
    count = len(targets)
    kernels = trained_kernel(kernel, meta_kernel, targets)
    columns = [
        k[:, :count] @ regular(k[:count, :count], "trained kernel").solve(y[:, None])[:, 0]
        for k, y in zip(kernels, targets.T, strict=True)
    ]
    return np.stack(columns, axis=-1)


def _checked(k: np.ndarray, mu: np.ndarray, y: np.ndarray) -> tuple[Spectrum, np.ndarray]:
    """The spectrum of the training samples, and R = k(all, train) k(train, train)^-1."""
    samples, count = len(k), len(y)
    if k.shape != (samples, samples) or mu.shape != (samples,) * 3 or not 0 < count <= samples:
        raise ValueError(
            "`kernel`, `meta_kernel` and `targets` must be about the same samples, the training samples first; "
            f"got shapes {k.shape}, {mu.shape} and {y.shape}."
        )
    found = regular(k[:count, :count], "kernel of the training samples")
    return found, k[:, :count] @ found.inverse


def _beyond(mu: np.ndarray, R: np.ndarray) -> np.ndarray:
    """The part of a tensor that the regression does not undo: 0 where the first sample is a training sample."""
    return mu - _sum("da,abc->dbc", R, mu[: R.shape[1]])
