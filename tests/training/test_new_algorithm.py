"""Conformance: an algorithm made in this file is predicted, trained and compared as the built-in ones are."""

from dataclasses import dataclass
from typing import Any, ClassVar

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import scalewise as sw
from scalewise.tasks import Loss
from scalewise.training import Algorithm, ByDescent, Filter, GradientDescent, Stepwise
from scalewise.training.width._weights import stationary

X = np.array([[1.0, 0.2, -0.4], [-0.3, 0.9, 0.5], [0.6, -0.7, 0.8], [0.1, 1.0, -0.2]])
TASK = sw.Task(X[:3], [1.0, -1.0, 0.5], test_inputs=X[3:], test_targets=[0.3])
NET = sw.MLP(2, 64, "tanh", input_dim=3, output_dim=1, C_b=0.1, C_W=1.4)


def nesterov(v: Any, F: Any, rate: Any, m: Any) -> tuple[Any, Any]:
    """The velocity with the force where it leads to, in terms of where forces are looked at."""
    v = m * v - rate * F
    return m * v - rate * F, v


@dataclass(frozen=True)
class Nesterov(Stepwise):
    """Accelerated gradient descent, at a rate for the sum of half squares."""

    rate: float
    steps: int | None = None
    momentum: float = 0.6
    ridge: float = 0.0

    def motion(self, h: np.ndarray, *, targets: int = 1) -> ByDescent:
        return ByDescent((self.rate,), self.steps, self.momentum, nesterov)


@dataclass(frozen=True)
class Fading(Stepwise):
    """Descent at rates that fade, which depend on the kernel."""

    steps: int | None = 8

    def motion(self, h: np.ndarray, *, targets: int = 1) -> ByDescent:
        return ByDescent(tuple(1.0 / h.max() / (1 + k) for k in range(8)), self.steps)


def inertia(v: Any, F: Any, rate: Any, friction: Any) -> tuple[Any, Any]:
    """A short time of a motion with a mass: by Strang, half of the friction before the force and half behind it."""
    half = 1 - friction * rate / 2
    v = half * half * v - half * rate * F
    return rate * v, v


@dataclass(frozen=True)
class Rolling(Stepwise):
    """A flow with a mass of 1 and friction, in steps of a short time: what it reaches is known in closed form."""

    time: float
    friction: float
    steps: int = 200

    def motion(self, h: np.ndarray, *, targets: int = 1) -> ByDescent:
        return ByDescent((self.time / self.steps,), self.steps, self.friction, inertia)


@dataclass(frozen=True)
class Cut(Algorithm):
    """Directions whose eigenvalues are small are not learned at all: a filter, and no more."""

    least: float = 0.1
    remedy: ClassVar[str] = "take a larger `least`"

    def filter(self, h: np.ndarray, times: Any = None, *, targets: int = 1) -> Filter:
        self.stops(times)
        gain = np.where(h > self.least * h.max(), 1 / np.maximum(h, 1e-300), 0.0)[None]
        return Filter(gain, 1 - h * gain)


def walked(h: float, way: Nesterov, steps: int) -> tuple[float, float]:
    """Gain and rest of one direction, by the two points of the textbook: theta and where the force is looked at."""
    theta = at = before = 0.0
    for _ in range(steps):
        force = (h + way.ridge) * at - 1
        theta, before = at - way.rate * force, theta
        at = theta + way.momentum * (theta - before)
    return at, 1 - h * at


def test_its_filter_is_its_own_recursion() -> None:
    h = np.array([0.0, 0.02, 0.3, 1.4])
    for ridge in (0.0, 0.1):
        way = Nesterov(0.5, ridge=ridge)
        found = way.filter(h, np.array([0.0, 3.0, 40.0, np.inf]))
        wanted = np.array([[walked(x, way, t) for x in h] for t in (0, 3, 40, 5000)])
        wanted[3, 0, 0] = wanted[3, 0, 0] if ridge else np.inf
        np.testing.assert_allclose(found.gain, wanted[..., 0], rtol=1e-9)
        np.testing.assert_allclose(found.left, wanted[..., 1], atol=1e-9)


def test_a_flow_with_a_mass_oscillates_and_its_steps_converge() -> None:
    h, friction, time = np.array([0.02, 0.3, 1.4, 6.0]), 0.8, 4.0
    half = friction / 2
    turn = np.emath.sqrt(h - half**2)
    rest = np.exp(-half * time) * (np.cos(turn * time) + half / turn * np.sin(turn * time))
    assert (rest.real[1:] < 0).any()  # it overshoots, which no flow without a mass does
    apart = [
        np.abs(Rolling(time, friction, steps).filter(h).left - rest.real).max()
        for steps in (400, 800)
    ]
    assert apart[0] < 0.03
    assert 0.9 < np.log2(apart[0] / apart[1]) < 2.1
    found = sw.predict_training(NET, TASK, Rolling(time, friction, 20), observables="all")
    drawn = sw.measure_training(
        NET.at_width(256), TASK, Rolling(time, friction, 20), networks=300, seed=5
    )
    assert "output_mean_nlo" in found
    assert sw.compare(found, drawn).passed is not False


def test_its_weights_of_order_one_over_n_come_from_the_rule() -> None:
    """Responses back are those forth, transposed; after a training to the end with a ridge weights are products."""
    h, x = np.array([0.4, 1.1, 2.0]), np.array([0.7])
    clock = ByDescent((0.3, 0.5, 0.2, 0.4), 4, 0.6, nesterov).clock(h, 4.0)
    forth = [clock.forward(source[:, None], x) for source in np.eye(4)]
    at = np.concatenate([responses for responses, _ in forth], axis=1)
    end = np.concatenate([last for _, last in forth])
    F = np.array([0.2, -1.0, 0.5, 0.3])
    back = clock.backward(F[:, None], x, 0.8)[:, 0]
    np.testing.assert_allclose(back, F @ at + 0.8 * end, rtol=1e-12)
    ended = Nesterov(0.4, ridge=0.2).reaches(h)
    for name, reach in stationary(1 / (h + 0.2)).reaches().items():
        for one, other in zip(ended[name], reach, strict=True):
            np.testing.assert_allclose(one, other, rtol=1e-9, atol=1e-12)


def test_it_is_predicted_at_order_one_over_n_and_measured_and_compared() -> None:
    way = Nesterov(0.25, 6)
    net = NET.at_width(256)
    theory = sw.predict_training(net, TASK, way, observables="all")
    assert "output_mean_nlo" in theory
    found = sw.measure_training(net, TASK, way, networks=600, seed=3)
    assert found.attrs["algorithm"] == repr(way)
    assert not found.attrs["status"]
    outcome = sw.compare(theory, found)
    assert outcome.passed is not False, str(outcome)
    # What it predicts is not what a heavy ball does.
    other = sw.predict_training(net, TASK, GradientDescent(0.25, 6, momentum=0.6))
    apart = abs(other.output_mean - found.output_mean) / found.output_mean_sem
    assert float(apart.max()) > 10


def test_its_networks_are_trained_by_its_rule() -> None:
    net, way = NET.at_width(8), Nesterov(0.2, 5)
    found = sw.measure_training(
        net, TASK, way, networks=2, control=None, dtype="float64", observables=["train_loss"]
    )
    from scalewise.nets._networks import precision
    from scalewise.nets._random import network_keys
    from scalewise.training.ensembles._start import draw, packed, rates_of

    with precision("float64"):
        start, _ = draw(net, network_keys(0, (4, 1, 8), np.arange(2, dtype=np.uint32)), "float64")
        own, rates = packed(net), rates_of(net, "float64")

        def loss(p: Any) -> Any:
            return 0.5 * ((own.outputs(p, TASK.inputs)[0] - TASK.targets) ** 2).sum(axis=1)

        losses = []
        for p in start:
            theta = at = before = jnp.asarray(p)
            for _ in range(5):
                force = rates * jax.grad(lambda q: loss(q).sum())(at)
                theta, before = at - 0.2 * force, theta
                at = theta + 0.6 * (theta - before)
            losses.append(np.asarray(loss(at)))
    np.testing.assert_allclose(found.train_loss.values, np.mean(losses, axis=0), rtol=1e-9)


def test_it_trains_by_any_loss_that_has_a_slope() -> None:
    """By half the square it is what the filter says, and by another loss it stops where flow does."""
    half = Loss(lambda f, y: ((f - y) ** 2).sum(-1) / 2, lambda f, y: f - y, "half")
    way = Nesterov(0.3, 4)
    exact = sw.predict_training(NET, TASK, way)
    found = sw.predict_training(
        NET, sw.Task(X[:3], TASK.targets, test_inputs=X[3:], loss=half), way, draws=256
    )
    apart = np.abs(found.output_mean.values - exact.output_mean.values)
    assert (apart < 6 * found.output_mean_error.values + 1e-9).all()


def test_rates_may_come_from_the_kernel() -> None:
    found = sw.predict_training(NET, TASK, Fading())
    h = found.spectrum.values
    rates = [1 / h.max() / (1 + k) for k in range(8)]
    wanted = sw.predict_training(NET, TASK, GradientDescent(rates))
    np.testing.assert_allclose(found.output_mean, wanted.output_mean, rtol=1e-12)
    np.testing.assert_allclose(found.variance, wanted.variance, rtol=1e-10)


def test_rates_and_steps_fit_each_other() -> None:
    with pytest.raises(ValueError, match="must hold at least one rate; got none"):
        ByDescent(())
    with pytest.raises(ValueError, match="a rate for each of 3 steps; got 2"):
        ByDescent((0.1, 0.2), 3)
    with pytest.raises(ValueError, match="a rate for every step to the end; got 2"):
        ByDescent((0.1, 0.2))
    with pytest.raises(
        ValueError, match="must be at most 8 steps, as many as there are rates; got step 9"
    ):
        sw.predict_training(NET, TASK, Fading(), times=[3, 20])


def test_a_filter_alone_is_enough_for_infinite_width_and_everything_else_says_why_not() -> None:
    found = sw.predict_training(NET, TASK, Cut(0.3), observables="all")
    assert {"output_mean", "variance", "test_loss"} <= set(found)
    left = dict(zip(found.attrs["left_out"], found.attrs["left_out_because"], strict=True))
    assert left["output_mean_nlo"] == "no coefficient of 1/n of it is known for Cut"
    with pytest.raises(ValueError, match="must say how networks are trained; Cut says only where"):
        sw.measure_training(NET, TASK, Cut(), networks=4)
    with pytest.raises(ValueError, match="must be None for Cut, which says where training ends"):
        sw.predict_training(NET, TASK, Cut(), times=[1.0])
    logistic = sw.Task(X[:3], [1.0, -1.0, 1.0], loss="logistic")
    with pytest.raises(ValueError, match="GradientFlow or GradientDescent for the loss 'logistic'"):
        sw.predict_training(NET, logistic, Cut())


def test_the_command_line_lists_the_algorithms_that_have_a_word() -> None:
    from scalewise.cli._options import ALGORITHMS
    from scalewise.training._algorithms import BY_WORD

    assert set(ALGORITHMS) == set(BY_WORD)
