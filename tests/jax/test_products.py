"""Agreement tests: models of jax without a readout, which return products or distances of their features."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

import scalewise as sw
from grids import thorough
from scalewise.plan._check import Check
from scalewise.plan._diagnosis import Cause

BASE, WIDTHS = 32, [32, 64, 128, 256]
DRAW = np.random.default_rng(0)
PAIRS = DRAW.standard_normal((2, 10, 8)).astype(np.float32)
RATED = np.stack([DRAW.integers(20, size=48), DRAW.integers(15, size=48)])
RATINGS = DRAW.standard_normal(48).astype(np.float32)


def drawn(seed: int, **shapes: tuple[int, int]) -> dict[str, jax.Array]:
    draw = np.random.default_rng(seed).standard_normal
    return {
        n: jax.device_put((draw(s) / s[0] ** 0.5).astype(np.float32)) for n, s in shapes.items()
    }


def towers(width: int, seed: int = 0) -> dict[str, jax.Array]:
    inner, first = (width, width), (8, width)
    return drawn(seed, one=first, two=inner, three=first, four=inner)


def factors(width: int, seed: int = 0) -> dict[str, jax.Array]:
    tables = drawn(seed, users=(20, width), things=(15, width))
    return {"users": tables["users"] * 20**0.5, "things": tables["things"] * 15**0.5}


def features(w: Any, both: Any) -> tuple[jax.Array, jax.Array]:
    return jnp.tanh(both[0] @ w["one"]) @ w["two"], jnp.tanh(both[1] @ w["three"]) @ w["four"]


def scored(w: Any, both: Any, power: float) -> jax.Array:
    u, v = features(w, both)
    return BASE**0.5 * u @ v.T / (BASE * (u.shape[-1] / BASE) ** power)


def apart(w: Any, both: Any, power: float) -> jax.Array:
    u, v = features(w, both)
    return -jnp.square(u[:, None] - v).sum(-1) / (BASE * (u.shape[-1] / BASE) ** power)


def rated(w: Any, pairs: Any, power: float) -> jax.Array:
    u, v = w["users"][pairs[0]], w["things"][pairs[1]]
    return (u * v).sum(-1) / (2 * BASE**0.5 * (u.shape[-1] / BASE) ** power)


ROLES = {"one": "input", "three": "input", "two": ("hidden", 0), "four": ("hidden", 0)}
TABLES = {"users": "input", "things": "input"}
# How the model is drawn and called, the roles, the batch, what multiplies, and a tensor of a rate that is wrong.
Case = tuple[Callable[..., Any], Callable[..., Any], Any, Any, str, str]
CASES: dict[str, Case] = {
    "towers": (towers, scored, ROLES, PAIRS, "product", "four"),
    "factors": (factors, rated, TABLES, (RATED, RATINGS), "product", "users"),
    "metric": (towers, apart, ROLES, PAIRS, "distance", "four"),
}


def verified(name: str, *, power: float = 1.0, optimizer: str = "adamw", **options: Any) -> Check:
    build, apply, roles, batch, multiplied, _ = CASES[name]

    def loss(model: Any, batch: Any) -> jax.Array:
        if name == "factors":
            return jnp.square(apply(model, batch[0], power) - batch[1]).mean()
        scores = apply(model, batch, power)
        labels = jnp.arange(len(scores))
        return optax.softmax_cross_entropy_with_integer_labels(scores, labels).mean()

    plan = sw.jax.plan(
        build, base={"width": BASE}, target={"width": 4 * BASE}, strategy=sw.scaling.mup(), optimizer=optimizer,
        roles=roles, apply=lambda w, x: apply(w, x, power), multiplied=[multiplied],
        inputs=batch[0] if name == "factors" else (batch,),
    )  # fmt: skip
    return plan.verify(batch, loss, widths=WIDTHS, seeds=4, progress=False, **options)


@pytest.mark.parametrize(
    ("name", "optimizer"),
    [("factors", "adamw"), *thorough(("towers", "adamw"), ("metric", "adamw"), ("towers", "sgd"))],
)
def test_what_returns_products_is_as_planned_and_learns_features(name: str, optimizer: str) -> None:
    check = verified(name, optimizer=optimizer)
    assert check.ok, str(check)
    assert str(check.verdict) == "feature learning, stable"
    assert check.returned[-1].fit.slope == pytest.approx(0.0, abs=0.125)
    assert "what the loss returns: output" in str(check)


@pytest.mark.parametrize(
    ("name", "power"),
    [("factors", 0.5), *thorough(("factors", 1.5), ("towers", 0.5), ("metric", 0.5))],
)
def test_a_product_of_another_scale_is_named(name: str, power: float) -> None:
    check = verified(name, power=power)
    assert check.verdict.stable == (power > 1)
    (culprit,) = check.culprits
    assert culprit.cause in (Cause.FORWARD, Cause.ATTENTION)
    assert culprit.tensor == ""
    assert CASES[name][4] in culprit.text


@pytest.mark.parametrize("name", ["factors", *thorough("towers", "metric")])
@pytest.mark.thorough("test_a_product_of_another_scale_is_named")
def test_a_wrong_rate_below_a_product_is_named(name: str) -> None:
    wrong = CASES[name][-1]

    def setup(plan: Any, model: Any) -> Any:
        factor = (plan.table.target["width"] / BASE) ** 0.5
        slow = jax.tree.map_with_path(
            lambda path, _: factor if path[0].key == wrong else 1.0, model
        )

        scaled = optax.stateless(lambda updates, _: jax.tree.map(jnp.multiply, updates, slow))
        return plan.init(model), optax.chain(plan.optax(optax.adam(1e-4)), scaled)

    check = verified(name, setup=setup)
    (culprit,) = check.culprits
    assert (culprit.tensor, culprit.cause) == (wrong, Cause.LEARNING_RATE)
    assert culprit.power == pytest.approx(0.5, abs=0.1)
