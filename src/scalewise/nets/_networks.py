"""One real network: its parameters, and what activations it may have."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Annotated, Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.core import Tracer

from scalewise._checked import Must, checked, dtype_of
from scalewise.activations import Activation
from scalewise.networks import Network
from scalewise.networks.spi import (
    AnyNetwork,
    Attend,
    Draw,
    Max,
    Parameters,
    Program,
    check_shapes,
    shapes_of,
)
from scalewise.networks.spi_jax import precision as precision
from scalewise.networks.spi_jax import traced as traced

Seed = Annotated[int, Must("a whole number from 0 to 2**32 - 1", lambda seed: 0 <= seed < 2**32)]
Dtype = Annotated[
    Any,
    Must(
        "'float32' or 'float64'",
        lambda name: name in ("float32", "float64"),
        lambda dtype: dtype_of(dtype).name,
    ),
]

_PADDED = 1 << 20  # to draw twice as many numbers takes longer than to compile


def slope(sigma: Callable[[Any], Any], z: Any) -> tuple[Any, Any]:
    r"""$\sigma(z)$ and $\sigma'(z)$ entry by entry."""
    return jax.jvp(sigma, (z,), (jnp.ones_like(z),))


def check_has_slope(activation: Activation, name: str = "ntk") -> None:
    """Refuse an activation whose derivative misses a delta function."""
    if not activation.is_continuous:
        jumps = ", ".join(f"{k.location:g}" for k in activation.kinks if k.jump)
        raise ValueError(
            f"The NTK of a network with the activation {activation.name!r} is not defined: it jumps "
            f"at z = {jumps}, where its derivative is a delta function. Leave {name!r} out of "
            "`observables`, or choose a continuous activation."
        )


def all_activations(program: Program) -> list[Activation]:
    """Those that differ, of heads too."""
    heads = (node.sigma for node in program.nodes if isinstance(node, Attend) and node.sigma)
    return list(dict.fromkeys([*program.activations, *heads]))


def check_slopes(net: Network, name: str = "ntk") -> None:
    """Refuse a network with an activation that jumps."""
    for sigma in all_activations(net.program):
        check_has_slope(sigma, name)


def check_smooth(net: Network, name: str = "ddntk_R") -> None:
    """Refuse a network whose higher derivatives miss delta functions."""
    check_slopes(net, name)
    for sigma in all_activations(net.program):
        if not sigma.is_smooth:
            kinks = ", ".join(f"{z:g}" for z in sigma.split_points)
            raise ValueError(
                f"The ddNTKs of a network with the activation {sigma.name!r} are not defined: it has "
                f"a kink at z = {kinks}, where its higher derivatives are delta functions. Leave {name!r} "
                "out of `observables`, or choose a smooth activation."
            )
    if any(isinstance(node, Max) for node in net.program.nodes):
        raise ValueError(
            "The ddNTKs of a network with a maximum over positions are not defined: it has kinks, where higher "
            "derivatives are delta functions. Take AvgPool for MaxPool."
        )


def check_parameters(net: Network, parameters: Parameters) -> str:
    """The dtype of parameters; refused are those of another network or another precision."""
    check_shapes(net.program, parameters, "`parameters`")
    dtype = str(parameters.weights[0].dtype)
    if dtype not in ("float32", "float64"):
        raise ValueError(f"`parameters` must be float32 or float64; got {dtype}.")
    return dtype


@checked
def init_weights(net: AnyNetwork, seed: Any = 0, *, dtype: Dtype = "float32") -> Parameters:
    r"""Draw the parameters of one network of any layers.

    $$W^{(\ell)}_{ij}\sim N(0,C_W^{(\ell)}/n_{\ell-1}),\qquad b^{(\ell)}_i\sim N(0,C_b^{(\ell)}),$$
    with the fan-in of a random layer, $kn_{\ell-1}$ for $k$ taps, for $n_{\ell-1}$.

    Args:
        net: The network.
        seed: Same seed, same parameters; a whole number or a JAX key, traced ones too, so that
            ``jax.vmap`` draws many networks at once.
        dtype: ``"float32"`` or ``"float64"``.

    Returns:
        ``weights`` and ``biases`` of every random layer, as JAX arrays, in the order of the nodes that the network
        prints: a branch before what is added to it behind, queries before keys before values. Weights are
        (channel, channel below), the latter of one group where there are groups; with several taps
        (channel, \*taps, channel below), for a read-out of flattened positions too; where each place has its own,
        (\*places, channel, \*taps, channel below). Biases are (channel,), or (\*places, channel).

    Raises:
        ValueError: If `dtype` is neither of the two.

    Source: PDLT (2.19)-(2.22); with site matrices derived.

    Example:
        >>> import scalewise as sw
        >>> from scalewise.nets import init_weights
        >>> net = sw.MLP(2, 5, "tanh", input_dim=3, output_dim=1)
        >>> [w.shape for w in init_weights(net).weights]
        [(5, 3), (1, 5)]
        >>> layers = sw.Conv(3), "relu", sw.Flatten(), sw.Dense(2)
        >>> net = sw.Network(*layers, input_shape=(8, 8, 1), width=5)
        >>> [w.shape for w in init_weights(net).weights]
        [(5, 3, 3, 1), (2, 8, 8, 5)]
    """
    with precision(dtype):
        is_key = isinstance(seed, jax.Array) and jnp.issubdtype(seed.dtype, jax.dtypes.prng_key)
        key = seed if is_key else jax.random.key(seed, impl="threefry2x32")
        return draw_parameters(net.program, key, dtype)


def draw_parameters(program: Program, key: Any, dtype: Any) -> Parameters:
    """Parameters with the variances of a program."""
    weights, biases = [], []
    for layer, (node, shapes) in enumerate(shapes_of(program).items()):
        made = program.nodes[node]
        assert isinstance(made, Draw)
        spreads = np.sqrt([made.own.C_W / program.fan_in(node), made.own.C_b])
        keys = jax.random.split(jax.random.fold_in(key, layer))
        laws = made.own.law.of_normal, lambda z: z
        W, b = (
            jax.device_put(law(_normals(own, shape, dtype)) * np.asarray(spread, dtype))
            for own, shape, spread, law in zip(keys, shapes, spreads, laws, strict=True)
        )
        weights.append(W)
        biases.append(b)
    return Parameters(tuple(weights), tuple(biases))


def _normals(key: Any, shape: tuple[int, ...], dtype: Any) -> Any:
    """Standard normal numbers, the first of more: a new shape of few of them need not be compiled."""
    size = math.prod(shape)
    if isinstance(key, Tracer) or size > _PADDED or not _counted(key):
        return jax.random.normal(key, shape, dtype)
    padded = jax.random.normal(key, (1 << max(10, (size - 1).bit_length()),), dtype)
    return np.asarray(padded)[:size].reshape(shape)


def _counted(key: Any) -> bool:
    # Other generators, and Threefry as it was, make each number from how many there are.
    partitionable: Any = jax.config.jax_threefry_partitionable  # pyright: ignore[reportAttributeAccessIssue]
    return bool(partitionable) and str(jax.random.key_impl(key)) == "threefry2x32"
