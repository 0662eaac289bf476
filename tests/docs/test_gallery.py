"""Conformance of the gallery: a script for every experiment, which runs, draws, and fails if a number is wrong."""

import contextlib
import re
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest
from matplotlib.figure import Figure

from scalewise.experiments._look import Number
from scalewise.experiments.catalogue import EXPERIMENTS, PAPER_SCALE, experiment, reason_to_skip

DOCS = Path(__file__).resolve().parents[2] / "docs"


@pytest.fixture(scope="module")
def gallery() -> Iterator[ModuleType]:
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(str(DOCS / "_extensions"))
        import gallery

        yield gallery


def ran(gallery: ModuleType, name: str, scale: str = "small") -> dict[str, Any]:
    space: dict[str, Any] = {}
    with contextlib.chdir(DOCS / "paper_scale"):  # beside the folder of the scripts
        exec(gallery.script(name, scale), space)
    return space


def test_every_experiment_has_a_script(gallery: ModuleType) -> None:
    for name in EXPERIMENTS:
        text, one = gallery.script(name), experiment(name)
        stored = (DOCS / "paper_scale" / f"{name}.json").is_file()
        there = reason_to_skip(one) is None
        assert (text is None) == (not there and not stored), name
        if text is not None:
            compile(text, name, "exec")
            assert text.startswith(f'r"""\n{one.TITLE}\n==')
            assert text.count("told.assert_ok()") == 1
            assert ("stored_result(" in text) == stored
            assert ("At the scale of the paper" in text) == stored == (f"--only {name}" in text)
            assert "$" not in text.partition('"""\n\n')[0], name  # formulas are roles


def test_without_its_data_a_script_shows_what_is_stored(
    gallery: ModuleType, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("SCALEWISE_DATA", raising=False)
    assert gallery.script("cifar2_batches") is None
    space = ran(gallery, "cifar2_limits")
    assert "config" not in space
    assert isinstance(space["canvas"], Figure)
    assert len(space["told"].numbers) > 1


def test_a_script_runs_and_a_wrong_number_fails_it(
    gallery: ModuleType, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    space = ran(gallery, "six_point")
    assert space["config"] == experiment("six_point").Config.small()
    path = tmp_path / "images" / "one.png"
    path.parent.mkdir()
    block = {
        "example_globals": space,
        "image_path_iterator": SimpleNamespace(next=lambda: str(path)),
    }
    shown = gallery.drawn(None, block, {"src_dir": str(tmp_path)})
    for screen in ("wide", "narrow"):  # each on light and on dark
        light, dark = (tmp_path / "images" / f"one-{screen}-{on}.svg" for on in ("light", "dark"))
        assert f".. image:: /images/{light.name}" in shown
        assert f":class: only-dark {screen}" in shown
        assert "#1c1d21" in light.read_text()
        assert "#1c1d21" not in dark.read_text()
        assert light.read_text().count("</text>") == dark.read_text().count("</text>")
    sizes = [
        float(re.search(r'width="([\d.]+)pt"', one.read_text())[1])  # type: ignore[index]
        for one in sorted(path.parent.glob("one-*-light.svg"))
    ]
    assert sizes == [270.0, 748.8]
    assert gallery.drawn(None, block, {"src_dir": str(tmp_path)}) == ""  # once
    monkeypatch.setattr(experiment("six_point"), "numbers", lambda _: [Number("U", 44.0, 45.0)])
    with pytest.raises(AssertionError, match="U should be 44 and is 45"):
        ran(gallery, "six_point")


def test_what_other_sources_computed_is_forgotten(gallery: ModuleType, tmp_path: Path) -> None:
    done = tmp_path / "six_point.py.md5"
    for known, left in (("another", False), (None, True)):
        done.write_text("")
        if known is not None:
            (tmp_path / ".sources").write_text(known)
        gallery._forget(tmp_path / ".sources", tmp_path)
        assert done.exists() == left


def test_scripts_stand_in_the_order_of_the_catalogue(gallery: ModuleType) -> None:
    assert sorted((f"{n}.py" for n in reversed(EXPERIMENTS)), key=gallery.in_order) == [
        f"{n}.py" for n in EXPERIMENTS
    ]
    assert set(PAPER_SCALE) <= set(EXPERIMENTS)


def test_panels_that_shared_an_axis_each_have_its_labels_on_a_phone(gallery: ModuleType) -> None:
    import drawing
    import matplotlib.pyplot as plt

    canvas, axes = plt.subplots(2, 2, sharex=True, sharey="row")
    for row, word in zip(axes, ("loss", "rate"), strict=True):
        row[0].set_ylabel(word)
    axes[1, 0].set_xlabel("width")
    assert drawing.narrowed(canvas)
    canvas.canvas.draw()
    assert [axis.get_ylabel() for axis in axes.flat] == ["loss", "loss", "rate", "rate"]
    assert [axis.get_xlabel() for axis in axes.flat] == ["width"] * 4
    for axis in axes.flat:
        assert any(label.get_visible() and label.get_text() for label in axis.get_yticklabels())
    plt.close(canvas)


def test_every_experiment_has_one_subject(gallery: ModuleType) -> None:
    import gallery_index

    listed = [name for _, names in gallery_index.SUBJECTS.values() for name in names.split()]
    assert sorted(listed) == sorted(EXPERIMENTS)
    assert set(gallery_index.PANEL) <= set(EXPERIMENTS)


def test_one_panel_is_left_of_a_figure(gallery: ModuleType) -> None:
    import drawing
    import gallery_index
    import matplotlib.pyplot as plt

    canvas, axes = plt.subplots(1, 2, figsize=(8, 2))
    for axis, word in zip(axes, ("left", "right"), strict=True):
        axis.plot([0, 1])
        axis.set_title(word)
    whole = drawing.svg(canvas)
    plt.close(canvas)
    left, right = (gallery_index.panel(whole, number) for number in (1, 2))
    assert ">left<" in left
    assert ">right<" not in left
    assert ">right<" in right
    wide = [float(re.search(r'width="([\d.]+)pt"', one)[1]) for one in (whole, left, right)]  # type: ignore[index]
    assert max(wide[1:]) < 0.6 * wide[0]
    with pytest.raises(ValueError, match="no panel 3"):
        gallery_index.panel(whole, 3)
