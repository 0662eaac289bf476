r"""How far the variances that norms divide by scatter from network to network.

With $f=(v+\epsilon)^{-1/2}$ what a norm multiplies its channels by, and $R'_p$ the influence of a unit of
population $p$ on $\log f$,
$$\frac{\mathrm{Var}[v]}{v^2}=4\sum_p\frac1{n_p}\mathbb E_g\big[R_p'(g)^2\big]$$
to order $1/n$ for $\epsilon=0$: $2/n$ of a root mean square over $n$ Gaussian channels, and what the layers
below add.

The NTK behind a norm goes as $1/v$. With $r=\mathrm{Var}[v]/v^2$ and $v$ as a sum of squares of Gaussian channels,
$$\frac{\mathrm{Var}[1/v]}{\mathbb E[1/v]^2}=\frac r{1-2r},\qquad
  v_\infty^2\,\mathrm{Var}[1/v]=\frac r{(1-r)^2(1-2r)}=r+4r^2+\dots,$$
so that order $1/n$ leaves $4r$ of its own size to the next one, and 4 channels have no variance at all.

Source: derived; von Mises' expansion as in `scalewise.theory.order._responses`; moments of a $\chi^2$ law.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from scalewise._arrays import evenly
from scalewise._warn import warn
from scalewise._words import listed
from scalewise.networks import Network
from scalewise.networks.spi import Normalise, Program, fixed_fields
from scalewise.networks.spi_jax import precision
from scalewise.theory.order._given import drawn, equal
from scalewise.theory.order._influences import scaled, slopes
from scalewise.theory.order._particles import Particles
from scalewise.theory.order._populations import populations

_INPUTS, _POSITIONS = 4, 4  # evenly among all, by their size and in their order
_UNITS = 1 << 12
_NEXT = 4.0  # times r: the share of a variance of 1/v that is beyond order 1/n
_LARGE = 0.51  # of that share, with what r is known to: beyond it order 1/n is not worth much


def norm_fluctuations(net: Network, x: np.ndarray, layers: Sequence[int]) -> np.ndarray:
    """The largest relative variance of what a norm divides by, of all norms below each layer; 0 of a layer without.

    Four inputs are looked at, from the smallest to the largest, each alone, and four positions of a norm; to 1 %.
    A group of a norm scatters as a norm over so few channels, which counts the scatter of layers below too often.
    Warns where it is over too few channels for the expansion.

    Args:
        net: The network; some layer has a norm below.
        x: Checked inputs.
        layers: Which, counted from 1.

    Returns:
        (layer,), at the network's own widths.
    """
    program = net.program
    ends = tuple(program.layers[layer - 1] for layer in layers)
    below = {end: program.norms(end) for end in ends}
    found, own = np.zeros(len(ends)), populations(program, ends)
    some = evenly([float(np.linalg.norm(one)) for one in x], _INPUTS)
    with precision("float64"):
        g = drawn(program, own, 1, _UNITS, 0)
        for a in some:
            own_fields = fixed_fields(program, x[a : a + 1])
            spreads = _spreads(own_fields, g, program=program, ends=ends)
            largest = [
                max((float(spreads[k]) for k in norms), default=0.0) for norms in below.values()
            ]
            found = np.maximum(found, largest)
    _warn(found, layers)
    return found


def _warn(found: np.ndarray, layers: Sequence[int]) -> None:
    """Warn of norms over too few channels for the expansion."""
    shares = _NEXT * found
    few = [str(layer) for layer, share in zip(layers, shares, strict=True) if share > _LARGE]
    if few:
        wider = math.ceil(10 * shares.max() / _LARGE) / 10
        warn(
            f"Norms below layer{'s' if len(few) > 1 else ''} {listed(few, 'and')} are over so few channels that "
            "order 1/n says little at this width: of the variance of the NTK, which goes as one over what they "
            f"divide by, the next order is {shares.max():.1g} times as much. Make the network {wider:g} times as "
            "wide, or give a norm fewer groups; the coefficients hold at that width (`at_width`).",
        )


@partial(jax.jit, static_argnames=("program", "ends"))
def _spreads(
    fixed: Mapping[int, Any], g: Mapping[int, Any], *, program: Program, ends: tuple[int, ...]
) -> dict[int, Any]:
    own = populations(program, ends)
    norms = sorted({k for end in ends for k in program.norms(end)})

    def logs(weights: Any) -> Any:
        made = Particles.run(program, ends, fixed, weights, normals=g)
        return jnp.concatenate([jnp.log(made.factors[k].ravel())[_some(program, k)] for k in norms])

    _, found = slopes(logs, equal(own, g))
    variances = 4 * jnp.sum(scaled(own, found, centred=True) ** 2, axis=1)
    edges = np.cumsum([len(_some(program, k)) for k in norms])[:-1]
    parts = zip(norms, jnp.split(variances, edges), strict=True)
    return {k: _norm(program, k).groups * part.max() for k, part in parts}


def _norm(program: Program, here: int) -> Normalise:
    node = program.nodes[here]
    assert isinstance(node, Normalise)
    return node


def _some(program: Program, norm: int) -> np.ndarray:
    """Positions, among those that have a variance of their own."""
    node = _norm(program, norm)
    count = 1 if node.joint else math.prod(program.positions[node.of[0]])
    return np.unique(np.linspace(0, count - 1, _POSITIONS).round().astype(int))
