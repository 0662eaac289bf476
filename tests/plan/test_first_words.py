"""Properties: what people type first is understood, or refused in one sentence that says the right form."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import optax
import pytest
import torch
from torch import nn

import scalewise as sw
from grids import each
from scalewise.plan import PlanError
from scalewise.plan._laws import OPTIMIZERS, known_optimizer
from scalewise.scaling._strategies import strategy_of
from torch_models import mlp

POINTS = torch.randn(8, 8), torch.arange(8)
KEY = jax.random.key(0)


def planned(**options: Any) -> Any:
    sizes: dict[str, Any] = {"base": {"width": 16}, "target": {"width": 64}}
    return sw.torch.plan(mlp, **{**sizes, "strategy": sw.scaling.mup(), **options})


@each(("written", "name"), [(w(n), n) for n in OPTIMIZERS for w in (str.upper, str.title, str)])
def test_names_of_optimizers_are_read_in_any_letters(written: str, name: str) -> None:
    assert known_optimizer(f" {written}").name == name


def test_classes_are_their_names() -> None:
    names = {torch.optim.AdamW: "adamw", torch.optim.SGD: "sgd", torch.optim.RMSprop: "rmsprop"}
    for cls, name in names.items():
        assert planned(optimizer=cls).table == planned(optimizer=name).table
    assert known_optimizer(optax.adamw).name == "adamw"
    with pytest.raises(PlanError, match=r"`optimizer` must be one of 'sgd', .*got <class.*LBFGS"):
        planned(optimizer=torch.optim.LBFGS)
    one = torch.optim.AdamW(mlp(16).parameters())
    with pytest.raises(PlanError, match="`optimizer` must be the name of an optimizer, such as 'a"):
        planned(optimizer=one)


@each(
    ("written", "name"),
    [
        ("mup", "mup"), ("muP", "mup"), ("\u00b5P", "mup"), ("\u03bcP", "mup"), ("MUP", "mup"),
        ("mean-field", "mean_field"), ("mean_field", "mean_field"), ("NTK", "ntk"), ("SP", "standard"),
    ],
)  # fmt: skip
def test_names_of_strategies_are_read_in_any_letters(written: str, name: str) -> None:
    assert (
        strategy_of(written)
        == strategy_of(getattr(sw.scaling, name))
        == getattr(sw.scaling, name)()
    )


def test_a_strategy_by_name_makes_the_same_plan() -> None:
    assert (
        planned(strategy="mup").table == planned().table == planned(strategy=sw.scaling.mup).table
    )
    for wrong in ("mu", "meta", sw.scaling.meta, max, 1, None, lambda: sw.scaling.mup()):
        with pytest.raises(PlanError, match=r"`strategy` must be a strategy of scalewise\.scaling"):
            planned(strategy=wrong)


def labelled(model: nn.Module, batch: Any) -> torch.Tensor:
    return nn.functional.cross_entropy(model(batch[0]), batch[1])


def swapped(batch: Any, model: nn.Module) -> torch.Tensor:
    return labelled(model, batch)


def only_named(*, width: int, depth: int = 3) -> nn.Module:
    return mlp(width, depth)


def named_otherwise(*, hidden: int) -> nn.Module:
    return mlp(hidden)


def test_an_audit_takes_a_class_alone_and_a_factory_of_named_arguments() -> None:
    sizes: dict[str, Any] = {"widths": (16, 32, 64), "seeds": 2}
    one = sw.torch.audit(mlp, (torch.optim.AdamW, {}), labelled, POINTS, **sizes)
    for build in (only_named, named_otherwise):
        found = sw.torch.audit(build, torch.optim.AdamW, labelled, POINTS, **sizes)
        assert found.sentence == one.sentence


WRONG = {
    r"`loss` is called as loss\(model, batch\), and this one takes the batch first": {
        "loss": swapped
    },
    r"`loss` is called as loss\(model, batch\) and raised TypeError: .*Give a function that calls": {
        "loss": nn.functional.cross_entropy
    },
    r"`loss` is called as loss\(model, batch\) and raised TypeError": {"loss": lambda model: 1.0},
}
SCRIPTS = {
    r"`optimizer` raised TypeError: .*learning_rate.*; or give a class and its": {
        "optimizer": (torch.optim.AdamW, {"learning_rate": 1e-3})
    },
    r"`optimizer` raised TypeError": {"optimizer": lambda: None},
    r"`optimizer` must be a function that takes a model and": {"optimizer": torch.optim.AdamW(mlp(8).parameters())},
    r"`build\(16\)` raised TypeError: .*called with a width and nothing else": {"build": lambda width, depth: 0},
}  # fmt: skip


@each(("said", "given"), [*WRONG.items(), *SCRIPTS.items()])
def test_an_audit_says_what_it_calls_and_how(said: str, given: dict[str, Any]) -> None:
    script = {
        "build": mlp,
        "optimizer": torch.optim.AdamW,
        "loss": labelled,
        "batch": POINTS,
    } | given
    with pytest.raises(PlanError, match=said):
        sw.torch.audit(**script, widths=(16, 32, 64), seeds=2)


@each(("said", "given"), WRONG.items())
def test_verify_says_how_it_calls_the_loss(said: str, given: dict[str, Any]) -> None:
    with pytest.raises(PlanError, match=said):
        planned().verify(POINTS, given["loss"], widths=[16, 32, 64], seeds=2)


def tree(width: int, seed: int = 0) -> dict[str, jax.Array]:
    first, last = jax.random.split(jax.random.key(seed))
    return {
        "W": jax.random.normal(first, (8, width)),
        "head": jax.random.normal(last, (width, 2)) / width**0.5,
    }


def squares(p: dict[str, jax.Array], x: jax.Array) -> jax.Array:
    return jnp.mean((jnp.tanh(x @ p["W"]) @ p["head"] - 1) ** 2)


@each(
    ("said", "given"),
    [
        (r"`optimizer` is optax\.adamw itself, .*give optax\.adamw\(3e-4\)", {"optimizer": optax.adamw}),
        (r"`optimizer` raised TypeError", {"optimizer": lambda: None}),
        (r"`loss` is called as loss\(model, batch\), and this one takes", {"loss": lambda x, p: squares(p, x)}),
    ],
)  # fmt: skip
def test_an_audit_of_jax_says_so_too(said: str, given: dict[str, Any]) -> None:
    x = jax.random.normal(KEY, (8, 8))
    script = {"init_fn": tree, "optimizer": optax.sgd(0.1), "loss": squares, "batch": x} | given
    with pytest.raises(PlanError, match=said):
        sw.jax.audit(**script, widths=(16, 32, 64), seeds=2)
