r"""Neurons that are sums of random layers, for many labels: what the product of two fields of one moves, exactly.

Two neurons have in common how the laws of each answer to the other one. A read-out answers to a unit by a form
$q$ in its preactivations $z$, and what this has in common with the product $z_1z_2$ of the neuron itself is
$$\mathrm{Cov}[q,z_az_b]=\sum_{st}g_{st}(K_{sa}K_{tb}+K_{sb}K_{ta}),$$
with tangents in place of a field $\Theta$ for $K$, and of two different letters one pairing. Whatever a read-out
has beyond its form is not correlated with it.

Source: derived; see `scalewise.theory.order._neurons`.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from jaxtyping import Float

from scalewise.theory.order._of_pairs import OfPairs
from scalewise.theory.order._second_chaos import Forms

Beside = Float[np.ndarray, "input label other"]  # covariances with a layer of one site
OfFour = Float[np.ndarray, "input input other other"]  # of a read-out, and of a product


def add_own(
    tensor: OfPairs,
    layer: int,
    kinds: tuple[Forms, Forms | None],
    beside: Sequence[Beside],
    share: float,
) -> None:
    """Add to a tensor what neurons have in common with their laws.

    Args:
        tensor: To be written to.
        layer: Its place among those that are kept.
        kinds: Forms of the metric and of the NTK in the population that the neurons are of.
        beside: Covariances of its preactivations with the neurons, and those of tangents.
        share: A factor of all covariances.
    """
    found = _covariances(tensor.letter, kinds, beside)
    if found is None:
        return
    several = (0, 1) if tensor.letter in "DF" else (0,)
    for later in range(tensor.shape[1]):
        for kind in several:
            rows = tensor.rows(layer, later, kind)
            upto, until = np.arange(len(rows))[:, None], tensor.until(later)
            over = tensor.ordered and kind == 1
            first, second = (later, upto) if over else (upto, later)
            one, other = tensor.first[:until], tensor.second[:until]
            turned = found[one, other, first, second]
            if tensor.alike:
                rows += share * (found[first, second, one, other] + turned)
            else:  # the metric is what neurons have of their own, and the NTK is what answers
                rows += share * (found[first, second, one, other] if kind else turned)


def _covariances(
    letter: str, kinds: tuple[Forms, Forms | None], beside: Sequence[Beside]
) -> OfFour | None:
    """Covariances of a read-out of two inputs with a product of two others; ``None`` where there are none."""
    metric, ntk = kinds
    if (
        letter == "A"
    ):  # of tangents of one letter there is nothing that differs from neuron to neuron
        return None
    if letter == "B":
        return _across(metric, beside[1], beside[1])
    if letter == "F":
        alone = _alone(metric, beside[0], beside[1])
        return _across(metric, beside[0], beside[1]) + 2 * alone.swapaxes(0, 1)
    forms = ntk if letter == "D" else metric
    assert forms is not None
    across, alone = (part(forms, beside[0], beside[0]) for part in (_across, _alone))
    return across + across.swapaxes(2, 3) + 2 * (alone + alone.swapaxes(0, 1))


def _across(forms: Forms, one: Beside, other: Beside) -> OfFour:
    """Parts across both inputs."""
    inputs, left = forms.inputs, one.swapaxes(1, 2)
    blocks = (forms.across[b].reshape(inputs, forms.size, -1) @ other[b] for b in range(inputs))
    return np.stack([left @ block for block in blocks], axis=1)


def _alone(forms: Forms, one: Beside, other: Beside) -> OfFour:
    """Parts of the first input alone."""
    if forms.own.ndim == 3:
        return np.einsum("abs,asc,asd->abcd", forms.own, one, other, optimize=True)
    return np.einsum("abst,asc,atd->abcd", forms.own, one, other, optimize=True)
