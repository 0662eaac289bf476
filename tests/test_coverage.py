"""Conformance: what the sources hold is computed by functions that say so and held by tests marked with it."""

from coverage_table import PAGE, Place, checklist, coverage, kinds_of, marked, page, places


def test_every_entry_has_a_function_and_a_test() -> None:
    without = {code: row for code, row in coverage().items() if not all(row)}
    assert without == {}


def test_marks_name_entries_and_files_say_which_kind_they_are() -> None:
    known = checklist()
    wrong = [(test, code) for test in marked() for code in test.codes if code not in known]
    assert wrong == []
    assert [test for test in marked() if not test.codes or not kinds_of(test.file)] == []


def test_places_are_read_as_people_write_them() -> None:
    def named(text: str) -> set[Place]:
        return set(places(text))

    assert named("PDLT (8.77)-(8.97), (∞.4)") == {
        Place("PDLT", ("equation", "8"), 77, 97),
        Place("PDLT", ("equation", "∞"), 4, 4),
    }
    assert named("Yaida (A4); Golikov, Appendix A, Lemmas 1-3, (33)") == {
        Place("Yaida", ("equation", "A"), 4, 4),
        Place("Golikov", ("appendix",), 65, 65),
        Place("Golikov", ("lemma",), 1, 3),
        Place("Golikov", ("equation",), 33, 33),
    }
    [deep] = named("TP4 J.2.3")
    [above] = named("TP4 J.2")
    [beside] = named("TP4 J.1")
    [equation] = named("TP4 (2.3)")
    assert deep.meets(above)
    assert above.meets(deep)
    assert not deep.meets(beside)
    assert not deep.meets(equation)


def test_the_page_is_up_to_date() -> None:
    assert PAGE.read_text() == page(), "run python tests/coverage_table.py"
