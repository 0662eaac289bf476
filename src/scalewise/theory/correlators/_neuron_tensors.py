r"""Tensors with their neurons: from the letters of the theory to whole expectations.

Four neurons pair in three ways, and each pairing carries one tensor. Arrays have the four neurons first
and then the four samples, each in the order in which the expectation names them, as the arrays of
`scalewise.nets.layer_tensors` do.

Source: PDLT (4.77), (8.67), (8.82), (11.45), (∞.11), (∞.12).
"""

from __future__ import annotations

import numpy as np
from jaxtyping import Float

__all__ = [
    "four_preactivations",
    "mean_first_ddntk",
    "mean_second_ddntk",
    "ntk_with_ntk",
    "preactivation_with_dntk",
    "preactivations_with_ntk",
]

Tensor = Float[np.ndarray, "sample sample sample sample"]
Full = Float[np.ndarray, "neuron neuron neuron neuron sample sample sample sample"]


def four_preactivations(V: Tensor, n: float | int, neurons: int) -> Full:
    r"""The connected four-point function of preactivations.

    $$\mathbb E[z_1z_2z_3z_4]_c=\frac1{n_{\ell-1}}\big[\delta_{i_1i_2}\delta_{i_3i_4}V_{(12)(34)}
      +\delta_{i_1i_3}\delta_{i_2i_4}V_{(13)(24)}+\delta_{i_1i_4}\delta_{i_2i_3}V_{(14)(23)}\big]$$

    Args:
        V: ``four_point_vertex``; preactivation⁴.
        n: $n_{\ell-1}$.
        neurons: How many neurons.

    Returns:
        ($i_1,i_2,i_3,i_4$, sample 1, 2, 3, 4); preactivation⁴, $O(1/n^2)$ neglected.

    Raises:
        ValueError: If the tensor has other than four equal axes, or a number is below 1.

    Source: PDLT (4.77).

    Example:
        >>> import numpy as np
        >>> from scalewise.theory.correlators import four_preactivations
        >>> float(four_preactivations(np.full((1,) * 4, 2.0), 100, 1).item())  # 3V/n
        0.06
    """
    return _assembled(n, neurons, ("V", V, "abcd"), ("V", V, "acbd"), ("V", V, "adbc"))


def preactivations_with_ntk(D: Tensor, F: Tensor, n: float | int, neurons: int) -> Full:
    r"""Correlation of two preactivations with the fluctuation of the NTK.

    $$\mathbb E[z_{i_1;1}z_{i_2;2}\widehat{\Delta H}_{i_3i_4;34}]=\frac1{n_{\ell-1}}\big[
      \delta_{i_1i_2}\delta_{i_3i_4}D_{1234}+\delta_{i_1i_3}\delta_{i_2i_4}F_{1324}
      +\delta_{i_1i_4}\delta_{i_2i_3}F_{1423}\big]$$

    Args:
        D: ``ntk_D``; preactivation² times NTK.
        F: ``ntk_F``, in the order 1, 3, 2, 4.
        n: $n_{\ell-1}$.
        neurons: How many neurons.

    Returns:
        ($i_1,i_2,i_3,i_4$, sample 1, 2, 3, 4); exact in layer 2, elsewhere $O(1/n^2)$ neglected.

    Raises:
        ValueError: As `four_preactivations`.

    Source: PDLT (8.67).
    """
    return _assembled(n, neurons, ("D", D, "abcd"), ("F", F, "acbd"), ("F", F, "adbc"))


def ntk_with_ntk(A: Tensor, B: Tensor, n: float | int, neurons: int) -> Full:
    r"""Covariance of the NTK.

    $$\mathbb E[\widehat{\Delta H}_{i_1i_2;12}\widehat{\Delta H}_{i_3i_4;34}]=\frac1{n_{\ell-1}}\big[
      \delta_{i_1i_2}\delta_{i_3i_4}A_{(12)(34)}+\delta_{i_1i_3}\delta_{i_2i_4}B_{1324}
      +\delta_{i_1i_4}\delta_{i_2i_3}B_{1423}\big]$$

    Args:
        A: ``ntk_A``; NTK².
        B: ``ntk_B``, in the order 1, 3, 2, 4.
        n: $n_{\ell-1}$.
        neurons: How many neurons.

    Returns:
        ($i_1,i_2,i_3,i_4$, sample 1, 2, 3, 4); exact in layer 2, elsewhere $O(1/n^2)$ neglected.

    Raises:
        ValueError: As `four_preactivations`.

    Source: PDLT (8.82).
    """
    return _assembled(n, neurons, ("A", A, "abcd"), ("B", B, "acbd"), ("B", B, "adbc"))


def preactivation_with_dntk(P: Tensor, Q: Tensor, n: float | int, neurons: int) -> Full:
    r"""Correlation of the dNTK with a preactivation.

    $$\mathbb E[\widehat{dH}_{i_0i_1i_2;012}\,z_{i_3;3}]=\frac1{n_{\ell-1}}\big[
      \delta_{i_0i_3}\delta_{i_1i_2}P_{0123}+\delta_{i_0i_1}\delta_{i_2i_3}Q_{0123}
      +\delta_{i_0i_2}\delta_{i_1i_3}Q_{0213}\big]$$

    Args:
        P: ``dntk_P``; NTK².
        Q: ``dntk_Q``; NTK².
        n: $n_{\ell-1}$.
        neurons: How many neurons.

    Returns:
        ($i_0,i_1,i_2,i_3$, sample 0, 1, 2, 3); exact in layer 2, elsewhere $O(1/n^2)$ neglected.

    Raises:
        ValueError: As `four_preactivations`.

    Source: PDLT (11.45).
    """
    return _assembled(n, neurons, ("Q", Q, "abcd"), ("Q", Q, "acbd"), ("P", P, "abcd"))


def mean_first_ddntk(R: Tensor, n: float | int, neurons: int) -> Full:
    r"""Mean of the first ddNTK.

    $$\mathbb E[\widehat{dd_IH}_{i_0i_1i_2i_3;0123}]=\frac1{n_{\ell-1}}\big[
      \delta_{i_0i_1}\delta_{i_2i_3}R_{0123}+\delta_{i_0i_2}\delta_{i_3i_1}R_{0231}
      +\delta_{i_0i_3}\delta_{i_1i_2}R_{0312}\big]$$

    Args:
        R: ``ddntk_R``; NTK³ / preactivation².
        n: $n_{\ell-1}$.
        neurons: How many neurons.

    Returns:
        ($i_0,i_1,i_2,i_3$, sample 0, 1, 2, 3); exact in layer 2, elsewhere $O(1/n^2)$ neglected.

    Raises:
        ValueError: As `four_preactivations`.

    Source: PDLT (∞.11).
    """
    return _assembled(n, neurons, ("R", R, "abcd"), ("R", R, "acdb"), ("R", R, "adbc"))


def mean_second_ddntk(S: Tensor, T: Tensor, U: Tensor, n: float | int, neurons: int) -> Full:
    r"""Mean of the second ddNTK.

    $$\mathbb E[\widehat{dd_{II}H}_{i_1i_2i_3i_4;1234}]=\frac1{n_{\ell-1}}\big[
      \delta_{i_1i_2}\delta_{i_3i_4}S_{1234}+\delta_{i_1i_3}\delta_{i_4i_2}T_{1342}
      +\delta_{i_1i_4}\delta_{i_2i_3}U_{1423}\big]$$

    Args:
        S: ``ddntk_S``; NTK³ / preactivation².
        T: ``ddntk_T``, in the order 1, 3, 4, 2.
        U: ``ddntk_U``, in the order 1, 4, 2, 3.
        n: $n_{\ell-1}$.
        neurons: How many neurons.

    Returns:
        ($i_1,i_2,i_3,i_4$, sample 1, 2, 3, 4); exact in layer 2, elsewhere $O(1/n^2)$ neglected.

    Raises:
        ValueError: As `four_preactivations`.

    Source: PDLT (∞.12).
    """
    return _assembled(n, neurons, ("S", S, "abcd"), ("T", T, "acdb"), ("U", U, "adbc"))


def _assembled(n: float | int, neurons: int, *terms: tuple[str, np.ndarray, str]) -> np.ndarray:
    """Sum over the three pairings of positions (first, second, third, fourth) = (i, j, k, l).

    Each term names the samples a, b, c, d of these positions in the order in which its tensor has them.
    """
    if neurons < 1 or not (np.isfinite(n) and n >= 1):
        raise ValueError(f"`n` and `neurons` must be at least 1; got {n} and {neurons}.")
    samples = terms[0][1].shape[0] if terms[0][1].ndim else 0
    eye = np.eye(neurons)
    total = np.zeros((neurons,) * 4 + (samples,) * 4)
    for pairing, (name, tensor, order) in zip(("ij,kl", "ik,jl", "il,jk"), terms, strict=True):
        if tensor.shape != (samples,) * 4 or not np.all(np.isfinite(tensor)):
            raise ValueError(
                f"`{name}` must be finite, with four equal axes, one for each sample index; got shape "
                f"{tensor.shape}."
            )
        total += np.einsum(f"{pairing},{order}->ijklabcd", eye, eye, tensor)
    return total / n
