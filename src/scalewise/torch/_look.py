"""Running a model once at each of two widths, on whatever it takes, to see what its forward pass does."""

from __future__ import annotations

import inspect
import math
import warnings
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from contextlib import nullcontext
from dataclasses import replace
from fractions import Fraction

import torch
from torch import Tensor, nn
from torch.utils import _pytree as pytree

from scalewise._warn import warn
from scalewise.plan import PlanError
from scalewise.plan.spi import Forward, Inputs, Passes, PlanWarning, nothing_returned
from scalewise.torch._nested import tensors_in
from scalewise.torch._trace import watching

# A way to the model at another width: that width over the first, and what makes the model.
Way = tuple[Fraction, Callable[[], nn.Module]]

# Sides of an image and lengths of a sequence that are tried.
_SIDES, _LENGTHS = (8, 16, 32, 28, 64, 96, 128, 224), (4, 8, 16)
_LAYERS, _TRIALS, _LONGEST = 3, 120, 4096
_HERE = torch.device("cpu")
_UNSEEN = (
    "The forward pass of the model could not be run on any input that was tried, so what it multiplies by, and "
    "whether attention heads grow in it, is not known to the plan. Say what the model is called with: inputs=..., "
    "one tensor, a tuple of arguments, or a dict of named ones."
)


def _on_device(inputs: Inputs, device: torch.device) -> Inputs:
    """A structure with its tensors on a device."""
    args, kwargs = pytree.tree_map(
        lambda v: v.to(device) if isinstance(v, Tensor) else v, (inputs.args, dict(inputs.kwargs))
    )
    return Inputs(args, kwargs)


def look(
    narrow: nn.Module, ways: Iterable[Way], inputs: Inputs | None
) -> tuple[Passes | None, Inputs | None]:
    """The forward pass at two widths, as it was seen.

    Args:
        narrow: The model at the narrower width, in earnest.
        ways: To the model at another, cheapest first.
        inputs: What to call it with; ``None`` to try.

    Returns:
        What was seen and what the model was called with; nothing where no input was found that all take.

    Raises:
        PlanError: If the model cannot be called with the inputs that were given.
    """
    if type(narrow).forward is nn.Module.forward:
        return None, inputs
    first, problem = None, None
    for trial in _trials(narrow) if inputs is None else [inputs]:
        try:
            first, inputs = seen(narrow, trial), trial
            break
        except PlanError:
            raise
        except Exception as error:
            problem = error
    if first is None or inputs is None:
        if inputs is not None:
            raise PlanError(
                f"The model cannot be called with the `inputs` given: {type(problem).__name__}: {problem}. "
                "Give what it is called with: one tensor, a tuple of arguments, or a dict of named ones."
            ) from problem
        warn(_UNSEEN, PlanWarning)
        return None, None
    for ratio, make in ways:
        try:
            return Passes(first, seen(make(), inputs, first.filled), ratio), inputs
        except Exception as error:
            problem = error
    raise PlanError(
        "The model runs at the base width, but not at another width on the same input: "
        f"{type(problem).__name__}: {problem}. What the model is called with must not depend on the width."
    )


def seen(model: nn.Module, inputs: Inputs, filled: Collection[str] = frozenset()) -> Forward:
    """One pass, in evaluation mode and without gradients; see `Forward` for `filled`."""
    device = next((p.device for p in model.parameters()), torch.device("cpu"))
    inputs = _on_device(inputs, device)
    model.eval()
    # Numbers that the code makes have values even where the weights have none.
    earnest = _HERE if device.type == "meta" else device
    # To say what is so already costs every operation some time.
    there = nullcontext() if torch.get_default_device() == earnest else earnest
    with warnings.catch_warnings(), torch.no_grad(), there:
        warnings.simplefilter("ignore")
        with watching(model, (inputs.args, inputs.kwargs), filled) as trace:
            output = model(*inputs.args, **inputs.kwargs)
    known = [t for t in tensors_in(output) if trace.value(t) is not None]
    if not known:
        raise PlanError(nothing_returned(output))
    trace.flow.bent([v for t in known if (v := trace.value(t)) is not None])
    paths = trace.tracks.paths(map(trace.passed, known))
    told = trace.flow.summary()
    return replace(
        told,
        uses=trace.uses.uses() | trace.flow.used(),
        paths=paths,
        filled=frozenset(trace.filled),
        pieces=trace.pieces.read(),
    )


def _trials(model: nn.Module) -> Iterator[Inputs]:
    """Inputs that the model may take: tokens, numbers, images, sequences, as its layers suggest.

    Each is made when the one before it was refused.
    """
    wanted = _arguments(model)
    kinds = (p.dtype for p in model.parameters() if p.is_floating_point() or p.is_complex())
    kind = next(kinds, torch.float32)
    for count, array in enumerate(_arrays(model)):
        one = array.to(kind) if array.is_floating_point() else array
        if count == _TRIALS:
            return
        yield Inputs((one,) * max(wanted, 1))
        if wanted == 2:
            yield Inputs((one, torch.ones(len(one), dtype=kind, device=_HERE)))
            yield Inputs((one, torch.zeros(len(one), dtype=torch.long, device=_HERE)))
    # Models of `transformers` say themselves what they can be called with.
    with _HERE:
        dummies = getattr(model, "dummy_inputs", None)
    if isinstance(dummies, Mapping):
        yield Inputs((), dict(dummies))


def _arguments(model: nn.Module) -> int:
    """How many arguments the forward pass cannot do without."""
    try:
        parameters = inspect.signature(model.forward).parameters.values()
    except (TypeError, ValueError):
        return 1
    plain = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
    return sum(p.kind in plain and p.default is inspect.Parameter.empty for p in parameters)


def _arrays(model: nn.Module) -> Iterator[Tensor]:
    modules = list(model.modules())
    tables = [m for m in modules if isinstance(m, nn.Embedding | nn.EmbeddingBag)]
    bare = [p for m in modules for p in m.parameters(recurse=False) if p.ndim > 1 and _is_bare(m)]
    # A position for each token or patch fixes how many there are.
    fixed = [p.shape[-2] for p in bare] + [t.num_embeddings for t in tables]
    if tables:
        words = min(t.num_embeddings for t in tables)
        for length in dict.fromkeys((*_LENGTHS, *fixed)):
            if length <= _LONGEST:
                yield (torch.arange(2 * length, device=_HERE) % words).reshape(2, length)
    layers = [m for m in modules if _inputs_of(m) is not None][:_LAYERS]
    for layer in layers:
        size, axes, stride = _inputs_of(layer) or (0, 0, 1)
        yield from _numbers(size, axes, stride, fixed)
    for p in bare[:_LAYERS]:
        yield torch.ones(2, p.shape[0], device=_HERE)
        yield torch.ones(2, p.shape[-1], device=_HERE)


def _is_bare(module: nn.Module) -> bool:
    return not type(module).__module__.startswith("torch.nn.")


def _inputs_of(module: nn.Module) -> tuple[int, int, int] | None:
    """How many numbers a layer takes, over how many axes it slides, and by what step."""
    for name in ("in_channels", "in_features", "input_size", "in1_features", "embed_dim"):
        size = getattr(module, name, None)
        if isinstance(size, int) and not isinstance(size, bool):
            stride = getattr(module, "stride", 1)
            axes = len(stride) if isinstance(stride, tuple) else 0
            return size, axes, stride[0] if isinstance(stride, tuple) else 1
    return None


def _numbers(size: int, axes: int, stride: int, fixed: list[int]) -> Iterator[Tensor]:
    """Arrays of numbers that a layer may take."""
    if not axes:
        yield torch.ones(2, size, device=_HERE)
        for length in (n for n in dict.fromkeys((4, *fixed)) if n <= _LONGEST):
            yield torch.ones(2, length, size, device=_HERE)
        return
    roots = [math.isqrt(n - more) for n in fixed for more in (0, 1, 2) if n > more]
    sides = [r * stride for r in roots if any(r * r == n - m for n in fixed for m in (0, 1, 2))]
    for side in dict.fromkeys((*sides, *_SIDES)):
        if side <= 1024:
            yield torch.ones(2, size, *(side,) * axes, device=_HERE)
