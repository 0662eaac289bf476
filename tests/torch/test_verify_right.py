"""Agreement: right plans of models that are not perceptrons pass, whatever the seed; wrong ones among them fail."""

from functools import cache
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

import scalewise as sw
from grids import thorough
from scalewise.plan._check import Check
from scalewise.plan._diagnosis import Cause
from scalewise.plan._measurement import Quantity
from scalewise.plan._run import Run
from scalewise.torch import TorchPlan
from torch_models import mlp

F = nn.functional
GENERATOR = torch.Generator().manual_seed(0)
TOKENS = torch.randint(4, 30, (2, 8), generator=GENERATOR)
WORDS = TOKENS, torch.randint(4, 30, (2, 8), generator=GENERATOR)
IMAGES = torch.randn(4, 3, 8, 8, generator=GENERATOR)
POINTS = torch.randn(16, 8, generator=GENERATOR), torch.randint(10, (16,), generator=GENERATOR)
QUIET: dict[str, Any] = {"num_hidden_layers": 1, "vocab_size": 30, "max_position_embeddings": 8}


def bert(width: int) -> nn.Module:
    """With the head of masked words, whose bias stands apart from its tied readout."""
    from transformers import BertConfig, BertForMaskedLM

    return BertForMaskedLM(
        BertConfig(
            hidden_size=width, num_attention_heads=width // 16, intermediate_size=2 * width,
            hidden_dropout_prob=0.0, attention_probs_dropout_prob=0.0, **QUIET,
        )
    )  # fmt: skip


def grouped(width: int) -> nn.Module:
    """Two heads of keys and values for any number of heads of queries."""
    from transformers import LlamaConfig, LlamaForCausalLM

    config = LlamaConfig(
        hidden_size=width, num_attention_heads=width // 16, num_key_value_heads=2, head_dim=16,
        intermediate_size=64 * -(-8 * width // (3 * 64)), initializer_range=0.16 / width**0.5,
        **QUIET,
    )  # fmt: skip
    return LlamaForCausalLM(config)


def vit(width: int) -> nn.Module:
    from transformers import ViTConfig, ViTForImageClassification

    config = ViTConfig(
        hidden_size=width, num_hidden_layers=2, num_attention_heads=width // 16,
        intermediate_size=2 * width, image_size=8, patch_size=4, num_labels=10,
        hidden_dropout_prob=0.0, attention_probs_dropout_prob=0.0,
    )  # fmt: skip
    return ViTForImageClassification(config)


class UNet(nn.Module):
    """More pixels than channels."""

    def __init__(self, width: int):
        super().__init__()
        self.down = nn.Conv2d(3, width, 3, padding=1)
        self.inner = nn.Conv2d(width, 2 * width, 3, padding=1, stride=2)
        self.norm = nn.GroupNorm(4, 2 * width)
        self.up = nn.ConvTranspose2d(2 * width, width, 2, stride=2)
        self.out = nn.Conv2d(2 * width, 3, 1)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        down = F.silu(self.down(x))
        return self.out(torch.cat([down, self.up(F.silu(self.norm(self.inner(down))))], 1))


class Pairs(nn.Module):
    """A fan-in that grows like the square of the width."""

    def __init__(self, width: int):
        super().__init__()
        self.one, self.two = nn.Linear(8, width), nn.Linear(8, width)
        self.pair = nn.Bilinear(width, width, width)
        nn.init.normal_(self.pair.weight, std=1 / width)
        self.head = nn.Linear(width, 10)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.head(torch.tanh(self.pair(self.one(x).tanh(), self.two(x).tanh())))


class Adapted(nn.Module):
    """A frozen layer beside a path of low rank that starts at zero."""

    def __init__(self, width: int):
        super().__init__()
        self.frozen = nn.Linear(width, width)
        self.down = nn.Linear(width, 4, bias=False)
        self.up = nn.Linear(4, width, bias=False)
        nn.init.zeros_(self.up.weight)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.frozen(x) + self.up(self.down(x))


def low_rank(width: int) -> nn.Module:
    model = nn.Sequential(
        nn.Linear(8, width), nn.Tanh(), Adapted(width), nn.Tanh(), nn.Linear(width, 10)
    )
    for name, p in model.named_parameters():
        p.requires_grad_("down" in name or "up" in name)
    return model


class Complex(nn.Module):
    def __init__(self, width: int):
        super().__init__()
        self.one = nn.Linear(8, width, dtype=torch.complex64)
        self.two = nn.Linear(width, width, dtype=torch.complex64)
        self.head = nn.Linear(width, 10)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.head(self.two(torch.tanh(self.one(x.to(torch.complex64)))).abs())


class Bare(nn.Module):
    """Tensors that no module shows, one of them empty and one a number."""

    def __init__(self, width: int):
        super().__init__()
        self.sides = nn.ParameterList([torch.randn(width, 8), torch.randn(10, width) / width**0.5])
        self.empty, self.gain = nn.Parameter(torch.zeros(0, width)), nn.Parameter(torch.tensor(1.0))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.gain * torch.tanh(x @ self.sides[0].T) @ self.sides[1].T


def narrowed(width: int) -> nn.Module:
    """Tensors of fixed size after the readout, a norm among them, as in heads of masked words."""
    after = (nn.LayerNorm(16), nn.Tanh(), nn.Linear(16, 10))
    return nn.Sequential(
        nn.Linear(8, width), nn.Tanh(), nn.Linear(width, width), nn.Tanh(), nn.Linear(width, 16), *after
    )  # fmt: skip


class Stream(nn.Module):
    """A stream of fixed size with wide branches, as that of a ResNet that grows in its bottlenecks."""

    def __init__(self, width: int):
        super().__init__()
        self.ups = nn.ModuleList(nn.Linear(8, width) for _ in range(2))
        self.downs = nn.ModuleList(nn.Linear(width, 8) for _ in range(2))
        self.last = nn.Linear(8, 10)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        for up, down in zip(self.ups, self.downs, strict=True):
            x = x + down(up(x).tanh())
        return self.last(x)


class LayerScale(nn.Module):
    """Branches that begin small, by gains of 1e-3."""

    def __init__(self, width: int):
        super().__init__()
        self.first, self.last = nn.Linear(8, width), nn.Linear(width, 10)
        self.norm, self.branch = nn.LayerNorm(width), nn.Linear(width, width)
        self.scale = nn.Parameter(torch.full((width,), 1e-3))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = self.first(x)
        return self.last(x + self.scale * self.branch(self.norm(x)).tanh())


def labelled(model: nn.Module, batch: Any) -> torch.Tensor:
    return F.cross_entropy(model(batch[0]), batch[1])


def own(model: nn.Module, batch: Any) -> torch.Tensor:
    return model(batch[0], labels=batch[1]).loss


def squares(model: nn.Module, batch: Any) -> torch.Tensor:
    return F.mse_loss(model(batch), batch.flip(0))


FEW, SMALL = [32, 64, 128], [16, 32, 64]
KEYS = {"*.k_proj.weight": "bottleneck", "*.v_proj.weight": "bottleneck", "lm_head.*": "output"}
PATCHES = {"*cls_token": "input", "*position_embeddings": "input"}
LOW = {"2.down.weight": "bottleneck", "4.weight": "output"}
CASES: dict[str, tuple[Any, Any, Any, list[int], dict[str, Any]]] = {
    "BERT": (bert, WORDS, own, FEW, {}),
    "grouped queries": (grouped, WORDS, own, FEW, {"roles": KEYS}),
    "vision transformer": (vit, (IMAGES, torch.arange(4)), own, SMALL, {"roles": PATCHES}),
    "U-Net": (UNet, IMAGES, squares, SMALL, {}),
    "pairs": (Pairs, POINTS, labelled, SMALL, {"roles": {"pair.weight": ("hidden", (1, 2))}}),
    "adapters": (low_rank, POINTS, labelled, FEW, {"roles": LOW}),
    "complex": (Complex, POINTS, labelled, FEW, {}),
    "bare": (Bare, POINTS, labelled, FEW, {"roles": {"sides.0": "input", "sides.1": "output"}}),
    "bfloat16": (
        lambda width: mlp(width).bfloat16(), (POINTS[0].bfloat16(), POINTS[1]), labelled, FEW, {}
    ),
    "float16": (lambda width: mlp(width).half(), (POINTS[0].half(), POINTS[1]), labelled, FEW, {}),
    "narrowed": (narrowed, POINTS, labelled, FEW, {}),
    "stream": (Stream, POINTS, labelled, FEW, {}),
    "layer scale": (LayerScale, POINTS, labelled, FEW, {}),
    "data parallel": (lambda width: nn.DataParallel(mlp(width)), POINTS, labelled, FEW, {}),
}  # fmt: skip


@cache
def planned(name: str, optimizer: str, strategy: Any = None) -> TorchPlan:
    build, _, _, widths, options = CASES[name]
    return sw.torch.plan(
        build, base={"width": widths[0]}, target={"width": widths[-1]}, optimizer=optimizer,
        strategy=strategy or sw.scaling.mup(), **options,
    )  # fmt: skip


def verified(name: str, plan: TorchPlan, **options: Any) -> Check:
    _, batch, loss, widths, _ = CASES[name]
    return plan.verify(batch, loss, widths=widths, progress=False, **options)


# Of the others one mistake is named below, and nothing else.
RIGHT = ["vision transformer", "complex", "bare", "bfloat16", "float16", "data parallel"]
OTHERS = [name for name in CASES if name not in RIGHT]


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize(
    ("names", "draw", "optimizer"),
    [(RIGHT, 1, "adamw"), *thorough((OTHERS, 1, "adamw"), (list(CASES), 0, "sgd"))],
    ids=["some", "others", "all"],
)
def test_right_plans_pass_whatever_the_seed(
    names: list[str], draw: int, optimizer: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    network, false = Run.network, []
    monkeypatch.setattr(
        Run, "network", lambda self, i, seed, d=draw: network(self, i, seed + 100 * d)
    )
    for name in names:
        if (name, optimizer) == ("narrowed", "sgd"):
            # A norm divides the size of the readout out, and steps that follow gradients grow as it does.
            continue
        c = verified(name, planned(name, optimizer), seeds=3)
        if not c.ok or str(c.verdict) in (
            "unstable",
            "trivial, stable",
            "kernel regime, stable",
        ):
            false.append((name, optimizer, str(c.verdict), [str(k) for k in c.culprits]))
    assert false == []


MISTAKES = [
    ("BERT", "bert.encoder.layer.0.output.dense.weight", 0.5, 0.0),
    ("BERT", "bert.encoder.layer.0.attention.self.value.weight", 0.0, 0.5),
    ("grouped queries", "model.layers.0.self_attn.k_proj.weight", 0.5, 0.0),
    ("grouped queries", "model.layers.0.mlp.down_proj.weight", 0.0, -0.5),
    ("vision transformer", "vit.layers.1.mlp.fc1.weight", -0.5, 0.0),
    ("vision transformer", "classifier.weight", 0.5, 0.0),
    ("U-Net", "inner.weight", 0.0, 0.5),
    ("U-Net", "out.weight", 0.5, 0.0),
    ("pairs", "pair.weight", 0.5, 0.0),
    ("pairs", "pair.weight", 0.0, 1.0),
    ("adapters", "2.down.weight", 0.5, 0.0),
    ("complex", "two.weight", 0.0, -0.5),
    ("bare", "sides.1", 0.5, 0.0),
    ("narrowed", "4.weight", 0.5, 0.0),
    ("narrowed", "2.weight", 0.0, 0.5),
    ("stream", "downs.0.weight", 0.5, 0.0),
    ("stream", "ups.1.weight", 0.0, 0.5),
    ("layer scale", "scale", 0.0, 0.5),
    ("layer scale", "branch.weight", 0.5, 0.0),
    ("bfloat16", "2.weight", 0.5, 0.0),
    ("float16", "0.weight", 0.0, 0.5),
]


# A mistake in each of seven models; the other mistakes come with the thorough tests.
SOME = [m for k, m in enumerate(MISTAKES) if k in (1, 6, 9, 10, 13, 15, 18)]
MORE = [m for m in MISTAKES if m not in SOME]


def spoiled(tensor: str, init: float, rate: float) -> Any:
    """A training script with one mistake."""

    def setup(plan: TorchPlan, model: nn.Module) -> torch.optim.Optimizer:
        plan.init_(model)
        if plan.multipliers:
            plan.scale_(model)
        wrong = dict(model.named_parameters())[tensor]
        factor = plan.table.target["width"] / plan.table.base["width"]
        with torch.no_grad():
            wrong.mul_(factor**init)
        groups = []
        for g in plan.param_groups(model, lr=1e-4, weight_decay=0.0):
            rest = [p for p in g["params"] if p is not wrong]
            groups += [g | {"params": rest}] if rest else []
            if len(rest) < len(g["params"]):
                groups.append(g | {"params": [wrong], "lr": g["lr"] * factor**rate})
        return torch.optim.AdamW(groups)

    return setup


def test_a_norm_behind_the_readout_is_said() -> None:
    check = verified("narrowed", planned("narrowed", "adamw"), seeds=3)
    assert check.ok, check.culprits
    # Gradients are measured beside the readout's.
    rows = [r for r in check.rows if r.quantity is Quantity.GRADIENT and r.tensor[0] in "02"]
    assert len(rows) == 4
    np.testing.assert_allclose(
        [r.fit.slope for r in rows], [float(r.predicted) for r in rows], atol=0.3
    )
    told = str(check)
    assert "divides its small size out" in told
    assert "gradients are larger by n^(+0." in told
    for name in ("stream", "layer scale"):
        assert "divides" not in str(verified(name, planned(name, "adamw"), seeds=3))


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("mistakes", [SOME, *thorough(MORE)], ids=["some", "more"])
def test_one_mistake_in_them_is_named(mistakes: list) -> None:
    missed = []
    for name, tensor, init, rate in mistakes:
        seeds = 4 if name == "U-Net" else 3  # two paths, one of them straight through
        setup = spoiled(tensor, init, rate)
        c = verified(name, planned(name, "adamw"), setup=setup, seeds=seeds)
        cause = Cause.INITIALISATION if init else Cause.LEARNING_RATE
        found = [(k.tensor, k.cause) for k in c.culprits]
        near = c.culprits and np.isclose(c.culprits[0].power, init + rate, atol=0.2)
        if found != [(tensor, cause)] or not near:
            missed.append((name, tensor, found, [k.power for k in c.culprits]))
    assert missed == []
