"""Building a user's model at the sizes a plan compares, and nothing else: no generator is disturbed."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from fractions import Fraction
from typing import Any

import numpy as np
import torch
from torch import nn
from torch.utils import _pytree as pytree

from scalewise.plan import ModelDescription, PlanError, Probe
from scalewise.plan._axes import compared, taken
from scalewise.plan._forward import Inputs, Passes
from scalewise.plan._uses import explained
from scalewise.torch._describe import describe, places
from scalewise.torch._look import Way, look
from scalewise.torch._moments import moments

Factory = Callable[..., nn.Module]
# Where sizes that are rounded show what they are rounded from: without memory, and with it.
_FAR, _NEAR = 64, 8


def probe(
    build: Factory,
    base: Mapping[str, Any],
    target: Mapping[str, Any],
    *,
    width: str,
    depth: str | None,
    device: str,
    inputs: Inputs | None = None,
) -> tuple[Probe, Inputs | None]:
    """Build the model at the sizes to compare: once in earnest, at the base width, and else on `device`.

    Args:
        build: The user's factory.
        base: What it is called with at the base.
        target: The same at the target.
        width: Name of the width.
        depth: Name of the depth; ``None`` if there is none.
        device: ``"meta"`` (no memory, no time), or where to build in earnest.
        inputs: What the model is called with; ``None`` to find something.

    Returns:
        What was found, and what the model was called with.

    Raises:
        PlanError: If the factory fails or returns no module.
    """
    other_depth = depth is not None and base[depth] != target[depth]
    sizes = compared(base, target, width, depth)
    narrow, widened = sizes.narrow, sizes.widened
    earnest = "cpu" if device == "meta" else device
    model = _built(build, narrow, earnest)
    _refuse_quantised(model)
    one = describe(model)
    spreads = {n: moments(p, n) for n, p in places(model).items()}
    other = model if narrow == widened else _built(build, widened, device)
    wider = wide = describe(other)
    two = wider if widened == target else describe(_built(build, target, device))
    if narrow[width] == widened[width]:
        other = _built(build, sizes.wide, device)
        wide = describe(other)
    wide_ratio = sizes.ratio
    others = {axis: _built(build, given, device) for axis, given in sizes.others.items()}
    shallow, shallow_spreads = None, {}
    if other_depth:
        # In earnest too: what the factory draws may depend on the depth.
        small = _built(build, base, earnest)
        shallow = describe(small)
        shallow_spreads = {n: moments(p, n) for n, p in places(small).items()}
    ways: list[Way] = [(wide_ratio, lambda: other)]
    if device == "meta":
        ways.append((Fraction(2), lambda: _built(build, sizes.twice, earnest)))
    with undisturbed():
        passes, inputs = look(model, ways, inputs)
        along = _passes_along(base, target, others, model, inputs)
    described = {axis: describe(m) for axis, m in others.items()}
    if passes is not None:
        uses = passes.narrow.uses
        one, wide, wider, two = (explained(m, uses) for m in (one, wide, wider, two))
        shallow = None if shallow is None else explained(shallow, uses)
        described = {axis: explained(m, uses) for axis, m in described.items()}

    def further() -> tuple[ModelDescription, Fraction]:
        times = _FAR if device == "meta" else _NEAR
        far = _built(build, {**narrow, width: times * base[width]}, device)
        return describe(far), Fraction(times)

    found = Probe(
        one, wide, wide_ratio, two, shallow, spreads, passes, shallow_spreads, further=further,
        widened=wider, others=described, other_passes=along,
    )  # fmt: skip
    return found, inputs


def _passes_along(
    base: Mapping[str, Any],
    target: Mapping[str, Any],
    others: Mapping[str, nn.Module],
    model: nn.Module,
    inputs: Inputs | None,
) -> dict[str, Passes]:
    """The forward pass along an inner width, by which a model's code may multiply."""
    if "rank" not in others or inputs is None:
        return {}
    ratio = Fraction(target["rank"], base["rank"])
    passes, _ = look(model, [(ratio, lambda: others["rank"])], inputs)
    return {} if passes is None else {"rank": passes}


def _refuse_quantised(model: nn.Module) -> None:
    """Weights of a few bits are packed away, where no optimizer reaches them."""
    for key, held in model.state_dict().items():
        leaves = pytree.tree_leaves(held)
        packed = [x for x in leaves if isinstance(x, torch.ScriptObject) or _is_quantised(x)]
        if packed:
            raise PlanError(
                f"The model holds quantised weights (`{key.partition('._')[0]}`), which are not trained. Plan the "
                "model as it is before it is quantised; what is trained may be quantised afterwards."
            )


def _is_quantised(value: Any) -> bool:
    return isinstance(value, torch.Tensor) and value.is_quantized


def _built(build: Factory, sizes: Mapping[str, Any], device: str) -> nn.Module:
    sizes = taken(build, sizes)
    call = f"build({', '.join(f'{k}={v!r}' for k, v in sizes.items())})"
    try:
        with undisturbed(), torch.device(device):
            model = build(**sizes)
    except Exception as error:
        what = f"`{call}` raised {type(error).__name__} on the device {device!r}: {error}"
        advice = (
            'If the factory needs real memory, plan with device="cpu"; it is built without memory to '
            "learn its shapes."
            if device == "meta"
            else "The factory must take the names in `base` and `target` and return a module."
        )
        raise PlanError(f"{what}. {advice}") from error
    if not isinstance(model, nn.Module):
        raise PlanError(
            f"`{call}` returned {type(model).__name__}; the factory must return a torch.nn.Module."
        )
    return model


@contextmanager
def undisturbed() -> Iterator[None]:
    """Every generator a factory may draw from starts at the same place and is put back afterwards."""
    python, numpy = random.getstate(), np.random.get_state()
    devices = list(range(torch.cuda.device_count())) if torch.cuda.is_initialized() else []
    with torch.random.fork_rng(devices=devices):
        # Not torch.manual_seed: that would seed accelerators which are yet to be initialised.
        torch.default_generator.manual_seed(0)
        random.seed(0)
        np.random.seed(0)
        try:
            yield
        finally:
            random.setstate(python)
            np.random.set_state(numpy)
