"""A page in a real browser, if there is one."""

import json
import re
import shutil
import subprocess
from pathlib import Path
from typing import Any

BROWSER = next(
    filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None
)
QUIET = (
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--enable-logging=stderr",
    "--v=0",
)


def load(path: Path, profile: Path, width: int) -> tuple[dict[str, Any], list[str]]:
    """What the page says of itself, and what the browser wrote to its console."""
    assert BROWSER is not None
    done = subprocess.run(
        [
            BROWSER,
            *QUIET,
            f"--user-data-dir={profile}",
            f"--window-size={width},900",
            "--allow-file-access-from-files",  # a page in a frame speaks to the one around it
            "--dump-dom",
            path.as_uri(),
        ],
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-2000:]
    title = re.search(r"<title>(\{.*?\})</title>", done.stdout)
    assert title is not None, done.stdout[:500]
    console = [line for line in done.stderr.splitlines() if "CONSOLE" in line]
    return json.loads(title.group(1)), console
