"""What the own step of each tensor of a JAX model changes: with the plan's rates, and with one rate for all."""

import jax
import matplotlib.pyplot as plt
import numpy as np
import optax
from flax import nnx
from matplotlib.ticker import LogLocator

import scalewise as sw
from scalewise.experiments._look import COLORS, power_label


class Classifier(nnx.Module):
    """Three layers on 16 inputs."""

    def __init__(self, width: int, seed: int = 0) -> None:
        rngs = nnx.Rngs(seed)
        self.first = nnx.Linear(16, width, rngs=rngs)
        self.second = nnx.Linear(width, width, rngs=rngs)
        self.head = nnx.Linear(width, 4, rngs=rngs)

    def __call__(self, x: jax.Array) -> jax.Array:
        """The logits."""
        return self.head(nnx.relu(self.second(nnx.relu(self.first(x)))))


def loss(model: Classifier, batch: tuple[np.ndarray, np.ndarray]) -> jax.Array:
    """The cross-entropy."""
    return optax.softmax_cross_entropy_with_integer_labels(model(batch[0]), batch[1]).mean()


x = np.random.default_rng(0).normal(size=(24, 16)).astype(np.float32)
y = np.argmax(x[:, :4], axis=1)
plan = sw.jax.plan(
    Classifier,
    base={"width": 64},
    target={"width": 256},
    strategy=sw.scaling.mup(),
    optimizer="adamw",
)
widths, tensors = [32, 64, 128], ("first.kernel", "second.kernel", "head.kernel")
ways = (
    ("adamw within plan.optax", lambda at, model: (at.init(model), at.optax(optax.adamw(1e-4)))),
    ("adamw alone", lambda at, model: (at.init(model), optax.adamw(1e-4))),
)
figure, axes = plt.subplots(1, 2, figsize=(6.6, 2.6), sharey=True)
for axis, (label, setup) in zip(axes, ways, strict=True):
    check = plan.verify((x, y), loss, widths=widths, seeds=2, setup=setup)
    for tensor, color in zip(tensors, COLORS, strict=False):
        moved = check.table.size.sel(tensor=tensor, quantity="own_change").mean("seed")
        line = "o--" if tensor == "head.kernel" else "o-"
        axis.plot(widths, moved / moved[0], line, ms=3.6, color=color, label=tensor)
    axis.set(xscale="log", yscale="log", xlabel="width n", title=label)
    axis.set_xticks(widths, labels=map(str, widths))
    axis.minorticks_off()
    axis.yaxis.set_major_locator(LogLocator(subs=(1.0, 2.0, 3.0, 5.0)))
    axis.yaxis.set_major_formatter(lambda value, _: power_label(value))
axes[0].set(ylabel="own change, width 32 = 1")
axes[1].legend(fontsize=9)
