r"""One network as an object: its output, its tangent kernels, their first changes, and one step.

Everything here is a sum over hidden units as it is printed, slow and plain; `train` is the fast form.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Annotated

import numpy as np
import xarray as xr
from jaxtyping import Float

from scalewise._checked import Count, Index, Must, checked
from scalewise._labelled import dataset
from scalewise._readable import readable
from scalewise.limits.shallow._particles import ParticleDraw, draw_weights
from scalewise.limits.shallow._reference import LimitUnits, Reference, finite_units
from scalewise.limits.shallow._scaling import ShallowScaling
from scalewise.tasks.spi import LOSSES


@checked
@dataclass(frozen=True, eq=False)
@readable
class ShallowNetwork:
    r"""A network of one hidden layer with its weights.

    Args:
        a: $\hat a$, shape (unit,).
        w: $\hat w$, shape (unit, feature).
        reference: $d^*$, $\sigma^*$, $\hat\eta^*$ and $\phi$.
        scaling: Its exponents; no term beside the sum.

    Raises:
        ValueError: If shapes do not fit, or the scaling adds something to the output.
    """

    a: Float[np.ndarray, " _unit"]
    w: Float[np.ndarray, "_unit feature"]
    reference: Reference
    scaling: ShallowScaling
    _such_as = "limits.shallow.draw_network(...)"

    def __post_init__(self) -> None:
        if len(self.a) != len(self.w) or not len(self.a):
            raise ValueError(
                "`ShallowNetwork.a` must have shape (unit,) and `w` (unit, feature); got "
                f"{self.a.shape} and {self.w.shape}."
            )
        if self.scaling.initial:
            raise ValueError(
                f"A `ShallowNetwork` is the sum over its units alone; {self.scaling} adds another to its "
                "output. Take 'MF', whose kernels are the same, or `train`."
            )

    @property
    def units(self) -> LimitUnits:
        """Factors before the sums."""
        return finite_units(self.reference, self.scaling, len(self.a))

    def phi(self, x: np.ndarray, order: int = 0) -> np.ndarray:
        r"""$\phi^{(p)}(\hat w_r\cdot x)$, $p$ being the `order`, shape (input, unit)."""
        return self.reference.phi.derivative(np.asarray(x, dtype=np.float64) @ self.w.T, order)


Order = Annotated[int, Must("1, 2 or 3: an activation has three derivatives", lambda k: 0 < k < 4)]
Label = Annotated[float | int, Must("1 or -1", lambda y: abs(y) == 1)]


@checked
@dataclass(frozen=True, eq=False)
@readable
class Sample:
    r"""The samples of one step: one for $\hat a$, one for $\hat w$.

    Args:
        x_a: Input whose loss moves $\hat a$, shape (feature,).
        y_a: Its label.
        x_w: Input whose loss moves $\hat w$.
        y_w: Its label.
    """

    x_a: Float[np.ndarray, " feature"]
    y_a: Label
    x_w: Float[np.ndarray, " _feature"]
    y_w: Label


@checked
def draw_network(
    reference: Reference, scaling: ShallowScaling, width: Count, features: Count, *, seed: Index = 0
) -> ShallowNetwork:
    """The network that `train` starts from at `Finite(width, seed=seed)`.

    Args:
        reference: Law of the weights, and constants.
        scaling: Exponents.
        width: $d$.
        features: Of one input.
        seed: Of the draw.

    Example:
        >>> from scalewise.limits import shallow
        >>> shallow.draw_network(shallow.Reference(8), shallow.scaling("NTK"), 4, 3).w.shape
        (4, 3)
    """
    ((a, w),) = draw_weights(ParticleDraw(width, (seed,), reference.law), features, (width,))
    return ShallowNetwork(a[0], np.ascontiguousarray(w[:, 0].T), reference, scaling)


@checked
def output(
    net: ShallowNetwork, x: Float[np.ndarray, "input feature"]
) -> Float[np.ndarray, " input"]:
    r"""$f_d(x)=\sigma\sum_r\hat a_r\phi(\hat w_r\cdot x)$.

    Args:
        net: The network.
        x: Inputs.

    Source: Golikov (1).
    """
    _check_features(net, x=x)
    with np.errstate(over="ignore", invalid="ignore"):
        f = net.units.output * net.phi(x) @ net.a
    if not np.isfinite(f).all():
        raise ValueError("Outputs overflow at these inputs. Scale `x` or the weights down.")
    return f


@checked
def tangent_kernels(
    net: ShallowNetwork,
    x: Float[np.ndarray, "input feature"],
    others: Float[np.ndarray, "other feature"],
) -> tuple[Float[np.ndarray, "input other"], Float[np.ndarray, "input other"]]:
    r"""Tangent kernels of the output weights and of the first weights.

    $$K_a=u^{\tilde q_a}\sigma^2\sum_r\phi(\hat w_r\cdot x)\phi(\hat w_r\cdot x'),\qquad
    K_w=u^{\tilde q_w}\sigma^2\sum_r\hat a_r^2\phi'(\hat w_r\cdot x)\phi'(\hat w_r\cdot x')\;x\cdot x'$$
    with $u=d/d^*$, so that at vanishing rates
    $\partial\Delta f(x)/\partial\hat\eta^*_{a,w}=-\nabla\ell_{a,w}K_{a,w}(x,x_{a,w})$.

    Args:
        net: The network.
        x: Inputs.
        others: Inputs $x'$.

    Source: Golikov (9), (10), (27), (28), (30); (24) has lost $x\cdot x'$.
    """
    _check_features(net, x=x, others=others)
    units = net.units
    K_a = units.kernel_a * net.phi(x) @ net.phi(others).T
    weighted = net.phi(x, 1) * net.a**2
    return K_a, units.kernel_w * (weighted @ net.phi(others, 1).T) * (x @ others.T)


@checked
def kernel_increments(
    net: ShallowNetwork,
    x: Float[np.ndarray, "input feature"],
    others: Float[np.ndarray, "other feature"],
    sample: Sample,
) -> xr.Dataset:
    r"""Change of the tangent kernels in one step, to first order in the rates.

    $$\Delta K_{aw}'=-u^{\tilde q_a+\tilde q_w}\sigma^3\sum_r\big[\phi(x)\phi'(x')\,x'\!\cdot x_w
    +\phi'(x)\phi(x')\,x\cdot x_w\big]\nabla\ell_w\,\hat a_r\phi'(x_w)$$
    $$\Delta K_{ww}'=-u^{2\tilde q_w}\sigma^3\sum_r\hat a_r^2\big[\phi'(x)\phi''(x')\,x'\!\cdot x_w
    +\phi''(x)\phi'(x')\,x\cdot x_w\big]\,x\cdot x'\,\nabla\ell_w\,\hat a_r\phi'(x_w)$$
    $$\Delta K_{wa}'=-u^{\tilde q_a+\tilde q_w}\sigma^3\sum_r2\hat a_r\phi'(x)\phi'(x')\,x\cdot x'\,
    \nabla\ell_a\,\phi(x_a)$$
    with $\phi(x)=\phi(\hat w_r\cdot x)$.

    Args:
        net: The network before the step.
        x: Inputs.
        others: Inputs $x'$.
        sample: What the step sees.

    Returns:
        ``aw``, ``ww`` and ``wa`` over (input, other); $\Delta K_{aa}'=0$.

    Source: Golikov (32)-(36), (120)-(122), corrected: each term has the product of its own input with $x_w$
        where $(x+x')\cdot x_w$ is printed, and $\Delta K_{wa}'$ has the factor $x\cdot x'$.
    """
    _check_features(net, x=x, others=others)
    units, (chi_a, chi_w) = net.units, _loss_slopes(net, sample)
    at_w = chi_w * net.a * net.phi(sample.x_w[None], 1)[0]
    at_a = chi_a * net.phi(sample.x_a[None])[0]
    value, slope, bend = (net.phi(x, p) for p in range(3))
    value_, slope_, bend_ = (net.phi(others, p) for p in range(3))
    dots = x @ others.T
    left, right = (x @ sample.x_w)[:, None], (others @ sample.x_w)[None, :]
    aw = (value * at_w) @ slope_.T * right + (slope * at_w) @ value_.T * left
    squared = net.a**2 * at_w
    ww = ((slope * squared) @ bend_.T * right + (bend * squared) @ slope_.T * left) * dots
    wa = 2 * (slope * net.a * at_a) @ slope_.T * dots
    # kernel_a and kernel_w hold sigma² and one power of u; the step of a weight the rest.
    by_a, by_w = units.kernel_a / units.output, units.kernel_w / units.output
    found = {
        "aw": -units.kernel_a * by_w * aw,
        "ww": -units.kernel_w * by_w * ww,
        "wa": -units.kernel_w * by_a * wa,
    }
    return dataset({name: (("input", "other"), change) for name, change in found.items()})


@checked
def step(net: ShallowNetwork, sample: Sample) -> ShallowNetwork:
    r"""The network after one step, exactly: both weights move from the same state.

    Args:
        net: The network before it.
        sample: What the step sees.

    Source: Golikov (5), (6); (4) has lost its minus sign.
    """
    units, (chi_a, chi_w) = net.units, _loss_slopes(net, sample)
    change_a = -units.rate_a * chi_a * net.phi(sample.x_a[None])[0]
    pull = -units.rate_w * chi_w * net.a * net.phi(sample.x_w[None], 1)[0]
    return replace(net, a=net.a + change_a, w=net.w + pull[:, None] * sample.x_w)


@checked
def output_change(
    net: ShallowNetwork, x: Float[np.ndarray, "input feature"], sample: Sample, *, order: Order = 3
) -> Float[np.ndarray, " input"]:
    r"""Change of the output in one step, as a series in the rates.

    $$\begin{aligned}\Delta f={}&\sum_{j\ge1}\frac{(-1)^j}{j!}\hat\eta_w^j\sigma^{j+1}(\nabla\ell_w)^j
    \sum_r\hat a_r^{j+1}\phi'(x_w)^j\phi^{(j)}(x)(x_w\cdot x)^j\\
    &+\sum_{j\ge1}\frac{(-1)^j}{(j-1)!}\hat\eta_a\hat\eta_w^{j-1}\sigma^{j+1}\nabla\ell_a(\nabla\ell_w)^{j-1}
    \sum_r\hat a_r^{j-1}\phi(x_a)\phi'(x_w)^{j-1}\phi^{(j-1)}(x)(x_w\cdot x)^{j-1}\end{aligned}$$

    Args:
        net: The network before the step.
        x: Inputs.
        sample: What the step sees.
        order: Of the last term kept in the rates together, 1 to 3.

    Returns:
        $\Delta f(x)$, up to $O(\hat\eta^{\mathrm{order}+1})$.

    Raises:
        ValueError: If the order is not 1, 2 or 3.

    Source: Golikov (43), whose second sum is printed with $1/j!$ and $(\nabla\ell_w)^j$.
    """
    _check_features(net, x=x)
    units, (chi_a, chi_w) = net.units, _loss_slopes(net, sample)
    shift = -units.rate_w * chi_w * net.a * net.phi(sample.x_w[None], 1)[0]
    change_a = -units.rate_a * chi_a * net.phi(sample.x_a[None])[0]
    moved = (x @ sample.x_w)[:, None] * shift
    total, power = np.zeros(len(x)), np.ones_like(moved)  # power: moved^(j-1)/(j-1)!
    for j in range(1, order + 1):
        total += (net.phi(x, j - 1) * power) @ change_a
        power = power * moved / j
        total += (net.phi(x, j) * power) @ net.a
    return units.output * total


def _check_features(net: ShallowNetwork, **inputs: np.ndarray) -> None:
    features = net.w.shape[1]
    for name, x in inputs.items():
        if x.shape[1] != features:
            raise ValueError(
                f"`{name}` must have {features} features for this net; got {x.shape[1]}."
            )


def _loss_slopes(net: ShallowNetwork, sample: Sample) -> tuple[float, float]:
    if len(sample.x_a) != len(sample.x_w):
        raise ValueError(
            f"`Sample.x_a` and `x_w` need equally many features; got {len(sample.x_a)} and {len(sample.x_w)}."
        )
    f = output(net, np.stack([sample.x_a, sample.x_w]))
    slopes = LOSSES["logistic"].gradient(f, np.array([sample.y_a, sample.y_w], dtype=np.float64))
    return float(slopes[0]), float(slopes[1])
