"""Golden tests: the NTK's fluctuations, dNTK and ddNTK against printed forms and exact values.

Tables are computed values for the recursions of PDLT ch. 8, 11, ∞; digits quoted are digits trusted.
"""

from dataclasses import fields
from functools import cache

import jax
import numpy as np
import pytest
import xarray as xr

import scalewise as sw
from grids import thorough
from networks import net
from printed_recursions import (
    Layer,
    Tensors,
    next_layer,
    next_ntk_nlo,
    next_tensors,
    no_tensors,
)
from scalewise.theory.flow._layer import LayerExpectations
from scalewise.theory.order._jets import TENSORS, standard
from scalewise.theory.order._terms import wanted

NAME_OF = {
    **{x: f"ntk_{x}" for x in "DFAB"},
    **{x: f"dntk_{x}" for x in "PQ"},
    **{x: f"ddntk_{x}" for x in "RSTU"},
}
ALL = [*NAME_OF.values(), "ntk_nlo"]
NO_CURVATURE = ["ntk_A", "ntk_B", "ntk_D", "ntk_F", "ntk_nlo", "dntk_P", "dntk_Q"]
WIDTHS = (40, 100, 30)
BIAS = (0.1, 0.2, 0.05, 0.4)
C_W = (1.0, 1.3, 0.7, 1.8)
LAMBDA_B = (0.3, 0.9, 0.0, 0.6)
LAMBDA_W = (0.8, 1.2, 0.5, 1.7)


@pytest.mark.covers("B11", "C13", "C29")
@pytest.mark.parametrize("name", ["gelu", *thorough("tanh", "sin", "softplus", "quadratic")])
def test_unequal_widths_and_rates_of_its_own_in_each_layer(name: str) -> None:
    x = np.array([[0.7, -0.3, 0.4], [0.3, 0.6, -0.5]])
    rates = {"C_b": BIAS, "C_W": C_W, "lambda_b": LAMBDA_B, "lambda_W": LAMBDA_W}
    network = net(4, name, features=3, width=WIDTHS, **rates)
    flow = sw.predict(network, x, observables=["ntk", *ALL])
    sigma = sw.activation(name)
    gram = x @ x.T / 3
    here = Layer(BIAS[0] + C_W[0] * gram, np.zeros((2,) * 4), np.zeros((2, 2)))
    tensors = no_tensors(LAMBDA_B[0] + LAMBDA_W[0] * gram)
    nlo = np.zeros((2, 2))
    for layer in range(1, 4):
        r = WIDTHS[layer - 1] / WIDTHS[layer - 2] if layer > 1 else 1.0
        own = (C_W[layer], LAMBDA_B[layer], LAMBDA_W[layer], r)
        nlo = next_ntk_nlo(here, tensors, nlo, sigma.derivatives, own)
        tensors = next_tensors(here, tensors, sigma.derivatives, own)
        here = next_layer(here, sigma, BIAS[layer], C_W[layer], r)
        got = flow.sel(layer=layer + 1)
        np.testing.assert_allclose(got.ntk, tensors.H, rtol=1e-8)
        np.testing.assert_allclose(got.ntk_nlo, nlo, rtol=1e-5, atol=1e-9)
        for field in fields(Tensors)[1:]:
            want = getattr(tensors, field.name)
            # The oracle's own rule, 80 nodes an axis, is what limits the agreement.
            np.testing.assert_allclose(
                got[NAME_OF[field.name]],
                want,
                atol=3e-6 * max(np.abs(want).max(), 1e-9),
                err_msg=f"{field.name} of layer {layer + 1}",
            )


TABLE = {  # 0000 0001 0011 0101 0110 1100 0111 1000 1111
    ("tanh", 3, "ntk_D"): "-.032881 -.007447 -.008836 .062680 .062680 -.008055 -.021604 -.018872 -.039574",
    ("tanh", 3, "ntk_F"): ".101672 .084810 .030339 .190357 .026354 .030339 .049330 .050123 .106655",
    ("tanh", 3, "ntk_B"): ".754714 .464183 .317320 .653831 .314692 .317320 .482007 .464183 .809326",
    ("tanh", 3, "ntk_A"): ".025609 .008454 .005160 .136229 .136229 .005160 .010485 .008454 .031986",
    ("relu", 4, "ntk_D"): "18.260304 9.405901 9.902784 9.542757 9.542757 10.167113 14.168252 11.925641 26.309540",
    ("relu", 4, "ntk_F"): "10.455898 5.058330 4.621464 9.529277 4.714473 4.621464 9.357071 8.270230 14.152680",
    ("relu", 4, "ntk_B"): "17.309685 6.450796 4.253943 11.675803 3.379548 4.253943 7.277290 6.450796 22.018564",
    ("relu", 4, "ntk_A"): "26.98176 12.230978 13.507436 10.230427 10.230427 13.507436 14.383197 12.230978 37.54167",
}  # fmt: skip


@cache
def of_the_table(name: str, layer: int) -> xr.Dataset:
    x = np.array([[1.0, 0.5, -0.3], [0.2, 1.0, 0.8]])
    rates = {"lambda_b": (0.3, 0.5, 0.2, 0.4), "lambda_W": (0.7, 1.1, 0.9, 0.6)}
    network = net(4, name, features=3, C_b=0.1, C_W=2.0 if name == "relu" else 1.0, **rates)
    return sw.predict(network, x, observables=[f"ntk_{x}" for x in "ABDF"], layers=layer)


@pytest.mark.covers("B11")
@pytest.mark.parametrize(("name", "layer", "tensor"), list(TABLE))
def test_two_inputs_by_the_table(name: str, layer: int, tensor: str) -> None:
    value = of_the_table(name, layer)[tensor].values[0]
    indices = ["0000", "0001", "0011", "0101", "0110", "1100", "0111", "1000", "1111"]
    for index, want in zip(indices, TABLE[name, layer, tensor].split(), strict=True):
        assert value[tuple(map(int, index))] == pytest.approx(float(want), abs=2e-6)


@pytest.mark.covers("B13")
def test_the_mean_ntk_beyond_infinite_width() -> None:
    rates = {"lambda_b": (0.3, 0.5, 0.2), "lambda_W": (0.7, 1.1, 0.9)}
    network = net(3, "tanh", features=3, C_b=0.1, **rates)
    x = np.array([[1.0, 0.5, -0.3]])
    flow = sw.predict(network, x, observables=["metric_nlo", "ntk_nlo"], layers=3)
    assert float(flow.metric_nlo.squeeze()) == pytest.approx(-0.022360, abs=6e-7)
    assert float(flow.ntk_nlo.squeeze()) == pytest.approx(-0.034638, abs=6e-7)


TOWER = {  # K, Theta, F, B, P, Q, R, S, T, U of one input, at layer 5
    "tanh": "1.6367424 .1763037 3.6572747 -1.1541195 -.45697492 -16.947078 9.910773 1.7155131 1.8349301",
    "sin": "2.1061312 .35376723 6.5566141 -1.9985551 -.67005345 -25.588879 16.691571 1.8192577 2.3063786",
}


@pytest.mark.covers("C13", "C29")
@pytest.mark.parametrize("name", list(TOWER))
def test_one_input_by_the_table(name: str) -> None:
    depth = 5
    rates = {"lambda_b": [1 / n for n in range(1, depth + 1)], "lambda_W": 1.0}
    network = net(depth, name, features=1, **rates)
    flow = sw.predict(network, np.ones((1, 1)), observables=["ntk", *NAME_OF.values()], layers=5)
    names = ["ntk", "ntk_F", "ntk_B", "dntk_P", "dntk_Q", *(f"ddntk_{x}" for x in "RSTU")]
    for variable, want in zip(names, TOWER[name].split(), strict=True):
        assert float(flow[variable].squeeze()) == pytest.approx(float(want), rel=1e-7)


@pytest.mark.covers("B14", "C15")
@pytest.mark.parametrize(("name", "plus", "minus"), [("relu", 1.0, 0.0), ("linear", 1.0, 1.0)])
def test_scale_invariant_networks_are_known_in_closed_form(name, plus, minus) -> None:
    # PDLT (9.44)-(9.52), (11.74), (11.79) with rates divided by L; A with its exact lower orders.
    A2, A4 = (plus**2 + minus**2) / 2, (plus**4 + minus**4) / 2
    depth, a = 6, A4 / A2**2
    rates = {"lambda_b": 0.7 / depth, "lambda_W": 0.4 / depth}
    network = net(depth, name, features=2, **rates).at_criticality()
    x = np.array([[1.1, -0.6]])
    K = np.sum(x * x) / 2 / A2
    u, w = 0.7 / depth, 0.4 / depth * A2 * K
    flow = sw.predict(network, x, observables=NO_CURVATURE)
    ell = np.arange(1.0, depth + 1)
    pairs, squares = ell * (ell - 1) / 2, ell * (ell - 1) * (2 * ell - 1) / 6
    polynomial = (a - 1) * u * u + 3 * (a - 1) * u * w + (5 * a - 3) * w * w
    want = {
        "ntk_D": pairs * K * (u * (a - 1) + w * (4 * a - 2)),
        "ntk_F": pairs * a * (u + w) * K,
        "ntk_B": squares * a * (u + w) ** 2,
        "ntk_A": squares * polynomial + pairs * (a - 1) * w * (u + w),
        "dntk_P": 0 * ell,
        "dntk_Q": ell * (ell**2 - 1) / 6 * A4 / A2 * (u + w) * 0.4 / depth * K,
        "ntk_nlo": 0 * ell,
    }
    for variable, values in want.items():
        np.testing.assert_allclose(
            flow[variable].values.ravel(), values, rtol=1e-9, atol=1e-12, err_msg=variable
        )


def test_a_piecewise_linear_network_bends_nowhere() -> None:
    # In (11.49) every source has a second derivative; the delta of a kink is none that autodiff sees.
    assert not np.any(several("relu", 3, "dntk_P").dntk_P)


@pytest.mark.covers("C32")
def test_ddntk_of_deep_linear_networks() -> None:
    # PDLT (∞.46)-(∞.48): R = U = 0.
    depth = 7
    rates = {"lambda_b": 0.7 / depth, "lambda_W": 0.4 / depth}
    network = net(depth, "linear", features=1, **rates)
    x = np.sqrt([[1.3]])
    flow = sw.predict(network, x, observables=[f"ddntk_{t}" for t in "RSTU"])
    ell = np.arange(1.0, depth + 1)
    common = ell**2 * (ell**2 - 1) / (12 * depth**3)
    theta = 0.7 + 0.4 * 1.3
    np.testing.assert_allclose(flow.ddntk_S.values.ravel(), common * theta**2 * 0.4, atol=1e-12)
    np.testing.assert_allclose(
        flow.ddntk_T.values.ravel(), common * theta * 0.4**2 * 1.3, atol=1e-12
    )
    assert not np.any(np.abs(flow.ddntk_R.values) > 1e-14)
    assert not np.any(np.abs(flow.ddntk_U.values) > 1e-14)


SETTING = {"C_b": 0.1, "lambda_b": (0.3, 0.5, 0.2, 0.4), "lambda_W": (0.7, 1.1, 0.9, 0.6)}


def several(name: str, count: int, observables: object, **rest: object) -> xr.Dataset:
    x = np.random.default_rng(3).normal(size=(count, 3))
    network = net(4, name, features=3, **{**SETTING, **rest})
    return sw.predict(network, x, observables=observables)


@pytest.mark.covers("B11", "C13", "C29")
@pytest.mark.parametrize(
    ("name", "count"), [("tanh", 3), ("relu", 4), *thorough(("gelu", 4), ("sin", 6))]
)
def test_symmetries_of_every_tensor(name: str, count: int) -> None:
    smooth = sw.activation(name).is_smooth
    flow = several(name, count, "all")
    same = {
        "ntk_A": ["bacd", "abdc", "cdab"],
        "ntk_B": ["badc", "cdab"],
        "ntk_D": ["bacd", "abdc"],
        "ntk_F": ["cdab"],
        "dntk_P": ["acbd"],
        **({"ddntk_R": ["abdc"], "ddntk_S": ["badc"], "ddntk_T": ["dcba"]} if smooth else {}),
        **({"ddntk_U": ["cdab"]} if smooth else {}),
    }
    for tensor, orders in same.items():
        value, error = flow[tensor].values, flow[f"{tensor}_error"].values
        for order in orders:
            turned = np.einsum(f"labcd->l{order}", value)
            slack = 8 * np.hypot(error, np.einsum(f"labcd->l{order}", error))
            assert np.all(np.abs(value - turned) <= slack + 1e-9 * np.abs(value).max()), tensor


@pytest.mark.thorough("test_error_bars_cover_the_error")
@pytest.mark.parametrize(("name", "count"), [("gelu", 3), ("tanh", 6), ("relu", 5)])
def test_a_restriction_to_fewer_inputs_changes_nothing(name: str, count: int) -> None:
    names = ["four_point_vertex", *(ALL if sw.activation(name).is_smooth else NO_CURVATURE)]
    x = np.random.default_rng(3).normal(size=(count, 3))
    network = net(4, name, features=3, **SETTING)
    all_of_them = sw.predict(network, x, observables=names)
    two = sw.predict(network, x[[2, 0]], observables=names)
    for variable in names:
        value = all_of_them[variable].values
        legs = value.ndim - 1
        sub = value[np.ix_(range(4), *([2, 0],) * legs)]
        error = all_of_them[f"{variable}_error"].values[np.ix_(range(4), *([2, 0],) * legs)]
        # Entries of two inputs are exact in their own source, and see nothing of the others.
        atol = 1e-8 * max(np.abs(value).max(), 1e-12)
        np.testing.assert_allclose(sub, two[variable].values, atol=atol, err_msg=variable)
        assert error.max() <= atol


@pytest.mark.covers("B13")
@pytest.mark.parametrize("name", ["gelu", "relu", *thorough("tanh")])
def test_coincident_inputs_are_one_input(name: str) -> None:
    names = ALL if sw.activation(name).is_smooth else NO_CURVATURE
    network = net(4, name, features=2, **SETTING)
    x = np.array([[0.8, -0.5]])
    one = sw.predict(network, x, observables=names)
    twice = sw.predict(network, np.repeat(x, 2, axis=0), observables=names)
    for variable in names:
        want = one[variable].values.reshape(4, *[1] * (one[variable].ndim - 1))
        scale = max(np.abs(want).max(), 1e-12)
        np.testing.assert_allclose(
            twice[variable].values, want * np.ones_like(twice[variable].values), atol=1e-7 * scale
        )


@pytest.mark.covers("C55")
def test_training_only_the_last_layer_makes_the_ntk_the_metric() -> None:
    rates = {"lambda_b": (0, 0, 0, 0.1), "lambda_W": (0, 0, 0, 1.0), "C_W": 1.0}
    flow = several("gelu", 2, "all", **rates).sel(layer=4)
    for tensor in ("ntk_A", "ntk_D"):
        np.testing.assert_allclose(
            flow[tensor], flow.four_point_vertex, atol=4 * float(flow.ntk_A_error.max()) + 1e-9
        )
    for tensor in ("ntk_B", "ntk_F", *(f"dntk_{t}" for t in "PQ"), *(f"ddntk_{t}" for t in "RSTU")):
        assert not np.any(flow[tensor]), tensor
    np.testing.assert_allclose(flow.ntk_nlo, flow.metric_nlo, rtol=1e-8)


def test_rates_times_c_times_powers_of_c() -> None:
    one = several("sin", 2, "all")
    rates = {k: tuple(3 * v for v in SETTING[k]) for k in ("lambda_b", "lambda_W")}
    three = several("sin", 2, "all", **rates)
    powers = {
        "ntk_nlo": 1,
        "ntk_D": 1,
        "ntk_F": 1,
        "ntk_A": 2,
        "ntk_B": 2,
        "dntk_P": 2,
        "dntk_Q": 2,
    }
    for tensor, power in {**powers, **{f"ddntk_{t}": 3 for t in "RSTU"}}.items():
        np.testing.assert_allclose(three[tensor], 3**power * one[tensor], rtol=1e-9, atol=1e-14)


def test_error_bars_cover_the_error() -> None:
    # Seven inputs are sampled; any three of them are cubed to many digits.
    x = np.random.default_rng(5).normal(size=(7, 3))
    network = net(3, "gelu", features=3, C_b=0.5, lambda_b=0.5, lambda_W=0.5)
    names = list(NAME_OF.values())
    sampled = sw.predict(network, x, observables=names, layers=3)
    cubed = sw.predict(network, x[[4, 1, 6]], observables=names, layers=3)
    place = np.ix_([0], *([4, 1, 6],) * 4)
    for tensor in names:
        difference = np.abs(sampled[tensor].values[place] - cubed[tensor].values)
        error = sampled[f"{tensor}_error"].values[place]
        slack = 5 * cubed[f"{tensor}_error"].values + 1e-9 * np.abs(cubed[tensor].values).max()
        assert np.all(difference <= error + slack), tensor
        assert error.max() < 2e-2 * np.abs(cubed[tensor].values).max(), tensor


@pytest.mark.covers("C33")
def test_what_does_not_exist_is_refused() -> None:
    x = np.eye(3)
    with pytest.raises(
        ValueError, match=r"'ddntk_R' does not exist for 'relu': it takes three derivatives"
    ):
        sw.predict(net(3, "relu", features=3), x, observables="ddntk_R")
    with pytest.raises(ValueError, match=r"'ntk_A' does not exist for 'perceptron'.*jumps"):
        sw.predict(net(3, "perceptron", features=3), x, observables="ntk_A")
    bent = sw.activation(jax.nn.selu, kinks=(0.0,), name="selu")
    with pytest.raises(ValueError, match=r"'dntk_P' does not exist for 'selu'"):
        sw.predict(net(3, bent, features=3), x, observables="dntk_P")
    with pytest.raises(ValueError, match=r"takes \d+ GiB\. Leave it out .* for fewer inputs"):
        sw.predict(net(3, "tanh", features=3), np.ones((100, 3)), observables="ntk_B")


def test_the_tensors_of_the_literature_are_all_that_their_recursions_need() -> None:
    """Thirteen components answer to one another alone, each to those that PDLT has in its recursion."""
    every = wanted(tuple(TENSORS))
    assert (len(every.covariances), len(every.shifts)) == (11, 2)
    needs = {"V": "V", "D": "VD", "A": "VDA", "F": "F", "B": "B", "P": "BP", "Q": "FQ"}
    needs |= {"R": "BPR", "S": "BS", "T": "FQT", "U": "U"}
    names = {
        standard(tensor.first, tensor.second).pairs: name
        for name, tensor in TENSORS.items()
        if tensor.second is not None
    }
    for name, needed in needs.items():
        assert {names[pairs] for pairs in wanted((name,)).covariances} == set(needed), name
    assert {names[pairs] for pairs in wanted(("H1",)).covariances} == set("VDF")
    assert [wanted((x,)).has_tangents for x in ("V", "G1", "F")] == [False, False, True]


def test_all_means_all_that_exists() -> None:
    assert {"ddntk_U", "ntk_nlo", "dntk_Q"} <= set(several("sin", 1, "all").data_vars)
    kinked = set(several("relu", 1, "all").data_vars)
    assert "dntk_P" in kinked
    assert not kinked & {"ddntk_R", "ddntk_S", "ddntk_T", "ddntk_U"}


def test_a_source_whose_entries_are_wrong_alike_is_smooth_in_the_inputs() -> None:
    """Inputs that nearly coincide have entries that nearly do, whatever is wrong with the nodes."""
    sigma, apart = sw.activation("tanh"), 1e-5
    x = np.random.default_rng(2).standard_normal((5, 4))
    x = np.concatenate([x, x[:1] + apart * x[1:2]])
    steps = {}
    for alike in (False, True):
        layer = LayerExpectations(sigma, 0.1 + 3.0 * x @ x.T, alike=alike)
        found = layer.covariance((0, 0, 0, 0))
        steps[alike] = np.abs(found[:, 0] - found[:, 5]).max() / np.abs(found).max()
    assert steps[True] < 10 * apart
    assert steps[False] > 100 * apart
