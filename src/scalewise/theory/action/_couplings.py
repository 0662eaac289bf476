r"""The action of a layer: its couplings for any number of inputs and neurons.

$$S=\tfrac12g^{ab}\sum_iz_{i;a}z_{i;b}-\tfrac18v^{(ab)(cd)}\sum_{ij}z_{i;a}z_{i;b}z_{j;c}z_{j;d}$$
With $v>0$ it is unbounded below: it is only ever expanded, never sampled. Indices are raised with the
inverse kernel, so inputs must not coincide; `nearly_gaussian` needs no inverse.

Source: PDLT (4.44)-(4.52), (4.80)-(4.83), (4.92)-(4.109).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from jaxtyping import Float

from scalewise._checked import Count, checked
from scalewise.gaussian.spi import joint_rule
from scalewise.networks.spi import Width

Kernel = Float[np.ndarray, "_ _"]
Vertex = Float[np.ndarray, "_ _ _ _"]


@dataclass(frozen=True)
class Couplings:
    r"""Quadratic and quartic coupling of some neurons of one layer on some inputs.

    Args:
        quadratic: $g^{ab}$, raised; preactivation⁻².
        quartic: $v^{(ab)(cd)}$, raised, with its $1/n$; preactivation⁻⁴.
        neurons: $m$, the neurons of the action; the quadratic coupling runs with it.
    """

    quadratic: Kernel
    quartic: Vertex
    neurons: int


@checked
def couplings(
    K: Kernel, V: Vertex, n: Width, *, G1: Kernel | None = None, neurons: Count = 1
) -> Couplings:
    r"""The couplings of $m$ neurons of a layer from its kernel, vertex and NLO metric.

    $$v^{(ab)(cd)}=\tfrac1nV^{(ab)(cd)},\qquad g^{ab}=K^{ab}+\tfrac1n\Big[-K^{ac}K^{bd}G^{\{1\}}_{cd}
      +K_{cd}\Big(\tfrac m2V^{(ab)(cd)}+V^{(ac)(bd)}\Big)\Big]$$

    Args:
        K: Kernel, positive definite; preactivation².
        V: Four-point vertex; preactivation⁴.
        n: $n_{\ell-1}$.
        G1: NLO metric; ``None`` for 0.
        neurons: $m$, at least 1.

    Returns:
        The couplings; errors $O(1/n^2)$.

    Raises:
        ValueError: If `K` is not positive definite, shapes do not fit or a number is below 1.

    Source: PDLT (4.82), (4.109); for one input (4.102), (4.103).

    Example:
        >>> import numpy as np
        >>> from scalewise.theory.action import couplings
        >>> one = couplings(np.ones((1, 1)), np.full((1, 1, 1, 1), 2.0), 100.0, neurons=4)
        >>> print(f"{one.quadratic.item():.4f} {one.quartic.item():.4f}")  # 1 + (m+2)V/2n, V/n
        1.0600 0.0200
    """
    _check_cumulants(K, V, n, neurons)
    up = np.linalg.inv(K)
    raised = np.einsum("ae,bf,cg,dh,efgh->abcd", up, up, up, up, V, optimize=True) / n
    shift = 0.5 * neurons * np.einsum("abcd,cd->ab", raised, K)
    shift = shift + np.einsum("acbd,cd->ab", raised, K)
    if G1 is not None:
        shift = shift - up @ G1 @ up / n
    return Couplings(up + shift, raised, neurons)


@checked
def metric_and_vertex(action: Couplings) -> tuple[Kernel, Vertex]:
    r"""The two-point function $G$ and the connected four-point function $V/n$ of an action.

    $$G_{ab}=g_{ab}+\tfrac12v^{(ef)(cd)}\big(m\,g_{ae}g_{bf}g_{cd}+2g_{ae}g_{bc}g_{fd}\big),\qquad
      \tfrac1nV_{(ab)(cd)}=g_{ae}g_{bf}g_{cg}g_{dh}v^{(ef)(gh)}$$

    Args:
        action: The couplings.

    Returns:
        $G$, preactivation², and $V/n$, preactivation⁴; errors $O(v^2)$.

    Source: PDLT (4.47), (4.48), (4.107).
    """
    g, v, m = np.linalg.inv(action.quadratic), action.quartic, action.neurons
    lowered = np.einsum("ae,bf,cg,dh,efgh->abcd", g, g, g, g, v, optimize=True)
    G = g + 0.5 * m * np.einsum("abcd,cd->ab", lowered, action.quadratic)
    return G + np.einsum("acbd,cd->ab", lowered, action.quadratic), lowered


@checked
def marginalise(
    action: Couplings, *, samples: Sequence[int] | None = None, neurons: int | None = None
) -> Couplings:
    r"""The action of fewer inputs and fewer neurons: what is left when the others are integrated out.

    Args:
        action: The couplings.
        samples: The inputs to keep; all if ``None``.
        neurons: How many neurons to keep; all if ``None``.

    Returns:
        The couplings; errors $O(v^2)$.

    Raises:
        ValueError: If more neurons are asked for than there are, or an input does not exist.

    Source: PDLT (4.92), (4.93), (4.100).
    """
    m = action.neurons if neurons is None else neurons
    count = len(action.quadratic)
    kept = list(range(count)) if samples is None else list(samples)
    if not 1 <= m <= action.neurons or not kept or any(not 0 <= a < count for a in kept):
        raise ValueError(
            f"The action has {action.neurons} neurons and inputs 0 to {count - 1}; cannot keep {m} "
            f"neurons and the inputs {kept}."
        )
    G, vertex = metric_and_vertex(action)
    place = np.ix_(kept, kept)
    return couplings(G[place], vertex[np.ix_(kept, kept, kept, kept)], 1.0, neurons=m)


@checked
def action(
    z: Float[np.ndarray, "neuron sample ..."],
    of: Couplings,
    sextic: Float[np.ndarray, "sample sample sample sample sample sample"] | None = None,
) -> Any:
    r"""The value of the action, the sextic term included if its coupling is given.

    $$S=\tfrac12g^{ab}Z_{ab}-\tfrac18v^{(ab)(cd)}Z_{ab}Z_{cd}+\tfrac1{24}u^{(ab)(cd)(ef)}Z_{ab}Z_{cd}
      Z_{ef},\qquad Z_{ab}=\sum_iz_{i;a}z_{i;b}$$

    Args:
        z: Preactivations (neuron, sample, ...).
        of: The couplings, of as many neurons as `z` has.
        sextic: $u$, raised, of order $1/n^2$; preactivation⁻⁶.

    Returns:
        The action, shaped like the last axes of `z`; dimensionless.

    Raises:
        ValueError: If `z` has another number of neurons or samples than the couplings.

    Source: PDLT (4.80), (ε.18).

    Example:
        >>> import numpy as np
        >>> from scalewise.theory.action._couplings import Couplings, action
        >>> one = Couplings(np.ones((1, 1)), np.full((1, 1, 1, 1), 0.8), 1)
        >>> print(f"{action(np.array([[2.0]]), one):.6f}")  # 4/2 - 0.8 * 16/8
        0.400000
    """
    if z.shape[:2] != (of.neurons, len(of.quadratic)):
        raise ValueError(
            f"`z` must have {of.neurons} neurons and {len(of.quadratic)} samples; got shape {z.shape}."
        )
    Z = np.einsum("ia...,ib...->ab...", z, z)
    S = 0.5 * np.einsum("ab,ab...->...", of.quadratic, Z)
    S = S - 0.125 * np.einsum("abcd,ab...,cd...->...", of.quartic, Z, Z)
    if sextic is not None:
        S = S + np.einsum("abcdef,ab...,cd...,ef...->...", sextic, Z, Z, Z) / 24
    return S


@checked
def action_expectation(
    F: Callable[[Float[np.ndarray, "neuron sample node"]], Any],
    of: Couplings,
    *,
    smooth: bool = True,
) -> tuple[Any, Any]:
    r"""The expectation of a function of all neurons of an action, to first order in $v$.

    $$\mathbb E[F]=\langle\!\langle F\rangle\!\rangle_g+\tfrac18v^{(ab)(cd)}\sum_{ij}\Big[
      \langle\!\langle z_{i;a}z_{i;b}z_{j;c}z_{j;d}F\rangle\!\rangle_g
      -\langle\!\langle zzzz\rangle\!\rangle_g\langle\!\langle F\rangle\!\rangle_g\Big]$$

    Args:
        F: From preactivations (neuron, sample, node) to values (..., node).
        of: The couplings.
        smooth: Whether `F` is smooth; if so, up to four variables take a product rule.

    Returns:
        Value and numerical error; the neglected order is $v^2$.

    Source: PDLT (4.46).
    """
    g, m = np.linalg.inv(of.quadratic), of.neurons
    rule = joint_rule(np.kron(np.eye(m), g), smooth=smooth)
    estimates = []
    for nodes, weights in rule.nodes():
        z = nodes.reshape(m, len(g), -1)
        Z = np.einsum("iam,ibm->abm", z, z)
        quartic = 0.125 * np.einsum("abcd,abm,cdm->m", of.quartic, Z, Z, optimize=True)
        tilt = weights * (1 + quartic - quartic @ weights)
        estimates.append(np.asarray(F(z)) @ tilt)
    return rule.combine(np.stack(estimates))


def _check_cumulants(K: np.ndarray, V: np.ndarray, n: float | int, neurons: int) -> None:
    if K.ndim != 2 or K.shape[0] != K.shape[1] or V.shape != (len(K),) * 4:
        raise ValueError(f"`K` and `V` must fit each other; got shapes {K.shape} and {V.shape}.")
    value = np.linalg.eigvalsh(K)
    if not np.all(np.isfinite(V)) or value[0] <= 1e-12 * value[-1]:
        raise ValueError(
            "Couplings need a positive definite `K` and a finite `V`; the smallest eigenvalue of "
            f"`K` is {value[0]:.3g}. Leave out coincident inputs, or use nearly_gaussian."
        )
