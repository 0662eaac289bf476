"""Networks drawn from a prediction, and targets scored by it, both jointly over test samples and outputs."""

from __future__ import annotations

from typing import Annotated, Any

import numpy as np
import xarray as xr
from jaxtyping import Float

from scalewise._checked import Count, Index, Must, NotNegative, checked
from scalewise.training._evidence import evidence_of
from scalewise.training._spectrum import spectrum

Trained = Annotated[
    xr.Dataset,
    Must(
        "what `predict_training` returned with output_mean and output_covariance, at one time",
        lambda data: (
            data.attrs.get("kind") == "training theory"
            and {"output_mean", "output_covariance"} <= set(data.data_vars)
            and "time" not in data.dims
        ),
    ),
]


@checked
def sample_outputs(prediction: Trained, count: Count, *, seed: Index = 0) -> xr.DataArray:
    """Outputs of trained networks on all test samples, drawn from the predicted Gaussian.

    Args:
        prediction: What `predict_training` returned with its covariance, at one time.
        count: How many networks.
        seed: Of the draws.

    Returns:
        Outputs (draw, output, test), without the noise of targets. Outputs of one network are independent at
        infinite width; test samples are not.

    Raises:
        ValueError: If the prediction has no covariance, or a dimension ``time``.

    Source: PDLT (6.66); of an ensemble, (10.40), (10.41).

    Example:
        >>> import numpy as np, scalewise as sw
        >>> from scalewise.training import sample_outputs
        >>> net = sw.MLP(2, 100, "relu", input_dim=2, output_dim=1, C_W=2.0)
        >>> task = sw.Task(np.eye(2), [1.0, -1.0], test_inputs=[[1.0, 2.0], [1.0, 1.0]])
        >>> sample_outputs(sw.predict_training(net, task), 10).shape
        (10, 1, 2)
    """
    mean = prediction["output_mean"].values
    value, vector = np.linalg.eigh(prediction["output_covariance"].values)
    root = vector * np.sqrt(np.maximum(value, 0.0))
    noise = np.random.default_rng(seed).standard_normal((count, *mean.shape))
    return xr.DataArray(mean + noise @ root.T, dims=("draw", "output", "test"))


@checked
def log_score(
    prediction: Trained,
    test_targets: Annotated[Any, Float[np.ndarray, "test output"]],
    *,
    noise_variance: NotNegative = 0.0,
) -> float:
    r"""The logarithm of the density that a prediction gives to all test targets jointly, the higher the better.

    Args:
        prediction: What `predict_training` returned with its covariance, at one time.
        test_targets: (test, output).
        noise_variance: $\sigma_\varepsilon^2$ of the test targets, which a prediction of outputs does not contain.

    Raises:
        ValueError: If targets do not fit, or the covariance is singular and there is no noise.

    Source: PDLT (6.66), at the test targets.
    """
    mean = prediction["output_mean"].values.T
    if test_targets.shape != mean.shape:
        raise ValueError(
            f"`test_targets` must have a row for each test sample and a column for each output, {mean.shape}; "
            f"got {test_targets.shape}."
        )
    C = prediction["output_covariance"].values + noise_variance * np.eye(len(mean))
    if not C.any() or (found := spectrum(C, "covariance of the test samples")).rank < len(mean):
        raise ValueError(
            "`prediction` has a singular covariance of test samples, as when one repeats another or a training "
            "sample, so its density does not exist. Drop repeated samples, or give `noise_variance`."
        )
    return evidence_of(found, test_targets - mean, 0.0)
