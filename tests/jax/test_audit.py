"""Agreement: scripts of JAX whose parametrisation is known, and the same networks in PyTorch."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
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
from jax_models import by_numpy, in_torch, mlp, mlp_roles, preactivations, quick_draws
from scalewise.plan import PlanError
from scalewise.plan._measurement import Quantity
from scalewise.plan.audit import Audit

RNG = np.random.default_rng(5)
X, Y = RNG.standard_normal((16, 8)).astype(np.float32), RNG.integers(10, size=16)
SMALL = (32, 64, 128)


def tree(width: int, seed: int = 0) -> Any:
    """Two hidden layers and a readout, drawn by NumPy."""
    return mlp(width, 2, inputs=8, outputs=10, seed=seed)


def likelihood(logits: jax.Array, labels: Any) -> jax.Array:
    return optax.softmax_cross_entropy_with_integer_labels(logits, labels).mean()


def loss(params: Any, batch: Any) -> jax.Array:
    return likelihood(preactivations(params, batch[0])[-1], batch[1])


def audit(build: Any, optimizer: Any, of: Any = loss, given: Any = (X, Y), **options: Any) -> Audit:
    settings: dict[str, Any] = {"widths": SMALL, "seeds": 2, "progress": False} | options
    return sw.jax.audit(build, optimizer, of, given, **settings)


def planned(
    strategy: Any, optimizer: str, *, wrong: tuple[str, float] | None = None
) -> tuple[Callable[..., Any], Callable[[Any], Any]]:
    """A script that follows a plan, but for the rate of one tensor, off by a power of the width."""
    base = sw.jax.plan(
        tree, base={"width": 32}, target={"width": 64}, strategy=strategy, optimizer=optimizer,
        roles=mlp_roles(2), inputs=X, apply=lambda p, x: preactivations(p, x)[-1],
    )  # fmt: skip
    sized = cache(lambda width: base.at(width=width))

    def make(model: Any) -> Any:
        width = model["head"]["W"].shape[0]
        own = sized(width).optax(getattr(optax, optimizer)(1e-3), check=False)
        factor = 1.0 if wrong is None else (width / 32) ** wrong[1]

        def off(path: Any, update: Any) -> Any:
            return update * factor if wrong and jax.tree_util.keystr(path) == wrong[0] else update

        wrongly = optax.stateless(lambda u, _: jax.tree_util.tree_map_with_path(off, u))
        return sized(width).init(model), optax.chain(own, wrongly)

    return tree, make


def test_the_same_script_in_torch() -> None:
    """Powers, sizes, epsilons and words: the same networks under AdamW with weight decay."""

    def build(width: int) -> torch.nn.Module:
        return in_torch(tree(width, torch.initial_seed() % 2**31))

    one = sw.torch.audit(
        build, (torch.optim.AdamW, {"lr": 1e-3, "eps": 1e-2, "weight_decay": 0.1}),
        lambda model, batch: torch.nn.functional.cross_entropy(model(batch[0]), batch[1]),
        (torch.tensor(X), torch.tensor(Y)), widths=SMALL, seeds=2,
    )  # fmt: skip
    two = audit(tree, optax.adamw(1e-3, eps=1e-2, weight_decay=0.1))
    names = {"0": "layers.0", "2": "layers.1", "4": "head", "weight": "W", "bias": "b"}

    def there(name: str) -> str:
        return ".".join(names[part] for part in name.split("."))

    assert one.measured.lr == pytest.approx(two.measured.lr, rel=1e-3)
    assert (one.fall, one.r) == pytest.approx((two.fall, two.r), abs=2e-3)
    wrong = []
    for t in one.tensors:
        other = two[there(t.name)]
        fits = ("init", "rate", "gradient", "step", "own_change", "output")
        slopes = [(getattr(t, f).slope, getattr(other, f).slope) for f in fits]
        sizes = [
            (one.measured.of(t.name, q), two.measured.of(other.name, q))
            for q in (Quantity.OWN_CHANGE, Quantity.PASSED, Quantity.FEATURES_CHANGE)
        ]
        same = np.allclose(*zip(*slopes, strict=True), atol=3e-3)
        if not same or not all(np.allclose(a, b, rtol=2e-3, equal_nan=True) for a, b in sizes):
            wrong.append((t, other))
    assert not wrong
    assert [(there(e.tensor), pytest.approx(e.width, rel=5e-2)) for e in one.epsilons] == [
        (e.tensor, e.width) for e in two.epsilons
    ]
    assert [e.eps for e in two.epsilons] == pytest.approx([1e-2] * 4, rel=2e-2)
    assert [there(b.place) for b in one.bottleneck] == [b.place for b in two.bottleneck]
    assert str(two).endswith(
        "What each tensor needs instead: sw.jax.plan(build, ..., strategy=sw.scaling.mup())."
    )


@pytest.mark.thorough("test_the_same_script_in_torch")
def test_every_parametrisation_is_named_and_one_wrong_tensor() -> None:
    mup, head, first = sw.scaling.mup(), "['head']['W']", "['layers'][0]['W']"
    cases: dict[str, tuple[Any, str, set[str], set[str]]] = {
        "tangent": (planned(sw.scaling.ntk(), "sgd"), "Lazy", {"head.W"}, set()),
        "maximal": (planned(mup, "adam"), "Maximal update", set(), set()),
        "too fast": (planned(mup, "adam", wrong=(head, 0.5)), "Unstable", {"head.W"}, set()),
        "too slow": (planned(mup, "adam", wrong=(first, -1.0)), "Features", set(), {"layers.0.W"}),
    }
    off = []
    for name, (script, said, held, slow) in cases.items():
        found = audit(*script, seeds=4 if name == "too fast" else 2)
        places = {b.place for b in found.bottleneck}
        lagging = {w.tensor for w in found.wastes}
        if not found.sentence.startswith(said) or not held <= places or lagging != slow:
            off.append((name, found.sentence, places, lagging))
    assert off == []


class Reader(nnx.Module):
    """A tied embedding, a norm with running statistics, dropout."""

    def __init__(self, width: int, seed: int = 0):
        rngs, draw = nnx.Rngs(seed), by_numpy(seed)
        self.words = nnx.Embed(20, width, rngs=rngs, embedding_init=lambda *a: 4 * draw(*a))
        self.mix = nnx.Linear(width, width, rngs=rngs, kernel_init=draw)
        self.norm, self.drop = nnx.BatchNorm(width, rngs=rngs), nnx.Dropout(0.1, rngs=rngs)

    def __call__(self, tokens: jax.Array) -> jax.Array:
        return self.words.attend(self.drop(nnx.relu(self.norm(self.mix(self.words(tokens))))))


def test_a_tied_readout_in_nnx_with_clipping() -> None:
    tokens = RNG.integers(20, size=(2, 8))

    def of_words(model: Any, batch: Any) -> jax.Array:
        return likelihood(model(batch), batch)

    clipped = optax.chain(optax.clip_by_global_norm(1.0), optax.adam(1e-3))
    tied = audit(Reader, clipped, of_words, tokens)
    assert tied.sentence.startswith("Unstable")
    assert tied.assumed == ("`words.embedding` reads out",)


@pytest.mark.thorough("test_a_tied_readout_in_nnx_with_clipping")
def test_equinox_by_heads_for_a_width_under_muon_beside_adam() -> None:
    def perceptron(heads: int, number: int = 0) -> eqx.Module:
        with quick_draws():
            model = eqx.nn.MLP(8, 10, 8 * heads, 2, key=jax.random.key(0))
        rng = np.random.default_rng(number)
        return jax.tree.map(
            lambda x: jnp.asarray(rng.standard_normal(x.shape) / x.shape[-1] ** 0.5, x.dtype)
            if eqx.is_array(x) else x, model,
        )  # fmt: skip

    found = audit(
        perceptron, optax.contrib.muon(1e-2), lambda m, b: likelihood(jax.vmap(m)(b[0]), b[1]),
        widths=(4, 8, 16), width="heads", seed="number",
    )  # fmt: skip
    assert {t.role for t in found.tensors} >= {"input", "hidden", "output", "vector"}
    assert found.target == 128


def test_roles_of_a_tree_are_taken_for_granted_or_said() -> None:
    """Matrices that stand the other way round than most do."""

    def turned(width: int, seed: int = 0) -> Any:
        draw = np.random.default_rng(seed).standard_normal
        made = {"W": draw((width, 8)) / 8**0.5, "V": draw((2, width)) / width**0.5}
        return jax.tree.map(lambda a: jnp.asarray(a, jnp.float32), made)

    def off(params: Any, batch: Any) -> jax.Array:
        return jnp.mean((jnp.tanh(batch[0] @ params["W"].T) @ params["V"].T - 1) ** 2)

    roles = {"W": ("input", 1), "V": ("output", 1)}
    said = audit(turned, optax.sgd(0.1), off, roles=roles)
    assert [said[n].role for n in "WV"] == ["input", "output"]
    assert said.assumed == ()
    # The pass tells which side is summed over.
    assert audit(turned, optax.sgd(0.1), off).assumed == ("`V` is 'output'", "`W` is 'input'")


def test_what_is_not_trained_is_told_and_refusals() -> None:
    def head_only(model: Any) -> Any:
        labels = {"layers": [{"W": "no", "b": "no"}] * 2, "head": {"W": "yes", "b": "yes"}}
        return optax.multi_transform({"yes": optax.sgd(0.1), "no": optax.set_to_zero()}, labels)

    found = audit(tree, head_only)
    assert set(found.idle) == {"layers.0.W", "layers.0.b", "layers.1.W", "layers.1.b"}
    warm = optax.sgd(optax.linear_schedule(0.0, 1.0, 10))
    cases: list[tuple[Any, Any, dict[str, Any], str]] = [
        (tree, warm, {}, "moves nothing.*without its schedule"),
        (tree, lambda model: None, {}, "`optimizer` must be an optimiser.*NoneType"),
        (tree, "adam", {}, "`optimizer` must be an optimiser of optax"),
        (lambda width: tree(width), optax.sgd(1.0), {}, "has no argument 'seed'"),
        (tree, optax.sgd(1.0), {"widths": [8, 16]}, "three different widths"),
    ]
    for build, optimizer, options, message in cases:
        with pytest.raises(PlanError, match=message):
            audit(build, optimizer, **options)
