r"""Newton updates of real networks: leaps that would end training at infinite width, and in two steps nearly do."""

from __future__ import annotations

from typing import Annotated, Any

import numpy as np
from jaxtyping import Float

from scalewise._checked import checked
from scalewise.nets import Parameters, empirical_ntk, parameter_step
from scalewise.networks._mlp import WithoutSkips
from scalewise.tasks import Task
from scalewise.training.dynamics.networks._state import outputs_of

__all__ = ["newton_update", "trained_parameters", "two_step_newton"]

OnSamples = Annotated[Any, Float[np.ndarray, "sample sample"]]


@checked
def newton_update(
    net: WithoutSkips,
    parameters: Parameters,
    task: Task,
    newton: Annotated[Any, Float[np.ndarray, "train train"]],
) -> Parameters:
    r"""One update by Newton's method, summed over the training points $I=(\tilde\alpha,i)$.

    $$\theta_\mu\leftarrow\theta_\mu-\sum\lambda_{\mu\nu}\frac{dz_I}{d\theta_\nu}(\eta\kappa)_{IJ}e_J$$

    Args:
        net: The network.
        parameters: As `init_weights` gives them.
        task: Its training samples.
        newton: $\eta\kappa$ on the training points, output by output within each sample.

    Returns:
        New parameters, exactly.

    Raises:
        ValueError: If shapes disagree.

    Source: PDLT (∞.57), (∞.68).
    """
    y = task.targets
    if newton.shape != (y.size, y.size):
        raise ValueError(
            f"`newton` must have a row and a column for each of {y.size} training points, samples times outputs; "
            f"got shape {newton.shape}."
        )
    error = outputs_of(net, parameters, task.inputs) - y
    moved = (newton @ error.reshape(-1)).reshape(error.shape)
    step = parameter_step(net, parameters, task.inputs, moved)
    weights, biases = (
        tuple(np.asarray(a) + np.asarray(d) for a, d in zip(old, new, strict=True))
        for old, new in zip(parameters, step, strict=True)
    )
    return Parameters(weights, biases)


@checked
def trained_parameters(
    net: WithoutSkips, parameters: Parameters, task: Task, ntk: OnSamples
) -> Parameters:
    r"""Parameters at the end of training, had the network the NTK of infinite width.

    $$\theta^*_\mu=\theta_\mu-\sum\lambda_{\mu\nu}\frac{dz_{i;\tilde\alpha_1}}{d\theta_\nu}
      \tilde\Theta^{\tilde\alpha_1\tilde\alpha_2}(z_{i;\tilde\alpha_2}-y_{i;\tilde\alpha_2})$$

    Args:
        net: The network.
        parameters: As `init_weights` gives them.
        task: Its training samples.
        ntk: $\Theta$ on the training samples, as `predict` gives it for the last layer.

    Returns:
        New parameters. Outputs miss the targets by $O(1/\sqrt n)$ in one network, by $O(1/n)$ in the mean of many.

    Raises:
        ValueError: If shapes disagree.

    Source: PDLT (ε.8), (∞.57)-(∞.65), (10.30).

    Example:
        >>> import numpy as np, scalewise as sw
        >>> from scalewise.nets import init_weights
        >>> from scalewise.training.dynamics.networks import outputs_of, trained_parameters
        >>> net = sw.MLP(2, 1000, "tanh", input_dim=1, output_dim=1)
        >>> task = sw.Task([[1.0]], [[0.5]])
        >>> Theta = sw.predict(net, task.inputs, observables=["ntk"]).ntk[-1]
        >>> start = init_weights(net, dtype="float64")
        >>> end = trained_parameters(net, start, task, Theta)
        >>> bool(abs(outputs_of(net, end, task.inputs) - 0.5) < 0.1)
        True
    """
    return newton_update(net, parameters, task, _on_every_output(ntk, task))


@checked
def two_step_newton(
    net: WithoutSkips, parameters: Parameters, task: Task, ntk: OnSamples
) -> tuple[Parameters, Parameters]:
    r"""Train by two updates: with this network's own $\widehat H^{-1}$, then with that of the mean NTK.

    Args:
        net: The network.
        parameters: As `init_weights` gives them.
        task: Its training samples.
        ntk: Mean NTK, or $\Theta$, on the training samples.

    Returns:
        Parameters after one update and after two. The distance to the targets is $O(1/n)$ after the first; after
        the second it is $O(n^{-3/2})$ in one network, whose NTK differs from its mean by $O(1/\sqrt n)$, and in the
        mean over many the $O(1/n^2)$ of the text.

    Raises:
        ValueError: If shapes disagree.

    Source: PDLT (∞.66)-(∞.78).
    """
    own = empirical_ntk(net, parameters, task.inputs).transpose(0, 2, 1, 3)
    count = task.targets.size
    first = newton_update(net, parameters, task, np.linalg.inv(own.reshape(count, count)))
    return first, newton_update(net, first, task, _on_every_output(ntk, task))


def _on_every_output(ntk: np.ndarray, task: Task) -> np.ndarray:
    """The inverse on training points of a kernel that is the same for all outputs and 0 between them."""
    samples, outputs = task.targets.shape
    if ntk.shape != (samples, samples):
        raise ValueError(
            f"`ntk` must be about the {samples} training samples; got shape {ntk.shape}."
        )
    return np.kron(np.linalg.inv(ntk), np.eye(outputs))
