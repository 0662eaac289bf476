r"""A multilayer perceptron under a strategy, and the powers of the width that make up its training."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Annotated

from scalewise._checked import Must, checked
from scalewise._readable import readable
from scalewise.activations import Activation
from scalewise.activations import activation as to_activation
from scalewise.activations.spi import ActivationLike
from scalewise.scaling import ABC, Strategy, classify, readout_exponents, update_exponents

PerLayer = float | int | Sequence[float | int]
Width = Annotated[float | int, Must("a width of at least 1, or math.inf", lambda n: n >= 1)]


@checked
@dataclass(frozen=True, init=False)
@readable
class Architecture:
    r"""A multilayer perceptron whose hyperparameters scale with its width as a strategy says.

    $$h^1=W^1\xi+b^1,\quad x^\ell=\phi(h^\ell),\quad h^{\ell+1}=W^{\ell+1}x^\ell+b^{\ell+1},\quad f=h^{L+1},$$
    $$W^1_{ij}\sim N(0,n^{-p_1}C_W^1),\quad W^\ell_{ij}\sim N(0,n^{-p_\ell}C_W^\ell/n_{\ell-1}),\quad
    b^\ell_i\sim N(0,n^{-p_\ell}C_b^\ell),$$
    with $L$ hidden layers and learning rates $\eta n^{r-q_\ell}\lambda^\ell$, divided by the fan-in for weights
    from the second layer on. The first layer is not divided by the number of inputs.

    Args:
        strategy: A `Strategy` or `ABC` for $L+1\ge2$ layers of weights.
        activation: Name, callable or `Activation`.
        C_W: Weight variances at reference, one or one per layer; positive.
        C_b: Bias variances, one or one per layer; at least 0.
        lambda_W: Factors of the learning rates of weights; at least 0.
        lambda_b: Factors of the learning rates of biases; at least 0. There are no biases by default.
        ratios: Widths of the hidden layers in units of $n$, one or one per hidden layer; positive.

    Raises:
        ValueError: If the strategy is unstable: the message names inequality and layer. If a number is out of its
            range, or a list has another length.

    Source: Yang & Hu, *Tensor Programs IV*, (1) and K.1; ratios of widths derived.

    Example:
        >>> from scalewise.limits import Architecture
        >>> from scalewise.scaling import mup
        >>> Architecture(mup(depth=3), "tanh").hidden_layers
        2
    """

    strategy: Strategy
    activation: Activation
    C_W: tuple[float, ...]
    C_b: tuple[float, ...]
    lambda_W: tuple[float, ...]
    lambda_b: tuple[float, ...]
    ratios: tuple[float, ...]

    def __init__(
        self,
        strategy: Strategy | ABC,
        activation: ActivationLike,
        *,
        C_W: PerLayer = 1.0,
        C_b: PerLayer = 0.0,
        lambda_W: PerLayer = 1.0,
        lambda_b: PerLayer = 0.0,
        ratios: PerLayer = 1.0,
    ) -> None:
        plain = strategy.to_strategy() if isinstance(strategy, ABC) else strategy
        found = classify(plain)
        if not found.stable:
            raise ValueError(
                f"The strategy {plain} is unstable, so it has no limit. {' '.join(found.reasons)}"
            )
        store = object.__setattr__
        store(self, "strategy", plain)
        store(self, "activation", to_activation(activation))
        layers = plain.depth
        store(self, "C_W", _per_layer("C_W", C_W, layers, positive=True))
        store(self, "C_b", _per_layer("C_b", C_b, layers, positive=False))
        store(self, "lambda_W", _per_layer("lambda_W", lambda_W, layers, positive=False))
        store(self, "lambda_b", _per_layer("lambda_b", lambda_b, layers, positive=False))
        store(self, "ratios", _per_layer("ratios", ratios, layers - 1, positive=True))

    @property
    def hidden_layers(self) -> int:
        r"""$L$, as the source counts: layers of weights less one."""
        return self.strategy.depth - 1

    @property
    def has_biases(self) -> tuple[bool, ...]:
        """For each layer, whether it has a bias that starts or moves."""
        return tuple(c > 0 or r > 0 for c, r in zip(self.C_b, self.lambda_b, strict=True))

    def widths(self, n: int) -> tuple[int, ...]:
        """Widths of the hidden layers of a network whose width is `n`.

        Raises:
            ValueError: If one of them rounds to nothing.
        """
        found = tuple(round(ratio * n) for ratio in self.ratios)
        if min(found) < 1:
            raise ValueError(
                f"A hidden layer has no neurons left: widths {found} at n = {n} with `ratios` = "
                f"{self.ratios}. Take a larger n."
            )
        return found


@checked
@dataclass(frozen=True)
@readable
class WidthPowers:
    r"""Factors that a strategy puts before each term of the training, at one width or in the limit.

    $$f=\kappa\langle\hat W,x^L\rangle,\quad\hat W_0=\iota g,\quad\Delta\hat W=-\upsilon\eta\chi x^L,\quad
    \Delta W^\ell=-\vartheta_\ell\eta\chi\,dh^\ell x^{\ell-1\top}/n .$$

    Args:
        theta: $\vartheta_\ell=n^{-r_\ell}$ of the hidden layers: 1 or 0 in the limit.
        theta_b: The same for their biases, and for the output bias.
        kappa: $\kappa=n^{1-\min(A,U)}$.
        iota: $n^{\min(A,U)-A}$.
        upsilon: $n^{\min(A,U)-U}$.
        bias: Standard deviations of initial biases, $n^{-p_\ell/2}$.
    """

    theta: tuple[float, ...]
    theta_b: tuple[float, ...]
    kappa: float | int
    iota: float | int
    upsilon: float | int
    bias: tuple[float, ...]


@checked
def powers(strategy: Strategy, n: Width) -> WidthPowers:
    r"""The powers of the width in the training, at width $n$ or, with $n=\infty$, their limits.

    Args:
        strategy: Stable.
        n: Width, or `math.inf`.

    Returns:
        Exact.

    Raises:
        ValueError: If $n=\infty$ and a power has no finite limit: the kernel regime.

    Source: Yang & Hu, N.3 and N.5, written without increments; $\kappa,\iota,\upsilon$ derived.

    Example:
        >>> import math
        >>> from scalewise.limits import powers
        >>> from scalewise.scaling import mup, ntk
        >>> powers(mup(), math.inf).theta, powers(ntk(), 100).theta, powers(ntk(), 100).kappa
        ((1.0, 1.0), (0.1, 0.1), 10.0)
    """
    A, U = readout_exponents(strategy)
    least = min(A, U)
    r_l = update_exponents(strategy)
    rates_b = tuple(q - strategy.r for q in strategy.q_bias)
    return WidthPowers(
        theta=tuple(power(n, -r) for r in r_l),
        theta_b=(*(power(n, -(least + q)) for q in rates_b[:-1]), power(n, -rates_b[-1])),
        kappa=power(n, 1 - least),
        iota=power(n, least - A),
        upsilon=power(n, least - U),
        bias=tuple(power(n, -p / 2) for p in strategy.p),
    )


def power(n: float | int, exponent: Fraction) -> float:
    """A power of the width, or its limit; refused where there is none."""
    if exponent == 0:
        return 1.0
    if math.isinf(n):
        if exponent > 0:
            raise ValueError(
                f"This strategy is in the kernel regime: a power n^({exponent}) in its training has no limit, "
                "and what it tends to is the gradient descent of a kernel. `train` on Infinite(...) takes that "
                "for it; a program is `incremental` in place of `trained`."
            )
        return 0.0
    return float(n) ** float(exponent)


def _per_layer(name: str, value: PerLayer, layers: int, *, positive: bool) -> tuple[float, ...]:
    values = (value,) * layers if isinstance(value, float | int) else tuple(value)
    if len(values) != layers:
        raise ValueError(
            f"`Architecture.{name}` needs one number, or one for each of {layers} layers; got {value!r}."
        )
    for v in values:
        if not math.isfinite(v) or v < 0 or (positive and v == 0):
            kind = "positive" if positive else "at least 0"
            raise ValueError(f"`Architecture.{name}` must be {kind} and finite; got {v!r}.")
    return tuple(map(float, values))
