"""Golden and property tests: optima, drifts, their errors, the verdict and the search, on losses that are known."""

import math
from contextlib import nullcontext
from types import MappingProxyType

import numpy as np
import pytest

from described_models import planned
from scalewise import scaling
from scalewise.plan import PlanError
from scalewise.plan._constants import with_constants
from scalewise.plan._verify import Verified
from scalewise.plan.proof import check_losses, find_optimum
from scalewise.plan.proof._drift import Drift, GridSize, drift_of
from scalewise.plan.proof._optimum import Optimum, excess
from scalewise.plan.proof._training import ends_of
from scalewise.plan.proof._tune import tune
from scalewise.plan.proof._verdict import TransferFinding, judge

X = np.arange(-10.0, -2.0)
VALUES = [2.0**v for v in X]
SIZES = [GridSize(f"width={n}", {"width": float(n)}) for n in (32, 64, 128, 256)]


def bowls(centres, *, seeds=4, noise=0.0, seed=0, bend=0.05):
    """Parabolas of known minimum, a level for each seed, and noise: (size, value, seed)."""
    rng = np.random.default_rng(seed)
    levels = rng.normal(size=seeds)
    clean = bend * (X[None, :] - np.asarray(centres)[:, None]) ** 2
    return clean[..., None] + levels + noise * rng.normal(size=(len(centres), len(X), seeds))


def test_the_minimum_of_a_parabola_is_found_wherever_it_lies_between_values() -> None:
    for centre in (-8.9, -6.5, -5.0, -4.01):
        (losses,) = bowls([centre])
        found = find_optimum(X, losses)
        # The levels of the seeds differ by a hundred times what the values differ by, and cancel.
        assert found.place == pytest.approx(centre, abs=1e-9)
        assert found.sem < 1e-9
        more, sem = excess(X, losses, centre + 0.7)
        assert more == pytest.approx(0.05 * 0.7**2, abs=1e-9)
        assert sem < 1e-9


def test_errors_are_the_scatter_of_repetitions() -> None:
    """Of the optimum, of the drift, and of what a carried rate costs: three hundred grids of one law."""
    centres = [-6.3, -6.4, -6.5, -6.6]
    found, costs = [], []
    for seed in range(300):
        losses = bowls(centres, noise=0.01, seed=seed)
        optima = [find_optimum(X, one) for one in losses]
        found.append((optima, drift_of("width", [s.at["width"] for s in SIZES], optima)))
        costs.append(excess(X, losses[0], -5.5))
    places = np.array([o[0].place for o, _ in found])
    assert places.mean() == pytest.approx(-6.3, abs=4 * places.std() / 300**0.5)
    sems = np.sqrt(np.mean([o[0].sem ** 2 for o, _ in found]))
    assert places.std() == pytest.approx(sems, rel=0.15)
    slopes = np.array([d.slope for _, d in found])
    assert slopes.mean() == pytest.approx(-0.1, abs=4 * slopes.std() / 300**0.5)
    # The larger of two estimates is above the truth, not far.
    sems = np.sqrt(np.mean([d.sem**2 for _, d in found]))
    assert slopes.std() < sems < 1.6 * slopes.std()
    outside = np.mean([abs(d.slope + 0.1) > d.error for _, d in found])
    assert outside < 0.06
    spread = np.std([c for c, _ in costs])
    assert spread == pytest.approx(np.sqrt(np.mean([e**2 for _, e in costs])), rel=0.15)


def test_a_line_that_does_not_fit_has_the_error_of_its_scatter() -> None:
    optima = [find_optimum(X, one) for one in bowls([-6.0, -5.0, -6.0, -5.0])]
    found = drift_of("width", [32.0, 64.0, 128.0, 256.0], optima)
    places, u = np.array([-6.0, -5.0, -6.0, -5.0]), np.array([-1.5, -0.5, 0.5, 1.5])
    rest = places - places.mean() - (u @ places / (u @ u)) * u
    assert found.sem == pytest.approx(math.sqrt(rest @ rest / 2 / (u @ u)))


def test_every_verdict() -> None:
    def verdict(centres, **options):
        return check_losses("lr", VALUES, SIZES, bowls(centres, **options))

    stays = verdict([-6.3] * 4, noise=1e-4)
    assert stays.ok
    assert stays.verdict.startswith("lr transfers: its optimum moves by")
    assert stays.best == pytest.approx(2**-6.3, rel=1e-2)
    stays.assert_ok()
    moves = verdict([-5, -5.6, -6.2, -6.8], noise=1e-4)
    assert moves.outcome == "drifts"
    assert (
        "moves by -0.60 ± 0.00 octaves per octave of width; carried to width=256 it costs"
        in moves.verdict
    )
    # What is lost is 0.05 of the square of three times 0.6 octaves.
    assert moves.costs[3][0] == pytest.approx(0.05 * 1.8**2, rel=0.2)
    with pytest.raises(AssertionError, match="lr drifts"):
        moves.assert_ok()
    low = verdict([-6, -7, -9, -11])
    assert low.outcome == "not bracketed"
    assert "at width=256 may lie below 2^-10, so extend it to the left" in low.verdict
    high = verdict([-1, -2, -5, -6])
    assert "at width=32, width=64 may lie above 2^-3, so extend it to the right" in high.verdict
    noisy = verdict([-6.3] * 4, noise=0.02, seeds=3)
    assert noisy.outcome == "too poor"
    many = int(noisy.verdict.rpartition("about ")[2].split()[0])
    assert many > 3
    # As many seeds as were asked for do tell, in most of twenty grids.
    told = [verdict([-6.3] * 4, noise=0.02, seeds=2 * many, seed=s).ok for s in range(20)]
    assert np.mean(told) > 0.6
    assert "One seed has no error" in verdict([-6.3] * 4, seeds=1).verdict
    assert verdict([-6.3] * 4, seeds=1).outcome == "too poor"


def test_a_verdict_waits_for_its_error_and_asks_for_seeds_by_its_square() -> None:
    optimum = Optimum(-6.0, 0.1, 2.0, "", 0, np.full(4, -6.0))

    def found(slope: float, sem: float) -> TransferFinding:
        drift = Drift("width", (32.0, 256.0), slope, sem, dof=1000)  # an error of two of these
        return judge("lr", ["a", "b"], VALUES, [optimum] * 2, [drift], ("b", 0.0, 0.0), 0.1)

    outcomes = {(0.3, 0.05): "drifts", (0.3, 0.2): "too poor", (-0.3, 0.05): "drifts",
                (0.05, 0.02): "transfers", (0.05, 0.1): "too poor", (-0.3, 0.2): "too poor"}  # fmt: skip
    assert {case: str(found(*case).outcome) for case in outcomes} == outcomes
    # Two errors of 0.19 are to shrink to the gap of 0.2: 3.61 times the four seeds.
    assert "about 15 seeds would tell" in found(0.3, 0.19).sentence


def test_runs_that_diverged_count_as_worse_and_are_told() -> None:
    losses = bowls([-6.0] * 4, noise=1e-4)
    losses[:, X > -5.5, :] = np.nan
    losses[1, -1, 0] = np.inf
    found = check_losses("lr", VALUES, SIZES, losses)
    # Just below where it diverges, and the same at every size: but how near to that nothing was measured.
    assert found.outcome == "too poor"
    assert "next to values at which runs diverged" in found.verdict
    assert "take values in smaller steps" in found.verdict
    assert all(-7 < o.place < -5.5 and o.edge == "" for o in found.optima)
    assert found.optima[0].diverged == 3 * 4
    assert "12 of 32" in str(found)
    # One seed of many that diverges pushes the optimum away, however good the others are there.
    one = bowls([-6.0])[0]
    one[X == -6.0, 0] = np.nan
    assert abs(find_optimum(X, one).place + 6.0) > 0.2


def test_divergence_is_an_outcome_with_a_name() -> None:
    """Of all runs, of all of one size or of the first, of some at the best value; drifts go before guesses."""
    losses = bowls([-6.0] * 4, noise=1e-4)
    losses[3] = np.nan
    one = check_losses("lr", VALUES, SIZES, losses)
    assert one.outcome == "diverged"
    assert one.verdict.startswith(
        "Every run at width=256 diverged, for all values of lr from 2^-10 to 2^-3, so there is no optimum. Take "
        "smaller values; if those diverge too it is not lr"
    )
    assert "32 of 32: 100% at 2^-10, 100% at 2^-9, ... 100% at 2^-3" in str(one)
    assert one.drifts[0].slope == pytest.approx(0, abs=1e-3)
    assert math.isnan(one.costs[3][0])
    everything = check_losses("lr", VALUES, SIZES, np.full_like(losses, np.inf))
    assert "Every run at every size diverged" in everything.verdict
    assert "left" not in everything.verdict
    assert everything.drifts == ()
    first = check_losses("lr", VALUES, SIZES, losses[::-1])
    assert first.outcome == "diverged"
    assert math.isnan(first.best)
    for check in (one, everything, first):
        assert not check.ok
        assert check.plot().axes
        assert "diverged" in check.table.verdict
        with pytest.raises(AssertionError, match="Every run at"):
            check.assert_ok()
    some = bowls([-6.0] * 4, noise=1e-4)
    some[2] = 1.0
    some[2, X == -6.0] = [[np.nan, 0.0, 0.0, 0.0]]
    named = check_losses("lr", VALUES, SIZES, some)
    assert "Of the runs at the best value of lr some diverged: 1 of 4 at width=128" in named.verdict
    moving = bowls([-5, -5.6, -6.2, -6.8], noise=1e-4)
    moving[:, -2:] = np.nan
    assert check_losses("lr", VALUES, SIZES, moving).outcome == "drifts"


def test_two_axes_are_judged_each_by_itself() -> None:
    sizes = [GridSize("a", {"width": 32.0, "depth": 2.0}), GridSize("b", {"width": 128.0, "depth": 2.0}),
             GridSize("c", {"width": 32.0, "depth": 8.0})]  # fmt: skip
    found = check_losses("lr", VALUES, sizes, bowls([-6.0, -6.0, -7.0], noise=1e-5))
    assert {d.axis: round(d.slope, 2) for d in found.drifts} == {"width": 0.0, "depth": -0.5}
    assert found.table.optimum.sel(size="c") == pytest.approx(-7, abs=0.01)
    assert found.plot().axes[2].get_xlabel() == "depth"


def test_what_a_training_may_return() -> None:
    assert ends_of([9.0] * 18 + [2.0, 4.0]) == (3.0, 9.0)
    assert ends_of(np.array([5.0, 1.0])) == (1.0, 5.0)
    # Half of three lies between the first and the second; of twenty, at the ninth and the tenth.
    assert ends_of((4.0, 2.0, 1.0)) == (1.0, 3.0)
    assert ends_of(np.arange(20.0)) == (18.5, 8.5)
    for alone in (np.float32(1.5), [1.5]):
        end, half = ends_of(alone)
        assert end == 1.5
        assert math.isnan(half)
    assert math.isnan(ends_of([1.0, math.inf])[0])
    for wrong in (None, "low", [], {"loss": 1}):
        with pytest.raises(PlanError, match=r"`train` must return its loss, a number or a list"):
            ends_of(wrong)


class _Table:
    base = MappingProxyType({"width": 32})
    width_name, depth_name = "width", "depth"
    tensors = ()

    def __init__(self, constants=None):
        self.constants = constants or {}


class _Plan(Verified):
    """A plan of nothing, with constants; of a network nothing but these is known."""

    def __init__(self, table):
        object.__setattr__(self, "table", table)

    def at(self, **_):
        return self

    def with_constants(self, constants):
        return type(self)(_Table(constants))

    def drawn(self, seed):
        return self.table.constants

    def _factory(self):
        return len

    def _prepared(self, model):
        return model

    def _by_theory(self):
        return None

    def _undisturbed(self):
        return nullcontext()

    def _bench(self, batch, loss, setup):
        raise NotImplementedError


def bowl(plan, model, seed, lr, weight_decay=1.0):
    """A bowl about a known best in every coordinate, on a level for each seed."""
    own = {
        k: v for of, f in model.items() for k, v in {f"{of}.{s}": x for s, x in f.items()}.items()
    }
    away = [math.log2(lr) + 7, math.log2(own.get("hidden.std", 1.0)) - 3]
    noise = 1e-3 * np.random.default_rng([seed, int(lr * 1e6)]).normal()
    return 10 * seed + sum(a**2 for a in away) / 100 + weight_decay / 100 + noise


def test_the_search_finds_what_is_best_and_keeps_its_books() -> None:
    options = {
        "start": {"lr": 2**-5, "weight_decay": 0.1},
        "over": ["hidden.std", "lr", "weight_decay"],
    }
    found = tune(_Plan(_Table()), bowl, **options, budget=200, seeds=2)
    assert found.finished
    # Two candidates on five fresh seeds besides.
    assert found.spent == sum(len(t.losses) for t in found.trials) + 2 * 5 <= 200
    assert abs(math.log2(found.settings["lr"]) + 7) <= 0.5
    assert abs(math.log2(found.constants["hidden"]["std"]) - 3) <= 0.5
    assert found.settings["weight_decay"] == 0
    kept = [t for t in found.trials if t.kept]
    means = [np.mean(t.losses) for t in kept]
    assert means == sorted(means, reverse=True)
    assert means[-1] == min(np.mean(t.losses) for t in found.trials)
    assert found.fresh is not None
    assert found.fresh.seeds == (2, 3, 4, 5, 6)
    assert found.fresh.beyond
    assert found.loss[0] == np.mean(found.fresh.winner)
    assert found.fresh.gain[0] == pytest.approx(means[0] - means[-1], abs=0.01)
    # Gains are told seed by seed: levels that differ by ten do not hide them.
    assert all(t.gain_sem < 0.01 for t in found.trials[1:])
    assert found.record.sizes["trial"] == len(found.trials)
    assert "hidden.std" in str(found)
    short = tune(_Plan(_Table()), bowl, **options, budget=20, seeds=2)
    assert not short.finished
    assert short.spent <= 20
    assert short.trials == found.trials[: len(short.trials)]


def test_what_the_search_refuses() -> None:
    options = {"start": {"lr": 0.1}, "seeds": 2}
    with pytest.raises(
        PlanError, match=r"`budget` must be enough runs .* three times the 2 seeds; got 5"
    ):
        tune(_Plan(_Table()), bowl, **options, over=["lr"], budget=5)
    with pytest.raises(PlanError, match=r"`over` names 'beta', which is neither an argument"):
        tune(_Plan(_Table()), bowl, **options, over=["beta"], budget=50)
    with pytest.raises(
        PlanError, match=r"'weight_decay', which starts at 0 and is tuned by factors"
    ):
        tune(
            _Plan(_Table()),
            bowl,
            start={"lr": 1.0, "weight_decay": 0.0},
            seeds=2,
            over=["weight_decay"],
            budget=50,
        )


def test_the_search_names_divergence() -> None:
    def until(largest):
        def train(plan, model, seed, lr):
            return bowl(plan, model, seed, lr) if lr < largest else math.inf

        return train

    options = {"start": {"lr": 2**-7}, "over": ["lr"], "seeds": 2, "budget": 100}
    # A candidate that diverges is told as that, and not as a gain of minus infinity.
    found = str(tune(_Plan(_Table()), until(2**-6), **options))
    assert "diverged" in found
    assert "inf" not in found
    said = r"Of each of the 7 candidates some run diverged, from the start \(lr = 0.0078125\) on.*a smaller"
    with pytest.raises(PlanError, match=said):
        tune(_Plan(_Table()), until(0.0), **options)


def test_a_search_goes_on_where_it_was_killed(tmp_path) -> None:
    class Killed(Exception):
        pass

    runs: list[int] = []

    class Counting(_Plan):
        def drawn(self, seed):
            runs.append(seed)
            if len(runs) == 9:
                raise KeyboardInterrupt
            return super().drawn(seed)

    options = {
        "start": {"lr": 2**-5},
        "over": ["hidden.std", "lr"],
        "seeds": 2,
        "store": tmp_path / "s",
    }
    with pytest.raises(KeyboardInterrupt):
        tune(Counting(_Table()), bowl, **options, budget=30)
    before = len(runs)
    whole = tune(Counting(_Table()), bowl, **options, budget=60)
    assert len(runs) - before == whole.spent - (before - 1)
    plain = tune(
        _Plan(_Table()), bowl, start={"lr": 2**-5}, over=["hidden.std", "lr"], seeds=2, budget=60
    )
    assert plain.trials[1:] == whole.trials[1:]


def test_the_search_does_not_draw_ever_larger_weights() -> None:
    """Where the loss falls for as long as they grow, it stops at four of 1/sqrt(fan-in)."""

    class Drawn(_Plan):
        def with_constants(self, constants):
            return Drawn(with_constants(self.table, constants))

    def falls(plan, model, seed, lr):
        return -math.log2(plan.table["net.2.weight"].constants.std) + seed

    drawn = Drawn(planned(scaling.mup(), target=8))
    found = tune(drawn, falls, start={"lr": 0.1}, over=["hidden.std"], budget=60, seeds=2)
    unit = drawn.table["net.2.weight"].unit * found.constants["hidden"]["std"]
    assert 4 / 2**0.5 < unit <= 4
