"""Property, golden: trained networks against loops by hand and closed forms; controls that change no mean."""

import itertools
import os
import re

import numpy as np
import pytest
import xarray as xr

import scalewise as sw
from grids import thorough
from scalewise.nets._networks import precision
from scalewise.nets._random import network_keys
from scalewise.training import (
    NTKGP,
    Bayes,
    GradientDescent,
    GradientFlow,
    LastLayer,
    Projectors,
    TwoStepNewton,
)
from scalewise.training.ensembles import _ensembles, _training
from scalewise.training.ensembles._start import draw

X = np.array(
    [[1.5, 0.3, -0.4], [-0.2, 1.6, 0.5], [0.4, -0.8, 1.4], [0.9, 1.0, 0.2], [-0.9, 0.5, 1.2]]
)
Y = np.array([[1.0, -0.3], [-0.6, 0.8], [0.4, 0.7]])
TASK = sw.Task(X[:3], Y, test_inputs=X[3:], test_targets=[[0.3, 0.2], [-0.5, 0.9]])
NET = sw.MLP(
    3, (8, 6), "tanh", input_dim=3, output_dim=2, C_b=0.1, C_W=1.4, lambda_b=0.5, lambda_W=1.0
)
SOME = ["output_mean", "output_covariance", "test_loss", "ntk_change"]


def weights(net, networks, seed):
    """Weights and biases of the networks of an ensemble."""
    keys = network_keys(
        seed, (_ensembles.STREAM, 1, *net.hidden_widths), np.arange(networks, dtype=np.uint32)
    )
    with precision("float64"):
        rows = np.asarray(draw(net, keys, "float64")[0])
    for row in rows:
        found, at = [], 0
        for below, n in itertools.pairwise(net.widths):
            found.append((row[at : at + n * below].reshape(n, below), row[at + n * below :][:n]))
            at += n * (below + 1)
        yield found


def jacobian(layers, x):
    """Outputs (sample, output) and their derivatives by every parameter, by hand."""
    s, seen = x, []
    for i, (w, b) in enumerate(layers):
        seen.append(s)
        z = s @ w.T + b
        s = np.tanh(z) if i + 1 < len(layers) else z
    outputs = z.shape[1]
    rows = np.broadcast_to(np.eye(outputs), (len(x), outputs, outputs))
    parts = []
    for i in range(len(layers) - 1, -1, -1):
        parts[:0] = [np.einsum("sij,sk->sijk", rows, seen[i]).reshape(len(x), outputs, -1), rows]
        if i:
            rows = (rows @ layers[i][0]) * (1 - seen[i] ** 2)[:, None, :]
    return z, np.concatenate(parts, axis=-1)


def by_hand(net, layers, force):
    """Train one network by a function of (outputs less targets, Jacobian, rates, displacement)."""
    flat = np.concatenate([np.concatenate([w.ravel(), b]) for w, b in layers])
    n, rates = net.widths, []
    for i in range(net.depth):
        rates += [
            np.full(n[i] * n[i + 1], net.lambda_W[i] / n[i]),
            np.full(n[i + 1], net.lambda_b[i]),
        ]

    def unpacked(p):
        at = 0
        for below, m in itertools.pairwise(n):
            yield p[at : at + m * below].reshape(m, below), p[at + m * below :][:m]
            at += m * (below + 1)

    def look(p, x):
        return jacobian(list(unpacked(p)), x)

    end = force(flat, look, np.concatenate(rates))
    (_, J0), (after, J1) = look(flat, X), look(end, X)
    r = np.concatenate(rates)
    H = [np.einsum("aip,bjp,p->ijab", J, J, r) for J in (J0, J1)]
    return after[3:].T, H[1] - H[0]


def descent(rates, momentum=0.0, ridge=0.0):
    def force(p, look, r):
        start, velocity = p, 0.0
        for eta in rates:
            z, J = look(p, X[:3])
            F = r * np.einsum("sip,si->p", J, z - Y) + ridge * (p - start)
            velocity = momentum * velocity - eta * F
            p = p + velocity
        return p

    return force


def flow(time, steps, ridge=0.0):
    """Classical Runge-Kutta."""

    def force(p, look, r):
        start, dt = p, time / steps

        def f(q):
            z, J = look(q, X[:3])
            return -r * np.einsum("sip,si->p", J, z - Y) - ridge * (q - start)

        for _ in range(steps):
            k1 = f(p)
            k2 = f(p + dt / 2 * k1)
            k3 = f(p + dt / 2 * k2)
            p = p + dt / 6 * (k1 + 2 * k2 + 2 * k3 + f(p + dt * k3))
        return p

    return force


def newton(p, look, r):
    for _ in range(2):
        z, J = look(p, X[:3])
        J = J.reshape(6, -1)
        p = p - r * (J.T @ np.linalg.solve(J * r @ J.T, (z - Y).ravel()))
    return p


SOME_LOOPS = {
    GradientDescent(0.1, 37, momentum=0.3, ridge=0.2): descent([0.1] * 37, 0.3, 0.2),
    GradientDescent([0.2, 0.1, 0.05] * 7): descent([0.2, 0.1, 0.05] * 7),
    GradientFlow(12.0, loss_units="mean", ridge=0.1): flow(2.0, 100, 0.1),
    TwoStepNewton(): newton,
}
MORE_LOOPS = {
    GradientDescent(0.1, 40): descent([0.1] * 40),
    GradientDescent(0.1, 40, momentum=0.6): descent([0.1] * 40, 0.6),
    GradientDescent(0.6, 20, loss_units="mean"): descent([0.1] * 20),
    GradientDescent(0.1): descent([0.1] * 3000),
    GradientFlow(2.0): flow(2.0, 100),
}


@pytest.mark.parametrize("cases", [SOME_LOOPS, *thorough(MORE_LOOPS)], ids=["some", "more"])
def test_every_algorithm_is_a_plain_loop(cases: dict) -> None:
    wrong = []
    for algorithm, force in cases.items():
        found = sw.measure_training(
            NET,
            TASK,
            algorithm,
            networks=2,
            seed=5,
            control=None,
            dtype="float64",
            observables=SOME,
        )
        z, H = zip(*[by_hand(NET, one, force) for one in weights(NET, 2, 5)], strict=True)
        expected = {
            "output_mean": np.mean(z, axis=0),
            "ntk_change": np.mean(H, axis=0),
            "output_covariance": np.einsum("ia,jb->ijab", z[0] - z[1], z[0] - z[1]) / 2,
        }
        close = 1e-5 if algorithm == GradientDescent(0.1) else 1e-6  # 1e-6 of the error is left
        for name, value in expected.items():
            off = np.abs(found[name].values - value).max()
            wrong += [] if off < close * max(1, np.abs(value).max()) else [(algorithm, name, off)]
    assert wrong == []


def test_networks_that_have_converged_are_left_alone() -> None:
    """Run after run to the bit, though they finish at different times and others go on."""
    task = sw.Task(X[:3], Y, test_inputs=X[3:])
    options = {"networks": 20, "dtype": "float64", "control": None}
    runs = [sw.measure_training(NET, task, GradientFlow(), **options) for _ in range(3)]
    for run in runs:
        xr.testing.assert_identical(run, runs[0])
        assert run.train_loss.values.max() < 1e-12


@pytest.mark.parametrize(
    ("algorithm", "networks"),
    [
        (GradientFlow(0.3), 60),
        (Bayes(1.0), 150),
        *thorough((GradientDescent(), 150), (LastLayer(), 150)),
    ],
    ids=str,
)
def test_the_same_seed_gives_the_same_numbers_whatever_the_batches(
    algorithm: object, networks: int
) -> None:
    wrong = []
    first, again, other = (
        sw.measure_training(
            NET, TASK, algorithm, networks=networks, seed=seed, memory=memory, dtype="float64"
        )
        for seed, memory in ((1, "1 GiB"), (1, "1 MB"), (2, "1 GiB"))
    )
    for name in first.data_vars:
        scale = np.abs(first[name].values).max() + 1e-6
        same = np.abs(first[name].values - again[name].values).max() < 1e-9 * scale
        differs = (
            name.startswith("train_loss")
            or np.abs(first[name].values - other[name].values).max() > 1e-6 * scale
        )
        wrong += [] if same and differs else [(algorithm, name)]
    assert wrong == []


@pytest.mark.parametrize(
    ("algorithm", "ntk"),
    [
        (GradientDescent(steps=10), 1.5),
        *thorough((TwoStepNewton(), 2.0), (GradientFlow(1.0), 1.5), (NTKGP(2.0), 1.1)),
    ],
    ids=str,
)
def test_controls_change_no_mean_and_make_it_surer(algorithm: object, ntk: float) -> None:
    """By how much at least: standard errors without a control over those with it, of outputs and of the NTK."""
    net, wrong = sw.MLP(3, 64, "tanh", input_dim=3, output_dim=2, C_b=0.1, C_W=1.4), []
    outputs = ("output_mean", "output_covariance", "variance", "bias", "test_loss")
    plain, free, linear = (
        sw.measure_training(net, TASK, algorithm, networks=200, seed=7, control=control)
        for control in (None, "free", "linear")
    )
    pairs = [(name, free, 1.3) for name in outputs] + [(name, linear, 1.8) for name in outputs]
    for name, better, gain in (*pairs, ("ntk_change", linear, ntk)):
        sem = f"{name}_sem"
        z = (better[name] - plain[name]) / np.hypot(better[sem], plain[sem])
        fewer = float((plain[sem] / better[sem]).median())
        if float(np.abs(z).max()) > 4 or fewer < gain:
            wrong.append((algorithm, name, float(np.abs(z).max()), fewer))
    assert wrong == []


@pytest.mark.parametrize(
    ("algorithm", "control", "networks"),
    [
        (GradientDescent(0.1, 8), "linear", 80),
        *thorough((GradientDescent(0.1, 8), "free", 150), (LastLayer(), None, 150)),
        *thorough((Bayes(1.0), None, 150)),
    ],
    ids=str,
)
def test_standard_errors_are_those_of_repetitions(
    algorithm: object, control: str | None, networks: int
) -> None:
    """Over 24 small ensembles, each with several numbers."""
    wrong = []
    net = sw.MLP(2, 12, "tanh", input_dim=3, output_dim=2, C_b=0.1)
    runs = [
        sw.measure_training(net, TASK, algorithm, networks=networks, seed=s, control=control)
        for s in range(24)
    ]
    for name in ("output_mean", "variance", "test_loss"):
        values = np.stack([run[name].values for run in runs])
        sems = np.sqrt(np.mean([run[f"{name}_sem"].values ** 2 for run in runs], axis=0))
        ratio = np.sqrt(np.mean(values.var(axis=0, ddof=1) / sems**2))
        wrong += [] if 0.7 < ratio < 1.4 else [(algorithm, control, name, ratio)]
    assert wrong == []


def wishart(n):
    """Mean and covariance of a linear network of one hidden layer whose last layer is trained; exact."""
    K = 1.4 * (1.4 / 3 * X @ X.T)
    A, B = slice(2), slice(3, None)
    R = np.linalg.solve(K[A, A], K[A, B]).T
    S = K[B, B] - R @ K[A, B]
    quadratic = Y[:2].T @ np.linalg.solve(K[A, A], Y[:2])
    between = np.eye(2) * (n - 2) / n + quadratic / (n - 3)
    return (R @ Y[:2]).T, np.einsum("ij,ab->ijab", between, S), quadratic, S


def test_the_last_layer_of_a_linear_network_is_exact() -> None:
    net = sw.MLP(2, 12, "linear", input_dim=3, output_dim=2, C_b=0.0, C_W=1.4)
    mean, covariance, quadratic, S = wishart(12)
    task = sw.Task(X[:2], Y[:2], test_inputs=X[3:])
    found = sw.measure_training(net, task, LastLayer(), networks=8_000, dtype="float64")
    for name, expected in {"output_mean": mean, "output_covariance": covariance}.items():
        z = (found[name].values - expected) / found[f"{name}_sem"].values
        assert np.abs(z).max() < 4.5
    slopes = sw.measure_training(
        net, task, LastLayer(), networks=8_000, dtype="float64", widths=[24, 48, 96]
    )
    between = quadratic - 2 * np.eye(2)
    # The neglected order, cubic in 1/n, has 9 times the quadratic form, times 1/24/48 + 1/24/96 + 1/48/96.
    off = slopes.output_covariance_nlo.values - np.einsum("ij,ab->ijab", between, S)
    allowed = 9 * np.einsum("ij,ab->ijab", np.abs(quadratic), np.abs(S)) * 3.5 / 48**2
    assert (np.abs(off) < 4.5 * slopes.output_covariance_nlo_sem.values + allowed).all()
    assert "ntk_change" not in slopes
    assert slopes.attrs["extrapolation_degree"] == 2


def test_the_posterior_of_a_linear_network_has_its_first_correction() -> None:
    """One hidden layer, no noise: mean_1 = 0, cov_1 = (y K⁻¹ y - N_A) cov, and the log evidence."""
    task = sw.Task(X[:2], [0.7, -0.4], test_inputs=X[3:])
    net = sw.MLP(2, 100, "linear", input_dim=3, output_dim=1, C_b=0.0, C_W=1.4)
    found = sw.measure_training(net, task, Bayes(), networks=40_000, dtype="float64")
    leading = sw.predict_training(net, task, Bayes())
    K = 1.4 * (1.4 / 3 * X[:2] @ X[:2].T)
    a = np.array([0.7, -0.4]) @ np.linalg.solve(K, [0.7, -0.4])
    shift = (found.variance.values[0] / leading.variance.values - 1) * 100
    sem = found.variance_sem.values[0] / leading.variance.values * 100
    assert np.abs(shift - (a - 2)).max() < (4 * sem + 0.15).max()
    evidence = (found.log_evidence - leading.log_evidence) * 100
    expected = ((a - 4) ** 2 - 8) / 4
    assert abs(float(evidence) - expected) < 4 * float(found.log_evidence_sem) * 100 + 0.2
    assert (
        abs(found.output_mean.values - leading.output_mean.values).max()
        < 4 * found.output_mean_sem.max()
    )
    assert 4e3 < found.attrs["effective_networks"] <= 4e4


@pytest.mark.parametrize(
    ("algorithm", "width"),
    [
        (GradientDescent(steps=10), 60),
        (Bayes(0.2), 200),
        *thorough((GradientFlow(1.0), 60), (NTKGP(0.2), 40), (LastLayer(), 200)),
    ],
    ids=str,
)
def test_wide_networks_learn_what_the_leading_order_says(algorithm: object, width: int) -> None:
    net, wrong = sw.MLP(3, 200, "gelu", input_dim=3, output_dim=2, C_b=0.2, C_W=1.5), []
    if isinstance(algorithm, GradientDescent):  # the rate of infinite width, at this one
        rate = sw.predict_training(net, TASK, algorithm).attrs["rate"]
        algorithm = GradientDescent(rate, algorithm.steps)
    theory = sw.predict_training(net, TASK, algorithm)
    seen = sw.measure_training(
        net.at_width(width), TASK, algorithm, networks=120, seed=2, control=None
    )
    pairs = {
        "output_mean": theory.output_mean.values,
        "variance": np.broadcast_to(theory.variance.values, (2, 2)),
        "test_loss": theory.test_loss.values,
    }
    for name, value in pairs.items():
        off = np.abs(seen[name].values - value).max()
        allowed = 4 * seen[f"{name}_sem"].values.max() + 5 / width * np.abs(value).max()
        wrong += [] if off < allowed else [(algorithm, name, off, allowed)]
    assert wrong == []


def test_half_of_what_is_read_off_is_read_off_the_outputs() -> None:
    """Test error: one output by its sign, and several by the largest."""
    labels = np.array([0, 1, 2])
    three = sw.Task.of_classes(X[:3], labels, test_inputs=X[:3], test_labels=labels)
    net = sw.MLP(2, 30, "tanh", input_dim=3, output_dim=3)
    found = sw.measure_training(net, three, GradientFlow(), networks=20, dtype="float64")
    assert np.abs(found.test_error.values).max() == 0
    assert np.abs(found.train_loss.values).max() < 1e-10
    away = sw.Task(X[:3], [1.0, -1.0, 1.0], test_inputs=X[:3], test_targets=[-1.0, -1.0, 1.0])
    one = sw.MLP(2, 30, "tanh", input_dim=3, output_dim=1)
    found = sw.measure_training(one, away, GradientFlow(), networks=20, control=None)
    assert found.test_error.values.tolist() == [1.0, 0.0, 0.0]
    assert found.test_loss.values == pytest.approx([2.0, 0.0, 0.0], abs=1e-3)


def test_a_stopped_run_is_resumed_bit_for_bit(tmp_path) -> None:
    """The store is that of `measure`, whose tests kill processes."""
    net = sw.MLP(2, 6, "tanh", input_dim=2, output_dim=1)
    task = sw.Task(np.eye(2), [1.0, -1.0], test_inputs=[[1.0, 1.0]], test_targets=[0.0])
    arguments = (net, task, GradientDescent(0.1, 5))
    options = {"networks": 60, "memory": "30 kB"}

    def stop(done, _total):
        if done > 400:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        sw.measure_training(*arguments, **options, store=tmp_path / "run", progress=stop)
    seen = []
    resumed = sw.measure_training(
        *arguments, **options, store=tmp_path / "run", progress=lambda *counts: seen.append(counts)
    )
    assert seen[1][0] > 60
    assert seen[-1] == (660, 660)
    xr.testing.assert_identical(resumed, sw.measure_training(*arguments, **options))
    for changed in ({"seed": 1}, {"control": "free"}):
        with pytest.raises(ValueError, match="other arguments"):
            sw.measure_training(*arguments, **options, **changed, store=tmp_path / "run")
    assert os.path.exists(tmp_path / "run" / "result")


@pytest.mark.parametrize("algorithm", [Bayes(1.0), *thorough(GradientDescent(0.05, 3))])
def test_a_task_needs_no_test_samples(algorithm: object) -> None:
    found, wanted = (
        sw.measure_training(NET, task, algorithm, networks=400)
        for task in (sw.Task(X[:3], Y), TASK)
    )
    assert not {"output_mean", "test_loss"} & set(found)
    assert "the task has no test inputs" in found.attrs["left_out_because"]
    for name in {"train_loss", "log_evidence"} & set(found):
        apart = np.abs(found[name].values - wanted[name].values)
        assert np.all(apart <= 5 * wanted[f"{name}_sem"].values), name


def test_networks_that_fail_take_none_of_the_others_along() -> None:
    """Those that are left count, a sentence says what became of the rest, and nothing is decided by them."""
    narrow = sw.MLP(3, 2, "linear", input_dim=3, output_dim=2)
    most = sw.predict_training(narrow, TASK, GradientDescent()).attrs["maximal_rate"]
    options = {"networks": 60, "control": None, "seed": 1}
    way = GradientDescent(0.8 * most, 50)
    with pytest.warns(UserWarning, match=r"of 60 networks .* They are left out, and means"):
        found = sw.measure_training(narrow, TASK, way, **options)
    assert 0 < found.attrs["failed_networks"] < 60
    assert found.attrs["status"].startswith("Hidden widths [2, 2]: ")
    assert all(np.isfinite(value).all() for value in found.values())
    fine = sw.measure_training(NET, TASK, GradientDescent(0.05, 3), networks=20)
    assert fine.attrs["status"] == ""
    assert fine.attrs["failed_networks"] == 0
    theory = sw.predict_training(NET, TASK, GradientDescent(0.05, 3), observables="all")
    lame = fine.assign_attrs(status="One network diverged.")
    outcome = sw.compare(theory, lame)
    assert outcome.passed is None
    assert outcome.reason == "One network diverged."


def test_a_flow_along_a_kink_takes_least_steps_whose_error_is_stated(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Beside shorter least steps, outputs differ by less than what is said; an error control alone never ends."""
    task = sw.Task([[1.0, 0.2], [-0.4, 1.0], [0.7, -0.9]], [1.0, -1.0, 0.5], test_inputs=X[:1, :2])
    net = sw.MLP(2, 12, "relu", input_dim=2, output_dim=1)
    options = {"networks": 10, "control": None, "seed": 2, "dtype": "float64"}
    found = []
    for least in (0.05, 0.01):
        monkeypatch.setattr(_training, "LEAST", least)
        found.append(sw.measure_training(net, task, GradientFlow(4.0), **options))
    apart = abs(found[0].output_mean - found[1].output_mean)
    assert 0 < float(apart.max()) < found[0].attrs["flow_error"] < 0.02
    assert found[1].attrs["flow_error"] < found[0].attrs["flow_error"]
    smooth = sw.measure_training(NET, TASK, GradientFlow(2.0), networks=4, control=None)
    assert smooth.attrs["flow_error"] == 0.0


def test_a_posterior_that_rests_on_few_networks_says_so() -> None:
    with pytest.warns(UserWarning, match="of 50 networks carry all the weight of the posterior"):
        found = sw.measure_training(NET, TASK, Bayes(1e-4), networks=50)
    assert "100 are needed" in found.attrs["status"]


def test_what_cannot_be_trained_is_refused_by_a_sentence() -> None:
    twins = sw.Task([X[0], (1 + 1e-12) * X[0], X[1]], Y, test_inputs=X[3:])
    narrow = sw.MLP(3, 3, "tanh", input_dim=3, output_dim=2, C_b=0.1, C_W=1.4)
    cases = [
        (NET, twins, GradientFlow(), {}, "'free' or None|has not converged"),
        (NET, twins, GradientDescent(0.1), {"control": None}, "has not converged after .* error"),
        (narrow, TASK, GradientDescent(0.6), {"control": None}, "diverge|has not converged"),
        (NET, twins, TwoStepNewton(), {"control": None}, "needs the inverse of the NTK"),
        (NET, twins, LastLayer(), {}, "kernel of the 3 training samples is singular"),
        (NET, TASK, Projectors(), {}, "Projectors says only where training ends"),
        (NET, TASK, LastLayer(), {"observables": ["ntk_change"]}, "does not train by the NTK"),
        (NET, TASK, GradientFlow(), {"observables": ["kernel"]}, "observables` "),
        (NET, TASK, GradientFlow(), {"observables": []}, "`observables` is empty; choose from"),
        (NET, TASK, GradientFlow(), {"networks": 1}, "at least 2"),
        (NET, TASK, GradientFlow(), {"control": "best"}, "control` must"),
        (NET, TASK, GradientFlow(), {"widths": [8]}, "two or more different"),
        (NET, sw.Task(X[:3], Y[:, :1]), GradientFlow(), {}, "Change one of the two"),
        (NET, TASK, GradientDescent(9.0), {}, "rate` must be below"),
    ]
    wrong = []
    for net, task, algorithm, options, words in cases:
        try:
            sw.measure_training(net, task, algorithm, **{"networks": 20, **options})
            wrong.append((algorithm, options, "taken"))
        except (ValueError, TypeError) as error:
            if not re.search(words, str(error)):
                wrong.append((algorithm, options, str(error)))
    assert wrong == []
