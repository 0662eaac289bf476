"""Golden: averages without a formula against quadrature, closed forms and heads drawn one by one."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import scalewise as sw
from grids import each
from scalewise.nets._networks import precision
from scalewise.networks._nodes import Attend, Normalise
from scalewise.theory.flow._attention import drawn_heads
from scalewise.theory.flow._units import normals, rooted

RNG = np.random.default_rng(11)
RATES = {"C_b": 0.1, "C_W": 1.3, "lambda_b": 0.4, "lambda_W": 0.9}


def first(x: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """K and Theta of a first layer."""
    gram = x @ x.T / x.shape[1]
    return 0.1 + 1.3 * gram, 0.4 + 0.9 * gram


def within(found, name: str, want: np.ndarray) -> None:
    """Nearer than four of the errors that are stated, and these are small."""
    error = found[f"{name}_error"].values[-1]
    assert (np.abs(found[name].values[-1] - want) < 4 * error + 1e-9).all()
    assert (error < 3e-3 * np.abs(want).max()).all()


@each("sigma", ["tanh", "gelu"])
def test_an_activation_of_a_sum_behind_an_activation_is_a_nested_quadrature(sigma: str) -> None:
    """y = f(u + f(v)) of two inputs: four Gaussian numbers, in two independent pairs."""
    f = sw.activation(sigma)
    net = sw.Network(
        sw.Dense(), sigma, sw.Skip(sw.Dense()), sigma, sw.Dense(1), input_shape=3, width=8, **RATES
    )
    x = np.array([[0.3, -0.5, 0.8], [0.6, 0.4, -0.2]])
    g, w = np.polynomial.hermite_e.hermegauss(36)
    w = w / w.sum()
    axes = np.stack(np.meshgrid(g, g, indexing="ij")).reshape(2, -1)
    weight = np.multiply.outer(w, w).ravel()
    K, Theta = first(x)
    v = np.linalg.cholesky(K) @ axes
    C = (f(v) * weight) @ f(v).T
    dv = f.derivative(v, 1)
    T = ((dv * weight) @ dv.T) * Theta
    Ku, Tu = 0.1 + 1.3 * C, 0.4 + 0.9 * C + 1.3 * T
    u = np.linalg.cholesky(Ku) @ axes
    z = u[:, :, None] + f(v)[:, None, :]
    both = np.multiply.outer(weight, weight)
    y, dy = f(z), f.derivative(z, 1)
    chain = dy * dv[:, None, :]
    C = np.einsum("amn,bmn,mn->ab", y, y, both)
    T = np.einsum("amn,bmn,mn->ab", dy, dy, both) * Tu
    T = T + np.einsum("amn,bmn,mn->ab", chain, chain, both) * Theta
    found = sw.predict(net, x)
    within(found, "kernel", 0.1 + 1.3 * C)
    within(found, "ntk", 0.4 + 0.9 * C + 1.3 * T)


def test_a_maximum_of_two_positions_is_known_in_closed_form() -> None:
    r"""$\langle\max(a,b)^2\rangle$ of two positions; its slope is 1 at one of them."""
    net = sw.Network(sw.Dense(), sw.MaxPool(2), sw.Dense(1), input_shape=(2, 3), width=8, **RATES)
    x = RNG.normal(size=(1, 2, 3))
    K, Theta = first(x[0])
    # max(a,b)^2 is a^2 or b^2, each as often as not given the sign of a - b, which is independent of its square.
    C = (K[0, 0] + K[1, 1]) / 2
    T = (Theta[0, 0] + Theta[1, 1]) / 2
    # A signed remainder vanishes: <a^2 - b^2> times the mean sign is 0, their correlation is 0 by symmetry.
    found = sw.predict(net, x)
    within(found, "kernel", np.array([[0.1 + 1.3 * C]]))
    within(found, "ntk", np.array([[0.4 + 0.9 * C + 1.3 * T]]))


def test_shared_numbers_of_a_linear_network_have_a_closed_form() -> None:
    """x + 2 x is 3 x, whether its parts are known to be one or not."""
    block = sw.Parallel((), (), factors=(1, 2))
    net = sw.Network(sw.Dense(), block, sw.Dense(1), input_shape=3, width=8, **RATES)
    x = RNG.normal(size=(3, 3))
    K, Theta = first(x)
    found = sw.predict(net, x)
    within(found, "kernel", 0.1 + 1.3 * 9 * K)
    within(found, "ntk", 0.4 + 0.9 * 9 * K + 1.3 * 9 * Theta)


def test_stated_errors_are_those_of_other_draws(monkeypatch) -> None:
    from scalewise.theory.flow import _units

    layers = (sw.Conv(3), "relu", sw.MaxPool(2), sw.Conv(3), "tanh", sw.Skip(sw.Dense()), "tanh")
    net = sw.Network(*layers, sw.GlobalAvgPool(), sw.Dense(1), input_shape=(8, 2), width=8, **RATES)
    x = RNG.normal(size=(2, 8, 2))
    one = sw.predict(net, x)
    old = _units.normals
    pulls = []
    for turn in range(6):
        monkeypatch.setattr(
            _units, "normals", lambda n, c, seed, t=turn: old(n, c, (*seed, 100 + t))
        )
        other = sw.predict(net, x)
        for name in ("kernel", "ntk"):
            error = np.hypot(one[f"{name}_error"], other[f"{name}_error"])
            pulls.append(float((np.abs(one[name] - other[name]) / error).max()))
        assert (one[f"{name}_error"] < 3e-3 * one[name]).all()
    assert max(pulls) < 6
    assert 0.6 < np.mean(pulls) < 3, pulls


@each(
    ("sigma", "causal", "power", "norm"),
    [
        (None, True, 0.5, None),
        (None, False, 1.0, None),
        ("relu", True, 0.5, None),
        (None, True, 0.5, Normalise((), 0.3, False)),
        (None, False, 1.0, Normalise((), 0.2, True)),
        ("erf", True, 0.5, Normalise((), 0.1, False)),
    ],
)
def test_heads_of_finite_size_are_those_of_drawn_heads(sigma, causal, power, norm) -> None:
    """Tangents of queries, keys and values through automatic differentiation, head by head."""
    f = None if sigma is None else sw.activation(sigma)
    size = 2 if norm is None else 3
    node = Attend((0, 1, 2), size, False, power, causal, f, norm)
    inputs, places, heads = 2, 3, 60_000
    root = RNG.normal(size=(6, 6, 6)) / 6**0.5
    blocks = [(A @ A.T).reshape(inputs, places, inputs, places).swapaxes(1, 2) for A in root]
    C, T = drawn_heads(node, tuple(blocks[:3]), tuple(blocks[3:]), (0, 0))

    def normed(z):
        if norm is None:
            return z
        z = z - z.mean(axis=1, keepdims=True) if norm.centred else z
        return z / jnp.sqrt((z * z).mean(axis=1, keepdims=True) + norm.eps)

    def output(q, k, v):
        q, k = normed(q), normed(k)
        logits = jnp.einsum("hdas,hdat->hast", q, k) / size**power
        seen = np.tri(places, dtype=bool) if causal else np.ones((places, places), bool)
        if f is None:
            p = jax.nn.softmax(jnp.where(seen, logits, -jnp.inf), axis=-1)
        else:
            p = f.traceable()(logits) * seen
        return jnp.einsum("hast,hdat->hdas", p, v)

    def drawn(block):
        whole = block.swapaxes(1, 2).reshape(6, 6)
        z = RNG.normal(size=(heads * size, 6)) @ rooted(whole).T
        return jnp.asarray(z.reshape(heads, size, inputs, places))

    with precision("float64"):
        q, k, v, *moves = map(drawn, blocks)
        value, moved = jax.jvp(output, (q, k, v), tuple(moves))
        for want, got in ((value, C), (moved, T)):
            want = np.asarray(want).reshape(heads * size, 6)
            parts = np.einsum("hs,ht->hst", want, want).reshape(40, -1, 6, 6).mean(axis=1)
            mean, error = parts.mean(axis=0), parts.std(axis=0, ddof=1) / 40**0.5
            got = got.swapaxes(1, 2).reshape(6, 6)
            assert (np.abs(got - mean) < 5 * error + 0.02 * np.abs(mean).max()).all()
            assert np.abs(got - mean).max() < 0.05 * np.abs(mean).max()


def test_free_keys_of_heads_that_grow_average_all_that_is_seen() -> None:
    """By hand: uniform weights, over all positions or over those before."""
    x = RNG.normal(size=(2, 4, 3))
    K, _ = first(x.reshape(8, 3))
    for causal in (False, True):
        layers = (sw.Dense(), sw.Attention(heads=2, causal=causal), sw.GlobalAvgPool(), sw.Dense(1))
        net = sw.Network(*layers, input_shape=(4, 3), width=8, **RATES)
        p = np.tri(4) if causal else np.ones((4, 4))
        P = np.kron(np.eye(2), p / p.sum(axis=1, keepdims=True))
        C = 0.1 + 1.3 * P @ (0.1 + 1.3 * K) @ P.T
        mean = np.kron(np.eye(2), np.full((1, 4), 0.25))
        found = sw.predict(net, x, observables="kernel").kernel.values[-1]
        np.testing.assert_allclose(found, 0.1 + 1.3 * mean @ C @ mean.T, rtol=1e-12)


def test_draws_tell_of_their_progress() -> None:
    net = sw.Network(
        sw.Conv(3), sw.MaxPool(2), sw.Flatten(), sw.Dense(1), input_shape=(4, 1), width=8
    )
    told = []
    sw.predict(net, np.eye(4)[:3, :, None], progress=lambda *what: told.append(what))
    shares = [done / total for _, done, total in told]
    assert len({done for _, done, _ in told}) > 4
    assert shares == sorted(shares)
    assert shares[-1] == 1


def test_draws_of_two_layers_have_nothing_in_common() -> None:
    """Neither they nor their squares: points of two sequences in their own order would."""
    one, other = (normals(20, 1024, (0, layer)) for layer in (1, 2))
    for f in (lambda z: z, lambda z: (z * z - 1) / 2**0.5):
        together = (f(one) * f(other)).mean(axis=1) * 1024**0.5
        assert np.abs(together).mean() < 3
    np.testing.assert_allclose(one @ one.T / one.shape[1], np.eye(20), atol=1e-12)


REFUSED = {
    "needs one of `size`": {},
    "needs one of `size`, the channels": {"size": 2, "heads": 2},
    "random logits at any width, and no Gaussian limit": {"heads": 2, "power": 0.5},
    "is known of heads that grow": {"size": 2, "tied": True},
}


@pytest.mark.parametrize("sentence", REFUSED)
def test_limits_that_do_not_exist_are_refused(sentence: str) -> None:
    with pytest.raises(ValueError, match=sentence):
        sw.Attention(**REFUSED[sentence])


def test_widths_that_do_not_divide_and_inputs_without_positions_are_refused() -> None:
    tail = (sw.GlobalAvgPool(), sw.Dense(1))
    for own, number in ((sw.Attention(size=3), "heads of 3"), (sw.Attention(heads=3), "3 heads")):
        with pytest.raises(ValueError, match=f"Layer 2.*8 channels.*do not divide into {number}"):
            sw.Network(sw.Dense(), own, *tail, input_shape=(4, 2), width=8)
    with pytest.raises(ValueError, match="looks at positions, and there are none"):
        sw.Network(sw.Dense(), sw.Attention(size=2), sw.Dense(1), input_shape=4, width=8)
    net = sw.Network(sw.Conv(3), sw.MaxPool(2), *tail, input_shape=(64, 64, 1), width=8)
    with pytest.raises(ValueError, match=r"2 inputs have 8,192 positions.*at most 4096"):
        sw.predict(net, np.ones((2, 64, 64, 1)))
