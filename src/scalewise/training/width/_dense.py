"""The dense route: whole tensors of few samples, every algorithm that trains by gradients, any time."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

import numpy as np

from scalewise.gaussian.spi import at_least_usual, with_shakes
from scalewise.networks import Network
from scalewise.observables import of_letter
from scalewise.theory.spi import untold
from scalewise.training._asked import Arrays, Asked
from scalewise.training._kernels import SampleKernels
from scalewise.training._moved_kinks import in_words, moved
from scalewise.training._outcomes import OUTCOMES
from scalewise.training._route import Route, RouteResult
from scalewise.training.tiles._refined import ENOUGH, FINER, levels_until, refined, tell_of_time
from scalewise.training.tiles._rules import Accuracy
from scalewise.training.width._dense_outcomes import (
    OF_NTK,
    DenseSetting,
    outcomes_of,
    parameter_of,
)
from scalewise.training.width._moments import PARTS
from scalewise.training.width._tensors import (
    Samples,
    has_accuracies,
    letters_of,
    most_labels,
    shared_tensors,
)
from scalewise.training.width._widened import shared_channels, without

MOST = 32  # samples whose tensors are made at once: half a minute and three gigabytes through three layers
_TRAINED = 24  # training samples of them, so that a block of tests has room
_AT_ONCE = frozenset({"output_covariance_nlo", "ntk_change_nlo"})  # of all samples with all
_OUTCOMES = frozenset(
    {
        "output_mean_nlo",
        "output_mean_nlo_by_part",
        "output_mean_nlo_by_layer",
        "output_covariance_nlo",
        "variance_nlo",
        "test_loss_nlo",
        "test_error_nlo",
        "ntk_change_nlo",
        "alignment_nlo",
        "learning_parameter",
        "train_mean_nlo",
        "train_variance_nlo",
        "train_loss_nlo",
    }
)
# Training samples as tests of themselves.
_ON_TRAIN = {
    "train_mean_nlo": "output_mean_nlo",
    "train_variance_nlo": "variance_nlo",
    "train_loss_nlo": "test_loss_nlo",
}
_QUICK = 16  # labels of which a finer accuracy takes little time
_RATE = 2.5e8  # multiplications of each kind of expectations in a second, where they take long
_NODES_RATE = 7.5e4  # expectations of four samples in a second and layer, where nodes are drawn
_OVER = 1e-12  # of an error: what rounding leaves of it


Timed = dict[tuple[str, int], np.ndarray]  # outcomes by name and the place of a time


def unknown(asked: Asked, name: str) -> str:
    """A clause that says why nothing of order 1/n is known here, however few samples there are."""
    net = asked.net
    if why := unknown_readout(net):
        return why
    if asked.plain is None and not asked.algorithm.trains_hidden:
        return "of the last layer alone the fluctuations of its metric tell it"
    letters = letters_of(asked.learner)
    for letter in letters:
        row = of_letter(letter)
        if why := row.obstacle_of(net):
            if moved(net, asked.algorithm):
                return _over_kinks(asked, name)
            return f"it takes {row.name!r}, but {why}; `measure_training` finds it from an ensemble"
    if asked.plain is None and (why := _too_large(net, len(asked.task.inputs) + 1)):
        return f"{why}. Train on fewer samples"
    if name in OF_NTK and not asked.algorithm.moves_as_gradients:
        return "projectors say what training does to outputs, and nothing of the NTK"
    return ""


def unknown_readout(net: Network) -> str:
    """A clause that says why outputs of a network, given its hidden layers, are no independent normal numbers."""
    if net.depth < 2:
        return "a network of one layer has no hidden width to expand in"
    if not net.program.averages_out(((net.program.layers[-1], 1.0),)):
        return (
            "outputs to which a skip connection adds have other neurons than one random layer gives"
        )
    if not net.program.laws[-1].is_normal:
        return (
            f"the weights of the read-out are {net.program.laws[-1].name}, and one neuron's fourth cumulant takes "
            "part in what training does to it; give the read-out law='normal'"
        )
    return ""


def _over_kinks(asked: Asked, name: str) -> str:
    """Why there is no first coefficient of 1/n where training moves neurons over kinks."""
    half = name.replace("_nlo", "_half")
    ask = (
        f"ask for {half!r}, or "
        if half in OUTCOMES and asked.plain and asked.net.depth == 2
        else ""
    )
    return (
        f"training moves neurons over the kinks {in_words(asked.net)}, and what a finite width changes begins at "
        f"n^(-1/2); {ask}let `measure_training` fit powers of n^(-1/2) at several `widths`"
    )


def too_many_for_parameter(asked: Asked) -> str:
    """Why fluctuations of the NTK are not known on so many samples, a clause."""
    count = len(asked.task.inputs)
    return (
        f"it takes whole tensors of {count} training samples; {_TRAINED} fit"
        if count > _TRAINED
        else ""
    )


def learning_parameter(kernels: SampleKernels) -> float:
    """The learning parameter by itself, of any activation: it takes fluctuations of the NTK alone.

    Args:
        kernels: Of a call with at most as many samples as `too_many_for_parameter` allows.
    """
    found = 0.0
    for setting in _settings(kernels, frozenset({"learning_parameter"})):
        run = setting.samples.fluctuations(setting.net)
        for time in _times(kernels.asked):
            found = max(found, float(parameter_of(setting.moments(run, time))))
    return found


def _obstacle(asked: Asked, name: str) -> str:
    if why := unknown(asked, name):
        return why
    count, tests = len(asked.task.inputs), len(asked.tests)
    if asked.plain is None:
        if name == "output_mean_nlo_by_layer" and (why := shared_channels(asked.net)):
            return why
        fits = count + tests
        if name in _AT_ONCE and (why := _too_large(asked.net, fits)):
            return f"{why}. Give fewer tests at a time, or ask for means and variances alone"
        return ""
    if count > _TRAINED:
        return (
            f"whole tensors of {count} training samples do not fit; at most {_TRAINED} do. Train on fewer, or let "
            "`measure_training` find it from an ensemble"
        )
    if name in _AT_ONCE and count + tests > MOST:
        return (
            f"whole tensors of {count} training samples and {tests} tests do not fit; {MOST - count} tests do. "
            "Give fewer at a time, or ask for means and variances alone, with covariance='diagonal'"
        )
    return ""


def _run(kernels: SampleKernels, names: Sequence[str]) -> RouteResult:
    """All blocks of tests, put together."""
    asked, wanted = kernels.asked, frozenset(names)
    parts: list[tuple[Arrays, Arrays]] = []
    on_train: tuple[Arrays, Arrays] = {}, {}
    with shared_tensors():
        settings = list(_settings(kernels, wanted))
        _tell(settings)
        for setting in settings:
            parts.append(_of_block(setting))
        if wanted & _ON_TRAIN.keys():
            on_train = _on_train(settings[-1])
    values, errors = (_joined([part[i] for part in parts]) | on_train[i] for i in (0, 1))
    if asked.times is None:
        values, errors = (
            {k: np.asarray(v[0]) for k, v in part.items()} for part in (values, errors)
        )
    largest = float(values["learning_parameter"].max(initial=0.0))
    coords = {}
    if "output_mean_nlo_by_part" in wanted:
        coords["part"] = PARTS
    if "output_mean_nlo_by_layer" in wanted:
        coords["layer"] = range(1, asked.net.depth)
    return RouteResult(values, errors, coords, {"learning_parameter": largest})


def _tests(asked: Asked, names: Sequence[str]) -> int:
    """Tests whose tensors, with those of the training samples, are made at once."""
    if _AT_ONCE.intersection(names):
        return len(asked.tests)
    return max(_room(asked) - len(asked.task.inputs), 1)


DENSE = Route(
    "dense",
    lambda algorithm: algorithm.weighs,
    _OUTCOMES,
    _obstacle,
    _run,
    tests=_tests,
)


def _settings(kernels: SampleKernels, wanted: frozenset[str]) -> Iterator[DenseSetting]:
    asked = kernels.asked
    x, tests, known = asked.task.inputs, asked.tests, asked.task.test_targets
    size = max(_tests(asked, tuple(wanted)), 1)
    for start in range(0, max(len(tests), 1), size):
        block = slice(start, start + size)
        samples, places = Samples.of(np.concatenate([x, tests[block]]), kernels.square(block))
        targets = None if known is None else known[block]
        yield DenseSetting(
            asked=asked,
            names=wanted,
            net=asked.learner,
            samples=samples,
            places=places,
            trained=kernels.trained,
            targets=targets,
        )


def _room(asked: Asked) -> int:
    """How many samples have their tensors made at once."""
    if asked.plain is not None:
        return MOST
    count = len(asked.task.inputs)
    whole = range(count + 1, count + len(asked.tests) + 2)
    return next((n - 1 for n in whole if _too_large(asked.net, n)), whole[-1])


def _too_large(net: Network, count: int) -> str:
    """Why all tensors of so many samples do not fit, a clause."""
    return untold(net, count, letters_of(net))


def _tell(settings: Sequence[DenseSetting]) -> None:
    """A warning if expectations of four samples, of all blocks of tests together, take long."""
    first = settings[0]
    asked, samples, net = first.asked, first.samples, first.net
    if not net.is_plain:
        return
    entries = float(sum(len(setting.samples.inputs) ** 4 for setting in settings))
    if has_accuracies(net, samples.inputs):
        levels = levels_until(ENOUGH if asked.accuracy is None else asked.accuracy)
        inner = [
            sum(samples.layers(accuracy)(net.activation, K).inner for K in samples.K[:-1])
            for accuracy in levels
        ]
        seconds = [entries * nodes / _RATE for nodes in inner]
    else:
        seconds = [entries * (net.depth - 1) / _NODES_RATE]
    less = (
        "Half as many tests take half."
        if len(settings) > 1
        else "Half as many samples take a sixteenth."
    )
    tell_of_time(seconds, len(asked.task.inputs), less)


def _of_block(setting: DenseSetting) -> tuple[Arrays, Arrays]:
    """Values and errors with a time axis, as accurate as asked where expectations can be."""
    finer = has_accuracies(setting.net, setting.samples.inputs)
    values, errors = (_refined if finer else _from_nodes)(setting)
    times = range(len(_times(setting.asked)))
    names = [name for name, time in values if not time]
    joined = (
        {name: np.stack([part[name, k] for k in times]) for name in names}
        for part in (values, errors)
    )
    return next(joined), next(joined)


def _from_nodes(setting: DenseSetting) -> tuple[Timed, Timed]:
    values, errors = _estimated(setting, None)
    return values, {name: at_least_usual(values[name], errors[name]) for name in values}


def _refined(setting: DenseSetting) -> tuple[Timed, Timed]:
    """At one accuracy of expectations after the other; errors are those of steps and of rounding."""
    asked, samples = setting.asked, setting.samples
    rounding: Timed = {}

    def found(accuracy: Accuracy) -> Timed:
        values, errors = _estimated(setting, accuracy)
        rounding.update(errors)
        return values

    def fits(_: Accuracy) -> bool:
        return asked.accuracy is not None or most_labels(setting.net, samples.inputs) <= _QUICK

    values, errors = refined(
        found,
        fits,
        wanted={(name, k) for name in setting.names for k in range(len(_times(asked)))},
        enough=ENOUGH if asked.accuracy is None else asked.accuracy,
        levels=FINER,
        rounding=rounding,
    )
    return values, {name: np.asarray(error + rounding[name]) for name, error in errors.items()}


def _estimated(setting: DenseSetting, accuracy: Accuracy | None) -> tuple[Timed, Timed]:
    """From every estimate of the tensors, at an accuracy of expectations or from nodes."""
    whole, thinner = setting.samples.runs(setting.net, accuracy), []
    if "output_mean_nlo_by_layer" in setting.names:
        thinner = [
            setting.samples.runs(without(setting.net, layer), accuracy)
            for layer in range(1, setting.net.depth - 1)
        ]
    values, errors = {}, {}
    for k, time in enumerate(_times(setting.asked)):
        found: list[list[Arrays]] = []
        for place, run in enumerate(whole):
            found.append([])
            for one, tensors in enumerate(run):
                others = [runs[place][one] for runs in thinner]
                found[-1].append(outcomes_of(setting, tensors, others, time))
        for name in found[0][0]:
            runs = [np.stack([one[name] for one in run]) for run in found]
            values[name, k], errors[name, k] = with_shakes(runs)
    return values, errors


def _on_train(setting: DenseSetting) -> tuple[Arrays, Arrays]:
    """Outcomes on training samples, as tests of themselves; exactly 0 where training is over."""
    task, h = setting.asked.task, setting.trained.h[setting.trained.h > 0]
    names = {name: own for name, own in _ON_TRAIN.items() if name in setting.names}
    own = replace(
        setting,
        names=frozenset(names.values()),
        places=np.tile(setting.places[: len(task.inputs)], 2),
        targets=task.targets,
    )
    gains = [
        setting.asked.algorithm.reaches(h, time, targets=task.targets.size)["H"].beyond
        for time in _times(setting.asked)
    ]
    going = np.array([np.abs(1 - h * gain).max() > _OVER for gain in gains])
    values, errors = (
        {
            name: part[of] * going.reshape(-1, *(1,) * (part[of].ndim - 1))
            for name, of in names.items()
        }
        for part in _of_block(own)
    )
    return values, errors


def _times(asked: Asked) -> list[float | None]:
    return [None] if asked.times is None else asked.times.tolist()


def _joined(parts: list[Arrays]) -> Arrays:
    """Blocks of tests side by side; of what has no tests, the largest."""
    found = {}
    for name, first in parts[0].items():
        blocks = [part[name] for part in parts]
        if name in OF_NTK:
            found[name] = first
        elif name == "learning_parameter":
            found[name] = np.max(blocks, axis=0)
        else:
            found[name] = np.concatenate(blocks, axis=-1)
    return found
