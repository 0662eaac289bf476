"""Golden and property tests: single-input expectations and the table that interpolates them."""

from dataclasses import replace

import jax.numpy as jnp
import mpmath as mp
import numpy as np
import pytest

import scalewise as sw
from networks import net
from scalewise.activations import BUILTIN_NAMES
from scalewise.gaussian import single_moment
from scalewise.theory._tables._line_moments import VERTEX, line_moments, moment_names
from scalewise.theory._tables._line_table import LineTable
from scalewise.theory.single import single_input_flow

SMALL = np.array([1e-6, 1e-4, 0.03, 0.8, 4.0])
HARD_TANH = sw.activation("hardtanh")


# Compiled when a test asks for them.
def shifted_relu() -> sw.Activation:
    return sw.activation(lambda z: jnp.maximum(z + 0.4, 0.0), kinks=(-0.4,), name="shifted_relu")


def bent() -> sw.Activation:
    def function(z):
        return jnp.where(z > 0.5, jnp.exp(0.5 - z) - 1, jnp.tanh(z - 0.5))

    return sw.activation(function, kinks=(0.5,), name="bent")


def _moments(sigma: sw.Activation, K: np.ndarray) -> dict[str, np.ndarray]:
    return dict(zip(moment_names(sigma), line_moments(sigma, K)[0], strict=True))


@pytest.mark.covers("A4.1")
def test_sin_in_closed_form_down_to_tiny_kernels() -> None:
    r"""With e = exp(-2K): g = (1-e)/2, p = (1+e)/2, <s^4> = 3/8 - e/2 + e^4/8."""
    m, K = _moments(sw.activation("sin"), SMALL), SMALL
    e, low, four = np.exp(-2 * K), -np.expm1(-2 * K), -np.expm1(-8 * K)
    variance = four / 8 - low / 2 + low / 2 * (1 - e)  # Var[sin²] = <cos 4z>/8 - <cos 2z>²/4 + 1/8
    variance = (1 - 2 * e**2 + e**4) / 8
    expected = {
        "g": low / 2,
        "g1": e,
        "g2": -2 * e,
        "p": (1 + e) / 2,
        "p1": -e,
        "p2": 2 * e,
        "m22": four / 8,
        "s02": -low / 2,
        "z12": -e,
        "s13": -(1 + e) / 2,
        "s22": low / 2,
        "s22_1": e,
        "s0112": -four / 8,
        "s1122": four / 8,
    }
    for name, value in expected.items():
        np.testing.assert_allclose(m[name], value, rtol=3e-10, err_msg=name)
    big = K > 1e-3
    for name, sign in (("vss", 1), ("vpp", 1), ("vsp", -1)):
        np.testing.assert_allclose(m[name][big], sign * variance[big], rtol=1e-10, err_msg=name)
    # 1 - 2e² + e⁴ = (1 - e²)² without cancellation
    np.testing.assert_allclose(m["vss"], np.expm1(-4 * K) ** 2 / 8, rtol=1e-11)
    np.testing.assert_allclose(m["vpp"], np.expm1(-4 * K) ** 2 / 8, rtol=1e-9)


def _derivatives(value, K: float) -> tuple[float, float, float]:
    with mp.workdps(40):
        return tuple(float(mp.diff(value, mp.mpf(K), n)) for n in range(3))


def _square_of_hard_tanh(K):
    a = 1 / mp.sqrt(K)
    inside = mp.erf(a / mp.sqrt(2))
    return K * (inside - 2 * a * mp.npdf(a)) + 1 - inside


def _square_of_shifted_relu(K):
    a = mp.mpf("0.4") / mp.sqrt(K)  # <(z + c)²; z > -c>
    c = mp.mpf("0.4")
    return (K + c * c) * mp.ncdf(a) + c * mp.sqrt(K) * mp.npdf(a)


@pytest.mark.covers("A4.1")
@pytest.mark.parametrize(
    ("sigma", "square", "slope"),
    [
        (lambda: HARD_TANH, _square_of_hard_tanh, lambda K: mp.erf(1 / mp.sqrt(2 * K))),
        (shifted_relu, _square_of_shifted_relu, lambda K: mp.ncdf(mp.mpf("0.4") / mp.sqrt(K))),
    ],
    ids=["hard_tanh", "shifted_relu"],
)
@pytest.mark.parametrize("K", [0.05, 0.7, 6.0])
def test_derivatives_of_kinked_activations_hold_their_delta_functions(
    sigma, square, slope, K: float
) -> None:
    m = _moments(sigma(), np.array([K]))
    for names, function in ((("g", "g1", "g2"), square), (("p", "p1", "p2"), slope)):
        for name, value in zip(names, _derivatives(function, K), strict=True):
            assert m[name][0] == pytest.approx(value, rel=1e-10), name
    assert m["s02"][0] == m["s0112"][0] == m["z12"][0] == 0
    assert "s13" not in m


@pytest.mark.parametrize("made", [lambda: sw.activation("elu"), bent], ids=["elu", "bent"])
def test_kinks_between_curved_pieces(made) -> None:
    """g'' and p'' are what differences of g' and p' say; g' and p' what those of g and p say."""
    sigma = made()
    K, step = np.array([0.1, 0.6, 3.0]), 1e-5
    here = _moments(sigma, K)
    up, down = (_moments(sigma, K * (1 + s)) for s in (step, -step))
    for low, high in (("g", "g1"), ("g1", "g2"), ("p", "p1"), ("p1", "p2")):
        slope = (up[low] - down[low]) / (2 * step * K)
        np.testing.assert_allclose(here[high], slope, rtol=2e-7, atol=1e-9, err_msg=high)
    np.testing.assert_allclose(here["z12"] * K, _z12(sigma, K), rtol=1e-10)


def _z12(sigma: sw.Activation, K: np.ndarray) -> np.ndarray:
    return single_moment(sigma, K, (1, 2), power=1).value


@pytest.mark.parametrize("sigma", ["tanh", "swish", "relu", HARD_TANH], ids=str)
def test_table_against_quadrature(sigma) -> None:
    table = LineTable(sw.activation(sigma))
    K = np.exp(np.random.default_rng(3).uniform(np.log(1e-6), np.log(30.0), 25))
    table.moments(K)  # panels first, so that both ways of reading them are tried
    direct, size = line_moments(table.sigma, K)
    for name, value, scale in zip(table.names, direct, size, strict=True):
        error = np.abs(table.moments(K)[name] - value)
        assert np.all(error <= 1e-12 * scale), name
    squares = [table.square(float(k)) for k in K]
    np.testing.assert_allclose(squares, single_moment(sigma, K, (0, 0)).value, rtol=2e-14)


def test_what_saves_work_changes_nothing() -> None:
    """Half the nodes by parity, a few expectations instead of all, and panels made together or alone."""
    K, failures = np.array([1e-6, 0.3, 0.31, 1.0, 7.0]), []
    for name in BUILTIN_NAMES:
        sigma = sw.activation(name)
        here = LineTable(sigma).moments(K)
        few = LineTable(sigma, VERTEX).moments(K)
        alone = LineTable(sigma)
        one_by_one = [alone.moments(K[i : i + 1]) for i in range(len(K))]
        whole, size = line_moments(replace(sigma, parity=0), K)
        for place, moment in enumerate(here):
            others = {"parity": (whole[place], 1e-12)}
            others["together"] = (np.array([m[moment][0] for m in one_by_one]), 1e-14)
            if moment in VERTEX:
                others["few"] = (few[moment], 1e-14)
            for what, (other, allowed) in others.items():
                if np.any(np.abs(here[moment] - other) > allowed * size[place]):
                    failures.append((name, moment, what))
    assert not failures


@pytest.mark.covers("A4.2", "A7.1")
def test_deep_kernels_against_one_quadrature_per_layer() -> None:
    flow = single_input_flow(net(300, "tanh", features=1), K1=2.0)
    k = 2.0
    for layer in range(1, 300):
        k = float(single_moment("tanh", k, (0, 0)).value)
        assert flow.K[layer, 0] == pytest.approx(k, rel=1e-12)


def test_a_fast_function_is_tabulated_in_parts_or_refused() -> None:
    fast = sw.activation(lambda z: jnp.sin(20 * z) / 20, name="fast")
    table = LineTable(fast)
    K = np.array([1e-3, 5e-3, 0.02, 0.03])
    got = table.moments(K)
    np.testing.assert_allclose(got["g"], -np.expm1(-800 * K) / 800, rtol=1e-11)
    np.testing.assert_allclose(got["s22_1"], 400**2 * np.exp(-800 * K), rtol=1e-8, atol=1e-8)
    growing = sw.activation(lambda z: jnp.exp(z / 2), name="growing")
    with pytest.raises(ValueError, match="do not converge or overflow at K"):
        line_moments(growing, np.array([2000.0]))


def test_exp_in_closed_form() -> None:
    # A callable would be recognised, and have the same closed form.
    own = replace(sw.activation("exp"), name="own_exp", family=None, taylor=None)
    K = np.array([0.05, 0.4, 1.1])
    closed, by_quadrature = _moments(sw.activation("exp"), K), _moments(own, K)
    for name, value in by_quadrature.items():
        np.testing.assert_allclose(closed[name], value, rtol=1e-9, err_msg=name)
