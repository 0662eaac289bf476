"""Outputs and NTK of a torch module as it is: what a linearised model is."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, Literal

import numpy as np
import torch
from jaxtyping import Float

from scalewise._checked import checked
from scalewise._memory import Memory, bytes_of
from scalewise.torch._tangent_ways import NtkRequest, check_alone, ntk_of, trained
from scalewise.training.spi import check_room


@checked
def tangents(
    module: torch.nn.Module,
    inputs: torch.Tensor,
    *,
    rates: Mapping[str, float] | None = None,
    outputs: Literal["all", "mean"] | Annotated[Any, Float[np.ndarray, "read output"]] = "all",
    memory: Memory = "1 GiB",
) -> tuple[np.ndarray, np.ndarray]:
    r"""Outputs $z$ of one model and its NTK $\sum_\mu\lambda_\mu\frac{dz}{d\theta_\mu}\frac{dz}{d\theta_\mu}$.

    Args:
        module: From inputs (samples, ...) to (samples, outputs) or (samples,), a sample at a time: one that mixes
            samples, as batch normalisation does in training, or that draws random numbers, must be in ``eval``
            mode.
        inputs: For a task, its training samples, then its test samples.
        rates: $\lambda_\mu$ of parameters by name; 1 for those that are not named.
        outputs: ``"all"`` pairs of outputs; the ``"mean"`` of the NTK over outputs, which is all of it at
            infinite width and takes one pass backward for each output, but no pairs of these; or a matrix of
            read-outs, such as ``np.eye(1000)[:10]`` for some of the outputs, of which everything is then
            computed.
        memory: Budget in bytes, or a text such as ``"1 GiB"``, for derivatives and sums. The model's pass on one
            sample, the derivatives by its largest tensor for one sample, and the result come on top. A smaller
            budget takes more passes and gives the same to rounding.

    Returns:
        Outputs (sample, output) and NTK (sample, sample, output, output), for
        `scalewise.training.predict_linearised`; the mean over outputs has the shape (sample, sample, 1, 1).
        Derivatives have the precision of the parameters, their sums that of float64.

    Raises:
        ValueError: If the module does not give outputs of such a shape, mixes samples, draws random numbers, has
            nothing to train or no numbers (on the device ``meta``), if a rate has the name of no parameter,
            `outputs` does not fit the outputs, or the NTK alone is larger than `memory`.

    Source: PDLT (7.17), (10.138)-(10.140).

    Example:
        >>> import torch
        >>> from scalewise.torch import tangents
        >>> z, H = tangents(torch.nn.Linear(2, 1, bias=False), torch.eye(2))
        >>> H[..., 0, 0]
        array([[1., 0.],
               [0., 1.]])
    """
    given, budget = dict(rates or {}), bytes_of(memory)
    named = trained(module, given)
    with torch.enable_grad():
        count = check_alone(module, inputs)
        mean = isinstance(outputs, str) and outputs == "mean"
        R = np.eye(count) if isinstance(outputs, str) else np.asarray(outputs, np.float64)
        if R.shape[1] != count or not len(R):
            raise ValueError(
                f"`outputs` must be 'all', 'mean' or a matrix (read-outs, {count}), since `module` has {count} "
                f"outputs; got shape {R.shape}."
            )
        check_room(len(inputs), 1 if mean else len(R), budget)
        z, H = ntk_of(module, named, inputs, NtkRequest(R, given, mean, budget))
    return (z if isinstance(outputs, str) else z @ R.T), H
