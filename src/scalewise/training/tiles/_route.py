"""The route by tiles: hundreds of samples, training by gradients to the end, no array of four samples in memory."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from scalewise.training._asked import Arrays, Asked
from scalewise.training._kernels import SampleKernels
from scalewise.training._route import Found, Route
from scalewise.training._spectrum import Spectrum
from scalewise.training.tiles._covariance import Change, Spread
from scalewise.training.tiles._mean import PARTS, Mean, mean_of
from scalewise.training.tiles._refined import ENOUGH, MANY, compared, tell_of_time
from scalewise.training.tiles._rules import Accuracy
from scalewise.training.tiles._setting import Setting, Site, sites
from scalewise.training.tiles._sums import KEPT, TILE, Sums, tables
from scalewise.training.width._dense import unknown

_WORK = 1e12  # multiplications of each kind of expectations, for all tests at a second accuracy
_RATE = 4.4e9  # multiplications of each kind in a second
_QUICK_RATE = 3e9  # the same, where a few kinds are enough
_BESIDE = 4000  # multiplications of each kind for each number of a tensor, whatever the accuracy
_INNER = 1100  # terms times nodes of one sample given another
_TERMS = 60  # sums over tensors for each of the times that weights are made of
_TIMES = 35
_VALUES = 250  # arrays of a tile
_DOUBLE = 16  # training samples up to which time is no reason for single precision
_SINGLE = 3e-3  # an accuracy for which single precision is enough; what it may leave out
_FEW_TESTS = 4  # that tell what an accuracy leaves out
_MORE = "Two or three times as long where its first accuracy is not enough. "
_LESS = "Half as many training samples take a sixteenth."
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


def _run(kernels: SampleKernels, names: Sequence[str]) -> Found:
    """All tests at one accuracy of expectations, which a few tests at the next one say is enough."""
    asked, wanted = kernels.asked, frozenset(names)
    count, tests = len(asked.task.inputs), len(asked.tests)
    every, some = np.arange(tests), np.linspace(0, tests - 1, min(tests, _FEW_TESTS)).astype(int)
    whole = _Scale(kernels, every, wanted)
    few = whole if len(some) == tests else _Scale(kernels, some, wanted)

    def part(found: Arrays) -> Arrays:
        return found if few is whole else _of_few(found, count, some)

    levels = MANY
    if asked.accuracy is None:
        more = whole.work(MANY[1]) <= _WORK
        levels = MANY[: 3 if more else 2]
    beside = _BESIDE if wanted & (_OF_MEAN | _OF_NTK) else 0
    rate = _RATE if wanted & (_OF_MEAN | _OF_NTK) else _QUICK_RATE
    first = zip((whole, few), levels, strict=False)
    seconds = [(scale.work(level) + beside * scale.entries) / rate for scale, level in first]
    tell_of_time(seconds, count, _MORE + _LESS if len(levels) > 2 else _LESS)
    enough = ENOUGH if asked.accuracy is None else asked.accuracy
    values, errors = compared(
        whole.found,
        few.found,
        part,
        wanted,
        enough=enough,
        levels=levels,
        rounding=0.0 if whole.double else _SINGLE,
    )
    for known in (values, errors):
        known["learning_parameter"] = np.asarray(known["learning_parameter"].max(initial=0.0))
    coords: dict[str, Sequence[str] | Sequence[int]] = {}
    if "output_mean_nlo_by_part" in wanted:
        coords["part"] = PARTS
    if "output_mean_nlo_by_layer" in wanted:
        coords["layer"] = range(1, asked.net.depth)
    attributes = {
        "learning_parameter": float(values["learning_parameter"]),
        "nodes": whole.nodes,
    }
    return Found(values, errors, coords, attributes)


class _Scale:
    """All training samples with some of the tests.

    Args:
        kernels: Of all samples.
        tests: Which tests.
        wanted: Names of outcomes.
    """

    def __init__(self, kernels: SampleKernels, tests: np.ndarray, wanted: frozenset[str]) -> None:
        asked, self._wanted = kernels.asked, wanted
        task, count = asked.task, len(asked.task.inputs)
        known = task.test_targets
        rows = np.concatenate([np.arange(count), count + tests])
        K, Theta = (kernels.square()[kind][:, rows][:, :, rows] for kind in ("kernel", "ntk"))
        fine = asked.accuracy is not None and asked.accuracy < _SINGLE
        self.double = count <= _DOUBLE or fine
        dtype = np.float64 if self.double else np.float32
        self._targets = None if known is None else known[tests]
        self._setting = _setting(asked, K[-1], Theta[-1], kernels.trained)
        self._layers = sites(asked.net, (K, Theta), dtype=dtype)
        self.entries, self.nodes = (count * len(rows)) ** 2, 0

    def work(self, accuracy: Accuracy) -> float:
        """Multiplications of each kind of expectations."""
        stack = self._layers(accuracy)
        return float(self.entries * sum(sum(site.given.rule.nodes) for site in stack))

    def found(self, accuracy: Accuracy) -> Arrays:
        """Outcomes at an accuracy of expectations."""
        stack = self._layers(accuracy)
        self.nodes = max(site.given.rule.w.size for site in stack)
        return _outcomes(self._targets, self._setting, stack, self._wanted)


def _of_few(found: Arrays, count: int, tests: np.ndarray) -> Arrays:
    """What outcomes of all samples are on a few of the tests."""
    rows = np.concatenate([np.arange(count), count + tests])
    places = {
        "output_covariance_nlo": (..., *np.ix_(tests, tests)),
        "ntk_change_nlo": (..., *np.ix_(rows, rows)),
        "alignment_nlo": (...,),
    }
    return {name: values[places.get(name, (..., tests))] for name, values in found.items()}


TILES = Route(
    "tiles",
    lambda algorithm: algorithm.weighs and algorithm.trains_hidden,
    frozenset(_OUTCOMES),
    _obstacle,
    _run,
)


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


def _outcomes(
    targets: np.ndarray | None, setting: Setting, stack: list[Site], wanted: frozenset[str]
) -> Arrays:
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
        assert targets is not None
        bias = setting.mean[:, tests] - targets.T
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
    """The share of each variance at infinite width that fluctuations of the NTK add."""
    tests = slice(setting.count, None)
    leading, own = (np.diag(x)[tests] for x in (setting.covariance, setting.K))
    open_ = leading > _KNOWN * own
    return np.divide(added, leading, out=np.zeros_like(added), where=open_)
