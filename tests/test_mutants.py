"""Property of the lists of mutants: they fit the sources and leave nothing out (`make mutants` runs them)."""

from collections import Counter

from mutants import MUTANTS, ROOT, Mutant, digest, record
from scalewise.observables import OBSERVABLES

SOURCES = ROOT / "src" / "scalewise"
# Letters of what is measured, by the names of the table of observables.
LETTERS = {"kernel": "metric", "metric_nlo": "H1", "four_point_vertex": "V", "ntk": "mean NTK"}
LETTERS |= {"ntk_nlo": "H1"}
# What computes nothing: names, shapes, order of the work, and the form of the result.
PLAIN = {"__init__.py", "_predict.py"}


def _misfit(mutant: Mutant) -> str:
    found = (SOURCES / mutant.file).read_text().count(mutant.old)
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


def test_every_recursion_is_broken_in_three_ways() -> None:
    for folder, prefix in (("theory/", ""), ("theory/", "one ")):
        names = Counter(m.name.split(":")[0] for m in MUTANTS if m.file.startswith(folder))
        least = 1 if prefix else 3
        for letter in ("V", "G1", "D", "A", "F", "B", "H1", "P", "Q", "R", "S", "T", "U"):
            assert names[prefix + letter] >= least, prefix + letter


def test_every_estimator_is_broken() -> None:
    names = {m.name.split(":")[0].removeprefix("measured ") for m in MUTANTS if "nets/" in m.file}
    for observable in OBSERVABLES:
        assert LETTERS.get(observable, observable.split("_")[-1]) in names, observable


def test_every_module_of_the_theory_is_broken() -> None:
    files = (SOURCES / "theory").rglob("*.py")
    modules = {str(p.relative_to(SOURCES)) for p in files if p.name not in PLAIN}
    assert sorted(modules - {m.file for m in MUTANTS}) == []


def test_the_record_counts_every_mutant_and_names_survivors() -> None:
    first, second = MUTANTS[:2]
    page = record({digest(first): True, digest(second): False})
    assert f"| all | {len(MUTANTS)} | 1 | 1 | {len(MUTANTS) - 2} |" in page
    assert f"- {first.name} (" in page
    assert second.name not in page
