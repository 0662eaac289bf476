"""Property: a strategy changes every realisation of a network by powers of the width, exactly."""

import numpy as np
import pytest

import scalewise as sw
from grids import thorough
from scalewise.nets import sample_differentials
from scalewise.nets._differentials import SAMPLED
from scalewise.networks import apply_strategy
from scalewise.scaling import (
    Strategy,
    mean_field,
    meta,
    mup,
    ntk,
    observable_order,
    standard,
)
from scalewise.theory.exact import mean_shallow_differential

X = np.array([[1.0, 0.5]])
POWERS = {"z": 0, "ntk": 1, "dntk": 2, "z_dntk": 2, "ddntk_I": 3, "ddntk_II": 3}  # of eta


def network(depth: int, width: int) -> sw.Network:
    return sw.MLP(
        depth,
        width,
        "tanh",
        input_dim=2,
        output_dim=1,
        C_b=0.1,
        C_W=1.2,
        lambda_b=0.6,
        lambda_W=0.9,
    )


def observed(strategy: Strategy, width: int) -> dict[str, np.ndarray]:
    """z, eta H, eta² dH, eta³ dd of a few networks, the same seed for every strategy."""
    scaled = apply_strategy(network(strategy.depth, width), strategy)
    draws = sample_differentials(scaled.net, X, 4, seed=5, dtype="float64")
    return {name: scaled.eta ** POWERS[name] * draws[name] for name in SAMPLED}


@pytest.mark.covers("C61")
@pytest.mark.parametrize(
    ("s", "depth", "width"),
    [(0.25, 3, 9), *thorough((1, 2, 5), (0.25, 2, 5), (0.5, 2, 5), (0.5, 3, 9), (1, 3, 9))],
)
def test_the_family_is_a_scaled_output_and_nothing_else(s: float, depth: int, width: int) -> None:
    """z falls by n^{-s/2}; eta H stays; eta² dH grows by n^{s/2} and eta³ dd by n^s."""
    plain, scaled = observed(ntk(depth=depth), width), observed(meta(s, depth=depth), width)
    for name, power in zip(SAMPLED, (-s / 2, 0, s / 2, 0, s, s), strict=True):
        np.testing.assert_allclose(scaled[name], plain[name] * width**power, rtol=1e-11)


@pytest.mark.covers("C58")
@pytest.mark.parametrize("g", [-1, 0.5, 1])
def test_a_gauge_changes_no_observable(g: float) -> None:
    strategy = Strategy((0, 0.25, 0.5), (0.5, -1, 0.25), 0.75)
    one, other = observed(strategy, 9), observed(strategy.gauge(g), 9)
    for name in SAMPLED:
        np.testing.assert_allclose(other[name], one[name], rtol=1e-11)
    np.testing.assert_allclose(
        observed(mup(depth=3), 9)["ddntk_I"],
        observed(mean_field(depth=3), 9)["ddntk_I"],
        rtol=1e-11,
    )


STRATEGIES = {
    "ntk": ntk(depth=2),
    "meta": meta("1/4", depth=2),
    "mup": mup(depth=2),
    "standard": standard(depth=2),
    "slow readout": Strategy((0, 0), (0, 1), 0),
    "slow features": Strategy((0, "1/2"), (1, 0), "1/4"),
    "small output": Strategy((0, 1), (0, 0), 0),
}


@pytest.mark.covers("C62")
@pytest.mark.parametrize("name", STRATEGIES)
def test_predicted_powers_of_the_width_for_any_strategy(name: str) -> None:
    """Exact means at two widths no network ever had; the other powers have died out there."""
    strategy = STRATEGIES[name]
    widths = (10**10, 10**12)
    trees = {
        "eta_ntk": ((0,), None),
        "z_eta2_dntk": ((0, 0), (0, 0)),
        "eta3_ddntk_I": ((0, 0, 0), None),
        "eta3_ddntk_II": ((0, 0, 1), None),
    }
    for observable, (tree, z) in trees.items():
        logs = []
        for width in widths:
            scaled = apply_strategy(network(2, width), strategy)
            mean = mean_shallow_differential(scaled.net, X, tree, z=z).value
            logs.append(np.log(abs(mean * scaled.eta ** len(tree))))
        slope = (logs[1] - logs[0]) / np.log(widths[1] / widths[0])
        assert slope == pytest.approx(float(observable_order(strategy, observable).width), abs=1e-3)


@pytest.mark.covers("C61")
def test_reference_width_is_where_all_strategies_coincide() -> None:
    net = network(3, 64)
    for strategy in (mup(depth=3), standard(depth=3), meta("1/2", depth=3)):
        there = apply_strategy(net, strategy, eta=0.3, reference_width=64)
        assert there.eta == 0.3
        assert (there.net.C_b, there.net.C_W) == (net.C_b, net.C_W)
        assert (there.net.lambda_b, there.net.lambda_W) == (net.lambda_b, net.lambda_W)
        wide = apply_strategy(net.at_width((8, 256)), strategy, reference_width=64)
        assert wide.width == 4
        assert wide.net.C_W[-1] == pytest.approx(1.2 * 4 ** -float(strategy.p[-1]))
        assert wide.net.lambda_b[0] == pytest.approx(0.6 * 4 ** -float(strategy.q[0]))


@pytest.mark.covers("E1")
def test_standard_parametrisation_has_one_learning_rate_whatever_the_width() -> None:
    """eta lambda_b and eta lambda_W / fan-in are what an optimiser that knows one rate would use."""
    for depth in (2, 4):
        rates = []
        for width in (64, 1024):
            there = apply_strategy(network(depth, width), standard(depth=depth), reference_width=64)
            net, fan_in = there.net, (1, *there.net.hidden_widths)
            rates.append((there.eta, net.lambda_b, np.divide(net.lambda_W, fan_in)))
        np.testing.assert_allclose(rates[1][1], rates[0][1], rtol=1e-12)
        np.testing.assert_allclose(rates[1][2], rates[0][2], rtol=1e-12)
        assert rates[0][0] == rates[1][0] == 1


def test_biases_follow_their_weights_unless_plain() -> None:
    wide = network(3, 256)
    for plain in (False, True):
        own = Strategy((0, 0, 1), ("1/2", 1, 0), 0, plain_biases=plain)
        there = apply_strategy(wide, own, reference_width=64).net
        assert there.lambda_W == pytest.approx((0.9 / 2, 0.9 / 4, 0.9))
        below = 4 if plain else 1
        assert there.lambda_b == pytest.approx((0.6 / 2, 0.6 / 4 / below, 0.6 / below))


def test_refusals() -> None:
    net = network(3, 8)
    with pytest.raises(ValueError, match="has exponents for 4 layers, but the network has depth 3"):
        apply_strategy(net, mup(depth=4))
    with pytest.raises(ValueError, match="`eta` must be a positive finite number; got 0"):
        apply_strategy(net, mup(depth=3), eta=0)
    with pytest.raises(ValueError, match="`reference_width` must be a positive finite number"):
        apply_strategy(net, mup(depth=3), reference_width=-2)
