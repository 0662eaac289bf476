"""Golden, property: the convolutional NTK of few images, against its published recursion, and its error."""

from dataclasses import replace

import numpy as np
import pytest
import xarray as xr

from scalewise.experiments import small_cifar10
from scalewise.experiments.results import config_of
from scalewise.experiments.small_cifar10 import accuracies, network, numbers, pool, run
from scalewise.training import kernel_of
from scalewise.training.kernels import kernel_machine

SMALL = config_of("small_cifar10", "small")


@pytest.fixture(autouse=True)
def archive(monkeypatch: pytest.MonkeyPatch) -> tuple[np.ndarray, np.ndarray]:
    """Images of ten classes that each have something in common, in place of the archive."""
    rng = np.random.default_rng(0)
    shared = rng.normal(size=(10, 8, 8, 3)).repeat(4, axis=1).repeat(4, axis=2)
    labels = rng.permutation(np.arange(130) % 10)
    light = 128 + 40 * shared[labels] + 20 * rng.normal(size=(130, 32, 32, 3))
    made = light.clip(0, 255).astype(np.uint8), labels
    held = dict(zip(("images", "labels"), made, strict=True))
    monkeypatch.setattr(small_cifar10, "archive", lambda name, *keys: held)
    return made


def windows(s: np.ndarray) -> np.ndarray:
    """Sums over nine taps at both places at once, of (row, column, row', column'), zeros beyond the borders."""
    padded, side = np.pad(s, 1), len(s)
    taps = [(i, j) for i in range(3) for j in range(3)]
    parts = [padded[i : i + side, j : j + side, i : i + side, j : j + side] for i, j in taps]
    return np.sum(parts, axis=0)


def published(x: np.ndarray, z: np.ndarray, depth: int) -> float:
    """The recursion of arXiv:1904.11955, section 4, with the first and the last layer fixed."""

    def step(s: np.ndarray, root: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        c = np.clip(s / root, -1, 1)
        value = (c * (np.pi - np.arccos(c)) + np.sqrt(1 - c**2)) * root / (9 * np.pi)
        return value, (np.pi - np.arccos(c)) / (9 * np.pi)

    def metrics(a: np.ndarray, b: np.ndarray) -> np.ndarray:
        return windows(np.einsum("ijc,klc->ijkl", a, b))

    s, own, other = metrics(x, z), metrics(x, x), metrics(z, z)
    t = np.zeros_like(s)
    for layer in range(1, depth):
        sizes = [np.einsum("ijij->ij", m) for m in (own, other)]
        root = np.sqrt(sizes[0][:, :, None, None] * sizes[1])
        value, slope = step(s, root)
        roots = [np.sqrt(a[:, :, None, None] * a) for a in sizes]
        own, other = (step(m, r)[0] for m, r in zip((own, other), roots, strict=True))
        if layer == depth - 1:
            return float((t * slope).mean())
        s, t = windows(value), windows(t * slope + value)
        own, other = windows(own), windows(other)
    raise AssertionError


def test_the_kernel_is_the_published_one() -> None:
    x, _ = pool(SMALL)
    for depth in (3, 5):
        found = kernel_of(network(replace(SMALL, depth=depth)), kind="ntk")(x[:3])
        wanted = np.array([[published(a, b, depth) for a in x[:3]] for b in x[:3]])
        np.testing.assert_allclose(found / found[0, 0], wanted / wanted[0, 0], rtol=1e-9)


def test_draws_are_balanced_and_predicted_without_a_ridge() -> None:
    """Of a pool with three of each class every draw of ten has one of each, and its tests are the others."""
    rng = np.random.default_rng(1)
    features = rng.normal(size=(30, 40))
    kernel = features @ features.T
    found = accuracies(kernel, 10, 5, np.random.default_rng(3))
    order = np.random.default_rng(3).random((5, 10, 3)).argsort(axis=-1)
    wanted = []
    for draw in order:
        train = 10 * draw[:, 0] + np.arange(10)
        test = np.setdiff1d(np.arange(30), train)
        targets = np.eye(10)[train % 10] - 0.1
        told = kernel_machine(kernel[np.ix_(train, train)], kernel[np.ix_(test, train)], targets)
        wanted.append(np.mean(told.argmax(axis=1) == test % 10))
    np.testing.assert_allclose(found, wanted)
    # What tells nothing of the classes is right once in ten.
    features = rng.normal(size=(200, 400))
    chance = accuracies(features @ features.T, 20, 400, rng)
    assert chance.mean() == pytest.approx(0.1, abs=0.03)


def test_the_error_covers_the_scatter_of_pools() -> None:
    """Pools of other images scatter as the jackknife says, which may be too large and not much too small."""
    config = replace(SMALL, each=5, draws=200)
    rng, found = np.random.default_rng(2), []
    means = rng.normal(size=(10, 6))
    for _ in range(40):
        x = np.tile(means, (5, 1)) + 2 * rng.normal(size=(50, 6))
        kernel = x @ x.T + np.eye(50)
        found.append(small_cifar10._estimate(kernel, 10, config)[:2])
    values, errors = np.array(found).T
    assert 0.9 < np.sqrt((errors**2).mean()) / values.std() < 2.0


def test_a_smaller_pool_is_the_beginning_of_a_larger_one() -> None:
    (small, few), (large, more) = pool(SMALL), pool(replace(SMALL, each=12))
    np.testing.assert_array_equal(small, large[:40])
    assert few.tolist() == more[:40].tolist() == [*range(10)] * 4


def test_few_images_are_told_apart() -> None:
    found = run(SMALL, client=0)
    assert float(found.accuracy.min()) > 30
    assert [number.agrees for number in numbers(found)] == [True]
    one = found.assign_attrs(side=32)
    one["accuracy"] = one.published + xr.DataArray([0.0, 30.0], dims="count")
    one["accuracy_sem"] = 0 * one.published + 1.0
    assert [number.agrees for number in numbers(one)] == [True, False]
    assert numbers(one)[0].sem == pytest.approx(np.hypot(1, 2.43 / 10**0.5))
    assert len(small_cifar10.tables(one)[0].rows) == 2
    small_cifar10.figure(one)


@pytest.mark.parametrize(
    ("wrong", "told"),
    [
        ({"counts": (15,)}, "multiples of 10 below 30, the pool of `each`=4 .* got 15"),
        ({"counts": (30,)}, "below 30, .* got 30"),
        ({"each": 13}, "`Config.each` must be at most 12; got 13"),
        ({"side": 5}, "`Config.side` must divide 32; got 5"),
    ],
)
def test_settings_that_do_not_fit_are_refused(wrong: dict, told: str) -> None:
    with pytest.raises(ValueError, match=told):
        run(replace(SMALL, **wrong), client=0)
