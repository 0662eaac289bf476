r"""What the theory says of networks of a finite width, and of ensembles extrapolated in the width.

No observable is known here by its name. A result is a Dataset; a variable of it has a dimension ``layer`` and an
even number of sample dimensions. The table of observables says which of them corrects another, and whether it is a
positive matrix over the halves of its samples; how large the others could be, the result says itself.
"""

from collections.abc import Sequence
from typing import Annotated

import numpy as np
import xarray as xr
from jaxtyping import Float

from scalewise._checked import Must, checked
from scalewise._labelled import dataset, variable
from scalewise.comparison import _trained
from scalewise.comparison._shapes import companion, error_of, hidden_widths
from scalewise.networks.spi import Widths
from scalewise.observables import OBSERVABLES

# Preactivations of layer 1 are Gaussian: layer 2 has no order beyond 1/n, if no norm stands between.
EXACT_LAYERS = 2


Prediction = Annotated[
    xr.Dataset,
    Must(
        "a prediction, what `predict` or `predict_training` returned",
        lambda data: data.attrs.get("kind") in ("theory", _trained.THEORY),
    ),
]


@checked
def at_width(theory: Prediction, width: Widths | None = None) -> xr.Dataset:
    r"""The prediction for networks of a given finite width: leading order plus $1/n$.

    $$G^{(\ell)}=K^{(\ell)}+\frac{1}{n_{\ell-1}}G^{\{1\}(\ell)}\pm
    \big(\epsilon^{(\ell)}\big)^2\sqrt{K_{aa}K_{bb}},\qquad
    \epsilon^{(\ell)}=\max_{a\le b}\frac{V_{(ab)(ab)}^{(\ell)}}{n_{\ell-1}K_{aa}^{(\ell)}K_{bb}^{(\ell)}}.$$

    Layer 1 is exact and layer 2 too, but behind a norm: its coefficient of 1/n is all there is. The NTK with its
    ``ntk_nlo`` is treated as the kernel. What is known to leading order only (the fluctuations, a kernel
    or NTK without its correction) keeps its value. Where it is positive semidefinite it gets the bias
    $\epsilon^{(\ell)}\sqrt{X_{ii}X_{jj}}$ with $i$, $j$ the halves of its sample indices; the NTK of layers of
    every kind gets $\sqrt{\epsilon\epsilon_\Theta}\,\Theta$ where that is more. The other fluctuations get
    $$\big(\epsilon^{(\ell)}+q\,\epsilon_\Theta^{(\ell)}\big)\big(\max|X|+|X|_{\rm kind}\big),$$
    with $q$ the powers of the NTK that they scale with, $\epsilon_\Theta$ what `predict` returned as
    ``ntk_expansion_parameter``, and $|X|_{\rm kind}$ the largest of their kind, its ``<name>_size``, because an
    entry may be small by chance.

    Of networks that were trained, leading order and coefficient are added likewise, $n$ the width of the last
    hidden layer, and the small parameter is ``learning_parameter`` over $n$: what is neglected is stated as
    that share of the coefficient's largest entry, over $n$; three times that share of what begins at order 1/n,
    as the change of the NTK does, a product of three factors. It grows with the number of samples and the
    condition of the NTK; above 1/2 the expansion says little, and a warning says so. Where training moves
    neurons over kinks, the coefficient is divided by $\sqrt n$, and what is neglected, of order $1/n$, is
    stated as the small parameter times the leading order.

    Args:
        theory: What `predict` returned, or `predict_training` with ``learning_parameter``.
        width: $n$ of the first hidden layer (the ratios of the hidden widths are kept), or all
            hidden widths in those ratios, or ``None`` for the network's own.

    Returns:
        A Dataset over the same dimensions with ``kind="theory at width"``; ``metric_nlo`` and
        ``ntk_nlo`` are folded into ``kernel`` and ``ntk``. For every observable ``<name>_bias`` is the
        stated size of the first order that was neglected, in the units of the observable: a scale, not
        a bound.

    Raises:
        ValueError: If `theory` is not a prediction, the widths are not whole numbers in the
            ratios that the prediction was made for, or its small parameter is not known.

    Source: PDLT (4.104)-(4.106); $\epsilon$ is the largest relative variance of the metric, (4.76). The bias of
        fluctuations is derived, and measured in ``benchmarks/results/neglected_orders.md``.

    Example:
        >>> import scalewise as sw
        >>> import numpy as np
        >>> net = sw.MLP(3, 64, "linear", input_dim=2, output_dim=1)
        >>> finite = sw.at_width(sw.predict(net, np.eye(2)), 128)
        >>> finite.attrs["kind"], finite.attrs["hidden_widths"]
        ('theory at width', [128, 128])
    """
    if theory.attrs["kind"] == _trained.THEORY:
        return _trained.at_width(theory, hidden_widths(theory, width))
    hidden = hidden_widths(theory, width)
    widths = (theory.attrs["input_dim"], *hidden, theory.attrs["output_dim"])
    layers = np.asarray(theory["layer"].values, dtype=int)
    below = np.array([float(widths[layer - 1]) for layer in layers])
    exact = _exact(theory)
    out: dict[str, xr.Variable] = {}
    for name in present(theory):
        if OBSERVABLES[name].corrects in theory:
            continue
        value, error = theory[name].variable, error_of(theory, name)
        order = _order(name, theory, hidden)
        correction = next((c for c in present(theory) if OBSERVABLES[c].corrects == name), None)
        if correction is not None:
            share = _column(np.where(layers == 1, 0.0, 1.0 / below), value.ndim)
            value = variable(
                value.dims, value.values + share * theory[correction].values, value.attrs
            )
            error = np.hypot(error, share * error_of(theory, correction))
            order = order**2
        out[name] = value
        if error.any():
            out[f"{name}_error"] = companion(theory, name, error, "numerical error of")
        order = np.where(layers <= exact, 0.0, order)
        bias = _column(order, value.ndim) * natural_scale(name, theory)
        out[f"{name}_bias"] = companion(theory, name, bias, "stated finite-width bias of")
    out.update(_smallness(theory, hidden))
    attrs = {**theory.attrs, "kind": "theory at width", "hidden_widths": list(hidden)}
    return dataset(out, coords=theory.coords, attrs=attrs)


def at_infinite_width(theory: xr.Dataset, ensemble: xr.Dataset) -> xr.Dataset:
    """The coefficients themselves, with the bias that the extrapolation leaves in them."""
    degree = int(ensemble.attrs["extrapolation_degree"])
    widths = sorted(ensemble.attrs["widths"])[: degree + 1]
    # A weighted fit of degree d is a mean, with positive weights, of the interpolations through
    # d+1 of its points; the remainder of one interpolation is largest at the smallest widths.
    hidden = [hidden_widths(theory, w) for w in widths]
    exact = _exact(theory)
    own = np.asarray(theory["expansion_parameter"].values, dtype=np.float64)
    layers = np.asarray(theory["layer"].values, dtype=int)
    below = np.array([1.0, *theory.attrs["hidden_widths"]])[layers - 1]
    out: dict[str, xr.Variable] = {}
    for name in present(theory):
        data = theory[name]
        base = OBSERVABLES[name].corrects
        orders = np.stack([_order(name, theory, each) for each in hidden])
        intercept = np.prod(orders, axis=0)
        slope = sum(np.prod(np.delete(orders, i, axis=0), axis=0) for i in range(len(widths)))
        if not base:
            order, scale = intercept, natural_scale(name, theory)
        elif base in theory:
            order, scale = slope * own * below, natural_scale(base, theory)
        else:
            order, scale = slope, natural_scale(name, theory)
        order = np.where(layers <= exact, 0.0, order)
        out[name] = data.variable
        if f"{name}_error" in theory:
            out[f"{name}_error"] = theory[f"{name}_error"].variable
        out[f"{name}_bias"] = companion(
            theory, name, _column(order, data.ndim) * scale, "stated extrapolation bias of"
        )
    out.update(_smallness(theory, hidden[0]))
    attrs = {**theory.attrs, "widths": list(ensemble.attrs["widths"])}
    return dataset(out, coords=theory.coords, attrs=attrs)


def _exact(theory: xr.Dataset) -> int:
    """The layer up to which nothing beyond 1/n is neglected."""
    _require(theory, "expansion_parameter")
    return int(theory["expansion_parameter"].attrs.get("exact_layers", EXACT_LAYERS))


def _order(name: str, theory: xr.Dataset, hidden: Sequence[int]) -> Float[np.ndarray, "layer"]:
    """What one order in 1/n is of an observable: it meets the fluctuations of every NTK that it is made of."""
    row, epsilon = OBSERVABLES[name], _at(hidden, theory, "expansion_parameter")
    if row.own_scale or row.corrects:
        return epsilon
    return epsilon + row.dimension[1] * _at(hidden, theory, "ntk_expansion_parameter")


def _at(hidden: Sequence[int], theory: xr.Dataset, name: str) -> Float[np.ndarray, "layer"]:
    """A parameter of every layer that falls with the width, at other hidden widths in the same ratios."""
    _require(theory, name)
    own = theory.attrs["hidden_widths"]
    ratio = own[0] / hidden[0] if len(own) else 1.0
    return np.asarray(theory[name].values, dtype=np.float64) * ratio


def _require(theory: xr.Dataset, name: str) -> None:
    if name not in theory:
        raise ValueError(
            f"`theory` has no variable `{name}`, so its finite-width bias is unknown; pass what `predict` "
            "returned."
        )


def natural_scale(name: str, theory: xr.Dataset) -> Float[np.ndarray, "layer *samples"]:
    """How large what is neglected of an entry can be, in units of the small parameter of the observable."""
    values = np.asarray(theory[name].values, dtype=np.float64)
    shape, row = values.shape, OBSERVABLES[name]
    if row.own_scale:
        root = root_of_diagonal(values)
        if f"{name}_size" not in theory:
            return root
        largest = _largest(root)
        more = np.divide(
            theory[f"{name}_size"].values, largest, out=np.ones_like(largest), where=largest > 0
        )
        return _column(more, values.ndim) * root
    _require(theory, f"{name}_size")
    size = theory[f"{name}_size"].values
    # Beside the largest of its kind its own: one order of it is at least the small parameter times what it is.
    size = np.maximum(size, _largest(values)) if row.corrects else size + _largest(values)
    return np.broadcast_to(_column(size, values.ndim), shape)


def _largest(values: np.ndarray) -> np.ndarray:
    return np.abs(values).reshape(len(values), -1).max(axis=1)


def root_of_diagonal(
    values: Float[np.ndarray, "layer *samples"],
) -> Float[np.ndarray, "layer *samples"]:
    r"""$\sqrt{X_{ii}X_{jj}}$ of every entry $ij$ of a matrix over the halves of its samples."""
    shape = values.shape
    half = int(np.prod(shape[1 : 1 + (len(shape) - 1) // 2], dtype=int))
    root = np.sqrt(np.abs(np.einsum("lii->li", values.reshape(shape[0], half, half))))
    return (root[:, :, None] * root[:, None, :]).reshape(shape)


def _smallness(theory: xr.Dataset, hidden: Sequence[int]) -> dict[str, xr.Variable]:
    """The small parameters at hidden widths, and the sizes of what is there, as `predict` returned them."""
    sizes = [name for x in present(theory) if (name := f"{x}_size") in theory]
    found = {name: theory[name].variable for name in sizes}
    for name in ("expansion_parameter", "ntk_expansion_parameter"):
        if name in theory:
            values = _at(hidden, theory, name)
            found[name] = variable(("layer",), values, theory[name].attrs)
    return found


def _column(values: np.ndarray, ndim: int) -> np.ndarray:
    return np.asarray(values, dtype=np.float64).reshape(-1, *([1] * (ndim - 1)))


def present(data: xr.Dataset) -> list[str]:
    return [name for name in OBSERVABLES if name in data]
