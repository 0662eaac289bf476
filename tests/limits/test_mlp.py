r"""Golden and agreement tests of training in the limit: printed values, laws, rates, and what is refused."""

import re

import numpy as np
import pytest

from grids import few, thorough
from refusals import unlike
from scalewise.limits import SGD, Architecture, Finite, Infinite, Lazy, powers, train
from scalewise.scaling import abc, mup, ntk, standard
from scalewise.tasks import Task

INPUTS = np.random.default_rng(0).normal(size=(4, 5))
INPUTS = (INPUTS * 1.5 / np.linalg.norm(INPUTS, axis=0)).T
BENCHMARK = Task(INPUTS[:4], np.array([1.0, -1.0, 1.0, -1.0]), test_inputs=INPUTS[4:])
ONE = Task([[1.2, 0.3]], [2.0], test_inputs=[[0.4, -1.0]])
MUP = Architecture(mup(depth=3), "tanh")
OTHERS = {
    "logits over root n": abc((0, 0, "1/2"), (0, "1/2", "1/2"), 0),
    "first layer only": abc(("-1/2", "1/4", "1/2"), ("1/2", "1/4", "1/2"), 0),
    "readout off": abc(("-1/2", 0, "3/4"), ("1/2", "1/2", "1/4"), 0),
    "lag": abc(("-1/2", 0, "1/2"), ("1/2", "1/2", 1), 0),
}


@pytest.mark.covers("E14", "E9")
def test_the_benchmark_of_two_hidden_layers():
    loss = [.5, .3881, .34103, .30964, .28617, .26798, .25322, .24043, .22847, .21658, .20432]  # fmt: skip
    kernel = [.2859, .3283, .3638, .3913, .4133, .4316, .4464, .4579, .4664, .4724, .4766]  # fmt: skip
    last = [0.9490, -0.0659, 0.8331, -0.1447, -0.1965]
    found = train(MUP, BENCHMARK, SGD(0.8), steps=10, on=Lazy(16384, replicas=6, antithetic=True))
    for name, expected, actual in (
        ("loss", loss, found.loss_mean.values),
        ("feature_kernel", kernel, found.feature_kernel_mean.values[:, 1, 0, 0]),
        ("logits", last, found.logits_mean.values[10, :, 0]),
    ):
        place = {"loss": ..., "feature_kernel": np.s_[:, 1, 0, 0], "logits": np.s_[10, :, 0]}[name]
        sem = found[f"{name}_sem"].values[place]
        allowed = 5 * sem + 1e-3
        assert (np.abs(actual - expected) < allowed).all(), name
        assert allowed.max() < 0.015
    assert found.is_test.values.tolist() == [False] * 4 + [True]


def test_the_benchmark_of_three_hidden_layers():
    net = Architecture(mup(depth=4), "tanh")
    found = train(net, BENCHMARK, SGD(0.5), steps=8, on=Lazy(16384, replicas=4))
    expected = [0.680, 0.034, 0.654, -0.100, -0.076]
    np.testing.assert_allclose(found.logits_mean.values[8, :, 0], expected, atol=8e-3)


@pytest.mark.covers("E9")
@pytest.mark.parametrize(
    ("decoupled", "train_f", "test_f"),
    [
        (
            False,
            [0, 0.7493, 1.4277, 1.7799, 1.9218, 1.9733],
            [0, 0.145, 0.302, 0.386, 0.422, 0.435],
        ),
        (True, [0, 0.6245, 1.3197, 1.7231, 1.8988, 1.9648], None),
    ],
)
def test_one_sample_normal_and_decoupled(decoupled, train_f, test_f):
    on = Lazy(32768, replicas=6, antithetic=True)
    found = train(MUP, ONE, SGD(0.8), steps=5, on=on, decoupled=decoupled)
    allowed = 5 * found.logits_sem.values[:, :, 0] + 1.5e-3
    assert (np.abs(found.logits_mean.values[:, 0, 0] - train_f) < allowed[:, 0]).all()
    if test_f is not None:
        assert (np.abs(found.logits_mean.values[:, 1, 0] - test_f) < allowed[:, 1]).all()
    for n in (96, 384):
        net = train(MUP, ONE, SGD(0.8), steps=5, on=Finite(n, replicas=40), decoupled=decoupled)
        sem = np.hypot(net.logits_sem, found.logits_sem)
        assert (np.abs(net.logits_mean - found.logits_mean) < 4.5 * sem + 4 / n).all()


def test_one_hidden_layer():
    net, task = Architecture(mup(depth=2), "tanh"), Task([[1.0]], [1.0])
    found = train(net, task, SGD(1.0), steps=2, on=Infinite(1e-3))
    np.testing.assert_allclose(
        found.logits_mean.values[1:, 0, 0], [0.7081911, 0.8995886], atol=5e-3
    )
    assert float(found.feature_kernel_mean[1, 0, 0, 0]) == pytest.approx(0.5196079, abs=5e-3)
    assert found.attrs["width"] == np.inf


@pytest.mark.parametrize("layers", [2, *thorough(1, 3)])
def test_deep_linear_networks(layers):
    values = {
        1: [0.2, 0.36288, 0.49795249, 0.60955357],
        2: [0.3, 0.52436687, 0.69706541, 0.82052617],
        3: [0.4, 0.67905209, 0.86651409, 0.95749433],
    }[layers]
    net, task = Architecture(mup(depth=layers + 1), "linear"), Task([[1.0]], [1.0])
    found = train(net, task, SGD(0.1), steps=4, on=Lazy(16384, replicas=8))
    sem = found.logits_sem.values[1:, 0, 0]
    assert (np.abs(found.logits_mean.values[1:, 0, 0] - values) < 5 * sem + 1e-3).all()


@pytest.mark.covers("E9")
def test_lazy_training_is_equal_in_law_to_real_networks():
    """Width 32, where the finite-width bias is large: momentum, decay, clipping, biases, unequal widths."""
    net = Architecture(mup(depth=3), "tanh", C_b=(0.1, 0.2, 0.0), lambda_b=0.5, ratios=(1.0, 0.5))
    sgd = SGD(0.8, momentum=0.5, weight_decay=0.05, clip=0.6)
    seeds = 150
    one = train(net, BENCHMARK, sgd, steps=3, on=Lazy(32, replicas=seeds))
    two = train(net, BENCHMARK, sgd, steps=3, on=Finite(32, replicas=seeds, seed=1))
    z = (one.logits_mean - two.logits_mean) / np.hypot(one.logits_sem, two.logits_sem)
    assert np.abs(z).max() < 4
    ratio = one.logits.std("replica") / two.logits.std("replica")
    assert np.abs(np.log(ratio)).max() < 4.5 / (2 * seeds) ** 0.5 * 2**0.5


@pytest.mark.covers("E9")
@pytest.mark.parametrize("name", few(OTHERS, every=4))
def test_limits_that_are_not_maximal(name):
    """r = 0 without everything maximal: the flags decide, and finite networks approach as n^(-1/2)."""
    net = Architecture(OTHERS[name], "tanh")
    limit = train(net, BENCHMARK, SGD(0.8), steps=5, on=Infinite(4e-3))
    widths, errors = [48, 96, 192, 384], []
    for n in widths:
        found = train(net, BENCHMARK, SGD(0.8), steps=5, on=Finite(n, replicas=20))
        sem = np.hypot(found.logits_sem, limit.logits_sem)
        # Frozen layers still move by n^(-1/2).
        assert (np.abs(found.logits_mean - limit.logits_mean) < 4.5 * sem + 0.6 / n**0.5).all()
        errors.append(float(np.sqrt(((found.logits - limit.logits_mean) ** 2).mean())))
    slope = np.polyfit(np.log(widths), np.log(errors), 1)[0]
    assert -0.75 < slope < -0.38, errors
    other = train(MUP, BENCHMARK, SGD(0.8), steps=5, on=Lazy(8192, replicas=2))
    assert np.abs(other.logits_mean[1:] - limit.logits_mean[1:]).max() > 0.04


def test_the_error_of_a_finite_network_falls_with_the_root_of_its_width():
    limit = train(MUP, BENCHMARK, SGD(0.8), steps=5, on=Lazy(32768, replicas=4, antithetic=True))
    widths, errors = [64, 128, 256], []
    for n in widths:
        found = train(MUP, BENCHMARK, SGD(0.8), steps=5, on=Finite(n, replicas=40))
        errors.append(float(np.sqrt(((found.logits - limit.logits_mean) ** 2).mean())))
    slope = np.polyfit(np.log(widths), np.log(errors), 1)[0]
    assert -0.65 < slope < -0.38
    assert errors[0] == pytest.approx(0.454 / 64**0.5, rel=0.35)


def test_the_limit_of_frozen_features_is_a_kernel():
    """U = 1 and A = 1 with r > 0: only the last layer learns, from outputs 0, by the NNGP kernel."""
    net = Architecture(abc(("1/2", 1, "1/2"), ("-1/2", "-1/2", "1/2"), 0), "tanh")
    wide = train(net, BENCHMARK, SGD(0.8), steps=4, on=Lazy(32768, replicas=4, antithetic=True))
    found = train(net, BENCHMARK, SGD(0.8), steps=4, on=Infinite(5e-3))
    K = found.feature_kernel_mean.values[0, 1]
    np.testing.assert_array_equal(found.feature_kernel_mean.values[4, 1], K)
    np.testing.assert_allclose(wide.feature_kernel_mean.values[[0, 4], 1], [K, K], atol=0.01)
    f = np.zeros(5)
    for t in range(5):
        np.testing.assert_allclose(found.logits_mean.values[t, :, 0], f, atol=1e-12)
        np.testing.assert_allclose(wide.logits_mean.values[t, :, 0], f, atol=0.015)
        f = f - 0.8 / 4 * K[:, :4] @ (f[:4] - BENCHMARK.targets[:, 0])


def test_hundreds_of_steps_with_compression():
    on = Lazy(512, replicas=2, compression=0.01)
    found = train(MUP, BENCHMARK, SGD(0.1), steps=300, on=on, every=100)
    real = train(MUP, BENCHMARK, SGD(0.1), steps=300, on=Finite(512, replicas=2), every=100)
    assert found.time.values.tolist() == [0, 100, 200, 300]
    assert (np.diff(found.loss_mean) < 0).all()
    np.testing.assert_allclose(found.loss_mean, real.loss_mean, atol=0.05)


def test_test_inputs_may_be_forgotten():
    options = {"replicas": 6, "antithetic": True}
    kept = train(MUP, BENCHMARK, SGD(0.8), steps=6, on=Lazy(8192, **options))
    on = Lazy(8192, remember_tests=False, **options)
    forgotten = train(MUP, BENCHMARK, SGD(0.8), steps=6, on=on)
    sem = np.hypot(kept.logits_sem, forgotten.logits_sem)
    assert (np.abs(kept.logits_mean - forgotten.logits_mean) < 4.5 * sem + 1e-3).all()


def test_batches_teach_what_they_hold():
    """One sample after another is another descent than all at once, and lazy and real agree on it."""
    task = Task(INPUTS[:4], BENCHMARK.targets, test_inputs=INPUTS[4:], batches=[[3, 0], [1, 2]])
    lazily = train(MUP, task, SGD(0.8), steps=5, on=Lazy(8192, replicas=4), every=2)
    real = train(MUP, task, SGD(0.8), steps=5, on=Finite(384, replicas=20), every=2)
    assert lazily.time.values.tolist() == [0, 2, 4, 5]
    sem = np.hypot(lazily.logits_sem, real.logits_sem)
    assert (np.abs(lazily.logits_mean - real.logits_mean) < 4.5 * sem + 0.01).all()


@pytest.mark.covers("E14")
def test_features_are_recorded():
    found = train(MUP, BENCHMARK, SGD(0.8), steps=1, on=Finite(64), features=64)
    x = found.features.values
    assert x.shape == (2, 2, 5, 64)
    kernel = np.einsum("tlac,tlbc->tlab", x, x) / 64
    np.testing.assert_allclose(kernel, found.feature_kernel_mean, atol=1e-12)
    assert "logits_sem" not in found


def test_single_precision():
    double = train(MUP, BENCHMARK, SGD(0.8), steps=4, on=Finite(64))
    single = train(MUP, BENCHMARK, SGD(0.8), steps=4, on=Finite(64, dtype=np.float32))
    assert np.isfinite(single.logits_mean).all()
    lazily = train(MUP, BENCHMARK, SGD(0.8), steps=4, on=Lazy(16384, replicas=4, dtype=np.float32))
    limit = train(MUP, BENCHMARK, SGD(0.8), steps=4, on=Lazy(16384, replicas=4, seed=1))
    sem = np.hypot(lazily.logits_sem, limit.logits_sem)
    assert (np.abs(lazily.logits_mean - limit.logits_mean) < 4.5 * sem + 1e-3).all()
    assert double.logits_mean.shape == single.logits_mean.shape


def test_infinite_width_says_what_it_used():
    found = train(MUP, BENCHMARK, SGD(0.8), steps=2, on=Infinite(4e-3, start=64))
    assert float(found.logits_sem.max()) <= 4e-3
    assert found.attrs["particles"] > 64
    same = train(MUP, BENCHMARK, SGD(0.8), steps=2, on=Infinite(4e-3, start=64))
    np.testing.assert_array_equal(found.logits_mean, same.logits_mean)


def refused(match, call):
    with pytest.raises(ValueError, match=match):
        call()


def test_unstable_exponents_are_refused_by_layer_and_inequality():
    refused(
        r"is unstable, so it has no limit. Updates of layer 2 blow up: r_2 = -1 is below 0",
        lambda: Architecture(standard(depth=3), "tanh"),
    )
    refused(
        r"Preactivations of layer 2 grow at initialisation: a_2 \+ b_2 = 0 must be 1/2",
        lambda: Architecture(abc((0, 0, "1/2"), (0, 0, "1/2"), 0), "tanh"),
    )
    refused(
        r"the outputs: U = 0 is below 1",
        lambda: Architecture(abc(("-1/2", 0, 0), ("1/2", "1/2", 1), 0), "tanh"),
    )


def test_what_has_no_such_limit_is_refused():
    for strategy in (ntk(depth=3), abc((0, 0, 0), (0, "1/2", "1/2"), 1)):
        refused(
            r"kernel regime: a power n\^\(1/2\) in its training has no limit.*`train` on Infinite",
            lambda strategy=strategy: powers(strategy, np.inf),
        )
    refused(
        r"1e-05 is out of reach at the memory allowed, 4e\+09 bytes .* particles it is .* would be",
        lambda: train(MUP, BENCHMARK, SGD(0.8), steps=3, on=Infinite(1e-5, start=64)),
    )
    refused(
        "not even two particles fit",
        lambda: train(MUP, BENCHMARK, SGD(0.8), steps=3, on=Infinite(1.0, memory=100.0)),
    )


@pytest.mark.parametrize("ratios", [(1.0, 1.5), (1.5, 0.3), (0.5, 1.001)])
def test_antithetic_particles_come_in_pairs_at_any_ratio_of_widths(ratios):
    """Opposite read-outs cancel to the last bit before training, and the limit is that of any widths."""
    net = Architecture(mup(depth=3), "tanh", ratios=ratios)
    for width in (30, 34, 1002):
        found = train(net, BENCHMARK, SGD(0.8), steps=0, on=Lazy(width, antithetic=True))
        np.testing.assert_allclose(found.logits, 0, atol=1e-14)
    found, wanted = (
        train(net, BENCHMARK, SGD(0.2), steps=2, on=on)
        for on in (Infinite(0.05, start=62), Lazy(3000, replicas=4))
    )
    apart = np.abs(found.logits_mean - wanted.logits_mean)
    assert np.all(apart <= 5 * np.hypot(found.logits_sem, wanted.logits_sem) + 0.01)


@pytest.mark.parametrize("on", [Finite(16), Lazy(16), Infinite(1e250, start=64)])
@pytest.mark.parametrize("strategy", [mup(depth=3), ntk(depth=3)])
@pytest.mark.parametrize("activation", ["quadratic", "linear"])
def test_divergence_is_named_by_its_step_and_keeps_what_there_is(activation, strategy, on):
    net, why = Architecture(strategy, activation), r"not finite at step (\d+): training diverged"
    found = train(net, BENCHMARK, SGD(1e10), steps=60, on=on, throw=False)
    last = re.search(why, found.attrs["status"])
    assert last is not None, found.attrs["status"]
    if "time" in found.dims:
        assert found.time[-1] < int(last[1])
    refused(why, lambda: train(net, BENCHMARK, SGD(1e10), steps=60, on=on))


REFUSED = [
    (
        r"`Task.inputs` .* of shape \(sample, ..., feature\); got shape \(3,\)",
        lambda: Task([1, 2, 3], [1]),
    ),
    ("`Task.inputs` must hold finite numbers", lambda: Task([[np.nan]], [1.0])),
    (r"one row for each of 1 samples; got shape \(2, 1\)", lambda: Task([[1.0]], [1.0, 2.0])),
    ("as many features as `inputs`, 1; got 2", lambda: Task([[1.0]], [1.0], test_inputs=[[1, 2]])),
    (
        "'mse', 'logistic', 'cross_entropy' or a Loss; got 'hinge'",
        lambda: Task([[1.0]], [1.0], loss="hinge"),
    ),
    ("indices from 0 to 0; got 0 to 3", lambda: Task([[1.0]], [1.0], batches=[[0, 3]])),
    (
        "`Task.batches` must be an array of whole numbers",
        lambda: Task([[1.0]], [1.0], batches=[[0], [0, 0]]),
    ),
    ("a table of indices", lambda: Task([[1.0]], [1.0], batches=[0])),
    ("`SGD.eta` must be a positive finite number; got 0", lambda: SGD(0)),
    ("`SGD.momentum` must be a number from 0 to below 1; got 1", lambda: SGD(1, momentum=1)),
    ("`SGD.weight_decay` must be a finite number of at least 0", lambda: SGD(1, weight_decay=-1)),
    ("`SGD.clip` must be a positive finite number or None; got nan", lambda: SGD(1, clip=np.nan)),
    (
        "`Architecture.C_W` must be positive and finite; got 0",
        lambda: Architecture(mup(), "tanh", C_W=0),
    ),
    (
        "`Architecture.C_b` needs one number, or one for each of 3",
        lambda: Architecture(mup(), "tanh", C_b=(1, 2)),
    ),
    ("`Finite.width` must be a whole number of at least 1; got 0", lambda: Finite(0)),
    ("`Lazy.replicas` must be a whole number of at least 1; got 0", lambda: Lazy(4, replicas=0)),
    ("`Infinite.replicas` must be a whole number of at least 2", lambda: Infinite(0.1, replicas=1)),
    ("`Infinite.tolerance` must be a positive finite number; got 0", lambda: Infinite(0)),
    (
        "`Infinite.start` must be an even whole number of at least 2; got 3",
        lambda: Infinite(0.1, start=3),
    ),
    (
        "`Lazy.compression` must be a number between 0 and 1 or None; got 2",
        lambda: Lazy(4, compression=2),
    ),
    ("needs an even width; got 5", lambda: Lazy(5, antithetic=True)),
    ("`Finite.dtype` must be float64 or float32", lambda: Finite(4, dtype=np.int32)),
    (
        "`steps` must be a whole number of at least 0; got -1",
        lambda: train(MUP, ONE, SGD(1), steps=-1, on=Finite(4)),
    ),
    (
        "no neurons left: widths",
        lambda: train(Architecture(mup(), "tanh", ratios=0.1), ONE, SGD(1), steps=0, on=Finite(4)),
    ),
]


def test_bad_input_is_refused() -> None:
    assert unlike((call, match) for match, call in REFUSED) == []
