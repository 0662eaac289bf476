"""Golden: universality classes, their coefficients, and the deep forms against deep iterations.

Every amplitude is extracted from the flow by a fit with logarithms, so 1e-3 is a wide tolerance, and
every exponent is fitted without being told.
"""

from functools import cache

import jax.numpy as jnp
import numpy as np
import pytest

import scalewise as sw
from grids import thorough
from kinked import skewed
from networks import net
from scalewise.theory.deep import (
    asymptotics,
    distance_forms,
    fit_scaling,
    leading_forms,
    perturbation_series,
    semi_critical_forms,
    tuned_metric,
    uniform_rate_forms,
)
from scalewise.theory.deep._half_stable import half_stable
from scalewise.theory.deep._power_laws import PowerLaw, exponents, forms
from scalewise.theory.deep._vanishing_kernel import coefficients, input_scale, series
from scalewise.theory.single import single_input_flow

DEPTH = 40000
WAVY = skewed()


@cache
def own(name: str) -> sw.Activation:
    """Compiled when a test asks for one; a_1 of the flat one is 0."""
    flat, tilted = lambda z: z - z**5 / 4 * jnp.exp(-z * z), lambda z: jnp.sin(z) + 0.3 * z**2
    return sw.activation({"flat": flat, "tilted": tilted}[name], name=name)


@pytest.mark.covers("A5.4")
@pytest.mark.parametrize(
    ("name", "a_1", "a_2", "b_1", "p_perp"),
    [
        ("tanh", -2, 17 / 3, -2, 1),
        ("sin", -1, 2 / 3, -1, 1),
        ("erf", -2, 14 / 3, -2, 1),
        (WAVY, -1.25, 19 / 6, -1.0, 0.8),
        ("tilted", -0.73, 2 / 3, -0.64, 64 / 73),
    ],
    ids=str,
)
def test_coefficients_of_vanishing_kernels(name, a_1, a_2, b_1, p_perp) -> None:
    record = asymptotics(own(name) if name == "tilted" else name)
    assert record.universality == "K*=0"
    assert (record.C_b, record.K_star) == (0.0, 0.0)
    got = [record.coefficients[key] for key in ("a_1", "a_2", "b_1", "p_perp", "nu")]
    assert got == pytest.approx([a_1, a_2, b_1, p_perp, 2 / 3], rel=1e-12)


@pytest.mark.covers("A5.2")
@pytest.mark.parametrize(
    ("slope", "C_W", "nu", "rho"),
    [
        (0, 2, 5, 0.318309886),
        (0.01, 1.99980002, 4.99880024, 0.311944325),
        (0.1, 1.98019802, 4.88236447, 0.255278226),
        (0.2, 1.92307692, 4.55621302, 0.195883007),
        (0.5, 1.6, 3.08, 0.063661977),
        (1, 1, 2, 0),
        (-1, 1, 2, 2 / np.pi),
    ],
)
def test_coefficients_of_scale_invariant_activations(slope, C_W, nu, rho) -> None:
    record = asymptotics(f"leaky_relu({slope})")
    assert record.universality == "scale-invariant"
    assert record.K_star is None
    assert record.C_W == pytest.approx(C_W, rel=5e-9)
    assert record.coefficients["nu"] == pytest.approx(nu, rel=5e-9)
    assert record.coefficients["rho"] == pytest.approx(rho, abs=5e-10)
    assert record.exponents["psi"] == (1.0 if rho else 0.0)
    assert ("S" in record.exponents) == (slope == 1)


@pytest.mark.covers("A5.5")
@pytest.mark.parametrize(
    ("name", "K_star", "a", "b", "source"),
    [
        ("swish", 14.3201736180258, 2.84979218941e-6, 0.0017330272, 4.9231871),
        ("gelu", (3 + np.sqrt(17)) / 2, -1.43626418732e-4, 0.0093335406, 4.9042262),
    ],
)
def test_coefficients_of_half_stable_points(name, K_star, a, b, source) -> None:
    record = asymptotics(name)
    assert record.universality == "half-stable"
    assert record.K_star == pytest.approx(K_star, rel=1e-11)
    assert record.coefficients["atilde_1"] == pytest.approx(a, rel=1e-9)
    assert record.coefficients["btilde_1"] == pytest.approx(b, rel=1e-7)
    assert record.coefficients["vertex_source"] == pytest.approx(source, rel=1e-7)


@pytest.mark.covers("A5.3")
@pytest.mark.parametrize("name", ["sigmoid", "softplus", "softplus_shifted", "quadratic"])
def test_activations_without_a_class(name: str) -> None:
    record = asymptotics(name)
    assert record.universality == "none"
    assert not record.exponents
    with pytest.raises(ValueError, match="is in no universality class"):
        leading_forms(record, 10)


@cache
def _iterated(sigma, lambda_b: float = 0.7, lambda_W: float = 1.3):
    record, depth = asymptotics(sigma), DEPTH
    layers, p = np.arange(1.0, depth + 1), record.coefficients["p_perp"]
    rates = (tuple(lambda_b * layers**-p), tuple(lambda_W * layers ** (1 - p)))
    network = net(depth, sigma, features=1, C_W=record.C_W, lambda_b=rates[0], lambda_W=rates[1])
    forms = leading_forms(record, layers, lambda_b=lambda_b, lambda_W=lambda_W)
    return record, single_input_flow(network, K1=0.5), forms


@pytest.mark.covers("A7.4", "B14", "C16", "C31")
@pytest.mark.parametrize("sigma", ["tanh", "tilted", *thorough("sin", "erf", WAVY)], ids=str)
def test_every_exponent_and_amplitude_at_vanishing_kernel(sigma) -> None:
    record, flow, forms = _iterated(own(sigma) if sigma == "tilted" else sigma)
    names = ["K", "Theta", "V", "G1", "H1", *"DFBAPQRSTU"]
    assert set(names) <= set(record.exponents)
    for name in names:
        values = getattr(flow, name)[:, 0]
        fit = fit_scaling(values, first=500, orders=3)
        assert fit.exponent == pytest.approx(record.exponents[name], abs=4e-4), name
        ratio = fit_scaling(values / forms[name], first=500, exponent=0.0)
        assert ratio.amplitude == pytest.approx(1.0, abs=1e-3), name
    for name in ("chi_parallel", "chi_perp"):
        gap = getattr(flow, name)[-1, 0] - 1
        assert gap == pytest.approx(forms[name][-1] - 1, rel=3e-3)


@pytest.mark.covers("B14")
def test_limits_of_odd_activations_in_numbers() -> None:
    """Dimensionless ratios of PDLT §9.3, (11.100)-(11.102), (∞.34)-(∞.37), rates 1/l and 1."""
    table = {  # D, F, A/l, B/l, P, Q, RK, SK, TK over Theta^n l and U K l / Theta³
        "tanh": (-1 / 9, 3 / 16, 4 / 27, 3 / 4, -1 / 12, -1 / 24, -5 / 72, 1 / 36, 1 / 72, 1 / 2),
        "sin": (-2 / 9, 1 / 2, 4 / 27, 4 / 3, -1 / 12, -1 / 32, -7 / 96, 1 / 24, 1 / 128, 1 / 2),
    }
    for name, expected in table.items():
        ell = 1e6
        f = leading_forms(asymptotics(name), ell)
        K, Th = f["K"], f["Theta"]
        assert Th == pytest.approx({"tanh": 1.5, "sin": 2.0}[name])
        got = [f["D"], f["F"], f["A"] / ell, f["B"] / ell, f["P"] / Th**2 / ell]
        got += [f["Q"] / Th**2 / ell, *(f[t] * K / Th**3 / ell for t in "RST")]
        got += [f["U"] * K * ell / Th**3]
        assert [float(v) for v in got] == pytest.approx(expected, rel=1e-9)
        assert float(f["V"] / K**2 / ell) == pytest.approx(2 / 3)


@pytest.mark.covers("B15")
def test_output_ntk_does_not_depend_on_the_depth() -> None:
    record = asymptotics(WAVY)
    at = [leading_forms(record, L, depth=L)["Theta"] for L in (10, 1000)]
    assert at == pytest.approx([1 + 1 / 1.25] * 2)
    record = asymptotics("relu")
    at = [leading_forms(record, L, kernel=0.8, depth=L, lambda_W=3.0)["Theta"] for L in (10, 99)]
    assert at == pytest.approx([1 + 3 * 0.8 / 2] * 2)


@pytest.mark.covers("A5.2", "A7.2", "B14")
@pytest.mark.parametrize("name", ["relu", "leaky_relu(0.3)", "linear", "leaky_relu(-1)"])
def test_scale_invariant_forms_are_exact_at_every_layer(name: str) -> None:
    record = asymptotics(name)
    network = net(30, name, features=1, lambda_b=0.4 / 30, lambda_W=1.7 / 30).at_criticality()
    flow = single_input_flow(network, K1=0.6)
    rates = {"lambda_b": 0.4, "lambda_W": 1.7, "depth": 30}
    forms = leading_forms(record, np.arange(1, 31), kernel=0.6, **rates)
    assert set(forms) >= {"K", "Theta", "V", "G1", "H1", *"DFBAPQ"}
    assert ("S" in forms) == (name == "linear")
    for observable, value in forms.items():
        got = getattr(flow, observable)[:, 0]
        np.testing.assert_allclose(got, value, rtol=1e-12, atol=1e-14, err_msg=observable)


@pytest.mark.covers("C32")
def test_linear_network_whose_slope_is_not_one() -> None:
    double = sw.activation(lambda z: 1.5 * z, name="steep")
    network = net(12, double, features=1, C_W=1 / 2.25, lambda_b=0.3, lambda_W=0.8)
    flow = single_input_flow(network, K1=0.9)
    forms = leading_forms(
        asymptotics(double), np.arange(1, 13), kernel=0.9, lambda_b=0.3, lambda_W=0.8
    )
    for observable, value in forms.items():
        np.testing.assert_allclose(getattr(flow, observable)[:, 0], value, rtol=1e-11, atol=1e-14)


@pytest.mark.covers("A7.4")
def test_scale_invariant_exponents() -> None:
    forms = leading_forms(asymptotics("linear"), np.arange(1.0, 5001), kernel=1.0)
    for observable, p in asymptotics("linear").exponents.items():
        if observable in forms:
            assert fit_scaling(forms[observable]).exponent == pytest.approx(p, abs=1e-6)


@pytest.mark.covers("A5.2", "A7.2")
def test_semi_critical_networks() -> None:
    network = net(25, "leaky_relu(0.4)", features=1, C_W=2 / 1.16, C_b=0.3, lambda_b=0.2)
    flow = single_input_flow(network, K1=0.7)
    forms = semi_critical_forms(
        network.activation, np.arange(1, 26), kernel=0.7, C_b=0.3, lambda_b=0.2
    )
    for observable, value in forms.items():
        np.testing.assert_allclose(getattr(flow, observable)[:, 0], value, rtol=1e-12, atol=1e-15)
    deep = semi_critical_forms(network.activation, np.array([1e6]), kernel=0.7, C_b=0.3)
    nu = asymptotics("leaky_relu(0.4)").coefficients["nu"]
    assert float(deep["V"][0] / deep["K"][0] ** 2) == pytest.approx(nu / 3 * 1e6, rel=1e-5)
    with pytest.raises(ValueError, match="`C_b` must be between 0 and the kernel"):
        semi_critical_forms(network.activation, np.ones(1), kernel=0.7, C_b=0.8)


@pytest.mark.covers("A5.4", "A7.3")
@pytest.mark.parametrize("sigma", ["tanh", "sin", WAVY], ids=str)
def test_kernel_and_vertex_beyond_leading_order(sigma) -> None:
    """(5.94) and (5.127) share the constant l_0 of the input, and miss O(log²l/l³)."""
    record, flow, _ = _iterated(sigma)
    c = record.coefficients
    ell_0 = input_scale(c, DEPTH, flow.K[-1, 0])

    def missing(name: str, ell: int) -> float:
        exact = getattr(flow, name)[ell - 1, 0]
        return (exact / float(series(c, ell, ell_0)[name]) - 1) * ell**2

    # K: all logarithms of this order are there, so what is left is a constant; a wrong one would add
    # a multiple of this for every factor of ten in depth
    q = c["a_2"] - c["a_1"] ** 2
    step = q**2 / c["a_1"] ** 4 * np.log(10)
    assert abs(missing("K", 3000) - missing("K", 300)) < 0.25 * step
    # V: two orders are gone
    assert abs(missing("V", 10000)) < 0.02 * 10000


@pytest.mark.covers("A5.4")
def test_distances_beyond_leading_order() -> None:
    """(5.97), (5.99): the products of chi over their leading power have the printed logarithm."""
    for sigma in ("tanh", WAVY):
        record, flow, _ = _iterated(sigma)
        c = record.coefficients
        ell = np.arange(1, DEPTH + 1)
        ell_0 = input_scale(c, DEPTH, flow.K[-1, 0])
        forms = perturbation_series(c, ell, ell_0)
        for name, chi in (("dK1", flow.chi_parallel), ("ddK2", flow.chi_perp)):
            exact = np.concatenate([[1.0], np.cumprod(chi[:, 0])])
            plain = ell ** -(2.0 if name == "dK1" else c["p_perp"])
            log = fit_scaling(exact / plain, first=500, orders=3, exponent=0.0).corrections[1, 1]
            printed = forms[name][-1] / plain[-1] - 1
            printed *= DEPTH / np.log(DEPTH / ell_0)
            assert log == pytest.approx(printed, rel=2e-2)


@pytest.mark.covers("A7.3")
def test_metric_at_next_order_with_tuned_weights() -> None:
    """l G1 -> 89/72 for tanh and 20/9 for sin, where PDLT (5.143) prints 13/12 and 2/3."""
    for name, limit in (("tanh", 89 / 72), ("sin", 20 / 9)):
        c = coefficients(sw.activation(name))
        tuned = tuned_metric(c)
        assert tuned["ell_G1"] == pytest.approx(limit, rel=1e-12)
        network = net(DEPTH, name, features=1)
        flow = single_input_flow(network, K1=0.5, C_W_nlo=tuned["C_W_nlo"])
        ell = np.arange(1, DEPTH + 1)
        fit = fit_scaling(ell * flow.G1[:, 0], first=500, exponent=0.0)
        assert fit.amplitude == pytest.approx(limit, rel=1e-3)
    c = coefficients(WAVY)
    flow = single_input_flow(net(DEPTH, WAVY, features=1), K1=0.5, C_W_nlo=2 / 3)
    fit = fit_scaling(np.arange(1, DEPTH + 1) * flow.G1[:, 0], first=500, exponent=0.0)
    assert fit.amplitude == pytest.approx(tuned_metric(c)["ell_G1"], rel=2e-3)


@pytest.mark.covers("A5.4")
def test_tuned_activation_whose_kernel_falls_as_the_square_root() -> None:
    """a_1 = 0: without an even part distances fall by p_perp = 1/2, with one by no power."""
    record = asymptotics(own("flat"))
    assert record.coefficients["a_1"] == 0
    assert record.coefficients["p_perp"] == 0.5
    skew = coefficients(sw.activation(lambda z: z + z**2 / 4 - z**3 / 32 - z**5, name="skew"))
    assert skew["a_1"] == 0
    assert np.isinf(skew["p_perp"])
    assert "perp" not in exponents(PowerLaw.of(skew))


@pytest.mark.covers("A5.5")
def test_half_stable_point_of_gelu_attracts_from_above() -> None:
    """K - K* = 1/(-a l), V = s l/5, G1 = a s l²/20; the approach starts at some 2000 layers."""
    record, depth = asymptotics("gelu"), 150000
    network = net(depth, "gelu", features=1, C_b=record.C_b, C_W=record.C_W)
    flow = single_input_flow(network, K1=1.5 * record.K_star)
    forms = leading_forms(record, np.arange(1, depth + 1))
    ratios = {name: getattr(flow, name)[:, 0] / forms[name] for name in ("V", "G1")}
    ratios["K"] = (flow.K[:, 0] - record.K_star) / (forms["K"] - record.K_star)
    for name, ratio in ratios.items():
        fit = fit_scaling(ratio, first=10000, orders=3, exponent=0.0)
        assert fit.amplitude == pytest.approx(1, abs=1e-2 if name == "G1" else 3e-3), name
    for name in ("chi_parallel", "chi_perp"):
        gap = getattr(flow, name)[-1, 0] - 1
        assert gap == pytest.approx(forms[name][-1] - 1, rel=0.2)


@pytest.mark.covers("A5.5")
@pytest.mark.parametrize("name", ["gelu", "swish"])
def test_half_stable_points_look_scale_invariant_at_first(name: str) -> None:
    record = asymptotics(name)
    network = net(50, name, features=1, C_b=record.C_b, C_W=record.C_W)
    flow = single_input_flow(network, K1=record.K_star)
    np.testing.assert_allclose(flow.K, record.K_star, rtol=1e-9)
    V = record.coefficients["vertex_source"] * record.K_star**2 * np.arange(50)
    np.testing.assert_allclose(flow.V[:, 0], V, rtol=1e-7)
    attracted = 0.99 if name == "swish" else 1.01
    for factor, nearer in ((attracted, True), (2 - attracted, False)):
        K = single_input_flow(network, K1=record.K_star * factor).K[:, 0]
        assert (abs(K[-1] - record.K_star) < abs(K[0] - record.K_star)) == nearer


@pytest.mark.covers("B23")
@pytest.mark.parametrize("sigma", ["tanh", "sin", WAVY], ids=str)
def test_robustness_with_rates_by_the_equivalence_principle(sigma) -> None:
    """(10.78), with the distance from chi_perp, (10.70) by hand."""
    record, flow, _ = _iterated(sigma)
    c, ell = record.coefficients, np.arange(1, DEPTH + 1)
    p, C_W = c["p_perp"], record.C_W
    lam = 1.3 * ell ** (1 - p)
    second = _mean_square_of_curvature(sigma, flow.K[:, 0])
    distance, ddTheta = [1.0], [1.3 / C_W]
    for i in range(DEPTH - 1):
        chi, Theta = flow.chi_perp[i, 0], flow.Theta[i, 0]
        up = lam[i + 1] / C_W * chi + C_W * second[i] * Theta
        ddTheta.append(chi * ddTheta[-1] + up * distance[-1])
        distance.append(chi * distance[-1])
    delta2 = np.array(distance) * ell**p
    forms = distance_forms(c, DEPTH, lambda_b=0.7, lambda_W=1.3)
    scaled = fit_scaling(np.array(ddTheta) * ell ** (2 * p - 2) / delta2, first=500, exponent=0.0)
    limit = forms["ddTheta2"] * DEPTH ** (p - 1)
    assert scaled.amplitude == pytest.approx(limit, rel=2e-3)
    robust = -2 * np.array(ddTheta) / flow.Theta[:, 0] / delta2 * ell ** (p - 1)
    fit = fit_scaling(robust, first=500, exponent=0.0)
    assert fit.amplitude == pytest.approx(forms["robustness"] * DEPTH ** (p - 1), rel=2e-3)


def _mean_square_of_curvature(sigma, K: np.ndarray) -> np.ndarray:
    x, w = np.polynomial.hermite_e.hermegauss(40)
    z = np.sqrt(K)[:, None] * x
    return sw.activation(sigma).derivative(z, 2) ** 2 @ w / np.sqrt(2 * np.pi)


@pytest.mark.covers("B23")
@pytest.mark.parametrize(("name", "ratio"), [("tanh", -8.0), ("sin", -6.0)])
def test_uniform_rates_lose_robustness(name: str, ratio: float) -> None:
    """(10.79)-(10.81): 2 and 1.5, -8 and -6; PDLT prints 1, 1, -4 and -4."""
    forms = uniform_rate_forms(coefficients(sw.activation(name)), 1000.0)
    assert forms["Theta"] == 500.0
    assert forms["robustness"] * 1000 == pytest.approx(ratio)
    assert forms["ddTheta2"] == pytest.approx(-ratio / 4)


def test_messages() -> None:
    with pytest.raises(ValueError, match="has a kink at 0 and no Taylor coefficients"):
        coefficients(sw.activation("relu"))
    with pytest.raises(ValueError, match=r"needs sigma\(0\) = 0"):
        coefficients(sw.activation("sigmoid"))
    with pytest.raises(ValueError, match="do not fall to K"):
        coefficients(sw.activation("swish"))
    with pytest.raises(ValueError, match="give it for a scale-invariant activation"):
        leading_forms(asymptotics("relu"), 3)
    with pytest.raises(ValueError, match="give it for a scale-invariant activation"):
        leading_forms(asymptotics("tanh"), 3, kernel=1.0)
    with pytest.raises(ValueError, match="counts from 1"):
        leading_forms(asymptotics("tanh"), 0)
    with pytest.raises(ValueError, match="by a power that the curvature"):
        half_stable(sw.activation("linear"), 1.0, 1.0)
    flat = coefficients(own("flat"))
    for call in (tuned_metric, lambda c: series(c, 5.0, 1.0), lambda c: distance_forms(c, 9)):
        with pytest.raises(ValueError, match="needs a_1 < 0"):
            call(flat)
    with pytest.raises(ValueError, match="Uniform rates have simple forms"):
        uniform_rate_forms(coefficients(WAVY), 10)
    skew = coefficients(sw.activation(lambda z: z + z**2 / 4 - z**3 / 32 - z**5, name="skew"))
    assert set(forms(PowerLaw.of(skew), np.ones(1), lambda_b=1.0, lambda_W=1.0)) == {
        "K",
        "V",
        "G1",
        "chi_parallel",
    }
