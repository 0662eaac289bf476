"""Agreement: powers of the width measured on real networks, against the exponents of a classification.

Each slope is the mean over seeds, from two widths; it is held to four standard errors
and 0.06 for the finite width, whose next order is as large as a power of n^{-1/2} or, where two powers
compete, n^{-1/4}.
"""

from fractions import Fraction as F

import numpy as np
import pytest

from grids import thorough
from scalewise.scaling import ABC, Strategy, abc, classify, mup, ntk, standard, uniform

WIDTHS = (128, 1024)
SEEDS = range(10)
X = np.random.default_rng(0).normal(size=(3, 4)) * 0.9  # inputs are columns
Y = np.random.default_rng(1).choice([-1.0, 1.0], size=(10, 4))
H, Q = F(1, 2), F(1, 4)
DAILY = {
    "ntk": ntk(),
    "mup": mup(),
    "standard, lr 1/n": ABC((0, 0, 0), (0, H, H), 1, plain_biases=True).to_strategy(),
    "slow readout": abc((-H, 0, 3 * Q), (H, H, Q), 0),
    "readout that starts small": abc((-H, 0, H), (H, H, 3 * H), 0),
}
MORE = {"uniform 1/4": uniform("1/4"), "small logits": abc((0, 0, H), (0, H, H), 0)}


def forward(W: list, b: list, x: np.ndarray) -> list[np.ndarray]:
    """Inputs of every layer, and the outputs."""
    xs = [x]
    for i, (w, bias) in enumerate(zip(W, b, strict=True)):
        h = w @ xs[-1] + bias
        xs.append(h if i == len(W) - 1 else np.tanh(h))
    return xs


def trained(strategy: Strategy, n: int, seed: int, steps: int, rate: float) -> dict[str, float]:
    """Root mean squares of what moved, after gradient descent on w and on the bare biases."""
    e, rng = strategy.to_abc(), np.random.default_rng(seed)
    shapes = [(n, X.shape[0]), *[(n, n)] * (e.depth - 2), (Y.shape[0], n)]
    offset = [0, *[0.0 if strategy.plain_biases else 0.5] * (e.depth - 1)]
    alpha = [n ** -float(a) for a in e.a]
    beta = [n ** -(float(a) - o) for a, o in zip(e.a, offset, strict=True)]
    w = [rng.normal(size=s) * n ** -float(b) for s, b in zip(shapes, e.b, strict=True)]
    bare = [
        rng.normal(size=(s[0], 1)) * 0.3 * n ** (-float(p) / 2) / m
        for s, p, m in zip(shapes, strategy.p, beta, strict=True)
    ]
    eta = rate * n ** -float(e.c)
    start = (
        [a * v for a, v in zip(alpha, w, strict=True)],
        [m * v for m, v in zip(beta, bare, strict=True)],
    )
    first = forward(*start, X)
    W, b = start
    for _ in range(steps):
        xs = forward(W, b, X)
        d = (xs[-1] - Y) / X.shape[1]
        for i in reversed(range(e.depth)):
            below = W[i].T @ d
            w[i] = w[i] - eta * alpha[i] * (d @ xs[i].T)
            bare[i] = bare[i] - eta * beta[i] * d.sum(1, keepdims=True)
            d = below * (1 - xs[i] ** 2)
        W = [a * v for a, v in zip(alpha, w, strict=True)]
        b = [m * v for m, v in zip(beta, bare, strict=True)]
    last = forward(W, b, X)
    moved = [(new - old) @ x for new, old, x in zip(W, start[0], last, strict=False)]
    found = {f"W_{i}": part for i, part in enumerate(moved, 1)}
    found |= {f"b_{i}": new - old for i, (new, old) in enumerate(zip(b, start[1], strict=True), 1)}
    found |= {f"x_{i}": last[i] - first[i] for i in range(1, e.depth)}
    found["through x"] = start[0][-1] @ (last[-2] - first[-2])
    found |= {"f_0": first[-1], "f": last[-1] - first[-1]}
    return {name: float(np.sqrt(np.mean(part**2))) for name, part in found.items()}


def predicted(strategy: Strategy) -> dict[str, F]:
    found, depth = classify(strategy), strategy.depth
    by_layer = [-r for r in found.r_l] + [found.output_powers[0]]
    powers = {f"W_{i}": power for i, power in enumerate(by_layer, 1)}
    for i, power in enumerate(by_layer, 1):
        powers[f"b_{i}"] = power - (strategy.plain_biases and i > 1)
    powers |= {f"x_{i}": found.feature_powers[i - 1] for i in range(1, depth)}
    powers |= {"through x": found.output_powers[1], "f_0": found.initial_output_power}
    return powers | {"f": max(found.output_powers)}


def measured(strategy: Strategy, steps: int, rate: float) -> dict[str, tuple[float, float]]:
    """Slope over the widths and its standard error."""
    x = np.log(WIDTHS) - np.mean(np.log(WIDTHS))
    runs = [[trained(strategy, n, 31 * s + n, steps, rate) for n in WIDTHS] for s in SEEDS]
    fits = {}
    for name in runs[0][0]:
        logs = np.log([[run[name] for run in row] for row in runs])
        slopes = logs @ x / (x @ x)
        fits[name] = (float(slopes.mean()), float(slopes.std(ddof=1) / np.sqrt(len(slopes))))
    return fits


@pytest.mark.covers("E2")
@pytest.mark.parametrize("name", [*DAILY, *thorough(*MORE)])
def test_powers_of_the_width(name: str) -> None:
    """Three steps: from the second one on, gradients see the updated readout too."""
    strategy = (DAILY | MORE)[name]
    expected = predicted(strategy)
    for what, (slope, error) in measured(strategy, 3, 0.4).items():
        assert error < 0.06, what
        assert abs(slope - float(expected[what])) < 4 * error + 0.06, (what, slope, error)


@pytest.mark.covers("E2")
def test_standard_parametrisation_blows_up_in_one_step() -> None:
    """One step: gradients come through the first readout, A = 1/2 for min(A, U) = 0; U is 0 already.

    The rate is so small that the growing features do not saturate at these widths.
    """
    fits = measured(standard(), 1, 1e-3)
    expected = {"W_1": -0.5, "W_2": 0.5, "W_3": 1, "b_1": -0.5, "b_2": -0.5, "b_3": 0, "x_2": 0.5}
    for what, power in expected.items():
        slope, error = fits[what]
        assert error < 0.06, what
        assert abs(slope - power) < 4 * error + 0.06, (what, slope, error)
    assert predicted(standard())["W_3"] == 1
    assert classify(standard()).r_l == (0, -1)
