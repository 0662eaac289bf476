"""Put the page of a training together and write it beside the results it was made from."""

from __future__ import annotations

from os import PathLike
from pathlib import Path
from typing import Any

import numpy as np
from markupsafe import Markup

from scalewise._checked import checked
from scalewise.report._learning import LearnedPanels
from scalewise.report._learning_figures import FIGURES
from scalewise.report._page import as_plain, folder_for, leave, template, title_of, versions
from scalewise.report._words import count, number
from scalewise.training.spi import LARGE

_WORST_ROWS = 12


@checked
def write_training_report(out: str | PathLike[str], learned: LearnedPanels) -> Path:
    """Write the page of a training: one file, and the results it was made from.

    Args:
        out: A folder, made if it is not there. It receives ``index.html``, ``result.json``, ``theory.zarr`` and
            an ``ensemble-<width>.zarr`` for each width that was trained.
        learned: What was predicted and measured. Nothing is computed here that it does not hold.

    Returns:
        The path of ``index.html``.

    Raises:
        ValueError: If `out` is a file.
    """
    folder, record = folder_for(out), training_record(learned)
    data = {f"ensemble-{width}": found for width, found in learned.ensembles.items()}
    return leave(folder, record, {"theory": learned.theory, **data}, _render(learned, record))


@checked
def training_record(learned: LearnedPanels) -> dict[str, Any]:
    """The verdict on what was `learned` and every number needed to run again, as plain JSON."""
    at, neglected = learned.at(np.array([float(learned.width)]))
    n, mean, sem = learned.measured_loss()
    outcome = learned.comparison
    return {
        "network": learned.net.attributes(),
        "algorithm": learned.theory.attrs["algorithm"],
        "test_loss": {
            "infinite_width": learned.loss,
            "coefficient": learned.slope,
            "at_width": float(at[0]),
            "neglected": float(neglected[0]),
            "measured": [
                {"width": int(w), "mean": float(m), "sem": float(s)}
                for w, m, s in zip(n, mean, sem, strict=True)
            ],
        },
        "learning_parameter": learned.small,
        "comparison": None if outcome is None else outcome.to_dict(),
        "algorithms": _rows(learned),
        "run": {key: as_plain(value) for key, value in learned.run.items()},
        "versions": versions(),
    }


def _render(learned: LearnedPanels, record: dict[str, Any]) -> str:
    figures = {f.name: f for make in FIGURES if (f := make(learned)) is not None}
    outcome = learned.comparison
    return template("learning.html.j2").render(
        learned=learned,
        outcome=outcome,
        worst=[] if outcome is None else outcome.worst(_WORST_ROWS),
        figures=figures,
        verdict=_verdict(learned),
        at_width=record["test_loss"]["at_width"],
        trained=sum(int(data.attrs["networks"]) for data in learned.ensembles.values()),
        caveats=_caveats(learned),
        algorithms=[
            {**row, "known": row["test_loss_nlo"] is not None} for row in record["algorithms"]
        ],
        record=record,
        title=f"{title_of(learned.net)}, {len(learned.task.inputs)} samples",
    )


def _rows(learned: LearnedPanels) -> list[dict[str, Any]]:
    data = learned.algorithms
    rows = []
    for i, name in enumerate(data.algorithm.values):
        row = {str(key): data[key].values[i].item() for key in data.data_vars}
        plain = {k: None if v != v else v for k, v in row.items()}
        rows.append({"name": str(name), **plain})
    return rows


_LEADS = {
    True: "Theory and trained networks agree.",
    False: "Theory and trained networks disagree.",
    None: "Theory and trained networks beside each other, without a verdict.",
}


def _verdict(learned: LearnedPanels) -> Markup:
    """Summary for a reader who reads one paragraph."""
    at, neglected = (float(v[0]) for v in learned.at(np.array([float(learned.width)])))
    if learned.slope is None:
        told = f"Networks of infinite width have a mean test loss of {number(learned.loss)}."
    else:
        told = (
            f"Networks of width {learned.width} have a mean test loss of {number(at, 4)} ± {number(neglected, 2)}, "
            f"those of infinite width {number(learned.loss, 4)}."
        )
    lead, end = "Predicted before training.", ""
    if learned.ensembles:
        passed = None if learned.comparison is None else learned.comparison.passed
        lead = _LEADS[passed]
        why = "" if learned.comparison is None else learned.comparison.reason
        n, mean, sem = learned.measured_loss()
        own = int(np.flatnonzero(n == learned.width)[0])
        networks = int(learned.ensembles[learned.width].attrs["networks"])
        end = f" {count(networks)} trained networks have {number(mean[own], 4)} ± {number(sem[own], 2)}."
        end += f" {why}" if why else ""
    return Markup("<strong>{}</strong> {}{}").format(lead, told, end)


def _caveats(learned: LearnedPanels) -> list[str]:
    if learned.small is None:
        told = "The prediction is that of infinite width; the order 1/n is not known here"
        return [f"{told}{learned.why_no_order}."]
    if learned.small > LARGE:
        return [
            f"The learning parameter is {number(learned.small)} at width {learned.width}, above ½: the order "
            "1/n says "
            "little there. Wider networks, early stopping or a ridge lower it."
        ]
    return []
