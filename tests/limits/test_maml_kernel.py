"""Golden, property and agreement tests: Algorithm 4, the kernels of wide ReLU nets, growing arrays."""

import math

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from refusals import unlike
from scalewise.limits import maml
from scalewise.limits.maml import (
    Maml,
    ReluGP,
    ReluNTK,
    Tasks,
    kernel_adapted_outputs,
    kernel_model,
    kernel_outputs,
)
from scalewise.tasks._losses import LOSSES

RNG = np.random.default_rng(0)
WAYS, D, FEATURES = 3, 5, 11
ENTROPY = LOSSES["cross_entropy"]
MIX = RNG.normal(size=(D, FEATURES))


def phi(x: np.ndarray) -> np.ndarray:
    return np.tanh(x @ MIX)


def kernel(x: np.ndarray, y: np.ndarray) -> np.ndarray:
    return phi(x) @ phi(y).swapaxes(-1, -2)


def some_tasks(count: int) -> Tasks:
    x = RNG.normal(size=(count, 7, D))
    classes = RNG.integers(0, WAYS, (count, 7))
    return Tasks(x[:, :3], classes[:, :3], x[:, 3:], classes[:, 3:])


BATCHES = [some_tasks(4) for _ in range(6)]
TEST = some_tasks(5)


def explicit(batches: list[Tasks], settings: Maml, batched: bool) -> np.ndarray:
    """The linear layer itself, trained on the features: W, (feature, class)."""
    W = np.zeros((FEATURES, WAYS))

    def gradient(V, x, y):
        return phi(x).T @ ENTROPY.slopes(phi(x) @ V, np.eye(WAYS)[y])

    for tasks in batches:
        total = np.zeros_like(W)
        for i in range(len(tasks.support)):
            V = W - settings.inner_rate * gradient(W, tasks.support[i], tasks.support_class[i])
            g = gradient(V, tasks.query[i], tasks.query_class[i])
            if batched:
                total += g
            else:
                W = W - settings.rate * min(1, settings.clip / np.linalg.norm(g)) * g
        if batched:
            W = W - settings.rate * min(1, settings.clip / np.linalg.norm(total)) * total
    return W


@pytest.mark.covers("E17")
@pytest.mark.parametrize("batched", [True, False])
def test_algorithm_4_is_training_of_explicit_features(batched: bool) -> None:
    settings = Maml(rate=0.3, clip=1.0)
    model = kernel_model(kernel, D, WAYS)
    for tasks in BATCHES:
        model, _ = maml.kernel_step(model, tasks, settings, batched=batched)
    assert model.count == 6 * 4 * 4
    W = explicit(BATCHES, settings, batched)
    other = explicit(BATCHES, settings, not batched)
    x = TEST.query.reshape(-1, D)
    np.testing.assert_allclose(kernel_outputs(model, x), phi(x) @ W, rtol=0, atol=2e-14)
    assert np.abs(phi(x) @ (W - other)).max() > 0.05


@pytest.mark.covers("E17")
def test_adaptation_is_that_of_explicit_features() -> None:
    settings = Maml(rate=0.3, clip=1.0)
    model = kernel_model(kernel, D, WAYS)
    for tasks in BATCHES:
        model, _ = maml.kernel_step(model, tasks, settings)
    found = kernel_adapted_outputs(model, TEST, steps=20, inner_rate=0.3)
    for i in range(5):
        V, x, y = explicit(BATCHES, settings, True), TEST.support[i], TEST.support_class[i]
        for _ in range(20):
            V = V - 0.3 * phi(x).T @ ENTROPY.slopes(phi(x) @ V, np.eye(WAYS)[y])
        np.testing.assert_allclose(found[i], phi(TEST.query[i]) @ V, rtol=0, atol=1e-13)
    assert model.count == 96  # pushed and popped


def test_loss_of_a_step_and_decay() -> None:
    model, value = maml.kernel_step(kernel_model(kernel, D, WAYS), BATCHES[0], Maml())
    F = kernel_adapted_outputs(kernel_model(kernel, D, WAYS), BATCHES[0], steps=1)
    assert value == pytest.approx(
        ENTROPY.values(F, np.eye(WAYS)[BATCHES[0].query_class]).mean(), rel=1e-14
    )
    plain, _ = maml.kernel_step(model, BATCHES[1], Maml())
    decayed, _ = maml.kernel_step(model, BATCHES[1], Maml(weight_decay=0.5))
    np.testing.assert_allclose(decayed.q[:16], 0.95 * plain.q[:16], rtol=1e-14)
    np.testing.assert_allclose(decayed.q[16:], plain.q[16:], rtol=1e-14)


def test_a_model_is_not_changed_by_what_grows_from_it() -> None:
    """Arrays are shared: two continuations of one model must not write over each other."""
    model, _ = maml.kernel_step(kernel_model(kernel, D, WAYS), BATCHES[0], Maml())
    kept = model.x.copy(), model.q.copy()
    one, _ = maml.kernel_step(model, BATCHES[1], Maml())
    rows = one.x.copy()
    other, _ = maml.kernel_step(model, BATCHES[2], Maml())
    np.testing.assert_array_equal(one.x, rows)
    assert np.any(other.x != one.x)
    np.testing.assert_array_equal(model.x, kept[0])
    np.testing.assert_array_equal(model.q, kept[1])
    for tasks in BATCHES * 5:
        other, _ = maml.kernel_step(other, tasks, Maml())
    assert other.count == 32 * 16
    np.testing.assert_array_equal(other.x[:16], kept[0])


@pytest.mark.covers("E17")
@pytest.mark.parametrize("sigmas", [(1.0, 0.7, 0.5), (0.4, 1.3, 0.0)])
def test_kernels_are_those_of_wide_networks(sigmas: tuple[float, float, float]) -> None:
    """Products of last features, and of gradients, of one ReLU net with a million hidden units."""
    sigma_u, sigma_v, sigma_b = sigmas
    n = 400_000
    x = np.array([[0.3, -1.0, 0.4], [1.0, 0.2, 0.0], [0.3, -1.0, 0.5]])
    rng = np.random.default_rng(2)
    h = sigma_u * rng.normal(size=(n, 3)) @ x.T + sigma_b * rng.normal(size=(n, 1))
    v = sigma_v * rng.normal(size=(n, 1))
    each = np.maximum(h, 0)[:, :, None] * np.maximum(h, 0)[:, None]
    on = (h > 0)[:, :, None] & (h > 0)[:, None]
    tangent = each + (v**2)[..., None] * (x @ x.T + 1) * on
    for kernel_of, draws in (
        (ReluGP(sigma_u, sigma_b), each),
        (ReluNTK(sigma_u, sigma_v, sigma_b), tangent),
    ):
        found = kernel_of(x, x)
        sem = draws.std(0) / math.sqrt(n)
        assert np.all(np.abs(found - draws.mean(0)) < 4.5 * sem)
        np.testing.assert_allclose(found, found.T, rtol=1e-14)
        assert np.linalg.eigvalsh(found).min() > 0


@pytest.mark.covers("E17")
def test_the_tangent_kernel_counts_the_gradients_of_weights_and_biases() -> None:
    x = np.array([[0.3, -1.0], [1.0, 0.2]])
    n, rng = 50, np.random.default_rng(3)
    U, B = 0.8 * rng.normal(size=(n, 2)), 0.5 * rng.normal(size=n)
    v = rng.normal(size=n)

    def f(theta, one):
        return theta[2] @ jax.nn.relu(theta[0] @ one + theta[1]) / jnp.sqrt(n)

    with jax.enable_x64(True):
        slope = jax.jit(jax.grad(f))
        rows = [jax.tree.leaves(slope((U, B, v), one)) for one in x]
    flat = np.array([np.concatenate([np.ravel(g) for g in row]) for row in rows])
    h = U @ x.T + B[:, None]
    on = (h > 0).astype(float)
    wanted = (np.maximum(h, 0).T @ np.maximum(h, 0)) / n
    wanted += (x @ x.T + 1) * ((on * v[:, None] ** 2).T @ on) / n
    np.testing.assert_allclose(flat @ flat.T, wanted, rtol=1e-12)


def test_kernels_keep_axes_in_front_apart_and_survive_zero() -> None:
    x = RNG.normal(size=(3, 4, D))
    for one in (ReluGP(1.0, 0.5), ReluNTK(1.0, 1.0, 0.0)):
        np.testing.assert_allclose(one(x, x)[1], one(x[1], x[1]), rtol=1e-14)
        assert np.isfinite(one(np.zeros((2, D)), x[0])).all()
    twice = np.repeat(x[0, :1], 2, axis=0)
    assert ReluGP(1.0, 0.0)(twice, twice)[0, 1] == pytest.approx((x[0, 0] ** 2).sum() / 2)


def test_many_stored_examples_in_tiles() -> None:
    model = kernel_model(kernel, D, WAYS)
    many = some_tasks(1400)
    model, _ = maml.kernel_step(model, many, Maml())
    assert model.count == 5600
    x = TEST.query.reshape(-1, D)
    whole = kernel(x, model.x) @ model.q
    np.testing.assert_allclose(kernel_outputs(model, x), whole, rtol=0, atol=1e-13)


REFUSED = [
    (lambda: ReluGP(-1.0), "`ReluGP.sigma_u` must be a finite number of at least 0; got -1.0"),
    (lambda: ReluNTK(sigma_b=math.nan), "`ReluNTK.sigma_b` must be a finite number of at least 0"),
    (lambda: kernel_model(kernel, 0, 3), "`inputs` must be a whole number of at least 1; got 0"),
    (
        lambda: kernel_outputs(kernel_model(kernel, D, WAYS), np.ones((2, D + 1))),
        "`x` must have 5 features for this model; got 6",
    ),
    (
        lambda: kernel_model(kernel, D, WAYS).extended(np.ones((3, D)), np.ones((2, WAYS))),
        "`x` and `q` must be equally many rows of 5 and 3 numbers",
    ),
    (
        lambda: kernel_adapted_outputs(kernel_model(kernel, D, WAYS), TEST, steps=-2),
        "`steps` must be a whole number of at least 0; got -2",
    ),
    (
        lambda: maml.kernel_step(kernel_model(kernel, D, WAYS), TEST, Maml(second_order=True)),
        "`maml.kernel_step` is Algorithm 4, which is first order",
    ),
]


def test_bad_numbers_are_refused() -> None:
    assert unlike(REFUSED) == []
