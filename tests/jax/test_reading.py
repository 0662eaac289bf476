"""Golden, properties and refusals: networks read off models of jax, against siblings in PyTorch and by hand."""

from functools import cache

import equinox as eqx
import flax.linen as linen
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from flax import nnx

import scalewise as sw
import scalewise.jax._equations as equations
import scalewise.jax._network as walk
from grids import few
from scalewise.jax._drawn import drawn
from scalewise.plan import PlanError
from scalewise.reading._steps import BuildStep, Traced

RNG = np.random.default_rng(4)
N = 8
normal = nnx.initializers.variance_scaling(1.0, "fan_in", "normal")


def rows(*shape: int) -> np.ndarray:
    return RNG.normal(size=shape).astype(np.float32)


def numbers(net: sw.Network, x: np.ndarray) -> dict[str, np.ndarray]:
    """K and Theta of the outputs."""
    found = sw.predict(net, np.asarray(x, dtype=float), observables=("kernel", "ntk"))
    return {name: found[name].values[-1] for name in ("kernel", "ntk")}


def steps_of(net: sw.Network) -> tuple[BuildStep, ...]:
    (layer,) = net.layers
    assert isinstance(layer, Traced)
    return layer.steps


def assert_same(
    one: sw.Network, two: sw.Network, x: np.ndarray, y: np.ndarray, rtol: float
) -> None:
    a, b = numbers(one, x), numbers(two, y)
    for name, value in a.items():
        np.testing.assert_allclose(value, b[name], rtol=rtol, atol=rtol * value.max(), err_msg=name)


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
    assert_same(found, by_hand, x, x, 1e-6)
    assert found.C_b == pytest.approx((0.09, 0.0, 0.0), rel=1e-6)


class Images(nnx.Module):
    """A convolutional network of pools, with a residual branch before its activation."""

    def __init__(self, n: int, rngs: nnx.Rngs) -> None:
        own = {"kernel_init": normal, "use_bias": False, "rngs": rngs}
        self.first = nnx.Conv(2, n, (3, 3), **own)
        self.second = nnx.Conv(n, n, (3, 3), **own)
        self.third = nnx.Conv(n, 2 * n, (3, 3), strides=2, padding=1, **own)
        self.head = nnx.Linear(2 * n, 3, kernel_init=normal, rngs=rngs)

    def __call__(self, x: jax.Array) -> jax.Array:
        x = nnx.avg_pool(self.first(x), (2, 2), (2, 2))
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
        i, f, g, o = jnp.split(row + h @ params["U"], 4, axis=-1)
        c = jax.nn.sigmoid(f) * c + jax.nn.sigmoid(i) * jnp.tanh(g)
        return (jax.nn.sigmoid(o) * jnp.tanh(c), c), None

    zero = jnp.zeros((len(x), len(params["U"])), x.dtype)
    (h, _), _ = jax.lax.scan(step, (zero, zero), x.swapaxes(0, 1) @ params["W"])
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
            both = nn.Sequential(
                nn.LayerNorm(n), nn.Linear(n, 2 * n), nn.GELU("tanh"), nn.Linear(2 * n, n)
            )
            self.rest = drawn_alike(
                nn.Sequential(Residual(attend), Residual(both), nn.Linear(n, 7, bias=False))
            )
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
                conv(2, n), nn.AvgPool2d(2), Residual(nn.Sequential(nn.ReLU(), conv(n, n)), 0.5), nn.AvgPool2d(2),
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
    "Images": (lambda width: Images(width, nnx.Rngs(0)), (2, 4, 4, 2), {}),
    "Sequences": (lambda width: Sequences(width, nnx.Rngs(0)), (2, 4), {"at": -1}),
    "Gated": (lambda width: Gated(width, jax.random.key(0)), (3, 5), {"apply": each}),
    "recurrent": (recurrent, (2, 3, 3), {"apply": by_scan}),
}


@pytest.mark.parametrize("name", few(list(SIBLINGS), every=2))
def test_models_are_the_networks_of_their_siblings_in_torch(name: str) -> None:
    build, shape, rest = SIBLINGS[name]
    sibling, torch = in_torch(name)
    x = RNG.integers(0, 7, shape) if name == "Sequences" else rows(*shape)
    y = np.moveaxis(x, -1, 1) if name == "Images" else x
    found = sw.jax.network(build, x, width=N, **rest)
    at = {"at": rest["at"]} if "at" in rest else {}
    wanted = sw.torch.network(sibling, torch.tensor(np.ascontiguousarray(y)), width=N, **at)
    # expectations of gates of many fields are sums over points, which differ with the order of the fields
    assert_same(found, wanted, x, y, 4e-3 if name == "recurrent" else 1e-5)


class Small(eqx.Module):
    """A causal transformer of Equinox on one sequence, drawn as Equinox draws."""

    tokens: eqx.nn.Embedding
    norm: eqx.nn.LayerNorm
    attention: eqx.nn.MultiheadAttention
    head: eqx.nn.Linear
    drop: eqx.nn.Dropout

    def __init__(self, n: int, key: jax.Array) -> None:
        a, b, c = jax.random.split(key, 3)
        self.tokens, self.norm = eqx.nn.Embedding(7, n, key=a), eqx.nn.LayerNorm(n)
        self.attention = eqx.nn.MultiheadAttention(n // 4, n, key=b)
        self.head, self.drop = eqx.nn.Linear(n, 7, key=c), eqx.nn.Dropout(0.5, inference=True)

    def __call__(self, tokens: jax.Array) -> jax.Array:
        x = jax.vmap(self.tokens)(tokens)
        y = jax.vmap(self.norm)(x)
        seen = jnp.tril(jnp.ones((len(x), len(x)), bool))
        return jax.vmap(self.head)(
            self.drop(x + self.attention(y, y, y, mask=seen), key=jax.random.key(1))
        )


def small(width: int) -> Small:
    return Small(width, jax.random.key(0))


def test_equinox_reads_whole_with_the_laws_of_its_layers() -> None:
    net = sw.jax.network(small, RNG.integers(0, 7, (2, 4)), width=N, apply=each, at=-1)
    verbs = [step.verb for step in steps_of(net)]
    assert verbs.count("attend") == verbs.count("norm") == 1
    assert net.C_W == pytest.approx((1.0, *[1 / 3] * 5), rel=1e-5)
    assert [d.law.name for d in (s.given[0].own for s in steps_of(net) if s.verb == "draw")][
        1:
    ] == ["uniform"] * 5
    (layer,) = net.layers
    assert isinstance(layer, Traced)
    (note,) = layer.notes
    assert note.startswith("`norm.weight`, `norm.bias` begin as one number")


class Pools(eqx.Module):
    """Pools of Equinox, on one image of channels in front."""

    conv: eqx.nn.Conv2d
    head: eqx.nn.Linear

    def __init__(self, n: int, key: jax.Array) -> None:
        self.conv = eqx.nn.Conv2d(2, n, 3, padding=1, key=key)
        self.head = eqx.nn.Linear(n, 2, key=key)

    def __call__(self, x: jax.Array) -> jax.Array:
        x = eqx.nn.AvgPool2d(2, 2)(eqx.nn.MaxPool2d(2, 2)(jax.nn.relu(self.conv(x))))
        return self.head(x.ravel())


@pytest.mark.parametrize(("shape", "rest"), [((2, 4, 4), {}), ((2, 2, 4, 4), {"apply": each})])
def test_one_sample_and_several_are_read_alike(shape: tuple[int, ...], rest: dict) -> None:
    net = sw.jax.network(
        lambda width: Pools(width, jax.random.key(0)), rows(*shape), width=N, **rest
    )
    verbs = [step.verb for step in steps_of(net)]
    assert verbs == ["read", "draw", "apply", "largest", "spread", "add", "draw"]


class Dense(linen.Module):
    """A network of Linen whose gains count."""

    n: int

    @linen.compact
    def __call__(self, x: jax.Array) -> jax.Array:
        x = linen.Dense(self.n, use_bias=False)(x)
        return linen.Dense(1, use_bias=False)(linen.relu(linen.LayerNorm(epsilon=1e-5)(x)))


@pytest.mark.parametrize("gains", [False, True])
def test_gains_of_linen_are_those_of_torch(gains: bool) -> None:
    torch = pytest.importorskip("torch")
    x = rows(3, 5)
    found = sw.jax.network(
        lambda width: Dense(width).init(jax.random.key(0), jnp.ones((1, 5))), x, width=N, gains=gains,
        layout="linen", apply=lambda variables, x, width: Dense(width).apply(variables, x),
    )  # fmt: skip

    def build(width: int):
        layers = (
            torch.nn.Linear(5, width, bias=False),
            torch.nn.LayerNorm(width),
            torch.nn.Linear(width, 1, bias=False),
        )
        for layer in layers[::2]:
            torch.nn.init.normal_(layer.weight, std=layer.in_features**-0.5)
        return torch.nn.Sequential(layers[0], layers[1], torch.nn.ReLU(), layers[2])

    wanted = sw.torch.network(build, torch.tensor(x), width=N, gains=gains)
    if gains:
        one, two = ([step.verb for step in steps_of(net)] for net in (found, wanted))
        assert sorted(one) == sorted(two)
        assert one.count("draw") == 4
    else:
        assert_same(found, wanted, x, x, 1e-5)
    assert steps_of(found)[1].place == "Dense_0"


def attending(width: int) -> dict:
    keys = jax.random.split(jax.random.key(0), 5)
    shapes = {
        "in": (3, width),
        "q": (width, width),
        "k": (width, width),
        "v": (width, width),
        "head": (width, 1),
    }
    pairs = zip(shapes.items(), keys, strict=True)
    return {name: jax.random.normal(key, s) / s[0] ** 0.5 for (name, s), key in pairs}


def by_attention(share):
    def call(params: dict, x: jax.Array) -> jax.Array:
        x = x @ params["in"]
        q, k, v = (x @ params[name] for name in "qkv")
        heads = [a.reshape(*a.shape[:2], -1, 4).swapaxes(1, 2) for a in (q, k, v)]
        logits = heads[0] @ heads[1].swapaxes(-1, -2) / 2
        found = share(logits) @ heads[2]
        return found.swapaxes(1, 2).reshape(x.shape)[:, 0] @ params["head"]

    return call


def by_mean(logits: jax.Array) -> jax.Array:
    powers = jnp.exp(logits - logits.mean(-1, keepdims=True))
    return powers / powers.sum(-1, keepdims=True)


def kernels(width: int) -> dict:
    keys = jax.random.split(jax.random.key(0), 3)
    shapes = {"in": (3, width), "taps": (3, width, width), "head": (width, 1)}
    return {
        name: jax.random.normal(k, s) / 3 for (name, s), k in zip(shapes.items(), keys, strict=True)
    }


def through(call):
    """A function of (sample, position, channel) between two layers that read each position alone."""
    return lambda p, x: jnp.tanh(call(x @ p["in"], p["taps"])).mean(1) @ p["head"]


def convolved(**rest):
    def call(h: jax.Array, taps: jax.Array) -> jax.Array:
        wanted = {
            "window_strides": (1,),
            "padding": "SAME",
            "dimension_numbers": ("NWC", "WIO", "NWC"),
            **rest,
        }
        return jax.lax.conv_general_dilated(jax.nn.relu(h), taps, **wanted)

    return call


def neighbours(h: jax.Array, _: jax.Array) -> jax.Array:
    """Sums over the neighbours of a graph of four nodes."""
    ends, starts = np.array([1, 1, 2, 0, 3]), np.array([0, 2, 1, 3, 0])
    return jax.vmap(lambda own: jax.ops.segment_sum(own[starts], ends, num_segments=4))(h)


def looped(h: jax.Array, taps: jax.Array) -> jax.Array:
    return jax.lax.fori_loop(0, 2, lambda k, own: own + jnp.tanh(own @ taps[0]) / 2, h)


OPERATIONS = {
    "a transposed convolution": lambda h, w: jax.lax.conv_transpose(h, w, (2,), "SAME"),
    "a strided convolution": convolved(window_strides=(2,), padding=((1, 0),)),
    "a dilated convolution": convolved(rhs_dilation=(2,)),
    "a graph": neighbours,
    "sums so far": lambda h, _: jnp.cumsum(h, axis=1),
    "places in another order": lambda h, _: jnp.concatenate(
        [h, jnp.roll(h, 1, 1)[:, ::-1]], axis=1
    ),
    "places that are picked": lambda h, _: h[:, np.array([0, 2, 2])],
    "places that are written": lambda h, _: (
        jnp.zeros((len(h), 5, h.shape[2])).at[:, 1:3].set(h[:, 1:3]) + 0
    ),
    "a largest place": lambda h, _: h - h.max(1, keepdims=True),
    "a mask": lambda h, _: jnp.where(np.array([1, 0, 1, 1], bool)[:, None], jax.nn.relu(h), 0),
    "a resized image": lambda h, _: jax.image.resize(h, (len(h), 7, h.shape[2]), "linear"),
    "a loop": looped,
    "what is computed again": lambda h, w: jax.checkpoint(lambda own: jnp.sin(own) @ w[1])(h),
    "a branch": lambda h, _: jax.lax.cond(True, jnp.tanh, jnp.sin, h),
    "piecewise functions": lambda h, _: (
        jax.nn.softplus(jax.nn.elu(h)) + jax.nn.leaky_relu(h) + jnp.clip(h, -1, 1)
    ),
    "squares": lambda h, w: h**3 / (1 + h**2) + jax.nn.squareplus(h),
    "groups": lambda h, w: group_normed(h),
}


def group_normed(h: jax.Array) -> jax.Array:
    own = h.reshape(*h.shape[:2], 2, -1)
    centred = own - own.mean(-1, keepdims=True)
    return (centred / jnp.sqrt((centred**2).mean(-1, keepdims=True) + 1e-5)).reshape(h.shape)


@pytest.mark.parametrize("name", few(list(OPERATIONS), every=2))
def test_operations_compute_what_the_model_does(name: str) -> None:
    # that the network with the weights of the model returns the same is checked whenever one is read
    net = sw.jax.network(kernels, rows(2, 4, 3), width=4, apply=through(OPERATIONS[name]))
    assert net.depth >= 2


SOFTMAXES = {
    "shifted by the mean": by_mean,
    "through its logarithm": lambda own: jnp.exp(jax.nn.log_softmax(own)),
    "not shifted": lambda own: jnp.exp(own) / jnp.exp(own).sum(-1, keepdims=True),
    "in powers of two": lambda own: (
        jnp.exp2(own / np.log(2)) / jnp.exp2(own / np.log(2)).sum(-1, keepdims=True)
    ),
}


@cache
def usual() -> sw.Network:
    return sw.jax.network(attending, rows(2, 3, 3), width=N, apply=by_attention(jax.nn.softmax))


@pytest.mark.parametrize("name", SOFTMAXES)
def test_a_softmax_is_known_by_what_it_makes_of_numbers(name: str) -> None:
    x = rows(2, 3, 3)
    found = sw.jax.network(attending, x, width=N, apply=by_attention(SOFTMAXES[name]))
    wanted = usual()
    assert steps_of(found) == steps_of(wanted)


@pytest.mark.parametrize(
    "share",
    [
        lambda own: jnp.exp(own),
        lambda own: jnp.exp(own) / jnp.exp(own).mean(-1, keepdims=True),
        jax.nn.sigmoid,
    ],
    ids=["no sum", "mean", "sigmoid"],
)
def test_what_is_no_softmax_is_refused(share) -> None:
    with pytest.raises(PlanError, match="weighs positions by something other than the softmax"):
        sw.jax.network(attending, rows(2, 3, 3), width=N, apply=by_attention(share))


def test_laws_are_those_of_the_factory() -> None:
    def build(width: int) -> dict:
        keys = jax.random.split(jax.random.key(0), 5)
        return {
            "normal": 0.3 * jax.random.normal(keys[0], (width, 3)),
            "uniform": jax.random.uniform(keys[1], (width,), minval=-1, maxval=1),
            "cut": jax.nn.initializers.lecun_normal()(keys[2], (5, width)),
            "signs": 2.0 * jax.random.bernoulli(keys[3], shape=(width,)) - 1,
            "turned": jax.nn.initializers.orthogonal()(keys[4], (width, width)),
            "zeros": jnp.zeros(width),
        }

    model, laws, guessed = drawn(build, {"width": 16}, "plain", "seed")
    variances = {name: law.variance for name, law in laws.items()}
    assert variances == pytest.approx(
        {
            "normal": 0.09,
            "uniform": 1 / 3,
            "cut": 1 / 5,
            "signs": 1.0,
            "turned": 1 / 16,
            "zeros": 0.0,
        },
        rel=1e-5,
        abs=1e-3,
    )
    names = {name: law.law.name for name, law in laws.items()}
    assert [names[n] for n in ("normal", "uniform", "cut", "signs")] == [
        "normal", "uniform", "truncated normal", "rademacher"
    ]  # fmt: skip
    assert all(law.mean == 0 for name, law in laws.items() if name != "turned")
    assert guessed == ("turned",)
    # what the factory would draw has the moments of what is drawn in its place
    assert float(np.std(model["normal"])) == pytest.approx(0.3, rel=0.3)


def test_draws_that_are_not_told_are_pooled_over_seeds() -> None:
    def build(width: int, seed: int = 0) -> dict:
        numbers = np.random.default_rng(seed).uniform(-1, 1, (width, width))
        return {"W": jnp.asarray(numbers, jnp.float32)}

    _, laws, guessed = drawn(build, {"width": 32}, "plain", "seed")
    assert laws["W"].variance == pytest.approx(1 / 3, rel=0.03)
    assert laws["W"].law.name == "uniform"
    assert guessed == ("W",)


def test_a_model_itself_is_read_with_the_laws_of_its_entries() -> None:
    params = [rows(5, 64), rows(64, 64) / 8, rows(64, 2) / 8]
    net = sw.jax.network(
        params, rows(2, 5), apply=lambda own, x: jnp.tanh(jnp.tanh(x @ own[0]) @ own[1]) @ own[2]
    )
    assert net.width == 64
    assert net.C_W[1] == pytest.approx(64 * float(np.var(params[1])), rel=1e-5)


def test_a_misread_operation_is_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(walk._FUNCTIONS, "tanh", "sigmoid")
    with pytest.raises(
        PlanError, match="computes something else than the model: outputs differ by"
    ):
        sw.jax.network(tree, rows(2, 5), width=N, apply=by_tree)


def test_a_misread_product_is_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    found = equations.product
    monkeypatch.setattr(
        equations, "product", lambda read, one, two, p: found(read, one, two[::-1].copy(), p)
    )
    with pytest.raises(PlanError, match="computes something else than the model"):
        sw.jax.network(
            tree,
            rows(2, 5),
            width=N,
            apply=lambda params, x: jnp.tanh(x @ params["W"]) @ params["head"],
        )


def by(call):
    """A call of `tree` whose hidden layer goes through a function."""
    return lambda params, x: call(jnp.tanh(x @ params["W"]), params) @ params["head"]


def until_small(h: jax.Array, _: dict) -> jax.Array:
    return jax.lax.while_loop(lambda own: own.max() > 0.1, lambda own: own / 2, h)


REFUSED = {
    "random": (by(lambda h, _: h * jax.random.bernoulli(jax.random.key(0), 0.5, h.shape)), "draws random numbers"),
    "unknown": (by(lambda h, _: jnp.sort(h, axis=-1)), "The model computes 'sort', which is not known"),
    "a loop": (by(until_small), "has a loop that ends where its numbers say"),
    "largest": (by(lambda h, _: h - h.max(-1, keepdims=True)), "takes the largest of its channels"),
    "rounded": (by(lambda h, _: h + h.astype(int)), "rounds what it computes"),
    "ordered": (by(lambda h, _: h * jnp.arange(1.0, 1 + h.shape[-1])), "channels of one kind have no order"),
    "padded": (by(lambda h, _: jnp.pad(h[:, 1:], ((0, 0), (0, 1)), constant_values=1)), "pads with a number"),
    "weights": (by(lambda h, p: h @ jnp.exp(p["layers"][0])), "`layers` computes weights from weights"),
    "shape": (lambda params, x: x @ params["head"], "cannot be called with the `inputs` given: TypeError"),
    "nothing": (lambda params, x: jnp.ones(len(x)), "does not depend on"),
}  # fmt: skip


@pytest.mark.parametrize("name", REFUSED)
def test_what_is_not_known_is_named_with_its_place(name: str) -> None:
    call, told = REFUSED[name]
    with pytest.raises(PlanError, match=told) as caught:
        sw.jax.network(tree, rows(2, 5), width=N, apply=call)
    assert str(caught.value).count("\n") == 0


@pytest.mark.parametrize(
    ("build", "rest", "told"),
    [
        (tree, {"apply": by_tree}, "`width` must be given with a factory"),
        (
            lambda width: tree(8),
            {"width": 8, "apply": by_tree},
            "builds the same model at the widths 8 and 16",
        ),
        (tree, {"width": 8}, "dict is not a function"),
        (lambda: tree(8), {"width": 8}, "The factory must take a width"),
        (tree, {"width": 8, "apply": by_tree, "at": 0}, "`at` must be a position of the outputs"),
    ],
)
def test_factories_and_calls_that_do_not_fit_are_told(build, rest: dict, told: str) -> None:
    with pytest.raises(PlanError, match=told):
        sw.jax.network(build, rows(2, 5), **rest)
