r"""Trained networks: what the theory says of a finite width, and of ensembles extrapolated in the width.

No outcome is known here by its name but two, the parameter in which the theory expands and the sample axis of
tests. The table of outcomes says what corrects what, by which power of the width, and which dimensions a number
has at a finite width.

Where training moves neurons over kinks, the first coefficient is that of $n^{-1/2}$, and what comes next is of
order $1/n$ with a coefficient that nobody knows. Its size is stated as that of any unknown order 1/n, the small
parameter times the leading order; of what begins at $n^{-1/2}$, the change of the NTK, the small parameter times
the NTK. That is a scale and no bound, so a single width decides nothing, and several widths do.
"""

import math
from collections.abc import Collection, Mapping, Sequence

import numpy as np
import xarray as xr
from jaxtyping import Bool

from scalewise._labelled import dataset, variable
from scalewise._warn import warn
from scalewise._words import refuse_name
from scalewise.comparison._shapes import companion, error_of
from scalewise.training import OUTCOMES, ExpansionWarning
from scalewise.training.spi import HALF, LARGE, VARIANCES, warn_of_signs

THEORY, ENSEMBLE = "training theory", "training ensemble"
_PARAMETER = "learning_parameter"
_SAME_RATE = 1e-5
# What begins at order 1/n, as the change of the NTK does, is a tensor times two responses to the error: each of the
# three is off by the small parameter. Two steps of Newton are seen to need it.
_FACTORS = 3


def known(names: Collection[str] | str) -> list[str]:
    """Names of numbers at a finite width, or coefficients of 1/n, checked."""
    there = dict.fromkeys([*OUTCOMES, *(row.corrects for row in OUTCOMES.values() if row.corrects)])
    wanted = (names,) if isinstance(names, str) else tuple(names)
    for name in wanted:
        if name not in there:
            refuse_name("observables", name, there)
    return list(wanted)


def at_width(theory: xr.Dataset, hidden: Sequence[int]) -> xr.Dataset:
    """Leading order plus 1/n, with the stated size of what is neglected; see `comparison.at_width`."""
    n = float(hidden[-1]) if len(hidden) else math.inf
    epsilon = _small_parameter(theory) / n
    _warn(epsilon, hidden)
    found: dict[str, xr.Variable] = {}
    for name, own in _corrections(theory).items():
        value, error, size = np.zeros(()), np.zeros(()), 0.0
        dims: tuple[str, ...] = ()
        if name in theory:
            value, dims = _spread_out(theory, name)
            error = np.broadcast_to(_error_spread_out(theory, name), value.shape)
            size = epsilon * _largest(value)
        if own:
            power = OUTCOMES[own].exponent
            value = np.asarray(value + theory[own].values / n**power)
            error, dims = (
                np.asarray(np.hypot(error, error_of(theory, own) / n**power)),
                tuple(map(str, theory[own].dims)),
            )
            factors = 1 if name in OUTCOMES else _FACTORS
            if power == 1:
                size = factors * epsilon * _largest(theory[own].values) / n
            elif name not in theory:
                size = epsilon * float(theory.attrs["ntk_size"])
            if name in theory and name in VARIANCES:
                error_own = xr.Variable(theory[own].dims, error_of(theory, own))
                warn_of_signs(theory[name].variable, theory[own].variable, error_own, n, power)
        found |= _with_companions(theory, own or name, name, dims, value, error, size)
    found["expansion_parameter"] = _parameter(epsilon)
    attrs = {**theory.attrs, "kind": "training theory at width", "hidden_widths": list(hidden)}
    return dataset(found, coords=theory.coords, attrs=attrs)


def at_infinite_width(theory: xr.Dataset, ensemble: xr.Dataset) -> xr.Dataset:
    """The coefficients themselves, with the bias that the extrapolation leaves in them.

    A fit of degree d in 1/n leaves at most the product of the small parameters at its d+1 smallest widths in its
    intercept, and their elementary symmetric polynomial of order d in its slope, in units of the coefficient. A fit
    in the root of 1/n leaves the same of their roots; what begins at the root has a degree less where d is 3.
    """
    degree, own = int(ensemble.attrs["extrapolation_degree"]), theory.attrs["hidden_widths"]
    power = float(ensemble.attrs.get("extrapolation_power", 1.0))
    n = [own[-1] * w / own[0] for w in sorted(ensemble.attrs["widths"])[: degree + 1]]
    parameter = _small_parameter(theory)
    epsilons = (parameter / np.array(n)) ** power
    small = float((parameter / np.array(n)).max())
    _warn(small, sorted(ensemble.attrs["widths"])[:1])
    intercept = float(np.prod(epsilons))
    slope = sum(float(np.prod(np.delete(epsilons, i))) for i in range(len(epsilons)))
    begun = intercept if power == 1 else float(np.prod(epsilons[:_FACTORS]))
    found: dict[str, xr.Variable] = {}
    for name, correction in _corrections(theory).items():
        most = _largest(theory[correction].values) if correction else 0.0
        if name in theory:
            value, dims = _spread_out(theory, name)
            unit = most / parameter**power if correction else _largest(value)
            unit = unit if power == 1 else max(unit, _largest(value))
            error = _error_spread_out(theory, name)
            found |= _with_companions(theory, name, name, dims, value, error, intercept * unit)
        if correction and correction not in found:
            data = theory[correction]
            size = most * (slope if name in OUTCOMES else _FACTORS * begun)
            if power != 1:
                size = max(
                    size,
                    _unit(theory, name) * parameter**power * (slope if name in theory else begun),
                )
            found |= _with_companions(
                theory,
                correction,
                correction,
                tuple(map(str, data.dims)),
                data.values,
                error_of(theory, correction),
                size,
            )
    found["expansion_parameter"] = _parameter(small)
    attrs = {**theory.attrs, "widths": list(ensemble.attrs["widths"])}
    return dataset(found, coords=theory.coords, attrs=attrs)


def _unit(theory: xr.Dataset, name: str) -> float:
    """How large an outcome is at infinite width; what begins beyond it is a change of the NTK."""
    return _largest(theory[name].values) if name in theory else float(theory.attrs["ntk_size"])


def doubt(predicted: xr.Dataset, ensemble: xr.Dataset, names: Collection[str]) -> str:
    """Why nothing is decided, a sentence; empty where what is neglected is small and all networks count.

    Args:
        predicted: At a width, or at infinite width.
        ensemble: The measurement.
        names: What is compared.
    """
    if status := ensemble.attrs.get("status"):
        return str(status)
    epsilon = float(predicted["expansion_parameter"])
    if epsilon <= LARGE:
        halves = {row.corrects for row in OUTCOMES.values() if row.exponent == HALF}
        if (
            predicted.attrs["kind"] == THEORY
            or "power" not in predicted.attrs
            or not halves & {*names}
        ):
            return ""
        return (
            "Beyond n^(-1/2), which training over kinks begins with, the next order is 1/n, whose coefficient is "
            "unknown and large; a single width decides nothing. Measure with several `widths`."
        )
    return (
        f"The small parameter of the expansion in 1/n is {epsilon:.2g}, and what is neglected may be as large "
        "as what is there. Take wider networks, stop earlier, or use a ridge."
    )


def says_something(theory: xr.Dataset, predicted: xr.Dataset, name: str) -> bool:
    """True if the theory knows by how much a width changes a number.

    Of what has no coefficient of 1/n, as the loss on training samples before the end, the first neglected order is
    that of 1/n, and nobody knows its size; the loss that training brings to 0 has none.
    """
    own = {base: row for base, row in _corrections(theory).items() if row}
    there = predicted[name].values.any() or predicted[f"{name}_bias"].values.any()
    return bool(there and (name in own or name in own.values()))


def distinct(dims: Sequence[str], shape: Sequence[int]) -> Bool[np.ndarray, "..."]:
    """One of the entries that are equal because pairs of dimensions ``x``, ``x_1`` can change places."""
    index = np.indices(shape)
    first = [i for i, dim in enumerate(dims) if f"{dim}_1" in dims]
    second = [list(dims).index(f"{dims[i]}_1") for i in first]
    left, right = (np.zeros(tuple(shape), dtype=int) for _ in range(2))
    for i, j in zip(first, second, strict=True):
        left, right = left * shape[i] + index[i], right * shape[j] + index[j]
    return np.asarray(left <= right)


def require_same(theory: xr.Dataset, ensemble: xr.Dataset) -> None:
    """Refuse two results of other tasks, algorithms or rates."""
    if "time" in theory.dims:
        raise ValueError(
            "`theory` holds several times and `ensemble` one. Predict again without `times`, with the "
            "algorithm that the ensemble was trained by."
        )
    tasks = {
        "inputs": "training inputs",
        "targets": "training targets",
        "test_inputs": "test inputs",
    }
    for key, what in tasks.items():
        if theory.attrs.get(key) != ensemble.attrs.get(key):
            raise ValueError(
                f"`theory` and `ensemble` are of different tasks: their {what} are not the same. Make both "
                "from the same Task."
            )
    ours, theirs = (data.attrs.get("algorithm_but_rate") for data in (theory, ensemble))
    if ours != theirs:
        raise ValueError(
            f"`theory` and `ensemble` are of different algorithms: {ours} in the theory and {theirs} in the "
            "ensemble."
        )
    _require_rate(theory.attrs, ensemble.attrs, theory)


def _require_rate(
    ours: Mapping[str, object], theirs: Mapping[str, object], theory: xr.Dataset
) -> None:
    """At the end a rate is forgotten at leading order, so that a share of 1/n in it is of order 1/n²."""
    if "rate" not in ours:
        return
    one, other = (np.atleast_1d(np.asarray(a["rate"], dtype=float)) for a in (ours, theirs))
    off = np.abs(other / one - 1).max() if one.shape == other.shape else math.inf
    n = float(np.asarray(theory.attrs["hidden_widths"] or [math.inf])[-1])
    allowed = _small_parameter(theory) / n if ours.get("to_the_end") else 0.0
    if off > max(allowed, _SAME_RATE):
        raise ValueError(
            f"`theory` and `ensemble` are of different rates: {ours['rate']} in the theory and "
            f"{theirs['rate']} in the "
            "ensemble. Give the algorithm of the ensemble the rate of the theory, theory.attrs['rate']."
        )


def _small_parameter(theory: xr.Dataset) -> float:
    if _PARAMETER not in theory:
        raise ValueError(
            f"`theory` has no `{_PARAMETER}`, so what it neglects at a finite width is unknown. Ask for it: "
            "predict_training(..., observables='all')."
        )
    return float(theory[_PARAMETER])


def _warn(epsilon: float, hidden: Sequence[int]) -> None:
    if epsilon > LARGE:
        warn(
            f"The small parameter of the expansion in 1/n is {epsilon:.2g} at hidden widths {list(hidden)}: "
            "what is "
            "neglected may be as large as what is there, and no verdict is given. Take wider networks, stop "
            "earlier, or give a ridge.",
            ExpansionWarning,
        )


def _corrections(theory: xr.Dataset) -> dict[str, str]:
    """Quantities of a finite width, each with its coefficient of 1/n if the theory has one."""
    own = {row.corrects: name for name, row in OUTCOMES.items() if name in theory and row.corrects}
    found = {
        name: own.get(row.corrected_as, "")
        for name, row in OUTCOMES.items()
        if name in theory and not row.order
    } | own
    order = list(OUTCOMES)
    return dict(
        sorted(
            found.items(), key=lambda pair: order.index(pair[0] if pair[0] in OUTCOMES else pair[1])
        )
    )


def _spread_out(theory: xr.Dataset, name: str) -> tuple[np.ndarray, tuple[str, ...]]:
    """A leading order over the dimensions that it has at a finite width."""
    row = OUTCOMES[name]
    values = np.asarray(theory[name].values, dtype=np.float64)
    leading = tuple(map(str, theory[name].dims[: values.ndim - len(row.over)]))
    return row.of_outputs(values, int(theory.attrs["output_dim"])), (
        *leading,
        *(row.at_width or row.over),
    )


def _error_spread_out(theory: xr.Dataset, name: str) -> np.ndarray:
    return OUTCOMES[name].of_outputs(error_of(theory, name), int(theory.attrs["output_dim"]))


def _with_companions(
    theory: xr.Dataset,
    source: str,
    name: str,
    dims: Sequence[str],
    value: np.ndarray,
    error: np.ndarray,
    size: float,
) -> dict[str, xr.Variable]:
    """A number with its numerical error and its stated bias."""
    found = {name: variable(dims, value, theory[source].attrs)}
    if error.any():
        found[f"{name}_error"] = companion(found, name, error, "numerical error of")
    bias = np.full(np.shape(value), size)
    found[f"{name}_bias"] = companion(found, name, bias, "stated finite-width bias of")
    return found


def _parameter(epsilon: float) -> xr.Variable:
    return variable(
        (), epsilon, {"long_name": "Small parameter of the expansion in 1/n of what is learned."}
    )


def _largest(values: np.ndarray) -> float:
    return float(np.abs(values).max(initial=0.0))
