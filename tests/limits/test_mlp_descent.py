r"""Agreement tests of training at finite width: gradient descent by JAX's derivatives, to rounding.

The networks of these tests are written in $p,q,r$ with rescaled parameters that share one learning rate, which is
neither the arrangement nor the notation of the package.
"""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from grids import thorough
from scalewise.limits import SGD, Architecture, Finite, train
from scalewise.limits.methods import _real as module
from scalewise.scaling import ABC, abc, mup, ntk, standard, uniform
from scalewise.tasks import Loss, Task

X = np.array([[0.8, -0.4], [0.3, 1.0], [-0.9, 0.5]])
Y = np.array([[1.0, 0.0], [0.0, 1.0], [0.0, 1.0]])
TESTS = np.array([[0.5, -1.2], [1.0, 1.0]])
PLAIN = abc((0, 0, 0), (0, "1/2", "1/2"), 1)


def value(name, f, y):
    if name == "cross_entropy":
        return jnp.mean(jax.nn.logsumexp(f, axis=-1) - (f * y).sum(axis=-1))
    if name == "logistic":
        return jnp.mean(jnp.logaddexp(0.0, -(2 * y - 1) * f).sum(axis=-1))
    return jnp.mean(((f - y) ** 2).sum(axis=-1)) / 2


def by_autodiff(net, n, W, b, sgd, loss, batches):
    """Outputs over time from initial effective weights and biases."""
    s = net.strategy.gauge(-net.strategy.r)
    fans = [1, *net.widths(n)]
    factors = [
        np.sqrt(lam * float(n) ** float(-q) / fan)
        for lam, q, fan in zip(net.lambda_W, s.q, fans, strict=True)
    ]
    factors_b = [
        np.sqrt(lam * float(n) ** float(-q)) for lam, q in zip(net.lambda_b, s.q_bias, strict=True)
    ]
    phi = net.activation.traceable()

    def outputs(v, Z):
        for layer, (w, beta) in enumerate(zip(*v, strict=True)):
            Z = phi(Z) if layer else Z
            Z = Z @ (factors[layer] * w).T + (b[layer] + factors_b[layer] * beta)
        return Z

    @jax.jit
    def stepped(v, velocity, batch):
        g = jax.grad(
            lambda v: value(loss, outputs(v, jnp.asarray(X)[batch]), jnp.asarray(Y)[batch])
        )(v)
        norm = jnp.sqrt(sum((a**2).sum() for a in jax.tree.leaves(g)))
        short = 1.0 if sgd.clip is None else jnp.minimum(1.0, sgd.clip / norm)
        g = jax.tree.map(lambda a: a * short, g)
        decayed = [a + sgd.weight_decay * w for a, w in zip(g[0], v[0], strict=True)]
        g = (decayed, g[1])
        velocity = jax.tree.map(lambda u, a: sgd.momentum * u - sgd.eta * a, velocity, g)
        return jax.tree.map(jnp.add, v, velocity), velocity

    with jax.enable_x64(True):
        weights = [jnp.asarray(w / f) for w, f in zip(W, factors, strict=True)]
        v = (weights, [jnp.asarray(np.zeros(w.shape[0])) for w in W])
        velocity = jax.tree.map(lambda a: jnp.asarray(np.zeros(a.shape)), v)
        seen, everything = jax.jit(outputs), np.concatenate([X, TESTS])
        found = [np.asarray(seen(v, everything))]
        for batch in batches:
            v, velocity = stepped(v, velocity, np.asarray(batch))
            found.append(np.asarray(seen(v, everything)))
        return np.array(found)


@pytest.fixture
def drawn(monkeypatch):
    """Initial arrays of one run, as they are drawn."""
    kept = {"W": []}
    matrix, start = module.RealMatrix.__init__, module.InitialWeights.from_normal

    def __init__(self, *args, **options):
        matrix(self, *args, **options)
        kept["W"].append(self.W[0].copy())

    def from_normal(net, powers, first, last, biases):
        kept["first"], kept["last"], kept["biases"] = first, last, biases
        return start(net, powers, first, last, biases)

    monkeypatch.setattr(module.RealMatrix, "__init__", __init__)
    monkeypatch.setattr(module.InitialWeights, "from_normal", staticmethod(from_normal))
    return kept


def compared(drawn, net, sgd, *, loss="mse", batches=None, n=24, steps=3):
    targets = 2 * Y - 1 if loss == "logistic" else Y
    task = Task(X, targets, test_inputs=TESTS, loss=loss, batches=batches)
    found = train(net, task, sgd, steps=steps, on=Finite(n)).logits_mean.values
    widths, p = net.widths(n), net.strategy.p
    W = [
        drawn["first"][0].T * np.sqrt(net.C_W[0] * float(n) ** float(-p[0])),
        *drawn["W"],
        drawn["last"][0] * np.sqrt(net.C_W[-1] * float(n) ** float(-p[-1]) / widths[-1]),
    ]
    b = [
        0.0 if own is None else own[0] * np.sqrt(c * float(n) ** float(-power))
        for own, c, power in zip(drawn["biases"], net.C_b, p, strict=True)
    ]
    rows = np.arange(len(X))[None] if batches is None else np.asarray(batches)
    schedule = [rows[t % len(rows)] for t in range(steps)]
    expected = by_autodiff(net, n, W, b, sgd, loss, schedule)
    assert np.abs(expected[-1] - expected[0]).max() > 0.02
    np.testing.assert_allclose(found, expected, rtol=1e-9, atol=1e-11)


@pytest.mark.covers("E9")
@pytest.mark.parametrize(
    "strategy",
    [mup(depth=4), ntk(depth=3), *thorough(mup(depth=2), uniform("1/4", depth=3), PLAIN,
     abc((0, 0, "1/2"), (0, "1/2", "1/2"), 0), abc(("-1/2", 0, "1/2"), ("1/2", "1/2", 1), 0))],
)  # fmt: skip
def test_every_strategy(drawn, strategy):
    compared(drawn, Architecture(strategy, "tanh"), SGD(0.3))


def test_biases_where_the_last_weights_start_small(drawn):
    """A > U: gradients reach the hidden biases through what the last weights have learned."""
    lag = abc(("-1/2", 0, "1/2"), ("1/2", "1/2", 1), 0)
    compared(drawn, Architecture(lag, "tanh", C_b=0.3, lambda_b=0.8), SGD(0.3))


@pytest.mark.covers("E9")
@pytest.mark.parametrize("strategy", [mup(depth=3), *thorough(ntk(depth=3).gauge("1/3"))])
def test_everything_at_once(drawn, strategy):
    """Biases, unequal widths, unequal variances and rates, momentum, decay, clipping, batches."""
    net = Architecture(
        strategy,
        "tanh",
        C_W=(1.2, 0.8, 1.5),
        C_b=(0.1, 0.2, 0.3),
        lambda_W=(0.7, 1.3, 0.9),
        lambda_b=(0.5, 0.4, 1.1),
        ratios=(1.5, 0.75),
    )
    sgd = SGD(0.5, momentum=0.8, weight_decay=0.1, clip=0.3)
    compared(drawn, net, sgd, loss="cross_entropy", batches=[[0, 2], [1, 0]])


@pytest.mark.parametrize("option", [{"momentum": 0.9}, {"weight_decay": 0.3}, {"clip": 0.2}])
def test_each_part_of_the_descent(drawn, option):
    compared(drawn, Architecture(mup(depth=3), "sin"), SGD(0.4, **option))


@pytest.mark.covers("E9")
@pytest.mark.parametrize("loss", ["mse", "logistic", "cross_entropy"])
def test_each_loss(drawn, loss):
    compared(drawn, Architecture(mup(depth=3), "gelu"), SGD(0.4), loss=loss)


def test_plain_biases(drawn):
    """Biases that share the rate of their layer's weights: from the second layer on they hardly move."""
    exponents = standard(depth=3).to_abc()
    slowed = ABC(exponents.a, exponents.b, 1, plain_biases=True).to_strategy()
    compared(drawn, Architecture(slowed, "tanh", C_b=0.1, lambda_b=1.0), SGD(0.5))


def test_a_loss_of_the_users_own(drawn):
    """Squared error under another name: value and gradient are all that is asked."""
    own = Loss(lambda f, y: ((f - y) ** 2).sum(axis=-1) / 2, lambda f, y: f - y, "own")
    task = Task(X, Y, loss=own)
    found = train(Architecture(mup(), "tanh"), task, SGD(0.3), steps=3, on=Finite(16))
    usual = train(Architecture(mup(), "tanh"), Task(X, Y), SGD(0.3), steps=3, on=Finite(16))
    np.testing.assert_array_equal(found.logits_mean, usual.logits_mean)
    assert found.attrs["loss"] == "own"


@pytest.mark.covers("E9")
def test_a_gauge_changes_nothing():
    net = Architecture(mup(depth=3), "tanh", lambda_b=1.0)
    other = Architecture(mup(depth=3).gauge(1), "tanh", lambda_b=1.0)
    sgd = SGD(0.3, momentum=0.5, weight_decay=0.1, clip=0.5)
    one, two = (train(m, Task(X, Y), sgd, steps=3, on=Finite(20)) for m in (net, other))
    np.testing.assert_allclose(one.logits_mean, two.logits_mean, rtol=1e-12)
