r"""Digits and pictures classified by regression with infinitely wide networks, as in their first table.

The mean of the posterior of a network of $L$ hidden layers,
$$\bar\mu(x)=K(x,X)\,\big(K(X,X)+\sigma_\varepsilon^2\big)^{-1}Y,$$
with one-hot rows less 0.1 for targets $Y$ and $\sigma_\varepsilon^2=10^{-10}$, names the class of its largest
output. Each image has mean 0 and variance 1 over its pixels. The depth, $\sigma_w^2$ and $\sigma_b^2$ (here $C_W$
and $C_b$, also of the first layer) are the published ones, which a validation set had chosen; a network of depth
$L$ has $L+1$ layers of weights.

The published program takes the first images of each digit behind the ten thousand of its validation set, and reads
kernels off a table, interpolating. With the same images and kernels from the same table the accuracy is the
published one, image for image; with exact kernels it is another, by as much as the table is coarse. Other subsets
of a thousand, drawn at random with as many of each class, say how much the choice of images matters: the published
digits, which follow each other, are worse than most. Pictures are
those of the 4,000 first of CIFAR-10, of which 3,000 are left for tests; so their numbers have an error of their
own.

Claims: published accuracies are found again; exact kernels, and other images, change them by as much as the table
shows between networks.

Source: Lee et al. 2018, arXiv:1711.00165, Table 1, (5), (6), (8); subset and images as in its published program.
PDLT (4.118), (6.57) for the same.
"""

from __future__ import annotations

import warnings
from functools import partial
from typing import Any, NamedTuple

import numpy as np
import xarray as xr
from matplotlib.axes import Axes
from scipy.linalg import cho_factor, cho_solve

from scalewise.data import missing_data
from scalewise.experiments._form import Folder, Progress, settings
from scalewise.experiments._look import COLORS, INK, Number, Table, attributes, panels, points
from scalewise.experiments._lookup_kernels import lookup_kernel
from scalewise.experiments._readers import archive
from scalewise.networks import MLP
from scalewise.sweeps import sweep
from scalewise.tasks import Task
from scalewise.training import Bayes, predict_training

TITLE = "Regression with infinitely wide networks: the first table"
TEXT = (
    "Infinitely wide networks classify digits and pictures by Bayesian regression: test accuracy with the "
    "published depths and variances. Squares are published. On the very images of the published program, kernels "
    "that are read off its coarse table give that number again (plus), and exact kernels another one (cross). "
    "Points are random subsets of the same size, with their spread: the choice of images matters as much as the "
    "network."
)


class PublishedRow(NamedTuple):
    """A number of the table: a data set and its training images, depth, variances, and the accuracy."""

    data: str
    train: int
    activation: str
    depth: int
    C_W: float
    C_b: float
    published: float


ROWS = {
    "MNIST 1k, ReLU": PublishedRow("mnist", 1000, "relu", 20, C_W=1.45, C_b=0.28, published=0.9279),
    "MNIST 1k, tanh": PublishedRow("mnist", 1000, "tanh", 20, C_W=1.96, C_b=0.62, published=0.9266),
    "CIFAR 1k, ReLU": PublishedRow(
        "cifar10_small", 1000, "relu", 7, C_W=1.28, C_b=0.0, published=0.3608
    ),
    "CIFAR 1k, tanh": PublishedRow(
        "cifar10_small", 1000, "tanh", 50, C_W=2.97, C_b=0.97, published=0.3702
    ),
    "MNIST 10k, ReLU": PublishedRow(
        "mnist", 10000, "relu", 7, C_W=0.61, C_b=0.07, published=0.9765
    ),
    "MNIST 10k, tanh": PublishedRow(
        "mnist", 10000, "tanh", 2, C_W=1.62, C_b=0.28, published=0.9773
    ),
}
FILES = ("mnist.npz", "cifar10_small.npz")
CLASSES = 10
_NOISE = 1e-10
_VALIDATION = 10_000  # the first images of MNIST, which the published program keeps for that
_PRINTED = 2e-4  # two images of 10,000: its images were of single precision


# Small: a tenth of the images: seconds.
@settings(rows=("MNIST 1k, ReLU", "CIFAR 1k, tanh"), draws=2, fewer=10)
class Config:
    """Settings.

    Args:
        rows: Of `ROWS`; those of ten thousand images take 4 GB and three minutes each.
        draws: Random subsets of a thousand images.
        fewer: Divides training and test images.
        seed: Of the subsets.
    """

    rows: tuple[str, ...] = tuple(name for name in ROWS if "1k" in name)
    draws: int = 3
    fewer: int = 1
    seed: int = 0

    @classmethod
    def paper(cls) -> Config:
        """All rows, and five other subsets of each thousand: a quarter of an hour on one core."""
        return cls(rows=tuple(ROWS), draws=5)


needs_data = partial(missing_data, *FILES)


def run(
    config: Config, *, store: Folder = None, progress: Progress = None, client: Any = None
) -> xr.Dataset:
    """Classify with every network and subset.

    Kept and counted are subsets of a row.

    Returns:
        Over row: ``published``; ``same`` and ``table``, accuracies with the images of the published program, by
        exact kernels and by its table, NaN where these images are not known; ``accuracy``, mean over other
        subsets, ``spread``, their standard deviation, and ``sem``, the standard error of the difference of
        ``accuracy`` and ``published``: of both means, and of the tests where they are not the same; NaN for ten
        thousand images, of which no other subset is drawn.

    Raises:
        ValueError: If images are not there, or `store` holds a run of another config.
    """
    subsets = {
        f"{name}, {draw}": (name, draw)
        for name in config.rows
        for draw in range(1 + (config.draws if ROWS[name].train == 1000 else 0))
    }
    cells = sweep(
        partial(_accuracy, config=config),
        {"subset": subsets},
        store=store,
        progress=progress,
        client=client,
    ).load()
    found = []
    for name in config.rows:
        own = [label for label, (row, _) in subsets.items() if row == name]
        found.append(_judged(name, cells.sel(subset=own), config))
    keys = ("published", "same", "table", "accuracy", "spread", "sem")
    columns = dict(zip(keys, np.array(found).T, strict=True))
    return xr.Dataset(
        {key: ("row", column) for key, column in columns.items()},
        {"row": list(config.rows)},
        attributes(config),
    )


def _judged(name: str, cells: xr.Dataset, config: Config) -> tuple[float, ...]:
    """One row: the first draw is that of the published images, the others are random."""
    row, accuracies = ROWS[name], cells.accuracy.values.ravel()
    same = float(accuracies[0]) if row.data == "mnist" else np.nan
    known = row.published, same, float(cells.table.values.ravel()[0])
    others = accuracies[1:]
    if not others.size:
        return *known, np.nan, np.nan, np.nan
    p, spread = float(others.mean()), float(others.std(ddof=1))
    # The published number is one subset.
    variance = spread**2 * (1 + 1 / others.size)
    if row.data != "mnist":
        variance += p * (1 - p) * (1 / _tests(row, config) + 1 / 10_000)
    return *known, p, spread, float(np.sqrt(variance))


def _tests(row: PublishedRow, config: Config) -> int:
    return (10_000 if row.data == "mnist" else 3000) // config.fewer


def _accuracy(subset: tuple[str, int], *, config: Config) -> xr.Dataset:
    """The accuracy of one network with one subset, draw 0 of which is the published one."""
    one, draw = ROWS[subset[0]], subset[1]
    x, labels, y, truth = images(one, draw, config)
    numbers = {"C_W": one.C_W, "C_b": one.C_b}
    net = MLP(
        one.depth + 1, 100, one.activation, input_dim=x.shape[1], output_dim=CLASSES, **numbers
    )
    task = Task.of_classes(x, labels, test_inputs=y, test_labels=truth)
    with warnings.catch_warnings():
        # What rounding may do to the outputs, some 1e-5, changes no class.
        warnings.filterwarnings("ignore", message="Kernels are computed to")
        found = predict_training(
            net, task, Bayes(_NOISE), observables=["output_mean"], covariance=None, at="test"
        )
    told = found.output_mean.transpose("test", "output").values.argmax(axis=1)
    by_table = np.nan
    if one.data == "mnist" and not draw:
        K, tests = (lookup_kernel(v, x, one.activation, one.depth, **numbers) for v in (x, y))
        by_table = np.mean((tests @ noisy_solve(K, task.targets)).argmax(axis=1) == truth)
    return xr.Dataset({"accuracy": np.mean(told == truth), "table": by_table})


def noisy_solve(K: np.ndarray, y: np.ndarray) -> np.ndarray:
    """The inverse of a kernel times targets, with ten times the noise until it is positive, as published."""
    noise = _NOISE
    while True:
        try:
            return cho_solve(cho_factor(K + noise * np.eye(len(K)), overwrite_a=True), y)
        except np.linalg.LinAlgError:
            noise *= 10


def images(row: PublishedRow, draw: int, config: Config) -> tuple[np.ndarray, ...]:
    """Training images with their classes, then test images with theirs."""
    arrays, each = archive(f"{row.data}.npz"), row.train // config.fewer // CLASSES
    own = row.data == "mnist"
    labels = arrays["train_labels" if own else "labels"].astype(int)
    pictures = arrays["train_images" if own else "images"]
    rng = np.random.default_rng([config.seed, draw])
    chosen = []
    for k in range(CLASSES):
        places = np.flatnonzero(labels == k)
        if own and not draw:
            chosen.append(places[places >= _VALIDATION][:each])
        else:
            chosen.append(rng.choice(places, each, replace=False))
    train, count = np.concatenate(chosen), _tests(row, config)
    if own:
        y, truth = arrays["test_images"][:count], arrays["test_labels"][:count].astype(int)
    else:
        rest = rng.permutation(np.setdiff1d(np.arange(len(labels)), train))[:count]
        y, truth = pictures[rest], labels[rest]
    return normed(pictures[train]), labels[train], normed(y), truth


def normed(images: np.ndarray) -> np.ndarray:
    """Rows of pixels, each of mean 0 and variance 1."""
    x = images.reshape(len(images), -1) / 255
    x = x - x.mean(axis=1, keepdims=True)
    return x / np.sqrt((x**2).mean(axis=1, keepdims=True) + 1e-15)


def numbers(dataset: xr.Dataset) -> list[Number]:
    """Accuracies beside the published ones, with the errors of both; of fewer images, that they are no guesses."""
    if dataset.attrs["fewer"] != 1:
        worst = float(dataset.accuracy.min())
        return [Number("lowest accuracy above chance", True, worst > 1 / CLASSES)]
    found = []
    for name in dataset.row.values.tolist():
        one = dataset.sel(row=name)
        wanted = float(one.published)
        if np.isfinite(one.table):
            by_table = float(one.table)
            found.append(Number(f"{name}: its images and its table", wanted, by_table, 0, _PRINTED))
        if np.isfinite(one.sem):
            what = f"{name}: random subsets"
            found.append(Number(what, wanted, float(one.accuracy), float(one.sem)))
    return found


def tables(dataset: xr.Dataset) -> list[Table]:
    """Published and found."""
    rows = []
    for name in dataset.row.values.tolist():
        one = dataset.sel(row=name)
        known = [f"{float(v):.4f}" if np.isfinite(v) else None for v in (one.table, one.same)]
        others: list[str | None] = [None, None]
        if np.isfinite(one.sem):
            z = (float(one.accuracy) - float(one.published)) / float(one.sem)
            others = [f"{float(one.accuracy):.4f} ± {float(one.spread):.4f}", f"{z:.1f}"]
        rows.append((name, f"{float(one.published):.4f}", *known, *others))
    head = (
        "",
        "published",
        "its images, its table",
        "its images, exact kernels",
        "other subsets, with their spread",
        "of these from published, standard errors",
    )
    return [Table.of("Test accuracy", head, rows)]


@panels(2, height=3.4)
def figure(dataset: xr.Dataset, left: Axes, right: Axes) -> None:
    """Digits, then pictures: published, the same images, and others with their spread."""
    for axis, data, title in ((left, "mnist", "digits"), (right, "cifar10_small", "pictures")):
        names = [name for name in dataset.row.values.tolist() if ROWS[name].data == data]
        one, place = dataset.sel(row=names), np.arange(len(names))
        points(axis, place + 0.12, one.accuracy, one.spread, color=COLORS[0], label="other subsets")
        axis.plot(place, one.published, "s", color=COLORS[1], markersize=5, label="published")
        if np.isfinite(one.same).any():
            axis.plot(place, one.table, "+", color=INK, markersize=9, label="its images, its table")
            axis.plot(place - 0.12, one.same, "x", color=INK, label="its images, exact kernels")
        axis.set_xticks(place, [name.split(" ", 1)[1] for name in names])
        axis.set_xlim(-0.5, max(len(names), 1) - 0.5)
        axis.set(xlabel="training images, activation", title=f"test accuracy, {title}")
        axis.legend(loc="center")
