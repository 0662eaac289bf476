"""Golden and agreement tests: arrays of no module, whose role their use tells in every framework alike."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
import torch
from flax import nnx
from torch import nn

import scalewise as sw
from grids import thorough
from scalewise.plan import Plan
from scalewise.plan._questions import Asked

SIDE, ROWS = 12, 5
X = np.random.default_rng(0).normal(size=(4, SIDE)).astype(np.float32)
# Whichever library works on them, their methods are the same.
Use = Callable[[Any, Any, Any], Any]


def gaps(h: Any, c: Any) -> Any:
    return ((h[:, None, :] - c) ** 2).sum(-1)


def expanded(h: Any, c: Any) -> Any:
    return (h**2).sum(-1)[:, None] - 2 * h @ c.T + (c * c).sum(-1)


def picked(h: Any, c: Any, distance: Any) -> Any:
    return h + (c[distance.argmin(-1)] - h)


# By use: role, the power by which the width multiplies its entries, what is asked, and whether a layer follows.
USES: dict[str, tuple[Use, str, float, set[str], bool]] = {
    "readout": (lambda h, c, np: h @ c.T, "output", -1, set(), False),
    "readout by a sum": (lambda h, c, np: (h[:, None, :] * c).sum(-1), "output", -1, set(), False),
    "readout of unit rows": (
        lambda h, c, np: h @ (c / (c**2).sum(-1)[:, None] ** 0.5).T, "output", -1, set(), False,
    ),
    "centres": (lambda h, c, np: gaps(h, c), "input", 0, {"distance"}, False),
    "centres at a mean": (
        lambda h, c, np: np.exp(-((h[:, None, :] - c) ** 2).mean(-1)), "input", 0, set(), False,
    ),
    "centres by products": (lambda h, c, np: expanded(h, c), "input", 0, {"distance"}, False),
    "centres by products over n": (
        lambda h, c, np: expanded(h, c) / h.shape[-1], "input", 0, set(), False,
    ),
    "codebook": (lambda h, c, np: picked(h, c, gaps(h, c)), "input", 0, set(), True),
    "codebook by products": (lambda h, c, np: picked(h, c, expanded(h, c)), "input", 0, set(), True),
    "rows added": (lambda h, c, np: h[:, None, :] + c, "input", 0, set(), True),
    "gains": (lambda h, c, np: h[:, None, :] * c, "vector", 0, set(), True),
}  # fmt: skip


class InEquinox(eqx.Module):
    first: eqx.nn.Linear
    rows: jax.Array
    last: eqx.nn.Linear | None
    use: Use = eqx.field(static=True)

    def __init__(self, width: int, use: Use, more: bool) -> None:
        a, b, c = jax.random.split(jax.random.key(1), 3)
        self.first = eqx.nn.Linear(SIDE, width, key=a)
        self.rows = jax.random.normal(b, (ROWS, width))
        self.last, self.use = eqx.nn.Linear(width, 3, key=c) if more else None, use

    def __call__(self, x: Any) -> Any:
        y = self.use(jnp.tanh(jax.vmap(self.first)(x)), self.rows, jnp)
        return y if self.last is None else jnp.vectorize(self.last, signature="(n)->(m)")(y)


class InFlax(nnx.Module):
    def __init__(self, width: int, use: Use, more: bool) -> None:
        draws = nnx.Rngs(0)
        self.first = nnx.Linear(SIDE, width, rngs=draws)
        self.rows = nnx.Param(jax.random.normal(draws.params(), (ROWS, width)))
        self.last, self.use = nnx.Linear(width, 3, rngs=draws) if more else None, use

    def __call__(self, x: Any) -> Any:
        y = self.use(jnp.tanh(self.first(x)), self.rows[...], jnp)
        return y if self.last is None else self.last(y)


class InTorch(nn.Module):
    def __init__(self, width: int, use: Use, more: bool) -> None:
        super().__init__()
        self.first, self.use = nn.Linear(SIDE, width), use
        self.rows = nn.Parameter(torch.randn(ROWS, width))
        self.last = nn.Linear(width, 3) if more else None

    def forward(self, x: Any) -> Any:
        y = self.use(torch.tanh(self.first(x)), self.rows, torch)
        return y if self.last is None else self.last(y)


def tree(width: int, use: Use, more: bool) -> Any:
    a, b, c = jax.random.split(jax.random.key(1), 3)
    drawn = {
        "first": jax.random.normal(a, (SIDE, width)),
        "rows": jax.random.normal(b, (ROWS, width)),
    }
    return drawn | ({"last": jax.random.normal(c, (width, 3))} if more else {})


def of_tree(use: Use) -> Callable[[Any, Any], Any]:
    def apply(w: Any, x: Any) -> Any:
        y = use(jnp.tanh(x @ w["first"]), w["rows"], jnp)
        return y @ w["last"] if "last" in w else y

    return apply


def answered(framework: str, name: str) -> tuple[Plan, dict[str, Any]]:
    """The plan with the answers that its questions propose, and those."""
    use, _, _, _, more = USES[name]
    build = {"tree": tree, "equinox": InEquinox, "flax": InFlax, "torch": InTorch}[framework]
    verb: Any = sw.torch.plan if framework == "torch" else sw.jax.plan
    apply = of_tree(use) if framework == "tree" else lambda model, x: model(x)
    called = {"inputs": torch.tensor(X)} if framework == "torch" else {"inputs": X, "apply": apply}

    def planned(**said: Any) -> Any:
        return verb(
            lambda width: build(width, use, more), base={"width": 32}, target={"width": 128},
            strategy=sw.scaling.mup(), optimizer="adam", **called, **said,
        )  # fmt: skip

    try:
        return planned().table, {}
    except Asked as asked:
        return planned(**asked.answers).table, dict(asked.answers)


@pytest.mark.parametrize("framework", ["tree", "torch", *thorough("equinox", "flax")])
def test_a_role_is_proposed_where_its_use_shows_it(framework: str) -> None:
    wrong = {}
    for name, (_, role, power, asked, _) in USES.items():
        table, answers = answered(framework, name)
        known = answers.get("roles", {}).get("rows", role)
        found = (
            table["rows"].role,
            4 ** float(table["rows"].rule.init.of_width),
            {*answers.get("multiplied", ())},
        )
        if (known, *found) != (role, role, pytest.approx(4.0**power), asked):
            wrong[name] = known, *found
        if framework == "torch" and "roles" in answers:
            wrong[name] = answers
    assert not wrong


class Centred(nn.Module):
    """Scores by distances to learnt points, their squares written out."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.first, self.second = nn.Linear(SIDE, width), nn.Linear(width, width)
        self.rows = nn.Parameter(torch.randn(ROWS, width) / 2)

    def forward(self, x: Any) -> Any:
        h = torch.tanh(self.second(torch.tanh(self.first(x))))
        return -4 * expanded(h, self.rows) / h.shape[-1]


@pytest.mark.parametrize("said", [{}, *thorough({"rows": "output"})])
def test_points_learn_as_inputs_do_and_not_as_readouts(said: dict[str, str]) -> None:
    x = torch.randn(32, SIDE, generator=torch.Generator().manual_seed(0))
    plan = sw.torch.plan(
        Centred, base={"width": 32}, target={"width": 128}, strategy=sw.scaling.mup(), optimizer="adam",
        inputs=x, roles=said,
    )  # fmt: skip
    check = plan.verify(
        x, lambda model, x: nn.functional.cross_entropy(model(x), x[:, :ROWS].argmax(-1)),
        widths=[32, 64, 128], seeds=3, progress=False,
    )  # fmt: skip
    assert check.ok is (not said), str(check)
    assert str(check.verdict) == ("trivial, stable" if said else "feature learning, stable")
