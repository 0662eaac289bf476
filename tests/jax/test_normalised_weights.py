"""Agreement tests: models on the sphere, whose code divides each matrix by the norms of its rows."""

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
from torch import nn

import scalewise as sw
from grids import thorough
from scalewise.plan._diagnosis import Cause
from scalewise.plan._questions import Asked

WORDS, LENGTH = 16, 4
DRAWS = np.random.default_rng(0)
TOKENS = DRAWS.integers(0, WORDS, (6, LENGTH))
TARGETS = DRAWS.integers(0, WORDS, (6, LENGTH))
# By name: its shape, and the axis along which its rows have length one.
MATRICES: dict[str, tuple[Callable[[int], tuple[int, int]], int]] = {
    "words": (lambda n: (WORDS, n), 1),
    "query": (lambda n: (n, n), 0),
    "key": (lambda n: (n, n), 0),
    "value": (lambda n: (n, n), 0),
    "up": (lambda n: (n, 2 * n), 0),
    "down": (lambda n: (2 * n, n), 1),
    "head": (lambda n: (n, WORDS), 0),
}
GAINS: dict[str, Callable[[int], int]] = {
    "attended": lambda n: n,
    "stretch": lambda n: 2 * n,
    "mixed": lambda n: n,
    "sharp": lambda n: WORDS,
}


def unit(x: Any, axis: int = -1) -> Any:
    length = (x * x).sum(axis) ** 0.5
    return x / (length[..., None] if axis in (-1, x.ndim - 1) else length)


def logits(w: dict[str, Any], tokens: Any, np: Any) -> Any:
    """Hidden states of length one, moved towards what each branch returns."""
    u = {name: unit(w[name], axis) for name, (_, axis) in MATRICES.items()}
    h = u["words"][tokens]
    n = h.shape[-1]

    def heads(x: Any) -> Any:
        return x.reshape(*x.shape[:2], n // 8, 8)

    q, k, v = heads(h @ u["query"]), heads(h @ u["key"]), heads(h @ u["value"])
    scores = np.softmax(np.einsum("bthd,bshd->bhts", unit(q), unit(k)) * 8**0.5, -1)
    branch = np.einsum("bhts,bshd->bthd", scores, v).reshape(h.shape)
    h = unit(h + w["attended"] * (unit(branch) - h) / 4)
    branch = np.tanh(h @ u["up"] * w["stretch"] * n**0.5) @ u["down"]
    h = unit(h + w["mixed"] * (unit(branch) - h) / 4)
    return h @ u["head"] * w["sharp"] * 8


class OfJax:
    einsum, tanh, softmax = jnp.einsum, jnp.tanh, jax.nn.softmax


def drawn(width: int, seed: int) -> dict[str, Any]:
    keys = jax.random.split(jax.random.key(seed), len(MATRICES))
    shapes = {name: shape(width) for name, (shape, _) in MATRICES.items()}
    drawn = {n: jax.random.normal(k, s) for k, (n, s) in zip(keys, shapes.items(), strict=True)}
    return drawn | {name: jnp.ones(size(width)) for name, size in GAINS.items()}


class InFlax(nnx.Module):
    def __init__(self, width: int, seed: int = 0) -> None:
        for name, value in drawn(width, seed).items():
            setattr(self, name, nnx.Param(value))

    def __call__(self, tokens: Any) -> Any:
        return logits({n: getattr(self, n)[...] for n in (*MATRICES, *GAINS)}, tokens, OfJax)


class InEquinox(eqx.Module):
    weights: dict[str, jax.Array]

    def __init__(self, width: int, seed: int = 0) -> None:
        self.weights = drawn(width, seed)

    def __call__(self, tokens: Any) -> Any:
        return logits(self.weights, tokens, OfJax)


class InTorch(nn.Module):
    def __init__(self, width: int) -> None:
        super().__init__()
        for name, (shape, _) in MATRICES.items():
            if name != "head":
                setattr(self, name, nn.Parameter(torch.randn(shape(width))))
        self.head = nn.Linear(width, WORDS, bias=False)
        for name, size in GAINS.items():
            setattr(self, name, nn.Parameter(torch.ones(size(width))))

    def forward(self, tokens: Any) -> Any:
        w: dict[str, Any] = dict(self.named_parameters())
        return logits(w | {"head": self.head.weight.T}, tokens, torch)


def planned(build: Any) -> Any:
    if build is InTorch:
        # Everything is read from the program, so there is nothing to ask.
        return sw.torch.plan(
            build, base={"width": 32}, target={"width": 128}, strategy=sw.scaling.mup(), optimizer="adam",
            inputs=torch.tensor(TOKENS),
        )  # fmt: skip

    def of_jax(**said: Any) -> Any:
        return sw.jax.plan(
            build, base={"width": 32}, target={"width": 128}, strategy=sw.scaling.mup(), optimizer="adam",
            apply=lambda model, tokens: model(tokens), inputs=jnp.asarray(TOKENS), **said,
        )  # fmt: skip

    with pytest.raises(Asked) as asked:
        of_jax()
    assert asked.value.answers.keys() == {"roles"}
    return of_jax(**asked.value.answers)


def verified(build: Any, plan: Any, **options: Any) -> Any:
    def of_torch(model: Any, tokens: Any) -> Any:
        return nn.functional.cross_entropy(
            model(tokens).flatten(0, 1), torch.tensor(TARGETS).flatten()
        )

    def of_jax(model: Any, tokens: Any) -> Any:
        found = optax.softmax_cross_entropy_with_integer_labels(model(tokens), jnp.asarray(TARGETS))
        return found.mean()

    batch, loss = (
        (torch.tensor(TOKENS), of_torch) if build is InTorch else (jnp.asarray(TOKENS), of_jax)
    )
    return plan.verify(batch, loss, widths=[32, 64, 128], seeds=3, progress=False, **options)


@pytest.mark.parametrize("build", [InFlax, InTorch, *thorough(InEquinox)])
def test_what_its_own_norm_says_the_size_of_is_blamed_on_nobody(build: Any) -> None:
    plan = planned(build)
    before = "weights." if build is InEquinox else ""
    stored = {n: before + n for n in MATRICES} | (
        {"head": "head.weight"} if build is InTorch else {}
    )
    roles = {n: str(plan.table[stored[n]].role) for n in MATRICES}
    assert roles == dict.fromkeys(MATRICES, "hidden") | {"words": "input", "head": "output"}
    for name, step in (("words", 0), ("up", -0.5), ("down", -0.5), ("head", 0)):
        # Only how far a step turns a tensor matters, not how long it is.
        factors = plan.factors(stored[name])
        assert factors.lr / factors.init == pytest.approx(4**step)
    check = verified(build, plan)
    assert check.ok, str(check)
    assert str(check.verdict) == "feature learning, stable"


@pytest.mark.parametrize(
    ("name", "init", "rate"),
    [("query", 0, 0.5), *thorough(("down", 0.5, 0), ("head.weight", 0, 0.5), ("mixed", 0, -0.5))],
)
def test_a_wrong_setting_is_still_named(name: str, init: float, rate: float) -> None:
    def setup(plan: Any, model: Any) -> Any:
        factor = plan.table.target["width"] / 32
        plan.init_(model)
        own = model.get_parameter(name)
        own.data *= factor**init
        groups = []
        for group in plan.param_groups(model, lr=1e-4):
            rest = [p for p in group["params"] if p is not own]
            groups += [{**group, "params": rest}] if rest else []
            if len(rest) < len(group["params"]):
                groups.append({**group, "params": [own], "lr": group["lr"] * factor**rate})
        return torch.optim.Adam(groups)

    check = verified(InTorch, planned(InTorch), setup=setup)
    cause = Cause.INITIALISATION if init else Cause.LEARNING_RATE
    assert [(c.tensor, c.cause) for c in check.culprits] == [(name, cause)]
