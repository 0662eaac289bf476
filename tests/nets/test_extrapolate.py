"""Golden and property tests: what is left when the next order in 1/n is extrapolated away."""

import numpy as np
import pytest

import scalewise as sw
from scalewise.nets import measure
from scalewise.nets._extrapolate import fit


@pytest.mark.parametrize("count", [2, 3, 5])
def test_the_fit_is_a_weighted_polynomial_fit_with_its_error(count):
    rng = np.random.default_rng(count)
    epsilon = 1 / np.array([8.0, 16.0, 32.0, 64.0, 128.0])[:count]
    y, s = rng.standard_normal((count, 3, 2)), rng.uniform(0.5, 2.0, (count, 3, 2))
    coefficients, errors = fit(y, s, epsilon)
    order = min(count - 1, 2)
    for i in np.ndindex(3, 2):
        at = (slice(None), *i)
        design = np.vander(epsilon, order + 1, increasing=True)
        covariance = np.linalg.inv(design.T @ np.diag(s[at] ** -2.0) @ design)
        expected = covariance @ design.T @ (y[at] / s[at] ** 2)
        # The 1/n design has a condition number near 1e5 with five widths.
        np.testing.assert_allclose(coefficients[at], expected, rtol=1e-8, atol=1e-10)
        np.testing.assert_allclose(errors[at], np.sqrt(np.diag(covariance)), rtol=1e-8)


def test_entries_without_error_are_fitted_too():
    epsilon = np.array([0.1, 0.05])
    y = np.stack([2.0 + 3.0 * epsilon, 5.0 + 0 * epsilon], axis=1)
    s = np.array([[0.0, 0.0], [0.0, 0.3]])
    coefficients, errors = fit(y, s, epsilon)
    np.testing.assert_allclose(coefficients, [[2.0, 5.0], [3.0, 0.0]], atol=1e-12)
    assert np.all(errors[:, 0] == 0)
    assert np.all(errors[:, 1] > 0)


@pytest.mark.optimised
@pytest.mark.thorough(
    "tests/agreement/test_theory_against_ensembles.py::test_leading_coefficients_over_widths"
)
def test_two_inputs_of_tanh_reach_the_recursions_of_infinite_width():
    # Iterated (4.118), (4.119), (4.115) with a 120-node rule, trusted to eight digits: C_W = 1,
    # C_b = 0, K^(1) = ((1, .5), (.5, .8)), layer 4.
    K1 = np.array([[1.0, 0.5], [0.5, 0.8]])
    x = np.linalg.cholesky(K1) * np.sqrt(2)
    net = sw.MLP(4, 16, "tanh", input_dim=2, output_dim=1)
    names = ["kernel", "metric_nlo", "four_point_vertex"]
    result = measure(net, x, networks=150_000, widths=[10, 20, 40], observables=names)
    K = [0.1666563538, 0.0840510991, 0.1583436565]
    G1 = [-0.0526824673, -0.0332203109, -0.0533338891]
    V = [0.0501465965, 0.0304820429, 0.0124313205, 0.0659390556, 0.0302475375, 0.0477098835]
    pairs = [(0, 0), (0, 1), (1, 1)]
    quads = [(*pairs[i], *pairs[j]) for i in range(3) for j in range(i, 3)]
    # What the parabola leaves is cubic: c/(10 20 40), with c of order 10 times the leading term.
    cases = [("kernel", pairs, K), ("metric_nlo", pairs, G1), ("four_point_vertex", quads, V)]
    for name, entries, exact in cases:
        for entry, value in zip(entries, exact, strict=True):
            got, sem = (float(result[n].values[(3, *entry)]) for n in (name, f"{name}_sem"))
            assert abs(got - value) < 4 * sem + 10 / 8000 * abs(value), (name, entry, got, sem)
            assert sem < (0.6 if name == "metric_nlo" else 0.045) * abs(value), (name, entry, sem)
    assert result.attrs["extrapolated"] == 1
    assert result.attrs["extrapolation_degree"] == 2
    assert result.attrs["widths"] == [10, 20, 40]
    assert np.all(result.metric_nlo.values[0] == 0)


def test_the_slope_of_a_network_without_one_is_zero_within_its_error():
    net = sw.MLP(3, [4, 8], "linear", input_dim=2, output_dim=1)
    result = measure(net, np.eye(2), networks=5000, widths=[8, 4])
    assert np.all(np.abs(result.metric_nlo) <= 4 * result.metric_nlo_sem + 1e-12)
    assert result.attrs["extrapolation_degree"] == 1
    # Layer 3 of the unequal network: V = n_2 ((1 + 2/n_1)(1 + 2/n_2) - 1) -> 2 (n_2/n_1 + 1) = 6
    # for a single input; the curvature that a straight line leaves at widths 4 and 8 is 4/n_1.
    V, sem = (float(result[f"four_point_vertex{s}"].values[2, 0, 0, 0, 0]) for s in ("", "_sem"))
    assert abs(V / 0.25 - 6) < 4 * sem / 0.25 + 1e-12
    np.testing.assert_allclose(result.ntk.values[2, 0, 1], 0.0 + 3, atol=4 * 0.1)


def test_a_network_of_one_layer_has_nothing_to_extrapolate():
    net = sw.MLP(1, 1, "tanh", input_dim=2, output_dim=3, C_b=0.1)
    result = measure(net, np.eye(2), networks=10, widths=[4, 8])
    np.testing.assert_allclose(result.kernel.values[0], 0.1 + 0.5 * np.eye(2))
    assert np.all(result.metric_nlo == 0)
    assert np.all(result.kernel_sem == 0)


@pytest.mark.parametrize("widths", [[8], [8, 8], [8, 0], [True, 4]])
def test_widths_that_do_not_span_a_line_are_refused(widths):
    net = sw.MLP(3, 8, "tanh", input_dim=2, output_dim=1)
    with pytest.raises(
        ValueError,
        match=r"`widths` must be (two or more different numbers|a sequence of values, each a whole)",
    ):
        measure(net, np.eye(2), networks=10, widths=widths)


def test_widths_keep_the_ratios_of_the_network():
    net = sw.MLP(3, [8, 12], "tanh", input_dim=2, output_dim=1)
    with pytest.raises(ValueError, match=r"scales all hidden widths \(8, 12\) in proportion"):
        measure(net, np.eye(2), networks=10, widths=[5, 8])
