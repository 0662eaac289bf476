r"""The count of numbers that a description of a network needs, at each order in $1/n$.

Source: PDLT epilogue and (11.120)-(11.122).
"""

from __future__ import annotations

from scalewise._checked import Count, Index, checked
from scalewise.observables import OBSERVABLES


@checked
def infinite_width_numbers(output_dim: Count, training_inputs: Count, inputs: Count) -> int:
    r"""Numbers that fix a trained infinitely wide network on all inputs: labels, kernel and NTK.

    $$n_LN_{\mathcal A}+\frac{N_{\mathcal D}(N_{\mathcal D}+1)}2
      +\frac{N_{\mathcal D}(N_{\mathcal D}+1)}2=O(N_{\mathcal D}^2)$$

    Args:
        output_dim: $n_L$.
        training_inputs: $N_{\mathcal A}$.
        inputs: $N_{\mathcal D}$, all inputs, the training inputs included.

    Returns:
        The number, exact.

    Raises:
        ValueError: If a number is below 1 or there are more training inputs than inputs.

    Source: PDLT (ε.14).

    Example:
        >>> from scalewise.theory.action import infinite_width_numbers
        >>> infinite_width_numbers(3, 10, 12)
        186
    """
    if training_inputs > inputs:
        raise ValueError(
            "`inputs` counts all inputs, the training inputs included; got "
            f"{training_inputs} training inputs among {inputs}."
        )
    return output_dim * training_inputs + inputs * (inputs + 1)


@checked
def finite_width_couplings(inputs: Count) -> dict[str, int]:
    r"""Independent components of every tensor that the description at $O(1/n)$ adds.

    The symmetries are those of the tensors' definitions: $V$ and $A$ are symmetric matrices on pairs,
    $D$ any matrix on pairs, $B$ has the two swaps of $\widehat{\Delta H}_{12}\widehat{\Delta H}_{34}$,
    $F$, $S$, $T$, $U$ one swap, $P$ and $R$ one transposition, $Q$ none.

    Args:
        inputs: $N_{\mathcal D}$.

    Returns:
        By name in ``scalewise.OBSERVABLES`` the number of components, exact.

    Source: PDLT (ε.13), where the tensors are listed; the counts are derived.

    Example:
        >>> from scalewise.theory.action import finite_width_couplings
        >>> finite_width_couplings(2)["four_point_vertex"]
        6
    """
    pairs = inputs * (inputs + 1) // 2
    return {name: row.components(inputs, pairs) for name, row in OBSERVABLES.items() if row.order}


@checked
def finite_width_numbers(output_dim: Count, training_inputs: Count, inputs: Count) -> int:
    r"""Numbers that fix a trained network to $O(1/n)$: $O(N_{\mathcal D}^4)$.

    Args:
        output_dim: $n_L$.
        training_inputs: $N_{\mathcal A}$.
        inputs: $N_{\mathcal D}$.

    Returns:
        Those at infinite width and those of `finite_width_couplings`; exact.

    Raises:
        ValueError: As `infinite_width_numbers`.

    Source: PDLT (ε.13), (ε.15), where only the order is given.

    Example:
        >>> from scalewise.theory.action import finite_width_numbers
        >>> finite_width_numbers(1, 1, 1)
        16
    """
    low = infinite_width_numbers(output_dim, training_inputs, inputs)
    return low + sum(finite_width_couplings(inputs).values())


@checked
def numbers_at_order(order: Index, inputs: Count) -> int:
    r"""The leading count $N_{\mathcal D}^{2(k+1)}$ of a description with an error of $O((L/n)^{k+1})$.

    Args:
        order: $k$, the highest power of $1/n$ kept, at least 0.
        inputs: $N_{\mathcal D}$.

    Returns:
        2, 4, 6 indices for $k=0,1,2$.

    Source: PDLT (ε.14), (ε.15), (ε.23). The general (ε.25) is printed as $N_{\mathcal D}^{2k}$, which
    disagrees with these three unless $k$ counts from 1; here $k$ is the power kept, as in (ε.24).

    Example:
        >>> from scalewise.theory.action import numbers_at_order
        >>> [numbers_at_order(k, 10) for k in (0, 1, 2)]
        [100, 10000, 1000000]
    """
    return inputs ** (2 * (order + 1))


@checked
def random_labelings(inputs: Count) -> int:
    r"""How many ways there are to label inputs with one bit, $2^{N_{\mathcal D}}$.

    Args:
        inputs: $N_{\mathcal D}$.

    Returns:
        The number, exact.

    Source: PDLT epilogue, footnote 8.
    """
    return 2**inputs


@checked
def parameters_of_a_model(output_dim: Count, features: Count) -> int:
    r"""Parameters of a model linear, quadratic, … in its weights, $P=n_L(n_f+1)$.

    Args:
        output_dim: $n_L$.
        features: $n_f$; one more is the bias.

    Returns:
        The number, exact.

    Source: PDLT (11.120).

    Example:
        >>> from scalewise.theory.action import parameters_of_a_model
        >>> parameters_of_a_model(3, 9)
        30
    """
    return output_dim * (features + 1)


@checked
def functions_in_a_model(features: Count, degree: Count) -> int:
    r"""Feature functions that a model of some degree in its weights is made of.

    $$(n_f+1)\ \text{(linear)},\qquad(n_f+1)+\tfrac12(n_f+1)(n_f+2)\ \text{(quadratic)}$$
    In general one for each multiset of 1 to `degree` weights.

    Args:
        features: $n_f$.
        degree: 1 for linear, 2 for quadratic.

    Returns:
        The number, exact.

    Source: PDLT (11.121), (11.122); beyond the quadratic derived.

    Example:
        >>> from scalewise.theory.action import functions_in_a_model
        >>> functions_in_a_model(9, 1), functions_in_a_model(9, 2)
        (10, 65)
    """
    total, term = 0, 1
    for k in range(1, degree + 1):
        term = term * (features + k) // k
        total += term
    return total
