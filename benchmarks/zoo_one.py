"""Models of the zoo, each planned or verified in a process of its own: what `zoo.py` runs where the libraries are.

python benchmarks/zoo_one.py list 60                      # every model, as JSON
python benchmarks/zoo_one.py verify 60 transformers/Llama # what came of it in 60 seconds, a line of JSON for each
"""

from __future__ import annotations

import importlib
import json
import multiprocessing
import sys
import time
import warnings
from collections.abc import Mapping
from typing import Any

import torch
from zoo_entry import Entry

import scalewise as sw
from scalewise.plan import PlanError
from scalewise.plan._errors import PlanWarning
from scalewise.plan._questions import Asked

MODULES = ("zoo_text", "zoo_today", "zoo_images", "zoo_others")


def _without_kernels() -> None:
    """A torchvision compiled for other devices lacks its operators here, and its import needs the names of two."""
    library = torch.library.Library("torchvision", "FRAGMENT")
    boxes = "(Tensor dets, Tensor scores, float iou_threshold) -> Tensor"
    try:
        import torchvision  # noqa: F401
    except RuntimeError:
        for name in ("nms", "qnms"):
            library.define(f"{name}{boxes}")
        for name in [m for m in sys.modules if m.partition(".")[0] == "torchvision"]:
            del sys.modules[name]
    _KEPT.append(library)


_KEPT: list[Any] = []


def entries() -> dict[str, Entry]:
    """Every model, by library and name."""
    _without_kernels()
    found = [e for m in MODULES for e in importlib.import_module(m).MODELS]
    return {f"{e.library}/{e.name}": e for e in found}


def _make(entry: Entry, **more: Any) -> Any:
    verb = sw.jax.plan if entry.jax else sw.torch.plan
    sizes = {"base": {"width": entry.base}, "target": {"width": 2 * entry.base}}
    return verb(entry.build, **sizes, strategy=sw.scaling.mup(), **dict(entry.settings), **more)


def _tried(entry: Entry, more: Mapping[str, Any]) -> tuple[Any, Asked | None, bool]:
    """A plan or a question, and whether the forward pass was seen."""
    made, asked = None, None
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        try:
            made = _make(entry, **more)
        except Asked as question:
            asked = question
    return made, asked, not any(issubclass(w.category, PlanWarning) for w in told)


def planned(entry: Entry) -> tuple[dict[str, Any], Any]:
    """What came of `plan`, and the plan; with what most models answer where it asked."""
    found: dict[str, Any] = {"outcome": "planned", "inputs": False}
    more: dict[str, Any] = {}
    begun = time.process_time()
    try:
        made, asked, saw = _tried(entry, more)
        if not saw and entry.inputs is not None:
            found["inputs"], more = True, {"inputs": entry.inputs(entry.batch())}
            made, asked, saw = _tried(entry, more)
        found |= {"seconds": round(time.process_time() - begun, 2), "seen": saw}
        if asked is not None:
            found |= {"outcome": "asked", "sentence": str(asked), "answers": dict(asked.answers)}
            made, asked, _ = _tried(entry, more | dict(asked.answers))
    except PlanError as error:
        return found | {"outcome": "refused", "sentence": str(error)}, None
    if made is not None:
        found["tensors"] = len(made.table.tensors)
    return found, made


def verified(entry: Entry, made: Any) -> dict[str, Any]:
    """What real networks say of the plan."""
    begun = time.process_time()
    why = ""
    try:
        check = made.verify(entry.batch(), entry.loss, widths=entry.widths, seeds=3, progress=False)
        check.assert_ok()
    except PlanError as error:
        return {"verdict": "refused", "why": str(error)}
    except AssertionError as error:
        why = str(error)
    seconds = round(time.process_time() - begun, 1)
    return {
        "verdict": "deviates" if why else "ok",
        "why": why,
        "seconds": seconds,
        "widths": list(entry.widths),
    }


def told(what: str, entry: Entry) -> dict[str, Any]:
    """What came of one verb, whatever happens."""
    try:
        found, made = planned(entry)
        if what == "verify":
            return (
                {"verdict": "failed", "why": "It was not planned."}
                if made is None
                else verified(entry, made)
            )
    except Exception as error:
        sentence = f"{type(error).__name__}: {error}"
        return {"outcome": "failed", "sentence": sentence, "verdict": "failed", "why": sentence}
    return found


def apart(what: str, entry: Entry, limit: float) -> dict[str, Any]:
    """The same in a process of its own, ended when its time is up."""
    context = multiprocessing.get_context("fork")
    here, there = context.Pipe(duplex=False)
    child = context.Process(target=lambda: there.send(told(what, entry)))
    child.start()
    there.close()
    late = f"It took more than {limit:g} seconds."
    found = {"outcome": "too long", "sentence": late, "verdict": "too long", "why": late}
    try:
        if here.poll(limit):
            found = here.recv()
    except EOFError:
        found = {
            "outcome": "failed",
            "sentence": "Its process ended.",
            "verdict": "failed",
            "why": "Its process ended.",
        }
    child.kill()
    child.join()
    return found


def main() -> None:
    what, limit, *names = sys.argv[1:]
    zoo = entries()
    if what == "list":
        about = {
            k: {"everyday": e.everyday, "library": e.library, "name": e.name}
            for k, e in zoo.items()
        }
        print(json.dumps(about))
    for name in names:
        print(json.dumps([name, apart(what, zoo[name], float(limit))]), flush=True)


if __name__ == "__main__":
    main()
