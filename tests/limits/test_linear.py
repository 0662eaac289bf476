"""Golden, property and agreement tests: linear networks of finite width and their exact limit."""

import math

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from refusals import unlike
from scalewise.limits import SGD, linear
from scalewise.limits.linear import LinearNet
from scalewise.tasks import Loss
from scalewise.tasks._losses import LOSSES

RNG = np.random.default_rng(0)
X = RNG.normal(size=(6, 3))
Y = RNG.normal(size=(6, 2))
TEST = RNG.normal(size=(4, 3))


def trained(net: LinearNet, steps: int = 20, **settings) -> tuple[LinearNet, np.ndarray]:
    losses = []
    for _ in range(steps):
        net, value = linear.step(net, X, Y, SGD(**{"eta": 0.2, **settings}))
        losses.append(value)
    return net, np.array(losses)


def by_autodiff(net: LinearNet, settings: dict) -> LinearNet:
    """The step from its definition: gradient of the loss in (u, v, beta), clipped, decayed."""

    def loss(u, v, beta):
        f = (X @ u.T + net.alpha * beta) @ v.T
        return 0.5 * jnp.sum((f - Y) ** 2) / len(X)

    with jax.enable_x64(True):
        theta = (net.u, net.v, net.b / net.alpha)
        grads = [np.asarray(g) for g in jax.jit(jax.grad(loss, argnums=(0, 1, 2)))(*theta)]
    rho = min(1, settings["clip"] / math.sqrt(sum((g**2).sum() for g in grads)))
    eta, gamma = settings["eta"], settings["weight_decay"]
    u, v, beta = (p - eta * rho * g - eta * gamma * p for p, g in zip(theta, grads, strict=True))
    return LinearNet(u, v, net.alpha * beta, net.alpha)


@pytest.mark.covers("E15")
@pytest.mark.parametrize("clip", [0.3, 1e3])
def test_a_step_is_the_clipped_gradient_of_u_v_and_beta(clip: float) -> None:
    net = linear.network(7, 3, 2, alpha=0.6, seed=1)
    net = LinearNet(net.u, net.v, RNG.normal(size=7), 0.6)
    settings = {"eta": 0.3, "clip": clip, "weight_decay": 0.2}
    found, value = linear.step(net, X, Y, SGD(**settings))
    wanted = by_autodiff(net, settings)
    for name in ("u", "v", "b"):
        np.testing.assert_allclose(getattr(found, name), getattr(wanted, name), rtol=0, atol=1e-14)
    f = (X @ net.u.T + net.b) @ net.v.T
    assert value == pytest.approx(((f - Y) ** 2).sum() / 12, rel=1e-14)


def test_the_limit_starts_at_zero() -> None:
    limit = linear.limit(3, 2, sigma_u=1.3, sigma_v=0.4)
    np.testing.assert_array_equal(linear.outputs(limit, X), 0)
    features = linear.features(limit, X)
    np.testing.assert_allclose(features @ features.T, 1.69 * X @ X.T, rtol=1e-14)
    np.testing.assert_allclose(limit.v @ limit.v.T, 0.16 * np.eye(2))


@pytest.mark.covers("E15")
@pytest.mark.parametrize(("clip", "decay"), [(None, 0.0), (0.2, 0.05)])
def test_a_net_with_orthonormal_gaussians_is_the_limit(clip: float, decay: float) -> None:
    """Columns of (mu, nu)/sqrt(n) exactly orthonormal: the same outputs to rounding, every step."""
    limit = linear.limit(3, 2, sigma_u=1.2, sigma_v=0.5, alpha=0.7)
    Q = np.linalg.qr(RNG.normal(size=(40, 5)))[0]
    net = LinearNet(Q @ limit.u, limit.v @ Q.T, Q @ limit.b, limit.alpha)
    settings = {"clip": clip, "weight_decay": decay}
    (end, losses), (end_limit, losses_limit) = trained(net, **settings), trained(limit, **settings)
    np.testing.assert_allclose(losses, losses_limit, rtol=0, atol=3e-15)
    np.testing.assert_allclose(
        linear.outputs(end, TEST), linear.outputs(end_limit, TEST), rtol=0, atol=5e-15
    )
    np.testing.assert_allclose(
        linear.features(end, TEST) @ linear.features(end, X).T,
        linear.features(end_limit, TEST) @ linear.features(end_limit, X).T,
        rtol=0,
        atol=2e-14,
    )


@pytest.mark.covers("E15")
def test_random_networks_approach_the_limit_with_the_root_of_the_width() -> None:
    _, limit = trained(linear.limit(3, 2))
    widths = np.array([64, 256, 1024])
    gaps = []
    for n in widths:
        runs = [trained(linear.network(int(n), 3, 2, seed=s))[1] - limit for s in range(16)]
        gaps.append(np.sqrt(np.mean(np.max(np.abs(runs), axis=1) ** 2)))
    slope = np.polyfit(np.log(widths), np.log(gaps), 1)[0]
    # A root mean square of 16 runs is known to 18 %: over a factor 16 the slope to 0.07.
    assert abs(slope + 0.5) < 4 * 0.07
    assert gaps[-1] < 0.06


@pytest.mark.covers("E15")
def test_networks_drawn_from_the_trained_limit_have_its_outputs() -> None:
    limit, _ = trained(linear.limit(3, 2), weight_decay=0.01)
    wanted = linear.outputs(limit, TEST)
    for n in (400, 6400):
        drawn = np.array(
            [linear.outputs(linear.sample(limit, n, seed=s), TEST) - wanted for s in range(100)]
        )
        sem = drawn.std(0, ddof=1) / 10
        assert np.all(np.abs(drawn.mean(0)) < 5 * sem)
        assert drawn.std() * math.sqrt(n) == pytest.approx(3.1, abs=1.3)
        again = linear.sample(limit, n, seed=3)
        np.testing.assert_array_equal(again.u, linear.sample(limit, n, seed=3).u)


@pytest.mark.covers("E15")
def test_one_neuron_by_hand() -> None:
    """§15.4 of the source's values for one input: f_1 = 2 eta, f_2 = 0.36288."""
    net, one = linear.limit(1, 1, alpha=0.0), np.ones((1, 1))
    found = []
    for _ in range(4):
        net, _ = linear.step(net, one, one, SGD(0.1))
        found.append(float(linear.outputs(net, one)[0, 0]))
    np.testing.assert_allclose(found, [0.2, 0.36288, 0.49795249, 0.60955357], atol=6e-9)


def test_a_bias_is_an_input_that_is_alpha() -> None:
    wide, narrow = linear.limit(4, 2, alpha=0.0), linear.limit(3, 2, alpha=0.8)
    wide.u[:, 3] = 0  # the bias starts at zero
    more = np.column_stack([X, np.full(6, 0.8)])
    for _ in range(5):
        wide, a = linear.step(wide, more, Y, SGD(0.3))
        narrow, b = linear.step(narrow, X, Y, SGD(0.3))
        assert a == pytest.approx(b, rel=1e-13)


@pytest.mark.covers("E15")
def test_slopes_of_the_losses() -> None:
    f, classes = RNG.normal(size=(2, 5, 3)), RNG.integers(0, 3, 5)
    targets = {"mse": RNG.normal(size=(5, 3)), "cross_entropy": np.eye(3)[classes]}
    targets["logistic"] = np.sign(targets["mse"])
    for name, y in targets.items():
        loss = LOSSES[name]
        assert loss.values(f, y).shape == (2, 5)
        direction, h = RNG.normal(size=f.shape), 1e-6
        up, down = (loss.values(f + s * h * direction, y).mean(1) for s in (1, -1))
        slopes = (loss.slopes(f, y) * direction).sum((1, 2))
        np.testing.assert_allclose(slopes, (up - down) / (2 * h), rtol=1e-7)
        assert np.isfinite(loss.values(1e6 * f, y)).all()
    p = np.exp(f) / np.exp(f).sum(-1, keepdims=True)
    wanted = -np.log(p[:, np.arange(5), classes])
    found = LOSSES["cross_entropy"].values(f, targets["cross_entropy"])
    np.testing.assert_allclose(found, wanted, rtol=1e-13)


def step(net: LinearNet, **settings) -> None:
    linear.step(net, X, Y, SGD(0.1), **settings)


REFUSED = [
    (lambda: linear.limit(0, 2), "`inputs` must be a whole number of at least 1; got 0"),
    (
        lambda: linear.limit(2, 1, sigma_u=-1.0),
        "`sigma_u` must be a finite number of at least 0; got -1.0",
    ),
    (
        lambda: linear.limit(2, 1, sigma_v=math.nan),
        "`sigma_v` must be a finite number of at least 0",
    ),
    (
        lambda: linear.limit(2, 1, alpha=-0.5),
        "`alpha` must be a finite number of at least 0; got -0.5",
    ),
    (lambda: linear.network(0, 2, 1), "`width` must be a whole number of at least 1"),
    (lambda: step(linear.limit(2, 2)), "`x` must have 2 features for this net; got 3"),
    (lambda: step(linear.limit(3, 1)), "`y` must have the shape of the outputs"),
    (
        lambda: linear.step(linear.limit(3, 2), X, Y, SGD(0.1, momentum=0.5)),
        "keeps no momentum; set `momentum` of `sgd` to 0",
    ),
    (
        lambda: trained(linear.limit(3, 2), 60, eta=50.0),
        r"diverged: .*Lower `eta` \(it is 50.0\)",
    ),
    (
        lambda: step(linear.limit(3, 2), loss="hinge"),
        "'mse', .* or a Loss; got 'hinge'",
    ),
    (
        lambda: step(linear.limit(3, 2), loss=Loss(lambda f, y: f, lambda f, y: f)),
        r"to a `value` of shape \(6,\) here; got shape \(6, 2\)",
    ),
    (
        lambda: LinearNet(np.zeros((3, 2)), np.zeros((1, 2)), np.zeros(3)),
        r"`LinearNet` needs `u` of shape \(hidden, input\)",
    ),
    (
        lambda: LinearNet(np.zeros((3, 2)), np.full((1, 3), np.inf), np.zeros(3)),
        "`LinearNet.v` must hold finite numbers only",
    ),
]


def test_bad_numbers_are_refused() -> None:
    assert unlike(REFUSED) == []
