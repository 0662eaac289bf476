r"""Theory held against an ensemble of real networks, in standard errors."""

from collections.abc import Collection, Iterator, Mapping, Sequence
from functools import partial
from typing import Annotated, Any

import numpy as np
import xarray as xr

from scalewise._checked import Must, Positive, checked
from scalewise._labelled import dataset
from scalewise.comparison import _trained
from scalewise.comparison._certainty import (
    freedom,
    limit_among,
    lost,
    shrunk,
    undecided,
    why_undecided,
)
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
    root_of_diagonal,
)
from scalewise.observables import OBSERVABLES
from scalewise.selection import known
from scalewise.training import OUTCOMES
from scalewise.training.spi import LARGE

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
    "law",
    "layers",
    "input_shape",
)
# Coefficients of 1/n, small beside what they correct, and what is another outcome less a constant.
_SMALL_BESIDE_ANOTHER = {
    name
    for table in (OBSERVABLES, OUTCOMES)
    for name, row in table.items()
    if row.corrects or getattr(row, "corrected_as", "")
}
_ROUNDING = {"float32": 1e-5, "float64": 1e-10}


Measurement = Annotated[
    xr.Dataset,
    Must(
        "an ensemble, what `measure` or `measure_training` returned",
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

    $$t=\frac{\text{measured}-\text{predicted}}{\sqrt{\text{sem}^2+\text{error}^2}},\qquad
    t_{\rm excess}=\operatorname{sign}(t)\,
    \frac{\max(|\text{measured}-\text{predicted}|-\text{bias},\,0)}
    {\sqrt{\text{sem}^2+\text{error}^2}},$$

    and $z$ is the normal number that is as rare as $t$ is, by Student's law. For $N$ networks a mean has
    $(N-1)/(k-1)$ degrees of freedom and a covariance $(N-1)/(3.5(k-1))$, with $k$ the kurtosis of log-normal
    numbers whose relative variance is the expansion parameter of the layer: 3 of wide networks. Numbers of trained
    networks count as means, with the small parameter of training. An ensemble that
    measures too little also finds too small a standard error; where an observable is larger in the theory than in
    the ensemble, the error is raised in proportion. So a right theory disagrees less than once in a thousand
    ensembles of any size.

    An ensemble of one width is compared with `at_width` at its widths, and the bias is the one
    stated there; where order 1/n is not known, it is found from the fluctuations of the ensemble. An
    ensemble extrapolated from several widths by a polynomial of degree $d$ in
    $1/n$ is compared with the leading coefficients themselves; whatever the weights of the fit,
    what order $d+1$ leaves in its intercept is at most $\prod_i\epsilon_i$ and in its slope
    $e_d(\epsilon_0,\dots,\epsilon_d)$ (the elementary symmetric polynomial), in natural units,
    with $\epsilon_i$ the small parameter of the observable (`at_width`) at the $d+1$ smallest widths.

    Entries that are equal by symmetry are counted once. An entry with no spread at all (layer 1)
    is compared to rounding: 1e-5 of its scale in float32, 1e-10 in float64.

    Of trained networks the two must be of one task, one algorithm and one rate, and the bias is the one that
    ``learning_parameter`` states.

    There are numbers but no verdict where that parameter exceeds 1/2, which a warning tells too, and at one width
    where training over kinks begins at $n^{-1/2}$: the next order is 1/n, with a coefficient that nobody knows. At
    initialisation every layer whose expansion parameter exceeds 1/2 is likewise left out of the verdict. Where
    nothing disagrees but networks are so few that no entry of an observable could be told from 0, nothing is said
    of it. Without `observables` the verdict is then on the others, which `Comparison.decided` names; observables
    that you name must all be decided, or there is none. `Comparison.reason` says what is left out, and how many
    networks would do.

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
    if "expansion_parameter" not in theory and "expansion_parameter" in ensemble:
        theory = theory.assign(expansion_parameter=ensemble["expansion_parameter"])
    trained = theory.attrs["kind"] == _trained.THEORY
    if extrapolated:
        infinite = _trained.at_infinite_width if trained else at_infinite_width
        predicted = infinite(theory, ensemble)
    else:
        predicted = at_width(theory, ensemble.attrs["hidden_widths"])
    names = _common(theory, predicted, ensemble, observables)
    scores = list(_score(predicted, ensemble, names))
    count = sum(int((s.distinct & ~s.exact).sum()) for s in scores)
    limit = limit_among(count, least=float(tolerance))
    table = tabulate(scores, limit)
    doubt = _trained.doubt(predicted, ensemble, names) if trained else ""
    passed, reason, decided = _verdict(
        scores, limit, int(ensemble.attrs["networks"]), whole=observables is not None
    )
    z = {s.name: (predicted[s.name].dims, s.z(limit, beyond_bias=False)) for s in scores}
    return Comparison(
        table=table,
        z=dataset(z, coords=predicted.coords, attrs={"kind": "z-scores"}),
        predicted=predicted,
        summary=summarise(table, [s.name for s in scores]),
        tolerance=float(tolerance),
        limit=limit,
        passed=None if doubt else passed,
        reason=doubt or reason,
        decided=() if doubt else decided,
    )


def _verdict(
    scores: Sequence[Scores], limit: float, networks: int, *, whole: bool
) -> tuple[bool | None, str, tuple[str, ...]]:
    """Agreement of the two, what nobody can say, and the decided observables: all or none if `whole`."""
    found = undecided(scores, limit)
    decided = tuple(s.name for s in scores if s.name not in found)
    wrong = any(s.contradicts(limit) for s in scores)
    without = not wrong and (not decided or (whole and bool(found)))
    reason = why_undecided(found, scores, networks, without=without)
    if wrong:
        names = tuple(s.name for s in scores if s.name in decided or s.contradicts(limit))
        return False, reason, names
    return (None, reason, ()) if without else (True, reason, decided)


def _score(predicted: xr.Dataset, ensemble: xr.Dataset, names: Sequence[str]) -> Iterator[Scores]:
    rounding = _ROUNDING.get(str(ensemble.attrs.get("dtype", "float32")), 1e-5)
    rounding = max(rounding, float(ensemble.attrs.get("residual", 0.0)))
    epsilon = np.atleast_1d(predicted["expansion_parameter"].values)
    for name in names:
        dims = predicted[name].dims
        measured = ensemble[name].transpose(*dims)
        sem = ensemble[f"{name}_sem"].transpose(*dims)
        for what, data in ((name, predicted[name]), (name, measured), (f"{name}_sem", sem)):
            _require_finite(what, data)
        numbers = np.asarray(measured.values, dtype=np.float64)
        theirs = np.asarray(predicted[name].values, dtype=np.float64)
        if "layer" in dims:
            layers = np.asarray(predicted["layer"].values, dtype=int)
            mask = distinct(numbers.ndim - 1, numbers.shape[-1])
            scale = _rounding_scale(name, predicted, numbers)
            size = partial(_size, own=OBSERVABLES[name].own_scale)
            each = lost(epsilon, covariance=OBSERVABLES[name].covariance)
            still, beyond = epsilon == 0, epsilon > LARGE
        else:
            layers, mask = None, _trained.distinct([str(dim) for dim in dims], numbers.shape)
            scale = np.maximum(np.abs(numbers), np.abs(predicted[name].values)).max(initial=0.0)
            scale = np.full(numbers.shape, scale)
            size, each = _largest, lost(epsilon, covariance=False)
            still, beyond = np.array([(sem.values <= rounding * scale).all()]), np.zeros(1, bool)
        nu = freedom(ensemble.attrs, each)
        nu = nu.reshape(-1, *[1] * (numbers.ndim - 1)) if numbers.ndim else nu[0]
        # Where the theory is zero in a layer, the other layers say what would be large.
        scale = np.where(scale > 0, scale, scale.max(initial=0.0) or 1.0)
        found = np.asarray(sem.values, float) * shrunk(size(theirs), size(numbers))
        error = np.asarray(np.hypot(found, error_of(predicted, name)))
        yield Scores(
            name=name,
            layers=layers,
            predicted=theirs,
            measured=numbers,
            sem=error,
            bias=np.asarray(predicted[f"{name}_bias"].values, dtype=np.float64),
            floor=np.asarray(rounding * scale),
            distinct=np.broadcast_to(mask, numbers.shape),
            freedom=np.asarray(
                nu * np.divide(error, found, out=np.ones_like(error), where=found > 0) ** 4
            ),
            beside_another=name in _SMALL_BESIDE_ANOTHER,
            still=still,
            beyond=beyond,
        )


def _size(values: np.ndarray, *, own: bool) -> np.ndarray:
    """How large an observable is around each entry: by the diagonal of a positive matrix, or by layer."""
    if own:
        return root_of_diagonal(values)
    return _largest(values, axis=tuple(range(1, values.ndim)))


def _largest(values: np.ndarray, axis: tuple[int, ...] | None = None) -> np.ndarray:
    return np.broadcast_to(np.abs(values).max(axis=axis, keepdims=True, initial=0.0), values.shape)


def _rounding_scale(name: str, predicted: xr.Dataset, measured: np.ndarray) -> np.ndarray:
    """Scale to which rounding is relative: that of a positive matrix, else a layer's largest entry."""
    if OBSERVABLES[name].own_scale:
        return root_of_diagonal(np.asarray(predicted[name].values, dtype=np.float64))
    both = np.maximum(np.abs(measured), np.abs(predicted[name].values))
    return _largest(both, axis=tuple(range(1, both.ndim)))


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
