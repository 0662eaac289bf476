"""A change of a source file carried over to modules that are already imported.

Two versions of a file are compiled and compared, code object by code object. Where they differ inside of
functions that have not run yet, exchanging the code of the living functions does all that importing the new
version would have done. Elsewhere (constants, tables, fields, decorators, what ran while modules were
imported) it would not, and no exchange is made. Names and decorators play no part: functions are found among
all objects of the process, whatever wraps them.
"""

from __future__ import annotations

import gc
import sys
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path
from types import CodeType, FrameType, FunctionType

Identity = tuple[str, str, int, bytes]


def identity(code: CodeType) -> Identity:
    """Where the code stands in the sources; equal for what two compilations of one text give."""
    return code.co_filename, code.co_qualname, code.co_firstlineno, code.co_linetable


def differences(old: CodeType, new: CodeType) -> Iterator[tuple[CodeType, CodeType, bool]]:
    """Pairs of code objects that differ, and whether in themselves or only in what they contain."""
    if _own(old) != _own(new):
        yield old, new, True
        return
    inner = [d for pair in zip(_nested(old), _nested(new), strict=True) for d in differences(*pair)]
    yield from inner
    if inner:
        yield old, new, False


def _nested(code: CodeType) -> list[CodeType]:
    return [constant for constant in code.co_consts if isinstance(constant, CodeType)]


def _own(code: CodeType) -> tuple[object, ...]:
    # All that decides what the code does, but not on which lines it stands; 1 and True are told apart.
    constants = [
        "code" if isinstance(c, CodeType) else (type(c).__name__, repr(c)) for c in code.co_consts
    ]
    counts = code.co_argcount, code.co_posonlyargcount, code.co_kwonlyargcount, code.co_flags
    names = code.co_name, code.co_names, code.co_varnames, code.co_freevars, code.co_cellvars
    return (code.co_code, code.co_exceptiontable, constants, counts, names)


class Living:
    """The functions of a folder of sources, and which of its code has run since ``watch`` was called."""

    def __init__(self, folder: Path) -> None:
        self._folder = str(folder)
        self._seen: dict[int, CodeType] = {}
        self._ran: set[Identity] = set()
        self._functions: dict[Identity, list[FunctionType]] = defaultdict(list)

    def watch(self) -> None:
        """Note from now on what runs."""
        seen = self._seen

        def note(frame: FrameType, event: str, _: object) -> None:
            if event == "call":
                seen[id(frame.f_code)] = frame.f_code

        sys.setprofile(note)

    def settle(self) -> None:
        """Stop to note; find all functions there are."""
        sys.setprofile(None)
        ours = (c for c in self._seen.values() if c.co_filename.startswith(self._folder))
        self._ran = {identity(code) for code in ours}
        for found in gc.get_objects():
            if type(found) is FunctionType and found.__code__.co_filename.startswith(self._folder):
                self._functions[identity(found.__code__)].append(found)

    def exchanges(
        self, file: Path, old: str, new: str
    ) -> list[tuple[FunctionType, CodeType]] | None:
        """What to exchange so that `file` does what `new` says instead of `old`; None if that is not enough."""
        versions = (compile(text, str(file), "exec", dont_inherit=True) for text in (old, new))
        exchanges: list[tuple[FunctionType, CodeType]] = []
        for before, after, itself in differences(*versions):
            functions = self._functions[identity(before)]
            if (itself and identity(before) in self._ran) or (
                functions and before.co_freevars != after.co_freevars
            ):
                return None
            exchanges += [(function, after) for function in functions]
        return exchanges
