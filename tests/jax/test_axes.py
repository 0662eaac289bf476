"""Sizes beside width and depth in JAX: the same powers, and moments that follow the batch."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

import scalewise as sw
from scalewise.plan import PlanError

ROLES = {"W": "input", "up": ("hidden", 1), "head": "output"}
BASE = {"width": 8, "experts": 2, "batch": 4, "tokens": 1e6}


def init_fn(width: int, experts: int, seed: int = 0) -> dict[str, Any]:
    """Experts whose outputs are averaged."""
    keys = jax.random.split(jax.random.key(seed), 3)
    return {
        "W": jax.random.normal(keys[0], (3, width)) / 3**0.5,
        "up": jax.random.normal(keys[1], (experts, width, width)) / width**0.5,
        "head": jax.random.normal(keys[2], (width, 2)) / width**0.5,
    }


def apply(params: Any, x: Any) -> Any:
    return jnp.einsum("bn,enm->bm", jnp.tanh(x @ params["W"]), params["up"]) @ params["head"]


def planned(change: dict[str, Any], **options: Any) -> Any:
    settings = {
        "strategy": sw.scaling.mup(),
        "roles": ROLES,
        "apply": apply,
        "inputs": jnp.ones((5, 3)),
    }
    return sw.jax.plan(init_fn, base=BASE, target=BASE | change, **settings | options)


def test_sizes_of_the_training_are_not_for_the_factory() -> None:
    plan = planned({"width": 32, "experts": 8, "batch": 8}, policy="completed")
    f = plan.factors("up")
    assert (f.init, f.lr) == (0.5, pytest.approx(2**0.5 / 4))
    assert f.eps == pytest.approx(2**-0.5 / 4 / 4)
    assert f.weight_decay == pytest.approx(4 * 2**0.5)
    assert plan.at(batch=4).factors("up").lr == 0.25
    assert plan.drawn(1)["up"].shape == (8, 32, 32)
    assert "Policy 'completed'" in str(plan)


def test_moments_follow_the_batch() -> None:
    plan = planned({"batch": 8}, policy="completed")
    with pytest.raises(PlanError, match=r"changes the decay rates of moments, which are inside"):
        plan.optax(optax.adamw(1.0))
    with pytest.raises(PlanError, match=r"`betas` must be given beside a function of them"):
        plan.optax(lambda b1, b2: optax.adamw(1.0, b1, b2))
    with pytest.raises(PlanError, match=r"`betas` is for an optimiser that is made of them"):
        plan.optax(optax.adamw(1.0), betas=(0.9, 0.99))
    tx = plan.optax(
        lambda b1, b2: optax.adamw(0.1, b1, b2, eps=0.0, weight_decay=0.0), betas=(0.9, 0.99)
    )
    own = optax.adamw(0.1 * 2**0.5, 0.8, 0.98, eps=0.0, weight_decay=0.0)
    params = init_fn(8, 2)
    states = tx.init(params), own.init(params)
    for seed in range(3):
        grads = init_fn(8, 2, seed)
        (a, one), (b, two) = (
            jax.jit(t.update)(grads, s, params) for t, s in zip((tx, own), states, strict=True)
        )
        states = one, two
        assert all(np.allclose(a[k], b[k], rtol=1e-5) for k in a)
    # Gradient descent has no moments to change.
    planned({"batch": 8}, policy="completed", optimizer="sgd").optax(optax.sgd(1.0))


def kernels(width: int) -> dict[str, Any]:
    keys = jax.random.split(jax.random.key(0), 3)
    return {
        "first": jax.random.normal(keys[0], (3, width)),
        "inner": jax.random.normal(keys[1], (width, width)) / width**0.5,
        "wide": jax.random.normal(keys[2], (width, 4 * width)) / width**0.5,
        "last": jax.random.normal(keys[0], (4 * width, 2)) / width,
    }


def test_the_muon_of_optax_by_its_dimension_numbers() -> None:
    """Kernels of (in, out), each read through the numbers that say which axis is summed; the rest is AdamW's."""

    def run(x: Any, p: Any) -> Any:
        return jnp.tanh(jnp.tanh(x @ p["first"]) @ p["inner"]) @ p["wide"] @ p["last"]

    roles = {"first": "input", "inner": ("hidden", 0), "wide": ("hidden", 0), "last": "output"}
    numbers = {
        "first": None, "last": None,
        **dict.fromkeys(("inner", "wide"), optax.contrib.MuonDimensionNumbers(0, 1)),
    }  # fmt: skip
    steps = {}
    for adjust, rms in ((None, 0.0), ("optax", None), ("consistent_rms", 0.2)):
        plan = sw.jax.plan(
            kernels, base={"width": 8}, target={"width": 32}, strategy=sw.scaling.mup(), roles=roles,
            optimizer="muon", adjust=adjust, apply=lambda p, x: run(x, p), inputs=jnp.ones((5, 3)),
        )  # fmt: skip
        if adjust is None:
            raw = {n: plan.factors(n).lr for n in ("inner", "wide")}
            continue
        tx = optax.contrib.muon(
            1.0,
            consistent_rms=rms,
            weight_decay=0.0,
            muon_weight_dimension_numbers=numbers,
            nesterov=False,
        )
        params = kernels(32)
        wrapped = plan.optax(tx, check=False)
        grads = kernels(32)
        updates, _ = jax.jit(wrapped.update)(grads, wrapped.init(params), params)
        for n in ("inner", "wide"):
            U, _, Vt = np.linalg.svd(grads[n], full_matrices=False)
            steps[adjust, n] = float(-np.vdot(updates[n], U @ Vt) / np.vdot(U @ Vt, U @ Vt))
    # At the base each library's own factor, of the shape there; from then on as the raw factor needs.
    own = {
        ("optax", "inner"): 1.0, ("optax", "wide"): 2.0,
        ("consistent_rms", "inner"): 0.2 * 8**0.5, ("consistent_rms", "wide"): 0.2 * 32**0.5,
    }  # fmt: skip
    for (adjust, name), factor in own.items():
        assert steps[adjust, name] == pytest.approx(factor * raw[name], rel=0.25), (adjust, name)
