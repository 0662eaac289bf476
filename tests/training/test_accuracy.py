"""Golden and property: how accurate the coefficients of 1/n are, and whether they say so."""

import warnings

import numpy as np
import pytest

import scalewise as sw
from accurate_coefficients import DAILY, NAMES, OTHERS, Case, product_rule, pulls, size
from accurate_coefficients import setting as of_case
from grids import thorough
from scalewise.training import AccuracyWarning, Bayes, ExpansionWarning, GradientFlow, LastLayer
from scalewise.training._asked import Asked
from scalewise.training.posterior._route import NEURONS
from scalewise.training.tiles import _refined
from scalewise.training.tiles._refined import FINER, refined, tell_of_time
from scalewise.training.tiles._rules import Accuracy
from scalewise.training.tiles._setting import sites
from scalewise.training.tiles._tiles import Tile
from scalewise.training.tiles._whole import Layers
from scalewise.training.width import _dense
from scalewise.training.width._dense import DENSE

FAMILIES = ((0, 0, 0, 0), (0, 0, 1, 1), (1, 1, 1, 1), (2, 0, 1, 1), (2, 2, 1, 1), (3, 1, 1, 1))


@pytest.mark.parametrize(
    ("name", "rank", "nodes"),
    [("tanh", 2, 80), *thorough(("erf", 1, 200), ("erf", 2, 120), ("gelu", 3, 50))],
)
def test_expectations_are_as_accurate_as_asked_in_few_dimensions(
    name: str, rank: int, nodes: int
) -> None:
    """Of inputs in a line or a plane two know all others, and one alone does not."""
    x = np.random.default_rng(rank).standard_normal((5, rank))
    x *= np.array([1.4, 1.0, 0.6, 1.2, 0.8])[:, None] / np.linalg.norm(x, axis=1)[:, None]
    x[4] = -0.7 * x[3]
    net = sw.MLP(2, 8, name, input_dim=rank, output_dim=1, C_W=float(rank))
    known = sw.predict(net, x, observables=["kernel", "ntk"])
    layers, every = sites(net, (known.kernel.values, known.ntk.values)), np.arange(5)
    worst = {}
    for accuracy in (1e-4, 1e-7, 1e-9):
        (site,) = layers(Accuracy(accuracy, accuracy, accuracy))
        tile = Tile((every,) * 4)
        for orders in FAMILIES:
            want = product_rule(net.activation, x, orders, nodes)
            found = tile.four(site, *enumerate(orders))
            worst[accuracy, orders] = np.abs(found - want).max() / np.abs(want).max() / accuracy
    assert max(worst.values()) < 5, worst


def setting(
    name: str, train: int = 4, *, depth: int = 3, features: int = 3
) -> tuple[sw.Network, sw.Task]:
    rng = np.random.default_rng(0)
    x, y = rng.standard_normal((train + 2, features)), rng.standard_normal((train + 2, 1))
    net = sw.MLP(depth, 1000, name, input_dim=features, output_dim=1, C_b=0.1, C_W=1.4)
    return net, sw.Task(x[:train], y[:train], test_inputs=x[train:], test_targets=y[train:])


@pytest.mark.parametrize("tiles", [True, *thorough(False)], ids=["tiles", "whole tensors"])
def test_an_accuracy_that_is_asked_for_is_met(tiles: bool) -> None:
    """And a coarser one is nearer to it than it says."""
    given = setting("gelu", 9, depth=2, features=6) if tiles else setting("erf")
    usual, fine = (
        sw.predict_training(*given, observables=NAMES[:1], accuracy=accuracy)
        for accuracy in (None, 5e-4)
    )
    assert fine.attrs["accuracy"] <= 5e-4
    assert 5e-4 < usual.attrs["accuracy"] <= 0.01
    for found in (usual, fine):
        shares = [size(found[f"{x}_error"]) / size(found[x]) for x in NAMES[:1]]
        assert found.attrs["accuracy"] == pytest.approx(max(shares))
    for name in NAMES[:1]:
        assert size(usual[name] - fine[name]) < size(usual[f"{name}_error"])


def test_what_training_leaves_nothing_of_is_not_made_finer() -> None:
    """Its steps are as large as itself at each accuracy, and no larger than what rounding leaves."""
    rng, taken = np.random.default_rng(0), []

    def found(accuracy: Accuracy) -> dict[str, np.ndarray]:
        taken.append(accuracy)
        return {"something": np.ones(3), "nothing": 1e-16 * rng.normal(size=3)}

    refined(found, levels=FINER, rounding={"nothing": np.full(3, 1e-15)})
    assert len(taken) == 2
    refined(found, levels=FINER)
    assert len(taken) == 2 + len(FINER)


@pytest.mark.parametrize("way", [Bayes(), *thorough(LastLayer())])
def test_an_accuracy_out_of_reach_is_told(way: Bayes | LastLayer) -> None:
    net, task = setting("relu")
    with pytest.warns(AccuracyWarning, match=r"_nlo' is known to .* asks for 1e-05: .* sampled"):
        sw.predict_training(net, task, way, observables=["variance_nlo"], accuracy=1e-5)


def test_an_accuracy_of_nothing_is_refused() -> None:
    net, task = setting("tanh")
    with pytest.raises(ValueError, match="none is computed; name some in `observables`"):
        sw.predict_training(net, task, accuracy=0.01)
    weights = sw.nets.init_weights(net, 0)
    with pytest.raises(ValueError, match="`draws` decides; leave `accuracy` out"):
        sw.predict_training(net, task, weights=weights, accuracy=0.01)
    other = sw.Task(task.inputs, np.sign(task.targets), loss="logistic")
    with pytest.raises(ValueError, match="`draws` decides; leave `accuracy` out"):
        sw.predict_training(net, other, GradientFlow(1.0), accuracy=0.01)


def test_a_posterior_is_as_accurate_as_asked() -> None:
    net, task = setting("tanh")
    usual, fine = (
        sw.predict_training(net, task, Bayes(0.1), observables=NAMES[:1], accuracy=accuracy)
        for accuracy in (None, 3e-3)
    )
    assert fine.attrs["accuracy"] <= 3e-3 < usual.attrs["accuracy"]
    (name,) = NAMES[:1]
    assert size(usual[name] - fine[name]) < size(usual[f"{name}_error"])


def test_kinks_and_samples_that_are_close_by_both_routes() -> None:
    rng = np.random.default_rng(1)
    x = rng.standard_normal(6) + 0.15 * rng.standard_normal((6, 6))
    net = sw.MLP(3, 1000, "relu", input_dim=6, output_dim=1, C_W=2.0)
    task = sw.Task(x[:4], rng.standard_normal((4, 1)), test_inputs=x[4:])
    asked = Asked(net, task, LastLayer())
    here, there = (route.compute(asked, NAMES[:2]) for route in (NEURONS, DENSE))
    for name in NAMES[:2]:
        off, error = here.values[name] - there.values[name], here.errors[name]
        assert size(off) < size(error) + size(there.errors[name]), name
        assert size(there.errors[name]) < 0.3 * size(there.values[name]), name


def test_how_long_it_takes_is_said_before(monkeypatch: pytest.MonkeyPatch) -> None:
    """And what takes less; nothing where it is a moment."""
    with pytest.warns(
        UserWarning, match=r"100 training samples takes about 6 minutes .* takes 2 of them"
    ):
        tell_of_time([30.0, 90.0, 240.0], 100, "Half.")
    with pytest.warns(UserWarning, match=r"of one core. Half\.$"):
        tell_of_time([30.0, 90.0], 100, "Half.")
    tell_of_time([5.0, 10.0, 40.0], 100, "Half.")
    monkeypatch.setattr(_refined, "_PATIENCE", 1e-9)
    for count, names in ((9, ["learning_parameter"]), (2, NAMES[:1])):  # by tiles and whole
        net, task = setting("sin", count, depth=2)
        with pytest.warns(
            UserWarning, match=f"of {count} training samples takes about .* sixteenth"
        ):
            sw.predict_training(net, task, observables=names)


@pytest.mark.parametrize(
    ("name", "accuracy", "levels"),
    [("tanh", None, 2), ("tanh", 0.1, 2), ("erf", 3e-3, 2), ("erf", 1e-4, 4), ("relu", None, 0)],
)
def test_the_time_of_few_samples_is_that_of_their_expectations(
    name: str, accuracy: float | None, levels: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The different inputs of every block of tests, by the fourth power, at each accuracy that is needed."""

    class Told(Exception):
        pass

    def tell(seconds: list[float], count: int, less: str) -> None:
        raise Told(seconds, count, less)

    monkeypatch.setattr(_dense, "tell_of_time", tell)
    monkeypatch.setattr(_dense, "_RATE", 10.0)
    monkeypatch.setattr(_dense, "_NODES_RATE", 100.0)
    net, task = setting(name, 4)
    tests = np.random.default_rng(1).standard_normal((31, 3))
    tests[-1] = tests[-2]  # 28 of them with all training samples, and 3, of which two are one
    whole = sw.Task(task.inputs, task.targets, test_inputs=tests)
    for given, sizes, end in ((task, [6], "sixteenth"), (whole, [32, 6], "tests take half")):
        way = GradientFlow() if levels else LastLayer()
        with pytest.raises(Told) as told:
            DENSE.compute(Asked(net, given, way, accuracy=accuracy), ["variance_nlo"])
        seconds, count, less = told.value.args
        entries = sum(size**4 for size in sizes)
        if not levels:
            assert seconds == pytest.approx([entries * 2 / 100.0])
        else:
            x = np.concatenate([given.inputs, given.test_inputs])[:32]
            K = sw.predict(net, x[:32], observables=["kernel"]).kernel.values[:2]
            for accurate, its in zip(FINER[:levels], seconds, strict=True):
                layers = Layers(accurate)
                inner = sum(sum(layers(net.activation, one).given.rule.nodes) for one in K)
                assert its == pytest.approx(entries * inner / 10.0)
        assert count == 4
        assert less.rstrip(".").endswith(end)


@pytest.mark.filterwarnings("ignore:Training magnifies:scalewise.training.ExpansionWarning")
def test_variances_that_a_width_makes_negative_are_told() -> None:
    """By both verbs, and not where there is enough of them."""
    rng, (net, _) = np.random.default_rng(1), setting("gelu", depth=2)
    x, y = rng.standard_normal((3, 3)), 0.1 * rng.standard_normal((3, 1))
    task = sw.Task(x, y, test_inputs=x[:1] + 1)
    names = ["train_variance", "train_variance_nlo", "learning_parameter"]
    wide = sw.predict_training(net, task, GradientFlow(6.0), observables=names)
    assert (wide.train_variance + wide.train_variance_nlo / 2 < 0).any()
    told = r"of 3 variances are negative at width 2 .* width of at least 3, or another time"
    with pytest.warns(ExpansionWarning, match=told):
        sw.predict_training(net.at_width(2), task, GradientFlow(6.0), observables=names)
    with pytest.warns(ExpansionWarning, match=told):
        sw.at_width(wide, 2)


@pytest.mark.filterwarnings("ignore:Training magnifies:scalewise.training.ExpansionWarning")
@pytest.mark.filterwarnings("ignore:Kernels are computed to 1e-12:UserWarning")
@pytest.mark.parametrize("case", [*DAILY, *thorough(*((case,) for case in OTHERS))], ids=str)
def test_stated_errors_hold_beside_another_quadrature(case: Case) -> None:
    """Of all outcomes at each accuracy; where one that is asked for is out of reach, that is said."""
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always", AccuracyWarning)
        found = list(pulls(*of_case(case)))
    beyond = [one for one in found if one.accuracy and one.stated > one.accuracy]
    assert bool(beyond) == any(issubclass(one.category, AccuracyWarning) for one in told), beyond
    assert 1e-4 < max(one.pull for one in found) < 1.5, found


def other_networks() -> dict[str, tuple[sw.Network, int, tuple[int, ...]]]:
    """Whose preactivations at all labels of so many samples of a shape lie in three dimensions at most."""
    own = {"width": 10**6, "C_W": 1.4, "lambda_b": 0.5}
    pooled = (sw.Conv(2, padding="circular"), "tanh", sw.GlobalAvgPool(), sw.Dense(1))
    stacked = (sw.Dense(), "tanh", sw.Dense(), "gelu", sw.Dense(1))
    stream = sw.networks.ResidualMLP(
        3, 10**6, "tanh", gamma=(0.0, 0.9, 0.0), input_dim=1, output_dim=1, C_W=0.8, lambda_b=0.5
    )
    return {
        "pooled": (sw.Network(*pooled, input_shape=(2, 1), **own), 3, (2, 1)),
        "stacked": (sw.Network(*stacked, input_shape=3, **own), 2, (3,)),
        "stream": (stream, 2, (1,)),
    }


@pytest.mark.parametrize("name", ["stream", *thorough("pooled", "stacked")])
def test_stated_errors_of_other_networks_hold_beside_another_quadrature(name: str) -> None:
    """Positions, activations that differ, and neurons that remember themselves."""
    net, count, shape = other_networks()[name]
    rng = np.random.default_rng(1)
    x, y = rng.standard_normal((count, *shape)), rng.standard_normal((count, 1))
    task = sw.Task(x[:-1], y[:-1], test_inputs=x[-1:], test_targets=y[-1:])
    found = list(pulls(net, task))
    assert 1e-4 < max(one.pull for one in found) < 1.5, found
    assert max(one.stated for one in found if one.accuracy) < 3e-3
