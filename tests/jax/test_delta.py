"""Agreement and refusal tests: gated delta layers and Mamba-2 as their users write them in jax."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

import scalewise as sw
from grids import thorough
from scalewise.jax import JaxPlan
from scalewise.plan._questions import Asked

WORDS, BASE = 32, 32
IDS = np.random.default_rng(0).integers(WORDS, size=(4, 9))
OF_DELTA = dict.fromkeys(("q", "k", "v", "alpha", "beta"), "hidden")
OF_MAMBA = {"x": "hidden", "z": "hidden", "B": "bottleneck", "C": "bottleneck", "dt": "hidden"}


def init(width: int, heads: int, kind: str, seed: int = 0) -> dict[str, jax.Array]:
    """An embedding, one layer that mixes, and a readout."""
    draw = np.random.default_rng(seed).standard_normal
    shapes = {"emb": (WORDS, width), "head": (width, WORDS), "o": (width, width)}
    if kind == "mamba":
        shapes |= {"x": (width, width), "z": (width, width), "dt": (width, heads)}
        shapes |= {"B": (width, 8), "C": (width, 8)}
    else:
        shapes |= dict.fromkeys("qkv", (width, width))
        shapes |= {"alpha": (width, heads), "beta": (width, heads)}
    size = {n: 1.0 if n == "emb" else s[0] ** -0.5 for n, s in shapes.items()}
    found = {n: jax.device_put((size[n] * draw(s)).astype(np.float32)) for n, s in shapes.items()}
    return found | {"decay": jnp.zeros(heads), "step": jnp.full((heads,), -2.0)}


def rms(x: jax.Array) -> jax.Array:
    return x * jax.lax.rsqrt(jnp.square(x).mean(-1, keepdims=True) + 1e-6)


def delta(w: Any, x: jax.Array, unit: bool) -> jax.Array:
    """What a state predicts is taken off what is written to it."""
    parts = (jax.nn.silu(x @ w[n]).reshape(*x.shape[:2], len(w["decay"]), -1) for n in "qkv")
    q, k, v = parts
    if unit:
        q, k = (t / jnp.linalg.norm(t, axis=-1, keepdims=True) for t in (q, k))
    beta = jax.nn.sigmoid(x @ w["beta"])
    fade = jnp.exp(-jnp.exp(w["decay"]) * jax.nn.softplus(x @ w["alpha"] + w["step"]))

    def step(S: jax.Array, given: Any) -> Any:
        q, k, v, b, f = given
        S = S * f[..., None, None]
        new = b[..., None] * (v - jnp.einsum("bhvk,bhk->bhv", S, k))
        S = S + jnp.einsum("bhv,bhk->bhvk", new, k)
        return S, jnp.einsum("bhvk,bhk->bhv", S, q)

    S = jnp.zeros((x.shape[0], k.shape[2], v.shape[-1], k.shape[-1]))
    _, y = jax.lax.scan(step, S, tuple(t.swapaxes(0, 1) for t in (q, k, v, beta, fade)))
    return rms(y.swapaxes(0, 1)).reshape(x.shape) @ w["o"]


def mamba(w: Any, x: jax.Array) -> jax.Array:
    """Mamba-2 with a state of fixed size."""
    u, past = jax.nn.silu(x @ w["x"]).reshape(*x.shape[:2], len(w["decay"]), -1), x.shape[1]
    dt = jax.nn.softplus(x @ w["dt"] + w["step"])
    sums = jnp.cumsum(-dt * jnp.exp(w["decay"]), 1)
    kept = jnp.tril(jnp.ones((past, past), bool))[None, :, :, None]
    fades = jnp.exp(jnp.where(kept, sums[:, :, None] - sums[:, None], -1e30))
    pairs = jnp.einsum("btn,bsn->bts", x @ w["C"], x @ w["B"])
    y = jnp.einsum("bts,btsh,bsh,bshp->bthp", pairs, fades, dt, u) + u
    return rms(y.reshape(x.shape) * jax.nn.silu(x @ w["z"])) @ w["o"]


def logits(kind: str) -> Any:
    def apply(w: Any, ids: Any) -> jax.Array:
        x = w["emb"][ids]
        mixed = mamba(w, rms(x)) if kind == "mamba" else delta(w, rms(x), kind == "delta")
        return rms(x + mixed) @ w["head"]

    return apply


def planned(kind: str, *, grows: bool = False) -> JaxPlan:
    """Heads of size 16, or four heads that grow."""
    roles: dict[str, Any] = {"emb": "input", "head": "output", "o": "hidden"}
    roles |= OF_MAMBA if kind == "mamba" else OF_DELTA
    if grows:
        roles |= {"alpha": "bottleneck", "beta": "bottleneck"}
    else:
        roles |= {"decay": "vector", "step": "vector"}
    return sw.jax.plan(
        lambda width, seed=0: init(width, 4 if grows else width // 16, kind, seed), base={"width": BASE},
        target={"width": 4 * BASE}, strategy="mup", apply=logits(kind), inputs=IDS[:, :-1], roles=roles,
    )  # fmt: skip


def loss(kind: str) -> Any:
    def entropy(w: Any, ids: Any) -> jax.Array:
        found = logits(kind)(w, ids[:, :-1])
        return optax.softmax_cross_entropy_with_integer_labels(found, ids[:, 1:]).mean()

    return entropy


def late(plan: JaxPlan, kind: str, width: int) -> tuple[float, float]:
    """The mean loss of the second half of some steps, and its standard error over seeds."""
    own, means = plan.at(width=width), []
    tx = own.optax(optax.adamw(1e-2, weight_decay=0.0))

    @jax.jit
    def step(w: Any, state: Any) -> Any:
        value, slopes = jax.value_and_grad(loss(kind))(w, IDS)
        updates, state = tx.update(slopes, state, w)
        return value, optax.apply_updates(w, updates), state

    for seed in range(3):
        w = own.init(own.drawn(seed))
        state, values = tx.init(w), []
        for _ in range(20):
            value, w, state = step(w, state)
            values.append(float(value))
        means.append(np.mean(values[10:]))
    return float(np.mean(means)), float(np.std(means, ddof=1) / 3**0.5)


@pytest.mark.parametrize("kind", ["mamba", *thorough("delta")])
def test_they_are_planned_as_they_are_and_train_at_the_rate_of_their_base(kind: str) -> None:
    plan = planned(kind)
    assert not plan.multipliers
    (base, error), (wide, other) = (late(plan, kind, width) for width in (BASE, 4 * BASE))
    assert wide < base + 2 * (error + other)
    assert base < 0.8
    check = plan.verify(IDS, loss(kind), widths=[32, 64, 128], seeds=2, progress=False)
    assert (check.ok, str(check.verdict)) == (True, "feature learning, stable"), str(check)


def test_keys_of_unit_length_need_no_factor_in_heads_that_grow() -> None:
    """Their length is kept through a state that begins at zero and is written to step by step."""
    plan = planned("delta", grows=True)
    assert {m.factor for m in plan.multipliers} <= {1.0}


@pytest.mark.thorough("test_they_are_planned_as_they_are_and_train_at_the_rate_of_their_base")
def test_heads_that_grow_on_keys_of_unit_length_are_stable() -> None:
    plan = planned("delta", grows=True)
    check = plan.verify(IDS, loss("delta"), widths=[32, 64, 128], seeds=2, progress=False)
    assert (check.ok, check.verdict.stable) == (True, True), str(check)


def test_keys_without_norms_in_heads_that_grow_are_asked_about() -> None:
    with pytest.raises(Asked, match="grow"):
        planned("delta without norms", grows=True)
