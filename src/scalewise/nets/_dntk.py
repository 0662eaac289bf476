r"""Draws of dNTK and ddNTK correlations in every layer, from steps along gradients of real networks.

The weights $W^{(\ell+1)}$ of the layer above are averaged over analytically. What they leave are
contractions of the differentials of $f_w=\sum_jw_j\sigma^{(\ell)}_j$: with $w=\sigma_\alpha$ on a leg that
meets the preactivation of sample $\alpha$, and traces over pairs of legs, which random signs on both
legs of a pair estimate without bias. All of it is exact at any width. With the brackets for a contraction,
$\xi$ and $\eta$ for the signs, $C=C_W/n$, $\lambda=\lambda_W/n$ of the layer above and $n$ its inputs:

    P_0123 = n C² dH[sigma_3, xi, xi]_012        tilde Q_0123 = n C² dH[xi, xi, sigma_3]_012
    F_1324 = n C² H[sigma_1, sigma_2]_34         Q_0123 = tilde Q_0123 + lambda/C F_1032
    R_0123 = lambda/C P_0231 + n C² dd_I[eta, eta, xi, xi]_0123
    S_1234 = n C lambda H[eta, xi]_13 H[eta, xi]_24 + n C² dd_II[eta, eta, xi, xi]_1234
    T_1342 = (lambda/C)² F_3142 + lambda/C (tilde Q_2413 + tilde Q_1324) + n C² dd_II[xi, eta, xi, eta]_1234
    U_1423 = n C² dd_II[xi, eta, eta, xi]_1234
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from scalewise.nets import _jets as jets
from scalewise.nets._random import normals, take
from scalewise.networks._perceptron import Perceptron

# Random signs for each network, paired in a ring: each is once xi and once eta.
PROBES = 4
SECOND = frozenset("RSTU")  # what takes steps along two vectors of signs

Probe = tuple[jets.Rows, jets.Along, jets.Tangent]


def _probe(net: jets.Flow, w: Any) -> Probe:
    """What one vector of signs needs of its own: its rows, steps along them, how those bend them."""
    one = jets.rows(net, w)
    step = jets.along(net, one)
    return one, step, jets.tangent(net, one, one, step)


def _single(net: jets.Flow, values: jets.Rows, xi: Probe) -> dict[str, Any]:
    """dH[sigma_3, xi, xi] and dH[xi, xi, sigma_3], (sample)^4 in the order 0123."""
    one, step, bent = xi
    both = jets.second_along(net, one, step, one, step)
    bends = jax.vmap(lambda v: jets.dntk(net, one, bent, step, v))(values)
    return {
        "P": jnp.einsum("bcan,dn->abcd", both.s[-1], net.top),
        "Q": jnp.moveaxis(bends, 0, 3),
    }


def _pair(net: jets.Flow, lambda_b: Any, xi: Probe, eta: Probe) -> dict[str, Any]:
    """The contractions of two vectors of signs, (sample)^4 in the printed order of each tensor."""
    (one, step, own), (two, other, its) = xi, eta
    crossed = jets.tangent(net, two, one, step)  # eta bent along xi
    back = jets.tangent(net, one, two, other)
    both = jets.second_along(net, one, step, one, step)
    first = jets.dd_first(net, two, (one, one, two), (step, step), both)
    second = partial(jets.dd_second, net, lambda_b=lambda_b)
    H = jets.ntk(net, two, one)
    S, T, U = (
        second((two, crossed, step), (two, crossed, step)),
        second((one, own, step), (two, its, other)),
        second((one, back, other), (two, crossed, step)),
    )
    return {
        "HH": jnp.einsum("ac,bd->abcd", H, H),
        "R": jnp.einsum("acdb->abcd", first),
        "S": S,
        "T": jnp.einsum("abcd->acdb", T),
        "U": jnp.einsum("abcd->adbc", U),
    }


def _ring(net: jets.Flow, signs: Any, lambda_b: Any, pairs: bool) -> dict[str, Any]:
    """Means of all contractions over the signs of one network."""
    probes = jax.vmap(partial(_probe, net))(signs)
    values = jax.vmap(partial(jets.rows, net))(net.top)
    found = jax.vmap(partial(_single, net, values))(probes)
    if pairs:
        following = jax.tree.map(lambda a: jnp.roll(a, -1, axis=0), probes)
        found |= jax.vmap(partial(_pair, net, lambda_b))(probes, following)
    means = {name: draws.mean(axis=0) for name, draws in found.items()}
    H = jax.vmap(jax.vmap(partial(jets.ntk, net), (None, 0)), (0, None))(values, values)
    return {**means, "F": jnp.einsum("cdab->cadb", H)}


def _tensors(means: dict[str, Any], C: Any, own: Any, width: int) -> dict[str, Any]:
    """Draws of the tensors, with what the last weights' own steps add; `own` is lambda_W / n."""
    scale = width * C**2
    tilde, F = scale * means["Q"], scale * means["F"]
    found = {"P": scale * means["P"], "Q": tilde + own / C * jnp.einsum("badc->abcd", F)}
    if "R" not in means:
        return found
    T = scale * means["T"] + (own / C) ** 2 * jnp.einsum("cadb->acdb", F)
    T += own / C * (jnp.einsum("bdac->acdb", tilde) + jnp.einsum("acbd->acdb", tilde))
    U = scale * means["U"]
    return found | {
        "R": scale * means["R"] + own / C * jnp.einsum("acdb->abcd", found["P"]),
        "S": scale * means["S"] + width * C * own * means["HH"],
        "T": (T + jnp.einsum("dcba->abcd", T)) / 2,
        "U": (U + jnp.einsum("cdab->abcd", U)) / 2,
    }


@partial(jax.jit, static_argnames=("parts", "sigma"))
def _draw(
    parameters: tuple[Any, Any],
    x: Any,
    signs: Any,
    rates: Any,
    above: tuple[Any, Any],
    *,
    parts: tuple[str, ...],
    sigma: Callable[[Any], Any],
) -> dict[str, Any]:
    """The tensors of the layer above the given ones, for each network of a batch, flat."""
    pairs = not SECOND.isdisjoint(parts)

    def one(weights: Any, biases: Any, signs: Any) -> dict[str, Any]:
        order = 3 if pairs else 2
        net = jets.flow(weights, biases, x, rates, sigma=sigma, order=order, output=False)
        means = _ring(net, signs, rates[0], pairs)
        found = _tensors(means, *above, signs.shape[-1])
        return {part: found[part].reshape(-1) for part in parts}

    return jax.vmap(one)(*parameters, signs)


def sample_dntk(
    net: Perceptron,
    x: np.ndarray,
    keys: Any,
    *,
    parts: tuple[str, ...],
    sigma: Callable[[Any], Any],
    dtype: str,
) -> dict[str, np.ndarray]:
    r"""Unbiased draws of P, Q, R, S, T, U of the layers 2..L, one for each network.

    Args:
        net: The network.
        x: (samples, features).
        keys: One key per network.
        parts: Which tensors, by their letters.
        sigma: The activation as a JAX function.
        dtype: ``"float32"`` or ``"float64"``.

    Returns:
        For each part (networks, L-1, samples^4) in the printed order of its indices. The expectation
        of a draw is the coefficient of $1/n_{\ell-1}$ in (11.45), (∞.176) or (∞.178) at the widths of
        `net`, all orders in 1/n included.

    Source: PDLT (11.24), (11.35), (11.43)-(11.45), (∞.174)-(∞.178).
    """
    n, depth = net.widths, net.depth
    shapes = [(n[i + 1], n[i] + 1) for i in range(depth - 1)]
    sizes = [a * b for a, b in shapes] + [PROBES * m for m in n[1:-1]]
    offsets = np.cumsum([0, *sizes], dtype=np.int32)
    numbers = normals(keys, count=int(offsets[-1]), dtype=dtype)
    rates = np.array([net.lambda_b, np.divide(net.lambda_W, n[:-1])], dtype)
    drawn: dict[str, list[Any]] = {part: [] for part in parts}
    weights, biases = (), ()
    for i, shape in enumerate(shapes):
        own = take(numbers, offsets[i], *shape)
        weights += (np.asarray(np.sqrt(net.C_W[i] / n[i]), dtype) * own[..., :-1],)
        biases += (np.asarray(np.sqrt(net.C_b[i]), dtype) * own[..., -1],)
        probes = take(numbers, offsets[depth - 1 + i], PROBES, n[i + 1])
        signs = jnp.where(probes < 0, -1, 1).astype(dtype)
        above = tuple(np.asarray(c[i + 1] / n[i + 1], dtype) for c in (net.C_W, net.lambda_W))
        own_rates = rates[:, : i + 1]
        arrays = (weights, biases), np.asarray(x, dtype), signs, own_rates, above
        for part, draws in _draw(*arrays, parts=parts, sigma=sigma).items():
            drawn[part].append(draws)
    return {part: np.asarray(jnp.stack(found, axis=1), float) for part, found in drawn.items()}
