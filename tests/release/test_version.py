"""Conformance: the tag, the changelog and the citation name one version."""

import re
from pathlib import Path

from packaging.version import Version

import scalewise

ROOT = Path(__file__).resolve().parents[2]


def told() -> tuple[str, str, bool]:
    """The version of the citation, the newest of the changelog, and whether that is out."""
    cited = re.search(r"^version: (\S+)$", (ROOT / "CITATION.cff").read_text(), flags=re.M)
    heading = re.search(
        r"^## (?:Unreleased \((?P<next>[\d.]+)\)|(?P<out>[\d.]+) \(\d{4}-\d\d-\d\d\))$",
        (ROOT / "docs" / "changelog.md").read_text(),
        flags=re.M,
    )
    assert cited is not None
    assert heading is not None, "the first heading is `Unreleased (1.2.3)` or `1.2.3 (2030-12-31)`"
    return cited[1], heading["out"] or heading["next"], heading["out"] is not None


def test_changelog_and_citation_agree() -> None:
    cited, newest, _ = told()
    assert cited == newest


def test_the_installed_version_is_not_ahead_of_the_changelog() -> None:
    _, newest, out = told()
    installed = Version(scalewise.__version__)
    assert installed.release <= Version(newest).release
    if out and not installed.is_devrelease and installed.release != (0, 0):
        assert installed.public == newest
