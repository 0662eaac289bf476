"""Property of the lists of mutants: they fit the sources and leave nothing out (`make mutants` runs them)."""

import importlib.util
import sys
from collections import Counter
from pathlib import Path
from types import CodeType

import pytest

from code_changes import Living, differences
from grids import thorough
from mutant_runs import broken
from mutants import MUTANTS, PACKAGE, ROOT, Mutant, digest, record
from scalewise.observables import OBSERVABLES

# Letters of what is measured, by the names of the table of observables.
LETTERS = {"kernel": "metric", "metric_nlo": "H1", "four_point_vertex": "V", "ntk": "mean NTK"}
LETTERS |= {"ntk_nlo": "H1"}
# What computes nothing: names, shapes, order of the work, and the form of the result.
PLAIN = {"__init__.py", "_predict.py", "_variables.py", "spi.py", "spi_jax.py"}


def _misfit(mutant: Mutant) -> str:
    found = (PACKAGE / mutant.file).read_text().count(mutant.old)
    if found != 1 or mutant.old == mutant.new:
        return f"{mutant.name}: found {found} times in {mutant.file}"
    for test in mutant.tests:
        file, _, function = test.partition("::")
        if not (ROOT / file).exists() or (
            f"def {function}(" not in (ROOT / file).read_text() and function
        ):
            return f"{mutant.name}: {test} does not exist"
    return ""


def test_mutants_fit_the_sources() -> None:
    assert [misfit for mutant in MUTANTS if (misfit := _misfit(mutant))] == []


def test_names_are_told_apart() -> None:
    assert [name for name, count in Counter(m.name for m in MUTANTS).items() if count > 1] == []


def test_every_tensor_is_broken_and_their_one_rule_in_many_ways() -> None:
    names = Counter(m.name.split(":")[0] for m in MUTANTS if m.file.startswith("theory/"))
    for letter in ("V", "G1", "D", "A", "F", "B", "H1", "P", "Q", "R", "S", "T", "U"):
        assert names[letter] >= 1, letter
    assert names["rule"] >= 10
    assert names["one label"] >= 10
    assert names["reader"] + names["flow"] + names["stream"] >= 12


def test_every_estimator_is_broken() -> None:
    names = {m.name.split(":")[0].removeprefix("measured ") for m in MUTANTS if "nets/" in m.file}
    for observable in OBSERVABLES:
        assert LETTERS.get(observable, observable.split("_")[-1]) in names, observable


def test_every_module_of_the_theory_is_broken() -> None:
    files = (PACKAGE / "theory").rglob("*.py")
    modules = {str(p.relative_to(PACKAGE)) for p in files if p.name not in PLAIN}
    assert sorted(modules - {m.file for m in MUTANTS}) == []


def test_the_record_counts_every_mutant_and_names_survivors() -> None:
    first, second = MUTANTS[:2]
    page = record({digest(first): True, digest(second): False}, "Quick.")
    assert page.endswith("\n\nQuick.\n")
    assert f"| all | {len(MUTANTS)} | 1 | 1 | {len(MUTANTS) - 2} |" in page
    assert f"- {first.name} (" in page
    assert second.name not in page


BEFORE = """
import functools

TABLE = {"a": 1.0}

def decorated(function):
    @functools.wraps(function)
    def call(*args):
        return function(*args)
    return call

def ran(x):
    return x + 1

TWO = ran(1)

def maker(n):
    return lambda x: x * n

triple = maker(3)

class Noun:
    size: int = 1

    @property
    @decorated
    def area(self):
        return self.size**2

    @classmethod
    def named(cls, x=2):
        return sum([x * k for k in range(3)])

@functools.cache
def plain(x):
    return (lambda y: y - 1)(x)
"""
REACHED = {  # a change, and what then has another value
    "self.size**2": ("self.size**3", lambda m: type("Two", (m.Noun,), {"size": 2})().area, 4, 8),
    "x * k": ("x + k", lambda m: m.Noun.named(), 6, 9),
    "x * n": ("x - n", lambda m: m.triple(5), 15, 2),
    "y - 1": ("y - 1.5", lambda m: m.plain(4), 3, 2.5),
}
OUT_OF_REACH = {  # constants, defaults, fields, decorators, what ran, another number of free variables
    "1.0": "2.0",
    "x=2": "x=3",
    "size: int = 1": "size: int = 2",
    "@property\n    @decorated": "@property",
    "x + 1": "x + 2",
    "function(*args)": "args[0]",
    "@functools.cache\n": "",
}


def _imported(folder: Path) -> tuple[Living, Path, object]:
    file = folder / "before.py"
    file.write_text(BEFORE)
    living = Living(folder)
    spec = importlib.util.spec_from_file_location("before", file)
    module = importlib.util.module_from_spec(spec)
    profile = sys.getprofile()
    living.watch()
    spec.loader.exec_module(module)
    living.settle()
    sys.setprofile(profile)
    return living, file, module


@pytest.mark.parametrize("old", REACHED)
def test_code_is_exchanged_behind_whatever_wraps_it(tmp_path: Path, old: str) -> None:
    new, value, before, after = REACHED[old]
    living, file, module = _imported(tmp_path)
    if old != "y - 1":  # a cache that was filled before would keep its value
        assert value(module) == before
    exchanges = living.exchanges(file, BEFORE, BEFORE.replace(old, new))
    assert exchanges
    for function, code in exchanges:
        function.__code__ = code
    assert value(module) == after


def test_what_no_exchange_reaches_is_refused(tmp_path: Path) -> None:
    living, file, _ = _imported(tmp_path)
    for old, new in OUT_OF_REACH.items():
        assert BEFORE.count(old) == 1, old
        assert living.exchanges(file, BEFORE, BEFORE.replace(old, new)) is None, old
    assert living.exchanges(file, BEFORE, BEFORE + "# nothing\n") == []


@pytest.mark.parametrize("every", [4, *thorough(1)])
def test_every_mutant_changes_what_is_computed_and_few_need_a_process_of_their_own(
    every: int,
) -> None:
    python = [m for m in MUTANTS[::every] if m.file.endswith(".py")]
    whole = {file: _compiled((PACKAGE / file).read_text()) for file in {m.file for m in python}}
    changes = {m: list(differences(whole[m.file], _compiled(broken(m)))) for m in python}
    assert [m.name for m, found in changes.items() if not found] == []
    module = [found for found in changes.values() if found[0][0].co_name == "<module>"]
    assert len(module) < len(python) / 20


def _compiled(text: str) -> CodeType:
    return compile(text, "file", "exec", dont_inherit=True)
