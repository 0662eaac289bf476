r"""Student's law told in normal numbers, and back, by one approximation that keeps every digit of a far tail.

$$z=\frac{8\nu+1}{8\nu+3}\sqrt{\nu\ln\Big(1+\frac{t^2}\nu\Big)}.$$

Source: D. L. Wallace, Ann. Math. Statist. 30 (1959) 1121.
"""

import numpy as np

_NORMAL = 1e12  # degrees of freedom: more make no difference


def as_normal(t: np.ndarray | np.float64, nu: np.ndarray | np.float64) -> np.ndarray | np.float64:
    """The normal number that is as rare as `t`, at least 0, is with `nu` degrees of freedom."""
    nu = np.minimum(nu, _NORMAL)
    return (8 * nu + 1) / (8 * nu + 3) * np.sqrt(nu * np.log1p(t**2 / nu))


def deviation(z: float, nu: np.ndarray) -> np.ndarray:
    """The inverse: how many standard errors are as rare as the normal number `z`; infinite beyond all numbers."""
    nu = np.minimum(nu, _NORMAL)
    with np.errstate(over="ignore"):
        return np.sqrt(nu * np.expm1((z * (8 * nu + 3) / (8 * nu + 1)) ** 2 / nu))
