"""Every law of a plan, fitted on real updates of small networks: powers of the width and of the depth."""

from collections.abc import Callable
from fractions import Fraction

import numpy as np
import pytest

from described_models import planned
from grids import thorough
from scalewise import scaling
from scalewise.plan import Law, Layer, Norm, Role, rule
from scalewise.plan._laws import OPTIMIZERS, SPECTRAL, Optimizer, shampoo
from scalewise.plan._predicted import predicted
from scalewise.plan._roles import Kind
from toy_updates import UPDATES, Update, grafted, powered, rms

HALF, QUARTER, ONE = Fraction(1, 2), Fraction(1, 4), Fraction(1)
WIDTHS, DEPTHS, SEEDS, BATCH, FEW = (64, 128, 256, 512), (4, 8, 16, 32), 3, 4, 8
NEAR = 0.12
LAYERS = {
    Role.INPUT: Layer.FIRST,
    Role.HIDDEN: Layer.HIDDEN,
    Role.VECTOR: Layer.HIDDEN,
    Role.OUTPUT: Layer.LAST,
}
Tensors = dict[Role, tuple[np.ndarray, np.ndarray, np.ndarray]]


def slope(sizes: tuple[int, ...], found: list[float]) -> float:
    return float(np.polyfit(np.log(np.repeat(sizes, SEEDS)), np.log(found), 1)[0])


def network(n: int, s: float, seed: int) -> Tensors:
    """A perceptron without multipliers: by role a weight, its gradient and what it is multiplied with."""
    rng = np.random.default_rng([n, seed])
    W1 = rng.normal(size=(n, FEW)) / FEW**0.5
    W2 = rng.normal(size=(n, n)) * (2 / n) ** 0.5
    W3 = rng.normal(size=(FEW, n)) * n ** (-(1 + s) / 2)
    gain = np.ones(n)
    # The same at every width.
    x, pull = np.random.default_rng(seed).normal(size=(2, FEW, BATCH)) / BATCH**0.5
    h1 = np.maximum(W1 @ x, 0)
    z2 = W2 @ h1
    d2 = W3.T @ pull * (z2 > 0)
    d1 = W2.T @ d2 * (h1 > 0)
    return {
        Role.INPUT: (W1, d1 @ x.T, x),
        Role.HIDDEN: (W2, d2 @ h1.T, h1),
        Role.VECTOR: (gain, d1.sum(1), np.ones(1)),
        Role.OUTPUT: (W3, pull @ np.maximum(z2, 0).T, np.maximum(z2, 0)),
    }


@pytest.fixture(scope="module")
def networks() -> dict[float, list[Tensors]]:
    return {s: [network(n, s, i) for n in WIDTHS for i in range(SEEDS)] for s in (1.0, 0.5)}


def moved(update: Update, W: np.ndarray, G: np.ndarray, x: np.ndarray) -> float:
    """What a step with a learning rate of one does to the output of a tensor."""
    step = update.step(G, W)
    return rms(step if step.ndim == 1 else step @ x)


def wanted(strategy: scaling.Strategy, role: Role) -> Fraction:
    """The power of the width by which a tensor's own step is to move its output."""
    return Fraction(0) if role is Role.OUTPUT else -scaling.update_exponents(strategy)[-1]


def width_problems(name: str, networks: list[Tensors], s: float, law: Law, update: Update, roles):
    strategy, out = scaling.meta(Fraction(s)), []
    for role in roles:
        planned = rule(strategy, role, LAYERS[role], law)
        cases = [tensors[role] for tensors in networks]
        own = slope(WIDTHS, [moved(update, *case) for case in cases])
        lr = float(wanted(strategy, role)) - own
        if abs(lr - float(planned.lr.of_width)) > NEAR:
            out.append(f"{name}, s={s}, {role}: lr n^{lr:.2f}, planned n^({planned.lr.of_width})")
        if (update.beside is None) is not (law.eps is None):
            out.append(f"{name}: epsilon of one only")
        if update.beside is not None:
            eps = slope(WIDTHS, [update.beside(G, W) for W, G, _ in cases])
            if abs(eps - float(planned.eps.of_width)) > NEAR:
                out.append(
                    f"{name}, s={s}, {role}: eps n^{eps:.2f}, planned n^({planned.eps.of_width})"
                )
    return out


def trainers(optimizer: Optimizer) -> list[tuple[Optimizer, list[Role]]]:
    """Who trains which of the roles: matrices on their own, whoever trains embeddings and readouts."""
    matrices = [Role.INPUT, Role.HIDDEN, Role.OUTPUT]
    if optimizer.rest is None:
        return [(optimizer, [*matrices, Role.VECTOR])]
    return [(optimizer, matrices), (optimizer.rest, [Role.VECTOR])]


@pytest.mark.parametrize("s", [1.0, *thorough(0.5)])
def test_powers_of_the_width_are_those_of_real_updates(
    s: float, networks: dict[float, list[Tensors]]
) -> None:
    problems = []
    for optimizer in OPTIMIZERS.values():
        for who, roles in trainers(optimizer):
            update = UPDATES[who.name]
            problems += width_problems(who.name, networks[s], s, who.law, update, roles)
    assert not problems, "\n".join(problems)


def test_other_exponents_of_shampoo(networks: dict[float, list[Tensors]]) -> None:
    problems = []
    for left, right in ((HALF, Fraction(0)), (QUARTER, Fraction(1, 8)), (HALF, HALF)):
        h = float(1 - 2 * (left + right))
        plain = Update(
            lambda G, W, h=h: powered(G, h), lambda G, W: float(np.linalg.norm(G, 2)) ** 2
        )
        graft = Update(
            lambda G, W, h=h: grafted(G, h), lambda G, W, h=h: float(np.linalg.norm(powered(G, h)))
        )
        for law, update in (
            (shampoo(left, right), plain),
            (shampoo(left, right, grafted=True), graft),
        ):
            roles = [Role.INPUT, Role.HIDDEN, Role.OUTPUT]
            problems += width_problems(f"{left}, {right}", networks[1.0], 1.0, law, update, roles)
    assert not problems, "\n".join(problems)


def chain(L: int, alpha: float, seed: int, n: int = 64) -> tuple[list, Callable[..., np.ndarray]]:
    """Blocks of two layers on a stream: weights with their gradients, and the stream as a function of weights."""
    rng = np.random.default_rng([L, seed])
    A = rng.normal(size=(L, n, n)) * (2 / n) ** 0.5
    B = rng.normal(size=(L, n, n)) * (1 / n) ** 0.5
    x, pull = np.random.default_rng(seed).normal(size=(2, n, BATCH))
    scale = L**-alpha

    def stream(A: np.ndarray, B: np.ndarray) -> np.ndarray:
        z = x
        for a, b in zip(A, B, strict=True):
            z = z + scale * b @ np.maximum(a @ z, 0)
        return z

    streams = [x]
    for a, b in zip(A, B, strict=True):
        streams.append(streams[-1] + scale * b @ np.maximum(a @ streams[-1], 0))
    gradients, d = [], pull
    for a, b, z in zip(A[::-1], B[::-1], streams[-2::-1], strict=True):
        h = np.maximum(a @ z, 0)
        dh = scale * (b.T @ d) * (h > 0)
        gradients.append((dh @ z.T, scale * d @ h.T))
        d = d + a.T @ dh
    return [A, B, *map(np.array, zip(*gradients[::-1], strict=True))], stream


def test_powers_of_the_depth_are_those_of_real_updates() -> None:
    problems = []
    strategy, small = scaling.mup(), 1e-7
    rows = {o.name: o for o in OPTIMIZERS.values()}
    # Optimizers of one law on matrices differ by their epsilon only.
    kept = ("sgd", "adamw", "adafactor", "lamb", "sophia", "muon", "adamuon", "normuon", "shampoo",
            "shampoo_half", "shampoo_grafted", "soap", "soap_inputs")  # fmt: skip
    for alpha in (HALF, ONE):
        nets = [chain(L, float(alpha), i) for L in DEPTHS for i in range(SEEDS)]
        for name in kept:
            law, update, changes, beside = rows[name].law, UPDATES[name], [], []
            for (A, B, GA, GB), stream in nets:
                steps = [
                    np.array([update.step(g, w) for g, w in zip(G, W, strict=True)])
                    for G, W in ((GA, A), (GB, B))
                ]
                unit = small / max(rms(s) for s in steps)
                new = stream(A - unit * steps[0], B - unit * steps[1])
                changes.append(rms(new - stream(A, B)) / unit)
                mid = len(A) // 2
                beside += [update.beside(GA[mid], A[mid])] if update.beside else []
            planned = rule(strategy, Role.HIDDEN, Layer.HIDDEN, law, residual=alpha, in_block=True)
            pairs = [("lr", -slope(DEPTHS, changes), planned.lr.depth, 1)]
            if law.eps is not None:
                # What goes as a square is off by twice as much.
                square = max(1, law.eps.gradient)
                pairs.append(("eps", slope(DEPTHS, beside), planned.eps.depth, square))
            problems += [
                f"{name}, alpha={alpha}: {what} L^{found:.2f}, planned L^({power})"
                for what, found, power, times in pairs
                if abs(found - float(power)) > 1.5 * NEAR * times
            ]
    assert not problems, "\n".join(problems)


def test_wrong_recipes_are_off_by_what_is_said(networks: dict[float, list[Tensors]]) -> None:
    """Gradient descent's fan-out over fan-in with Adam, Muon by the larger side, 1/L on AdaMuon's epsilon."""
    cases = [tensors[Role.HIDDEN] for tensors in networks[1.0]]
    adam = slope(WIDTHS, [moved(UPDATES["adamw"], *case) for case in cases])
    assert adam == pytest.approx(1.0, abs=NEAR)
    factor = np.repeat(np.sqrt(WIDTHS), SEEDS)
    muon = [f * moved(UPDATES["muon"], *case) for f, case in zip(factor, cases, strict=True)]
    assert slope(WIDTHS, muon) == pytest.approx(0.5, abs=NEAR)
    planned = rule(scaling.mup(), Role.HIDDEN, Layer.HIDDEN, "adamuon", residual=ONE, in_block=True)
    beside = UPDATES["adamuon"].beside
    assert beside is not None
    found = [
        beside(chain(L, 1.0, i)[0][2][L // 2], np.zeros(0)) for L in DEPTHS for i in range(SEEDS)
    ]
    # So one over the depth is off by a whole power.
    assert slope(DEPTHS, found) == pytest.approx(0.0, abs=NEAR)
    assert planned.eps.depth == 0


def test_absorbed_multipliers() -> None:
    """The same function and the same change of it, whatever the law."""
    problems = []
    for optimizer in OPTIMIZERS.values():
        law = optimizer.law
        plain, own = (
            rule(
                scaling.mup(),
                Role.HIDDEN,
                Layer.HIDDEN,
                law,
                residual=HALF,
                in_block=True,
                absorbs_branch=absorbs,
            )
            for absorbs in (False, True)
        )
        h, c = law.degree, law.norm.weight
        # Entries of the step: rate, gradient to the degree, and the norm, of which the weight is a part.
        shift = own.lr.depth - plain.lr.depth + h * HALF - c * (h - 1) * HALF
        if shift != -HALF or own.init.depth != -HALF:
            problems.append((optimizer.name, shift))
    assert not problems


def test_standard_has_one_learning_rate_under_every_law() -> None:
    for optimizer in OPTIMIZERS.values():
        for role, layer in LAYERS.items():
            r = rule(scaling.standard(), role, layer, optimizer.law)
            assert r.lr.of_width == r.eps.of_width == 0, (optimizer.name, role)


def test_hidden_layers_are_predicted_to_move_alike_under_every_law() -> None:
    """By n^-(1 - s)/2, whatever the degree of a step in the gradient: 1, 0, and -1 of Shampoo with halves."""
    degrees = set()
    for optimizer in OPTIMIZERS.values():
        for s in (Fraction(0), HALF, ONE):
            plan = planned(scaling.meta(s), optimizer.name)
            (name,) = (t.name for t in plan.tensors if t.role is Role.HIDDEN)
            assert predicted(plan, name).own_change == -(1 - s) / 2, (optimizer.name, s)
        degrees.add(plan[name].law.degree)
    assert degrees == {ONE, 0, -ONE}


def test_who_trains_what() -> None:
    muon, soap, sgd = (OPTIMIZERS[name] for name in ("muon", "soap", "sgd"))
    said = [
        (Role.HIDDEN, Kind.MATRIX, 2), (Role.INPUT, Kind.MATRIX, 2), (Role.INPUT, Kind.LOOKUP, 2),
        (Role.OUTPUT, Kind.MATRIX, 2), (Role.VECTOR, Kind.BIAS, 1), (Role.HIDDEN, Kind.MATRIX, 4),
        (Role.BOTTLENECK, Kind.MATRIX, 2),
    ]  # fmt: skip
    assert [muon.of(*t) is muon for t in said] == [True, True, False, False, False, False, True]
    assert [soap.of(*t) is soap for t in said] == [True, True, True, True, False, True, True]
    assert all(sgd.of(*t) is sgd for t in said)


def test_a_vector_of_numbers_is_a_law() -> None:
    """Lengths of sides enter by the norm alone: at degree one it is gone."""
    one = rule(scaling.meta(HALF), Role.HIDDEN, Layer.HIDDEN, Law(SPECTRAL, ONE))
    assert one == rule(scaling.meta(HALF), Role.HIDDEN, Layer.HIDDEN, Law(Norm(), ONE))
