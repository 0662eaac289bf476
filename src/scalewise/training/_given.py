r"""One given network, trained as the model that is linear in its parameters about where they are.

$$z_\delta(t)=z_\delta+\sum\frac{dz_\delta}{d\theta_\mu}(\theta_\mu(t)-\theta_\mu),\qquad
  z(t)=z-\widehat H_{\cdot\mathcal A}\,g(\widehat H_{\mathcal{AA}})\,(z_{\mathcal A}-y),$$

with its own outputs and its own NTK, which links its outputs to each other. Samples and outputs are one index here.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Annotated, Any, NamedTuple

import numpy as np
import xarray as xr
from jaxtyping import Float

from scalewise._arrays import float_array
from scalewise._checked import Must, checked
from scalewise._version import __version__
from scalewise._words import refuse_name
from scalewise.networks._inputs import digest_of
from scalewise.networks._network import Network
from scalewise.tasks import Loss, Task
from scalewise.tasks._losses import known_loss
from scalewise.training._algorithms import GradientDescent, GradientFlow
from scalewise.training._generalisation import true_classes
from scalewise.training._outcomes import OUTCOMES
from scalewise.training._spectrum import spectrum, untaught
from scalewise.training.losses._dynamics import coefficients, stops
from scalewise.training.losses._outcomes import LOSS_OUTCOMES
from scalewise.training.losses._predict import wrong

__all__ = ["MLPWeights", "Tangents", "layers_of", "predict_linearised", "tangents_of"]

MLPWeights = Annotated[
    Any,
    Must(
        "what `nets.init_weights` gives: weights (n_l, n_{l-1}) and biases (n_l,) of every layer",
        lambda v: hasattr(v, "weights") and hasattr(v, "biases"),
    ),
]
_NAMES = ("output_mean", "bias", "test_loss", "test_error", "train_mean", "train_loss", "spectrum")


class Tangents(NamedTuple):
    r"""What a linearised network is.

    Args:
        outputs: $z$.
        ntk: $\widehat H$, with learning rates.
    """

    outputs: Float[np.ndarray, "sample output"]
    ntk: Float[np.ndarray, "sample sample_1 output output_1"]


class Layers(NamedTuple):
    r"""One network on its way through some inputs.

    Args:
        weights: $W$ of every layer, float64.
        biases: $b$ of every layer.
        entering: What enters each layer: inputs, then activations (sample, n_(l-1)).
        slopes: $\sigma'$ of each hidden layer (sample, n_l).
        z: Its outputs (sample, output).
    """

    weights: list[np.ndarray]
    biases: list[np.ndarray]
    entering: list[np.ndarray]
    slopes: list[np.ndarray]
    z: np.ndarray


def layers_of(net: Network, given: Any, x: Float[np.ndarray, "sample feature"]) -> Layers:
    """A forward pass.

    Args:
        net: Shape and activation.
        given: Weights and biases.
        x: Inputs.

    Raises:
        ValueError: If weights have other shapes than the network's, or it has skip connections.
    """
    if any(net.skips):
        raise ValueError(
            "`weights` must be those of a network without skip connections. For others take "
            "`scalewise.jax.tangents` or `scalewise.torch.tangents` and `predict_linearised`."
        )
    Ws, bs = (
        [float_array("weights", a) for a in arrays] for arrays in (given.weights, given.biases)
    )
    n = net.widths
    shapes = [(W.shape, b.shape) for W, b in zip(Ws, bs, strict=False)]
    if len(Ws) != len(bs) or shapes != [((n[k + 1], n[k]), (n[k + 1],)) for k in range(net.depth)]:
        raise ValueError(
            f"`weights` must have weights (n_l, n_(l-1)) and biases (n_l,) of the widths {n}; got the shapes "
            f"{shapes}."
        )
    entering, slopes, z = [x], [], x @ Ws[0].T + bs[0]
    for W, b in zip(Ws[1:], bs[1:], strict=True):
        slopes.append(net.activation.derivative(z))
        entering.append(net.activation(z))
        z = entering[-1] @ W.T + b
    return Layers(Ws, bs, entering, slopes, z)


def tangents_of(net: Network, given: Any, x: Float[np.ndarray, "sample feature"]) -> Tangents:
    r"""Outputs and NTK of a network with given weights, layer by layer.

    Args:
        net: Its shape, activation and rates.
        given: Weights and biases.
        x: Inputs.

    Raises:
        ValueError: As `layers_of`.

    Source: PDLT (8.12), (8.16)-(8.18).
    """
    found, n = layers_of(net, given, x), net.widths
    size, outputs = found.z.shape
    back = np.broadcast_to(np.eye(outputs), (size, outputs, outputs)).reshape(size * outputs, -1)
    H = np.zeros((size, outputs, size, outputs))
    for layer in reversed(range(net.depth)):
        seen = found.entering[layer] @ found.entering[layer].T
        rates = net.lambda_b[layer] + net.lambda_W[layer] / n[layer] * seen
        H += (back @ back.T).reshape(H.shape) * rates[:, None, :, None]
        if layer:
            back = (back @ found.weights[layer]) * np.repeat(
                found.slopes[layer - 1], outputs, axis=0
            )
    return Tangents(found.z, H.transpose(0, 2, 1, 3))


@checked
def predict_linearised(
    outputs: Annotated[Any, Float[np.ndarray, "sample output"]],
    ntk: Annotated[Any, Float[np.ndarray, "sample sample_1 output output_1"]],
    task: Task,
    algorithm: GradientFlow | GradientDescent | None = None,
    *,
    times: Annotated[Any, Float[np.ndarray, " time"]] | None = None,
    observables: Sequence[str] | str | None = None,
) -> xr.Dataset:
    r"""What one given network will have learned, if it stays linear in its parameters, by any loss.

    Args:
        outputs: Of the network on the training samples, then on the test samples of the task.
        ntk: Its own NTK on the same, with its learning rates: `scalewise.jax.tangents` and
            `scalewise.torch.tangents` give both.
        task: What it is trained on.
        algorithm: `GradientFlow` to the end if ``None``; with a loss that is not the squared error it must stop.
        times: Times, or numbers of steps, in place of the algorithm's own: adds a dimension ``time``.
        observables: Names of what is wanted; everything that can be had if ``None``.

    Returns:
        A Dataset: ``output_mean`` (output, test), ``train_mean``, ``bias``, ``test_loss``, ``test_error`` and
        ``train_loss`` of this network, which has no spread, and the ``spectrum`` of its NTK over samples and
        outputs. Exact to rounding times the condition.

    Raises:
        ValueError: If shapes disagree, the NTK is singular and targets do not fit in, training diverges or has no
            end, or a name is not among these.

    Source: PDLT (10.39), (10.118)-(10.121), (∞.88), (∞.89) with one network's own NTK.

    Example:
        >>> import numpy as np, scalewise as sw
        >>> from scalewise.training import predict_linearised
        >>> task = sw.Task([[1.0]], [2.0], test_inputs=[[3.0]])
        >>> ntk = np.array([[1.0, 3.0], [3.0, 9.0]])[:, :, None, None]
        >>> predict_linearised([[0.5], [1.5]], ntk, task).output_mean.values
        array([[6.]])
    """
    way = GradientFlow() if algorithm is None else algorithm
    y, n = task.targets, len(task.inputs)
    size = (n + len(task.test_inputs), y.shape[1])
    if outputs.shape != size or ntk.shape != (size[0], size[0], size[1], size[1]):
        raise ValueError(
            f"`outputs` and `ntk` must be of {size[0]} training and test samples and {size[1]} outputs; got shapes "
            f"{outputs.shape} and {ntk.shape}."
        )
    if task.batches is not None:
        raise ValueError("`task` must have no batches: all samples teach at every step.")
    if times is not None and (not times.size or times.min() < 0):
        raise ValueError("`times` must hold at least one time, and none below 0.")
    names = _named(observables, task)
    flat = ntk.transpose(0, 2, 1, 3).reshape(outputs.size, outputs.size)
    moved, h = _moved(outputs, flat, task, way, times)
    data = _outcomes(moved[:, :n], moved[:, n:], task) | {"spectrum": h}
    variables = {}
    for name in names:
        row = OUTCOMES[name] if name == "spectrum" else LOSS_OUTCOMES.get(name, OUTCOMES[name])
        timed = times is not None and row.in_time
        plain = data[name] if timed or not row.in_time else data[name][0]
        variables[name] = row.variable(plain, leading=("time",) if timed else ())
    attributes = {
        "kind": "training of one network, linearised",
        "algorithm": repr(way),
        "loss": task.loss.name,
        "condition": float(h[-1] / h[0]) if h[0] else math.inf,
        "rank": int(np.count_nonzero(h)),
        "inputs": digest_of(task.inputs),
        "targets": digest_of(y),
        "test_inputs": digest_of(task.test_inputs),
        "scalewise": __version__,
    }
    return xr.Dataset(variables, {} if times is None else {"time": times}, attributes)


def _named(observables: Sequence[str] | str | None, task: Task) -> list[str]:
    known = [name for name in _NAMES if _can(name, task)]
    if observables is None or observables == "all":
        return known
    named = [observables] if isinstance(observables, str) else list(observables)
    for name in named:
        if name not in known:
            refuse_name("observables", name, known)
    return [name for name in known if name in named]


def _can(name: str, task: Task) -> bool:
    if "test" in OUTCOMES[name].dims and not len(task.test_inputs):
        return False
    if name == "test_error":
        wanted = task.test_targets
        return wanted is not None and true_classes(task.targets, wanted)
    return name not in ("bias", "test_loss") or task.test_targets is not None


def _moved(
    z: np.ndarray,
    H: Float[np.ndarray, "entry entry_1"],
    task: Task,
    algorithm: GradientFlow | GradientDescent,
    times: np.ndarray | None,
) -> tuple[Float[np.ndarray, "time sample output"], np.ndarray]:
    """Outputs at every time, and the eigenvalues of the NTK."""
    y, count = task.targets, task.targets.size
    found = spectrum(H[:count, :count], "NTK of the training samples")
    if task.loss is known_loss("mse"):
        filters = algorithm.filter(found.h, times, targets=count)
        error = (z.reshape(-1)[:count] - y.reshape(-1))[:, None]
        if np.isinf(filters.gain).any():
            if untaught(found, error):
                raise ValueError(
                    f"`ntk` of {len(y)} training samples and {y.shape[1]} outputs is singular in float64 (rank "
                    f"{found.rank}): there are targets that it does not represent. Stop training at a time, or "
                    "give a `ridge`."
                )
            filters = filters._replace(gain=np.where(found.h == 0, 0.0, filters.gain))
        c = -np.einsum("ax,tx,xi->ta", found.U, filters.gain, found.U.T @ error)
    else:
        stop = stops(algorithm, task.loss.name, times)
        start, loss = z.reshape(1, -1, 1)[:, :count], _flattened(task.loss, y.shape)
        flat = y.reshape(-1, 1)
        c = coefficients(start, H[:count, :count], flat, loss, algorithm, stop)[:, 0, :, 0]
    return z + (c @ H[:count]).reshape(-1, *z.shape), found.h


def _flattened(loss: Loss, shape: tuple[int, ...]) -> Loss:
    """The loss as one of samples and outputs in one index."""

    def gradient(f: np.ndarray, y: np.ndarray) -> np.ndarray:
        folded = f.reshape(*f.shape[:-2], *shape)
        return loss.gradient(folded, y.reshape(shape)).reshape(f.shape)

    return Loss(loss.value, gradient, loss.name)


def _outcomes(seen: np.ndarray, unseen: np.ndarray, task: Task) -> dict[str, np.ndarray]:
    data = {
        "train_mean": np.swapaxes(seen, 1, 2),
        "output_mean": np.swapaxes(unseen, 1, 2),
        "train_loss": task.loss.values(seen, task.targets),
    }
    if task.test_targets is not None:
        data["bias"] = np.swapaxes(unseen - task.test_targets, 1, 2)
        data["test_loss"] = task.loss.values(unseen, task.test_targets)
        data["test_error"] = wrong(unseen, task.test_targets)
    return data
