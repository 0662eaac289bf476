"""The route by tiles: hundreds of samples, training by gradients to the end, no array of four samples in memory."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

import numpy as np

from scalewise.tasks import Task
from scalewise.training._asked import Arrays, Asked
from scalewise.training._kernels import SampleKernels
from scalewise.training._route import Route, RouteResult
from scalewise.training._spectrum import Spectrum, spectrum
from scalewise.training.tiles._covariance import Change, Spread
from scalewise.training.tiles._mean import PARTS, Mean, mean_of
from scalewise.training.tiles._refined import (
    ACCURACIES,
    ENOUGH,
    FINER,
    levels_until,
    refined,
    tell_of_time,
)
from scalewise.training.tiles._rules import Accuracy
from scalewise.training.tiles._setting import Setting, Site, sites
from scalewise.training.tiles._sums import KEPT, TILE, Sums, entries, tables
from scalewise.training.width._dense import unknown

_WORK = 1e12  # multiplications of each kind of expectations, for a third accuracy
_RATE = 6.4e9  # multiplications of each kind in a second
_QUICK_RATE = 8e9  # the same, where a few kinds are enough
_BESIDE = 5000  # multiplications of each kind for each number of a tensor, whatever the accuracy
_INNER = 1100  # terms times nodes of one sample given another
_TERMS = 60  # sums over tensors for each of the times that weights are made of
_TIMES = 35
_VALUES = 250  # arrays of a tile
_DOUBLE = 16  # training samples up to which time is no reason for single precision
_SINGLE = 3e-3  # an accuracy for which single precision is enough
_ROUNDED = (
    12 * 2.0**-24
)  # of an outcome, by squares of eigenvalues, the mean to the least: measured, close inputs or not
_FEW, _FEW_TESTS = 10, 4  # samples that tell what an accuracy leaves out
_MEMORY = 12 * 2**30  # bytes
_KNOWN = 1e-9  # relative to the kernel: a variance of a test that training leaves nothing of
_OF_PAIRS = frozenset({"output_covariance_nlo", "variance_nlo", "test_loss_nlo"})
_OF_MEAN = _OF_PAIRS | {"output_mean_nlo", "output_mean_nlo_by_part"}
_OF_NTK = frozenset({"ntk_change_nlo", "alignment_nlo"})
_OUTCOMES = (
    _OF_PAIRS
    | _OF_NTK
    | {
        "output_mean_nlo",
        "output_mean_nlo_by_part",
        "output_mean_nlo_by_layer",
        "learning_parameter",
    }
)


def _obstacle(asked: Asked, name: str) -> str:
    if why := unknown(asked, name):
        return why
    if asked.plain is None:
        return "of so many samples it is known of an `MLP`; give fewer"
    if asked.times is not None:
        return "for as many samples as these only the end of training is known; leave out `times`"
    if why := asked.algorithm.sums_obstacle:
        return why
    count, tests = len(asked.task.inputs), len(asked.tests)
    if (needed := _memory(asked, count, tests)) > _MEMORY:
        fits = next(n for n in range(count, 0, -1) if _memory(asked, n, min(n, tests)) <= _MEMORY)
        return (
            f"{count} training samples and {tests} tests take {needed / 2**30:.0f} GiB; "
            f"{fits} training samples and {min(fits, tests)} tests fit"
        )
    return ""


def _run(kernels: SampleKernels, names: Sequence[str]) -> RouteResult:
    """At one accuracy of expectations after the other."""
    asked, wanted = kernels.asked, frozenset(names)
    K, Theta = (kernels.square()[kind] for kind in ("kernel", "ntk"))
    setting, nodes = _setting(asked, K[-1], Theta[-1], kernels.trained), 0
    fine = asked.accuracy is not None and asked.accuracy < _SINGLE
    h = kernels.trained.h[kernels.trained.h > 0]
    rounding = _ROUNDED * float(h.mean() / h.min()) ** 2
    enough = ENOUGH if asked.accuracy is None else asked.accuracy
    single = setting.count > _DOUBLE and not fine and rounding <= enough
    least = rounding if single else 0.0
    layers = sites(asked.net, (K, Theta), dtype=np.float32 if single else np.float64)

    size = entries(len(setting.K), setting.count)

    def at(accuracy: Accuracy) -> Arrays:
        nonlocal nodes
        stack = layers(accuracy)
        nodes = max(site.given.rule.w.size for site in stack)
        return _outcomes(asked, setting, stack, wanted)

    def work(accuracy: Accuracy) -> float:
        return float(size * sum(sum(site.given.rule.nodes) for site in layers(accuracy)))

    def fits(accuracy: Accuracy) -> bool:
        return asked.accuracy is not None or work(accuracy) <= _WORK

    rate, beside = (_RATE, _BESIDE) if wanted & (_OF_MEAN | _OF_NTK) else (_QUICK_RATE, 0)
    many = setting.count > _DOUBLE
    levels = ACCURACIES if asked.accuracy is None else levels_until(asked.accuracy)
    seconds = [(work(accuracy) + beside * size) / rate for accuracy in levels]
    tell_of_time(seconds, setting.count, "Half as many samples take a sixteenth.")
    some = _few(asked, K, Theta, wanted) if many else None
    if asked.accuracy is None:
        values, errors = refined(at, fits, some, wanted, least=least)
    else:
        values, errors = refined(at, fits, some, wanted, enough=enough, levels=FINER, least=least)
    coords: dict[str, Sequence[str] | Sequence[int]] = {}
    if "output_mean_nlo_by_part" in wanted:
        coords["part"] = PARTS
    if "output_mean_nlo_by_layer" in wanted:
        coords["layer"] = range(1, asked.net.depth)
    attributes = {
        "learning_parameter": float(values["learning_parameter"]),
        "nodes": nodes,
    }
    return RouteResult(values, errors, coords, attributes)


TILES = Route(
    "tiles",
    lambda algorithm: algorithm.weighs and algorithm.trains_hidden,
    frozenset(_OUTCOMES),
    _obstacle,
    _run,
)


def _few(
    asked: Asked, K: np.ndarray, Theta: np.ndarray, wanted: frozenset[str]
) -> Callable[[Accuracy], Arrays]:
    """Outcomes of a task that has few of the samples."""
    task, count = asked.task, len(asked.task.inputs)
    train, tests = (
        np.unique(np.linspace(0, size - 1, min(most, size)).round().astype(int))
        for size, most in ((count, _FEW), (len(asked.tests), _FEW_TESTS))
    )
    known = task.test_targets
    part = Task(
        task.inputs[train],
        task.targets[train],
        test_inputs=asked.tests[tests],
        test_targets=None if known is None else known[tests],
        loss=task.loss,
    )
    own, rows = replace(asked, task=part), np.concatenate([train, count + tests])
    kernels = K[:, rows][:, :, rows], Theta[:, rows][:, :, rows]
    few = kernels[1][-1][: len(train), : len(train)]
    trained = spectrum(few, "NTK of the training samples")
    setting = _setting(own, kernels[0][-1], kernels[1][-1], trained)
    layers = sites(asked.net, kernels)
    return lambda accuracy: _outcomes(own, setting, layers(accuracy), wanted)


def _setting(asked: Asked, K: np.ndarray, Theta: np.ndarray, trained: Spectrum) -> Setting:
    task = asked.task
    some = trained.h > 0
    weights = asked.algorithm.sums(trained.h[some], targets=task.targets.size, accuracy=1e-6)
    return Setting(K, Theta, task.targets.T, trained.U[:, some], weights)


def _memory(asked: Asked, count: int, tests: int) -> int:
    """About how many bytes are needed."""
    samples, outputs, layers = count + tests, asked.net.output_dim, asked.net.depth - 1
    single = min(tables(layers, samples, count), KEPT) + layers * _INNER * samples**2
    single += _VALUES * max(TILE, samples**2)
    sums = (_TERMS + 30 * (outputs**2 - 1)) * _TIMES * count * (samples + count)
    slopes = 2 * len(PARTS) * outputs**2 * samples * count + 4 * outputs**2 * samples**2
    return 4 * single + 8 * (sums + slopes + 100 * layers * samples**2)


def _outcomes(asked: Asked, setting: Setting, stack: list[Site], wanted: frozenset[str]) -> Arrays:
    """Everything that is wanted, at one accuracy."""
    tests = slice(setting.count, None)
    sums = Sums(stack, len(setting.K), setting.count)
    of_mean = Mean(setting, sums) if wanted & _OF_MEAN else None
    of_pairs = Spread(setting, sums, whole=bool(wanted & _OF_PAIRS))
    of_ntk = Change(setting, sums) if wanted & _OF_NTK else None
    sums.run()
    moved = of_pairs.moved()[..., tests, tests]
    found: Arrays = {}
    if of_mean is not None:
        parts = of_mean.parts()
        by_part = np.array([mean_of(setting, parts[part])[:, tests] for part in PARTS])
        found["output_mean_nlo_by_part"] = by_part
        found["output_mean_nlo"] = by_part.sum(axis=0)
        if wanted & _OF_PAIRS:
            covariance = of_pairs.covariance(parts)[..., tests, tests]
            found["output_covariance_nlo"] = covariance
            found["variance_nlo"] = np.einsum("iidd->id", covariance)
    if "output_mean_nlo_by_layer" in wanted:
        alone = [_mean_of_layer(setting, stack, site.layer)[:, tests] for site in stack]
        found["output_mean_nlo_by_layer"] = np.array(alone)
    found["learning_parameter"] = _learning_parameter(setting, np.einsum("iidd->id", moved))
    if "test_loss_nlo" in wanted:
        wanted_outputs = asked.task.test_targets
        assert wanted_outputs is not None
        bias = setting.mean[:, tests] - wanted_outputs.T
        moves = bias * found["output_mean_nlo"] + 0.5 * found["variance_nlo"]
        found["test_loss_nlo"] = moves.sum(axis=0)
    if of_ntk is not None:
        found |= _of_ntk(setting, of_ntk.found())
    return {k: v for k, v in found.items() if k in wanted or k == "learning_parameter"}


def _mean_of_layer(setting: Setting, stack: Sequence[Site], layer: int) -> np.ndarray:
    """The mean if the width of one layer alone is finite."""
    sums = Sums(stack, len(setting.K), setting.count, frozenset({layer}))
    asked = Mean(setting, sums)
    sums.run()
    return np.sum([mean_of(setting, share) for share in asked.parts().values()], axis=0)


def _of_ntk(setting: Setting, change: np.ndarray) -> Arrays:
    """The change of the NTK, and along the targets."""
    y, train = setting.y, slice(setting.count)
    along = np.einsum("ia,ijab,jb->", y, change[..., train, train], y)
    own = np.einsum("ia,ab,ib->", y, setting.Theta[train, train], y)
    return {"ntk_change_nlo": change, "alignment_nlo": np.asarray(along / own)}


def _learning_parameter(setting: Setting, added: np.ndarray) -> np.ndarray:
    """The largest share of a variance at infinite width that fluctuations of the NTK add."""
    tests = slice(setting.count, None)
    leading, own = (np.diag(x)[tests] for x in (setting.covariance, setting.K))
    open_ = leading > _KNOWN * own
    return np.asarray(np.max(added[:, open_] / leading[open_], initial=0.0))
