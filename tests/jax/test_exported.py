"""Agreement: `optax.partition` and `optax.contrib.muon`, given a plan, move tensors as `plan.optax` does."""

from __future__ import annotations

from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

import scalewise as sw
from grids import thorough
from scalewise.plan import PlanError

BASE, TARGET = {"width": 8}, {"width": 32}


class Net(eqx.Module):
    """A table, matrices inside, one of which grows otherwise, gains and a readout."""

    embed: eqx.nn.Embedding
    inner: eqx.nn.Linear
    wide: eqx.nn.Linear
    norm: eqx.nn.LayerNorm
    head: eqx.nn.Linear

    def __init__(self, width: int, seed: int = 0) -> None:
        keys = jax.random.split(jax.random.key(seed), 4)
        self.embed = eqx.nn.Embedding(11, width, key=keys[0])
        self.inner = eqx.nn.Linear(width, 2 * width + 16, key=keys[1])
        self.wide = eqx.nn.Linear(2 * width + 16, width, key=keys[2])
        self.norm = eqx.nn.LayerNorm(width)
        self.head = eqx.nn.Linear(width, 11, use_bias=False, key=keys[3])

    def __call__(self, token: Any) -> Any:
        x = self.embed(token)
        return self.head(self.norm(x + self.wide(jnp.tanh(self.inner(x)))))


def planned(optimizer: str, adjust: str | None = None, **more: Any) -> Any:
    return sw.jax.plan(
        Net, base=BASE | more.pop("base", {}), target=TARGET | more.pop("target", {}),
        strategy=sw.scaling.mup(), optimizer=optimizer, adjust=adjust, apply=lambda model, t: model(t),
        inputs=jnp.zeros((), int), **more,
    )  # fmt: skip


def moved(tx: Any, steps: int = 2) -> Any:
    params = eqx.filter(Net(**TARGET), eqx.is_array)
    grads = jax.tree.map(
        lambda p: (1e-3 * (np.sin(np.arange(p.size)) + 0.1)).reshape(p.shape).astype(p.dtype),
        params,
    )

    @jax.jit
    def step(params: Any, state: Any) -> Any:
        updates, state = tx.update(grads, state, params)
        return optax.apply_updates(params, updates), state

    state = tx.init(params)
    for _ in range(steps):
        params, state = step(params, state)
    return params


def same(one: Any, two: Any, atol: float = 1e-7) -> bool:
    pairs = zip(jax.tree.leaves(one), jax.tree.leaves(two), strict=True)
    return all(np.allclose(a, b, rtol=1e-5, atol=atol) for a, b in pairs)


def test_partition_trains_as_the_wrapped_optimiser() -> None:
    plan = planned("adamw")
    settings = {"eps": 1e-4, "weight_decay": 0.1}
    seen: dict[str, Any] = {}

    def make(**given: Any) -> Any:
        seen[f"{given['learning_rate']:.6g}, {given['eps']:.6g}, {given['weight_decay']:.6g}"] = (
            given
        )
        return optax.adamw(**given)

    transforms, labels = sw.jax.to_partition(plan, {"adamw": make}, lr=0.01, b1=0.8, **settings)
    found = moved(optax.partition(transforms, labels))
    assert same(found, moved(plan.optax(optax.adamw(0.01, b1=0.8, **settings))))
    assert not same(found, moved(optax.adamw(0.01, b1=0.8, **settings)))
    # Each tensor by the settings of the plan.
    labelled = jax.tree_util.tree_leaves_with_path(labels(eqx.filter(Net(**TARGET), eqx.is_array)))
    assert len(labelled) == len(plan.table.tensors)
    assert {label for _, label in labelled} == transforms.keys() - {"untrained"}
    of = {
        f"{0.01 * f.lr:.6g}, {1e-4 * f.eps:.6g}, {0.1 * f.weight_decay:.6g}"
        for f in map(plan.factors, plan.table.names)
    }
    assert seen.keys() == of
    assert all(given["b1"] == 0.8 for given in seen.values())
    rates, labels = sw.jax.to_partition(
        plan, {"adamw": optax.adamw}, lr=lambda step: 0.01, b1=0.8, **settings
    )
    assert same(found, moved(optax.partition(rates, labels)))


@pytest.mark.parametrize(("adjust", "rms"), [("optax", None), *thorough(("consistent_rms", 0.2))])
def test_muon_of_optax_takes_what_the_plan_gives_it(adjust: str, rms: float | None) -> None:
    plan = planned("muon", adjust)
    options = {"eps": 1e-20, "weight_decay": 0.1, "consistent_rms": rms}
    params = eqx.filter(Net(**TARGET), eqx.is_array)
    choose = sw.jax.muon_dimensions(plan)
    axes = choose(params)
    assert axes.embed.weight is axes.head.weight is axes.inner.bias is None
    assert axes.inner.weight == axes.wide.weight == optax.contrib.MuonDimensionNumbers(0, 1)

    def muon(dimensions: Any) -> Any:
        return optax.contrib.muon(
            0.02, adam_learning_rate=3e-3, adam_weight_decay=0.2, muon_weight_dimension_numbers=dimensions,
            nesterov=False, **options,
        )  # fmt: skip

    whole = moved(plan.optax(muon(choose)))
    parts = optax.partition(*sw.jax.to_partition(plan,
        {"muon": optax.contrib.muon, "adamw": optax.adamw}, lr=0.02, nesterov=False, **options,
        rest={"lr": 3e-3, "eps": 1e-20, "weight_decay": 0.2},
    ))  # fmt: skip
    # Iterations round otherwise for a gradient that was scaled: a thousandth of a step.
    assert same(whole, moved(parts), atol=3e-6)
    # By itself it takes the table and the readout too.
    assert not same(whole, moved(plan.optax(muon(None), check=False)), atol=1e-4)


def test_what_is_missing_is_asked_for() -> None:
    muon, adam = planned("muon", "optax"), planned("adamw")
    both = {"muon": optax.contrib.muon, "adamw": optax.adamw}
    batches = planned(
        "adamw", base={"batch": 8}, target={"batch": 32}, policy="sde", decay="shrinkage"
    )
    to, odd = sw.jax.to_partition, {"adamw": lambda learning_rate: None}
    for call, message in (
        (lambda: to(muon, both, lr=1.0), "matrices to 'muon' and the rest to 'adamw'. Give"),
        (lambda: to(adam, {}, lr=1.0), "`makers` has no 'adamw'"),
        (lambda: to(adam, odd, lr=1.0), "`eps` of 'adamw' must be given"),
        (lambda: to(adam, both, lr=None), "`lr` is the learning rate of 'adamw'"),
        (lambda: sw.jax.muon_dimensions(adam), "it gives nothing to Muon"),
        (lambda: to(batches, both, lr=1.0), "changes decay rates of moments: give those"),
    ):  # fmt: skip
        with pytest.raises(PlanError, match=message):
            call()
