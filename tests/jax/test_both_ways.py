"""Refusal tests: layers of a model of jax whose transposed weights decode, in the model's own code."""

from __future__ import annotations

from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import pytest
from flax import nnx

import scalewise as sw
from scalewise.plan import Role
from scalewise.plan._questions import Asked

X = jnp.ones((4, 12))


class InEquinox(eqx.Module):
    encode: eqx.nn.Linear
    shift: jax.Array

    def __init__(self, width: int) -> None:
        self.encode = eqx.nn.Linear(12, width, key=jax.random.key(0))
        self.shift = jnp.zeros(12)

    def __call__(self, x: Any) -> Any:
        return (
            jax.vmap(lambda one: self.encode.weight.T @ jax.nn.relu(self.encode(one)))(x)
            + self.shift
        )


class InFlax(nnx.Module):
    def __init__(self, width: int) -> None:
        self.encode = nnx.Linear(12, width, rngs=nnx.Rngs(0))

    def __call__(self, x: Any) -> Any:
        return jax.nn.relu(self.encode(x)) @ self.encode.kernel.get_value().T


@pytest.mark.parametrize("build", [InEquinox, InFlax])
def test_a_layer_that_decodes_by_its_transpose_lacks_the_width_once(build: Any) -> None:
    def planned(**said: Any) -> Any:
        return sw.jax.plan(
            build, base={"width": 32}, target={"width": 128}, strategy=sw.scaling.mup(),
            apply=lambda model, x: model(x), inputs=X, **said,
        )  # fmt: skip

    with pytest.raises(
        Asked, match=r"also reads out with the weights of the layer `encode\."
    ) as asked:
        planned()
    ((name,),) = asked.value.answers.values()
    plan = planned(multiplied=[name])
    assert plan.table[name].role is Role.INPUT
    assert {m.name: m.factor for m in plan.table.multipliers} == {name: 1 / 4}
