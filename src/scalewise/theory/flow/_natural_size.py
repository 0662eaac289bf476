r"""Natural sizes of coefficients of 1/n: those of their dimension, where no cancellation makes one small.

An entry of $A$ to $U$ may vanish by a symmetry or by chance, in a layer or between two inputs, and what comes at
the next order in 1/n need not vanish with it: it is fed by all tensors of the same dimension $K^p\Theta^q$. So
each of them has the size of the largest, of one input alone and with every expectation taken by its absolute
value:
$$|X|_{p,q}^{(\ell)}=\max_{Y\in(p,q)}\ \max_a\ \overline Y_{aaaa}^{(\ell)},$$
$\overline Y$ the majorant of its recursion. What is neglected of a tensor is then of size
$\epsilon^{(\ell)}|X|_{p,q}^{(\ell)}$, with $\epsilon$ the relative variance of the metric. The 1/n correction of an
observable is one order of that observable, $n\epsilon$ times its size.

Source: derived; `benchmarks/neglected_orders.py` measures how much of it is used.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from jaxtyping import Float

from scalewise._checked import checked
from scalewise.networks.spi import Plain
from scalewise.observables import OBSERVABLES
from scalewise.theory.single._single_input import single_input_majorants

# Majorants are smooth functions of K_aa: a few inputs, extremes included, tell their maxima.
_INPUTS = 16


@checked
def natural_sizes(
    net: Plain, K: Float[np.ndarray, "layer sample"], names: Sequence[str]
) -> dict[str, Float[np.ndarray, " layer"]]:
    """The size of each observable whose own entries do not say it, at every layer.

    Args:
        net: The network.
        K: Diagonal kernel at every layer.
        names: Observables; those whose own diagonal says it are left out.

    Returns:
        By name, coefficients of 1/n of the layer below, in the units of the observable; positive beyond the
        first layer.

    Raises:
        ValueError: If a bound leaves the range of float64.

    Example:
        >>> import numpy as np, scalewise as sw
        >>> from scalewise.theory.flow import natural_sizes
        >>> net = sw.MLP(3, 64, "relu", input_dim=1, output_dim=1, C_W=2.0)
        >>> sizes = natural_sizes(net, np.ones((3, 1)), ["dntk_P", "dntk_Q"])
        >>> bool(sizes["dntk_P"][2] == sizes["dntk_Q"][2] > 0)  # P itself vanishes for ReLU
        True
    """
    wanted = [name for name in names if not OBSERVABLES[name].own_scale]
    if not wanted:
        return {}
    order = np.argsort(K[0])
    few = np.unique(order[np.linspace(0, len(order) - 1, _INPUTS).round().astype(int)])
    found = single_input_majorants(net, K[:, few])
    V, square = found["V"], K[:, few] ** 2
    # A kernel of 0 does not fluctuate.
    relative = np.divide(V, square, out=np.zeros_like(V), where=square > 0).max(axis=1)
    found["K"] = K[:, few]
    sizes = {}
    for name in wanted:
        row = OBSERVABLES[name]
        if row.corrects:
            leading = found[OBSERVABLES[row.corrects].letter]
            sizes[name] = relative * leading.max(axis=1)
            continue
        same = [
            found[its.letter]
            for its in OBSERVABLES.values()
            if (its.dimension, its.order) == (row.dimension, row.order) and its.letter in found
        ]
        sizes[name] = np.max(same, axis=(0, 2))
    return sizes
