"""Golden and property tests of the counts of a network's description.

Independent route: the orbits of the index symmetries, counted by going through every index.
"""

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from grids import each
from scalewise.observables import OBSERVABLES
from scalewise.theory.action import (
    finite_width_couplings,
    finite_width_numbers,
    functions_in_a_model,
    infinite_width_numbers,
    numbers_at_order,
    parameters_of_a_model,
    random_labelings,
)

# Generators of the symmetries, as permutations of the four positions of the printed definition.
SYMMETRIES = {
    "four_point_vertex": [(1, 0, 2, 3), (2, 3, 0, 1)],
    "ntk_A": [(1, 0, 2, 3), (2, 3, 0, 1)],
    # B_1324 under 1<->2 with 3<->4, and under (12)<->(34), on the printed order 1, 3, 2, 4.
    "ntk_B": [(2, 3, 0, 1), (1, 0, 3, 2)],
    "ntk_D": [(1, 0, 2, 3), (0, 1, 3, 2)],
    "ntk_F": [(2, 3, 0, 1)],
    "dntk_P": [(0, 2, 1, 3)],
    "dntk_Q": [],
    "ddntk_R": [(0, 1, 3, 2)],
    "ddntk_S": [(1, 0, 3, 2)],
    "ddntk_T": [(3, 2, 1, 0)],
    "ddntk_U": [(2, 3, 0, 1)],
}


def orbits(generators, N: int) -> int:
    left = set(itertools.product(range(N), repeat=4))
    count = 0
    while left:
        count += 1
        found = [left.pop()]
        while found:
            index = found.pop()
            for g in generators:
                image = tuple(index[k] for k in g)
                if image in left:
                    left.remove(image)
                    found.append(image)
    return count


@pytest.mark.covers("C56")
@each("name", SYMMETRIES)
@each("N", [1, 2, 3, 5])
def test_components_are_orbits_of_the_symmetries(name, N) -> None:
    assert finite_width_couplings(N)[name] == orbits(SYMMETRIES[name], N)


def test_every_coupling_is_an_observable() -> None:
    """The tensors of (ε.13) beyond kernel and NTK, each with its name in the table."""
    couplings = finite_width_couplings(3)
    assert set(couplings) <= set(OBSERVABLES)
    assert couplings["metric_nlo"] == couplings["ntk_nlo"] == 6


@pytest.mark.covers("C56")
def test_counts_of_the_reference() -> None:
    """(ε.14): 186 for three outputs, ten training inputs and two test inputs."""
    assert infinite_width_numbers(3, 10, 12) == 186
    assert numbers_at_order(0, 7) == 49
    assert numbers_at_order(1, 7) == 7**4
    assert numbers_at_order(2, 7) == 7**6
    assert random_labelings(10) == 1024


@pytest.mark.covers("C56")
@given(st.integers(1, 4), st.integers(1, 10), st.integers(0, 20))
def test_orders_of_growth(outputs, trained, more) -> None:
    """O(N^2) at infinite width, O(N^4) at 1/n: the leading coefficient is that of the tensors."""
    N = trained + more
    low = infinite_width_numbers(outputs, trained, N)
    assert low == outputs * trained + 2 * sum(range(1, N + 1))
    high = finite_width_numbers(outputs, trained, N) - low
    assert high == sum(finite_width_couplings(N).values())
    big = sum(finite_width_couplings(1000).values()) / 1000**4
    assert big == pytest.approx(
        1 / 8 + 1 / 8 + 1 / 4 + 1 / 4 + 1 / 2 + 1 / 2 + 1 + 1 / 2 + 3 / 2, rel=0.01
    )


@pytest.mark.covers("C56")
@given(st.integers(1, 12), st.integers(1, 4))
def test_functions_are_multisets_of_weights(features, degree) -> None:
    """(11.121), (11.122): with the bias there are n_f + 1 weights; a quadratic term is a pair."""
    quadratic = list(itertools.combinations_with_replacement(range(features + 1), 2))
    assert functions_in_a_model(features, 1) == features + 1
    assert functions_in_a_model(features, 2) == features + 1 + len(quadratic)
    many = sum(
        len(list(itertools.combinations_with_replacement(range(features + 1), k)))
        for k in range(1, degree + 1)
    )
    assert functions_in_a_model(features, degree) == many
    assert parameters_of_a_model(degree, features) == degree * (features + 1)


def test_counts_below_one_are_refused() -> None:
    with pytest.raises(
        ValueError, match="`output_dim` must be a whole number of at least 1; got 0"
    ):
        infinite_width_numbers(0, 1, 1)
    with pytest.raises(ValueError, match=r"5 training inputs among 4"):
        infinite_width_numbers(1, 5, 4)
    with pytest.raises(ValueError, match="`order` must be a whole number of at least 0; got -1"):
        numbers_at_order(-1, 4)
