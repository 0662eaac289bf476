"""Look at every page of the built site in a headless browser, as wide as the screens of two desks and of a phone.

python docs/look.py                      # site/ as `make docs` leaves it; needs chromium on the PATH
python docs/look.py site --only guide    # pages whose address begins so
python docs/look.py site --keep shots    # with a picture of every page at every width

A message on the console, a picture that is missing, a page that scrolls sideways, content that is cut off or that
a box hides until it is scrolled, labels of a picture that are too small to be read, a request that leaves this
machine, or a search that finds nothing, or a verb not first, is reported, and ends it with an error.
"""

from __future__ import annotations

import argparse
import shutil
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread

from playwright.sync_api import ConsoleMessage, Page, Request, sync_playwright

SIZES = ((1920, 1080), (1280, 900), (390, 844))
PHONE = 600  # up to this width, tables and code may wait to be scrolled
LEGIBLE = 9.5  # pixels, of the labels of a picture
# Sources are as wide as they are, and nobody has to read them here.
SOURCES = "_modules/"
BROWSERS = ("chromium", "chromium-browser", "google-chrome")
# What a reader searches for, and the end of the address that must be the first to be found.
WORDS = {
    "predict": "#scalewise.predict",
    "measure": "#scalewise.measure",
    "plan": ".plan",
    "verify": ".verify",
    "signals": ".signals",
    "criticality": "#scalewise.criticality",
    "dNTK": "",
}
STATE = """() => ({
    sideways: document.documentElement.scrollWidth - window.innerWidth,
    broken: [...document.images].filter(i => i.complete && i.naturalWidth === 0).map(i => i.src),
    title: document.title,
})"""
CLIPPED = (Path(__file__).parent / "look.js").read_text(encoding="utf-8")


class Quiet(SimpleHTTPRequestHandler):
    """A server that does not tell of every request."""

    def log_message(self, *_: object) -> None:
        """Nothing."""


class Watched:
    """A page of a browser, and what was wrong with what it has shown."""

    def __init__(self, page: Page, home: str) -> None:
        self.page, self.home = page, home
        self.wrong: list[str] = []
        page.on("console", self.heard)
        page.on("pageerror", lambda error: self.note(str(error)))
        page.on("requestfailed", self.failed)
        page.on("request", lambda r: self.note(f"asks for {r.url}") if self.leaves(r.url) else None)

    def heard(self, message: ConsoleMessage) -> None:
        """Note errors and warnings; a site without an icon of its own is none."""
        icon = message.location.get("url", "").endswith("/favicon.ico")
        if message.type in ("error", "warning") and not icon:
            self.note(message.text)

    def failed(self, request: Request) -> None:
        """Note what could not be loaded, but for what a reader who went on has called off."""
        if request.failure != "net::ERR_ABORTED":
            self.note(f"not loaded: {request.url}")

    def note(self, what: str) -> None:
        """Keep what was wrong."""
        self.wrong.append(what)

    def leaves(self, url: str) -> bool:
        """Whether an address is not of this site."""
        return not url.startswith((self.home, "data:", "blob:", "about:"))

    def look(self, address: str) -> list[str]:
        """Open a page; what is wrong with it."""
        self.wrong.clear()
        self.page.goto(f"{self.home}/{address}", wait_until="load")
        found = self.page.evaluate(STATE)
        if found["sideways"] > 0:
            self.note(f"scrolls sideways by {found['sideways']} pixels")
        self.wrong += [f"picture {source} is broken" for source in found["broken"]]
        if not found["title"]:
            self.note("has no title")
        if not address.startswith(SOURCES):
            size = self.page.viewport_size or {"width": 0}
            given = {"phone": size["width"] <= PHONE, "legible": LEGIBLE}
            self.wrong += self.page.evaluate(CLIPPED, given)
        return list(self.wrong)

    def keep(self, path: Path) -> None:
        """Keep a picture of the whole page."""
        path.parent.mkdir(parents=True, exist_ok=True)
        self.page.screenshot(path=path, full_page=True)

    def search(self, word: str, first: str) -> list[str]:
        """Search as a reader does, from the box of a page; what is wrong with that, or with what is found first."""
        self.wrong.clear()
        self.page.goto(f"{self.home}/index.html")
        self.page.keyboard.press("Control+k")
        box = self.page.locator("input[name=q]:visible").first
        box.fill(word)
        box.press("Enter")
        try:
            self.page.wait_for_selector("#search-results li a", timeout=20_000)
            # Who leaves earlier calls off the pages that are still being read for their summaries.
            self.page.wait_for_load_state("networkidle", timeout=60_000)
        except Exception as error:  # of the browser: nothing was found in time
            self.note(f"the search for {word!r} finds nothing ({type(error).__name__})")
            return list(self.wrong)
        found = self.page.locator("#search-results li a").first.get_attribute("href") or ""
        if not found.endswith(first):
            self.note(f"the search for {word!r} finds {found} first")
        return list(self.wrong)


def reported(site: Path, home: str, only: str = "", shots: Path | None = None) -> Iterator[str]:
    """A line for everything that is wrong with a site, whose pages are kept as pictures in the folder `shots`."""
    pages = sorted(path.relative_to(site).as_posix() for path in site.rglob("*.html"))
    # The theme keeps a template of its own beside its styles.
    pages = [page for page in pages if page.startswith(only) and not page.startswith("_static/")]
    words = WORDS if (site / "search.html").is_file() else {}
    program = next(filter(None, map(shutil.which, BROWSERS)), None)
    with sync_playwright() as known:
        browser = known.chromium.launch(executable_path=program, args=["--no-sandbox"])
        for width, height in SIZES:
            view = {"width": width, "height": height}
            watched = Watched(browser.new_page(viewport=view), home)  # type: ignore[arg-type]
            for page in pages:
                yield from (f"{page} at {width}: {what}" for what in watched.look(page))
                if shots:
                    watched.keep(shots / f"{page.removesuffix('.html')}.{width}.png")
            for word, first in words.items():
                yield from (f"search at {width}: {what}" for what in watched.search(word, first))
            print(f"{len(pages)} pages and {len(words)} searches at {width} pixels", flush=True)
        browser.close()


@contextmanager
def served(site: Path) -> Iterator[str]:
    """The address at which this machine alone can read a site."""
    server = ThreadingHTTPServer(("127.0.0.1", 0), partial(Quiet, directory=str(site)))
    Thread(target=server.serve_forever, daemon=True).start()
    yield f"http://127.0.0.1:{server.server_port}"
    server.shutdown()
    server.server_close()


def main() -> int:
    """Serve the site to this machine alone, and look."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("site", nargs="?", default="site", type=Path)
    parser.add_argument("--only", default="", help="pages whose address begins so")
    parser.add_argument("--keep", type=Path, metavar="FOLDER", help="keep pictures of the pages")
    given = parser.parse_args()
    wrong = 0
    with served(given.site) as home:
        for line in reported(given.site, home, given.only, given.keep):
            print(line, flush=True)
            wrong += 1
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
