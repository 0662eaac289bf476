"""Golden, property: weights against printed values, sums step by step, and the training of a cubic model."""

from collections.abc import Callable

import numpy as np
import pytest
from scipy.integrate import solve_ivp

from scalewise.training import GradientDescent, GradientFlow, Projectors, TwoStepNewton
from scalewise.training.width._course import FlowClock
from scalewise.training.width._weights import PROJECTORS, converged, separable

RNG = np.random.default_rng(7)
TRAIN, TEST, PARAMETERS, UNSEEN = (
    3,
    2,
    5,
    3,
)  # five outputs need five parameters; the others no output reaches at first
H = np.array([0.3, 0.9, 2.2, 4.0])


def printed(h: np.ndarray, eta: float) -> dict[str, np.ndarray]:
    """The printed projectors: inverses by themselves, and Y tensors."""
    a, b, c = h[:, None, None], h[None, :, None], h[None, None, :]

    def x2(p, q):
        return 1 / (p + q - eta * p * q)

    x3 = 1 / (a + b + c - eta * (a * b + a * c + b * c) + eta**2 * a * b * c)
    y1 = (x2(a, b) - x3) / c
    y3 = 1 / (a * b * c) - x2(a, b) / (b * c) - x2(b, c) / (a * c) + x2(b, c) * x3 / c
    y4 = x2(b, c) * (1 / a - x3)
    y2 = (1 - eta * a) / (a * (a + b - eta * a * b))
    two = (y2 + 0 * c)[:, :, 0]
    IA = -y3 - eta / 2 * y4
    return {
        "A": two,
        "B": two + eta / 2 * (x2(a, b) + 0 * c)[:, :, 0],
        "IA": IA,
        "IB": IA - eta / 2 * y1 - eta**2 / 6 * x3,
        "IIA": -y3,
        "IIB": -y3 - y3.transpose(1, 0, 2) - y3.transpose(0, 2, 1) - eta * (y4 + y1),
    }


def symmetric(Z: np.ndarray, first: int) -> np.ndarray:
    """Over the legs from `first` on."""
    from itertools import permutations

    legs = range(first, Z.ndim)
    orders = [(*range(first), *order) for order in permutations(legs)]
    return np.mean([Z.transpose(order) for order in orders], axis=0)


@pytest.mark.covers("C45")
def test_projectors_are_the_printed_ones_with_the_symmetry_of_their_tensors() -> None:
    free = {"A": 2, "B": 0, "IA": 1, "IB": 0, "IIA": 3, "IIB": 3}
    wrong = []
    for eta in (0.0, 0.05, 0.2, 0.25, 0.45):
        found, text = converged(H, eta), printed(H, eta)
        for name, first in free.items():
            expected = symmetric(text[name], first) if first < text[name].ndim else text[name]
            if not np.allclose(getattr(found, name), expected, rtol=1e-11, atol=1e-13):
                wrong.append((eta, name))
    assert wrong == []
    # A single sample, printed for flow and for a finite rate.
    for u in (0.0, 0.7, 1.0, 1.6):
        one = converged(np.array([2.0]), u / 2)
        got = [getattr(one, name).item() * 2.0**legs for name, legs in PROJECTORS.items()]
        third = (2 - u) * (3 - 3 * u + u * u)
        expected = [
            (1 - u) / (2 - u),
            0.5,
            -(1 - u) * (2 - 2 * u + u * u) / (2 * third),
            -1 / 6,
            -((1 - u) ** 3) / third,
            -(1 - u) / (2 - u),
        ]
        assert got == pytest.approx(expected, rel=1e-12, abs=1e-14)


def test_projectors_are_sums_over_all_steps() -> None:
    """Nothing is inverted here: errors and what they add up to, step after step."""
    for eta in (0.1, 0.45):
        p, g = np.ones(4), np.zeros(4)
        A, IA, IIA, C = np.zeros((4, 4)), np.zeros((4,) * 3), np.zeros((4,) * 3), np.zeros((4, 4))
        for _ in range(1500):
            A += eta * np.multiply.outer(p, g)
            IA -= 0.5 * eta * np.einsum("a,b,c->abc", p, g, g)
            IIA -= eta * np.einsum("a,bc->abc", p, C)
            C += eta * np.multiply.outer(p, g)
            p, g = p - eta * H * p, g + eta * p
        found = converged(H, eta)
        for name, summed in {"A": A, "IA": IA, "IIA": IIA}.items():
            np.testing.assert_allclose(getattr(found, name), summed, rtol=1e-11, atol=1e-14)
        np.testing.assert_allclose(found.IIB, -np.einsum("b,ac->abc", 1 / H, A), rtol=1e-11)


def test_sums_over_few_times_are_as_accurate_as_they_say() -> None:
    wrong = []
    for cond in (3.0, 1e4):
        h = np.sort(np.exp(RNG.uniform(0, np.log(cond), 40)))
        for share in (0.0, 0.2, 0.8, 1.5):
            rate = share / h.max()
            few, whole = separable(h, rate), converged(h, rate)
            for name in PROJECTORS:
                exact, summed = getattr(whole, name), getattr(few.whole(), name)
                if np.abs(summed / exact - 1).max() > 3 * few.error + 1e-12:
                    wrong.append((cond, share, name))
            if few.error > 2e-2 or len(few.A) > 50:
                wrong.append((cond, share, few.error, len(few.A)))
            algorithm = GradientDescent(rate) if rate else GradientFlow()
            np.testing.assert_array_equal(algorithm.sums(h).IA, few.IA)
    assert wrong == []


class Cubic:
    """Outputs that are cubic in parameters: with `straight` without second derivatives along any first one."""

    def __init__(self, *, second: float, third: float, straight: bool) -> None:
        rng, size = np.random.default_rng(11), PARAMETERS + UNSEEN
        count = TRAIN + TEST
        self.J = np.zeros((count, size))
        self.J[:, :PARAMETERS] = np.eye(count) * 0.8 + 0.3 * rng.standard_normal((count, count))
        J2 = rng.standard_normal((count, size, size))
        J2 = J2 + J2.transpose(0, 2, 1)
        if straight:
            J2[:, :PARAMETERS, :PARAMETERS] = 0
        J3 = rng.standard_normal((count, size, size, size))
        J3 = sum(
            J3.transpose(0, *o)
            for o in ((1, 2, 3), (2, 3, 1), (3, 1, 2), (1, 3, 2), (2, 1, 3), (3, 2, 1))
        )
        self.J2, self.J3 = second * J2, third * J3
        self.z, self.y = rng.standard_normal(count), rng.standard_normal(TRAIN)

    def outputs(self, x: np.ndarray) -> np.ndarray:
        cubic = np.einsum("dabc,a,b,c->d", self.J3, x, x, x) / 6
        return self.z + self.J @ x + np.einsum("dab,a,b->d", self.J2, x, x) / 2 + cubic

    def jacobian(self, x: np.ndarray) -> np.ndarray:
        return self.J + self.J2 @ x + np.einsum("dabc,b,c->da", self.J3, x, x) / 2

    def slope(self, x: np.ndarray, ridge: float) -> np.ndarray:
        error = self.outputs(x)[:TRAIN] - self.y
        return self.jacobian(x)[:TRAIN].T @ error + ridge * x


def steps(rates: np.ndarray, momentum: float = 0.0, ridge: float = 0.0):
    def train(model: Cubic) -> np.ndarray:
        x, v = np.zeros((2, PARAMETERS + UNSEEN))
        for rate in rates:
            v = momentum * v - rate * model.slope(x, ridge)
            x = x + v
        return x

    return train


def flow(time: float, ridge: float = 0.0):
    def train(model: Cubic) -> np.ndarray:
        def rate(_, x):
            return -model.slope(x, ridge)

        start = np.zeros(PARAMETERS + UNSEEN)
        return solve_ivp(rate, (0, time), start, rtol=1e-11, atol=1e-13).y[:, -1]

    return train


def newton(model: Cubic) -> np.ndarray:
    x, J = np.zeros(PARAMETERS + UNSEEN), model.J[:TRAIN]
    for _ in range(2):
        x = x - J.T @ np.linalg.solve(J @ J.T, model.outputs(x)[:TRAIN] - model.y)
    return x


def second_order(f: Callable[[float], np.ndarray], size: float) -> tuple[np.ndarray, np.ndarray]:
    """Coefficients of the first and second power, by differences at two sizes."""
    at = {s: f(s * size) for s in (-2, -1, 0, 1, 2)}
    first = (8 * (at[1] - at[-1]) - (at[2] - at[-2])) / (12 * size)
    second = (16 * (at[1] + at[-1]) - (at[2] + at[-2]) - 30 * at[0]) / (24 * size**2)
    return first, second


def predicted(algorithm, time: float | None, part: str) -> tuple[np.ndarray, np.ndarray]:
    """What tensors add to outputs of the tests, and to the NTK: with weights of the algorithm."""
    model = Cubic(second=1.0, third=1.0, straight=part == "second twice")
    J, n = model.J, TRAIN
    h, U = np.linalg.eigh(J[:n] @ J[:n].T)
    reaches = algorithm.reaches(h, time)
    # Rows of training samples turned into directions.
    turned = [np.concatenate([np.tensordot(U.T, t[:n], 1), t[n:]]) for t in (J, model.J2, model.J3)]
    J, J2, J3 = turned
    e = U.T @ (model.z[:n] - model.y)
    T = J[n:] @ J[:n].T
    dH = np.einsum("dxy,ax,by->dab", J2, J, J)
    ddI = np.einsum("dxyz,ax,by,cz->dabc", J3, J, J, J)
    ddII = np.einsum("dxw,ayw,bx,cy->dabc", J2, J2, J, J)
    brackets = {
        "second": {"A": dH.transpose(1, 0, 2), "B": dH},
        "third": {"IA": ddI.transpose(1, 0, 2, 3), "IB": ddI},
        "second twice": {"IIA": ddII.transpose(2, 0, 1, 3), "IIB": ddII},
    }[part]
    total = np.zeros(TEST)
    for name, tensor in brackets.items():
        t = tensor[(slice(None), *(slice(n),) * (tensor.ndim - 1))]
        beyond, within = reaches[name]
        legs = "abc"[: t.ndim - 1]
        es = [e] * len(legs)
        sum_ = f"d{legs},{legs},{','.join(legs)}->d"
        inside = f"o{legs},o{legs},{','.join(legs)}->o"
        total += np.einsum(sum_, t[n:], beyond, *es) - T @ np.einsum(inside, t[:n], within, *es)
    g = reaches["H"].beyond * e
    two = np.multiply.outer(g, g)
    half = {
        "second": -np.einsum("dac,c->da", dH[..., :n], g),
        "third": 0.5 * np.einsum("dacb,cb->da", ddI[..., :n, :n], two),
        "second twice": 0.5 * np.einsum("dacb,cb->da", ddII[..., :n, :n], two)
        + np.einsum(
            "dcab,cb->da", ddII[:, :n, :, :n], reaches["A"].beyond * np.multiply.outer(e, e)
        ),
    }[part]
    V = np.eye(TRAIN + TEST)
    V[:n, :n] = U
    return total, V @ (half + half.T) @ V.T


def test_a_cubic_model_trains_to_what_the_weights_say() -> None:
    """Its derivatives are of any size; each kind of tensor is a power of that size by itself."""
    plain = Cubic(second=0.0, third=0.0, straight=False)
    largest = np.linalg.eigvalsh(plain.J[:TRAIN] @ plain.J[:TRAIN].T).max()
    rate, mixed = 1.4 / largest, np.linspace(0.3, 1.8, 9) / largest
    cases = [
        (GradientDescent(rate), None, steps(np.full(300, rate))),
        (GradientDescent(rate), 7.0, steps(np.full(7, rate))),
        (GradientDescent(rate, momentum=0.6, ridge=0.2), 12.0, steps(np.full(12, rate), 0.6, 0.2)),
        (GradientDescent(rate, momentum=0.5), None, steps(np.full(250, rate), 0.5)),
        (GradientDescent(rate, ridge=0.3), None, steps(np.full(100, rate), 0.0, 0.3)),
        (GradientDescent(list(mixed), momentum=0.3), None, steps(mixed, 0.3)),
        (GradientFlow(), 1.3, flow(1.3)),
        (GradientFlow(ridge=0.4), 2.1, flow(2.1, 0.4)),
        (TwoStepNewton(), None, newton),
    ]
    wrong = []
    for algorithm, time, train in cases:
        for part in ("second", "third", "second twice"):

            def found(size: float, part=part, train=train) -> np.ndarray:
                second, third = (0.0, size) if part == "third" else (size, 0.0)
                model = Cubic(second=second, third=third, straight=part == "second twice")
                x = train(model)
                J = model.jacobian(x)
                return np.concatenate([model.outputs(x)[TRAIN:], (J @ J.T).ravel()])

            size = {"second": 3e-4, "third": 3e-4, "second twice": 2e-3}[part]
            first, twice = second_order(found, size)
            outputs, ntk = predicted(algorithm, time, part)
            expected = np.concatenate([outputs, ntk.ravel()])
            got = twice if part == "second twice" else first
            worst = np.abs(got - expected).max() / np.abs(expected).max()
            if worst > 3e-4:
                wrong.append((algorithm, time, part, worst))
    assert wrong == []


def test_a_flow_is_as_exact_where_it_is_fast_as_where_it_is_slow() -> None:
    """Responses to a constant and their kernels in closed form, over nine decades of eigenvalues."""
    x = 10.0 ** np.arange(-5, 5)
    clock = FlowClock(3.0, x.max())
    t = clock._times[:, None]
    one = np.ones((t.size, x.size))
    response, end = clock.forward(one, x)
    size = np.minimum(3.0, 1 / x)
    grown, left = -np.expm1(-x * t) / x, -np.expm1(-x * (3 - t)) / x
    assert np.abs((response - grown) / size).max() < 1e-10
    assert np.abs((end + np.expm1(-3 * x) / x) / size).max() < 1e-10
    kernel = clock.backward(one, x, 2.0)
    assert np.abs((kernel - left - 2 * np.exp(-x * (3 - t))) / (size + 2)).max() < 1e-10
    assert clock.weights.sum() == pytest.approx(3.0, rel=1e-12)


def test_fluctuations_of_the_ntk_are_weighed_as_a_changed_ntk_trains() -> None:
    """Against the filter of the changed matrix itself."""
    J = Cubic(second=0.0, third=0.0, straight=False).J
    n, Theta = TRAIN, J @ J.T
    change = RNG.standard_normal(Theta.shape)
    change = change + change.T
    e = RNG.standard_normal(n)
    largest = np.linalg.eigvalsh(Theta[:n, :n]).max()
    cases = [
        (GradientFlow(), None),
        (GradientFlow(), 40.0),
        (GradientFlow(ridge=0.2), 1.1),
        (GradientDescent(0.9 / largest, momentum=0.4), 6.0),
        (GradientDescent(0.9 / largest, ridge=0.4), None),
    ]
    for algorithm, time in cases:

        def found(size: float, algorithm=algorithm, time=time) -> np.ndarray:
            moved = Theta + size * change
            h, U = np.linalg.eigh(moved[:n, :n])
            times = None if time is None else np.array([time])
            return -moved[n:, :n] @ U @ (algorithm.filter(h, times).gain[0] * (U.T @ e))

        h, U = np.linalg.eigh(Theta[:n, :n])
        T, turned = Theta[n:, :n] @ U, U.T @ change[:n, :n] @ U
        beyond, error = change[n:, :n] @ U, U.T @ e
        reaches = algorithm.reaches(h, time)
        once = -(beyond * reaches["H"].beyond - T @ (turned * reaches["H"].within)) @ error
        both = np.einsum("da,ab,ab,b->d", beyond, turned, reaches["HH"].beyond, error)
        both -= T @ np.einsum("oa,ab,oab,b->o", turned, turned, reaches["HH"].within, error)
        first, second = second_order(found, 1e-3)
        np.testing.assert_allclose(first, once, rtol=1e-6, atol=1e-8)
        np.testing.assert_allclose(second, both, rtol=1e-4, atol=1e-5)


def test_projectors_of_a_user_are_refused_or_taken_as_they_are() -> None:
    def inverse(h):
        return 1 / h

    own = Projectors(
        B=((lambda h: 0.5 / h, inverse),), IB=((lambda h: -1 / (6 * h), inverse, inverse),)
    )
    for name, reach in TwoStepNewton().reaches(H).items():
        np.testing.assert_allclose(own.reaches(H)[name].within, reach.within, rtol=1e-12)
    with pytest.raises(ValueError, match="must have 3 functions, one for each training leg; got 2"):
        Projectors(IA=((inverse, inverse),))
    with pytest.raises(ValueError, match=r"Projectors\.A` must return a finite number"):
        Projectors(A=((lambda h: h * np.nan, inverse),)).reaches(H)
    with pytest.raises(ValueError, match="`times` must be None for TwoStepNewton"):
        TwoStepNewton().filter(H, np.array([1.0]))
    with pytest.raises(ValueError, match=r"takes \d+ steps, .* take at most"):
        GradientDescent(1e-6, momentum=0.5).reaches(H)
    with pytest.raises(ValueError, match=r"GradientFlow\.time` must be left out"):
        GradientFlow(1.0).sums(H)
    with pytest.raises(ValueError, match=r"GradientDescent\.steps` must be left out"):
        GradientDescent(0.1, 3).sums(H)
    with pytest.raises(ValueError, match=r"momentum` must be 0 without a ridge"):
        GradientDescent(0.1, momentum=0.5).sums(H)
    products = GradientDescent(0.1, momentum=0.5, ridge=0.3)
    for name in PROJECTORS:
        whole = getattr(products.sums(H).whole(), name)
        np.testing.assert_allclose(products.reaches(H)[name].beyond, whole, rtol=1e-12)
