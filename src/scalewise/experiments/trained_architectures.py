r"""Trained networks of several kinds of layers, compared with the theory at order 1/n.

Perceptrons, convolutional, residual convolutional and graph networks, and such with a LayerNorm, are trained at
three widths, by gradient descent or by gradient flow that stops early. Of an outcome $O$ (mean outputs on
test samples, their covariance between tests and outputs, the change of the NTK), theory has the leading order and
the coefficient of $1/n$, and networks have
$$n\,(O_n-O_\infty)=O^{\{1\}}+\frac{O^{\{2\}}}n+\frac{O^{\{3\}}}{n^2}+\dots$$
A parabola in $1/n$ through three widths has the coefficient at $1/n=0$, which it misses by the fourth order alone.

The largest coefficient of an outcome, over what the outcome has at infinite width, is a distance of trained
networks from their limit, times $n$: the mean is compared with the spread of single networks, the covariance with
itself, the change of the NTK with the NTK.

Claims: no coefficient disagrees with theory beyond chance, and most are many times their errors. Behind a norm
theory follows single units, and is itself known to a third or a half.
No kind is nearest to its limit in every outcome.

Source: PDLT (∞.117), (∞.154)-(∞.167); of layers other than fully connected ones derived.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import fields
from functools import partial
from typing import Any
from zlib import crc32

import numpy as np
import xarray as xr
from matplotlib.axes import Axes

from scalewise.comparison.spi import limit_among
from scalewise.experiments._form import Folder, Progress, each, settings
from scalewise.experiments._look import COLORS, Number, Table, attributes, log_axes, panels
from scalewise.networks import Network
from scalewise.networks.layers import (
    Aggregate,
    Conv,
    Dense,
    Flatten,
    GlobalAvgPool,
    LayerNorm,
    Skip,
)
from scalewise.sweeps import sweep
from scalewise.tasks import Task
from scalewise.training import OUTCOMES as ROWS
from scalewise.training import GradientDescent, GradientFlow, kernel_of, predict_training
from scalewise.training.ensembles import measure_training

TITLE = "Trained networks of other layers against the theory"
TEXT = (
    "Networks of several kinds are trained at three widths by gradient descent or flow. What they have beyond "
    "infinite width is extrapolated to its 1/n term and compared with the theory. Left: the entry that disagrees "
    "most of each setting, in standard errors, sorted; below the dotted line both agree. Middle: of the entry "
    "with the largest coefficient, n times what is beyond infinite width over the coefficient: it ends in 1. "
    "Right: which kind learns closest to its limit: that coefficient (bars) over the outcome at infinite width, "
    "and trained networks (points, larger for larger widths)."
)
OUTCOMES = ("output_mean", "output_covariance", "ntk_change")
CALLED: dict[str, str] = dict(zip(OUTCOMES, ("mean", "covariance", "NTK change"), strict=True))
OUTPUTS = 2
# Rates over the largest one at infinite width: the NTKs of narrow networks are larger, those of gelu up to twice.
_SHARES = {"tanh": 0.2, "gelu": 0.12}
_RING = Conv(3, padding="circular")
# A path of three nodes, each beside itself, normalised on both sides.
_LINKS = np.array([[1.0, 1.0, 0.0], [1.0, 1.0, 1.0], [0.0, 1.0, 1.0]])
_PATH = Aggregate(_LINKS / np.sqrt(np.outer(_LINKS.sum(axis=0), _LINKS.sum(axis=0))))
_ENDS = (GlobalAvgPool(), Dense(OUTPUTS))
NETWORKS = ("MLP", "convolution", "residual convolution", "graph", "LayerNorm")
ALGORITHMS = ("descent", "flow")


# Small: seconds.
@settings(
    networks_of=("graph",),
    activations=("tanh",),
    algorithms=("descent",),
    widths=(8, 12, 16),
    networks=(200, 200, 200),
)
class Config:
    """Settings.

    Args:
        networks_of: Of `NETWORKS`.
        activations: tanh, gelu.
        algorithms: Of `ALGORITHMS`.
        widths: Three, ascending.
        networks: Trained at each.
        seed: With the names of a cell, the seed of its ensembles.
    """

    networks_of: tuple[str, ...] = ("graph",)
    activations: tuple[str, ...] = ("tanh",)
    algorithms: tuple[str, ...] = ALGORITHMS
    widths: tuple[int, int, int] = (16, 32, 64)
    networks: tuple[int, int, int] = (1000, 1000, 500)
    seed: int = 0

    @classmethod
    def paper(cls) -> Config:
        """All twenty cells, 11,000 networks of each: fifty minutes on one core."""
        return cls(networks_of=NETWORKS, activations=("tanh", "gelu"), networks=(4000, 4000, 3000))


def run(
    config: Config, *, store: Folder = None, progress: Progress = None, client: Any = None
) -> xr.Dataset:
    """Predict and train every network.

    Kept and counted are cells.

    Returns:
        Over (network, activation, algorithm, outcome): ``entries``, how many different ones there are; ``worst``
        and ``rms``, the largest size of z of the extrapolated coefficients and the root of its mean square;
        ``known``, the largest coefficient over its error; ``predicted`` and ``found`` of the entry with the
        largest z, with their errors; ``coefficient``, the size of the largest, with its error, and ``unit``, what
        it is compared with. Besides over width: ``ratio``, of the entry with the largest coefficient, n times
        what is beyond infinite width over the coefficient, with ``ratio_sem``.
    """
    found = sweep(
        partial(_cell, config=config),
        {
            "network": list(config.networks_of),
            "activation": list(config.activations),
            "algorithm": list(config.algorithms),
        },
        store=store,
        progress=progress,
        client=client,
    )
    return found.load().reset_coords(drop=True).assign_attrs(attributes(config))


def joined(runs: Sequence[xr.Dataset]) -> xr.Dataset:
    """Runs over different networks as the run over all of them, which it is: every cell has a seed of its own.

    Args:
        runs: Of the same settings otherwise.

    Raises:
        ValueError: If they are not.
    """
    several = [one.attrs["networks_of"] for one in runs]
    names = [own.name for own in fields(Config) if own.name != "networks_of"]
    rest = [{name: one.attrs[name] for name in names} for one in runs]
    if any(own != rest[0] for own in rest):
        raise ValueError(
            "The runs have other settings than one another; join runs of one `Config`."
        )
    found = xr.concat([one.drop_attrs() for one in runs], "network")
    return found.assign_attrs(rest[0] | {"networks_of": [name for own in several for name in own]})


def made(name: str, activation: str) -> Network:
    """One of `NETWORKS`."""
    s, C_W = activation, 2.0 if activation == "gelu" else 1.5
    layers: dict[str, tuple[Any, ...]] = {
        "MLP": (Flatten(), Dense(), s, Dense(), s),
        "convolution": (_RING, s, _RING, s),
        "residual convolution": (_RING, Skip(s, _RING), s),
        "graph": (_PATH, Dense(), s, _PATH, Dense(), s),
        "LayerNorm": (_RING, s, Dense(), LayerNorm(), s),
    }
    rates: dict[str, Any] = {"C_b": 0.1, "C_W": C_W, "lambda_b": 0.5, "lambda_W": 1.0}
    ends = _ENDS[1:] if name == "MLP" else _ENDS
    return Network(*layers[name], *ends, input_shape=(3, 2), width=16, **rates)


def task() -> Task:
    """Two training and two test samples of normal numbers."""
    rng = np.random.default_rng(7)
    x, y = rng.normal(size=(4, 3, 2)), rng.normal(size=(4, OUTPUTS))
    return Task(x[:2], y[:2], test_inputs=x[2:], test_targets=y[2:])


def expected(net: Network, activation: str, algorithm: str) -> tuple[Any, xr.Dataset]:
    """The training of a network and what theory says, with the unit of each coefficient as ``<outcome>_unit``."""
    samples = task()
    most = predict_training(net, samples, GradientDescent()).attrs["maximal_rate"]
    descent, flow = GradientDescent(_SHARES[activation] * most, steps=12), GradientFlow(time=1.0)
    way = descent if algorithm == "descent" else flow
    names = [*OUTCOMES[:2], *(f"{name}_nlo" for name in OUTCOMES)]
    theory = predict_training(net, samples, way, observables=names)
    variance = float(theory.output_covariance.max())
    units = np.sqrt(variance), variance, kernel_of(net, kind="ntk")(samples.inputs).max()
    return way, theory.assign(
        {f"{name}_unit": unit for name, unit in zip(OUTCOMES, units, strict=True)}
    )


def _cell(network: str, activation: str, algorithm: str, *, config: Config) -> xr.Dataset:
    net, samples = made(network, activation), task()
    way, theory = expected(net, activation, algorithm)
    seen = [
        measure_training(
            net.at_width(n),
            samples,
            way,
            networks=count,
            seed=crc32(f"{network} {activation} {algorithm} {n} {config.seed}".encode()),
            observables=list(OUTCOMES),
            progress=False,
        )
        for n, count in zip(config.widths, config.networks, strict=True)
    ]
    return _judged(theory, seen, np.array(config.widths, dtype=float))


def _judged(theory: xr.Dataset, seen: list[xr.Dataset], n: np.ndarray) -> xr.Dataset:
    """The numbers of one cell."""
    rows = [_of_outcome(name, theory, seen, n) for name in OUTCOMES]
    over = {"ratio": ("outcome", "width"), "ratio_sem": ("outcome", "width")}
    found = {key: (over.get(key, ("outcome",)), [row[key] for row in rows]) for key in rows[0]}
    return xr.Dataset(found, {"outcome": list(OUTCOMES), "width": n.astype(int).tolist()})


def _of_outcome(
    name: str, theory: xr.Dataset, seen: list[xr.Dataset], n: np.ndarray
) -> dict[str, Any]:
    """The measured correction to infinite width, extrapolated to its 1/n term, beside the prediction."""
    wanted, wanted_error = (theory[f"{name}_nlo{end}"].values.ravel() for end in ("", "_error"))
    leading = 0.0
    if name in theory:
        leading = ROWS[name].of_outputs(theory[name].values, OUTPUTS).ravel()
    over = n[:, None]
    beyond = over * (np.stack([data[name].values.ravel() for data in seen]) - leading)
    sem = over * np.stack([data[f"{name}_sem"].values.ravel() for data in seen])
    share = at_infinity(n)[:, None]
    found, found_sem = (share * beyond).sum(axis=0), np.sqrt(((share * sem) ** 2).sum(axis=0))
    error = np.hypot(found_sem, wanted_error)
    z = (found - wanted) / error
    worst, largest = int(np.abs(z).argmax()), int(np.abs(wanted).argmax())
    return {
        "entries": len(np.unique(wanted.round(9))),
        "worst": np.abs(z[worst]),
        "rms": np.sqrt((z**2).mean()),
        "known": np.abs(wanted / error).max(),
        "predicted": wanted[worst],
        "predicted_error": wanted_error[worst],
        "found": found[worst],
        "found_sem": found_sem[worst],
        "coefficient": abs(wanted[largest]),
        "coefficient_error": wanted_error[largest],
        "unit": float(theory[f"{name}_unit"]),
        "ratio": beyond[:, largest] / wanted[largest],
        "ratio_sem": sem[:, largest] / abs(wanted[largest]),
    }


def at_infinity(n: np.ndarray) -> np.ndarray:
    """The shares that a parabola in 1/n through values at some widths has of them at 1/n = 0."""
    x = 1 / np.asarray(n, dtype=float)
    return np.array([np.prod(np.delete(x, k) / (np.delete(x, k) - x[k])) for k in range(len(x))])


def worst_by_chance(dataset: xr.Dataset) -> float:
    """Standard errors within which all coefficients agree if the theory is right."""
    return limit_among(int(dataset.entries.sum()))


def numbers(dataset: xr.Dataset) -> list[Number]:
    """The worst coefficient of every outcome."""
    limit = worst_by_chance(dataset)
    return [
        Number(f"{CALLED[name]}: worst entry", 0.0, float(one.worst.max()), 0.0, limit)
        for name, one in ((name, dataset.sel(outcome=name)) for name in OUTCOMES)
    ]


def tables(dataset: xr.Dataset) -> list[Table]:
    """Largest z, rms z and how well coefficients are known, of every cell; then the entries that disagree most."""
    head = ("network, activation, algorithm", *(CALLED[name] for name in OUTCOMES))
    found = []
    for cell, one in _cells(dataset):
        told = [
            f"{float(o.worst):.1f} ({float(o.rms):.1f}; {float(o.known):.0f})"
            for o in (one.sel(outcome=name) for name in OUTCOMES)
        ]
        found.append((cell, *told))
    near = []
    for cell, one in _cells(dataset):
        share = one.coefficient / one.unit, one.coefficient_error / one.unit
        near.append(
            (cell, *(f"{float(a):.2g} ± {float(b):.1g}" for a, b in zip(*share, strict=True)))
        )
    caption = "Extrapolated coefficients: largest z (rms z; largest coefficient over its error)"
    rows = []
    for name in OUTCOMES:
        cell, one = max(_cells(dataset.sel(outcome=name)), key=lambda c: float(c[1].worst))
        pairs = (("predicted", "predicted_error"), ("found", "found_sem"))
        told = [f"{float(one[a]):.4g} ± {float(one[b]):.2g}" for a, b in pairs]
        rows.append((CALLED[name], cell, *told, f"{float(one.worst):.1f}"))
    ends = ("", "network", "predicted", "trained, extrapolated", "z")
    return [
        Table.of(caption, head, found),
        Table.of("The coefficient of each outcome that disagrees most", ends, rows),
        Table.of("Largest coefficient over the outcome at infinite width", head, near),
    ]


def _cells(dataset: xr.Dataset) -> list[tuple[str, xr.Dataset]]:
    return [
        (", ".join(at), one) for *at, one in each(dataset, "network", "activation", "algorithm")
    ]


@panels(3, height=3.6)
def figure(dataset: xr.Dataset, left: Axes, right: Axes, last: Axes) -> None:
    """The worst coefficients of the cells, sorted; the largest ones against 1/n; and by kind of network."""
    for color, name in zip(COLORS, OUTCOMES, strict=False):
        own = dataset.sel(outcome=name)
        worst = np.sort(own.worst.values.ravel())
        left.plot(np.linspace(0, 1, len(worst)), worst, ".-", color=color, label=CALLED[name])
        for k, (_, one) in enumerate(_cells(own)):
            label = CALLED[name] if not k else None
            x = 1 / one.width.values
            right.errorbar(x, one.ratio, one.ratio_sem, color=color, lw=0.8, alpha=0.7, label=label)
    left.axhline(worst_by_chance(dataset), color=COLORS[1], lw=0.8, ls=":")
    left.set(xlabel="share of the cells", title="worst coefficient, standard errors")
    left.legend(loc="upper left")
    right.axhline(1.0, color="0.5", lw=0.8, ls=":")
    right.set_xlim(left=0.0)
    right.set(xlabel="1/n", title="n times what is beyond, over the coefficient")
    right.legend(loc="lower left")
    _distances(dataset.isel(activation=0, algorithm=0), last)


def _distances(dataset: xr.Dataset, axis: Axes) -> None:
    """A row for each kind of network, the predicted distances and those of trained networks."""
    for k, (color, name) in enumerate(zip(COLORS, OUTCOMES, strict=False)):
        own = dataset.sel(outcome=name)
        place = np.arange(own.sizes["network"]) + 0.22 * (k - 1)
        share = own.coefficient / own.unit
        axis.errorbar(
            share, place, xerr=own.coefficient_error / own.unit, fmt="|", color=color, markersize=10
        )
        for size, (_, one) in zip((2.0, 3.0, 4.2), each(own, "width"), strict=True):
            axis.plot(
                one.ratio * share, place, "o", color=color, markersize=size, markeredgewidth=0
            )
    names = [name.replace(" ", "\n") for name in dataset.network.values.tolist()]
    axis.set_yticks(np.arange(len(names)), names)
    axis.set_ylim(len(names) - 0.5, -0.5)
    log_axes(axis, "x")
    told = f"{dataset.activation.item()}, {dataset.algorithm.item()}"
    axis.set(xlabel="largest coefficient over the limit", title=f"n times the distance: {told}")
