"""Agreement: the critical exponents, against the recursion over many layers."""

import math

import numpy as np
import pytest

from grids import each
from kinked import bent, polynomial, skewed
from scalewise.activations import activation
from scalewise.critical import (
    criticality,
)
from scalewise.gaussian import single_moment


def iterate(sigma, K, record, layers, *, start_V=0.0) -> dict[str, np.ndarray]:
    """K, the two perturbations, V and G1 of one input, by (5.46)-(5.48), (5.109), (5.110)."""
    rows, parallel, perpendicular, V, G1 = [], 1.0, 1.0, start_V, 0.0
    for _ in range(layers):
        rows.append((K, parallel, perpendicular, V, G1))
        second, fourth = (float(single_moment(sigma, K, (0,) * m).value) for m in (2, 4))
        z2, z4 = (float(single_moment(sigma, K, (0, 0), power=m).value) for m in (2, 4))
        bend = record.C_W * (z4 / K**2 - 6 * z2 / K + 3 * second) / (8 * K**2)
        chi = record.C_W * (z2 / K - second) / (2 * K)
        perpendicular *= record.C_W * float(single_moment(sigma, K, (1, 1)).value)
        parallel *= chi
        G1 = chi * G1 + bend * V
        V = chi**2 * V + record.C_W**2 * (fourth - second**2)
        K = record.C_b + record.C_W * second
    return dict(zip(("p_0", "p_parallel", "p_perp", "p_V", "p_1"), np.transpose(rows), strict=True))


def slope(series, low, high) -> float:
    return -math.log(abs(series[high] / series[low])) / math.log(high / low)


@pytest.mark.covers("A7.4")
@each("source", [lambda: activation("tanh"), bent, skewed])
def test_exponents_of_the_class_at_zero(source) -> None:
    """Smooth, with a kink of the slope at 0 (p_0 = 2), and with p_perp = 4/5."""
    sigma, layers = source(), 500
    record = criticality(sigma)
    flow = iterate(sigma, 0.5, record, layers)
    for name, p in record.exponents.items():
        measured = slope(flow[name], layers // 3, layers - 1)
        assert measured == pytest.approx(p, abs=0.1 if sigma.is_smooth else 0.3)
    ratio = flow["p_V"] / flow["p_0"] ** 2
    growth = (ratio[-1] - ratio[layers // 2]) / (layers - 1 - layers // 2)
    assert growth == pytest.approx(record.coefficients["nu"], rel=0.05)


def test_the_exponent_where_a_1_vanishes() -> None:
    """z - z^5/120, kept small: K ~ 1/sqrt(2(-a_2) l), p_parallel = 3/2, p_V = 0, p_1 = -1/2."""
    sigma = polynomial([0, 1, 0, 0, 0, -1 / 120])
    record = criticality(sigma)
    expected = {"p_0": 0.5, "p_parallel": 1.5, "p_perp": 0.5, "p_V": 0, "p_1": -0.5}
    assert record.exponents == pytest.approx(expected, rel=1e-12)
    a_2 = record.coefficients["a_2"]
    assert a_2 == pytest.approx(-0.25, rel=1e-12)
    flow = iterate(sigma, 0.5, record, 600)
    for name, p in record.exponents.items():
        assert slope(flow[name], 300, 599) == pytest.approx(p, abs=0.08)
    assert flow["p_0"][-1] * math.sqrt(-2 * a_2 * 599) == pytest.approx(1, abs=0.05)


def gelu_moments(K: float) -> tuple[float, float]:
    """g and <sigma'^2> of GELU in closed form."""
    angle, root = math.asin(K / (1 + K)) / (2 * math.pi), math.sqrt(1 + 2 * K)
    g = K / 4 + K * angle + K * K / (math.pi * (1 + K) * root)
    slopes = 0.25 + angle + K / (math.pi * (1 + K) * root) + K / (2 * math.pi * root**3)
    return g, slopes


@pytest.mark.covers("A7.4")
@each(("start", "layers"), [(0.02, 20_000), (4.0, 60_000)])
def test_exponents_of_a_half_stable_point(start, layers) -> None:
    """GELU from above K*, in closed form.

    Close to K* two inputs approach and part as powers of Delta K ~ 1/l; V and G1 need the many
    layers that a start further away takes to come close.
    """
    record = criticality("gelu")
    a, p = record.coefficients["atilde_1"], record.exponents
    K, parallel, perp, V, G1, seen = record.K_star + start, 0.0, 0.0, 0.0, 0.0, []
    source = record.coefficients["vertex_source"] * record.K_star**2
    for layer in range(1, layers + 1):
        if layer in (layers // 2, layers):
            seen.append([math.log(K - record.K_star), parallel, perp, V and math.log(V), G1])
        g_K, slopes = gelu_moments(K)
        step = 1e-4 * K
        chi = record.C_W * (gelu_moments(K + step)[0] - gelu_moments(K - step)[0]) / (2 * step)
        parallel += math.log(chi)
        perp += math.log(record.C_W * slopes)
        G1 = chi * G1 + a * V
        V = chi**2 * V + source
        K = record.C_b + record.C_W * g_K
    change = np.subtract(*seen)
    if start < 1:
        np.testing.assert_allclose(change[1] / change[0], p["p_parallel"], rtol=0.02)
        np.testing.assert_allclose(change[2] / change[0], p["p_perp"], rtol=0.05)
        # Delta K' = Delta K + a Delta K^2, so 1/Delta K grows by -a a layer: p_0 = 1.
        inverse = np.exp(-np.array([seen[0][0], seen[1][0]]))
        assert np.diff(inverse)[0] / (layers / 2) == pytest.approx(-a, rel=0.05)
    else:
        assert change[3] / math.log(2) == pytest.approx(p["p_V"], rel=0.08)
        ratio = math.log(seen[1][4] / seen[0][4]) / math.log(2)
        assert ratio == pytest.approx(-p["p_1"], rel=0.08)
