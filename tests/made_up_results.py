"""Results with known content for the tests of compare, report and the command line.

The numbers are those of a deep linear network (K constant, V = (l - 1)(K K + K K)), to which a
made-up 1/n correction of the kernel is added so that every branch has something to do.
"""

import numpy as np
import xarray as xr

from scalewise.networks import MLP, Network
from scalewise.observables import OBSERVABLES, as_variable

SLOPE = 0.3


def network(depth: int = 5, width=64, activation: str = "linear") -> Network:
    return MLP(depth, width, activation, input_dim=6, output_dim=3)


def base_kernel(samples: int) -> np.ndarray:
    x = np.random.default_rng(7).normal(size=(samples, 6)) + 0.5
    return x @ x.T / 6


def theory(net: Network | None = None, samples: int = 3, **attrs: object) -> xr.Dataset:
    net = net or network()
    layers = np.arange(1, net.depth + 1)
    step = (layers - 1.0)[:, None, None]
    K = np.broadcast_to(base_kernel(samples), (net.depth, samples, samples)).copy()
    V = step[..., None, None] * (
        np.einsum("lac,lbd->labcd", K, K) + np.einsum("lad,lbc->labcd", K, K)
    )
    below = np.array(net.widths[:-1], dtype=float)
    diagonal = np.einsum("laaaa->la", V) / np.einsum("laa->la", K) ** 2
    values = {
        "kernel": K,
        "metric_nlo": SLOPE * step * K,
        "four_point_vertex": V,
        "ntk": (step + 1) * (1 + K),
    }
    variables = {name: as_variable(name, value) for name, value in values.items()}
    variables["expansion_parameter"] = xr.Variable("layer", (diagonal / below[:, None]).max(axis=1))
    labels = {dim: np.arange(samples) for dim in OBSERVABLES["four_point_vertex"].dims[1:]}
    return xr.Dataset(
        variables,
        coords={"layer": layers, **labels},
        attrs={"kind": "theory", "version": "0.1.0", **net.attributes(), **attrs},
    )


def _symmetrise(noise: np.ndarray) -> np.ndarray:
    """The same noise in every entry that is equal by symmetry."""
    if noise.ndim == 3:
        return np.triu(noise) + np.swapaxes(np.triu(noise, 1), 1, 2)
    n = noise.shape[1]
    a, b, c, d = np.indices(noise.shape[1:])
    low, high = (np.minimum(a, b), np.maximum(a, b)), (np.minimum(c, d), np.maximum(c, d))
    swap = low[0] * n + low[1] > high[0] * n + high[1]
    first = tuple(np.where(swap, q, p) for p, q in zip(low, high, strict=True))
    second = tuple(np.where(swap, p, q) for p, q in zip(low, high, strict=True))
    return noise[:, *first, *second]


def ensemble(
    of: xr.Dataset, *, sem: float = 0.01, seed: int = 0, shift: float = 0.0, **attrs: object
) -> xr.Dataset:
    """A measurement whose truth is `of`, with errors of `sem` times the natural scale.

    `shift` moves every random entry by so many standard errors.
    """
    rng = np.random.default_rng(seed)
    variables = {}
    for name in OBSERVABLES:
        if name not in of:
            continue
        value = of[name].values
        half = value[0].size if value.ndim == 1 else int(np.sqrt(value[0].size))
        root = np.sqrt(np.abs(np.einsum("lii->li", value.reshape(len(value), half, half))))
        error = sem * (root[:, :, None] * root[:, None, :]).reshape(value.shape)
        if name != "ntk":
            error[0] = 0.0
        noise = _symmetrise(rng.normal(size=value.shape)) + shift
        variables[name] = as_variable(name, value + error * noise)
        variables[f"{name}_sem"] = xr.Variable(of[name].dims, error)
    base = {
        **{k: v for k, v in of.attrs.items() if k != "kind"},
        "kind": "ensemble",
        "networks": 500,
        "seed": seed,
        "widths": [],
        "extrapolated": 0,
        "extrapolation_degree": 0,
        "dtype": "float32",
    }
    return xr.Dataset(variables, coords=of.coords, attrs={**base, **attrs})
