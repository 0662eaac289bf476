"""Networks of graphs (torch_geometric), and of JAX: Flax NNX and Equinox, which bring layers and no models."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import torch
from flax import nnx
from torch import nn
from torch_geometric import nn as graphs
from zoo_entry import Entry, squared

__all__ = ["MODELS"]

_NODES, _FEATURES, _CLASSES, _WORDS, _LENGTH = 12, 8, 3, 64, 8


def _graph() -> tuple[tuple[torch.Tensor, torch.Tensor], torch.Tensor]:
    """A ring, with a chord from each node."""
    numbers = torch.Generator().manual_seed(1)
    one = torch.arange(_NODES)
    edges = torch.cat([torch.stack([one, (one + k) % _NODES]) for k in (1, 5)], 1)
    x = torch.randn(_NODES, _FEATURES, generator=numbers)
    return (x, edges), torch.randn(_NODES, _CLASSES, generator=numbers)


def _of_graphs(name: str, build: Callable[[int], nn.Module]) -> Entry:
    loss = squared(lambda model, given: model(*given))
    return Entry(name, "torch_geometric", build, _graph, loss, inputs=lambda batch: batch[0])


def _made(cls: Any, **settings: Any) -> Callable[[int], nn.Module]:
    return lambda width: cls(_FEATURES, width, num_layers=3, out_channels=_CLASSES, **settings)


def _gps(width: int) -> nn.Module:
    """A graph transformer, whose layers torch_geometric has and whose ends everybody writes."""

    class GPS(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.first = nn.Linear(_FEATURES, width)
            inner = graphs.GINConv(
                nn.Sequential(nn.Linear(width, width), nn.ReLU(), nn.Linear(width, width))
            )
            self.layers = nn.ModuleList([graphs.GPSConv(width, inner, heads=width // 16)])
            self.last = nn.Linear(width, _CLASSES)

        def forward(self, x: torch.Tensor, edges: torch.Tensor) -> torch.Tensor:
            x = self.first(x)
            for layer in self.layers:
                x = layer(x, edges)
            return self.last(x)

    return GPS()


def _numbers(*shape: int) -> Any:
    return jax.random.normal(jax.random.key(1), shape)


def _points() -> tuple[Any, Any]:
    return _numbers(4, _FEATURES), _numbers(4, _CLASSES)


def _pictures() -> tuple[Any, Any]:
    return _numbers(4, 8, 8, 3), _numbers(4, _CLASSES)


def _tokens() -> tuple[Any, Any]:
    return jnp.arange(2 * _LENGTH).reshape(2, _LENGTH), _numbers(2, _LENGTH, _CLASSES)


class _NnxMlp(nnx.Module):
    def __init__(self, width: int, seed: int = 0) -> None:
        rngs = nnx.Rngs(seed)
        self.first = nnx.Linear(_FEATURES, width, rngs=rngs)
        self.norm = nnx.LayerNorm(width, rngs=rngs)
        self.hidden = nnx.Linear(width, width, rngs=rngs)
        self.last = nnx.Linear(width, _CLASSES, rngs=rngs)

    def __call__(self, x: Any) -> Any:
        return self.last(nnx.relu(self.hidden(nnx.relu(self.norm(self.first(x))))))


class _NnxCnn(nnx.Module):
    def __init__(self, width: int, seed: int = 0) -> None:
        rngs = nnx.Rngs(seed)
        self.first = nnx.Conv(3, width, (3, 3), rngs=rngs)
        self.norm = nnx.GroupNorm(width, num_groups=8, rngs=rngs)
        self.hidden = nnx.Conv(width, 2 * width, (3, 3), rngs=rngs)
        self.last = nnx.Linear(2 * width, _CLASSES, rngs=rngs)

    def __call__(self, x: Any) -> Any:
        x = nnx.relu(self.hidden(nnx.relu(self.norm(self.first(x)))))
        return self.last(x.mean((1, 2)))


class _NnxTransformer(nnx.Module):
    def __init__(self, width: int, seed: int = 0) -> None:
        rngs = nnx.Rngs(seed)
        self.words = nnx.Embed(_WORDS, width, rngs=rngs)
        self.norm = nnx.LayerNorm(width, rngs=rngs)
        self.attention = nnx.MultiHeadAttention(width // 16, width, decode=False, rngs=rngs)
        self.up = nnx.Linear(width, 4 * width, rngs=rngs)
        self.down = nnx.Linear(4 * width, width, rngs=rngs)
        self.last = nnx.Linear(width, _CLASSES, rngs=rngs)

    def __call__(self, tokens: Any) -> Any:
        x = self.words(tokens)
        x = x + self.attention(self.norm(x))
        return self.last(x + self.down(nnx.gelu(self.up(x))))


def _equinox_mlp(width: int, seed: int = 0) -> eqx.Module:
    return eqx.nn.MLP(_FEATURES, _CLASSES, width, 2, key=jax.random.key(seed))


class _EquinoxTransformer(eqx.Module):
    words: eqx.nn.Embedding
    attention: eqx.nn.MultiheadAttention
    norm: eqx.nn.LayerNorm
    mlp: eqx.nn.MLP
    last: eqx.nn.Linear

    def __init__(self, width: int, seed: int = 0) -> None:
        keys = jax.random.split(jax.random.key(seed), 4)
        self.words = eqx.nn.Embedding(_WORDS, width, key=keys[0])
        self.attention = eqx.nn.MultiheadAttention(width // 16, width, key=keys[1])
        self.norm = eqx.nn.LayerNorm(width)
        self.mlp = eqx.nn.MLP(width, width, 4 * width, 1, key=keys[2])
        self.last = eqx.nn.Linear(width, _CLASSES, key=keys[3])

    def __call__(self, tokens: Any) -> Any:
        x = jax.vmap(self.words)(tokens)
        y = jax.vmap(self.norm)(x)
        x = x + self.attention(y, y, y)
        return jax.vmap(self.last)(x + jax.vmap(self.mlp)(x))


class _EquinoxCnn(eqx.Module):
    first: eqx.nn.Conv2d
    hidden: eqx.nn.Conv2d
    last: eqx.nn.Linear

    def __init__(self, width: int, seed: int = 0) -> None:
        keys = jax.random.split(jax.random.key(seed), 3)
        self.first = eqx.nn.Conv2d(3, width, 3, key=keys[0])
        self.hidden = eqx.nn.Conv2d(width, width, 3, key=keys[1])
        self.last = eqx.nn.Linear(width, _CLASSES, key=keys[2])

    def __call__(self, x: Any) -> Any:
        x = jax.nn.relu(self.hidden(jax.nn.relu(self.first(x.transpose(2, 0, 1)))))
        return self.last(x.mean((1, 2)))


_whole = squared(lambda model, x: model(x))
_each = squared(lambda model, x: jax.vmap(model)(x))

MODELS = (
    _of_graphs("GCN", _made(graphs.GCN)),
    _of_graphs("GraphSAGE", _made(graphs.GraphSAGE)),
    _of_graphs("GIN", _made(graphs.GIN)),
    _of_graphs("GAT", _made(graphs.GAT, heads=4)),
    _of_graphs("PNA", _made(
        graphs.PNA, aggregators=["mean", "max"], scalers=["identity"], deg=torch.tensor([0, 0, _NODES])
    )),
    _of_graphs("GPS", _gps),
    Entry("MLP", "Flax NNX", _NnxMlp, _points, _whole, jax=True, inputs=lambda b: b[0]),
    Entry("convolutional network", "Flax NNX", _NnxCnn, _pictures, _whole, jax=True, inputs=lambda b: b[0]),
    Entry("transformer", "Flax NNX", _NnxTransformer, _tokens, _whole, jax=True, inputs=lambda b: b[0]),
    Entry("MLP", "Equinox", _equinox_mlp, _points, _each, jax=True, inputs=lambda b: b[0][0]),
    Entry("convolutional network", "Equinox", _EquinoxCnn, _pictures, _each, jax=True, inputs=lambda b: b[0][0]),
    Entry("transformer", "Equinox", _EquinoxTransformer, _tokens, _each, jax=True, inputs=lambda b: b[0][0]),
)  # fmt: skip
