r"""What the page knows: expectations of every activation as series in $\log K$, and losses of trained networks.

All that the page says of one input follows from five functions of its kernel. The same panels serve every
activation: Chebyshev series, cut where their coefficients fall below what is asked for, as far up and down as the
expectations can be had. Trained networks depend on more than one input, and come as numbers by depth.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy.polynomial import chebyshev

from scalewise.activations import Activation
from scalewise.critical import Criticality, criticality
from scalewise.data import load_task
from scalewise.networks import MLP
from scalewise.scaling import limit_of
from scalewise.tasks import Task
from scalewise.theory.information import optimal_depth
from scalewise.theory.spi import LineTable, line_table, preactivation_names
from scalewise.training import ExpansionWarning, predict_training
from scalewise.training.spi import LARGE

Progress = Callable[[str, int, int], None]

MOMENTS = ("g", "g1", "g2", "vss", "p")
ACCURACY = 1e-6  # of what the page shows, of its natural size; the tests hold it to `predict`
OUTPUTS = 10  # of the network whose optimal depth is told
INPUT_DIM = 64
_TASK = "digits:3,8"
_LENGTH = 1.0  # of a panel, in log K
_LOWEST, _HIGHEST = math.log(1e-8), math.log(1e4)
_BEYOND = ("test_loss_nlo", "learning_parameter")
_NODES = 32
_CUT = 1e-11  # a coefficient, of the largest value on its panel
_HELD = 1e-8  # an expectation, of its size: a hundred layers add up to less than is stated
_NODE = np.cos(np.pi * (np.arange(_NODES) + 0.5) / _NODES)
# Where a limit of the web is told to be near: a choice of this page.
_FROZEN_BELOW, _UNBOUNDED_ABOVE = 0.1, 1.0
_WAYS = {
    "frozen_ntk": (0, 0),
    "infinite_width_and_depth": (0, 1),
    "missing": ("1/2", "1/2"),
    "mean_field": (1, 0),
    "unbounded": ("1/2", 1),
}


def page_tables(
    activations: Sequence[Activation],
    *,
    samples: int,
    depths: Sequence[int],
    progress: Progress | None = None,
) -> dict[str, Any]:
    """Tables of the page, as JSON has them.

    Args:
        activations: Which can be chosen; continuous ones.
        samples: Training samples of the digits task, and as many test samples.
        depths: At which the trained networks are predicted.
        progress: Called with (what, steps done, steps in all).
    """

    def report(what: str, done: int, total: int) -> None:
        if progress is not None:
            progress(what, done, total)

    known = [(sigma, criticality(sigma)) for sigma in activations]
    rows: list[dict[str, Any]] = []
    for done, (sigma, record) in enumerate(known, 1):
        rows.append({**activation_table(sigma), **_critical(record)})
        report("expectations", done, len(known))
    trained = [
        (record, row)
        for (_, record), row in zip(known, rows, strict=True)
        if record.C_b is not None
    ]
    cells = [(*one, depth) for one in trained for depth in depths]
    for done, (record, row, depth) in enumerate(cells, 1):
        task = load_task(_TASK, train=samples, test=samples)
        row.setdefault("loss", []).append(_loss(record, depth, task))
        report("trained networks", done, len(cells))
    return {
        "moments": MOMENTS,
        "length": _LENGTH,
        "accuracy": ACCURACY,
        "outputs": OUTPUTS,
        "activations": dict(zip((sigma.name for sigma in activations), rows, strict=True)),
        "task": {"name": _TASK, "samples": samples, "large": LARGE},
        "limits": {name: limit_of(*way).summary for name, way in _WAYS.items()},
        "frozen_below": _FROZEN_BELOW,
        "unbounded_above": _UNBOUNDED_ABOVE,
    }


def activation_table(sigma: Activation) -> dict[str, Any]:
    r"""The series of one activation.

    Args:
        sigma: The activation, continuous.

    Returns:
        ``start``, $\log K$ of the first panel's left end, and ``panels``: of each, for every one of `MOMENTS`, the
        coefficients of $T_k$.
    """
    table = line_table(sigma, preactivation_names(sigma))
    edges = np.arange(_LOWEST, _HIGHEST, _LENGTH)
    middle = int(np.searchsorted(edges, -_LENGTH / 2))
    up = _as_far_as_known(table, edges[middle:])
    down = _as_far_as_known(table, edges[:middle][::-1])
    return {"start": float(edges[middle - len(down)]), "panels": down[::-1] + up}


def _as_far_as_known(table: LineTable, edges: np.ndarray) -> list[list[list[float]]]:
    """Panels one after the other, up to where expectations overflow, do not converge or change too fast."""
    panels = []
    for left in edges:
        K = np.exp(left + (_NODE + 1) / 2 * _LENGTH)
        try:
            with np.errstate(over="ignore", invalid="ignore"):
                values = table.moments(K)
        except ValueError:
            break
        panel = _panel(K, values)
        if panel is None:
            break
        panels.append(panel)
    return panels


def _panel(K: np.ndarray, values: dict[str, np.ndarray]) -> list[list[float]] | None:
    r"""The series of a panel if they hold, derivatives on the scale of $g/K$ and $g/K^2$, all else on its own."""
    if not all(np.isfinite(values[name]).all() for name in MOMENTS):
        return None
    scale = {"g1": values["g"] / K, "g2": values["g"] / K**2}
    panel = []
    for name in MOMENTS:
        size = np.maximum(np.abs(values[name]), scale.get(name, 0.0))
        series = _series(values[name], float(size.max()))
        off = np.abs(chebyshev.chebval(_NODE, series) - values[name])
        if len(series) > _NODES - 2 or not np.all(off <= _HELD * size):
            return None
        panel.append(series)
    return panel


def _series(values: np.ndarray, size: float) -> list[float]:
    """Coefficients as far as they matter to a quantity of that size, with as many digits."""
    if size == 0:
        return [0.0]
    coefficients = chebyshev.chebfit(_NODE, values, _NODES - 1)
    last = int(np.flatnonzero(np.abs(coefficients) > _CUT * size).max(initial=0))
    digits = 1 - math.floor(math.log10(_CUT * size))
    return [round(float(c), digits) for c in coefficients[: last + 1]]


def _critical(record: Criticality) -> dict[str, Any]:
    sigma = record.activation
    if record.C_b is None:
        return {"critical": None, "reason": record.reason, "loss": None}
    shape = MLP(2, 1000, sigma, input_dim=INPUT_DIM, output_dim=OUTPUTS)
    return {
        "critical": {"C_b": record.C_b, "C_W": record.C_W, "class": record.universality},
        "aspect_ratio": optimal_depth(shape).aspect_ratio,
    }


def _loss(record: Criticality, depth: int, task: Task) -> dict[str, Any]:
    """The mean loss over test samples; where known, its coefficient of 1/n, and the small parameter times n."""
    sigma = record.activation
    beyond = _BEYOND if sigma.is_smooth else ()
    net = MLP(depth, 1000, sigma, input_dim=INPUT_DIM, output_dim=1).at_criticality()
    with warnings.catch_warnings():  # the page says it for every width
        warnings.simplefilter("ignore", ExpansionWarning)
        found = predict_training(
            net, task, observables=["test_loss", *beyond], covariance="diagonal", at="test"
        )
    nlo, parameter = (float(found[name].mean()) if name in beyond else None for name in _BEYOND)
    return {
        "depth": depth,
        "leading": float(found.test_loss.mean()),
        "nlo": nlo,
        "parameter": parameter,
    }
