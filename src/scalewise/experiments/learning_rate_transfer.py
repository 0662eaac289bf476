r"""The learning rate tuned on a narrow network, used on a wide one: does it still fit?

Shown: loss on digits after a fixed number of steps against the learning rate, for several widths, under
five strategies that coincide at the smallest width; where its minimum lies; and the slope of that against
the width in powers of 2: the drift.

Claims: the second differentials are of order $\eta_0^3\widehat{ddH}\sim\gamma=L/n^{1-s}$ in units of the
NTK. Cross-entropy saturates, so an error stays of order one however far the logits run, and what ends the
growth of the learning rate is the NTK itself, which one step moves by $\eta_0^2\gamma$:
$$(\eta_0\Theta)^2\gamma\sim1,\qquad\eta_\text{opt}\propto\frac1{\Theta\sqrt\gamma}
  \propto\frac{n^{(1-s)/2}}{\Theta\sqrt L}.$$
The drift at fixed depth is thus $\frac12$ for neural-tangent scaling, $(1-s)/2$ along the family, 0 for
maximal update; for standard scaling, whose $\Theta$ grows with the width, $-\frac12$ at last. At fixed
$\gamma$ it is 0 for every $s$: depth and width grow together. An error that grows with the logits, such as
that of a squared loss, would stop at $\eta\Theta\sim1$ instead, which drifts by 0 and $-1$ for
neural-tangent and standard scaling.

Networks are piecewise linear ones: their kernel is the same at every depth. That of tanh falls as
$1/L$, by which $\gamma$ grows in units of the signal, and its learning rate does drift with the depth.

Source: Yaida (4.9), (4.10) for $\gamma$; the estimate made with it is ours, and so is the experiment.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import xarray as xr
from matplotlib.axes import Axes

from scalewise.experiments._form import Progress, each, settings
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
from scalewise.experiments._optimum import below_best, bootstrap_rows, drift, parabola_minimum
from scalewise.experiments._training import TrainingData, make_task, train
from scalewise.networks import MLP, Network, Scaled, apply_strategy
from scalewise.scaling import Strategy, gamma, meta, mup, ntk, standard, width_for_gamma
from scalewise.theory.single import single_input_flow

TITLE = "Optimal learning rate against width"
TEXT = (
    "Networks trained on digits. What a narrow network says about the learning rate of a wide one "
    "depends on the strategy: the optimum stays under maximal update, and for s = ½ when the depth grows "
    "as √n; it grows under neural-tangent scaling and for s = ½ at fixed depth, and falls under standard "
    "scaling. Lines are 1/(Θ√γ): cross-entropy lets the logits run, so that the learning rate can grow "
    "until features move by order one."
)

# What each is called in figures, and its exponents at a given depth. The last grows with the width.
STRATEGIES: dict[str, Callable[[int], Strategy]] = {
    "standard": lambda depth: standard(depth=depth),
    "ntk": lambda depth: ntk(depth=depth),
    "s = 1/2": lambda depth: meta("1/2", depth=depth),
    "mup": lambda depth: mup(depth=depth),
    "s = 1/2, L ~ √n": lambda depth: meta("1/2", depth=depth),
}
_GROWING = "s = 1/2, L ~ √n"
# Allowed beyond chance: orders in 1/n and 1/√n that widths of tens and hundreds have, and the share of
# the first layer, whose learning rate standard scaling leaves behind.
_ALLOWANCE = {"standard": 0.3, "ntk": 0.25, "s = 1/2": 0.2, "mup": 0.12, _GROWING: 0.12}
_RESAMPLES = 400


@settings(widths=(32, 96, 256), depths=(3, 4, 6), octaves=(4, 9))  # small: narrower networks
class Config:
    r"""Settings.

    Args:
        data: A data set with labels.
        activation: Scale-invariant.
        widths: $n$ at fixed depth; the first is the reference width, where strategies coincide.
        depths: $L$ of the networks that grow in depth, as many as `widths`; the first is also the fixed
            depth. Their widths keep $L/\sqrt n$.
        octaves: First and last learning rate $\eta_0$, as powers of 2; every half power between them.
        steps: Of gradient descent.
        batch: Images of a step.
        seeds: Networks at each learning rate, at least 2.
        seed: Random seed.
    """

    data: str = "digits"
    activation: str = "relu"
    widths: tuple[int, ...] = (32, 64, 128, 256, 512)
    depths: tuple[int, ...] = (3, 4, 5, 6, 8)
    octaves: tuple[int, int] = (3, 10)
    steps: int = 100
    batch: int = 32
    seeds: int = 8
    seed: int = 0

    @property
    def rates(self) -> np.ndarray:
        r"""$\eta_0$."""
        return 2.0 ** np.arange(self.octaves[0], self.octaves[1] + 0.25, 0.5)

    def shape(self, name: str, size: int) -> tuple[int, int]:
        """Depth and width of a network of `size` under the strategy `name`."""
        if name != _GROWING:
            return self.depths[0], self.widths[size]
        fixed = gamma(self.depths[0], self.widths[0], "1/2")
        return self.depths[size], round(width_for_gamma(fixed, self.depths[size], "1/2"))

    def network(self, depth: int, width: int, task: TrainingData) -> Network:
        """The critical network of this `depth` and `width` for a `task`.

        Every layer contributes equally, and biases learn no faster than weights.
        """
        inputs = task.x.shape[1]
        net = MLP(depth, width, self.activation, input_dim=inputs, output_dim=task.classes)
        return net.at_criticality().with_equivalent_learning_rates(lambda_b=1 / inputs)


# run(LARGE): ten minutes of one core.
LARGE = Config(widths=(32, 64, 128, 256, 512, 1024), depths=(3, 4, 5, 6, 8, 12))


def run(config: Config, *, progress: Progress = None) -> xr.Dataset:
    r"""Train all networks and find the optima.

    Args:
        config: What is trained: the default takes a minute or two of one core, `LARGE` ten.
        progress: Called with (cells done, cells in all).

    Returns:
        Over (strategy, size, seed, rate) ``loss``, ``test_loss``, ``diverged``; over (strategy, size)
        ``width``, ``depth``, ``optimum`` and ``test_optimum`` in powers of 2 with ``_sem``, and
        ``predicted``, $-\log_2\Theta\sqrt\gamma$ counted from the first optimum; over strategy ``drift``
        and ``test_drift`` with ``_sem``, ``drift_predicted``, and ``cost`` with ``_sem``: loss of the
        widest network at the learning rate of the narrowest, over its best.

    Raises:
        ValueError: If there are not three widths and as many depths, both growing, or two seeds, or five
            learning rates; or an optimum lies at the end of them.
    """
    _check(config)
    task = make_task(
        config.data, seeds=config.seeds, steps=config.steps, batch=config.batch, seed=config.seed
    )
    sizes = len(config.widths)
    shape = (len(STRATEGIES), sizes, config.seeds, config.rates.size)
    loss, test_loss, diverged = np.empty(shape), np.empty(shape), np.empty(shape, dtype=bool)
    predicted, shapes = np.empty(shape[:2]), np.empty((*shape[:2], 2), dtype=int)
    for i, (name, make) in enumerate(STRATEGIES.items()):
        for j in range(sizes):
            depth, width = shapes[i, j] = config.shape(name, j)
            net = config.network(int(depth), int(width), task)
            scaled = apply_strategy(net, make(int(depth)), reference_width=config.widths[0])
            outcome = train(scaled, config.rates, task, seed=config.seed)
            loss[i, j], test_loss[i, j] = outcome.loss, outcome.test_loss
            diverged[i, j] = outcome.diverged
            predicted[i, j] = _predicted(scaled)
            if progress is not None:
                progress(i * sizes + j + 1, shape[0] * sizes)
    cell, each = ("strategy", "size"), ("strategy", "size", "seed", "rate")
    dataset = xr.Dataset(
        {
            "loss": (each, loss),
            "test_loss": (each, test_loss),
            "diverged": (each, diverged),
            "depth": (cell, shapes[..., 0]),
            "width": (cell, shapes[..., 1]),
            "predicted": (cell, predicted - predicted[:, :1]),
        },
        {"strategy": list(STRATEGIES), "rate": config.rates},
        attributes(config, ignorance=task.ignorance),
    )
    return _with_optima(dataset)


def _check(config: Config) -> None:
    widths, depths = np.array(config.widths), np.array(config.depths)
    if len(widths) != len(depths) or len(widths) < 3 or min(*np.diff(widths), *np.diff(depths)) < 1:
        raise ValueError(
            f"`Config` needs at least three widths and as many depths, both growing; got widths "
            f"{config.widths} and depths {config.depths}."
        )
    if config.seeds < 2 or config.rates.size < 5:
        raise ValueError(
            f"`Config` needs two seeds for a standard error and two octaves of learning rates for an "
            f"optimum; got seeds={config.seeds} and octaves={config.octaves}."
        )


def _predicted(scaled: Scaled) -> float:
    r"""$-\log_2(\eta\Theta\sqrt\gamma)$ of an input with $|x|^2=n_0$."""
    net = scaled.net
    flow = single_input_flow(net, K1=net.C_b[0] + net.C_W[0])
    Theta = float(np.asarray(flow.Theta)[-1, 0])
    # How far the output is turned down is the place in the family, with or without its learning rates.
    scale = gamma(net.depth, net.hidden_widths[-1], scaled.strategy.p[-1])
    return -float(np.log2(scaled.eta * Theta * scale**0.5))


def _with_optima(dataset: xr.Dataset) -> xr.Dataset:
    """The optima, their drift, what it costs to ignore it, and the errors of all by a bootstrap."""
    x = np.log2(dataset.rate.values)
    rows, inflate = bootstrap_rows(dataset.seed.size, _RESAMPLES, dataset.attrs["seed"])
    width = dataset.width.values.astype(float)
    found: dict[str, Any] = {}
    for kind in ("", "test_"):
        logs = np.log(dataset[f"{kind}loss"].values)
        # One resampling of seeds for all curves: they share the order of the images.
        both = [logs.mean(axis=2), np.stack([logs[:, :, row].mean(axis=2) for row in rows])]
        if not kind:
            _refuse_ends(dataset, both[0])
        optima = [parabola_minimum(x, y) for y in both]
        drifts = [
            np.stack([drift(width[k], o[..., k, :]) for k in range(len(width))], axis=-1)
            for o in optima
        ]
        found[f"{kind}optimum"] = optima
        found[f"{kind}drift"] = drifts
        if not kind:
            costs = [_costs(x, *one) for one in zip(both[1], optima[1], strict=True)]
            found["cost"] = [_costs(x, both[0], optima[0]), np.array(costs)]
    for name, (value, resampled) in found.items():
        over = ("strategy", "size")[: value.ndim]
        dataset[name] = (over, value)
        dataset[f"{name}_sem"] = (over, inflate * resampled.std(axis=0))
    predicted = dataset.predicted.values
    slopes = [drift(w, p) for w, p in zip(width, predicted, strict=True)]
    dataset["drift_predicted"] = ("strategy", np.array(slopes, dtype=float))
    dataset["predicted"] = dataset.predicted + dataset.optimum.isel(size=0)
    return dataset


def _costs(x: np.ndarray, y: np.ndarray, optimum: np.ndarray) -> np.ndarray:
    """Best loss of the widest network forgone at the optimum of the narrowest, as a factor."""
    return np.exp([below_best(x, curve[-1], o[0]) for curve, o in zip(y, optimum, strict=True)])


def _refuse_ends(dataset: xr.Dataset, y: np.ndarray) -> None:
    lowest = y.argmin(axis=-1)
    outside = (lowest == 0) | (lowest == dataset.rate.size - 1)
    if outside.any():
        i, j = np.argwhere(outside)[0]
        raise ValueError(
            f"The lowest loss of {str(dataset.strategy.values[i])!r} at width "
            f"{int(dataset.width[i, j])} is at the end of the learning rates, "
            f"2^{np.log2(float(dataset.rate[lowest[i, j]])):g}. Widen `Config.octaves`, now "
            f"{tuple(dataset.attrs['octaves'])}."
        )


def numbers(dataset: xr.Dataset) -> list[Number]:
    """Drifts beside their estimate, and what a learning rate that should transfer costs."""
    rows = []
    for name, one in each(dataset, "strategy"):
        allowance = _ALLOWANCE[name]
        rows.append(Number.of(one, f"drift, {name}", "drift_predicted", "drift", allowance))
    for name in ("mup", _GROWING):
        one = dataset.sel(strategy=name)
        rows.append(Number.of(one, f"loss not retuned / best, {name}", 1.0, "cost", 0.15))
    return rows


def tables(dataset: xr.Dataset) -> list[Table]:
    """Every strategy: its drifts, and the cost of not retuning."""

    def pm(value: Any, sem: Any) -> str:
        return f"{float(value):.2f} ± {float(sem):.2f}".replace("-", "−")

    rows = []
    for name, one in each(dataset, "strategy"):
        rows.append(
            (
                name,
                round(float(one.drift_predicted), 2) + 0.0,
                pm(one.drift, one.drift_sem),
                pm(one.test_drift, one.test_drift_sem),
                pm(one.cost, one.cost_sem),
            )
        )
    head = ("strategy", "1/Θ√γ", "drift", "drift of the test loss", "loss not retuned / best")
    caption = "Slope of log₂ of the optimal learning rate against log₂ of the width"
    return [Table.of(caption, head, rows)]


@panels(3, 2, height=3.3)
def figure(dataset: xr.Dataset, *axes: Axes) -> None:
    """Loss against the learning rate, a panel for each strategy, and the optima against the width."""
    loss = np.exp(np.log(dataset.loss).mean("seed"))
    low, high = 0.8 * float(loss.min()), 1.15 * float(dataset.attrs["ignorance"])
    for axis, name in zip(axes[:-1], map(str, dataset.strategy.values), strict=True):
        _curves(axis, dataset.sel(strategy=name), loss.sel(strategy=name))
        axis.set(ylim=(low, high), title=f"{name}: loss after training")
        log_axes(axis, "y")
    for axis in axes[:-1]:
        axis.set_xlabel("log₂ of learning rate η₀")
    _optima(axes[-1], dataset)


def _curves(axis: Any, one: xr.Dataset, loss: xr.DataArray) -> None:
    x = np.log2(one.rate.values)
    count = one.sizes["size"]
    for j in range(count):
        # From pale to full: one colour for a family of widths.
        alpha = 0.3 + 0.7 * j / (count - 1)
        label = f"n = {int(one.width[j])}"
        if len(set(one.depth.values.tolist())) > 1:
            label += f", L = {int(one.depth[j])}"
        axis.plot(x, loss[j], color=COLORS[0], alpha=alpha, lw=1.3, label=label)
        best = float(one.optimum[j])
        height = np.exp(np.interp(best, x, np.log(loss[j].values)))
        axis.plot([best], [height], "o", ms=5, mew=0, color=COLORS[1], alpha=alpha)
    axis.legend(loc="upper left")


def _optima(axis: Any, dataset: xr.Dataset) -> None:
    for k, (name, one) in enumerate(each(dataset, "strategy")):
        text = f"{name}: {float(one.drift):+.2f}".replace("-", "−")
        points(axis, one.width, one.optimum, one.optimum_sem, color=COLORS[k], label=text)
        axis.plot(one.width, one.predicted, color=COLORS[k], lw=1.0)
    axis.set_xscale("log", base=2)
    ticks = dataset.width.values[0]
    axis.set_xticks(ticks, [str(n) for n in ticks])
    axis.minorticks_off()
    axis.tick_params(axis="x", color=MUTED)
    axis.set(xlabel="width n", title="log₂ of the optimum, its drift; lines: 1/Θ√γ")
    axis.legend(loc="best")
