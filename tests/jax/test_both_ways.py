"""Tensors of a model of jax that its own code transposes to decode, or divides by what is read off them."""

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


class Divided(eqx.Module):
    """A matrix that its own code divides by its largest singular value."""

    first: eqx.nn.Linear
    W: jax.Array
    last: eqx.nn.Linear

    def __init__(self, width: int) -> None:
        a, b, c = jax.random.split(jax.random.key(0), 3)
        self.first = eqx.nn.Linear(12, width, key=a)
        self.W = jax.random.normal(b, (width, width)) / width**0.5
        self.last = eqx.nn.Linear(width, 1, key=c)

    def __call__(self, x: Any) -> Any:
        W = self.W / jnp.linalg.norm(self.W, 2)
        return jax.vmap(lambda one: self.last(jax.nn.relu(W @ jax.nn.relu(self.first(one)))))(x)


def test_the_largest_singular_value_of_a_tensor_is_not_an_activation() -> None:
    plan = sw.jax.plan(
        Divided, base={"width": 32}, target={"width": 128}, strategy=sw.scaling.mup(), optimizer="adamw",
        apply=lambda model, x: model(x), inputs=X, roles={"W": "hidden"},
    )  # fmt: skip
    assert not plan.multipliers
    assert (plan.factors("W").init, plan.factors("W").lr) == (1 / 2, 1 / 4)
