r"""What the next order in 1/n is measured by: how far NTKs scatter, and how large tensors of one kind are.

An observable with $q$ factors of the NTK meets, at the next order, the fluctuations of the metric once and those of
each NTK. Its small parameter is
$$\epsilon+q\,\epsilon_\Theta,\qquad
\epsilon_\Theta^{(\ell)}=\tfrac12\max_a\frac{(A+2B)_{aaaa}^{(\ell)}}{n_{\ell-1}(\Theta_{aa}^{(\ell)})^2},$$
with $\epsilon$ the relative variance of the metric and $\epsilon_\Theta$ half that of the NTK of one output, by
which the mean of a product of independent factors moves. Others move it by the whole: where
weights are used again, of all layers up to this one the largest, and where norms are below; these add the
relative variance of what they divide by, for every power of an inverse norm has a mean of its own.

An entry of $A$ to $U$ may vanish by a symmetry or by chance, in a layer or between two inputs, and what comes at
the next order need not vanish with it: an expectation of several neurons mixes all tensors that differ in how their
outputs are paired. So what is neglected of $X$ is that parameter times
$$\max|X|+\max_{Y,a}|Y_{aaaa}|$$
over the tensors $Y$ of its kind: $A,B$; $D,F$; $P,Q$; $R,S,T,U$. The 1/n correction of an observable is one
order of that observable, $n\epsilon$ times its size.

Source: derived; `benchmarks/neglected_orders.py` measures how much of it is used.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
from jaxtyping import Float

from scalewise._checked import checked
from scalewise.observables import OBSERVABLES, Observable

INDEPENDENT = 0.5  # of a variance, in the mean of a product
Alone = Float[np.ndarray, "layer input"]  # of each of some inputs alone
_SPREAD = {"A": 1, "B": 2}  # what the variance of the NTK of one output is made of, and how often


@checked
def of_one_input(names: Sequence[str]) -> tuple[str, ...]:
    """Letters of the tensors of one input alone that tell how large what is neglected of observables is.

    Args:
        names: The observables.

    Example:
        >>> from scalewise.theory.flow import of_one_input
        >>> of_one_input(["kernel", "ntk_D"])
        ('A', 'B', 'D', 'F')
    """
    sized = [row for name in names if not (row := OBSERVABLES[name]).own_scale]
    letters = {its.letter for row in sized if not row.corrects for its in _kind(row)}
    return tuple(sorted({*_SPREAD, *letters})) if sized else ()


@checked
def ntk_variance(alone: Mapping[str, Alone]) -> Float[np.ndarray, " layer"]:
    r"""The relative variance of the NTK of one output, times the width of the layer below; dimensionless.

    Args:
        alone: By letter, of some inputs: $\Theta$ with $A$ and $B$, as far as they exist.

    Returns:
        $\max_a(A+2B)_{aaaa}/\Theta_{aa}^2$ at every layer.

    Example:
        >>> import numpy as np
        >>> from scalewise.theory.flow import ntk_variance
        >>> ntk_variance({"Theta": np.full((1, 1), 2.0), "B": np.ones((1, 1))})
        array([0.5])
    """
    Theta = alone["Theta"]
    found = np.zeros_like(Theta)
    for letter, times in _SPREAD.items():
        found += times * alone.get(letter, 0.0)
    # What does not learn does not fluctuate.
    return np.divide(found, Theta**2, out=np.zeros_like(Theta), where=Theta > 0).max(axis=1)


@checked
def natural_sizes(
    alone: Mapping[str, Alone], relative: Float[np.ndarray, " layer"], names: Sequence[str]
) -> dict[str, Float[np.ndarray, " layer"]]:
    r"""The size of each observable whose own entries do not say it, at every layer.

    Args:
        alone: By letter, of some inputs: the tensors of `of_one_input` as far as they exist, and $\Theta$.
        relative: $n\epsilon$, the relative variance of the metric times the width of the layer below.
        names: Observables; those whose own diagonal says it are left out.

    Returns:
        By name, coefficients of 1/n of the layer below, in the units of the observable: the largest of its kind.

    Example:
        >>> import numpy as np
        >>> from scalewise.theory.flow import natural_sizes
        >>> alone = {"Theta": np.ones((1, 1)), "P": np.zeros((1, 1)), "Q": np.full((1, 1), 0.4)}
        >>> natural_sizes(alone, np.ones(1), ["dntk_P"])["dntk_P"]  # P itself vanishes, as for ReLU
        array([0.4])
    """
    sizes = {}
    for name in names:
        row = OBSERVABLES[name]
        if row.own_scale:
            continue
        if row.corrects:
            leading = alone[OBSERVABLES[row.corrects].letter]
            sizes[name] = relative * leading.max(axis=1)
        else:
            of_kind = [alone[its.letter] for its in _kind(row) if its.letter in alone]
            sizes[name] = np.abs(of_kind).max(axis=(0, 2))
    return sizes


def _kind(row: Observable) -> list[Observable]:
    """What scales as an observable does and is made of as many derivatives: outputs are paired in other ways."""
    kind = (row.dimension, row.order, row.takes_jets)
    return [
        its
        for its in OBSERVABLES.values()
        if (its.dimension, its.order, its.takes_jets) == kind
        and not its.own_scale
        and not its.corrects
    ]
