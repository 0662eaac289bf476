"""Tensors of a model of jax that its own code transposes to decode, or divides by what is read off them."""

from __future__ import annotations

from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import pytest
import torch
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


class Bare(nnx.Module):
    def __init__(self, width: int) -> None:
        self.W = nnx.Param(jax.random.normal(jax.random.key(0), (12, width)))

    def __call__(self, x: Any) -> Any:
        W = self.W[...]
        return jax.nn.relu(x @ W) @ W.T


# How much of 1/n the code has, wherever it has it.
FACTORS: dict[str, tuple[Any, float]] = {
    "none": (lambda h, W, n: h @ W.T, 0),
    "behind": (lambda h, W, n: h @ W.T / n, 1),
    "at the weights": (lambda h, W, n: h @ (W.T / n), 1),
    "in front": (lambda h, W, n: (h / n) @ W.T, 1),
    "a root": (lambda h, W, n: h @ W.T / n**0.5, 0.5),
    "two roots": (lambda h, W, n: (h / n**0.5) @ W.T / n**0.5, 1),
}


@pytest.mark.parametrize("framework", ["jax", "torch"])
def test_a_factor_that_the_code_has_is_not_asked_for(framework: str) -> None:
    class InTorch(torch.nn.Module):
        def __init__(self, width: int, decode: Any) -> None:
            super().__init__()
            self.encode, self.decode = torch.nn.Linear(12, width), decode

        def forward(self, x: Any) -> Any:
            W = self.encode.weight.T
            return self.decode(torch.relu(self.encode(x)), W, W.shape[1])

    class InJax(nnx.Module):
        def __init__(self, width: int, decode: Any) -> None:
            self.encode, self.decode = nnx.Linear(12, width, rngs=nnx.Rngs(0)), decode

        def __call__(self, x: Any) -> Any:
            W = self.encode.kernel[...]
            return self.decode(jax.nn.relu(self.encode(x)), W, W.shape[1])

    def planned(decode: Any) -> Any:
        sizes: Any = {"base": {"width": 32}, "target": {"width": 128}, "strategy": sw.scaling.mup()}
        if framework == "torch":
            x = torch.ones(4, 12)
            return sw.torch.plan(lambda width: InTorch(width, decode), **sizes, inputs=x)
        return sw.jax.plan(
            lambda width: InJax(width, decode), **sizes, inputs=X, apply=lambda model, x: model(x)
        )  # fmt: skip

    found: dict[str, Any] = {}
    for name, (decode, _) in FACTORS.items():
        try:
            found[name] = {m.factor for m in planned(decode).table.multipliers}
        except Asked as asked:
            found[name] = str(asked).partition("its value is ")[2].partition(" ")[0].rstrip(".")
    wanted = {
        name: {1.0} if power == 1 else f"{4 ** (power - 1):g}"
        for name, (_, power) in FACTORS.items()
    }
    assert found == wanted


@pytest.mark.parametrize("build", [InEquinox, InFlax, Bare])
def test_a_layer_that_decodes_by_its_transpose_lacks_the_width_once(build: Any) -> None:
    def planned(**said: Any) -> Any:
        return sw.jax.plan(
            build, base={"width": 32}, target={"width": 128}, strategy=sw.scaling.mup(),
            apply=lambda model, x: model(x), inputs=X, **said,
        )  # fmt: skip

    with pytest.raises(
        Asked, match=r"also reads out with the weights of the (layer `encode\.|tensor `W)"
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
