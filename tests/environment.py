"""Installs what `make` needs into the environment that runs this, by uv where pip's settings can be told to it.

    .venv/bin/python tests/environment.py -e '.[dev]'
    .venv/bin/python tests/environment.py --python other/bin/python -e .    # into another one, which may lack pip

uv unpacks on all cores, keeps what it has unpacked for the next environment, and leaves it to Python to compile
what is imported, a fifth of it. It does not read pip's settings (pip.conf, PIP_...), which say where packages come
from. They are translated; if one of them has no counterpart, or uv cannot be installed, or finds no solution, pip
installs. Settings of uv's own come first.
"""

from __future__ import annotations

import ast
import os
import subprocess
import sys
from collections.abc import Mapping

# What uv reads in place of pip's settings, and what stands between several values there.
NAMES = {
    "index-url": ("UV_DEFAULT_INDEX", ""),
    "extra-index-url": ("UV_INDEX", " "),
    "find-links": ("UV_FIND_LINKS", ","),
    "trusted-host": ("UV_INSECURE_HOST", " "),
    "cert": ("SSL_CERT_FILE", ""),
    "constraint": ("UV_CONSTRAINT", " "),
    "timeout": ("UV_HTTP_TIMEOUT", ""),
    "default-timeout": ("UV_HTTP_TIMEOUT", ""),
    "proxy": ("ALL_PROXY", ""),
}
# How pip talks and what it keeps: of no consequence to what is installed.
TALK = {
    "disable-pip-version-check", "no-cache-dir", "cache-dir", "no-color", "no-input", "progress-bar", "quiet",
    "verbose", "retries", "root-user-action", "no-python-version-warning", "no-warn-script-location",
    "no-compile", "prefer-binary", "require-virtualenv",
}  # fmt: skip
PIP = (sys.executable, "-m", "pip")


def settings(listed: str) -> dict[str, str]:
    """Of `pip config list`, those of an installation; the environment's hold before files of settings."""
    found: dict[str, str] = {}
    for section in ("global.", "install.", ":env:."):
        for line in listed.splitlines():
            key, _, value = line.partition("=")
            if key.startswith(section):
                found[key.removeprefix(section)] = str(ast.literal_eval(value))
    return found


def translated(found: Mapping[str, str]) -> dict[str, str] | None:
    """The environment that tells uv what pip is set to, None if it cannot be told."""
    if set(found) - set(NAMES) - TALK:
        return None
    # The best version of all indexes, as pip does.
    told = {"UV_INDEX_STRATEGY": "unsafe-best-match"}
    for key, value in found.items():
        if key in NAMES:
            name, between = NAMES[key]
            told[name] = between.join(value.split()) if between else value
    return told


def by_uv(words: list[str], python: str) -> bool:
    """Whether uv has installed it into the environment of a Python."""
    listed = subprocess.run([*PIP, "config", "list"], capture_output=True, text=True)
    told = translated(settings(listed.stdout)) if listed.returncode == 0 else None
    if told is None or subprocess.run([*PIP, "install", "--quiet", "uv"]).returncode:
        return False
    own = {k: v for k, v in os.environ.items() if v}
    install = ["pip", "install", "--quiet", "--prerelease", "disallow"]
    command = [sys.executable, "-m", "uv", *install, "--python", python, *words]
    return subprocess.run(command, env={**told, **own}).returncode == 0


def main(words: list[str]) -> int:
    """Install; exit status of pip if it was pip."""
    python = sys.executable
    if words[:1] == ["--python"]:
        _, python, *words = words
    pip = (*PIP, "--python", python, "install", "--quiet")
    return 0 if by_uv(words, python) else subprocess.run([*pip, *words]).returncode


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
