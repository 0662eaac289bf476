"""Golden, property and error tests: factors worked by hand, initialisation, other sizes, keeping and loading."""

import math

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from flax import nnx

import scalewise as sw
from jax_models import Transformer, drawn, mlp, mlp_roles, perceptron, recurrent, vision
from scalewise.plan import PlanError

META = sw.scaling.meta


def planned(target=64, *, s=1, base=16, depths=(3, 3), **more):
    sizes = [{"width": w, "depth": d} for w, d in zip((base, target), depths, strict=True)]
    roles = mlp_roles(max(depths))
    return sw.jax.plan(
        more.pop("init_fn", mlp), base=sizes[0], target=sizes[1], strategy=META(s=s), **{"roles": roles} | more
    )  # fmt: skip


def same(one, two):
    pairs = zip(jax.tree.leaves(one), jax.tree.leaves(two), strict=True)
    return all(a is b or np.array_equal(a, b) for a, b in pairs)


# (init, lr, eps, weight decay) of layers.0.W, layers.1.W, layers.1.b, head.W, head.b at four times the width:
# the rules by hand, with A = (s+1)/2, U = 1 and n the factor 4.
HAND = {
    ("sgd", 0): [(1, 1, 1, 1), (1 / 2, 1 / 4, 1, 4), (1, 1, 1, 1), (1 / 2, 1 / 4, 1, 4), (1, 1, 1, 1)],
    ("sgd", 1): [(1, 4, 1, 1 / 4), (1 / 2, 1, 1, 1), (1, 4, 1, 1 / 4), (1 / 4, 1 / 4, 1, 4), (1, 1, 1, 1)],
    ("sgd", 0.5): [
        (1, 2, 1, 1 / 2), (1 / 2, 1 / 2, 1, 2), (1, 2, 1, 1 / 2), (2**-1.5, 1 / 4, 1, 4), (1, 1, 1, 1),
    ],
    ("adamw", 1): [
        (1, 1, 1 / 4, 1), (1 / 2, 1 / 4, 1 / 4, 4), (1, 1, 1 / 4, 1), (1 / 4, 1 / 4, 1, 4), (1, 1, 1, 1),
    ],
    ("adamw", 0): [
        (1, 1 / 2, 1 / 2, 2), (1 / 2, 1 / 8, 1 / 2, 8), (1, 1 / 2, 1 / 2, 2), (1 / 2, 1 / 4, 1, 4),
        (1, 1, 1, 1),
    ],
    ("adam", 1): [
        (1, 1, 1 / 4, 1 / 4), (1 / 2, 1 / 4, 1 / 4, 1 / 2), (1, 1, 1 / 4, 1 / 4), (1 / 4, 1 / 4, 1, 4),
        (1, 1, 1, 1),
    ],
}  # fmt: skip


@pytest.mark.parametrize(("optimizer", "s"), HAND)
def test_factors_by_hand(optimizer, s) -> None:
    plan = planned(s=s, optimizer=optimizer)
    names = ("layers.0.W", "layers.1.W", "layers.1.b", "head.W", "head.b")
    for name, wanted in zip(names, HAND[optimizer, s], strict=True):
        f = plan.factors(name)
        assert (f.init, f.lr, f.eps, f.weight_decay) == pytest.approx(wanted, rel=1e-15), name
    tree = plan.multiplier_tree(mlp(64), "weight_decay")
    assert tree["layers"][1]["W"] == plan.factors("layers.1.W").weight_decay


def test_all_libraries_get_the_same_factors() -> None:
    class Net(nnx.Module):
        def __init__(self, width):
            r = nnx.Rngs(0)
            self.a = nnx.Linear(5, width, rngs=r, kernel_init=drawn)
            self.b = nnx.Linear(width, width, rngs=r, kernel_init=drawn)
            self.c = nnx.Linear(width, 2, rngs=r, kernel_init=drawn)

    sizes = {"base": {"width": 16}, "target": {"width": 64}, "strategy": META(s="1/2")}
    flax = sw.jax.plan(Net, **sizes)
    equinox = sw.jax.plan(perceptron, **sizes)
    tree = planned(s="1/2", depths=(2, 2))
    for one, two, three in (
        ("a", "layers.0", "layers.0"),
        ("b", "layers.1", "layers.1"),
        ("c", "layers.2", "head"),
    ):
        for kernel, weight, W in (("kernel", "weight", "W"), ("bias", "bias", "b")):
            f = tree.factors(f"{three}.{W}")
            assert flax.factors(f"{one}.{kernel}") == f
            assert equinox.factors(f"{two}.{weight}") == f


def test_nothing_changes_at_the_base() -> None:
    plan = planned(16)
    for name in plan.table.names:
        f = plan.factors(name)
        assert (f.init, f.lr, f.eps, f.weight_decay) == (1, 1, 1, 1)
    for seed in range(5):
        tree = mlp(16, seed=seed)
        assert same(plan.init(tree), tree)
    for make in (Transformer, vision, recurrent):
        more = {"multiplied": ["shared.pytree.1"]} if make is recurrent else {}
        sizes = {"base": {"width": 8}, "target": {"width": 8}}
        plan = sw.jax.plan(make, strategy=META(s=1), **sizes, **more)
        model = make(8)
        before = jax.tree.leaves(eqx.filter(model, eqx.is_array))
        after = jax.tree.leaves(eqx.filter(plan.init(model), eqx.is_array))
        assert same(before, after)


def test_initialisation_has_the_planned_spread_and_is_idempotent() -> None:
    plan = planned(256, base=32)
    tree = mlp(256, seed=3)
    new = plan.init(tree)
    W, head = new["layers"][1]["W"], new["head"]["W"]
    # The factory divides by the root of the fan-in itself: only the readout is brought to another size.
    assert W is tree["layers"][1]["W"]
    assert float(head.std()) == pytest.approx(plan.table.std("head.W"), rel=1e-6)
    assert float(head.std()) == pytest.approx(1 / 256 * math.sqrt(32), rel=0.15)
    assert same(plan.init(new), new)
    assert not same(new, tree)
    assert same(tree, mlp(256, seed=3))


def test_means_and_zeros_and_types_are_kept() -> None:
    def init_fn(width):
        x = np.random.default_rng(1).standard_normal((width, 400)).astype(np.float32)
        return {
            "shifted": jnp.asarray(5 + x, jnp.bfloat16), "sparse": jnp.asarray(np.where(x > 0, x, 0)),
            "ones": jnp.ones(width), "numpy": np.asarray(x, np.float16),
        }  # fmt: skip

    roles = {"ones": "vector", "shifted": "output", "sparse": "output", "numpy": "output"}
    plan = sw.jax.plan(
        init_fn, base={"width": 8}, target={"width": 32}, strategy=META(s=1), roles=roles
    )
    tree = init_fn(32)
    new = plan.init(tree)
    assert new["ones"] is tree["ones"]
    assert {k: v.dtype for k, v in new.items()} == {k: v.dtype for k, v in tree.items()}
    assert isinstance(new["numpy"], np.ndarray)
    assert float(new["shifted"].astype(float).mean()) == pytest.approx(5, abs=0.02)
    assert float(new["shifted"].astype(float).std()) == pytest.approx(1 / 4, rel=0.03)
    assert float(new["numpy"].astype(float).std()) == pytest.approx(1 / 4, rel=0.03)
    # Of entries whose mean is a mean, deviations are scaled; around zero, the entries.
    assert float(new["sparse"].mean()) == pytest.approx(float(tree["sparse"].mean()), rel=1e-4)
    signed = tree | {"sparse": tree["sparse"] * jnp.asarray(np.tile([1.0, -1.0], (32, 200)))}
    assert bool(((plan.init(signed)["sparse"] == 0) == (signed["sparse"] == 0)).all())


def test_nnx_modules_change_in_place_and_states_do_not() -> None:
    sizes = {"base": {"width": 8}, "target": {"width": 64}}
    plan = sw.jax.plan(Transformer, strategy=META(s=1), **sizes)
    model = Transformer(64)
    state = nnx.state(Transformer(64), nnx.Param)
    raw = jnp.array(model.head.kernel[...])
    assert plan.init(model) is model
    assert float(model.head.kernel[...].std()) == pytest.approx(
        plan.table.std("head.kernel"), rel=1e-5
    )
    new = plan.init(state)
    assert bool((state["head"]["kernel"][...] == raw).all())
    assert same(new, nnx.state(model, nnx.Param))
    pure = plan.init(nnx.to_pure_dict(state))
    assert bool((pure["head"]["kernel"] == new["head"]["kernel"][...]).all())
    graph, rest, other = nnx.split(model, nnx.Param, ...)
    assert same(plan.init(nnx.merge(graph, rest, other)).head.kernel, model.head.kernel)


def test_equinox_modules_are_new_and_work() -> None:
    plan = sw.jax.plan(
        perceptron,
        base={"width": 16}, target={"width": 128}, strategy=META(s=1),
    )  # fmt: skip
    model = perceptron(128, seed=1)
    new = plan.init(model)
    assert new is not model
    assert new.activation is model.activation
    assert new(jnp.ones(5)).shape == (2,)
    assert float(new.layers[2].weight.std()) == pytest.approx(
        plan.table.std("layers.2.weight"), rel=1e-5
    )
    assert float(model.layers[2].weight.std()) > 1.5 * float(new.layers[2].weight.std())


def test_depth() -> None:
    plan = planned(depths=(3, 6), optimizer="sgd")
    # Blocks learn at (depth)^-1 where no multiplier stands on branches.
    assert plan.table["layers.3.W"].in_block
    assert not plan.table["head.W"].in_block
    assert plan.factors("layers.3.W").lr == pytest.approx(1 / 2)
    branches = planned(
        depths=(3, 6), optimizer="adamw", residual="1/2", branch_outputs=["layers.3.W"]
    )
    assert branches.factors("layers.2.W").lr == pytest.approx(2**-0.5 / 4)
    assert branches.factors("layers.3.W").init == pytest.approx(2**-0.5 / 2)
    block = planned(depths=(3, 6), residual=1)
    assert block.multipliers[0].factor == 1 / 2
    sizes = {"base": {"width": 8, "depth": 1}, "target": {"width": 16, "depth": 4}}
    stack = sw.jax.plan(
        recurrent, strategy=META(s=0), multiplied=["shared.pytree.1"], optimizer="sgd", **sizes
    )
    # Copies on an axis are a block too.
    assert stack.table["stack.weight"].in_block
    assert stack.factors("stack.weight").lr == pytest.approx(1 / 2 / 4)
    with pytest.raises(
        PlanError, match="different depths, but the factory builds the same tensors"
    ):
        planned(depths=(3, 6), init_fn=lambda width, depth: mlp(width, 3), roles=mlp_roles(3))


def test_other_sizes() -> None:
    plan = planned(64)
    wide = plan.at(width=256)
    assert wide.table == planned(256).table
    assert plan.at(width=16).factors("head.W").lr == 1
    with pytest.raises(PlanError, match="The plan has no size 'heads'; it has 'width', 'depth'"):
        plan.at(heads=3)


def test_kept_and_loaded(tmp_path) -> None:
    plan = planned(64)
    plan.save(tmp_path / "plan.json")
    again = sw.jax.load(tmp_path / "plan.json")
    assert again.table == plan.table
    assert again == plan
    assert same(again.init(mlp(64)), plan.init(mlp(64)))
    with pytest.raises(PlanError, match="This plan was loaded from a file"):
        again.at(width=32)


def test_words_and_transfer() -> None:
    plan = planned(64)
    assert "layers.*.W" in str(plan)
    assert "feature learning, stable" in str(plan)
    hp = plan.transfer(lr=0.1, weight_decay=0.01, eps=1e-8)
    assert hp["layers.1.W"].lr == pytest.approx(0.1 / 4)
    assert hp["layers.1.W"].weight_decay == pytest.approx(0.04)
    assert hp["layers.1.W"].eps == pytest.approx(1e-8 / 4)


@pytest.mark.parametrize(
    ("more", "match"),
    [
        ({"layout": "haiku"}, r"`layout` must be 'plain' or 'linen'; got 'haiku'"),
        ({"width": "n"}, "`base` has no 'n'"),
        ({"target": {"width": 3}}, "`target` has no 'depth'; it has 'width'"),
        ({"target": {"width": 0, "depth": 3}}, r"`target\['width'\]` must be a positive finite number; got 0"),
        ({"base": {"width": True, "depth": 3}}, r"`base\['width'\]` must be a positive finite number; got True"),
        ({"target": {"width": 8, "depth": -1}}, r"`target\['depth'\]` must be a positive finite number; got -1"),
        ({"optimizer": "newton"}, "`optimizer` must be one of"),
        ({"roles": {"nothing": "input"}}, "which fits no tensor"),
        ({"multiplied": ["head"]}, "needs no multiplier"),
    ],
)  # fmt: skip
def test_refused(more, match) -> None:
    sizes = {"base": {"width": 16, "depth": 3}, "target": {"width": 64, "depth": 3}}
    given = {"init_fn": mlp, "strategy": META(s=1), "roles": mlp_roles(3)} | sizes | more
    with pytest.raises(PlanError, match=match):
        sw.jax.plan(given.pop("init_fn"), **given)


def test_other_sizes_must_agree() -> None:
    base, target = {"width": 8, "inputs": 3}, {"width": 16, "inputs": 6}
    with pytest.raises(
        PlanError, match=r"'inputs' differs between `base` and `target` \(3 and 6\)"
    ):
        sw.jax.plan(mlp, base=base, target=target, strategy=META(s=1))


def test_initialisation_refuses() -> None:
    plan = planned(64)
    with pytest.raises(
        PlanError, match=r"`head.W` has the shape \(32, 2\), but the plan was made for \(64, 2\)"
    ):
        plan.init(mlp(32))
    tree = mlp(64)
    with pytest.raises(PlanError, match="The plan has no tensor `extra`"):
        plan.init(tree | {"extra": jnp.ones(2)})
    with pytest.raises(PlanError, match=r"The plan has `head.W`, and the model has not"):
        plan.init({"layers": tree["layers"], "head": {"b": tree["head"]["b"]}})
    with pytest.raises(PlanError, match=r"`head.W` is being traced|`head.b` is being traced"):
        jax.jit(plan.init)(tree)
    with pytest.raises(PlanError, match="entries that are not finite"):
        plan.init(tree | {"head": {"b": tree["head"]["b"], "W": jnp.full((64, 2), jnp.inf)}})

    def odd(width):
        return {"v": jnp.zeros(width) if width < 20 else jnp.arange(width) * 1.0}

    for base, target, words in (
        (16, 64, "is the same at the base.*random here"),
        (64, 16, "is the same here.*random at the base"),
    ):
        plan = planned(
            target, base=base, init_fn=lambda width, depth: odd(width), roles={"v": "vector"}
        )
        with pytest.raises(PlanError, match=f"Every entry of `v` {words}"):
            plan.init(odd(target))


def test_arrays_on_a_device_are_measured_there(monkeypatch) -> None:
    """The two ways of computing agree; an accelerator's arrays take the other one."""
    plan = planned(64)
    here = plan.init(mlp(64))
    monkeypatch.setattr(
        "scalewise.jax._entries._elsewhere", lambda value: isinstance(value, jax.Array)
    )
    there = plan.init(mlp(64))
    for a, b in zip(jax.tree.leaves(here), jax.tree.leaves(there), strict=True):
        np.testing.assert_allclose(a, b, rtol=2e-6, atol=1e-7)
