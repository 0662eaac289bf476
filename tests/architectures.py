"""Networks of several layers that tests share, and what they compute, written without the package's programs."""

from __future__ import annotations

import jax.numpy as jnp
import numpy as np

import scalewise as sw
from scalewise.gaussian import pair_moments
from scalewise.networks._program import Draw, Norm, Pointwise, Program, Source, Spread, Sum
from scalewise.networks._sites import Matrix, Transposed, Window

GRAPH = np.random.default_rng(5).normal(size=(6, 6)) / 4 + np.eye(6)
RATES = {"C_b": 0.1, "C_W": 1.3, "lambda_b": 0.4, "lambda_W": 0.9}


def compositions(sigma: str) -> dict[str, tuple]:
    """Layers over one axis of six positions or more."""
    return {
        "pooled": (
            *(sw.Conv(3), sigma, sw.Conv(3, stride=2), sigma),
            *(sw.GlobalAvgPool(), sw.Dense(), sigma, sw.Dense(2)),
        ),
        "skip, flat": (
            *(sw.Conv(3, padding="circular"), sw.Skip(sigma, sw.Conv(2, padding="circular"))),
            *(sigma, sw.Flatten(), sw.Dense(2, C_W=0.7)),
        ),
        "pools": (
            *(sw.Conv(3, padding="valid"), sigma, sw.AvgPool(2), sw.Conv(2, dilation=2)),
            *(sigma, sw.SumPool(2, stride=1, padding="zero"), sw.Dense(C_b=0.3), sigma),
            *(sw.Flatten(), sw.Dense(1)),
        ),
        "skip at one site": (
            *(sw.Conv(3), sigma, sw.GlobalAvgPool(), sw.Dense()),
            *(sw.Skip(sigma, sw.Dense(), factor=0.5), sigma, sw.Dense(2)),
        ),
        "skips in a skip": (
            *(sw.Dense(), sw.Skip(sigma, sw.Conv(3), sw.Skip(sigma, sw.Dense(), factor=0.5))),
            *(sw.AvgPool(3, stride=2, padding="zero"), sigma, sw.GlobalAvgPool(), sw.Dense(1)),
        ),
        "parallel": (
            sw.Conv(3),
            sw.Parallel([sigma, sw.Conv(3)], (), [sigma, sw.Dense()], factors=(0.8, 0.7, 0.3)),
            *(sigma, sw.GlobalAvgPool(), sw.Dense(1)),
        ),
        "transposed": (
            *(sw.Conv(2, stride=3), sigma, sw.ConvTranspose(3, stride=2), sigma),
            *(sw.Flatten(), sw.Dense(2)),
        ),
        "from one position": (
            *(sw.Conv(3), sw.GlobalSumPool(), sw.ConvTranspose(3, padding="valid"), sigma),
            *(sw.ConvTranspose(2, stride=2, dilation=3, padding="circular"), sigma),
            *(sw.Flatten(), sw.Dense(1)),
        ),
        "graph": (
            *(sw.Aggregate(GRAPH, axis=-1), sw.Dense(), sigma),
            *(sw.Aggregate(GRAPH @ GRAPH, axis=-1), sw.Dense(), sigma),
            *(sw.GlobalAvgPool(), sw.Dense(2)),
        ),
        "norms": (
            *(sw.Conv(3), sw.LayerNorm(), sw.Skip(sw.LayerNorm(0.3), sigma, sw.Conv(3))),
            *(sigma, sw.RMSNorm(), sw.AvgPool(2), sw.Dense(), sw.RMSNorm(0.2), sigma),
            *(sw.GlobalAvgPool(), sw.Dense(1)),
        ),
    }


def site_matrices(
    windows: tuple[Window | Transposed | Matrix, ...], sizes: tuple[int, ...]
) -> np.ndarray:
    """(taps, places, positions), position by position."""
    found = np.ones((1, 1, 1))
    for window, size in zip(windows, sizes, strict=True):
        if isinstance(window, Matrix):
            found = np.stack(
                [np.kron(b, np.frombuffer(window.entries).reshape(size, size)) for b in found]
            )
            continue
        if isinstance(window, Transposed):
            back = site_matrices((window.window,), (window.length(size),)).transpose(0, 2, 1)
            shape = [a * b for a, b in zip(found.shape, back.shape, strict=True)]
            found = np.einsum("tpq,uab->tupaqb", found, back).reshape(shape)
            continue
        left = 0 if window.padding == "valid" else ((window.taps - 1) * window.dilation) // 2
        own = np.zeros((window.taps, window.length(size), size))
        for tap, place, _ in np.ndindex(own.shape):
            at = place * window.stride + tap * window.dilation - left
            if window.padding == "circular":
                own[tap, place, at % size] = 1
            elif 0 <= at < size:
                own[tap, place, at] = 1
        shape = [a * b for a, b in zip(found.shape, own.shape, strict=True)]
        found = np.einsum("tpq,uab->tupaqb", found, own).reshape(shape)
    return found


def by_matrices(program: Program, x: np.ndarray) -> list[tuple[np.ndarray, np.ndarray]]:
    """K and Theta of every node, each label with each, samples first: no tiles, no slices, no maps."""
    found: list[tuple[np.ndarray, np.ndarray]] = []
    for node in program.nodes:
        if isinstance(node, Source):
            rows = x.reshape(-1, x.shape[-1])
            found.append((rows @ rows.T / x.shape[-1], np.zeros((len(rows),) * 2)))
            continue
        below = [found[k] for k in node.of]
        C, T = below[0]
        if isinstance(node, Pointwise):
            a = np.diagonal(C)
            M = pair_moments(node.sigma, a[:, None], a[None], C, ((0, 0), (1, 1)))
            found.append((M[0, 0].value, M[1, 1].value * T))
        elif isinstance(node, Norm):
            D = np.diag((np.diagonal(C) + node.eps) ** -0.5)
            found.append((D @ C @ D, D @ T @ D))
        elif isinstance(node, Sum):
            squares = [f * f for f in node.factors]
            pairs = zip(*below, strict=True)
            found.append(tuple(sum(f * A for f, A in zip(squares, both)) for both in pairs))  # noqa: B905
        else:
            along = node.windows if isinstance(node, Draw) else node.along
            B = site_matrices(along, program.positions[node.of[0]])
            own = B if isinstance(node, Draw) else node.factor * B.sum(axis=0, keepdims=True)
            own = np.stack([np.kron(np.eye(len(x)), b) for b in own])
            C, T = (np.einsum("tpq,qr,tsr->ps", own, A, own, optimize=True) for A in (C, T))
            if isinstance(node, Draw):
                C, T = C / len(B), T / len(B)
                c = node.own
                C, T = c.C_b + c.C_W * C, c.lambda_b + c.lambda_W * C + c.C_W * T
            found.append((C, T))
    return found


def outputs_by_matrices(program: Program, weights: dict, x, nudge=None):
    """Outputs (sample, channel) of one network: weights (tap, in, out) and biases by node."""
    found = []
    for here, node in enumerate(program.nodes):
        if isinstance(node, Source):
            found.append(jnp.asarray(x).reshape(len(x), -1, x.shape[-1]))
            continue
        below = [found[k] for k in node.of]
        if isinstance(node, Draw):
            B = site_matrices(node.windows, program.positions[node.of[0]])
            W, b = weights[here]
            found.append(jnp.einsum("tpq,sqi,tio->spo", B, below[0], W) + b)
        elif isinstance(node, Spread):
            B = node.factor * site_matrices(node.along, program.positions[node.of[0]]).sum(axis=0)
            found.append(jnp.einsum("pq,sqi->spi", B, below[0]))
        elif isinstance(node, Pointwise):
            found.append(node.sigma.traceable()(below[0]))
        elif isinstance(node, Norm):
            square = jnp.var(below[0], axis=2) if node.centred else (below[0] ** 2).mean(axis=2)
            mean = below[0].mean(axis=2) if node.centred else 0 * square
            found.append((below[0] - mean[:, :, None]) / (square + node.eps)[:, :, None] ** 0.5)
        else:
            found.append(sum(f * v for f, v in zip(node.factors, below, strict=True)))
    return found[-1][:, 0]
