"""Golden tests: distances of two activations over a length that grows with the width, as jax traces them."""

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import pytest

import scalewise as sw
from scalewise.plan._questions import Asked

NUMBERS = jax.random.normal(jax.random.key(0), (4, 8))
Score = Callable[[jax.Array, jax.Array], jax.Array]


def towers(width: int) -> Any:
    """Two networks of one hidden layer each."""
    sizes = {"one": (8, width), "two": (width, width), "three": (8, width), "four": (width, width)}
    keys = jax.random.split(jax.random.key(1), len(sizes))
    drawn = zip(keys, sizes.items(), strict=True)
    return {n: jax.random.normal(k, s) / s[0] ** 0.5 for k, (n, s) in drawn}


def scored(score: Score) -> Callable[..., jax.Array]:
    def apply(w: Any, x: jax.Array) -> jax.Array:
        return score(jnp.tanh(x @ w["one"]) @ w["two"], jnp.tanh(-x @ w["three"]) @ w["four"])

    return apply


ROLES = {"one": "input", "three": "input", "two": ("hidden", 0), "four": ("hidden", 0)}
# By the power of the length that their squares lack under any strategy.
SCORES: dict[str, tuple[Score, float]] = {
    "squares": (lambda u, v: ((u - v) ** 2).sum(-1), -1),
    "kernel": (lambda u, v: jnp.exp(-jnp.sum((u[:, None] - v) ** 2, -1) / 2), -1),
    "norm": (lambda u, v: jnp.linalg.norm(u - v, axis=-1), -1),
    "absolute": (lambda u, v: jnp.abs(u - v).sum(-1), -1),
    "with itself": (lambda u, v: jnp.exp(-jnp.square(u[:, None] - u).sum(-1) + v.mean()), -1),
    "softmax": (lambda u, v: jax.nn.softmax(-((u[:, None] - v) ** 2).sum(-1)), -1),
    "bandwidth in front": (lambda u, v: (((u - v) / u.shape[-1] ** 0.25) ** 2).sum(-1), -0.5),
    "over the size": (lambda u, v: ((u - v) ** 2).sum(-1) / u.shape[-1], 0),
    "mean": (lambda u, v: ((u - v) ** 2).mean(-1), 0),
}


def by_hand(u: jax.Array, v: jax.Array) -> jax.Array:
    """A variance, and a difference that is divided by its own size."""
    u = (u - u.mean(-1, keepdims=True)) / jnp.sqrt(u.var(-1, keepdims=True) + 1e-6)
    d = u - v
    return jnp.tanh(d / jnp.sqrt((d * d).sum(-1, keepdims=True))).mean(-1)


def spread(u: jax.Array) -> jax.Array:
    return ((u - u.mean(-1, keepdims=True)) ** 2).sum(-1)


def spreads(u: jax.Array, v: jax.Array) -> jax.Array:
    """How much more one array scatters about its own mean than the other: their length is in both."""
    return jnp.log(spread(u)) - jnp.log(spread(v))


def lacking(score: Score, strategy: Any) -> dict[str, float]:
    """What is asked for, and its values; a plan with the answers gives them."""

    def planned(**options: Any) -> dict[str, float]:
        plan = sw.jax.plan(
            towers, apply=scored(score), base={"width": 16}, target={"width": 64}, inputs=NUMBERS,
            strategy=strategy, roles=ROLES, **options,
        )  # fmt: skip
        return {m.name: m.factor for m in plan.multipliers}

    try:
        return planned()
    except Asked as asked:
        return planned(**asked.answers)


@pytest.mark.parametrize("strategy", [sw.scaling.mup(), sw.scaling.ntk()], ids=["mup", "ntk"])
def test_distances_ask_for_what_their_scale_lacks(strategy: Any) -> None:
    wrong = {}
    for name, (score, power) in SCORES.items():
        found = lacking(score, strategy)
        if found.get("distance", 1.0) != pytest.approx(4**power) or found.keys() - {"distance"}:
            wrong[name] = found
    assert not wrong
    assert lacking(by_hand, strategy) == lacking(spreads, strategy) == {}
