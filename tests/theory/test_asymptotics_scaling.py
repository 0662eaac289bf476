"""Golden and property tests: fits of the scaling ansatz, scaling laws, relevance."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from scalewise.theory.deep import asymptotics, fit_scaling, normalised_exponents, relevance

LAYERS = np.arange(1.0, 20001)


@pytest.mark.covers("C17")
@settings(max_examples=25, deadline=None)
@given(
    st.floats(-3, 3),
    st.floats(0.1, 10),
    st.sampled_from([-1.0, 1.0]),
    st.floats(-2, 2),
    st.floats(-2, 2),
)
def test_what_was_put_in_comes_out(p, amplitude, sign, logarithm, plain) -> None:
    first = logarithm * np.log(LAYERS) / LAYERS + plain / LAYERS
    values = sign * amplitude * LAYERS**-p * (1 + first)
    fit = fit_scaling(values)
    assert fit.exponent == pytest.approx(p, abs=2e-6)
    assert fit.amplitude == pytest.approx(sign * amplitude, rel=2e-5)
    assert fit.corrections[1, 1] == pytest.approx(logarithm, abs=0.02)
    assert fit.corrections[1, 0] == pytest.approx(plain, abs=0.1)
    assert fit.residual < 1e-6
    known = fit_scaling(values, exponent=p)
    assert known.exponent == p
    assert known.exponent_error == 0
    assert known.amplitude == pytest.approx(sign * amplitude, rel=2e-6)


@pytest.mark.covers("C17")
def test_the_error_bar_covers_what_is_left_out() -> None:
    values = (1 + np.log(LAYERS) ** 3 / LAYERS) / LAYERS
    for orders in (1, 2):
        fit = fit_scaling(values, orders=orders)
        assert abs(fit.exponent - 1) < 3 * fit.exponent_error
        assert abs(fit.amplitude - 1) < 3 * fit.amplitude_error


def test_some_layers_only() -> None:
    layers = np.unique(np.geomspace(1, 1e6, 300).astype(int)).astype(float)
    fit = fit_scaling(2.5 * layers**0.5, layers, orders=3)
    assert fit.exponent == pytest.approx(-0.5, abs=1e-9)
    assert fit.amplitude == pytest.approx(2.5, rel=1e-8)


@pytest.mark.covers("A3.9", "C17")
@pytest.mark.parametrize("name", ["tanh", "sin", "relu", "linear", "leaky_relu(0.5)"])
def test_scaling_laws(name: str) -> None:
    """Every normalised exponent is -1 but that of U: PDLT (5.129), (9.27), (11.65), (∞.38)."""
    record = asymptotics(name)
    normalised = normalised_exponents(record.exponents)
    assert {"V", "D", "F", "B", "A", "Q"} <= set(normalised)
    for observable, p in normalised.items():
        if observable == "U":
            assert relevance(p) == "irrelevant"
            assert p == 1
        else:
            assert p == -1, observable
            assert relevance(p) == "relevant"


@pytest.mark.covers("C31")
def test_laws_hold_for_an_even_part_too() -> None:
    record = asymptotics(lambda z: __import__("jax").numpy.tanh(z) + 0.2 * z**2)
    normalised = normalised_exponents(record.exponents)
    assert normalised.pop("U") == pytest.approx(0)
    assert list(normalised.values()) == pytest.approx([-1] * len(normalised))


def test_only_ratios_whose_parts_are_known() -> None:
    assert normalised_exponents({"V": 1.0}) == {}
    assert normalised_exponents({"V": 1.0, "K": 1.0, "B": 2.0}) == {"V": -1.0}
    assert relevance(0.02, tolerance=0.05) == "marginal"
    assert relevance(0.06, tolerance=0.05) == "irrelevant"


def test_messages() -> None:
    with pytest.raises(ValueError, match="`orders` must be 1, 2 or 3; got 4"):
        fit_scaling(1 / LAYERS, orders=4)
    with pytest.raises(ValueError, match="needs at least 40 layers from `first` = 100 on; got 1"):
        fit_scaling(1 / LAYERS[:100])
    with pytest.raises(ValueError, match="must be finite and of one sign"):
        fit_scaling(1 / LAYERS - 1e-3)
    with pytest.raises(ValueError, match="must be finite and of one sign"):
        fit_scaling(np.where(LAYERS == 300, np.nan, LAYERS))
    late = np.where(LAYERS < 50, np.nan, 1 / LAYERS)
    assert fit_scaling(late).exponent == pytest.approx(1.0, abs=1e-6)
    with pytest.raises(ValueError, match="`exponent` must be a finite number; got nan"):
        relevance(float("nan"))
