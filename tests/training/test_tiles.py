"""Agreement and property: the route by tiles against whole tensors, entry by entry and outcome by outcome."""

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
from scalewise.training.tiles import _refined, _route, _rules, _sums, _tiles
from scalewise.training.tiles._recursions import Tensors, _product, _total, families
from scalewise.training.tiles._route import TILES
from scalewise.training.tiles._rules import Accuracy
from scalewise.training.tiles._series import with_rest
from scalewise.training.tiles._setting import Site, sites
from scalewise.training.tiles._tiles import Tile
from scalewise.training.width import _dense
from scalewise.training.width._dense import DENSE
from scalewise.training.width._dense_outcomes import outcomes_of

pytestmark = pytest.mark.filterwarnings("ignore::scalewise.training.ExpansionWarning")
LETTERS = {
    "V": "four_point_vertex",
    "D": "ntk_D",
    "A": "ntk_A",
    "F": "ntk_F",
    "B": "ntk_B",
    "P": "dntk_P",
    "Q": "dntk_Q",
    "R": "ddntk_R",
    "S": "ddntk_S",
    "T": "ddntk_T",
    "U": "ddntk_U",
}
SCALES = {"C_b": 0.1, "C_W": 1.4, "lambda_b": 0.5, "lambda_W": 1.0}


def network(depth: int, activation: str, outputs: int = 1) -> sw.Network:
    widths = (48, 64, 80, 56)[: depth - 1]
    return sw.MLP(depth, widths, activation, input_dim=3, output_dim=outputs, **SCALES)


def task(seed: int, train: int, tests: int, outputs: int = 1) -> sw.Task:
    rng = np.random.default_rng(seed)
    x, y = rng.standard_normal((train + tests, 3)), rng.standard_normal((train + tests, outputs))
    return sw.Task(x[:train], y[:train], test_inputs=x[train:], test_targets=y[train:])


FINE = Accuracy(1e-6, 1e-5, 1e-3)


def stack_of(net: sw.Network, x: np.ndarray, accuracy: Accuracy = FINE) -> list[Site]:
    found = sw.predict(net, x, observables=["kernel", "ntk"])
    return sites(net, (found.kernel.values, found.ntk.values))(accuracy)


@pytest.mark.parametrize(("depth", "activation"), [(3, "gelu"), *thorough((2, "sin"), (4, "erf"))])
def test_every_tensor_on_a_tile_is_that_of_predict(depth: int, activation: str) -> None:
    net, x = network(depth, activation), np.random.default_rng(depth).standard_normal((3, 3))
    known = sw.predict(net, x, observables="all", layers=depth)
    one, more = np.array([0]), np.arange(1, 3)
    failures = []
    stack = stack_of(net, x)
    for letter, name in LETTERS.items():
        both = (known[name].values[0], known[f"{name}_error"].values[0])
        entries = {
            (0, 1, 2, 3): [v[np.ix_(one, more, more, more)] for v in both],
            (1, 2, 0, 3): [np.moveaxis(v[np.ix_(more, more, one, more)], 2, 0) for v in both],
            (2, 0, 3, 3): [
                np.einsum("badd->abd", v[np.ix_(more, one, more, more)])[:, None] for v in both
            ],
        }
        for labels, (wanted, error) in entries.items():
            found = Tensors(stack, Tile((one, more, more, more))).last(letter, *labels)
            usual = np.sqrt(np.mean(error**2)) + 1e-5 * np.abs(both[0]).max()
            if not np.abs(found - wanted).max() < 4 * usual:
                failures.append((letter, labels, np.abs(found - wanted).max() / usual))
    for letter, name in (("G1", "metric_nlo"), ("H1", "ntk_nlo")):
        want, every = known[name].values[0], np.arange(3)
        found = Tensors(stack, Tile((every, every, one, one))).last(letter, 0, 1)
        error = known[f"{name}_error"].values[0].max() + 5e-5 * np.abs(want).max()
        if not np.abs(found - want).max() <= 4 * error:
            failures.append((letter, found, want))
    assert not failures


def closed_form(site: Site, vertices: list[tuple[int, int]]) -> float:
    """Of sines and their derivatives: a sum of exponentials."""
    total = 0.0
    for signs in itertools.product((1, -1), repeat=4):
        at = [x for x, _ in vertices]
        phase = np.pi / 2 * sum(s * (p - 1) for s, (_, p) in zip(signs, vertices, strict=True))
        s = np.array(signs, float)
        total += np.cos(phase) * np.exp(-0.5 * s @ site.K[np.ix_(at, at)] @ s) / 16
    return total


FAMILIES = ((0, 0, 0, 0), (0, 0, 1, 1), (1, 1, 1, 1), (2, 1, 1, 0), (3, 1, 1, 1), (2, 2, 1, 1))


def awkward() -> np.ndarray:
    """Inputs that are one, almost one, opposite, almost opposite, small, large and others."""
    rng = np.random.default_rng(7)
    x = rng.standard_normal((4, 3))
    near, against = x[0] + 1e-4 * x[1], -x[0] + 1e-5 * x[2]
    return np.stack([x[0], x[0], near, -x[0], against, 0.01 * x[1], 1.5 * x[2], x[3]])


@pytest.mark.parametrize("biases", [0.0, 0.3])
def test_expectations_of_sines_have_a_closed_form(biases: float) -> None:
    net = sw.MLP(2, 8, "sin", input_dim=3, output_dim=1, **(SCALES | {"C_b": biases}))
    (site,) = stack_of(net, awkward())
    every, failures = np.arange(8), []
    kinds = ((every[::7], every, *(every[[0, 2, 4]],) * 2), (every[1:2], *(every[2:6],) * 3))
    for rows in kinds:
        tile = Tile(rows)
        for family in FAMILIES:
            for orders in sorted(set(itertools.permutations(family)))[::3]:
                for labels in (
                    (0, 1, 2, 3),
                    (0, 1, 1, 2),
                    (1, 2, 2, 3),
                    (0, 2, 1, 1),
                    (0, 0, 1, 1),
                ):
                    vertices = list(zip(labels, orders, strict=True))
                    found = tile.four(site, *vertices)
                    for entry in zip(
                        *(r[:: len(r) // 3 + 1] for r in np.indices(found.shape).reshape(4, -1)),
                        strict=True,
                    ):
                        samples = [(int(rows[x][entry[x]]), p) for x, p in vertices]
                        gap = abs(found[entry] - closed_form(site, samples))
                        if not gap < 1e-4:
                            failures.append((labels, orders, samples, gap))
    assert not failures, failures[:5]


def test_expectations_of_four_independent_inputs() -> None:
    """What two inputs leave of two others is correlated neither fully nor not at all."""
    x, failures = np.random.default_rng(8).standard_normal((4, 6)), []
    net = sw.MLP(2, 8, "sin", input_dim=6, output_dim=1, **SCALES)
    (site,) = stack_of(net, x)
    tile = Tile(tuple(np.array([k]) for k in range(4)))
    for family in FAMILIES:
        for orders in sorted(set(itertools.permutations(family))):
            found = tile.four(site, *enumerate(orders)).item()
            want = closed_form(site, list(enumerate(orders)))
            if not abs(found - want) < 1e-4:
                failures.append((orders, found, want))
    assert not failures, failures[:5]


def test_the_series_is_exact_where_two_samples_are_one(monkeypatch: pytest.MonkeyPatch) -> None:
    """However few terms are summed, and whether or not lists of samples are the same."""
    net = sw.MLP(2, 8, "sin", input_dim=3, output_dim=1, **(SCALES | {"C_W": 6.0}))
    some, failures, moved = np.array([6, 3, 7, 5]), [], 0.0
    four = {0: (0, 1, 2, 3), 1: (0, 0, 2, 3)}
    three = {0: (0, 0, 1, 2), 1: (0, 0, 1, 1)}
    for second, blocks in (
        (some, (some[:1], some[1:3])),
        (some.copy(), (some[2:], some[:2])),
        (some[:3], (some[:3], some[:1])),
    ):
        (site,) = stack_of(net, awkward(), Accuracy(1e-6, 1e-5, 0.9))
        assert site.given.rule.terms < 8
        tile = Tile((some, second, *blocks))
        for labels, same in (four.values(), three.values()):
            for orders in ((1, 1, 1, 1), (0, 1, 2, 1), (1, 3, 1, 1)):
                found, known = (
                    tile.four(site, *zip(at, orders, strict=True)) for at in (labels, same)
                )
                with monkeypatch.context() as patch:
                    patch.setattr(_tiles, "with_rest", lambda out, *_: out)
                    alone = Tile(tile.rows).four(site, *zip(labels, orders, strict=True))
                x, y = next((x, y) for x, y in zip(labels, same, strict=True) if x != y)
                for i, j in np.argwhere(tile.rows[x][:, None] == tile.rows[y]):
                    at: list[slice | int] = [slice(None)] * 4
                    at[x], at[y] = int(i), int(j)
                    one = [0 if k == x else part for k, part in enumerate(at)]
                    gap = np.abs(found[tuple(at)] - known[tuple(one)]).max()
                    if not gap < 1e-4:
                        failures.append((labels, orders, i, j, gap))
                    moved = max(moved, np.abs(alone[tuple(at)] - known[tuple(one)]).max())
    assert not failures
    assert moved > 1e-3


def test_terms_that_are_left_out_fall_as_those_of_two_that_are_one() -> None:
    """A property: of geometric series all is found from the rest where two are one, with its sign."""
    terms, fall, R = 5, 0.8, np.linspace(-0.9, 1, 9).reshape(1, 3, 3)
    sizes = np.array([[1.0, -1.0, 2.0]])
    end = sizes * fall**terms / (1 - fall), sizes * fall ** (terms - 2) * (1 + fall)
    both = np.sqrt([[[1, 0, 2], [0, 1, 0], [2, 0, 4]]])
    both[0, 1, 1] = -1
    expected = both * sum((fall * R) ** k for k in range(terms, 400))
    found = with_rest(np.zeros((1, 3, 3)), (end, end), R, terms)
    np.testing.assert_allclose(found, expected, rtol=1e-12, atol=1e-14)


@pytest.mark.parametrize("activation", ["tanh", *thorough("gelu")])
def test_expectations_are_those_of_brute_force(activation: str) -> None:
    net = network(2, activation)
    (site,) = stack_of(net, awkward())
    g = np.linspace(-5.0, 5.0, 26)
    w = np.exp(-(g**2) / 2)
    nodes = np.stack(np.meshgrid(*(g,) * 4, indexing="ij")).reshape(4, -1)
    weights = np.prod(np.stack(np.meshgrid(*(w,) * 4, indexing="ij")).reshape(4, -1), axis=0)
    every, failures = np.arange(8), []
    tile = Tile((every, every.copy(), every[2:], every[3:]))
    for orders in FAMILIES:
        found = tile.four(site, *enumerate(orders))
        for entry in ((7, 6, 5, 2), (0, 2, 5, 4), (6, 7, 3, 0)):
            at = [int(tile.rows[x][entry[x]]) for x in range(4)]
            h, U = np.linalg.eigh(site.K[np.ix_(at, at)])
            z = (U * np.sqrt(np.maximum(h, 0))) @ nodes
            values = [
                site.sigma.derivative(z[x], p) if p else site.sigma(z[x])
                for x, p in enumerate(orders)
            ]
            want = np.sum(weights * np.prod(values, axis=0)) / weights.sum()
            if not abs(found[entry] - want) < 3e-4:
                failures.append((orders, entry, found[entry], want))
    assert not failures


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


def test_products_on_labels_are_einsum() -> None:
    rng = np.random.default_rng(0)
    rows = (np.array([4, 1]), *(np.array([0, 2, 3]),) * 3)
    rows = (rows[0], rows[1], rows[1], rows[1])
    tile, one, two = Tile(rows), *rng.standard_normal((2, 5, 5))
    a, b = one[np.ix_(rows[1], rows[2])], two[np.ix_(rows[0], rows[3])]
    found = _product([tile.edge(one, 1, 2), tile.edge(two, 0, 3), 2.0])
    np.testing.assert_allclose(found, 2 * np.einsum("bc,ad->abcd", a, b))
    whole = rng.standard_normal((2, 3, 3, 3))
    found = _product([whole, tile.edge(one, 1, 2), tile.edge(two, 0, 3)])
    np.testing.assert_allclose(found, np.einsum("abcd,bc,ad->abcd", whole, a, b))
    turned, once = tile.edge(one, 2, 1), tile.edge(one, 3, 3)
    np.testing.assert_allclose(turned[0, :, :, 0], a.T)
    np.testing.assert_allclose(once[0, 0, 0], np.diag(one)[rows[3]])
    terms = iter([(2.0, turned), (once, 3.0, tile.edge(two, 0, 1)), (None, turned)])
    want = 2 * a.T[None, :, :, None] + 3 * np.einsum("d,ab->abd", np.diag(a), b)[:, :, None]
    total = _total(terms)
    assert total is not None
    np.testing.assert_allclose(total, want)


def test_what_is_alike_is_made_once_and_transposed() -> None:
    same = np.arange(3)
    tile, made = Tile((np.array([0]), same, same, same)), []

    def make(*labels: int) -> np.ndarray:
        made.append(labels)
        sizes = [1, 3, 3, 3]
        return np.random.default_rng(0).standard_normal(
            [sizes[x] if x in labels else 1 for x in range(4)]
        )

    first = tile.known("T", (0, 1, 2, 2), make)
    second, third = tile.known("T", (0, 3, 1, 1), make), tile.known("T", (1, 0, 2, 2), make)
    assert made == [(0, 1, 2, 2), (1, 0, 2, 2)]
    assert first is not None
    assert second is not None
    assert third is not None
    np.testing.assert_array_equal(second[:, :, 0].transpose(0, 2, 1), first[..., 0])


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


def test_families_that_share_sums_are_those_made_alone() -> None:
    """All orders at four labels of some tensor, where they stand on any of these."""
    x = np.random.default_rng(2).standard_normal((5, 4))
    stack = stack_of(network(2, "gelu"), x[:, :3])
    asked = families(frozenset(LETTERS))
    known = ("0000", "0011", "1111", "0112", "1113", "1122")
    assert asked == {tuple(map(int, orders)) for orders in known}
    every, one, other = np.arange(5), np.array([0, 1]), np.array([2])
    together = Tile((every, every, one, other), families=asked)
    for orders in sorted(asked):
        for p, q, r, s in sorted(set(itertools.permutations(orders))):
            vertices = ((0, p), (1, q), (2, r), (3, s))
            alone = Tile((every, every, one, other)).four(stack[0], *vertices)
            found = together.four(stack[0], *vertices)
            np.testing.assert_allclose(found, alone, atol=1e-5 * np.abs(alone).max())


@pytest.mark.parametrize(  # two inputs leave nothing of others
    ("name", "inputs", "thinned"), [("tanh", 2, 2), ("gelu", 2, 2), ("tanh", 4, 3)]
)
def test_the_first_nodes_are_coarser_rules(name: str, inputs: int, thinned: int) -> None:
    """Of a Gaussian: weights of every share make 1, and give its second moments."""
    rho = 0.3 + 0.7 * np.eye(inputs)
    rule = _rules.rule_for(sw.activation(name), rho, 1.2, _refined.ACCURACIES[1])
    counts = dict(zip(rule.nodes, rule.shares, strict=True))
    assert len(counts) == 1 + thinned
    for count, share in counts.items():
        u, w = rule.u[:, :count], rule.w[:count] / share
        assert w.sum() == pytest.approx(1.0)
        atol = 0.1 if count == rule.nodes[-1] and thinned == 3 else 0.02
        np.testing.assert_allclose((u * w) @ u.T, np.eye(2), atol=atol)


@pytest.mark.parametrize(("name", "sd"), [("sin", 1.265), ("softplus", 0.474)])
def test_every_accuracy_has_nodes_of_its_own(name: str, sd: float) -> None:
    """Two accuracies with one error would look exact; the errors of squares of two inputs fall with each."""
    sigma, rho = sw.activation(name), np.array([[1.0, 0.2], [0.2, 1.0]])
    levels = (*_refined.ACCURACIES, _refined._FINEST)
    lattices = [_rules.rule_for(sigma, rho, sd, accuracy).u for accuracy in levels]
    for axis in range(2):
        steps = [np.diff(np.unique(u[axis].round(9))).min() for u in lattices]
        assert all(fine < 0.95 * coarse for coarse, fine in itertools.pairwise(steps))
    if name != "sin":
        return
    # Of sin² of both, by the sum and the difference of the angles.
    alone, both, apart = (np.exp(-2 * sd**2 * x) for x in (1.0, 2.4, 1.6))
    wanted, errors = 0.25 * (1 - 2 * alone + (both + apart) / 2), []
    s, t = np.sqrt(0.6), np.sqrt(0.4)
    for accuracy in levels:
        rule = _rules.rule_for(sigma, rho, sd, accuracy)
        (u1, u2), w = rule.u, rule.w
        found = w @ (np.sin(sd * (s * u1 + t * u2)) * np.sin(sd * (s * u1 - t * u2))) ** 2
        errors.append(abs(found - wanted))
    assert all(fine < max(0.5 * coarse, 1e-9) for coarse, fine in itertools.pairwise(errors)), (
        errors
    )


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


def test_each_accuracy_is_five_times_the_one_before() -> None:
    for one, next_ in itertools.pairwise((*_refined.ACCURACIES, _refined._FINEST)):
        for name, part in dataclasses.asdict(one).items():
            assert getattr(next_, name) == pytest.approx(_refined._RATIO * part)


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
