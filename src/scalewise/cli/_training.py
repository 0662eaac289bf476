"""From a network and a task to all that the page of a training shows."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from scalewise.networks import Network
from scalewise.report import LearnedPanels
from scalewise.tasks import Task
from scalewise.training import (
    Bayes,
    GradientDescent,
    GradientFlow,
    LastLayer,
    TwoStepNewton,
    algorithms_side_by_side,
    evidence_of_networks,
    ntk_motion,
    predict_training,
)
from scalewise.training.spi import settled, shared_tensors, without_warning

DEPTHS = (2, 3, 4, 6)
VARIANCES = tuple(float(v) for v in np.geomspace(0.25, 4.0, 17))


def predicted(
    net: Network, task: Task, algorithm: Any, run: Mapping[str, object], *, noise_variance: float
) -> LearnedPanels:
    """Results that are known before a network is trained."""
    with shared_tensors():
        return _predicted(net, task, algorithm, run, noise_variance=noise_variance)


def _predicted(
    net: Network, task: Task, algorithm: Any, run: Mapping[str, object], *, noise_variance: float
) -> LearnedPanels:
    with without_warning():  # the page and the terminal tell the small parameter
        theory = predict_training(net, task, algorithm, observables="all")
    change = theory.get("ntk_change_nlo")
    strong = theory.attrs.get("maximal_rate")
    others = {
        "gradient flow": GradientFlow(),
        **(
            {}
            if strong is None
            else {
                f"descent at {part:g}/h_max": GradientDescent(0.5 * part * strong)
                for part in (0.2, 0.8, 1.5)
            }
        ),
        "two-step Newton": TwoStepNewton(),
        "Bayes": Bayes(noise_variance),
        "last layer only": LastLayer(),
    }
    first = net.C_W[0]
    return LearnedPanels(
        net,
        task,
        theory,
        algorithms_side_by_side(net, task, others),
        evidence_of_networks(
            net,
            task,
            depths=sorted({*DEPTHS, net.depth}),
            weight_variances=[first * v for v in VARIANCES],
            noise_variance=noise_variance,
        ),
        motion=None if change is None else ntk_motion(net, task, change),
        run=run,
    )


def with_networks(
    learned: LearnedPanels,
    algorithm: Any,
    networks: int,
    widths: list[int],
    *,
    seed: int,
    tolerance: float,
    store: Path,
    progress: Callable[[str, int, int], None],
) -> LearnedPanels:
    """These results with ensembles trained at some widths, one of them that of the network.

    Where order 1/n is not known there is nothing to hold a finite width against: no comparison.
    """
    from scalewise.comparison import compare
    from scalewise.training.ensembles import measure_training

    if "spectrum" in learned.theory:
        h, targets = learned.theory.spectrum.values, learned.task.targets.size
        algorithm = settled(algorithm, h, targets=targets)
    found = {
        width: measure_training(
            learned.net.at_width(width) if width != learned.width else learned.net,
            learned.task,
            algorithm,
            networks=networks,
            seed=seed,
            store=store / str(width),
            progress=lambda done, total, width=width: progress(f"width {width}", done, total),
        )
        for width in widths
    }
    outcome = None
    if learned.small is not None:
        with without_warning():
            outcome = compare(learned.theory, found[learned.width], tolerance=tolerance)
    return replace(learned, ensembles=found, comparison=outcome)


def losses(learned: LearnedPanels) -> str:
    """A few lines for a terminal."""
    n = np.array([float(learned.width)])
    at, neglected = learned.at(n)
    lines = [f"mean test loss at infinite width: {learned.loss:.5g}"]
    if learned.slope is None:
        lines.append(f"coefficient of 1/n: not known here{learned.why_no_order}")
    else:
        lines.append(f"coefficient of 1/n: {learned.slope:.5g}")
        lines.append(f"predicted at width {learned.width}: {at[0]:.5g} ± {neglected[0]:.2g}")
        lines.append(
            f"learning parameter there: {learned.small:.3g} (the order 1/n says little above 0.5)"
        )
    for width, mean, sem in zip(*learned.measured_loss(), strict=True):
        lines.append(f"measured at width {int(width)}: {mean:.5g} ± {sem:.2g}")
    if learned.comparison is not None:
        lines.append(str(learned.comparison))
    elif learned.ensembles:
        lines.append(
            "Theory and ensemble are not compared: what infinite width neglects is unknown."
        )
    return "\n".join(lines)
