"""Golden, property and agreement tests of covariances with the layers above.

The recursions of V and D, of which these covariances are cases, closed forms of linear networks, and
ensembles of networks with three hidden layers.
"""

import math

import numpy as np
import pytest

import scalewise as sw
from grids import thorough
from scalewise.theory.correlators import interlayer_covariance

NAMES = ["kernel", "ntk", "four_point_vertex", "ntk_D"]
X = np.array([[1.1, -0.4, 0.3], [0.2, 0.9, -0.8]])


def network(depth: int, width, name: str = "gelu") -> sw.Network:
    own = {
        "lambda_b": (0.4, 0.3, 0.5, 0.2, 0.6)[:depth],
        "lambda_W": (0.9, 1.2, 0.7, 0.8, 1.1)[:depth],
        "C_b": (0.2, 0.1, 0.3, 0.2, 0.1)[:depth],
        "C_W": (1.4, 1.6, 1.2, 1.5, 1.3)[:depth],
    }
    return sw.MLP(depth, width, name, input_dim=3, output_dim=1, **own)


@pytest.mark.covers("B12")
@pytest.mark.parametrize("activation", ["gelu", "relu", *thorough("tanh")])
def test_pairs_of_activations_give_the_recursions(activation) -> None:
    """The mean of sigma sigma is the metric above: its covariances are V and D over C_W n."""
    net = network(4, (20, 50, 35), activation)
    theory = sw.predict(net, X, observables=NAMES)
    sigma = net.activation

    def metric(z):
        s = sigma(z[0])
        return np.einsum("am,bm->abm", s, s)

    for layer in (1, 2, 3):
        found = interlayer_covariance(metric, net, theory, layer, smooth=sigma.is_smooth)
        scale = 1 / (net.C_W[layer] * net.widths[layer])
        for part, name in (("metric", "four_point_vertex"), ("ntk", "ntk_D")):
            value, error = (theory[x].values[layer] * scale for x in (name, f"{name}_error"))
            off = np.abs(getattr(found, part)[0] - value)
            allowed = 5 * np.hypot(getattr(found, f"{part}_error")[0], error)
            assert np.all(off <= allowed + 1e-7 * np.max(value))
            assert np.max(allowed) < 0.02 * np.max(value)
        assert list(found.layer.values) == list(range(layer + 1, 5))
        assert found.metric.shape == (4 - layer, 2, 2, 2, 2)


@pytest.mark.covers("B12")
def test_one_input_two_layers_up() -> None:
    """(6.107), and not its footnote: chi_parallel V / (n C_W), and so on through every layer."""
    net = network(5, 40, "tanh")
    theory = sw.predict(net, X[:1], observables=NAMES)
    sigma = net.activation
    found = interlayer_covariance(lambda z: sigma(z[0, 0]) ** 2, net, theory, 2)
    x, w = np.polynomial.hermite_e.hermegauss(120)
    expected = theory.four_point_vertex.values.ravel()[2] / (40 * net.C_W[2])
    assert found.metric.values.ravel()[0] == pytest.approx(expected, rel=1e-8)
    for k, layer in enumerate((3, 4), start=1):
        K = theory.kernel.values.ravel()[layer - 1]
        z = np.sqrt(K) * x
        slope = w @ (sigma(z) * sigma.derivative(z) * z) / w.sum() / K
        expected *= net.C_W[layer] * slope  # chi_parallel
        assert found.metric.values.ravel()[k] == pytest.approx(expected, rel=1e-8)


@pytest.mark.covers("B12")
def test_linear_network_exactly() -> None:
    """One input, O = z^2: every metric is the one below times a mean of squares of mean 1.

    E[z^2 G^(l+1)] - E[z^2] E[G^(l+1)] = K^2 ((1 + 2/n_1)(1 + 2/n_2) - 1), z in layer 2 of 3 and beyond.
    """
    off = []
    for n in (50, 200):
        net = sw.MLP(4, n, "linear", input_dim=1, output_dim=1)
        theory = sw.predict(net, np.ones((1, 1)), observables=NAMES)
        found = interlayer_covariance(lambda z: z[0, 0] ** 2, net, theory, 2)
        exact = (1 + 2 / n) ** 2 - 1
        assert found.metric.values.ravel() == pytest.approx([4 / n, 4 / n], rel=1e-10)
        off.append(exact / found.metric.values.ravel() - 1)
    assert off[0] / off[1] == pytest.approx([4.0, 4.0], rel=1e-6)


def test_several_neurons_one_by_one() -> None:
    """Neurons are independent at leading order: a product's covariance follows the product rule."""
    net = network(4, 30)
    theory = sw.predict(net, X, observables=NAMES)
    K = theory.kernel.values[1]

    def f(z):
        return np.cos(z[0] - 0.4 * z[1])

    def g(z):
        return z[1] ** 2

    one, other = (interlayer_covariance(lambda z, h=h: h(z[0]), net, theory, 2) for h in (f, g))
    both = interlayer_covariance(lambda z: f(z[0]) * g(z[1]), net, theory, 2, neurons=2)
    mean_f = math.exp(-0.5 * np.array([1, -0.4]) @ K @ np.array([1, -0.4]))
    for part in ("metric", "ntk"):
        product = getattr(one, part) * K[1, 1] + mean_f * getattr(other, part)
        np.testing.assert_allclose(getattr(both, part), product, rtol=1e-6, atol=1e-12)
        assert np.max(getattr(both, f"{part}_error")) < 1e-6
    unseen = interlayer_covariance(lambda z: f(z[0]), net, theory, 2, neurons=2)
    np.testing.assert_allclose(unseen.ntk, one.ntk, rtol=1e-6, atol=1e-12)


def ensemble(net, size: int, rng) -> dict[str, np.ndarray]:
    """z of layer 2, and metrics and mean diagonal NTKs of layers 3 and 4, network by network."""
    n, sigma, x = net.widths, net.activation, X

    def weights(layer):
        W = rng.normal(size=(size, n[layer], n[layer - 1])) * math.sqrt(
            net.C_W[layer - 1] / n[layer - 1]
        )
        return W, rng.normal(size=(size, n[layer], 1)) * math.sqrt(net.C_b[layer - 1])

    K = net.C_b[0] + net.C_W[0] / n[0] * x @ x.T
    H = net.lambda_b[0] + net.lambda_W[0] / n[0] * x @ x.T
    z = rng.normal(size=(size, n[1], 2)) @ np.linalg.cholesky(K).T
    H = np.broadcast_to(H * np.eye(n[1])[:, :, None, None], (size, n[1], n[1], 2, 2))
    out = {}
    for layer in (2, 3, 4):
        s, s1 = sigma(z), sigma.derivative(z)
        pairs = np.einsum("nka,nkb->nab", s, s) / n[layer - 1]
        # Averaged over the weights of the layer.
        diagonal = np.einsum("nkkab->nkab", H)
        slopes = np.einsum("nka,nkb,nkab->nab", s1, s1, diagonal) / n[layer - 1]
        own = net.lambda_b[layer - 1] + net.lambda_W[layer - 1] * pairs
        out[f"G{layer}"] = net.C_b[layer - 1] + net.C_W[layer - 1] * pairs
        out[f"H{layer}"] = own + net.C_W[layer - 1] * slopes
        if layer == 4:
            return out
        W, b = weights(layer)
        legs = [W * s1[:, None, :, a] for a in (0, 1)]
        following = np.zeros((size, n[layer], n[layer], 2, 2))
        for a in (0, 1):
            for c in (0, 1):
                right = legs[c].swapaxes(1, 2)
                inner = H[..., a, c]
                following[..., a, c] = legs[a] @ (inner @ right)
        z, H = W @ s + b, following + own[:, None, None] * np.eye(n[layer])[:, :, None, None]
        out[f"z{layer}"] = z
    return out


def observables(z) -> np.ndarray:
    """Of one neuron; its samples are the first axis."""
    return np.stack([np.cos(z[0] - 0.7 * z[1]), np.tanh(z[0] + 0.3) * z[1], np.abs(z[1])])


@pytest.mark.covers("B12")
@pytest.mark.parametrize("name", ["gelu", *thorough("relu")])
def test_ensembles_with_three_hidden_layers(name) -> None:
    """Means over the neurons of layer 2 against layers 3 and 4, widths 8 and 24 extrapolated."""
    found = []
    for width, size in ((8, 30_000), (24, 12_000)):
        net = network(4, width, name)
        rng, parts = np.random.default_rng(width), []
        for _ in range(size // 2000):
            batch = ensemble(net, 2000, rng)
            O = observables(batch["z2"].transpose(2, 0, 1)).mean(axis=2)  # noqa: E741
            parts.append((O.T, *(batch[key] for key in ("G3", "G4", "H3", "H4"))))
        values, *above = (np.concatenate(p) for p in zip(*parts, strict=True))
        values = width * (values - values.mean(axis=0))
        products = np.stack(
            [np.einsum("no,nab->noab", values, a - a.mean(axis=0)) for a in above], axis=1
        )
        found.append((products.mean(axis=0), products.std(axis=0) / math.sqrt(size)))
    theory = sw.predict(net, X, observables=NAMES)
    result = interlayer_covariance(lambda z: observables(z[0]), net, theory, 2, smooth=False)
    expected = 24 * np.concatenate([result.metric, result.ntk])
    (narrow, noise_narrow), (wide, noise_wide) = found
    limit, noise = 1.5 * wide - 0.5 * narrow, np.hypot(1.5 * noise_wide, 0.5 * noise_narrow)
    size = np.max(np.abs(expected), axis=(2, 3), keepdims=True)
    np.testing.assert_array_less(np.abs(limit - expected), 4.5 * noise + 0.05 * size)
    assert np.all(np.max(np.abs(expected / noise), axis=(2, 3)) > 10)


def test_refusals() -> None:
    net = network(3, 10)
    theory = sw.predict(net, X, observables=NAMES)

    def first(z):
        return z[0, 0]

    with pytest.raises(ValueError, match="`theory` lacks ntk_D; predict the network"):
        interlayer_covariance(first, net, theory.drop_vars("ntk_D"), 1)
    with pytest.raises(ValueError, match="`theory` must have all 3 layers of the network; got 2"):
        interlayer_covariance(first, net, theory.isel(layer=slice(1, 3)), 1)
    for layer in (0, 3):
        with pytest.raises(ValueError, match=f"from 1 to 2; got {layer}"):
            interlayer_covariance(first, net, theory, layer)
    with pytest.raises(ValueError, match="`observable` must return finite values"):
        interlayer_covariance(lambda z: z[0, 0] * np.nan, net, theory, 1)
