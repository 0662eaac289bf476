"""Golden, property and error tests: wrapped optimisers against AdamW, Adam and SGD by hand in float64."""

from functools import partial

import equinox as eqx
import flax.linen as nn
import flax.serialization
import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest
from flax import nnx

import scalewise as sw
from grids import thorough
from jax_models import Transformer, mlp, mlp_roles, perceptron
from scalewise.plan import PlanError

STEPS = 12


def planned(optimizer, *, target=64, s="1/2", init_fn=mlp, roles=None, **more):
    return sw.jax.plan(
        init_fn, base={"width": 16}, target={"width": target}, strategy=sw.scaling.meta(s=s),
        optimizer=optimizer, roles=mlp_roles(3) if roles is None else roles, **more,
    )  # fmt: skip


def gradients(tree, seed=0):
    """Gradients of very different sizes, so that epsilon matters to some."""
    rng = np.random.default_rng(seed)
    sizes = 10.0 ** rng.uniform(-5, 0, STEPS)

    def draw(size):
        return jax.tree.map(lambda x: jax.device_put(size * rng.standard_normal(x.shape)), tree)

    return [draw(size) for size in sizes]


def same(one, two):
    pairs = zip(jax.tree.leaves(one), jax.tree.leaves(two), strict=True)
    return all(np.array_equal(a, b) for a, b in pairs)


def trained(tx, params, grads):
    @jax.jit
    def step(g, state, params):
        updates, state = tx.update(g, state, params)
        return optax.apply_updates(params, updates), state

    state = tx.init(params)
    for g in grads:
        params, state = step(g, state, params)
    return params


def by_hand(plan, params, grads, rule, lr, eps, decay):
    """Every tensor for itself, with its own learning rate, epsilon and weight decay, in NumPy."""
    leaves, tree = jax.tree_util.tree_flatten_with_path(params)
    out = []
    for i, (path, leaf) in enumerate(leaves):
        f = plan.factors(jax.tree_util.keystr(path, simple=True, separator="."))
        own = [np.asarray(jax.tree.leaves(g)[i]) for g in grads]
        out.append(rule(np.asarray(leaf), own, lr * f.lr, eps * f.eps, decay * f.weight_decay))
    return jax.tree.unflatten(tree, out)


def adamw(x, grads, lr, eps, decay, *, coupled=False):
    m = v = 0.0
    for t, g in enumerate(grads, 1):
        g = g + decay * x if coupled else g
        m, v = 0.9 * m + 0.1 * g, 0.999 * v + 0.001 * g**2
        step = (m / (1 - 0.9**t)) / (np.sqrt(v / (1 - 0.999**t)) + eps)
        x = x - lr * (step if coupled else step + decay * x)
    return x


def adam(x, grads, lr, eps, decay):
    return adamw(x, grads, lr, eps, decay, coupled=True)


def momentum(x, grads, lr, eps, decay):
    m = 0.0
    for g in grads:
        m = 0.9 * m + g + decay * x
        x = x - lr * m
    return x


def chained(lr, eps, weight_decay):
    return optax.chain(optax.add_decayed_weights(weight_decay), optax.adam(lr, eps=eps))


def descent(lr, eps, weight_decay):
    return optax.chain(optax.add_decayed_weights(weight_decay), optax.sgd(lr, momentum=0.9))


@pytest.mark.parametrize(
    ("optimizer", "tx", "rule"),
    [("adamw", optax.adamw, adamw), ("adam", chained, adam), ("sgd", descent, momentum)],
)
def test_trajectories_by_hand(optimizer, tx, rule) -> None:
    with jax.enable_x64(True):
        plan = planned(optimizer)
        params = mlp(64, dtype=np.float64)
        grads = gradients(params)
        settings = {"lr": 0.02, "eps": 1e-3, "decay": 0.3}
        wrapped = plan.optax(tx(0.02, eps=1e-3, weight_decay=0.3))
        got = trained(wrapped, params, grads)
        wanted = by_hand(plan, params, grads, rule, **settings)
        for one, two in zip(jax.tree.leaves(got), jax.tree.leaves(wanted), strict=True):
            assert one.dtype == np.float64
            np.testing.assert_allclose(one, two, rtol=0, atol=1e-12)
        # The factors are such that leaving one out is seen.
        plain = by_hand(planned(optimizer, target=16), params, grads, rule, **settings)
        assert abs(plain["layers"][1]["W"] - wanted["layers"][1]["W"]).max() > 1e-3


@pytest.mark.parametrize(
    ("optimizer", "tx"),
    [
        ("adamw", optax.adamw(0.02, weight_decay=0.1)),
        *thorough(("adam", chained(0.02, 1e-8, 0.1)), ("sgd", descent(0.02, 0, 0.1))),
    ],
)
def test_nothing_changes_at_the_base(optimizer, tx) -> None:
    plan = planned(optimizer, target=16)
    params = mlp(16)
    grads = gradients(params)
    one, two = trained(plan.optax(tx), params, grads), trained(tx, params, grads)
    assert same(one, two)
    assert jax.tree.structure(plan.optax(tx).init(params)) == jax.tree.structure(tx.init(params))


def test_a_chain_of_ones_own_is_the_same_for_gradient_descent() -> None:
    plan, params = planned("sgd"), mlp(64)
    factors = plan.multiplier_tree(params)
    assert isinstance(factors["head"]["W"], float)
    scale = optax.stateless(lambda u, _: jax.tree.map(lambda x, f: x * f, u, factors))
    own = optax.chain(optax.sgd(0.1, momentum=0.9), scale)
    one = trained(plan.optax(optax.sgd(0.1, momentum=0.9)), params, gradients(params))
    two = trained(own, params, gradients(params))
    assert same(one, two)


def test_schedules_hyperparameters_masks_and_many_steps() -> None:
    plan, params = planned("adamw"), mlp(64)
    grads = gradients(params)
    flat = trained(plan.optax(optax.adamw(0.01, weight_decay=0.1)), params, grads)

    injected = plan.optax(
        optax.inject_hyperparams(optax.adamw)(learning_rate=0.5, weight_decay=0.1)
    )
    state = injected.init(params)
    state.hyperparams["learning_rate"] = jnp.asarray(0.01)
    new = params
    for g in grads:
        updates, state = jax.jit(injected.update)(g, state, new)
        new = optax.apply_updates(new, updates)
    close = lambda a, b: np.testing.assert_allclose(a, b, rtol=2e-5, atol=2e-6)  # noqa: E731
    jax.tree.map(close, new, flat)

    warm = optax.linear_schedule(0.0, 0.01, 1)
    scheduled = trained(
        plan.optax(optax.adamw(warm, weight_decay=0.1)), params, [grads[0], grads[0]]
    )
    once = trained(plan.optax(optax.adamw(0.01, weight_decay=0.1)), params, [grads[0]])
    jax.tree.map(close, scheduled, once)

    inner = optax.MultiSteps(plan.optax(optax.adamw(0.01)), 2).gradient_transformation()
    outer = plan.optax(optax.MultiSteps(optax.adamw(0.01), 2).gradient_transformation())
    jax.tree.map(close, trained(inner, params, grads), trained(outer, params, grads))

    # A mask outside leaves nodes without leaves; a mask of the tree's own structure inside is taken on trust.
    mask = jax.tree.map(lambda x: x.ndim == 2, params)
    outside = optax.masked(plan.optax(optax.adamw(0.01)), mask)
    inside = plan.optax(optax.masked(optax.adamw(0.01), mask))
    one, two = trained(outside, params, grads), trained(inside, params, grads)
    jax.tree.map(close, one["head"]["W"], two["head"]["W"])


def test_states_survive_serialisation() -> None:
    plan, params = planned("adamw"), mlp(64)
    tx = plan.optax(optax.adamw(0.01))
    state = tx.init(params)
    grads = gradients(params)
    _, state = tx.update(grads[0], state, params)
    raw = flax.serialization.to_bytes(state)
    again = flax.serialization.from_bytes(tx.init(params), raw)
    one, two = tx.update(grads[1], state, params)[0], tx.update(grads[1], again, params)[0]
    assert same(one, two)
    leaves, tree = jax.tree.flatten(state)
    assert jax.tree.structure(jax.tree.unflatten(tree, leaves)) == tree


def test_extra_arguments_and_missing_weights_are_passed_on() -> None:
    seen = {}

    def update(updates, state, params=None, *, value=None):
        seen.update(value=value, params=params)
        return updates, state

    tx = planned("sgd").optax(
        optax.GradientTransformationExtraArgs(lambda _: optax.EmptyState(), update)
    )
    tx.update(mlp(64), tx.init(mlp(64)), value=3)
    assert seen == {"value": 3, "params": None}


def test_leaves_that_are_not_trained_are_passed_on() -> None:
    plan = planned("sgd", roles={"W": "input"}, init_fn=lambda width: {"W": jnp.ones((3, width))})
    tx = plan.optax(optax.sgd(1.0))
    tree = {"W": jnp.ones((3, 64)), "step": jnp.ones(64, int), "gone": None}
    updates, _ = tx.update(tree, tx.init(tree))
    assert float(updates["W"][0, 0]) == -2
    assert int(updates["step"][0]) == -1
    assert updates["gone"] is None
    assert plan.multiplier_tree(tree) == {"W": 2.0, "step": 1.0, "gone": None}
    with pytest.raises(PlanError, match="The plan has no tensor `V`"):
        tx.init({"V": jnp.ones(3)})
    with pytest.raises(PlanError, match="The plan has no tensor `V`"):
        plan.multiplier_tree({"V": jnp.ones(3)})
    with pytest.raises(PlanError, match="The plan has no tensor `V`"):
        tx.update({"V": jnp.ones(3)}, tx.init(tree))


def test_nnx_optimizer() -> None:
    build = partial(Transformer, depth=1)
    plan = sw.jax.plan(
        build, base={"width": 8}, target={"width": 16}, strategy=sw.scaling.meta(s=1)
    )
    words = jnp.arange(6).reshape(2, 3)

    def loss(model):
        return (model(words) ** 2).mean()

    model = build(16)
    optimizer = nnx.Optimizer(model, plan.optax(optax.adamw(1.0, weight_decay=0.0)), wrt=nnx.Param)

    @nnx.jit
    def step(model, optimizer):
        optimizer.update(model, nnx.grad(loss)(model))

    before = nnx.to_pure_dict(nnx.state(model, nnx.Param))
    step(model, optimizer)
    after = nnx.to_pure_dict(nnx.state(model, nnx.Param))
    # Adam's first step is the learning rate itself, wherever the gradient is above epsilon.
    for name, rate in (("head", 1 / 2), ("norm", 1)):
        moved = jax.tree.leaves(
            jax.tree.map(lambda a, b: abs(a - b).max(), after[name], before[name])
        )
        assert float(moved[0]) == pytest.approx(rate, rel=1e-2)
    attention = (
        after["blocks"][0]["attn"]["query"]["kernel"]
        - before["blocks"][0]["attn"]["query"]["kernel"]
    )
    assert float(abs(attention).max()) == pytest.approx(1 / 2, rel=1e-2)
    step(model, optimizer)


def test_equinox_training() -> None:
    plan = sw.jax.plan(
        perceptron, base={"width": 16}, target={"width": 32}, strategy=sw.scaling.meta(s=1)
    )
    model = plan.init(perceptron(32))
    tx = plan.optax(optax.adamw(1.0, weight_decay=0.0))
    state = tx.init(eqx.filter(model, eqx.is_array))

    @eqx.filter_jit
    def step(model, state):
        grads = eqx.filter_grad(lambda m: (m(jnp.ones(5)) ** 2).sum())(model)
        updates, state = tx.update(grads, state, eqx.filter(model, eqx.is_array))
        return eqx.apply_updates(model, updates), state

    new, state = step(model, state)
    moved = [
        float(abs(b.weight - a.weight).max()) for a, b in zip(model.layers, new.layers, strict=True)
    ]
    assert moved == pytest.approx([1, 1 / 2, 1 / 2], rel=1e-2)


def test_linen_training() -> None:
    class Net(nn.Module):
        width: int

        @nn.compact
        def __call__(self, x):
            return nn.Dense(2)(nn.relu(nn.Dense(self.width)(x)))

    def init_fn(width):
        return Net(width).init(jax.random.key(0), jnp.ones((1, 5)))

    plan = planned("sgd", init_fn=init_fn, roles={}, s=1, layout="linen")
    params = init_fn(64)
    tx = plan.optax(optax.sgd(1.0))
    for tree in (params, params["params"]):
        updates, _ = jax.jit(tx.update)(tree, tx.init(tree), tree)
        ratio = jax.tree.map(lambda u, p: float(-(u / p).ravel()[0]), updates, tree)
        ratio = ratio.get("params", ratio)
        # Linen numbers layers as they are made: the readout first.
        assert ratio["Dense_1"]["kernel"] == pytest.approx(4)
        assert ratio["Dense_0"]["kernel"] == pytest.approx(1 / 4)


def test_optimisers_of_another_kind_are_refused() -> None:
    of = {name: planned(name) for name in ("sgd", "adam", "adamw")}
    refused = [
        ("sgd", optax.adam(1e-3), "updates of this optimiser do not grow with the gradient"),
        ("sgd", optax.lion(1e-3), "Make the plan with optimizer='adamw'"),
        ("adamw", optax.sgd(1e-3), "optimizer='adamw', whose steps have a fixed size"),
        ("adam", optax.sgd(1e-3, momentum=0.9), "optimizer='adam', whose steps have a fixed size"),
        ("adam", optax.adamw(1e-3), "weight decay of this optimiser is decoupled"),
        ("adamw", chained(1e-3, 1e-8, 0.1), "adds it to the gradient that it normalises"),
        ("adamw", optax.lamb(1e-3), "depend on its other entries"),
        ("adamw", optax.contrib.dadapt_adamw(1.0), "estimates one number"),
        ("adamw", optax.chain(optax.clip_by_global_norm(1.0), optax.adamw(1e-3)), "Put it outside"),
    ]
    for name, tx, match in refused:
        with pytest.raises(PlanError, match=match):
            of[name].optax(tx)
        of[name].optax(tx, check=False)
    taken = [
        ("sgd", optax.sgd(1e-3, momentum=0.9, nesterov=True)),
        ("sgd", optax.chain(optax.clip_by_global_norm(1.0), optax.sgd(1e-3))),
        ("sgd", descent(1e-3, 0, 0.1)),
        ("adam", optax.adam(1e-3)),
        ("adam", optax.adam(1e-3, eps=1.0)),
        ("adam", chained(1e-3, 1e-2, 1e-4)),
        ("adamw", optax.adamw(1e-3, eps=1e-2)),
        ("adamw", optax.nadamw(1e-3)),
        ("adamw", optax.lion(1e-3)),
        ("adamw", optax.chain(optax.clip(1.0), optax.adamw(1e-3))),
        ("adamw", optax.adamw(optax.linear_schedule(0, 1e-3, 10))),
        ("adamw", optax.adamw(1e-3, mask=lambda p: jax.tree.map(lambda x: x.ndim > 1, p))),
    ]
    for name, tx in taken:
        of[name].optax(tx)
    # At the base nothing is divided, and the norm may be taken inside.
    planned("adamw", target=16).optax(
        optax.chain(optax.clip_by_global_norm(1.0), optax.adamw(1e-3))
    )
    with pytest.raises(PlanError, match=r"takes an optimiser of optax, .* got float"):
        of["sgd"].optax(1e-3)


WAYS = ["chain", "inject_hyperparams", "by name", "by shape"]


@pytest.mark.parametrize(
    ("kind", "learning_rate", "ways"),
    [
        (optax.contrib.prodigy, 1.0, WAYS),
        (partial(optax.lbfgs, linesearch=None), 0.1, WAYS[::2]),
        *thorough(
            (partial(optax.lbfgs, linesearch=None), 0.1, WAYS[1::2]),
            (optax.contrib.schedule_free_adamw, 1e-3, WAYS),
        ),
    ],
)
def test_what_keeps_weights_is_refused_however_it_is_wrapped(kind, learning_rate, ways) -> None:
    def by_name(params):
        return jax.tree_util.tree_map_with_path(lambda path, _: str(path[-1]), params)

    def by_shape(params):
        return jax.tree.map(lambda x: "a" if x.ndim < 2 else "b", params)

    plan = planned("adamw")
    tree = mlp(64)
    names = {"['W']": optax.adamw(1e-3), "['a']": optax.adamw(1e-3)}
    inner, problems = kind(learning_rate), []
    wrapped = {
        "chain": optax.chain(optax.clip(1.0), inner),
        "inject_hyperparams": optax.inject_hyperparams(kind)(learning_rate=learning_rate),
        "by name": optax.multi_transform({**names, "['b']": inner}, by_name),
        "by shape": optax.multi_transform({"a": inner, "b": optax.adamw(1e-3)}, by_shape),
    }
    for name in ways:
        try:
            plan.optax(wrapped[name]).init(tree)
            problems.append(f"{name} is taken")
        except PlanError as error:
            if not any(
                w in str(error)
                for w in ("keeps weights of its own", "estimates one number", "cannot be")
            ):
                problems.append(f"{name}: {error}")
    assert not problems
    plan.optax(
        optax.multi_transform({"a": optax.nadamw(1e-3), "b": optax.adamw(1e-3)}, by_shape)
    ).init(tree)


def test_clipping_outside() -> None:
    """The order the message offers: gradients are clipped as they are."""
    plan, params = planned("sgd"), mlp(64)
    grads = gradients(params)
    clip = optax.clip_by_global_norm(1e-3)
    got = trained(optax.chain(clip, plan.optax(optax.sgd(0.1))), params, grads)
    clipped = [jax.jit(clip.update)(g, clip.init(params))[0] for g in grads]
    wanted = trained(plan.optax(optax.sgd(0.1)), params, clipped)
    jax.tree.map(lambda a, b: np.testing.assert_allclose(a, b, rtol=1e-6), got, wanted)


def test_without_optax(monkeypatch) -> None:
    plan = planned("sgd")
    monkeypatch.setitem(__import__("sys").modules, "optax", None)
    with pytest.raises(ImportError, match=r"pip install 'scalewise\[jax\]'"):
        plan.optax(None)
