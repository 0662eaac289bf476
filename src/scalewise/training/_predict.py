"""The verb `predict_training`: a network, a task and an algorithm in, what trained networks do out."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Annotated, Any, Literal, NamedTuple

import numpy as np
import xarray as xr
from jaxtyping import Float

from scalewise._checked import Count, Index, Positive, checked
from scalewise.networks.spi import AnyNetwork
from scalewise.tasks import Task
from scalewise.tasks.spi import known_loss
from scalewise.training._algorithm import Algorithm
from scalewise.training._algorithms import GradientFlow
from scalewise.training._asked import Arrays, Asked
from scalewise.training._cholesky import Factored, factored
from scalewise.training._curved_network import CurvedNetwork
from scalewise.training._evidence import evidence_of, last_slopes
from scalewise.training._filters import Filter
from scalewise.training._given import predict_linearised
from scalewise.training._iterative import beyond_factorisation, by_iteration, too_many
from scalewise.training._kernel import (
    Learned,
    Unseen,
    covariance_of_samples,
    growth,
    mean_of_samples,
    prior_of,
    twins,
    usable,
)
from scalewise.training._one_network import GivenWeights, tangents_of
from scalewise.training._outcomes import OUTCOMES
from scalewise.training._posteriors import REMEDY
from scalewise.training._results import as_dataset, of_numerics, of_samples, of_tests
from scalewise.training._routes import Choice, beyond, chosen
from scalewise.training._sample_kernels import between, in_turn
from scalewise.training._selection import refuse_outcome, selected
from scalewise.training._spectrum import Spectrum, refuse_singular, spectrum, untaught
from scalewise.training._task import check_fit, check_targets
from scalewise.training.losses._outcomes import LOSS_OUTCOMES
from scalewise.training.losses._predict import by_any_loss

BLOCK = 1024  # test samples at a time where only variances are kept; no fewer than there are training samples
_AT_ONCE = {name for name, row in OUTCOMES.items() if "test" in row.dims} | {"log_evidence"}
EVIDENCE = ("log_evidence", "log_evidence_slope")
_TO_THE_END = GradientFlow()
_CALLED = {"ntk": "NTK", "kernel": "kernel"}
Moments = tuple[np.ndarray, np.ndarray | None]


class _Kernels(NamedTuple):
    """Kernels of a block of tests.

    Args:
        learns: The kernel that learns, of training samples with tests.
        starts: That which outputs start with, likewise.
        own: The latter of the tests, whole or its diagonal.
        block: Which tests.
    """

    learns: Float[np.ndarray, "sample test"]
    starts: Float[np.ndarray, "sample test"]
    own: Float[np.ndarray, "test test"] | Float[np.ndarray, " test"]
    block: slice


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
    r"""What networks will have learned: their mean, their spread, their errors, to order 1/n if asked for.

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
    asked = Asked(net, task, algorithm, covariance, at, times, accuracy)
    check_asked(asked)
    if accuracy is not None and (weights is not None or task.loss != known_loss("mse")):
        raise ValueError(
            "`accuracy` is that of means over networks, whose expectations are found step by step. One given "
            "network is found to rounding, and of another loss than 'mse' `draws` decides; leave `accuracy` out."
        )
    if weights is not None:
        return _of_one(asked, weights, observables)
    if task.loss != known_loss("mse"):
        return _by_loss(asked, observables, draws, seed)
    check_targets(asked)
    choice = chosen(observables, asked)
    names, left_out = choice.names, choice.left_out
    if accuracy is not None and not choice.by_route:
        raise ValueError(
            "`accuracy` is that of coefficients of 1/n, and none is computed; name some in `observables`, or leave "
            "`accuracy` out."
        )
    if too_many(asked):
        return _iterated(asked, choice)
    H, K, blocks = _kernels(asked, whole="output_covariance" in names)
    count = len(task.inputs)
    called = f"{_CALLED[algorithm.learns_with]} of the training samples"
    if algorithm.is_posterior and _AT_ONCE.issuperset(names):
        quick = factored(H, task.targets, algorithm.noise_variance)
        if quick is not None:
            data = _conditioned(asked, quick, blocks, names)
            numerics = of_numerics(asked, quick.condition, quick.rank, quick.condition)
            return as_dataset(asked, numerics, data, beyond(asked, choice), left_out)
    found = spectrum(H, called)
    filters = algorithm.filter(found.h, times, targets=task.targets.size)
    if np.isinf(filters.gain).any() and untaught(found, task.targets):
        refuse_singular(H, task.targets, found.rank, algorithm.remedy)
    prior = prior_of(found, None if algorithm.is_posterior else K)
    learned = Learned(found, prior, task.targets)
    data = {"spectrum": found.h}
    if wanted := [name for name in names if name in EVIDENCE]:
        exists = found.rank == count or algorithm.noise_variance > 0
        if not exists and observables not in (None, "all"):
            refuse_singular(H, task.targets, found.rank, REMEDY)
        if exists:
            data |= _evidence(asked, found)
        else:
            left_out.update(dict.fromkeys(wanted, "the kernel is singular and there is no noise"))
    applied = usable(found, filters)
    if _is_about("train", names):
        data |= of_samples(asked, *_on_samples(learned, applied, names))
    if _is_about("test", names):
        parts = [_on_tests(learned, applied, k, task, names) for k in blocks]
        means, spreads = zip(*parts, strict=True)
        data |= of_tests(asked, _joined(means), None if spreads[0] is None else _joined(spreads))
    kept = {name: data[name] for name in names if name in data}
    numerics = of_numerics(
        asked, *found.with_diagonal(algorithm.diagonal), growth(found, filters), found.h
    )
    return as_dataset(asked, numerics, kept, beyond(asked, choice), left_out)


def check_asked(asked: Asked) -> None:
    """Refuse a task that does not fit the network, or times that are none."""
    check_fit(asked)
    times = asked.times
    if times is not None and (not times.size or times.min() < 0):
        raise ValueError("`times` must hold at least one time, and none below 0.")


def _of_one(
    asked: Asked, weights: GivenWeights, observables: Sequence[str] | str | None
) -> xr.Dataset:
    """One given network."""
    if not asked.algorithm.descends:
        raise ValueError(
            "`weights` are those of a network that is trained, by GradientFlow or GradientDescent; got "
            f"{type(asked.algorithm).__name__}."
        )
    net, x = asked.net, asked.task.all_inputs
    tangents, curvature = tangents_of(net, weights, x), CurvedNetwork(net, weights, x)
    options: dict[str, Any] = {"times": asked.times, "observables": observables}
    if observables is not None and net.depth > 1:
        options |= {"curvature": curvature, "width": net.widths[-2]}
    found = predict_linearised(*tangents, asked.task, asked.algorithm, **options)
    return found.assign_attrs(net.attributes())


def _iterated(asked: Asked, choice: Choice) -> xr.Dataset:
    """Of more training samples than can be factorised."""
    left_out = beyond_factorisation(asked, choice.names)
    if choice.named and left_out:
        refuse_outcome(*next(iter(left_out.items())))
    names = [name for name in choice.names if name not in left_out]
    data, numerics = by_iteration(asked, names)
    more = beyond(asked, choice)
    return as_dataset(asked, numerics, data, more, choice.left_out | left_out)


def _by_loss(
    asked: Asked, observables: Sequence[str] | str | None, draws: int, seed: int
) -> xr.Dataset:
    """By another loss than the squared error."""
    if not asked.algorithm.descends:
        raise ValueError(
            f"`algorithm` must be GradientFlow or GradientDescent for the loss {asked.task.loss.name!r}; "
            f"{type(asked.algorithm).__name__} is known for the squared error alone."
        )
    default = [name for name, row in LOSS_OUTCOMES.items() if not row.order]
    names, left_out, _ = selected(
        observables,
        LOSS_OUTCOMES,
        lambda name: LOSS_OUTCOMES[name].obstacle(asked),
        default=default,
    )
    both = np.concatenate([asked.task.inputs, asked.tests])
    K, Theta = (one[0] for one in between(asked.net, both))
    count = len(asked.task.inputs)
    found = by_any_loss(asked, names, K, Theta, draws=draws, seed=seed)
    its = spectrum(Theta[:count, :count], "NTK of the training samples")
    numerics = of_numerics(asked, *its.with_diagonal(asked.algorithm.diagonal), 0.0)
    return as_dataset(asked, numerics, {}, found, left_out, LOSS_OUTCOMES)


def _is_about(dim: str, names: Sequence[str]) -> bool:
    return any(dim in OUTCOMES[name].dims for name in names)


def _takes_spread(dim: str, names: Sequence[str]) -> bool:
    return any(dim in OUTCOMES[name].dims and OUTCOMES[name].spread for name in names)


def _kernels(asked: Asked, *, whole: bool) -> tuple[np.ndarray, np.ndarray, Iterator[_Kernels]]:
    """The kernel that learns and the one that outputs start with, of training samples; those of tests by blocks.

    All tests are one block where the covariance between them is wanted: their kernels, too, are of one square.
    """
    net, x, count = asked.net, asked.task.inputs, len(asked.task.inputs)
    kinds = (asked.algorithm.learns_with, asked.algorithm.starts_with)
    if not whole:
        learns, starts = (one[0] for one in between(net, x, kinds=kinds))
        return learns, starts, _blocks(asked, kinds)
    learns, starts = (one[0] for one in between(net, np.concatenate([x, asked.tests]), kinds=kinds))
    A, B = slice(0, count), slice(count, None)
    tests = _Kernels(learns[A, B], starts[A, B], starts[B, B], slice(0, len(asked.tests)))
    return learns[A, A], starts[A, A], iter([tests])


def _blocks(asked: Asked, kinds: tuple[str, str]) -> Iterator[_Kernels]:
    """Tests beside the training samples and each by itself, as many at a time as there are training samples."""
    net, x, tests = asked.net, asked.task.inputs, asked.tests
    size = max(BLOCK, len(x))
    for start in range(0, len(tests), size):
        block = slice(start, min(start + size, len(tests)))
        learns, starts = (one[0] for one in between(net, x, tests[block], kinds))
        own = in_turn(net, tests[block], tests[block], kinds[1])
        yield _Kernels(learns, starts, own, block)


def _evidence(asked: Asked, found: Spectrum) -> Arrays:
    """The evidence and its derivatives by the noise variance and by what the last layer adds to the kernel."""
    y, noise = asked.task.targets, asked.algorithm.noise_variance
    last = asked.net.own(asked.net.depth)
    return {
        "log_evidence": np.array(evidence_of(found, y, noise)),
        "log_evidence_slope": last_slopes(found, y, noise, C_b=last.C_b, C_W=last.C_W),
    }


def _conditioned(
    asked: Asked, found: Factored, blocks: Iterable[_Kernels], names: Sequence[str]
) -> Arrays:
    """What of a posterior needs no spectrum."""
    task = asked.task
    data: Arrays = {"log_evidence": np.array(found.log_evidence)}
    if _is_about("test", names):
        parts = []
        for kernels in blocks:
            known = twins(task.inputs, task.test_inputs[kernels.block])
            if asked.algorithm.noise_variance:
                known = np.full_like(known, -1)
            parts.append(found.tests(kernels.learns, kernels.own, known, task.targets))
        mean, spread = (np.concatenate(part, axis=-1)[None] for part in zip(*parts, strict=True))
        data |= of_tests(asked, mean, spread if _takes_spread("test", names) else None)
    return {name: data[name] for name in names}


def _joined(parts: Sequence[np.ndarray]) -> np.ndarray:
    """Blocks of test samples, side by side; one alone is not copied."""
    return parts[0] if len(parts) == 1 else np.concatenate(parts, axis=-1)


def _on_samples(learned: Learned, filters: Filter, names: Sequence[str]) -> Moments:
    """Mean and covariance, or variance, of outputs on the training samples at every time."""
    mean = mean_of_samples(learned, filters)
    if not _takes_spread("train", names):
        return mean, None
    diagonal = "train_covariance" not in names
    return mean, covariance_of_samples(learned, filters, diagonal=diagonal)


def _on_tests(
    learned: Learned, filters: Filter, kernels: _Kernels, task: Task, names: Sequence[str]
) -> Moments:
    """The same on a block of test samples."""
    tests = Unseen.of(
        learned,
        kernels.learns.T,
        kernels.starts,
        kernels.own,
        twins(task.inputs, task.test_inputs[kernels.block]),
    )
    spread = _takes_spread("test", names)
    return tests.mean(filters), tests.covariance(filters) if spread else None
