"""Golden and agreement tests of the kernel regime: quadrature, the kernels of the theory, and real networks."""

import numpy as np
import pytest

import scalewise as sw
from limit_nets import bare_sgd
from refusals import unlike
from scalewise.limits import (
    SGD,
    Architecture,
    Finite,
    Kernel,
    initial_kernel,
    layer_kernels,
    limit_kernel,
    motion_kernel,
    train,
)
from scalewise.limits.learning import conditioned_readout
from scalewise.scaling import abc, classify, mup, ntk, standard, uniform
from scalewise.tasks import Loss, Task
from scalewise.theory.note import _influence as influence

PAIR = np.array([[1.0, 0.5], [-0.3, 0.8]])
X = np.array([[0.9, -0.4], [0.3, 1.0], [-0.8, 0.5], [0.5, 0.7]])
TASK = Task(X[:3], [1.0, -1.0, 0.5], test_inputs=X[3:])
SLOWED = abc((0, 0, 0), (0, "1/2", "1/2"), 1)
FROZEN = abc((1, "3/2", "1/2"), (-1, -1, 0), 0)
BODY = abc((0, "1/2", "3/2"), (0, 0, -1), 0)
FIRST = abc((0, "3/4", "1/2"), (0, "-1/4", 0), 0)


def strategy_of(name, layers=3):
    """At L = 3 hidden layers, as the printed values."""
    half = ("1/2",) * (layers - 1)
    return {
        "ntk": ntk(depth=layers + 1),
        "slowed": abc((0,) * (layers + 1), (0, *half, "1/2"), 1),
        "gp": abc((1, *("3/2",) * (layers - 1), "1/2"), (-1, *(-1,) * (layers - 1), 0), 0),
        "body": abc((0, *half, "3/2"), (0,) * layers + (-1,), 0),
    }[name]


@pytest.mark.covers("E11")
def test_kernels_between_layers():
    kernels = layer_kernels(Architecture(ntk(depth=4), "tanh"), PAIR)
    own = [0.23555386, 0.19270481, 0.18018048, 0.17427644]
    other = [0.01540995, 0.01539055, 0.01538317, 0.01537934]
    for m in range(4):
        np.testing.assert_allclose(kernels.sigma(m)[0], [own[m], other[m]], atol=6e-9)
    np.testing.assert_array_equal(kernels.sigma(2, 2), kernels.features[2])
    np.testing.assert_allclose(
        kernels.sigma(1, 3), kernels.features[1] * kernels.slopes[1] * kernels.slopes[2]
    )
    with pytest.raises(ValueError, match="0 <= m <= l <= 3; got m = 2, l = 1"):
        kernels.sigma(2, 1)


@pytest.mark.covers("E11")
@pytest.mark.parametrize(
    ("name", "own", "other"),
    [
        ("ntk", 0.7827156, 0.06156301),
        ("slowed", 0.54716174, 0.04615306),
        ("gp", 0.17427644, 0.01537934),
        ("body", 0.60843916, 0.04618367),
    ],
)
def test_the_exponents_choose_the_layers(name, own, other):
    found = limit_kernel(Architecture(strategy_of(name), "tanh"), PAIR)
    np.testing.assert_allclose(found[0], [own, other], atol=2e-8)
    np.testing.assert_allclose(found, found.T)
    moved = Architecture(strategy_of(name).gauge("1/3"), "tanh")
    np.testing.assert_array_equal(limit_kernel(moved, PAIR), found)


@pytest.mark.covers("E11")
def test_one_layer_alone_and_none():
    kernels = layer_kernels(Architecture(ntk(depth=3), "tanh"), PAIR)
    first = limit_kernel(Architecture(FIRST, "tanh"), PAIR)
    np.testing.assert_allclose(first, kernels.sigma(0) + kernels.sigma(2))
    trivial = Architecture(abc((1, "3/2", "3/2"), (-1, -1, -1), 0), "tanh")
    assert np.all(limit_kernel(trivial, PAIR) == 0)
    assert (
        np.ptp(train(trivial, TASK, SGD(0.5), steps=2, on=Kernel()).logits.values, axis=1).max()
        == 0
    )


@pytest.mark.covers("E11")
@pytest.mark.parametrize("phi", ["tanh", "relu", "gelu"])
def test_variances_rates_and_biases_as_in_the_theory(phi):
    """The theory's infinite-width NTK, whose first layer is divided by the number of inputs."""
    options = {"C_b": (0.1, 0.2, 0.3), "lambda_b": (0.7, 0.3, 1.9)}
    net = Architecture(ntk(depth=3), phi, C_W=(1.1, 1.4, 0.6), lambda_W=(0.5, 2.0, 1.5), **options)
    other = sw.MLP(
        3, 100, phi, input_dim=2, output_dim=1,
        C_W=(2.2, 1.4, 0.6), lambda_W=(1.0, 2.0, 1.5), **options,
    )  # fmt: skip
    found = sw.predict(other, X, observables=["kernel", "ntk"])
    np.testing.assert_allclose(initial_kernel(net, X), found.kernel.values[-1], rtol=1e-9)
    np.testing.assert_allclose(limit_kernel(net, X), found.ntk.values[-1], rtol=1e-9)


def test_biases_that_share_the_rate_of_weights_stand_still():
    plain = standard(depth=3).to_abc()
    slowed = type(plain)(plain.a, plain.b, 1, plain_biases=True).to_strategy()
    net = Architecture(slowed, "tanh", lambda_b=1.0)
    np.testing.assert_array_equal(
        limit_kernel(net, X), limit_kernel(Architecture(slowed, "tanh"), X)
    )


RATES = {
    "ntk": ntk(depth=3),
    "slowed": SLOWED,
    "gp": FROZEN,
    "body": BODY,
    "first": FIRST,
    "uniform": uniform("1/4", depth=3),
}


@pytest.mark.covers("E11")
@pytest.mark.parametrize("name", RATES)
def test_real_networks_approach_the_kernel_as_the_root_of_the_width(name):
    """From the outputs each network starts with; what is left falls as n^(-1/2), for 1/4 as n^(-1/4) or faster."""
    net, sgd, widths, gaps = Architecture(RATES[name], "tanh"), SGD(0.6), (32, 512), []
    for n in widths:
        # Networks differ from one another by as much as from the kernel, most of all narrow ones.
        found = train(net, TASK, sgd, steps=5, on=Finite(n, replicas=max(24, 4096 // n)))
        f = found.logits.values
        limit = train(net, TASK, sgd, steps=5, on=Kernel(f[:, 0])).logits.values
        gaps.append(np.sqrt(((f - limit)[:, 1:] ** 2).mean()))
    moved = np.sqrt(((limit[:, 1:] - limit[:, :1]) ** 2).mean())
    assert gaps[-1] < 0.15 * moved
    slope = np.polyfit(np.log(widths), np.log(gaps), 1)[0]
    low, high = (-0.7, -0.35)
    assert low < slope < (high if name != "uniform" else -0.2), (slope, gaps)


def test_biases_of_real_networks():
    net, sgd = Architecture(ntk(depth=3), "tanh", C_b=0.2, lambda_b=(0.5, 1.0, 0.8)), SGD(0.3)
    gaps = []
    for n in (64, 512):
        f = train(net, TASK, sgd, steps=4, on=Finite(n, replicas=8)).logits.values
        limit = train(net, TASK, sgd, steps=4, on=Kernel(f[:, 0])).logits.values
        gaps.append(np.sqrt(((f - limit) ** 2).mean()))
    assert gaps[1] < 0.5 * gaps[0] < 0.1


@pytest.mark.covers("E11")
def test_initial_outputs_are_jointly_gaussian():
    net, draws = Architecture(ntk(depth=3), "relu", C_b=0.1), 4000
    task = Task(X[:3], np.eye(3)[:, :2], test_inputs=X[3:])
    f = train(net, task, SGD(0.1), steps=0, on=Kernel(replicas=draws)).logits.values[:, 0]
    K = initial_kernel(net, X)
    for one in range(2):
        for other in range(2):
            found = f[:, :, one].T @ f[:, :, other] / draws
            expected = K if one == other else 0 * K
            assert np.abs(found - expected).max() < 4.5 * K.max() * (2 / draws) ** 0.5
    again = train(net, task, SGD(0.1), steps=0, on=Kernel(replicas=2)).logits.values[:, 0]
    np.testing.assert_array_equal(again, f[:2])
    assert np.all(initial_kernel(Architecture(mup(depth=3), "relu"), X) == 0)


@pytest.mark.covers("E11")
def test_descent_is_that_of_the_features_of_the_kernel():
    """Linear regression on a square root of the kernel: momentum, clipping, single samples, any loss."""
    net, sgd = Architecture(ntk(depth=2), "tanh"), SGD(0.7, momentum=0.6, clip=0.4)
    loss = Loss(
        lambda f, y: np.abs(f - y)[..., 0] ** 3, lambda f, y: 3 * (f - y) * abs(f - y), "cubic"
    )
    task = Task(TASK.inputs, TASK.targets, test_inputs=X[3:], loss=loss, batches=[[2], [0], [1]])
    start = np.array([[0.3], [0.1], [-0.4], [0.2]])
    values, vectors = np.linalg.eigh(limit_kernel(net, X))
    features = vectors * np.sqrt(values)
    w, v, expected = np.zeros((4, 1)), np.zeros((4, 1)), []
    for t in range(7):
        f = start + features @ w
        expected.append(f)
        row = [(2, 0, 1)[t % 3]]
        g = features[row].T @ loss.gradient(f[row], task.targets[row])
        v = 0.6 * v - 0.7 * g * min(1.0, 0.4 / np.linalg.norm(g))
        w = w + v
    found = train(net, task, sgd, steps=6, on=Kernel(start))
    np.testing.assert_allclose(found.logits.values[0], expected, atol=1e-10)
    thinned = train(net, task, sgd, steps=6, on=Kernel(start), every=4)
    assert thinned.time.values.tolist() == [0, 4, 6]
    np.testing.assert_array_equal(thinned.logits.values, found.logits.values[:, [0, 4, 6]])
    some = train(net, task, sgd, steps=6, on=Kernel(start), every=[5, 1])
    assert some.time.values.tolist() == [1, 5]
    np.testing.assert_array_equal(some.logits.values, found.logits.values[:, [1, 5]])
    value = (np.abs(expected[-1][:3] - task.targets) ** 3).mean()
    assert found.loss.values[0, -1] == pytest.approx(value)


def test_a_batch_is_a_mean():
    net = Architecture(ntk(depth=2), "tanh")
    found = train(net, TASK, SGD(0.5), steps=1, on=Kernel(np.zeros((4, 1)))).logits.values[0, 1]
    expected = 0.5 / 3 * limit_kernel(net, X)[:, :3] @ TASK.targets
    np.testing.assert_allclose(found, expected)


def one_step(exponents, n, seed):
    """Features of the network by hand: motion of each layer in a step on the first input, and its gradient."""
    rng, depth = np.random.default_rng(seed), exponents.depth
    sizes = [2, *[n] * (depth - 1), 1]
    W = [
        rng.normal(size=(a, b)) * float(n) ** -float(p + q)
        for a, b, p, q in zip(sizes[1:], sizes[:-1], exponents.a, exponents.b, strict=True)
    ]

    def preactivations(W):
        h = [W[0] @ X.T]
        for w in W[1:-1]:
            h.append(w @ np.tanh(h[-1]))
        return h

    before, after = preactivations(W), list(W)
    dx, gradients = W[-1][0], []
    for layer in reversed(range(depth - 1)):
        dh = dx * (1 - np.tanh(before[layer][:, 0]) ** 2)
        gradients.insert(0, dh)
        below = X[0] if layer == 0 else np.tanh(before[layer - 1][:, 0])
        rate = float(n) ** -float(exponents.c + 2 * exponents.a[layer])
        after[layer] = W[layer] - 0.3 * rate * np.outer(dh, below)
        dx = W[layer].T @ dh
    moved = [b - a for a, b in zip(before, preactivations(after), strict=True)]
    return moved, gradients


@pytest.mark.covers("E11")
@pytest.mark.parametrize("name", ["ntk", "slowed", "body", "first", "uniform"])
def test_motion_of_hidden_layers_along_their_gradient(name):
    """N.29, layer by layer: the projection on the gradient approaches the kernel, and the rest is orthogonal."""
    exponents, gaps = RATES[name].to_abc(), []
    net, A = Architecture(RATES[name], "tanh"), float(classify(RATES[name]).A)
    limits = [motion_kernel(net, X, layer)[0] for layer in (1, 2)]
    r = np.minimum.accumulate([float(x) for x in classify(RATES[name]).r_l])
    for n in (64, 512):
        found = []
        for seed in range(16):
            moved, gradients = one_step(exponents, n, seed)
            found.append(
                [
                    dh @ h / (dh @ dh) * float(n) ** (power - A) / -0.3
                    for h, dh, power in zip(moved, gradients, r, strict=True)
                ]
            )
        gaps.append(np.sqrt(np.mean((np.array(found) - limits) ** 2, axis=(0, 2))))
    # Layer 1 has nothing below it that moves: exact at any width.
    assert gaps[1][0] < 1e-10
    assert gaps[1][1] < 0.6 * gaps[0][1] < 0.25
    assert gaps[1][1] < 0.1 * np.abs(limits[1]).max()


@pytest.mark.covers("E11")
def test_motion_kernels_by_layers():
    """Which weights have a part in which layer; biases and rates with them."""
    kernels = layer_kernels(Architecture(ntk(depth=4), "tanh"), PAIR)
    whole, slowed = (Architecture(strategy_of(name), "tanh") for name in ("ntk", "slowed"))
    np.testing.assert_allclose(
        motion_kernel(whole, PAIR, 3), sum(kernels.sigma(m, 2) for m in range(3))
    )
    np.testing.assert_allclose(
        motion_kernel(slowed, PAIR, 3), kernels.sigma(1, 2) + kernels.sigma(2, 2)
    )
    np.testing.assert_allclose(motion_kernel(slowed, PAIR, 1), PAIR @ PAIR.T)
    np.testing.assert_allclose(motion_kernel(whole, PAIR, 3, decoupled=True), kernels.features[2])
    biased = Architecture(ntk(depth=3), "tanh", lambda_W=(0.5, 2.0, 1.0), lambda_b=(0.3, 0.7, 1.0))
    own = layer_kernels(biased, PAIR)
    expected = (0.5 * own.features[0] + 0.3) * own.slopes[0] + 2.0 * own.features[1] + 0.7
    np.testing.assert_allclose(motion_kernel(biased, PAIR, 2), expected)


@pytest.mark.covers("E11")
def test_last_weights_for_given_outputs():
    """N.4.1: exact, of the right law, and training then follows the kernel from there."""
    rng = np.random.default_rng(0)
    x, g = rng.normal(size=(3, 40)), rng.normal(size=(3, 2))
    W = conditioned_readout(rng.normal(size=(2, 40)), x, g)
    np.testing.assert_allclose(x @ W.T / 40**0.5, g, atol=1e-13)
    again = conditioned_readout(W, x, x @ W.T / 40**0.5)
    np.testing.assert_allclose(again, W, atol=1e-13)
    # Beside the span of the features nothing is moved.
    other = rng.normal(size=(2, 40))
    moved = conditioned_readout(other, x, g) - other
    span = np.linalg.qr(x.T)[0]
    np.testing.assert_allclose(moved - moved @ span @ span.T, 0, atol=1e-13)
    # With outputs of the right law the weights are independent Gaussians: here of width 4.
    x, root = x[:2, :4], np.linalg.cholesky(x[:2, :4] @ x[:2, :4].T / 4)
    drawn = np.array(
        [
            conditioned_readout(rng.normal(size=(1, 4)), x, root @ rng.normal(size=(2, 1)))[0]
            for _ in range(2000)
        ]
    )
    assert np.abs(np.cov(drawn.T) - np.eye(4)).max() < 4.5 * (2 / 2000) ** 0.5


@pytest.mark.covers("E11")
def test_networks_of_given_outputs_follow_the_kernel():
    net, abc_, gaps = Architecture(ntk(depth=3), "tanh"), ntk(depth=3).to_abc(), []
    draw = np.random.default_rng(1).normal(size=(4, 1))
    start = np.linalg.cholesky(initial_kernel(net, X)) @ draw
    limit = train(net, TASK, SGD(0.6), steps=4, on=Kernel(start)).logits.values[0, :, :, 0]
    for n in (32, 128, 512):
        runs = []
        for seed in range(10):
            rng = np.random.default_rng((n, seed))
            W = [rng.normal(size=(n, 2)), rng.normal(size=(n, n)) / n**0.5]
            x = np.tanh(np.tanh(X @ W[0].T) @ W[1].T)
            last = conditioned_readout(rng.normal(size=(1, n)), x, start) / n**0.5
            batches = [np.arange(3)] * 4
            y = TASK.targets[:, 0]
            runs.append(bare_sgd([*W, last], abc_, "tanh", X[:3], y, X, eta=0.6, batches=batches))
        np.testing.assert_allclose(np.array(runs)[:, 0], start.T.repeat(10, 0), atol=1e-12)
        gaps.append(np.sqrt(np.mean((np.array(runs)[:, 1:] - limit[1:]) ** 2)))
    assert -0.75 < np.polyfit(np.log([32, 128, 512]), np.log(gaps), 1)[0] < -0.35, gaps


@pytest.mark.covers("E27")
def test_one_kernel_by_four_conventions():
    """This source, the note on the NTK, the count of hidden layers, and PDLT: the same numbers, shifted."""
    C_W, C_b, L = 1.4, 0.3, 3
    options = {"C_W": C_W, "C_b": C_b, "lambda_W": C_W, "lambda_b": C_b}
    net = Architecture(ntk(depth=L), "tanh", **options)
    Z = X / 2**0.5  # the other texts divide the first layer by the number of inputs, here 2
    own, theta = layer_kernels(net, Z), limit_kernel(net, Z)
    other = sw.MLP(L, 64, "tanh", input_dim=2, output_dim=1, **options)
    pdlt = sw.predict(other, X, observables=["kernel", "ntk"])
    note = influence.note_kernels(other, X)
    for layer in range(1, L):
        # Preactivations of layer l + 1 here and in PDLT; the note's recursion counts them l.
        K = C_W * own.features[layer] + C_b
        np.testing.assert_allclose(pdlt.kernel.values[layer], K, rtol=1e-9)
        np.testing.assert_allclose(note.Sigma[layer], K, rtol=1e-9)
        np.testing.assert_allclose(note.dot(layer), own.slopes[layer - 1], rtol=1e-9)
    np.testing.assert_allclose(pdlt.ntk.values[-1], theta, rtol=1e-9)
    np.testing.assert_allclose(influence.ntk_in_ntk_parametrisation(other, X), theta, rtol=1e-9)


NTK = Architecture(ntk(depth=2), "tanh")
BAD = [
    (lambda: motion_kernel(NTK, X, 2), "hidden layer from 1 to 1; got 2"),
    (lambda: motion_kernel(Architecture(mup(depth=3), "tanh"), X, 1), "is not in the kernel regime"),
    (lambda: conditioned_readout(np.ones((1, 5)), np.ones((2, 4)), np.ones((2, 1))),
     r"need `readout` of shape \(outputs, 4\).*got \(1, 5\) and \(2, 1\)"),
    (lambda: conditioned_readout(np.ones((1, 4)), np.ones((2, 4)), np.ones((2, 2))),
     r"`outputs` of shape \(2, outputs\)"),
    (lambda: conditioned_readout(np.full((1, 4), np.nan), np.ones((2, 4)), np.ones((2, 1))),
     "`readout` must hold finite"),
    (lambda: conditioned_readout(np.ones((1, 4)), np.ones((2, 4)), np.array([[1.0], [2.0]])),
     "No last weights give these outputs: features are linearly dependent"),
    (lambda: limit_kernel(Architecture(mup(depth=3), "tanh"), X),
     r"is not in the kernel regime: Features move at order one .* use `scalewise.limits.train`"),
    (lambda: layer_kernels(NTK, X[0]), r"shape \(sample, feature\); got shape \(2,\)"),
    (lambda: layer_kernels(NTK, [[np.nan]]), "`inputs` must hold finite numbers only"),
    (lambda: layer_kernels(NTK, [[1.0], [0.0]]), "Input 1 is a vector of zeros"),
    (lambda: layer_kernels(Architecture(ntk(depth=2), "perceptron"), X), "jumps, so gradients"),
    (lambda: train(NTK, TASK, SGD(0.1, weight_decay=0.1), steps=1, on=Kernel()), "Weight decay shrinks"),
    (lambda: train(NTK, TASK, SGD(0.1), steps=-1, on=Kernel()), "`steps` must be a whole number"),
    (lambda: Kernel(replicas=0), "`Kernel.replicas` must be a whole number of at least 1"),
    (lambda: train(NTK, TASK, SGD(0.1), steps=1, on=Kernel([[0.0]])),
     r"`start` must have shape \(4, 1\).*got \(1, 1\)"),
    (lambda: train(NTK, TASK, SGD(0.1), steps=1, on=Kernel(np.full((4, 1), np.inf))),
     "`Kernel.start` must hold finite"),
    (lambda: train(NTK, TASK, SGD(1e200), steps=9, on=Kernel()), r"not finite at step \d: training diverged"),
]  # fmt: skip


def test_bad_input() -> None:
    assert unlike(BAD) == []
