"""Conformance test of the gallery: every experiment is on the page, with figure, numbers and command."""

import json
import re
from pathlib import Path

import numpy as np
import pytest
import xarray as xr
from markupsafe import Markup
from matplotlib.figure import Figure

from scalewise.experiments._look import COLORS, Number, Table
from scalewise.experiments.catalogue import EXPERIMENTS, experiment
from scalewise.report import _style, gallery
from scalewise.report.gallery import Exhibit, main, write_gallery


def made_up(name: str) -> Exhibit:
    """An exhibit with the words of an experiment, whose numbers nobody had to compute."""
    one = experiment(name)
    canvas = Figure(figsize=(4, 3))
    canvas.subplots().plot([0, 1], [0, 1], color=COLORS[2])
    return Exhibit(
        name,
        one.TITLE,
        one.SOURCE,
        Markup(one.TEXT),
        repr(one.Config()),
        1.5,
        xr.Dataset({"y": ("x", np.arange(3.0))}, attrs={"seed": 0}),
        (Number("slope", -1.0, -0.98, 0.01),),
        (Table("A table", ("name", "value"), (("<first>", "1"),)),),
        gallery._svg(canvas, name, one.TITLE),
    )


@pytest.fixture(scope="module")
def page(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_gallery(tmp_path_factory.mktemp("gallery"), [made_up(n) for n in EXPERIMENTS])


def test_every_experiment_is_on_the_page(page: Path) -> None:
    text = page.read_text(encoding="utf-8")
    sections = re.split(r"(?=<section id=)", text)
    assert len(sections) == 1 + len(EXPERIMENTS)
    for name, section in zip(EXPERIMENTS, sections[1:], strict=True):
        one = experiment(name)
        assert section.startswith(f'<section id="{name}">')
        assert f'<a href="#{name}">{one.TITLE}</a>' in text
        assert one.TITLE in section
        assert one.TEXT in section
        assert section.count("<svg") == 1
        assert "<td>−1</td><td>−0.98</td>" in section.replace("\n", "")
        assert "&lt;first&gt;" in section
        assert f"from scalewise.experiments.{name} import Config, run" in section
    assert f"All {len(EXPERIMENTS)} numbers agree" in text


def test_the_page_needs_nothing_else(page: Path) -> None:
    text = page.read_text(encoding="utf-8")
    linked = re.findall(r'(?:src|href)="([^"]*)"', text)
    assert all(link.startswith(("#", "data:")) for link in linked)
    assert "@import" not in text
    ids = re.findall(r'\bid="([^"]+)"', text)
    assert len(ids) == len(set(ids))
    assert COLORS[2] not in text.partition("<main>")[2]
    assert "var(--c2)" in text.partition("<main>")[2]


def test_data_lie_beside_the_page(page: Path) -> None:
    for name in EXPERIMENTS:
        stored = json.loads((page.parent / f"{name}.json").read_text(encoding="utf-8"))
        xr.testing.assert_identical(xr.Dataset.from_dict(stored), made_up(name).dataset)


def test_a_wrong_number_is_shown_as_wrong(tmp_path: Path) -> None:
    from dataclasses import replace

    bad = replace(made_up("one_step"), numbers=(Number("slope", -1.0, -0.5, 0.01),))
    text = write_gallery(tmp_path, [made_up("six_point"), bad]).read_text(encoding="utf-8")
    assert "1 of 2 numbers disagree" in text
    assert text.count('<tr class="beyond">') == 1


def test_it_runs_what_it_shows(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    arguments = ["--small", "--out", str(tmp_path / "g"), "--only", "network_diagram", "six_point"]
    assert main(arguments) == 0
    out = capsys.readouterr()
    assert out.out.strip() == str(tmp_path / "g" / "index.html")
    assert out.err.startswith("network_diagram: ")
    text = (tmp_path / "g" / "index.html").read_text(encoding="utf-8")
    assert "Config(depth=4, width=128, networks=20000, seed=0)" in text
    stored = json.loads((tmp_path / "g" / "six_point.json").read_text(encoding="utf-8"))
    assert xr.Dataset.from_dict(stored).recursion.values[1] == pytest.approx(44.0)


def test_an_experiment_without_its_data_is_left_out(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.delenv("SCALEWISE_DATA", raising=False)
    only = ["--only", "cifar2_limits", "network_diagram"]
    assert main(["--small", "--out", str(tmp_path), *only]) == 0
    assert "cifar2_limits is left out. This needs cifar2.npz from" in capsys.readouterr().err
    assert '<section id="cifar2_limits">' not in (tmp_path / "index.html").read_text()


def test_a_wrong_number_fails_the_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    one = experiment("network_diagram")
    monkeypatch.setattr(one, "numbers", lambda dataset: [Number("P", 91.0, 92.0)])
    assert main(["--only", "network_diagram", "--out", str(tmp_path)]) == 1
    assert "P should be 91 and is 92" in capsys.readouterr().err


def test_the_look_is_that_of_the_report() -> None:
    assert COLORS[:2] == (_style.PREDICTED, _style.MEASURED)
    from scalewise.experiments import _look

    assert (_look.INK, _look.MUTED, _look.RULE) == (_style.INK, _style.MUTED, _style.RULE)


def test_refusals(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(ValueError, match=r"folder of the gallery, but .* is a file"):
        write_gallery(tmp_path / "file", [made_up("six_point")])
    with pytest.raises(ValueError, match="needs at least one exhibit"):
        write_gallery(tmp_path, [])
