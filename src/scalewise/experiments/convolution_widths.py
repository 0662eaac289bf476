r"""The test loss of a finite convolutional network against its width, before any is trained.

Airplanes and cars are averaged to a few strips, one above the other, of three colours; two convolutions of 3 taps
with tanh, a pool and a dense layer tell them apart after gradient flow that stops early. Theory has the mean test
loss of an ensemble from kernels and tensors of order 1/n,
$$\mathcal L(n)=\mathcal L_0+\frac1n\mathcal L_1+\mathcal O(n^{-2}),$$
and ensembles of networks are really trained at several widths.

Look for: points on the line where it is drawn whole. There the small parameter, the learning parameter over the
width, is below one half; where it is dashed, the expansion says itself that it cannot be trusted. Right: what is
beyond infinite width, times n, ends at the coefficient as 1/n goes to 0; a parabola through the points says how
well.

Source: PDLT (∞.154)-(∞.172); of networks with positions derived. Nobody has published a figure of this.
"""

from __future__ import annotations

from functools import partial
from typing import Any
from zlib import crc32

import numpy as np
import xarray as xr
from matplotlib.axes import Axes

from scalewise.data import missing_data
from scalewise.experiments._form import Folder, Progress, settings
from scalewise.experiments._look import (
    COLORS,
    MUTED,
    Number,
    Table,
    attributes,
    log_axes,
    panels,
    points,
)
from scalewise.experiments._readers import archive
from scalewise.networks import Network
from scalewise.networks.layers import Conv, Dense, GlobalAvgPool
from scalewise.sweeps import sweep
from scalewise.tasks import Task
from scalewise.training import GradientFlow, predict_training
from scalewise.training.ensembles import measure_training
from scalewise.training.spi import without_warning

TITLE = "Test loss of a convolutional network against its width"
TEXT = (
    "Convolutional networks of finite width learn to tell airplanes from cars, few of them and averaged to strips. "
    "The curve is their mean test loss at order 1/n, computed before any network is trained; points are ensembles "
    "that are trained. It is dashed where the small parameter of training is above one half. Right: what finite "
    "networks have beyond infinite width, times n, and the predicted coefficient at 1/n = 0."
)
FILE = "cifar2.npz"
_NAMES = ("test_loss", "test_loss_nlo", "learning_parameter")
_TRUSTED = 0.5  # the small parameter up to which coefficients are used elsewhere
_TERMS = 3  # of the power series in 1/n that is fitted: a parabola times 1/n


# Small: seconds.
@settings(train=2, time=1.0, widths=(8, 12, 16, 24), networks=60)
class Config:
    """Settings.

    Args:
        strips: Positions of an image.
        train: Training images, half of each class.
        tests: Test images, likewise.
        time: At which gradient flow stops.
        widths: Of the ensembles, more than three.
        networks: Trained at each.
        seed: Of the choice of images, and with a width of an ensemble.
    """

    strips: int = 3
    train: int = 4
    tests: int = 2
    time: float = 3.0
    widths: tuple[int, ...] = (12, 16, 24, 32)
    networks: int = 100
    seed: int = 0

    @classmethod
    def paper(cls) -> Config:
        """Six widths, 2,000 networks of each: five minutes on one core."""
        return cls(widths=(12, 16, 24, 32, 48, 64), networks=2000)


needs_data = partial(missing_data, FILE)


def run(
    config: Config, *, store: Folder = None, progress: Progress = None, client: Any = None
) -> xr.Dataset:
    r"""Predict, then train.

    Kept and counted are ensembles.

    Returns:
        Over width: ``measured``, mean test loss, with ``measured_sem``; ``predicted``, the loss to order 1/n;
        ``small``, the small parameter. Besides ``leading`` $\mathcal L_0$, ``coefficient`` $\mathcal L_1$ with
        ``coefficient_error``, and ``found``, the coefficient of trained networks, with ``found_sem``.

    Raises:
        ValueError: If the images are not there, there are too few of them or too few widths, or `store` holds a
            run of another config.
    """
    if len(config.widths) <= _TERMS:
        raise ValueError(
            f"`Config.widths` must be more than {_TERMS}, to fit a parabola and see how well; got {config.widths}."
        )
    samples = task(config)
    with without_warning():
        theory = predict_training(
            network(config), samples, GradientFlow(time=config.time), observables=list(_NAMES)
        )
    leading, coefficient, error = (
        float(theory[name].mean()) for name in ("test_loss", "test_loss_nlo", "test_loss_nlo_error")
    )
    trained = sweep(
        partial(_trained, config=config),
        {"width": list(config.widths)},
        store=store,
        progress=progress,
        client=client,
    )
    data = trained.load().reset_coords(drop=True)
    n = data.width.values.astype(float)
    found, sem = coefficient_of(n, data.measured.values - leading, data.measured_sem.values)
    told: dict[str, Any] = {
        "predicted": ("width", leading + coefficient / n),
        "small": ("width", float(theory.learning_parameter) / n),
        "found": found,
        "found_sem": sem,
        "leading": leading,
        "coefficient": coefficient,
        "coefficient_error": error,
    }
    return data.assign(told).assign_attrs(attributes(config))


def network(config: Config) -> Network:
    """Two convolutions with tanh, a pool and a dense layer."""
    layers = (Conv(3), "tanh", Conv(3), "tanh", GlobalAvgPool(), Dense(1))
    shape = (config.strips, 3)
    return Network(*layers, input_shape=shape, width=32, C_W=1.5, C_b=0.1)


def task(config: Config) -> Task:
    """Strips of mean 0 and variance 1 over all images, and -1 or 1; no image is in both parts."""
    images, labels = archive(FILE, "train_images", "train_labels").values()
    height = images.shape[1] // config.strips
    first = (images.shape[1] - height * config.strips) // 2
    kept = images[:, first : first + height * config.strips] / 255
    x = kept.reshape(len(images), config.strips, -1, *images.shape[2:]).mean((2, 3))
    x = (x - x.mean((0, 1))) / x.std((0, 1))
    rng = np.random.default_rng(config.seed)
    half, count = config.train // 2, (config.train + config.tests) // 2
    rows = np.stack([rng.choice(np.flatnonzero(labels == k), count, replace=False) for k in (0, 1)])
    train, tests = rows[:, :half].ravel(), rows[:, half:].ravel()
    y = 2.0 * labels - 1
    return Task(x[train], y[train], test_inputs=x[tests], test_targets=y[tests])


def _trained(width: int, *, config: Config) -> xr.Dataset:
    """The mean test loss of an ensemble, and its standard error."""
    seen = measure_training(
        network(config).at_width(width),
        task(config),
        GradientFlow(time=config.time),
        networks=config.networks,
        seed=crc32(f"{width} {config.seed}".encode()),
        observables=["test_loss"],
        progress=False,
    )
    # Losses of the tests of one network go together: as if they were one.
    sem = float(seen.test_loss_sem.mean())
    return xr.Dataset({"measured": float(seen.test_loss.mean()), "measured_sem": sem})


def coefficient_of(n: np.ndarray, beyond: np.ndarray, sem: np.ndarray) -> tuple[float, float]:
    """The coefficient of 1/n of what is beyond infinite width, by a fit of three powers, and its standard error."""
    powers = n[:, None] ** -np.arange(1.0, _TERMS + 1) / sem[:, None]
    inverse = np.linalg.inv(powers.T @ powers)
    return float((inverse @ powers.T @ (beyond / sem))[0]), float(np.sqrt(inverse[0, 0]))


def numbers(dataset: xr.Dataset) -> list[Number]:
    """The coefficient, and the loss at the widest networks, where the small parameter is smallest."""
    error = float(np.hypot(dataset.found_sem, dataset.coefficient_error))
    last = dataset.sel(width=dataset.width.max())
    # What is neglected is about the square of the small parameter, of the loss.
    left = float(last.small**2 * last.predicted)
    return [
        Number(
            "coefficient of 1/n of the test loss",
            float(dataset.coefficient),
            float(dataset.found),
            error,
        ),
        Number(
            f"test loss at width {int(last.width)}",
            float(last.predicted),
            float(last.measured),
            float(last.measured_sem),
            left,
        ),
    ]


def tables(dataset: xr.Dataset) -> list[Table]:
    """Loss by width."""
    rows = []
    for n in dataset.width.values.tolist():
        one = dataset.sel(width=n)
        seen = f"{float(one.measured):.4f} ± {float(one.measured_sem):.4f}"
        rows.append((n, float(one.small), f"{float(one.predicted):.4f}", seen))
    infinite = ("infinite", 0.0, f"{float(dataset.leading):.4f}", None)
    head = ("width", "small parameter", "predicted", "trained")
    return [Table.of("Mean test loss", head, [*rows, infinite])]


@panels(2, height=3.6)
def figure(dataset: xr.Dataset, left: Axes, right: Axes) -> None:
    """The loss against the width; what is beyond infinite width, times n, against 1/n."""
    n, L0, L1 = dataset.width.values, float(dataset.leading), float(dataset.coefficient)
    parameter = float((dataset.small * dataset.width).mean())
    fine = np.geomspace(0.8 * n.min(), 4 * n.max(), 200)
    trusted = parameter / fine <= _TRUSTED
    left.axhline(L0, color=MUTED, lw=0.8, ls=":", label="infinite width")
    for part, style, label in ((trusted, "-", "order 1/n"), (~trusted, "--", None)):
        left.plot(fine[part], L0 + L1 / fine[part], style, color=COLORS[0], label=label)
    points(left, n, dataset.measured, dataset.measured_sem, color=COLORS[1], label="trained")
    log_axes(left, "x")
    left.set(xlabel="width", title="mean test loss")
    left.legend(loc="upper right")
    beyond = n * (dataset.measured - L0), n * dataset.measured_sem
    points(right, 1 / n, *beyond, color=COLORS[1], label="trained")
    error = [float(dataset.coefficient_error)]
    right.errorbar([0.0], [L1], error, fmt="s", color=COLORS[0], markersize=5, label="predicted")
    found = [float(dataset.found)], [float(dataset.found_sem)]
    right.errorbar(
        [0.0], *found, fmt="D", color=MUTED, markersize=4, label="extrapolated", zorder=0
    )
    right.set(xlabel="1/n", title="n times what is beyond infinite width")
    right.legend(loc="best")
