"""Golden and agreement: susceptibilities of blocks against closed forms, deep networks, and drawn networks."""

import math
from typing import Any

import numpy as np
import pytest

import scalewise as sw
from grids import each, thorough
from scalewise.critical import susceptibilities as of_activation
from scalewise.gaussian import pair_moments, single_moment
from scalewise.theory.blocks import depth_scale, susceptibilities
from scalewise.theory.residual import residual_susceptibilities

RING: Any = {"padding": "circular"}


@pytest.mark.parametrize(
    ("sigma", "C_b", "C_W"),
    [
        ("tanh", 0.05, 1.5),
        ("tanh", 0.1, 3.0),
        ("relu", 0.1, 1.5),
        ("gelu", 0.1, 1.2),
        *thorough(("erf", 0.2, 0.8), ("selu", 0.1, 0.8), ("hardtanh", 0.1, 1.3)),
    ],
)
def test_of_fully_connected_layers_they_are_those_of_the_activation(sigma, C_b, C_W) -> None:
    """At the fixed point of the kernel, where two inputs become alike or do not."""
    found = susceptibilities(sigma, sw.Dense(), input_shape=64, C_b=C_b, C_W=C_W)
    K = found.K
    assert pytest.approx(K, rel=1e-10) == C_b + C_W * float(single_moment(sigma, K, (0, 0)).value)
    assert found.K_next == pytest.approx(K, rel=1e-10)
    parallel, perp = of_activation(sigma, K, C_W)
    assert found.chi_parallel == pytest.approx(parallel, rel=1e-9)
    assert found.chi_perp == pytest.approx(perp, rel=1e-9)
    if perp > 1:
        c = found.correlation
        moments = pair_moments(sigma, K, K, c * K, [(0, 0), (1, 1)])
        assert C_b + C_W * float(moments[0, 0].value) == pytest.approx(c * K, rel=1e-9)
        assert found.chi_correlation == pytest.approx(C_W * float(moments[1, 1].value), rel=1e-8)
        assert c < 0.995
    else:
        assert found.correlation == 1.0
        assert found.chi_correlation == pytest.approx(found.chi_perp, rel=1e-12)
    assert found.depth_correlation == pytest.approx(-1 / math.log(found.chi_correlation))
    assert (found.between, found.modes_perp) == (None, None)


@each("K", [0.0, 0.3, 4.0])
def test_sizes_may_be_given(K) -> None:
    found = susceptibilities("tanh", sw.Dense(), input_shape=64, C_W=1.3, K=K)
    parallel, perp = of_activation("tanh", K, 1.3)
    assert found.K == K
    assert found.K_next == pytest.approx(1.3 * float(single_moment("tanh", K, (0, 0)).value))
    assert found.chi_parallel == pytest.approx(float(parallel), rel=1e-8)
    assert found.chi_perp == pytest.approx(float(perp), rel=1e-8)


def test_correlations_at_a_size_that_does_not_stay() -> None:
    """They are in units of what leaves the block; of an odd activation without biases they go to 0 here."""
    found = susceptibilities("tanh", sw.Dense(), input_shape=64, C_W=2, K=0.3)
    slope = float(single_moment("tanh", 0.3, (1,)).value)
    assert found.correlation == pytest.approx(0, abs=1e-9)
    assert found.chi_correlation == pytest.approx(2 * slope**2 * 0.3 / found.K_next, rel=1e-9)


def test_what_vanishes_and_what_is_critical() -> None:
    """A power of the depth leads to 0, or to correlations of 1, as a series does."""
    below, at = (susceptibilities("tanh", sw.Dense(), input_shape=8, C_W=w) for w in (0.9, 1.0))
    assert (below.K, at.K) == (0.0, 0.0)
    assert (below.chi_parallel, below.chi_perp) == pytest.approx((0.9, 0.9), rel=1e-8)
    assert (at.chi_parallel, at.chi_perp) == pytest.approx((1, 1), rel=1e-8)
    relu = susceptibilities("relu", sw.Dense(), input_shape=8, C_W=2)
    assert (relu.K, relu.chi_parallel, relu.chi_perp) == pytest.approx((1, 1, 1), rel=1e-9)
    assert relu.correlation == 1.0
    assert relu.depth_correlation == depth_scale(1.0) == math.inf
    assert depth_scale(math.exp(-0.25)) == pytest.approx(4)


@each(
    ("shape", "conv", "offsets"),
    [
        ((8,), sw.Conv(3, **RING), (-1, 0, 1)),
        ((9,), sw.Conv(5, **RING), (-2, -1, 0, 1, 2)),
        ((8,), sw.Conv(3, dilation=2, **RING), (-2, 0, 2)),
        ((4, 6), sw.Conv(3, **RING), (-1, 0, 1)),
    ],
)
def test_waves_along_circular_convolutions(shape, conv, offsets) -> None:
    r"""$\lambda_k=\chi\frac1{\text{taps}}\sum_\tau\cos k\tau$, for each axis; of sizes, differences, correlations.

    Source: Xiao et al., arXiv:1806.05393.
    """
    found = susceptibilities("tanh", conv, input_shape=(*shape, 16), C_b=0.05, C_W=2.5)
    assert found.chi_perp > 1 > found.chi_correlation
    share = np.ones(())
    for size in shape:
        k = 2 * np.pi * np.arange(size) / size
        share = np.multiply.outer(share, np.mean([np.cos(k * t) for t in offsets], axis=0))
    pairs = {
        "chi_parallel": found.modes_parallel,
        "chi_perp": found.modes_perp,
        "chi_correlation": found.modes_correlation,
    }
    for name, modes in pairs.items():
        np.testing.assert_allclose(np.asarray(modes), getattr(found, name) * share, atol=1e-9)
    alone = susceptibilities("tanh", sw.Dense(), input_shape=16, C_b=0.05, C_W=2.5)
    assert found.chi_parallel == pytest.approx(alone.chi_parallel, rel=1e-9)
    assert found.chi_perp == pytest.approx(alone.chi_perp, rel=1e-9)
    one_sided = susceptibilities("tanh", sw.Conv(2, **RING), input_shape=(8, 16), K=1)
    wanted = np.abs(np.cos(np.pi * np.arange(8) / 8))
    np.testing.assert_allclose(
        np.asarray(one_sided.modes_perp), one_sided.chi_perp * wanted, atol=1e-9
    )


def test_a_skip_adds_its_square_to_every_wave() -> None:
    block = sw.Skip("tanh", sw.Conv(3, **RING), factor=0.7)
    found = susceptibilities(block, input_shape=(6, 16), C_b=0.1, C_W=1.4)
    parallel, perp = residual_susceptibilities("tanh", found.K, 1.4, 0.7)
    assert found.chi_parallel == pytest.approx(float(parallel), rel=1e-9)
    assert found.chi_perp == pytest.approx(float(perp), rel=1e-9)
    share = (1 + 2 * np.cos(2 * np.pi * np.arange(6) / 6)) / 3
    np.testing.assert_allclose(
        np.asarray(found.modes_perp), 0.49 + (perp - 0.49) * share, atol=1e-9
    )


def test_norms_set_sizes() -> None:
    """Behind the sum nothing is left of a size, and differences are in units of what enters the norm."""
    inner = sw.Skip("relu", sw.Dense(C_W=3.0), factor=0.8)
    found = susceptibilities(inner, sw.RMSNorm(eps=0), input_shape=16)
    before = 0.64 + 1.5
    assert found.K == pytest.approx(1)
    assert found.chi_parallel == pytest.approx(0, abs=1e-11)
    assert found.chi_perp == pytest.approx(1.0, rel=1e-10)  # slopes and sizes of ReLU are alike
    # Before a branch it leaves sizes to the trunk, and differences are seen in its units.
    branch = sw.Skip(sw.LayerNorm(eps=0), sw.Dense(), "relu", sw.Dense(C_W=3.0))
    for K in (0.5, 4.0):
        found = susceptibilities(branch, input_shape=16, K=K)
        assert found.chi_parallel == pytest.approx(1, rel=1e-11)
        assert found.chi_perp == pytest.approx(1 + 1.5 / K, rel=1e-10)
        assert found.K_next == pytest.approx(K + before - 0.64)


def test_attention_that_averages() -> None:
    r"""Of heads that grow with free keys every position sees the mean of all, once for values, once behind them."""
    block = (sw.Skip(sw.Attention(heads=2, C_W=1.5), factor=0.6), sw.RMSNorm(eps=0))
    found = susceptibilities(*block, input_shape=(5, 8))
    whole = 0.36 + 1.5**2
    assert found.between == 1.0
    assert found.chi_perp == pytest.approx(1.0, rel=1e-10)  # of what differs everywhere alike
    assert found.chi_between == pytest.approx(0.36 / whole, rel=1e-9)
    assert found.modes_perp is None
    # Biases make any two inputs alike: their share of a size.
    found = susceptibilities(
        sw.Skip(sw.Attention(heads=2, C_b=0.3), factor=0.6), sw.RMSNorm(eps=0), input_shape=(5, 8)
    )
    assert found.correlation == 1.0
    assert found.chi_correlation == pytest.approx(1.36 / (1.36 + 0.6), rel=1e-9)


def test_attention_that_looks_back() -> None:
    """Each position averages over those before it; collapsed ones differ by less with each block."""
    block = (sw.Skip(sw.Attention(heads=2, causal=True), factor=0.6), sw.RMSNorm(eps=0))
    found = susceptibilities(*block, input_shape=(5, 8))
    mean = np.tril(np.ones((5, 5))) / np.arange(1, 6)[:, None]
    off = np.eye(5) - 0.2
    slowest = np.abs(np.linalg.eigvals(off @ mean @ off)).max()
    assert found.between == 1.0
    assert found.chi_between == pytest.approx((0.36 + slowest**2) / 1.36, rel=1e-8)


def blocks_in_turn(*block, count, shape, C_b=0.0, C_W=1.0, seed=0) -> np.ndarray:
    """Correlations by `predict` behind the last random layer of each block: (block, a, b, *positions of both)."""
    end = (sw.GlobalAvgPool(), sw.Dense(1)) if len(shape) > 1 else (sw.Dense(1),)
    net = sw.Network(
        sw.Dense(C_b=0, C_W=1), *block * count, *end,
        input_shape=shape, width=16, C_b=C_b, C_W=C_W,
    )  # fmt: skip
    step = (net.depth - 2) // count
    x = np.random.default_rng(seed).normal(size=(2, *shape))
    kept = range(1, net.depth, step)
    K = sw.predict(net, x, layers=kept, observables="kernel").kernel.values
    places = math.prod(shape[:-1])
    K = K.reshape(len(kept), 2, 2, places, places)
    sd = np.sqrt(np.einsum("laapp->lap", K))
    return K / sd[:, :, None, :, None] / sd[:, None, :, None, :]


@each(("C_b", "C_W"), [(0.3, 1.5), (0.05, 2.5)])
def test_deep_convolutions_settle_as_fast_as_they_say(C_b, C_W) -> None:
    """Thirty blocks of two inputs, order and chaos: the mean over positions, and one wave along them."""
    block = ("tanh", sw.Conv(3, **RING))
    found = susceptibilities(*block, input_shape=(8, 16), C_b=C_b, C_W=C_W)
    c = np.einsum(
        "lpp->lp", blocks_in_turn(*block, count=30, shape=(8, 2), C_b=C_b, C_W=C_W)[:, 0, 1]
    )
    assert c[-1] == pytest.approx(found.correlation, abs=0.1)
    waves = np.fft.fft(c - found.correlation, axis=1)
    assert found.modes_correlation is not None
    for k, near in ((0, 1e-3), (1, 1e-2)):
        assert last_rate(waves[:, k]) == pytest.approx(found.modes_correlation[k], rel=near)


def last_rate(left: np.ndarray) -> float:
    """By what each block multiplies it, as long as rounding does not show."""
    at = np.flatnonzero(np.abs(left) > 1e-8)[-1]
    return float(np.abs(left[at] / left[at - 1]))


@each(
    ("strength", "chaos", "together"),
    [(0.3, 40.0, False), (1.0, 3.0, True)],
)
def test_deep_attention_settles_as_fast_as_it_says(strength, chaos, together) -> None:
    """Of strong attention ranks collapse; where it is weak, chaos keeps positions apart."""
    block = (
        sw.Skip(sw.Attention(heads=2, C_W=strength)),
        sw.RMSNorm(),
        sw.Dense(C_W=chaos),
        "tanh",
        sw.Dense(),
    )
    found = susceptibilities(*block, input_shape=(4, 16))
    c = blocks_in_turn(*block, count=40, shape=(4, 3))
    off = ~np.eye(4, dtype=bool)
    rho = c[:, 0, 0][:, off].mean(axis=1)
    assert found.between is not None
    assert (found.between == 1.0) is together
    assert rho[-1] == pytest.approx(found.between, abs=1e-3)
    assert last_rate(rho - found.between) == pytest.approx(found.chi_between, rel=1e-2)
    between_inputs = np.einsum("lpp->l", c[:, 0, 1]) / 4
    assert between_inputs[-1] == pytest.approx(found.correlation, abs=1e-2)
    assert last_rate(between_inputs - found.correlation) == pytest.approx(
        found.chi_correlation, rel=1e-2
    )


@pytest.mark.parametrize("width", [64, *thorough(32, 128)])
def test_drawn_networks_of_a_block_nobody_planned(width) -> None:
    """Small differences between two inputs, from the second block to the fourth, with a bias of 1.3 / n."""
    block = (
        sw.Skip(sw.RMSNorm(), sw.Conv(3, **RING), "gelu", sw.Conv(3, C_W=2.0, **RING), factor=0.9),
        sw.RMSNorm(),
    )
    found = susceptibilities(*block, input_shape=(4, 16), C_b=0.1, C_W=1.5)
    rng = np.random.default_rng(3)
    one = rng.normal(size=(4, 3))
    x = np.array([one, one + 0.1 * rng.normal(size=(4, 3))])
    nets = [
        sw.Network(
            sw.Dense(C_b=0, C_W=1), sw.RMSNorm(), *block * count, sw.Flatten(), sw.Dense(1, C_b=0, C_W=1),
            input_shape=(4, 3), width=width, C_b=0.1, C_W=1.5,
        )
        for count in (2, 4)
    ]  # fmt: skip
    given = {"observables": ["kernel"], "networks": 60, "progress": False}
    rates = []
    for seed in range(8):
        kernels = (sw.measure(net, x, seed=seed, **given).kernel.values[-1] for net in nets)
        before, after = (K[0, 0] + K[1, 1] - 2 * K[0, 1] for K in kernels)
        rates.append(np.sqrt(after / before))
    error = np.std(rates, ddof=1) / math.sqrt(len(rates))
    assert abs(np.mean(rates) - found.chi_perp - 1.3 / width) < 4 * error + 20 / width**2
    assert error < 0.02


def test_masks_keep_equal_inputs_apart() -> None:
    found = susceptibilities("tanh", sw.Dropout(0.9), sw.Dense(), input_shape=8, C_b=0.1, C_W=1.5)
    K, c = found.K, found.correlation
    square, product = (
        float(pair_moments("tanh", K, K, k, [(0, 0)])[0, 0].value) for k in (K, c * K)
    )
    assert pytest.approx(K) == 0.1 + 1.5 * square / 0.9
    assert pytest.approx(c * K) == 0.1 + 1.5 * product
    assert c < 0.95


def test_drawn_heads_agree_with_what_ranks_collapse_to() -> None:
    """Where all positions are alike, attention of any kind averages; its numbers have standard errors."""
    found, grown = (
        susceptibilities(sw.Skip(own, factor=0.6), sw.RMSNorm(eps=0), input_shape=(2, 8), C_b=0.3)
        for own in (sw.Attention(size=2), sw.Attention(heads=2))
    )
    assert found.between == found.correlation == 1.0
    for name in ("chi_perp", "chi_between"):
        assert getattr(found, name) == pytest.approx(getattr(grown, name), rel=1e-4)
    assert set(found.errors) >= {"chi_perp", "chi_between", "correlation"}
    assert grown.errors == {}


@each(
    ("layers", "more", "told"),
    [
        ((), {}, "needs the layers of a block"),
        (("tanh", sw.Dense(32)), {}, r"layer 2, Dense\(channels=32\), leaves 8 x 32\. Leave it"),
        (("tanh", sw.Conv(3, stride=2), sw.Dense()), {}, r"layer 2, Conv\(.*\), leaves 4 x 16"),
        (("tanh", sw.Conv(3, stride=2), sw.Dense(32)), {}, "layer 3, Dense.* leaves 4 x 32"),
        (("tanh", sw.Flatten()), {}, r"layer 2, Flatten\(\), leaves one site of all positions"),
        ((sw.LayerNorm(), sw.Dense(), "relu"), {}, "Move the activation from the end of the block"),
        (
            ("relu", sw.Dense()),
            {"C_b": 0.1, "C_W": 2.0},
            "no fixed point: .* Give `K`, the size at",
        ),
        (("relu", sw.Dense()), {"K": -1}, "`K` must be a finite number of at least 0"),
        (
            ("tanh", sw.Conv(3)),
            {},
            r"leaves 0\.\d+ at position \(0,\) and .* Use padding='circular'",
        ),
        (("perceptron", sw.Dense()), {}, "jumps, so small differences between signals grow"),
        ((sw.Conv(3),), {"input_shape": 16}, "moves along positions, and there are none"),
    ],
)
def test_bad_blocks(layers, more, told) -> None:
    with pytest.raises(ValueError, match=told):
        susceptibilities(*layers, **{"input_shape": (8, 16), **more})


def test_a_block_may_end_with_an_activation_if_it_begins_with_weights() -> None:
    """Then its size is that of what the weights read; the factors are those of the same layers in another order."""
    after, before = (
        susceptibilities(*block, input_shape=8, C_b=0.1, C_W=1.4)
        for block in ((sw.Dense(), "gelu"), ("gelu", sw.Dense()))
    )
    assert pytest.approx(before.K) == 0.1 + 1.4 * after.K
    for name in ("chi_parallel", "chi_perp", "chi_correlation"):
        assert getattr(after, name) == pytest.approx(getattr(before, name), rel=1e-8)
    normed = susceptibilities(sw.RMSNorm(eps=0), sw.Dense(), "relu", input_shape=8, C_W=2.4)
    assert (normed.K, normed.chi_perp) == pytest.approx((1.2, 1.0))
