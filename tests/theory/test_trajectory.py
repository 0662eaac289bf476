"""Property tests: deep networks by interpolation are what every layer evaluated by itself gives."""

from collections.abc import Callable, Iterator

import numpy as np
import pytest

import scalewise as sw
from grids import thorough
from networks import net
from scalewise.gaussian import _increments
from scalewise.observables import OBSERVABLES
from scalewise.theory.flow import _deep_kernels, _trajectory
from scalewise.theory.flow import _kernel_flow as kernel_flow
from scalewise.theory.flow._layer import LayerExpectations
from scalewise.theory.flow._trajectory import LayerEstimates, Stretch, along
from scalewise.theory.order import tensor_flow
from scalewise.theory.order._one_input import one_input

# The third is nearly the first.
X = np.array([[1.0, 0.5, -0.3], [0.2, 1.0, 0.8], [1.0, 0.5, -0.301]])
# Kernels that fall like 1/depth, that run into a fixed point, that decorrelate, and that explode.
REGIMES = [(0.0, 1.0), (0.1, 0.9), (0.0, 1.5), (0.1, 3.0)]


def layer_by_layer(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_trajectory, "SHORTEST", 10**9)
    monkeypatch.setattr(kernel_flow, "SHORTEST", 10**9)


def in_a_chaotic_network(K: np.ndarray) -> bool:
    """Nearly equal inputs that part: rounding grows with their distance."""
    c = K[:, 0, 2] / np.sqrt(K[:, 0, 0] * K[:, 2, 2])
    return bool(1 - c[-1] > 100 * (1 - c[0]))


@pytest.mark.parametrize("name", ["tanh", "relu", *thorough("sin")])
def test_deep_kernels_are_those_of_every_layer(name, monkeypatch) -> None:
    failures = []
    for C_b, C_W in REGIMES:
        network = net(180, name, features=3, C_b=C_b, C_W=C_W, lambda_W=0.5)
        try:
            quick = kernel_flow.kernel_flow(network, X)
        except ValueError:  # it explodes
            continue
        with monkeypatch.context() as patch:
            layer_by_layer(patch)
            slow = kernel_flow.kernel_flow(network, X)
        loose = 1e-4 if in_a_chaotic_network(slow.K) else 1e-10
        # The slope of a kink goes with the angle, the root of what a correlation is short of 1 by.
        pairs = (quick.K, slow.K, loose), (quick.Theta, slow.Theta, max(loose, 1e-6))
        for found, want, tolerance in pairs:
            diagonal = np.einsum("laa->la", want)
            size = np.sqrt(diagonal[:, :, None] * diagonal[:, None, :])
            gap = np.max(np.abs(found - want) / size)
            exact = np.max(np.abs(np.einsum("laa->la", found) / diagonal - 1))
            if not (gap <= tolerance and exact <= 1e-10):
                failures.append((C_b, C_W, gap, exact))
    assert not failures


def stretch_of(name: str, x: np.ndarray, C_b: float, C_W: float) -> Iterator[tuple]:
    """Expectations of a network between the nodes of one stretch of it, found as `along` does."""
    network = net(200, name, features=3, C_b=C_b, C_W=C_W)
    K = kernel_flow.kernel_flow(network, x, ntk=False).K
    layers = [LayerExpectations(network.activation, kernel) for kernel in K]
    ways: list[Callable[[LayerExpectations], dict]] = [
        *(lambda layer, pq=pq: layer.of_moment(*pq) for pq in ((1, 1), (2, 0), (2, 2), (3, 1))),
        lambda layer: layer.of_source(),
        lambda layer: layer.of_family((0, 0, 1, 1)),
    ]
    for way in ways:
        blend = _trajectory._longest(K, 60, lambda k, way=way: way(layers[k]), {})
        if blend is not None:
            length, at = blend
            nodes = _trajectory.Stretch.of(60, length).nodes
            for k in {60 + length // 3, 60 + length // 2} - set(nodes.tolist()):
                yield at(k), way(layers[k])


@pytest.mark.parametrize(
    ("name", "C_b", "C_W", "pairs"),
    [
        ("tanh", 0.0, 1.0, [[0, 1]]),
        ("relu", 0.0, 2.0, [[0, 2]]),
        *thorough(
            ("hard_tanh", 0.0, 1.0, [[0, 1]]),
            ("tanh", 0.0, 1.0, [[0, 2]]),
            ("tanh", 0.1, 0.9, [[0, 1], [0, 2]]),
            ("relu", 0.0, 2.0, [[0, 1]]),
            ("leaky_relu", 0.1, 1.0, [[0, 1]]),
        ),
    ],
)
def test_stated_errors_cover_what_interpolation_misses(name, C_b, C_W, pairs) -> None:
    failures, interpolated = [], 0
    for pair in pairs:
        for quick, slow in stretch_of(name, X[pair], C_b, C_W):
            interpolated += 1
            for key, part in quick.items():
                gap = np.abs(part.value - slow[key].value)
                rounding = 1e-13 * np.abs(slow[key].value)
                if np.any(gap > part.error + slow[key].error + rounding):
                    failures.append((pair, key, float(np.max(gap))))
    assert not failures
    assert interpolated > 0 or name == "leaky_relu" or C_b > 0


LOW, HIGH = ["four_point_vertex", "metric_nlo"], ["four_point_vertex", "ntk_D"]


@pytest.mark.parametrize(
    ("name", "C_W", "names"), [("relu", 2.0, LOW), *thorough(("tanh", 1.0, HIGH))]
)
def test_tensors_of_deep_networks(name, C_W, names, monkeypatch) -> None:
    network, stretches = net(147, name, features=3, C_W=C_W, lambda_W=0.5), []
    longest = _trajectory._longest
    with monkeypatch.context() as patch:
        patch.setattr(
            _trajectory, "_longest", lambda *a: stretches.append(longest(*a)) or stretches[-1]
        )
        found = sw.predict(network, X[:2], observables=names)
    assert any(stretches)
    alone = sw.predict(network, X[1:2], observables=names)
    layer_by_layer(monkeypatch)
    direct = sw.predict(network, X[:2], observables=names)
    for variable in names:
        want, got = direct[variable].values, found[variable].values
        bars = found[f"{variable}_error"].values + direct[f"{variable}_error"].values
        size = np.abs(want).max(axis=tuple(range(1, want.ndim)), keepdims=True)
        assert np.all(np.abs(got - want) <= bars + 1e-13 * size), variable
        assert np.all(np.abs(got - want) <= 1e-9 * size), variable
        one = alone[variable].values.ravel()
        np.testing.assert_allclose(got[(..., *(1,) * (got.ndim - 1))], one, rtol=2e-9)


def test_one_input_from_tables_is_one_among_many() -> None:
    failures = []
    rates = {"C_b": 0.1, "lambda_b": 0.3, "lambda_W": 0.7, "width": (40, 100, 30)}
    for name in (
        "tanh",
        "gelu",
        "sin",
        "exp",
        "quadratic",
        "relu",
        "elu",
        "hard_tanh",
        "perceptron",
    ):
        network = net(4, name, features=3, C_W=0.2 if name == "exp" else 1.1, **rates)
        sigma = network.activation
        flow = kernel_flow.kernel_flow(network, X[:1], ntk=sigma.is_continuous)
        names = sw.predict(network, X[:1], observables="all").data_vars
        letters = [row.letter for name, row in OBSERVABLES.items() if name in names and row.order]
        found = one_input(network, flow.K, letters)
        many = tensor_flow(network, flow.K, flow.Theta, letters)
        for letter, (value, error) in found.items():
            want, doubt = many[letter]
            gap = np.abs(value - want)
            if np.any(gap > error + doubt) or gap.max() > 1e-9 * np.abs(want).max() + 1e-15:
                failures.append((name, letter, float(gap.max())))
    assert not failures


class Exponential:
    """Expectations made up: exp(-K), counted, with an error."""

    seen = 0

    def __init__(self, K: np.ndarray):
        type(self).seen += 1
        self.value = np.exp(-K)[None]

    @classmethod
    def along(cls, K: np.ndarray) -> list[np.ndarray]:
        def evaluate(layer: int) -> dict[str, LayerEstimates]:
            value = cls(K[layer]).value
            return {"value": LayerEstimates(value, 0 * value[0])}

        return [parts["value"].value for parts in along(K, evaluate)]


class Jumping(Exponential):
    """One whose value jumps where its kernel shows nothing."""

    def __init__(self, K: np.ndarray):
        super().__init__(K)
        self.value = self.value + (K[0, 0] < 0.004)


def kernels(at: np.ndarray) -> np.ndarray:
    """Two inputs, of a kernel that falls with the depth."""
    return at[:, None, None] * np.array([[1.0, 0.3], [0.3, 1.0]])


def test_few_layers_are_evaluated_and_all_are_right() -> None:
    K = kernels(1 / (5 + np.arange(4000.0)))
    for kind, most in ((Exponential, 150), (Jumping, 1500)):
        kind.seen = 0
        found = np.concatenate(kind.along(K))
        np.testing.assert_allclose(found, np.concatenate([kind(k).value for k in K]), rtol=1e-11)
        assert kind.seen - len(K) < most


def test_a_kernel_that_moves_otherwise_is_evaluated_at_every_layer() -> None:
    layers = np.arange(300.0)
    for at in (1 + 0.1 * (-1.0) ** layers, np.where(layers % 90 < 45, 1.0, 1.2)):
        Exponential.seen = 0
        assert len(Exponential.along(kernels(at))) == Exponential.seen == 300


def test_deep_kernels_are_found_from_few_layers(monkeypatch) -> None:
    evaluated, seen = _deep_kernels._evaluated, []
    monkeypatch.setattr(
        _deep_kernels, "_evaluated", lambda net, K: seen.append(K) or evaluated(net, K)
    )
    for name, C_W in (("tanh", 1.0), ("relu", 2.0)):
        seen.clear()
        kernel_flow.kernel_flow(net(1000, name, features=3, C_W=C_W), X[:2])
        assert 10 < len(seen) < 300, (name, len(seen))


def test_a_layer_between_the_nodes_that_moves_otherwise_is_noticed() -> None:
    for place in range(140, 150):
        at = 1 / (5 + np.arange(300.0))
        at[place] *= 1.5
        found = np.concatenate(Exponential.along(kernels(at)))
        np.testing.assert_allclose(found, np.exp(-kernels(at)), rtol=1e-11, err_msg=str(place))


def test_hyperparameters_of_each_layer_break_a_stretch(monkeypatch) -> None:
    C_W = tuple(1.0 + 0.2 * (layer % 3 == 0) for layer in range(200))
    network = net(200, "tanh", features=3, C_b=0.1, C_W=C_W)
    quick = kernel_flow.kernel_flow(network, X)
    layer_by_layer(monkeypatch)
    slow = kernel_flow.kernel_flow(network, X)
    np.testing.assert_allclose(quick.K, slow.K, rtol=1e-9)
    np.testing.assert_allclose(quick.Theta, slow.Theta, rtol=1e-9)


def test_a_stretch_interpolates_powers_of_the_depth() -> None:
    stretch = Stretch.of(100, 300)
    layers = np.arange(100, 400) + 1.0
    for power in (-2.0, -1.0, 0.5):
        values = layers**power
        found = stretch.between(values[stretch.nodes - 100])
        np.testing.assert_allclose(found, values, rtol=1e-12)
        tail = stretch.missed(values[stretch.nodes - 100], np.array(1e-9), rounding=np.array(0.0))
        assert tail is not None
        assert np.all(np.abs(found - values) <= tail + 1e-14 * values.max())


def test_tables_of_unequal_order_need_no_quadrature(monkeypatch) -> None:
    # Products of GELU's increments fall off at different rates with the order.
    def never(*_: object) -> None:
        raise AssertionError("A smooth activation at c = 0.995 needs a series alone.")

    products = [((0, 0), (2,)), ((0,), (1, 1, 2)), ((0, 0, 1), (3,)), ((0,), (0, 0, 1))]
    A, B = np.array([1.53]), np.array([1.62])
    C = 0.995 * np.sqrt(A * B)
    want = _increments._by_quadrature(sw.activation("gelu"), (A, B, C), products)
    monkeypatch.setattr(_increments, "_by_quadrature", never)
    found = _increments.pair_increments(sw.activation("gelu"), A, B, C, products)
    for key, estimate in found.items():
        gap = np.abs(estimate.value - want[key].value)
        assert gap <= estimate.error + want[key].error + 1e-14
