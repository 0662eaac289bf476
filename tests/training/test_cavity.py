"""Agreement: single neurons beside an infinitely wide rest, against tensors and against trained networks."""

import numpy as np
import pytest

import scalewise as sw
from grids import thorough
from scalewise.tasks import Loss
from scalewise.training import GradientDescent, GradientFlow
from scalewise.training.cavity import cavity_correction
from scalewise.training.cavity._average import _of_degree_3, _of_degree_5
from scalewise.training.cavity._rest import FlowPieces, Neuron, Rest, trained
from scalewise.training.cavity._series import composed, constant, product, shifted, taylor

X = np.array(
    [[1.5, 0.3, -0.4], [-0.2, 1.6, 0.5], [0.4, -0.8, 1.4], [0.9, 1.0, 0.2], [-0.9, 0.5, 1.2]]
)
Y = np.array([[1.0, -0.6, 0.4], [-0.3, 0.8, 0.7]]).T


def network(depth: int = 2, outputs: int = 1, activation: str = "tanh") -> sw.Network:
    rates = {"lambda_b": 0.5, "lambda_W": 1.0}
    return sw.MLP(depth, 64, activation, input_dim=3, output_dim=outputs, C_b=0.1, C_W=1.4, **rates)


def task(loss: str | Loss = "mse", outputs: int = 1) -> sw.Task:
    y = Y[:, :outputs]
    return sw.Task(X[:3], y if loss != "logistic" else np.sign(y), test_inputs=X[3:], loss=loss)


ENDED = GradientDescent(0.25)
SOME = [  # depth, outputs, algorithm, draws
    (2, 2, GradientDescent(0.2, steps=3, momentum=0.5), 256),
    (3, 1, GradientDescent(0.3, steps=3), 512),
]
MORE = [
    (2, 2, GradientDescent(0.3, steps=3), 512),
    (2, 1, GradientDescent(0.1, steps=5, momentum=0.5), 1024),
    (3, 1, GradientDescent(0.2, steps=6), 1024),
    (2, 1, GradientDescent(0.3, steps=1), 1024),
    (2, 1, GradientDescent(0.3, steps=4), 1024),
    (2, 1, GradientDescent([0.9, 0.3, 0.6], loss_units="mean"), 1024),
    (2, 1, GradientFlow(1.0), 128),
    (2, 1, ENDED, 128),
]


@pytest.mark.covers("C73", "C75")
@pytest.mark.parametrize("cases", [SOME, *thorough(MORE)], ids=["some", "more"])
def test_cavities_agree_with_tensors(cases: list) -> None:
    """Mean and covariance at depth 2, on the way and at the end; at depth 3 the part of the last hidden layer."""
    wrong, worst = [], 0.0
    for depth, outputs, algorithm, draws in cases:
        net = network(depth, outputs)
        part = "output_mean_nlo_by_layer"
        names = (
            [part] if depth > 2 else ["output_mean_nlo", "output_covariance_nlo", "train_mean_nlo"]
        )
        theory = sw.predict_training(net, task(outputs=outputs), algorithm, observables=names)
        seen = cavity_correction(net, task(outputs=outputs), algorithm, draws=draws, scrambles=16)
        for name in names:
            mine = seen["output_mean_nlo" if name == part else name].values
            error = seen["output_mean_nlo_error" if name == part else f"{name}_error"].values
            wanted, its = theory[name].values, theory[f"{name}_error"].values
            if name == part:
                wanted, its = wanted[-1], its[-1]
            # Training to the end stops at a remainder on its samples, which scrambles share.
            left = 3e-4 if (name, algorithm) == ("train_mean_nlo", ENDED) else 1e-6
            z = (mine - wanted) / np.sqrt(error**2 + its**2 + left**2)
            worst = max(worst, np.abs(z).max())
            if np.abs(z).max() > 5:  # of 16 scrambles, for 40 numbers
                wrong.append((depth, outputs, algorithm, name, z))
        leading = sw.predict_training(net, task(outputs=outputs), algorithm)
        assert np.allclose(seen.output_mean, leading.output_mean, atol=2e-2)
        assert np.allclose(seen.variance, leading.variance, atol=2e-2)
    assert wrong == []


@pytest.mark.covers("C73")
def test_training_to_the_end_leaves_nothing_to_correct_on_training_samples() -> None:
    found = cavity_correction(network(), task(), GradientDescent(0.25), draws=32, scrambles=2)
    assert np.abs(found.train_mean_nlo).max() < 1e-2
    assert np.abs(found.output_mean_nlo).max() > 0.1


@pytest.mark.covers("C73")
def test_series_in_the_couplings_are_what_training_with_them_does() -> None:
    """Coefficients against polynomials through trainings with couplings that are numbers; every loss."""
    rng, count = np.random.default_rng(1), 3
    Theta, below = (np.cov(rng.standard_normal((5, 40))) for _ in range(2))
    z = rng.standard_normal((2, 6, 5))
    f = rng.standard_normal((6, 5, 2))
    a = rng.standard_normal((2, 2))
    rates = (0.4, 0.3, 0.5)
    one_hot = np.array([[1.0, 0.0], [0.0, 1.0], [1.0, 0.0]])
    signs = 2 * one_hot - 1
    own = Loss(
        lambda f, y: ((f - y) ** 4).sum(axis=-1) / 4, lambda f, y: (f - y) ** 3 / 10, "quartic"
    )
    wrong = []
    for loss, y in (("mse", signs), ("logistic", signs), ("cross_entropy", one_hot), (own, signs)):
        its = sw.Task(X[:3], y, test_inputs=X[3:], loss=loss)
        rest = Rest(its, sw.activation("tanh"), Theta[:, :count], below[:, :count], 0.8)

        def by_numbers(k: tuple[float, ...], rest=rest, its=its) -> np.ndarray:
            g, zs, weights = f.copy(), [*z.copy()], [np.tile(w, (6, 1)) for w in a]
            v = [0.0] * 5
            for rate in (*rates, 0.0):
                pairs = list(zip(k, zs, weights, strict=True))
                out = g + sum(c * np.tanh(x)[..., None] * w[:, None] for c, x, w in pairs)
                e = its.loss.gradient(out[:, :count], its.targets)
                pushes = [np.einsum("dt,mto->mdo", rest.Theta, e)]
                for c, x, w in pairs:
                    s = np.tanh(x[:, :count])
                    along = (1 - s**2) * (e * w[:, None]).sum(-1)
                    pushes += [c * along @ rest.below.T, 0.8 * c * (s[..., None] * e).sum(1)]
                v = [0.5 * old + rate * push for old, push in zip(v, pushes, strict=True)]
                if rate:
                    g = g - v[0]
                    zs = [x - v[1 + 2 * n] for n, x in enumerate(zs)]
                    weights = [w - v[2 + 2 * n] for n, w in enumerate(weights)]
            return out

        grid = 0.01 * np.arange(-5, 6)
        fit = (
            np.linalg.inv(np.vander(grid / 0.01, increasing=True)) / 0.01 ** np.arange(11)[:, None]
        )
        course = FlowPieces(rates, 0.5)
        single = trained(rest, course, f, (Neuron(z[0], a[0]),), (4, 0))
        values = np.array([by_numbers((k, 0.0)) for k in grid])
        wanted = np.tensordot(fit[:5], values, axes=1)
        if not np.allclose(single[:, 0], wanted, rtol=1e-3, atol=1e-4):
            wrong.append((its.loss.name, "one", np.abs(single[:, 0] - wanted).max(axis=(1, 2, 3))))
        pair = trained(rest, course, f, tuple(map(Neuron, z, a)), (2, 2))
        values = np.array([[by_numbers((k, q)) for q in grid] for k in grid])
        wanted = np.einsum("pk,ql,kl...->pq...", fit[:3], fit[:3], values, optimize=True)
        if not np.allclose(pair, wanted, rtol=1e-3, atol=1e-4):
            wrong.append((its.loss.name, "two", np.abs(pair - wanted).max(axis=(2, 3, 4))))
    assert wrong == []


@pytest.mark.covers("C73")
def test_flow_is_the_limit_of_small_steps() -> None:
    rng = np.random.default_rng(2)
    Theta, below = (np.cov(rng.standard_normal((5, 40))) for _ in range(2))
    rest = Rest(task("logistic"), sw.activation("tanh"), Theta[:, :3], below[:, :3], 0.8)
    start, neuron = rng.standard_normal((4, 5, 1)), Neuron(rng.standard_normal((4, 5)), np.ones(1))

    def ended(course: FlowPieces) -> np.ndarray:
        return trained(rest, course, start, (neuron,), (4, 0))

    few, many = (ended(FlowPieces((2 / n,) * n)) for n in (100, 200))
    assert np.allclose(ended(FlowPieces((0.25,) * 8, flows=True)), 2 * many - few, atol=1e-4)
    net, its = network(), task()
    options = {"draws": 32, "scrambles": 2}
    flow = cavity_correction(net, its, GradientFlow(1.0), **options).output_mean_nlo
    one, two = (
        cavity_correction(net, its, GradientDescent(1 / n, steps=n), **options).output_mean_nlo
        for n in (40, 80)
    )
    assert np.allclose(flow, 2 * two - one, atol=1e-2)


def test_series_are_multiplied_composed_and_shifted_as_polynomials() -> None:
    rng = np.random.default_rng(5)
    left, right = rng.standard_normal((2, 3, 4, 2))

    def at(series: np.ndarray, k: float, q: float) -> np.ndarray:
        return np.einsum("pq...,p,q->...", series, k ** np.arange(3), q ** np.arange(4))

    for axis, moved in enumerate((shifted(left, 0), np.swapaxes(shifted(left, 1), 0, 1))):
        plain = np.swapaxes(left, 0, axis)
        assert np.array_equal(moved[1:], plain[:-1])
        assert not moved[0].any()
    k, q = 1e-3, 2e-3
    assert np.allclose(at(product(left, right), k, q), at(left, k, q) * at(right, k, q), atol=1e-7)
    assert np.allclose(at(composed(np.sin, left), k, q), np.sin(at(left, k, q)), atol=1e-7)
    step = left - constant(left[0, 0], (2, 3))
    jets = [np.sin(left[0, 0]), np.cos(left[0, 0]), -np.sin(left[0, 0]), -np.cos(left[0, 0])]
    assert np.allclose(at(taylor(jets, step), k, q), np.sin(at(left, k, q)), atol=1e-7)


def test_points_average_polynomials_exactly() -> None:
    wrong = []
    for count in (1, 2, 3, 5):
        for points, degree in ((_of_degree_5(count), 4), (_of_degree_3(count), 2)):
            w, a = np.array([p[0] for p in points]), np.array([p[1] for p in points])
            second = np.einsum("p,pi,pj->ij", w, a, a)
            if not (np.isclose(w.sum(), 1) and np.allclose(second, np.eye(count))):
                wrong.append((count, degree))
            fourth = np.einsum("p,pi,pj,pk,pl->ijkl", w, a, a, a, a)
            eye = np.eye(count)
            wick = sum(np.einsum(f"ij,kl->{legs}", eye, eye) for legs in ("ijkl", "ikjl", "iklj"))
            if degree == 4 and not np.allclose(fourth, wick):
                wrong.append((count, fourth))
    assert wrong == []


def machine(z: np.ndarray, Theta: np.ndarray, rate: float, steps: int) -> np.ndarray:
    """Outputs (draw, sample) after steps with a constant kernel and the logistic loss."""
    y = np.sign(Y[:, 0])
    for _ in range(steps):
        z = z + rate * (y / (1 + np.exp(y * z[:, :3]))) @ Theta[:, :3].T
    return z


def starts(width: int, draws: int, rate: float, steps: int, seed: int) -> np.ndarray:
    """n times what other starts do to kernel machines: a Gaussian given the hidden layer, against one without."""
    net, rng = network(), np.random.default_rng(seed)
    found = sw.predict(net, X, observables=["kernel", "ntk"])
    K, Theta = found.kernel.values[-1], found.ntk.values[-1]
    W = rng.standard_normal((draws, width, 3)) * np.sqrt(1.4 / 3)
    s = np.tanh(W @ X.T + rng.standard_normal((draws, width, 1)) * np.sqrt(0.1))
    G = 0.1 + 1.4 / width * s.transpose(0, 2, 1) @ s
    g = rng.standard_normal((draws, len(X), 1))
    pair = (np.linalg.cholesky(G) @ g)[..., 0], (np.linalg.cholesky(K) @ g)[..., 0]
    one, other = (machine(z, Theta, rate, steps) for z in pair)
    return width * (one - other)


def trained_networks(width: int, networks: int, rate: float, steps: int, seed: int) -> np.ndarray:
    """n times the shift of outputs, network by network: less kernel machines from the same starts."""
    net, rng = network(), np.random.default_rng(seed)
    Theta = sw.predict(net, X, observables=["ntk"]).ntk.values[-1]
    y = np.sign(Y[:, :1])
    W = rng.standard_normal((networks, width, 3)) * np.sqrt(1.4 / 3)
    b = rng.standard_normal((networks, width, 1)) * np.sqrt(0.1)
    V = rng.standard_normal((networks, 1, width)) * np.sqrt(1.4 / width)
    c = rng.standard_normal((networks, 1, 1)) * np.sqrt(0.1)
    s = np.tanh(W @ X.T + b)
    z = (V @ s + c)[:, 0]
    flat = machine(z, Theta, rate, steps)
    for _ in range(steps):
        e = -y[:, 0] / (1 + np.exp(y[:, 0] * z[:, :3]))
        back = V.transpose(0, 2, 1) * e[:, None] * (1 - s[:, :, :3] ** 2)
        V = V - rate / width * (e[:, None] @ s[:, :, :3].transpose(0, 2, 1))
        c = c - rate * 0.5 * e.sum(axis=1)[:, None, None]
        W, b = W - rate / 3 * back @ X[:3], b - rate * 0.5 * back.sum(axis=2, keepdims=True)
        s = np.tanh(W @ X.T + b)
        z = (V @ s + c)[:, 0]
    return width * (z - flat)


@pytest.mark.covers("C73")
def test_logistic_loss_against_trained_networks() -> None:
    """Extrapolated from two widths; kernel machines from the same starts are the control variate."""
    rate, steps = 0.5, 8
    its = task("logistic")
    found = sw.predict_training(
        network(),
        its,
        GradientDescent(rate, steps=steps),
        observables=["output_mean", "output_mean_nlo"],
    )
    direct = cavity_correction(network(), its, GradientDescent(rate, steps=steps))
    assert np.array_equal(found.output_mean_nlo, direct.output_mean_nlo)
    sizes = np.sqrt(found.output_mean_error**2 + direct.output_mean_error**2)
    assert (np.abs(found.output_mean - direct.output_mean) < 5 * sizes).all()
    cavity = np.concatenate([direct.train_mean_nlo[0], direct.output_mean_nlo[0]])
    error = np.concatenate([direct.train_mean_nlo_error[0], direct.output_mean_nlo_error[0]])
    seen = sem = 0.0
    for n, share in ((32, -0.5), (96, 1.5)):  # linear in 1/n, at 1/n = 0
        for part in (trained_networks(n, 6000, rate, steps, n), starts(n, 20000, rate, steps, n)):
            seen = seen + share * part.mean(axis=0)
            sem = sem + (share * part.std(axis=0)) ** 2 / len(part)
    sem = np.sqrt(sem)
    z = (seen - cavity) / np.sqrt(sem**2 + error**2)
    assert np.abs(z).max() < 4, (z, seen, cavity)
    assert np.abs(cavity / sem).max() > 5


@pytest.mark.parametrize(
    ("message", "call"),
    [
        ("no hidden layer", lambda: cavity_correction(network(1), task(), GradientDescent())),
        (
            "has a kink",
            lambda: cavity_correction(network(activation="relu"), task(), GradientDescent()),
        ),
        ("has no end", lambda: cavity_correction(network(), task("logistic"), GradientFlow())),
        ("a ridge", lambda: cavity_correction(network(), task(), GradientFlow(ridge=0.1))),
        (
            "other numbers of features",
            lambda: cavity_correction(network(outputs=2), task(), GradientFlow()),
        ),
        (
            "more than one hidden layer",
            lambda: sw.predict_training(
                network(3),
                task("logistic"),
                GradientFlow(1.0),
                observables=["output_mean_nlo"],
            ),
        ),
    ],
)
def test_refusals(message: str, call) -> None:
    with pytest.raises(ValueError, match=message):
        call()
