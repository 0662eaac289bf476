"""Golden, property and agreement tests of normal numbers, independent or spread over the particles."""

import numpy as np
import pytest
from scipy import stats

from scalewise.limits import SGD, Architecture, Finite, Lazy, train
from scalewise.limits._noise import ParticleNoise, generator, normal
from scalewise.scaling import mup
from scalewise.tasks import Task

INPUTS = np.random.default_rng(0).normal(size=(4, 5))
INPUTS = (INPUTS * 1.5 / np.linalg.norm(INPUTS, axis=0)).T
TASK = Task(INPUTS[:4], np.array([1.0, -1.0, 1.0, -1.0]), test_inputs=INPUTS[4:])
MUP = Architecture(mup(depth=3), "tanh")


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_numbers_are_normal_and_independent(dtype):
    z = np.empty(300_001, dtype)
    normal(generator(0), z)
    assert stats.kstest(z.astype(float), "norm").pvalue > 1e-3
    for power, moment in ((2, 1), (4, 3), (6, 15)):
        own = z.astype(float) ** power
        assert abs(own.mean() - moment) < 4 * own.std() / len(z) ** 0.5
    # Partners of one pair lie half a block apart; neighbours share no bits.
    block = 1 << 15
    pairs = z[: 9 * block].astype(float).reshape(9, 2, -1)
    for one, two in ((pairs[:, 0], pairs[:, 1]), (z[1:], z[:-1])):
        for power in (1, 2):
            found = np.corrcoef(one.ravel() ** power, two.ravel() ** power)[0, 1]
            assert abs(found) < 4.5 / one.size**0.5
    assert np.isfinite(z).all()


def test_only_numbers_side_by_side_are_filled():
    with pytest.raises(AssertionError, match="side by side"):
        normal(generator(0), np.empty((4, 6))[:, :3])


def test_rows_do_not_depend_on_how_many_are_asked_for_at_once():
    one, two = np.empty((9, 40)), np.empty((9, 40))
    ParticleNoise(3, 40, spread=4).fill(one)
    rest = ParticleNoise(3, 40, spread=4)
    for start, stop in ((0, 1), (1, 3), (3, 6), (6, 9)):
        rest.fill(two[start:stop])
    np.testing.assert_array_equal(one[:4], two[:4])
    assert np.abs(np.corrcoef(two) - np.eye(9)).max() < 0.75
    assert len(np.unique(two)) == two.size


def test_each_particle_of_a_net_has_its_law():
    """Over seeds: rows and particles normal, and rows of one particle independent."""
    draws = np.empty((2000, 3, 7))
    for seed, own in enumerate(draws):
        ParticleNoise(seed, 7, spread=3).fill(own)
    for row in range(3):
        assert stats.kstest(draws[:, row, 5], "norm").pvalue > 1e-3
    assert np.abs(np.corrcoef(draws[:, :, 2].T) - np.eye(3)).max() < 4 / 2000**0.5
    assert np.abs(np.corrcoef(draws[:, :, 2].T ** 2) - np.eye(3)).max() < 4.5 / 2000**0.5


def test_averages_over_a_net_are_more_accurate_and_unbiased():
    def error(spread):
        found = np.empty((100, 2))
        for seed, own in enumerate(found):
            z = np.empty((2, 512))
            ParticleNoise(seed, 512, spread=spread).fill(z)
            own[:] = (z[0] ** 2).mean(), (z[0] * np.tanh(z[0] + z[1])).mean()
        return found.mean(axis=0), found.std(axis=0)

    (means, spread), (_, chance) = error(2), error(0)
    assert (spread < chance / 4).all()
    assert chance[0] == pytest.approx((2 / 512) ** 0.5, rel=0.25)
    nodes, weights = np.polynomial.hermite_e.hermegauss(60)
    weights = weights / weights.sum()
    exact = weights @ (nodes[:, None] * np.tanh(nodes[:, None] + nodes)) @ weights
    assert (np.abs(means - [1.0, exact]) < 4 * spread / 10).all()


def test_paired_rows_are_equal_in_both_halves():
    z = np.empty((5, 60))
    ParticleNoise(0, 60, spread=3, paired=True).fill(z)
    np.testing.assert_array_equal(z[:, :30], z[:, 30:])
    assert len(np.unique(z)) == 150


def test_spread_particles_learn_the_limit_with_a_fraction_of_the_error():
    many = Lazy(16384, replicas=4, antithetic=True, spread=True, seed=9)
    limit = train(MUP, TASK, SGD(0.8), steps=4, on=many)
    errors = {}
    for spread in (False, True):
        on = Lazy(512, replicas=32, antithetic=True, spread=spread)
        found = train(MUP, TASK, SGD(0.8), steps=4, on=on)
        errors[spread] = float(np.sqrt(((found.logits - limit.logits_mean) ** 2).mean()))
        sem = np.hypot(found.logits_sem, limit.logits_sem)
        # A bias of order 1/M is allowed beside the error bar.
        assert (np.abs(found.logits_mean - limit.logits_mean) < 4.5 * sem + 1 / 512).all()
        # Read-outs of opposite sign on equal halves: nothing is put out before training.
        assert np.abs(found.logits[:, 0]).max() < 1e-12
    assert errors[True] < 0.6 * errors[False]


@pytest.mark.parametrize("hidden", [1, 3])
def test_spread_particles_of_other_depths_biases_and_widths(hidden):
    ratios = 1.0 if hidden == 1 else (1.0, 0.5, 0.75)
    net = Architecture(mup(depth=hidden + 1), "tanh", C_b=0.1, lambda_b=0.5, ratios=ratios)
    on = {"replicas": 8, "antithetic": True}
    one, two = (
        train(net, TASK, SGD(0.5), steps=3, on=Lazy(4096, spread=s, seed=int(s), **on))
        for s in (False, True)
    )
    sem = np.hypot(one.logits_sem, two.logits_sem)
    assert (np.abs(one.logits_mean - two.logits_mean) < 5 * sem + 1e-3).all()


def test_more_features_than_inputs():
    """The first layer is drawn on the span of the inputs alone: equal in law to real networks, decay included."""
    X = np.random.default_rng(1).normal(size=(3, 30)) / 4
    task = Task(X[:2], np.array([1.0, -0.5]), test_inputs=X[2:])
    sgd = SGD(0.7, momentum=0.4, weight_decay=0.05, clip=0.5)
    lazily = train(MUP, task, sgd, steps=3, on=Lazy(32, replicas=30))
    real = train(MUP, task, sgd, steps=3, on=Finite(32, replicas=60, seed=1))
    for name in ("logits", "feature_kernel"):
        z = (lazily[f"{name}_mean"] - real[f"{name}_mean"]) / np.hypot(
            lazily[f"{name}_sem"], real[f"{name}_sem"]
        )
        assert np.abs(z).max() < 4
