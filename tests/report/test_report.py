"""Conformance tests of the report: what any page must hold, whatever the results."""

import dataclasses
import json
import re
from pathlib import Path

import numpy as np
import pytest
import xarray as xr

from grids import thorough
from made_up_results import ensemble, network, theory
from page_outline import outline
from scalewise.comparison import at_width, compare
from scalewise.networks import MLP, Network
from scalewise.report import Results, write_report
from scalewise.report._style import _spread, power_label
from scalewise.report._words import count, number, one_or_all, typeset, verdict

SECTIONS = ("activation", "signal", "vertex", "ntk", "aspect", "agreement", "again")


def results(net: Network | None = None, samples: int = 3, drop: tuple[str, ...] = ()) -> Results:
    net = net or network().at_criticality()
    predicted = theory(net, samples).drop_vars(drop)
    measured = ensemble(at_width(predicted), seed=1)
    K = np.geomspace(0.01, 10, 21)
    curves = xr.Dataset({"chi_parallel": ("K", K**0), "chi_perp": ("K", K**0)}, coords={"K": K})
    run = {"command": "scalewise report --depth 5", "data": "made up", "samples": samples}
    return Results(net, predicted, measured, compare(predicted, measured), curves, run)


@pytest.fixture(scope="module")
def page(tmp_path_factory) -> Path:
    return write_report(tmp_path_factory.mktemp("report"), results())


def test_every_section_is_there_and_every_element_is_closed(page):
    elements = outline(page).elements
    sections = [attrs["id"] for tag, attrs in elements if tag == "section"]
    assert tuple(sections) == SECTIONS
    assert [tag for tag, _ in elements].count("h1") == 1


def test_ids_are_unique(page):
    ids = [attrs["id"] for _, attrs in outline(page).elements if "id" in attrs]
    assert len(ids) == len(set(ids))


def test_every_reference_inside_a_drawing_has_its_target(page):
    text = page.read_text(encoding="utf-8")
    ids = set(re.findall(r'\bid="([^"]+)"', text))
    used = set(re.findall(r'href="#([^"]+)"', text)) | set(re.findall(r"url\(#([^)]+)\)", text))
    assert used
    assert used <= ids


def test_the_page_needs_nothing_else(page):
    text = page.read_text(encoding="utf-8")
    assert re.findall(r'https?://(?!www\.w3\.org/2000/svg")', text) == []
    assert "@import" not in text
    for tag, attrs in outline(page).elements:
        assert tag != "script"
        assert tag != "img" or (attrs["src"] or "").startswith("data:image/")
        assert tag != "link" or (attrs["href"] or "").startswith("data:")


def test_every_drawing_has_a_box_a_name_and_the_colours_of_the_page(page):
    text = page.read_text(encoding="utf-8")
    drawings = [attrs for tag, attrs in outline(page).elements if tag == "svg"]
    # the function, its susceptibilities, kernel, pairs, vertex twice, tangent kernel twice,
    # expansion parameter, spread, histogram, layer by layer
    assert len(drawings) == 12
    for attrs in drawings:
        assert attrs["role"] == "img"
        assert attrs["aria-label"]
        assert re.fullmatch(r"0 0 [\d.]+ [\d.]+", attrs["viewbox"] or "")
    inside = "".join(re.findall(r"<svg.*?</svg>", text, flags=re.DOTALL))
    assert re.findall(r"#[0-9a-fA-F]{6}", inside) == []
    assert set(re.findall(r"var\((--\w+)\)", inside)) <= set(re.findall(r"(--\w+):", text))
    assert "nan" not in inside.lower().replace("tangent", "")


def test_measured_points_stand_where_they_were_measured(page):
    """The drawing is read back: two marks give the scale, the others must fit it."""
    text = page.read_text(encoding="utf-8")
    svg = re.search(r'<svg[^>]*aria-label="Relative variance of the metric.*?</svg>', text, re.S)
    assert svg is not None
    uses = re.findall(r'<use href="#[^"]+" x="([\d.]+)" y="([\d.]+)"[^>]*--measured', svg.group())
    told = results()
    expected = []
    for side, a in zip((-0.1, 0.1), told.few_samples(2), strict=True):
        mean, _ = told.measured("four_point_vertex", a, a, a, a)
        assert mean is not None
        unit = told.predicted("kernel", a, a) ** 2 * np.array([6, 64, 64, 64, 64])
        expected += list(zip(told.layers + side, mean / unit, strict=True))
    seen = np.array(uses, dtype=float)
    assert len(seen) == len(expected)
    for axis in (0, 1):
        wanted = np.array(expected)[:, axis]
        line = np.polyfit(wanted, seen[:, axis], 1)
        np.testing.assert_allclose(np.polyval(line, wanted), seen[:, axis], atol=0.01)


def test_every_number_to_run_again_is_told(page):
    text = page.read_text(encoding="utf-8")
    for told in ("scalewise report --depth 5", "64 in every layer", "made up", "float32", "500"):
        assert told in text
    record = json.loads((page.parent / "result.json").read_text())
    assert record["network"]["C_W"] == [1.0] * 5
    assert record["comparison"]["passed"] is True
    assert record["ensemble"]["networks"] == 500
    assert {"scalewise", "numpy", "jax", "scipy", "xarray"} <= set(record["versions"])
    for name, version in record["versions"].items():
        assert f"<dt>{name}</dt><dd>{version}</dd>" in text


def test_results_are_saved_whole(page):
    told = results()
    for name, data in (("theory", told.theory), ("ensemble", told.ensemble)):
        back = xr.open_zarr(page.parent / f"{name}.zarr", consolidated=False).load()
        xr.testing.assert_identical(back, data)


def test_a_report_can_be_written_again_in_its_place(page):
    before = page.read_text(encoding="utf-8")
    assert write_report(page.parent, results()).read_text(encoding="utf-8") == before


@pytest.mark.parametrize(
    ("drop", "sentence"),
    [
        (("kernel", "metric_nlo"), "The kernel was not among"),
        *thorough(
            (("ntk",), "The neural tangent kernel was not among"),
            (("four_point_vertex",), "The four-point vertex was not among"),
        ),
    ],
)
def test_what_was_not_asked_for_is_said_to_be_missing(tmp_path, drop, sentence):
    path = write_report(tmp_path, results(drop=drop))
    outline(path)
    assert sentence in path.read_text(encoding="utf-8")


@pytest.mark.parametrize(("depth", "samples"), [(1, 2), (3, 1), *thorough((2, 2))])
def test_small_cases(tmp_path, depth, samples):
    path = write_report(tmp_path, results(network(depth=depth).replace(C_W=1.3), samples))
    assert outline(path).elements
    text = path.read_text(encoding="utf-8")
    assert "The variances of this network are other ones. For linear the critical" in text


def test_an_extrapolated_ensemble_shows_the_correction_of_the_kernel(tmp_path):
    predicted = theory()
    measured = ensemble(predicted, widths=[32, 64], extrapolated=1, extrapolation_degree=1)
    path = write_report(
        tmp_path, Results(network(), predicted, measured, compare(predicted, measured))
    )
    text = path.read_text(encoding="utf-8")
    assert 'id="figure-correction"' in text
    assert "at widths 32 and 64, and extrapolated to infinite width" in text


def test_names_are_escaped(tmp_path):
    net = network()
    odd = dataclasses.replace(net.activation, name="<b>&odd")
    path = write_report(tmp_path, results(MLP(5, 64, odd, input_dim=6, output_dim=3)))
    outline(path)
    assert "<b>" not in path.read_text(encoding="utf-8")


def test_a_file_is_no_folder(tmp_path):
    (tmp_path / "report").write_text("mine")
    with pytest.raises(ValueError, match=r"`out` must be a folder; .* is a file"):
        write_report(tmp_path / "report", results())
    assert (tmp_path / "report").read_text() == "mine"


def test_the_verdict_says_how_it_went():
    agreeing = results()
    assert verdict(agreeing).startswith("<strong>Theory and networks agree.</strong> 500 random")
    shifted = ensemble(at_width(agreeing.theory), sem=1e-3, shift=300)
    outcome = compare(agreeing.theory, shifted)
    told = verdict(Results(agreeing.net, agreeing.theory, shifted, outcome))
    assert "Theory and networks disagree." in told
    assert re.search(r"in layer \d, is off by \d", told)
    assert "says little" not in verdict(agreeing)
    narrow = results(network(depth=5, width=8))
    assert "agreement within it says little" in verdict(narrow)


def test_words_and_numbers():
    assert number(0.0736) == "0.0736"
    assert number(-1.5e-7, 2) == "−1.5\u202f×\u202f10⁻⁷"
    assert count(11808) == "11\u202f808"
    assert count(2000) == "2000"
    assert one_or_all((1.0, 1.0)) == "1 in every layer"
    assert one_or_all((64, 32)) == "64, 32"
    assert typeset("C_W = 1/<sigma'^2>_0 - 2 K^2") == (
        "<i>C<sub>W</sub></i> = 1/⟨σ′²⟩<sub>0</sub> − 2 <i>K</i>²"
    )
    assert typeset("a < b & c") == "a &lt; b &amp; c"


def test_labels_keep_their_order_and_their_distance():
    rng = np.random.default_rng(0)
    for _ in range(50):
        heights = rng.uniform(size=6).tolist()
        placed = np.array(_spread(heights, gap=0.1))
        order = np.argsort(heights)
        assert np.diff(placed[order]).min() >= 0.1 - 1e-12
    assert _spread([0.0, 0.5, 1.0], gap=0.1) == [0.0, 0.5, 1.0]
    assert [power_label(v) for v in (0.2, 1, 50, 1e-4, 5e5)] == ["0.2", "1", "50", "10⁻⁴", "5·10⁵"]
