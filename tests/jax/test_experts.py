"""Golden tests: experts that a router chooses, in a traced model."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import pytest

import scalewise as sw
from scalewise.jax import JaxPlan
from scalewise.plan._questions import Asked

WORDS = jnp.arange(16).reshape(2, 8)
ROLES = {
    "emb": "input",
    "one": ("hidden", 1),
    "two": ("hidden", 1),
    "head": "output",
}


def init(width: int, experts: int = 8) -> dict[str, Any]:
    shapes = {
        "emb": (32, width),
        "pick": (width, experts),
        "one": (experts, width, width),
        "two": (experts, width, width),
        "head": (width, 32),
    }
    keys = jax.random.split(jax.random.key(0), len(shapes))
    return {
        name: jax.random.normal(key, shape) / width**0.5
        for key, (name, shape) in zip(keys, shapes.items(), strict=True)
    }


def rms(x: jax.Array) -> jax.Array:
    return x * jax.lax.rsqrt((x * x).mean(-1, keepdims=True) + 1e-6)


def masked(p: dict[str, Any], x: jax.Array, best: jax.Array, index: jax.Array) -> jax.Array:
    share = (jax.nn.one_hot(index, p["pick"].shape[1]) * best[..., None]).sum(-2)
    h = jax.nn.silu(jnp.einsum("btd,edf->btef", x, p["one"]))
    return jnp.einsum("bte,bted->btd", share, jnp.einsum("btef,efd->bted", h, p["two"]))


def gathered(p: dict[str, Any], x: jax.Array, best: jax.Array, index: jax.Array) -> jax.Array:
    h = jax.nn.silu(jnp.einsum("btd,btkdf->btkf", x, p["one"][index]))
    return (jnp.einsum("btkf,btkfd->btkd", h, p["two"][index]) * best[..., None]).sum(-2)


def planned(
    way: Callable[..., jax.Array],
    score: Callable[[jax.Array], jax.Array],
    build: Callable[..., Any] = init,
    router: str = "bottleneck",
) -> JaxPlan:
    def apply(p: dict[str, Any], words: jax.Array) -> jax.Array:
        x = p["emb"][words]
        best, index = jax.lax.top_k(score(rms(x) @ p["pick"]), 2)
        best = best / best.sum(-1, keepdims=True)
        return rms(x + way(p, rms(x), best, index)) @ p["head"]

    return sw.jax.plan(
        build, base={"width": 64}, target={"width": 256}, strategy="mup", apply=apply, inputs=WORDS,
        roles=ROLES | {"pick": router},
    )  # fmt: skip


@pytest.mark.parametrize("way", [masked, gathered])
@pytest.mark.parametrize("score", [jax.nn.softmax, jax.nn.sigmoid])
def test_a_router_starts_as_a_hidden_matrix(way: Any, score: Any) -> None:
    plan = planned(way, score)
    assert plan.table["pick"].normed
    assert plan.factors("pick").init == pytest.approx(1 / 2)
    assert not plan.multipliers


@pytest.mark.parametrize("way", [masked, gathered])
def test_experts_that_go_with_the_width_are_asked_about(way: Any) -> None:
    with pytest.raises(Asked, match=r"^In the model each sample goes to a few of 8 experts"):
        planned(way, jax.nn.softmax, lambda width: init(width, width // 8), "hidden")
