r"""Entropies of discrete distributions: the definitions that the continuous ones carry over.

Natural logarithms: nats. A state of probability 0 adds nothing.

Source: PDLT appendix A.1, with two misprints corrected: the sum of (A.14) runs over both variables,
and the inequality of (A.9) is the other way round.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from jaxtyping import Float

from scalewise._arrays import float_array
from scalewise._checked import FiniteNumber, checked
from scalewise.networks.spi import Numbers


@checked
def entropy(p: Numbers) -> float:
    r"""$\mathcal S[p]=-\sum_xp(x)\log p(x)$.

    Args:
        p: Probabilities, any shape; they add up to 1.

    Returns:
        The entropy in nats, from 0 to the logarithm of the number of states.

    Raises:
        ValueError: If `p` is not a distribution.

    Source: PDLT (A.1)-(A.6).

    Example:
        >>> from scalewise.theory.information import entropy
        >>> print(f"{entropy([0.5, 0.25, 0.25]):.6f}")
        1.039721
    """
    table = _distribution("p", p)
    seen = table[table > 0]
    return float(-np.sum(seen * np.log(seen))) + 0.0


@checked
def cross_entropy(p: Numbers, q: Numbers) -> float:
    r"""$\mathcal S[p,q]=-\sum_xp(x)\log q(x)$.

    Args:
        p: Probabilities.
        q: Probabilities of the same states.

    Returns:
        The cross entropy in nats; infinite if `q` excludes a state of `p`.

    Raises:
        ValueError: If one is not a distribution or the shapes differ.

    Source: PDLT (A.12).
    """
    first, second = _distribution("p", p), _distribution("q", q)
    if first.shape != second.shape:
        raise ValueError(
            "`p` and `q` must be distributions over the same states; got shapes "
            f"{first.shape} and {second.shape}."
        )
    seen = first > 0
    if np.any(second[seen] == 0):
        return math.inf
    return float(-np.sum(first[seen] * np.log(second[seen])))


@checked
def kl_divergence(p: Numbers, q: Numbers) -> float:
    r"""$KL[p\|q]=\sum_xp(x)\log\frac{p(x)}{q(x)}=\mathcal S[p,q]-\mathcal S[p]$.

    Args:
        p: Probabilities.
        q: Probabilities of the same states.

    Returns:
        The divergence in nats, at least 0; infinite if `q` excludes a state of `p`.

    Raises:
        ValueError: If one is not a distribution or the shapes differ.

    Source: PDLT (A.12), (A.13).

    Example:
        >>> from scalewise.theory.information import kl_divergence
        >>> print(f"{kl_divergence([1.0, 0.0], [0.5, 0.5]):.6f}")
        0.693147
    """
    return cross_entropy(p, q) - entropy(p)


@checked
def mutual_information(p: Numbers) -> float:
    r"""$\mathcal I=\mathcal S_x+\mathcal S_y-\mathcal S_{xy}$, the divergence from independence.

    Args:
        p: Joint probabilities, by state of either variable (a matrix).

    Returns:
        The information in nats, at least 0.

    Raises:
        ValueError: If `p` is not a joint distribution of two variables.

    Source: PDLT (A.14), (A.15).

    Example:
        >>> from scalewise.theory.information import mutual_information
        >>> print(f"{mutual_information([[0.5, 0.0], [0.0, 0.5]]):.6f}")  # two copies of a bit
        0.693147
    """
    table = _distribution("p", p, variables=2)
    return entropy(table.sum(1)) + entropy(table.sum(0)) - entropy(table)


@checked
def tripartite_information(p: Numbers) -> float:
    r"""Information on a third variable that two others have in common.

    $$\mathcal I_3=\mathcal S_x+\mathcal S_y+\mathcal S_z-\mathcal S_{xy}-\mathcal S_{yz}
      -\mathcal S_{zx}+\mathcal S_{xyz}$$

    Args:
        p: Joint probabilities, by state of each of three variables.

    Returns:
        The information in nats: positive if two tell of the third redundantly, negative if only
        together.

    Raises:
        ValueError: If `p` is not a joint distribution of three variables.

    Source: PDLT (A.24).

    Example:
        >>> import numpy as np
        >>> from scalewise.theory.information import tripartite_information
        >>> xor = np.array([[[0.25, 0], [0, 0.25]], [[0, 0.25], [0.25, 0]]])
        >>> print(f"{tripartite_information(xor):.6f}")
        -0.693147
    """
    table = _distribution("p", p, variables=3)
    ones = sum(entropy(table.sum(axis)) for axis in ((1, 2), (0, 2), (0, 1)))
    twos = sum(entropy(table.sum(axis)) for axis in (0, 1, 2))
    return ones - twos + entropy(table)


@checked
def boltzmann_distribution(energies: Numbers, beta: FiniteNumber) -> Float[np.ndarray, " state"]:
    r"""The distribution of largest entropy at a given mean energy, $p_i\propto e^{-\beta E_i}$.

    Args:
        energies: $E_i$.
        beta: $\beta$, the multiplier of the mean energy.

    Returns:
        The probabilities.

    Raises:
        ValueError: If a number is not finite.

    Source: PDLT (A.37).

    Example:
        >>> from scalewise.theory.information import boltzmann_distribution
        >>> boltzmann_distribution([0.0, 1.0], 0.0)
        array([0.5, 0.5])
    """
    exponent = -beta * float_array("`energies`", energies).ravel()
    if not exponent.size:
        raise ValueError("`energies` must hold the energy of at least one state; got none.")
    weights = np.exp(exponent - exponent.max())
    return weights / weights.sum()


def _distribution(name: str, p: Any, variables: int | None = None) -> np.ndarray:
    table = float_array(f"`{name}`", p)
    if variables is not None and table.ndim != variables:
        raise ValueError(
            f"`{name}` must have one axis for each of {variables} variables; got shape {table.shape}."
        )
    good = table.size and np.all(np.isfinite(table)) and np.all(table >= 0)
    if not good or abs(float(table.sum()) - 1) > 1e-9:
        raise ValueError(
            f"`{name}` must be probabilities, at least 0 and adding up to 1; "
            f"they add up to {table.sum():.12g}. Divide by their sum."
        )
    return table
