r"""The verb: networks that are really trained, as a Dataset of means with standard errors."""

from __future__ import annotations

import os
from collections.abc import Callable, Collection, Sequence
from typing import Annotated, Any, NamedTuple

import numpy as np
import xarray as xr

from scalewise._checked import Count, Must, checked
from scalewise._labelled import dataset, variable
from scalewise._memory import Memory, bytes_of
from scalewise._threads import blas_threads_for
from scalewise._version import __version__
from scalewise._warn import warn
from scalewise.nets.spi import (
    Dtype,
    NetworkEnsemble,
    Seed,
    check_has_slope,
    check_widths,
    degree,
    extrapolation,
    fit,
    generator,
    run,
)
from scalewise.networks import Network
from scalewise.networks.spi import AnyNetwork, check_inputs, digest_of
from scalewise.sweeps.spi import Reporter, kept, opened
from scalewise.tasks import Task
from scalewise.training._algorithm import Algorithm, described, settled
from scalewise.training._algorithms import GradientFlow
from scalewise.training._asked import Asked
from scalewise.training._moved_kinks import HALF, moved
from scalewise.training._outcomes import OUTCOMES, Outcome
from scalewise.training._selection import selected
from scalewise.training._task import check_targets, check_task
from scalewise.training.ensembles._conditioned import conditioned_ensemble
from scalewise.training.ensembles._ensembles import Control, Pilot, pilot, trained_ensembles
from scalewise.training.ensembles._estimates import (
    ESTIMATORS,
    Estimate,
    EstimateSource,
    Means,
    Weighted,
)
from scalewise.training.ensembles._reading import NetworkReading
from scalewise.training.ensembles._training import CLOSE

_SUFFIXES = {1.0: "_nlo", HALF: "_half"}  # of coefficients of the first power of 1/n
_DEGREES = {1.0: 2, HALF: 3}  # of polynomials in that power
_WORST = {"failed_networks": sum, "flow_error": max, "effective_networks": min}  # of several widths
_TO_THE_END = GradientFlow()
Networks = Annotated[int, Must("a whole number of at least 2", lambda value: value >= 2)]
Known = dict[str, Estimate]


@checked
def measure_training(
    net: AnyNetwork,
    task: Task,
    algorithm: Algorithm = _TO_THE_END,
    *,
    networks: Networks = 1000,
    widths: Sequence[Count] | None = None,
    observables: Collection[str] | str | None = None,
    control: Control = "linear",
    seed: Seed = 0,
    dtype: Dtype = "float32",
    memory: Memory = "1 GiB",
    store: str | os.PathLike[str] | None = None,
    progress: Callable[[int, int], Any] | bool | None = None,
) -> xr.Dataset:
    r"""Train an ensemble of networks, and measure what they have learned.

    $$m_{i;\beta}=\mathbb E[z_{i;\beta}],\qquad{\rm Cov}[z_{i;\beta_1},z_{j;\beta_2}],\qquad
      \mathbb E\big[\tfrac12\textstyle\sum_i(z_{i;\beta}-y_{i;\beta})^2\big],\qquad
      \mathbb E[\widehat H(T)-\widehat H(0)]$$

    over initialisations. Gradient descent goes step by step; gradient flow by an integrator that keeps the error of
    each step below 5e-6 of the initial error; `NTKGP` is the flow of networks that start as random as their own
    NTK. Of `LastLayer` and `Bayes` the hidden layers are drawn; given them, all is known in closed form, and the
    posterior weights each drawing by its evidence.

    A rate of ``None`` is $0.8/(h_{\max}+\rho)$ of the mean NTK of a few networks of these widths (of the largest of
    `widths`), which is that of infinitely wide ones up to 1/n. Give the theory's, its attribute ``rate``, where
    training stops after a number of steps.

    Args:
        net: The network, of any layers but `Dropout`, whose last one is a random layer alone.
        task: Training samples with targets, and test samples; its loss is ``"mse"``, without batches.
        algorithm: `GradientFlow`, `GradientDescent`, `TwoStepNewton`, `LastLayer`, `Bayes` or `NTKGP`, as in
            `predict_training`.
        networks: How many are trained, or drawn, for each width; at least 2.
        widths: First hidden widths to extrapolate from, two or more; the other hidden widths keep their ratios to
            it. Then every observable is the coefficient of order 0 in 1/n, and ``<name>_nlo`` that of 1/n, n the
            width of the last hidden layer. Where training moves neurons over a kink of the activation, as of ReLU,
            powers are those of $n^{-1/2}$, up to $n^{-3/2}$ with four widths or more, and ``<name>_half`` is the
            coefficient of $n^{-1/2}$; no coefficient of 1/n is given.
        observables: Names of what is wanted at one width; everything that can be had if ``None``.
        control: What is taken off the outputs of each network to make standard errors smaller, and changes no mean.
            ``"linear"``: what its own NTK predicts, whose mean is measured on ten times as many networks that
            nobody trains. ``"free"``: the part of its initial outputs that training does not see, whose mean is 0.
            ``None``: nothing. Of no matter for `LastLayer` and `Bayes`.
        seed: Same seed, same numbers, whatever the batches and the devices of a kind.
        dtype: ``"float32"`` or ``"float64"``, of the networks. float32 trains until 1e-4 of the initial error is
            left, float64 until 1e-6.
        memory: Budget in bytes, or a text such as ``"1 GiB"``.
        store: A folder, or an address of fsspec: the run is saved there after every batch, and the same call
            resumes it.
        progress: ``None``: a bar if the run takes over two seconds and standard error is a terminal; ``False``:
            nothing; a callable is called with (done, total) networks.

    Returns:
        A Dataset, float64, over ``output``, ``output_1``, ``test``, ``test_1``, ``train``, ``sample``, ``sample_1``
        (training samples, then tests): ``output_mean``, ``output_covariance``, ``variance``, ``bias``,
        ``test_loss``, ``test_error``, ``train_loss``, ``ntk_change`` and, of `Bayes`, ``log_evidence``; each with
        its standard error ``<name>_sem``. All but those of `Bayes` are unbiased at a width. Attributes tell
        ``rate``, ``control``, ``effective_networks`` of `Bayes`, ``extrapolation_powers`` that were fitted, as
        powers of 1/n, and what was left out and why. Networks that diverge or do not converge do not count:
        ``failed_networks`` are so many, and ``status``, empty otherwise, is a sentence that says what became of
        them, as does a warning; it also says so where the weights of a posterior rest on fewer than 100 networks.
        ``flow_error`` is what the least steps of a flow may have moved outputs by where it slides along a kink.

    Raises:
        ValueError: If an argument breaks its rule, the task does not fit the network, all networks fail (the
            message tells the residual and the steps that it would take), or `store` holds a run with other
            arguments.

    Source: PDLT (7.11), (10.33), (10.44)-(10.49), (6.57), (6.64), measured; NTKGP: He, Lakshminarayanan & Teh
    (2020).

    Example:
        >>> import numpy as np, scalewise as sw
        >>> from scalewise.training import LastLayer
        >>> net = sw.MLP(2, 30, "tanh", input_dim=2, output_dim=1)
        >>> task = sw.Task(np.eye(2), [1.0, -1.0], test_inputs=[[1.0, 1.0]], test_targets=[0.0])
        >>> found = sw.measure_training(net, task, LastLayer(), networks=200)
        >>> bool(abs(found.output_mean) < 4 * found.output_mean_sem)
        True
    """
    asked = Asked(net, task, algorithm)
    check_task(asked)
    check_targets(asked)
    _check_read_out(asked)
    check_inputs(net, task.all_inputs)
    names, left_out = selected(observables, ESTIMATORS, lambda name: _obstacle(name, asked))
    if not names:
        raise ValueError("`observables` must name something to measure; got none.")
    shapes = (net,) if widths is None else check_widths(net, widths)
    pilots = [pilot(shape, task, seed=seed, dtype=dtype) for shape in shapes]
    taken = settled(algorithm, pilots[-1].h, targets=task.targets.size)
    pace = algorithm.pace(pilots[-1].h, targets=task.targets.size)
    attributes = {
        "kind": "training ensemble",
        **net.attributes(),
        **described(algorithm),
        **({} if pace is None else {"rate": pace.rate}),
        "networks": networks,
        "seed": seed,
        "dtype": dtype,
        "control": str(control),
        "residual": CLOSE[dtype] if algorithm.trains_hidden else 0.0,
        "random_numbers": generator(),
        "widths": [] if widths is None else sorted(widths),
        "inputs": digest_of(task.inputs),
        "targets": digest_of(task.targets),
        "test_inputs": digest_of(task.test_inputs),
    }
    fixed = {"observables": list(names), "memory": bytes_of(memory)}
    plans = [
        _plan(shape, task, taken, known, control, dtype, "ntk_change" in names)
        for shape, known in zip(shapes, pilots, strict=True)
    ]
    with opened(store, {**attributes, **fixed}) as record:
        options = {"seed": seed, "memory": bytes_of(memory), "dtype": dtype, "record": record}
        sources = _drawn(plans, networks, progress, options)
        status = _status(shapes, sources)
        parts = [
            {name: ESTIMATORS[name](plan.reading, source) for name in names}
            for plan, source in zip(plans, sources, strict=True)
        ]
        n = np.array([float(shape.widths[-2]) for shape in shapes])
        power = HALF if moved(net, algorithm) else 1.0
        result = _dataset(parts[0] if widths is None else _extrapolated(parts, n, power))
        result.attrs = {
            **attributes,
            "left_out": list(left_out),
            "left_out_because": list(left_out.values()),
            **status,
            **_powers(widths, power),
            "scalewise": __version__,
        }
        return kept(result, record)


class _Plan(NamedTuple):
    """Ensembles of one set of widths, how often each is drawn, and how their sums are read."""

    reading: NetworkReading
    ensembles: list[tuple[NetworkEnsemble, int]]
    read: Callable[[Sequence[Any]], EstimateSource]


def _drawn(
    plans: Sequence[_Plan],
    networks: int,
    progress: Callable[[int, int], Any] | bool | None,
    options: dict[str, Any],
) -> list[EstimateSource]:
    """All ensembles, run."""
    total = networks * sum(many for plan in plans for _, many in plan.ensembles)
    with blas_threads_for(), Reporter(progress, total, "networks") as report:
        return [
            plan.read(
                [run(e, many * networks, report=report, **options) for e, many in plan.ensembles]
            )
            for plan in plans
        ]


def row_of(name: str) -> Outcome:
    """The row of what is measured at a width; that of its coefficient of 1/n where it begins there."""
    return OUTCOMES.get(name) or OUTCOMES[f"{name}_nlo"]


def _obstacle(name: str, asked: Asked) -> str:
    """Why an observable cannot be measured, a clause."""
    why = row_of(name).obstacle_of_networks(asked)
    if not why and name == "ntk_change" and not asked.algorithm.trains_hidden:
        return f"{type(asked.algorithm).__name__} does not train by the NTK"
    return why


def _check_read_out(asked: Asked) -> None:
    """Refuse outputs that are not Gaussian given the hidden layers, where it is taken that they are."""
    law = asked.net.program.laws[-1]
    if not (law.is_normal or asked.algorithm.trains_hidden):
        raise ValueError(
            f"{type(asked.algorithm).__name__} is measured by outputs that are Gaussian given the hidden layers, "
            f"and the read-out of this network has weights that are {law.name}. Give it law='normal'."
        )


def _plan(
    net: Network,
    task: Task,
    algorithm: Algorithm,
    known: Pilot,
    control: Control,
    dtype: str,
    changes: bool,
) -> _Plan:
    """The plan of one set of widths."""
    if not algorithm.trains_hidden:
        weighted = algorithm.has_evidence
        reading, ensemble, level = conditioned_ensemble(
            net, task, algorithm, known.metric, weighted=weighted, dtype=dtype
        )
        read = (lambda sums: Weighted(sums[0], level)) if weighted else Means
        return _Plan(reading, [(ensemble, 1)], read)
    for sigma in net.activations:
        check_has_slope(sigma)
    reading, ensembles = trained_ensembles(
        net, task, algorithm, known, control=control, dtype=dtype, changes=changes
    )
    return _Plan(reading, ensembles, Means)


def _status(shapes: Sequence[Network], sources: Sequence[EstimateSource]) -> dict[str, object]:
    """Attributes that tell which networks count, and a warning where not all of them do."""
    told = [
        f"Hidden widths {list(net.widths[1:-1])}: {sentence}"
        for net, source in zip(shapes, sources, strict=True)
        for sentence in source.complaints()
    ]
    each = [source.numbers() for source in sources]
    found: dict[str, object] = {
        name: _WORST[name](numbers[name] for numbers in each) for name in each[0]
    }
    if told:
        warn(" ".join(told))
    return {**found, "status": " ".join(told)}


def _powers(widths: Sequence[int] | None, power: float) -> dict[str, Any]:
    """Attributes on the extrapolation, and on powers of 1/n where these are not whole."""
    most = _DEGREES[power]
    found: dict[str, Any] = extrapolation(widths, most)
    if widths is not None and power != 1:
        found["extrapolation_power"] = power
        found["extrapolation_powers"] = [power * k for k in range(degree(len(widths), most) + 1)]
    return found


def _extrapolated(parts: list[Known], n: np.ndarray, power: float) -> Known:
    """Coefficients of order 0 and of the first power of 1/n, with standard errors."""
    found: Known = {}
    suffix, most = _SUFFIXES[power], _DEGREES[power]
    for name in parts[0]:
        values, sems = (np.stack([part[name][k] for part in parts]) for k in (0, 1))
        begins = name not in OUTCOMES  # at the first power
        scale = (n**power if begins else np.ones_like(n)).reshape(-1, *(1,) * (values.ndim - 1))
        # What begins at the first power has one degree less, so that all end at the same power.
        kept = most if power == 1 or not begins else most - 1
        coefficients, errors = fit(scale * values, scale * sems, 1 / n**power, most=kept)
        if not begins:
            found[name] = coefficients[0], errors[0]
        if f"{name}{suffix}" in OUTCOMES:
            found[f"{name}{suffix}"] = coefficients[int(not begins)], errors[int(not begins)]
    return found


def _dataset(data: Known) -> xr.Dataset:
    variables = {}
    for name, (value, sem) in data.items():
        row = row_of(name)
        attrs: dict[str, object] = {
            "symbol": row.symbol,
            "units": row.units,
            "long_name": row.meaning
            if name in OUTCOMES
            else f"The {name} of networks of this width.",
        }
        if row.power is not None and name in OUTCOMES:
            attrs["power"] = row.power
        dims = row.at_width or row.over
        variables[name] = variable(dims, value, attrs)
        about = {"long_name": f"Standard error of the measured {name}.", "units": row.units}
        variables[f"{name}_sem"] = variable(dims, sem, about)
    return dataset(variables)
