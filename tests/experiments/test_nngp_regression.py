"""Golden, property: regression with infinitely wide networks against formulas, and the table of its program."""

from dataclasses import replace

import numpy as np
import pytest
import xarray as xr

from scalewise.experiments import _lookup_kernels, nngp_regression
from scalewise.experiments._lookup_kernels import lookup_kernel, tabulated
from scalewise.experiments.nngp_regression import ROWS, normed, numbers, run
from scalewise.experiments.results import config_of
from scalewise.networks import MLP
from scalewise.training import kernel_of

SMALL = config_of("nngp_regression", "small")


def images(rng: np.random.Generator, labels: np.ndarray) -> np.ndarray:
    """Of ten classes that each have something in common."""
    shared = np.random.default_rng(5).normal(size=(10, 8, 8))
    light = 128 + 40 * shared[labels] + 60 * rng.normal(size=(len(labels), 8, 8))
    return light.clip(0, 255).astype(np.uint8)


@pytest.fixture(autouse=True)
def archive(monkeypatch: pytest.MonkeyPatch) -> dict[str, dict[str, np.ndarray]]:
    """Made-up images in place of both archives; the first ten thousand digits are for validation."""
    rng = np.random.default_rng(0)
    train, test, few = (rng.integers(10, size=n) for n in (12_000, 1000, 500))
    digits = {"train_labels": train, "test_labels": test}
    digits |= {"train_images": images(rng, train), "test_images": images(rng, test)}
    made = {"mnist": digits, "cifar10_small": {"labels": few, "images": images(rng, few)}}
    monkeypatch.setattr(nngp_regression, "archive", lambda name: made[name.removesuffix(".npz")])
    return made


def test_a_subset_is_balanced_and_the_first_is_the_published_one(archive: dict) -> None:
    row, labels = ROWS["MNIST 1k, ReLU"], archive["mnist"]["train_labels"]
    x, classes, y, truth = nngp_regression.images(row, 0, SMALL)
    assert np.bincount(classes).tolist() == [10] * 10
    assert (len(y), len(truth)) == (1000, 1000)
    for k in range(10):
        first = 10_000 + np.flatnonzero(labels[10_000:] == k)[:10]
        wanted = normed(archive["mnist"]["train_images"][first])
        np.testing.assert_array_equal(x[classes == k], wanted)
    others = [nngp_regression.images(row, draw, SMALL)[0] for draw in (1, 2, 1)]
    np.testing.assert_array_equal(others[0], others[2])
    assert not np.array_equal(others[0], others[1])
    np.testing.assert_allclose((x**2).mean(axis=1), 1)
    np.testing.assert_allclose(x.mean(axis=1), 0, atol=1e-12)
    # Pictures for tests are none of those for training.
    x, classes, y, truth = nngp_regression.images(ROWS["CIFAR 1k, tanh"], 1, SMALL)
    assert (len(x), len(y)) == (100, 300)
    assert not (x[:, None] == y).all(axis=-1).any()


def exact(c: np.ndarray, size: float) -> np.ndarray:
    """The mean of a product of two ReLU."""
    return size * (np.sqrt(1 - c**2) + c * (np.pi - np.arccos(c))) / (2 * np.pi)


def test_accuracies_are_those_of_bare_formulas() -> None:
    row = ROWS["MNIST 1k, ReLU"]
    found = nngp_regression._accuracy(("MNIST 1k, ReLU", 1), config=SMALL)
    x, labels, y, truth = nngp_regression.images(row, 1, SMALL)

    def kernel(a: np.ndarray) -> np.ndarray:
        size, k = row.C_W + row.C_b, row.C_b + row.C_W * (a @ x.T) / x.shape[1]
        for _ in range(row.depth):
            k = row.C_b + row.C_W * exact((k / size).clip(-1, 1), size)
            size = row.C_b + row.C_W * size / 2
        return k

    targets = np.where(labels[:, None] == np.arange(10), 0.9, -0.1)
    told = (kernel(y) @ np.linalg.solve(kernel(x), targets)).argmax(axis=1)
    assert float(found.accuracy) == pytest.approx(np.mean(told == truth), abs=0.002)
    assert float(found.accuracy) > 0.5
    assert np.isnan(found.table)


@pytest.mark.parametrize("activation", ["relu", "tanh"])
def test_the_table_is_near_the_exact_kernel(
    activation: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of few points, for speed; they are enough for this activation."""
    monkeypatch.setattr(_lookup_kernels, "_POINTS", np.linspace(-10, 10, 101))
    tabulated.cache_clear()
    rng = np.random.default_rng(1)
    x = normed(rng.normal(size=(6, 30)))
    net = MLP(4, 10, activation, input_dim=30, output_dim=1, C_W=1.4, C_b=0.2)
    found = lookup_kernel(x, x[:3], activation, 3, 1.4, 0.2)
    wanted = kernel_of(net)(x, x[:3])
    tabulated.cache_clear()
    np.testing.assert_allclose(found, wanted, rtol=5e-3)


def test_the_table_ends_before_equal_inputs(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_lookup_kernels, "_POINTS", np.linspace(-10, 10, 51))
    tabulated.cache_clear()
    x = np.array([[1.0, 0.0], [1 - 4e-6, 8e-6**0.5], [1 - 4e-5, 8e-5**0.5]]) * 2**0.5
    found = lookup_kernel(x, x[:1], "tanh", 1, 1.0, 0.0).ravel()
    tabulated.cache_clear()
    assert found[0] == found[1]
    assert found[2] < found[0]


def test_a_kernel_that_is_not_positive_is_given_more_noise() -> None:
    K = np.array([[1.0, 1.0 + 2e-6], [1.0 + 2e-6, 1.0]])
    found = nngp_regression.noisy_solve(K, np.array([[1.0], [1.0]]))
    # 1e-5 is the first power of ten, from 1e-10 on, that makes it positive.
    np.testing.assert_allclose(found, 1 / (2 + 2e-6 + 1e-5), rtol=1e-6)


def test_a_small_run_and_what_is_held_to_the_published_numbers(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(_lookup_kernels, "_POINTS", np.linspace(-10, 10, 51))
    tabulated.cache_clear()
    found = run(replace(SMALL, rows=("MNIST 1k, ReLU", "CIFAR 1k, ReLU")), client=0)
    tabulated.cache_clear()
    assert [number.agrees for number in numbers(found)] == [True]
    assert float(found.accuracy.min()) > 0.5
    one = found.assign_attrs(fewer=1)
    one["table"], one["accuracy"] = ("row", [0.9278, np.nan]), ("row", [0.92, 0.5])
    one["sem"] = ("row", [0.003, 0.01])
    assert [number.agrees for number in numbers(one)] == [True, True, False]
    one["table"] = ("row", [0.9250, np.nan])
    assert [number.agrees for number in numbers(one)] == [False, True, False]
    nngp_regression.figure(one)
    assert len(nngp_regression.tables(one)[0].rows) == 2


def test_the_error_of_a_row_is_that_of_both_numbers() -> None:
    cells = xr.Dataset({"accuracy": ("draw", [0.5, 0.90, 0.94]), "table": ("draw", [0.1, 9, 9])})
    published, same, table, mean, spread, sem = nngp_regression._judged(
        "MNIST 1k, ReLU", cells, SMALL
    )
    assert (published, same, table, mean) == (0.9279, 0.5, 0.1, pytest.approx(0.92))
    assert spread == pytest.approx(0.04 / 2**0.5)
    assert sem == pytest.approx(spread * 1.5**0.5)
    alone = nngp_regression._judged("MNIST 10k, tanh", cells.isel(draw=[0]), SMALL)
    assert alone[:3] == (0.9773, 0.5, 0.1)
    assert np.isnan(alone[3:]).all()
    # Other tests than the published ones: theirs are 10,000, ours 300 here.
    sem = nngp_regression._judged("CIFAR 1k, ReLU", cells, SMALL)[-1]
    assert sem**2 == pytest.approx(1.5 * spread**2 + 0.92 * 0.08 * (1 / 300 + 1e-4))
