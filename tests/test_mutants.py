"""Property of the list of mutants: each still fits the sources (running them is `make mutants`)."""

import pytest

from mutants import MUTANTS, ROOT, Mutant


@pytest.mark.parametrize("mutant", MUTANTS, ids=lambda m: m.name)
def test_mutant_fits_the_sources(mutant: Mutant) -> None:
    text = (ROOT / "src" / "scalewise" / mutant.file).read_text()
    assert text.count(mutant.old) == 1
    assert mutant.old != mutant.new
    assert all((ROOT / test).exists() for test in mutant.tests)


def test_every_recursion_is_broken_somewhere() -> None:
    assert {m.name.split(":")[0] for m in MUTANTS} == {"K", "V", "G1", "Theta"}
