"""Trainers of other people: short stand-ins, and the real classes of those that install without their dependencies.

Each stand-in does what its source does to names and settings, and nothing else. Steps of all real classes, and what
they do to each parameter, are measured by `benchmarks/exporters_real.py`.
"""

from __future__ import annotations

import importlib
import re
import warnings
from fnmatch import fnmatch
from typing import Any

import pytest
import torch
from torch import nn

# `pip install --no-deps` of these is enough to import the two.
_NEEDS = {
    "torchtitan": ("torchtitan", "tyro", "spmd_types", "docstring_parser", "typeguard"),
    "megatron": ("megatron.core",),
}


def imported(trainer: str) -> None:
    """Import the real trainer, or skip the test."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for name in _NEEDS[trainer]:
            pytest.importorskip(
                name,
                reason=f"the real {trainer} is compared where it is installed: "
                f"pip install --no-deps {' '.join(_NEEDS[trainer]).replace('megatron.core', 'megatron-core')}",
            )
        if trainer == "torchtitan":
            importlib.import_module("torchtitan.components.optimizer")
        else:
            importlib.import_module("megatron.core.optimizer")


def real_titan(found: Any, model: nn.Module) -> list[torch.optim.Optimizer]:
    """The optimizers of torchtitan's own container; its `DistMuon` needs several devices."""
    theirs = importlib.import_module("torchtitan.components.optimizer")
    groups = [theirs.ParamGroupConfig(**g) for g in found]
    config = theirs.OptimizersContainer.Config(implementation="for-loop", param_groups=groups)
    return list(config.build(model_parts=[model]).optimizers)


def titan(found: Any, model: nn.Module) -> list[torch.optim.Optimizer]:
    """The optimizers of `OptimizersContainer`, in torchtitan/components/optimizer/optimizer.py of 0.3.0."""
    classes = {"Adam": torch.optim.Adam, "AdamW": torch.optim.AdamW, "DistMuon": DistMuon}
    groups: dict[str, list[dict[str, Any]]] = {}
    claimed: set[str] = set()
    for g in found:
        named = model.named_parameters()
        mine = [(n, p) for n, p in named if n not in claimed and re.search(g["pattern"], n)]
        if not mine:
            raise ValueError(f"pattern '{g['pattern']}' matched no parameters")
        claimed |= {n for n, _ in mine}
        plain = {"params": [p for _, p in mine], "fused": False, "foreach": False}
        groups.setdefault(g["optimizer_name"], []).append(plain | g["optimizer_kwargs"])
    if claimed != {n for n, _ in model.named_parameters()}:
        raise AssertionError("Parameter mismatch")
    return [classes[name](gs) for name, gs in groups.items()]


class DistMuon(torch.optim.Optimizer):
    """What torchtitan's checks of its groups."""

    def __init__(self, groups: Any) -> None:
        super().__init__(groups, {"momentum": 0.95})
        assert len(self.param_groups) == 1, "DistMuon requires exactly one parameter group"
        (group,) = self.param_groups
        assert not group["fused"]
        assert not group["foreach"]
        assert group["adjust_lr_fn"] in (None, "original", "match_rms_adamw", "spectral_unclamped")
        assert not group.keys() - {
            "params", "lr", "weight_decay", "momentum", "eps", "adjust_lr_fn", "fused", "foreach"
        }  # fmt: skip


def real_megatron(found: Any, model: nn.Module, lr: float) -> list[dict[str, Any]]:
    """The groups that Megatron itself makes."""
    theirs = importlib.import_module("megatron.core.optimizer")
    if not torch.distributed.is_initialized():
        store = torch.distributed.HashStore()  # pyright: ignore[reportPrivateImportUsage]
        torch.distributed.init_process_group("gloo", store=store, rank=0, world_size=1)
    overrides = {theirs.ParamKey(name=g["name"]): g["override"] for g in found}
    made: Any = [model]
    return theirs._get_param_groups(made, theirs.OptimizerConfig(lr=lr, min_lr=0.0), overrides)


def megatron(found: Any, model: nn.Module, lr: float) -> list[dict[str, Any]]:
    """The groups of `_get_param_groups`, in megatron/core/optimizer/__init__.py of 0.16.1 and 0.20."""
    groups = []
    for name, p in model.named_parameters():
        own: dict[str, Any] = {}
        for g in found:
            if any(fnmatch(name, wanted) for wanted in g["name"]):
                for key, value in g["override"].items():
                    assert own.get(key, value) == value, "Conflicting overrides"
                    own[key] = value
        groups.append({"params": [p], "wd_mult": 1.0, "max_lr": lr, "min_lr": 0.0} | own)
    return groups


def really_scheduled(groups: list[dict[str, Any]]) -> tuple[list[Any], list[Any]]:
    """Rate and decay of groups at the top and at the end of Megatron's own linear schedule."""
    theirs = importlib.import_module("megatron.core.optimizer_param_scheduler")
    optimizer: Any = type("Groups", (), {"param_groups": groups})()
    made = theirs.OptimizerParamScheduler(
        optimizer, 0.0, 7.0, 0.5, 10, 100, "linear", 0.3, 0.3, 100, "constant",
        use_checkpoint_opt_param_scheduler=False,
    )  # fmt: skip
    out = []
    for steps in (10, 91):
        made.step(steps)
        out.append([(g["lr"], g["weight_decay"]) for g in groups])
    return out[0], out[1]


def scheduled(groups: list[dict[str, Any]]) -> tuple[list[Any], list[Any]]:
    """Rate and decay of groups at the top and at the end of a linear schedule, as Megatron's is."""
    decays = [g.get("end_wd", 0.3) * g["wd_mult"] for g in groups]
    ends = [[g[key] for g in groups] for key in ("max_lr", "min_lr")]
    top, end = ([*zip(rates, decays, strict=True)] for rates in ends)
    return top, end


class MuonWithAuxAdam(torch.optim.Optimizer):
    """What `SingleDeviceMuonWithAuxAdam` checks, in muon.py of github.com/KellerJordan/Muon at 857d1ad."""

    def __init__(self, groups: list[dict[str, Any]]) -> None:
        for g in groups:
            own = {"momentum"} if g["use_muon"] else {"betas", "eps"}
            assert g.keys() == {"params", "lr", "weight_decay", "use_muon", *own}
        super().__init__(groups, {})


class MuonAdamW(torch.optim.Optimizer):
    """What nanochat's reads of its groups, in nanochat/optim.py at 92d63d4."""

    def __init__(self, groups: list[dict[str, Any]]) -> None:
        super().__init__(groups, {})
        for g in self.param_groups:
            own = {"muon": ("momentum", "ns_steps", "beta2"), "adamw": ("betas", "eps")}[g["kind"]]
            assert g.keys() >= {"params", "lr", "weight_decay", *own}
            if g["kind"] == "muon":
                assert len({p.shape for p in g["params"]}) == 1, "all of one shape are stacked"
