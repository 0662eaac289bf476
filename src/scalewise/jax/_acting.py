"""Under what name each tensor of jax is measured, and what stands for the module that shows it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from scalewise.plan import Plan, Role
from scalewise.plan.spi import ModulePlaces


@dataclass(frozen=True)
class Acting:
    """The tensors of a model where they act.

    A place is called like the owner of the tensor that writes there, or like that tensor if others of the owner
    write elsewhere.

    Args:
        table: The plan.
        written: Each output: its tensor, whether rows of that are picked, and all tensors with a part in it.
    """

    table: Plan
    written: tuple[tuple[str, bool, tuple[str, ...]], ...]

    def is_tied(self, name: str) -> bool:
        """True if an embedding reads out too."""
        row, ways = self.table[name], {looked for n, looked, _ in self.written if n == name}
        return row.role is Role.INPUT and bool(row.aliases) and ways == {True, False}

    def name(self, name: str, *, looked_up: bool) -> str:
        """The name of a tensor where its rows are picked, or where it is multiplied with."""
        row = self.table[name]
        if not self.is_tied(name):
            return row.name
        both = (row.name, *row.aliases)
        acts = next((n for n in both if n.rpartition(".")[0] == row.owner), both[0])
        return acts if looked_up else next(n for n in both if n != acts)

    def readouts(self, names: Iterable[str]) -> tuple[str, ...]:
        """Those that read out, by the name that they have there."""
        found = (n for n in names if self.table[n].role is Role.OUTPUT or self.is_tied(n))
        return tuple(self.name(n, looked_up=False) for n in found)

    def places(self, readouts: Iterable[str], attends: Iterable[str]) -> ModulePlaces:
        """Where tensors act, in the order in which they do."""
        labels = self._labels()
        module: dict[str, str] = {}
        for name, looked, parts in self.written:
            label = labels[self.name(name, looked_up=looked)]
            module.setdefault(self.name(name, looked_up=looked), label)
            for other in (n for n in parts if n != name):
                module.setdefault(self.table[other].name, label)
        order = tuple(dict.fromkeys(module.values()))
        reads = {module[n] for n in readouts if n in module}
        return ModulePlaces(module, order, tuple(m for m in order if m in reads), tuple(attends))

    def _labels(self) -> Mapping[str, str]:
        names = list(dict.fromkeys(self.name(n, looked_up=looked) for n, looked, _ in self.written))
        owners = {n: n.rpartition(".")[0] for n in names}
        many = Counter(owners.values())
        return {n: o if o and many[o] == 1 else n for n, o in owners.items()}
