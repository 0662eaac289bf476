"""Golden: deep forms that no text prints: kinks at 0, $a_1=0$, half-stable points; against deep iterations.

Nothing is told to the fits but the powers of the corrections: exponents and amplitudes come out of the flow.
"""

from functools import cache

import jax.numpy as jnp
import numpy as np
import pytest

import scalewise as sw
from grids import thorough
from kinked import polynomial
from networks import net
from scalewise.critical import criticality
from scalewise.theory.deep import asymptotics, leading_forms
from scalewise.theory.deep._half_stable import exponents, forms, half_stable
from scalewise.theory.deep._vanishing_kernel import coefficients, kinked_coefficients, series
from scalewise.theory.single import single_input_flow

DEPTH = 30000
LAYERS = np.arange(1.0, DEPTH + 1)
ONE_KINK, SMOOTH = ["K", "V", "G1", "Theta", "H1", *"DFBAPQ"], [*"RSTU"]


@cache
def pieces(right, left, name: str) -> sw.Activation:
    return sw.activation(lambda z: jnp.where(z > 0, right(z), left(z)), name=name, kinks=(0.0,))


@cache
def bent() -> sw.Activation:
    """A kink at 0 would not tell the coefficient of Q from b."""

    def function(z):
        return 0.5 + z - z**3 / 6 + 0.15 * jnp.abs(z - 0.3)

    return sw.activation(function, name="bent", kinks=(0.3,))


def falling(case: str) -> sw.Activation:
    source = FALLING[case][0]
    return sw.activation(source) if isinstance(source, str) else pieces(*source, case)


FALLING = {  # power, a, p_perp, kappa, by hand from the two jets at 0
    "elu": ("elu", 0.5, -np.sqrt(2 / np.pi), 2.0, 1.0),
    "softsign": ("softsign", 0.5, -4 * np.sqrt(2 / np.pi), 2.0, 1.0),
    "unequal": (
        (lambda z: z / (1 + z), lambda z: 0.3 * jnp.tanh(z)),
        0.5,
        -2 * np.sqrt(2 / np.pi) / 0.545,
        2.0,
        0.50405 / 0.545**2,
    ),
    "balanced": (
        (
            lambda z: jnp.tanh(z) - 0.2 * jnp.sin(z) ** 2,
            lambda z: 0.5 * jnp.tanh(z) - 0.4 * jnp.sin(z) ** 2,
        ),
        1.0,
        1.5 * ((0.16 + 0.64) / 4 - 2.5 / 3) / 0.625,
        0.5 * (0.8 - 2.5) / (1.5 * (0.2 - 2.5 / 3)),
        0.53125 / 0.625**2,
    ),
}
TUNED = {  # a_1 = 0, with and without a fourth derivative that decides U
    "odd": lambda z: z - z**5 / 4 * jnp.exp(-z * z),
    "skew": lambda z: z + (z**4 / 3 - z**5 / 4) * jnp.exp(-z * z),
}
RESTING = {
    "cubic": polynomial([0.5, 1, 0, -1 / 6]),
    "quintic": polynomial([0.4, 1, 0, -0.3, 0, 0.02]),
}


def misses(record, flow, names, start: float = 0.0) -> list[str]:
    """What differs from the deep form by 2e-4 in the exponent or 5e-4 in the amplitude."""
    deep = leading_forms(record, LAYERS, lambda_b=0.7, lambda_W=1.3)
    assert set(names) | {"chi_parallel", "chi_perp"} == set(deep)
    assert set(names) <= set(record.exponents)
    ell, found = LAYERS[1000::40], []
    log = np.log(ell)
    corrections = [log**q / ell ** (h / 2) for h in range(1, 7) for q in range(h // 2, -1, -1)]
    design = np.stack([ell**0, *corrections], axis=1)
    for name in names:
        shift = start if name == "K" else 0.0
        value, form = (f[1000::40] - shift for f in (getattr(flow, name)[:, 0], deep[name]))
        amplitude = np.exp(np.linalg.lstsq(design, np.log(value / form), rcond=None)[0][0])
        free = np.concatenate([design, -log[:, None]], axis=1)
        exponent = np.linalg.lstsq(free, np.log(np.abs(value)), rcond=None)[0][-1]
        if not (abs(amplitude - 1) < 5e-4 and abs(exponent - record.exponents[name]) < 2e-4):
            found.append(f"{name}: {amplitude:.6f}, {exponent:.6f}")
    for name in ("chi_parallel", "chi_perp"):
        ratio = (getattr(flow, name)[-1, 0] - 1) / (deep[name][-1] - 1)
        if not abs(ratio - 1) < 0.02:
            found.append(f"{name}: {ratio:.4f}")
    return found


def flow_of(record, decay: float, *, K1: float):
    """With rates of the equivalence principle, whose weights decay by `decay` fewer powers."""
    p = record.coefficients["p_perp"]
    rates = {"lambda_b": tuple(0.7 * LAYERS**-p), "lambda_W": tuple(1.3 * LAYERS ** (decay - p))}
    at = {"C_b": record.C_b, "C_W": record.C_W}
    return single_input_flow(net(DEPTH, record.activation, features=1, **at, **rates), K1=K1)


@pytest.mark.covers("A5.4", "A7.4")
@pytest.mark.parametrize("case", ["elu", "balanced", *thorough("softsign", "unequal")])
def test_kernels_that_fall_with_a_kink_at_zero(case: str) -> None:
    _, power, a, p, kappa = FALLING[case]
    record = asymptotics(falling(case))
    c = record.coefficients
    assert record.universality == "K*=0"
    assert [c["power"], c["a"], c["p_perp"]] == pytest.approx([power, a, p], rel=1e-10)
    assert c["A_4"] / c["A_2"] ** 2 == pytest.approx(kappa, rel=1e-10)
    assert not misses(record, flow_of(record, 1 / power, K1=0.5), ONE_KINK)


@pytest.mark.covers("A5.4")
@pytest.mark.parametrize("case", ["skew", *thorough("odd")])
def test_every_tensor_where_a_1_vanishes(case: str) -> None:
    record = asymptotics(sw.activation(TUNED[case], name=case))
    assert record.coefficients["p_perp"] == 0.5
    assert record.exponents["U"] == (-1.0 if case == "odd" else -1.5)
    assert not misses(record, flow_of(record, 0.5, K1=0.1), ONE_KINK + SMOOTH)


@pytest.mark.covers("A5.5", "A7.4")
@pytest.mark.parametrize("case", ["cubic", "bent", *thorough("quintic")])
def test_every_tensor_at_a_half_stable_point(case: str) -> None:
    record = asymptotics(bent() if case == "bent" else RESTING[case])
    assert record.universality == "half-stable"
    a, K = record.coefficients["atilde_1"], record.K_star
    names = ONE_KINK + (SMOOTH if record.activation.is_smooth else [])
    flow = flow_of(record, 0.0, K1=K - 0.3 / a)
    assert not misses(record, flow, names, start=K)


def test_the_cubic_rests_at_numbers_known_by_hand() -> None:
    """σ = ½ + z - z³/6: K* = 2, <σ'²> = 2, <σ²> = 4/3 + 1/4, g'' = 3, p' = 2."""
    point = half_stable(RESTING["cubic"], 2.0, 0.5)
    assert (point.a, point.b, point.p) == pytest.approx((0.75, 1.0, 4 / 3), rel=1e-9)
    assert point.moments["g"] == pytest.approx(4 / 3 + 1 / 4, rel=1e-12)


@pytest.mark.covers("A5.5", "A7.4")
def test_what_is_remembered_longer_has_no_form() -> None:
    """p = 608 of SWISH: F and P to U are gone, and the rest needs the depth."""
    swish, gelu = asymptotics("swish"), asymptotics("gelu")
    assert swish.coefficients["p_perp"] == pytest.approx(608.1, abs=0.1)
    assert set(swish.exponents) == {"K", "V", "G1", "parallel", "perp", "Theta", *"DBA", "H1"}
    assert set(gelu.exponents) >= set(ONE_KINK + SMOOTH)
    deep = leading_forms(swish, np.array([0.99e6, 1e6]), depth=1_000_000)
    assert "F" not in deep
    assert deep["Theta"][0] / deep["Theta"][1] == pytest.approx(0.99 ** (1 - 608.118), rel=1e-3)
    assert set(leading_forms(gelu, 1e6)) == {"K", "V", "G1", "chi_parallel", "chi_perp"}
    point = half_stable(gelu.activation, gelu.K_star, gelu.C_W)
    at = forms(point, np.array([1e6]), lambda_b=0.7, lambda_W=1.3, depth=1e6)
    assert at["Theta"][0] == pytest.approx(0.7 + 1.3 * point.moments["g"], rel=1e-12)
    assert exponents(point)["Theta"] == pytest.approx(gelu.coefficients["p_perp"] - 1)


@pytest.mark.covers("A5.4", "A7.4")
@pytest.mark.parametrize("case", ["elu", "balanced"])
def test_rates_by_the_equivalence_principle_are_those_of_the_network(case: str) -> None:
    """`at_criticality` and the deep forms mean the same by their rates."""
    record, depth = asymptotics(falling(case)), 3000
    bare = net(depth, record.activation, features=1)
    network = bare.at_criticality().with_equivalent_learning_rates(lambda_b=0.7, lambda_W=1.3)
    flow = single_input_flow(network, K1=0.5)
    deep = leading_forms(record, depth, lambda_b=0.7, lambda_W=1.3, depth=depth)
    for name in ("Theta", "F", "B"):
        assert getattr(flow, name)[-1, 0] == pytest.approx(float(deep[name]), rel=0.05), name


def test_messages() -> None:
    flat = pieces(lambda z: z + z**4 * jnp.exp(-z), lambda z: 0.5 * z, "flat")
    point = criticality(flat)
    with pytest.raises(ValueError, match="its expansion to K\\^2 does not decide"):
        kinked_coefficients(point)
    with pytest.raises(ValueError, match="Use `kinked_coefficients`, or `asymptotics`"):
        coefficients(sw.activation("elu"))
    with pytest.raises(ValueError, match="needs Taylor coefficients at 0"):
        series(asymptotics("elu").coefficients, 5.0, 1.0)
