"""Agreement and property tests: a comparison of limits with bare networks, and resumed where it was stopped."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import xarray as xr

from scalewise.experiments import cifar2_batches, cifar2_limits
from scalewise.experiments.cifar2_limits import Config, numbers, run
from scalewise.limits import shallow

TINY = Config(samples=8, tests=6, width=16, seeds=4, steps=6, records=4, reference_width=8)


@pytest.fixture(autouse=True)
def archive(monkeypatch: pytest.MonkeyPatch) -> dict[str, np.ndarray]:
    """Images of two classes that each have something in common, in place of the archive."""
    rng = np.random.default_rng(0)
    shared = rng.normal(size=(2, 8, 8, 3)).repeat(4, axis=1).repeat(4, axis=2)
    made = {}
    for part, count in (("train", 40), ("test", 30)):
        classes = rng.integers(2, size=count)
        light = 128 + 40 * shared[classes] + 40 * rng.normal(size=(count, 32, 32, 3))
        made[f"{part}_images"] = light.clip(0, 255).astype(np.uint8)
        made[f"{part}_labels"] = classes
    monkeypatch.setattr(cifar2_limits, "archive", lambda name: made)
    return made


def test_a_stopped_run_goes_on_behind_the_last_network(tmp_path: Path) -> None:
    whole = run(TINY)
    store = tmp_path / "cifar2"

    def stop(done: int, total: int) -> None:
        assert total == 4 * TINY.seeds
        if done == 7:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        run(TINY, store=store, progress=stop)
    seen: list[int] = []
    again = run(TINY, store=store, progress=lambda done, _: seen.append(done))
    assert seen == list(range(7, 1 + 4 * TINY.seeds))
    xr.testing.assert_identical(again, whole)
    with pytest.raises(ValueError, match=r"other arguments \(config.rate: 0.02 there, 0.03 here\)"):
        run(replace(TINY, rate=0.03), store=store)


def test_each_model_has_its_own_start() -> None:
    found = run(TINY)
    first = found.isel(step=0)
    assert float(first.size.sel(model="MF")) < 0.9 * float(first.size.sel(model="IC-MF"))
    # The corrected mean field starts as neural-tangent networks of its width do, sym-default too.
    assert float(first.divergence.sel(limit="sym-default")) == pytest.approx(
        float(first.divergence.sel(limit="IC-MF")), rel=1e-4
    )
    assert found.kernel.sel(model="NTK").values == pytest.approx(1.0)
    assert [*found.limit.values] == list(cifar2_limits.LIMITS)


def pixels_of(config: Config) -> tuple[list[np.ndarray], list[np.ndarray]]:
    """Images as a library's user has them: of mean 0 and size 1, for training and for tests."""
    task, test_labels = cifar2_limits._images(config)
    root = 3072**0.5 * 3**0.5
    return [task.inputs * root, task.test_inputs * root], [task.targets[:, 0], test_labels]


def test_images_are_those_of_both_classes(archive: dict[str, np.ndarray]) -> None:
    (train, test), labels = pixels_of(TINY)
    assert (len(train), len(test)) == (TINY.samples, TINY.tests)
    for part, found, y in (("train", train, labels[0]), ("test", test, labels[1])):
        place = {image.tobytes(): k for k, image in enumerate(archive[f"{part}_images"])}
        byte = np.rint((found * 0.2516 + 0.4734) * 255)
        np.testing.assert_allclose((byte / 255 - 0.4734) / 0.2516, found, atol=1e-9)
        rows = [place[image.tobytes()] for image in byte.astype(np.uint8)]
        assert len({*rows}) == len(found)
        np.testing.assert_array_equal(2.0 * archive[f"{part}_labels"][rows] - 1, y)
        assert y.sum() == 0


def leaky(z: np.ndarray) -> np.ndarray:
    return np.where(z > 0, z, 0.1 * z)


def loss_slope(f: np.ndarray, y: np.ndarray, rows: np.ndarray | None) -> np.ndarray:
    """Of the mean loss over the images of a step, 0 at all others."""
    taken = np.ones(len(y)) if rows is None else np.isin(np.arange(len(y)), rows) * 1.0
    return -taken * y / (1 + np.exp(f * y)) / taken.sum()


def bare(
    x: np.ndarray, y: np.ndarray, config: Config, width: int, seed: int, powers: Any
) -> tuple[np.ndarray, np.ndarray]:
    """Gradient descent with a library's own weights; logits and kernels at all inputs after each step.

    `powers` of d/d*: of the output, of both rates in hatted weights, and whether the start is corrected.
    """
    u = width / config.reference_width
    q_sigma, q_tilde, corrected = powers
    reference = shallow.Reference(config.reference_width, law="uniform")
    net = shallow.draw_network(reference, shallow.scaling("NTK"), width, 3072, seed=seed)
    W = net.w / (3 * 3072) ** 0.5
    # Weights of the output are uniform within the root of the inverse of their number, at the reference.
    scale = u**q_sigma / (3 * config.reference_width) ** 0.5
    a = net.a * scale
    assert np.abs(W).max() < 3072**-0.5
    first = leaky(x @ W.T) @ a
    added = corrected * (u**-0.5 / u**q_sigma - 1) * first
    rate_a, rate_w = config.rate * u ** (q_tilde + 2 * q_sigma), config.rate * u**q_tilde
    n, logits, kernels = len(y), [], []
    rows = cifar2_limits._images(config)[0].batches
    for k in range(config.steps + 1):
        h = x @ W.T
        f, slope = leaky(h) @ a + added, np.where(h > 0, 1.0, 0.1)
        logits.append(f)
        K_w = (slope**2 @ a**2) * np.sum(x**2, axis=1)
        kernels.append(rate_a * np.sum(leaky(h) ** 2, axis=1) + rate_w * K_w)
        if k == config.steps:
            break
        chi = loss_slope(f[:n], y, None if rows is None else rows[k])
        by_a = chi @ leaky(h[:n])
        W = W - rate_w * a[:, None] * ((slope[:n] * chi[:, None]).T @ x[:n])
        a = a - rate_a * by_a
    return np.array(logits), np.array(kernels)


def arc_cosine(x: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """E phi phi and E phi' phi' of a leaky ReLU at Gaussian preactivations of covariance x x' / 3 per pixel."""
    C = x @ x.T / (3 * 3072)
    size = np.sqrt(np.outer(np.diag(C), np.diag(C)))
    angle = np.arccos(np.clip(C / size, -1, 1))
    both = size / (2 * np.pi) * (np.sin(angle) + (np.pi - angle) * np.cos(angle))
    return 0.81 * both + 0.1 * C, 0.81 * (np.pi - angle) / (2 * np.pi) + 0.1


def kernel_descent(x: np.ndarray, y: np.ndarray, config: Config) -> tuple[np.ndarray, np.ndarray]:
    """Logits over (step, seed, input) of the neural-tangent limit, and the diagonal of its kernel."""
    value, slope = arc_cosine(x)
    # sum over d* units of a = 1/(3 d*): a third of each kernel, and rates of bare weights.
    K = config.rate * config.reference_width * value
    K = K + config.rate / 3 * slope * (x @ x.T)
    task, _ = cifar2_limits._images(config)
    reference = shallow.Reference(
        config.reference_width, sigma=(3 * config.reference_width) ** -0.5
    )
    g = shallow.draw_start(task, reference, config.seeds)[..., 0]
    f, found, n = g, [g], len(y)
    for k in range(config.steps):
        rows = None if task.batches is None else task.batches[k]
        chi = np.array([loss_slope(one, y, rows) for one in f[:, :n]])
        f = f - chi @ K[:n]
        found.append(f)
    return np.array(found), np.diag(K)


@pytest.mark.covers("E24")
@pytest.mark.parametrize("batch", [0, 4])
def test_every_number_is_that_of_bare_networks(batch: int) -> None:
    # Steps large enough for a test to see each of them.
    config = replace(TINY, rate=0.05, reference_width=6, batch=batch)
    (train, test), (y, labels) = pixels_of(config)
    x, n, found = np.concatenate([train, test]), len(train), run(config)
    record = found.step.values
    powers = {
        "reference": (-0.5, 0, 0),
        "MF": (-1, 1, 0),
        "sym-default": (-0.5, 0.5, 0),
        "IC-MF": (-1, 1, 1),
    }
    f, K = kernel_descent(x, y, config)
    logits = {"NTK": f[record][:, :, n:]}
    relative = {"NTK": np.abs(logits["NTK"] / K[n:]).mean((1, 2))}
    for name, power in powers.items():
        own = name == "reference"
        seeds = range(config.seeds, 2 * config.seeds) if own else range(config.seeds)
        width = config.reference_width if own else config.width
        runs = [bare(x, y, config, width, seed, power) for seed in seeds]
        logits[name] = np.array([one[0][record, n:] for one in runs]).swapaxes(0, 1)
        kernels = np.array([one[1][record, n:] for one in runs]).swapaxes(0, 1)
        kernel, relative[name] = kernels.mean((1, 2)), np.abs(logits[name] / kernels).mean((1, 2))
        np.testing.assert_allclose(found.kernel.sel(model=name), kernel / kernel[0], rtol=1e-3)
    assert np.ptp(found.kernel.sel(model="sym-default").values) > 0.1
    target = logits["reference"]
    for name, f in logits.items():
        one = found.sel(model=name)
        np.testing.assert_allclose(one.relative_size, relative[name], rtol=1e-3)
        np.testing.assert_allclose(one["size"], np.abs(f).mean((1, 2)), rtol=1e-3)
        np.testing.assert_allclose(one.loss, np.log1p(np.exp(-f * labels)).mean((1, 2)), rtol=1e-3)
        np.testing.assert_allclose(one.accuracy, (f * labels > 0).mean((1, 2)), atol=0.05)
        if name != "reference":
            m, v, m_, v_ = (
                part for g in (f, target) for part in (g.mean(axis=1), g.var(axis=1, ddof=1))
            )
            apart = 0.5 * (np.log(v_ / v) + (v + (m - m_) ** 2) / v_ - 1)
            wanted = apart.mean(axis=1)
            np.testing.assert_allclose(found.divergence.sel(limit=name), wanted, rtol=5e-3)


@pytest.mark.covers("E24")
def test_numbers_are_what_the_curves_say() -> None:
    steps = [0, 1, 5, 10, 20, 50, 90, 100]
    divergence = {
        "NTK": [0.3, 0.3, 0.4, 0.6, 1.0, 4.0, 9.0, 9.0],
        "MF": [0.7, 1.0, 1.0, 1.0, 0.9, 0.8, 10.0, 0.6],
        "sym-default": [0.3, 2.0, 3.0, 0.5, 9.0, 9.0, 9.0, 9.0],
        # Closest at the first two within the floor, not at the fourth.
        "IC-MF": [0.55, 0.35, 0.3, 0.9, 0.3, 0.3, 0.2, 0.7],
    }
    models = ["reference", *cifar2_limits.LIMITS]
    last = {"reference": 3.0, "NTK": 1.0, "MF": 2.5, "sym-default": 50.0, "IC-MF": 3.3}
    kernel = [[1.0] * 7 + [last[name]] for name in models]
    dataset = xr.Dataset(
        {
            "divergence": (("limit", "step"), [divergence[name] for name in cifar2_limits.LIMITS]),
            "kernel": (("model", "step"), kernel),
        },
        {"model": models, "limit": list(cifar2_limits.LIMITS), "step": steps},
        {"floor": 0.3, "reference_width": 128, "width": 512},
    )
    found = numbers(dataset)
    values = [7 / 8, 3.6 / 8, 0.4, 0.7, 1 / 3, 0.75, 1.1]
    assert [one.found for one in found] == pytest.approx(values)
    assert [one.expected for one in found] == pytest.approx(
        [1, 0.3, 0.3, (0.25 - 1 + np.log(4)) / 2, 1, 1, 1]
    )
    assert [one.agrees for one in found] == [False, True, True, True, False, False, True]


def test_batches_take_every_image_once_in_each_pass() -> None:
    config = replace(TINY, batch=2, steps=7)
    rows = cifar2_limits._images(config)[0].batches
    assert rows is not None
    assert rows.shape == (7, 2)
    assert sorted(rows[:4].ravel()) == list(range(8))
    assert len({*rows[4:].ravel()}) == 6
    assert not np.array_equal(rows[:3], rows[4:])
    # The images are those of full batches.
    both = [cifar2_limits._images(one)[0] for one in (config, TINY)]
    np.testing.assert_array_equal(both[0].inputs, both[1].inputs)
    for batch in (3, 16, -1):
        with pytest.raises(
            ValueError, match=rf"`Config.batch` must divide the 8 images; got {batch}"
        ):
            run(replace(TINY, batch=batch))


@pytest.mark.parametrize("name", ["reference", "NTK", "MF"])
def test_seeds_share_no_network(name: str) -> None:
    """On the same images: runs far apart have nothing in common, and neighbours all but one network."""
    task, _ = cifar2_limits._images(TINY)
    first, near, far = (
        cifar2_limits._trained(name, (0, 1), replace(TINY, seed=seed), task, [0]).logits.values[0]
        for seed in (0, 1, 1000)
    )
    np.testing.assert_allclose(first[1], near[0], rtol=1e-6)
    assert not np.isclose(first, far, rtol=1e-3).any()


@pytest.mark.covers("E24")
def test_batches_side_by_side() -> None:
    config = cifar2_batches.Config((8, 2), 8, 6, 16, 4, 6, 4)
    found = cifar2_batches.run(config)
    assert found.batch.values.tolist() == [8, 2]
    for batch in (0, 2):
        one = cifar2_limits.Config(8, 6, 16, 4, 6, 4, batch=batch)
        xr.testing.assert_allclose(found.sel(batch=batch or 8, drop=True), run(one))
    numbers_of = {n.what: n.found for n in cifar2_batches.numbers(found)}
    assert len(numbers_of) == 18
    last, size = found.sel(batch=2).isel(step=-1), found["size"].sel(batch=2)
    start = size.sel(model="MF")[0] / size.sel(model="IC-MF")[0]
    wanted = {
        "E|f| of IC-MF at the end, over the reference": last["size"][4] / last["size"][0],
        "E|f|/K of IC-MF, over the reference": last.relative_size[4] / last.relative_size[0],
        "kernel of IC-MF, over the reference": last.kernel[4] / last.kernel[0],
        "E|f| of MF at the start, over IC-MF": start,
        "divergence of IC-MF, mean": found.divergence.sel(batch=2, limit="IC-MF").mean(),
    }
    for what, value in wanted.items():
        assert numbers_of[f"batch 2: {what}"] == pytest.approx(float(value))


def test_claims_on_batches_fail_where_they_should() -> None:
    found = cifar2_batches.run(cifar2_batches.Config((8,), 8, 6, 16, 4, 6, 4)).load()
    claims = "kernel of NTK", "first step of sym-default", "E|f|/K of NTK", "IC-MF is closest"

    def holding(dataset: xr.Dataset) -> list[float]:
        rows = cifar2_batches.numbers(dataset)
        return [next(n.found for n in rows if claim in n.what) for claim in claims]

    true, false = found.copy(deep=True), found.copy(deep=True)
    for dataset, factor in ((true, 2.0), (false, 1.0)):
        for key, model in (("size", "sym-default"), ("relative_size", "NTK")):
            dataset[key].loc[{"model": model}] = factor * dataset[key].sel(model="reference")
        dataset["kernel"].loc[{"model": "reference", "step": dataset.step[-1]}] = factor
        dataset["divergence"].loc[{"limit": "IC-MF"}] = 100.0 * (factor == 1)
    assert holding(true) == [1, 1, 1, 1]
    assert holding(false) == [0, 0, 0, 0]
