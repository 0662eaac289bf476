"""Conformance test of results: run, kept, resumed, held to what is expected, and refused."""

import json
import re
from pathlib import Path
from typing import Any

import pytest
import xarray as xr

from page_outline import Outline
from scalewise.experiments import _look, scaling_questions
from scalewise.experiments.__main__ import main
from scalewise.experiments._look import COLORS, Number, Table
from scalewise.experiments._text_families import Family
from scalewise.experiments.catalogue import EXPERIMENTS, PAPER_SCALE, Experiment, experiment
from scalewise.experiments.results import (
    Judged,
    config_of,
    judged,
    paper_command,
    run_experiment,
    stored_result,
)
from scalewise.limits import _train
from scalewise.report import _style

ROOT = Path(__file__).parents[2]
PAPER = ROOT / "docs" / "paper_scale"


def test_a_number_that_is_not_what_it_should_be_is_named() -> None:
    right, bad = Number("slope", -1.0, -0.98, 0.01), Number("ratio", 2.0, 2.5, 0.01, 0.1)
    told = Judged("six_point", (right, bad), (Table("A table", ("name",), (("<first>",),)),))
    assert told.wrong == ["six_point: ratio should be 2 and is 2.5 ± 0.01, allowance 0.1."]
    with pytest.raises(AssertionError, match=r"ratio should be 2 and is 2\.5"):
        told.assert_ok()
    Judged("six_point", (right,), ()).assert_ok()
    shown = told._repr_html_()
    page = Outline(shown)
    assert [tag for tag, _ in page.elements].count("table") == 2
    assert "1 of 2 numbers agree" in shown
    assert "<td>slope</td><td>−1</td><td>−0.98</td><td>0.01</td><td>–</td>" in shown
    assert "<td>&lt;first&gt;</td>" in shown


def test_it_keeps_what_it_ran(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = tmp_path / "data"
    only = ["--only", "network_diagram", "six_point"]
    assert main(["--scale", "small", "--out", str(out), *only]) == 0
    told = capsys.readouterr()
    assert told.out.strip() == str(out)
    assert re.findall(r"^(\w+): (\d+) of (\d+) numbers agree$", told.err, re.M) == [
        ("network_diagram", "1", "1"),
        ("six_point", "2", "2"),
    ]
    stored = json.loads((out / "six_point.json").read_text(encoding="utf-8"))
    found = xr.Dataset.from_dict(stored)
    xr.testing.assert_identical(found, run_experiment("six_point", scale="small"))
    assert found.recursion.values[1] == pytest.approx(44.0)


def test_an_experiment_without_its_data_is_left_out(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.delenv("SCALEWISE_DATA", raising=False)
    only = ["--only", "cifar2_limits", "network_diagram"]
    assert main(["--scale", "small", "--out", str(tmp_path), *only]) == 0
    assert "cifar2_limits is left out. This needs cifar2.npz from" in capsys.readouterr().err
    assert [path.name for path in tmp_path.iterdir()] == ["network_diagram.json"]


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
    assert set(PAPER_SCALE) == stored
    for name in stored:
        kept = stored_result(name, PAPER)
        assert kept is not None
        assert judged(name, kept).wrong == []


def test_the_readme_tells_what_carried_networks_lose() -> None:
    kept = {name: stored_result(name, PAPER) for name in ("critical_base", "scaling_questions")}
    base, questions = kept["critical_base"], kept["scaling_questions"]
    assert base is not None
    assert questions is not None

    def of_base(task: str, arm: str) -> Family:
        return Family.of(base.sel(task=task, arm=arm))

    def of_question(case: str) -> Family:
        return scaling_questions.family(questions, f"1: {case}")[0]

    rows = {  # at widths 128, 256, 512; the base is the first size
        "as built, weights drawn at .02, retuned": of_base("text", "plain").retuned,
        "planned, constants tuned at width 32, carried": of_base("text", "planned, tuned").carried,
        'planned, drawn by theory (`init="critical"`), carried': of_question(
            "maximal updates"
        ).carried,
        "drawn by theory, not planned, retuned": of_question("standard").retuned,
    }

    def cell(loss: float, sem: float) -> str:
        return f"{loss:.3f} ± {f'{sem:.3f}'.removeprefix('0')}"

    page = (ROOT / "README.md").read_text()
    said = [
        f"| {name} | {' | '.join(cell(*get(i)) for i in (2, 3, 4))} |" for name, get in rows.items()
    ]
    assert [line for line in said if line not in page] == []
    plateau = (
        of_base("teacher", "planned, critical").carried(3),
        of_base("teacher", "plain").retuned(3),
    )
    wanted = "the third row ends at {:.2f}, the first at {:.2f} (width 256)".format(
        *(x for x, _ in plateau)
    )
    assert wanted in " ".join(page.split())


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
    assert stored_result(name, out) is None
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
    resumed = stored_result(name, out)
    assert resumed is not None
    xr.testing.assert_allclose(resumed, one.run(one.Config.paper()), rtol=1e-12)
    # A result of other settings is refused, with what makes it again.
    monkeypatch.setattr(one.Config, "paper", classmethod(lambda cls: cls(seeds=7)))
    with pytest.raises(ValueError, match=r"other settings: widths, seeds, steps, particles differ"):
        stored_result(name, out)
    (out / f"{name}.json").write_text("[")
    with pytest.raises(ValueError, match=re.escape(f"Make it again by {paper_command(name)}")):
        stored_result(name, out)


def test_the_look_is_that_of_the_report() -> None:
    assert COLORS[:2] == (_style.PREDICTED, _style.MEASURED)
    assert (_look.INK, _look.MUTED, _look.RULE) == (_style.INK, _style.MUTED, _style.RULE)


def test_refusals(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(
        ValueError, match=r"'six_point' does not run at the scale of the paper; .* omniglot_maml"
    ):
        config_of("six_point", "paper")
    with pytest.raises(ValueError, match="`scale` must be 'small', 'usual' or 'paper'; got 'huge'"):
        run_experiment("six_point", scale="huge")  # type: ignore
    assert main(["--scale", "paper", "--only", "six_point", "--out", str(tmp_path / "g")]) == 2
    assert "does not run at the scale of the paper" in capsys.readouterr().err
    (tmp_path / "file").write_text("")
    assert main(["--only", "six_point", "--out", str(tmp_path / "file")]) == 2
    assert "is the folder of the data, but" in capsys.readouterr().err
