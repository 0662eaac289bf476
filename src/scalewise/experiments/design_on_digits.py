r"""Networks chosen by theory, then trained: is the predicted ranking right, and does the choice pay?

`sw.design` ranks all networks of at most so many parameters before any is trained, by the mean test loss
$$\mathcal L(n)=\mathcal L_0+\frac1n\mathcal L_1$$
that theory predicts for them, and recommends the best where the second term can be trusted. Here its first choices
are trained, with some from further down its table and with what many would take by default: tanh and ReLU at their
usual initialisation.

Claims: measured losses lie where they are predicted where the small parameter is small, the order of the candidates
(Kendall's $\tau$) is that of the prediction, and the choice is better than the defaults.

Source: PDLT (10.52), (∞.170)-(∞.172); `sw.design` is derived.
"""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np
import xarray as xr
from matplotlib.axes import Axes
from scipy import stats

from scalewise.data import load_task
from scalewise.experiments._form import Folder, Progress, each, settings
from scalewise.experiments._look import COLORS, MUTED, Number, Table, attributes, panels, points
from scalewise.networks import MLP, Network
from scalewise.sweeps import sweep
from scalewise.tasks import Task
from scalewise.training import Design, GradientDescent, design, predict_training
from scalewise.training.ensembles import measure_training

TITLE = "Networks chosen by theory, then trained"
TEXT = (
    "The task is to tell two kinds of digits apart with a fixed number of parameters. sw.design ranks the "
    "candidate networks before any is trained; then its first choices, some from further down and two common "
    "defaults are trained. A point is a network: its mean test loss as measured, against the prediction. On "
    "the line the two are equal. The prediction has its 1/n term where that is known and small; elsewhere it "
    "is that of infinite width."
)
DEFAULTS = {"default tanh": ("tanh", 1.0), "default relu": ("relu", 2.0)}
_WAY = GradientDescent()


# Small: four samples and three candidates: seconds.
@settings(
    train=4,
    test=3,
    budget=2000,
    depths=(2,),
    activations=("tanh",),
    refine=2,
    others=0,
    networks=20,
)
class Config:
    """Settings.

    Args:
        train: Training samples.
        test: Test samples, by which candidates are compared.
        budget: Parameters.
        depths: Of the candidates, and the last of the defaults.
        activations: Of the candidates.
        refine: Candidates that are predicted at their width; all are trained.
        others: Trained besides, evenly from the rest of the table.
        networks: Trained of each.
        seed: Of the samples.
    """

    train: int = 8
    test: int = 8
    budget: int = 6000
    depths: tuple[int, ...] = (2, 3)
    activations: tuple[str, ...] = ("tanh", "sin")
    refine: int = 4
    others: int = 2
    networks: int = 60
    seed: int = 0

    @classmethod
    def paper(cls) -> Config:
        """Twelve candidates and two defaults, 100 networks each: a few minutes on one core."""
        return cls(
            depths=(2, 3, 4),
            activations=("tanh", "gelu", "sin", "relu"),
            refine=6,
            others=6,
            networks=100,
        )


def run(
    config: Config, *, store: Folder = None, progress: Progress = None, client: Any = None
) -> xr.Dataset:
    """Design, and train what was looked at.

    Kept and counted are candidates.

    Returns:
        Over candidate, the recommended one first and the defaults last: ``predicted`` and ``predicted_error``, mean
        test loss at the width with the size of what it neglects; ``trusted``; ``measured`` and ``measured_sem`` of
        trained networks, NaN if networks of this width do not train; ``depth``, ``activation``, ``width``, ``C_b``,
        ``C_W``, ``parameters``.
    """
    task = load_task("digits:3,8", train=config.train, test=config.test, seed=config.seed)
    found = design(
        task,
        config.budget,
        _WAY,
        depths=config.depths,
        activations=config.activations,
        refine=config.refine,
        client=0,
    )
    told, nets = _looked_at(found, task, config)
    trained = sweep(
        partial(_trained, nets=nets, task=task, config=config),
        {"candidate": list(nets)},
        store=store,
        progress=progress,
        client=client,
    )
    told = told.merge(trained.load().reset_coords(drop=True))
    return told.assign_attrs(attributes(config))


def _looked_at(found: Design, task: Task, config: Config) -> tuple[xr.Dataset, dict[str, Network]]:
    """The candidates that are trained, as a table and as networks."""
    rest = np.linspace(config.refine, found.table.sizes["candidate"] - 1, config.others)
    chosen = [*range(config.refine), *map(int, rest)]
    rows, nets = [], {}
    for k in chosen:
        row = found.table.isel(candidate=k)
        net = MLP(
            int(row.depth),
            int(row.width),
            str(row.activation.values),
            input_dim=task.inputs.shape[1],
            output_dim=task.targets.shape[1],
            C_b=float(row.C_b),
            C_W=float(row.C_W),
        )
        nets[f"design {k + 1}"] = net
        rows.append((float(row.predicted_loss), float(row.stated_error), bool(row.trusted)))
    depth = config.depths[-1]
    for name, (activation, C_W) in DEFAULTS.items():
        ends = {"input_dim": task.inputs.shape[1], "output_dim": task.targets.shape[1]}
        width = next(
            n
            for n in range(config.budget, 0, -1)
            if MLP(depth, n, "linear", **ends).parameters <= config.budget
        )
        nets[name] = MLP(depth, width, activation, **ends, C_b=0.0, C_W=C_W)
        loss = predict_training(nets[name], task, _WAY, observables=["test_loss"]).test_loss
        rows.append((float(loss.mean()), np.nan, False))
    predicted, error, trusted = (np.array(column) for column in zip(*rows, strict=True))
    columns = {
        "predicted": predicted,
        "predicted_error": error,
        "trusted": trusted.astype(float),
        "depth": [net.depth for net in nets.values()],
        "activation": [net.activation.name for net in nets.values()],
        "width": [net.hidden_widths[0] for net in nets.values()],
        "C_b": [net.C_b[0] for net in nets.values()],
        "C_W": [net.C_W[0] for net in nets.values()],
        "parameters": [net.parameters for net in nets.values()],
    }
    values = {name: ("candidate", column) for name, column in columns.items()}
    return xr.Dataset(values, {"candidate": list(nets)}), nets


def _trained(candidate: str, *, nets: dict[str, Network], task: Task, config: Config) -> xr.Dataset:
    """The mean test loss of one candidate."""
    options = {"observables": ["test_loss"], "control": None, "progress": False}
    try:
        seen = measure_training(
            nets[candidate], task, _WAY, networks=config.networks, seed=1, **options
        )
    except ValueError:  # networks diverge, or do not converge
        return xr.Dataset({"measured": np.nan, "measured_sem": np.nan})
    # Samples share their networks: the errors of their losses are added as if they were one.
    return xr.Dataset(
        {
            "measured": float(seen.test_loss.mean()),
            "measured_sem": float(seen.test_loss_sem.mean()),
        }
    )


def rank_correlation(dataset: xr.Dataset) -> tuple[float, float]:
    r"""Kendall's $\tau$ between predicted and measured losses, and its error by leaving out each candidate."""
    known = dataset.isel(candidate=np.isfinite(dataset.measured.values))
    x, y = known.predicted.values, known.measured.values
    whole = _tau(x, y)
    count = len(x)
    each = np.array([_tau(np.delete(x, k), np.delete(y, k)) for k in range(count)])
    return whole, float(np.sqrt((count - 1) / count * ((each - each.mean()) ** 2).sum()))


def _tau(x: np.ndarray, y: np.ndarray) -> float:
    return float(np.asarray(stats.kendalltau(x, y))[0])


def numbers(dataset: xr.Dataset) -> list[Number]:
    """Losses where the expansion is small, and the choice beside the defaults."""
    rows = []
    for name, one in each(dataset, "candidate"):
        if bool(one.trusted) and np.isfinite(float(one.measured)):
            error = float(one.predicted_error)
            rows.append(Number.of(one, f"test loss of {name}", "predicted", "measured", error))
    best, names = dataset.isel(candidate=0), [str(name) for name in dataset.candidate.values]
    usual = dataset.sel(candidate=[name for name in names if name in DEFAULTS])
    least = usual.isel(candidate=int(np.nanargmin(usual.measured.values)))
    lost = max(float(best.measured - least.measured), 0.0)
    sem = float(np.hypot(best.measured_sem, least.measured_sem))
    return [*rows, Number("what the choice loses to the better default", 0.0, lost, sem)]


def tables(dataset: xr.Dataset) -> list[Table]:
    """All that was trained, and the rank correlation."""
    rows = []
    for name, one in each(dataset, "candidate"):
        known, error = float(one.predicted), float(one.predicted_error)
        rows.append(
            (
                name,
                f"{one.activation.values}, depth {int(one.depth)}, width {int(one.width)}",
                f"{float(one.C_b):.3g}, {float(one.C_W):.3g}",
                f"{known:.3f} ± {error:.3f}"
                if bool(one.trusted)
                else f"{known:.3f} at infinite width",
                f"{float(one.measured):.3f} ± {float(one.measured_sem):.3f}",
            )
        )
    head = ("", "network", "C_b, C_W", "predicted test loss", "measured")
    tau, error = rank_correlation(dataset)
    small = [("all", f"{tau:.2f} ± {error:.2f}")]
    return [
        Table.of("Candidates by their predicted loss, and defaults", head, rows),
        Table.of("Kendall's τ between predicted and measured loss", ("", "τ"), small),
    ]


@panels(1, height=3.8)
def figure(dataset: xr.Dataset, axis: Axes) -> None:
    """Measured against predicted."""
    trusted = dataset.trusted.values > 0
    for mask, color, label in ((trusted, COLORS[0], "with 1/n"), (~trusted, COLORS[1], "infinite")):
        one = dataset.isel(candidate=mask)
        if one.sizes["candidate"]:
            points(axis, one.predicted, one.measured, one.measured_sem, color=color, label=label)
    ends = [float(dataset.predicted.min()), float(dataset.predicted.max())]
    axis.plot(ends, ends, color=MUTED, lw=0.8)
    axis.set(xlabel="predicted mean test loss", title="mean test loss of trained networks")
    axis.legend(loc="upper left")
