"""Golden, property, agreement: linear models and single steps, beside autodiff, printed numbers, drawn networks."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy.stats import norm

import scalewise as sw
from refusals import unlike
from scalewise.nets import Parameters, init_weights
from scalewise.theory.single import nearby_inputs_flow
from scalewise.training._one_network import tangents_of
from scalewise.training.kernels import (
    bayes_rates,
    decay_of_prior,
    feature_kernel,
    fit_features,
    gaussian_kernel,
    generalised_loss,
    giant_leap,
    hidden_update,
    kernel_machine,
    last_layer_features,
    parameter_step,
    star_polation,
    weight_decay_tensor,
)

RNG = np.random.default_rng(11)
X, Y = RNG.standard_normal((4, 3)), RNG.standard_normal((4, 2))
NET = sw.MLP(
    3, (7, 6), "gelu", input_dim=3, output_dim=2,
    C_b=0.1, C_W=1.4, lambda_b=(0.3, 0.5, 0.7), lambda_W=(1.0, 0.8, 1.2),
)  # fmt: skip


def weights(net: sw.Network = NET, seed: int = 3) -> Parameters:
    drawn = init_weights(net, seed)
    return Parameters(*(tuple(np.asarray(a, np.float64) for a in part) for part in drawn))


@jax.jit
def forward(p, x):
    z = x
    for k, (W, b) in enumerate(zip(p.weights, p.biases, strict=True)):
        z = (jax.nn.gelu(z, approximate=False) if k else z) @ W.T + b
    return z


def rates() -> Parameters:
    n = NET.widths
    return Parameters(tuple(NET.lambda_W[k] / n[k] for k in range(3)), tuple(NET.lambda_b))


def moved(p, step, eta: float = 1.0) -> Parameters:
    return jax.tree.map(lambda a, d: np.asarray(a) + eta * np.asarray(d), p, Parameters(*step))


@pytest.mark.covers("B70")
def test_features_and_their_kernel_predict_the_same() -> None:
    wrong = []
    for count, ridge in ((3, 0.2), (9, 0.2), (9, 0.0), (3, 1e-3)):
        phi, tests = RNG.standard_normal((5, count)), RNG.standard_normal((4, count))
        y = RNG.standard_normal((5, 2))
        W = fit_features(phi, y, ridge=ridge)
        slope = (W @ phi.T - y.T) @ phi + 2 * ridge * W
        if np.abs(slope).max() > 1e-10:
            wrong.append((count, ridge, "minimum"))
        if not ridge and not np.allclose(W, (np.linalg.pinv(phi) @ y).T, rtol=1e-9):
            wrong.append((count, "smallest norm"))
        dual = kernel_machine(feature_kernel(phi, phi), feature_kernel(tests, phi), y, ridge=ridge)
        if not np.allclose(tests @ W.T, dual, rtol=1e-8, atol=1e-10):
            wrong.append((count, ridge, "dual"))
    assert wrong == []
    c = np.diag([1.0, 2.0, 3.0])
    root = np.sqrt(np.diag(c))
    np.testing.assert_allclose(
        feature_kernel(X, X, weights=c), feature_kernel(X * root, X * root), rtol=1e-12
    )
    # A Gaussian kernel is one of the features exp(-x^2/2) x^k / sqrt(k!).
    x = np.array([[0.3], [-0.8], [1.4]]) / 0.7
    powers = np.arange(40)
    factorial = np.cumprod(np.maximum(powers, 1).astype(float))
    phi = np.exp(-(x**2) / 2) * x**powers / np.sqrt(factorial)
    np.testing.assert_allclose(
        gaussian_kernel(0.7 * x, 0.7 * x, length=0.7), phi @ phi.T, rtol=1e-10
    )


@pytest.mark.covers("B70")
def test_random_features_have_the_kernel_of_the_network_on_average() -> None:
    rng, draws = np.random.default_rng(4), []
    n = NET.widths
    for _ in range(400):
        W = tuple(rng.standard_normal((n[k + 1], n[k])) * np.sqrt(1.4 / n[k]) for k in range(3))
        b = tuple(rng.standard_normal(n[k + 1]) * np.sqrt(0.1) for k in range(3))
        phi = last_layer_features(NET, Parameters(W, b), X)
        draws.append(phi @ phi.T)
    found = sw.predict(NET, X, observables=["kernel", "metric_nlo"], layers=3)
    # The layer below is of width 7: its correction of order 1/n is a part of what is seen.
    K = found.kernel.values[0] + found.metric_nlo.values[0] / n[-2]
    error = np.std(draws, axis=0) / np.sqrt(len(draws))
    assert (np.abs(np.mean(draws, axis=0) - K) / error).max() < 4.5


@pytest.mark.covers("B71")
def test_steps_are_those_of_autodiff_and_their_remainders_quadratic() -> None:
    p = weights()
    step = parameter_step(NET, p, X, np.asarray(forward(p, X)) - Y)
    with jax.enable_x64(True):

        @jax.jit
        def loss(q):
            return 0.5 * ((forward(q, X) - Y) ** 2).sum()

        slope = jax.jit(jax.grad(loss))(p)
        for got, g, r in zip(
            jax.tree.leaves(Parameters(*step)),
            jax.tree.leaves(slope),
            jax.tree.leaves(rates()),
            strict=True,
        ):
            np.testing.assert_allclose(got, -r * g, rtol=1e-6, atol=1e-7)
        z = np.asarray(forward(p, X))
        error = z - Y
        step = parameter_step(NET, p, X, error)
        H = tangents_of(NET, p, X)[1]
        turned = np.einsum("abij,bj->ai", H, error)
        left = []
        for eta in (1e-3, 5e-4):
            q = moved(p, step, eta)
            left.append(
                (
                    np.abs(np.asarray(forward(q, X)) - z + eta * turned).max(),
                    abs(float(loss(q)) - float(loss(p)) + eta * (error * turned).sum()),
                )
            )
        ratio = np.array(left[0]) / np.array(left[1])
    assert np.all(np.abs(ratio - 4) < 0.2), ratio


@pytest.mark.covers("B72")
def test_a_giant_leap_brings_a_linear_model_to_its_targets() -> None:
    p = weights()
    with jax.enable_x64(True):
        there = Parameters(*giant_leap(NET, p, X, Y))
        d = jax.tree.map(lambda a, b: np.asarray(b) - np.asarray(a), p, there)
        z, slope = jax.jit(lambda a, b: jax.jvp(lambda q: forward(q, X), (a,), (b,)))(p, d)
    np.testing.assert_allclose(np.add(z, slope), Y, rtol=1e-8, atol=1e-10)
    # With the NTK of infinite width instead, what is left falls with the width.
    off = []
    for width in (50, 800):
        net = sw.MLP(2, width, "gelu", input_dim=3, output_dim=2, C_b=0.1, C_W=1.4)
        ntk = sw.predict(net, X, observables=["ntk"], layers=2).ntk.values[0]
        q = weights(net)
        there = Parameters(*giant_leap(net, q, X, Y, ntk=ntk))
        off.append(np.abs(np.asarray(forward(there, X)) - Y).max())
    assert off[1] < 0.5 * off[0]
    kappa = np.linalg.inv(ntk)
    z, tiny = RNG.standard_normal((4, 2)), 1e-6
    for place in ((0, 0), (3, 1)):
        there = np.zeros_like(z)
        there[place] = tiny
        rise = generalised_loss(z + there, Y, kappa) - generalised_loss(z - there, Y, kappa)
        assert rise / (2 * tiny) == pytest.approx((kappa @ (z - Y))[place], rel=1e-6)


@pytest.mark.covers("B73")
def test_weight_decay_moves_outputs_as_autodiff_says() -> None:
    p = weights()
    decay = Parameters((0.3,) * 3, (0.7,) * 3)
    with jax.enable_x64(True):
        d = jax.tree.map(lambda a, r, c: r * c * a, p, spread(rates(), p), spread(decay, p))
        _, expected = jax.jvp(lambda q: forward(q, X), (p,), (d,))
    got = weight_decay_tensor(NET, p, X, bias_decay=0.7, weight_decay=0.3)
    np.testing.assert_allclose(got, expected, rtol=1e-9, atol=1e-11)


def spread(numbers: Parameters, like: Parameters) -> Parameters:
    return jax.tree.map(lambda a, r: np.full(np.shape(a), r), like, numbers)


@pytest.mark.covers("B71")
def test_hidden_updates_are_the_printed_ones_and_those_of_drawn_networks() -> None:
    net = sw.MLP(
        2, 50, lambda z: jnp.tanh(z) + 0.5 * jnp.sin(z) ** 2,
        input_dim=3, output_dim=2, C_b=0.1, C_W=1.2, lambda_b=0.3, lambda_W=0.7,
    )  # fmt: skip
    inputs = [[1, 0.5, -0.3], [0.2, 1, 0.8]]
    task = sw.Task(inputs, [[1.2, -0.4], [-0.3, 0.9]])
    found = hidden_update(net, task)
    np.testing.assert_allclose(found.mean, [-0.567494, -0.608357], atol=2e-6)
    second = [[1.045860, 0.951818], [0.951818, 1.087129]]
    np.testing.assert_allclose(found.second_moment, second, atol=2e-6)
    # Depth 2, drawn: a neuron's update is what its error factors say.
    wide = sw.MLP(2, 100, "gelu", input_dim=3, output_dim=2, C_b=0.1, C_W=1.4, lambda_b=0.5)
    theory = hidden_update(wide, sw.Task(X, Y, test_inputs=X[:1] + 0.3))
    x = np.concatenate([X, X[:1] + 0.3])
    first = sw.predict(wide, x, observables=["ntk"], layers=1).ntk.values[0][:, :4]
    rng, sums = np.random.default_rng(2), []
    for _ in range(400):
        W1 = rng.standard_normal((100, 3)) * np.sqrt(1.4 / 3)
        W2 = rng.standard_normal((2, 100)) * np.sqrt(1.4 / 100)
        z = X @ W1.T + np.sqrt(0.1) * rng.standard_normal(100)
        cut = norm.cdf(z)
        out = (z * cut) @ W2.T + np.sqrt(0.1) * rng.standard_normal(2)
        dz = -first @ (((out - Y) @ W2) * (cut + z * norm.pdf(z)))
        sums.append(np.column_stack([100 * dz.mean(axis=1), dz @ dz.T]))
    mean, error = np.mean(sums, axis=0), np.std(sums, axis=0) / 20
    assert (np.abs(mean[:, 0] - theory.mean) / error[:, 0]).max() < 4.5
    bias = 3 / 100 * np.abs(theory.second_moment).max()
    off = np.abs(mean[:, 1:] - theory.second_moment) - bias
    assert (off / error[:, 1:]).max() < 4.5


@pytest.mark.covers("B74")
def test_star_polation_is_the_corrected_one() -> None:
    net = sw.MLP(
        5, 50, "tanh", input_dim=3, output_dim=1, C_b=0.0, C_W=1.0,
        lambda_b=tuple(1 / layer for layer in range(1, 6)), lambda_W=1.0,
    )  # fmt: skip
    x0, way = np.array([1.0, 0.4, -0.7]), np.array([0.4, -1.0, 0.0])
    way /= np.linalg.norm(way)
    s = np.array([0.3, 1.7])
    left = []
    for size in (0.05, 0.025):
        dx = size * way
        flow = nearby_inputs_flow(net, x0[None], dx[None])
        plus, minus = np.array([0.85 + 0.45 * size]), np.array([0.85 - 0.45 * size])
        line = (s[:, None] * plus + (1 - s[:, None]) * minus)[:, 0]
        bent = star_polation(flow, s, plus, minus)[:, 0] - line
        np.testing.assert_allclose(bent / size**2, [0.036121, -0.204688], atol=2e-6)
        pair = np.stack([x0 + dx / 2, x0 - dx / 2])
        task = sw.Task(pair, [plus[0], minus[0]], test_inputs=x0 + (2 * s[:, None] - 1) / 2 * dx)
        exact = sw.predict_training(net, task).output_mean.values[0] - line
        left.append(np.abs(exact - bent) / size**2)
    # The remainder of third order; the printed form, four times as large, leaves what does not fall.
    assert (left[1] < 0.7 * left[0]).all()
    assert (left[1] < 0.1 * np.abs(bent) / size**2 + 0.01).all()
    far = nearby_inputs_flow(net, x0[None], 0.1 * x0[None])
    assert (
        unlike([(lambda: star_polation(far, s, plus, minus), "one pair of inputs of equal norm")])
        == []
    )


@pytest.mark.covers("B26", "B75")
def test_rates_of_bayes_and_the_decay_of_a_prior() -> None:
    net = bayes_rates(NET)
    found = sw.predict(net, X, observables=["kernel", "ntk"], layers=3)
    np.testing.assert_allclose(found.ntk.values, found.kernel.values, rtol=1e-12)
    (a_b, a_W), p = decay_of_prior(NET), weights()
    energy, log_p = 0.0, 0.0
    for layer, (W, b) in enumerate(zip(p.weights, p.biases, strict=True)):
        energy += a_W[layer] * (W**2).sum() + a_b[layer] * (b**2).sum()
        for values, C in ((W, 1.4 / W.shape[1]), (b, 0.1)):
            at_zero = norm.logpdf(0.0, scale=np.sqrt(C)) * values.size
            log_p += norm.logpdf(values, scale=np.sqrt(C)).sum() - at_zero
    assert energy == pytest.approx(-log_p, rel=1e-12)


def test_pieces_that_do_not_fit_are_refused() -> None:
    one = sw.MLP(1, (), "linear", input_dim=3, output_dim=2)
    twice = np.concatenate([X, X[:1]])
    flat = np.ones((2, 2))
    cases = [
        (lambda: fit_features(X, Y[:2]), "a row for each of 4 samples; got 2"),
        (lambda: kernel_machine(flat, flat, [[1.0], [0.0]]), "samples 0 and 1 .* `ridge`"),
        (lambda: hidden_update(one, sw.Task(X, Y)), "a hidden layer; got depth 1"),
        (lambda: giant_leap(NET, weights(), twice, np.concatenate([Y, Y[:1]])), "singular"),
    ]
    assert unlike(cases) == []
