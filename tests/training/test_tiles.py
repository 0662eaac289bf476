"""Agreement and property: outcomes by tiles against those of whole tensors, and their errors."""

import dataclasses
import itertools
from collections.abc import Callable
from typing import ClassVar

import numpy as np
import pytest

import scalewise as sw
from grids import thorough
from scalewise.training import GradientDescent, GradientFlow, TwoStepNewton
from scalewise.training._asked import Asked
from scalewise.training._kernels import SampleKernels
from scalewise.training._routes import chosen
from scalewise.training.tiles import _refined, _route, _sums
from scalewise.training.tiles._recursions import Tensors
from scalewise.training.tiles._route import TILES
from scalewise.training.tiles._rules import Accuracy
from scalewise.training.tiles._setting import Site, sites
from scalewise.training.tiles._tiles import Tile
from scalewise.training.width import _dense
from scalewise.training.width._dense import DENSE
from scalewise.training.width._dense_outcomes import outcomes_of
from tile_networks import FINE, SCALES, network, stack_of

pytestmark = pytest.mark.filterwarnings("ignore::scalewise.training.ExpansionWarning")


def task(seed: int, train: int, tests: int, outputs: int = 1) -> sw.Task:
    rng = np.random.default_rng(seed)
    x, y = rng.standard_normal((train + tests, 3)), rng.standard_normal((train + tests, outputs))
    return sw.Task(x[:train], y[:train], test_inputs=x[train:], test_targets=y[train:])


STEADY = ("output_mean_nlo_by_part", "output_covariance_nlo", "ntk_change_nlo")
CASES = (
    (3, "sin", 1, GradientDescent(ridge=0.3)),
    *thorough(
        (3, "gelu", 2, GradientDescent()),
        (4, "erf", 1, GradientFlow()),
        (2, "sin", 2, TwoStepNewton()),
    ),
)


@pytest.mark.parametrize(("depth", "activation", "outputs", "algorithm"), CASES, ids=str)
def test_all_outcomes_are_those_of_whole_tensors(
    depth: int, activation: str, outputs: int, algorithm: object
) -> None:
    # Between different outputs of one test alone, halves that are exchanged add up to the same.
    asked = Asked(network(depth, activation, outputs), task(depth, 2, outputs, outputs), algorithm)
    names = sorted(TILES.outcomes)
    want, found = (route.compute(asked, names) for route in (DENSE, TILES))
    failures = []
    for name in names:
        assert found.values[name].shape == want.values[name].shape == found.errors[name].shape
        gap = np.abs(found.values[name] - want.values[name])
        allowed = 1.5 * (found.errors[name] + want.errors[name]) + 1e-9
        if not np.all(gap <= allowed):
            failures.append((name, (gap / allowed).max()))
        # An error that is as large as its outcome would allow anything.
        size = np.abs(want.values[name]).max()
        if name in STEADY and not np.median(found.errors[name]) < 0.1 * size + 1e-9:
            failures.append((name, "error", found.errors[name]))
    assert not failures
    parts, layers = (found.values[f"output_mean_nlo_by_{kind}"] for kind in ("part", "layer"))
    mean = found.values["output_mean_nlo"]
    np.testing.assert_allclose(parts.sum(axis=0), mean, rtol=1e-9, atol=1e-12)
    np.testing.assert_allclose(layers.sum(axis=0), mean, rtol=1e-8, atol=1e-12)


def any_tensors(samples: int) -> dict[str, np.ndarray]:
    """With the symmetries that tensors of every network have."""
    rng = np.random.default_rng(2)
    found = {letter: rng.standard_normal((samples,) * 4) for letter in "ABDFPQRSTU"}
    found |= {letter: rng.standard_normal((samples,) * 2) for letter in ("G1", "H1")}
    same = {
        "A": ["bacd", "abdc", "cdab"],
        "B": ["badc", "cdab"],
        "D": ["bacd", "abdc"],
        "F": ["cdab"],
    }
    same |= {"P": ["acbd"], "R": ["abdc"], "S": ["badc"], "T": ["dcba"], "U": ["cdab"]}
    for letter, ways in (same | {"G1": ["ba"], "H1": ["ba"]}).items():
        for way in ways:
            found[letter] = found[letter] + np.einsum(
                f"{way}->{''.join(sorted(way))}", found[letter]
            )
    return found


class Given(Tensors):
    """Tensors that no network has, read off as tiles are."""

    known: ClassVar[dict[str, np.ndarray]] = {}

    def last(self, letter: str, *labels: int) -> np.ndarray:
        rows = self.tile.rows
        part = self.known[letter][np.ix_(*(rows[label] for label in labels))]
        places = sorted(set(labels))
        part = np.einsum(part, list(labels), places)
        shape = [len(rows[k]) if k in places else 1 for k in range(len(labels))]
        return np.broadcast_to(part.reshape(shape), [len(row) for row in rows[: len(labels)]])


@pytest.mark.parametrize(
    "algorithm", [GradientDescent(ridge=0.3), TwoStepNewton()], ids=["ridge", "Newton"]
)
def test_contractions_are_those_of_whole_tensors(
    algorithm: object, monkeypatch: pytest.MonkeyPatch
) -> None:
    """To the last digits, of any tensors; outputs and samples that are exchanged are told apart."""
    asked = Asked(network(3, "tanh", 2), task(1, 3, 2, 2), algorithm)
    names = TILES.outcomes - {"output_mean_nlo_by_layer"}
    kernels = SampleKernels(asked, DENSE.kinds, deep=True, size=2)
    (dense,) = _dense._settings(kernels, names)
    known, back = any_tensors(5), np.argsort(dense.places)
    different = {x: tensor[np.ix_(*(back,) * tensor.ndim)] for x, tensor in known.items()}
    want = outcomes_of(dense, different, [], None)
    Given.known = known
    monkeypatch.setattr(_sums, "Tensors", Given)
    monkeypatch.setattr(_sums, "blocks", lambda *_: [np.array([2, 0]), np.array([1])])
    K, Theta = (kernels.square()[kind][-1] for kind in ("kernel", "ntk"))
    found = _route._outcomes(asked, _route._setting(asked, K, Theta, kernels.trained), [], names)
    assert found.keys() == want.keys() == names | {"learning_parameter"}
    # Weights are sums over few times, good to 1e-6.
    off = {k: np.abs(found[k] - want[k]).max() / np.abs(want[k]).max() for k in want}
    assert {k: gap for k, gap in off.items() if not gap < 1e-5} == {}


@pytest.mark.parametrize("seed", [0, *thorough(1)])
def test_both_routes_agree_on_samples_that_are_close(seed: int) -> None:
    """Whole tensors are sampled: inverse kernels magnify what of that is not smooth in the samples."""
    rng = np.random.default_rng(seed)
    x, y = rng.standard_normal(12) + 0.4 * rng.standard_normal((8, 12)), rng.standard_normal((6, 1))
    net = sw.MLP(2, 64, "tanh", input_dim=12, output_dim=1, **SCALES)
    asked = Asked(net, sw.Task(x[:6], y, test_inputs=x[6:]), GradientDescent())
    names = ["output_covariance_nlo", "output_mean_nlo_by_part"]
    want, found = (route.compute(asked, names) for route in (DENSE, TILES))
    for name in names:
        gap, size = np.abs(found.values[name] - want.values[name]), np.abs(want.values[name]).max()
        assert np.all(gap < found.errors[name] + want.errors[name]), name
        assert gap.max() < 0.1 * size, (name, gap.max() / size)
        for one in (want, found):
            usual = np.median(one.errors[name]) / size
            assert usual < 0.2, (name, usual)


def exactly(tile: Tile, site: Site, orders: dict[int, tuple[int, ...]]) -> np.ndarray:
    """In place of what a tile does for sines."""
    found = np.zeros([len(tile.rows[x]) if x in orders else 1 for x in range(4)])
    vertices = [(x, p) for x, own in orders.items() for p in own]
    for signs in itertools.product((1, -1), repeat=4):
        phase = np.pi / 2 * sum(s * (p - 1) for s, (_, p) in zip(signs, vertices, strict=True))
        pairs = itertools.product(zip(signs, vertices, strict=True), repeat=2)
        square = sum(s * t * tile.edge(site.K, x, y) for (s, (x, _)), (t, (y, _)) in pairs)
        found = found + np.cos(phase) / 16 * np.exp(-0.5 * square)
    return found


def test_many_close_samples_are_as_exact_as_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    """Inverse kernels magnify what expectations have wrong, by the more the closer samples are."""
    rng = np.random.default_rng(0)
    x, y = (
        rng.standard_normal(12) + 0.6 * rng.standard_normal((8, 12)),
        rng.standard_normal((6, 1)),
    )
    net = sw.MLP(3, 64, "sin", input_dim=12, output_dim=1, **SCALES)
    asked = Asked(net, sw.Task(x[:6], y, test_inputs=x[6:]), GradientDescent())
    names = [
        "output_covariance_nlo",
        "output_mean_nlo_by_part",
        "output_mean_nlo",
        "ntk_change_nlo",
    ]
    found = TILES.compute(asked, names)
    monkeypatch.setattr(Tile, "_expected", exactly)
    want = TILES.compute(asked, names)
    for name in names:
        gap, error = np.abs(found.values[name] - want.values[name]), found.errors[name]
        size = np.sqrt(np.mean(want.values[name] ** 2))
        assert np.all(gap < error), (name, (gap / error).max())
        assert np.sqrt(np.mean(error**2)) < 0.04 * size, name


def test_samples_may_come_in_any_order_and_twice(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_refined, "ACCURACIES", _refined.ACCURACIES[:2])
    net, known = network(3, "gelu"), task(5, 4, 3)
    names = ["output_mean_nlo", "output_covariance_nlo", "ntk_change_nlo"]
    plain = TILES.compute(Asked(net, known, GradientFlow()), names)
    train, tests = np.array([2, 0, 3, 1]), np.array([1, 1, 0])
    moved = sw.Task(
        known.inputs[train],
        known.targets[train],
        test_inputs=np.concatenate([known.test_inputs[tests], known.inputs[:1]]),
    )
    found = TILES.compute(Asked(net, moved, GradientFlow()), names)
    samples = np.concatenate([train, 4 + tests])
    for name, place in (
        ("output_mean_nlo", (slice(None), tests)),
        ("output_covariance_nlo", (slice(None), slice(None), *np.ix_(tests, tests))),
        ("ntk_change_nlo", (slice(None), slice(None), *np.ix_(samples, samples))),
    ):
        want, allowed = (part[name][place] for part in (plain.values, plain.errors))
        size = want.shape[-1]
        got = found.values[name][..., :size]
        got = got if name == "output_mean_nlo" else got[..., :size, :]
        assert np.abs(got - want).max() < 3 * allowed.max(), name
    mean, covariance = (found.values[name] for name in names[:2])
    np.testing.assert_allclose(mean[:, 0], mean[:, 1], rtol=1e-6)
    np.testing.assert_allclose(covariance[0, 0, 0], covariance[0, 0, 1], rtol=1e-6, atol=1e-9)
    # A test that was trained on is known, as far as expectations are.
    assert np.abs(mean[:, 3]).max() < 1e-4 * np.abs(mean).max()
    assert np.abs(covariance[0, 0, 3]).max() < 1e-4 * np.abs(covariance).max()


def _why(asked: Asked, name: str = "output_mean_nlo") -> str:
    return TILES.obstacle(asked, name)


def test_refusals_say_what_would_do() -> None:
    few = task(0, 4, 2)
    asked = Asked(network(3, "tanh"), few, GradientFlow())
    assert _why(asked) == ""
    assert "measure_training" in _why(dataclasses.replace(asked, net=network(3, "relu")))
    assert "`GradientFlow.time`" in _why(dataclasses.replace(asked, algorithm=GradientFlow(2.0)))
    assert "`times`" in _why(dataclasses.replace(asked, times=np.array([1.0])))
    assert "no hidden width" in _why(dataclasses.replace(asked, net=network(1, "tanh")))
    many = np.random.default_rng(0).standard_normal((1000, 3))
    large = sw.Task(many[:900], many[:900, :1], test_inputs=many[900:])
    why = _why(dataclasses.replace(asked, task=large))
    assert "900 training samples and 100 tests take" in why
    assert "fit" in why
    fitting = int(why.split("; ")[1].split()[0])
    fewer = sw.Task(many[:fitting], many[:fitting, :1], test_inputs=many[-min(fitting, 100) :])
    assert 100 < fitting < 900
    assert not _why(dataclasses.replace(asked, task=fewer))


def test_tiles_come_first_where_sampled_tensors_leave_much_open() -> None:
    net = network(3, "tanh")
    for count, algorithm, route in (
        (8, GradientDescent(), "dense"),
        (9, GradientDescent(), "tiles"),
        (9, GradientDescent(steps=20), "dense"),
        (30, GradientFlow(), "tiles"),
    ):
        choice = chosen(["output_mean_nlo"], Asked(net, task(0, count, 2), algorithm))
        assert list(choice.by_route) == [route], (count, algorithm)


def test_whole_tensors_beside_tiles_are_for_who_names_them() -> None:
    for count, algorithm, routes in (
        (8, GradientDescent(), ["dense"]),
        (12, GradientDescent(), ["tiles"]),
        (12, GradientDescent(steps=20), ["dense"]),
    ):
        asked = Asked(network(3, "tanh"), task(0, count, 2), algorithm)
        choice = chosen("all", asked)
        assert list(choice.by_route) == routes, (count, algorithm)
        dear = {name for name, why in choice.left_out.items() if "name it to have it" in why}
        assert bool(dear) == (routes == ["tiles"])
        for name in dear:
            assert list(chosen([name], asked).by_route) == ["dense"]
            assert name not in TILES.outcomes


def test_a_call_of_many_samples_comes_by_tiles(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_refined, "ACCURACIES", _refined.ACCURACIES[:2])
    net = network(2, "sin")
    found = sw.predict_training(net, task(1, 9, 2), observables=["output_mean_nlo"])
    assert found.attrs["route"] == "tiles"
    assert found.attrs["nodes"] > 0
    assert found.output_mean_nlo.dims == ("output", "test")
    assert np.all(found.output_mean_nlo_error > 0)
    assert found.attrs["learning_parameter"] > 0


def test_accuracies_are_taken_until_little_moves() -> None:
    asked: list[Accuracy] = []

    def found(accuracy: Accuracy) -> dict[str, np.ndarray]:
        asked.append(accuracy)
        return {
            "one": np.full(4, 1 + moves * accuracy.nodes),
            "two": 1 + np.array([0, 0, 0, 1030 * accuracy.nodes]),
            "still": np.ones(4),
        }

    for count, moves in ((2, 470.0), (3, 18750.0)):
        asked.clear()
        values, errors = _refined.refined(found)
        assert asked == list(_refined.ACCURACIES[:count])
        step = asked[-2].nodes - asked[-1].nodes
        np.testing.assert_allclose(values["one"], 1 + moves * asked[-1].nodes)
        # Twice a step and a half, or what is left of steps that become five times smaller.
        left = 3 if count == 2 else 2 / 4
        np.testing.assert_allclose(errors["one"], left * moves * step * np.sqrt(2), rtol=1e-2)
        # None is small because nothing moves there.
        two = np.maximum(left * 1030 * step / 2, 3 * asked[-1].across)
        np.testing.assert_allclose(errors["two"][:3], two, rtol=2e-2)
        # A step may be small by chance.
        np.testing.assert_allclose(errors["still"], 3 * asked[-1].across)
    assert _refined.refined(found, lambda _: False)[0]["one"][0] == 1 + moves * asked[1].nodes
    asked.clear()  # what nobody asked for may be known worse
    _refined.refined(found, wanted={"two", "still"})
    assert len(asked) == 2


def test_errors_are_what_few_samples_say_is_left_of_a_step() -> None:
    """The largest share over outcomes that are arrays; more than the whole step is not believed."""
    levels = (*_refined.ACCURACIES, _refined._FINEST)

    def outcomes(*whole: float) -> Callable[[Accuracy], dict[str, np.ndarray]]:
        def found(accuracy: Accuracy) -> dict[str, np.ndarray]:
            value = whole[levels.index(accuracy)]
            return {
                "one": np.full(3, value),
                "two": np.array(9 * value * value),
                "less": np.full(3, whole[min(levels.index(accuracy), 1)]),
                "still": np.ones(3),
            }

        return found

    whole = outcomes(1.1, 1.0, 1.0, 1.0)
    for few, share in (
        (outcomes(2.4, 2.0, 1.9, 1.8), 0.5),
        (outcomes(2.4, 2.0, 2.0, 2.0), _refined._RATIO),
        (outcomes(2.1, 2.0, 2.5, 2.7), 1.0),
        (outcomes(2.0, 2.0, 2.0, 2.0), 1.0),
    ):
        _, errors = _refined.refined(whole, lambda _: False, few)
        np.testing.assert_allclose(errors["one"], 2 * share * 0.1 * np.sqrt(2), rtol=1e-9)
    for level, next_ in itertools.pairwise(levels):
        assert level.series > next_.series
    # Of a step that is larger than the outcome no share is believed.
    _, errors = _refined.refined(
        outcomes(1.1, 0.1, 0.1, 0.1), lambda _: False, outcomes(2.4, 2.0, 2.0, 2.0)
    )
    np.testing.assert_allclose(errors["one"], 2 * 1.0 * np.sqrt(2), rtol=1e-2)
    # A step that is small by chance counts for what the one before let expect.
    _, errors = _refined.refined(
        outcomes(1.1, 1.0, 0.999, 0.999), lambda _: True, outcomes(3, 2.5, 2, 2)
    )
    expected = 2 * _refined._RATIO * (_refined._RATIO * 0.1) * np.sqrt(2)
    np.testing.assert_allclose(errors["one"], expected, rtol=1e-9)
    # A leap over one accuracy leaves a share that is that of both steps together.
    leap = levels[::2]
    _, errors = _refined.refined(whole, lambda _: True, outcomes(3, 2.5, 2, 2), levels=leap)
    np.testing.assert_allclose(errors["one"], 2 * _refined._RATIO**2 * 0.1 * np.sqrt(2), rtol=1e-9)


AWKWARD = (
    ("sin", 1.4, 0.6),
    *thorough(
        ("tanh", 1.4, 0.6),
        ("gelu", 1.4, 0.6),
        ("erf", 6.0, 0.6),
        ("tanh", 0.3, 0.6),
        ("tanh", 1.4, 0.05),
    ),
)


@pytest.mark.parametrize(("activation", "C_W", "spread"), AWKWARD, ids=str)
def test_stated_errors_are_true(
    activation: str, C_W: float, spread: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Few samples speak for all, whether weights are small or large, and for inputs that are almost parallel."""
    rng = np.random.default_rng(5)
    x = rng.standard_normal(12) + spread * rng.standard_normal((11, 12))
    net = sw.MLP(3, 64, activation, input_dim=12, output_dim=1, **(SCALES | {"C_W": C_W}))
    given = sw.Task(x[:8], rng.standard_normal((8, 1)), test_inputs=x[8:])
    asked = Asked(net, given, GradientDescent())
    names = ["output_mean_nlo", "output_covariance_nlo"]
    levels, failures = _refined.ACCURACIES, []
    monkeypatch.setattr(_refined, "ACCURACIES", (_refined._FINEST,) * 2)
    known = TILES.compute(asked, names).values
    monkeypatch.setattr(_refined, "ACCURACIES", levels[:2])
    monkeypatch.setattr(_route, "_DOUBLE", 7)
    for name, most in (("_FEW", 4), ("_FEW_TESTS", 2)):
        monkeypatch.setattr(_route, name, most)
    found = TILES.compute(asked, names)
    for name in names:
        gap, stated = (
            np.sqrt(np.mean(v**2)) for v in (found.values[name] - known[name], found.errors[name])
        )
        size = np.sqrt(np.mean(known[name] ** 2))
        if not gap < stated or (spread > 0.1 and stated > 0.1 * size):
            failures.append((name, gap / size, stated / size))
    assert not failures


def test_blocks_and_what_is_kept_of_them_change_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where expectations are exact: otherwise they tell which two samples are given."""
    asked = Asked(network(3, "sin", 2), task(3, 5, 2, 2), GradientDescent())
    monkeypatch.setattr(_route, "refined", lambda found, *_, **__: (found(FINE), {}))
    monkeypatch.setattr(Tile, "_expected", exactly)
    names = sorted(TILES.outcomes - {"output_mean_nlo_by_layer"})
    more, lots = [], _sums.KEPT
    for sizes, kept in (((5,), lots), ((2, 2, 1), lots), ((1, 3, 1), 0)):
        parts = np.split(np.array([3, 1, 0, 4, 2]), np.cumsum(sizes)[:-1])
        monkeypatch.setattr(_sums, "blocks", lambda *_, parts=parts: parts)
        monkeypatch.setattr(_sums, "KEPT", kept)
        more.append(TILES.compute(asked, names).values)
    for found in more[1:]:
        for name in names:
            size = np.abs(more[0][name]).max()
            np.testing.assert_allclose(found[name], more[0][name], atol=1e-9 * size, rtol=1e-7)


@pytest.mark.parametrize("activation", ["sin", *thorough("tanh")])
def test_single_precision_is_enough_for_many_samples(
    activation: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    rng = np.random.default_rng(3)
    x = rng.standard_normal(12) + 0.6 * rng.standard_normal((7, 12))
    net = sw.MLP(3, 64, activation, input_dim=12, output_dim=1, **SCALES)
    asked = Asked(net, sw.Task(x[:5], x[:5, :1], test_inputs=x[5:]), GradientDescent())
    names = ["output_mean_nlo", "output_covariance_nlo", "ntk_change_nlo"]
    seen: list[type] = []
    last = Tensors.last

    def noted(tensors: Tensors, letter: str, *labels: int) -> np.ndarray:
        found = last(tensors, letter, *labels)
        seen.append(found.dtype.type)
        return found

    monkeypatch.setattr(Tensors, "last", noted)
    monkeypatch.setattr(_refined, "ACCURACIES", _refined.ACCURACIES[:2])
    want = TILES.compute(asked, names)
    assert set(seen) == {np.float64}
    seen.clear()
    monkeypatch.setattr(_route, "_DOUBLE", 4)
    monkeypatch.setattr(_route, "_few", lambda *_: None)
    found = TILES.compute(asked, names)
    assert seen.count(np.float32) > 10 * seen.count(np.float64)
    for name in names:
        gap = np.abs(found.values[name] - want.values[name]).max()
        size = np.abs(want.values[name]).max()
        assert 0 < gap < 1e-3 * size, (name, gap / size)


def test_blocks_hold_every_sample_once() -> None:
    """Those that tell most of others first, one that stands alone last."""
    rng = np.random.default_rng(0)
    for count, train in ((5, 3), (60, 30), (300, 200)):
        stack = stack_of(network(2, "erf"), rng.standard_normal((count, 3)))
        found = list(_sums.blocks(stack, count, train))
        np.testing.assert_array_equal(np.sort(np.concatenate(found)), np.arange(train))
        assert len(found) == 1 or max(map(len, found)) < train
    stack = stack_of(network(2, "erf"), np.array([[0.0, 0, 3], [1, 0.1, 0], [1, 0, 0], [0, 0, 3]]))
    (found,) = _sums.blocks(stack, 4, 3)
    assert found[-1] == 0


def test_close_inputs_are_not_left_to_single_precision(monkeypatch: pytest.MonkeyPatch) -> None:
    """Their inverse kernel magnifies rounding; where it does so little, that much is open at least."""
    rng, kinds = np.random.default_rng(5), []
    monkeypatch.setattr(_route, "_DOUBLE", 7)
    monkeypatch.setattr(_refined, "ACCURACIES", _refined.FINER[2:4])
    monkeypatch.setattr(
        _route, "sites", lambda *given, dtype: kinds.append(dtype) or sites(*given, dtype=dtype)
    )
    monkeypatch.setattr(_route, "_few", lambda *_: None)
    x, y = rng.standard_normal(12), rng.standard_normal((8, 1))
    for spread in (0.6, 0.1):
        close = x + spread * rng.standard_normal((9, 12))
        net = sw.MLP(2, 64, "erf", input_dim=12, output_dim=1, **SCALES)
        asked = Asked(net, sw.Task(close[:8], y, test_inputs=close[8:]), GradientDescent())
        found = TILES.compute(asked, ["output_mean_nlo"])
        if spread == 0.6:
            with monkeypatch.context() as patch:
                patch.setattr(_route, "_ROUNDED", 50 * _route._ROUNDED)
                more = TILES.compute(asked, ["output_mean_nlo"])
            h = SampleKernels(asked, TILES.kinds, deep=True, size=9).trained.h
            least = 50 * _route._ROUNDED * (h.mean() / h.min()) ** 2
            assert 0.003 < least < 0.01
            size = np.sqrt(np.mean(more.values["output_mean_nlo"] ** 2))
            assert more.errors["output_mean_nlo"].min() >= 0.99 * least * size
            assert found.errors["output_mean_nlo"].min() < least * size
    assert kinds == [np.float32, np.float32, np.float64]


def test_errors_follow_steps_that_become_smaller_slowly_or_stop_by_chance() -> None:
    for wholes, error in (
        (
            (4.0, 2.0, 1.0),
            2 * np.sqrt(2),
        ),  # half of each step is left, and as much of all that follow
        ((4.0, 2.0, 1.999), 0.5 * 0.4 * np.sqrt(2)),  # not the tiny step: a fifth of the one before
        ((4.0, 3.0, 1.0), 2 * 3 * 2 * np.sqrt(2)),  # it grows, and is not believed to fall quickly
    ):
        values = iter(wholes)
        _, errors = _refined.refined(lambda _, v=values: {"one": np.full(3, next(v))})
        np.testing.assert_allclose(errors["one"], error, rtol=2e-2)
    values = iter((4.0, 2.0, 1.999, 1.998))  # nor the second tiny step: a fifth of a fifth
    _, errors = _refined.refined(
        lambda _: {"one": np.full(3, next(values))}, enough=1e-9, levels=_refined.FINER[:4]
    )
    np.testing.assert_allclose(errors["one"], 0.5 * 0.08 * np.sqrt(2), rtol=2e-2)
