"""Golden tests: the numbers that the sources print, in the data of the figures that show them."""

import math

import numpy as np
import pytest

import scalewise as sw
from scalewise.experiments import (
    critical_loci,
    deep_angles,
    equivalent_rates,
    network_diagram,
    one_step,
    optimal_aspect_ratio,
    phase_diagram,
    residual_growth,
    six_point,
    stability_band,
    susceptibility_ratios,
    universality_classes,
)
from scalewise.nets import Parameters, empirical_ntk
from scalewise.scaling import shallow
from scalewise.theory.single import single_input_flow

pytestmark = pytest.mark.optimised


def test_the_network_of_the_figure_has_91_parameters() -> None:
    """PDLT figure 2.1."""
    dataset = network_diagram.run(network_diagram.Config())
    assert int(dataset.parameters) == 91
    np.testing.assert_array_equal(dataset.weights, [20, 25, 25, 5])


def test_loci_of_tanh() -> None:
    """PDLT figure 5.1 left, by (5.71) and (5.72)."""
    dataset = critical_loci.run(critical_loci.Config.small())
    solid = [(1.1775691, 0.00083228), (1.6879751, 0.03804120), (2.1533026, 0.15096463),
             (2.8611624, 0.51226495)]  # fmt: skip
    broken = [(1.3965523, -0.01760916), (3.0804301, -0.34304073), (5.50062, -1.1688642),
              (11.302451, -3.8770004)]  # fmt: skip
    for k, curve in enumerate((solid, broken)):
        for j, (C_W, C_b) in enumerate(curve):
            assert float(dataset.marked_C_W[k, j]) == pytest.approx(C_W, rel=1e-7)
            assert float(dataset.marked_C_b[k, j]) == pytest.approx(C_b, abs=6e-8)
    np.testing.assert_allclose(dataset.C_W[:, 0], 1, rtol=1e-12)
    np.testing.assert_allclose(dataset.C_b[:, 0], 0, atol=1e-12)


RATIOS = {
    "tanh": (1.019809, 1.185962, 2.554504, 1.824926, 8.017319, 68.08621),
    "sigmoid": (1.004988, 1.048877, 1.43714, 1.229478, 2.908473, 18.05907),
    "softplus": (0.5913859, 0.5980466, 0.6472044, 0.6230501, 0.7429416, 0.8927494),
    "swish": (0.9951579, 0.9626025, 0.9096364, 0.9147906, 0.9615912, 1.014122),
    "gelu": (0.9881444, 0.9296961, 0.9370388, 0.9092645, 1.009623, 1.014148),
}


def test_ratios_and_where_they_are_one() -> None:
    """PDLT figures 5.1 right, 5.2, 5.3; (5.101), (5.105)."""
    low, high = (
        susceptibility_ratios.run(susceptibility_ratios.Config(smallest=a, largest=b, count=3))
        for a, b in ((0.01, 1.0), (0.5, 50.0))
    )
    for name, expected in RATIOS.items():
        found = np.append(low.ratio.sel(activation=name), high.ratio.sel(activation=name))
        np.testing.assert_allclose(found, expected, rtol=6e-7)
    np.testing.assert_allclose(low.critical_K[:3], np.nan)
    np.testing.assert_allclose(low.critical_K[3:], [14.3201736180258, 3.56155281280883], rtol=1e-9)
    assert float(low.limit.sel(activation="softplus")) == pytest.approx(0.590616, abs=5e-7)


@pytest.fixture(scope="module")
def classes():
    return universality_classes.run(universality_classes.Config.small())


def test_table_of_classes(classes) -> None:
    """PDLT (5.67), (5.90), (5.101), (5.105), sections 5.3.2 and 5.3.3."""
    points = {
        "linear": ("scale-invariant", 0.0, 1.0),
        "relu": ("scale-invariant", 0.0, 2.0),
        "tanh": ("K*=0", 0.0, 1.0),
        "sin": ("K*=0", 0.0, 1.0),
        "erf": ("K*=0", 0.0, math.pi / 4),
        "swish": ("half-stable", 0.55514317072153, 1.9880046782695),
        "gelu": ("half-stable", 0.172922390756, 1.98305825744),
    }
    for name, (universality, C_b, C_W) in points.items():
        one = classes.sel(activation=name)
        assert str(one.universality.values) == universality
        assert float(one.C_b) == pytest.approx(C_b, abs=1e-9)
        assert float(one.C_W) == pytest.approx(C_W, rel=1e-9)
    for name in ("sigmoid", "softplus", "perceptron", "quadratic", "exp"):
        one = classes.sel(activation=name)
        assert str(one.universality.values) == "none"
        assert np.isnan(one.C_W)
    rows = {row[0]: row[1:] for row in universality_classes.tables(classes)[0].rows}
    assert rows["relu"] == ("scale-invariant", "line", "any", "0", "2")
    assert rows["gelu"][2:] == ("3.5616", "0.17292", "1.9831")


def test_table_of_exponents(classes) -> None:
    """PDLT (5.129), (9.53), (9.72), (11.81), (11.102): K, V, Theta, D, F, B, A, Q."""
    expected = {"relu": (0, -1, -1, -2, -2, -3, -3, -3), "tanh": (1, 1, 0, 0, 0, -1, -1, -1)}
    for name, row in expected.items():
        one = classes.sel(deep=name)
        np.testing.assert_allclose(one.exponent, row, atol=0.005)
        np.testing.assert_allclose(one.exponent_predicted, row, atol=1e-12)


def test_table_of_optimal_aspect_ratios() -> None:
    """PDLT (A.72)-(A.74)."""
    dataset = optimal_aspect_ratio.run(optimal_aspect_ratio.Config.small())
    np.testing.assert_allclose(dataset.nu, [2 / 3, 2, 5], rtol=1e-12)
    expected = [[0.2307692, 0.12, 0.01875], [0.0769231, 0.04, 0.00625], [0.0307692, 0.016, 0.0025]]
    np.testing.assert_allclose(dataset.r_star, expected, rtol=5e-6)
    np.testing.assert_allclose(dataset.r_maximum, expected, rtol=5e-6)
    information = [9.861933e-4, 6.666667e-3, 0.01627604]
    np.testing.assert_allclose(dataset.information, information, rtol=1e-6)
    np.testing.assert_allclose(dataset.information_maximum, information, rtol=1e-6)


def test_table_of_residual_networks() -> None:
    """PDLT (B.20), (B.21), (B.29), (B.35), (B.36) as printed; ReLU with its whole memory besides."""
    config = residual_growth.Config(
        squares=(0.0, 0.25, 0.5, 0.75, 0.9),
        depth=3,
        width=4,
        measured_depth=3,
        networks=10,
        count=6,
    )
    dataset = residual_growth.run(config)
    printed = {
        "linear": (2, 1.875, 1.5, 0.875, 0.38),
        "relu": (5, 3.5625, 2.25, 1.0625, 0.41),
        "tanh": (2 / 3, 0.625, 0.5, 0.2916667, 0.1266667),
    }
    for name, row in printed.items():
        one = dataset.sel(activation=name)
        np.testing.assert_allclose(one.nu_printed, row, rtol=4e-7)
        if name != "relu":
            np.testing.assert_allclose(one.nu, row, rtol=4e-7)
        slope = 2 if name == "relu" else 1
        np.testing.assert_allclose(one.C_W, slope * (1 - one.square), rtol=1e-12)
    assert float(dataset.nu.sel(activation="relu", square=0.5)) == pytest.approx(5.442478, abs=5e-7)
    assert float(dataset.r_star.sel(activation="tanh", square=0.5)) == pytest.approx(0.16)
    twice = dataset.sel(relative_r=2.0) ** 2
    assert float(twice.gamma_star_printed.sel(activation="relu")) == pytest.approx(
        0.4504902, abs=5e-8
    )
    for name in ("linear", "tanh"):
        assert float(twice.gamma_star.sel(activation=name) ** 2) == pytest.approx(0.5, abs=1e-9)
    rows = {row[0]: row[1:] for row in residual_growth.tables(dataset)[0].rows}
    assert rows["relu: ν printed"] == ("5", "3.5625", "2.25", "1.0625", "0.41")


def test_angles_and_crossovers_of_relu() -> None:
    """PDLT (5.162), (5.163), (5.169)."""
    dataset = deep_angles.run(deep_angles.Config.small())
    found = dataset.psi.sel(layer=[10, 100])
    np.testing.assert_allclose(found[0], [0.545613197126, 0.0853822318201], rtol=1e-11)
    np.testing.assert_allclose(found[2], [0.0911547818205, 0.0484885822898], rtol=1e-11)
    np.testing.assert_allclose(dataset.crossover, 3 * math.pi / dataset.angle, rtol=1e-12)
    assert dataset.attrs["rho"] == pytest.approx(1 / math.pi)
    np.testing.assert_allclose(dataset.distance[0, -1] * 1000**2, 9 * math.pi**2 / 4, rtol=0.03)


def test_contributions_of_layers() -> None:
    """PDLT (9.28)-(9.30), (9.94), (9.95); the NTK of tanh at depth 2 and 10 by its recursion."""
    dataset = equivalent_rates.run(equivalent_rates.Config.small())
    uniform = dataset.sel(case="relu", rates="uniform")
    np.testing.assert_allclose(uniform.bias, 1, rtol=1e-12)
    np.testing.assert_allclose(uniform.weight, 0.5, rtol=1e-12)
    np.testing.assert_allclose(uniform.ntk, 1.5 * dataset.depth, rtol=1e-12)
    equal = dataset.sel(rates="equivalent")
    np.testing.assert_allclose(equal.ntk.sel(case="relu"), 1.5, rtol=1e-12)
    np.testing.assert_allclose(equal.ntk.sel(case="tanh")[:2], [1.8231003, 1.5539730], rtol=5e-8)


def test_six_point_vertex_of_relu() -> None:
    """PDLT (ε.20), solved."""
    dataset = six_point.run(six_point.Config(depth=6, width=8, networks=10))
    ell = dataset.layer.values
    np.testing.assert_allclose(dataset.recursion, (ell - 1) * (75 * ell - 106), rtol=1e-8)
    # One layer: n^2 times the third cumulant of a mean is that of one term, whatever n.
    assert float(dataset.exact[1]) == pytest.approx(44)


def test_limits_of_large_networks() -> None:
    """Yaida, section V."""
    dataset = phase_diagram.run(phase_diagram.Config.small())
    names = [dataset.attrs["limits"][k] for k in dataset.limit.sel(e=0.5).values]
    assert names == ["frozen_ntk"] * 4 + ["missing"] + ["unbounded"] * 4
    ends = [dataset.attrs["limits"][int(dataset.limit.sel(s=s, e=e))] for s, e in ((0, 1), (1, 0))]
    assert ends == ["infinite_width_and_depth", "mean_field"]
    np.testing.assert_allclose(dataset.depth.sel(s=0.5), 0.1 * np.sqrt([1e2, 1e3, 1e4]), rtol=1e-12)


@pytest.mark.parametrize("name", ["relu", "tanh"])
def test_the_step_is_a_step_of_gradient_descent(name: str) -> None:
    """NTK by another program, and the output moved by -eta H."""
    net = sw.MLP(3, 7, name, input_dim=1, output_dim=1, C_b=0.1, C_W=1.5, lambda_b=(0.3, 0.2, 0.7),
                 lambda_W=(1.1, 0.6, 0.9))  # fmt: skip
    drawn_W, drawn_b = one_step.drawn(net, 1, np.random.default_rng(0))
    W, b = [one[0] for one in drawn_W], [one[0, 0] for one in drawn_b]
    x = np.array([0.8])
    H, parts = one_step._sweep(net, W, b, x)
    ours = empirical_ntk(net, Parameters(weights=tuple(W), biases=tuple(b)), x[None])
    np.testing.assert_allclose(H, float(np.ravel(ours)[0]), rtol=1e-5)

    def output() -> float:
        z = W[0] @ x + b[0]
        for k in (1, 2):
            z = W[k] @ net.activation(z) + b[k]
        return float(z[0])

    before, eta = output(), 1e-7
    one_step._step(net, W, b, parts, eta)
    assert (output() - before) / eta == pytest.approx(-H, rel=1e-5)


def test_tensors_of_tanh_layer_by_layer() -> None:
    """The tower of tanh with rates 1/l and 1, eight digits, in the units of the figures."""
    net = sw.MLP(3, 9, "tanh", input_dim=1, output_dim=1).at_criticality()
    flow = single_input_flow(net.with_equivalent_learning_rates(), K1=1.0)
    expected = {"Theta": 1.7302683, "P": -0.69045436, "Q": -0.31284439, "R": -7.9543422,
                "S": 4.7441884, "T": 0.7826894, "U": 1.4663098}  # fmt: skip
    for letter, value in expected.items():
        assert getattr(flow, letter)[-1, 0] == pytest.approx(value, rel=1e-7)


@pytest.mark.covers("E21", "E22")
def test_the_band_has_its_regions_at_their_places_and_on_their_lines() -> None:
    """Golikov figure 1, left."""
    dataset = stability_band.run(stability_band.Config.small())
    at = dataset.number.sel(
        q_sigma=[-0.5, -1, -0.5, -0.25], q_tilde=[0, 1, 0.5, 1], method="nearest"
    )
    assert [int(at[k, k]) for k in range(4)] == [6, 12, 10, 0]
    (axis,) = stability_band.figure(dataset).axes
    places = {text.get_text().split()[0]: text.xy for text in axis.texts}
    lines = {line.get_label()[0]: line.get_xydata() for line in axis.lines}
    assert set(places) == {one.id for one in shallow.regions()}
    for one in shallow.regions():
        assert places[one.id] == tuple(map(float, one.representative))
        for number in one.satisfied:
            (x0, y0), (x1, y1) = np.asarray(lines[str(number)])
            x, y = places[one.id]
            assert (x - x0) * (y1 - y0) == pytest.approx((y - y0) * (x1 - x0), abs=1e-12)
