"""Conformance of the page of a training: whole, true to the results it shows, and to the command that made it."""

import inspect
import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import xarray as xr
from typer.testing import CliRunner

import scalewise as sw
from page_outline import outline
from scalewise.cli._app import app
from scalewise.cli._options import Learning
from scalewise.report import LearnedPanels, training_record, write_training_report
from scalewise.training import (
    Bayes,
    GradientDescent,
    GradientFlow,
    algorithms_side_by_side,
    evidence_of_networks,
    ntk_motion,
    predict_training,
)

pytestmark = pytest.mark.optimised
NET = sw.MLP(2, 4000, "tanh", input_dim=3, output_dim=1, C_b=0.1, C_W=1.4)
RNG = np.random.default_rng(1)
TASK = sw.Task(
    RNG.standard_normal((3, 3)),
    np.array([1.0, -1.0, 1.0]),
    test_inputs=RNG.standard_normal((2, 3)),
    test_targets=np.array([-1.0, 1.0]),
)


def as_measured(theory: xr.Dataset, width: int) -> xr.Dataset:
    """What an ensemble that agrees to a tenth of its errors would have given."""
    found = sw.at_width(theory, width)
    rng, out = np.random.default_rng(width), {}
    for name in ("output_mean", "variance", "test_loss"):
        sem = 0.01 * np.abs(found[name]) + 1e-3
        out[name] = found[name] + 0.1 * sem * rng.normal(size=found[name].shape)
        out[f"{name}_sem"] = sem
    return xr.Dataset(out, attrs={"networks": 100})


@pytest.fixture(scope="module")
def learned() -> LearnedPanels:
    theory = predict_training(NET, TASK, GradientFlow(), observables="all")
    return LearnedPanels(
        NET,
        TASK,
        theory,
        algorithms_side_by_side(NET, TASK, {"gradient flow": GradientFlow(), "Bayes": Bayes()}),
        evidence_of_networks(NET, TASK, depths=[1, 2], weight_variances=[0.7, 1.4], client=0),
        {2000: as_measured(theory, 2000), 4000: as_measured(theory, 4000)},
        motion=ntk_motion(NET, TASK, theory.ntk_change_nlo),
        run={"command": "scalewise train --train 3", "data": "made up"},
    )


def test_the_page_is_whole_and_tells_what_was_found(learned: LearnedPanels, tmp_path: Path) -> None:
    page = write_training_report(tmp_path / "out", learned)
    found = outline(page)
    sections = [attrs["id"] for tag, attrs in found.elements if tag == "section"]
    assert sections == ["loss", "samples", "motion", "algorithms", "evidence", "again"]
    ids = [attrs["id"] for _, attrs in found.elements if "id" in attrs]
    assert len(ids) == len(set(ids))
    text = page.read_text(encoding="utf-8")
    assert "scalewise train --train 3" in text
    assert sorted(p.name for p in page.parent.iterdir()) == [
        "ensemble-2000.zarr",
        "ensemble-4000.zarr",
        "index.html",
        "result.json",
        "theory.zarr",
    ]
    record = json.loads((page.parent / "result.json").read_text())
    theory, n = learned.theory, 4000
    both = float((theory.test_loss + theory.test_loss_nlo / n).mean())
    assert record["test_loss"]["at_width"] == pytest.approx(both)
    assert record["learning_parameter"] == pytest.approx(float(theory.learning_parameter) / n)
    assert [row["width"] for row in record["test_loss"]["measured"]] == [2000, 4000]


def test_parts_of_the_slope_add_up_to_it(learned: LearnedPanels) -> None:
    """What the page shows by part: through the mean, part by part, and through the covariance."""
    theory = learned.theory
    mean = (theory.bias * theory.output_mean_nlo_by_part.sum("part")).sum("output")
    spread = 0.5 * theory.variance_nlo.sum("output")
    np.testing.assert_allclose(mean + spread, theory.test_loss_nlo, atol=1e-12)
    layers = theory.output_mean_nlo_by_layer.sum("layer")
    np.testing.assert_allclose(layers, theory.output_mean_nlo, atol=1e-12)


def test_a_page_of_leading_order_says_that_it_is_one(
    learned: LearnedPanels, tmp_path: Path
) -> None:
    plain = replace(
        learned, theory=predict_training(NET, TASK, GradientFlow()), ensembles={}, motion=None
    )
    assert training_record(plain)["test_loss"]["coefficient"] is None
    text = write_training_report(tmp_path, plain).read_text(encoding="utf-8")
    assert "that of infinite width; the order 1/n is not known here" in text
    assert "figure-motion" not in text


def test_the_command_writes_a_page_and_refuses_in_a_sentence(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    words = ["train", "--train", "3", "--test", "2", "--depth", "2", "--width", "200"]
    result = CliRunner().invoke(app, [*words, "--ensemble", "12", "--seed", "3", "--json"])
    assert result.exit_code == 0, result.output
    told = json.loads(result.stdout)
    verdict = told["comparison"]
    assert verdict["passed"] is True
    decided = ["output_mean", "output_covariance", "variance", "bias", "test_loss"]
    assert verdict["decided"] == decided
    left_out = "12 networks are too few to tell test error and ntk change from 0, which the verdict leaves out."
    assert verdict["reason"].startswith(left_out)
    assert verdict["reason"] in result.stderr
    assert "There is no verdict" not in result.stderr
    assert left_out in Path("training/index.html").read_text(encoding="utf-8")
    assert told["test_loss"]["measured"][0]["width"] == 200
    assert Path("training/index.html").is_file()
    for bad, sentence in (
        (["--algorithm", "adam"], "--algorithm is one of flow, descent, newton, last_layer, bayes"),
        (["--rate", "0.1"], "--rate is of --algorithm descent; got 'flow'"),
        (["--data", "letters"], "--data must name a data set with classes"),
        (["--data", "digits:3,11"], "--data names the class '11'"),
        (["--data", "digits:3"], "--data names one class alone, 'digits:3'; name two or more"),
        (["--train", "0"], "--train must be a whole number of at least 1; got 0"),
        (["--train", "4000"], "--train and --test ask for 4002 samples"),
        (["--ensemble", "-1"], "--ensemble is a number of networks"),
    ):
        refused = CliRunner().invoke(app, [*words, *bad])
        assert (refused.exit_code, sentence in refused.stderr) == (2, True), refused.stderr


def test_the_command_trains_as_python_does_unless_it_is_told() -> None:
    """And by the same rate."""
    for verb in (sw.predict_training, sw.measure_training):
        default = inspect.signature(verb).parameters["algorithm"].default
        assert Learning().method() == default
    assert Learning(algorithm="descent").method() == GradientDescent()


@pytest.mark.thorough("test_the_page_is_whole_and_tells_what_was_found")
def test_networks_without_a_verdict_are_shown_and_no_disagreement(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where order 1/n is not known, as behind kinks, and where it says too little."""
    monkeypatch.chdir(tmp_path)
    words = ["train", "--train", "3", "--test", "2", "--depth", "2", "--ensemble", "6"]
    for more, told in (
        (
            ["--activation", "relu", "--width", "40", "--depth", "3"],
            "not compared: what infinite width neglects",
        ),
        (["--width", "2"], "compared without a verdict"),
    ):
        result = CliRunner().invoke(app, [*words, *more])
        assert result.exit_code == 0, result.output
        assert told in result.stdout
        assert "disagree" not in result.stderr
        text = Path("training/index.html").read_text(encoding="utf-8")
        assert "beside each other, without a verdict." in text
        assert 'class="verdict"' in text
