"""The verb `predict_training`: a network, a task and an algorithm in, the outcomes of training out."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Annotated, Any, Literal

import numpy as np
import xarray as xr
from jaxtyping import Float

from scalewise._checked import Count, Index, Positive, checked
from scalewise.networks.spi import AnyNetwork
from scalewise.tasks import Task
from scalewise.tasks.spi import known_loss
from scalewise.training._algorithm import Algorithm
from scalewise.training._algorithms import GradientFlow
from scalewise.training._asked import Asked
from scalewise.training._curved_network import CurvedNetwork
from scalewise.training._given import predict_linearised
from scalewise.training._iterative import too_many
from scalewise.training._leading import conditioned, decomposed, is_one_factorisation, iterated
from scalewise.training._one_network import GivenWeights, tangents_of
from scalewise.training._routes import Prediction
from scalewise.training._selection import refusal
from scalewise.training._task import check_asked
from scalewise.training.losses._predict import predicted

_TO_THE_END = GradientFlow()


@checked
def predict_training(
    net: AnyNetwork,
    task: Task,
    algorithm: Algorithm = _TO_THE_END,
    *,
    observables: Sequence[str] | str | None = None,
    times: Annotated[Any, Float[np.ndarray, " time"]] | None = None,
    covariance: Literal["full", "diagonal"] | None = "full",
    at: Literal["test", "train", "both"] = "both",
    weights: GivenWeights | None = None,
    accuracy: Positive | None = None,
    draws: Count = 512,
    seed: Index = 0,
) -> xr.Dataset:
    r"""Predict trained networks: their mean, their spread and their errors, to order 1/n if asked for.

    $$m_{i;\dot\beta}=\sum R_{\dot\beta\tilde\alpha}y_{i;\tilde\alpha},\qquad
      {\rm Cov}=K-RK-KR^T+RKR^T,\qquad R=\Theta_{\mathcal{BA}}\,g(\tilde\Theta),$$

    with $g(h)=(1-e^{-ht})/h$ for gradient flow, $(1-(1-\eta h)^t)/h$ for gradient descent, $1/h$ at the end. What
    is named ``..._nlo`` is the coefficient of $1/n_{L-1}$, with the ratios of the network's widths.

    Args:
        net: The network; at leading order its widths play no part.
        task: Training samples with targets, and test samples; all samples teach at every step. The loss is summed
            or averaged as the algorithm says, see `GradientDescent`.
        algorithm: `GradientFlow`, `GradientDescent`, `TwoStepNewton`, `Projectors`, `Bayes`, `LastLayer` or
            `NTKGP`.
        observables: Names of what is wanted. ``None`` for all of leading order that can be had, ``"all"`` for the
            coefficients of 1/n, or of $n^{-1/2}$, besides, without those that take whole tensors where tiles give
            the others: these are named.
        times: Times, or numbers of steps, in place of the algorithm's own: adds a dimension ``time``. All come from
            one eigendecomposition.
        covariance: Between all samples, of each alone, or none. Without the first, memory grows with the number of
            training samples alone.
        at: Where outputs are wanted: on test samples, training samples or both.
        weights: Of one given network, as `nets.init_weights` gives them: this network is predicted, linear in its
            parameters about where they are, in place of all that could be drawn (`predict_linearised`);
            ``output_mean_nlo`` and ``test_loss_nlo`` are what its own dNTK and ddNTKs add, times the width.
        accuracy: Of the coefficients of 1/n: their errors relative to their sizes, root mean squares over the
            entries of each. ``None`` for what comes without a long wait, .01 with up to 16 samples, or samples
            times positions, and smooth activations. ``"<name>_error"`` and the attribute ``accuracy`` say what is
            reached, and a warning where that is less than asked.
        draws: Of another loss than ``"mse"``, for which there is no closed form: how many networks of infinite
            width are drawn and trained, spread evenly. Their outputs depend on each other, so that ``variance``
            and ``output_covariance`` have outputs for dimensions too; ``class_probability`` comes with them, and
            every variable has an ``_error``.
        seed: Of these draws.

    Returns:
        A Dataset, float64, over ``output``, ``test``, ``test_1``, ``train``, ``train_1``, ``direction`` and
        ``time``: ``output_mean``, ``output_covariance`` (of one output; outputs are independent),
        ``variance``, ``bias``, ``test_loss`` and ``test_error`` of each test sample, ``train_mean``,
        ``train_covariance``, ``train_variance``, ``train_loss``, ``spectrum`` and, of Bayes, ``log_evidence`` and
        ``log_evidence_slope``. Exact at infinite width, to what the condition makes of rounding and of the kernels'
        own error.
        At order 1/n: ``output_mean_nlo`` (with ``_by_part``, ``_by_layer``), ``output_covariance_nlo`` (between
        outputs too), ``variance_nlo``, ``test_loss_nlo``, ``test_error_nlo``, ``ntk_change_nlo``,
        ``alignment_nlo``, of training by gradients ``train_mean_nlo``, ``train_variance_nlo`` and
        ``train_loss_nlo``, 0 at its end; ``learning_parameter``, which over the width is the small parameter of
        training, and of Bayes
        ``log_evidence_nlo`` and ``feature_change_nlo``; each with ``<name>_error`` where expectations were sampled.
        Where training moves neurons over kinks of the activation, as of ReLU, what comes first is of order
        $n^{-1/2}$ and no ``..._nlo`` is known. For one hidden layer, piecewise linear, by descent or flow, its
        coefficients are ``output_mean_half``, ``output_covariance_half``, ``variance_half``, ``test_loss_half``,
        ``train_mean_half``, ``train_variance_half``, ``train_loss_half`` and ``ntk_change_half``, with the
        attribute ``power``, sampled with a stated ``<name>_error``; the next order, $1/n$, is unknown and large.
        Above 15,000 training samples means and variances of tests are found by conjugate gradients: attributes
        tell the ``residual`` and the ``iterations`` in place of condition and rank.
        Attributes tell ``condition`` (to a few percent where one Cholesky factorisation did) and
        ``rank`` of the kernel that learns, with noise or ridge on its diagonal; ``kernel_error``, what training
        may make of the 1e-12 to which kernels are computed, with a warning above 1e-6; ``jitter`` (always 0),
        ``noise_variance``, ``rate`` and ``maximal_rate``, and what was left out and why.

    Raises:
        ValueError: If the task does not fit the network, it has batches, another loss than the squared error has
            no time to stop at, a rate is too large, the kernel is singular and the targets do not fit in, or what
            is named cannot be had, or `accuracy` is asked of what has none.

    Source: PDLT (10.33), (10.39)-(10.41) with its sample indices put right, (10.50)-(10.56), (6.34), (6.57),
        (6.64); in time, (∞.88), (∞.89); order 1/n, (∞.154), (∞.160)-(∞.167), (∞.117); order n^(-1/2),
        derived.

    Example:
        >>> import numpy as np, scalewise as sw
        >>> net = sw.MLP(1, (), "linear", input_dim=2, output_dim=1)
        >>> task = sw.Task(np.eye(2), [1.0, -1.0], test_inputs=[[1.0, 1.0]], test_targets=[0.0])
        >>> found = sw.predict_training(net, task)
        >>> found.output_mean.values.round(12).ravel(), found.variance.values.round(12)
        (array([0.]), array([0.16]))
    """
    asked = Asked(
        net=net,
        task=task,
        algorithm=algorithm,
        covariance=covariance,
        at=at,
        times=times,
        accuracy=accuracy,
    )
    return answered(Prediction(asked, observables, weights=weights, draws=draws, seed=seed))


def answered(call: Prediction) -> xr.Dataset:
    """The answer to a call, by the first way that applies.

    Args:
        call: The call.

    Raises:
        ValueError: As `predict_training`.
    """
    check_asked(call.asked)
    squares = call.weights is None and call.asked.task.loss == known_loss("mse")
    if call.asked.accuracy is not None and not squares:
        raise ValueError(
            "`accuracy` is that of means over networks, whose expectations are found step by step. One given "
            "network is found to rounding, and of another loss than 'mse' `draws` decides; leave `accuracy` out."
        )
    return next(run for applies, run in LEADING if applies(call))(call)


def with_order_one(
    asked: Asked, leading: Sequence[str], first: Sequence[str]
) -> tuple[xr.Dataset, str]:
    """Outcomes with some coefficients of 1/n if all of these can be had; otherwise a sentence that says why not.

    Args:
        asked: The request.
        leading: Outcomes of leading order.
        first: Coefficients of 1/n.
    """
    call = Prediction(asked, [*leading, *first], lenient=True)
    if why := refusal(call.choice.left_out):
        return answered(Prediction(asked, list(leading))), why
    found = answered(call)
    left_out = zip(found.attrs["left_out"], found.attrs["left_out_because"], strict=True)
    return found, refusal(dict(left_out))


def _of_one(call: Prediction) -> xr.Dataset:
    """One given network."""
    asked, weights = call.asked, call.weights
    if not asked.algorithm.descends:
        raise ValueError(
            "`weights` are those of a network that is trained, by GradientFlow or GradientDescent; got "
            f"{type(asked.algorithm).__name__}."
        )
    net, x = asked.net, asked.task.all_inputs
    tangents, curvature = tangents_of(net, weights, x), CurvedNetwork(net, weights, x)
    options: dict[str, Any] = {"times": asked.times, "observables": call.observables}
    if call.observables is not None and net.depth > 1:
        options |= {"curvature": curvature, "width": net.widths[-2]}
    found = predict_linearised(*tangents, asked.task, asked.algorithm, **options)
    return found.assign_attrs(net.attributes())


# Ways to all outcomes of a call at leading order, with coefficients of 1/n where these are wanted, each with the
# condition under which it is the way if none before it is.
LEADING: tuple[tuple[Callable[[Prediction], bool], Callable[[Prediction], xr.Dataset]], ...] = (
    (lambda call: call.weights is not None, _of_one),
    (lambda call: call.asked.task.loss != known_loss("mse"), predicted),
    (lambda call: too_many(call.asked), iterated),
    (is_one_factorisation, conditioned),
    (lambda call: True, decomposed),
)
