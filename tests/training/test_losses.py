"""Golden, property, conformance: any loss at infinite width, beside closed forms and another integrator."""

import numpy as np
import pytest
from scipy.integrate import solve_ivp

import scalewise as sw
from refusals import unlike
from scalewise.tasks import Loss
from scalewise.training import Bayes, GradientDescent, GradientFlow
from scalewise.training._asked import Asked
from scalewise.training._spectrum import spectrum
from scalewise.training.losses import reliability
from scalewise.training.losses._dynamics import coefficients
from scalewise.training.losses._outcomes import LOSS_OUTCOMES
from scalewise.training.losses._predict import by_any_loss
from small_task import NET, TASK, TEST, TRAIN, Y, kernels

K, THETA = kernels()
N = len(TRAIN)
H = THETA[:N, :N]
Z = np.random.default_rng(5).standard_normal((4, N, 2))
SIGNS = np.array([[1.0], [-1.0], [-1.0], [1.0], [1.0]])
ONE = sw.MLP(3, 50, "tanh", input_dim=3, output_dim=1, C_b=0.1, C_W=1.4, lambda_b=0.5)
MOST = 1 / np.linalg.eigvalsh(H).max()


@pytest.mark.covers("B68")
def test_the_squared_error_takes_the_closed_form() -> None:
    found, wrong = spectrum(H, "NTK"), []
    times = np.array([0.0, 1.0, 7.0, 2.0])
    for algorithm in (
        GradientFlow(),
        GradientFlow(ridge=0.2, loss_units="mean"),
        GradientDescent(MOST),
        GradientDescent(1.2 * MOST, momentum=0.5, ridge=0.1),
        GradientDescent([MOST, 0.1 * MOST] * 4, momentum=0.3),
        GradientDescent(5 * MOST, loss_units="mean"),
        GradientDescent(),
        GradientDescent(loss_units="mean"),
    ):
        gain = algorithm.filter(found.h, times, targets=Y.size).gain
        exact = -np.einsum("ax,tx,bx,mbi->tmai", found.U, gain, found.U, Z - Y)
        got = coefficients(Z, H, Y, TASK.loss, algorithm, times)
        if not np.allclose(got, exact, rtol=1e-6, atol=1e-8):
            wrong.append((algorithm, np.abs(got - exact).max()))
    assert wrong == []


@pytest.mark.covers("B68")
def test_moments_of_the_squared_error_are_the_exact_ones_within_their_errors() -> None:
    algorithm = GradientFlow(1.3)
    exact = sw.predict_training(NET, TASK, algorithm)
    names = ("output_mean", "output_covariance", "variance", "test_loss", "train_loss")
    found = by_any_loss(Asked(NET, TASK, algorithm), names, K, THETA, draws=2048, seed=1)
    each = np.eye(2)[:, :, None, None]
    pairs = {
        "output_mean": exact.output_mean.values,
        "output_covariance": each * exact.output_covariance.values,
        "variance": np.tile(exact.variance.values, (2, 1)),
        "test_loss": exact.test_loss.values,
        "train_loss": exact.train_loss.values,
    }
    for name, expected in pairs.items():
        off = np.abs(found.values[name] - expected)
        # Seven degrees of freedom: errors of errors are 27 %.
        assert (off / np.maximum(found.errors[name], 1e-9)).max() < 8, name
        assert off.max() < 0.02 * np.abs(expected).max(), name
        rough = np.sqrt((off**2).mean() / (found.errors[name] ** 2).mean())
        assert 0.2 < rough < 4, (name, rough)


@pytest.mark.covers("B68")
def test_another_integrator_in_function_space_agrees() -> None:
    """Outputs themselves are followed, by an implicit method, one network at a time."""
    one_hot = np.eye(2)[[0, 1, 1, 0, 1]]

    def softmax(f):
        e = np.exp(f)
        return e / e.sum(axis=1, keepdims=True) - one_hot

    def logistic(f):
        return -SIGNS / (1 + np.exp(SIGNS * f))

    def fourth(f):
        return (f - Y) ** 3 + 0.1 * (f - Y)

    own = Loss(
        lambda f, y: ((f - y) ** 4 / 4 + (f - y) ** 2 / 20).sum(axis=-1),
        lambda f, y: (f - y) ** 3 + 0.1 * (f - y),
        "fourth power",
    )
    wrong = []
    for slope, z, y, loss in (
        (softmax, Z[0], one_hot, sw.Task(TRAIN, one_hot, loss="cross_entropy").loss),
        (logistic, Z[0][:, :1], SIGNS, sw.Task(TRAIN, SIGNS, loss="logistic").loss),
        (fourth, Z[0], Y, own),
    ):
        times = np.array([0.5, 4.0, 30.0])

        def rise(_, f, slope=slope, shape=z.shape):
            return -(H @ slope(f.reshape(shape))).ravel()

        done = solve_ivp(rise, (0, 30), z.ravel(), "Radau", times, rtol=1e-9, atol=1e-11)
        c = coefficients(z[None], H, y, loss, GradientFlow(), times)
        got = z + np.einsum("ab,tmbi->tai", H, c)
        exact = done.y.T.reshape(3, *z.shape)
        if not np.allclose(got, exact, rtol=1e-5, atol=5e-6):
            wrong.append((loss.name, np.abs(got - exact).max()))
    assert wrong == []


def test_small_steps_are_the_flow_and_the_order_of_times_is_that_of_the_answer() -> None:
    task = sw.Task(TRAIN, SIGNS, test_inputs=TEST, test_targets=SIGNS[:4], loss="logistic")
    flow = sw.predict_training(ONE, task, times=[2.0, 0.5], draws=64)
    steps = sw.predict_training(ONE, task, GradientDescent(0.005), times=[400, 100], draws=64)
    for name in ("output_mean", "variance", "test_loss", "train_loss"):
        np.testing.assert_allclose(steps[name], flow[name], rtol=5e-3, atol=5e-3)
    once = sw.predict_training(ONE, task, GradientFlow(0.5), draws=64)
    for name in once.data_vars:
        np.testing.assert_allclose(once[name], flow[name][1], rtol=1e-5, atol=1e-6)
    leading = [name for name, row in LOSS_OUTCOMES.items() if not row.order]
    assert set(once.data_vars) == {n for name in leading for n in (name, f"{name}_error")}
    p = once.class_probability.values[0]
    swapped = sw.Task(TRAIN, -SIGNS, test_inputs=TEST, test_targets=-SIGNS[:4], loss="logistic")
    other = sw.predict_training(ONE, swapped, GradientFlow(0.5), draws=64)
    assert np.abs(p + other.class_probability.values[0] - 1).max() < 0.02
    known = sw.Task(TRAIN, SIGNS, test_inputs=TRAIN, test_targets=SIGNS, loss="logistic")
    learned = sw.predict_training(ONE, known, GradientFlow(50.0), draws=64)
    assert learned.test_error.values.max() < 0.05
    np.testing.assert_allclose(learned.test_loss, learned.train_loss, atol=1e-6)


def test_two_classes_are_the_same_by_one_output_or_two() -> None:
    """The difference of two outputs with softmax is one output with twice the kernel, by the logistic loss."""
    rows = (SIGNS > 0) @ [[1.0, 0.0]] + (SIGNS < 0) @ [[0.0, 1.0]]
    twice = sw.MLP(
        3, 50, "tanh", input_dim=3, output_dim=1,
        C_b=(0.1, 0.1, 0.2), C_W=(1.4, 1.4, 2.8), lambda_b=(0.5, 0.5, 1.0), lambda_W=(1.0, 1.0, 2.0),
    )  # fmt: skip
    options = {"test_inputs": TEST}
    pair = sw.predict_training(
        NET, sw.Task(TRAIN, rows, loss="cross_entropy", **options), GradientFlow(3.0), draws=2048
    )
    one = sw.predict_training(
        twice, sw.Task(TRAIN, SIGNS, loss="logistic", **options), GradientFlow(3.0), draws=2048
    )
    mean = pair.output_mean.values[0] - pair.output_mean.values[1]
    np.testing.assert_allclose(mean, one.output_mean.values[0], rtol=0.01, atol=0.01)
    C = pair.output_covariance.values
    spread = C[0, 0] + C[1, 1] - C[0, 1] - C[1, 0]
    np.testing.assert_allclose(spread, one.output_covariance.values[0, 0], rtol=0.05, atol=0.01)
    p = pair.class_probability.values
    np.testing.assert_allclose(p.sum(axis=0), 1.0, rtol=1e-12)
    np.testing.assert_allclose(p[0], one.class_probability.values[0], atol=0.01)


def test_reliability_counts_by_hand() -> None:
    p = np.array([[0.95, 0.9, 0.55, 0.3], [0.05, 0.1, 0.45, 0.7]])
    y = np.array([[1.0, 0], [0, 1.0], [0, 1.0], [0, 1.0]])
    found = reliability(p, y, bins=2)
    np.testing.assert_allclose(found.confidence, [(0.95 + 0.9 + 0.55 + 0.7) / 4])
    np.testing.assert_allclose(found.accuracy, [0.5])
    fine = reliability(p, y, bins=10)
    np.testing.assert_array_equal(fine.samples, [1, 1, 2])
    np.testing.assert_allclose(fine.accuracy, [0, 1, 0.5])
    assert fine.calibration_error.item() == pytest.approx((0.55 + 0.3 + 2 * (0.925 - 0.5)) / 4)
    assert fine.log_likelihood.item() == pytest.approx(np.log([0.95, 0.1, 0.45, 0.7]).mean())
    single = reliability(p[:1], np.array([[1.0], [-1.0], [-1.0], [-1.0]]))
    assert single.calibration_error.item() == pytest.approx(fine.calibration_error.item())


def test_what_has_no_end_or_no_meaning_is_refused() -> None:
    task = sw.Task(TRAIN, SIGNS, test_inputs=TEST, loss="logistic")
    steep = Loss(lambda f, y: (f - y)[..., 0] ** 4, lambda f, y: 4 * (f - y) ** 3, "steep")
    wild = sw.Task(TRAIN, SIGNS, test_inputs=TEST, loss=steep)

    def ask(*args, task=task, **options):
        return lambda: sw.predict_training(ONE, task, *args, **options)

    cases = [
        (ask(), "'logistic' must stop at a time.*for sure.*Give `time` or `steps`"),
        (ask(GradientDescent()), "`time` or `steps`"),
        (ask(GradientDescent(0.1), times=[0.5]), "whole numbers of steps"),
        (ask(GradientDescent([0.1]), times=[2]), "whole numbers of steps"),
        (ask(Bayes()), "GradientFlow or GradientDescent for the loss 'logistic'"),
        (ask(GradientFlow(1.0), observables=["spectrum"]), "spectrum"),
        (ask(GradientFlow(1.0), observables="test_loss"), "no test targets"),
        (ask(GradientFlow(1.0), observables="class_probability", task=wild), "no `probabilities`"),
        (ask(GradientDescent(5.0, 40), task=wild), "diverges: outputs overflow"),
        (lambda: reliability([[0.5, 1.2]], [[1.0], [-1.0]]), "between 0 and 1"),
    ]
    assert unlike(cases) == []
