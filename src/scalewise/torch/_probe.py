"""Building a user's model at the sizes a plan compares, and nothing else: no generator is disturbed."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from fractions import Fraction
from typing import Any, TypeVar

import numpy as np
import torch
from torch import nn
from torch.utils import _pytree as pytree

from scalewise.plan import ModelDescription, Plan, PlanError, Probe, Spread, make_plan
from scalewise.plan.spi import (
    AXIS,
    Compared,
    ConstantsLike,
    Inputs,
    Passes,
    Request,
    Sights,
    Wording,
    at_targets_number,
    compared,
    explained,
    more_of,
    ratios_of,
    taken,
    with_constants,
    with_mates,
)
from scalewise.torch._describe import describe, places
from scalewise.torch._look import Way, look
from scalewise.torch._moments import moments
from scalewise.torch._options import Options
from scalewise.torch._repeated import RepeatedDraws, told

Factory = Callable[..., nn.Module]
T = TypeVar("T")
# Where sizes that are rounded show what they are rounded from: without memory, and with it.
_FAR, _NEAR = 64, 8
_WORDING = Wording(
    "If it reads out with the embedding's weights, let a module do it that shares them (torch.nn.Linear, with its "
    "weight set to the embedding's)"
)


def planned(
    request: Request, options: Options, constants: ConstantsLike, sights: Sights
) -> tuple[Plan, Options]:
    """The plan, made of what must be seen of the model, and the options with the inputs that it was seen by."""
    found, inputs = probe(request, options.device, options.inputs, sights)
    table = with_constants(make_plan(found, request, by_hooks=True, wording=_WORDING), constants)
    return table, replace(options, inputs=inputs)


def probe(
    request: Request, device: str, inputs: Inputs | None, sights: Sights
) -> tuple[Probe, Inputs | None]:
    """See the model at the sizes to compare: once in earnest, at the base width, and else on `device`.

    Args:
        request: What the user asks for.
        device: ``"meta"`` (no memory, no time), or where to build in earnest.
        inputs: What the model is called with; ``None`` to find something.
        sights: What was seen of the factory's models before, and will be seen now.

    Returns:
        What was found, and what the model was called with.

    Raises:
        PlanError: If the factory fails or returns no module.
    """
    models = _Models(request, device, sights)
    said = (request.base, request.target, request.width, request.depth)
    sizes, base = compared(*said), dict(request.base)
    if AXIS in sizes.others and more_of(
        models.described(sizes.narrow), models.described(sizes.others[AXIS])
    ):
        sizes, base[AXIS] = at_targets_number(*said), request.target[AXIS]
    narrow, widened = sizes.narrow, sizes.widened
    spreads, same = models.spreads(narrow), narrow[request.width] == widened[request.width]
    one, wider = models.described(narrow), models.described(widened)
    wide = models.described(sizes.wide) if same else wider
    two = models.described(request.target)
    others = {axis: models.described(given) for axis, given in sizes.others.items()}
    shallow, shallow_spreads = None, {}
    if request.deeper != 1:
        # In earnest too: what the factory draws may depend on the depth.
        shallow_spreads = models.spreads(base)
        shallow = models.described(base)
    many = {axis: more for axis, other in others.items() if (more := more_of(one, other))}
    others = {a: with_mates(m, one) if a in many else m for a, m in others.items()}
    passes, inputs = models.passes(sizes, sizes.wide if same else widened, inputs)
    along = models.along(sizes, inputs)
    if passes is not None:
        uses = passes.narrow.uses
        one, wide, wider, two = (explained(m, uses) for m in (one, wide, wider, two))
        shallow = None if shallow is None else explained(shallow, uses)
        others = {axis: explained(m, uses) for axis, m in others.items()}

    def further() -> tuple[ModelDescription, Fraction]:
        times = _FAR if device == "meta" else _NEAR
        far = {**narrow, request.width: times * request.base[request.width]}
        return models.described(far), Fraction(times)

    found = Probe(
        one,
        wide,
        sizes.ratio,
        two,
        shallow,
        spreads,
        passes,
        shallow_spreads,
        further=further,
        widened=wider,
        others=others,
        other_passes=along,
        many=many,
    )
    return found, inputs


class _Models:
    """A factory's models, each built once for as long as it is looked at, and not at all where it was seen before.

    Args:
        request: What the user asks for.
        device: Where shapes are learnt.
        sights: What was seen before.
    """

    def __init__(self, request: Request, device: str, sights: Sights) -> None:
        self._request, self._device, self._sights = request, device, sights
        self._earnest = "cpu" if device == "meta" else device
        self._built: dict[str, nn.Module] = {}

    def spreads(self, sizes: Mapping[str, Any]) -> dict[str, Spread]:
        """How the factory draws, at the sizes of a model in earnest."""

        def drawn() -> dict[str, Spread]:
            model = self._model(sizes, self._earnest)
            _refuse_quantised(model)
            # Its shapes are those that it has anywhere.
            self._once("shapes", sizes, lambda: describe(model))
            return {n: told(moments(p, n), p.numel()) for n, p in places(model).items()}

        return self._once("spreads", sizes, drawn)

    def described(self, sizes: Mapping[str, Any]) -> ModelDescription:
        """Names, shapes and axes."""
        return self._once("shapes", sizes, lambda: describe(self._model(sizes, self._device)))

    def passes(
        self, sizes: Compared, wide: Mapping[str, Any], inputs: Inputs | None
    ) -> tuple[Passes | None, Inputs | None]:
        """The forward pass at two widths, whichever were first looked at."""

        def looked() -> tuple[Passes | None, Inputs | None]:
            narrow = self._model(sizes.narrow, self._earnest)
            ways: list[Way] = [(sizes.ratio, lambda: self._model(wide, self._device))]
            if self._device == "meta":
                ways.append((Fraction(2), lambda: self._model(sizes.twice, self._earnest)))
            with undisturbed():
                return look(narrow, ways, inputs)

        return self._once("passes", sizes.narrow, looked)

    def along(self, sizes: Compared, inputs: Inputs | None) -> dict[str, Passes]:
        """The forward pass along an inner width, by which a model's code may multiply."""
        if "rank" not in sizes.others or inputs is None:
            return {}
        low, ratio = sizes.others["rank"], ratios_of(self._request.base, self._request.target)

        def looked() -> Passes | None:
            narrow = self._model(sizes.narrow, self._earnest)
            with undisturbed():
                way = ratio["rank"], lambda: self._model(low, self._device)
                return look(narrow, [way], inputs)[0]

        passes = self._once("passes along", low, looked)
        return {} if passes is None else {"rank": passes}

    def _once(self, what: str, sizes: Mapping[str, Any], look: Callable[[], T]) -> T:
        return self._sights.once(what, taken(self._request.build, sizes), look)

    def _model(self, sizes: Mapping[str, Any], device: str) -> nn.Module:
        key = repr((sorted(taken(self._request.build, sizes).items()), device))
        if key not in self._built:
            self._built[key] = _built(self._request.build, sizes, device)
        return self._built[key]


def _refuse_quantised(model: nn.Module) -> None:
    """Weights of a few bits are packed away, where no optimizer reaches them."""
    for key, held in model.state_dict().items():
        leaves = pytree.tree_leaves(held)
        packed = [
            x
            for x in leaves
            if isinstance(x, torch.ScriptObject) or (isinstance(x, torch.Tensor) and x.is_quantized)
        ]
        if packed:
            raise PlanError(
                f"The model holds quantised weights (`{key.partition('._')[0]}`), which are not trained. Plan the "
                "model as it is before it is quantised; what is trained may be quantised afterwards."
            )


def _built(build: Factory, sizes: Mapping[str, Any], device: str) -> nn.Module:
    sizes = taken(build, sizes)
    call = f"build({', '.join(f'{k}={v!r}' for k, v in sizes.items())})"
    try:
        with undisturbed(), torch.device(device), RepeatedDraws():
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
