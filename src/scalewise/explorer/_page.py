"""The page put together: tables, scripts and styles in one file."""

from __future__ import annotations

import html
import json
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from scalewise._checked import Count, Told, checked
from scalewise._version import __version__
from scalewise.activations import Activation, activation
from scalewise.explorer._tables import page_tables

ACTIVATIONS = ("tanh", "relu", "gelu", "swish", "sin", "linear", "softplus", "sigmoid")
DEPTHS = (2, 3, 4, 6)
_HERE = Path(__file__).parent
_PLACE = re.compile(r"/\*\{([\w.]+)\}\*/|<!--\{(\w+)\}-->")


@checked
def write_explorer(
    out: str | Path,
    activations: Sequence[str | Activation] = ACTIVATIONS,
    *,
    samples: Count = 4,
    depths: Sequence[Count] = DEPTHS,
    progress: Told = None,
) -> Path:
    r"""Write one page on which a network is changed by sliders and what is predicted of it follows.

    Shown: where $(C_b,C_W)$ lies in the phase diagram; $K$, $\Theta$, $V$ and $G^{\{1\}}$ of one input of
    $|x|^2=n_0$ from layer to layer; $\gamma=L/n^{1-s}$ and the limit of the web it is near; the depth that
    the width bears; and the test loss of a digits task, to order $1/n$, against the width.

    Args:
        out: The file to write; its folder is made.
        activations: Those that can be chosen, by name or as they are; continuous ones.
        samples: Training samples of the digits task, and as many test samples; the time it takes grows faster than
            their square.
        depths: Of the trained networks, each at least 2.
        progress: Called with (what, steps done, steps in all).

    Returns:
        The file. What the page shows of kernels and tensors agrees with `predict` to 1e-6 of their size; losses are
        those of `predict_training`.

    Raises:
        ValueError: If no activation is given, one is given twice or jumps, a depth is below 2, so few samples
            are all of one class, or `out` is a folder.
        MissingExtraError: If scikit-learn, which has the digits, is not installed.
        OSError: If the file cannot be written.

    Example:
        >>> import tempfile
        >>> from scalewise.explorer import write_explorer
        >>> page = write_explorer(f"{tempfile.mkdtemp()}/explorer.html", ["relu"], depths=[2])
        >>> "uPlot" in page.read_text()
        True
    """
    chosen = [activation(source) for source in activations]
    _check(chosen, depths)
    page = Path(out)
    if page.is_dir():
        raise ValueError(
            f"`out` must be the file to write; {str(out)!r} is a folder. Give a name in it, such as "
            f"{str(page / 'explorer.html')!r}."
        )
    page.parent.mkdir(parents=True, exist_ok=True)  # before the work that its failure would waste
    tables = page_tables(chosen, samples=samples, depths=sorted(set(depths)), progress=progress)
    page.write_text(_filled(tables), encoding="utf-8")
    return page


def _check(chosen: Sequence[Activation], depths: Sequence[int]) -> None:
    names = [sigma.name for sigma in chosen]
    if not names or len(set(names)) < len(names):
        raise ValueError(
            f"`activations` must be one or more, each of another name; got {', '.join(names) or 'none'}."
        )
    jumping = [sigma.name for sigma in chosen if not sigma.is_continuous]
    if jumping:
        raise ValueError(
            f"`activations` must be continuous, because the page shows their NTK; {jumping[0]!r} jumps."
        )
    if not depths or min(depths) < 2:
        raise ValueError(
            "`depths` are those of networks with a hidden layer, one or more of at least 2; "
            f"got {list(depths)}."
        )


def _filled(tables: dict[str, Any]) -> str:
    def read(name: str) -> str:
        return (_HERE / name).read_text(encoding="utf-8")

    # In a script element `</` could end it; in JSON the escaped form means the same.
    parts = {
        "tables": json.dumps(tables, separators=(",", ":"), allow_nan=False).replace("</", "<\\/"),
        "version": html.escape(__version__),
        "licence": html.escape(read("uplot/LICENSE")),
        "uplot.css": read("uplot/uPlot.min.css"),
        "uplot.js": read("uplot/uPlot.iife.min.js"),
        **{name: read(name) for name in ("page.css", "model.js", "page.js")},
    }
    return _PLACE.sub(lambda found: parts[found[1] or found[2]], read("page.html"))
