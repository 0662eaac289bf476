"""Attention logits of real networks, in passes of their own beside the model's."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from typing import Any

import torch
from torch import Tensor, nn
from torch.func import functional_call

from scalewise.plan.spi import Logits, bare
from scalewise.torch._trace import watching


class LogitRecorder:
    """The logits that the own code of some modules makes, and what the modules' own steps did to them.

    Args:
        places: Names of the modules.
        old: Earlier values of tensors by name; with none only logits are recorded.
        start: For each module its logits at each call.
        moved: For each module and call the logits with the earlier tensors of the module, and with the new ones,
            on what the module is given.
    """

    def __init__(self, places: tuple[str, ...], old: Mapping[str, Tensor]) -> None:
        self.start: dict[str, list[Tensor]] = {}
        self.moved: dict[str, list[tuple[Logits, Logits]]] = {}
        self._places, self._old = places, old

    @contextmanager
    def listening(
        self, model: nn.Module, alone: Callable[[], AbstractContextManager[bool]]
    ) -> Iterator[None]:
        """Hooks on the modules, taken off at the end whatever happens.

        Args:
            model: The model.
            alone: Silences other hooks; false if it is silence already.
        """
        hooks = []
        for name in self._places:
            module, (enter, leave) = model.get_submodule(name), self._hooks(name, alone)
            hooks.append(module.register_forward_pre_hook(enter, with_kwargs=True))
            hooks.append(module.register_forward_hook(leave, with_kwargs=True))
        try:
            yield
        finally:
            for hook in hooks:
                hook.remove()

    def _hooks(
        self, name: str, alone: Callable[[], AbstractContextManager[bool]]
    ) -> tuple[Callable[..., None], Callable[..., None]]:
        waiting: list[Any] = []
        own = bare(name, ())
        prefix = f"{name}." if name else ""
        mine = {n.removeprefix(prefix): t for n, t in self._old.items() if n.startswith(prefix)}

        def enter(module: nn.Module, args: Any, kwargs: Any) -> None:
            with alone() as first:
                if first:
                    # As it is before the module works on it: a cache of keys grows at every call.
                    waiting.append(_untouched((args, kwargs)))

        def leave(module: nn.Module, *_: Any) -> None:
            with alone() as first:
                if not first:
                    return
                given = waiting.pop()
                new = _logits(module, {}, given)
                self.start.setdefault(own, []).extend(found.values for found in new)
                # What is not trained does not move.
                was = _logits(module, mine, given) if mine else new if self._old else []
                if new and [t.values.shape for t in new] == [t.values.shape for t in was]:
                    self.moved.setdefault(own, []).extend(zip(was, new, strict=True))

        return enter, leave


def _logits(module: nn.Module, values: dict[str, Tensor], given: Any) -> list[Logits]:
    """Logits that the module's own code makes, with some of its tensors replaced."""
    args, kwargs = _untouched(given)
    with torch.no_grad(), same_random_numbers(), watching(module, (args, kwargs)) as trace:
        functional_call(module, values, args, kwargs)
    return [found for found in trace.attentions() if not found.place]


def _untouched(value: Any) -> Any:
    """A copy of the containers and objects that a module may change, with the same tensors in them."""
    kept: dict[int, Any] = {}
    seen: set[int] = set()
    todo = [value]
    while todo:
        part = todo.pop()
        if isinstance(part, Tensor | nn.Module):
            kept[id(part)] = part
        elif id(part) not in seen:
            seen.add(id(part))
            if isinstance(part, Mapping):
                todo.extend(part.values())
            elif isinstance(part, list | tuple | set):
                todo.extend(part)
            elif hasattr(part, "__dict__") and not isinstance(part, type):
                todo.extend(vars(part).values())
    return copy.deepcopy(value, kept)


@contextmanager
def same_random_numbers() -> Iterator[None]:
    """Whatever is drawn inside is drawn again by what follows."""
    devices = list(range(torch.cuda.device_count())) if torch.cuda.is_initialized() else []
    with torch.random.fork_rng(devices=devices):
        yield
