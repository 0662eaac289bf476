"""Golden, agreement and refusal tests: weights that modules of jax compute from others."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import equinox as eqx
import jax
import numpy as np
import optax
import pytest
from flax import nnx

import scalewise as sw
from grids import few, thorough
from jax_models import quick_draws
from scalewise.jax import JaxPlan
from scalewise.plan import PlanError
from scalewise.plan._diagnosis import Cause

BASE, SIDE, WIDTHS = 32, 12, [32, 64, 128, 256]
DRAW = np.random.default_rng(0)
X = DRAW.standard_normal((16, SIDE)).astype(np.float32)
LABELS = (X @ DRAW.standard_normal((SIDE, 3))).argmax(-1)
Wrap = Callable[[eqx.nn.Linear], Any]
LENGTHS: dict[str, Wrap] = {
    "rows": eqx.nn.WeightNorm,
    "whole": lambda layer: eqx.nn.WeightNorm(layer, axis=None),
    "columns": lambda layer: eqx.nn.WeightNorm(layer, axis=1),
}


class Net(eqx.Module):
    """Three layers, each of whose weights is computed."""

    a: Any
    b: Any
    c: Any

    def __init__(self, width: int, wrap: Wrap, seed: int = 0) -> None:
        draw = np.random.default_rng(seed).standard_normal
        sizes, keys = (
            ((SIDE, width), (width, width), (width, 3)),
            jax.random.split(jax.random.key(0), 3),
        )
        layers = []
        with quick_draws():
            for (n, m), key in zip(sizes, keys, strict=True):
                layer = eqx.nn.Linear(n, m, use_bias=False, key=key)
                new = jax.numpy.asarray(draw((m, n)) / n**0.5, "float32")
                layers.append(wrap(eqx.tree_at(lambda x: x.weight, layer, new)))
        self.a, self.b, self.c = layers

    def __call__(self, x: Any) -> Any:
        return self.c(jax.nn.relu(self.b(jax.nn.relu(self.a(x)))))


def planned(wrap: Wrap, optimizer: str = "adamw") -> JaxPlan:
    return sw.jax.plan(
        lambda width, seed=0: Net(width, wrap, seed), base={"width": BASE}, target={"width": 4 * BASE},
        strategy="mup", optimizer=optimizer, inputs=X[0],
    )  # fmt: skip


def entropy(model: Any, batch: Any) -> Any:
    logits = jax.vmap(model)(batch[0])
    return optax.softmax_cross_entropy_with_integer_labels(logits, batch[1]).mean()


@pytest.mark.parametrize("kind", few(LENGTHS, every=3))
def test_computed_weights_start_as_plain_ones_are_planned(kind: str) -> None:
    plan, plain = planned(LENGTHS[kind]), planned(lambda layer: layer)
    model = plan.init(Net(4 * BASE, LENGTHS[kind]))
    other = plain.init(Net(4 * BASE, lambda layer: layer))
    for x in X[:3]:
        np.testing.assert_allclose(model(x), other(x), rtol=1e-4, atol=1e-6)
    again = plan.init(model)
    pairs = zip(jax.tree.leaves(arrays(model)), jax.tree.leaves(arrays(again)), strict=True)
    assert all(np.array_equal(p, q) for p, q in pairs)
    assert plan.table["c.g"].of == "c.layer.weight"
    if kind == "rows":
        assert [plan.factors(f"{n}.g").lr for n in "abc"] == [1, 1, 1 / 2]


def arrays(model: Any) -> Any:
    return eqx.filter(model, eqx.is_array)


@pytest.mark.parametrize(
    ("kind", "optimizer"), [("rows", "adamw"), *thorough(("whole", "adamw"), ("rows", "sgd"))]
)
def test_directions_and_lengths_move_as_planned(kind: str, optimizer: str) -> None:
    check = planned(LENGTHS[kind], optimizer).verify(
        (X, LABELS), entropy, widths=WIDTHS, seeds=3, progress=False
    )
    assert (check.ok, str(check.verdict)) == (True, "feature learning, stable"), str(check)


@pytest.mark.thorough("tests/jax/test_verify.py::test_one_wrong_setting_is_named")
def test_a_wrong_rate_of_a_computed_readout_is_named() -> None:
    def setup(plan: Any, model: Any) -> Any:
        model = plan.init(model)
        off = (plan.table.target["width"] / BASE) ** 0.5
        rates = plan.multiplier_tree(arrays(model))
        rates = eqx.tree_at(lambda m: m.c.g, rates, replace_fn=lambda rate: off * rate)

        def scaled(updates: Any, state: Any, params: Any = None) -> Any:
            return jax.tree.map(lambda u, r: r * u, updates, rates), state

        by_tensor = optax.GradientTransformation(lambda params: optax.EmptyState(), scaled)
        return model, optax.chain(optax.adam(1e-4, eps=0.0), by_tensor)

    check = planned(LENGTHS["rows"]).verify(
        (X, LABELS), entropy, widths=WIDTHS, seeds=3, setup=setup, progress=False
    )
    (culprit,) = check.culprits
    assert (culprit.tensor, culprit.cause) == ("c.g", Cause.LEARNING_RATE)


def test_a_bounded_singular_value_is_refused() -> None:
    key = jax.random.key(1)

    def build(width: int) -> Any:
        return eqx.nn.make_with_state(Net)(
            width, lambda x: eqx.nn.SpectralNorm(x, "weight", key=key)
        )

    with pytest.raises(
        PlanError, match=r"`0.a` is a SpectralNorm of Equinox: its largest singular"
    ):
        sw.jax.plan(build, base={"width": 8}, target={"width": 16}, strategy="mup")


@pytest.mark.parametrize("wrap", [nnx.WeightNorm, nnx.SpectralNorm])
def test_weights_that_are_written_over_are_refused(wrap: Any) -> None:
    def build(width: int) -> Any:
        rngs = nnx.Rngs(0)
        return nnx.List(
            [wrap(nnx.Linear(3, width, rngs=rngs), rngs=rngs), nnx.Linear(width, 2, rngs=rngs)]
        )

    with pytest.raises(
        PlanError, match=r"`0` is a .* of Flax NNX, which at every call writes the weight"
    ):
        sw.jax.plan(build, base={"width": 8}, target={"width": 16}, strategy="mup")
