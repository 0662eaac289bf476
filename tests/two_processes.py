"""What two processes do to one model: each rank trains its shards, and the first says how it went."""

from __future__ import annotations

import json
from pathlib import Path

import torch
from torch import nn
from torch.distributed.fsdp import fully_shard
from torch.distributed.tensor.parallel import (
    ColwiseParallel,
    RowwiseParallel,
    parallelize_module,
)

import scalewise as sw
from torch_models import mlp, trained

STEPS, WIDTH = 3, 64


def sharded(model: nn.Module, way: str, mesh: torch.distributed.DeviceMesh) -> nn.Module:
    """The model laid over both processes."""
    if way == "fully sharded":
        for layer in model.children():
            if isinstance(layer, nn.Linear):
                fully_shard(layer, mesh=mesh)
        return fully_shard(model, mesh=mesh)
    ways = {"0": ColwiseParallel(), "2": RowwiseParallel()}
    return parallelize_module(model, mesh, ways)


def work(rank: int, folder: str) -> None:
    """One of two processes.

    Args:
        rank: Its number.
        folder: Where the plan lies, both meet, and the first writes how far weights are from those of one process.
    """
    torch.set_num_threads(1)
    place = Path(folder)
    torch.distributed.init_process_group(
        "gloo", init_method=f"file://{place / 'store'}", rank=rank, world_size=2
    )
    plan, found = sw.torch.load(place / "plan.json"), {}
    for way in ("fully sharded", "tensor parallel"):
        mesh = torch.distributed.init_device_mesh("cpu", (2,))
        torch.manual_seed(0)
        alone = plan.init_(mlp(WIDTH))
        torch.manual_seed(0)
        # Initialised once it is in pieces, as a model that is too large for one process must be.
        both = plan.init_(sharded(mlp(WIDTH), way, mesh))
        for model in (alone, both):
            groups = plan.param_groups(model, lr=0.01)
            # Some tensors of a tensor-parallel model are whole, and one kernel takes one kind.
            trained(model, torch.optim.AdamW(groups, foreach=False), STEPS)
        pairs = zip(alone.parameters(), both.parameters(), strict=True)
        whole = [(a, b.full_tensor() if hasattr(b, "full_tensor") else b) for a, b in pairs]
        found[way] = [float((a - b).detach().abs().max()) for a, b in whole]
        found[way + ", pieces"] = [
            b.to_local().numel() / b.numel() for b in both.parameters() if hasattr(b, "to_local")
        ]
    if rank == 0:
        (place / "found.json").write_text(json.dumps(found))
    torch.distributed.destroy_process_group()
