"""The multilayer perceptron whose behaviour is predicted and measured: shape and hyperparameters, no weights."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Annotated, Any

import numpy as np

from scalewise._checked import Must, NotNegative, Positive, checked
from scalewise._readable import readable
from scalewise.critical import Criticality, criticality, equivalent_rates, rates_along
from scalewise.networks._layers import one_for_all
from scalewise.networks._perceptron import Perceptron


@checked
@dataclass(frozen=True, init=False)
@readable
class MLP(Perceptron):
    r"""A multilayer perceptron at initialisation, in PDLT's parametrisation.

    $$z^{(1)}=b^{(1)}+W^{(1)}x,\qquad z^{(\ell+1)}=b^{(\ell+1)}+W^{(\ell+1)}\sigma(z^{(\ell)}),
    \qquad f(x)=z^{(L)},$$
    $$b^{(\ell)}_i\sim N(0,C_b^{(\ell)}),\qquad W^{(\ell)}_{ij}\sim N(0,C_W^{(\ell)}/n_{\ell-1}),$$
    and learning rates $\lambda_b^{(\ell)}$ for biases, $\lambda_W^{(\ell)}/n_{\ell-1}$ for weights.

    A network is a value: equal to any other with the same numbers, hashable, and ``dataclasses.replace(net,
    depth=8)`` is the same network with more layers, where every number that was given once for all layers is
    repeated.

    Args:
        depth: $L$, the number of weight layers, at least 1.
        width: Width of every hidden layer, or the $L-1$ hidden widths. Ignored for depth 1.
        activation: Name, callable or `Activation`.
        input_dim: $n_0$.
        output_dim: $n_L$.
        C_b: Bias variance, one number or one per layer; at least 0.
        C_W: Rescaled weight variance, one number or one per layer; positive.
        lambda_b: Learning-rate factor of the biases; at least 0.
        lambda_W: Learning-rate factor of the weights; at least 0.

    Raises:
        ValueError: If a size is below 1, a variance or rate is negative or not finite, or a list
            has the wrong length. The message names the argument and the value.

    Source: PDLT (2.5), (2.19)-(2.20), (8.6).

    Example:
        >>> import scalewise as sw
        >>> net = sw.MLP(4, 128, "tanh", input_dim=64, output_dim=10)
        >>> net.widths
        (64, 128, 128, 128, 10)
    """

    @property
    def skips(self) -> tuple[float, ...]:
        """No layer adds the one below to itself: all 0."""
        return one_for_all(self.depth, 0.0)

    @property
    def branch(self) -> MLP:
        """Itself."""
        return self

    @checked
    def with_equivalent_learning_rates(
        self,
        lambda_b: NotNegative = 1.0,
        lambda_W: NotNegative = 1.0,
        *,
        kernel: Positive | None = None,
    ) -> MLP:
        r"""The same network with rates that let every layer contribute equally to the NTK.

        $$\lambda_b^{(\ell)}=\tilde\lambda_b/L,\qquad\lambda_W^{(\ell)}=\tilde\lambda_W/L$$
        for a scale-invariant activation (and, at $K=K^\star$, a half-stable one);
        $$\lambda_b^{(\ell)}=\tilde\lambda_b\,\ell^{-p_\perp}L^{p_\perp-1},\qquad
          \lambda_W^{(\ell)}=\tilde\lambda_W(L/\ell)^{p_\perp-1}$$
        for the class $K^\star=0$, where contributions are equal asymptotically in $\ell$. The NTK
        of the output is then independent of the depth. With `kernel` the rates are computed layer
        by layer from the products of $\chi_\perp$ instead: for an input of that kernel all
        contributions are exactly equal, at any hyperparameters and for any activation.

        Args:
            lambda_b: $\tilde\lambda_b$, at least 0.
            lambda_W: $\tilde\lambda_W$, at least 0.
            kernel: $K^{(1)}=C_b+C_W|x|^2/n_0$ of a typical input; ``None`` to use the rule of the
                activation's class, at its critical hyperparameters.

        Returns:
            A copy; $\lambda_W^{(\ell)}$ is divided by $n_{\ell-1}$ by the network itself.

        Raises:
            ValueError: If a rate is negative or not finite; without `kernel`, if the activation has
                no class or $C_b,C_W$ are not critical behind the first layer; with `kernel`, if the
                signal explodes or vanishes.

        Source: PDLT (9.94)-(9.96), (9.28). The rule with `kernel`, and those of half-stable points
        and of a kink at 0, follow from the same demand; they are not printed.

        Example:
            >>> import scalewise as sw
            >>> net = sw.MLP(4, 128, "tanh", input_dim=64, output_dim=10).at_criticality()
            >>> net.with_equivalent_learning_rates(lambda_b=12.0).lambda_b
            (12.0, 6.0, 4.0, 3.0)
        """
        if kernel is not None:
            bias, weight = rates_along(
                self.activation, kernel, self.C_b, self.C_W, lambda_b, lambda_W
            )
        else:
            record = criticality(self.activation)
            bias, weight = equivalent_rates(record, self.depth, lambda_b, lambda_W)
            _require_criticality(self, record)
        return replace(self, lambda_b=bias, lambda_W=weight)


def _without_skips(net: Any) -> MLP:
    if isinstance(net, Perceptron) and not any(net.skips):
        return net.branch
    raise TypeError


WithoutSkips = Annotated[
    MLP, Must("a network without skip connections, such as scalewise.MLP", to=_without_skips)
]


def _require_criticality(net: MLP, record: Criticality) -> None:
    """Refuse hyperparameters behind the first layer that are not those of the record."""
    C_b, C_W = record.C_b, record.C_W
    for layer in range(1, net.depth):
        here = (net.C_b[layer], net.C_W[layer])
        if C_b is None or C_W is None or not np.allclose(here, (C_b, C_W), rtol=1e-9, atol=0):
            raise ValueError(
                f"The learning rates of the class {record.universality!r} are those at criticality, "
                f"C_b = {C_b} and C_W = {C_W}, but layer {layer + 1} has {here}. Call "
                "at_criticality() first, or give `kernel`, the kernel of a typical input in the "
                "first layer."
            )
