"""Conformance test of the gallery: every experiment is on the page, with figure, numbers and command."""

import json
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import xarray as xr
from markupsafe import Markup
from matplotlib.figure import Figure

from scalewise.experiments._look import COLORS, Number, Table
from scalewise.experiments.catalogue import EXPERIMENTS, PAPER_SCALE, Experiment, experiment
from scalewise.limits import _train
from scalewise.report import _style
from scalewise.report._exhibits import drawn
from scalewise.report.gallery import Exhibit, exhibit, main, stored_exhibit, write_gallery

# Experiments that nobody has run at that scale yet.
AWAITED = {"text_transfer"}
PAPER = Path(__file__).parents[2] / "docs" / "paper_scale"


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
        "1.5 s",
        f"from scalewise.experiments.{name} import Config, run",
        xr.Dataset({"y": ("x", np.arange(3.0))}, attrs={"seed": 0}),
        (Number("slope", -1.0, -0.98, 0.01),),
        (Table("A table", ("name", "value"), (("<first>", "1"),)),),
        drawn(canvas, name, one.TITLE),
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
    arguments = [
        "--scale",
        "small",
        "--out",
        str(tmp_path / "g"),
        "--only",
        "network_diagram",
        "six_point",
    ]
    assert main(arguments) == 0
    out = capsys.readouterr()
    assert out.out.strip() == str(tmp_path / "g" / "index.html")
    assert out.err.startswith("gallery: 0 of 2 parts done")
    assert re.search(r"^network_diagram: [0-9.]+ s$", out.err, re.MULTILINE)
    text = (tmp_path / "g" / "index.html").read_text(encoding="utf-8")
    assert "Config(depth=4, width=128, networks=20000, seed=0)" in text
    stored = json.loads((tmp_path / "g" / "six_point.json").read_text(encoding="utf-8"))
    assert xr.Dataset.from_dict(stored).recursion.values[1] == pytest.approx(44.0)


def test_an_experiment_without_its_data_is_left_out(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.delenv("SCALEWISE_DATA", raising=False)
    only = ["--only", "cifar2_limits", "network_diagram"]
    assert main(["--scale", "small", "--out", str(tmp_path), *only]) == 0
    assert "cifar2_limits is left out. This needs cifar2.npz from" in capsys.readouterr().err
    assert '<section id="cifar2_limits">' not in (tmp_path / "index.html").read_text()


def test_a_wrong_number_fails_the_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    one = experiment("network_diagram")
    monkeypatch.setattr(one, "numbers", lambda dataset: [Number("P", 91.0, 92.0)])
    assert main(["--only", "network_diagram", "--out", str(tmp_path)]) == 1
    assert "P should be 91 and is 92" in capsys.readouterr().err


def test_every_stored_result_is_what_the_present_settings_give() -> None:
    """Numbers are found anew from the data, so they follow the code that judges them."""
    assert [n for n in EXPERIMENTS if hasattr(experiment(n).Config, "paper")] == list(PAPER_SCALE)
    stored = {path.stem for path in PAPER.glob("*.json")}
    assert set(PAPER_SCALE) == stored | AWAITED
    assert not stored & AWAITED
    for name in stored:
        one = stored_exhibit(name, PAPER)
        assert one is not None
        assert [number for number in one.numbers if not number.agrees] == []
        assert one.command.startswith(
            f"python -m scalewise.report.gallery --scale paper --only {name} --store"
        )
        assert one.cost.endswith("on one core")


def miniature(monkeypatch: pytest.MonkeyPatch) -> Experiment:
    """An experiment whose scale of the paper takes no time."""
    one = experiment("linear_and_quadratic_limits")
    tiny = one.Config(widths=(8, 16), seeds=4, steps=3, particles=64)
    monkeypatch.setattr(one.Config, "paper", classmethod(lambda cls: tiny))
    monkeypatch.setattr(one, "numbers", lambda dataset: [Number("gap", 0.0, 0.1, 1.0)])
    return one


def test_what_takes_hours_is_kept_and_resumed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    one = miniature(monkeypatch)
    name = "linear_and_quadratic_limits"
    kept, out = tmp_path / "runs", tmp_path / "large"
    given = ["--scale", "paper", "--only", name, "--store", str(kept), "--out", str(out)]
    work, done = _train._run, []

    def killed(*args: Any) -> Any:
        if len(done) == 10:  # in the networks, behind the limits
            raise KeyboardInterrupt
        done.append(1)
        return work(*args)

    monkeypatch.setattr(_train, "_run", killed)
    with pytest.raises(KeyboardInterrupt):
        main(given)
    last = capsys.readouterr().err.splitlines()[-1]
    assert re.fullmatch(rf"{name}: [1-9]\d? of 12 parts done", last)
    monkeypatch.setattr(_train, "_run", work)
    assert main(given) == 0
    assert capsys.readouterr().err.splitlines()[0] == last
    resumed = stored_exhibit(name, out)
    assert resumed is not None
    xr.testing.assert_allclose(resumed.dataset, one.run(one.Config.paper()), rtol=1e-12)


def test_stored_results_stand_below_the_usual_ones_or_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    one = miniature(monkeypatch)
    name = "linear_and_quadratic_limits"
    write_gallery(tmp_path, [exhibit(name, scale="paper")])
    large = stored_exhibit(name, tmp_path)
    assert large is not None
    assert stored_exhibit("cifar2_limits", tmp_path) is None
    for number, usual in enumerate(([made_up(name)], [])):
        out = tmp_path / str(number)
        text = write_gallery(out, [made_up("six_point"), *usual], paper=[large]).read_text("utf-8")
        part = text.partition(f'<section id="{name}">')[2]
        assert part.count("<svg") == 1 + len(usual)
        assert "At the scale of the paper" in part
        assert "--scale paper --only linear_and_quadratic_limits" in part
        assert "Config(widths=(8, 16), seeds=4" in part
        assert f"All {2 + len(usual)} numbers agree" in text
        ids = re.findall(r'\bid="([^"]+)"', text)
        assert len(ids) == len(set(ids))
    monkeypatch.setattr(one.Config, "paper", classmethod(lambda cls: cls(seeds=7)))
    with pytest.raises(ValueError, match=r"other settings: widths, seeds, steps, particles differ"):
        stored_exhibit(name, tmp_path)
    (tmp_path / f"{name}.json").write_text("[")
    with pytest.raises(ValueError, match=r"is not a stored result .* Make it again by python -m"):
        stored_exhibit(name, tmp_path)


def test_the_look_is_that_of_the_report() -> None:
    assert COLORS[:2] == (_style.PREDICTED, _style.MEASURED)
    from scalewise.experiments import _look

    assert (_look.INK, _look.MUTED, _look.RULE) == (_style.INK, _style.MUTED, _style.RULE)


def test_refusals(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(
        ValueError, match=r"'six_point' does not run at the scale of the paper; .* omniglot_maml"
    ):
        exhibit("six_point", scale="paper")
    with pytest.raises(ValueError, match="`scale` must be 'small', 'usual' or 'paper'; got 'huge'"):
        exhibit("six_point", scale="huge")
    assert main(["--scale", "paper", "--only", "six_point", "--out", str(tmp_path / "g")]) == 2
    assert "does not run at the scale of the paper" in capsys.readouterr().err
    (tmp_path / "file").write_text("")
    with pytest.raises(ValueError, match=r"folder of the gallery, but .* is a file"):
        write_gallery(tmp_path / "file", [made_up("six_point")])
    with pytest.raises(ValueError, match="needs at least one exhibit"):
        write_gallery(tmp_path, [])
