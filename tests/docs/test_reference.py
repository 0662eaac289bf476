"""Conformance of the reference: every public name says what it is and what each of its parameters is."""

import inspect
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType

import pytest

EXTENSIONS = Path(__file__).resolve().parents[2] / "docs" / "_extensions"


@pytest.fixture(scope="module")
def strict() -> Iterator[ModuleType]:
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(str(EXTENSIONS))
        import strict

        yield strict


def test_every_public_name_says_what_it_is(strict: ModuleType) -> None:
    assert strict.complaints() == []


def test_what_is_left_out_is_named(strict: ModuleType) -> None:
    def bare(a): ...

    def silent(a, b):
        """Two things."""

    def half(a, b=1, *more):
        """Two things.

        Args:
            a: One.
            *more: Further ones: many.
        """

    def in_words(sigma, q):
        r"""Of `sigma`, $q_\\ell$ or ``None``."""

    @dataclass
    class Base:
        """A row.

        Args:
            name: Of it.
        """

        name: str

        def read(self, at):
            """At `at`."""

    @dataclass
    class Row(Base):
        """Another; see `Base`."""

        size: int = 0
        call: object = bare  # a field is not a method

        def read(self, at):
            """Another way."""

        def write(self, to):
            """Somewhere."""

        @property
        def shape(self): ...

    found = {
        obj.__name__: [line.partition(" ")[2] for line in strict.unsaid(obj.__name__, obj)]
        for obj in (bare, silent, half, in_words, Base)
    }
    assert found == {
        "bare": ["has no docstring."],
        "silent": ["docstring of silent lists no a, b."],
        "half": ["docstring of half lists no b."],
        "in_words": [],
        "Base": [],
    }
    assert list(strict.unsaid("Row", Row)) == [
        "The docstring of Row.write lists no to.",
        "Row.shape has no docstring.",
        "The docstring of Row lists no size, call.",
    ]


def test_links_and_formulas_of_docstrings(strict: ModuleType) -> None:
    import names

    told = names.typeset(
        "The kernel $K$ of `predict`, `x` and ``y``.\n\n$$a\n  =b$$\n\n>>> $untouched$\n\nSource: PDLT (4.5)."
    )
    assert ":math:`K`" in told
    assert ":py:obj:`predict <scalewise.theory.predict>`" in told or ":py:obj:`predict <" in told
    assert "``x``" in told
    assert "   a\n   =b" in told
    assert ">>> $untouched$" in told
    assert ":ref:`(4.5) <eq-pdlt-equation-4-5>`" in told
    assert names.linked("no_such_name") is None
    assert inspect.ismodule(names)


def test_public_names_stand_where_users_import_them(strict: ModuleType) -> None:
    import names

    import scalewise

    for name in scalewise.__all__:
        obj = getattr(scalewise, name)
        if not inspect.ismodule(obj):
            assert names.HOME[id(obj)] == f"scalewise.{name}"


def test_every_module_has_a_group_and_a_line(strict: ModuleType) -> None:
    reference = pytest.importorskip("reference", reason="the site is built with the extra docs")
    grouped = reference._grouped()
    assert sorted(room for rooms in grouped.values() for room in rooms) == sorted(reference.ROOMS)
    assert list(grouped) == [title for title, _, _ in reference.GROUPS]
    assert all(grouped.values())
    assert list(grouped)[-1] == "Experiments"
    assert [room for room in reference.ROOMS if not reference._summary(room)] == []
    text = reference._index()
    assert (
        text.index("`scalewise <scalewise>`") < text.index("`theory") < text.index("`experiments")
    )
