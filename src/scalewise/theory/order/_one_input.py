r"""The tensors of one input alone as `predict` returns them: from tables, with errors.

Where neurons remember themselves, covariances of products in two layers stand beside the tables: of every layer
with each before it, at any depth.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

import numpy as np
from jaxtyping import Float

from scalewise.activations import Activation
from scalewise.gaussian.spi import SHAKES, line_rule, shaken, two_input_covariances, with_shakes
from scalewise.networks import Network
from scalewise.observables import of_letter
from scalewise.theory._tables._line_moments import preactivation_names
from scalewise.theory._tables._line_table import estimates_of, line_table
from scalewise.theory.order._densities import density
from scalewise.theory.order._jets import TENSORS
from scalewise.theory.order._scalar_terms import Orders, crossings, mean_of
from scalewise.theory.order._terms import wanted
from scalewise.theory.single._single_input import refuse_overflow, tensors_from

KNOWN_OF_ONE = TENSORS.keys()
Named = Mapping[Any, np.ndarray]
Alone = Float[np.ndarray, " layer"]
Past = Float[np.ndarray, "map layer"]
_ROUNDING = 1e-13
_BENT = (2, 0, 0, 0)  # of this alone kinks are known


def one_input(
    net: Network, K: Float[np.ndarray, "layer 1 1"], letters: Sequence[str]
) -> dict[str, tuple[Float[np.ndarray, "layer ..."], Float[np.ndarray, "layer ..."]]]:
    """Tensors, out of `KNOWN_OF_ONE`, at every layer and their numerical errors, by letter.

    Those whose expectations are not known are left out. With axes for two or four samples; rtol 1e-10 of the terms
    of each recursion.
    """
    alone = K[:, 0]
    # What V and G1 need has a table of its own, and is read off it whatever else is asked for.
    moments, errors = estimates_of(
        line_table(net.activation, preactivation_names(net.activation)), alone
    )
    if wanted(tuple(letters)).has_tangents:
        every = estimates_of(line_table(net.activation), alone)
        moments, errors = every[0] | moments, every[1] | errors
    made = partial(tensors_from, net, alone, letters=letters)
    between: dict[Orders, Past] = {}
    doubts: dict[Orders, Past] = {}
    if any(net.skips):
        kept = memory(net)
        between, doubts = _between_layers(net.activation, alone[:, 0], kept, letters)
        for orders in {part for pqrs in between for part in (pqrs[:2], pqrs[2:])}:
            if (name := mean_of(orders)) not in moments:
                moments[name], errors[name] = _mean(net.activation, alone[:-1], orders)
        made = partial(made, kept=kept[:-1])
    with np.errstate(over="ignore", invalid="ignore", under="ignore"):
        runs = [made(m=moments, between=between)]
        for seed in range(SHAKES):
            moved = _moved(moments, errors, seed, 0, alike=1)
            runs.append(made(m=moved, between=_moved(between, doubts, seed, len(moments))))
    out = {}
    for letter in runs[0].keys() & {*letters}:
        refuse_overflow(net, letter, runs[0][letter])
        value, error = with_shakes([run[letter][None] for run in runs])
        shape = (net.depth, *(1,) * of_letter(letter).legs)
        out[letter] = value.reshape(shape), error.reshape(shape)
    return out


def _moved(
    values: Named, errors: Named, seed: int, first: int, **how: int
) -> dict[Any, np.ndarray]:
    return {
        name: shaken(value, errors[name], (seed, first + place), **how)
        for place, (name, value) in enumerate(values.items())
    }


def memory(net: Network) -> Float[np.ndarray, "layer later"]:
    r"""The product of the $\gamma$ between two layers; 0 below the diagonal, 1 on it."""
    out = np.eye(net.depth)
    for later in range(1, net.depth):
        out[:later, later] = out[:later, later - 1] * net.skips[later]
    return out


def _between_layers(
    sigma: Activation, K: Alone, kept: Float[np.ndarray, "layer later"], letters: Sequence[str]
) -> tuple[dict[Orders, Past], dict[Orders, Past]]:
    """Covariances of products in a later layer and in an earlier one, by derivatives, and their errors."""
    orders = [pqrs for pqrs in crossings(tuple(letters)) if _exists(sigma, pqrs)]
    values, errors = ({pqrs: np.zeros((len(K) - 1, len(K))) for pqrs in orders} for _ in range(2))
    for m in range(1, len(K) - 1):
        seen = np.flatnonzero(kept[:m, m])
        if not seen.size:
            continue
        late, early, cross = np.full(seen.size, K[m]), K[seen], kept[seen, m] * K[seen]
        wanted = [(pqrs, 0b1100) for pqrs in orders]
        found = two_input_covariances(sigma, (late, early, cross), wanted)  # type: ignore[arg-type]
        for (pqrs, _), estimate in found.items():
            values[pqrs][seen, m], errors[pqrs][seen, m] = estimate.value, estimate.error
        if _BENT in orders and sigma.kinks:
            each = zip(late, early, cross, strict=True)
            values[_BENT][seen, m] += [_kinks_of_one(sigma, *at) for at in each]
    return values, errors


def _mean(sigma: Activation, K: np.ndarray, orders: Orders) -> tuple[np.ndarray, np.ndarray]:
    """An average of two factors in each layer, and its error."""
    z, w = line_rule(K, sigma.split_points)
    terms = w * math.prod(sigma.derivative(z, p) for p in orders)
    return terms.sum(axis=-1), _ROUNDING * np.abs(terms).sum(axis=-1)


def _exists(sigma: Activation, orders: Orders) -> bool:
    """True of a covariance that is known of an activation."""
    if not sigma.is_continuous:
        return not any(orders)
    return sigma.is_smooth or max(orders) < 2 or orders == _BENT


def _kinks_of_one(sigma: Activation, late: float, early: float, cross: float) -> float:
    r"""$\mathrm{Cov}[[\sigma']\,\delta_\kappa(z)\,\sigma(z),\sigma^2(z_k)]$, summed over kinks."""
    total = 0.0
    for kink in sigma.kinks:
        kappa = kink.location
        factor = kink.slope_jump * density(kappa, late) * float(sigma(np.array([kappa]))[0])
        if factor:
            z, w = line_rule(np.array(early), sigma.split_points, 4)
            centre = cross / late * kappa
            splits = [point - centre for point in sigma.split_points]
            y, v = line_rule(np.array(early - cross**2 / late), splits, 4)
            total += factor * float(v @ sigma(centre + y) ** 2 - w @ sigma(z) ** 2)
    return total
