r"""Tensors with their neurons: from the letters of the theory to whole expectations.

Four neurons pair in three ways, and each pairing carries one tensor. Arrays have the four neurons first
and then the four samples, each in the order in which the expectation names them, as the arrays of
`scalewise.nets.layer_tensors` do.

Source: PDLT (4.77), (8.67), (8.82), (11.45), (∞.11), (∞.12).
"""

from __future__ import annotations

import numpy as np
from jaxtyping import Float

from scalewise._checked import Count, checked
from scalewise.networks.spi import Width

Tensor = Float[np.ndarray, "sample sample sample sample"]
Full = Float[np.ndarray, "neuron neuron neuron neuron sample sample sample sample"]
Term = tuple[str, str]
# Of neurons and samples in four places a, b, c, d, the tensor that comes with each pairing of the neurons, and
# the places of its samples in the order in which it has them.
_PAIRINGS = ("ab,cd", "ac,bd", "ad,bc")
_TENSORS: dict[str, tuple[Term, Term, Term]] = {
    "zzzz": (("V", "abcd"), ("V", "acbd"), ("V", "adbc")),
    "zzH": (("D", "abcd"), ("F", "acbd"), ("F", "adbc")),
    "HH": (("A", "abcd"), ("B", "acbd"), ("B", "adbc")),
    "dHz": (("Q", "abcd"), ("Q", "acbd"), ("P", "abcd")),
    "ddH_I": (("R", "abcd"), ("R", "acdb"), ("R", "adbc")),
    "ddH_II": (("S", "abcd"), ("T", "acdb"), ("U", "adbc")),
}


def pairings(expectation: str) -> tuple[tuple[str, str, str], ...]:
    """The terms of an expectation over four neurons, for whoever contracts them without ever making it whole.

    For each pairing of the neurons: the pairs of places, the letter of the tensor, the places of its samples.
    """
    terms = zip(_PAIRINGS, _TENSORS[expectation], strict=True)
    return tuple((pairs, letter, places) for pairs, (letter, places) in terms)


@checked
def neuron_tensor(expectation: str, n: Width, neurons: Count, **tensors: Tensor) -> Full:
    r"""An expectation over four neurons, whole, from the tensors of the theory.

    $$\begin{aligned}
    \mathbb E[z_1z_2z_3z_4]_c&=\tfrac1n\big[\delta_{i_1i_2}\delta_{i_3i_4}V_{(12)(34)}
      +\delta_{i_1i_3}\delta_{i_2i_4}V_{(13)(24)}+\delta_{i_1i_4}\delta_{i_2i_3}V_{(14)(23)}\big]\\
    \mathbb E[z_1z_2\widehat{\Delta H}_{34}]&=\tfrac1n\big[\delta_{i_1i_2}\delta_{i_3i_4}D_{1234}
      +\delta_{i_1i_3}\delta_{i_2i_4}F_{1324}+\delta_{i_1i_4}\delta_{i_2i_3}F_{1423}\big]\\
    \mathbb E[\widehat{\Delta H}_{12}\widehat{\Delta H}_{34}]&=\tfrac1n\big[\delta_{i_1i_2}\delta_{i_3i_4}
      A_{(12)(34)}+\delta_{i_1i_3}\delta_{i_2i_4}B_{1324}+\delta_{i_1i_4}\delta_{i_2i_3}B_{1423}\big]\\
    \mathbb E[\widehat{dH}_{012}z_3]&=\tfrac1n\big[\delta_{i_0i_3}\delta_{i_1i_2}P_{0123}
      +\delta_{i_0i_1}\delta_{i_2i_3}Q_{0123}+\delta_{i_0i_2}\delta_{i_1i_3}Q_{0213}\big]\\
    \mathbb E[\widehat{dd_IH}_{0123}]&=\tfrac1n\big[\delta_{i_0i_1}\delta_{i_2i_3}R_{0123}
      +\delta_{i_0i_2}\delta_{i_3i_1}R_{0231}+\delta_{i_0i_3}\delta_{i_1i_2}R_{0312}\big]\\
    \mathbb E[\widehat{dd_{II}H}_{1234}]&=\tfrac1n\big[\delta_{i_1i_2}\delta_{i_3i_4}S_{1234}
      +\delta_{i_1i_3}\delta_{i_4i_2}T_{1342}+\delta_{i_1i_4}\delta_{i_2i_3}U_{1423}\big]
    \end{aligned}$$

    Args:
        expectation: Which, in the order above: ``"zzzz"``, ``"zzH"``, ``"HH"``, ``"dHz"``, ``"ddH_I"`` or
            ``"ddH_II"``.
        n: $n_{\ell-1}$.
        neurons: How many neurons.
        **tensors: Its tensors by letter, as `predict` returns them at one layer, in the printed order of
            their indices.

    Returns:
        Four neurons, then four samples; in units of the tensors. ``"zzzz"``: $O(1/n^2)$ neglected; the others
        exact in layer 2, elsewhere the same.

    Raises:
        ValueError: If the expectation is unknown, its tensors are not those given, one has other than four
            equal axes, or a number is below 1.

    Source: PDLT (4.77), (8.67), (8.82), (11.45), (∞.11), (∞.12).

    Example:
        >>> import numpy as np
        >>> from scalewise.theory.correlators import neuron_tensor
        >>> float(neuron_tensor("zzzz", 100, 1, V=np.full((1,) * 4, 2.0)).item())  # 3V/n
        0.06
    """
    if expectation not in _TENSORS:
        raise ValueError(
            f"`expectation` must be one of {', '.join(map(repr, _TENSORS))}; got {expectation!r}."
        )
    terms = pairings(expectation)
    if set(tensors) != {letter for _, letter, _ in terms}:
        raise ValueError(
            f"{expectation!r} is made of {', '.join(sorted({letter for _, letter, _ in terms}))}; got "
            f"{', '.join(sorted(tensors)) or 'none'}. Pass these, each by its letter."
        )
    shape = next(iter(tensors.values())).shape[:1] * 4
    eye = np.eye(neurons)
    total = np.zeros((neurons,) * 4 + shape)
    for pairing, letter, places in terms:
        tensor = tensors[letter]
        if tensor.shape != shape or not shape or not np.all(np.isfinite(tensor)):
            raise ValueError(
                f"`{letter}` must be finite, with four equal axes, one for each sample index; got shape "
                f"{tensor.shape}."
            )
        total += np.einsum(f"{pairing.upper()},{places}->ABCDabcd", eye, eye, tensor)
    return total / n
