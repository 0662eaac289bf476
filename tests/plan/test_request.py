"""Property tests: a request means the same in every framework, and all that a plan needs is asked at once."""

import ast
from fractions import Fraction
from typing import Any

import jax.numpy as jnp
import numpy as np
import pytest
import torch
from flax import nnx

import scalewise as sw
from jax_models import drawn
from scalewise.plan import PlanError
from scalewise.scaling import ABC

SIZES = {"base": {"width": 8, "depth": 2}, "target": {"width": 32, "depth": 2}}


class Torch(torch.nn.Module):
    """Two layers."""

    def __init__(self, width: int, depth: int = 2):
        super().__init__()
        self.a, self.b = torch.nn.Linear(3, width), torch.nn.Linear(width, 2)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.b(self.a(x).relu())


class Flax(nnx.Module):
    """The same."""

    def __init__(self, width: int, depth: int = 2):
        r = nnx.Rngs(0)
        self.a = nnx.Linear(3, width, rngs=r, kernel_init=drawn)
        self.b = nnx.Linear(width, 2, rngs=r, kernel_init=drawn)

    def __call__(self, x: Any) -> Any:
        return self.b(nnx.relu(self.a(x)))


FRAMEWORKS = {"torch": (sw.torch.plan, Torch, "build"), "jax": (sw.jax.plan, Flax, "init_fn")}
NAN, INF = float("nan"), float("inf")
# What is given, and what the sentence says that every framework answers with.
WRONG: list[tuple[dict[str, Any], str]] = [
    ({"build": "mlp"}, "`BUILD` must be a function that returns a new model"),
    *(({k: v}, f"`{k}` must be a dictionary") for k in ("base", "target") for v in (16, [64], None, {8: 8})),
    *(({"roles": v}, "`roles` must be a dictionary") for v in ("output", ["output"], {0: "output"})),
    *(({"roles": {"b*": v}}, "`roles` must be") for v in ("tail", None, ("output", "0"), ("hidden",))),
    *(({"strategy": v}, "`strategy` must be a strategy") for v in (None, "abc", "meta", {"p": 1}, sw.scaling.meta)),
    *(({"optimizer": v}, "`optimizer` must be ") for v in ("newton", None, 3, ["sgd"])),
    *(({"residual": v}, "`residual` must be a finite number") for v in (None, "abc", NAN, INF, True, [1], 1j)),
    *(({"multiplied": v}, "`multiplied` must be a list of names") for v in ("b", 3, None, [3])),
    *(({"branch_outputs": v}, "`branch_outputs` must be a list of names") for v in ("b", 3, None, [3])),
    *(({k: v}, f"`{k}` must be the name of an argument") for k in ("width", "depth") for v in (64, None)),
    *(
        ({"target": {"width": v, "depth": 2}}, "`target['width']` must be a positive finite number")
        for v in (0, -4, NAN, INF, True, "64", None)
    ),
    ({"target": {"width": 8, "depth": -1}}, "`target['depth']` must be a positive finite number"),
    ({"target": {"width": 8}}, "`target` has no 'depth'"),
    ({"base": {"width": 8, "depth": 2, "heads": 2}}, "'heads' differs between `base` and `target` (2 and absent)"),
]  # fmt: skip
# What is given in several ways, and how the record holds it.
MEANT: list[tuple[str, list[Any], Any]] = [
    ("residual", [0.1, "0.1", "1/10", Fraction(1, 10), np.float64(0.1)], Fraction(1, 10)),
    ("residual", [1, 1.0, "1", np.int64(1)], Fraction(1)),
    (
        "strategy",
        [
            sw.scaling.mup(),
            sw.scaling.mup().to_abc(),
            ABC((-0.5, 0, "1/2"), ("1/2",) * 3, 0).to_strategy(),
        ],
        sw.scaling.mup(),
    ),
    (
        "multiplied",
        [["residual"], ("residual",), {"residual"}, {"residual": 1}.keys()],
        ("residual",),
    ),
    ("roles", [None, {}], {}),
    (
        "target",
        [
            {"width": n, "depth": 2}
            for n in (32, np.int64(32), np.array(32), torch.tensor(32), jnp.array(32))
        ],
        {"width": 32, "depth": 2},
    ),
]


def test_arguments_are_refused_in_the_same_words() -> None:
    problems = []
    for wrong, said in WRONG:
        told = []
        for framework, (plan, build, called) in FRAMEWORKS.items():
            settings = {"build": build, "strategy": sw.scaling.mup()} | SIZES | wrong
            try:
                plan(settings.pop("build"), **settings)
                problems.append(f"{framework} takes {wrong}")
            except PlanError as error:
                told.append(str(error).replace(f"`{called}`", "`BUILD`"))
        if len(told) == 2 and (told[0] != told[1] or not told[0].startswith(said)):
            problems.append(f"{wrong}: {told}")
    assert not problems


def test_arguments_mean_the_same() -> None:
    problems = []
    for name, ways, meant in MEANT:
        for way in ways:
            given = {"strategy": sw.scaling.mup(), "residual": 1} | SIZES | {name: way}
            one, two = (plan(build, **given) for plan, build, _ in FRAMEWORKS.values())
            if getattr(two.request, name) != meant:
                problems.append(f"{name}={way!r} is {getattr(two.request, name)!r}")
            tables = [one.table, two.table]
            pairs = {
                "a.weight": "a.kernel",
                "b.weight": "b.kernel",
                "a.bias": "a.bias",
                "b.bias": "b.bias",
            }
            if any(tables[0].factors(t) != tables[1].factors(j) for t, j in pairs.items()):
                problems.append(f"{name}={way!r} gives other factors")
            if (
                tables[0].multipliers != tables[1].multipliers
                or tables[0].residual != tables[1].residual
            ):
                problems.append(f"{name}={way!r} gives other multipliers")
    assert not problems


def answers(text: str) -> dict[str, Any]:
    """The arguments that a list of questions ends with."""
    call = text.rpartition("need ")[2].partition(": check")[0]
    return {
        k.arg: ast.literal_eval(k.value) for k in ast.parse(f"f({call})", mode="eval").body.keywords
    }


class Asks(torch.nn.Module):
    """Growing heads, a bottleneck, a bare tensor for positions, a tied readout."""

    def __init__(self, width: int):
        super().__init__()
        self.embed = torch.nn.Embedding(11, width)
        self.place = torch.nn.Parameter(0.1 * torch.randn(4, width))
        self.scale = torch.nn.Parameter(torch.ones(width))
        self.attn = torch.nn.MultiheadAttention(width, 2, batch_first=True)
        self.down, self.up = torch.nn.Linear(width, 3), torch.nn.Linear(3, width)
        self.head = torch.nn.Linear(width, 5)

    def forward(self, words: torch.Tensor) -> torch.Tensor:
        x = self.embed(words) + self.place
        x = x + self.attn(x, x, x)[0] * self.scale
        return self.head(x + self.up(self.down(x).relu()))


class AsksFlax(nnx.Module):
    """The same."""

    def __init__(self, width: int):
        r = nnx.Rngs(0)
        own: dict[str, Any] = {"rngs": r, "kernel_init": drawn}
        self.embed = nnx.Embed(11, width, rngs=r, embedding_init=drawn)
        self.place, self.scale = nnx.Param(drawn(None, (4, width))), nnx.Param(jnp.ones(width))
        self.attn = nnx.MultiHeadAttention(2, width, decode=False, **own)
        self.down, self.up = nnx.Linear(width, 3, **own), nnx.Linear(3, width, **own)
        self.head = nnx.Linear(width, 5, **own)

    def __call__(self, words: Any) -> Any:
        x = self.embed(words) + self.place
        x = x + self.attn(x) * self.scale
        return self.head(x + self.up(nnx.relu(self.down(x))))


def test_all_questions_come_at_once() -> None:
    sizes = {"base": {"width": 8}, "target": {"width": 32}, "strategy": sw.scaling.mup()}
    with pytest.raises(PlanError, match="The plan needs answers to 2 questions") as asked:
        sw.jax.plan(AsksFlax, **sizes)
    text = str(asked.value)
    numbered = [line[:3] for line in text.splitlines() if line[:1].isdigit()]
    assert numbered == ["1. ", "2. "]
    for part in ("`place`: 4 x n", "`scale`: n", "The heads of `attn` grow"):
        assert part in text, part
    said = answers(text)
    assert said["roles"] == {"place": "input", "scale": "vector"}
    assert said["multiplied"] == ["attention"]
    # What it proposes is a plan; of what is returned the forward pass tells the rest.
    found = sw.jax.plan(AsksFlax, **sizes, **said).table
    assert found.multiplier("attention") == 1 / 2
    roles = {t.name.partition(".")[0]: str(t.role) for t in found.tensors}
    assert (roles["down"], roles["head"]) == ("bottleneck", "output")


def test_what_a_forward_pass_shows_is_not_asked() -> None:
    """Of PyTorch's bare tensors and of what the model returns; the heads are for the user to say."""
    sizes = {"base": {"width": 8}, "target": {"width": 32}, "strategy": sw.scaling.mup()}
    with pytest.raises(PlanError, match="The heads of `attn` grow") as asked:
        sw.torch.plan(Asks, **sizes)
    assert not any(name in str(asked.value) for name in ("`place`", "`scale`", "`down."))
    found = sw.torch.plan(Asks, **sizes, multiplied=["attention"])
    assert found.table.multiplier("attention") == 1 / 2
    roles = {t.name.partition(".weight")[0]: str(t.role) for t in found.table.tensors}
    seen = {name: roles[name] for name in ("place", "scale", "down", "head")}
    assert seen == {"place": "input", "scale": "vector", "down": "bottleneck", "head": "output"}


def test_an_embedding_that_may_read_out_is_asked_with_the_rest() -> None:
    class Tied(AsksFlax):
        def __init__(self, width: int):
            super().__init__(width)
            self.head = None

        def __call__(self, words: Any) -> Any:
            x = self.embed(words) + self.place
            return self.embed.attend(x + self.attn(x) * self.scale)

    sizes = {"base": {"width": 8}, "target": {"width": 32}, "strategy": sw.scaling.mup()}
    with pytest.raises(PlanError, match=r"questions") as asked:
        sw.jax.plan(Tied, **sizes, roles={"down.kernel": "bottleneck"})
    text = str(asked.value)
    assert "embedding `embed.embedding` and no readout" in text
    assert answers(text)["readouts"] == ["embed.embedding"]
