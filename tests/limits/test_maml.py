"""Golden, property and agreement tests: meta-learning of linear networks, all tasks at once."""

import math
from dataclasses import replace

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from refusals import unlike
from scalewise.limits import SGD, linear, maml
from scalewise.limits.linear import LinearNet
from scalewise.limits.maml import Maml, Tasks, accuracies, adapted_outputs, gram_net

RNG = np.random.default_rng(0)
WAYS, SHOTS, QUERIES, D = 4, 4, 5, 6


def some_tasks(count: int = 3) -> Tasks:
    classes = np.tile(np.arange(WAYS), (count, 1))
    x = RNG.normal(size=(count, SHOTS + QUERIES, D))
    return Tasks(x[:, :SHOTS], classes, x[:, SHOTS:], RNG.integers(0, WAYS, (count, QUERIES)))


TASKS = some_tasks()


def some_net(alpha: float = 0.7) -> LinearNet:
    net = linear.network(9, D, WAYS, alpha=alpha, seed=3)
    return replace(net, b=RNG.normal(size=9) if alpha else net.b)


def weights(net: LinearNet) -> tuple:
    return net.u, net.v, net.b / net.alpha


def meta_gradient(net: LinearNet, tasks: Tasks, inner_rate: float, second_order: bool):
    """Mean loss and gradient of the sum over tasks, from the definition by autodiff."""

    def loss(theta, x, y):
        u, v, beta = theta
        logs = jax.nn.log_softmax((x @ u.T + net.alpha * beta) @ v.T)
        return -jnp.mean(jnp.take_along_axis(logs, y[:, None], 1))

    def total(theta):
        value = 0.0
        for x, y, x_hat, y_hat in zip(
            tasks.support, tasks.support_class, tasks.query, tasks.query_class, strict=True
        ):
            g = jax.grad(loss)(theta, x, y)
            g = g if second_order else jax.lax.stop_gradient(g)
            adapted = jax.tree.map(lambda p, q: p - inner_rate * q, theta, g)
            value += loss(adapted, x_hat, y_hat)
        return value

    with jax.enable_x64(True):
        value, grads = jax.jit(jax.value_and_grad(total))(weights(net))
        return float(value) / len(tasks.support), [np.asarray(g) for g in grads]


@pytest.mark.covers("E18")
@pytest.mark.parametrize("second_order", [False, True])
def test_a_meta_step_is_the_clipped_gradient_of_the_definition(second_order: bool) -> None:
    net = some_net()
    value, grads = meta_gradient(net, TASKS, 0.4, second_order)
    norm = math.sqrt(sum((g**2).sum() for g in grads))
    for clip in (1e9, 0.9 * norm, 1.1 * norm, 0.2):
        settings = Maml(0.4, 0.1, clip, 0.3, second_order)
        found, mean_loss = maml.step(gram_net(net), TASKS, settings)
        rho = 0.1 * min(1, clip / norm)
        u, v, beta = (
            (1 - 0.1 * 0.3) * p - rho * g for p, g in zip(weights(net), grads, strict=True)
        )
        wanted = gram_net(LinearNet(u, v, net.alpha * beta, net.alpha))
        assert mean_loss == pytest.approx(value, rel=1e-13)
        # The network itself, without its products, takes the same step.
        itself, own_loss = maml.step(net, TASKS, settings)
        assert own_loss == pytest.approx(value, rel=1e-13)
        for name in ("M", "A", "C"):
            np.testing.assert_allclose(getattr(found, name), getattr(wanted, name), atol=1e-13)
        for part, exact in zip(weights(itself), (u, v, beta), strict=True):
            np.testing.assert_allclose(part, exact, atol=1e-13)


@pytest.mark.covers("E18")
def test_twenty_steps_of_adaptation_are_twenty_steps_of_the_algorithm() -> None:
    net = some_net()
    found = adapted_outputs(gram_net(net), TASKS, steps=20, inner_rate=0.4)
    for i, y in enumerate(TASKS.support_class):
        adapted = net
        for _ in range(20):
            rows = np.eye(WAYS)[y]
            adapted, _ = linear.step(
                adapted, TASKS.support[i], rows, SGD(0.4), loss="cross_entropy"
            )
        np.testing.assert_allclose(found[i], linear.outputs(adapted, TASKS.query[i]), atol=1e-12)


def test_no_adaptation_and_no_bias() -> None:
    net = some_net(alpha=0.0)
    gram = gram_net(net)
    np.testing.assert_array_equal(gram.C[-1], 0)
    found = adapted_outputs(gram, TASKS, steps=0)
    for i in range(3):
        np.testing.assert_allclose(found[i], linear.outputs(net, TASKS.query[i]), atol=1e-13)
    # Without a step inside, meta-learning is learning from all queries at once.
    new, _ = maml.step(gram, TASKS, Maml(0.0, 0.1, 1e9))
    x, y = TASKS.query.reshape(-1, D), TASKS.query_class.ravel()
    same, _ = linear.step(net, x, np.eye(WAYS)[y], SGD(0.3), loss="cross_entropy")
    np.testing.assert_allclose(new.M, gram_net(same).M, atol=1e-13)
    itself, _ = maml.step(net, TASKS, Maml(0.0, 0.1, 1e9))
    np.testing.assert_array_equal(itself.b, 0)
    np.testing.assert_allclose(itself.u, same.u, atol=1e-13)


def test_products_that_no_network_has_are_refused() -> None:
    """A narrow network keeps learning by its weights where its products are lost to rounding."""
    net = linear.network(2, D, WAYS, seed=1)
    gram = gram_net(net)
    spoilt = replace(gram, A=gram.A - 3 * np.eye(WAYS), C=gram.C - 3 * np.eye(D + 1))
    with pytest.raises(ValueError, match=r"products `M`, `A`, `C` that no network has. Give"):
        maml.step(spoilt, TASKS, Maml())
    for _ in range(300):
        net, _ = maml.step(net, some_tasks(4), Maml(rate=0.3))
    assert np.linalg.matrix_rank(gram_net(net).C) == 2
    for one in (net, gram_net(net)):
        np.testing.assert_array_equal(
            adapted_outputs(one, TASKS), adapted_outputs(gram_net(net), TASKS)
        )


def test_order_of_tasks_does_not_matter() -> None:
    turned = Tasks(*(getattr(TASKS, name)[::-1].copy() for name in
                     ("support", "support_class", "query", "query_class")))  # fmt: skip
    gram = gram_net(some_net())
    for second_order in (False, True):
        settings = Maml(second_order=second_order)
        one, other = maml.step(gram, TASKS, settings)[0], maml.step(gram, turned, settings)[0]
        np.testing.assert_allclose(one.C, other.C, atol=1e-13)


def meta_trained(net: LinearNet, batches: list[Tasks]) -> np.ndarray:
    gram = gram_net(net)
    for tasks in batches:
        gram, _ = maml.step(gram, tasks, Maml(rate=0.2))
    return adapted_outputs(gram, TASKS)


@pytest.mark.covers("E18")
def test_wide_networks_meta_learn_like_the_limit() -> None:
    batches = [some_tasks(8) for _ in range(15)]
    limit = linear.limit(D, WAYS, sigma_v=0.25)
    wanted = meta_trained(limit, batches)
    assert np.abs(wanted).max() > 0.5
    gaps = []
    for n in (64, 1024, 16384):
        runs = [meta_trained(linear.sample(limit, n, seed=s), batches) for s in range(8)]
        gaps.append(np.sqrt(np.mean((np.array(runs) - wanted) ** 2)))
    slope = np.polyfit(np.log([64, 1024, 16384]), np.log(gaps), 1)[0]
    assert slope == pytest.approx(-0.5, abs=0.12)
    assert gaps[-1] < 0.02


def test_single_precision_is_enough() -> None:
    batches = [some_tasks(8) for _ in range(30)]
    limit = linear.limit(D, WAYS, sigma_v=0.25)
    exact, single = gram_net(limit), gram_net(limit, dtype=np.float32)
    for tasks in batches:
        exact, _ = maml.step(exact, tasks, Maml())
        single, _ = maml.step(single, tasks, Maml())
    assert single.C.dtype == np.float32
    np.testing.assert_allclose(single.C, exact.C, rtol=0, atol=3e-5)
    np.testing.assert_allclose(
        adapted_outputs(single, TASKS), adapted_outputs(exact, TASKS), rtol=0, atol=1e-4
    )


def test_meta_learning_learns_what_the_tasks_share() -> None:
    """Classes differ in one direction of six: the loss after adaptation falls below that of the start."""
    rng = np.random.default_rng(5)

    def drawn(count: int) -> Tasks:
        means = np.zeros((count, WAYS, D))
        means[..., 0] = 2.5 * rng.permuted(np.tile(np.arange(WAYS) - 1.5, (count, 1)), axis=1)
        support, query = means + rng.normal(size=(2, *means.shape))
        classes = np.tile(np.arange(WAYS), (count, 1))
        return Tasks(support, classes, query, classes)

    net = gram_net(linear.limit(D, WAYS, sigma_v=0.1))
    before = drawn(2000)
    first = accuracies(adapted_outputs(net, before), before.query_class)
    for _ in range(150):
        net, _ = maml.step(net, drawn(16), Maml())
    last = accuracies(adapted_outputs(net, before), before.query_class)
    assert last.mean() > first.mean() + 4 * (last - first).std() / 2000**0.5
    assert net.C[0, 0] > 2 * np.diag(net.C)[1:D].max()


REFUSED = [
    (
        lambda: Maml(inner_rate=-0.1),
        "`Maml.inner_rate` must be a number from 0 to 1e100; got -0.1",
    ),
    (lambda: Maml(rate=math.inf), "`Maml.rate` must be a number from 0 to 1e100; got inf"),
    (
        lambda: Maml(clip=0.0),
        "`Maml.clip` must be a positive number",
    ),
    (
        lambda: Tasks(TASKS.support, TASKS.support_class, TASKS.query[:2], TASKS.query_class),
        "`Tasks` needs inputs .*the same numbers of tasks",
    ),
    (
        lambda: maml.step(gram_net(linear.limit(5, WAYS)), TASKS, Maml()),
        "`tasks` must have 5 features for this net; got 6",
    ),
    (
        lambda: maml.step(gram_net(linear.limit(D, 2)), TASKS, Maml()),
        "`y` must hold classes from 0 to 1; got 0 to 3",
    ),
    (
        lambda: adapted_outputs(gram_net(some_net()), TASKS, steps=-1),
        "`steps` must be a whole number of at least 0; got -1",
    ),
    (
        lambda: adapted_outputs(gram_net(some_net()), TASKS, steps=30, inner_rate=1e30),
        "Adaptation diverged within 30 steps: .*Lower `inner_rate`, which is 1e",
    ),
    (
        lambda: maml.step(gram_net(some_net(), dtype=np.float32), TASKS, Maml(inner_rate=1e30)),
        "`maml.step` diverged: .*Lower `Maml.rate`",
    ),
]


def test_bad_numbers_are_refused() -> None:
    assert unlike(REFUSED) == []
