"""Conformance test of the report in a real browser: it loads, is whole, and fits the window."""

from pathlib import Path

import numpy as np
import pytest
import xarray as xr

from grids import thorough
from in_browser import BROWSER, load
from made_up_results import ensemble, network, theory
from scalewise.comparison import at_width, compare
from scalewise.report import Results, write_report

# What a page says of itself once it is laid out.
PROBE = """<script>addEventListener("load", () => {
  const svgs = [...document.querySelectorAll("svg")];
  document.title = JSON.stringify({
    broken: [...document.images].filter((i) => !i.complete || i.naturalWidth === 0).length,
    svgs: svgs.length,
    empty: svgs.filter((s) => s.getBoundingClientRect().height < 100).length,
    overflow: document.documentElement.scrollWidth - innerWidth,
    unresolved: svgs.filter((s) => !getComputedStyle(s.querySelector("text")).fill).length,
    failed: performance.getEntriesByType("resource").filter((r) => !r.name.startsWith("data:")).length,
  });
});</script>"""

pytestmark = pytest.mark.skipif(
    BROWSER is None, reason="no chromium, chromium-browser or google-chrome on the PATH"
)


@pytest.fixture(scope="module")
def page(tmp_path_factory) -> Path:
    net = network().at_criticality()
    predicted = theory(net, samples=4)
    measured = ensemble(at_width(predicted), seed=2)
    K = np.geomspace(0.01, 10, 21)
    curves = xr.Dataset({"chi_parallel": ("K", K**0), "chi_perp": ("K", K**0)}, coords={"K": K})
    told = Results(net, predicted, measured, compare(predicted, measured), curves)
    return write_report(tmp_path_factory.mktemp("browser"), told)


@pytest.mark.parametrize("width", [520, *thorough(1280)])
def test_the_page_in_a_browser(page, tmp_path, width):
    probed = tmp_path / "probed.html"
    text = page.read_text(encoding="utf-8")
    probed.write_text(text.replace("</body>", PROBE + "</body>"), encoding="utf-8")
    seen, console = load(probed, tmp_path / "profile", width)
    assert console == []
    assert seen == {
        "broken": 0,
        "svgs": 12,
        "empty": 0,
        "overflow": seen["overflow"],
        "unresolved": 0,
        "failed": 0,
    }
    assert seen["overflow"] <= 0


def test_the_probe_can_fail(page, tmp_path):
    broken = tmp_path / "broken.html"
    text = page.read_text(encoding="utf-8")
    damage = '<img src="data:image/png;base64,AAAA" alt=""><div style="width:3000px">x</div>'
    damage += "<script>console.error('oh')</script>"
    broken.write_text(text.replace("</body>", damage + PROBE + "</body>"), encoding="utf-8")
    seen, console = load(broken, tmp_path / "profile", 1280)
    assert seen["broken"] == 1
    assert seen["overflow"] > 0
    assert len(console) == 1
