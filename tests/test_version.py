"""Conformance: the tag, the changelog and the citation name one version."""

from packaging.version import Version

import scalewise
from release_check import told


def test_changelog_and_citation_agree() -> None:
    cited, newest, _ = told()
    assert cited == newest


def test_the_installed_version_is_not_ahead_of_the_changelog() -> None:
    _, newest, out = told()
    installed = Version(scalewise.__version__)
    assert installed.release <= Version(newest).release
    if out and not installed.is_devrelease and installed.release != (0, 0):
        assert installed.public == newest
