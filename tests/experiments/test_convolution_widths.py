"""Golden, agreement: the test loss of convolutional networks against their width, and what is fitted to it."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import xarray as xr

from scalewise.experiments import convolution_widths
from scalewise.experiments.convolution_widths import coefficient_of, numbers, run, task
from scalewise.experiments.results import config_of
from scalewise.networks import Network
from scalewise.tasks import Task
from scalewise.training import GradientFlow, predict_training

SMALL = config_of("convolution_widths", "small")


@pytest.fixture(autouse=True)
def archive(monkeypatch: pytest.MonkeyPatch) -> dict[str, np.ndarray]:
    """Made-up images of two classes in place of the archive."""
    rng = np.random.default_rng(0)
    labels = rng.integers(2, size=30)
    light = 100 + 60 * labels[:, None, None, None] + 30 * rng.normal(size=(30, 32, 32, 3))
    made = {"train_images": light.clip(0, 255).astype(np.uint8), "train_labels": labels}
    monkeypatch.setattr(
        convolution_widths, "archive", lambda name, *keys: {key: made[key] for key in keys}
    )
    return made


def test_images_become_strips(archive: dict[str, np.ndarray]) -> None:
    found = task(SMALL)
    assert found.inputs.shape == (2, 3, 3)
    assert found.targets.ravel().tolist() == [-1, 1]
    assert found.test_targets is not None
    assert found.test_targets.ravel().tolist() == [-1, 1]
    # Of 32 rows 30 are in three strips.
    images = archive["train_images"] / 255
    strips = np.stack([images[:, k : k + 10].mean((1, 2)) for k in (1, 11, 21)], axis=1)
    strips = (strips - strips.mean((0, 1))) / strips.std((0, 1))
    apart = np.abs(strips[:, None] - found.inputs).max((2, 3)).min(axis=0)
    assert apart.max() < 1e-9


def test_a_coefficient_is_found_beneath_two_more_powers() -> None:
    n, rng = np.array([12.0, 16, 24, 32, 48, 64]), np.random.default_rng(1)
    beyond, sem = 0.7 / n - 3 / n**2 + 20 / n**3, 0.01 * n**-0.5
    assert coefficient_of(n, beyond, sem)[0] == pytest.approx(0.7)
    found = [coefficient_of(n, beyond + sem * rng.normal(size=6), sem) for _ in range(400)]
    values, errors = np.array(found).T
    assert values.std() == pytest.approx(errors[0], rel=0.15)


@pytest.mark.thorough("test_losses_are_held_to_the_prediction")
def test_trained_networks_have_the_predicted_loss() -> None:
    found = run(SMALL, client=0)
    assert [number.agrees for number in numbers(found)] == [True, True]
    assert float(found.measured_sem.max()) < 0.1 * float(found.leading)


def test_losses_are_held_to_the_prediction(monkeypatch: pytest.MonkeyPatch) -> None:
    """As if networks had been trained, whose losses are the predicted ones and a part of the next order."""

    way, known = GradientFlow(time=SMALL.time), []

    def predicted(net: Network, samples: Task, algorithm: GradientFlow, **given: Any) -> xr.Dataset:
        assert net == convolution_widths.network(SMALL)
        assert algorithm == way
        np.testing.assert_array_equal(samples.inputs, task(SMALL).inputs)
        known.append(predict_training(net, samples, algorithm, **given))
        return known[-1]

    def trained(net: Network, samples: Task, algorithm: GradientFlow, **given: Any) -> xr.Dataset:
        assert algorithm == way
        np.testing.assert_array_equal(samples.inputs, task(SMALL).inputs)
        n = net.widths[1]
        assert n in SMALL.widths
        loss = known[-1].test_loss + known[-1].test_loss_nlo / n + 0.3 / n**2
        return xr.Dataset({"test_loss": loss, "test_loss_sem": 0 * loss + 1e-3})

    monkeypatch.setattr(convolution_widths, "predict_training", predicted)
    monkeypatch.setattr(convolution_widths, "measure_training", trained)
    found = run(SMALL, client=0)
    assert len(known) == 1
    assert float(found.found) == pytest.approx(float(found.coefficient), abs=1e-9)
    np.testing.assert_allclose(found.measured - found.predicted, 0.3 / found.width**2, rtol=1e-6)
    assert [number.agrees for number in numbers(found)] == [True, True]
    np.testing.assert_allclose(
        found.predicted, float(found.leading) + float(found.coefficient) / found.width
    )
    assert len(convolution_widths.tables(found)[0].rows) == 5
    convolution_widths.figure(found)
    found["found"] = found.coefficient + 5 * np.hypot(found.found_sem, found.coefficient_error)
    assert [number.agrees for number in numbers(found)] == [False, True]


def test_few_widths_are_refused() -> None:
    with pytest.raises(
        ValueError, match=r"`Config.widths` must be more than 3, .* got \(8, 16, 32\)"
    ):
        run(replace(SMALL, widths=(8, 16, 32)))
