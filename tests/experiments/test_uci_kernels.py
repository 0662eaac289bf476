"""Golden, property: kernels on small tables, against the published recursion, and what is chosen and compared."""

import numpy as np
import pytest
import xarray as xr

from scalewise.experiments import uci_kernels
from scalewise.experiments.results import config_of
from scalewise.experiments.uci_kernels import (
    Config,
    first_best,
    numbers,
    relu_kernels,
    run,
    summary,
)

SMALL = config_of("uci_kernels", "small")


@pytest.fixture(autouse=True)
def archive(monkeypatch: pytest.MonkeyPatch) -> dict[str, np.ndarray]:
    """Two made-up sets in place of the archive, and one that is too large."""
    rng = np.random.default_rng(0)
    made: dict[str, np.ndarray] = {"names": np.array(["rings", "lines", "large"])}
    made["samples"], made["features"] = np.array([24, 20, 25]), np.array([2, 3, 2])
    made["classes"] = np.array([2, 2, 2])
    for name, n, m in zip(
        *(made[key].tolist() for key in ("names", "samples", "features")), strict=True
    ):
        x = rng.normal(size=(n, m))
        made[f"{name}/X"] = x
        made[f"{name}/y"] = ((x**2).sum(axis=1) > 1.4 if name == "rings" else x[:, 0] > 0).astype(
            np.int16
        )
        half = rng.permutation(n)
        made[f"{name}/train"], made[f"{name}/valid"] = half[: n // 2], half[n // 2 :]
        for k, test in enumerate(np.array_split(rng.permutation(n), 4)):
            made[f"{name}/test_{k}"], made[f"{name}/train_{k}"] = (
                test,
                np.setdiff1d(np.arange(n), test),
            )
    monkeypatch.setattr(uci_kernels, "archive", lambda name: made)
    return made


def published(x: np.ndarray, depth: int, fixed: int) -> np.ndarray:
    """The recursion of the published program."""
    S, H = x @ x.T, np.zeros((len(x), len(x)))
    for layer in range(depth):
        if layer >= fixed:
            H = H + S
        root = np.sqrt(np.outer(np.diag(S), np.diag(S))).clip(1e-9)
        c = (S / root).clip(-1, 1)
        if layer == depth - 1:
            return H
        S = (c * (np.pi - np.arccos(c)) + np.sqrt(1 - c**2)) * root / (2 * np.pi)
        H = H * (np.pi - np.arccos(c)) / (2 * np.pi)
    raise AssertionError


def test_kernels_are_the_published_ones() -> None:
    x = np.random.default_rng(1).normal(size=(7, 4))
    x[3] = 0.0  # as in a set that there is
    found = relu_kernels(x, 5)
    assert list(found) == [(L, fixed) for L in range(1, 6) for fixed in range(L)]
    there = np.arange(7) != 3
    for (L, fixed), K in found.items():
        assert (K[3] == 0).all()
        assert (K[:, 3] == 0).all()
        wanted = published(x[there], L, fixed)
        np.testing.assert_allclose(K[there][:, there], wanted, rtol=1e-9, atol=1e-12)
    assert list(relu_kernels(x, 1)) == [(1, 0)]


def test_the_first_of_equals_is_chosen() -> None:
    assert first_best([0.1, 0.7, 0.7], range(3)) == 1
    assert first_best([0.9, 0.7, 0.8, 0.8], [1, 2, 3]) == 2


def test_sets_are_classified_as_published(archive: dict[str, np.ndarray]) -> None:
    """Every choice of the published program, made once more; the smallest set comes first, the large one is out."""
    from sklearn.svm import SVC

    found = run(SMALL, client=0)
    assert found.set.values.tolist() == ["lines", "rings"]
    for name in found.set.values.tolist():
        x, y = archive[f"{name}/X"], archive[f"{name}/y"]

        def score(
            K: np.ndarray, C: float, train: np.ndarray, test: np.ndarray, y: np.ndarray = y
        ) -> float:
            machine = SVC(kernel="precomputed", C=C).fit(K[train][:, train], y[train])
            return float((machine.predict(K[test][:, train]) == y[test]).mean())

        best, chosen, K = 0.0, (0, 0, 0.0), x @ x.T
        for L in range(1, 6):
            for fixed in range(L):
                for C in 10.0 ** np.arange(-2, 5):
                    one = published(x, L, fixed)
                    accuracy = score(one, C, archive[f"{name}/train"], archive[f"{name}/valid"])
                    if accuracy > best:
                        best, chosen, K = accuracy, (L, fixed, C), one
        folds = [(archive[f"{name}/train_{k}"], archive[f"{name}/test_{k}"]) for k in range(4)]
        wanted = 100 * np.mean([score(K, chosen[2], *fold) for fold in folds])
        data = found.sel(set=name)
        assert (float(data.depth), float(data.fixed), float(data.price)) == chosen
        assert float(data.accuracy.sel(classifier="NTK")) == pytest.approx(wanted)
        assert float(data.validation.sel(classifier="NTK")) == pytest.approx(100 * best)
        assert float(data.validation.sel(classifier="NNGP")) <= 100 * best + 1e-9
    assert len(uci_kernels.tables(found)[1].rows) == 2
    uci_kernels.figure(found)


def test_what_is_said_of_all_sets() -> None:
    accuracy = np.array([[80.0, 90, 100], [95, 95, 90], [50, 44, 48]])
    data = xr.Dataset(
        {"accuracy": (("set", "classifier"), accuracy)},
        {"classifier": list(uci_kernels.CLASSIFIERS)},
    )
    told = summary(data).sel(classifier="forest")
    assert float(told.accuracy) == pytest.approx(238 / 3)
    assert float(told.P90) == pytest.approx(100)
    assert float(told.P95) == pytest.approx(200 / 3)
    assert float(told.PMA) == pytest.approx(100 * (1 + 90 / 95 + 0.96) / 3)
    assert float(told.P95_sem) == pytest.approx(100 / 3)
    (number,) = numbers(data)
    assert number.expected == pytest.approx(0.39)
    assert number.found == pytest.approx((-20 + 5 + 2) / 3)
    assert number.sem == pytest.approx(np.std([-20, 5, 2], ddof=1) / 3**0.5)


def test_sets_that_are_too_large_leave_nothing() -> None:
    with pytest.raises(
        ValueError, match=r"`Config.most` leaves no set: the smallest has 20 samples"
    ):
        run(Config(most=5), client=0)
