"""Golden and agreement tests of how learning begins: printed values, finite differences, and simulated training."""

import numpy as np
import pytest
from scipy.integrate import quad
from scipy.stats import norm

from refusals import unlike
from scalewise.gaussian import single_moment
from scalewise.limits import SGD, Architecture, Lazy, learning, train
from scalewise.limits.learning import sigma_gelu
from scalewise.scaling import abc, mup, ntk, standard
from scalewise.tasks import Loss, Task

MUP = mup(depth=3)
# One hidden layer that learns after one that stands still, and the other way round; and outputs by one way only.
LATE = abc((0, 0, "1/2"), (0, "1/2", "1/2"), 0)
EARLY = abc(("-1/2", "1/2", "1/2"), ("1/2", 0, "1/2"), 0)
FEATURES = abc(("-1/2", 0, "3/4"), ("1/2", "1/2", "1/4"), 0)
READOUT = abc(("-1/2", 0, "1/2"), ("1/2", "1/2", 1), 0)
QUANTITIES = ("lambda_", "gamma", "gamma_11", "preactivation")


@pytest.mark.covers("E13")
@pytest.mark.parametrize(
    ("phi", "first", "second", "third"),
    [
        ("tanh", (0.234658, -0.043466, -0.228500, 0.431983), (0.567023, -0.123753, -0.564892, 0.998115), 2.114071),
        (sigma_gelu(0.7), (0.167814, 0.013423, -0.038201, 0.183465),
         (0.418704, 0.050330, -0.106276, 0.559302), 0.103270),
    ],
)  # fmt: skip
def test_values_at_two_hidden_layers(phi, first, second, third):
    found = learning.derivatives(MUP, phi, square=0.81)
    values = np.array([getattr(found, name) for name in QUANTITIES]).T
    # The values were found by differences of quadratures good to 1e-5.
    np.testing.assert_allclose(values, [first, second], atol=2e-5)
    assert found.f_1_third.item() == pytest.approx(third, abs=3e-5)


@pytest.mark.covers("E13")
@pytest.mark.parametrize("phi", ["tanh", sigma_gelu(0.7)], ids=str)
@pytest.mark.parametrize(
    "strategy", [MUP, LATE, EARLY, mup(depth=4)], ids=["all", "late", "early", "three"]
)
def test_derivatives_are_those_of_the_step(phi, strategy):
    """Differences of exact quadratures, of fourth order, for everything at once."""
    h = 0.01
    steps = {
        k: learning.one_step(strategy, phi, square=0.81, eta=k * h, nodes=64) for k in range(-3, 4)
    }
    found = learning.derivatives(strategy, phi, square=0.81)
    for name in ("beta", *QUANTITIES):
        v = {k: getattr(s, name) for k, s in steps.items()}
        np.testing.assert_allclose(v[1] - v[-1], 0, atol=1e-8)
        second = (-v[2] + 16 * v[1] - 30 * v[0] + 16 * v[-1] - v[-2]) / (12 * h * h)
        np.testing.assert_allclose(getattr(found, name), second, atol=1e-6)
    f = {k: s.f_1.item() for k, s in steps.items()}
    assert f[0] == 0
    third = (-13 * (f[1] - f[-1]) + 8 * (f[2] - f[-2]) - (f[3] - f[-3])) / (8 * h**3)
    assert found.f_1_third.item() == pytest.approx(third, abs=2e-4)
    first = (-f[2] + 8 * f[1] - 8 * f[-1] + f[-2]) / (12 * h)
    assert found.f_1.item() == pytest.approx(first, abs=1e-5)


@pytest.mark.covers("E13")
def test_the_ways_of_the_output():
    """Both, the last weights alone, and the features alone."""
    both, readout, features = (
        learning.derivatives(s, "tanh", square=0.81) for s in (MUP, READOUT, FEATURES)
    )
    assert readout.f_1.item() == pytest.approx(
        -single_moment("tanh", _second("tanh", 0.81), (0, 0)).value
    )
    assert readout.f_1_third == 0.0  # its first step does not reach the features
    assert np.all(readout.lambda_ == 0)
    assert (features.f_1 + readout.f_1).item() == pytest.approx(both.f_1.item())
    wanted = both.f_1_third + 3 * both.gamma[-1]
    assert features.f_1_third.item() == pytest.approx(wanted.item())


def _second(phi, variance):
    return float(single_moment(phi, variance, (0, 0)).value)


@pytest.mark.covers("E13")
def test_steps_with_closed_values():
    """One and two hidden layers of tanh after one step from a single sample of target 1."""
    one = learning.one_step(mup(depth=2), "tanh", square=1.0, eta=-1.0)
    assert one.f_1.item() == pytest.approx(0.7081911, abs=2e-7)
    assert one.lambda_[0].item() == pytest.approx(0.519607761770, abs=1e-8)
    two = learning.one_step(MUP, "tanh", square=1.0, eta=-1.0)
    assert two.f_1.item() == pytest.approx(0.56167054, abs=2e-8)
    assert two.gamma[0].item() == pytest.approx(0.37198021, abs=2e-8)
    assert two.lambda_[0].item() == pytest.approx(0.48909217, abs=5e-8)


@pytest.mark.covers("E13")
@pytest.mark.parametrize("strategy", [MUP, LATE, EARLY], ids=["all", "late", "early"])
def test_one_step_of_the_simulated_limit(strategy):
    unit = Loss(lambda f, y: f[..., 0], lambda f, y: np.ones_like(f), "output")
    task = Task([[0.9]], [0.0], loss=unit)
    net = Architecture(strategy, sigma_gelu(0.7))
    found = train(net, task, SGD(0.8), steps=1, on=Lazy(16384, replicas=6, antithetic=True))
    step = learning.one_step(strategy, sigma_gelu(0.7), square=0.81, eta=0.8)
    f, sem = found.logits_mean.values[1, 0, 0], found.logits_sem.values[1, 0, 0]
    # Frozen layers of a finite number of particles still move a little.
    assert abs(f - step.f_1) < 5 * sem + 2e-2
    assert sem < 5e-3
    features = found.feature_kernel_mean.values[1, :, 0, 0]
    np.testing.assert_allclose(features, step.lambda_, atol=0.025)


@pytest.mark.covers("E5")
def test_a_smoothed_relu():
    sigma, phi = 0.7, sigma_gelu(0.7)
    for x in (-1.3, 0.0, 0.3, 2.0):
        s = sigma / 2**0.5
        average = quad(lambda z, x=x, s=s: (x + s * z) * norm.pdf(z), -x / s, 12)[0]
        assert float(phi(x)) == pytest.approx(average, abs=1e-10)
        for order in (1, 2, 3):
            below, above = phi.derivative(np.array([x - 1e-4, x + 1e-4]), order - 1)
            assert float(phi.derivative(x, order)) == pytest.approx(
                (above - below) / 2e-4, abs=1e-6
            )
    import jax

    with jax.enable_x64(True):
        z = np.linspace(-3, 3, 13)
        np.testing.assert_allclose(phi.traceable()(z), phi(z), atol=1e-14)
        f, values = phi.traceable(), []
        for _ in range(6):
            values.append(float(jax.jit(f)(0.0)))
            f = jax.grad(f)
    np.testing.assert_allclose(phi.taylor, values, atol=1e-12)
    # A moment of the smoothed relu is one of relu at a larger variance.
    square = single_moment(phi, 1.0, (1,)).value
    assert square == pytest.approx(0.5)
    mean = single_moment(phi, 1.0, (0,)).value
    assert mean == pytest.approx(((1 + sigma**2 / 2) / (2 * np.pi)) ** 0.5)


@pytest.mark.covers("E5")
@pytest.mark.parametrize(
    ("sigma", "values"),
    [
        (0.5, (0.9943, 0.8097, 0.0427, 0.0729, 0.309, -0.249, -0.274)),
        (0.1, (0.9999, 0.9613, 0.0096, 0.0159, 1.590, -1.442, -1.582)),
        (0.02, (1.0000, 0.9923, 0.0019, 0.0032, 7.957, -7.258, -7.956)),
    ],
)
def test_limits_of_a_steep_smoothed_relu(sigma, values):
    """Of the means that were said to vanish with sigma two tend to 1 and three grow."""
    m = lambda *orders: float(single_moment(sigma_gelu(sigma), 1.0, orders).value)  # noqa: E731
    found = (
        2 * (m(1, 1) + m(0, 2)), 2 * (m(1, 1, 1, 1) + m(0, 2, 1, 1)), m(0, 2, 1, 1), m(0, 2),
        m(2, 2), m(3, 1, 1, 1), m(1, 3),
    )  # fmt: skip
    np.testing.assert_allclose(found, values, atol=6e-4)


@pytest.mark.covers("E5")
@pytest.mark.parametrize("variance", [0.01, 0.3, 1.0, 30.0, 1000.0])
def test_signs_of_tanh(variance):
    m = lambda *orders: float(single_moment("tanh", variance, orders).value)  # noqa: E731
    positive = (m(1, 1) + m(0, 2), m(1, 1, 1, 1) + m(0, 2, 1, 1), m(2, 2))
    negative = (m(0, 2, 1, 1), m(0, 2), m(3, 1, 1, 1), m(1, 3))
    assert min(positive) > 0 > max(negative)


def test_values_of_tanh():
    """N.46 at variance 1, in the order of the statement."""
    m = lambda *orders: float(single_moment("tanh", 1.0, orders).value)  # noqa: E731
    found = (
        2 * (m(1, 1) + m(0, 2)), 2 * (m(1, 1, 1, 1) + m(0, 2, 1, 1)), m(2, 2),
        m(0, 2, 1, 1), m(0, 2), m(3, 1, 1, 1), m(1, 3),
    )  # fmt: skip
    values = (0.36360, 0.491647, 0.30020, -0.095685, -0.28261, -0.480319, -0.47850)
    np.testing.assert_allclose(found, values, atol=6e-6)


BAD = [
    (lambda: learning.derivatives(ntk(), "tanh", square=1.0), "r = 0; ntk.* is classified as kernel regime"),
    (lambda: learning.derivatives(standard(), "tanh", square=1.0), "classified as unstable"),
    (lambda: learning.derivatives(MUP, "relu", square=1.0), "'relu' has a kink"),
    (lambda: learning.derivatives(MUP, "tanh", square=0.0), "`square` must be a positive finite"),
    (lambda: learning.one_step(MUP, "tanh", square=1.0, eta=np.nan), "`eta` must be a finite number; got nan"),
    (lambda: learning.one_step(MUP, "tanh", square=1.0, eta=1.0, nodes=7), "`nodes` must be .*8; got 7"),
    (lambda: sigma_gelu(0.0), "`sigma` must be a positive finite number; got 0.0"),
]  # fmt: skip


def test_bad_input() -> None:
    assert unlike(BAD) == []
