"""Golden and agreement tests: a bottleneck of jax whose size a norm divides out starts as a hidden matrix."""

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
from scalewise.jax import JaxPlan
from scalewise.plan._check import Check

BASE, LATENT = 64, 8
DRAW = np.random.default_rng(0)
NUMBERS = DRAW.standard_normal((12, 8)).astype(np.float32)
LABELS = DRAW.integers(3, size=12)
Middle = Callable[[jax.Array], jax.Array]


def drawn(width: int, seed: int = 0) -> dict[str, jax.Array]:
    """A first layer, a way through a few units beside it, a layer of both, and a readout."""
    draw = np.random.default_rng(seed).standard_normal
    shapes = {
        "first": (8, width),
        "down": (width, LATENT),
        "up": (LATENT, width),
        "head": (width, 3),
    }
    found = {n: draw(s) / s[0] ** 0.5 for n, s in shapes.items()}
    return {n: jax.device_put(x.astype(np.float32)) for n, x in found.items()}


def rms(x: jax.Array) -> jax.Array:
    return x * jax.lax.rsqrt(jnp.square(x).mean(-1, keepdims=True) + 1e-6)


def layers(x: jax.Array) -> jax.Array:
    x = x - x.mean(-1, keepdims=True)
    return x / jnp.sqrt((x * x).sum(-1, keepdims=True) / x.shape[-1] + 1e-6)


# What the few units go through, and whether the size of what the bottleneck writes is divided out.
MIDDLES: dict[str, tuple[Middle, bool]] = {
    "rms": (rms, True),
    "layers": (layers, True),
    "standardize": (jax.nn.standardize, True),
    "unit length": (lambda x: x / jnp.linalg.norm(x, axis=-1, keepdims=True), True),
    "halves": (lambda x: jnp.concatenate([rms(x[..., :4]), x[..., 4:]], -1), True),
    "plain": (lambda x: x, False),
    "bent": (jnp.tanh, False),
    "gated": (jax.nn.silu, False),
    "over its square": (lambda x: x / (1 + jnp.square(x).mean(-1, keepdims=True)), False),
    "bent first": (lambda x: rms(jnp.tanh(x)), False),
    "beside another": (lambda x: rms(x + jnp.tanh(x)), False),
}


def applied(middle: Middle) -> Callable[[Any, Any], jax.Array]:
    def apply(w: Any, x: Any) -> jax.Array:
        x = jax.nn.relu(x @ w["first"])
        return jax.nn.relu(x + middle(x @ w["down"]) @ w["up"]) @ w["head"]

    return apply


def planned(middle: Middle, optimizer: str = "adamw") -> JaxPlan:
    return sw.jax.plan(
        drawn, base={"width": BASE}, target={"width": 4 * BASE}, strategy=sw.scaling.mup(), optimizer=optimizer,
        apply=applied(middle), inputs=NUMBERS,
        roles={"first": "input", "up": "input", "down": "bottleneck", "head": "output"},
    )  # fmt: skip


def test_what_a_norm_divides_starts_as_a_hidden_matrix() -> None:
    found = {}
    for name, (middle, _) in MIDDLES.items():
        plan = planned(middle)
        row, factors = plan.table["down"], plan.factors("down")
        assert (str(row.role), factors.lr) == ("bottleneck", 1 / 4)
        found[name] = (row.normed, factors.init)
    expected = {n: (normed, 4 ** (-0.5 if normed else -1)) for n, (_, normed) in MIDDLES.items()}
    assert found == {n: (normed, pytest.approx(init)) for n, (normed, init) in expected.items()}


def verified(plan: JaxPlan, middle: Middle, **options: Any) -> Check:
    def loss(model: Any, batch: Any) -> jax.Array:
        logits = applied(middle)(model, batch[0])
        return optax.softmax_cross_entropy_with_integer_labels(logits, batch[1]).mean()

    return plan.verify(
        (NUMBERS, LABELS), loss, widths=[64, 128, 256, 512], seeds=4, progress=False, **options
    )


@pytest.mark.parametrize(
    ("name", "optimizer"), [("rms", "adamw"), *thorough(("rms", "sgd"), ("layers", "adamw"))]
)
def test_a_normalised_bottleneck_is_stable_and_learns_features(name: str, optimizer: str) -> None:
    middle = MIDDLES[name][0]
    check = verified(planned(middle, optimizer), middle)
    assert (check.ok, str(check.verdict)) == (True, "feature learning, stable"), str(check)


@pytest.mark.thorough("test_a_normalised_bottleneck_is_stable_and_learns_features")
def test_drawn_as_a_readout_it_turns_faster_in_wide_networks() -> None:
    def setup(plan: Any, model: Any) -> Any:
        model = plan.init(model)
        smaller = (plan.table.target["width"] / BASE) ** -0.5
        return model | {"down": smaller * model["down"]}, plan.optax(optax.adam(1e-4))

    check = verified(planned(rms), rms, setup=setup)
    grown = next(r for r in check.rows if (r.tensor, str(r.quantity)) == ("up", "change"))
    assert grown.fit.slope == pytest.approx(0.5, abs=3 * grown.fit.sem + 0.0625)
    assert [c.tensor for c in check.culprits] == ["down"]
    assert not check.verdict.stable
