"""The page of the zoo, from its numbers."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import Any

__all__ = ["render", "write"]

PAGE = Path(__file__).parent.parent / "docs" / "zoo.md"
_LONGEST = 260
_HEAD = """# The zoo

This page tries plans on models of other libraries. The models are built from the libraries' own configurations,
with random weights, at tiny widths, and with two layers where they have that setting. Each model was planned by
`sw.torch.plan` or `sw.jax.plan` with `mup()` and AdamW, from its width to twice it, without `roles`. Where
possible, `plan.verify` then tested it on real networks (three widths, three seeds). Heads keep their size, as they
do in the families of these models: the factory gives wider models more heads.

The page and its numbers (`benchmarks/results/zoo.json`) are made by

```
python benchmarks/zoo_environment.py      # once: the libraries, in an environment of their own
python benchmarks/zoo.py                  # what is not there yet; --again Llama: one model anew
```

*Planned* means that the plan asked nothing: modules, and the use that the forward pass makes of parameters that no
module explains, gave every role. *With `inputs`* means that the forward pass could not be run on inputs that
`plan` guessed, so we passed the inputs of the model. *Asked* means that roles were left open; such a model was
verified with the answers that the question proposed. *As planned* means that every power of the width that was
measured is the planned one. Models in bold are widely used. Seconds are CPU seconds of one core; those of `plan`
include the import of the model's code.

MiniCPM 3, Falcon-H1 and Jamba are verified at widths 128 to 512, the others from their base: between widths 64
and 256 the output of these three moves by n^(-0.2) to n^(-0.3), because a batch of 32 tokens is not few beside 64
units.

The plan of DINOv2 asks about the token for masked patches, which is used only in passes with masks. The plan of
DoRA asks about the lengths of its rows. They are computed from the frozen weights when the model is built. Where
those weights are drawn at 0.02 at every width, the lengths grow by n^(1/2), and nothing brings them back; its
verification finds this. In CaiT, the output of the norms passes through two scales of 1e-5. So its gradients are
1e-15, ten million times below Adam's epsilon. There steps follow the gradient, and over these widths the gradient
falls by less than its power.
"""


def _cell(text: str) -> str:
    return " ".join(text.split()).replace("|", "\\|")


def _short(text: str) -> str:
    text = _cell(text)
    return text if len(text) <= _LONGEST else text[:_LONGEST].rsplit(" ", 1)[0] + " …"


def _plan(found: Mapping[str, Any]) -> str:
    outcome = found["outcome"]
    if outcome == "planned":
        told = " with `inputs`" if found["inputs"] else ""
        unseen = "" if found["seen"] else ", its forward pass unseen"
        return f"planned{told}{unseen}"
    if outcome == "asked":
        kinds = ", ".join(f"`{name}`" for name in list(found["answers"].get("roles", {}))[:4])
        return f"asked about {kinds}" if kinds else "asked"
    return outcome


def _verify(found: Mapping[str, Any] | None) -> str:
    if found is None:
        return "not run"
    words = {"ok": "as planned", "deviates": "not as planned"}
    seconds = f", {found['seconds']:g} s" if "seconds" in found else ""
    return words.get(found["verdict"], found["verdict"]) + seconds


def _row(found: Mapping[str, Any]) -> str:
    plan, check = found["plan"], found.get("verify")
    name = f"**{found['name']}**" if found["everyday"] else found["name"]
    seconds = f"{plan['seconds']:g}" if "seconds" in plan else "–"
    return f"| {found['library']} | {name} | {_plan(plan)} | {seconds} | {_verify(check)} |"


def _notes(found: Mapping[str, Any]) -> list[str]:
    plan, check = found["plan"], found.get("verify") or {}
    who, out = f"{found['name']} ({found['library']})", []
    if plan["outcome"] != "planned":
        out.append(f"- {who}, `plan`: {_short(plan['sentence'])}")
    if check.get("verdict", "ok") != "ok":
        out.append(f"- {who}, `verify`: {_short(check['why'])}")
    return out


def render(found: Mapping[str, Mapping[str, Any]]) -> str:
    """The whole page.

    Args:
        found: By model, what `zoo.py` stored.
    """
    rows = list(found.values())
    plans = Counter(r["plan"]["outcome"] for r in rows)
    checks = Counter(_verify(r.get("verify")).partition(",")[0] for r in rows)
    everyday = [r for r in rows if r["everyday"]]
    quiet = sum(r["plan"]["outcome"] == "planned" for r in everyday)
    lines = [
        _HEAD,
        f"Of {len(rows)} models: {_counted(plans)}. Of the {len(everyday)} in bold, {quiet} were planned without "
        f"a question. Verified: {_counted(checks)}.",
        "",
        "| library | model | `plan` | s | `verify` |",
        "|---|---|---|---|---|",
        *map(_row, rows),
        "",
        "## What was asked, refused, or not as planned",
        "",
        *(line for r in rows for line in _notes(r)),
    ]
    return "\n".join(lines) + "\n"


def _counted(numbers: Mapping[str, int]) -> str:
    return ", ".join(f"{n} {what}" for what, n in numbers.items())


def write(found: Mapping[str, Mapping[str, Any]]) -> None:
    """The page, to where the documentation has it."""
    PAGE.write_text(render(found))
