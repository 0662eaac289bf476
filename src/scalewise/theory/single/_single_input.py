r"""Every tensor of the flow for one input alone, through any number of layers.

For one input each tensor is a number and each recursion is linear,
$X^{(\ell+1)}=\alpha^{(\ell)}X^{(\ell)}+\beta^{(\ell)}$, with $\alpha,\beta$ known from expectations at
$K^{(\ell)}$ and from tensors already found. So the kernel goes first, layer by layer; then every
expectation is read from a table for all layers at once; then the tensors follow one after the other,
each by a scan over the layers in blocks. A depth of $10^5$ takes half a second.

Here are $g=\langle\sigma^2\rangle$, $p=\langle\sigma'^2\rangle$, $\chi_\parallel=C_Wg'$, $\chi_\perp=C_Wp$,
$2h=\chi_\perp'$. What carries a tensor from layer to layer is what the one rule of order $1/n$ says of one label
(`scalewise.theory.order._one_label`); a tensor exists if all expectations that it needs do.

Source: PDLT (5.108)-(5.110), (9.6), (9.13)-(9.21), (11.55)-(11.56), (∞.14)-(∞.17). Unequal widths and
$H^{\{1\}}$ are derived.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from jaxtyping import Float

from scalewise._arrays import float_array
from scalewise._checked import checked
from scalewise._readable import readable
from scalewise.networks import Network
from scalewise.networks.spi import Numbers, Plain, check_inputs, check_kernels
from scalewise.theory._tables._line_moments import VERTEX
from scalewise.theory._tables._line_table import LineTable, estimates_of, line_table
from scalewise.theory._tables._scan import scan

Tensor = Float[np.ndarray, "layer input"]
Map = Float[np.ndarray, "map input"]
_LARGEST = 1e280


@dataclass(frozen=True)
@readable
class SingleInputFlow:
    r"""The tensors of each input alone, at every layer; coefficients of $1/n_{\ell-1}$ but for K, Θ.

    ``None`` stands for what does not exist: everything with a derivative if the activation jumps,
    $R,S,T,U$ if it or a derivative of it has a kink.

    Args:
        K: Kernel, preactivation².
        V: Four-point vertex, preactivation⁴.
        G1: NLO metric, preactivation².
        chi_parallel: $\chi_\parallel(K^{(\ell)})$ with $C_W^{(\ell+1)}$, from layer $\ell$ to the next.
        chi_perp: $\chi_\perp(K^{(\ell)})$, likewise.
        h: $\frac12d\chi_\perp/dK$, likewise; 1/preactivation².
        Theta: Frozen NTK.
        H1: NLO mean of the NTK.
        D: NTK-preactivation covariance, connected on the pairs; F: crosswise.
        F: See D.
        B: NTK variance across neurons; A: between diagonal entries.
        A: See B.
        P: dNTK-preactivation correlation, first pattern; Q: second.
        Q: See P.
        R: Mean of the first ddNTK.
        S: Mean of the second ddNTK, first pattern; T, U: second and third.
        T: See S.
        U: See S.
    """

    K: Tensor
    V: Tensor
    G1: Tensor
    chi_parallel: Map
    chi_perp: Map | None = None
    h: Map | None = None
    Theta: Tensor | None = None
    H1: Tensor | None = None
    D: Tensor | None = None
    F: Tensor | None = None
    B: Tensor | None = None
    A: Tensor | None = None
    P: Tensor | None = None
    Q: Tensor | None = None
    R: Tensor | None = None
    S: Tensor | None = None
    T: Tensor | None = None
    U: Tensor | None = None


_TENSORS = ("V", "G1", "H1", *"DFBAPQRSTU")


@checked
def single_input_flow(
    net: Plain,
    x: Numbers | None = None,
    *,
    K1: Numbers | None = None,
    C_b_nlo: float = 0.0,
    C_W_nlo: float = 0.0,
) -> SingleInputFlow:
    r"""Every single-input recursion at once, for each of many inputs.

    $$K^{(\ell+1)}=C_b+C_W\langle\sigma^2\rangle_{K^{(\ell)}},\qquad V^{(1)}=G^{\{1\}(1)}=\dots=0$$
    and the tensors of the module's docstring.

    Args:
        net: The network; $C_b,C_W,\lambda_b,\lambda_W$ and widths of every layer enter.
        x: Inputs (samples, features).
        K1: Instead of `x`: first-layer kernels, one or many, at least $C_b^{(1)}$; preactivation².
        C_b_nlo: $c_b^{\{1\}}$ of $C_b^{(\ell)}=C_b+c_b^{\{1\}}/n_{\ell-1}$ beyond the first layer:
            adds $c_b^{\{1\}}$ to $G^{\{1\}\prime}$, PDLT (5.138)-(5.140).
        C_W_nlo: $c_W^{\{1\}}$, likewise: adds $c_W^{\{1\}}g$ to $G^{\{1\}\prime}$ and
            $c_W^{\{1\}}p\,\Theta$ to $H^{\{1\}\prime}$.

    Returns:
        The flow, arrays (layer, input); rtol 1e-10 of each recursion's terms.

    Raises:
        ValueError: If not exactly one of `x` and `K1` is given, an input is refused, or a kernel or
            tensor leaves the range of float64.

    Source: PDLT (5.108)-(5.110), (9.6), (9.13)-(9.16), (11.55)-(11.56), (∞.14)-(∞.17).

    Example:
        >>> import scalewise as sw
        >>> from scalewise.theory.single import single_input_flow
        >>> net = sw.MLP(5, 100, "tanh", input_dim=1, output_dim=1)
        >>> flow = single_input_flow(net, K1=1.0)
        >>> print(f"{flow.K[-1, 0]:.10f} {flow.V[-1, 0]:.10f} {flow.G1[-1, 0]:.10f}")
        0.1279047353 0.0393984430 -0.0682253714
    """
    with np.errstate(over="ignore", invalid="ignore", under="ignore"):
        table = line_table(net.activation)
        K = _kernels(net, table, _first_kernel(net, x, K1))
        tensors = tensors_from(net, K, estimates_of(table, K)[0], (C_b_nlo, C_W_nlo))
        return SingleInputFlow(K=K, **_all_finite(net, tensors))


@checked
def single_input_vertex(net: Plain, K: Tensor) -> Tensor:
    r"""$V$ of each input alone, from its kernel at every layer; nothing else is computed.

    Args:
        net: The network.
        K: Diagonal kernel at every layer.

    Returns:
        The vertex, preactivation⁴; rtol 1e-10. Any activation, kinked or not.

    Raises:
        ValueError: If an expectation does not converge, or the vertex leaves the range of float64.

    Source: PDLT (5.109), (5.10).
    """
    table = line_table(net.activation, VERTEX)
    with np.errstate(over="ignore", invalid="ignore", under="ignore"):
        m = estimates_of(table, K)[0]
        V = tensors_from(net, K, m, letters="V")["V"]
    refuse_overflow(net, "V", V)
    return V


def _width_ratios(net: Network) -> np.ndarray:
    r"""$n_\ell/n_{\ell-1}$ from layer to layer; it meets tensors that vanish in the first."""
    widths = np.array(net.widths, dtype=np.float64)[:, None]
    return widths[1:-1] / widths[:-2]


def single_input_tensors(net: Network, K: Tensor) -> dict[str, np.ndarray]:
    """Each tensor of each input alone, by letter, from its kernel at every layer; rtol 1e-10.

    Example:
        >>> import numpy as np, scalewise as sw
        >>> from scalewise.theory.single._single_input import single_input_flow, single_input_tensors
        >>> net = sw.MLP(5, 100, "tanh", input_dim=1, output_dim=1)
        >>> flow = single_input_flow(net, K1=1.0)
        >>> bool(np.array_equal(single_input_tensors(net, flow.K)["B"], flow.B))
        True
    """
    with np.errstate(over="ignore", invalid="ignore", under="ignore"):
        return _all_finite(
            net, tensors_from(net, K, estimates_of(line_table(net.activation), K)[0])
        )


def tensors_from(
    net: Network,
    K: Tensor,
    m: dict[str, Map],
    nlo: tuple[float, float] = (0.0, 0.0),
    letters: Collection[str] | None = None,
    *,
    kept: Float[np.ndarray, "map layer"] | None = None,
    between: Mapping[tuple[int, ...], Float[np.ndarray, "map layer"]] | None = None,
) -> dict[str, np.ndarray]:
    """Tensors from expectations, by the names of `SingleInputFlow`; all of these, or some.

    Along a stream of skip connections `kept` says how much of a neuron is left, and `between` what layers share.
    """
    # The rule stands in a room that carries many inputs through layers, too, and imports this one.
    from scalewise.theory.order._one_label import Chain

    C, lam_b, lam_W = (np.array(v)[:, None] for v in (net.C_W, net.lambda_b, net.lambda_W))
    skip = np.array(net.skips)[1:, None] ** 2
    C_W, found = C[1:], {"chi_parallel": C[1:] * m["g1"]}
    if "p" in m:
        Theta_1 = lam_b[0] + lam_W[0] * (K[0] - net.C_b[0]) / C[0]
        found["chi_perp"] = C_W * m["p"]
        found["Theta"] = scan(skip + found["chi_perp"], lam_b[1:] + lam_W[1:] * m["g"], Theta_1)
    if "p1" in m:
        found["h"] = 0.5 * C_W * m["p1"]
    below = found["Theta"][:-1] if "Theta" in found else None
    rates = {"C_W": C_W, "lambda_W": lam_W[1:], "skip": skip}
    chain = Chain(m, rates, below, _width_ratios(net), nlo, K[:-1], kept, between or {})
    return found | chain.tensors(_TENSORS if letters is None else letters)


def _first_kernel(net: Network, x: Any, K1: Any) -> np.ndarray:
    if (x is None) == (K1 is None):
        raise ValueError("`single_input_flow` takes either inputs `x` or first-layer kernels `K1`.")
    if K1 is None:
        inputs = check_inputs(net, x)
        return net.C_b[0] + net.C_W[0] * np.mean(inputs * inputs, axis=1)
    first = np.atleast_1d(float_array("`K1`", K1))
    good = np.isfinite(first) & (first > 0) & (first >= net.C_b[0])
    if first.ndim != 1 or not good.all():
        bad = first.ravel()[~good.ravel()][0] if not good.all() else f"shape {first.shape}"
        raise ValueError(
            "`K1` must be one or a list of positive, finite kernels of the first layer, at least "
            f"C_b = {net.C_b[0]:g}; got {bad}."
        )
    return first


def _kernels(net: Network, table: LineTable, first: np.ndarray) -> np.ndarray:
    """The kernel of each input, layer by layer: the only step that cannot be taken all at once."""
    K = np.empty((net.depth, first.size))
    hyper = list(zip(net.C_b[1:], net.C_W[1:], strict=True))
    for column, k in enumerate(first.tolist()):
        trace = [k]
        for layer, (C_b, C_W) in enumerate(hyper, 2):
            k = C_b + C_W * table.square(k)
            if not 1e-280 < k < 1e280:  # in the hot loop a comparison, not an array
                check_kernels(net, layer, np.array([k]), power=1)
            trace.append(k)
        K[:, column] = trace
    return K


def _all_finite(net: Network, found: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
    """All of it, if it is finite."""
    for name, value in found.items():
        refuse_overflow(net, name, value)
    return found


def refuse_overflow(net: Network, name: str, value: Tensor) -> None:
    """Refuse a tensor that leaves the range of float64, with its layer and the remedy."""
    if np.all(np.abs(value) < _LARGEST):
        return
    layer = int(np.argmin(np.all(np.abs(value) < _LARGEST, axis=1))) + 1
    raise ValueError(
        f"The tensor {name} of {net.activation.name!r} leaves the range of float64 at layer {layer}: "
        "gradients explode. Use fewer layers, or critical hyperparameters: net.at_criticality()."
    )
