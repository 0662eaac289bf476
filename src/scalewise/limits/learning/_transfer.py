r"""Does pretraining help? In the kernel regime it cannot: the features it leaves are those of the start.

A network is pretrained on one task, its last weights are thrown away and drawn anew, and it is trained on another;
beside it the same network with the same new last weights, without the pretraining. Their difference vanishes with
the width in every kernel regime and stays where features are learned.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from jaxtyping import Float

from scalewise._checked import Index, checked
from scalewise._threads import blas_threads_for
from scalewise.limits._descent import SGD
from scalewise.limits._loop import FINISHED, Job, descend
from scalewise.limits._network import Architecture, powers
from scalewise.limits._on import Finite
from scalewise.limits.methods._dense import DenseMethod
from scalewise.limits.methods._real import real_seeds, real_start
from scalewise.tasks import Task


@checked
def transfer_gap(
    net: Architecture,
    pretraining: Task,
    task: Task,
    sgd: SGD,
    *,
    steps: tuple[Index, Index],
    on: Finite,
    head_only: bool = False,
) -> Float[np.ndarray, "_seed _time _sample _output"]:
    r"""Change by pretraining: $g_{T;t}(\xi)-g_{0;t}(\xi)$ over the steps $t$ of the second training.

    Both trainings start from equal weights of all layers but the last, and from equal new last weights, drawn as
    the strategy draws them.

    Args:
        net: The network, without biases, in any stable strategy.
        pretraining: What comes first; any number of outputs.
        task: What comes then, with inputs of the same features.
        sgd: The descent of both, without momentum and decay.
        steps: $T$ and $t$, each at least 0.
        on: `Finite(n)`.
        head_only: Train the new last weights alone.

    Returns:
        ``(seed, time, sample, output)`` for training samples and test inputs of `task`; exact.

    Raises:
        TypeError: If an argument is another kind of thing, such as another backend.
        ValueError: If the network has biases, the descent momentum or decay, the tasks other features, a count is
            negative, or training diverges.

    Source: TP4 Theorem N.16.

    Example:
        >>> import numpy as np
        >>> from scalewise.limits import Architecture, SGD, Finite
        >>> from scalewise.tasks import Task
        >>> from scalewise.limits.learning import transfer_gap
        >>> from scalewise.scaling import mup
        >>> one, net = Task(np.eye(2), [1.0, -1.0]), Architecture(mup(depth=2), "tanh")
        >>> gap = transfer_gap(net, one, one, SGD(0.5), steps=(0, 3), on=Finite(32))
        >>> gap.shape, float(abs(gap).max())
        ((1, 4, 2, 1), 0.0)
    """
    if sgd.momentum or sgd.weight_decay:
        raise ValueError(
            "`transfer_gap` needs plain descent; set `momentum` and `weight_decay` to 0."
        )
    if any(net.has_biases):
        raise ValueError(
            "`transfer_gap` is for networks without biases; set C_b and lambda_b to 0."
        )
    features, given = task.inputs.shape[1], pretraining.inputs.shape[1]
    if features != given:
        raise ValueError(
            f"Both tasks must have the same number of features; `pretraining` has {given} and `task` {features}."
        )
    with blas_threads_for(), np.errstate(over="ignore", invalid="ignore"):
        outputs = [
            _second(net, (pretraining, task), sgd, (T, steps[1]), on, head_only)
            for T in (steps[0], 0)
        ]
    return outputs[0] - outputs[1]


def _second(
    net: Architecture,
    tasks: tuple[Task, Task],
    sgd: SGD,
    steps: tuple[int, int],
    on: Finite,
    head_only: bool,
) -> np.ndarray:
    """Outputs in the course of the second training; seeds do not depend on the first."""
    before, after = (
        Job(net=net, task=task, sgd=sgd, steps=t) for task, t in zip(tasks, steps, strict=True)
    )
    if head_only:
        frozen = replace(net, lambda_W=(*(0.0,) * net.hidden_layers, net.lambda_W[-1]))
        after = replace(after, net=frozen)
    draw, matrices = real_seeds(net, on)
    one = real_start(before, on, draw)
    two = replace(one, last=real_start(after, on, draw).last)
    at = powers(net.strategy, on.width)
    # Both move the first weights and the matrices where they are.
    for job, start in ((before, one), (after, two)):
        method = DenseMethod(job, powers=at, matrices=matrices, start=start, keep_tests=True)
        records = descend(method, job)
        if records.status != FINISHED:
            raise ValueError(records.status)
    return records.stacked("logits")
