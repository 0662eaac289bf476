"""Golden and agreement tests: layers of jax that sum over the width and over numbers beside it."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

import scalewise as sw
from grids import few, thorough
from scalewise.jax import JaxPlan

BASE, SIDE = 32, 24
DRAW = np.random.default_rng(0)
X = DRAW.standard_normal((16, SIDE)).astype(np.float32)
LABELS = (X @ DRAW.standard_normal((SIDE, 3))).argmax(-1)
PLACES = {
    "behind": ("middle", ((0, 128, 152),), 1 / 2),
    "in front": ("middle", ((0, 0, 24),), 1 / 2),
    "readout": ("out", ((0, 128, 152),), 1 / 4),
}


def drawn(width: int, place: str, seed: int = 0) -> dict[str, jax.Array]:
    """Inputs come back beside the features, in front of them, in a layer or in the readout."""
    more = {PLACES[place][0]: SIDE}
    shapes = {
        "first": (SIDE, width),
        "middle": (width + more.get("middle", 0), width),
        "out": (width + more.get("out", 0), 3),
    }
    draw = np.random.default_rng(seed).standard_normal
    return {
        n: jax.device_put((draw(s) / s[0] ** 0.5).astype(np.float32)) for n, s in shapes.items()
    }


def applied(place: str) -> Any:
    def apply(w: Any, x: Any) -> jax.Array:
        h = jax.nn.relu(x @ w["first"])
        if place != "readout":
            h = jnp.concatenate([h, x] if place == "behind" else [x, h], -1)
        h = jax.nn.relu(h @ w["middle"])
        return (jnp.concatenate([h, x], 1) if place == "readout" else h) @ w["out"]

    return apply


def planned(place: str, optimizer: str = "adamw") -> JaxPlan:
    return sw.jax.plan(
        lambda width, seed=0: drawn(width, place, seed), base={"width": BASE}, target={"width": 4 * BASE},
        strategy="mup", optimizer=optimizer, apply=applied(place), inputs=X,
        roles={"first": "input", "middle": ("hidden", 0), "out": ("output", 0)},
    )  # fmt: skip


def loss(place: str) -> Any:
    def entropy(model: Any, batch: Any) -> jax.Array:
        logits = applied(place)(model, batch[0])
        return optax.softmax_cross_entropy_with_integer_labels(logits, batch[1]).mean()

    return entropy


@pytest.mark.parametrize("place", few(PLACES, every=3))
def test_the_two_parts_of_a_weight_start_by_rules_of_their_own(place: str) -> None:
    name, stretches, size = PLACES[place]
    plan = planned(place)
    factors = plan.factors(name)
    assert (plan.table[name].fixed, factors.init, factors.lr) == (stretches, size, 1 / 4)
    assert f"`{name}` sums over the width and, beside it, over" in str(plan)
    model = drawn(4 * BASE, place)
    found, base = plan.init(model), plan.table[name].base.std
    start, stop = stretches[0][1:]
    apart = found[name][start:stop]
    inside = jnp.concatenate([found[name][:start], found[name][stop:]])
    assert float(inside.std()) == pytest.approx(size * base, rel=0.1)
    assert float(apart.std()) == pytest.approx(base, rel=0.15)
    ratios = found[name] / model[name]
    assert len(np.unique(np.round(ratios[:, 0], 4))) == 2
    again = plan.init(found)
    assert all(bool((again[n] == found[n]).all()) for n in found)
    as_numpy = plan.init({n: np.asarray(x) for n, x in model.items()})
    assert bool((as_numpy[name] == found[name]).all())


@pytest.mark.parametrize(
    ("place", "optimizer"),
    [("behind", "adamw"), *thorough(("readout", "adamw"), ("in front", "sgd"))],
)
def test_layers_of_two_parts_are_as_planned(place: str, optimizer: str) -> None:
    check = planned(place, optimizer).verify(
        (X, LABELS), loss(place), widths=[32, 64, 128, 256], seeds=3, progress=False
    )
    assert check.ok, str(check)
    assert str(check.verdict) == "feature learning, stable"


def test_layers_of_two_parts_train_at_the_rate_of_their_base() -> None:
    """The loss of a wide network is that of its base, or below."""
    plan, late = planned("behind"), {}
    for width in (BASE, 4 * BASE):
        own, found = plan.at(width=width), []
        tx = own.optax(optax.adamw(5e-3, weight_decay=0.0))

        @jax.jit
        def step(params: Any, state: Any, tx: Any = tx) -> Any:
            value, slopes = jax.value_and_grad(loss("behind"))(params, (X, LABELS))
            updates, state = tx.update(slopes, state, params)
            return value, optax.apply_updates(params, updates), state

        for seed in range(4):
            params = own.init(own.drawn(seed))
            state, values = tx.init(params), []
            for _ in range(20):
                value, params, state = step(params, state)
                values.append(float(value))
            found.append(np.mean(values[10:]))
        late[width] = np.mean(found), np.std(found, ddof=1) / 2
    (base, error), (wide, other) = late.values()
    assert wide < base + 4 * (error + other)
    assert base < 0.9
