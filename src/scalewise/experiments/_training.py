"""Networks trained on digits by plain stochastic gradient descent, over learning rates and seeds."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import Any

from scalewise._extras import require

require("jax", for_="This experiment", extra="nets")

import jax
import jax.numpy as jnp
import numpy as np
import xarray as xr
from jaxtyping import Float, Int

from scalewise.data import load_labelled
from scalewise.nets import Parameters
from scalewise.nets.spi import traced
from scalewise.networks import Network, Scaled


@dataclass(frozen=True)
class TrainingData:
    """Images with their classes, and which of them each step sees.

    Args:
        x: Training images.
        y: Their classes.
        x_test: Images kept back.
        y_test: Their classes.
        order: (seed, step, batch), rows of `x`: every epoch a new permutation, fixed by the seed.
    """

    x: Float[np.ndarray, "sample feature"]
    y: Int[np.ndarray, " sample"]
    x_test: Float[np.ndarray, "test feature"]
    y_test: Int[np.ndarray, " test"]
    order: Int[np.ndarray, "seed step batch"]

    @property
    def classes(self) -> int:
        """How many classes there are."""
        return int(self.y.max()) + 1

    @property
    def ignorance(self) -> float:
        """Cross-entropy of equal odds: the loss of a network that knows nothing."""
        return float(np.log(self.classes))


def make_task(data: str, *, seeds: int, steps: int, batch: int, seed: int = 0) -> TrainingData:
    """Split a data set, four parts for training and one for the test, and fix the order of a pass.

    Args:
        data: A name that `load_labelled` knows.
        seeds: How many orders.
        steps: Of training.
        batch: Images of one step.
        seed: Same seed, same task.
    """
    x, y = load_labelled(data)
    rows = np.random.default_rng([seed, 0]).permutation(len(x))
    kept, train_rows = np.split(rows, [len(x) // 5])
    if not 1 <= batch <= len(train_rows):
        raise ValueError(
            f"`batch` must be from 1 to {len(train_rows)}, the training images of {data!r}; "
            f"got {batch}."
        )
    epochs = -(-steps * batch // len(train_rows))
    order = np.empty((seeds, steps, batch), dtype=np.int64)
    for k in range(seeds):
        rng = np.random.default_rng([seed, 1, k])
        passes = np.concatenate([rng.permutation(len(train_rows)) for _ in range(epochs)])
        order[k] = passes[: steps * batch].reshape(steps, batch)
    return TrainingData(x[train_rows], y[train_rows], x[kept], y[kept], order)


def train(scaled: Scaled, rates: Any, task: TrainingData, *, seed: int = 0) -> xr.Dataset:
    r"""Train one network for every seed of the task and every learning rate.

    $$\theta\to\theta-\eta\,\lambda_\theta\,\frac{\partial\mathcal L}{\partial\theta},\qquad
      \lambda_{W^{(\ell)}}=\lambda_W^{(\ell)}/n_{\ell-1},\quad\lambda_{b^{(\ell)}}=\lambda_b^{(\ell)}.$$

    Args:
        scaled: The network and its $\eta$, from `apply_strategy`.
        rates: Factors $\eta_0$ that multiply `scaled.eta`.
        task: What is learned, in which order.
        seed: Of the initialisations, one for each order of the task.

    Returns:
        Over seeds and rates, all finite: ``loss``, the cross-entropy on all training images, `Task.ignorance` where
        training diverged; ``test_loss``, the same on the images kept back, and no more than `Task.ignorance`;
        ``diverged``, where the training loss is not a number, or no better than equal odds.
    """
    net = scaled.net
    n = net.widths
    per_weight = tuple(rate / n[k] for k, rate in enumerate(net.lambda_W))
    data = [(x.astype(np.float32), y) for x, y in ((task.x, task.y), (task.x_test, task.y_test))]
    losses = _train(
        _drawn(net, len(task.order), seed),
        Parameters(per_weight, net.lambda_b),
        (np.asarray(rates) * scaled.eta).astype(np.float32),
        task.order,
        data,
        sigma=traced(net.activation),
    )
    loss, test_loss = (np.asarray(each, dtype=np.float64) for each in losses)
    # Negated, so that what is not a number counts as diverged.
    diverged = ~(loss < task.ignorance)
    test_known = ~diverged & (test_loss < task.ignorance)
    found = {
        "loss": np.where(diverged, task.ignorance, loss),
        "test_loss": np.where(test_known, test_loss, task.ignorance),
        "diverged": diverged,
    }
    return xr.Dataset({name: (("seed", "rate"), each) for name, each in found.items()})


def _drawn(net: Network, seeds: int, seed: int) -> Parameters:
    """Initial parameters, (seed, ...). Drawn by NumPy: JAX would compile for every shape."""
    n = net.widths
    rngs = [np.random.default_rng([seed, 3, k]) for k in range(seeds)]
    weights, biases = [], []
    for k in range(net.depth):
        w = np.stack([r.standard_normal((n[k + 1], n[k]), dtype=np.float32) for r in rngs])
        b = np.stack([r.standard_normal(n[k + 1], dtype=np.float32) for r in rngs])
        weights.append(w * np.float32((net.C_W[k] / n[k]) ** 0.5))
        biases.append(b * np.float32(net.C_b[k] ** 0.5))
    return Parameters(tuple(weights), tuple(biases))


@partial(jax.jit, static_argnames="sigma")
def _train(start: Any, factors: Any, rates: Any, order: Any, data: Any, *, sigma: Any) -> Any:
    """Losses on each part of `data`, (seed, rate)."""
    x, y = data[0]

    def run(parameters: Any, batches: Any, eta: Any) -> Any:
        def step(p: Any, rows: Any) -> tuple[Any, None]:
            slopes = jax.grad(_loss)(p, x[rows], y[rows], sigma)
            return jax.tree.map(lambda a, f, d: a - eta * f * d, p, factors, slopes), None

        trained, _ = jax.lax.scan(step, parameters, batches)
        return [_loss(trained, images, classes, sigma) for images, classes in data]

    # One after another: the weights of a single network stay in cache, those of dozens do not.
    def runs(one: Any) -> Any:
        return jax.lax.map(lambda eta: run(one[0], one[1], eta), rates)

    return jax.lax.map(runs, (start, order))


def _loss(parameters: Any, x: Any, y: Any, sigma: Any) -> Any:
    """Mean cross-entropy."""
    z = x
    for layer, (w, b) in enumerate(zip(parameters.weights, parameters.biases, strict=True)):
        z = (sigma(z) if layer else z) @ w.T + b
    return -jnp.mean(jnp.take_along_axis(jax.nn.log_softmax(z), y[:, None], axis=1))
