r"""Derivatives of one network along its own gradients: what NTK, dNTK and ddNTK are made of.

For a vector $w$ let $f_w=\sum_iw_i\sigma^{(\ell)}_i$ (or $\sum_iw_iz^{(L)}_i$ at the output). In every
layer the gradient of $f_w(x_\alpha)$ is an outer product of a row $r^{(l)}=df_w/dz^{(l)}$ and the
activations $\sigma^{(l-1)}$ that enter. So a step along $\lambda\,\nabla f_w(x_\beta)$ changes
$z^{(l)}_\alpha$ by a multiple of a row, derivatives of any order along such steps flow forward and back
as vectors of one layer, and the contractions of PDLT (11.8), (∞.5), (∞.7) are scalar products of those.
No array has the shape of the parameters.

Indices of samples stand in this order: what is differentiated last; in `Along` the steps come first.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

Sigma = Callable[[Any], Any]


class Flow(NamedTuple):
    """One network up to its layer l, on all samples; its tuples run over the layers 1..l."""

    top: Any  # sigma^(l), or z^(L) at the output: (sample, n_l)
    weights: tuple[Any, ...]  # W^(l), (n_l, n_{l-1})
    entering: tuple[Any, ...]  # sigma^(l-1), (sample, n_{l-1})
    slopes: tuple[tuple[Any, ...], ...]  # sigma', sigma'', sigma''' at z^(l), (sample, n_l) each
    rates: tuple[Any, ...]  # lambda_W^(l) / n_{l-1}
    grams: tuple[Any, ...]  # sigma^(l-1) . sigma^(l-1), (sample, sample)
    shared: tuple[Any, ...]  # lambda_b + lambda_W / n_{l-1} times that, (sample, sample)


class Rows(NamedTuple):
    """Of one f_w: df/dsigma^(l) and df/dz^(l) in every layer, (sample, n_l)."""

    h: tuple[Any, ...]
    r: tuple[Any, ...]


class Along(NamedTuple):
    """Derivatives of z^(l) and of sigma^(l-1) along steps: (step..., sample, n)."""

    z: tuple[Any, ...]
    s: tuple[Any, ...]


class Tangent(NamedTuple):
    """Derivatives of the rows of an f_w along steps: (sample, step..., n_l)."""

    h: tuple[Any, ...]
    r: tuple[Any, ...]


def derivatives(sigma: Sigma, z: Any, order: int) -> tuple[Any, ...]:
    """The activation and its derivatives up to `order` at z; almost everywhere where there is a kink."""
    functions = [sigma]
    for _ in range(order):
        functions.append(_derivative(functions[-1]))
    return tuple(f(z) for f in functions)


def _derivative(function: Sigma) -> Sigma:
    return lambda z: jax.jvp(function, (z,), (jnp.ones_like(z),))[1]


def flow(
    weights: Any, biases: Any, x: Any, rates: Any, *, sigma: Sigma, order: int, output: bool
) -> Flow:
    """Carry the samples forward.

    Args:
        weights: Of the layers 1..l.
        biases: Of the layers 1..l.
        x: (sample, n_0).
        rates: lambda_b and lambda_W / n_{l-1} of every layer, (2, l or more).
        sigma: The activation as a JAX function.
        order: How many derivatives of it are needed: 2 for the dNTK, 3 for the ddNTKs.
        output: Whether the last layer is the output of the network, which has no activation.
    """
    entering, slopes = [x], []
    for layer, (w, b) in enumerate(zip(weights, biases, strict=True), 1):
        z = entering[-1] @ w.T + b
        if output and layer == len(weights):
            entering.append(z)
            slopes.append((jnp.ones_like(z), *[jnp.zeros_like(z)] * (order - 1)))
        else:
            value, *rest = derivatives(sigma, z, order)
            entering.append(value)
            slopes.append(tuple(rest))
    top = entering.pop()
    grams = tuple(s @ s.T for s in entering)
    shared = tuple(rates[0, i] + rates[1, i] * g for i, g in enumerate(grams))
    own = tuple(rates[1, i] for i in range(len(weights)))
    return Flow(top, tuple(weights), tuple(entering), tuple(slopes), own, grams, shared)


def rows(net: Flow, w: Any) -> Rows:
    """The rows of f_w at every sample, PDLT (8.16)."""
    h = jnp.broadcast_to(w, net.slopes[-1][0].shape)
    found = []
    for weight, slope in zip(net.weights[::-1], net.slopes[::-1], strict=True):
        r = h * slope[0]
        found.append((h, r))
        h = r @ weight
    return Rows(*zip(*found[::-1], strict=True))


def along(net: Flow, one: Rows) -> Along:
    """First derivatives along the gradients of f_w at every sample b: z[b, a, n], s[b, a, n]."""
    s = jnp.zeros((len(net.entering[0]), *net.entering[0].shape), net.entering[0].dtype)
    zs, ss = [], []
    for i, weight in enumerate(net.weights):
        z = net.shared[i].T[:, :, None] * one.r[i][:, None, :] + s @ weight.T
        zs.append(z)
        ss.append(s)
        s = net.slopes[i][0] * z
    return Along(tuple(zs), tuple(ss))


def second_along(net: Flow, one: Rows, step: Along, two: Rows, other: Along) -> Along:
    """Second derivatives along f_v at b and f_w at c: z[b, c, a, n] and, one layer up, s too.

    `s` has an entry more than the layers: the last one belongs to sigma^(l) itself.
    """
    samples, features = net.entering[0].shape
    s = jnp.zeros((samples,) * 3 + (features,), net.entering[0].dtype)
    zs, ss = [], [s]
    for i, weight in enumerate(net.weights):
        x = net.entering[i]
        mixed = jnp.einsum("bn,can->bca", x, other.s[i])[..., None] * one.r[i][:, None, None]
        mixed += jnp.einsum("cn,ban->bca", x, step.s[i])[..., None] * two.r[i][None, :, None]
        z = net.rates[i] * mixed + s @ weight.T
        product = step.z[i][:, None] * other.z[i][None, :]
        s = net.slopes[i][1] * product + net.slopes[i][0] * z
        zs.append(z)
        ss.append(s)
    return Along(tuple(zs), tuple(ss))


def tangent(net: Flow, one: Rows, two: Rows, step: Along) -> Tangent:
    """How the rows of f_v at a change along the gradient of f_w at b: r[a, b, n]."""
    samples, last = net.slopes[-1][0].shape
    h = jnp.zeros((samples, samples, last), net.entering[0].dtype)
    found = []
    for i in range(len(net.weights))[::-1]:
        first, second = net.slopes[i][:2]
        bent = (second * one.h[i])[:, None] * jnp.swapaxes(step.z[i], 0, 1)
        r = bent + first[:, None] * h
        found.append((h, r))
        twist = jnp.einsum("an,bn->ab", one.r[i], two.r[i])
        h = r @ net.weights[i] + net.rates[i] * twist[..., None] * net.entering[i][None]
    return Tangent(*zip(*found[::-1], strict=True))


def second_tangent(
    net: Flow, one: Rows, legs: tuple[Rows, Rows], steps: tuple[Along, Along], both: Along
) -> Tangent:
    """How the rows of f_u at a change along f_v at b and f_w at c: r[a, b, c, n]."""
    (d, e), (along_d, along_e) = legs, steps
    by_d, by_e = tangent(net, one, d, along_d), tangent(net, one, e, along_e)
    samples, last = net.slopes[-1][0].shape
    h = jnp.zeros((samples,) * 3 + (last,), net.entering[0].dtype)
    found = []
    for i in range(len(net.weights))[::-1]:
        first, second, third = net.slopes[i]
        zd = jnp.swapaxes(along_d.z[i], 0, 1)[:, :, None]
        ze = jnp.swapaxes(along_e.z[i], 0, 1)[:, None, :]
        r = (third * one.h[i])[:, None, None] * zd * ze
        r += (second * one.h[i])[:, None, None] * jnp.moveaxis(both.z[i], 2, 0)
        r += second[:, None, None] * (zd * by_e.h[i][:, None] + ze * by_d.h[i][:, :, None])
        r += first[:, None, None] * h
        found.append((h, r))
        twist_d = jnp.einsum("acn,bn->abc", by_e.r[i], d.r[i])[..., None]
        twist_e = jnp.einsum("abn,cn->abc", by_d.r[i], e.r[i])[..., None]
        x = net.entering[i]
        twisted = twist_d * x[None, :, None] + twist_e * x[None, None, :]
        h = r @ net.weights[i] + net.rates[i] * twisted
    return Tangent(*zip(*found[::-1], strict=True))


def dntk(net: Flow, one: Rows, bent: Tangent, step: Along, two: Rows) -> Any:
    """The dNTK of f_u at a, f_v at b, f_w at c: [a, b, c]; PDLT (11.8).

    Args:
        net: The network.
        one: Rows of f_u.
        bent: Their change along f_v.
        step: The derivatives along f_v.
        two: Rows of f_w.
    """
    total: Any = 0.0
    for i, x in enumerate(net.entering):
        total += jnp.einsum("abn,cn->abc", bent.r[i], two.r[i]) * net.shared[i][:, None, :]
        fixed = (one.r[i] @ two.r[i].T)[:, None, :]
        total += net.rates[i] * fixed * jnp.einsum("ban,cn->abc", step.s[i], x)
    return total


def dd_first(
    net: Flow,
    one: Rows,
    legs: tuple[Rows, Rows, Rows],
    steps: tuple[Along, Along],
    both: Along,
) -> Any:
    """The first ddNTK of f_u at a and the legs at b, c, d: [a, b, c, d]; PDLT (∞.5).

    Args:
        net: The network.
        one: Rows of f_u.
        legs: Rows of the three others.
        steps: The derivatives along the first and along the second of them.
        both: The second derivatives along those two.
    """
    bent = second_tangent(net, one, legs[:2], steps, both)
    by_b, by_c = (tangent(net, one, leg, step) for leg, step in zip(legs[:2], steps, strict=True))
    total: Any = 0.0
    for i, x in enumerate(net.entering):
        last = legs[2].r[i]
        total += jnp.einsum("abcn,dn->abcd", bent.r[i], last) * net.shared[i][:, None, None, :]
        crossed = (
            jnp.einsum("abn,dn->abd", by_b.r[i], last)[:, :, None]
            * jnp.einsum("can,dn->acd", steps[1].s[i], x)[:, None]
        )
        crossed += (
            jnp.einsum("acn,dn->acd", by_c.r[i], last)[:, None]
            * jnp.einsum("ban,dn->abd", steps[0].s[i], x)[:, :, None]
        )
        fixed = (one.r[i] @ last.T)[:, None, None]
        crossed += fixed * jnp.einsum("bcan,dn->abcd", both.s[i], x)
        total += net.rates[i] * crossed
    return total


def dd_second(
    net: Flow, left: tuple[Rows, Tangent, Along], right: tuple[Rows, Tangent, Along], lambda_b: Any
) -> Any:
    """The second ddNTK: f_u at a bent along f_w at c, times f_v at b bent along f_x at d: [a, b, c, d].

    Args:
        net: The network.
        left: Rows of f_u, their change along f_w, and the derivatives along f_w.
        right: The same of f_v and f_x.
        lambda_b: Of every layer.

    Source: PDLT (∞.7).
    """
    (u, bent_u, step_w), (v, bent_v, step_x) = left, right
    total: Any = 0.0
    for i, x in enumerate(net.entering):
        rate = net.rates[i]
        bends = jnp.einsum("acn,bdn->abcd", bent_u.r[i], bent_v.r[i])
        total += bends * (lambda_b[i] + rate * net.grams[i])[:, :, None, None]
        crossed = (
            jnp.einsum("acn,bn->abc", bent_u.r[i], v.r[i])[..., None]
            * jnp.einsum("an,dbn->abd", x, step_x.s[i])[:, :, None]
        )
        crossed += (
            jnp.einsum("an,bdn->abd", u.r[i], bent_v.r[i])[:, :, None]
            * jnp.einsum("can,bn->abc", step_w.s[i], x)[..., None]
        )
        fixed = (u.r[i] @ v.r[i].T)[:, :, None, None]
        crossed += fixed * jnp.einsum("can,dbn->abcd", step_w.s[i], step_x.s[i])
        total += rate * crossed
    return total
