"""Models of jax for the tests of `scalewise.jax`: trees of arrays, Equinox, Flax NNX and Linen."""

from contextlib import contextmanager
from itertools import pairwise

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from flax import nnx


def mlp_roles(depth):
    """What must be said of `mlp`: its first layer, the matrices between, the readout."""
    hidden = {f"layers.{i}.W": "hidden" for i in range(1, depth)}
    return {"layers.0.W": "input", **hidden, "layers.*.b": "vector", "head.W": "output"}


def mlp(width, depth=3, *, inputs=5, outputs=2, seed=0, dtype=np.float32):
    """A tree of `depth` hidden layers with a readout; biases are drawn too."""
    draw = np.random.default_rng(seed).standard_normal
    sizes = [inputs, *[width] * depth, outputs]

    def layer(n, m):
        W, b = draw((n, m)) / n**0.5, 0.3 * draw(m)
        return jax.device_put({"W": W.astype(dtype), "b": b.astype(dtype)})

    layers = [layer(n, m) for n, m in pairwise(sizes)]
    return {"layers": layers[:-1], "head": layers[-1]}


def in_torch(params):
    """The network of `mlp` with tanh in PyTorch, with the same numbers."""
    import torch  # here, as most tests of jax do without

    layers = []
    for layer in [*params["layers"], params["head"]]:
        linear = torch.nn.Linear(*layer["W"].shape)
        with torch.no_grad():
            linear.weight.copy_(torch.tensor(np.asarray(layer["W"]).T))
            linear.bias.copy_(torch.tensor(np.asarray(layer["b"])))
        layers += [linear, torch.nn.Tanh()]
    return torch.nn.Sequential(*layers[:-1])


def preactivations(params, x):
    """Those of every layer, the outputs last."""
    out, h = [], x
    for layer in [*params["layers"], params["head"]]:
        out.append(h @ layer["W"] + layer["b"])
        h = jnp.tanh(out[-1])
    return out


def drawn(key, shape, dtype=float, *_, **__):
    """An initialiser for tests: normal entries by the root of all axes but the last, nothing to compile."""
    del key
    entries = np.random.default_rng(int(np.prod(shape))).standard_normal(shape)
    return jax.device_put((entries / max(np.prod(shape[:-1]), 1) ** 0.5).astype(dtype))


def by_numpy(seed):
    """An initialiser of entries over the root of the fan-in, with nothing to compile."""
    rng = np.random.default_rng(seed)
    return lambda _, shape, dtype=np.float32, *a, **k: jax.device_put(
        (rng.standard_normal(shape) / shape[0] ** 0.5).astype(dtype)
    )


@contextmanager
def quick_draws():
    """Equinox draws its layers from NumPy: one compilation for every shape takes most of a test's time."""
    before = jax.random.uniform, jax.random.normal
    jax.random.uniform = jax.random.normal = drawn
    try:
        yield
    finally:
        jax.random.uniform, jax.random.normal = before


def vision(width, depth=2):
    """A `Vision`, quickly."""
    with quick_draws():
        return Vision(width, depth)


def recurrent(width, depth=2, **settings):
    """A `Recurrent`, quickly."""
    with quick_draws():
        return Recurrent(width, depth, **settings)


def perceptron(width, seed=0):
    """An `eqx.nn.MLP` of two hidden layers, as the library draws it."""
    return eqx.nn.MLP(5, 2, width, 2, key=jax.random.key(seed))


class Block(nnx.Module):
    """Attention and a perceptron of a transformer."""

    def __init__(self, width, head_dim, rngs):
        heads = width // head_dim
        self.norm = nnx.LayerNorm(width, rngs=rngs)
        own = {"rngs": rngs, "kernel_init": drawn}
        self.attn = nnx.MultiHeadAttention(heads, width, decode=False, **own)
        self.up = nnx.Linear(width, 4 * width, use_bias=False, **own)
        self.down = nnx.Linear(4 * width, width, **own)

    def __call__(self, x):
        h = self.norm(x)
        return x + self.down(nnx.relu(self.up(h + self.attn(h))))


class Transformer(nnx.Module):
    """A small one for ten words."""

    def __init__(self, width, depth=2, *, head_dim=4, tied=False):
        rngs = nnx.Rngs(0)
        self.embed = nnx.Embed(10, width, rngs=rngs, embedding_init=drawn)
        self.blocks = nnx.List([Block(width, head_dim, rngs) for _ in range(depth)])
        self.norm = nnx.RMSNorm(width, rngs=rngs)
        self.dropout = nnx.Dropout(0.0, rngs=rngs)
        if not tied:
            self.head = nnx.Linear(width, 10, use_bias=False, rngs=rngs, kernel_init=drawn)

    def __call__(self, words):
        x = self.embed(words)
        for block in self.blocks:
            x = block(x)
        x = self.norm(x)
        return self.head(x) if hasattr(self, "head") else self.embed.attend(x)


class Vision(eqx.Module):
    """Convolutions, a norm with running statistics, attention and a perceptron with activations as leaves."""

    stem: eqx.nn.Conv2d
    depthwise: eqx.nn.Conv2d
    up: eqx.nn.ConvTranspose2d
    batch: eqx.nn.BatchNorm
    group: eqx.nn.GroupNorm
    attention: eqx.nn.MultiheadAttention
    mlp: eqx.nn.MLP
    scale: float
    activation: object

    def __init__(self, width, depth=2, *, head_dim=4, seed=0):
        k = jax.random.split(jax.random.key(seed), 5)
        self.stem = eqx.nn.Conv2d(3, width, 3, key=k[0])
        self.depthwise = eqx.nn.Conv2d(width, width, 3, groups=width, key=k[1])
        self.up = eqx.nn.ConvTranspose2d(width, 2 * width, 3, key=k[2])
        self.batch = eqx.nn.BatchNorm(width, "batch", mode="batch")
        self.group = eqx.nn.GroupNorm(2, width)
        self.attention = eqx.nn.MultiheadAttention(width // head_dim, width, key=k[3])
        self.mlp = eqx.nn.MLP(width, 3, 2 * width, depth, key=k[4])
        self.scale = 0.5
        self.activation = jax.nn.gelu


class Recurrent(eqx.Module):
    """An embedding tied to its readout by `Shared`, a cell of each kind, copies of a layer by vmap."""

    shared: eqx.nn.Shared
    gru: eqx.nn.GRUCell
    lstm: eqx.nn.LSTMCell
    norm: eqx.nn.LayerNorm
    stack: eqx.nn.Linear

    def __init__(self, width, depth=2, *, words_first=True):
        k = jax.random.split(jax.random.key(0), 5)
        embedding = eqx.nn.Embedding(7, width, key=k[0])
        readout = eqx.nn.Linear(width, 7, key=k[1])
        pair = (embedding, readout) if words_first else (readout, embedding)
        i = 0 if words_first else 1
        self.shared = eqx.nn.Shared(pair, lambda p: p[1 - i].weight, lambda p: p[i].weight)
        self.gru = eqx.nn.GRUCell(3, width, key=k[2])
        self.lstm = eqx.nn.LSTMCell(width, width, key=k[3])
        self.norm = eqx.nn.LayerNorm(width)
        # As `filter_vmap` over the construction makes it.
        layers = [eqx.nn.Linear(width, width, key=key) for key in jax.random.split(k[4], depth)]
        self.stack = jax.tree.map(lambda *leaves: jnp.stack(leaves), *layers)
