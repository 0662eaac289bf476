"""Golden and agreement tests: what is seen of a forward pass of jax, and what a plan makes of it."""

from fractions import Fraction
from typing import Any

import flax.linen as nn
import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest
from flax import nnx

import scalewise as sw
from grids import thorough
from jax_attending import (
    ROLES,
    WORDS,
    PerExample,
    attends,
    by_entries,
    by_vmap,
    capped,
    checkpointed,
    chosen,
    cosine,
    fused,
    in_pieces,
    linear,
    masked,
    normed,
    over_d,
    own_rule,
    plain,
    rooted,
    scaled,
    tree,
)  # fmt: skip
from jax_models import Transformer, drawn, mlp, mlp_roles, quick_draws
from scalewise.jax._describe import traced
from scalewise.jax._look import ModelCall, look
from scalewise.plan import PlanError
from scalewise.plan._errors import PlanWarning
from scalewise.plan._forward import Passes, attentions, gauges, given

MUP = sw.scaling.mup()


def passes(init_fn, apply=None, *, inputs=None, layout="plain", narrow=16) -> Passes:
    """What is seen between two widths, the second twice the first."""
    sizes = {"width": narrow}, {"width": 2 * narrow}
    one, two = ((s, traced(init_fn, s, layout)) for s in sizes)
    found = look(ModelCall(init_fn, apply, layout), one, two, Fraction(2), given(inputs))
    assert found is not None
    return found


def planned(init_fn, base=16, target=64, strategy=MUP, **more):
    return sw.jax.plan(
        init_fn, base={"width": base}, target={"width": target}, strategy=strategy, **more
    )


WRITTEN = {
    masked: "-1/2", rooted: "-1/2", fused: "-1/2", over_d: "-1", by_vmap: "-1/2", by_entries: "0",
    capped: "-1/2", cosine: "-1", in_pieces: "-1/2", checkpointed: "-1/2", own_rule: "-1/2", chosen: "-1/2",
}  # fmt: skip


def test_attention_is_seen_however_it_is_written() -> None:
    wrong = []
    for write, power in WRITTEN.items():
        grown = attentions(passes(tree, attends(write, lambda n: 2)))
        fixed = attentions(passes(tree, attends(write, lambda n: n // 8)))
        name = getattr(write, "__name__", "a rule of its own")
        if {(h.length, h.scale, h.grow) for h in grown} != {((8, 16), Fraction(power), True)}:
            wrong.append(f"{name}: {grown}")
        if {(h.length, h.scale, h.grow) for h in fixed} != {((8, 8), 0, False)}:
            wrong.append(f"{name}, fixed heads: {fixed}")
    assert not wrong
    assert attentions(passes(tree, attends(linear, lambda n: 2))) == []


class Linen(nn.Module):
    """Attention of Flax Linen."""

    width: int
    heads: int

    @nn.compact
    def __call__(self, words):
        x = nn.Embed(WORDS, self.width, embedding_init=drawn)(words)
        x = x + nn.MultiHeadDotProductAttention(self.heads, kernel_init=drawn, name="attn")(
            nn.LayerNorm()(x)
        )
        return nn.Dense(WORDS, name="head", kernel_init=drawn)(nn.RMSNorm()(x))


def linen(heads):
    """A factory, and how its variables are called."""

    def init_fn(width):
        return Linen(width, heads(width)).init(jax.random.key(0), jnp.zeros((1, 4), int))

    def apply(variables, words, width):
        return Linen(width, heads(width)).apply(variables, words)

    return init_fn, apply


def test_attention_of_the_libraries() -> None:
    wrong = []
    two, eights = (lambda n: 2), (lambda n: n // 8)
    for grow, heads in ((True, two), (False, eights)):
        init_fn, apply = linen(heads)
        with quick_draws():
            found = {
                "attn": passes(init_fn, apply, layout="linen"),
                "blocks.0.attn": passes(
                    lambda width, h=heads: Transformer(width, 1, head_dim=width // h(width))
                ),
                "blocks": passes(lambda width, h=heads: PerExample(width, h(width))),
            }
        for place, seen in found.items():
            power = Fraction(-1, 2) if grow else 0
            if {(h.place, h.grow, h.scale) for h in attentions(seen)} != {(place, grow, power)}:
                wrong.append(f"{place}: {attentions(seen)}")
            if any(gauges(seen)):
                wrong.append(f"{place}: {gauges(seen)}")
    assert not wrong


def test_a_plan_asks_for_what_the_code_lacks() -> None:
    two, eights = (lambda n: 2), (lambda n: n // 8)

    def of(write, heads, **more):
        return planned(tree, roles=ROLES, apply=attends(write, heads), **more)

    with pytest.raises(
        PlanError,
        match=r"The heads of `mix` grow.*d\^\(-1/2\) of .*factor, d\^\(-1/2\)\. At .* 0\.5\.",
    ):
        of(masked, two)
    with pytest.raises(PlanError, match=r"a constant of the size d .*d\^\(-1\)\. At .* 0\.25\."):
        of(by_entries, two)
    assert of(masked, two, multiplied=["attention"]).table.multiplier("attention") == 1 / 2
    for done in (over_d, cosine):
        assert of(done, two).table.multiplier("attention") == 1
    assert not of(masked, eights).multipliers
    assert not of(masked, two, strategy=sw.scaling.ntk()).multipliers
    fades = lambda q, k, v: over_d(q / q.shape[2], k, v)  # noqa: E731
    with pytest.raises(PlanError, match=r"keep their size, but .* n\^\(-1\)"):
        of(fades, eights)


@pytest.mark.parametrize("optimizer", ["adam", *thorough("sgd", "adamw")])
def test_multipliers_in_the_code_are_a_gauge(optimizer: str) -> None:
    kinds = {"sgd": optax.sgd, "adam": optax.adam, "adamw": optax.adamw}
    tokens, outputs, started = np.arange(12).reshape(2, 6), [], None
    for powers in ((0.0, 0.0, 0.0), (0.5, -0.5, -1.0)):
        own = {"embed": powers[0], "mix.0": powers[1], "head": powers[2]}
        apply = scaled(powers)
        plan = planned(
            plain, optimizer=optimizer, roles=ROLES, apply=apply, strategy=sw.scaling.meta("1/2")
        )
        assert {t.name: t.gauge.total for t in plan.table.tensors} == {
            n: Fraction(p) for n, p in own.items()
        }
        factors = [plan.factors(n) for n in ("embed", "head", "mix.0")]
        # At the base, 16, the same networks, whatever the powers; and so what is trained there, at 64.
        base = [16 ** own[n] for n in ("embed", "head", "mix.0")]
        acts = [64 ** own[n] for n in ("embed", "head", "mix.0")]
        leaves, structure = jax.tree.flatten(plain(64))
        if started is None:
            started = [x * f.init for x, f in zip(leaves, factors, strict=True)]
        assert [
            f.init * a / b for f, a, b in zip(factors, acts, base, strict=True)
        ] == pytest.approx([float(s.std() / x.std()) for s, x in zip(started, leaves, strict=True)])
        lrs = [
            1e-2 * f.lr / b ** (2 if optimizer == "sgd" else 1)
            for f, b in zip(factors, base, strict=True)
        ]
        eps = [1e-3 * f.eps * b for f, b in zip(factors, base, strict=True)]

        def loss(params, apply=apply):
            logits = apply(params, tokens, 64)
            return optax.softmax_cross_entropy_with_integer_labels(logits, tokens).mean()

        @jax.jit
        def after_a_step(leaves, apply=apply, loss=loss, lrs=lrs, eps=eps, structure=structure):
            params = jax.tree.unflatten(structure, leaves)
            grads = jax.tree.leaves(jax.grad(loss)(params))
            moved = []
            for p, g, lr, e in zip(leaves, grads, lrs, eps, strict=True):
                tx = kinds[optimizer](lr, **({} if optimizer == "sgd" else {"eps": e}))
                moved.append(optax.apply_updates(p, tx.update(g, tx.init(p), p)[0]))
            return apply(jax.tree.unflatten(structure, moved), tokens, 64)

        drawn = [s / a for s, a in zip(started, acts, strict=True)]
        outputs.append(np.asarray(after_a_step(drawn)))
    np.testing.assert_allclose(*outputs, rtol=1e-3, atol=1e-5)


def test_multipliers_of_branches_move_nothing_else() -> None:
    def deep(factor):
        def apply(params, x, depth):
            h = jnp.tanh(x @ params["layers"][0]["W"] + params["layers"][0]["b"])
            for layer in params["layers"][1:]:
                h = h + factor(h.shape[-1], depth) * jnp.tanh(normed(h) @ layer["W"] + layer["b"])
            return h @ params["head"]["W"] + params["head"]["b"]

        return apply

    sizes = {"base": {"width": 16, "depth": 2}, "target": {"width": 64, "depth": 4}}
    for factor in (lambda n, d: 0.1, lambda n, d: d**-0.5):
        plan = sw.jax.plan(
            mlp, strategy=MUP, roles=mlp_roles(4), apply=deep(factor), residual="1/2", **sizes
        )
        assert not any(t.gauge.total for t in plan.table.tensors)
        assert {m.name: m.factor for m in plan.multipliers} == {"residual": pytest.approx(2**-0.5)}
    # Nor does one that goes with the width, since it multiplies one part of what is read.
    apply = scaled((0, 0, 0), by=lambda n: n**-0.5)
    assert not any(gauges(passes(plain, apply)))


def test_where_the_code_multiplies() -> None:
    """One factor is counted once, whatever stands between it and the next tensor."""
    table = jnp.ones((WORDS, 1))

    def root(width):
        return jnp.sqrt(jnp.asarray([width], float)).sum()

    def looped(x, width):
        return jax.lax.fori_loop(0, 3, lambda i, y: y + 0 * i, x * root(width))

    ways = {
        "a gate": (lambda x, w, n: (lambda y: y * jax.nn.sigmoid(y))(x @ w / n**0.5), {"mix.0": "-1/2"}),
        "two gates": (lambda x, w, n: (x @ w / n**0.5) * jnp.tanh(x @ w / n**0.5), {"mix.0": "-1/2"}),
        "before": (lambda x, w, n: jnp.tanh((normed(x) * jax.lax.rsqrt(jnp.float32(n))) @ w), {"mix.0": "-1/2"}),
        "inside": (lambda x, w, n: jnp.tanh(normed(x) @ (w * n**-0.5)), {"mix.0": "-1/2"}),
        "the mean": (lambda x, w, n: jnp.tanh((x @ w).mean(-1, keepdims=True)) + x, {}),
        "a norm": (lambda x, w, n: normed(root(n) * (x @ w)), {"mix.0": "1/2"}),
        "a mask": (lambda x, w, n: jnp.where(x > 0, jnp.tanh(looped(x @ w, n)), 0.0), {"mix.0": "1/2"}),
        "an array of one number": (lambda x, w, n: jnp.tanh(jnp.full(n, n**0.5) * (x @ w)), {"mix.0": "1/2"}),
        "a mask of its own": (
            lambda x, w, n: jnp.tanh((x @ w) * (x > 0).astype(float) * n**0.5),
            {"mix.0": "1/2"},
        ),
        "a pooled gate": (
            lambda x, w, n: jnp.tanh(((x * jax.nn.sigmoid(x)).sum(1) / n) @ w),
            {"mix.0": "-1"},
        ),
        "a recurrence": (
            lambda x, w, n: jax.lax.scan(
                lambda h, one: (jnp.tanh(one + (h * n**-0.5) @ w),) * 2,
                jnp.zeros(x[:, 0].shape), jnp.moveaxis(x, 1, 0),
            )[0],
            {"mix.0": "-1/2"},
        ),
        "entries": (
            lambda x, w, n: (
                jax.nn.softmax(((x @ w / n**0.5)[:, :, None] * x[:, None]).sum(-1)) @ table[:4] + jnp.tanh(x @ w)
            ),
            {},
        ),
    }  # fmt: skip
    wrong = []
    for name, (way, expected) in ways.items():
        for embed in (
            lambda p, t: p["embed"][t],
            lambda p, t: jax.nn.one_hot(t, WORDS) @ p["embed"],
        ):

            def apply(p, tokens, width, way=way, embed=embed):
                return normed(way(embed(p, tokens), p["mix"][0], width)) @ p["head"]

            seen = passes(plain, apply, inputs=jax.ShapeDtypeStruct((2, 4), int))
            found = {n: str(g.total) for kind in gauges(seen) for n, g in kind.items()}
            if found != expected:
                wrong.append(f"{name}: {found}")
    assert not wrong


def test_a_learnt_number_is_read_off_the_factory() -> None:
    def init_fn(width):
        return plain(width) | {"temperature": jnp.full((), width**-0.5)}

    def apply(p, tokens, width):
        return normed(p["embed"][tokens]) @ p["mix"][0] * p["temperature"] @ p["head"]

    (found,) = [g for g in gauges(passes(init_fn, apply)) if g]
    assert {n: g.total for n, g in found.items()} == {"head": Fraction(-1, 2)}


def test_a_tied_readout_with_a_multiplier_of_its_own() -> None:
    class Tied(Transformer):
        def __init__(self, width, power):
            super().__init__(width, 1, tied=True)
            self.factor = width**power

        def __call__(self, words):
            return super().__call__(words) * self.factor

    for power, lacks in ((-0.5, 1 / 2), (-1, 1.0)):
        plan = planned(
            lambda width, p=power: Tied(width, p),
            readouts=["embed.embedding"],
            multiplied=["embed.attend"],
        )
        assert plan.table.multiplier("embed.attend") == lacks


def test_what_is_not_seen_is_said() -> None:
    with pytest.warns(
        PlanWarning, match=r"not seen the forward pass.*apply=\.\.\., a function of what `init_fn`"
    ):
        plan = planned(tree, roles=ROLES)
    assert "The forward pass was not seen" in str(plan)
    odd = lambda p, batch: jnp.tanh(p["embed"][batch["x"]]) @ p["head"]  # noqa: E731
    with pytest.warns(
        PlanWarning, match=r"none of the inputs that were tried.*inputs=\.\.\..*Error"
    ):
        planned(tree, roles=ROLES, apply=odd)
    tokens = jnp.zeros((2, 4), int)
    seen = planned(tree, roles=ROLES, apply=odd, inputs=({"x": tokens},))
    assert "not seen" not in str(seen)
    assert "not seen" not in str(seen.at(width=32))
    with pytest.raises(PlanError, match=r"cannot be called with the `inputs` given: \w+Error"):
        planned(tree, roles=ROLES, apply=odd, inputs=tokens)
    fixed = lambda p, x: p["embed"][x] @ jnp.ones((16, 3))  # noqa: E731
    with pytest.raises(
        PlanError, match="runs at the base width, but not at another width on the same input"
    ):
        planned(tree, roles=ROLES, apply=fixed, inputs=tokens)


class Ends(nnx.Module):
    """A router, a bottleneck, and tensors of fixed size behind the matrix that reads out."""

    def __init__(self, width: int, seed: int = 0) -> None:
        rngs = nnx.Rngs(seed)
        self.last = nnx.Linear(6, 3, rngs=rngs)
        self.norm = nnx.LayerNorm(6, rngs=rngs)
        self.down = nnx.Linear(width, 6, rngs=rngs)
        self.chooser = nnx.Linear(width, 4, rngs=rngs)
        self.first = nnx.Linear(5, width, rngs=rngs)

    def __call__(self, x: Any) -> Any:
        x = jnp.tanh(self.first(x))
        chosen = jax.nn.softmax(self.chooser(x)).max(-1, keepdims=True)
        x = jax.lax.cond(True, lambda x: x + 1, lambda x: x, x * chosen)
        # The router meets the width again, since what it chooses is read by a matrix that sums over it.
        return self.last(self.norm(self.down(x)))


def test_readouts_are_told_by_what_follows_them() -> None:
    made = sw.jax.plan(
        Ends, base={"width": 16}, target={"width": 64}, strategy=sw.scaling.mup(),
        inputs=np.ones((2, 5), np.float32),
    )  # fmt: skip
    table = made.table
    assert str(table["down.kernel"].role) == "output"
    assert str(table["chooser.kernel"].role) == "bottleneck"
    assert [table[n].ends for n in ("last.kernel", "norm.scale", "first.kernel")] == [
        True,
        True,
        False,
    ]


class Returned:
    """A result that jax does not know as a container."""

    def __init__(self, *held: Any) -> None:
        self.held = held


def test_readouts_are_found_in_any_object() -> None:
    def build(width: int, seed: int = 0) -> Any:
        rngs = nnx.Rngs(seed)
        return nnx.List(
            [nnx.Linear(a, b, rngs=rngs) for a, b in ((8, width), (width, 3), (width, 1))]
        )

    def plan_of(returns: Any) -> Any:
        def apply(model: Any, x: Any) -> Any:
            body, one, two = model
            h = jax.nn.relu(body(x))
            return returns(one(h), two(h))

        return planned(build, apply=apply, inputs=np.ones((2, 8), np.float32))

    roles = [t.role for t in plan_of(Returned).table.tensors if len(t.shape) == 2]
    assert sorted(roles) == ["input", "output", "output"]
    with pytest.raises(PlanError, match="no array that the model's tensors have made"):
        plan_of(lambda *_: Returned("nothing"))
