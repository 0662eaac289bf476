r"""Initial outputs of infinitely wide networks, spread evenly over their prior.

On training samples $z_{\mathcal A}=U\sqrt h\,\xi$ with $K_{\mathcal{AA}}=UhU^T$; on test samples
$z_{\mathcal B}=w^T\xi+\zeta$, $w=h^{-1/2}U^TK_{\mathcal{AB}}$. Training reads $\xi$ alone, so $\zeta$, of
covariance $S=K_{\mathcal{BB}}-w^Tw$, is never drawn where a mean or a covariance is wanted.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from jaxtyping import Float
from scipy.special import ndtri

from scalewise.training._spectrum import spectrum

REPLICAS = 8  # independent scrambles: their spread is the error bar
_SOBOL = 21_201  # dimensions that SciPy has


@dataclass(frozen=True)
class InitialOutputs:
    """Networks before training.

    Args:
        z: Outputs on the training samples; the draws of one replica stand together.
        g: What these say of the outputs on test samples.
        S: Covariance of what they do not say, of one output.
    """

    z: Float[np.ndarray, "draw sample output"]
    g: Float[np.ndarray, "draw test output"]
    S: Float[np.ndarray, "test test"]


def start(
    K: Float[np.ndarray, "all all"], samples: int, outputs: int, draws: int, seed: int
) -> InitialOutputs:
    """Outputs of at least `draws` networks, a power of 2 in each replica.

    Args:
        K: Of training samples, then test samples.
        samples: How many of them are training samples.
        outputs: How many outputs a network has.
        draws: How many networks.
        seed: Of the scrambles.
    """
    from scipy.stats import qmc  # here, because its import takes as long as many a prediction

    found = spectrum(K[:samples, :samples], "kernel of the training samples")
    some = np.flatnonzero(found.h)[::-1]  # the most important direction has the evenest numbers
    root = np.sqrt(found.h[some])
    w = (found.U[:, some].T @ K[:samples, samples:]) / root[:, None]
    power = max(int(np.ceil(np.log2(draws / REPLICAS))), 0)
    size = len(some) * outputs
    parts = []
    for stream in np.random.default_rng(seed).spawn(REPLICAS):
        if size <= _SOBOL:
            u = qmc.Sobol(size, rng=stream).random_base2(power)
            parts.append(ndtri(np.clip(u, 1e-12, 1 - 1e-12)))
        else:
            parts.append(stream.standard_normal((2**power, size)))
    xi = np.concatenate(parts).reshape(-1, len(some), outputs)
    z = np.einsum("ax,mxi->mai", found.U[:, some] * root, xi, optimize=True)
    g = np.einsum("xb,mxi->mbi", w, xi, optimize=True)
    return InitialOutputs(z, g, K[samples:, samples:] - w.T @ w)
