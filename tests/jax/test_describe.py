"""Golden and error tests: what the modules of Flax and Equinox do with each tensor, and what has to be asked."""

import ast
from functools import partial

import equinox as eqx
import flax.linen as nn
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from flax import nnx

import scalewise as sw
from jax_models import Recurrent, Transformer, Vision, drawn, mlp, mlp_roles, quick_draws, recurrent
from scalewise.jax._describe import describe, traced
from scalewise.plan import Kind, PlanError
from scalewise.plan._questions import Asked

MUP = sw.scaling.meta(s=1)
MATRIX, LOOKUP, BIAS, GAIN, UNKNOWN = (
    Kind.MATRIX, Kind.LOOKUP, Kind.BIAS, Kind.GAIN, Kind.UNKNOWN,
)  # fmt: skip


def axes(init_fn, layout="plain", **sizes):
    found = traced(init_fn, sizes, layout).model
    return {t.name: (t.shape, t.kind, t.fan_in, t.fan_out) for t in found.tensors}


def planned(init_fn, base=8, target=32, strategy=MUP, **more):
    sizes = {"base": {"width": base}, "target": {"width": target}}
    return sw.jax.plan(init_fn, strategy=strategy, **sizes | more)


def test_nnx_transformer() -> None:
    found = traced(Transformer, {"width": 8, "depth": 1}, "plain").model
    got = {t.name: (t.shape, t.kind, t.fan_in, t.fan_out) for t in found.tensors}
    block = "blocks.0."
    query = {
        f"{block}attn.{k}.{p}": v
        for k in ("query", "key", "value")
        for p, v in {
            "kernel": ((8, 2, 4), MATRIX, (0,), (1, 2)),
            "bias": ((2, 4), BIAS, (), (0, 1)),
        }.items()
    }
    assert got == query | {
        "embed.embedding": ((10, 8), LOOKUP, (0,), (1,)),
        "head.kernel": ((8, 10), MATRIX, (0,), (1,)),
        "norm.scale": ((8,), GAIN, (), (0,)),
        f"{block}attn.out.kernel": ((2, 4, 8), MATRIX, (0, 1), (2,)),
        f"{block}attn.out.bias": ((8,), BIAS, (), (0,)),
        f"{block}norm.scale": ((8,), GAIN, (), (0,)),
        f"{block}norm.bias": ((8,), GAIN, (), (0,)),
        f"{block}up.kernel": ((8, 32), MATRIX, (0,), (1,)),
        f"{block}down.kernel": ((32, 8), MATRIX, (0,), (1,)),
        f"{block}down.bias": ((8,), BIAS, (), (0,)),
    }
    assert {t.module for t in found.tensors} >= {"Embed", "LinearGeneral", "Linear", "RMSNorm"}
    assert next(t for t in found.tensors if t.name == f"{block}down.bias").owner == f"{block}down"


def test_nnx_layers() -> None:
    class Layers(nnx.Module):
        def __init__(self, width):
            r = nnx.Rngs(0)
            self.conv = nnx.Conv(3, width, (5, 4), rngs=r)
            self.up = nnx.ConvTranspose(width, 6, (5, 4), rngs=r)
            self.back = nnx.ConvTranspose(width, 6, (5, 4), transpose_kernel=True, rngs=r)
            self.mix = nnx.Einsum("nta,abh->ntbh", (width, 2, 4), (2, 4), rngs=r)
            self.odd = nnx.Einsum("...a,ab->...b", (width, 3), rngs=r)
            self.whole = nnx.Einsum("...a,...ab->...b", (width, 3), rngs=r)
            self.low = nnx.LoRA(width, 2, width, rngs=r)
            self.general = nnx.LinearGeneral((2, width), (3, 4), axis=(-2, -1), rngs=r)
            self.norm = nnx.BatchNorm(width, rngs=r)
            self.slope = nnx.PReLU()
            self.bare = nnx.Param(jnp.zeros((3, width)))
            self.stack = nnx.vmap(lambda k: nnx.Linear(width, 3, rngs=nnx.Rngs(k)))(
                jax.random.split(jax.random.key(0), 6)
            )
            self.running = nnx.Variable(jnp.zeros(width))

    got = axes(Layers, width=8)
    assert got["conv.kernel"] == ((5, 4, 3, 8), MATRIX, (0, 1, 2), (3,))
    assert got["up.kernel"] == ((5, 4, 8, 6), MATRIX, (0, 1, 2), (3,))
    assert got["back.kernel"] == ((5, 4, 6, 8), MATRIX, (0, 1, 3), (2,))
    assert got["mix.kernel"] == ((8, 2, 4), MATRIX, (0,), (1, 2))
    assert got["mix.bias"] == ((2, 4), BIAS, (), (0, 1))
    assert got["odd.kernel"] == ((8, 3), MATRIX, (0,), (1,))
    assert got["whole.kernel"][1] is UNKNOWN
    assert got["low.lora_a"] == ((8, 2), MATRIX, (0,), (1,))
    assert got["low.lora_b"] == ((2, 8), MATRIX, (0,), (1,))
    assert got["general.kernel"] == ((2, 8, 3, 4), MATRIX, (0, 1), (2, 3))
    assert got["norm.scale"] == ((8,), GAIN, (), (0,))
    assert got["slope.negative_slope"] == ((), GAIN, (), ())
    assert got["bare"] == ((3, 8), UNKNOWN, (), ())
    assert got["stack.kernel"] == ((6, 8, 3), MATRIX, (1,), (2,))
    # Running statistics are not trained.
    assert not {n for n in got if n.endswith(("mean", "var", "running"))}


def test_equinox_layers() -> None:
    found = traced(Vision, {"width": 8}, "plain").model
    got = {t.name: (t.shape, t.kind, t.fan_in, t.fan_out) for t in found.tensors}
    assert got["stem.weight"] == ((8, 3, 3, 3), MATRIX, (1, 2, 3), (0,))
    assert got["stem.bias"] == ((8, 1, 1), BIAS, (), (0, 1, 2))
    assert got["depthwise.weight"] == ((8, 1, 3, 3), MATRIX, (1, 2, 3), (0,))
    assert got["up.weight"] == ((16, 8, 3, 3), MATRIX, (1, 2, 3), (0,))
    assert got["batch.weight"] == ((8,), GAIN, (), (0,))
    assert got["group.bias"] == ((8,), GAIN, (), (0,))
    assert got["attention.query_proj.weight"] == ((8, 8), MATRIX, (1,), (0,))
    assert got["mlp.layers.1.weight"] == ((16, 16), MATRIX, (1,), (0,))
    assert got["mlp.layers.2.weight"] == ((3, 16), MATRIX, (1,), (0,))
    # Neither activations nor numbers nor running statistics are tensors.
    assert not {n for n in got if "index" in n or "counter" in n or "scale" in n or "activ" in n}
    got = axes(Recurrent, width=8)
    assert got["gru.weight_ih"] == ((24, 3), MATRIX, (1,), (0,))
    assert got["gru.weight_hh"] == ((24, 8), MATRIX, (1,), (0,))
    assert got["gru.bias_n"][1] is BIAS
    assert got["lstm.weight_hh"] == ((32, 8), MATRIX, (1,), (0,))
    assert got["stack.weight"] == ((2, 8, 8), MATRIX, (2,), (1,))
    assert got["stack.bias"][1] is BIAS


def test_scalar_layer_and_unknown_fields_of_equinox() -> None:
    class Own(eqx.nn.Linear):
        extra: jax.Array

        def __init__(self, width):
            super().__init__("scalar", width, key=jax.random.key(0))
            self.extra = jnp.zeros((width, 2))

    got = axes(Own, width=8)
    assert got["weight"] == ((8, 1), MATRIX, (1,), (0,))
    assert got["extra"][1] is UNKNOWN
    with quick_draws():
        swapped = eqx.tree_at(lambda m: m.weight, Own(8), jnp.zeros((1, 8)))
    assert {t.name: t.kind for t in describe(swapped).model.tensors}["weight"] is UNKNOWN


class Linen(nn.Module):
    width: int

    @nn.compact
    def __call__(self, words):
        attention = partial(
            nn.MultiHeadDotProductAttention, num_heads=self.width // 4, kernel_init=drawn
        )
        x = nn.Embed(10, self.width, embedding_init=drawn)(words)
        x = nn.LayerNorm()(nn.Conv(self.width, (3,), use_bias=False, kernel_init=drawn)(x))
        x = attention(use_bias=False)(x)
        x = attention(name="own")(x)
        x = nn.BatchNorm(use_running_average=False)(nn.LayerNorm(use_scale=False)(x))
        return nn.Dense(10, name="head", kernel_init=drawn)(x)


def linen(width):
    return jax.jit(Linen(width).init)(jax.random.key(0), jnp.zeros((1, 4), int))


def test_linen_layout() -> None:
    got = axes(linen, "linen", width=8)
    own, other = "own.", "MultiHeadDotProductAttention_0."
    for name in (own, other):
        for key in ("query", "key", "value"):
            assert got[f"{name}{key}.kernel"] == ((8, 2, 4), MATRIX, (0,), (1, 2))
        assert got[f"{name}out.kernel"] == ((2, 4, 8), MATRIX, (0, 1), (2,))
    assert got["own.query.bias"] == ((2, 4), BIAS, (), (0, 1))
    assert got["Embed_0.embedding"] == ((10, 8), LOOKUP, (0,), (1,))
    assert got["Conv_0.kernel"] == ((3, 8, 8), MATRIX, (0, 1), (2,))
    assert got["LayerNorm_0.scale"] == ((8,), GAIN, (), (0,))
    assert got["LayerNorm_1.bias"] == ((8,), GAIN, (), (0,))
    assert got["head.bias"] == ((10,), BIAS, (), (0,))
    assert not {n for n in got if "mean" in n or "var" in n}
    # The same dictionary without a word on its layout is a tree like any other.
    assert {k for _, k, _, _ in axes(linen, width=8).values()} == {UNKNOWN}


def test_linen_names_that_do_not_tell() -> None:
    def general(width):
        return {"Some_0": {"kernel": jnp.zeros((width, 2, 4)), "other": jnp.zeros(3)}}

    assert axes(general, "linen", width=8)["Some_0.kernel"][1] is UNKNOWN
    assert axes(general, "linen", width=8)["Some_0.other"][1] is UNKNOWN
    root = {"kernel": jnp.zeros((8, 2)), "bias": jnp.zeros(2)}
    assert axes(lambda: root, "linen")["kernel"] == ((8, 2), MATRIX, (0,), (1,))
    wrong = {"kernel": jnp.zeros((8, 2)), "bias": jnp.zeros(3)}
    assert axes(lambda: wrong, "linen")["kernel"][1] is UNKNOWN
    with pytest.raises(PlanError, match="No module says") as error:
        planned(general, layout="linen")
    assert "layout='linen'" not in str(error.value)


def test_linen_plan_and_its_variables() -> None:
    plan = planned(linen, layout="linen")
    assert plan.factors("head.kernel").lr == 1 / 4
    variables = linen(32)
    new = plan.init(variables)
    assert new["batch_stats"] is not None
    assert jax.tree.structure(new) == jax.tree.structure(variables)
    only = plan.init(variables["params"])
    assert jax.tree.all(jax.tree.map(np.array_equal, only, new["params"]))
    assert plan.multiplier_tree(variables["params"])["head"]["kernel"] == 1 / 4
    assert plan.factors("params.head.kernel") == plan.factors("head.kernel")


def test_everything_is_asked_at_once() -> None:
    with pytest.raises(PlanError, match="No module says what these tensors do") as error:
        planned(mlp)
    text = str(error.value)
    for line in (
        "`layers.*.W`: 5 x n", "`layers.*.W`: n x n", "`layers.*.b`: n", "`head.W`: n x 2", "layout='linen'",
    ):  # fmt: skip
        assert line in text
    assert "head.b" not in text  # it does not grow
    # What it proposes is what this model needs.
    proposed = ast.literal_eval(text.partition("roles=")[2].partition("}")[0] + "}")
    assert planned(mlp, roles=proposed).table == planned(mlp, roles=mlp_roles(3)).table
    with pytest.raises(PlanError, match="layers"):
        planned(mlp, roles={"head.W": "output"})
    plan = planned(mlp, roles=mlp_roles(3))
    assert str(plan.table["head.b"].role) == "fixed"


def test_the_pass_tells_which_side_of_a_bare_matrix_is_proposed() -> None:
    """Of the same network, with its matrices as (inputs, outputs) or the other way round."""
    shapes = {"first": (5, "n"), "mix": ("n", "n"), "last": ("n", 2)}

    def built(width: int, step: int = 1):
        return {
            name: jnp.ones(tuple(width if s == "n" else s for s in shape[::step]))
            for name, shape in shapes.items()
        }

    def apply(params, x, turned: bool):
        for w in map(params.get, shapes):
            x = jnp.tanh(x @ (w.T if turned else w))
        return x

    for turned in (False, True):
        with pytest.raises(Asked) as asked:
            planned(
                partial(built, step=-1 if turned else 1), inputs=jnp.ones((3, 5)),
                apply=partial(apply, turned=turned),
            )  # fmt: skip
        roles = {"first": "input", "mix": "hidden", "last": "output"}
        assert asked.value.answers["roles"] == roles, turned


def test_a_square_table_is_asked_too() -> None:
    def square(width):
        return {"S": jnp.ones((width, width))}

    with pytest.raises(PlanError, match="`S`: n x n"):
        planned(square)
    # A hidden matrix is one in either orientation.
    assert planned(square, roles={"S": "hidden"}).factors("S").lr == 1 / 4


def test_other_leaves_of_plain_trees() -> None:
    def init_fn(width):
        return {
            "W": jnp.ones((3, width)), "steps": jnp.zeros(width, int), "temperature": 2.0,
            "key": jax.random.key(0), "name": "net", "none": None, "f": jnp.tanh, "empty": {},
        }  # fmt: skip

    got = axes(init_fn, width=8)
    assert got.keys() == {"W", "temperature"}
    plan = planned(init_fn, roles={"W": "input"})
    assert plan.factors("temperature").lr == 1
    assert plan.init(init_fn(32))["temperature"] == 2.0


def test_shared_array_of_equinox() -> None:
    for words_first in (True, False):

        def init_fn(width, first=words_first):
            return recurrent(width, words_first=first)

        lookup, out = ("0", "1") if words_first else ("1", "0")
        found = traced(init_fn, {"width": 8}, "plain").model
        (tied,) = [t for t in found.tensors if t.aliases]
        assert tied.name == f"shared.pytree.{lookup}.weight"
        assert tied.aliases == (f"shared.pytree.{out}.weight",)
        assert found.aliases[tied.aliases[0]].kind is MATRIX
        with pytest.raises(PlanError, match=f"`shared.pytree.{out}` reads out with the weights"):
            planned(init_fn)
        plan = planned(init_fn, multiplied=[f"shared.pytree.{out}"])
        assert plan.table.multiplier(f"shared.pytree.{out}") == 1 / 4
        new = plan.init(init_fn(32))
        embedding = new.shared()[0 if words_first else 1].weight
        assert float(embedding.std()) == pytest.approx(plan.table.std(tied.name), rel=0.3)


def test_shared_through_a_function_is_refused() -> None:
    def init_fn(width):
        pair = [jnp.ones((3, width)), jnp.ones((width, 3))]
        return eqx.nn.Shared(pair, lambda p: p[1], lambda p: p[0].T)

    with pytest.raises(PlanError, match=r"`pytree.1` is computed from other tensors"):
        planned(init_fn, roles={"*": "input"})


def test_shared_param_of_nnx() -> None:
    class Tied(nnx.Module):
        def __init__(self, width, same):
            r = nnx.Rngs(0)
            self.a = nnx.Linear(width, width, rngs=r, kernel_init=drawn)
            self.b = nnx.Linear(width, width, rngs=r, kernel_init=drawn)
            self.head = nnx.Linear(width, 3, rngs=r, kernel_init=drawn)
            if same:
                self.b.kernel = self.a.kernel
            else:
                self.e = nnx.Embed(width, width, rngs=r)
                self.b.kernel = self.e.embedding

    plan = planned(lambda width: Tied(width, True))
    assert plan.table["b.kernel"].name == "a.kernel"
    model = plan.init(Tied(32, True))
    assert model.a.kernel is model.b.kernel
    with pytest.raises(PlanError, match=r"No module says .*\n  `e.embedding`: n x n"):
        planned(lambda width: Tied(width, False))


def test_an_embedding_that_also_reads_out() -> None:
    def init_fn(width):
        return Transformer(width, 1, tied=True)

    with pytest.raises(PlanError, match=r"embedding `embed.embedding` and no readout"):
        planned(init_fn)
    with pytest.raises(PlanError, match=r"`embed.attend` reads out with the weights"):
        planned(init_fn, readouts=["embed.embedding"])
    with pytest.raises(PlanError, match="`readouts` names 'head', which fits no embedding"):
        planned(init_fn, readouts=["head"])
    plan = planned(init_fn, readouts=["embed.embedding"], multiplied=["embed.attend"])
    assert plan.multipliers[0].factor == 1 / 4
    features = planned(init_fn, roles={"embed.embedding": "input"})
    assert not features.multipliers


def test_one_array_in_two_places_of_a_tree() -> None:
    def tied(width):
        E = drawn(None, (7, width))
        return {"embed": E, "head": E}

    roles = {"embed": "input", "head": ("output", 1)}
    with pytest.raises(
        PlanError, match=r"several places that scale differently: `embed` \(input\)"
    ):
        planned(tied, roles=roles)
    # Places that scale alike are right whether they are meant as one or not.
    assert planned(tied, roles={"*": "input"}).factors("head").lr == 1

    def apart(width):
        return {k: drawn(None, (7, width)) for k in ("embed", "head")}

    planned(apart, roles=roles)


def test_what_cannot_be_traced_or_has_no_tensor() -> None:
    def looks(width):
        W = jax.random.normal(jax.random.key(0), (3, width))
        return {"W": W if W.sum() > 0 else -W}

    with pytest.raises(PlanError, match=r"`init_fn\(width=8\)` cannot be traced"):
        planned(looks)
    with pytest.raises(PlanError, match="no trainable array"):
        planned(lambda width: {"n": width})
