"""Golden, agreement, conformance: order 1/n of training, numbers of a setting and networks that were trained."""

import math
import warnings

import numpy as np
import pytest
import xarray as xr

import scalewise as sw
from refusals import unlike
from scalewise.networks import ResidualMLP
from scalewise.training import (
    OUTCOMES,
    ExpansionWarning,
    GradientDescent,
    GradientFlow,
    LastLayer,
    Projectors,
    TwoStepNewton,
    algorithms_side_by_side,
    width_for_loss,
)
from scalewise.training.width import _dense, _tensors
from scalewise.training.width._tensors import shared_tensors
from small_task import NET, TEST, TRAIN, Y

X = np.array(
    [[1.5, 0.3, -0.4], [-0.2, 1.6, 0.5], [0.4, -0.8, 1.4], [0.9, 1.0, 0.2], [-0.9, 0.5, 1.2]]
)
TARGETS = np.array([[1.0, -0.3], [-0.6, 0.8], [0.4, 0.7]])
SETTING = sw.MLP(
    3, 64, "tanh", input_dim=3, output_dim=2, C_b=0.1, C_W=1.4, lambda_b=0.5, lambda_W=1.0
)
TASK = sw.Task(X[:3], TARGETS, test_inputs=X[3:], test_targets=[[0.5, 0.1], [-0.2, 1.0]])
SMALL = sw.Task(TRAIN[:3], Y[:3], test_inputs=TEST[:1], test_targets=Y[3:4])


@pytest.mark.covers("C45", "C46", "C47", "C74", "C75")
@shared_tensors()
def test_numbers_of_a_setting() -> None:
    """Held against 239,000 trained networks when they were found; each to what the nodes of that time left."""
    found = sw.predict_training(SETTING, TASK, GradientDescent(), observables="all")
    parts = {
        "ntk_nlo": (-0.0126, 0.0142, 0.0065, -0.0033),
        "ntk_fluctuation": (0.0099, -0.4187, 0.0250, 0.6310),
        "dntk_A": (0.0792, -0.0103, 0.0826, -0.0061),
        "dntk_B": (-0.2094, -0.0417, -0.1127, -0.0670),
        "ddntk_I_A": (-0.0033, -0.6446, -0.0193, 0.7392),
        "ddntk_I_B": (0.3986, -1.3962, 0.0453, 1.5090),
        "ddntk_II_A": (0.0100, 0.0121, 0.0306, -0.0450),
        "ddntk_II_B": (-0.1597, 1.5321, -0.0796, -1.6689),
    }
    for part, expected in parts.items():
        here = found.output_mean_nlo_by_part.sel(part=part).values.ravel()
        np.testing.assert_allclose(here, expected, atol=0.012, err_msg=part)
    assert found.output_mean_nlo.values.ravel() == pytest.approx(
        [0.1127, -0.9531, -0.0217, 1.0889], abs=0.015
    )
    covariance = found.output_covariance_nlo.transpose(
        "output", "test", "output_1", "test_1"
    ).values
    upper = (0.0839, 0.0224, -0.1904, -0.0251, -0.3564, -0.0153, 0.0584, -0.0499, 0.0475, -0.4975)
    here = covariance.reshape(4, 4)[np.triu_indices(4)]
    np.testing.assert_allclose(here, upper, atol=0.012)
    np.testing.assert_allclose(found.variance_nlo.values.ravel(), np.diag(covariance.reshape(4, 4)))
    change = np.diag(found.ntk_change_nlo.values[0, 0])
    np.testing.assert_allclose(change, (-4.668, -3.486, -0.344, 2.655, -1.074), atol=0.03)
    loss = (found.bias * found.output_mean_nlo + 0.5 * found.variance_nlo).sum("output")
    np.testing.assert_allclose(found.test_loss_nlo, loss, rtol=1e-12)
    layers = found.output_mean_nlo_by_layer
    np.testing.assert_allclose(layers.sum("layer"), found.output_mean_nlo, rtol=1e-12)
    assert (np.abs(layers).max(["output", "test"]) > 0.2).all()
    H = sw.predict(SETTING, X[:3], observables=["ntk"], layers=3).ntk.values[0]
    moved = np.einsum("ai,ijab,bj->", TARGETS, found.ntk_change_nlo.values[:, :, :3, :3], TARGETS)
    assert found.alignment_nlo.item() == pytest.approx(
        moved / np.einsum("ai,ab,bi->", TARGETS, H, TARGETS)
    )
    assert found.learning_parameter.item() == pytest.approx(10.87, abs=0.1)
    assert found.attrs["route"] == "dense"
    flow = sw.predict_training(SETTING, TASK, observables=["output_mean_nlo"])
    assert flow.output_mean_nlo.values.ravel() == pytest.approx(
        [0.0960, -0.8176, -0.0346, 0.8816], abs=0.015
    )


def test_the_errors_of_nodes_are_about_what_another_order_of_inputs_changes() -> None:
    names = ["output_mean_nlo", "output_covariance_nlo", "ntk_change_nlo"]
    net = sw.MLP(3, 64, "tanh", input_dim=3, output_dim=2, C_b=0.1, C_W=1.4, lambda_b=0.5)
    order = [2, 0, 1, 3, 4]
    turned = X[order] * [
        1,
        -1,
        1,
    ]  # sorted otherwise, and the same to the network: its first layer is isotropic
    one = sw.predict_training(net, TASK, observables=names)
    task = sw.Task(turned[:3], TARGETS[order[:3]], test_inputs=turned[3:])
    other = sw.predict_training(net, task, observables=names)
    back = np.ix_(range(2), range(2), np.argsort(order), np.argsort(order))
    for name in names:
        values = other[name].values[back] if name == "ntk_change_nlo" else other[name].values
        apart = np.abs(one[name].values - values)
        assert (apart <= one[f"{name}_error"].values + other[f"{name}_error"].values + 1e-9).all()


@shared_tensors()  # which know neither units nor targets
def test_units_targets_and_rotated_outputs() -> None:
    names = [
        "output_mean_nlo",
        "output_mean_nlo_by_part",
        "output_covariance_nlo",
        "ntk_change_nlo",
    ]
    count = TARGETS.size
    largest = np.linalg.eigvalsh(
        sw.predict(SETTING, X[:3], observables=["ntk"], layers=3).ntk.values[0]
    ).max()
    four = sw.Task(X[:3], TARGETS, test_inputs=X[3:4])

    def run(algorithm, task=four):
        # At one accuracy, whatever the units: how many are gone through depends on the errors of the last one.
        return sw.predict_training(SETTING, task, algorithm, observables=names, accuracy=1e-4)

    base = run(GradientDescent(0.7 / largest, 5))
    per = run(GradientDescent(0.7 / largest * count, 5, loss_units="mean"))
    for name in names:
        np.testing.assert_allclose(per[name], base[name], rtol=1e-9, atol=1e-12)
    np.testing.assert_allclose(
        run(GradientFlow(1.5)).output_mean_nlo,
        run(GradientFlow(1.5 * count, loss_units="mean")).output_mean_nlo,
        rtol=1e-9,
    )
    turn = np.array([[0.6, -0.8], [0.8, 0.6]])
    turned = run(
        GradientDescent(0.7 / largest, 5), sw.Task(X[:3], TARGETS @ turn.T, test_inputs=X[3:4])
    )
    mean = np.einsum("ij,jb->ib", turn, base.output_mean_nlo)
    np.testing.assert_allclose(turned.output_mean_nlo, mean, rtol=1e-9, atol=1e-12)
    for name in ("output_covariance_nlo", "ntk_change_nlo"):
        moved = np.einsum("ik,jl,klab->ijab", turn, turn, base[name].values)
        np.testing.assert_allclose(turned[name], moved, rtol=1e-8, atol=1e-10)
    # A mean is odd in the targets: cubic at most, and only by the ddNTK.
    doubled = [
        run(GradientDescent(0.7 / largest, 5), sw.Task(X[:3], s * TARGETS, test_inputs=X[3:4]))
        for s in (2, 3)
    ]
    odd = [
        d.output_mean_nlo_by_part.values / s - base.output_mean_nlo_by_part.values
        for d, s in zip(doubled, (2, 3), strict=True)
    ]
    np.testing.assert_allclose(8 * odd[0], 3 * odd[1], rtol=1e-7, atol=1e-9)
    assert np.abs(odd[0][:4]).max() < 1e-10
    assert np.abs(odd[0][4:]).max(axis=(1, 2)).min() > 1e-4


@shared_tensors()
def test_a_finite_training_is_between_its_start_and_its_end() -> None:
    net, names = (
        sw.MLP(2, 500, "tanh", input_dim=3, output_dim=2, C_b=0.1, C_W=1.4),
        ["output_mean_nlo", "variance_nlo", "ntk_change_nlo", "learning_parameter"],
    )
    times = [0.0, 1.0, 2.0, 1e5]
    found = sw.predict_training(net, SMALL, GradientFlow(), observables=names, times=times)
    assert found.output_mean_nlo.dims == ("time", "output", "test")
    assert np.abs(found.output_mean_nlo.isel(time=0)).max() == 0
    assert found.learning_parameter.isel(time=0) == 0
    initial = sw.predict(
        net, TEST[:1], observables=["metric_nlo"], layers=2
    ).metric_nlo.values.ravel()
    np.testing.assert_allclose(
        found.variance_nlo.isel(time=0).values.ravel(), initial.repeat(2), rtol=1e-3
    )
    end = sw.predict_training(net, SMALL, observables=names)
    alone = sw.predict_training(net, SMALL, GradientFlow(2.0), observables=names)
    for name in names:
        for place, other in ((3, end), (2, alone)):
            error = found[f"{name}_error"][place] + other[f"{name}_error"]
            assert (np.abs(found[name][place] - other[name]) <= error).all(), name
            assert error.max() < 0.02 * np.abs(other[name]).max(), name


@pytest.mark.covers("C46", "C47")
def test_training_samples_are_tests_of_themselves_until_training_is_over() -> None:
    net, names = sw.MLP(2, 500, "tanh", input_dim=3, output_dim=2, C_b=0.1, C_W=1.4), {
        "train_mean_nlo": "output_mean_nlo",
        "train_variance_nlo": "variance_nlo",
        "train_loss_nlo": "test_loss_nlo",
    }  # fmt: skip
    order = [2, 0, 1]  # so that a test stands elsewhere than the training sample it is
    tests, targets = TRAIN[:3][order], Y[:3][order]
    twice = sw.Task(TRAIN[:3], Y[:3], test_inputs=tests, test_targets=targets)
    wanted = [*names, *names.values(), "train_mean"]
    times = [0.0, 0.5, 2.0, 1e5]
    found = sw.predict_training(net, twice, GradientFlow(), observables=wanted, times=times)
    for name, own in names.items():
        want = found[own].isel(test=np.argsort(order)) if "test" in found[own].dims else found[own]
        np.testing.assert_allclose(found[name], want, rtol=1e-9, atol=1e-12, err_msg=name)
        assert (np.abs(found[name]).max(found[name].dims[1:]) > 0).values.tolist()[1:] == [
            True,
            True,
            False,
        ]
    loss = (found.train_mean - Y[:3].T) * found.train_mean_nlo + 0.5 * found.train_variance_nlo
    np.testing.assert_allclose(found.train_loss_nlo, loss.sum("output"), rtol=1e-12, atol=1e-15)


def test_tensors_are_made_once_where_they_are_shared() -> None:
    """For algorithms with the same network and samples, and the numbers are those of a call alone."""
    made, names, known = [], ["test_loss_nlo", "learning_parameter"], {}
    plain = _tensors.tensor_runs

    def counted(net, K, Theta, letters, layers):
        key = (net, K.tobytes(), Theta.tobytes(), letters, layers.accuracy)
        made.append(key)
        known[key] = known.get(key) or plain(net, K, Theta, letters, layers)
        return known[key]

    task = sw.Task(TRAIN[:2], Y[:2], test_inputs=TEST[:1], test_targets=Y[3:4])
    ways = {"flow": GradientFlow(), "descent": GradientDescent(), "newton": TwoStepNewton()}
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(_tensors, "tensor_runs", counted)
        table = algorithms_side_by_side(NET, task, ways)
        assert len(made) == len(set(made)) >= 2  # each at every accuracy that one of them takes
        alone = sw.predict_training(NET, task, ways["newton"], observables=names)
        sw.predict_training(NET, task, ways["flow"], observables=names)
        assert len(made) >= 2 * len(set(made))
        made.clear()
        patch.setattr(_tensors, "_KEPT", 0)
        algorithms_side_by_side(NET, task, ways)
        assert len(made) > 2 * len(set(made))
    last = table.sel(algorithm="newton")
    assert float(last.test_loss_nlo) == float(alone.test_loss_nlo.mean())
    assert float(last.learning_parameter) == float(alone.learning_parameter)


def test_training_the_last_layer_alone_moves_no_ntk_and_takes_kinks() -> None:
    relu = sw.MLP(2, 500, "relu", input_dim=3, output_dim=2, C_W=2.0)
    found = sw.predict_training(relu, SMALL, LastLayer(), observables="all")
    assert (found.ntk_change_nlo == 0).all()
    rates = sw.MLP(
        2, 500, "relu", input_dim=3, output_dim=2, C_W=2.0, lambda_b=0.0, lambda_W=(0.0, 2.0)
    )
    flow = sw.predict_training(rates, SMALL, GradientFlow(), observables="all")
    for name in ("output_mean_nlo", "output_covariance_nlo", "learning_parameter"):
        np.testing.assert_allclose(found[name], flow[name], rtol=1e-12, atol=1e-14)
    assert np.abs(found.output_mean_nlo).max() > 0.01


def test_what_cannot_be_had_says_why() -> None:
    def asks(net, task, algorithm, name, **options):
        return lambda: sw.predict_training(net, task, algorithm, observables=[name], **options)

    rng = np.random.default_rng(0)
    relu = sw.MLP(3, 50, "relu", input_dim=3, output_dim=2, C_W=2.0)
    skips = ResidualMLP(3, 50, "relu", input_dim=3, output_dim=2, gamma=0.5)
    ends = ResidualMLP(3, [50, 2], "tanh", input_dim=3, output_dim=2, gamma=[0, 0, 0.5])
    line = sw.MLP(1, (), "linear", input_dim=3, output_dim=2)
    many = sw.Task(rng.standard_normal((25, 3)), rng.standard_normal((25, 2)), test_inputs=TEST)
    none = sw.Task(TRAIN, Y)
    flow, mean = GradientFlow(), "output_mean_nlo"
    cases = [
        (
            asks(relu, SMALL, flow, mean),
            "over the kinks at z = 0, .* let `measure_training` fit powers",
        ),
        (
            asks(skips, SMALL, flow, mean),
            "over the kinks at z = 0, and what a finite width changes",
        ),
        (asks(ends, SMALL, flow, mean), "outputs to which a skip connection adds"),
        (asks(line, sw.Task(TRAIN[:2], Y[:2], test_inputs=TEST), flow, mean), "no hidden width"),
        (asks(NET, many, GradientFlow(1.0), mean), "for as many samples as these"),
        (asks(NET, SMALL, Projectors(), "ntk_change_nlo"), "nothing of the NTK"),
        (asks(NET, none, flow, mean), "no test inputs"),
        (asks(NET, SMALL, flow, "variance_nlo", covariance=None), "covariance=None leaves it out"),
        (
            asks(NET, SMALL, TwoStepNewton(), mean, times=[1.0]),
            "`times` must be None for TwoStepNewton",
        ),
    ]
    assert unlike(cases) == []
    found = sw.predict_training(relu, SMALL, observables="all")
    missing = {name for name, row in OUTCOMES.items() if row.order}
    assert missing <= {*found.attrs["left_out"]}


@pytest.mark.thorough("tests/training/test_tiles.py::test_samples_may_come_in_any_order_and_twice")
def test_tests_may_come_in_blocks_and_samples_may_repeat(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_dense, "MOST", 4)
    net = sw.MLP(2, 500, "erf", input_dim=3, output_dim=1, C_b=0.1)
    y = Y[:2, :1]
    names = [
        "output_mean_nlo",
        "variance_nlo",
        "test_loss_nlo",
        "learning_parameter",
        "alignment_nlo",
    ]
    rng = np.random.default_rng(2)
    tests = rng.standard_normal((3, 3))
    task = sw.Task(TRAIN[:2], y, test_inputs=tests, test_targets=tests[:, :1])
    found = sw.predict_training(net, task, observables=names, covariance="diagonal")
    some = sw.Task(TRAIN[:2], y, test_inputs=tests[-2:], test_targets=tests[-2:, :1])
    few = sw.predict_training(net, some, observables=names)
    for name in names[:3]:
        error = found[f"{name}_error"].values[..., -2:] + few[f"{name}_error"].values
        assert (np.abs(found[name].values[..., -2:] - few[name].values) <= error + 1e-9).all()
    assert found.learning_parameter >= few.learning_parameter - 1e-6
    again = sw.Task(
        TRAIN[[0, 1, 1]], y[[0, 1, 1]], test_inputs=tests[-1:], test_targets=tests[-1:, :1]
    )
    double = sw.predict_training(net, again, TwoStepNewton(), observables=names)
    once = sw.predict_training(
        net,
        sw.Task(TRAIN[:2], y, test_inputs=tests[-1:], test_targets=tests[-1:, :1]),
        TwoStepNewton(),
        observables=names,
    )
    for name in names[:4]:
        np.testing.assert_allclose(double[name], once[name], rtol=1e-6, atol=1e-9)


def test_where_the_expansion_ends_it_says_so() -> None:
    narrow = sw.MLP(2, 4, "tanh", input_dim=3, output_dim=2, C_b=0.1, C_W=1.4)
    with pytest.warns(
        ExpansionWarning, match=r"at width 4, .* width of at least \d+, stop .* `ridge`"
    ):
        found = sw.predict_training(narrow, SMALL, observables=["output_mean_nlo"])
    assert np.isfinite(found.output_mean_nlo).all()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        sw.predict_training(narrow, SMALL, GradientFlow(0.01), observables=["output_mean_nlo"])


@pytest.mark.covers("C50")
def test_the_width_that_meets_a_loss() -> None:
    names = ("test_loss", "test_loss_nlo", "learning_parameter")
    worse, better = (
        xr.Dataset(
            dict(
                zip(names, (("test", [0.2, 0.4]), ("test", [s * 2.0, s * 4.0]), 10.0), strict=True)
            )
        )
        for s in (1, -1)
    )
    assert width_for_loss(worse, 0.31) == pytest.approx((300, math.inf, 10 / 300))
    assert width_for_loss(better, 0.29) == pytest.approx((0, 300, 10 / 300))
    assert width_for_loss(better, 0.31) == (0, math.inf, 0)
    cases = [
        (
            lambda: width_for_loss(worse, 0.3),
            "`loss` must be above 0.3, .* narrower ones are worse",
        ),
        (lambda: width_for_loss(worse[["test_loss"]], 0.4), "with 'test_loss', 'test_loss_nlo'"),
        (lambda: width_for_loss(worse.expand_dims("time"), 0.4), "must be at one time"),
    ]
    assert unlike(cases) == []


class Shallow:
    """Networks of one hidden layer, many at once, trained by gradient descent."""

    def __init__(self, net: sw.Network, x: np.ndarray, count: int, seed: int) -> None:
        rng, n = np.random.default_rng(seed), net.hidden_widths[0]
        self.n, self.x, (self.lb, self.lW) = n, x, (net.lambda_b[0], net.lambda_W[0])
        scale = np.sqrt(net.C_W[0] / x.shape[1])
        self.b = np.sqrt(net.C_b[0]) * rng.standard_normal((count, n))
        self.W = scale * rng.standard_normal((count, n, x.shape[1]))
        self.c = np.sqrt(net.C_b[1]) * rng.standard_normal(count)
        self.v = np.sqrt(net.C_W[1] / n) * rng.standard_normal((count, n))

    def features(self) -> np.ndarray:
        return np.tanh(self.W @ self.x.T + self.b[:, :, None])

    def outputs(self, s: np.ndarray) -> np.ndarray:
        return self.c[:, None] + np.einsum("mj,mja->ma", self.v, s)

    def ntk(self, s: np.ndarray, at: int) -> np.ndarray:
        """Of each sample with one of them."""
        first = self.lb + self.lW * (self.x @ self.x[at]) / self.x.shape[1]
        slopes = (self.v**2)[:, :, None] * (1 - s**2) * (1 - s[:, :, at : at + 1] ** 2)
        last = self.lb + self.lW / self.n * np.einsum("mja,mj->ma", s, s[:, :, at])
        return last + slopes.sum(axis=1) * first

    def step(self, s: np.ndarray, error: np.ndarray, rate: float) -> None:
        seen = s[:, :, : error.shape[1]]
        back = self.v[:, :, None] * (1 - seen**2) * error[:, None]
        self.c -= rate * self.lb * error.sum(axis=1)
        self.v -= rate * self.lW / self.n * np.einsum("mja,ma->mj", seen, error)
        self.b -= rate * self.lb * back.sum(axis=2)
        self.W -= rate * self.lW / self.x.shape[1] * (back @ self.x[: error.shape[1]])


def test_networks_that_were_trained() -> None:
    """Mean, variance and change of the NTK, early and at the end, from two widths."""
    x = np.array([[1.2, 0.4], [-0.5, 1.1], [0.6, 0.9]])
    y, early, steps, count = np.array([2.0, -1.6]), 4, 25, 12_000
    net = sw.MLP(2, 64, "tanh", input_dim=2, output_dim=1, C_b=0.2, C_W=1.5, lambda_b=0.2)
    names = ["output_mean", "variance", "output_mean_nlo", "variance_nlo", "ntk_change_nlo"]
    task = sw.Task(x[:2], y, test_inputs=x[2:])
    Theta = sw.predict(net, x, observables=["ntk"], layers=2).ntk.values[0]
    h, U = np.linalg.eigh(Theta[:2, :2])
    rate = 0.8 / h.max()
    assert (1 - rate * h.min()) ** steps < 1e-5
    theory = sw.predict_training(
        net, task, GradientDescent(rate), observables=names, times=[early, 1e4]
    )
    spread = sw.predict(net, x, observables=["metric_nlo"], layers=2).metric_nlo.values[0]
    gains = [(1 - (1 - rate * h) ** early) / h, 1 / h]
    measured: dict[int, np.ndarray] = {}
    for width in (16, 32):
        nets = Shallow(
            sw.MLP(2, width, "tanh", input_dim=2, output_dim=1, C_b=0.2, C_W=1.5, lambda_b=0.2),
            x,
            count,
            width,
        )
        s = nets.features()
        z, H, at = nets.outputs(s), nets.ntk(s, 2), []
        for step in range(steps + 1):
            if step in (early, steps):
                gain = gains[step == steps]
                R = Theta[2, :2] @ (U * gain) @ U.T
                mean, free = R @ y, z[:, 2] - z[:, :2] @ R  # whose moments are known
                now, moved = nets.outputs(s)[:, 2], nets.ntk(s, 2)[:, 2] - H[:, 2]
                order = len(at) // 3
                square = (now - mean) ** 2 - free**2
                L = np.array([*-R, 1.0])
                at += [now - free - mean, square + L @ spread @ L / width, moved]
                assert order < 2
            s_train = nets.outputs(s)[:, :2] - y
            nets.step(s, s_train, rate)
            s = nets.features()
        measured[width] = width * np.array(at)
    narrow, broad = (measured[w].mean(axis=1) for w in (16, 32))
    errors = [measured[w].std(axis=1) / math.sqrt(count) for w in (16, 32)]
    limit, error = 2 * broad - narrow, np.hypot(2 * errors[1], errors[0])
    expected = np.concatenate(
        [
            [
                theory.output_mean_nlo[t, 0, 0],
                theory.variance_nlo[t, 0, 0],
                theory.ntk_change_nlo[t, 0, 0, 2, 2],
            ]
            for t in (0, 1)
        ]
    )
    allowed = 4.5 * error + np.abs(broad - narrow) / 4
    assert (np.abs(limit - expected) < allowed).all(), (limit, expected, error)
    assert (np.abs(expected) > 2 * allowed).sum() >= 3, (expected, allowed)
