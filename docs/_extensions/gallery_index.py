"""The overview of the gallery: experiments by subject, each with the one panel of its figure that tells most."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

from gallery import HEADER, PAGES

from scalewise.experiments.catalogue import EXPERIMENTS, experiment

SVG, LINK = "http://www.w3.org/2000/svg", "http://www.w3.org/1999/xlink"
TITLE, BELOW, BESIDE = 22.0, 36.0, 48.0  # points around a panel, for its title, numbers and labels
SUBJECTS = {
    "At initialisation": (
        "How signals, and gradients, pass through random layers.",
        "network_diagram activation_curves critical_loci susceptibility_ratios universality_classes deep_angles "
        "gradient_flow equivalent_rates robustness_depth evidence_of_data",
    ),
    "Finite width, to order 1/n": (
        "How much real networks differ from infinitely wide ones, and from each other.",
        "fluctuations optimal_aspect_ratio residual_growth ntk_statistics ntk_ratios dntk_growth ddntk_growth "
        "six_point differential_hierarchy",
    ),
    "Convolutions, attention, graphs, norms": (
        "The same questions for other layers.",
        "convolution_phases transformer_phases attention_mixture architecture_agreement architecture_fluctuations",
    ),
    "After training": (
        "What networks have learned, predicted before they are trained.",
        "one_step kernel_learning bias_and_variance posterior_features nearly_kernel_methods trained_networks "
        "trained_kinks learning_agreement trained_architectures",
    ),
    "Infinite width in which features move": (
        "Limits between lazy and rich training.",
        "lazy_to_rich phase_diagram s_family stable_strategies stability_band linear_and_quadratic_limits "
        "omniglot_maml word2vec_analogies cifar2_limits cifar2_batches",
    ),
    "In practice": (
        "A small model is tuned and a large one trained; networks are chosen by theory.",
        "learning_rate_transfer text_transfer critical_base scaling_questions design_on_digits",
    ),
    "Tables of others": (
        "Published results of kernels of infinitely wide networks, computed again.",
        "nngp_regression uci_kernels small_cifar10 convolution_widths",
    ),
}
# The panel that tells most, where it is not the first.
PANEL = {"activation_curves": 7, "fluctuations": 6}


def panel(figure: str, number: int) -> str:
    """One panel of a figure of matplotlib, both as SVG: what stands around it is cut off."""
    ElementTree.register_namespace("", SVG)
    ElementTree.register_namespace("xlink", LINK)
    root = ElementTree.fromstring(figure)
    found: tuple[float, ...] = ()
    for parent in list(root.iter(f"{{{SVG}}}g")):
        for one in list(parent):
            name = one.get("id", "")
            if name == f"axes_{number}":
                path = next(one.iter(f"{{{SVG}}}path")).get("d", "")
                numbers = [float(word) for word in re.findall(r"-?[\d.]+", path)]
                xs, ys = numbers[::2], numbers[1::2]
                found = min(xs), min(ys), max(xs), max(ys)
            elif re.fullmatch(r"(axes|legend|text)_\d+", name) and parent.get("id") == "figure_1":
                parent.remove(one)
    if not found:
        raise ValueError(f"a figure has no panel {number}")
    left, top, right, bottom = found
    left, top = max(left - BESIDE, 0), max(top - TITLE, 0)
    wide, high = right + 16 - left, bottom + BELOW - top
    root.set("viewBox", f"{left:g} {top:g} {wide:g} {high:g}")
    root.set("width", f"{wide:g}pt")
    root.set("height", f"{high:g}pt")
    return ElementTree.tostring(root, encoding="unicode")


def _thumbnails(folder: Path, name: str) -> list[str]:
    """Write the panel of one experiment for light and dark pages; the file names."""
    out = []
    for theme in ("light", "dark"):
        # That of a phone has larger letters for its size.
        ways = (folder / f"sphx_glr_{name}_001{screen}-{theme}.svg" for screen in ("-narrow", ""))
        drawn = next((path for path in ways if path.is_file()), None)
        if drawn is None:
            return []
        path = folder / "panel" / f"{name}-{theme}.svg"
        path.parent.mkdir(exist_ok=True)
        path.write_text(panel(drawn.read_text(), PANEL.get(name, 1)), encoding="utf-8")
        out.append(path.name)
    return out


def index(names: set[str], folder: Path) -> str:
    """The page of the gallery, with the experiments among `names` that have one of their own."""
    lines = [HEADER]
    away = [f"``{name}``" for name in EXPERIMENTS if name not in names]
    if away:
        lines += [f"The data of these are missing: {', '.join(away)}.", ""]
    for title, (told, listed) in SUBJECTS.items():
        here = [name for name in listed.split() if name in names]
        lines += [title, "-" * len(title), "", told, ""]
        lines += [".. grid:: 1 2 3 3", "   :gutter: 3", "   :class-container: panels", ""]
        for name in here:
            lines += [f"   .. grid-item-card:: {experiment(name).TITLE}"]
            lines += [f"      :link: {name}", "      :link-type: doc", ""]
            for file in _thumbnails(folder, name):
                theme = file.removesuffix(".svg").rpartition("-")[2]
                lines += [f"      .. image:: /{PAGES}/images/panel/{file}", "         :alt:"]
                lines += [f"         :class: only-{theme}", ""]
        lines += [".. toctree::", f"   :caption: {title}", "   :hidden:", ""]
        lines += [*(f"   {name}" for name in here), ""]
    return "\n".join(lines)


def _write(app: Any) -> None:
    pages = Path(app.srcdir) / PAGES
    grouped = [name for _, listed in SUBJECTS.values() for name in listed.split()]
    if lost := sorted({*EXPERIMENTS} ^ {*grouped}):
        raise ValueError(
            f"SUBJECTS lists every experiment once, and no other; amiss: {', '.join(lost)}."
        )
    names = {path.stem for path in pages.glob("*.rst")} & {*EXPERIMENTS}
    (pages / "index.rst").write_text(index(names, pages / "images"), encoding="utf-8")


def setup(app: Any) -> dict[str, bool]:
    """Write the overview in place of sphinx-gallery's, once the figures are drawn."""
    app.connect("builder-inited", _write, priority=900)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
