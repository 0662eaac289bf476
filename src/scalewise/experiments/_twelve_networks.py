"""Twelve networks of every kind whose order 1/n is known, with inputs: small, so that ensembles are cheap."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from scalewise.activations import activation
from scalewise.networks import MLP, Network
from scalewise.networks.layers import (
    Aggregate,
    Attention,
    Conv,
    Dense,
    Flatten,
    GlobalAvgPool,
    LayerNorm,
    MaxPool,
    Recurrent,
    RMSNorm,
    Shared,
    Skip,
    program,
)

__all__ = ["NETWORKS", "inputs_of"]

RATES: dict[str, Any] = {"C_b": 0.1, "C_W": 1.5, "lambda_b": 0.5, "lambda_W": 1.0}
# Branches add to what they leave, so their weights are smaller.
STREAM: dict[str, Any] = {"C_b": 0.05, "C_W": 0.8, "lambda_b": 0.5, "lambda_W": 1.0}
RING = Conv(3, padding="circular")
# Two triangles that share a node: each node beside itself, normalised on both sides.
LINKS = np.eye(5) + np.array(
    [[0, 1, 1, 0, 0], [1, 0, 1, 0, 0], [1, 1, 0, 1, 1], [0, 0, 1, 0, 1], [0, 0, 1, 1, 0]]
)
GRAPH = Aggregate(LINKS / np.sqrt(np.outer(LINKS.sum(axis=0), LINKS.sum(axis=0))))
ENDS = (GlobalAvgPool(), Dense(1))


@program
def gate(build: Any, x: Any) -> Any:
    """Numbers of one random layer, normed, times tanh of those of another."""
    values = build.run((Dense(), RMSNorm(0.1)), x)
    return build.multiply((values, build.apply(build.run((Dense(),), x), activation("tanh"))))


def _of(*layers: Any, shape: Any, **rates: Any) -> Network:
    return Network(*layers, input_shape=shape, width=32, **(rates or RATES))


def _mlp() -> Network:
    return MLP(3, 32, "tanh", input_dim=3, output_dim=1, **RATES)


# By name: the kind, and what makes it; of inputs of positions, then channels.
NETWORKS: dict[str, tuple[str, Callable[[], Network | Network]]] = {
    "MLP": ("plain", _mlp),
    "circular convolution": (
        "convolutional",
        lambda: _of(RING, "tanh", RING, "tanh", *ENDS, shape=(6, 2)),
    ),
    "zero-padded convolution": (
        "convolutional",
        lambda: _of(Conv(3), "gelu", Conv(3), "gelu", Flatten(), Dense(1), shape=(5, 2)),
    ),
    "graph": (
        "graph",
        lambda: _of(GRAPH, Dense(), "tanh", GRAPH, Dense(), "tanh", *ENDS, shape=(5, 2)),
    ),
    "residual": (
        "residual",
        lambda: _of(Dense(), *(Skip("tanh", Dense()),) * 2, "tanh", Dense(1), shape=3, **STREAM),
    ),
    "residual convolution": (
        "residual",
        lambda: _of(RING, *(Skip("tanh", RING),) * 2, "tanh", *ENDS, shape=(4, 2), **STREAM),
    ),
    "LayerNorm": (
        "norms",
        lambda: _of(*(Dense(), LayerNorm(0.1), "gelu") * 2, Dense(1), shape=3),
    ),
    "RMSNorm gate": ("norms", lambda: _of(Dense(), "tanh", gate, Dense(1), shape=3)),
    "attention": (
        "attention",
        lambda: _of(Dense(), Skip(Attention(size=4)), *ENDS, shape=(4, 2), **STREAM),
    ),
    "recurrent": (
        "shared weights",
        lambda: _of(Recurrent("tanh", last=True), Dense(1), shape=(3, 2)),
    ),
    "tied depth": (
        "shared weights",
        lambda: _of(Dense(), "tanh", Shared(Dense(), "tanh", times=2), Dense(1), shape=3),
    ),
    "max pooling": (
        "maxima",
        lambda: _of(RING, "tanh", MaxPool(2), *ENDS, shape=(4, 2)),
    ),
}


def inputs_of(net: Network | Network) -> np.ndarray:
    """Two samples of normal numbers, the same for all networks of one shape."""
    shape = net.input_shape
    return np.random.default_rng(5).normal(size=(2, *np.atleast_1d(shape)))
