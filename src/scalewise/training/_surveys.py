"""Surveys: algorithms, hypotheses about the network or directions of the NTK, side by side."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Annotated, Any

import numpy as np
import xarray as xr

from scalewise._checked import Count, Must, NotNegative, Positive, checked
from scalewise._labelled import dataset
from scalewise.networks import MLP, Network
from scalewise.networks.spi import AnyNetwork, AnyPerceptron
from scalewise.sweeps import sweep
from scalewise.tasks import Task
from scalewise.training._algorithm import Algorithm
from scalewise.training._algorithms import Bayes
from scalewise.training._asked import Asked
from scalewise.training._expansion import without_warning
from scalewise.training._predict import predict_training, with_order_one
from scalewise.training._sample_kernels import between
from scalewise.training.width._tensors import shared_tensors

_LEADING = {"bias": "squared_bias", "variance": "variance", "test_loss": "test_loss"}
_NLO = ("test_loss_nlo", "learning_parameter")
Algorithms = Annotated[
    Mapping[str, Algorithm], Must("a dictionary of algorithms by name, at least one", bool)
]


@checked
def algorithms_side_by_side(net: AnyNetwork, task: Task, algorithms: Algorithms) -> xr.Dataset:
    """Compare what several algorithms make of the same network and task.

    Args:
        net: The network.
        task: With test inputs and targets.
        algorithms: By the names that the table shows.

    Returns:
        Over ``algorithm``, means over the test samples: ``squared_bias`` and ``variance`` summed over outputs,
        ``test_loss``, half of their sum, ``test_loss_nlo`` and ``learning_parameter``; NaN where an algorithm has
        none of order 1/n, and ``why_not`` says why.

    Raises:
        ValueError: As `predict_training`, for the leading order.

    Source: PDLT (10.52), (10.56); (∞.160)-(∞.172).
    """
    with shared_tensors():
        rows = [_row(net, task, algorithm) for algorithm in algorithms.values()]
    values = {name: ("algorithm", [row[name] for row in rows]) for name in rows[0]}
    return dataset(values, {"algorithm": list(algorithms)})


def _row(net: Network, task: Task, algorithm: Algorithm) -> dict[str, object]:
    """The numbers of one algorithm."""
    with without_warning():  # the table tells where the expansion ends
        found, why_not = with_order_one(Asked(net, task, algorithm), list(_LEADING), list(_NLO))
    return {
        "squared_bias": float((found.bias**2).sum("output").mean()),
        "variance": task.targets.shape[1] * float(found.variance.mean()),
        "test_loss": float(found.test_loss.mean()),
        **{name: float(found[name].mean()) if name in found else np.nan for name in _NLO},
        "why_not": why_not,
    }


@checked
def evidence_of_networks(
    net: AnyPerceptron,
    task: Task,
    *,
    depths: Sequence[Count],
    weight_variances: Sequence[Positive],
    noise_variance: NotNegative = 0.0,
    client: Any = None,
) -> xr.Dataset:
    """The log evidence of the training targets over depth and weight variance: what the data prefer.

    Args:
        net: What all hypotheses share: activation, biases, rates, ends.
        task: Training samples.
        depths: Numbers of weight layers.
        weight_variances: $C_W$ of every layer.
        noise_variance: Of every target.
        client: Where it is computed; as in `sweep`.

    Returns:
        ``log_evidence`` over ``depth`` and ``C_W``, in nats; NaN where the kernel is singular and there is no
        noise.

    Source: PDLT (6.34), section 6.3.1.
    """
    found = sweep(
        partial(_evidence, net=net, task=task, noise=noise_variance),
        {"depth": list(depths), "C_W": list(weight_variances)},
        client=client,
        progress=False,
    )
    return found[["log_evidence"]].reset_coords(drop=True)


def _evidence(depth: int, C_W: float, *, net: Network, task: Task, noise: float) -> xr.Dataset:
    alike = {name: getattr(net, name)[0] for name in ("C_b", "lambda_b", "lambda_W")}
    width = net.hidden_widths[-1] if net.hidden_widths else 1
    ends = {"input_dim": net.input_dim, "output_dim": net.output_dim}
    other = MLP(depth, width, net.activation, **ends, C_W=C_W, **alike)
    found = predict_training(other, task, Bayes(noise), at="train", covariance=None)
    return dataset({"log_evidence": found.get("log_evidence", xr.DataArray(np.nan))})


@checked
def ntk_motion(net: AnyPerceptron, task: Task, ntk_change: xr.DataArray) -> xr.Dataset:
    r"""How training moves the NTK of the training samples, eigenvalue by eigenvalue.

    Args:
        net: The network.
        task: What it is trained on.
        ntk_change: ``ntk_change_nlo`` of `predict_training`, or ``ntk_change`` of an ensemble.

    Returns:
        Over ``direction``, from the largest: ``eigenvalue`` $h_i$ of $\tilde\Theta$, ``change``
        $u_i^T\Delta\tilde Hu_i$, the mean over outputs, and ``target_share``, the part of the targets' square
        that lies in that direction.

    Source: PDLT (10.33), (∞.117).
    """
    count = len(task.inputs)
    h, U = np.linalg.eigh(between(net, task.inputs, kinds=["ntk"])[0][0])
    change = ntk_change.transpose("output", "output_1", "sample", "sample_1").values
    own = np.einsum("iiab->ab", change[:, :, :count, :count]) / len(change)
    share = ((U.T @ task.targets) ** 2).sum(axis=1) / max((task.targets**2).sum(), 1e-300)
    rows = {"eigenvalue": h, "change": np.einsum("ai,ab,bi->i", U, own, U), "target_share": share}
    return dataset({name: ("direction", values[::-1].copy()) for name, values in rows.items()})
