"""One real network: its parameters, and its whole neural tangent kernel."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import lru_cache, partial
from typing import Annotated, Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Float

from scalewise._checked import Must, checked, dtype_of
from scalewise._readable import readable
from scalewise.activations import Activation
from scalewise.networks import MLP
from scalewise.networks._inputs import check_inputs
from scalewise.networks._mlp import WithoutSkips
from scalewise.networks._perceptron import AnyPerceptron

Seed = Annotated[int, Must("a whole number from 0 to 2**32 - 1", lambda seed: 0 <= seed < 2**32)]
Dtype = Annotated[
    Any,
    Must(
        "'float32' or 'float64'",
        lambda name: name in ("float32", "float64"),
        lambda dtype: dtype_of(dtype).name,
    ),
]


@readable
class Parameters(NamedTuple):
    """`weights` (n_l, n_{l-1}) and `biases` (n_l,) of the layers 1..L."""

    weights: tuple[Any, ...]
    biases: tuple[Any, ...]


@lru_cache(maxsize=64)
def traced(activation: Activation) -> Callable[[Any], Any]:
    """The JAX function of an activation: the same object each time, so that JAX compiles once."""
    return activation.traceable()


def slope(sigma: Callable[[Any], Any], z: Any) -> tuple[Any, Any]:
    r"""$\sigma(z)$ and $\sigma'(z)$ entry by entry."""
    return jax.jvp(sigma, (z,), (jnp.ones_like(z),))


@contextmanager
def precision(dtype: str) -> Iterator[None]:
    """A scope in which JAX computes in `dtype`, with no tensor-core shortcut for float32."""
    # The shortcut, TF32, rounds what is multiplied to 11 binary digits. Emulated in a tanh network of width
    # 1000 it moves the kernel by 1e-4, a fifth of V/(nK), and so 2K dK, the change of what is subtracted for a
    # fourth cumulant, by two fifths of the cumulant V/n itself. Only a covariance of the same draws bears it
    # (V moves by 1e-4).
    with jax.enable_x64(dtype == "float64"), jax.default_matmul_precision("highest"):
        yield


def check_has_slope(activation: Activation, name: str = "ntk") -> None:
    """Refuse an activation whose derivative misses a delta function."""
    if not activation.is_continuous:
        jumps = ", ".join(f"{k.location:g}" for k in activation.kinks if k.jump)
        raise ValueError(
            f"The NTK of a network with the activation {activation.name!r} is not defined: it jumps "
            f"at z = {jumps}, where its derivative is a delta function. Leave {name!r} out of "
            "`observables`, or choose a continuous activation."
        )


def check_smooth(activation: Activation, name: str = "ddntk_R") -> None:
    """Refuse an activation whose higher derivatives miss delta functions."""
    if not activation.is_smooth:
        kinks = ", ".join(f"{z:g}" for z in activation.split_points)
        raise ValueError(
            f"The ddNTKs of a network with the activation {activation.name!r} are not defined: it has "
            f"a kink at z = {kinks}, where its higher derivatives are delta functions. Leave {name!r} "
            "out of `observables`, or choose a smooth activation."
        )


def check_parameters(net: MLP, parameters: Parameters) -> str:
    """The dtype of parameters; refused are those of another network or another precision."""
    n = net.widths
    shapes = [(n[i + 1], n[i]) for i in range(net.depth)]
    if [w.shape for w in parameters.weights] != shapes or [b.shape for b in parameters.biases] != [
        (m,) for m, _ in shapes
    ]:
        raise ValueError(
            f"`parameters` must have weights of shapes {shapes} and one bias per row, as {net} has; "
            f"got weights {[w.shape for w in parameters.weights]} and biases "
            f"{[b.shape for b in parameters.biases]}."
        )
    dtype = str(parameters.weights[0].dtype)
    if dtype not in ("float32", "float64"):
        raise ValueError(f"`parameters` must be float32 or float64; got {dtype}.")
    return dtype


@checked
def init_weights(net: AnyPerceptron, seed: Any = 0, *, dtype: Dtype = "float32") -> Parameters:
    r"""Draw the parameters of one network.

    $$W^{(\ell)}_{ij}\sim N(0,C_W^{(\ell)}/n_{\ell-1}),\qquad b^{(\ell)}_i\sim N(0,C_b^{(\ell)}).$$

    Args:
        net: The network.
        seed: Same seed, same parameters; a whole number or a JAX key, traced ones too, so that
            ``jax.vmap`` draws many networks at once.
        dtype: ``"float32"`` or ``"float64"``.

    Returns:
        Weights (n_l, n_{l-1}) and biases (n_l,) of every layer, as JAX arrays.

    Raises:
        ValueError: If `dtype` is neither of the two.

    Source: PDLT (2.19)-(2.22).

    Example:
        >>> import scalewise as sw
        >>> from scalewise.nets import init_weights
        >>> net = sw.MLP(2, 5, "tanh", input_dim=3, output_dim=1)
        >>> [w.shape for w in init_weights(net).weights]
        [(5, 3), (1, 5)]
    """
    n = net.widths
    weights, biases = [], []
    with precision(dtype):
        is_key = isinstance(seed, jax.Array) and jnp.issubdtype(seed.dtype, jax.dtypes.prng_key)
        key = seed if is_key else jax.random.key(seed, impl="threefry2x32")
        for layer in range(net.depth):
            for_weights, for_biases = jax.random.split(jax.random.fold_in(key, layer))
            w = jax.random.normal(for_weights, (n[layer + 1], n[layer]), dtype)
            b = jax.random.normal(for_biases, (n[layer + 1],), dtype)
            weights.append(w * np.asarray(np.sqrt(net.C_W[layer] / n[layer]), dtype))
            biases.append(b * np.asarray(np.sqrt(net.C_b[layer]), dtype))
    return Parameters(tuple(weights), tuple(biases))


@checked
def empirical_ntk(
    net: WithoutSkips, parameters: Parameters, x: Any, other: Any = None
) -> Float[np.ndarray, "sample other output output_1"]:
    r"""The neural tangent kernel of one real network at its output, to rounding.

    $$\widehat H_{i_1i_2;\alpha_1\alpha_2}=\sum_\ell\Big[\sum_j\frac{dz^{(L)}_{i_1;\alpha_1}}
    {dz^{(\ell)}_j}\frac{dz^{(L)}_{i_2;\alpha_2}}{dz^{(\ell)}_j}\Big]\Big[\lambda_b^{(\ell)}+
    \frac{\lambda_W^{(\ell)}}{n_{\ell-1}}\sum_k\sigma^{(\ell-1)}_{k;\alpha_1}
    \sigma^{(\ell-1)}_{k;\alpha_2}\Big].$$

    No derivative by a weight is formed: each bracket is a matrix product of what flows back with
    itself, and of what flows forward with itself.

    Args:
        net: Shape, activation and learning rates.
        parameters: As `init_weights` gives them, or arrays of the same shapes.
        x: (samples, features).
        other: A second set of inputs, `x` itself by default.

    Returns:
        (samples, other samples, outputs, outputs) in the dtype of the parameters; exact to rounding.

    Raises:
        ValueError: If inputs do not fit the network, the parameters have other shapes than the
            network's, or the activation jumps.

    Source: PDLT (8.7), (8.12), (8.16)-(8.18).

    Example:
        >>> import numpy as np, scalewise as sw
        >>> from scalewise.nets import empirical_ntk, init_weights
        >>> net = sw.MLP(2, 5, "tanh", input_dim=3, output_dim=2)
        >>> empirical_ntk(net, init_weights(net), np.eye(3)).shape
        (3, 3, 2, 2)
    """
    check_has_slope(net.activation)
    dtype = check_parameters(net, parameters)
    inputs = [check_inputs(net, x)] + ([] if other is None else [check_inputs(net, other)])
    rates = np.array([net.lambda_b, np.divide(net.lambda_W, net.widths[:-1])], dtype)
    with precision(dtype):
        arrays = [np.asarray(a, dtype) for a in inputs]
        return np.asarray(ntk_of(parameters, arrays, rates, sigma=traced(net.activation)))


def sweep(parameters: Parameters, x: Any, sigma: Any) -> tuple[list[Any], list[Any]]:
    """Activations entering each layer, and rows dz^(L)/dz^(l) for l < L: (samples, outputs, n_l)."""
    forward, slopes = [x], []
    for w, b in zip(parameters.weights[:-1], parameters.biases[:-1], strict=True):
        value, derivative = slope(sigma, forward[-1] @ w.T + b)
        forward.append(value)
        slopes.append(derivative)
    backward: list[Any] = []
    for w, derivative in zip(parameters.weights[:0:-1], slopes[::-1], strict=True):
        flow = backward[-1] @ w if backward else w[None]
        backward.append(flow * derivative[:, None, :])
    return forward, backward[::-1]


@partial(jax.jit, static_argnames="sigma")
def ntk_of(parameters: Parameters, inputs: list[Any], rates: Any, *, sigma: Any) -> Any:
    """The NTK of one network, (sample, other sample, output, output), on one set of inputs or between two."""
    sides = [sweep(parameters, x, sigma) for x in inputs]
    (left, left_rows), (right, right_rows) = sides[0], sides[-1]
    outputs = len(parameters.biases[-1])
    shape = (len(inputs[0]), outputs, len(inputs[-1]), outputs)
    total = jnp.zeros(shape, left[0].dtype)
    features = enumerate(zip(left, right, strict=True))
    grams = [rates[0, i] + rates[1, i] * (a @ b.T) for i, (a, b) in features]
    for a, b, gram in zip(left_rows, right_rows, grams[:-1], strict=True):
        rows = a.reshape(-1, a.shape[-1]) @ b.reshape(-1, b.shape[-1]).T
        total += rows.reshape(shape) * gram[:, None, :, None]
    total += grams[-1][:, None, :, None] * jnp.eye(outputs, dtype=total.dtype)[None, :, None, :]
    return total.transpose(0, 2, 1, 3)
