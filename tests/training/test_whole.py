"""Golden: expectations over four of a few samples, where other two would know a sample better, or none does."""

import itertools

import numpy as np
import pytest

from accurate_coefficients import Case, product_rule
from accurate_coefficients import setting as setting_of
from grids import thorough
from scalewise.activations import activation
from scalewise.training.tiles._refined import FINER
from scalewise.training.tiles._rules import Accuracy
from scalewise.training.tiles._whole import Whole

FAMILIES = ((0, 0, 0, 0), (0, 0, 1, 1), (1, 1, 1, 1), (2, 0, 1, 1), (2, 2, 1, 1), (3, 1, 1, 1))
OTHERS = ((2, 1, 1, 0), (1, 3, 0, 0))  # of which the last two are not alike


def sines(K: np.ndarray, family: tuple[int, ...]) -> np.ndarray:
    """Of sines and their derivatives: a sum of exponentials."""
    total = np.zeros((len(K),) * 4)
    places = np.indices(total.shape).reshape(4, -1)
    among = K[places[:, None], places]
    for signs in itertools.product((1, -1), repeat=4):
        s = np.array(signs, float)
        phase = np.pi / 2 * sum(s * (np.array(family) - 1))
        found = np.exp(-0.5 * np.einsum("i,ijn,j->n", s, among, s))
        total += np.cos(phase) * found.reshape(total.shape) / 16
    return total


def off(whole: Whole, family: tuple[int, int, int, int], want: np.ndarray) -> float:
    """The largest error, relative to products of root mean squares of four factors."""
    part = whole.of_family(family)["covariance"]
    left, right = whole.M(*family[:2]), whole.M(*family[2:])
    own = [np.sqrt(np.diagonal(whole.M(p, p))) for p in family]
    unit = np.einsum("a,b,c,d->abcd", *own)
    wrong = np.abs(part.value[0] + left[:, :, None, None] * right - want)
    return float(np.max(wrong[unit > 0] / unit[unit > 0]))


@pytest.mark.parametrize(
    ("name", "kind", "seed"),
    [
        ("erf", "collinear", 2),
        ("gelu", "line", 1),
        *thorough(
            *((name, kind, 2) for name in ("gelu", "tanh") for kind in ("plane", "collinear"))
        ),
    ],
)
def test_a_plane_is_known_from_two_samples_in_it(name: str, kind: str, seed: int) -> None:
    """Given two in one direction, others are one but for their size, and the series is long: then not these are."""
    net, task = setting_of(Case(name, kind, 2, seed))
    x = np.concatenate([task.inputs, task.test_inputs]) * np.sqrt(1.4 / 2)
    wants = {family: product_rule(net.activation, x, family, 240) for family in FAMILIES}
    for accuracy in FINER[1], FINER[4]:
        whole = Whole(net.activation, x @ x.T, accuracy)
        worst = {
            family: off(whole, family, want) / accuracy.across for family, want in wants.items()
        }
        assert max(worst.values()) < 1, worst


def inputs(least: float) -> np.ndarray:
    """Some in a plane but for so much, of which two are in one direction, two are close, and one has nothing."""
    x = np.random.default_rng(3).standard_normal((6, 4)) * np.array([1.0, 1.0, least, least])
    x[1], x[3], x[5] = -0.5 * x[0], x[2] + 1e-3 * x[4], 0.0
    return x


@pytest.mark.parametrize("least", [1.0, 1e-2, *thorough(1e-4, 1e-6, 0.1)])
def test_what_is_left_of_a_sample_may_be_much_or_little(least: float) -> None:
    sigma, x = activation("sin"), inputs(least)
    whole = Whole(sigma, x @ x.T, FINER[6])
    for family in (*FAMILIES, *OTHERS):
        wrong = off(whole, family, sines(x @ x.T, family))
        assert wrong < FINER[6].across, family


def test_what_a_series_leaves_out_that_ends_early_is_stated() -> None:
    """Of a kernel so large that the most terms are too few, no finer accuracy tells."""
    sigma, x = activation("sin"), 14.0 * np.vstack([np.eye(3), np.ones(3)])
    different = tuple(np.array([*itertools.permutations(range(4))]).T)
    for accuracy in FINER[1], FINER[3]:
        whole, pulls = Whole(sigma, x @ x.T, accuracy), []
        for family in FAMILIES:
            part = whole.of_family(family)["covariance"]
            want = (sines(x @ x.T, family) - whole.means(family))[different]
            wrong, stated = np.abs(part.value[0][different] - want), part.error[different]
            pulls.append(np.max(wrong / stated))
            assert wrong.max() > 1e-3
        assert 0.1 < max(pulls) < 1, pulls


def test_terms_that_do_not_become_smaller_have_all_their_nodes() -> None:
    """In a plane, given two in one direction, others are correlated fully, and fewer nodes are too few."""
    sigma, x = activation("sin"), 6.0 * np.random.default_rng(1).standard_normal((4, 2))
    x[1] = -0.6 * x[0]
    whole = Whole(sigma, x @ x.T, FINER[3])
    for family in FAMILIES:
        assert off(whole, family, sines(x @ x.T, family)) < FINER[3].across, family


def test_nodes_are_those_of_smaller_samples_too() -> None:
    """Of sines that oscillate too quickly one expectation may be found at nodes too few, by chance."""
    sigma, x = activation("sin"), 3.0 * np.random.default_rng(0).standard_normal((5, 3))
    accuracy = Accuracy(1.2e-7, 8e-5, 4e-5)  # one at which it happens
    whole = Whole(sigma, x @ x.T, accuracy)
    for family in FAMILIES:
        assert off(whole, family, sines(x @ x.T, family)) < accuracy.across, family
