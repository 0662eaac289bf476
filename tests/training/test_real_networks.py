"""Agreement: wide networks, trained weight by weight, have the predicted mean and covariance."""

import numpy as np
import pytest

import scalewise as sw
from scalewise.training import GradientDescent

WIDTH, NETWORKS = 512, 400
TRAIN = np.array([[0.8, -0.3, 0.5], [-0.6, 0.9, 0.2], [0.1, 0.4, -1.1]])
TEST = np.array([[0.5, 0.5, -0.2], [-0.9, 0.1, 0.7]])
Y = np.array([[1.0, -0.3], [-0.7, 0.4], [0.2, 0.8]])
NET = sw.MLP(
    2, WIDTH, "tanh", input_dim=3, output_dim=2, C_b=0.1, C_W=1.4, lambda_b=0.5, lambda_W=0.8
)


def half_squares(z: np.ndarray) -> np.ndarray:
    """Slopes (network, output, sample)."""
    return z - Y.T


def trained(rate: float, steps: int, momentum: float, slope_of=half_squares) -> np.ndarray:
    """Outputs (network, sample, output) after steps of the mean of losses."""
    rng = np.random.default_rng(6)
    shapes = {"b1": (WIDTH, 1), "W1": (WIDTH, 3), "b2": (2, 1), "W2": (2, WIDTH)}
    inside = {"b1": 1, "W1": 3, "b2": 1, "W2": WIDTH}
    law = {"b": (NET.C_b[0], NET.lambda_b[0]), "W": (NET.C_W[0], NET.lambda_W[0])}
    theta, velocity = {}, {}
    for name, shape in shapes.items():
        C = law[name[0]][0] / inside[name]
        theta[name] = np.sqrt(C) * rng.standard_normal((NETWORKS, *shape))
        velocity[name] = np.zeros((NETWORKS, *shape))
    x = np.concatenate([TRAIN, TEST]).T
    for step in range(steps + 1):
        sigma = np.tanh(theta["b1"] + theta["W1"] @ x)
        z = theta["b2"] + theta["W2"] @ sigma
        if step == steps:
            return z.transpose(0, 2, 1)
        error, seen = slope_of(z[:, :, :3]) / Y.size, sigma[:, :, :3]
        back = (theta["W2"].transpose(0, 2, 1) @ error) * (1 - seen**2)
        slopes = {
            "b1": back.sum(axis=2, keepdims=True),
            "W1": back @ TRAIN,
            "b2": error.sum(axis=2, keepdims=True),
            "W2": error @ seen.transpose(0, 2, 1),
        }
        for name, slope in slopes.items():
            velocity[name] = momentum * velocity[name] - rate * slope
            theta[name] += law[name[0]][1] / inside[name] * velocity[name]
    raise AssertionError


@pytest.mark.covers("B25", "B26")
def test_wide_networks_do_what_is_predicted() -> None:
    task = sw.Task(TRAIN, Y, test_inputs=TEST)
    wrong = []
    for rate, steps, momentum in ((1.5, 3, 0.0), (1.0, 25, 0.5)):
        algorithm = GradientDescent(rate, steps, momentum=momentum, loss_units="mean")
        theory = sw.predict_training(NET, task, algorithm)
        z = trained(rate, steps, momentum)
        mean = np.concatenate([theory.train_mean, theory.output_mean], axis=1).T
        spread = np.concatenate([theory.train_variance, theory.variance])
        # What has nearly been learned by all networks is left to the fluctuations of their NTKs, of order 1/n.
        unsure = spread > 0.02
        assert unsure.sum() >= 2
        off = (z.mean(axis=0) - mean) / np.sqrt(spread / NETWORKS)[:, None]
        # The standard error of a Gaussian's variance.
        grown = (z.var(axis=0, ddof=1) / spread[:, None] - 1) / np.sqrt(2 / NETWORKS)
        d = z[:, 3:, 0] - z[:, 3:, 0].mean(axis=0)
        C = theory.output_covariance.values
        error = np.sqrt((C[0, 0] * C[1, 1] + C[0, 1] ** 2) / NETWORKS)
        between = ((d[:, 0] * d[:, 1]).mean() - C[0, 1]) / error
        worst = max(np.abs(off[unsure]).max(), np.abs(grown[unsure]).max(), abs(between))
        if worst > 4.5:
            wrong.append((rate, steps, momentum, worst))
    assert wrong == []


@pytest.mark.covers("B68")
def test_wide_classifiers_do_what_is_predicted() -> None:
    one_hot = np.array([[1.0, 0.0], [0.0, 1.0], [0.0, 1.0]])

    def slope_of(z: np.ndarray) -> np.ndarray:
        e = np.exp(z - z.max(axis=1, keepdims=True))
        return e / e.sum(axis=1, keepdims=True) - one_hot.T

    wanted = np.array([[1.0, 0.0], [0.0, 1.0]])
    task = sw.Task(TRAIN, one_hot, test_inputs=TEST, test_targets=wanted, loss="cross_entropy")
    algorithm = GradientDescent(1.0, 25, momentum=0.5, loss_units="mean")
    theory = sw.predict_training(NET, task, algorithm, draws=1024)
    z = trained(1.0, 25, 0.5, slope_of)
    p = np.exp(z - z.max(axis=2, keepdims=True))
    p /= p.sum(axis=2, keepdims=True)
    loss = -np.log((p[:, 3:] * wanted).sum(axis=2))
    off = z - z.mean(axis=0)
    between = np.einsum("mbi,mcj->mijbc", off[:, 3:], off[:, 3:])
    pairs = {
        "output_mean": z[:, 3:].transpose(0, 2, 1),
        "train_mean": z[:, :3].transpose(0, 2, 1),
        "variance": (off[:, 3:] ** 2).transpose(0, 2, 1),
        "output_covariance": between,
        "class_probability": p[:, 3:].transpose(0, 2, 1),
        "test_loss": loss,
        "test_error": (z[:, 3:].argmax(axis=2) != wanted.argmax(axis=1)).astype(float),
    }
    wrong = []
    for name, seen in pairs.items():
        error = np.hypot(seen.std(axis=0) / np.sqrt(NETWORKS), theory[f"{name}_error"])
        worst = np.abs((seen.mean(axis=0) - theory[name]) / np.maximum(error, 1e-3)).max()
        if worst > 4.5:
            wrong.append((name, float(worst)))
    assert wrong == []
    # What all outputs share does not matter to softmax and stays random: they depend on each other.
    assert (theory.output_covariance[0, 1].values > 0.03).all()
