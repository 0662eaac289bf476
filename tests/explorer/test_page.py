"""Conformance of the explorer: what it refuses, and in a real browser what a moved slider does."""

import re
from functools import cache
from pathlib import Path

import numpy as np
import pytest

import scalewise as sw
from grids import thorough
from in_browser import BROWSER, load
from scalewise.comparison import at_width
from scalewise.critical import susceptibilities
from scalewise.explorer import write_explorer

MOST_BYTES = 1_500_000
WIDTH = 128
PROBE = Path(__file__).with_name("probe.js").read_text(encoding="utf-8")
MOVES = [
    ("slider-C_W", "1.7", "input"),
    ("slider-depth", "9", "input"),
    ("number-C_b", "0.25", "change"),
    ("slider-s", "0.5", "input"),
    ("activation", "relu", "change"),
]


@pytest.fixture(scope="module")
def page(tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("explorer")
    return write_explorer(folder / "made" / "explorer.html", ["tanh", "relu"], depths=[2])


def test_the_page_is_whole_small_and_fetches_nothing(page) -> None:
    text = page.read_text(encoding="utf-8")
    assert len(text.encode()) < MOST_BYTES
    assert "Permission is hereby granted" in text
    own = re.sub(r"<script>.*?uPlot=.*?</script>", "", text, flags=re.S)
    assert not re.findall(r"""(?:src|href)=["'](?!data:|#)|url\(|import\(|fetch\(|@import""", own)
    assert not re.findall(r"/\*\{|<!--\{", text)  # no place left open


def test_what_cannot_be_shown_is_refused(tmp_path) -> None:
    out = tmp_path / "page.html"
    for words, given in {
        "each of another name; got tanh, tanh": {"activations": ["tanh", "Tanh"]},
        "each of another name; got none": {"activations": []},
        "continuous, .* 'perceptron' jumps": {"activations": ["perceptron"]},
        "at least 2; got .1, 3.": {"activations": ["tanh"], "depths": [1, 3]},
    }.items():
        with pytest.raises(ValueError, match=words):
            write_explorer(out, **given)
    assert not out.exists()


@cache
def predicted(activation: str, C_b: float, C_W: float, depth: int, s: float) -> dict[str, float]:
    """Every number that the page shows of a network of width 128, by Python."""

    def network(depth: int, outputs: int = 1) -> sw.Network:
        ends = {"input_dim": 3, "output_dim": outputs}
        return sw.MLP(depth, WIDTH, activation, **ends, C_b=C_b, C_W=C_W)

    net = network(depth)
    told = sw.predict(net, np.ones((1, 3)), layers=range(1, depth + 1))
    names = {"K": "kernel", "Theta": "ntk", "V": "four_point_vertex", "G1": "metric_nlo"}
    layers = {letter: told[name].values.ravel() for letter, name in names.items()}
    fluctuation = layers["V"] / layers["K"] ** 2 / WIDTH
    chi = susceptibilities(net.activation, layers["K"][-2:-1], C_W)
    deep = sw.predict(network(300), np.ones((1, 3)), observables=["kernel"], layers=300)
    critical = C_W == 1.0  # at which the kernel falls as 1/l
    return {
        **{letter: values[-1] for letter, values in layers.items()},
        "fluctuation": fluctuation[-1],
        "bears": 1 + float(np.flatnonzero(fluctuation <= 0.5)[-1]),
        "chi_parallel": chi[0].item(),
        "chi_perp": chi[1].item(),
        "K_star": 0.0 if critical else deep.kernel.item(),
        "gamma": sw.scaling.gamma(depth, WIDTH, s),
        "optimal": float(sw.optimal_depth(network(2, 10)).depth),
        **losses(activation),
    }


@cache
def losses(activation: str) -> dict[str, float]:
    """Of the digits, by networks of depth 2."""
    task = sw.load_task("digits:3,8", train=4, test=4)
    net = sw.MLP(2, WIDTH, activation, input_dim=64, output_dim=1).at_criticality()
    if not net.activation.is_smooth:
        told = sw.predict_training(net, task, observables=["test_loss"])
        return {"loss_leading": float(told.test_loss.mean())}
    told = sw.predict_training(net, task, observables="all")
    finite = at_width(told, WIDTH).test_loss
    return {"loss_leading": float(told.test_loss.mean()), "loss": float(finite.mean())}


@pytest.mark.skipif(
    BROWSER is None, reason="no chromium, chromium-browser or google-chrome on the PATH"
)
@pytest.mark.parametrize("width", [390, *thorough(1280)])
def test_sliders_lead_to_the_numbers_of_predict(page, tmp_path, width) -> None:
    probed = tmp_path / "probed.html"
    moves = f"<script>const MOVES = {[list(move) for move in MOVES]};</script>"
    text = page.read_text(encoding="utf-8")
    text = text.replace("</body>", f"{moves}<script>{PROBE}</script></body>")
    probed.write_text(text, encoding="utf-8")
    framed = tmp_path / "framed.html"  # a window of a desktop is never as narrow as a phone
    framed.write_text(
        f'<title></title><iframe src="probed.html" width="{width}" height="800"></iframe>'
    )
    seen, console = load(framed, tmp_path / "profile", width + 40)
    assert console == []
    settings = [
        ("tanh", 0.0, 1.0, 16, 0.0),
        ("tanh", 0.0, 1.7, 16, 0.0),
        ("tanh", 0.0, 1.7, 9, 0.0),
        ("tanh", 0.25, 1.7, 9, 0.0),
        ("tanh", 0.25, 1.7, 9, 0.5),
        ("relu", 0.25, 1.7, 9, 0.5),
    ]
    wrong = [
        f"{setting}: {name} is {state['values'].get(name)}, and not {value}"
        for setting, state in zip(settings, seen["states"], strict=True)
        for name, value in predicted(*setting).items()
        if state["values"].get(name) != pytest.approx(value, rel=1e-6, abs=1e-9)
    ]
    assert not wrong, "\n".join(wrong)
    assert sorted(seen["drawn"]) == ["fluctuations", "kernels", "loss", "plane", "web"]
    by_layer = {"fluctuations", "kernels", "plane"}
    assert [set(changed) for changed in seen["changed"]] == [
        by_layer,
        by_layer | {"web"},
        by_layer,
        {"web"},
        by_layer | {"loss"},
    ]
    assert "C_W 1.7" in seen["states"][1]["said"][0]
    assert (seen["unlabelled"], seen["fetched"]) == (0, 0)
    assert seen["overflow"] <= 0
    assert seen["innerWidth"] == width
    assert "activation=relu" in seen["hash"]
