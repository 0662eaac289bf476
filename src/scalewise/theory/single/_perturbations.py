r"""Two nearby inputs: the flow of kernel and NTK expanded in their distance, for smooth activations.

A two-by-two matrix over the inputs $x_\pm=x_0\pm\frac12\delta x$ is written in the basis
$$M=M_{[0]}\begin{pmatrix}1&1\\1&1\end{pmatrix}+M_{[1]}\begin{pmatrix}1&0\\0&-1\end{pmatrix}
  +M_{[2]}\begin{pmatrix}1&-1\\-1&1\end{pmatrix}.$$
With $K=K_{00}$, primes for the next layer, $h=\frac12\chi_\perp'$ as in `single_input` and all
expectations at $K_{00}$:
$$\begin{aligned}
\delta K_{[1]}'&=\chi_\parallel\,\delta K_{[1]},\qquad
\delta\delta K_{[2]}'=\chi_\perp\,\delta\delta K_{[2]}+h\,\delta K_{[1]}^2,\\
\delta\delta K_{[0]}'&=\chi_\parallel\,\delta\delta K_{[0]}+C_W\langle\sigma\sigma''\rangle
  \delta\delta K_{[2]}+\tfrac12C_W\langle\sigma\sigma''\rangle'\,\delta K_{[1]}^2,\\
\delta\Theta_{[1]}'&=\chi_\perp\,\delta\Theta_{[1]}
  +\big(\tfrac{\lambda_W}{C_W}\chi_\parallel+2h\Theta_{00}\big)\delta K_{[1]},\\
\delta\delta\Theta_{[2]}'&=\chi_\perp\,\delta\delta\Theta_{[2]}
  +\tfrac{\lambda_W}{C_W}\delta\delta K_{[2]}'+C_W\Theta_{00}\big[\langle\sigma''^2\rangle
  \delta\delta K_{[2]}+\tfrac12\langle\sigma''^2\rangle'\delta K_{[1]}^2\big]
  +h\,\delta K_{[1]}\delta\Theta_{[1]},\\
\delta\delta\Theta_{[0]}'&=\chi_\perp\,\delta\delta\Theta_{[0]}
  +\tfrac{\lambda_W}{C_W}\delta\delta K_{[0]}'+\Theta_{00}\big[2h\,\delta\delta K_{[0]}
  +C_W\langle\sigma'\sigma'''\rangle\delta\delta K_{[2]}
  +\tfrac12C_W\langle\sigma'\sigma'''\rangle'\delta K_{[1]}^2\big]+h\,\delta K_{[1]}\delta\Theta_{[1]},
\end{aligned}$$
where $\langle\cdot\rangle'$ is the derivative with respect to $K$.

Source: PDLT (5.15)-(5.48), (10.58)-(10.70). What carries $\delta K_{[1]}^2$ or $\delta K_{[1]}
\delta\Theta_{[1]}$ beyond (5.48), and both components $[0]$, are derived.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from jaxtyping import Float

from scalewise._arrays import float_array
from scalewise._checked import Positive, checked
from scalewise._readable import readable
from scalewise.gaussian.spi import line_rule
from scalewise.networks import Network
from scalewise.networks.spi import Numbers, Plain, check_inputs
from scalewise.theory._tables._line_table import line_table
from scalewise.theory._tables._scan import scan
from scalewise.theory.single._single_input import SingleInputFlow, single_input_flow

Function = Callable[[np.ndarray], np.ndarray]
Jet = tuple[Function, Function, Function]
Component = Float[np.ndarray, "layer input"]


@dataclass(frozen=True)
@readable
class NearbyInputs:
    r"""Components of $K$ and $\Theta$ over two nearby inputs, at every layer, by order in $\delta x$.

    $M_{[0]}=M_{00}+\delta\delta M_{[0]}+O(\delta^4)$, $M_{[1]}=\delta M_{[1]}+O(\delta^3)$,
    $M_{[2]}=\delta\delta M_{[2]}+O(\delta^4)$.

    Args:
        K00: Kernel of the midpoint.
        dK1: $\delta K_{[1]}$.
        ddK0: $\delta\delta K_{[0]}$.
        ddK2: $\delta\delta K_{[2]}$.
        Theta00: NTK of the midpoint.
        dTheta1: $\delta\Theta_{[1]}$.
        ddTheta0: $\delta\delta\Theta_{[0]}$.
        ddTheta2: $\delta\delta\Theta_{[2]}$.
    """

    K00: Component
    dK1: Component
    ddK0: Component
    ddK2: Component
    Theta00: Component
    dTheta1: Component
    ddTheta0: Component
    ddTheta2: Component

    @property
    def K(self) -> Float[np.ndarray, "layer input two two"]:
        r"""The kernel of the two inputs (+, -), to the order of the expansion."""
        return assemble(self.K00 + self.ddK0, self.dK1, self.ddK2)

    @property
    def Theta(self) -> Float[np.ndarray, "layer input two two"]:
        r"""The NTK of the two inputs (+, -), to the order of the expansion."""
        return assemble(self.Theta00 + self.ddTheta0, self.dTheta1, self.ddTheta2)


@checked
def project(M: Float[np.ndarray, "*batch two other"]) -> tuple[np.ndarray, ...]:
    r"""Components of symmetric two-by-two matrices in the $\gamma$ basis.

    $$M_{[0]}=\tfrac14(M_{++}+M_{--}+2M_{+-}),\quad M_{[1]}=\tfrac12(M_{++}-M_{--}),\quad
      M_{[2]}=\tfrac14(M_{++}+M_{--}-2M_{+-})$$

    Args:
        M: Symmetric matrices over (+, -).

    Returns:
        $(M_{[0]},M_{[1]},M_{[2]})$; exact.

    Raises:
        ValueError: If the last two dimensions are not 2 and 2.

    Source: PDLT (5.17)-(5.20).

    Example:
        >>> import numpy as np
        >>> from scalewise.theory.single import project
        >>> [float(m) for m in project(np.array([[1.0, 0.5], [0.5, 0.8]]))]
        [0.7, 0.09999999999999998, 0.2]
    """
    array = float_array("`M`", M)
    if array.shape[-2:] != (2, 2):
        raise ValueError(f"`M` must end in dimensions (2, 2); got shape {array.shape}.")
    plus, minus = array[..., 0, 0], array[..., 1, 1]
    cross = array[..., 0, 1] + array[..., 1, 0]
    parts = (plus + minus + cross) / 4, (plus - minus) / 2, (plus + minus - cross) / 4
    return tuple(np.asarray(part) for part in parts)


@checked
def assemble(
    zero: Float[np.ndarray, "*batch"],
    one: Float[np.ndarray, "*batch"],
    two: Float[np.ndarray, "*batch"],
) -> Float[np.ndarray, "*batch two two"]:
    r"""The matrix with given components: $M_{\pm\pm}=M_{[0]}\pm M_{[1]}+M_{[2]}$, $M_{+-}=M_{[0]}-M_{[2]}$.

    Args:
        zero: $M_{[0]}$.
        one: $M_{[1]}$.
        two: $M_{[2]}$.

    Returns:
        $M$ over (+, -); exact.

    Source: PDLT (5.15)-(5.16).
    """
    plus, minus, cross = zero + one + two, zero - one + two, zero - two
    return np.stack([np.stack([plus, cross], -1), np.stack([cross, minus], -1)], -2)


@checked
def nearby_inputs_flow(net: Plain, x0: Numbers, dx: Numbers) -> NearbyInputs:
    r"""Kernel and NTK of $x_0\pm\frac12\delta x$ at every layer, to second order in $\delta x$.

    Any $\delta x$: along $x_0$ it changes the norm ($\delta K_{[1]}$, parallel), across it the
    direction only (perpendicular).

    Args:
        net: The network, of a smooth activation.
        x0: Midpoints (inputs, features).
        dx: Differences, same shape.

    Returns:
        The components; rtol 1e-10 of each.

    Raises:
        ValueError: If the activation has a kink: the true $K_{[2]}$ of nearby inputs then falls by
            another law, see `angle_flow`. If inputs are refused, or shapes differ.

    Source: PDLT (5.46)-(5.48), (10.66), (10.70); see the module.

    Example:
        >>> import numpy as np, scalewise as sw
        >>> from scalewise.theory.single import nearby_inputs_flow
        >>> net = sw.MLP(3, 9, "tanh", input_dim=2, output_dim=1)
        >>> flow = nearby_inputs_flow(net, np.array([[1.0, 1.0]]), np.array([[0.1, -0.1]]))
        >>> print(f"{flow.dK1[-1, 0]:.1f} {flow.ddK2[-1, 0]:.6f}")
        0.0 0.000739
    """
    if not net.activation.is_smooth:
        raise ValueError(
            f"{net.activation.name!r} has a kink, where the expansion in the distance of two inputs "
            "fails: the distance is not analytic in it. Use `angle_flow`."
        )
    midpoint = check_inputs(net, x0)
    shift = float_array("`dx`", dx)
    if shift.shape != midpoint.shape or not np.all(np.isfinite(shift)):
        raise ValueError(
            f"`dx` must be finite and have the shape {midpoint.shape} of `x0`; got {shift.shape}."
        )
    single = single_input_flow(net, midpoint)
    m = line_table(net.activation).moments(single.K[:-1].ravel()) if net.depth > 1 else {}
    m = {name: value.reshape(net.depth - 1, -1) for name, value in m.items()}
    along = np.mean(midpoint * shift, axis=1)
    across = np.mean(shift * shift, axis=1) / 4
    return _components(net, single, m, along, across)


def _components(
    net: Network,
    single: SingleInputFlow,
    m: dict[str, np.ndarray],
    along: np.ndarray,
    across: np.ndarray,
) -> NearbyInputs:
    first_W, first_lam = net.C_W[0], net.lambda_W[0]
    C_W, lam = np.array(net.C_W[1:])[:, None], np.array(net.lambda_W[1:])[:, None]
    shape = (0, along.size)
    m = m or {n: np.empty(shape) for n in ("s02", "g2", "p1", "s22", "s22_1", "s13", "p2")}
    parallel, perp, h = single.chi_parallel, single.chi_perp, single.h
    assert perp is not None
    assert h is not None
    assert single.Theta is not None
    Theta = single.Theta[:-1]
    dK1 = scan(parallel, np.zeros(parallel.shape), first_W * along)
    square = dK1[:-1] ** 2
    ddK2 = scan(perp, h * square, first_W * across)
    bend = m["s02"] * ddK2[:-1] + 0.5 * (m["g2"] - m["p1"]) * square
    ddK0 = scan(parallel, C_W * bend)
    turn = 2 * h * Theta * dK1[:-1]
    dTheta1 = scan(perp, lam / C_W * dK1[1:] + turn, first_lam * along)
    crossed = h * dK1[:-1] * dTheta1[:-1]
    curved = C_W * Theta * (m["s22"] * ddK2[:-1] + 0.5 * m["s22_1"] * square)
    ddTheta2 = scan(perp, lam / C_W * ddK2[1:] + curved + crossed, first_lam * across)
    third = m["s13"] * ddK2[:-1] + 0.5 * (m["p2"] - m["s22_1"]) * square
    shifted = Theta * (2 * h * ddK0[:-1] + C_W * third)
    ddTheta0 = scan(perp, lam / C_W * ddK0[1:] + shifted + crossed)
    return NearbyInputs(single.K, dK1, ddK0, ddK2, single.Theta, dTheta1, ddTheta0, ddTheta2)


@checked
def nearby_expectation(
    f: Jet,
    g: Jet,
    *,
    K00: Positive,
    dK1: float = 0.0,
    ddK0: float = 0.0,
    ddK2: float = 0.0,
) -> float:
    r"""$\langle f(z_+)g(z_-)\rangle$ of two nearby inputs, to second order.

    $$\langle F\rangle=\langle F\rangle_0+\frac{\delta K_{[1]}}{2K_{00}}\langle z\,\partial_\Delta F
      \rangle_0+\frac{\delta\delta K_{[0]}}{2K_{00}}\langle z\,\partial_\Sigma F\rangle_0
      +\frac12\Big\langle\Big[\delta\delta K_{[2]}+\Big(\frac{\delta K_{[1]}}{2K_{00}}\Big)^2
      (z^2-K_{00})\Big]\partial_\Delta^2F\Big\rangle_0+O(\delta^3)$$
    with $\partial_\Delta=\partial_+-\partial_-$, $\partial_\Sigma=\partial_++\partial_-$, all at
    $z_+=z_-=z\sim N(0,K_{00})$.

    Args:
        f: The function of $z_+$ with its first and second derivative.
        g: The function of $z_-$ with its first and second derivative.
        K00: Kernel of the midpoint, positive; preactivation².
        dK1: $\delta K_{[1]}$.
        ddK0: $\delta\delta K_{[0]}$.
        ddK2: $\delta\delta K_{[2]}$.

    Returns:
        The expectation; smooth functions, quadrature to 1e-11.

    Raises:
        ValueError: If not three functions are given each, or the kernel is not positive.

    Source: PDLT (5.39).

    Example:
        >>> import numpy as np
        >>> from scalewise.theory.single import nearby_expectation
        >>> sine = (np.sin, np.cos, lambda z: -np.sin(z))
        >>> print(f"{nearby_expectation(sine, sine, K00=1.0, ddK2=0.01):.7f}")
        0.4223324
    """
    z, w = line_rule(np.array(K00), (), 3)
    f0, f1, f2 = (function(z) for function in f)
    g0, g1, g2 = (function(z) for function in g)
    tilt = dK1 / (2 * K00)
    second = f2 * g0 - 2 * f1 * g1 + f0 * g2
    total = f0 * g0 + tilt * z * (f1 * g0 - f0 * g1) + ddK0 / (2 * K00) * z * (f1 * g0 + f0 * g1)
    total += 0.5 * (ddK2 + tilt**2 * (z * z - K00)) * second
    return float(np.sum(w * total))


@checked
def robustness(flow: NearbyInputs) -> Component:
    r"""How much less than its neighbour an untrained input follows a trained one.

    $$\frac{\Theta_{-+}}{\Theta_{++}}-1=-\frac{\delta\Theta_{[1]}}{\Theta_{00}}
      -2\frac{\delta\delta\Theta_{[2]}}{\Theta_{00}}
      +\Big(\frac{\delta\Theta_{[1]}}{\Theta_{00}}\Big)^2+O(\delta^3)$$

    Args:
        flow: From `nearby_inputs_flow`.

    Returns:
        The measure at every layer, dimensionless; $O(\delta^4)$ for equal norms.

    Source: PDLT (10.57), (10.62), (10.64).
    """
    tilt = flow.dTheta1 / flow.Theta00
    return -tilt - 2 * flow.ddTheta2 / flow.Theta00 + tilt**2


@checked
def interpolation_variance(flow: NearbyInputs) -> Component:
    r"""Variance of the trained network at one input when the other was trained on.

    $$\mathrm{Cov}_{--}=4\,\delta\delta K_{[2]}-2\,\delta K_{[1]}\frac{\delta\Theta_{[1]}}{\Theta_{00}}
      +K_{00}\Big(\frac{\delta\Theta_{[1]}}{\Theta_{00}}\Big)^2+O(\delta^3)$$

    Args:
        flow: From `nearby_inputs_flow`.

    Returns:
        The variance at every layer, preactivation²; $O(\delta^4)$ for equal norms.

    Source: PDLT (10.63), (10.65).
    """
    tilt = flow.dTheta1 / flow.Theta00
    return 4 * flow.ddK2 - 2 * flow.dK1 * tilt + flow.K00 * tilt**2
