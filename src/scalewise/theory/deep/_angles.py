r"""Two inputs at a finite angle: kernel and NTK of scale-invariant activations in closed form.

With $\sigma=a_\pm z$, $\chi=A_2C_W$, $k=\sqrt{K_{++}K_{--}}$, $f(\psi)=\sin\psi-\psi\cos\psi$ and
$\tilde c=\cos\psi+\rho f(\psi)$,
$$K_{\pm\pm}'=C_b+\chi K_{\pm\pm},\qquad k'\cos\psi'=C_b+\chi k\,\tilde c,$$
$$\Theta_{\pm\pm}'=\lambda_b+\lambda_WA_2K_{\pm\pm}+\chi\Theta_{\pm\pm},\qquad
  \Theta_{+-}'=\lambda_b+\lambda_WA_2k\,\tilde c+\chi(1-\rho\psi)\Theta_{+-}.$$
Neither $\cos\psi$ near 1 nor $\Theta_{+-}$ near $\Theta_{\pm\pm}$ keeps the digits of a small angle. So
what is carried along is $1\mp\cos\psi$ and $E=\frac12(\Theta_{++}+\Theta_{--})-\Theta_{+-}$, as sums of
positive terms:
$$k'(1-\cos\psi')=\frac{C_b\chi(\sqrt{K_{++}}-\sqrt{K_{--}})^2}{k'+C_b+\chi k}
  +\chi k\big[2\sin^2\tfrac\psi2-\rho f(\psi)\big],$$
$$E'=\chi E+\chi\rho\psi\,\Theta_{+-}+\lambda_WA_2\big\{\tfrac12(\sqrt{K_{++}}-\sqrt{K_{--}})^2
  +k[2\sin^2\tfrac\psi2-\rho f(\psi)]\big\}.$$

Source: PDLT (5.145)-(5.171), (10.82)-(10.98). Unequal norms and the stable forms are derived.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from jaxtyping import Float

from scalewise._arrays import float_array
from scalewise._checked import checked
from scalewise._readable import readable
from scalewise.activations import Activation
from scalewise.networks import Network
from scalewise.networks.spi import Numbers, Plain, check_inputs, refuse_zero_inputs
from scalewise.theory.deep import _scale_invariant as scale_invariant
from scalewise.theory.flow._kernel_flow import kernel_flow

# (2k+1)!/2k with alternating signs, the smallest term first
_BEND = (-518918400.0, 3991680.0, -45360.0, 840.0, -30.0, 3.0)
Pairwise = Float[np.ndarray, "layer pair"]


@dataclass(frozen=True)
@readable
class AngleFlow:
    r"""Kernel and NTK of pairs of inputs, at every layer, as norms and angles.

    Args:
        K_plus: $K_{++}$, preactivation².
        K_minus: $K_{--}$.
        psi: Kernel angle $\psi$, from 0 to π.
        Theta_plus: $\Theta_{++}$.
        Theta_minus: $\Theta_{--}$.
        Theta_cross: $\Theta_{+-}$.
        Theta_distance: $\frac12(\Theta_{++}+\Theta_{--})-\Theta_{+-}=2\Theta_{[2]}$, without
            cancellation.
    """

    K_plus: Pairwise
    K_minus: Pairwise
    psi: Pairwise
    Theta_plus: Pairwise
    Theta_minus: Pairwise
    Theta_cross: Pairwise
    Theta_distance: Pairwise

    @property
    def K_cross(self) -> Pairwise:
        r"""$K_{+-}=\sqrt{K_{++}K_{--}}\cos\psi$."""
        return np.sqrt(self.K_plus * self.K_minus) * np.cos(self.psi)

    @property
    def zeta(self) -> Pairwise:
        r"""NTK angle, $\cos\zeta=\Theta_{+-}/\sqrt{\Theta_{++}\Theta_{--}}$, PDLT (10.87)."""
        root = np.sqrt(self.Theta_plus * self.Theta_minus)
        gap = 0.5 * (np.sqrt(self.Theta_plus) - np.sqrt(self.Theta_minus)) ** 2
        below = np.maximum(self.Theta_distance - gap, 0.0)
        return 2 * np.arctan2(np.sqrt(below), np.sqrt(np.maximum(2 * root - below, 0.0)))

    @property
    def robustness(self) -> Pairwise:
        r"""$\Theta_{-+}/\Theta_{++}-1$, PDLT (10.57)."""
        return self.Theta_cross / self.Theta_plus - 1

    @property
    def interpolation_variance(self) -> Pairwise:
        r"""Variance of the trained network at $-$ when $+$ was trained on, PDLT (10.63)."""
        ratio = self.Theta_cross / self.Theta_plus
        return self.K_minus - 2 * ratio * self.K_cross + ratio**2 * self.K_plus


@checked
def angle_flow(net: Plain, x_plus: Numbers, x_minus: Numbers) -> AngleFlow:
    r"""Norms and angles of kernel and NTK of pairs of inputs, layer by layer.

    Args:
        net: The network; any continuous activation, $C_b$, $C_W$ and rates.
        x_plus: First inputs (pairs, features).
        x_minus: Second inputs, same shape; norms may differ.

    Returns:
        The flow. Scale-invariant activations: exact to rounding at every angle, however small.
        Others: through `kernel_flow`, whose 1e-10 leave angles below 1e-5 without digits.

    Raises:
        ValueError: If inputs are refused or their shapes differ, if the activation jumps, or if a
            kernel or NTK leaves the range of float64.

    Source: PDLT (5.147), (5.160), (10.88)-(10.89).

    Example:
        >>> import numpy as np, scalewise as sw
        >>> from scalewise.theory.deep import angle_flow
        >>> net = sw.MLP(10, 9, "relu", input_dim=2, output_dim=1, C_W=2.0)
        >>> flow = angle_flow(net, np.array([[1.0, 0.0]]), np.array([[0.0, 1.0]]))
        >>> print(f"{flow.psi[-1, 0]:.12f}")
        0.545613197126
    """
    plus, minus = check_inputs(net, x_plus), check_inputs(net, x_minus)
    if plus.shape != minus.shape:
        raise ValueError(
            "`x_plus` and `x_minus` are the two inputs of each pair and must have the same shape; "
            f"got {plus.shape} and {minus.shape}."
        )
    for inputs in (plus, minus):
        refuse_zero_inputs(net, inputs, "an angle with anything")
    if net.activation.slopes is None:
        return _through_kernels(net, plus, minus)
    with np.errstate(over="ignore", invalid="ignore"):
        flow = _closed(net, plus, minus)
    if not all(np.all(np.isfinite(value)) for value in vars(flow).values()):
        raise ValueError(
            f"The kernel of {net.activation.name!r} leaves the range of float64: signals explode or "
            "vanish. Use fewer layers, or critical hyperparameters: net.at_criticality()."
        )
    return flow


@checked
def kernel_angle(plus: Numbers, minus: Numbers) -> Float[np.ndarray, " pair"]:
    r"""The angle between two vectors, $2\arctan\frac{|\hat a-\hat b|}{|\hat a+\hat b|}$.

    Args:
        plus: First vectors, shape (pair, feature), not 0.
        minus: Second vectors, as many.

    Returns:
        Angles from 0 to π; to rounding, small ones included.

    Example:
        >>> import numpy as np
        >>> from scalewise.theory.deep import kernel_angle
        >>> kernel_angle(np.array([[1.0, 0.0]]), np.array([[1.0, 1e-9]]))
        array([1.e-09])
    """
    a, b = float_array("`plus`", plus), float_array("`minus`", minus)
    a /= np.linalg.norm(a, axis=1, keepdims=True)
    b /= np.linalg.norm(b, axis=1, keepdims=True)
    return 2 * np.arctan2(np.linalg.norm(a - b, axis=1), np.linalg.norm(a + b, axis=1))


def _bend(psi: np.ndarray) -> np.ndarray:
    r"""$f(\psi)=\sin\psi-\psi\cos\psi=\frac{\psi^3}3-\frac{\psi^5}{30}+\dots$."""
    small = np.minimum(psi, 0.5)
    square, total = small * small, np.zeros_like(small)
    for divisor in _BEND:
        total = total * square + 1 / divisor
    series = total * square * small
    return np.where(psi < 0.5, series, np.sin(psi) - psi * np.cos(psi))


def _closed(net: Network, plus: np.ndarray, minus: np.ndarray) -> AngleFlow:
    c = scale_invariant.coefficients(net.activation)
    A_2, rho = c["A_2"], c["rho"]
    out = np.empty((7, net.depth, len(plus)))
    # The bias is one feature more, so C_b needs no case of its own.
    root_b, root_W = np.sqrt(net.C_b[0]), np.sqrt(net.C_W[0] / net.input_dim)
    bias = np.full((len(plus), 1), root_b)
    vectors = [np.hstack([root_W * x, bias]) for x in (plus, minus)]
    K = [np.einsum("pf,pf->p", v, v) for v in vectors]
    weight, rate = net.lambda_W[0] / net.input_dim, net.lambda_b[0]
    Theta = [rate + weight * np.einsum("pf,pf->p", x, x) for x in (plus, minus)]
    E = 0.5 * weight * np.einsum("pf,pf->p", plus - minus, plus - minus)
    psi = kernel_angle(*vectors)
    for layer in range(net.depth):
        if layer > 0:
            C_b, C_W = net.C_b[layer], net.C_W[layer]
            chi, lam_b, lam_W = A_2 * C_W, net.lambda_b[layer], net.lambda_W[layer] * A_2
            k, gap = np.sqrt(K[0] * K[1]), (np.sqrt(K[0]) - np.sqrt(K[1])) ** 2
            bend = rho * _bend(psi)
            minus_c, plus_c = 2 * np.sin(psi / 2) ** 2 - bend, 2 * np.cos(psi / 2) ** 2 + bend
            cross = 0.5 * (Theta[0] + Theta[1]) - E
            E = chi * (E + rho * psi * cross) + lam_W * (0.5 * gap + k * minus_c)
            Theta = [lam_b + lam_W * v + chi * t for v, t in zip(K, Theta, strict=True)]
            total = K[0] + K[1]
            K = [C_b + chi * v for v in K]
            norm = np.sqrt(K[0] * K[1])
            below = C_b * chi * gap / (norm + C_b + chi * k) + chi * k * minus_c
            above = C_b * (C_b + chi * total) / (norm + chi * k) + C_b + chi * k * plus_c
            psi = 2 * np.arctan2(np.sqrt(below), np.sqrt(above))
        out[:, layer] = *K, psi, *Theta, 0.5 * (Theta[0] + Theta[1]) - E, E
    return AngleFlow(*out)


def _through_kernels(net: Network, plus: np.ndarray, minus: np.ndarray) -> AngleFlow:
    """Any activation: two inputs at a time through the exact kernel flow."""
    out = np.empty((7, net.depth, len(plus)))
    for pair, inputs in enumerate(np.stack([plus, minus], axis=1)):
        flow = kernel_flow(net, inputs)
        assert flow.Theta is not None
        K, Theta = flow.K, flow.Theta
        a, b, c = K[:, 0, 0], K[:, 1, 1], K[:, 0, 1]
        psi = np.arctan2(np.sqrt(np.maximum(a * b - c * c, 0.0)), c)
        p, m, x = Theta[:, 0, 0], Theta[:, 1, 1], Theta[:, 0, 1]
        out[:, :, pair] = a, b, psi, p, m, x, 0.5 * (p + m) - x
    return AngleFlow(*out)


@checked
def deep_angle(
    sigma: Activation, layer: scale_invariant.Layers, *, offset: float = 0.0
) -> Float[np.ndarray, "*_"]:
    r"""The angle between two inputs of equal norm in a deep critical network.

    $$\psi^{(\ell)}\simeq\frac{3/\rho}{\ell+\frac32\log\ell+c},\qquad
      K_{[2]}\simeq K^\star\frac9{4\rho^2}\frac1{\ell^2}$$

    Args:
        sigma: A scale-invariant activation with $\rho>0$.
        layer: $\ell$.
        offset: $c$, of the input; 3.390 for ReLU from a right angle.

    Returns:
        $\psi$, with relative error $O(\log\ell/\ell^2)$ if `offset` is right.

    Raises:
        ValueError: If the activation is not scale-invariant, or linear: then angles stay.

    Source: PDLT (5.166), (5.168); the logarithm is derived.
    """
    ell = np.asarray(layer, dtype=np.float64)
    return np.asarray(3 / _rho(sigma) / (ell + 1.5 * np.log(ell) + offset))


@checked
def crossover_depth(sigma: Activation, psi: float) -> float:
    r"""The depth $\ell_{\rm cross}=3/(\rho\psi^{(1)})$ from which an angle falls as $1/\ell$.

    Args:
        sigma: A scale-invariant activation with $\rho>0$.
        psi: $\psi^{(1)}$ of the inputs, positive.

    Returns:
        The depth, an order of magnitude.

    Raises:
        ValueError: If the activation is not scale-invariant, or linear, or `psi` is not in (0, π].

    Source: PDLT (5.169).

    Example:
        >>> import scalewise as sw
        >>> from scalewise.theory.deep import crossover_depth
        >>> print(f"{crossover_depth(sw.activation('relu'), 0.1):.3f}")
        94.248
    """
    if not 0 < psi <= np.pi:
        raise ValueError(f"`psi` is an angle and must be above 0 and at most pi; got {psi}.")
    return 3 / (_rho(sigma) * psi)


@checked
def deep_ntk_angle(sigma: Activation) -> dict[str, float]:
    r"""Where NTK angle, robustness and interpolation variance end in a deep critical network.

    Args:
        sigma: A scale-invariant activation with $\rho>0$.

    Returns:
        ``cos_zeta`` 1/4, ``robustness`` -3/4, ``interpolation_variance`` 9/16 in units of $K^\star$:
        for every two inputs of equal norm, whatever their angle and the (uniform) rates.

    Raises:
        ValueError: If the activation is not scale-invariant, or linear.

    Source: PDLT (10.93)-(10.95).
    """
    # cos zeta' = (1 - (1 + rho psi l)/l) cos zeta + 1/l with rho psi l -> 3
    rate = _rho(sigma) * 3 / _rho(sigma)
    cosine = 1 / (1 + rate)
    return {
        "cos_zeta": cosine,
        "robustness": cosine - 1,
        "interpolation_variance": (1 - cosine) ** 2,
    }


def _rho(sigma: Activation) -> float:
    rho = scale_invariant.coefficients(sigma)["rho"]
    if rho == 0:
        raise ValueError(f"{sigma.name!r} is linear (rho = 0), and angles stay what they are.")
    return rho
