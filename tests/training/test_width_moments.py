"""Property: contractions against exact expectations over a few Gaussian variables."""

from itertools import combinations, product

import numpy as np
import pytest

from scalewise.theory.correlators import neuron_tensor
from scalewise.training.width._contractions import Frame
from scalewise.training.width._cumulants import fourth, third
from scalewise.training.width._moments import PARTS, Moments
from scalewise.training.width._weights import PROJECTORS, Reach, converged

OUTPUTS, TRAIN, TESTS = 2, 2, 1
SAMPLES = TRAIN + TESTS
Drawn = tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray, dict[str, np.ndarray]]


def positive(rng: np.random.Generator, size: int) -> np.ndarray:
    root = rng.standard_normal((size, size))
    return root @ root.T + 0.3 * np.eye(size)


def tensors(rng: np.random.Generator, X: np.ndarray, S: np.ndarray) -> dict[str, np.ndarray]:
    """Any, with the symmetries of their expectations; fluctuations of the NTK are made of two matrices."""
    count = len(X)
    shape = (count,) * 4
    V, D, F = rng.standard_normal((3, *shape))
    D, V = (T + T.transpose(1, 0, 2, 3) for T in (D, V))
    V = V + V.transpose(0, 1, 3, 2)
    found = {letter: rng.standard_normal(shape) for letter in "PQRSTU"}
    return found | {
        "A": np.multiply.outer(X, X),
        "B": np.einsum("ab,cd->acbd", S, S),
        "D": D + D.transpose(0, 1, 3, 2),
        "F": F + F.transpose(2, 3, 0, 1),
        "G1": np.zeros((count,) * 2),
        "H1": np.zeros((count,) * 2),
        "V": V + V.transpose(2, 3, 0, 1),
    }


def setting(
    seed: int = 0, outputs: int = OUTPUTS, train: int = TRAIN
) -> tuple[Moments, np.ndarray, np.ndarray]:
    """Kernels, tensors and weights, none of which a network has."""
    rng = np.random.default_rng(seed)
    K, Theta = positive(rng, train + TESTS), positive(rng, train + TESTS)
    X, S = (m + m.T for m in rng.standard_normal((2, *2 * (train + TESTS,))))
    _, U = np.linalg.eigh(Theta[:train, :train])
    legs = {"H": 1, "HH": 2} | PROJECTORS
    reaches = {
        name: Reach(rng.standard_normal((train,) * n), rng.standard_normal((train,) * (n + 1)))
        for name, n in legs.items()
    }
    frame = Frame(U, Theta[train:, :train] @ U, rng.standard_normal(train))
    y = rng.standard_normal((outputs, train))
    return Moments(frame, reaches, y, frame.turned(K), tensors(rng, X, S)), X, S


def nodes(
    K: np.ndarray, outputs: int = OUTPUTS, count: int = 3
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Outputs (node, output, sample), signs (node, 4) and weights, exact up to a degree in every output."""
    points, weights = np.polynomial.hermite_e.hermegauss(count)  # 5 of 3 nodes, 7 of 4
    place = list(product(range(count), repeat=outputs * len(K)))
    z = points[place].reshape(-1, outputs, len(K)) @ np.linalg.cholesky(K).T
    w = (weights / weights.sum())[place].prod(axis=1)
    signs = np.array(list(product((-1.0, 1.0), repeat=4)))
    both = np.repeat(z, len(signs), axis=0), np.tile(signs, (len(z), 1))
    return *both, np.repeat(w, len(signs)) / len(signs)


def drawn(moments: Moments, X: np.ndarray, S: np.ndarray, count: int = 3) -> Drawn:
    """Weights of nodes, and of outputs on tests there what is of order 0, 1/2 and 1, and the mean's parts of it."""
    frame, n, K, outputs = moments.frame, moments.frame.count, moments.K, len(moments.y)
    turned = {x: frame.turned(t) for x, t in moments.tensors.items()}
    X, S = frame.turned(X), frame.turned(S)
    z, s, w = nodes(K, outputs, count)
    e = z[:, :, :n] - moments.y
    root = np.sqrt(2.0)
    GOE = np.stack(
        [np.stack([root * s[:, 0], s[:, 1]], -1), np.stack([s[:, 1], root * s[:, 2]], -1)], 1
    )[:, :outputs, :outputs]
    change = np.einsum("m,ij,ab->mijab", s[:, 3], np.eye(outputs), X) + np.einsum(
        "mij,ab->mijab", GOE, S
    )
    inverse = np.linalg.inv(K)
    whole = {
        "zzH": neuron_tensor("zzH", 1, outputs, D=turned["D"], F=turned["F"]),
        "dHz": neuron_tensor("dHz", 1, outputs, P=turned["P"], Q=turned["Q"]),
        "ddH_I": neuron_tensor("ddH_I", 1, outputs, R=turned["R"]),
        "ddH_II": neuron_tensor("ddH_II", 1, outputs, **{x: turned[x] for x in "STU"}),
    }
    pull = z @ inverse
    initial = 0.5 * np.einsum("ijklabcd,mia,mjb->mklcd", whole["zzH"], pull, pull, optimize=True)
    initial -= 0.5 * np.einsum("iiklabcd,ab->klcd", whole["zzH"], inverse)
    dH = np.einsum("ijklabcd,mld->mijkabc", whole["dHz"], pull, optimize=True)

    def seen(T: np.ndarray, name: str, legs: str, value: str, *errors: np.ndarray) -> np.ndarray:
        """A tensor (node, neurons, samples) with weights and errors, test leg first."""
        reach, T = moments.reaches[name], T[(...,) + (slice(None),) + (slice(n),) * len(legs)]
        letters = (
            ",".join(f"m{v}{leg}" for v, leg in zip(value, legs, strict=True)) if errors else ""
        )
        ends = f",{letters}" if errors else ""
        front = f"mi{value}" if errors else "mi"
        first = np.einsum(
            f"{front}d{legs},{legs}{ends}->mid",
            T[..., n:, *[slice(None)] * len(legs)],
            reach.beyond,
            *errors,
            optimize=True,
        )
        inner = np.einsum(
            f"{front}o{legs},o{legs}{ends}->mio",
            T[..., :n, *[slice(None)] * len(legs)],
            reach.within,
            *errors,
            optimize=True,
        )
        return first - inner @ frame.T.T

    zeta = z[:, :, n:] - (z[:, :, :n] * frame.gain) @ frame.T.T
    once = -seen(change, "H", "a", "j", e)
    late = -seen(initial, "H", "a", "j", e)
    twice = np.einsum("mijda,mjkab->mikdab", change[..., :n], change[..., :n, :n])
    ends = np.einsum("mikdab,mkb->mikdab", twice, e)
    both = seen(ends.sum(axis=2), "HH", "ab", "")
    tests = {"ntk_nlo": np.zeros_like(zeta), "ntk_fluctuation": both}
    one = np.ones((len(z), *[1] * 8))
    ddI, ddII = one * whole["ddH_I"], one * whole["ddH_II"]
    tests |= {
        "dntk_A": seen(dH.transpose(0, 2, 1, 3, 5, 4, 6), "A", "ab", "jk", e, e),
        "dntk_B": seen(dH, "B", "ab", "jk", e, e),
        "ddntk_I_A": seen(ddI.transpose(0, 2, 1, 3, 4, 6, 5, 7, 8), "IA", "abc", "jkl", e, e, e),
        "ddntk_I_B": seen(ddI, "IB", "abc", "jkl", e, e, e),
        "ddntk_II_A": seen(ddII.transpose(0, 3, 1, 2, 4, 7, 5, 6, 8), "IIA", "abc", "jkl", e, e, e),
        "ddntk_II_B": seen(ddII, "IIB", "abc", "jkl", e, e, e),
    }
    return w, zeta, once, sum(tests.values()) + late, tests


def expected(
    moments: Moments, X: np.ndarray, S: np.ndarray
) -> tuple[dict[str, np.ndarray], np.ndarray]:
    """Means of the parts, and the covariance of outputs on tests, summed over all nodes."""
    w, zeta, once, second, tests = drawn(moments, X, S)
    means = {part: np.einsum("m,mid->id", w, tests[part]) for part in PARTS}
    half = np.einsum("m,mid,mje->idje", w, zeta, second)
    covariance = half + half.transpose(2, 3, 0, 1) + np.einsum("m,mid,mje->idje", w, once, once)
    return means, covariance


def test_contractions_are_expectations() -> None:
    moments, X, S = setting()
    means, covariance = expected(moments, X, S)
    for part, found in moments.mean_parts().items():
        np.testing.assert_allclose(found, means[part], rtol=1e-9, atol=1e-9, err_msg=part)
    np.testing.assert_allclose(moments.covariance(), covariance, rtol=1e-9, atol=1e-8)


@pytest.mark.covers("C76")
@pytest.mark.parametrize(("outputs", "train"), [(2, 1), (1, 2)])
def test_cumulants_are_expectations(outputs: int, train: int) -> None:
    """Of central moments what is left of them without pairs; V apart, with neurons and samples written out."""
    moments, X, S = setting(3, outputs, train)
    w, *orders, _ = drawn(moments, X, S, 4)
    zero, half, one = (order[..., 0] for order in orders)

    def joint(*of: np.ndarray) -> np.ndarray:
        letters = "ijkl"[: len(of)]
        return np.einsum(
            f"m,{','.join(f'm{x}' for x in letters)}->{letters}", w, *of, optimize=True
        )

    def placed(size: int, *special: np.ndarray) -> np.ndarray:
        """The rest of order 0, summed over the places of the special ones."""
        found = 0.0
        for places in combinations(range(size), len(special)):
            of = [zero] * size
            for place, value in zip(places, special, strict=True):
                of[place] = value
            found = found + joint(*of)
        return np.asarray(found)

    mean, L = joint(one), joint(zero, zero)
    spread = placed(2, one) + joint(half, half)
    three, four = (placed(k, one) + placed(k, half, half) for k in (3, 4))
    for pair, alone in (("ij", "k"), ("ik", "j"), ("jk", "i")):
        three = three - np.einsum(f"{pair},{alone}->ijk", L, mean)
    for a, b in (("ij", "kl"), ("ik", "jl"), ("il", "jk")):
        four = four - np.einsum(f"{a},{b}->ijkl", L, spread)
        four = four - np.einsum(f"{a},{b}->ijkl", spread, L)
    vertex = neuron_tensor("zzzz", 1, outputs, V=moments.frame.turned(moments.tensors["V"]))
    left = np.append(-moments.frame.gain * moments.frame.T[0], 1.0)
    four = four + vertex @ left @ left @ left @ left
    np.testing.assert_allclose(third(moments)[..., 0], three, rtol=1e-8, atol=1e-8)
    np.testing.assert_allclose(fourth(moments)[..., 0], four, rtol=1e-8, atol=1e-8)


def test_the_mean_ntk_and_metric_move_what_they_belong_to() -> None:
    """By differences: K and Theta a little larger are the same as G1 and H1."""
    moments, _, _ = setting(1)
    rng = np.random.default_rng(4)
    G1, H1 = (m + m.T for m in rng.standard_normal((2, SAMPLES, SAMPLES)))
    Theta, K = positive(rng, SAMPLES), positive(rng, SAMPLES)
    none = {letter: np.zeros_like(t) for letter, t in moments.tensors.items()}
    y = rng.standard_normal((OUTPUTS, TRAIN))

    def at(size: float) -> Moments:
        moved = Theta + size * H1
        h, U = np.linalg.eigh(moved[:TRAIN, :TRAIN])
        frame = Frame(U, moved[TRAIN:, :TRAIN] @ U, 1 / h)
        return Moments(
            frame,
            converged(h).reaches(),
            y @ U,
            frame.turned(K + size * G1),
            none | {"G1": G1, "H1": H1},
        )

    size = 1e-5
    mean = (at(size).mean - at(-size).mean) / (2 * size)
    spread = (at(size).leading - at(-size).leading) / (2 * size)
    found = at(0.0)
    np.testing.assert_allclose(found.mean_parts()["ntk_nlo"], mean, rtol=1e-6, atol=1e-7)
    each = np.einsum("ij,de->idje", np.eye(OUTPUTS), spread)
    np.testing.assert_allclose(found.covariance(), each, rtol=1e-6, atol=1e-6)


def test_the_change_of_the_ntk_is_an_expectation() -> None:
    moments, _, _ = setting(2)
    frame, n, K = moments.frame, TRAIN, moments.K
    turned = {x: frame.turned(t) for x, t in moments.tensors.items()}
    z, _, w = nodes(K)
    z, w = z[::16], w[::16] * 16
    e, g = z[:, :, :n] - moments.y, moments.reaches["H"].beyond
    dHz = neuron_tensor("dHz", 1, OUTPUTS, P=turned["P"], Q=turned["Q"])
    dH = np.einsum("ijklabcd,mld->mijkabc", dHz, z @ np.linalg.inv(K), optimize=True)
    first = neuron_tensor("ddH_I", 1, OUTPUTS, R=turned["R"])[..., :n, :n]
    second = neuron_tensor("ddH_II", 1, OUTPUTS, **{x: turned[x] for x in "STU"})
    half = -np.einsum("m,mijkabc,c,mkc->ijab", w, dH[..., :n], g, e, optimize=True)
    for T, weights in (
        (first + second[..., :n, :n], 0.5 * np.outer(g, g)),
        (second.transpose(0, 2, 1, 3, 4, 6, 5, 7)[..., :n, :n], moments.reaches["A"].beyond),
    ):
        half = half + np.einsum("m,ijklabcd,cd,mkc,mld->ijab", w, T, weights, e, e, optimize=True)
    np.testing.assert_allclose(
        moments.ntk_change(), half + half.transpose(1, 0, 3, 2), rtol=1e-9, atol=1e-9
    )


@pytest.mark.parametrize("outputs", [1, 3])
def test_what_is_trained_to_the_end_is_known_there(outputs: int) -> None:
    """A test that repeats a training sample has no correction."""
    rng = np.random.default_rng(5)
    n, twin = 3, np.array([0, 1, 2, 1, 3])
    K, Theta = positive(rng, 4), positive(rng, 4)
    h, U = np.linalg.eigh(Theta[:n, :n])
    both = np.ix_(twin, twin)
    frame = Frame(U, Theta[both][n:, :n] @ U, 1 / h)
    found = {x: rng.standard_normal((4,) * 4)[np.ix_(*(twin,) * 4)] for x in "ABDFPQRSTU"}
    found |= {x: (lambda m: m + m.T)(rng.standard_normal((4, 4)))[both] for x in ("G1", "H1")}
    y = rng.standard_normal((outputs, n))
    moments = Moments(frame, converged(h, 0.5 / h.max()).reaches(), y, frame.turned(K[both]), found)
    parts, covariance = moments.mean_parts(), moments.covariance()
    for values in parts.values():
        assert np.abs(values[:, 0]).max() < 1e-10 * np.abs(values).max()
    assert np.abs(covariance[:, 0]).max() < 1e-9 * np.abs(covariance).max()
