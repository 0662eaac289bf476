"""Agreement: networks of jax over widths against their plan; planted mistakes; the same networks in PyTorch."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest
import torch
from flax import nnx

import scalewise as sw
from grids import thorough
from jax_attending import ROLES, WORDS, attends, masked, over_d, scaled
from jax_models import by_numpy, in_torch, mlp, mlp_roles, preactivations, quick_draws
from scalewise.jax import JaxPlan
from scalewise.plan import PlanError
from scalewise.plan._check import Check
from scalewise.plan._diagnosis import Cause
from scalewise.plan._measurement import Quantity

WIDTHS = [32, 64, 128]
RNG = np.random.default_rng(5)
X, Y = RNG.standard_normal((16, 8)).astype(np.float32), RNG.integers(10, size=16)
TOKENS = RNG.integers(WORDS, size=(2, 7))
MUP = sw.scaling.mup()


def tree(width: int, seed: int = 0) -> Any:
    """Two hidden layers and a readout, drawn by NumPy; biases too."""
    return mlp(width, 2, inputs=8, outputs=10, seed=seed)


def perceptron(width: int, seed: int = 0) -> eqx.Module:
    """An MLP of Equinox, drawn by NumPy."""
    with quick_draws():
        model, rng = eqx.nn.MLP(8, 10, width, 2, key=jax.random.key(0)), np.random.default_rng(seed)
    return jax.tree.map(
        lambda x: jnp.asarray(rng.standard_normal(x.shape) / x.shape[-1] ** 0.5, x.dtype)
        if eqx.is_array(x) else x, model,
    )  # fmt: skip


class Normed(nnx.Module):
    """Layers of Flax with a norm between them and dropout before the readout."""

    def __init__(self, width: int, seed: int):
        own: dict[str, Any] = {"rngs": nnx.Rngs(seed), "kernel_init": by_numpy(seed)}
        self.first, self.second = nnx.Linear(8, width, **own), nnx.Linear(width, width, **own)
        self.norm = nnx.LayerNorm(width, rngs=own["rngs"])
        self.dropout = nnx.Dropout(0.1, rngs=own["rngs"])
        self.head = nnx.Linear(width, 10, **own)

    def __call__(self, x: jax.Array) -> jax.Array:
        x = self.norm(jnp.tanh(self.first(x)))
        return self.head(self.dropout(nnx.relu(self.second(x))))


class Tied(nnx.Module):
    """An embedding whose transpose reads out."""

    def __init__(self, width: int, seed: int):
        rngs, draw = nnx.Rngs(seed), by_numpy(seed)
        self.embed = nnx.Embed(WORDS, width, rngs=rngs, embedding_init=lambda *a: 4 * draw(*a))
        self.mix = nnx.Linear(width, width, rngs=rngs, kernel_init=draw)

    def __call__(self, tokens: jax.Array) -> jax.Array:
        x = self.embed(tokens)
        return self.embed.attend(x + jnp.tanh(self.mix(x)))


def likelihood(logits: jax.Array, labels: Any) -> jax.Array:
    return optax.softmax_cross_entropy_with_integer_labels(logits, labels).mean()


def of_tree(params: Any, batch: Any) -> jax.Array:
    return likelihood(preactivations(params, batch[0])[-1], batch[1])


def called(model: Any, batch: Any) -> jax.Array:
    return likelihood(model(batch[0]), batch[1])


def mapped(model: Any, batch: Any) -> jax.Array:
    return likelihood(jax.vmap(model)(batch[0]), batch[1])


def planned(build: Callable[..., Any], optimizer: str = "sgd", **options: Any) -> JaxPlan:
    settings: dict[str, Any] = {"strategy": MUP} | options
    return sw.jax.plan(
        build, base={"width": 32}, target={"width": 64}, optimizer=optimizer, **settings
    )


def of_trees(optimizer: str = "sgd", **options: Any) -> JaxPlan:
    settings: dict[str, Any] = {
        "roles": mlp_roles(2), "inputs": X, "apply": lambda p, x: preactivations(p, x)[-1]
    } | options  # fmt: skip
    return planned(tree, optimizer, **settings)


def attending(
    write: Callable[..., Any], optimizer: str, **options: Any
) -> tuple[JaxPlan, Callable[..., Any]]:
    """A plan for a small transformer, and its loss."""

    def build(width: int, seed: int = 0) -> Any:
        draw = np.random.default_rng(seed).standard_normal
        made = {"embed": draw((WORDS, width)), "mix": [draw((width, 3 * width)) / width**0.5],
                "head": draw((width, WORDS)) / width**0.5}  # fmt: skip
        return jax.tree.map(lambda a: jnp.asarray(a, jnp.float32), made)

    apply = attends(write, lambda n: 2)
    plan = planned(build, optimizer, roles=ROLES, apply=apply, inputs=TOKENS[:, :-1], **options)
    return plan, lambda m, b: likelihood(apply(m, b[:, :-1], m["head"].shape[0]), b[:, 1:])


@pytest.mark.parametrize(
    ("optimizer", "strategy"), [("adam", MUP), *thorough(("sgd", sw.scaling.ntk()))]
)
def test_the_same_networks_have_the_same_sizes_in_torch_and_jax(
    optimizer: str, strategy: Any
) -> None:
    def build(width: int) -> torch.nn.Module:
        # What `verify` seeds a factory of PyTorch with is what it gives one of jax.
        return in_torch(tree(width, torch.initial_seed() % 2**31))

    def loss(model: torch.nn.Module, batch: Any) -> torch.Tensor:
        return torch.nn.functional.cross_entropy(model(batch[0]), batch[1])

    names = dict(zip(("0", "2", "4"), ("layers.0", "layers.1", "head"), strict=True))
    problems = []
    one = sw.torch.plan(
        build, base={"width": 32}, target={"width": 64}, strategy=strategy, optimizer=optimizer
    ).verify((torch.tensor(X), torch.tensor(Y)), loss, widths=WIDTHS, seeds=2)
    two = of_trees(optimizer, strategy=strategy).verify((X, Y), of_tree, widths=WIDTHS, seeds=2)
    assert one.measured.lr == pytest.approx(two.measured.lr, rel=1e-3)
    assert (str(one.verdict), one.ok) == (str(two.verdict), two.ok)
    for row in one.rows:
        owner, _, kind = row.tensor.partition(".")
        other = two.row(f"{names[owner]}.{'W' if kind == 'weight' else 'b'}", row.quantity)
        sizes = (
            one.measured.of(row.tensor, Quantity.OWN_CHANGE),
            two.measured.of(other.tensor, Quantity.OWN_CHANGE),
        )
        same = (row.predicted, row.least, row.agrees) == (
            other.predicted,
            other.least,
            other.agrees,
        )
        near = row.fit.slope == pytest.approx(other.fit.slope, abs=2e-3)
        if not (same and near and np.allclose(*sizes, rtol=1e-3)):
            problems.append(f"{row}, {other}")
    assert not problems, "\n".join(problems)


@pytest.mark.parametrize("places", [(1,), *thorough(((0, 2, 3),))], ids=["some", "more"])
def test_right_plans_are_silent(places: tuple[int, ...]) -> None:
    attention, of_attention = attending(over_d, "adam")
    multiplied = planned(
        lambda width, seed=0: {"embed": (t := tree(width, seed))["layers"][0]["W"], "mix":
                               [t["layers"][1]["W"]], "head": t["head"]["W"]},
        roles=ROLES, apply=(act := scaled((0.5, -0.5, -1.0))), inputs=Y[None] % 8, optimizer="adam",
    )  # fmt: skip
    cases: list[tuple[JaxPlan, Any, Any, str]] = [
        (
            planned(lambda width, seed=0: Normed(width, seed), "adamw", inputs=X),
            (X, Y), called, "second.kernel",
        ),
        (planned(perceptron, inputs=X[0]), (X, Y), mapped, "layers.1.weight"),
        (attention, TOKENS, of_attention, "mix.0"),
        (
            multiplied, Y[None] % 8,
            lambda m, b: likelihood(act(m, b, m["head"].shape[0]), b), "mix.0",
        ),
    ]  # fmt: skip
    problems = []
    for plan, batch, loss, hidden in (cases[place] for place in places):
        c = plan.verify(batch, loss, widths=WIDTHS, seeds=2)
        seen = c.row(hidden, "own_change").fit
        if not c.ok or str(c.verdict) != "feature learning, stable" or abs(seen.slope) > 0.15:
            problems.append(str(c))
    assert not problems, "\n\n".join(problems)


def spoiled(name: str, *, init: float = 0.0, rate: float = 0.0) -> Callable[..., Any]:
    """A training script with one mistake: a power of the width in one tensor's settings."""

    def setup(plan: JaxPlan, model: Any) -> Any:
        factor = plan.table.target["width"] / 32

        def only(power: float) -> Callable[..., Any]:
            return lambda path, x: (
                x
                * (
                    factor**power
                    if jax.tree_util.keystr(path, simple=True, separator=".") == name
                    else 1
                )
            )

        params = jax.tree_util.tree_map_with_path(only(init), plan.init(model))
        scale = optax.stateless(lambda u, _: jax.tree_util.tree_map_with_path(only(rate), u))
        return params, optax.chain(plan.optax(optax.sgd(1e-2)), scale)

    return setup


@pytest.mark.parametrize(
    ("name", "mistake", "cause"),
    [
        ("layers.0.W", {"rate": -0.5}, Cause.LEARNING_RATE),
        *thorough(("layers.1.W", {"init": 0.5}, Cause.INITIALISATION)),
    ],
)
def test_one_wrong_setting_is_named(name: str, mistake: dict[str, float], cause: Cause) -> None:
    setup = spoiled(name, **mistake)
    c = of_trees().verify((X, Y), of_tree, widths=WIDTHS, seeds=2, setup=setup)
    named = {(k.tensor, k.cause): k.power for k in c.culprits}
    assert named[name, cause] == pytest.approx(sum(mistake.values()), abs=0.2)
    assert not c.ok


@pytest.mark.thorough("test_one_wrong_setting_is_named")
def test_planted_mistakes_are_named() -> None:
    wrong, of_wrong = attending(masked, "sgd", multiplied=["attention"])
    cases: list[tuple[Check, Cause, str, float]] = [
        (wrong.verify(TOKENS, of_wrong, widths=WIDTHS, seeds=3), Cause.ATTENTION, "mix", 0.4),
        (
            planned(
                lambda width, seed=0: Tied(width, seed), readouts=["embed.embedding"],
                multiplied=["embed.attend"], inputs=TOKENS[:, :-1],
            ).verify((TOKENS[:, :-1], TOKENS[:, 1:]), called, widths=WIDTHS, seeds=2),
            Cause.FORWARD, "embed.attend", 0.75,
        ),
    ]  # fmt: skip
    problems = []
    for c, cause, name, power in cases:
        named = {(k.tensor, k.cause): k.power for k in c.culprits}
        if abs(named.get((name, cause), 9.0) - power) > 0.2 or c.ok:
            problems.append(str(c))
    assert not problems, "\n\n".join(problems)


@pytest.mark.thorough(
    "tests/torch/test_depth.py::test_a_residual_multiplier_that_is_not_applied_is_named"
)
def test_a_residual_multiplier_that_is_not_applied_is_named() -> None:
    def build(width: int, depth: int, seed: int = 0) -> Any:
        draw = np.random.default_rng(seed).standard_normal
        made = {"first": draw((8, width)) / 3, "head": draw((width, 10)) / width**0.5}
        made["blocks"] = [draw((width, width)) / width**0.5 for _ in range(depth)]
        return jax.tree.map(lambda a: jnp.asarray(a, jnp.float32), made)

    def apply(params: Any, x: jax.Array) -> jax.Array:
        h = x @ params["first"]
        for W in params["blocks"]:
            h = h + jax.nn.relu(h / jnp.sqrt((h**2).mean(-1, keepdims=True))) @ W
        return jnp.tanh(h) @ params["head"]

    plan = sw.jax.plan(
        build, base={"width": 16, "depth": 2}, target={"width": 32, "depth": 4}, strategy=MUP,
        roles={"first": "input", "blocks.*": "hidden", "head": "output"}, optimizer="adam",
        residual=1, multiplied=["residual"], apply=apply, inputs=X,
    )  # fmt: skip
    c = plan.verify(
        (X, Y), lambda m, b: likelihood(apply(m, b[0]), b[1]), widths=[16, 32, 64], seeds=2,
        depth=1, depths=[1, 2, 4],
    )  # fmt: skip
    assert c.depth is not None
    assert not c.depth.ok
    assert "plan.multipliers['residual']" in str(c)


def test_what_cannot_be_verified() -> None:
    plan = of_trees()
    problems = [
        ("no argument 'seed'", planned(lambda width: tree(width), roles=mlp_roles(2)), {}),
        (
            "draws the same weights",
            planned(lambda width, seed=0: tree(width), roles=mlp_roles(2)),
            {},
        ),
        ("return one number that", plan, {"loss": lambda m, b: preactivations(m, b[0])[-1]}),
        ("The loss is nan", plan, {"loss": lambda m, b: of_tree(m, b) * jnp.nan}),
        ("No learning rate was found", plan, {"loss": lambda m, b: 0 * of_tree(m, b)}),
        ("must return the initialised model", plan, {"setup": lambda plan, model: model}),
        ("steps have a fixed size", of_trees("adam"), {"setup": lambda p, m: (m, optax.sgd(0.1))}),
    ]
    missed = []
    for said, of, changed in problems:
        options: dict[str, Any] = {
            "loss": of_tree,
            "widths": [8, 16, 32],
            "seeds": 2,
            "lr": None,
        } | changed
        try:
            of.verify((X, Y), **options)
        except PlanError as error:
            if said not in str(error):
                missed.append(f"{said}: {error}")
        else:
            missed.append(said)
    assert not missed, "\n".join(missed)
    with pytest.raises(
        PlanError, match=r"`loss` is called as loss\(model, batch\) and raised Type"
    ):
        plan.verify((X, Y), lambda m, b: m(b), widths=[8, 16, 32])
