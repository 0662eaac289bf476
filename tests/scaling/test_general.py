"""Golden and agreement tests: maximal-update scaling of single tensors, against a network that has every kind.

A slope is the mean over seeds with four standard errors, and 0.05 for the finite width.
"""

from fractions import Fraction as F

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from refusals import unlike
from scalewise.scaling import maximal_update_exponents, mup

H = F(1, 2)


@pytest.mark.covers("E3")
def test_layers_of_a_perceptron_are_those_of_mup() -> None:
    abc = mup(depth=4).to_abc()
    layers = [maximal_update_exponents(k, role) for k, role in KINDS]
    assert layers == list(zip(abc.a, abc.b, strict=True))
    assert abc.c == 0
    # Bare rates n^{-2a} of biases; a hidden one starts at order one.
    biases = [maximal_update_exponents(1)] * 3 + [maximal_update_exponents(0, "output")]
    assert [-2 * a for a, _ in biases] == [mup().r - q for q in mup(depth=4).q_bias]
    assert [a + b for a, b in biases] == [0] * 4


KINDS = ((1, "hidden"), (2, "hidden"), (2, "hidden"), (1, "output"))
# Shapes in terms of the width n, dimensions that grow, role.
TENSORS = {
    "input": ("n4", 1, "hidden"),
    "bias": ("n1", 1, "hidden"),
    "matrix": ("nn", 2, "hidden"),
    "gain": ("n1", 1, "hidden"),
    "scalar gain": ("11", 0, "hidden"),
    "down": ("8n", 1, "output"),
    "up": ("n8", 1, "hidden"),
    "readout": ("3n", 1, "output"),
    "output bias": ("31", 0, "output"),
}
X = jnp.asarray(np.random.default_rng(0).normal(size=(4, 5)))
Y = jnp.asarray(np.random.default_rng(1).choice([-1.0, 1.0], size=(3, 5)))
WIDTHS = (128, 1152)
SEEDS = 8


def parts(t: dict, below: dict | None = None) -> dict:
    """What each tensor hands on; with `below`, applied to what it is given by those other tensors."""
    s = t if below is None else below
    first = jnp.tanh(s["input"] @ X + s["bias"])
    through = s["down"] @ first
    middle = s["matrix"] @ first + s["up"] @ through / 8**0.5
    last = jnp.tanh(s["scalar gain"] * s["gain"] * middle)
    return {
        "input": t["input"] @ X,
        "bias": t["bias"],
        "matrix": t["matrix"] @ first,
        "gain": t["gain"] * middle,
        "scalar gain": t["scalar gain"] * middle,
        "down": t["down"] @ first,
        "up": t["up"] @ through,
        "readout": t["readout"] @ last,
        "output bias": t["output bias"],
        "f": t["readout"] @ last + t["output bias"],
    }


def loss(t: dict) -> jax.Array:
    return jnp.sum((parts(t)["f"] - Y) ** 2) / 10


def exponents(name: str) -> tuple[float, float]:
    a, b = maximal_update_exponents(*TENSORS[name][1:])
    return float(a), float(b)


def drawn(n: int, seed: int) -> dict:
    """What has no width is the same at every width, so that it adds nothing to the error of a slope."""
    wide, fixed, t = np.random.default_rng((n, seed)), np.random.default_rng(seed), {}
    for name, (shape, growing, _) in TENSORS.items():
        rows, columns = (n if d == "n" else int(d) for d in shape)
        values = (wide if growing else fixed).normal(size=(rows, columns))
        t[name] = jnp.asarray(values * n ** -sum(exponents(name)))
    return t | {"scalar gain": jnp.ones((1, 1))}


@jax.jit
def sizes(start: dict, rates: dict) -> dict:
    """After three steps: what the update of each tensor does, and the size of one gradient."""
    t, slope = start, start
    for _ in range(3):
        slope = jax.grad(loss)(t)
        t = {name: t[name] - rates[name] * slope[name] for name in t}
    found = parts({name: t[name] - start[name] for name in t}, below=t)
    found["gradient"] = slope["scalar gain"]
    return {name: jnp.log(jnp.mean(part**2)) / 2 for name, part in found.items()}


def measured() -> dict[str, tuple[float, float]]:
    """Slope and standard error of what the update of each tensor does, and of one gradient."""
    found: dict[str, list] = {}
    for n in WIDTHS:
        rates = {name: 0.3 * n ** (-2 * exponents(name)[0]) for name in TENSORS}
        for seed in range(SEEDS):
            for name, value in sizes(drawn(n, seed), rates).items():
                found.setdefault(name, []).append(float(value))
    x = np.log(WIDTHS) - np.mean(np.log(WIDTHS))
    slopes = {k: x @ np.reshape(rows, (len(WIDTHS), -1)) / (x @ x) for k, rows in found.items()}
    return {k: (s.mean(), s.std(ddof=1) / np.sqrt(SEEDS)) for k, s in slopes.items()}


@pytest.mark.covers("E3")
def test_every_tensor_moves_what_it_makes_at_order_one() -> None:
    """The gradient of a scalar gain is of order one, so that a rate of n^2 would have blown it up.

    An inner bottleneck is the exception that the docstring names: n^{-1/2} on the way in, and squared behind.
    """
    powers = dict.fromkeys([*TENSORS, "f", "gradient"], 0.0) | {"down": -0.5, "up": -1.0}
    found = measured()
    assert found.keys() == powers.keys()
    for name, (slope, error) in found.items():
        assert error < (0.2 if name == "up" else 0.05), name
        assert abs(slope - powers[name]) < 4 * error + 0.05, (name, slope, error)


REFUSED = [
    (3, "hidden", "`growing` must be 0, 1 or 2"),
    (True, "hidden", "`growing` must be 0, 1 or 2"),
    (2, "output", "sums over one growing dimension into a fixed one"),
]


def test_refusals() -> None:
    assert [] == unlike(
        (lambda g=growing, r=role: maximal_update_exponents(g, r), message)
        for growing, role, message in REFUSED
    )
