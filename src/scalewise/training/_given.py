r"""One given network, trained as the model that is linear in its parameters about where they are.

$$z_\delta(t)=z_\delta+\sum\frac{dz_\delta}{d\theta_\mu}(\theta_\mu(t)-\theta_\mu),\qquad
  z(t)=z-\widehat H_{\cdot\mathcal A}\,g(\widehat H_{\mathcal{AA}})\,(z_{\mathcal A}-y),$$

with its own outputs and its own NTK, which links its outputs to each other; its dNTK and ddNTKs add to that in the
next order (`_curvature`). Samples and outputs are one index here.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Any

import numpy as np
import xarray as xr
from jaxtyping import Float

from scalewise._checked import Count, Must, checked
from scalewise._labelled import dataset
from scalewise._memory import Memory, bytes_of
from scalewise._version import __version__
from scalewise._warn import warn
from scalewise.networks.spi import digest_of
from scalewise.tasks import Loss, Task
from scalewise.tasks.spi import known_loss
from scalewise.training._algorithm import Algorithm
from scalewise.training._algorithms import GradientFlow
from scalewise.training._curvature import Curvature, Moving, curved_shift
from scalewise.training._expansion import ExpansionWarning
from scalewise.training._generalisation import true_classes
from scalewise.training._outcomes import OUTCOMES
from scalewise.training._selection import selected
from scalewise.training._spectrum import Spectrum, spectrum, untaught
from scalewise.training.losses._dynamics import coefficients, finite_stops
from scalewise.training.losses._outcomes import LOSS_OUTCOMES
from scalewise.training.losses._predict import wrong
from scalewise.training.width._course import OutOfRoom

_NAMES = ("output_mean", "bias", "test_loss", "test_error", "train_mean", "train_loss", "spectrum")
_CURVED = ("output_mean_nlo", "test_loss_nlo")
_LARGE = 0.1  # of a part of the correction to the move: from here on it made trained networks' errors larger

OwnCurvature = Annotated[
    Curvature,
    Must(
        "what `scalewise.jax.curvature` or `scalewise.torch.curvature` makes of the network",
        lambda value: isinstance(value, Curvature),
    ),
]


@checked
def predict_linearised(
    outputs: Annotated[Any, Float[np.ndarray, "sample output"]],
    ntk: Annotated[Any, Float[np.ndarray, "sample sample_1 output output_1"]],
    task: Task,
    algorithm: Algorithm | None = None,
    *,
    times: Annotated[Any, Float[np.ndarray, " time"]] | None = None,
    observables: Sequence[str] | str | None = None,
    curvature: OwnCurvature | None = None,
    width: Count = 1,
    memory: Memory = "1 GiB",
) -> xr.Dataset:
    r"""Predict what one given network learns by any loss, if it stays linear in its parameters or nearly so.

    Args:
        outputs: Of the network on the training samples, then on the test samples of the task.
        ntk: Its own NTK on the same, with its learning rates: `scalewise.jax.tangents` and
            `scalewise.torch.tangents` give both. One of shape (sample, sample, 1, 1), a mean over outputs, stands
            for the same NTK of every output, and no output learns from another.
        task: What it is trained on.
        algorithm: One that follows gradients, as `GradientFlow` and `GradientDescent` do; the former to the end if
            ``None``. With a loss that is not the squared error it must stop.
        times: Times, or numbers of steps, in place of the algorithm's own: adds a dimension ``time``.
        observables: Names of what is wanted; everything that can be had if ``None``.
        curvature: Of the same network and samples, for the squared error: what its own dNTK and ddNTKs add, in
            first order of them. `scalewise.jax.curvature` and `scalewise.torch.curvature` give it.
        width: $n$ by which ``output_mean_nlo`` and ``test_loss_nlo`` are to be divided; with 1 they are what is
            added. $\mathcal O(1)$ in a network whose last hidden layer is that wide.
        memory: Budget in bytes, or a text such as ``"1 GiB"``, for displacements of all parameters at all times,
            which a `curvature` takes where training stops on the way. Beyond it, what the `curvature` adds is
            left out.

    Returns:
        A Dataset: ``output_mean`` (output, test), ``train_mean``, ``bias``, ``test_loss``, ``test_error`` and
        ``train_loss`` of this network, which has no spread, and the ``spectrum`` of its NTK over samples and
        outputs. Exact to rounding times the condition. With a `curvature` also ``output_mean_nlo`` and
        ``test_loss_nlo``: what is left then is $\mathcal O(1/n^2)$, and cubic in the distance to the targets. They
        take some tens of gradients where training ends, ten for each step, or node of the time, where it stops.
        The attribute ``correction`` is the larger of what the dNTK and the ddNTKs add alone, relative to how far
        the linear model moves; above .1 a warning says that the correction may make things worse.

    Raises:
        ValueError: If shapes disagree, the NTK is singular and targets do not fit in, training diverges or has no
            end, or a name is not among these.

    Source: PDLT (10.39), (10.118)-(10.121), (∞.88), (∞.89) with one network's own NTK; (∞.141), (∞.154).

    Example:
        >>> import numpy as np, scalewise as sw
        >>> from scalewise.training import predict_linearised
        >>> task = sw.Task([[1.0]], [2.0], test_inputs=[[3.0]])
        >>> ntk = np.array([[1.0, 3.0], [3.0, 9.0]])[:, :, None, None]
        >>> predict_linearised([[0.5], [1.5]], ntk, task).output_mean.values
        array([[6.]])
    """
    way = GradientFlow() if algorithm is None else algorithm
    if not way.descends:
        raise ValueError(
            "`algorithm` must train by gradients, as GradientFlow and GradientDescent do; got "
            f"{type(way).__name__}."
        )
    y, n = task.targets, len(task.inputs)
    size = (n + len(task.test_inputs), y.shape[1])
    paired, alike = ((size[0], size[0], k, k) for k in (size[1], 1))
    if outputs.shape != size or ntk.shape not in (paired, alike):
        raise ValueError(
            f"`outputs` and `ntk` must be of {size[0]} training and test samples and {size[1]} outputs; got shapes "
            f"{outputs.shape} and {ntk.shape}."
        )
    if task.batches is not None:
        raise ValueError("`task` must have no batches: all samples teach at every step.")
    if times is not None and (not times.size or times.min() < 0):
        raise ValueError("`times` must hold at least one time, and none below 0.")
    points = ntk.shape[0] * ntk.shape[2]
    flat = ntk.transpose(0, 2, 1, 3).reshape(points, points)
    count = n * ntk.shape[2]
    found = spectrum(flat[:count, :count], "NTK of the training samples")
    moved = _moved(outputs, flat, task, way, times, found)
    data = _outcomes(moved[:, :n], moved[:, n:], task) | {"spectrum": found.h}
    bent = _bent(curvature, task, way, times, found)
    if ntk.shape != paired and not bent:
        bent = "`ntk` is a mean over outputs, and `curvature` goes on from the NTK of every pair of them"
    known = [name for name in (*_NAMES, *_CURVED) if _can(name, task)]
    wanted, _ = selected(observables, known, lambda name: bent if name in _CURVED else "")
    size = None
    if curvature is not None and set(_CURVED) & set(wanted):
        e = (outputs[:n] - y).reshape(-1)
        at = Moving(curvature, found.h, found.U, flat[:, :count], e, y.shape)
        ends = [None] if times is None else times.tolist()
        try:
            parts = np.array([curved_shift(at, way, t, room=bytes_of(memory) // 8) for t in ends])
        except OutOfRoom as refused:
            bent = refused.why
        else:
            parts = parts.reshape(len(ends), *outputs.shape, 2)
            size = _size(parts[:, n:], (moved - outputs)[:, n:])
            data |= _corrections(moved[:, n:], width * parts[:, n:].sum(axis=-1), task)
    names, left_out = selected(observables, known, lambda name: bent if name in _CURVED else "")
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
        "condition": found.condition,
        "rank": found.rank,
        "inputs": digest_of(task.inputs),
        "targets": digest_of(y),
        "test_inputs": digest_of(task.test_inputs),
        "left_out": list(left_out),
        "left_out_because": list(left_out.values()),
        "scalewise": __version__,
    }
    if size is not None:
        attributes["correction"] = size
        _warn(size)
    return dataset(variables, {} if times is None else {"time": times}, attributes)


def _bent(
    curvature: Curvature | None,
    task: Task,
    algorithm: Algorithm,
    times: np.ndarray | None,
    found: Spectrum,
) -> str:
    """Why the next order cannot be had, a clause."""
    if curvature is None:
        return "`curvature` tells nothing beyond the linear model"
    if task.loss != known_loss("mse"):
        return f"the loss {task.loss.name!r} is not the squared error"
    if curvature.obstacle:
        return curvature.obstacle
    if np.isinf(algorithm.filter(found.h, times, targets=task.targets.size).gain).any():
        return "the NTK of the training samples is singular and training has no end"
    return ""


def _can(name: str, task: Task) -> bool:
    if "test" in OUTCOMES[name].dims and not len(task.test_inputs):
        return False
    if name == "test_error":
        wanted = task.test_targets
        return wanted is not None and true_classes(task.targets, wanted)
    return name not in ("bias", "test_loss", "test_loss_nlo") or task.test_targets is not None


def _moved(
    z: np.ndarray,
    H: Float[np.ndarray, "entry entry_1"],
    task: Task,
    algorithm: Algorithm,
    times: np.ndarray | None,
    found: Spectrum,
) -> Float[np.ndarray, "time sample output"]:
    """Outputs at every time."""
    y = task.targets
    columns = z.size // len(H)  # all outputs, of one NTK for each of them
    count = y.size // columns
    if task.loss == known_loss("mse"):
        filters = algorithm.filter(found.h, times, targets=y.size)
        error = (z[: len(y)] - y).reshape(count, columns)
        if np.isinf(filters.gain).any():
            if untaught(found, error):
                raise ValueError(
                    f"`ntk` of {len(y)} training samples and {y.shape[1]} outputs is singular in float64 (rank "
                    f"{found.rank}): there are targets that it does not represent. Stop training at a time, or "
                    "give a `ridge`."
                )
            filters = filters._replace(gain=np.where(found.h == 0, 0.0, filters.gain))
        c = -found.U @ (filters.gain[:, :, None] * (found.U.T @ error))
    else:
        stop = finite_stops(algorithm, task.loss.name, times)
        loss = task.loss if columns == y.shape[1] else _flattened(task.loss, y.shape)
        start, flat = (part.reshape(count, columns) for part in (z[: len(y)], y))
        c = coefficients(start[None], H[:count, :count], flat, loss, algorithm, stop)[:, 0]
    return z + np.einsum("tac,ab->tbc", c, H[:count]).reshape(-1, *z.shape)


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


def _size(
    parts: Float[np.ndarray, "time test output 2"], moves: Float[np.ndarray, "time test output"]
) -> float:
    """The larger part of the correction to how far the linear model moves, root mean squares: the most in time."""
    one, other = np.sqrt(np.mean(np.square(parts), axis=(1, 2))).T
    move = np.sqrt(np.mean(np.square(moves), axis=(1, 2)))
    return float(np.max(np.divide(np.maximum(one, other), move, where=move > 0, out=0.0 * move)))


def _warn(size: float) -> None:
    if size > _LARGE:
        warn(
            f"What the dNTK or the ddNTKs of this network add is {size:.2g} of how far its linear model moves. "
            f"Beyond {_LARGE:g} the orders behind may be as large, and the correction can make the prediction "
            "worse. Take a wider network, targets that are nearer to its outputs, or stop training early.",
            ExpansionWarning,
        )


def _corrections(unseen: np.ndarray, shift: np.ndarray, task: Task) -> dict[str, np.ndarray]:
    """Corrections of the outputs on test samples, and of their loss in the same order."""
    data = {"output_mean_nlo": np.swapaxes(shift, 1, 2)}
    if task.test_targets is not None:
        data["test_loss_nlo"] = ((unseen - task.test_targets) * shift).sum(axis=2)
    return data
