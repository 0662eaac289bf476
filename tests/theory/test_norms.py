"""Golden and property: networks with norms against angles of their inputs, and what a norm does not see."""

import numpy as np
import pytest

import scalewise as sw

RNG = np.random.default_rng(8)
LAST = {"input_shape": 3, "width": 8}


def test_a_normed_relu_layer_is_an_arc_cosine_of_the_angle_between_inputs() -> None:
    net = sw.Network(
        sw.Dense(), sw.LayerNorm(eps=0), "relu", sw.Dense(1, C_W=2.0), lambda_b=0, **LAST
    )
    x = RNG.normal(size=(4, 3)) * np.array([[1e-3], [1.0], [50.0], [2.0]])
    unit = x / np.linalg.norm(x, axis=1, keepdims=True)
    c = np.clip(unit @ unit.T, -1, 1)
    angle = np.arccos(c)
    K = (np.sin(angle) + (np.pi - angle) * c) / np.pi
    # Of the read-out's weights, K / C_W; of those below, their own NTK over the same norms, times the slopes.
    moved = 1 - angle / np.pi
    found = sw.predict(net, x)
    np.testing.assert_allclose(found.kernel.values[-1], K, rtol=1e-7)
    np.testing.assert_allclose(found.ntk.values[-1], K / 2 + moved * c, rtol=1e-7)


@pytest.mark.parametrize("norm", [sw.LayerNorm, sw.RMSNorm])
def test_a_network_whose_norms_follow_its_sums_is_critical_whatever_its_weights(norm) -> None:
    x = RNG.normal(size=(2, 3))
    for C_W in (0.3, 5.0):
        block = (sw.Skip("relu", sw.Dense(C_W=C_W)), norm(eps=0))
        net = sw.Network(sw.Dense(), norm(eps=0), *block * 40, sw.Dense(1), **LAST)
        found = sw.predict(net, x, observables="kernel").kernel.values[-1]
        np.testing.assert_allclose(np.diagonal(found), 1.0, rtol=1e-12)
        plain = net.replace(layers=[x for x in net.layers if not isinstance(x, norm)])
        assert np.diagonal(sw.predict(plain, x, observables="kernel").kernel.values[-1]).min() > 20


def test_a_norm_over_channels_does_not_see_the_scale_of_an_input() -> None:
    layers = (sw.Conv(3), sw.LayerNorm(eps=0), "tanh", sw.RMSNorm(eps=0), sw.GlobalAvgPool())
    net = sw.Network(*layers, sw.Dense(1), input_shape=(6, 2), width=8)
    x = RNG.normal(size=(2, 6, 2))
    one, other = (sw.predict(net, v).kernel.values for v in (x, x * np.array([[[7.0]], [[0.1]]])))
    np.testing.assert_allclose(one, other, rtol=1e-12)
    with_eps = sw.predict(
        net.replace(layers=(sw.Conv(3), sw.LayerNorm(1.0), *layers[2:], sw.Dense(1))), x
    )
    assert not np.allclose(with_eps.kernel.values, one, rtol=1e-3)


def test_a_site_without_a_signal_needs_an_eps() -> None:
    x = np.zeros((1, 8, 1))
    x[:, 3] = 1.0

    def net(eps: float) -> sw.Network:
        layers = (sw.Conv(3), sw.LayerNorm(eps), "tanh", sw.GlobalAvgPool(), sw.Dense(1))
        return sw.Network(*layers, input_shape=(8, 1), width=8)

    with pytest.raises(ValueError, match="its eps is 0, so it would divide by 0"):
        sw.predict(net(0.0), x)
    assert np.isfinite(sw.predict(net(1e-3), x).kernel.values).all()


@pytest.mark.parametrize("verb", [sw.predict, sw.measure])
def test_inputs_of_equal_features_need_an_eps_in_a_norm_over_them(verb) -> None:
    """Of a tenth in each feature rounding is left."""
    net = sw.Network(sw.LayerNorm(eps=0), sw.Dense(), "tanh", sw.Dense(1), **LAST)
    own = {"networks": 5, "progress": False} if verb is sw.measure else {}
    with pytest.raises(ValueError, match="features are all alike"):
        verb(net, np.full((2, 3), 0.1), **own)
    assert np.isfinite(verb(net, RNG.normal(size=(2, 3)), **own).kernel.values).all()


def test_what_stands_before_the_first_random_layer_is_measured_too() -> None:
    layers = (sw.RMSNorm(0.1), sw.AvgPool(2), sw.Flatten(), sw.Dense(), "relu", sw.Dense(1))
    net, x = sw.Network(*layers, input_shape=(6, 2), width=32), RNG.normal(size=(2, 6, 2))
    one = sw.measure(net, x, networks=20, progress=False).sel(layer=1)
    theory = sw.predict(net, x).sel(layer=1)
    for name in ("kernel", "ntk"):
        np.testing.assert_allclose(one[name].values, theory[name].values, rtol=1e-5)


def _expansion(*layers: object, width: int) -> float:
    """Of networks that no warning is about."""
    net = sw.Network(*layers, sw.Dense(1), input_shape=3, width=width)
    found = sw.predict(
        net, RNG.normal(size=(2, 3)), observables="four_point_vertex", layers=[net.depth]
    )
    return float(found.expansion_parameter[-1])


def test_the_small_parameter_sees_what_a_norm_divides_by() -> None:
    """Mean squares of n Gaussian numbers, and of n rectified ones, have relative variances of 2/n and 5/n."""
    rectified = _expansion(sw.Dense(), "relu", sw.RMSNorm(eps=0), width=64)
    assert rectified == pytest.approx(5 / 64, rel=0.01)
    gaussian = _expansion(sw.Dense(), sw.LayerNorm(eps=0), "tanh", width=64)
    assert gaussian == pytest.approx(2 / 64, rel=0.01)
    groups = _expansion(sw.Dense(), sw.GroupNorm(2, eps=0), "tanh", width=64)
    assert groups == pytest.approx(2 / 32, rel=0.01)
    # No norm of drawn channels: the metric alone.
    of_inputs = sw.Network(sw.RMSNorm(), sw.Dense(), "tanh", sw.Dense(1), input_shape=3, width=64)
    found = sw.predict(of_inputs, RNG.normal(size=(2, 3)), observables="four_point_vertex")
    assert found.expansion_parameter.max() < 1 / 64


def test_the_small_parameter_of_a_second_norm_counts_what_the_first_one_takes_away() -> None:
    r"""5/n of $2\sigma(z)^2$, without what moves with mean and variance of z, 8/πn and 2/n; and 2/n anew."""
    layers = (sw.Dense(C_W=1.0), sw.LayerNorm(eps=0), "relu", sw.Dense(C_W=2.0), sw.RMSNorm(eps=0))
    assert _expansion(*layers, width=64) == pytest.approx((5 - 8 / np.pi) / 64, rel=0.01)


@pytest.mark.parametrize("norm", [sw.LayerNorm(), sw.GroupNorm(4), sw.RMSNorm()])
def test_norms_over_few_channels_say_what_width_it_takes(norm: object) -> None:
    """Of 12 channels the next order of a variance is two thirds of it, of 17 less than a half."""
    groups = 4 if isinstance(norm, sw.GroupNorm) else 1
    net = sw.Network(sw.Dense(), norm, "tanh", sw.Dense(1), input_shape=3, width=12 * groups)
    x = RNG.normal(size=(2, 3))
    message = r"below layer 2 .* Make the network 1\.4 times as wide"
    with pytest.warns(UserWarning, match=message):
        few = sw.predict(net, x, observables="four_point_vertex")
    wide = sw.predict(net.replace(width=17 * groups), x, observables="four_point_vertex")
    np.testing.assert_allclose(
        few.four_point_vertex.values, wide.four_point_vertex.values, rtol=1e-12
    )
    assert sw.predict(net, x).kernel.values.all()  # which no width changes
