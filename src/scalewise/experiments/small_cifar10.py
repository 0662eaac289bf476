r"""A convolutional NTK of fourteen layers, taught with 10 to 80 images of CIFAR-10.

Thirteen convolutions of 3 x 3 taps with zeros at the borders and ReLU, a pool over all positions, a dense layer;
the first and the last layer are not trained. Classes are one-hot rows less 0.1, and the prediction is that of the
kernel $\Theta$ without a ridge,
$$f(x)=\Theta(x,X)\,\Theta(X,X)^{-1}Y.$$

One pair of images costs a third of a second, so there are none for ten thousand tests. A pool of images is drawn
instead, as many of each class, and its kernel computed once: many draws of $n$ images of it are for training, and
the others of the pool are tests. The mean accuracy over all draws is that of $n$ random images on a random test.
Its standard error comes from leaving out images of the pool, one of each class at a time (jackknife, which is on
the average too large, by Efron and Stein).

Claims: accuracies of 15 to 25 %, as published. There the number behind ± belongs to ten draws of training images,
all tests; as the spread of single draws it would leave the mean with a standard error of a third of that, and so it
is read here.

Source: Arora et al. 2020, arXiv:1910.01663, the table of small CIFAR-10, with the network and the images of Arora
et al. 2019, arXiv:1904.11955; the pool and its error are ours.
"""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np
import xarray as xr
from matplotlib.axes import Axes

from scalewise.data import missing_data
from scalewise.experiments._form import Folder, Progress, settings
from scalewise.experiments._look import COLORS, Number, Table, attributes, panels, points
from scalewise.experiments._readers import archive
from scalewise.networks import Network
from scalewise.networks.layers import Conv, Dense, GlobalAvgPool
from scalewise.sweeps import sweep
from scalewise.training import kernel_of

TITLE = "CIFAR-10 from a few images: a convolutional NTK"
TEXT = (
    "Ten to eighty images of CIFAR-10 teach the NTK of an infinitely wide convolutional network of fourteen "
    "layers with global pooling. Accuracy on other images: ours, with its standard error over the images drawn, "
    "beside the published means over ten draws. The "
    "network is exact; what is uncertain is which images it happens to see."
)
FILE = "cifar10_small.npz"
CLASSES = 10
# Training images: mean accuracy in percent over ten draws, and their spread.
PUBLISHED = {10: (15.33, 2.43), 20: (18.79, 2.13), 40: (21.34, 1.91), 80: (25.48, 1.91)}
_DRAWS = 10
_CHANCE = 0.1
_LARGEST = 12  # images of each class that are drawn; a smaller pool is the first of them


# Small: images of 4 x 4 and three layers: a second.
@settings(each=4, side=4, depth=3, counts=(10, 20), draws=50)
class Config:
    """Settings.

    Args:
        each: Images of each class in the pool, at most 12.
        side: Of the images, a divisor of 32 to which they are averaged.
        depth: Layers with weights: convolutions, and the dense one.
        counts: Training images, multiples of ten, fewer than the pool has less one of each class.
        draws: Of training images, for each estimate.
        seed: Of the pool and of the draws.
    """

    each: int = 12
    side: int = 8
    depth: int = 14
    counts: tuple[int, ...] = (10, 20, 40, 80)
    draws: int = 500
    seed: int = 0

    @classmethod
    def paper(cls) -> Config:
        """Images of 32 x 32: forty minutes on one core."""
        return cls(side=32, draws=2000)


needs_data = partial(missing_data, FILE)


def run(
    config: Config, *, store: Folder = None, progress: Progress = None, client: Any = None
) -> xr.Dataset:
    """Draw a pool, compute its kernel, and learn from many draws of it.

    Kept and counted are blocks of the kernel.

    Returns:
        Over count: ``accuracy`` and ``accuracy_sem``, percent; ``single``, standard deviation of the accuracy over
        draws, on those tests that each of them leaves; ``published`` and ``published_sd``, NaN for other counts.

    Raises:
        ValueError: If the images are not there, `Config` does not fit them, or `store` holds a run of another
            config.
    """
    _check(config)
    x, _ = pool(config)
    blocks = {"first": range(config.each), "second": range(config.each)}
    found = sweep(
        partial(_block, config=config), blocks, store=store, progress=progress, client=client
    )
    upper = found.block.transpose("first", "row", "second", "column").values.reshape(2 * (len(x),))
    kernel = np.triu(upper) + np.triu(upper, 1).T
    estimates = [_estimate(kernel, n, config) for n in config.counts]
    known = [PUBLISHED.get(n, (np.nan, np.nan)) for n in config.counts]
    columns = dict(zip(("accuracy", "accuracy_sem", "single"), np.array(estimates).T, strict=True))
    columns |= dict(zip(("published", "published_sd"), np.array(known).T, strict=True))
    return xr.Dataset(
        {key: ("count", column) for key, column in columns.items()},
        {"count": list(config.counts)},
        attributes(config),
    )


def _check(config: Config) -> None:
    largest = CLASSES * (config.each - 1)
    for n in config.counts:
        if n < CLASSES or n % CLASSES or n >= largest:
            raise ValueError(
                f"`Config.counts` must be multiples of {CLASSES} below {largest}, the pool of `each`={config.each} "
                f"images of a class less one of each; got {n}."
            )
    if config.each > _LARGEST:
        raise ValueError(f"`Config.each` must be at most {_LARGEST}; got {config.each}.")
    if config.side < 1 or 32 % config.side:
        raise ValueError(f"`Config.side` must divide 32; got {config.side}.")


def network(config: Config) -> Network:
    """Convolutions with ReLU, a pool and a dense layer; the first and the last are not trained."""
    hidden = (Conv(3), "relu") * (config.depth - 2)
    ends = (GlobalAvgPool(), Dense(1, lambda_W=0.0))
    layers = (Conv(3, lambda_W=0.0), "relu", *hidden, *ends)
    shape = (config.side, config.side, 3)
    return Network(*layers, input_shape=shape, width=64, C_W=2.0, lambda_b=0.0)


def pool(config: Config) -> tuple[np.ndarray, np.ndarray]:
    """Images of mean 0 and variance 1 in each colour, and their classes: one of each, then the next of each."""
    images, labels = archive(FILE, "images", "labels").values()
    rng = np.random.default_rng(config.seed)
    chosen = [
        rng.choice(np.flatnonzero(labels == k), _LARGEST, replace=False) for k in range(CLASSES)
    ]
    rows = np.stack(chosen, axis=1)[: config.each].ravel()
    mean, std = images.mean((0, 1, 2)), images.std((0, 1, 2))
    block = 32 // config.side
    shape = (len(rows), config.side, block, config.side, block, 3)
    return ((images[rows] - mean) / std).reshape(shape).mean((2, 4)), labels[rows].astype(int)


def _block(first: int, second: int, *, config: Config) -> xr.Dataset:
    """The NTK between one image of each class and another of each; zeros below the diagonal."""
    x, _ = pool(config)
    a, b = (x[CLASSES * k : CLASSES * (k + 1)] for k in (first, second))
    over = ("row", "column")
    if second < first:
        return xr.Dataset({"block": (over, np.zeros((CLASSES, CLASSES)))})
    kernel = kernel_of(network(config), kind="ntk")
    return xr.Dataset({"block": (over, kernel(a) if first == second else kernel(a, b))})


def _estimate(kernel: np.ndarray, n: int, config: Config) -> tuple[float, float, float]:
    """Mean accuracy of n images in percent, its standard error, and the spread of single draws."""
    groups = np.arange(len(kernel)) // CLASSES
    rng = np.random.default_rng([config.seed, n])
    whole = accuracies(kernel, n, config.draws, rng)
    left = []
    for group in range(config.each):
        rows = np.flatnonzero(groups != group)
        left.append(accuracies(kernel[np.ix_(rows, rows)], n, config.draws, rng).mean())
    spread = np.sqrt((config.each - 1) * np.var(left))
    return 100 * whole.mean(), 100 * float(spread), 100 * whole.std()


def accuracies(kernel: np.ndarray, n: int, draws: int, rng: np.random.Generator) -> np.ndarray:
    """Accuracy of each draw of n images of a pool on the rest of it.

    Args:
        kernel: Of the pool, one image of each class after the other.
        n: Training images, as many of each class.
        draws: How many.
        rng: Of the draws.
    """
    each = len(kernel) // CLASSES
    classes = np.arange(len(kernel)) % CLASSES
    order = rng.random((draws, CLASSES, each)).argsort(axis=-1) * CLASSES
    order += np.arange(CLASSES)[:, None]
    train = order[..., : n // CLASSES].reshape(draws, -1)
    test = order[..., n // CLASSES :].reshape(draws, -1)
    targets = np.eye(CLASSES)[classes[train]] - 1 / CLASSES
    inverse = np.linalg.solve(kernel[train[:, :, None], train[:, None, :]], targets)
    told = (kernel[test[:, :, None], train[:, None, :]] @ inverse).argmax(axis=-1)
    return (told == classes[test]).mean(axis=-1)


def numbers(dataset: xr.Dataset) -> list[Number]:
    """Accuracies beside the published ones, with the errors of both; at other settings, above chance."""
    found = []
    for n in dataset["count"].values.tolist():
        one = dataset.sel(count=n)
        sem = float(one.accuracy_sem)
        if dataset.attrs["side"] == 32 and np.isfinite(one.published):
            theirs = float(one.published_sd) / np.sqrt(_DRAWS)
            both = float(np.hypot(sem, theirs))
            found.append(
                Number(
                    f"accuracy of {n} images, %", float(one.published), float(one.accuracy), both
                )
            )
    if not found:
        last = dataset.isel(count=-1)
        above = float(last.accuracy) > 100 * _CHANCE
        found.append(Number("accuracy of the most images above chance", True, above))
    return found


def tables(dataset: xr.Dataset) -> list[Table]:
    """Published and found, with their errors."""
    rows = []
    for n in dataset["count"].values.tolist():
        one = dataset.sel(count=n)
        theirs = float(one.published_sd) / np.sqrt(_DRAWS)
        ours = float(one.accuracy) - float(one.published), float(np.hypot(one.accuracy_sem, theirs))
        z = ours[0] / ours[1]
        rows.append(
            (
                n,
                f"{float(one.published):.2f} ± {theirs:.2f}",
                f"{float(one.accuracy):.2f} ± {float(one.accuracy_sem):.2f}",
                f"{z:.1f}",
            )
        )
    head = ("training images", "published, %", "found, %", "difference, standard errors")
    return [Table.of("Accuracy", head, rows)]


@panels(1, height=3.6)
def figure(dataset: xr.Dataset, axis: Axes) -> None:
    """Accuracy against the number of images."""
    n = dataset["count"].values
    sem = dataset.published_sd / np.sqrt(_DRAWS)
    axis.axhline(100 * _CHANCE, color="0.5", lw=0.8, ls=":", label="chance")
    points(axis, 0.98 * n, dataset.published, sem, color=COLORS[1], label="published")
    points(axis, 1.02 * n, dataset.accuracy, dataset.accuracy_sem, color=COLORS[0], label="found")
    axis.set_xscale("log")
    axis.minorticks_off()
    axis.set_xticks(n, n)
    axis.set(xlabel="training images", title="accuracy, %")
    axis.legend(loc="upper left")
