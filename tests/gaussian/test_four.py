"""Golden and property tests of expectations of four factors, and of derivatives beyond the third."""

import dataclasses
import functools
import itertools
from collections.abc import Callable

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import scalewise as sw
from grids import each, thorough
from scalewise.gaussian import _products, four_point_covariances, pair_moment, pair_moments
from scalewise.gaussian._products import pair_products
from scalewise.gaussian.spi import combined, high_moments, joint_rule

FAMILIES = [(0, 0, 0, 0), (0, 0, 1, 1), (1, 1, 1, 1), (2, 0, 1, 1), (3, 1, 1, 1), (2, 2, 1, 1)]


def covariance(count: int, scale: float = 1.0) -> np.ndarray:
    z = np.random.default_rng(1).normal(size=(count, 4))
    return scale * (z @ z.T / 4 + 0.1 * np.eye(count))


def moments_of(sigma: sw.Activation, K: np.ndarray):
    count = len(K)
    a, b = np.indices((count, count)).reshape(2, -1)
    diagonal = np.diagonal(K)

    def M(p: int, q: int) -> np.ndarray:
        low = p + q <= 4 and (p + q) % 2 == 0
        function = pair_moments if low else high_moments
        value = function(sigma, diagonal[a], diagonal[b], K[a, b], [(p, q)])[p, q].value
        return value.reshape(count, count)

    return M


def sine_product(K: np.ndarray, orders: tuple[int, ...], legs: np.ndarray) -> np.ndarray:
    """E of products of sin^(p)(z) = cos(z + (p - 1) pi/2), by the characteristic function."""
    total = np.zeros(len(legs))
    for signs in itertools.product((1, -1), repeat=4):
        s = signs @ np.eye(len(K))[legs]
        phase = sum(sign * (p - 1) for sign, p in zip(signs, orders, strict=True)) * np.pi / 2
        total += np.cos(phase) * np.exp(-0.5 * np.sum(s @ K * s, axis=1))
    return total / 16


@pytest.mark.covers("A10.1")
@each("count", [2, 3, 4, 6])
def test_products_of_sines_are_known(count: int) -> None:
    K = covariance(count)
    sigma = sw.activation("sin")
    rule = joint_rule(K, smooth=True, points=1 << 11, scrambles=8)
    found = four_point_covariances(sigma, K, rule, FAMILIES, moments_of(sigma, K))
    legs = np.indices((count,) * 4).reshape(4, -1).T
    distinct = np.array([len(set(four)) for four in legs.tolist()]).reshape((count,) * 4)
    for family in FAMILIES:
        value, error = combined(found[family].product)
        error = error + found[family].error
        want = sine_product(K, family, legs).reshape(value.shape)
        np.testing.assert_allclose(value[distinct <= 2], want[distinct <= 2], atol=1e-12)
        assert np.all(np.abs(value - want) <= 8 * error + 1e-9)
        assert error.max() < 2e-3


def test_derivatives_stand_on_the_legs_they_are_named_with() -> None:
    K, sigma = covariance(3), sw.activation("softplus")  # its derivatives all differ
    x, w = np.polynomial.hermite_e.hermegauss(40)
    u = np.stack(np.meshgrid(x, x, x, indexing="ij")).reshape(3, -1)
    weights = np.einsum("i,j,k->ijk", w, w, w).ravel() / w.sum() ** 3
    z = np.linalg.cholesky(K) @ u
    rule = joint_rule(K, smooth=True)
    found = four_point_covariances(
        sigma, K, rule, [(2, 0, 1, 1), (3, 1, 1, 1)], moments_of(sigma, K)
    )
    for family, expectation in found.items():
        factors = [sigma.derivative(z, order) for order in family]
        want = np.einsum("am,bm,cm,dm,m->abcd", *factors, weights, optimize=True)
        np.testing.assert_allclose(combined(expectation.product)[0], want, atol=1e-8)


def test_splitting_off_the_chaos_makes_the_error_small() -> None:
    K = covariance(6, scale=0.3)
    sigma = sw.activation("gelu")
    rule = joint_rule(K, smooth=True, points=1 << 9, scrambles=8)
    split = four_point_covariances(sigma, K, rule, [(0, 0, 1, 1)], moments_of(sigma, K))
    plain = four_point_covariances(sigma, K, rule, [(0, 0, 1, 1)], None)
    (value, error), (rough, rough_error) = (combined(f[0, 0, 1, 1].product) for f in (split, plain))
    assert np.all(np.abs(value - rough) <= 8 * np.hypot(error, rough_error) + 1e-12)
    assert error.max() < 0.6 * rough_error.max()


@pytest.mark.covers("A10.1")
def test_orthants_of_a_relu() -> None:
    K = covariance(5)
    rule = joint_rule(K, smooth=False)
    found = four_point_covariances(sw.activation("relu"), K, rule, [(1, 1, 1, 1)], None)
    value, error = combined(found[1, 1, 1, 1].product)
    c = K / np.sqrt(np.outer(np.diagonal(K), np.diagonal(K)))
    a, b, d = 0, 2, 4
    want = 1 / 8 + (np.arcsin(c[a, b]) + np.arcsin(c[a, d]) + np.arcsin(c[b, d])) / (4 * np.pi)
    assert abs(value[a, a, b, d] - want) < 6 * error[a, a, b, d]
    assert error[a, a, b, d] < 1e-3
    assert value[b, b, d, d] == pytest.approx(1 / 4 + np.arcsin(c[b, d]) / (2 * np.pi), abs=1e-12)


@each("name", ["tanh", "gelu", "relu", "exp"])
def test_many_products_are_single_ones(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without one of them in its place where a series does; none of these is 0 of an odd function."""
    sigma = sw.activation(name)
    A, B, C = np.array([0.4, 1.2]), np.array([0.7, 0.5]), np.array([0.2, -0.3])
    wanted = [((0,), (0, 1, 1)), ((0, 0), (1, 1)), ((0, 1), (0,)), ((0, 2), (1,))]
    single = {(p, q): pair_moment(sigma, A, B, C, p, q).value for p, q in wanted}
    with monkeypatch.context() as patch:
        if sigma.is_smooth and sigma.family != "exp":
            patch.setattr(_products, "pair_moment", None)
        found = pair_products(sigma, A, B, C, wanted)
    for pq, value in single.items():
        assert name != "tanh" or np.abs(value).min() > 1e-4
        np.testing.assert_allclose(found[pq].value, value, rtol=1e-9, atol=1e-15)


@functools.cache
def derivatives_of(name: str) -> Callable[[np.ndarray], list[np.ndarray]]:
    """Up to the fifth."""
    every = [sw.activation(name).traceable()]
    for _ in range(5):
        every.append(jax.grad(every[-1]))
    return jax.jit(jax.vmap(lambda z: [f(z) for f in every]))


@pytest.mark.parametrize("name", ["tanh", "softplus", *thorough("gelu")])
@each("K", [0.3, 3.7, 20.0])
def test_fourth_and_fifth_derivatives(name: str, K: float) -> None:
    x = np.linspace(-11, 11, 4001)
    weight = np.exp(-x * x / 2) / np.exp(-x * x / 2).sum()
    with jax.enable_x64(True):
        values = [np.asarray(v) for v in derivatives_of(name)(np.sqrt(K) * x)]
    for p, q in ((5, 1), (4, 2), (4, 1), (3, 3)):
        one = np.array([K])
        found = high_moments(sw.activation(name), one, one, one, [(p, q)])[p, q].value[0]
        want = weight @ (values[p] * values[q])
        size = np.sqrt((weight @ values[p] ** 2) * (weight @ values[q] ** 2))
        assert found == pytest.approx(want, abs=1e-8 * size)


def test_second_derivatives_of_the_slopes_of_a_relu() -> None:
    sigma, step = sw.activation("relu"), 1e-4
    A, B, C = np.array([1.0, 0.5]), np.array([0.7, 0.6]), np.array([0.4, -0.2])
    high = high_moments(sigma, A, B, C, [(5, 1), (4, 2), (3, 3)])

    def slope(order: tuple[int, int], a: float, c: float) -> np.ndarray:
        up, down = (
            pair_moments(sigma, A + s * a, B, C + s * c, [order])[order].value
            for s in (step, -step)
        )
        return (up - down) / (2 * step)

    np.testing.assert_allclose(high[4, 2].value, 2 * slope((2, 2), 1, 0), rtol=1e-6)
    np.testing.assert_allclose(high[5, 1].value, 2 * slope((3, 1), 1, 0), rtol=1e-6)
    np.testing.assert_allclose(high[3, 3].value, slope((2, 2), 0, 1), rtol=1e-6)


def test_what_cannot_be_had_is_refused() -> None:
    one = np.ones(1)
    rough = sw.activation("tanh")
    derivatives = (*rough.derivatives[:3], lambda z: np.sign(np.sin(40 * z)))
    rough = dataclasses.replace(rough, name="rough", derivatives=derivatives)
    with pytest.raises(ValueError, match=r"Derivative 4 of 'rough'.*varies too fast"):
        high_moments(rough, one, one, 0.5 * one, [(4, 2)])
    fast = sw.activation(lambda z: jnp.tanh(z) + 1e-4 * jnp.sin(60 * z), name="fast")
    with pytest.raises(ValueError, match=r"Derivative 4 of 'fast'.*varies too fast"):
        high_moments(fast, one, one, 0.5 * one, [(4, 2)])


@pytest.mark.parametrize("name", ["tanh", "gelu", "relu"])
def test_entries_wrong_alike_are_smooth_in_the_inputs(name: str) -> None:
    """Inputs that nearly coincide have entries that nearly do, whatever is wrong with the nodes."""
    sigma, apart = sw.activation(name), 1e-5
    x = np.random.default_rng(2).standard_normal((5, 4))
    x = np.concatenate([x, x[:1] + apart * x[1:2]])
    K, families = 0.1 + 0.3 * x @ x.T, [(0, 0, 0, 0), (0, 0, 1, 1)]
    steps = {}
    for alike in (False, True):
        rule = joint_rule(K, smooth=False, points=1 << 7, scrambles=2, alike=alike)
        found = four_point_covariances(sigma, K, rule, families, None)
        steps[alike] = max(
            np.abs(part.covariance[:, 0] - part.covariance[:, 5]).max()
            / np.abs(part.covariance).max()
            for part in found.values()
        )
        assert any(np.any(part.error) for part in found.values()) == (not alike)
    kinks = 0.05 if name == "relu" else 0.0  # a node may lie between the two
    assert steps[True] < 10 * apart + kinks
    assert steps[False] > 0.02


@pytest.mark.parametrize("name", ["tanh", "gelu", "relu"])
@pytest.mark.parametrize(
    ("first", "second"), [([0], [1]), ([1], [0, 1]), ([0, 2], [1]), ([2, 0], [1, 3])]
)
def test_factors_on_some_inputs_and_on_others_are_entries_of_all(name, first, second) -> None:
    """One input on each side, too, where nothing is left for nodes."""
    sigma, count = sw.activation(name), 1 + max(*first, *second)
    x = np.random.default_rng(4).standard_normal((count, 4))
    K, families = 0.1 + 0.3 * x @ x.T, [(1, 1, 0, 0), (0, 0, 0, 0)]
    rule = joint_rule(K, smooth=sigma.is_smooth, points=1 << 12, scrambles=4)
    whole = four_point_covariances(sigma, K, rule, families, None)
    some = four_point_covariances(
        sigma, K, rule.samples, families, None, (np.array(first), np.array(second))
    )
    for family in families:
        want = whole[family].covariance.mean(axis=0)[np.ix_(first, first, second, second)]
        got = some[family].covariance.mean(axis=0)
        np.testing.assert_allclose(
            got, want, atol=1e-9 if count == 2 else 0.02 * np.abs(want).max()
        )
