r"""The limits of a shallow network on mini-batches: the same picture as with full batches?

Shown: over the steps, for batches of several sizes, the size of the logits $\mathbb E|f|$, the tangent kernel, the
first relative to the second,
$$\mathbb E\left|\frac f{\hat\eta^*_aK_a+\hat\eta^*_wK_w}\right|,$$
and the divergence of each limit from networks of the reference width.

Claims: batches and their sizes make no difference of kind. The corrected mean field stays with the reference in
all of these; the mean field starts with logits too small by $\sqrt{d^*/d}$; in the symmetric default the first step
takes them too far; the neural-tangent limit keeps its kernel and lags behind. Logits grow because kernels do:
relative to the kernel those of the reference level off, and those of the neural-tangent limit go on.

The source shows the full CIFAR-10 besides, of ten classes, for which there are no images here: all of this is on
its first two.

Source: Golikov, Appendix G, Figures 3 to 7.
"""

from __future__ import annotations

import xarray as xr
from matplotlib.axes import Axes

from scalewise.experiments import cifar2_limits
from scalewise.experiments._form import each, settings
from scalewise.experiments._look import COLORS, MUTED, Number, Table, attributes, log_axes, panels
from scalewise.experiments.cifar2_limits import LIMITS
from scalewise.experiments.cifar2_limits import needs_data as needs_data

TITLE = "Limits of a shallow network on mini-batches"
TEXT = (
    "The same networks and limits, taught by batches of all images and of a few. What was true of full batches "
    "stays true: the corrected mean field has the reference's logits and kernel, the mean field starts too "
    "small, the symmetric default leaps at the first step, and the neural-tangent limit lacks the growth of the "
    "kernel. Logits relative to the kernel level off where the kernel grows. Small batches make curves rougher, "
    "and nothing else. Two classes only."
)


# Small: one size of batches, fewer steps: five seconds.
@settings(batches=(96, 12), width=512, steps=100, records=12)
class Config:
    r"""Settings.

    Args:
        batches: Images of one step, divisors of `samples`; the largest is all of them.
        samples: Training images, half of each class.
        tests: Test images.
        width: $d$ of the limits that are networks.
        seeds: Networks of each kind.
        steps: Of gradient descent.
        records: How many of them are looked at.
        seed: Of images, batches and networks.
    """

    batches: tuple[int, ...] = (96, 24, 6)
    samples: int = 96
    tests: int = 100
    width: int = 1024
    seeds: int = 10
    steps: int = 240
    records: int = 20
    seed: int = 0


def run(config: Config) -> xr.Dataset:
    r"""Train the reference and every limit with batches of every size.

    Returns:
        As `cifar2_limits.run`, with the dimension ``batch`` in front.

    Raises:
        ValueError: If the images are not there, or a batch does not divide their number.
    """
    parts = []
    for batch in config.batches:
        one = cifar2_limits.Config(
            config.samples,
            config.tests,
            config.width,
            config.seeds,
            config.steps,
            config.records,
            seed=config.seed,
            batch=0 if batch == config.samples else batch,
        )
        parts.append(cifar2_limits.run(one))
    together = xr.concat(parts, "batch", combine_attrs="drop").assign_coords(
        batch=list(config.batches)
    )
    share = cifar2_limits.Config().reference_width / config.width
    together.attrs = attributes(config, floor=parts[0].attrs["floor"], share=share)
    return together


def numbers(dataset: xr.Dataset) -> list[Number]:
    """For each batch size: how much of the reference the limits reproduce, and what they lack."""
    floor, share = float(dataset.attrs["floor"]), float(dataset.attrs["share"])
    rows = []
    for batch, one in each(dataset, "batch"):
        size, kernel = one["size"], one["kernel"]
        last = {"step": -1}
        grown = float(kernel.sel(model="reference").isel(last))
        start = float(size.sel(model="MF")[0] / size.sel(model="IC-MF")[0])
        rows += [
            _ratio(
                f"batch {batch}: E|f| of IC-MF at the end, over the reference", size, "IC-MF", 0.15
            ),
            _ratio(
                f"batch {batch}: E|f|/K of IC-MF, over the reference",
                one.relative_size,
                "IC-MF",
                0.15,
            ),
            _ratio(f"batch {batch}: kernel of IC-MF, over the reference", kernel, "IC-MF", 0.15),
            Number(
                f"batch {batch}: E|f| of MF at the start, over IC-MF", share**0.5, start, 0, 0.1
            ),
            Number(
                f"batch {batch}: kernel of NTK / start, in a kernel that grows (1 for yes)",
                1,
                int(abs(float(kernel.sel(model="NTK").isel(last)) - 1) < 1e-6 < grown - 1),
            ),
            Number(
                f"batch {batch}: first step of sym-default half as far again, in E|f| (1 for yes)",
                1,
                int(float(size.sel(model="sym-default")[1] / size.sel(model="reference")[1]) > 1.5),
            ),
            Number(
                f"batch {batch}: E|f|/K of NTK ends half above the reference (1 for yes)",
                1,
                int(_last_ratio(one.relative_size, "NTK") > 1.5),
            ),
            Number(
                f"batch {batch}: divergence of IC-MF, mean",
                floor,
                float(one.divergence.sel(limit="IC-MF").mean()),
                0,
                0.6 * floor,
            ),
            Number(
                f"batch {batch}: IC-MF is closest, mean over steps (1 for yes)",
                1,
                int(str(one.divergence.mean("step").idxmin("limit").item()) == "IC-MF"),
            ),
        ]
    return rows


def _ratio(what: str, data: xr.DataArray, model: str, allowance: float) -> Number:
    return Number(what, 1, _last_ratio(data, model), 0, allowance)


def _last_ratio(data: xr.DataArray, model: str) -> float:
    """A model over the reference at the last step."""
    last = data.isel(step=-1)
    return float(last.sel(model=model) / last.sel(model="reference"))


def tables(dataset: xr.Dataset) -> list[Table]:
    """All models after the last step."""
    rows = [
        (
            batch,
            name,
            *(
                float(one[key].sel(model=name, batch=batch))
                for key in ("accuracy", "loss", "size", "kernel", "relative_size")
            ),
        )
        for one in [dataset.isel(step=-1)]
        for batch in dataset.batch.values.tolist()
        for name in dataset.model.values.tolist()
    ]
    head = ("batch", "model", "accuracy", "loss", "E|f|", "kernel / start", "E|f/K|")
    return [Table.of("At the last step, on test images of two classes", head, rows)]


@panels(4, "batch", height=2.7)
def figure(dataset: xr.Dataset, *axes: Axes) -> None:
    """Sizes, sizes relative to kernels, and divergences, a row for each size of batch."""
    step = dataset.step.values + 1
    shades = {**dict(zip(LIMITS, COLORS, strict=False)), "reference": MUTED}
    for row, batch in enumerate(dataset.batch.values.tolist()):
        one, shown = dataset.sel(batch=batch), axes[4 * row : 4 * row + 4]
        for name, color in shades.items():
            dashes = "--" if name == "reference" else "-"
            for axis, key in zip(shown, ("size", "kernel", "relative_size"), strict=False):
                axis.plot(step, one[key].sel(model=name), color=color, ls=dashes, label=name)
            if name != "reference":
                shown[3].plot(step, one.divergence.sel(limit=name), color=color)
        shown[3].axhline(dataset.attrs["floor"], color=MUTED, lw=1.0, ls=":")
        titles = (f"E |f|, batches of {batch}", "kernel / start", "E |f / kernel|", "divergence")
        for axis, title in zip(shown, titles, strict=True):
            log_axes(axis)
            axis.set_title(title)
            axis.set_xlabel("step + 1" if row == dataset.sizes["batch"] - 1 else "")
    axes[0].legend(loc="best", fontsize=7.5)
