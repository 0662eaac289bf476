"""Agreement and property: tensors on a tile, and the expectations that they are made of, entry by entry."""

import dataclasses
import itertools

import numpy as np
import pytest

import scalewise as sw
from grids import thorough
from scalewise.training.tiles import _refined, _rules, _tiles
from scalewise.training.tiles._recursions import Tensors, _product, _total, families
from scalewise.training.tiles._rules import Accuracy
from scalewise.training.tiles._series import with_rest
from scalewise.training.tiles._setting import Site
from scalewise.training.tiles._telling import telling
from scalewise.training.tiles._tiles import Tile
from tile_networks import FINE, SCALES, network, stack_of

pytestmark = pytest.mark.filterwarnings("ignore::scalewise.training.ExpansionWarning")
LETTERS = {
    "V": "four_point_vertex",
    "D": "ntk_D",
    "A": "ntk_A",
    "F": "ntk_F",
    "B": "ntk_B",
    "P": "dntk_P",
    "Q": "dntk_Q",
    "R": "ddntk_R",
    "S": "ddntk_S",
    "T": "ddntk_T",
    "U": "ddntk_U",
}


@pytest.mark.parametrize(("depth", "activation"), [(3, "gelu"), *thorough((2, "sin"), (4, "erf"))])
def test_every_tensor_on_a_tile_is_that_of_predict(depth: int, activation: str) -> None:
    net, x = network(depth, activation), np.random.default_rng(depth).standard_normal((3, 3))
    known = sw.predict(net, x, observables="all", layers=depth)
    one, more = np.array([0]), np.arange(1, 3)
    failures = []
    stack = stack_of(net, x)
    for letter, name in LETTERS.items():
        both = (known[name].values[0], known[f"{name}_error"].values[0])
        entries = {
            (0, 1, 2, 3): [v[np.ix_(one, more, more, more)] for v in both],
            (1, 2, 0, 3): [np.moveaxis(v[np.ix_(more, more, one, more)], 2, 0) for v in both],
            (2, 0, 3, 3): [
                np.einsum("badd->abd", v[np.ix_(more, one, more, more)])[:, None] for v in both
            ],
        }
        for labels, (wanted, error) in entries.items():
            found = Tensors(stack, Tile((one, more, more, more))).last(letter, *labels)
            usual = np.sqrt(np.mean(error**2)) + 1e-5 * np.abs(both[0]).max()
            if not np.abs(found - wanted).max() < 4 * usual:
                failures.append((letter, labels, np.abs(found - wanted).max() / usual))
    for letter, name in (("G1", "metric_nlo"), ("H1", "ntk_nlo")):
        want, every = known[name].values[0], np.arange(3)
        found = Tensors(stack, Tile((every, every, one, one))).last(letter, 0, 1)
        error = known[f"{name}_error"].values[0].max() + 5e-5 * np.abs(want).max()
        if not np.abs(found - want).max() <= 4 * error:
            failures.append((letter, found, want))
    assert not failures


def closed_form(site: Site, vertices: list[tuple[int, int]]) -> float:
    """Of sines and their derivatives: a sum of exponentials."""
    total = 0.0
    for signs in itertools.product((1, -1), repeat=4):
        at = [x for x, _ in vertices]
        phase = np.pi / 2 * sum(s * (p - 1) for s, (_, p) in zip(signs, vertices, strict=True))
        s = np.array(signs, float)
        total += np.cos(phase) * np.exp(-0.5 * s @ site.K[np.ix_(at, at)] @ s) / 16
    return total


FAMILIES = ((0, 0, 0, 0), (0, 0, 1, 1), (1, 1, 1, 1), (2, 1, 1, 0), (3, 1, 1, 1), (2, 2, 1, 1))


def awkward() -> np.ndarray:
    """Inputs that are one, almost one, opposite, almost opposite, small, large and others."""
    rng = np.random.default_rng(7)
    x = rng.standard_normal((4, 3))
    near, against = x[0] + 1e-4 * x[1], -x[0] + 1e-5 * x[2]
    return np.stack([x[0], x[0], near, -x[0], against, 0.01 * x[1], 1.5 * x[2], x[3]])


@pytest.mark.parametrize("biases", [0.0, 0.3])
def test_expectations_of_sines_have_a_closed_form(biases: float) -> None:
    net = sw.MLP(2, 8, "sin", input_dim=3, output_dim=1, **(SCALES | {"C_b": biases}))
    (site,) = stack_of(net, awkward())
    every, failures = np.arange(8), []
    kinds = ((every[::7], every, *(every[[0, 2, 4]],) * 2), (every[1:2], *(every[2:6],) * 3))
    for rows in kinds:
        tile = Tile(rows)
        for family in FAMILIES:
            for orders in sorted(set(itertools.permutations(family)))[::3]:
                for labels in (
                    (0, 1, 2, 3),
                    (0, 1, 1, 2),
                    (1, 2, 2, 3),
                    (0, 2, 1, 1),
                    (0, 0, 1, 1),
                ):
                    vertices = list(zip(labels, orders, strict=True))
                    found = tile.four(site, *vertices)
                    for entry in zip(
                        *(r[:: len(r) // 3 + 1] for r in np.indices(found.shape).reshape(4, -1)),
                        strict=True,
                    ):
                        samples = [(int(rows[x][entry[x]]), p) for x, p in vertices]
                        gap = abs(found[entry] - closed_form(site, samples))
                        if not gap < 1e-4:
                            failures.append((labels, orders, samples, gap))
    assert not failures, failures[:5]


def test_expectations_of_four_independent_inputs() -> None:
    """What two inputs leave of two others is correlated neither fully nor not at all."""
    x, failures = np.random.default_rng(8).standard_normal((4, 6)), []
    net = sw.MLP(2, 8, "sin", input_dim=6, output_dim=1, **SCALES)
    (site,) = stack_of(net, x)
    tile = Tile(tuple(np.array([k]) for k in range(4)))
    for family in FAMILIES:
        for orders in sorted(set(itertools.permutations(family))):
            found = tile.four(site, *enumerate(orders)).item()
            want = closed_form(site, list(enumerate(orders)))
            if not abs(found - want) < 1e-4:
                failures.append((orders, found, want))
    assert not failures, failures[:5]


def test_the_series_is_exact_where_two_samples_are_one(monkeypatch: pytest.MonkeyPatch) -> None:
    """However few terms are summed, and whether or not lists of samples are the same."""
    net = sw.MLP(2, 8, "sin", input_dim=3, output_dim=1, **(SCALES | {"C_W": 6.0}))
    some, failures, moved = np.array([6, 3, 7, 5]), [], 0.0
    four = {0: (0, 1, 2, 3), 1: (0, 0, 2, 3)}
    three = {0: (0, 0, 1, 2), 1: (0, 0, 1, 1)}
    for second, blocks in (
        (some, (some[:1], some[1:3])),
        (some.copy(), (some[2:], some[:2])),
        (some[:3], (some[:3], some[:1])),
    ):
        (site,) = stack_of(net, awkward(), Accuracy(1e-6, 1e-5, 0.9))
        assert site.given.rule.terms < 8
        tile = Tile((some, second, *blocks))
        for labels, same in (four.values(), three.values()):
            for orders in ((1, 1, 1, 1), (0, 1, 2, 1), (1, 3, 1, 1)):
                found, known = (
                    tile.four(site, *zip(at, orders, strict=True)) for at in (labels, same)
                )
                with monkeypatch.context() as patch:
                    patch.setattr(_tiles, "with_rest", lambda out, *_: out)
                    alone = Tile(tile.rows).four(site, *zip(labels, orders, strict=True))
                x, y = next((x, y) for x, y in zip(labels, same, strict=True) if x != y)
                for i, j in np.argwhere(tile.rows[x][:, None] == tile.rows[y]):
                    at: list[slice | int] = [slice(None)] * 4
                    at[x], at[y] = int(i), int(j)
                    one = [0 if k == x else part for k, part in enumerate(at)]
                    gap = np.abs(found[tuple(at)] - known[tuple(one)]).max()
                    if not gap < 1e-4:
                        failures.append((labels, orders, i, j, gap))
                    moved = max(moved, np.abs(alone[tuple(at)] - known[tuple(one)]).max())
    assert not failures
    assert moved > 1e-3


def test_terms_that_are_left_out_fall_as_those_of_two_that_are_one() -> None:
    """A property: of geometric series all is found from the rest where two are one, with its sign."""
    terms, fall, R = 5, 0.8, np.linspace(-0.9, 1, 9).reshape(1, 3, 3)
    sizes = np.array([[1.0, -1.0, 2.0]])
    end = sizes * fall**terms / (1 - fall), sizes * fall ** (terms - 2) * (1 + fall)
    both = np.sqrt([[[1, 0, 2], [0, 1, 0], [2, 0, 4]]])
    both[0, 1, 1] = -1
    expected = both * sum((fall * R) ** k for k in range(terms, 400))
    found = with_rest(np.zeros((1, 3, 3)), (end, end), R, terms)
    np.testing.assert_allclose(found, expected, rtol=1e-12, atol=1e-14)


@pytest.mark.parametrize("activation", ["tanh", *thorough("gelu")])
def test_expectations_are_those_of_brute_force(activation: str) -> None:
    net = network(2, activation)
    (site,) = stack_of(net, awkward())
    g = np.linspace(-5.0, 5.0, 26)
    w = np.exp(-(g**2) / 2)
    nodes = np.stack(np.meshgrid(*(g,) * 4, indexing="ij")).reshape(4, -1)
    weights = np.prod(np.stack(np.meshgrid(*(w,) * 4, indexing="ij")).reshape(4, -1), axis=0)
    every, failures = np.arange(8), []
    tile = Tile((every, every.copy(), every[2:], every[3:]))
    for orders in FAMILIES:
        found = tile.four(site, *enumerate(orders))
        for entry in ((7, 6, 5, 2), (0, 2, 5, 4), (6, 7, 3, 0)):
            at = [int(tile.rows[x][entry[x]]) for x in range(4)]
            h, U = np.linalg.eigh(site.K[np.ix_(at, at)])
            z = (U * np.sqrt(np.maximum(h, 0))) @ nodes
            values = [
                site.sigma.derivative(z[x], p) if p else site.sigma(z[x])
                for x, p in enumerate(orders)
            ]
            want = np.sum(weights * np.prod(values, axis=0)) / weights.sum()
            if not abs(found[entry] - want) < 3e-4:
                failures.append((orders, entry, found[entry], want))
    assert not failures


def test_products_on_labels_are_einsum() -> None:
    rng = np.random.default_rng(0)
    rows = (np.array([4, 1]), *(np.array([0, 2, 3]),) * 3)
    rows = (rows[0], rows[1], rows[1], rows[1])
    tile, one, two = Tile(rows), *rng.standard_normal((2, 5, 5))
    a, b = one[np.ix_(rows[1], rows[2])], two[np.ix_(rows[0], rows[3])]
    found = _product([tile.edge(one, 1, 2), tile.edge(two, 0, 3), 2.0])
    np.testing.assert_allclose(found, 2 * np.einsum("bc,ad->abcd", a, b))
    whole = rng.standard_normal((2, 3, 3, 3))
    found = _product([whole, tile.edge(one, 1, 2), tile.edge(two, 0, 3)])
    np.testing.assert_allclose(found, np.einsum("abcd,bc,ad->abcd", whole, a, b))
    turned, once = tile.edge(one, 2, 1), tile.edge(one, 3, 3)
    np.testing.assert_allclose(turned[0, :, :, 0], a.T)
    np.testing.assert_allclose(once[0, 0, 0], np.diag(one)[rows[3]])
    terms = iter([(2.0, turned), (once, 3.0, tile.edge(two, 0, 1)), (None, turned)])
    want = 2 * a.T[None, :, :, None] + 3 * np.einsum("d,ab->abd", np.diag(a), b)[:, :, None]
    total = _total(terms)
    assert total is not None
    np.testing.assert_allclose(total, want)


def test_what_is_alike_is_made_once_and_transposed() -> None:
    same = np.arange(3)
    tile, made = Tile((np.array([0]), same, same, same)), []

    def make(*labels: int) -> np.ndarray:
        made.append(labels)
        sizes = [1, 3, 3, 3]
        return np.random.default_rng(0).standard_normal(
            [sizes[x] if x in labels else 1 for x in range(4)]
        )

    first = tile.known("T", (0, 1, 2, 2), make)
    second, third = tile.known("T", (0, 3, 1, 1), make), tile.known("T", (1, 0, 2, 2), make)
    assert made == [(0, 1, 2, 2), (1, 0, 2, 2)]
    assert first is not None
    assert second is not None
    assert third is not None
    np.testing.assert_array_equal(second[:, :, 0].transpose(0, 2, 1), first[..., 0])


def test_families_that_share_sums_are_those_made_alone() -> None:
    """All orders at four labels of some tensor, where they stand on any of these."""
    x = np.random.default_rng(2).standard_normal((5, 4))
    stack = stack_of(network(2, "gelu"), x[:, :3])
    asked = families(frozenset(LETTERS))
    known = ("0000", "0011", "1111", "0112", "1113", "1122")
    assert asked == {tuple(map(int, orders)) for orders in known}
    every, one, other = np.arange(5), np.array([0, 1]), np.array([2])
    together = Tile((every, every, one, other), families=asked)
    for orders in sorted(asked):
        for p, q, r, s in sorted(set(itertools.permutations(orders))):
            vertices = ((0, p), (1, q), (2, r), (3, s))
            alone = Tile((every, every, one, other)).four(stack[0], *vertices)
            found = together.four(stack[0], *vertices)
            np.testing.assert_allclose(found, alone, atol=1e-5 * np.abs(alone).max())


@pytest.mark.parametrize(  # two inputs leave nothing of others
    ("name", "inputs", "thinned"), [("tanh", 2, 2), ("gelu", 2, 2), ("tanh", 4, 3)]
)
def test_the_first_nodes_are_coarser_rules(name: str, inputs: int, thinned: int) -> None:
    """Of a Gaussian: weights of every share make 1, and give its second moments."""
    rho = 0.3 + 0.7 * np.eye(inputs)
    rule = _rules.rule_for(sw.activation(name), rho, 1.2, _refined.ACCURACIES[1])
    counts = dict(zip(rule.nodes, rule.shares, strict=True))
    assert len(counts) == 1 + thinned
    for count, share in counts.items():
        u, w = rule.u[:, :count], rule.w[:count] / share
        assert w.sum() == pytest.approx(1.0)
        atol = 0.1 if count == rule.nodes[-1] and thinned == 3 else 0.02
        np.testing.assert_allclose((u * w) @ u.T, np.eye(2), atol=atol)


@pytest.mark.parametrize(("name", "sd"), [("sin", 1.265), ("softplus", 0.474)])
def test_every_accuracy_has_nodes_of_its_own(name: str, sd: float) -> None:
    """Two accuracies with one error would look exact; the errors of squares of two inputs fall with each."""
    sigma, rho = sw.activation(name), np.array([[1.0, 0.2], [0.2, 1.0]])
    levels = (*_refined.ACCURACIES, _refined._FINEST)
    lattices = [_rules.rule_for(sigma, rho, sd, accuracy).u for accuracy in levels]
    for axis in range(2):
        steps = [np.diff(np.unique(u[axis].round(9))).min() for u in lattices]
        assert all(fine < 0.95 * coarse for coarse, fine in itertools.pairwise(steps))
    if name != "sin":
        return
    # Of sin² of both, by the sum and the difference of the angles.
    alone, both, apart = (np.exp(-2 * sd**2 * x) for x in (1.0, 2.4, 1.6))
    wanted, errors = 0.25 * (1 - 2 * alone + (both + apart) / 2), []
    s, t = np.sqrt(0.6), np.sqrt(0.4)
    for accuracy in levels:
        rule = _rules.rule_for(sigma, rho, sd, accuracy)
        (u1, u2), w = rule.u, rule.w
        found = w @ (np.sin(sd * (s * u1 + t * u2)) * np.sin(sd * (s * u1 - t * u2))) ** 2
        errors.append(abs(found - wanted))
    assert all(fine < max(0.5 * coarse, 1e-9) for coarse, fine in itertools.pairwise(errors)), (
        errors
    )


def test_each_accuracy_is_five_times_the_one_before() -> None:
    for one, next_ in itertools.pairwise((*_refined.ACCURACIES, _refined._FINEST)):
        for name, part in dataclasses.asdict(one).items():
            assert getattr(next_, name) == pytest.approx(_refined._RATIO * part)


@pytest.mark.parametrize("name", ["tanh", "gelu", "sin"])
def test_nodes_that_are_passed_over_tell_of_nothing(name: str) -> None:
    """However two inputs are correlated and how large they are, and wherever two others look."""
    sigma, accuracy, rng = sw.activation(name), 1e-5, np.random.default_rng(4)
    rho, sd = 0.3 + np.diag([0.7] * 3), np.array([0.4, 1.3])
    rho[0, 1] = rho[1, 0] = 0.9
    rule = _rules.rule_for(sigma, rho, sd[1], _refined.ACCURACIES[1])
    least = 1.0
    for p, q in itertools.product(range(3), repeat=2):
        found = telling(sigma, rule, ((p,), (q,)), sd, np.linspace(0.3, 0.9, 6), accuracy)
        for count, size, nodes in list(zip(rule.nodes, rule.sizes, found, strict=True))[::4]:
            passed = np.setdiff1d(np.arange(count), np.arange(count)[nodes])
            least = min(least, 1 - len(passed) / count)
            for r, one, other in rng.uniform([0.3, *sd[[0, 0]]], [0.9, *sd[[1, 1]]], (20, 3)):
                both, apart = np.sqrt((1 + r) / 2) * rule.u[0], np.sqrt((1 - r) / 2) * rule.u[1]
                first = sigma.derivatives[p](one * (both + apart))
                second = sigma.derivatives[q](other * (both - apart))
                share = rule.w * np.abs(first * second)
                beside = np.prod(sigma(sd[1] * rng.standard_normal((2, 2)) @ rule.u), axis=0)
                told = np.abs(share * beside)[passed].sum()
                assert told < 5 * accuracy / size * share.sum() * (rule.w @ beside**2) ** 0.5
    assert least < (1.0 if name == "sin" else 0.7)


def test_where_an_input_is_small_no_derivative_is() -> None:
    """Then only what tells nothing of a Gaussian is passed over."""
    net = sw.MLP(2, 8, "tanh", input_dim=3, output_dim=1, **(SCALES | {"C_b": 0.0}))
    x, passed = np.random.default_rng(1).standard_normal((4, 3)), []
    x *= 2 / np.linalg.norm(x, axis=1, keepdims=True)
    for size in (1.0, 1e-3):
        x[0] *= size
        (site,) = stack_of(net, x)
        (nodes, *_), rule = site.given.telling((1,), (1,)), site.given.rule
        passed.append(1 - rule.w[np.arange(rule.nodes[0])[nodes]].sum())
    assert passed[0] > 1e-4
    assert passed[1] < FINE.nodes


def test_a_derivative_that_is_zero_needs_no_node() -> None:
    parabola = sw.activation("quadratic")
    rule = _rules.rule_for(parabola, 0.3 + 0.7 * np.eye(2), 1.0, _refined.ACCURACIES[0])
    nodes = telling(parabola, rule, ((3,), (1,)), np.ones(1), np.array([0.3]), 1e-5)
    assert all(np.arange(rule.w.size)[part].size == 0 for part in nodes)


def test_a_term_that_is_zero_needs_no_node() -> None:
    """Of inputs that are almost one a series ends before its terms do, to the last digit."""
    sigma, rho = sw.activation("tanh"), 0.3 + 0.7 * np.eye(2)
    rule = _rules.rule_for(sigma, rho, 1.0, _refined.ACCURACIES[0])
    ended = dataclasses.replace(rule, sizes=(*rule.sizes[:-1], 0.0))
    nodes = telling(sigma, ended, ((0,), (0,)), np.ones(1), np.array([0.3]), 1e-5)
    counts = [len(np.arange(count)[part]) for count, part in zip(rule.nodes, nodes, strict=True)]
    assert counts[-1] == 0
    assert min(counts[:-1]) > 0
