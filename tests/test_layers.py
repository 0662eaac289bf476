"""Golden and refusals: layers that choose, make or drop positions, against formulas."""

from pathlib import Path

import jax
import numpy as np
import pytest

import scalewise as sw
from scalewise.gaussian import pair_moments
from scalewise.networks._nodes import HYPERPARAMETERS
from scalewise.networks.layers import Builder, Excite, Field

RNG = np.random.default_rng(6)
TAIL = (sw.GlobalAvgPool(), sw.Dense(1))


def kernel(*layers, x: np.ndarray, **rest) -> np.ndarray:
    net = sw.Network(*layers, input_shape=x.shape[1:], width=8, **rest)
    return sw.predict(net, x, observables="kernel").kernel.values[-1]


@pytest.mark.parametrize("method", ["nearest", "linear"])
@pytest.mark.parametrize("sizes", [(6, 4), (4, 6), (5, 2), (3, 7), (8, 4), (4, 4)])
def test_images_are_resized_as_jax_does(method: str, sizes: tuple[int, int]) -> None:
    size, wanted = sizes
    x = RNG.normal(size=(2, size, 3, 2)).astype(np.float32)
    other = np.asarray(jax.image.resize(x, (2, wanted, 3, 2), method))
    plain = kernel(sw.Flatten(), sw.Dense(1), x=other.astype(float))
    found = kernel(sw.Resize((wanted, 3), method), sw.Flatten(), sw.Dense(1), x=x.astype(float))
    np.testing.assert_allclose(found, plain, rtol=1e-5)


@pytest.mark.parametrize("shape", [(9, 4), (4, 9), (2, 11)])
def test_images_that_grow_along_one_axis_and_shrink_along_another(shape: tuple[int, int]) -> None:
    x = RNG.normal(size=(2, 6, 6, 2))
    behind = (sw.Flatten(), sw.Dense(1))
    found = kernel(sw.Conv(3), sw.Resize(shape, "linear"), *behind, x=x)
    one, other = (sw.Resize((shape[0], 6), "linear"), sw.Resize(shape, "linear"))
    np.testing.assert_allclose(found, kernel(sw.Conv(3), one, other, *behind, x=x), rtol=1e-12)


def test_tokens_that_agree_share_all_and_others_nothing() -> None:
    x = np.array([[0, 2, 1], [0, 0, 3]], dtype=float)[..., None]
    same = x.ravel()[:, None] == x.ravel()
    mean = np.kron(np.eye(2), np.full((1, 3), 1 / 3))
    found = kernel(sw.Embedding(4, C_W=1.7), *TAIL, x=x)
    np.testing.assert_allclose(found, mean @ (1.7 * same) @ mean.T, rtol=1e-12)
    places = np.tile(np.exp(-(np.subtract.outer(range(3), range(3)) ** 2) / 8), (2, 2))
    found = kernel(sw.Embedding(4, C_W=1.7), sw.Positions(C_W=0.3, length=2), *TAIL, x=x)
    np.testing.assert_allclose(found, mean @ (1.7 * same + 0.3 * places) @ mean.T, rtol=1e-12)


def test_tokens_must_be_whole_numbers_in_their_range() -> None:
    net = sw.Network(sw.Embedding(3), *TAIL, input_shape=(2, 1), width=8)
    for wrong in (0.5, -1.0, 3.0):
        with pytest.raises(ValueError, match="whole numbers from 0 to 2"):
            sw.predict(net, np.array([[[0.0], [wrong]]]))


def test_a_graph_of_every_sample_is_that_graph() -> None:
    nodes = 4
    graphs = RNG.random(size=(2, nodes, nodes))
    features = RNG.normal(size=(2, nodes, 3))
    x = np.concatenate([features, graphs], axis=-1)
    both = ("relu", sw.Dense())
    found = sw.Network(
        sw.Features(3), sw.Aggregate(), sw.Dense(), sw.Aggregate(), *both, *TAIL,
        input_shape=x.shape[1:], width=8,
    )  # fmt: skip
    one = sw.predict(found, x)
    for k in range(2):
        fixed = sw.Aggregate(graphs[k])
        net = sw.Network(
            fixed, sw.Dense(), fixed, *both, *TAIL, input_shape=(nodes, 3), width=8
        )  # fmt: skip
        own = sw.predict(net, features)
        for name in ("kernel", "ntk"):
            np.testing.assert_allclose(
                one[name].values[-1][k, k], own[name].values[-1][k, k], rtol=1e-11
            )
    ensemble = sw.measure(found, x, networks=400, widths=[32, 64], progress=False)
    assert sw.compare(one, ensemble).passed


def test_a_function_of_the_verbs_is_the_layers_that_it_stands_for() -> None:
    def gated(build: Builder, x: Field) -> Field:
        values, gates = build.draw(x), build.draw(x)
        return build.multiply((values, build.apply(gates, sw.activation("swish"))))

    x = RNG.normal(size=(3, 2))
    layers = sw.Parallel([sw.Dense()], [sw.Dense(), "swish"], join="product")
    nets = [
        sw.Network(own, sw.Dense(1), input_shape=2, width=8) for own in (sw.program(gated), layers)
    ]
    for name in ("kernel", "ntk"):
        np.testing.assert_array_equal(*(sw.predict(net, x)[name] for net in nets))
    assert "gated" in repr(nets[0].layers[0])
    with pytest.raises(TypeError, match="must return a field"):
        sw.Network(sw.program(lambda build, x: None), sw.Dense(1), input_shape=2, width=8)


def test_a_norm_of_any_groups_is_one_at_infinite_width_and_not_before() -> None:
    x = RNG.normal(size=(2, 6, 2))
    found = [
        kernel(sw.Conv(3), norm, "relu", *TAIL, x=x)
        for norm in (sw.GroupNorm(1), sw.GroupNorm(4), sw.LayerNorm(positions=True))
    ]
    np.testing.assert_array_equal(found[0], found[1])
    np.testing.assert_array_equal(found[0], found[2])
    # The mean square over all positions of an image is 1 before the activation, and 1/2 behind it.
    whole = kernel(sw.Conv(3), sw.GroupNorm(2, eps=0), "relu", sw.Flatten(), sw.Dense(1), x=x)
    np.testing.assert_allclose(np.diagonal(whole), 0.5, rtol=1e-12)


REFUSED = {
    "reads the inputs. Put it before": (sw.Conv(3), sw.Features(1), *TAIL),
    "takes 3 features, and there are 2": (sw.Features(3), sw.Dense(), *TAIL),
    "reads tokens, one channel": (sw.Embedding(3), *TAIL),
    "stands behind random layers": (sw.Dropout(0.5), sw.Dense(), *TAIL),
    "do not divide into 3 groups. ": (sw.Conv(3), "relu", sw.Conv(3, groups=3), *TAIL),
    "do not divide into 8 groups of two": (sw.Conv(3), sw.GroupNorm(8), *TAIL),
    r"takes positions \[6\] along an axis of 6": (sw.Take(6), sw.Dense(), *TAIL),
    "along axis 1, and there are 1 axes": (sw.Take(0, axis=1), sw.Dense(), *TAIL),
    "embeds the positions of the inputs": (sw.Conv(3, stride=2), sw.Positions(), *TAIL),
    "reads the graph of each sample": (sw.Dense(), sw.Aggregate(), *TAIL),
    "adds the inputs": (sw.Positions(), *TAIL),
    "makes one channel of every 3 of random layers, and there are 8": (
        sw.Dense(),
        Excite(3),
        *TAIL,
    ),
    "there are only inputs": (Excite(2), *TAIL),
}


@pytest.mark.parametrize("sentence", REFUSED)
def test_layers_that_do_not_fit_are_named(sentence: str) -> None:
    with pytest.raises(ValueError, match=sentence):
        sw.Network(*REFUSED[sentence], input_shape=(6, 2), width=8)


def test_gates_of_channels_multiply_kernels_by_that_of_a_network_of_means() -> None:
    x, b, W = RNG.normal(size=(2, 3, 4)), 0.2, 1.4
    head = (sw.Dense(), "gelu", Excite(2, "tanh", "sigmoid"))
    found = kernel(*head, *TAIL, x=x, C_b=b, C_W=W)

    def behind(sigma: str, K: np.ndarray) -> np.ndarray:
        own = np.diagonal(K)
        moments = pair_moments(sw.activation(sigma), own[:, None], own[None], K, ((0, 0),))
        return moments[0, 0].value

    rows = x.reshape(6, 4)
    mean = np.kron(np.eye(2), np.full((1, 3), 1 / 3))
    fields = behind("gelu", b + W * rows @ rows.T / 4)
    means = b + W * mean @ fields @ mean.T
    gates = np.kron(behind("sigmoid", b + W * behind("tanh", means)), np.ones((3, 3)))
    np.testing.assert_allclose(found, b + W * mean @ (fields * gates) @ mean.T, rtol=1e-9)


def test_the_page_for_contributors_shows_a_whole_layer() -> None:
    page = (Path(__file__).parents[1] / "docs" / "contributing.md").read_text()
    block = page.partition("```python\n")[2].partition("```")[0]
    namespace: dict = {"__name__": "page"}
    exec(block, namespace)
    x = RNG.normal(size=(2, 2))
    nets = namespace["own"], namespace["usual"]
    np.testing.assert_array_equal(*(sw.predict(net, x).ntk for net in nets))


def test_groups_of_a_norm_are_counted() -> None:
    for groups in (0, 2.5, "x"):
        with pytest.raises((ValueError, TypeError), match="whole number of at least 1"):
            sw.GroupNorm(groups)


def test_what_is_kept_is_a_share() -> None:
    for keep in (0.0, 1.5, -0.2):
        with pytest.raises(ValueError, match="above 0 and at most 1"):
            sw.Dropout(keep)


def test_whole_numbers_of_a_layer_are_numbers() -> None:
    net = sw.Network(sw.Dense(C_b=1, lambda_W=8), sw.Dense(1), input_shape=2, width=8)
    own = net.program.nodes[1].own
    assert [type(getattr(own, name)) for name in HYPERPARAMETERS] == [float] * 4
