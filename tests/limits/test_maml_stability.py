"""Golden and property tests: how adaptation answers a class bias, and which order of MAML feeds it."""

import math
from dataclasses import replace

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from scalewise.limits import linear, maml
from scalewise.limits.linear import LinearNet
from scalewise.limits.maml import GramNet, Maml, Tasks, adapted_outputs, bias_response, gram_net

RNG = np.random.default_rng(0)
WAYS, D = 5, 6


def some_tasks(count: int, *, mean: float = 4.0, spread: float = 1.0) -> Tasks:
    """Classes of a common mean: own centres, and drawings about them."""
    centres = mean / math.sqrt(D) + spread * RNG.normal(size=(count, WAYS, D))
    support, query = centres + 0.6 * spread * RNG.normal(size=(2, count, WAYS, D))
    classes = np.tile(np.arange(WAYS), (count, 1))
    return Tasks(support, classes, query, classes)


def equal_outputs(alpha: float = 0.7) -> tuple[LinearNet, np.ndarray]:
    """A net whose outputs are 0, and v: the features reach hidden units that v does not read."""
    v, u, b = RNG.normal(size=(WAYS, WAYS + 1)), RNG.normal(size=(7, D)), RNG.normal(size=7)
    net = LinearNet(
        np.vstack([u, np.zeros((WAYS + 1, D))]),
        np.hstack([np.zeros((WAYS, 7)), v]),
        np.concatenate([b, np.zeros(WAYS + 1)]),
        alpha,
    )
    return net, v


def principal_contrasts(net: LinearNet) -> np.ndarray:
    """Columns z with centred A z = (its eigenvalue) z, the largest eigenvalue first, without the constant."""
    centre = np.eye(WAYS) - 1 / WAYS
    values, vectors = np.linalg.eigh(centre @ net.v @ net.v.T @ centre)
    assert abs(values[0]) < 1e-12 < values[1]
    return vectors[:, :0:-1]


@pytest.mark.covers("E18")
def test_one_step_leaves_what_autodiff_of_an_explicit_network_leaves() -> None:
    net, v = equal_outputs()
    tasks, eps = some_tasks(3), 0.02
    h = bias_response(net, tasks, eps)
    assert h.shape == (WAYS - 1,)
    assert np.all(np.diff(h) < 0)

    z = principal_contrasts(net)
    # v pinv(v) is the identity, as there are more hidden units than classes.
    towards = np.concatenate([np.zeros((7, WAYS - 1)), np.linalg.pinv(v) @ z]) / net.alpha

    def adapted(delta, x, y, x_hat):
        """Mean output on the queries after a step, of a network whose outputs are z delta."""
        theta = (net.u, net.v, net.b / net.alpha + towards @ delta)

        def outputs(theta, x):
            return (x @ theta[0].T + net.alpha * theta[2]) @ theta[1].T

        def loss(theta):
            logs = jax.nn.log_softmax(outputs(theta, x))
            return -jnp.mean(jnp.take_along_axis(logs, y[:, None], 1))

        grads = jax.grad(loss)(theta)
        after = [p - eps * g for p, g in zip(theta, grads, strict=True)]
        return outputs(after, x_hat).mean(0)

    with jax.enable_x64(True):
        slopes = jax.jit(jax.vmap(jax.jacfwd(adapted), (None, 0, 0, 0)))(
            np.zeros(WAYS - 1), tasks.support, tasks.support_class, tasks.query
        )
        left = np.asarray(slopes).mean(0)
    # A step may move all outputs together, which no softmax sees.
    np.testing.assert_allclose(left - left.mean(0), z * (1 - h), atol=1e-12)


def biased(net: GramNet, size: float) -> GramNet:
    """The products with the bias size (e_1 - e_2)/sqrt 2 added to every output."""
    M = net.M.copy()
    M[:2, -1] += size / math.sqrt(2) / net.alpha * np.array([1, -1])
    return replace(net, M=M)


def test_adaptation_of_equal_outputs_that_are_not_zero() -> None:
    net = gram_net(linear.limit(D, WAYS, sigma_v=0.5, alpha=0.7))
    net = replace(net, M=net.M + RNG.normal(size=D + 1))
    tasks, delta = some_tasks(3), 1e-5
    for eps in (0.05, 0.3):
        up, down = (
            adapted_outputs(biased(net, s), tasks, steps=1, inner_rate=eps) for s in (delta, -delta)
        )
        left = ((up - down) / (2 * delta)).mean((0, 1)) @ [1, -1, 0, 0, 0] / math.sqrt(2)
        np.testing.assert_allclose(
            bias_response(net, tasks, eps), np.full(WAYS - 1, 1 - left), rtol=1e-7
        )


def growth(net: GramNet, tasks: Tasks, settings: Maml) -> float:
    """By how much a meta-step makes a small bias grow, relative to it and over the rate, as seen on the queries."""
    delta, mean = 1e-4, np.append(tasks.query.mean((0, 1)), net.alpha)
    up, down = (
        (maml.step(biased(net, s), tasks, settings)[0].M @ mean)[:2] @ [1, -1] / math.sqrt(2)
        for s in (delta, -delta)
    )
    return float((up - down) / (2 * delta) - 1) / settings.rate


@pytest.mark.covers("E18")
@pytest.mark.parametrize("h", [0.4, 0.95, 1.05, 1.6])
def test_where_all_inputs_coincide_the_bias_grows_as_said(h: float) -> None:
    """The first order feeds a bias above 1, which is not a threshold to the second."""
    tasks = some_tasks(1, spread=0.0)
    tasks = Tasks(*(np.repeat(getattr(tasks, name), 3, axis=0) for name in
                    ("support", "support_class", "query", "query_class")))  # fmt: skip
    net = gram_net(linear.limit(D, WAYS, sigma_v=0.5, alpha=0.7))
    eps = h / bias_response(net, tasks, 1.0)[0]
    for second_order in (False, True):
        found = growth(net, tasks, Maml(eps, 1e-3, math.inf, 0.0, second_order))
        wanted = -3 * h / eps * (1 - h) ** (1 + second_order)
        assert found == pytest.approx(wanted, rel=1e-5)


@pytest.mark.covers("E18")
@pytest.mark.parametrize("sigma_v", [0.2, 0.5])
def test_the_first_order_feeds_a_bias_and_the_second_does_not(sigma_v: float) -> None:
    """Inputs that differ by a tenth of their square shift the threshold of the first order a little below 1."""
    tasks = some_tasks(80)
    net = gram_net(linear.limit(D, WAYS, sigma_v=sigma_v))
    unit = bias_response(net, tasks, 1.0)[0]
    for h in (0.3, 0.8, 1.1, 1.3, 2.5):
        first, second = (
            growth(net, tasks, Maml(h / unit, 1e-6, math.inf, 0.0, order)) / 80
            for order in (False, True)
        )
        assert first > 0.1 if h > 1 else first < -0.1
        assert second < -0.1


def test_a_bias_feeds_itself_by_the_first_order_alone() -> None:
    """Started above the threshold, clipped training by the first order makes ever more of it."""
    net = gram_net(linear.limit(D, WAYS, sigma_v=0.5))
    tasks = some_tasks(50)
    mean = np.append(tasks.query.mean((0, 1)), net.alpha)
    eps = 1.2 / bias_response(net, tasks, 1.0)[0]

    def bias(net: GramNet) -> float:
        return float(np.std(net.M @ mean))

    start = biased(net, 0.3)
    first = second = start
    for _ in range(40):
        drawn = some_tasks(16)
        first, _ = maml.step(first, drawn, Maml(eps))
        second, _ = maml.step(second, drawn, Maml(eps, second_order=True))
    assert bias(first) > 5 * bias(start)
    assert bias(second) < bias(start)
    # And what it is answered with grows along.
    assert bias_response(first, tasks, eps)[0] > bias_response(second, tasks, eps)[0] + 0.2


def test_it_depends_on_the_means_of_tasks_alone() -> None:
    tasks = some_tasks(4)
    net = linear.network(9, D, WAYS, seed=1)
    h = bias_response(net, tasks, 0.4)
    np.testing.assert_array_equal(bias_response(gram_net(net), tasks, 0.4), h)
    np.testing.assert_allclose(bias_response(net, tasks, 0.1), h / 4, rtol=1e-14)
    turned = Tasks(tasks.support[::-1, ::-1].copy(), tasks.support_class,
                   tasks.query[::-1].copy(), tasks.query_class)  # fmt: skip
    np.testing.assert_allclose(bias_response(net, turned, 0.4), h, rtol=1e-13)
    flat = replace(tasks, query=np.repeat(tasks.query.mean(1, keepdims=True), WAYS, axis=1))
    np.testing.assert_allclose(bias_response(net, flat, 0.4), h, rtol=1e-13)
    # Classes in another order.
    other = replace(net, v=net.v[[3, 0, 4, 1, 2]])
    np.testing.assert_allclose(bias_response(other, tasks, 0.4), h, rtol=1e-13)
    single = bias_response(gram_net(net, dtype=np.float32), tasks, 0.4)
    assert single.dtype == np.float64
    np.testing.assert_allclose(single, h, rtol=1e-5)


def test_bad_numbers_are_refused() -> None:
    net, tasks = linear.limit(D, WAYS), some_tasks(1)
    with pytest.raises(ValueError, match="`inner_rate` must be a number from 0 to 1e100; got nan"):
        bias_response(net, tasks, math.nan)
    with pytest.raises(ValueError, match="`tasks` must have 4 features for this net; got 6"):
        bias_response(linear.limit(4, WAYS), tasks, 0.4)
