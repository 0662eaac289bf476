"""Golden and agreement tests: keys and values through a latent of fixed size that a norm divides by its size."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional

import scalewise as sw
from grids import thorough
from scalewise.plan._check import Check
from scalewise.torch import TorchPlan
from two_widths import Setup, as_planned, trained

WORDS, BASE, HEAD = 20, 64, 16
TOKENS = torch.randint(WORDS, (4, 9), generator=torch.Generator().manual_seed(0))
NUMBERS = torch.randn(4, 8, generator=torch.Generator().manual_seed(0))


class Latent(nn.Module):
    """Attention whose keys and values, and queries too if wanted, are made from a normalised latent."""

    def __init__(self, width: int, latent: int, queries: bool) -> None:
        super().__init__()
        self.q: nn.Module = nn.Linear(width, width, bias=False)
        if queries:
            self.q = self._through(width, latent, width)
        self.kv = self._through(width, latent, 2 * width)
        self.out = nn.Linear(width, width, bias=False)

    @staticmethod
    def _through(width: int, latent: int, out: int) -> nn.Sequential:
        down, up = nn.Linear(width, latent, bias=False), nn.Linear(latent, out, bias=False)
        return nn.Sequential(down, nn.RMSNorm(latent), up)

    def forward(self, x: Tensor) -> Tensor:
        every = self.q(x), *self.kv(x).chunk(2, -1)
        q, k, v = (t.unflatten(-1, (-1, HEAD)).transpose(1, 2) for t in every)
        read = functional.scaled_dot_product_attention(q, k, v, is_causal=True)
        return self.out(read.transpose(1, 2).flatten(2))


class Reader(nn.Module):
    """One block of it between an embedding and a readout."""

    def __init__(self, width: int, latent: int, queries: bool) -> None:
        super().__init__()
        self.embed, self.head = nn.Embedding(WORDS, width), nn.Linear(width, WORDS, bias=False)
        self.before, self.middle, self.after = (nn.RMSNorm(width) for _ in range(3))
        self.attend = Latent(width, latent, queries)
        self.mlp = nn.Sequential(
            nn.Linear(width, 2 * width), nn.GELU(), nn.Linear(2 * width, width)
        )

    def forward(self, tokens: Tensor) -> Tensor:
        x = self.embed(tokens)
        x = x + self.attend(self.before(x))
        x = x + self.mlp(self.middle(x))
        return self.head(self.after(x))


def planned(
    optimizer: str = "adamw", latent: int = 8, *, queries: bool = False, **options: Any
) -> TorchPlan:
    return sw.torch.plan(
        lambda width: Reader(width, latent, queries), base={"width": BASE}, target={"width": 4 * BASE},
        strategy=sw.scaling.mup(), optimizer=optimizer, inputs=TOKENS[:, :-1], **options,
    )  # fmt: skip


def predicted(model: Any, tokens: Tensor) -> Tensor:
    logits = model(tokens[:, :-1])
    return functional.cross_entropy(logits.flatten(0, 1), tokens[:, 1:].flatten())


def verified(plan: TorchPlan, **options: Any) -> Check:
    return plan.verify(
        TOKENS, predicted, widths=[64, 128, 256, 512], seeds=3, progress=False, **options
    )


@pytest.mark.parametrize(
    ("optimizer", "latent", "queries"),
    [
        ("adamw", 8, False),
        *thorough(("adamw", 4, True), ("adamw", 16, False), ("muon", 8, False), ("sgd", 8, False)),
    ],
)
def test_latent_attention_is_stable_and_learns_features(
    optimizer: str, latent: int, queries: bool
) -> None:
    check = verified(planned(optimizer, latent, queries=queries))
    assert (check.ok, str(check.verdict.regime)) == (True, "feature learning")


@pytest.mark.thorough("test_latent_attention_is_stable_and_learns_features")
@pytest.mark.parametrize("optimizer", ["adamw"])
def test_drawn_as_a_readout_the_latent_turns_faster_in_wide_networks(optimizer: str) -> None:
    def setup(plan: Any, model: Any) -> torch.optim.Optimizer:
        plan.init_(model)
        down = model.attend.kv[0].weight
        with torch.no_grad():
            down *= (down.shape[1] / BASE) ** -0.5
        return torch.optim.AdamW(plan.param_groups(model, lr=1e-4, weight_decay=0.0))

    check = verified(planned(optimizer), setup=setup)
    assert not check.verdict.stable
    grown = next(
        r for r in check.rows if r.tensor == "attend.kv.1.weight" and r.quantity == "change"
    )
    assert grown.fit.slope == pytest.approx(0.5, abs=3 * grown.fit.sem + 0.0625)


LAWS = ["adamw", "sgd", "muon"]


@pytest.mark.parametrize("optimizer", LAWS)
def test_a_latent_that_is_given_as_a_rank_is_one_that_grows_by_itself(optimizer: str) -> None:
    """Along the width, and then along the rank, is along both at once."""
    options: Any = {
        "strategy": "mup", "optimizer": optimizer, "inputs": TOKENS[:, :-1],
    }  # fmt: skip
    given = sw.torch.plan(
        lambda width, rank: Reader(width, rank, True), base={"width": BASE, "rank": 16},
        target={"width": 4 * BASE, "rank": 64}, **options,
    )  # fmt: skip
    grown = sw.torch.plan(
        lambda width: Reader(width, width // 4, True), base={"width": BASE}, target={"width": 4 * BASE},
        **options,
    )  # fmt: skip
    up = given["attend.kv.2.weight"]
    assert (str(up.role), given.factors(up.name).init) == ("input", 1 / 2)
    one, two = (
        {t.name: (p.factors(t.name).init, p.factors(t.name).lr, p.factors(t.name).eps) for t in p.table.tensors}
        for p in (given, grown)
    )  # fmt: skip
    assert one == two


def test_a_wide_latent_is_read_from_a_start_as_of_a_hidden_matrix() -> None:
    """A readout's start leaves less of it at first, and the loss of a few steps grows with the rank."""
    base, late = {"width": 32, "rank": 8}, {}
    plan = sw.torch.plan(
        lambda width, rank: Reader(width, rank, False), base=base, target=base, strategy="mup",
        inputs=TOKENS[:, :-1],
    )  # fmt: skip

    def setup(power: float) -> Setup:
        def started(plan: TorchPlan, model: nn.Module) -> torch.optim.Optimizer:
            optimizer = as_planned(1e-2)(plan, model)
            up: Any = model.get_parameter("attend.kv.2.weight")
            with torch.no_grad():
                up *= (up.shape[1] / 8) ** power
            return optimizer

        return started

    for name, power in (("planned", 0.0), ("as a readout", -0.5)):
        late[name] = trained(
            plan, {"width": 32, "rank": 64}, TOKENS, predicted, setup(power), steps=30, seeds=4
        )
    at_base = trained(plan, base, TOKENS, predicted, setup(0.0), steps=30, seeds=4)
    one, other = late["planned"], late["as a readout"]
    assert one.loss < at_base.loss + 2 * (one.error + at_base.error)
    assert other.loss - one.loss > 2 * (other.error + one.error)


class Narrow(nn.Module):
    """A bottleneck whose few units go through some function of them."""

    def __init__(self, width: int, middle: Callable[[Tensor], Tensor], bias: bool) -> None:
        super().__init__()
        self.first, self.head = nn.Linear(8, width), nn.Linear(width, 3)
        self.down, self.up = nn.Linear(width, 4, bias=bias), nn.Linear(4, width)
        self.norm, self.middle = nn.LayerNorm(4), middle

    def forward(self, x: Tensor) -> Tensor:
        x = self.first(x).relu()
        found = self.down(x)
        return self.head((x + self.up(self.middle(found) + 0 * self.norm.bias)).relu())


def rms(x: Tensor) -> Tensor:
    return x * (x.pow(2).mean(-1, keepdim=True) + 1e-6).rsqrt()


def layers(x: Tensor) -> Tensor:
    x = x - x.mean(-1, keepdim=True)
    return x / ((x * x).sum(-1, keepdim=True) / x.shape[-1] + 1e-6).sqrt()


# Whether the size of what the bottleneck writes is divided out.
MIDDLES: dict[str, tuple[Callable[[Tensor], Tensor], bool]] = {
    "layer_norm": (lambda x: functional.layer_norm(x, (4,)), True),
    "rms_norm": (lambda x: functional.rms_norm(x, (4,)), True),
    "normalize": (lambda x: functional.normalize(x, dim=-1), True),
    "by hand": (rms, True),
    "layers by hand": (layers, True),
    "halves": (lambda x: torch.cat([rms(x[..., :2]), x[..., 2:]], -1), True),
    "plain": (lambda x: x, False),
    "bent": (torch.tanh, False),
    "gated": (lambda x: x * x.sigmoid(), False),
    "over its square": (lambda x: x / (1 + x.pow(2).mean(-1, keepdim=True)), False),
    "bent first": (lambda x: rms(x.tanh()), False),
    "beside another": (lambda x: functional.rms_norm(x + x.tanh(), (4,)), False),
}


@pytest.mark.parametrize("bias", [False, True])
def test_what_a_norm_divides_starts_as_a_hidden_matrix(bias: bool) -> None:
    found = {}
    for name, (middle, _) in MIDDLES.items():
        plan = sw.torch.plan(
            lambda width, m=middle: Narrow(width, m, bias), base={"width": 16}, target={"width": 64},
            strategy=sw.scaling.mup(), inputs=NUMBERS,
        )  # fmt: skip
        row = plan.table["down.weight"]
        powers = plan.factors("down.weight")
        assert (str(row.role), powers.lr) == ("bottleneck", 1 / 4)
        found[name] = (row.normed, powers.init)
    expected = {
        name: (normed, pytest.approx(1 / 2 if normed else 1 / 4))
        for name, (_, normed) in MIDDLES.items()
    }
    assert found == expected
