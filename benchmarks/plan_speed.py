"""What a plan, its verification and an audit cost: CPU seconds, memory, and calls of the factory.

python benchmarks/plan_speed.py            # all three, each in a process of its own

The plan is for the shapes of Llama 3 8B (32 layers of width 4096, 32 heads of 128, 8 of keys, 128256 words) from
width 256 or 512, without memory but for the model at that width. The verification and the audit are of a decoder
with two layers at four widths and four seeds.
"""

from __future__ import annotations

import json
import resource
import subprocess
import sys
import time
from collections.abc import Callable
from typing import Any

import torch
import transformers

import scalewise as sw

WIDTHS, SEEDS = (64, 128, 256, 512), 4
HEAD = 128


def llama(width: int, *, layers: int = 32, words: int = 128256, head: int = HEAD) -> Any:
    """Two heads of queries or more, and one of keys for four of them."""
    heads = width // head
    config = transformers.LlamaConfig(
        hidden_size=width, intermediate_size=7 * width // 2, num_hidden_layers=layers, vocab_size=words,
        num_attention_heads=heads, num_key_value_heads=max(1, heads // 4), head_dim=head,
    )  # fmt: skip
    return transformers.LlamaForCausalLM(config)


def _megabytes() -> float:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def _measured(what: Callable[[], Any]) -> dict[str, float]:
    before, begun, clock = _megabytes(), time.process_time(), time.perf_counter()
    what()
    cpu, wall = time.process_time() - begun, time.perf_counter() - clock
    return {
        "CPU s": round(cpu, 2),
        "wall s": round(wall, 2),
        "MB more": round(_megabytes() - before),
    }


def _plan(build: Callable[..., Any], base: int, target: int) -> Any:
    sizes = {"base": {"width": base}, "target": {"width": target}}
    return sw.torch.plan(build, **sizes, strategy=sw.scaling.mup())


def of_plan(base: int) -> dict[str, float]:
    """The shapes of Llama 8B."""
    _plan(lambda width: llama(width, layers=1, words=64), base, 2 * base)
    return _measured(lambda: _plan(llama, base, 4096))


def _small(calls: list[int]) -> Callable[..., Any]:
    def build(width: int) -> Any:
        calls.append(width)
        return llama(width, layers=2, words=64, head=16)

    return build


def _tokens() -> dict[str, torch.Tensor]:
    numbers = torch.randint(64, (2, 8), generator=torch.Generator().manual_seed(1))
    return {"input_ids": numbers, "labels": numbers}


def _loss(model: Any, batch: dict[str, torch.Tensor]) -> torch.Tensor:
    return model(**batch).loss


def of_verify() -> dict[str, float]:
    """A decoder of two layers."""
    calls: list[int] = []
    plan = _plan(_small(calls), WIDTHS[0], WIDTHS[-1])
    calls.clear()
    # What the first network pays for all: imports that wait for it.
    plan.verify(_tokens(), _loss, widths=WIDTHS[:3], seeds=2, progress=False)
    plan = _plan(_small(calls), WIDTHS[0], WIDTHS[-1])
    calls.clear()
    found = _measured(
        lambda: plan.verify(_tokens(), _loss, widths=WIDTHS, seeds=SEEDS, progress=False)
    )
    return found | {"networks": len(WIDTHS) * SEEDS, "factory calls": len(calls)}


def of_audit() -> dict[str, float]:
    """The same decoder under AdamW with one learning rate."""
    calls: list[int] = []
    build = _small(calls)

    def run() -> None:
        sw.torch.audit(
            build, lambda model: torch.optim.AdamW(model.parameters(), lr=1e-3), _loss, _tokens(),
            widths=WIDTHS, seeds=SEEDS, progress=False,
        )  # fmt: skip

    return _measured(run) | {"factory calls": len(calls)}


WHAT = {
    "plan from 256": lambda: of_plan(256),
    "plan from 512": lambda: of_plan(512),
    "verify": of_verify,
    "audit": of_audit,
}


def main() -> None:
    torch.set_num_threads(1)
    if len(sys.argv) > 1:
        print(json.dumps(WHAT[sys.argv[1]]()))
        return
    for name in WHAT:
        run = [sys.executable, __file__, name]
        told = subprocess.run(run, check=True, capture_output=True, text=True).stdout
        print(f"{name:>14}: {told.splitlines()[-1]}", flush=True)


if __name__ == "__main__":
    main()
