r"""Theory held against an ensemble of real networks, in standard errors."""

import math
from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Annotated, Any

import numpy as np
import xarray as xr
from scipy import special

from scalewise._checked import Must, Positive, checked
from scalewise._labelled import dataset
from scalewise.comparison import _trained
from scalewise.comparison._comparison import (
    Comparison,
    Scores,
    distinct,
    plain,
    summarise,
    tabulate,
)
from scalewise.comparison._shapes import error_of
from scalewise.comparison._width import (
    Prediction,
    at_infinite_width,
    at_width,
    natural_scale,
)
from scalewise.observables import OBSERVABLES
from scalewise.selection import known
from scalewise.training import OUTCOMES

_SAME = (
    "depth",
    "activation",
    "input_dim",
    "output_dim",
    "C_b",
    "C_W",
    "lambda_b",
    "lambda_W",
    "gamma",
)
_FALSE_ALARMS = 1e-3
_ROUNDING = {"float32": 1e-5, "float64": 1e-10}


Measurement = Annotated[
    xr.Dataset,
    Must(
        "what `measure` or `measure_training` returned",
        lambda data: data.attrs.get("kind") in ("ensemble", _trained.ENSEMBLE),
    ),
]


@checked
def compare(
    theory: Prediction,
    ensemble: Measurement,
    *,
    tolerance: Positive = 4.0,
    observables: Collection[str] | str | None = None,
) -> Comparison:
    r"""Hold a prediction against a measurement, entry by entry.

    $$z=\frac{\text{measured}-\text{predicted}}{\sqrt{\text{sem}^2+\text{error}^2}},\qquad
    z_{\rm excess}=\operatorname{sign}(z)\,
    \frac{\max(|\text{measured}-\text{predicted}|-\text{bias},\,0)}
    {\sqrt{\text{sem}^2+\text{error}^2}}.$$

    An ensemble of one width is compared with `at_width` at its widths, and the bias is the one
    stated there. An ensemble extrapolated from several widths by a polynomial of degree $d$ in
    $1/n$ is compared with the leading coefficients themselves; whatever the weights of the fit,
    what order $d+1$ leaves in its intercept is at most $\prod_i\epsilon_i$ and in its slope
    $e_d(\epsilon_0,\dots,\epsilon_d)$ (the elementary symmetric polynomial), in natural units,
    with $\epsilon_i$ the expansion parameter at the $d+1$ smallest widths.

    Entries that are equal by symmetry are counted once. An entry with no spread at all (layer 1)
    is compared to rounding: 1e-5 of its scale in float32, 1e-10 in float64.

    Of trained networks the two must be of one task, one algorithm and one rate, and the bias is the one that
    ``learning_parameter`` states. Where that parameter exceeds 1/2 there are numbers, a warning, and no verdict.

    Args:
        theory: What `predict` returned, or `predict_training` with its coefficients of 1/n.
        ensemble: What `measure` returned for the same network and inputs, or `measure_training` for the same
            network, task and algorithm.
        tolerance: Standard errors beyond the bias that are still agreement; positive. Raised where
            there are so many entries that chance alone would pass it: the limit is the larger of
            `tolerance` and the $z$ with $m\,\mathrm{erfc}(z/\sqrt2)=10^{-3}$ for $m$ entries.
        observables: Names to compare; all that both results hold for ``None``, of trained networks all of them
            whose coefficient of 1/n the theory has.

    Returns:
        The z-scores, worst first, and the verdict.

    Raises:
        ValueError: If the two results are not a prediction and a measurement of the same network
            and inputs, share no observable, or hold a number that is not finite.

    Example:
        >>> import scalewise as sw
        >>> import numpy as np
        >>> net = sw.MLP(2, 32, "linear", input_dim=2, output_dim=1)
        >>> x = np.eye(2)
        >>> outcome = sw.compare(sw.predict(net, x), sw.measure(net, x, networks=200, seed=0))
        >>> outcome.passed
        True
    """
    _require_same(theory, ensemble)
    extrapolated = bool(ensemble.attrs.get("extrapolated", 0))
    trained = theory.attrs["kind"] == _trained.THEORY
    if extrapolated:
        infinite = _trained.at_infinite_width if trained else at_infinite_width
        predicted = infinite(theory, ensemble)
    else:
        predicted = at_width(theory, ensemble.attrs["hidden_widths"])
    scores = list(_score(predicted, ensemble, _common(theory, predicted, ensemble, observables)))
    count = sum(int((s.distinct & ~s.exact).sum()) for s in scores)
    limit = max(float(tolerance), _false_alarm_limit(count))
    table = tabulate(scores, limit)
    z = {s.name: (predicted[s.name].dims, s.z(limit, beyond_bias=False)) for s in scores}
    return Comparison(
        table=table,
        z=dataset(z, coords=predicted.coords, attrs={"kind": "z-scores"}),
        predicted=predicted,
        summary=summarise(table, [s.name for s in scores]),
        tolerance=float(tolerance),
        limit=limit,
        passed=None
        if trained and _trained.doubtful(predicted)
        else not (np.abs(table["z_excess"].values) > limit).any(),
    )


def _score(predicted: xr.Dataset, ensemble: xr.Dataset, names: Sequence[str]) -> Iterator[Scores]:
    rounding = _ROUNDING.get(str(ensemble.attrs.get("dtype", "float32")), 1e-5)
    rounding = max(rounding, float(ensemble.attrs.get("residual", 0.0)))
    for name in names:
        dims = predicted[name].dims
        measured = ensemble[name].transpose(*dims)
        sem = ensemble[f"{name}_sem"].transpose(*dims)
        for what, data in ((name, predicted[name]), (name, measured), (f"{name}_sem", sem)):
            _require_finite(what, data)
        numbers = np.asarray(measured.values, dtype=np.float64)
        if "layer" in dims:
            layers = np.asarray(predicted["layer"].values, dtype=int)
            mask = distinct(numbers.ndim - 1, numbers.shape[-1])
            scale = _rounding_scale(name, predicted, numbers)
        else:
            layers, mask = None, _trained.distinct([str(dim) for dim in dims], numbers.shape)
            scale = np.maximum(np.abs(numbers), np.abs(predicted[name].values)).max(initial=0.0)
            scale = np.full(numbers.shape, scale)
        # Where the theory is zero in a layer, the other layers say what would be large.
        scale = np.where(scale > 0, scale, scale.max(initial=0.0) or 1.0)
        yield Scores(
            name,
            layers,
            np.asarray(predicted[name].values, dtype=np.float64),
            numbers,
            np.asarray(np.hypot(np.asarray(sem.values, float), error_of(predicted, name))),
            np.asarray(predicted[f"{name}_bias"].values, dtype=np.float64),
            np.asarray(rounding * scale),
            np.broadcast_to(mask, numbers.shape),
        )


def _rounding_scale(name: str, predicted: xr.Dataset, measured: np.ndarray) -> np.ndarray:
    """What rounding is relative to: the scale of a positive matrix, else a layer's largest entry."""
    if OBSERVABLES[name].own_scale:
        return natural_scale(name, predicted)
    both = np.maximum(np.abs(measured), np.abs(predicted[name].values))
    return both.max(axis=tuple(range(1, both.ndim)), keepdims=True) * np.ones_like(both)


def _false_alarm_limit(count: int) -> float:
    if count == 0:
        return 0.0
    return float(math.sqrt(2.0) * special.erfcinv(min(_FALSE_ALARMS / count, 1.0)))


def _common(
    theory: xr.Dataset,
    predicted: xr.Dataset,
    ensemble: xr.Dataset,
    observables: Collection[str] | str | None,
) -> list[str]:
    ours, theirs = _with(predicted, "bias"), _with(ensemble, "sem")
    both = [name for name in ours if name in theirs]
    if ensemble.attrs["kind"] == _trained.ENSEMBLE and observables is None:
        both = [name for name in both if _trained.says_something(theory, predicted, name)]
    if observables is None:
        if not both:
            raise ValueError(
                "`theory` and `ensemble` have no observable in common: the theory holds "
                f"{_listed(ours)}, the ensemble {_listed(theirs)}. "
                "Predict or measure again with the same `observables`."
            )
        return both
    trained = ensemble.attrs["kind"] == _trained.ENSEMBLE
    wanted = _trained.known(observables) if trained else known(observables)
    rows: Mapping[str, Any] = OUTCOMES if trained else OBSERVABLES
    for name in wanted:
        if name not in both:
            where = "ensemble" if name in predicted else "theory"
            corrects = rows[name].corrects if name in rows else ""
            hint = (
                f"it is part of {corrects!r} at a single width: measure with several `widths`"
                if corrects and not ensemble.attrs.get("extrapolated", 0)
                else f"ask for it when you make the {where}"
            )
            raise ValueError(f"`observables` asks for {name!r}, which cannot be compared; {hint}.")
    return list(wanted)


def _with(data: xr.Dataset, companion: str) -> list[str]:
    """The variables that have a companion, in their order."""
    return [str(name) for name in data.data_vars if f"{name}_{companion}" in data]


def _require_same(theory: xr.Dataset, ensemble: xr.Dataset) -> None:
    trained = [
        data.attrs["kind"] == kind
        for data, kind in ((theory, _trained.THEORY), (ensemble, _trained.ENSEMBLE))
    ]
    if trained[0] != trained[1]:
        raise ValueError(
            "`theory` and `ensemble` must both be of networks at initialisation or both of trained ones: "
            "compare `predict` with `measure`, and `predict_training` with `measure_training`."
        )
    for key in _SAME:
        ours, theirs = plain(theory.attrs.get(key)), plain(ensemble.attrs.get(key))
        if ours != theirs:
            raise ValueError(
                f"`theory` and `ensemble` are of different networks: `{key}` is {ours} in the "
                f"theory and {theirs} in the ensemble. Make both from the same network."
            )
    digests = {data.attrs.get("activation_digest") for data in (theory, ensemble)} - {None}
    if len(digests) > 1:
        raise ValueError(
            "`theory` and `ensemble` are of different networks: their activations are both called "
            f"{theory.attrs.get('activation')!r} but have other values. Make both from the same network."
        )
    if trained[0]:
        _trained.require_same(theory, ensemble)
        return
    for dim in ("layer", "sample"):
        ours, theirs = theory[dim].values, ensemble[dim].values
        if not np.array_equal(ours, theirs):
            raise ValueError(
                f"`theory` and `ensemble` have different {dim}s: {ours.tolist()} in the theory and "
                f"{theirs.tolist()} in the ensemble. Make both from the same network and inputs."
            )
    if theory.attrs.get("inputs") != ensemble.attrs.get("inputs"):
        raise ValueError(
            "`theory` and `ensemble` are of different inputs: the values of `x` are not the same, "
            "though their number is. Make both from the same `x`."
        )


def _require_finite(name: str, data: xr.DataArray) -> None:
    if not np.isfinite(data.values).all():
        count = int((~np.isfinite(data.values)).sum())
        raise ValueError(
            f"`{name}` holds {count} numbers that are not finite, which cannot be compared; "
            "make the result again."
        )


def _listed(names: Sequence[str]) -> str:
    return ", ".join(names) if names else "none"
