"""One exporter in the real class of a trainer, as `exporters_real.py` runs it: prints a line of JSON."""

from __future__ import annotations

import functools
import importlib
import json
import sys
import tempfile
import types
import typing
from collections.abc import Callable
from pathlib import Path
from typing import Any
from unittest import mock

import torch
from torch import nn

import scalewise as sw

BASE, WIDE = 32, 96
LR, DECAY, EPS = 0.02, 0.5, 1e-3
Step = Callable[[], Any]
Make = Callable[[Any, nn.Module, float, float], Step]


class Net(nn.Module):
    """Embeddings, norms, biases, blocks with two numbers, and matrices whose sides do not grow alike."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.embed = nn.Embedding(11, width)
        self.blocks = nn.ModuleList(
            nn.ModuleDict({
                "norm": nn.LayerNorm(width),
                "up": nn.Linear(width, 2 * width + 64),
                "down": nn.Linear(2 * width + 64, width),
            })
            for _ in range(11)
        )  # fmt: skip
        self.norm, self.head = nn.LayerNorm(width), nn.Linear(width, 11, bias=False)

    def forward(self, tokens: torch.Tensor) -> torch.Tensor:
        x = self.embed(tokens)
        for block in self.blocks:
            x = x + block["down"](torch.tanh(block["up"](block["norm"](x))))
        return self.head(self.norm(x))


def planned(optimizer: str, adjust: str | None = None) -> Any:
    tokens = torch.zeros(2, 8, dtype=torch.long)
    return sw.torch.plan(
        Net, base={"width": BASE}, target={"width": WIDE}, strategy=sw.scaling.mup(),
        optimizer=optimizer, adjust=adjust, inputs=tokens,
    )  # fmt: skip


def _given(model: nn.Module) -> None:
    for p in model.parameters():
        p.grad = p.wanted.clone()


def _stepping(model: nn.Module, *optimizers: Any) -> Step:
    def step() -> None:
        _given(model)
        for o in optimizers:
            o.step()

    return step


# ----- the trainers


def torchtitan(plan: Any, model: nn.Module, decay: float, eps: float) -> Step:
    from torchtitan.components.optimizer import OptimizersContainer, ParamGroupConfig

    found = sw.torch.to_torchtitan(plan, lr=LR, eps=eps, weight_decay=decay, betas=(0.9, 0.95))
    groups = [ParamGroupConfig(**g) for g in found]
    config = OptimizersContainer.Config(implementation="for-loop", param_groups=groups)
    return _stepping(model, config.build(model_parts=[model]))


def _alone() -> None:
    if not torch.distributed.is_initialized():
        store = torch.distributed.HashStore()
        torch.distributed.init_process_group("gloo", store=store, rank=0, world_size=1)


def _at_the_top(optimizers: list[Any]) -> None:
    """Megatron's scheduler writes rates and decays; here at the end of its warm-up."""
    from megatron.core.optimizer_param_scheduler import OptimizerParamScheduler

    for o in optimizers:
        OptimizerParamScheduler(
            o, 0.0, 7.0, 0.5, 10, 100, "linear", 0.3, 0.3, 100, "constant",
            use_checkpoint_opt_param_scheduler=False,
        ).step(10)  # fmt: skip


def megatron(plan: Any, model: nn.Module, decay: float, eps: float) -> Step:
    from megatron.core import optimizer as m

    _alone()
    found = sw.torch.to_megatron(plan, lr=LR, eps=eps, weight_decay=decay, betas=(0.9, 0.95))
    overrides = {m.ParamKey(name=g["name"]): g["override"] for g in found}
    config = m.OptimizerConfig(lr=7.0, min_lr=0.0)
    groups = m._get_param_groups([model], config, overrides)
    made = torch.optim.AdamW(groups, lr=7.0)
    _at_the_top([made])
    return _stepping(model, made)


@functools.cache
def _megatron_of_today() -> tuple[Any, Any]:
    """Megatron-Core 0.20 and its Muon, which are written for Python 3.12 and import triton."""
    if sys.version_info < (3, 12):
        setattr(typing, "override", lambda f: f)  # noqa: B010
        registry = Path(sys.argv[2]) / "emerging_optimizers" / "registry.py"
        text = registry.read_text().replace("[Opt: optim.Optimizer]", "")
        registry.write_text(text.replace("type[Opt]", "type"))
    import torch._inductor.runtime.triton_compat  # noqa: F401, which asks for triton itself

    lacking = [n for n in ("triton", "triton.language") if n not in sys.modules]
    sys.modules |= {n: mock.MagicMock(__version__="3.4.0") for n in lacking}
    from megatron.core import optimizer
    from megatron.core.optimizer import emerging_optimizers

    for n in lacking:
        del sys.modules[n]
    return optimizer, emerging_optimizers


def megatron_muon(plan: Any, model: nn.Module, decay: float, eps: float) -> Step:
    m, e = _megatron_of_today()
    _alone()
    for n, p in model.named_parameters():
        p.is_embedding_or_output_parameter = n.startswith(("embed", "head"))
    rest = {"lr": LR, "eps": eps, "weight_decay": decay}
    found = sw.torch.to_megatron(plan, lr=LR, weight_decay=decay, rest=rest, model=model)
    overrides = {m.ParamKey(name=g["name"]): g["override"] for g in found}
    config = m.OptimizerConfig(
        optimizer="muon", lr=7.0, min_lr=0.0, muon_scale_mode="spectral", muon_tp_mode="blockwise"
    )
    overrides.update(e._EMERGING_OPTIMIZERS["muon"].default_param_overrides)
    groups = m._get_param_groups([model], config, overrides)
    mine = [[g for g in groups if g.get("optimizer", "muon") == kind] for kind in ("muon", "adam")]
    muon = e.TensorParallelMuon(
        mine[0], lr=7.0, scale_mode="spectral", tp_mode="blockwise", pg_collection=None
    )
    made = [muon, torch.optim.AdamW(mine[1], lr=7.0)]
    _at_the_top(made)
    return _stepping(model, *made)


def nanochat(plan: Any, model: nn.Module, decay: float, eps: float) -> Step:
    from nanochat.optim import MuonAdamW

    rest = {"lr": LR, "eps": eps, "weight_decay": decay}
    found = sw.torch.to_nanochat(plan, model, lr=LR, weight_decay=decay, rest=rest)
    return _stepping(model, MuonAdamW(list(found)))


def muon_package(plan: Any, model: nn.Module, decay: float, eps: float) -> Step:
    from muon import SingleDeviceMuonWithAuxAdam

    rest = {"lr": LR, "eps": eps, "weight_decay": decay}
    found = sw.torch.to_muon_package(plan, model, lr=LR, weight_decay=decay, rest=rest)
    return _stepping(model, SingleDeviceMuonWithAuxAdam(list(found)))


def modded(plan: Any, model: nn.Module, decay: float, eps: float) -> Step:
    optimizer = _modded_class(Path(sys.argv[2]) / "train_gpt.py")
    adam = {"optim": "adam", "comms": "replicated", "adam_betas": [0.9, 0.95], "lr_mul": 2.0}
    own, at_base = {}, plan.at(width=BASE)
    for t in at_base.table.tensors:
        muon = {"optim": "normuon", "comms": "sharded", "wd_mul": 3.0}
        own[t.name.replace(".weight", "")] = muon if t.optimizer == "normuon" else dict(adam)
    found = sw.torch.to_modded_nanogpt(plan, own)
    for n, p in model.named_parameters():
        p.label = n.replace(".weight", "")
        if own[p.label]["optim"] == "normuon":
            p.data = p.data.bfloat16()
            p.reshape = (1, *p.shape)
    table = {g["label"]: g["entry"] for g in found}
    made = optimizer(
        model.named_parameters(), table, list(table), list(table),
        {"lr": LR, "eps": eps, "weight_decay": decay},
        {"lr": LR, "momentum": 0.95, "beta2": 0.95, "weight_decay": decay},
    )  # fmt: skip
    made.split_embed = True

    def step() -> None:
        for p in model.parameters():
            p.grad = p.wanted.to(p.dtype)
        made.step()
        for p, state in made.param_states.items():
            # The lower half of its bits is kept apart.
            if "mantissa" in state:
                bits = (p.data.view(torch.uint16).to(torch.int32) << 16) | state["mantissa"][0].to(
                    torch.int32
                )
                p.data = bits.view(torch.float32)

    return step


def _modded_class(path: Path) -> Any:
    """`NorMuonAndAdam` with what it calls, cut out of the script, which itself asks for eight GPUs."""
    # A processor shifts no unsigned numbers of 32 bits.
    text = path.read_text().replace("torch.uint32", "torch.int32")
    start, end = (
        text.index("polar_express_coeffs = ["),
        text.index("# PyTorch nn.Module definitions"),
    )
    head = "import torch\nimport torch.distributed as dist\nfrom dataclasses import dataclass\n"
    head += "from torch import Tensor, nn\nimport numpy as np\n"
    module = types.ModuleType("train_gpt")
    sys.modules["train_gpt"] = module
    found = vars(module)
    found |= {
        "XTX": lambda x, out: out.copy_(x.mT @ x),
        "XXT": lambda x, out: out.copy_(x @ x.mT),
        "ba_plus_cAA": lambda a, alpha, beta, out: out.copy_(beta * a + alpha * (a @ a)),
    }
    exec(compile(head + text[start:end], str(path), "exec"), found)
    return found["NorMuonAndAdam"]


class _Rows(torch.utils.data.Dataset):
    def __len__(self) -> int:
        return 1

    def __getitem__(self, i: int) -> dict[str, torch.Tensor]:
        return {"x": torch.zeros(1)}


def _linear(model: nn.Module) -> torch.Tensor:
    return sum(((p * p.wanted).sum() for p in model.parameters()), torch.zeros(()))


def _settings(plan: Any, decay: float, eps: float) -> dict[str, Any]:
    if plan.table.optimizer == "adamw":
        return {"lr": LR, "eps": eps, "weight_decay": decay}
    return {"lr": LR, "weight_decay": decay, "rest": {"lr": LR, "eps": eps, "weight_decay": decay}}


def trainer(plan: Any, model: nn.Module, decay: float, eps: float) -> Step:
    import transformers

    class Trainer(transformers.Trainer):
        def compute_loss(self, model: Any, *_: Any, **__: Any) -> Any:
            return _linear(model)

    arguments = transformers.TrainingArguments(
        output_dir=tempfile.mkdtemp(), max_steps=1, report_to=[], save_strategy="no", use_cpu=True,
        disable_tqdm=True, logging_strategy="no", max_grad_norm=0.0, lr_scheduler_type="constant",
        remove_unused_columns=False,
    )  # fmt: skip
    given = sw.torch.trainer_optimizer(plan, **_settings(plan, decay, eps))
    made = Trainer(model, arguments, train_dataset=_Rows(), optimizer_cls_and_kwargs=given)
    return made.train


def accelerated(plan: Any, model: nn.Module, decay: float, eps: float) -> Step:
    from accelerate import Accelerator

    accelerator = Accelerator(cpu=True)
    made = sw.torch.optimizer_for(plan, model, **_settings(plan, decay, eps))
    _, made = accelerator.prepare(model, made)

    def step() -> None:
        accelerator.backward(_linear(model))
        made.step()

    return step


def lightning(plan: Any, model: nn.Module, decay: float, eps: float) -> Step:
    import pytorch_lightning as pl

    class Module(pl.LightningModule):
        def __init__(self) -> None:
            super().__init__()
            self.net = model

        def training_step(self, batch: Any) -> Any:
            return _linear(self.net)

        def configure_optimizers(self) -> Any:
            return sw.torch.optimizer_for(plan, self.net, **_settings(plan, decay, eps))

    quiet = dict.fromkeys(
        ("logger", "enable_checkpointing", "enable_progress_bar", "enable_model_summary"), False
    )
    made = pl.Trainer(max_steps=1, accelerator="cpu", **quiet)
    return lambda: made.fit(Module(), torch.utils.data.DataLoader(_Rows()))


# By row: the maker, the optimizer and adjustment of the plan, and what Muon multiplies a step by.
Factor = Callable[[int, int], float]


def _tall(rows: int, columns: int) -> float:
    return max(1, rows / columns) ** 0.5


def _full(rows: int, columns: int) -> float:
    return _tall(rows, columns) * min(rows, columns) ** 0.5


MAKERS: dict[str, tuple[Make, str, str | None, Factor]] = {
    "torchtitan": (torchtitan, "adamw", None, _tall),
    "megatron": (megatron, "adamw", None, _tall),
    "megatron-muon": (megatron_muon, "muon", "spectral", lambda r, c: max(r, c) ** 0.5),
    "nanochat": (nanochat, "normuon", "original", _full),
    "modded-nanogpt": (modded, "normuon", "original", _tall),
    "muon-package": (muon_package, "muon", "original", _tall),
    "trainer": (trainer, "adamw", None, _tall),
    "trainer-muon": (trainer, "muon", "original", _tall),
    "accelerate": (accelerated, "muon", "original", _tall),
    "lightning": (lightning, "muon", "original", _tall),
}


def _moved(
    make: Make, plan: Any, width: int, start: float, wanted: float, decay: float
) -> dict[str, Any]:
    """Parameters after one step from `start`, with gradients of one size and of both signs."""
    torch.manual_seed(0)
    model = Net(width)
    for p in model.parameters():
        nn.init.constant_(p, start)
        # Of rank one, so that iterations of Newton and Schulz do to all widths what they do to one.
        signs = [torch.ones(s) for s in p.shape]
        for s in signs:
            s[1::2] = -1
        p.wanted = wanted * (signs[0] if len(signs) == 1 else torch.outer(*signs))
    step = make(plan, model, decay, EPS)
    step()
    return {n: p.detach().double() for n, p in model.named_parameters()}


def measured(make: Make, plan: Any, width: int) -> dict[str, tuple[float, float, float]]:
    """Rate, part that decays in a step, and epsilon of every parameter."""
    big = _moved(make, plan, width, 0.0, 1e3, 0.0)
    small = _moved(make, plan, width, 0.0, EPS, 0.0)
    one, two = (_moved(make, plan, width, 1.0, 1e3, d) for d in (DECAY, 0.0))
    out = {}
    for n, p in big.items():
        rate, less = p.norm().item(), small[n].norm().item()
        # Each entry of a vector or of a table moves by the rate itself.
        eps = EPS * (rate / less - 1)
        out[n] = (rate, (two[n] - one[n]).abs().max().item(), eps)
    return out


def main() -> None:
    name = sys.argv[1]
    make, optimizer, adjust, factor = MAKERS[name]
    plan = planned(optimizer, adjust)
    at_base = plan.at(width=BASE)
    base, target = (measured(make, p, w) for p, w in ((at_base, BASE), (plan, WIDE)))
    worst = {"lr": 0.0, "decay": 0.0, "eps": 0.0}
    wrong: list[str] = []
    for t in plan.table.tensors:
        f, muon = plan.factors(t.name), t.optimizer in ("muon", "normuon")
        size = [
            p.numel() ** 0.5
            for p in (Net(WIDE).get_parameter(t.name), Net(BASE).get_parameter(t.name))
        ]
        shapes = [factor(*s) for s in (t.shape, t.base_shape)] if muon else size
        found = [x / y if y else 1.0 for x, y in zip(target[t.name], base[t.name], strict=True)]
        said = [f.lr * shapes[0] / shapes[1], f.lr * f.weight_decay, f.eps]
        for key, x, y in zip(worst, found, said, strict=True):
            if key == "eps" and (
                muon or name == "modded-nanogpt"
            ):  # it has one, which the exporter says
                continue
            worst[key] = max(worst[key], abs(x / y - 1))
            # Newton and Schulz in bfloat16 are known to some percent.
            if abs(x / y - 1) > (0.05 if muon else 1e-4):
                wrong.append(f"{t.name} {key} {x:.4g} planned {y:.4g}")
        if not muon and name not in ("modded-nanogpt",):
            own = (base[t.name][0] / size[1], base[t.name][1], base[t.name][2])
            for key, x, y in zip(worst, own, (LR, LR * DECAY, EPS), strict=True):
                if abs(x / y - 1) > 1e-4:
                    wrong.append(f"at the base {t.name} {key} {x:.4g} given {y:.4g}")
    versions = {m: getattr(importlib.import_module(m), "__version__", "") for m in ("torch",)}
    said_ = {k: float(f"{v:.2g}") for k, v in worst.items()}
    print(json.dumps({"parameters": len(target), "worst": said_, "wrong": wrong[:6], **versions}))


if __name__ == "__main__":
    main()
