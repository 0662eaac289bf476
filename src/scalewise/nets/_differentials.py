r"""Differentials of real networks: contractions of parameter derivatives along a tree.

A differential with $k$ contractions has $k+1$ factors $d^mz/d\theta\cdots d\theta$, and the contractions
$\lambda_{\mu\nu}$ join them into a tree: the NTK is one edge, the dNTK a path of three factors, $dd_I$ a
star, $dd_{II}$ a path of four. From the leaves inwards each factor hands on one vector, the gradient of
its derivative along the vectors it was handed: no Jacobian, no Hessian is ever formed.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from operator import itemgetter
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Float

from scalewise._checked import Count, Index, checked
from scalewise.nets._devices import filled, spread
from scalewise.nets._networks import (
    Dtype,
    Seed,
    all_activations,
    check_parameters,
    check_slopes,
    draw_parameters,
    precision,
)
from scalewise.networks import Network
from scalewise.networks.spi import (
    AnyNetwork,
    Draw,
    Max,
    Parameters,
    Program,
    bare,
    by_node,
    check_inputs,
    in_groups,
    rates_of,
    refuse_masks,
    shapes_of,
)
from scalewise.networks.spi_jax import forward

SAMPLED = ("z", "ntk", "dntk", "z_dntk", "ddntk_I", "ddntk_II")
_NUMBERS = 1 << 23  # parameters of all networks of a batch together
Function = Callable[[Any], Any]


@checked
def empirical_differential(
    net: AnyNetwork,
    parameters: Parameters,
    x: Any,
    parents: Sequence[Index] = (0,),
    *,
    outputs: Sequence[Index] | None = None,
    samples: Sequence[Index] | None = None,
) -> float:
    r"""One component of one differential of one real network.

    $$\widehat{dH}_{i_0i_1i_2}=\sum\lambda_{\mu_1\nu_1}\lambda_{\mu_2\nu_2}
    \frac{d^2z_{i_0}}{d\theta_{\mu_1}d\theta_{\mu_2}}\frac{dz_{i_1}}{d\theta_{\nu_1}}
    \frac{dz_{i_2}}{d\theta_{\nu_2}}$$
    and so on: factor $v$ is joined to factor ``parents[v - 1]``.

    Args:
        net: Its layers and learning rates.
        parameters: As `init_weights` gives them.
        x: (samples, features), with positions between the two.
        parents: ``(0,)`` the NTK, ``(0, 0)`` the dNTK, ``(0, 0, 0)`` $dd_I$, ``(0, 0, 1)`` $dd_{II}$;
            $k$ zeros are type I of order $k$.
        outputs: $i_0,\dots,i_k$; all 0 by default.
        samples: $\delta_0,\dots,\delta_k$; all 0 by default.

    Returns:
        The component, without powers of $\eta$; exact to rounding of the parameters' dtype.

    Raises:
        ValueError: If the tree or an index does not exist, the inputs do not fit, the network has Dropout, or the
            tree is more than the NTK and an activation or a maximum has a kink.

    Source: PDLT (11.8), (∞.5), (∞.7); Yaida (A4).

    Example:
        >>> import numpy as np, scalewise as sw
        >>> from scalewise.nets import empirical_differential, init_weights
        >>> net = sw.MLP(2, 5, "linear", input_dim=3, output_dim=1)
        >>> empirical_differential(net, init_weights(net), np.eye(3), (0, 0, 0, 0))
        0.0
    """
    _check_smooth(net, len(parents))
    refuse_masks(net.program)
    inputs = check_inputs(net, x)
    _check_parents(parents)
    nodes = len(parents) + 1
    i = _indices("outputs", outputs, nodes, net.output_dim)
    d = _indices("samples", samples, nodes, len(inputs))
    dtype = check_parameters(net, parameters)
    with precision(dtype):
        return float(
            _contracted(
                parameters,
                np.asarray(inputs, dtype),
                _roots(net, dtype),
                np.array([i, d]),
                parents=tuple(parents),
                program=bare(net.program),
            )
        )


@checked
def sample_differentials(
    net: AnyNetwork, x: Any, networks: Count, *, seed: Seed = 0, dtype: Dtype = "float32"
) -> dict[str, Float[np.ndarray, " network"]]:
    r"""The first differentials of output 0 at one input, for many networks.

    Args:
        net: The network, of smooth activations.
        x: One input, (1, features), with positions between the two.
        networks: How many networks.
        seed: Same seed and network, same numbers; the $k$-th draw depends on nothing else.
        dtype: ``"float32"`` or ``"float64"``.

    Returns:
        ``z``, ``ntk`` $\widehat H$, ``dntk`` $\widehat{dH}$, ``ddntk_I``, ``ddntk_II``, all indices
        equal, (networks,) in float64 and without powers of $\eta$; exact to rounding of `dtype`.
        ``z_dntk`` is $\frac{C_W}{n_{L-1}}\sum_j\sigma_j\,\partial\widehat{dH}/\partial W^{(L)}_j$: by
        Stein's identity its mean is $\mathbb E[z\,\widehat{dH}]$, and it spreads far less than the
        product. It is the product where the outputs are not those of one layer with weights of its own.

    Raises:
        ValueError: If `x` is not one input, an activation or a maximum has a kink, the network has Dropout, or
            `networks` is below 1.

    Source: PDLT (8.6), (11.8), (∞.5), (∞.7).

    Example:
        >>> import numpy as np, scalewise as sw
        >>> from scalewise.nets import sample_differentials
        >>> net = sw.MLP(3, 8, "linear", input_dim=1, output_dim=1, lambda_b=0.0)
        >>> draws = sample_differentials(net, np.ones((1, 1)), 50)
        >>> draws["ntk"].shape, bool(np.all(draws["ddntk_II"] > 0))
        ((50,), True)
    """
    _check_smooth(net, 3)
    refuse_masks(net.program)
    inputs = check_inputs(net, x)
    if len(inputs) != 1:
        raise ValueError(f"`x` must hold one input; got {len(inputs)}. Pass x[:1].")
    batch = min(networks, max(1, _NUMBERS // (8 * net.parameters)))
    parts = []
    with precision(dtype):
        base = jax.random.key(seed, impl="threefry2x32")
        numbers = (np.asarray(inputs, dtype), _scales(net, dtype), _roots(net, dtype))
        for start in range(0, networks, batch):
            # Drawn whole and cut, for the devices and so that the last batch is not compiled anew.
            indices = spread(start + np.arange(filled(batch)))
            # Networks that differ in variances and rates alone share one compilation.
            draws = _draw(base, indices, numbers, program=bare(net.program), dtype=dtype)
            parts.append(np.asarray(draws, np.float64)[:batch])
    values = np.concatenate(parts)[:networks]
    return dict(zip(SAMPLED, values.T, strict=True))


@partial(jax.jit, static_argnames=("program", "dtype"))
def _draw(base: Any, indices: Any, numbers: Any, *, program: Program, dtype: str) -> Any:
    x, scales, roots = numbers
    last = len(program.nodes) - 1
    made = program.nodes[last]

    def differentials(index: Any) -> Any:
        drawn = draw_parameters(program, jax.random.fold_in(base, index), dtype)
        weights, biases = (
            tuple(scale * part for scale, part in zip(row, parts, strict=True))
            for row, parts in zip(scales, drawn, strict=True)
        )
        origin = jax.tree.map(jnp.zeros_like, drawn)

        def with_last(W: Any) -> Function:
            return _output(program, Parameters((*weights[:-1], W), biases), x, roots, 0)

        def dntk(W: Any) -> tuple[Any, tuple[Any, Any, Any]]:
            value, slope = jax.value_and_grad(with_last(W))(origin)
            bend = jax.jvp(jax.grad(with_last(W)), (origin,), (slope,))[1]
            return _dot(slope, bend), (value, slope, bend)

        if isinstance(made, Draw):  # a read-out, whose weights nothing else has
            _, seen = forward(program, by_node(program, Parameters(weights, biases), jnp), x)
            entering = in_groups(seen[last], made, jnp)[0, 0, 0]
            weighed = entering * scales[0, -1] ** 2 / program.fan_in(last)
            along = jnp.zeros_like(weights[-1]).at[0].set(weighed.reshape(weights[-1].shape[1:]))
            bent, averaged, kept = jax.jvp(dntk, (weights[-1],), (along,), has_aux=True)
        else:
            bent, kept = dntk(weights[-1])
            averaged = kept[0] * bent
        value, slope, bend = kept
        third = _along(with_last(weights[-1]), [slope] * 3)(origin)
        dots = [_dot(slope, slope), bent, averaged, third, _dot(bend, bend)]
        return jnp.stack([value, *dots])

    return jax.vmap(differentials)(indices)


@partial(jax.jit, static_argnames=("parents", "program"))
def _contracted(
    parameters: Parameters,
    x: Any,
    roots: Any,
    where: Any,
    *,
    parents: tuple[int, ...],
    program: Program,
) -> Any:
    children = {v: [c for c, p in enumerate(parents, 1) if p == v] for v in range(len(parents) + 1)}
    origin = jax.tree.map(jnp.zeros_like, parameters)

    def handed(v: int) -> Function:
        z = _output(program, parameters, x[where[1, v]][None], roots, where[0, v])
        leaves = [c for c in children[v] if not children[c]]
        bent = [jax.grad(handed(c))(origin) for c in children[v] if children[c]]
        return _along(z, [*bent, *(slopes(leaves) if leaves else ())])

    def slopes(leaves: Sequence[int]) -> list[Any]:
        # All at once: one program of a gradient is compiled, not one for each leaf.
        def slope(i: Any, d: Any) -> Any:
            return jax.grad(_output(program, parameters, x[d][None], roots, i))(origin)

        every = jax.vmap(slope)(*where[:, np.array(leaves)])
        return [jax.tree.map(itemgetter(k), every) for k in range(len(leaves))]

    return handed(0)(origin)


def _along(function: Function, directions: Sequence[Any]) -> Function:
    """The derivative along fixed directions, one after the other."""
    for direction in directions:
        function = _step(function, direction)
    return function


def _step(function: Function, direction: Any) -> Function:
    return lambda point: jax.jvp(function, (point,), (direction,))[1]


def _dot(one: Any, other: Any) -> Any:
    pairs = zip(jax.tree.leaves(one), jax.tree.leaves(other), strict=True)
    return sum(jnp.vdot(a, b) for a, b in pairs)


def _roots(net: Network, dtype: str) -> np.ndarray:
    r"""$\sqrt{\lambda_W/n_{\ell-1}}$ of each random layer, and $\sqrt{\lambda_b}$."""
    return np.sqrt([*rates_of(net.program).values()]).T[::-1].astype(dtype)


def _scales(net: Network, dtype: str) -> np.ndarray:
    r"""$\sqrt{C_W}$ of each random layer, and $\sqrt{C_b}$."""
    nodes = (net.program.nodes[k] for k in shapes_of(net.program))
    own = [node.own for node in nodes if isinstance(node, Draw)]
    return np.sqrt([[node.C_W for node in own], [node.C_b for node in own]]).astype(dtype)


def _output(program: Program, parameters: Parameters, x: Any, roots: Any, i: Any) -> Function:
    r"""$z^{(L)}_i$ of one input as a function of a shift of the parameters in units of $\sqrt\lambda$.

    In these units the contraction with $\lambda$ is a plain scalar product.
    """

    def z(shift: Parameters) -> Any:
        moved = (
            tuple(a + root * da for a, root, da in zip(part, own, change, strict=True))
            for part, own, change in zip(parameters, roots, shift, strict=True)
        )
        found, _ = forward(program, by_node(program, Parameters(*moved), jnp), x)
        return found[-1].reshape(-1)[i]

    return z


def _check_smooth(net: Network, k: int) -> None:
    check_slopes(net)
    for sigma in all_activations(net.program) if k > 1 else ():
        if sigma.kinks:
            raise ValueError(
                f"Differentials beyond the NTK are not defined for {sigma.name!r}: its slope "
                "jumps, and second derivatives are delta functions. Choose a smooth activation."
            )
    if k > 1 and any(isinstance(node, Max) for node in net.program.nodes):
        raise ValueError(
            "Differentials beyond the NTK are not defined for a maximum over positions: its slope jumps, and "
            "second derivatives are delta functions. Take AvgPool for MaxPool."
        )


def _check_parents(parents: Sequence[int]) -> None:
    if not parents or any(p > v for v, p in enumerate(parents)):
        raise ValueError(
            "`parents` must join each factor to an earlier one: parents[v - 1] is the factor that "
            f"factor v is joined to, from 0 to v - 1; got {tuple(parents)}."
        )


def _indices(name: str, given: Sequence[int] | None, count: int, bound: int) -> tuple[int, ...]:
    values = (0,) * count if given is None else tuple(given)
    if len(values) != count or any(v >= bound for v in values):
        raise ValueError(
            f"`{name}` must be a number from 0 to {bound - 1} for each of the {count} factors; got {values}."
        )
    return values
