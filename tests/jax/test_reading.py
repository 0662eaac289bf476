"""Golden, properties and refusals: networks that are read off models of jax, against siblings in PyTorch and by hand."""

import equinox as eqx
import flax.linen as linen
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from flax import nnx

import scalewise as sw
import scalewise.jax._network as walk
from scalewise.jax._drawn import drawn
from scalewise.plan import PlanError

RNG = np.random.default_rng(4)
N = 8
normal = nnx.initializers.variance_scaling(1.0, "fan_in", "normal")


def rows(*shape: int) -> np.ndarray:
    return RNG.normal(size=shape).astype(np.float32)


def numbers(net: sw.Network, x: np.ndarray) -> dict[str, np.ndarray]:
    """K and Theta of the outputs."""
    found = sw.predict(net, np.asarray(x, dtype=float), observables=("kernel", "ntk"))
    return {name: found[name].values[-1] for name in ("kernel", "ntk")}


def assert_same(one: sw.Network, two: sw.Network, x: np.ndarray, y: np.ndarray | None = None) -> None:
    a, b = numbers(one, x), numbers(two, x if y is None else y)
    for name, value in a.items():
        np.testing.assert_allclose(value, b[name], rtol=2e-5, atol=1e-9, err_msg=name)


def tree(width: int, seed: int = 0) -> dict:
    a, b, c = jax.random.split(jax.random.key(seed), 3)
    return {
        "W": jax.random.normal(a, (5, width)) * 1.1 / 5**0.5,
        "b": 0.3 * jax.random.normal(b, (width,)),
        "layers": [jax.random.normal(c, (width, width)) / width**0.5],
        "head": jax.random.normal(a, (width, 2)) / width**0.5,
    }


def by_tree(params: dict, x: jax.Array) -> jax.Array:
    h = jnp.tanh(x @ params["W"] + params["b"])
    for W in params["layers"]:
        h = jax.nn.gelu(h @ W)
    return h @ params["head"]


def test_a_tree_with_a_call_is_the_network_written_by_hand() -> None:
    x = rows(3, 5)
    found = sw.jax.network(tree, x, width=N, apply=by_tree)
    by_hand = sw.Network(
        sw.Dense(C_W=1.21, C_b=0.09, lambda_W=5.0), "tanh", sw.Dense(lambda_b=0.0, lambda_W=N), "gelu_tanh",
        sw.Dense(2, lambda_b=0.0, lambda_W=N), input_shape=(5,), width=N,
    )  # fmt: skip
    assert_same(found, by_hand, x)
    assert found.C_b == pytest.approx((0.09, 0.0, 0.0), rel=1e-6)


class Images(nnx.Module):
    """A convolutional network with a residual branch before its activation, and both kinds of pools."""

    def __init__(self, n: int, rngs: nnx.Rngs) -> None:
        own = {"kernel_init": normal, "use_bias": False, "rngs": rngs}
        self.first = nnx.Conv(2, n, (3, 3), **own)
        self.second = nnx.Conv(n, n, (3, 3), **own)
        self.third = nnx.Conv(n, 2 * n, (3, 3), strides=2, padding=1, **own)
        self.head = nnx.Linear(2 * n, 3, kernel_init=normal, rngs=rngs)

    def __call__(self, x: jax.Array) -> jax.Array:
        x = nnx.max_pool(self.first(x), (2, 2), (2, 2))
        x = x + self.second(jax.nn.relu(x)) / 2
        x = nnx.avg_pool(x, (2, 2), (2, 2))
        return self.head(jax.nn.relu(self.third(x)).mean((1, 2)))


class Sequences(nnx.Module):
    """A causal transformer of one block, with learned positions."""

    def __init__(self, n: int, rngs: nnx.Rngs) -> None:
        own = {"kernel_init": normal, "rngs": rngs}
        self.tokens = nnx.Embed(7, n, embedding_init=nnx.initializers.normal(1.0), rngs=rngs)
        self.places = nnx.Embed(4, n, embedding_init=nnx.initializers.normal(0.5), rngs=rngs)
        self.norm = nnx.LayerNorm(n, epsilon=1e-5, rngs=rngs)
        self.attention = nnx.MultiHeadAttention(n // 4, n, decode=False, **own)
        self.behind = nnx.LayerNorm(n, epsilon=1e-5, rngs=rngs)
        self.up, self.down = nnx.Linear(n, 2 * n, **own), nnx.Linear(2 * n, n, **own)
        self.head = nnx.Linear(n, 7, use_bias=False, **own)

    def __call__(self, tokens: jax.Array) -> jax.Array:
        x = self.tokens(tokens) + self.places(jnp.arange(tokens.shape[1]))
        x = x + self.attention(self.norm(x), mask=nnx.make_causal_mask(tokens))
        x = x + self.down(jax.nn.gelu(self.up(self.behind(x))))
        return self.head(x)


class Gated(eqx.Module):
    """A gated branch behind RMSNorm, one sample at a time."""

    first: jax.Array
    norm: eqx.nn.RMSNorm
    gate: jax.Array
    up: jax.Array
    down: jax.Array
    head: jax.Array

    def __init__(self, n: int, key: jax.Array) -> None:
        keys = jax.random.split(key, 5)

        def matrix(k: int, a: int, b: int) -> jax.Array:
            return jax.random.normal(keys[k], (a, b)) / b**0.5

        self.norm = eqx.nn.RMSNorm(n, eps=1e-5, use_bias=False)
        self.first, self.gate, self.up = matrix(0, n, 5), matrix(1, 2 * n, n), matrix(2, 2 * n, n)
        self.down, self.head = matrix(3, n, 2 * n), matrix(4, 2, n)

    def __call__(self, x: jax.Array) -> jax.Array:
        x = self.first @ x
        y = self.norm(x)
        x = x + self.down @ (jax.nn.silu(self.gate @ y) * (self.up @ y))
        return self.head @ x


def recurrent(width: int) -> dict:
    a, b, c = jax.random.split(jax.random.key(0), 3)
    return {
        "W": jax.random.normal(a, (3, 4 * width)) / 3**0.5,
        "U": jax.random.normal(b, (width, 4 * width)) / width**0.5,
        "head": jax.random.normal(c, (width, 2)) / width**0.5,
    }


def by_scan(params: dict, x: jax.Array) -> jax.Array:
    """An LSTM, whose steps are those of a scan."""

    def step(carry: tuple, row: jax.Array) -> tuple:
        h, c = carry
        i, f, g, o = jnp.split(row @ params["W"] + h @ params["U"], 4, axis=-1)
        c = jax.nn.sigmoid(f) * c + jax.nn.sigmoid(i) * jnp.tanh(g)
        return (jax.nn.sigmoid(o) * jnp.tanh(c), c), None

    zero = jnp.zeros((len(x), len(params["U"])), x.dtype)
    (h, _), _ = jax.lax.scan(step, (zero, zero), x.swapaxes(0, 1))
    return h @ params["head"]


def in_torch(name: str):
    """The sibling of a model here, drawn alike."""
    torch = pytest.importorskip("torch")
    from torch import nn

    def drawn_alike(model):
        for p in model.parameters():
            with torch.no_grad():
                if p.ndim > 1:
                    p.normal_(0.0, p[0].numel() ** -0.5)
                elif name in ("Images", "Sequences") and p.any():
                    p.fill_(1.0) if bool((p == 1).all()) else p.zero_()
        return model

    class Residual(nn.Module):
        def __init__(self, inside, factor=1.0):
            super().__init__()
            self.inside, self.factor = inside, factor

        def forward(self, x):
            return x + self.factor * self.inside(x)

    class Heads(nn.Module):
        def __init__(self, n):
            super().__init__()
            self.inside = nn.MultiheadAttention(n, n // 4, batch_first=True)

        def forward(self, x):
            mask = nn.Transformer.generate_square_subsequent_mask(x.shape[1], dtype=x.dtype)
            return self.inside(x, x, x, attn_mask=mask, need_weights=False)[0]

    class Tokens(nn.Module):
        def __init__(self, n):
            super().__init__()
            self.tokens, self.places = nn.Embedding(7, n), nn.Embedding(4, n)
            attend = nn.Sequential(nn.LayerNorm(n), Heads(n))
            both = nn.Sequential(nn.LayerNorm(n), nn.Linear(n, 2 * n), nn.GELU("tanh"), nn.Linear(2 * n, n))
            self.rest = drawn_alike(nn.Sequential(Residual(attend), Residual(both), nn.Linear(n, 7, bias=False)))
            nn.init.normal_(self.places.weight, std=0.5)

        def forward(self, t):
            return self.rest(self.tokens(t) + self.places(torch.arange(t.shape[1])))

    class Gate(nn.Module):
        def __init__(self, n):
            super().__init__()
            self.norm = nn.RMSNorm(n, eps=1e-5)
            self.gate, self.up, self.down = (
                nn.Linear(a, b, bias=False) for a, b in ((n, 2 * n), (n, 2 * n), (2 * n, n))
            )

        def forward(self, x):
            y = self.norm(x)
            return self.down(nn.functional.silu(self.gate(y)) * self.up(y))

    class Last(nn.Module):
        def __init__(self, n):
            super().__init__()
            self.inside = nn.LSTM(3, n, batch_first=True, bias=False)

        def forward(self, x):
            return self.inside(x)[0][:, -1]

    def conv(a, b, **rest):
        return nn.Conv2d(a, b, 3, padding=1, bias=False, **rest)

    builders = {
        "Images": lambda n: drawn_alike(
            nn.Sequential(
                conv(2, n), nn.MaxPool2d(2), Residual(nn.Sequential(nn.ReLU(), conv(n, n)), 0.5), nn.AvgPool2d(2),
                conv(n, 2 * n, stride=2), nn.ReLU(), nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(2 * n, 3),
            )
        ),
        "Sequences": Tokens,
        "Gated": lambda n: drawn_alike(
            nn.Sequential(nn.Linear(5, n, bias=False), Residual(Gate(n)), nn.Linear(n, 2, bias=False))
        ),
        "recurrent": lambda n: drawn_alike(nn.Sequential(Last(n), nn.Linear(n, 2, bias=False))),
    }  # fmt: skip
    return builders[name], torch


def each(model, x: jax.Array) -> jax.Array:
    return jax.vmap(model)(x)


SIBLINGS = {
    "Images": (lambda width: Images(width, nnx.Rngs(0)), (2, 8, 8, 2), {}),
    "Sequences": (lambda width: Sequences(width, nnx.Rngs(0)), (2, 4), {"at": -1}),
    "Gated": (lambda width: Gated(width, jax.random.key(0)), (3, 5), {"apply": each}),
    "recurrent": (recurrent, (2, 3, 3), {"apply": by_scan}),
}


@pytest.mark.parametrize("name", SIBLINGS)
def test_models_are_the_networks_of_their_siblings_in_torch(name: str) -> None:
    build, shape, rest = SIBLINGS[name]
    sibling, torch = in_torch(name)
    x = RNG.integers(0, 7, shape) if name == "Sequences" else rows(*shape)
    y = np.moveaxis(x, -1, 1) if name == "Images" else x
    found = sw.jax.network(build, x, width=N, **rest)
    at = {"at": rest["at"]} if "at" in rest else {}
    wanted = sw.torch.network(sibling, torch.tensor(np.ascontiguousarray(y)), width=N, **at)
    assert_same(found, wanted, x, y)
