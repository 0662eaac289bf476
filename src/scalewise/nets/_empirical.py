r"""The dNTK and the ddNTKs of one real network at its output, by directional derivatives."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Annotated, Any

import jax
import numpy as np
from jaxtyping import Float

from scalewise._checked import checked
from scalewise.nets import _jets as jets
from scalewise.nets._networks import (
    check_has_slope,
    check_parameters,
    check_smooth,
    precision,
    traced,
)
from scalewise.networks import Network
from scalewise.networks._inputs import check_inputs
from scalewise.networks._mlp import Plain
from scalewise.networks._weights import Parameters

Legs = Sequence[Annotated[Any, Float[np.ndarray, "vector output"]]] | None


@checked
def empirical_dntk(
    net: Plain, parameters: Parameters, x: Any, legs: Legs = None
) -> Float[np.ndarray, "sample sample sample leg leg_1 leg_2"]:
    r"""The differential of the neural tangent kernel of one real network, to rounding.

    $$\widehat{dH}_{i_0i_1i_2;\alpha_0\alpha_1\alpha_2}=\sum\lambda_{\mu_1\nu_1}\lambda_{\mu_2\nu_2}
    \frac{d^2z_{i_0;\alpha_0}}{d\theta_{\mu_1}d\theta_{\mu_2}}\frac{dz_{i_1;\alpha_1}}{d\theta_{\nu_1}}
    \frac{dz_{i_2;\alpha_2}}{d\theta_{\nu_2}}$$

    It is the second derivative of $z_0$ along $\lambda\,\nabla z_1$ and $\lambda\,\nabla z_2$, which
    takes vectors of one layer at a time and no array of the shape of the parameters.

    Args:
        net: Shape, activation and learning rates.
        parameters: As `init_weights` gives them.
        x: (samples, features).
        legs: Three arrays (vectors, outputs): leg $k$ is contracted with each vector of array $k$.
            By default every leg keeps all outputs.

    Returns:
        (samples, samples, samples, vectors, vectors, vectors) in the dtype of the parameters: samples
        $\alpha_0\alpha_1\alpha_2$, then outputs $i_0i_1i_2$. Symmetric in legs 1 and 2; exact to
        rounding, with the derivative almost everywhere at kinks.

    Raises:
        ValueError: If inputs, parameters or `legs` do not fit the network, or the activation jumps.

    Source: PDLT (11.8), (11.17)-(11.24).

    Example:
        >>> import numpy as np, scalewise as sw
        >>> from scalewise.nets import empirical_dntk, init_weights
        >>> net = sw.MLP(2, 5, "tanh", input_dim=3, output_dim=2)
        >>> empirical_dntk(net, init_weights(net), np.eye(3)).shape
        (3, 3, 3, 2, 2, 2)
    """
    check_has_slope(net.activation, "dntk_P")
    prepared = _prepare(net, parameters, x, legs, 3)
    return _run(_dntk, net, prepared, order=2)


@checked
def empirical_ddntk(
    net: Plain, parameters: Parameters, x: Any, legs: Legs = None
) -> tuple[
    Float[np.ndarray, "sample sample sample sample leg leg_1 leg_2 leg_3"],
    Float[np.ndarray, "sample sample sample sample leg leg_1 leg_2 leg_3"],
]:
    r"""Both second differentials of the neural tangent kernel of one real network, to rounding.

    $$\begin{aligned}\widehat{dd_IH}_{i_0i_1i_2i_3}&=\sum\lambda\lambda\lambda\,\frac{d^3z_{i_0}}{d\theta_{\mu_1}
    d\theta_{\mu_2}d\theta_{\mu_3}}\frac{dz_{i_1}}{d\theta_{\nu_1}}\frac{dz_{i_2}}{d\theta_{\nu_2}}
    \frac{dz_{i_3}}{d\theta_{\nu_3}},\\
    \widehat{dd_{II}H}_{i_1i_2i_3i_4}&=\sum\lambda\lambda\lambda\,\frac{d^2z_{i_1}}{d\theta_{\mu_1}
    d\theta_{\mu_3}}\frac{d^2z_{i_2}}{d\theta_{\mu_2}d\theta_{\nu_3}}\frac{dz_{i_3}}{d\theta_{\nu_1}}
    \frac{dz_{i_4}}{d\theta_{\nu_2}}\end{aligned}$$

    The first is a third derivative along $\lambda\,\nabla z_1,\lambda\,\nabla z_2,\lambda\,\nabla z_3$,
    the second the product of the changes of $\nabla z_1$ along $\lambda\,\nabla z_3$ and of
    $\nabla z_2$ along $\lambda\,\nabla z_4$.

    Args:
        net: Shape, activation and learning rates.
        parameters: As `init_weights` gives them.
        x: (samples, features).
        legs: Four arrays (vectors, outputs), as in `empirical_dntk`, for both tensors in turn.

    Returns:
        The two tensors, (samples ×4, vectors ×4) each, in the dtype of the parameters. The first is
        symmetric in its last three legs, the second under (1, 3) ↔ (2, 4); exact to rounding.

    Raises:
        ValueError: If inputs, parameters or `legs` do not fit the network, or the activation has a
            kink.

    Source: PDLT (∞.5), (∞.7), (∞.174), (∞.175).

    Example:
        >>> import numpy as np, scalewise as sw
        >>> from scalewise.nets import empirical_ddntk, init_weights
        >>> net = sw.MLP(2, 5, "tanh", input_dim=3, output_dim=1)
        >>> first, second = empirical_ddntk(net, init_weights(net), np.eye(2, 3))
        >>> first.shape
        (2, 2, 2, 2, 1, 1, 1, 1)
    """
    check_has_slope(net.activation, "ddntk_R")
    check_smooth(net.activation)
    prepared = _prepare(net, parameters, x, legs, 4)
    return _run(_dd_first, net, prepared, order=3), _run(_dd_second, net, prepared, order=3)


Prepared = tuple[Parameters, np.ndarray, tuple[np.ndarray, ...], np.ndarray]


def _prepare(net: Network, parameters: Parameters, x: Any, legs: Legs, count: int) -> Prepared:
    """Everything as arrays of one dtype."""
    dtype = check_parameters(net, parameters)
    given = [np.eye(net.output_dim)] * count if legs is None else legs
    if len(given) != count or any(v.shape[1] != net.output_dim for v in given):
        raise ValueError(
            f"`legs` must be {count} arrays of vectors with {net.output_dim} entries each, one for "
            f"every output of {net}; got shapes {[v.shape for v in given]}."
        )
    rates = np.array([net.lambda_b, np.divide(net.lambda_W, net.widths[:-1])], dtype)
    arrays = tuple(v.astype(dtype) for v in given)
    return parameters, check_inputs(net, x).astype(dtype), arrays, rates


def _run(kernel: Any, net: Network, prepared: Prepared, *, order: int) -> np.ndarray:
    with precision(str(prepared[1].dtype)):
        found = _contract(*prepared, kernel=kernel, sigma=traced(net.activation), order=order)
    k = len(prepared[2])
    # Vectors come first from the loops over them.
    return np.moveaxis(np.asarray(found), range(k), range(-k, 0))


@partial(jax.jit, static_argnames=("kernel", "sigma", "order"))
def _contract(
    parameters: Parameters, x: Any, legs: Any, rates: Any, *, kernel: Any, sigma: Any, order: int
) -> Any:
    net = jets.flow(*parameters, x, rates, sigma=sigma, order=order, output=True)
    return _over(partial(kernel, net, rates[0]), (), legs)


def _over(function: Any, chosen: tuple[Any, ...], legs: tuple[Any, ...]) -> Any:
    """Every choice of one vector for each leg, one after the other: memory for one."""
    if not legs:
        return function(*chosen)
    return jax.lax.map(lambda v: _over(function, (*chosen, v), legs[1:]), legs[0])


def _dntk(net: jets.Flow, lambda_b: Any, w0: Any, w1: Any, w2: Any) -> Any:
    zero, one, two = (jets.rows(net, w) for w in (w0, w1, w2))
    step = jets.along(net, one)
    return jets.dntk(net, zero, jets.tangent(net, zero, one, step), step, two)


def _dd_first(net: jets.Flow, lambda_b: Any, w0: Any, w1: Any, w2: Any, w3: Any) -> Any:
    zero, one, two, three = (jets.rows(net, w) for w in (w0, w1, w2, w3))
    steps = jets.along(net, one), jets.along(net, two)
    both = jets.second_along(net, one, steps[0], two, steps[1])
    return jets.dd_first(net, zero, (one, two, three), steps, both)


def _dd_second(net: jets.Flow, lambda_b: Any, w1: Any, w2: Any, w3: Any, w4: Any) -> Any:
    one, two, three, four = (jets.rows(net, w) for w in (w1, w2, w3, w4))
    left, right = jets.along(net, three), jets.along(net, four)
    bent = jets.tangent(net, one, three, left), jets.tangent(net, two, four, right)
    return jets.dd_second(net, (one, bent[0], left), (two, bent[1], right), lambda_b)
