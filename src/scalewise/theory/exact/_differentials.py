r"""Every differential of a network with one hidden layer, in closed form.

All factors of a differential meet in the same hidden neuron, because parameters of the first layer
join them there and a weight of the second layer belongs to one neuron. So a differential of any type and
order is a sum over neurons of products of single-neuron functions, and its mean over Gaussian weights is a
number of Wick pairings times a Gaussian expectation. Nothing is neglected at any width.

Source: Yaida, App. A, where type I is spelt out ((A9), (A13)) and the others are described ((A18), (A19)).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import lru_cache, reduce
from typing import Any

import numpy as np
from jaxtyping import Float

from scalewise._checked import Index, checked
from scalewise._extras import require
from scalewise.activations import Activation
from scalewise.gaussian import Estimate
from scalewise.gaussian.spi import joint_rule, line_rule
from scalewise.networks import Network
from scalewise.networks.spi import Numbers, Plain, check_inputs
from scalewise.theory.exact._differential_types import (
    DifferentialTerm,
    check_parents,
    terms,
)

_LEVELS = (2, 3)


@checked
def shallow_differential(
    net: Plain,
    W: Float[np.ndarray, "output neuron"],
    z: Float[np.ndarray, "neuron sample"],
    H: Float[np.ndarray, "sample sample"],
    parents: Sequence[int] = (0,),
    *,
    outputs: Sequence[int] | None = None,
    samples: Sequence[int] | None = None,
) -> float:
    r"""One component of a differential of one network with one hidden layer.

    For type I, $\widehat{d_I^{k-1}H}_{i_0\dots i_k}$, the terms are
    $$\sum_jW_{i_0j}\cdots W_{i_kj}\,\sigma^{(k)}_{j;0}\sigma'_{j;1}\cdots\sigma'_{j;k}
    H_{01}\cdots H_{0k}+\Big[\delta_{i_0i_1}\frac{\lambda_W}{n_1}\sum_jW_{i_2j}\cdots W_{i_kj}
    \sigma^{(k-1)}_{j;0}\sigma_{j;1}\sigma'_{j;2}\cdots\sigma'_{j;k}H_{02}\cdots H_{0k}+\dots\Big]$$
    and the NTK has $\delta_{i_0i_1}\lambda_b$ besides. Other types: see `terms`.

    Args:
        net: Depth 2: activation, and $\lambda_b,\lambda_W$ of the second layer.
        W: Weights of the second layer as they are, dimensionless.
        z: First-layer preactivations.
        H: First-layer NTK $H^{(1)}$, preactivation².
        parents: The tree: ``(0,)`` the NTK, ``(0, 0)`` the dNTK, ``(0, 0, 0)`` $dd_I$, ``(0, 0, 1)``
            $dd_{II}$; $k$ zeros are type I.
        outputs: $i_0,\dots,i_k$; all 0 by default.
        samples: $\delta_0,\dots,\delta_k$; all 0 by default.

    Returns:
        The component, without powers of $\eta$; exact.

    Raises:
        ValueError: If the network has not depth 2, the tree or an index does not exist, shapes do not
            fit, or the activation is not smooth and the tree is more than the NTK.

    Source: Yaida (A9), (A13), (A18). Under a strategy use the scaled network: $n^{-q_2}$ is in
        $\lambda_W$ then.

    Example:
        >>> import numpy as np, scalewise as sw
        >>> from scalewise.theory.exact import shallow_differential
        >>> net = sw.MLP(2, 2, "linear", input_dim=1, output_dim=1, lambda_b=0.0)
        >>> W, z, H = np.array([[1.0, -2.0]]), np.array([[0.5], [1.0]]), np.array([[3.0]])
        >>> shallow_differential(net, W, z, H)  # 3 (1 + 4) + (0.25 + 1) / 2
        15.625
    """
    tree = _tree(net, parents)
    n_1, count = net.hidden_widths[0], H.shape[0]
    if W.shape != (net.output_dim, n_1) or z.shape != (n_1, count) or H.shape != (count, count):
        raise ValueError(
            f"`W`, `z`, `H` must have shapes ({net.output_dim}, {n_1}), ({n_1}, samples), (samples, "
            f"samples); got {W.shape}, {z.shape}, {H.shape}."
        )
    i = _indices("outputs", outputs, len(tree) + 1, net.output_dim)
    d = _indices("samples", samples, len(tree) + 1, count)
    total = net.lambda_b[1] * (i[0] == i[1]) if len(tree) == 1 else 0.0
    for term in terms(tree):
        factors = [
            sigma_derivative(net.activation, z[:, s], m)
            for s, m in zip(d, term.orders, strict=True)
        ]
        factors += [W[o] for o, w in zip(i, term.weighted, strict=True) if w]
        sum_over_neurons = np.sum(reduce(np.multiply, factors))
        total += _front(net, term, i, d, H) * sum_over_neurons
    return float(total)


@checked
def mean_shallow_differential(
    net: Plain,
    x: Numbers,
    parents: Sequence[int] = (0,),
    *,
    outputs: Sequence[int] | None = None,
    samples: Sequence[int] | None = None,
    z: tuple[int, int] | None = None,
) -> Estimate:
    r"""The mean of a differential over networks with one hidden layer, at any width.

    $$\mathbb E\Big[\sum_jW_{i_1j}\cdots W_{i_{2m}j}F(z_j)\Big]=n_1\Big(\frac{C_W}{n_1}\Big)^m
    \sum_\text{pairings}\delta\cdots\delta\,\langle F\rangle_{K^{(1)}}$$
    for each term. With one input and one output, type I and odd $k\ge3$, it is
    $k!!(C_W/n_1)^{(k-1)/2}\{C_W\langle\sigma^{(k)}\sigma'^k\rangle H^k
    +\lambda_W\langle\sigma^{(k-1)}\sigma\sigma'^{k-1}\rangle H^{k-1}\}$. An even number of contractions
    leaves an odd number of weights: the mean is 0, unless a factor $z_{i;\delta}$ of the output stands by.

    Args:
        net: Depth 2, with a smooth activation.
        x: (samples, features).
        parents: The tree, as for `shallow_differential`.
        outputs: $i_0,\dots,i_k$; all 0 by default.
        samples: $\delta_0,\dots,\delta_k$; all 0 by default.
        z: $(i,\delta)$ of a factor $z^{(2)}_{i;\delta}$, or none.

    Returns:
        The mean, without powers of $\eta$, and its numerical error; exact in the width, quadrature.
        With $\mathbb E[z\,\cdot]$ for even $k$.

    Raises:
        ValueError: As `shallow_differential`, or the inputs do not fit.

    Source: Yaida, App. A; the closed forms are derived there only as orders (A15), (A17).

    Example:
        >>> import numpy as np, scalewise as sw
        >>> from scalewise.theory.exact import mean_shallow_differential
        >>> net = sw.MLP(2, 10, "linear", input_dim=1, output_dim=1, lambda_b=0.0)
        >>> x = np.ones((1, 1))
        >>> round(float(mean_shallow_differential(net, x, (0, 0, 1)).value), 12)  # (S + T) / n_1
        0.2
    """
    tree = _tree(net, parents)
    inputs = check_inputs(net, x)
    i = _indices("outputs", outputs, len(tree) + 1, net.output_dim)
    d = _indices("samples", samples, len(tree) + 1, len(inputs))
    extra: tuple[int, ...] = ()
    if z is not None:
        extra = _indices("z", z[:1], 1, net.output_dim)
        d = (*d, *_indices("z", z[1:], 1, len(inputs)))
    gram = inputs @ inputs.T / net.input_dim
    K, H = net.C_b[0] + net.C_W[0] * gram, net.lambda_b[0] + net.lambda_W[0] * gram
    used = sorted(set(d))
    rules = _Rules(net.activation, K[np.ix_(used, used)])
    place = [used.index(s) for s in d]
    base = float(net.lambda_b[1] * (i[0] == i[1])) if len(tree) == 1 and z is None else 0.0
    totals = np.full(len(rules.sources), base)
    n_1 = net.hidden_widths[0]
    for term in terms(tree):
        legs = [o for o, w in zip(i, term.weighted, strict=True) if w] + [*extra]
        front = _front(net, term, i, d, H) * _pairings(tuple(legs))
        if front == 0.0:
            continue
        front *= n_1 * (net.C_W[1] / n_1) ** (len(legs) // 2)
        orders = (*term.orders, *(0,) * len(extra))
        for k, (nodes, weights) in enumerate(rules.sources):
            factors = [
                sigma_derivative(net.activation, nodes[s], m)
                for s, m in zip(place, orders, strict=True)
            ]
            totals[k] += front * np.sum(weights * reduce(np.multiply, factors))
    return rules.combine(totals)


@checked
def sigma_derivative(
    sigma: Activation, z: Float[np.ndarray, "*shape"], order: Index
) -> Float[np.ndarray, "*shape"]:
    r"""$\sigma^{(k)}(z)$ of any order, almost everywhere.

    Args:
        sigma: The activation.
        z: Preactivations.
        order: $k$, at least 0. Up to 3 it is what the activation carries; beyond, JAX differentiates
            the function, at a cost that doubles with each order.
    """
    if order <= 3:
        return sigma.derivative(z, order)
    return _traced_derivative(sigma, order)(np.asarray(z, np.float64))


@lru_cache(maxsize=64)
def _traced_derivative(sigma: Activation, order: int) -> Callable[[np.ndarray], np.ndarray]:
    require("jax", for_="A derivative of an activation beyond the third", extra="jax")
    import jax
    import jax.numpy as jnp

    function = sigma.traceable()
    for _ in range(order):
        function = _slope_of(jax, jnp, function)
    compiled = jax.jit(function)

    def evaluate(z: np.ndarray) -> np.ndarray:
        with jax.enable_x64(True):
            return np.asarray(compiled(z))

    return evaluate


def _slope_of(jax: Any, jnp: Any, function: Any) -> Any:
    return lambda z: jax.jvp(function, (z,), (jnp.ones_like(z),))[1]


def _front(
    net: Network, term: DifferentialTerm, i: tuple[int, ...], d: tuple[int, ...], H: np.ndarray
) -> float:
    """Factors before the sum over neurons: rates, deltas of the outputs, first-layer NTKs."""
    rate = net.lambda_W[1] / net.hidden_widths[0]
    value = rate ** len(term.read) * all(i[a] == i[b] for a, b in term.read)
    for a, b in term.hidden:
        value *= float(H[d[a], d[b]])
    return value


@lru_cache(maxsize=4096)
def _pairings(legs: tuple[int, ...]) -> int:
    """In how many ways equal outputs can be paired off; 0 if one is left alone."""
    count = 1
    for output in set(legs):
        m = legs.count(output)
        count *= 0 if m % 2 else int(np.prod(np.arange(m - 1, 0, -2), dtype=object))
    return count


class _Rules:
    """Two or more node sets for the inputs in use, and what their estimates amount to."""

    def __init__(self, sigma: Activation, K: Float[np.ndarray, "input input"]) -> None:
        self._joint = joint_rule(K, smooth=sigma.is_smooth) if len(K) > 1 else None
        if self._joint is not None:
            self.sources = list(self._joint.nodes())
        else:
            rules = [line_rule(K[:, 0], sigma.split_points, level) for level in _LEVELS]
            self.sources = [(z, w[0]) for z, w in rules]

    def combine(self, totals: np.ndarray) -> Estimate:
        if self._joint is not None:
            value, error = self._joint.combine(totals)
        else:
            value, error = totals[-1], abs(totals[-1] - totals[0])
        engine = "quadrature" if self._joint is None else self._joint.engine
        return Estimate(np.asarray(value), np.asarray(error), engine)


def _tree(net: Network, parents: Sequence[int]) -> tuple[int, ...]:
    if net.depth != 2:
        raise ValueError(
            f"Closed forms of all differentials exist for one hidden layer, depth 2; got {net}. For "
            "deeper networks predict 'dntk_P' … 'ddntk_U' layer by layer."
        )
    tree = check_parents(parents)
    sigma = net.activation
    if not sigma.is_continuous or (len(tree) > 1 and not sigma.is_smooth):
        raise ValueError(
            f"Differentials {'beyond the NTK ' if len(tree) > 1 else ''}are not defined for "
            f"{sigma.name!r}: a derivative of it jumps, and the next one is a delta function. Choose a "
            "smooth activation."
        )
    return tree


def _indices(name: str, given: Sequence[int] | None, count: int, bound: int) -> tuple[int, ...]:
    values = (0,) * count if given is None else tuple(int(v) for v in given)
    if len(values) != count or any(not 0 <= v < bound for v in values):
        raise ValueError(
            f"`{name}` must be a number from 0 to {bound - 1} for each of the {count} factors; got {values}."
        )
    return values
