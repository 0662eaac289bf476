"""Conformance of the notebooks: the first cell installs what its page needs, only where scalewise is missing."""

import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

pytest.importorskip("jupytext", reason="pages become notebooks by jupytext, of the extra docs")
pytest.importorskip("sphinx", reason="and by sphinx")

DOCS = Path(__file__).resolve().parents[2] / "docs"


@pytest.fixture
def notebooks(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    monkeypatch.syspath_prepend(str(DOCS / "_extensions"))
    import notebooks

    return notebooks


def test_a_notebook_installs_what_its_page_names(
    notebooks: ModuleType, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    shells = pytest.importorskip("IPython.core.interactiveshell")
    made = notebooks.notebook_of(
        "# Page\n\nIt needs `pip install '.[torch,sweep]'`.\n\n```python\n1\n```\n"
    )
    first = made.cells[0].source
    assert [cell.cell_type for cell in made.cells] == ["code", "markdown", "code"]
    assert notebooks.notebook_of("# Page\n").cells[0].source.count(f"[{notebooks.USUAL}]") == 1
    asked: list[Any] = []
    shell = shells.InteractiveShell.instance()
    shell.register_magic_function(asked.append, magic_name="pip")
    monkeypatch.chdir(tmp_path)
    for missing, wheel, want in (
        (False, False, []),
        (True, False, ['install --quiet "scalewise[torch,sweep]"']),
        (True, True, ['install --quiet "scalewise-1-py3-none-any.whl[torch,sweep]"']),
    ):
        asked.clear()
        if wheel:
            Path("scalewise-1-py3-none-any.whl").touch()
        monkeypatch.setattr(
            "importlib.util.find_spec", lambda _, missing=missing: None if missing else sys
        )
        assert shell.run_cell(first).success
        assert asked == want
