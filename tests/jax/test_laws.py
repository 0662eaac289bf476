"""Conformance: which optimisers of optax a plan takes, by what they do and by no name."""

from collections.abc import Sequence

import jax
import jax.numpy as jnp
import optax
import pytest

import scalewise as sw
from grids import thorough
from scalewise.plan import PlanError

LAWS: dict[str, tuple[object, str]] = {
    # What may be wrapped, by the only kinds of plan that take it.
    "sgd": (lambda: optax.sgd(0.1), "sgd"),
    "momentum": (lambda: optax.sgd(0.1, momentum=0.9, nesterov=True), "sgd"),
    "decayed": (lambda: optax.chain(optax.add_decayed_weights(0.1), optax.sgd(0.1)), "sgd"),
    "clipped": (lambda: optax.chain(optax.clip(1.0), optax.sgd(0.1)), "sgd"),
    "adam": (lambda: optax.adam(0.1), "adam adamw"),
    "radam": (lambda: optax.radam(0.1), "adam adamw"),
    "adagrad": (lambda: optax.adagrad(0.1), "adam adamw"),
    "rmsprop": (lambda: optax.rmsprop(0.1), "adam adamw"),
    "l2": (lambda: optax.chain(optax.add_decayed_weights(0.1), optax.adam(0.1)), "adam"),
    "lion": (lambda: optax.lion(0.1), "adamw"),
    "gathered": (lambda: optax.MultiSteps(optax.adamw(0.1), 4).gradient_transformation(), "adamw"),
    "masked": (lambda: optax.adamw(0.1, mask={"a": True, "head": False}), "adamw"),
    "plateau": (lambda: optax.chain(optax.adamw(0.1), optax.contrib.reduce_on_plateau()), "adamw"),
    # What may not, whatever the plan.
    "prodigy": (lambda: optax.contrib.prodigy(), ""),
    "L-BFGS": (lambda: optax.lbfgs(), ""),
    "schedule-free": (lambda: optax.contrib.schedule_free_adamw(0.1), ""),
    "schedule-free sgd": (lambda: optax.contrib.schedule_free_sgd(0.1), ""),
    "D-adaptation": (lambda: optax.contrib.dadapt_adamw(), ""),
    "mechanic": (lambda: optax.contrib.mechanize(optax.adamw(0.1)), ""),
    "Polyak": (lambda: optax.polyak_sgd(), ""),
    "LARS": (lambda: optax.lars(0.1), ""),
    "LAMB": (lambda: optax.lamb(0.1), ""),
    "Adafactor": (lambda: optax.adafactor(0.1), ""),
    "Muon": (lambda: optax.contrib.muon(0.1), ""),
    "mixed": (
        lambda: optax.multi_transform(
            {"x": optax.adamw(0.1), "y": optax.sgd(0.1)}, {"a": "x", "head": "y"}
        ),
        "",
    ),
    "asks for a function": (
        lambda: optax.contrib.sam(optax.adam(0.1), optax.sgd(0.1), opaque_mode=True), ""
    ),
}  # fmt: skip
MORE = ["decayed", "clipped", "adam", "adagrad", "rmsprop", "plateau", "prodigy", "L-BFGS",
        "schedule-free sgd", "D-adaptation", "LAMB", "Adafactor", "Muon", "mixed"]  # fmt: skip
SOME = [name for name in LAWS if name not in MORE]


@pytest.mark.parametrize("names", [SOME, *thorough(MORE)], ids=["some", "more"])
def test_what_an_optimiser_does_decides_whether_it_is_taken(names: Sequence[str]) -> None:
    def tree(width: int) -> dict[str, jax.Array]:
        return {"a": jnp.ones((3, width)), "head": jnp.ones((width, 2))}

    plans = {
        law: sw.jax.plan(
            tree, base={"width": 4}, target={"width": 16}, strategy=sw.scaling.mup(),
            roles={"a": "input", "head": "output"}, optimizer=law,
        )
        for law in ("sgd", "adam", "adamw")
    }  # fmt: skip
    wrong = []
    for name in names:
        (make, expected), found = LAWS[name], []
        for law, plan in plans.items():
            try:
                plan.optax(make()).init(tree(16))
            except PlanError:
                continue
            found.append(law)
        if " ".join(found) != expected:
            wrong.append((name, found, expected))
    assert wrong == []
    # Under jit too, where nothing can be looked at.
    jax.jit(plans["adamw"].optax(LAWS["masked"][0]()).init)(tree(16))


def test_what_is_treated_by_name_or_by_shape_is_seen() -> None:
    """Gradient descent for some tensors, told by name or by shape: on other trees it is AdamW throughout."""
    both = {"x": optax.adamw(0.1), "y": optax.sgd(0.1)}

    def by_name(tree: dict[str, jax.Array]) -> dict[str, str]:
        return {name: "y" if name == "head" else "x" for name in tree}

    def by_shape(tree: dict[str, jax.Array]) -> dict[str, str]:
        return {name: "y" if jnp.ndim(leaf) == 1 else "x" for name, leaf in tree.items()}

    def tree(width: int) -> dict[str, jax.Array]:
        return {"a": jnp.ones((3, width)), "bias": jnp.ones(width), "head": jnp.ones((width, 2))}

    plan = sw.jax.plan(
        tree, base={"width": 4}, target={"width": 16}, strategy=sw.scaling.mup(),
        roles={"a": "input", "bias": "vector", "head": "output"}, optimizer="adamw",
    )  # fmt: skip
    for labels in (by_name, by_shape):
        tx = optax.multi_transform(both, labels)
        with pytest.raises(PlanError):
            plan.optax(tx).init(tree(16))
    plan.optax(optax.multi_transform(both | {"y": optax.adamw(0.1)}, by_shape)).init(tree(16))
