"""A strategy put to work: the network of given widths whose hyperparameters it scales."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction

from scalewise._checked import Positive, checked
from scalewise._readable import readable
from scalewise.networks._mlp import Plain
from scalewise.networks._network import Network
from scalewise.scaling import Strategy


@dataclass(frozen=True)
@readable
class Scaled:
    r"""A network under a strategy, with the global learning rate that belongs to it.

    Args:
        net: The network, its $C_b,C_W,\lambda_b,\lambda_W$ scaled layer by layer.
        eta: $\eta=n^r\eta_0$, the learning rate that multiplies every $\lambda$.
        width: What stands for $n$, in units of the reference width.
        strategy: The exponents.
    """

    net: Network
    eta: float
    width: float
    strategy: Strategy


@checked
def apply_strategy(
    net: Plain, strategy: Strategy, *, eta: Positive = 1.0, reference_width: Positive = 1
) -> Scaled:
    r"""Scale the hyperparameters of a network with its width.

    $$C_{b,W}^{(\ell)}\to\nu^{-p_\ell}C_{b,W}^{(\ell)},\qquad
    \lambda_{b,W}^{(\ell)}\to\nu^{-q_\ell}\lambda_{b,W}^{(\ell)},\qquad\eta=\nu^r\eta_0,\qquad
    \nu=n_{L-1}/n_\text{ref}.$$
    The factors $1/n_{\ell-1}$ of weights are in `MLP` already. Biases have the exponents `q_bias`, which are
    others than $q_\ell$ where a strategy makes them plain.

    Args:
        net: Shape and the hyperparameters at the reference width: what `strategy` multiplies.
        strategy: As many layers as the network.
        eta: $\eta_0$, the global learning rate at the reference width; positive.
        reference_width: $n_\text{ref}$: there all strategies coincide. 1 is the source's convention.

    Returns:
        The scaled network, and $\eta$.

    Raises:
        ValueError: If the strategy is for another depth, or a number is not positive and finite.

    Source: Yaida (2.4), (2.6), (2.7), (3.16)-(3.20), which take $n$ in the exponents as the width of the
        last hidden layer; the reference width is ours.

    Example:
        >>> import scalewise as sw
        >>> from scalewise.networks import apply_strategy
        >>> from scalewise.scaling import meta
        >>> net = sw.MLP(3, 64, "tanh", input_dim=2, output_dim=1)
        >>> scaled = apply_strategy(net, meta("1/2", depth=3))
        >>> scaled.eta, scaled.net.C_W
        (8.0, (1.0, 1.0, 0.125))
    """
    if strategy.depth != net.depth:
        raise ValueError(
            f"`strategy` has exponents for {strategy.depth} layers, but the network has depth "
            f"{net.depth}. Make the strategy with depth={net.depth}."
        )
    width = net.hidden_widths[-1] / reference_width
    p, q = strategy.p, strategy.q
    return Scaled(
        net.numbered(
            C_b=_times(net.C_b, width, p),
            C_W=_times(net.C_W, width, p),
            lambda_b=_times(net.lambda_b, width, strategy.q_bias),
            lambda_W=_times(net.lambda_W, width, q),
        ),
        eta * width ** float(strategy.r),
        width,
        strategy,
    )


def _times(
    values: tuple[float, ...], width: float, powers: tuple[Fraction, ...]
) -> tuple[float, ...]:
    return tuple(v * width ** float(-p) for v, p in zip(values, powers, strict=True))
