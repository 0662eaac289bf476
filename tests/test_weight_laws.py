"""Golden, property and agreement: weights of other laws than the normal one, which shift means at order 1/n."""

import math
import pickle

import jax.numpy as jnp
import numpy as np
import pytest
from numpy.polynomial import Polynomial

import scalewise as sw
from grids import each, thorough
from scalewise.nets import init_weights
from scalewise.nets._networks import precision
from scalewise.nets._packed import Packed
from scalewise.networks import WeightLaw
from scalewise.networks._laws import LAWS
from scalewise.theory.order import _responses
from scalewise.theory.order._responses import order_one
from scalewise.theory.order._whole import whole_tensors

RATES = {"C_b": 0.1, "C_W": 2.0, "lambda_b": 0.5, "lambda_W": 0.7}
X = np.array([[0.9, -0.5, 0.3], [0.2, 0.8, -0.4]])
FIRST = sw.Dense(law="normal")
TAIL = sw.GlobalAvgPool(), sw.Dense(1)
SHIFTS = ("metric_nlo", "ntk_nlo")


def chain(*middle, law="uniform", sigma="tanh", width=32, x=X, **rest) -> sw.Network:
    """A normal first layer, what is between, and a read-out."""
    layers = (FIRST, sigma, *(middle or (sw.Dense(), sigma)), sw.Dense(1))
    return sw.Network(*layers, input_shape=x.shape[1:], width=width, law=law, **RATES | rest)


def shifts_of(net: sw.Network, x: np.ndarray = X, names: tuple = SHIFTS) -> dict[str, np.ndarray]:
    """What its laws add to coefficients of 1/n in the last layer."""
    own, plain = (
        sw.predict(one, x, observables=names, layers=net.depth)
        for one in (net, net.replace(law="normal"))
    )
    return {name: (own[name] - plain[name]).values[-1] for name in names}


def average(K: np.ndarray, function) -> float:
    """Of a function of two Gaussian variables, by equal steps."""
    z = np.linspace(-8.0, 8.0, 81)
    w = np.exp(-(z**2) / 2) / np.exp(-(z**2) / 2).sum()
    x, y = np.tensordot(np.linalg.cholesky(K), np.stack(np.meshgrid(z, z)), 1)
    return float(w @ function(x, y) @ w)


def derivatives(count: int) -> list:
    """Of the hyperbolic tangent, as polynomials of it."""
    found = [Polynomial([0.0, 1.0])]
    for _ in range(count):
        found.append(found[-1].deriv() * Polynomial([1.0, 0.0, -1.0]))
    return [lambda z, p=p: p(np.tanh(z)) for p in found]


def test_two_hidden_layers_have_the_fourth_derivative_along_single_units() -> None:
    r"""$\kappa_4\langle(x\cdot\partial)^4\rangle\mathbb E[f]/24$, with $x$ and its tangents of one unit below."""
    net, (C_W, lambda_W) = chain(), (RATES["C_W"], RATES["lambda_W"])
    flow = sw.predict(net, X, observables=["kernel", "ntk"])
    K, Theta = flow.kernel.values, flow.ntk.values
    sigma = derivatives(5)

    def along(s: int, t: int, order: int, *, first: int = 0, tangents: bool = False) -> float:
        """Of two derivatives of sigma, the mean derivative of this order along the values of a unit."""

        def term(k: int) -> float:
            def unit(x, y):
                weight = sigma[1](x) * sigma[1](y) if tangents else 1.0
                return sigma[0](x) ** (order - k) * sigma[0](y) ** k * weight

            p, q = first + order - k, first + k
            above = average(at(1, s, t), lambda x, y: sigma[p](x) * sigma[q](y))
            return math.comb(order, k) * average(at(0, s, t), unit) * above

        return sum(map(term, range(order + 1)))

    def at(layer: int, s: int, t: int) -> np.ndarray:
        return K[layer][np.ix_((s, t), (s, t))] + 1e-12 * np.eye(2)

    kappa = -1.2 * C_W**2 / 24
    G, H = shifts_of(net).values()
    for s, t in ((0, 0), (0, 1), (1, 1)):
        plain, slopes = along(s, t, 4), along(s, t, 4, first=1)
        mixed = Theta[0][s, t] * along(s, t, 2, first=1, tangents=True)
        assert np.isclose(G[s, t], kappa * C_W * plain, rtol=1e-5)
        both = Theta[1][s, t] * slopes + 12 * mixed
        assert np.isclose(H[s, t], kappa * (lambda_W * plain + C_W * both), rtol=1e-5)


def test_a_power_has_the_moments_of_sums() -> None:
    r"""Of $\sigma=z^2$ a metric is $\mathbb E[z^4]$, whose part of the law is exact at any width."""
    x = np.array([[0.7]])
    net = chain(law="rademacher", sigma=lambda z: z**2, x=x)
    K = RATES["C_b"] + RATES["C_W"] * 0.49
    fourth = 105 * K**4  # of what enters the second layer
    (found,) = shifts_of(net, x, SHIFTS[:1]).values()
    np.testing.assert_allclose(found, RATES["C_W"] * -2 * RATES["C_W"] ** 2 * fourth, rtol=1e-8)


def test_weights_that_add_up_add_their_fourth_cumulants() -> None:
    """Two random layers in place of one, and taps that see the same."""
    one = shifts_of(chain(sw.Dense(C_W=1.3), "tanh"))
    rates = {"lambda_b": 0.25, "lambda_W": 0.35}
    parts = [sw.Dense(C_b=0.06, C_W=0.9, **rates)], [sw.Dense(C_b=0.04, C_W=0.4, **rates)]
    split = shifts_of(chain(sw.Parallel(*parts), "tanh"))
    seen = np.repeat(X[:, None], 3, axis=1)
    middle = (sw.Conv(3, padding="circular", C_W=1.3), "tanh", sw.GlobalAvgPool())
    taps = shifts_of(chain(*middle, x=seen), seen)
    for name, values in one.items():
        share = (0.9**2 + 0.4**2) / 1.3**2
        np.testing.assert_allclose(split[name], share * values, rtol=1e-7)
        np.testing.assert_allclose(taps[name], values / 3, rtol=1e-5, atol=1e-8)


def test_fluctuations_are_those_of_normal_weights() -> None:
    names = ["kernel", "ntk", "four_point_vertex", "ntk_A", "ntk_B", "ntk_D", "ntk_F"]
    own, plain = (sw.predict(chain(law=law), X, observables=names) for law in ("uniform", "normal"))
    for name in names:
        np.testing.assert_allclose(own[name], plain[name], rtol=1e-9, atol=1e-12)
    for still in (chain(sigma="linear"), chain(FIRST, "tanh")):
        for values in shifts_of(still, names=SHIFTS[:1]).values():
            np.testing.assert_allclose(values, 0.0, atol=1e-12)


def test_single_units_are_moved_as_whole_arrays(monkeypatch: pytest.MonkeyPatch) -> None:
    """Two codes that share no formula, with taps of their own at each place."""
    monkeypatch.setattr(_responses, "_MOST", 1 << 11)
    monkeypatch.setattr(_responses, "_SCRAMBLES", 8)
    x = np.random.default_rng(2).normal(size=(2, 2, 3))
    layers = sw.Conv(1, law="normal"), "tanh", sw.Local(2), "tanh", *TAIL
    net = sw.Network(*layers, input_shape=(2, 3), width=32, law="rademacher", **RATES)
    both = net, net.replace(law="normal")
    (own, noise), (plain, _) = (order_one(one, x, ("G1",), (net.depth,))["G1"] for one in both)
    want, _ = np.subtract(*(whole_tensors(one, x, ("G1",), (net.depth,))["G1"] for one in both))
    np.testing.assert_array_less(np.abs(own - plain - want), 6 * noise)
    assert np.diag(want[0]).min() > 5 * noise.max()


AS_THEY_ARE = WeightLaw("as they are", 0.0, lambda z: z)


def coupled(net: sw.Network, x: np.ndarray, networks: int, seeds: int) -> dict[str, tuple]:
    """n times the shift of kernel and NTK in the last layer, drawn from the same normal numbers; and its error."""
    found: dict[str, list] = {"kernel": [], "ntk": []}
    options = {"networks": networks, "observables": list(found), "progress": False}
    for seed in range(seeds):
        # Normal numbers under another name: a perceptron of normal weights is drawn without weights.
        own, plain = (
            sw.measure(one, x, seed=seed, **options) for one in (net, net.replace(law=AS_THEY_ARE))
        )
        for name, values in found.items():
            values.append(net.width * (own[name] - plain[name]).values[-1])
    return {
        name: (np.mean(values, axis=0), np.std(values, axis=0, ddof=1) / np.sqrt(seeds))
        for name, values in found.items()
    }


PLACED = np.random.default_rng(1).normal(size=(2, 4, 3))
CASES = {
    "uniform": (lambda: chain(width=16), X, 8000),
    "signs in pooled convolutions": (
        lambda: sw.Network(
            *(sw.Conv(3, padding="circular", law="normal"), "tanh"),
            *(sw.Conv(3, padding="circular"), "tanh", sw.GlobalAvgPool(), sw.Dense(), "tanh"),
            sw.Dense(1), input_shape=(4, 3), width=16, law="rademacher", **RATES,
        ), PLACED, 12000,
    ),
    "uniform behind a norm": (
        lambda: chain(sw.Dense(), sw.LayerNorm(), "tanh", sw.Dense(), "tanh", width=16), X, 12000,
    ),
    "truncated on a stream": (
        lambda: chain(sw.Skip(sw.Dense(), "tanh"), sw.Dense(), "tanh", law="truncated normal"), X, 16000,
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", [*list(CASES)[:1], *thorough(*list(CASES)[1:])])
def test_drawn_networks_are_shifted_as_predicted(name: str) -> None:
    make, x, networks = CASES[name]
    net, seeds = make(), 5
    found = coupled(net, x, networks, seeds)
    known = SHIFTS[: 1 if "norm" in name else 2]  # nobody has derived that of an NTK behind a norm
    wanted = shifts_of(net, x, known).values()
    for want, (value, noise) in zip(wanted, found.values(), strict=False):
        noise = noise.max()
        np.testing.assert_array_less(np.abs(value - want), 5 * noise + 0.15 * np.abs(want).max())
    assert found["kernel"][0].max() > 6 * found["kernel"][1].max()


@each("name", LAWS)
def test_weights_are_drawn_by_their_law(name: str) -> None:
    """By `init_weights`, in a row, and for `measure`: variance, fourth moment, and biases that stay normal."""
    law, net = LAWS[name], chain(law=name, width=120)
    program, draws = net.program, net.program.draws
    with precision("float64"):
        made = init_weights(net, 3, dtype="float64")
        packed = Packed(program)
        numbers = np.random.default_rng(0).normal(size=packed.count)
        rows = packed.weights(packed.drawn(jnp.asarray(numbers), "float64"))
    for W, b in ((made.weights[1], made.biases[1]), rows[draws[1]]):
        W, b = np.asarray(W).ravel(), np.asarray(b)
        square = np.mean(W**2)
        assert abs(120 * square / RATES["C_W"] - 1) < 5 * np.sqrt((2 + law.excess) / W.size) + 1e-9
        assert abs(np.mean(W**4) / square**2 - 3 - law.excess) < 0.25 * (law.excess != -2) + 1e-9
        assert np.unique(np.abs(b)).size == b.size
    assert abs(np.mean(np.asarray(made.weights[0]) ** 4) * 9 / RATES["C_W"] ** 2 - 3) < 1.5


def test_a_law_goes_along_with_its_network() -> None:
    mine = WeightLaw("signs", -2.0, jnp.sign)
    net = chain(sw.Dense(law=mine), "tanh", law="uniform")
    assert [law.name for law in net.program.laws] == ["normal", "signs", "uniform"]
    assert net.attributes()["law"] == ["normal", "signs", "uniform"]
    assert "law" not in net.replace(layers=(FIRST, "tanh", sw.Dense(1)), law="normal").attributes()
    assert sw.predict(net, X, observables="kernel").attrs["law"] == ["normal", "signs", "uniform"]
    assert "random, signs" in str(net)
    plain = sw.measure(net.replace(law="normal"), X, networks=4, progress=False)
    with pytest.raises(
        ValueError, match=r"different networks: `law` is \['normal', 'signs', 'uniform"
    ):
        sw.compare(sw.predict(net, X), plain)
    assert pickle.loads(pickle.dumps(chain())) == chain()
    assert pickle.loads(pickle.dumps(chain(law="normal"))).program.is_normal
    assert chain().at_criticality().usual.law.name == "uniform"
    inside = (
        sw.Attention(heads=1, tied=True), sw.Recurrent("tanh"), sw.Shared(sw.Dense()),
        sw.Local(1), sw.ConvTranspose(1), sw.Skip("tanh", sw.Dense()), sw.GlobalAvgPool(),
    )  # fmt: skip
    tokens = sw.Embedding(4), sw.Positions(), *TAIL
    table = sw.Network(*tokens, input_shape=(3, 1), width=8, law="uniform")
    assert [law.name for law in table.program.laws] == ["normal", "normal", "uniform"]
    every = chain(*inside, x=PLACED)
    assert {law.name for law in every.program.laws[1:]} == {"uniform"}
    others = (
        sw.Attention(heads=1, law=mine),
        sw.Recurrent("tanh", law=mine),
        sw.Local(1, law=mine),
    )
    made = chain(*others, sw.ConvTranspose(1, law=mine), sw.GlobalAvgPool(), x=PLACED)
    assert {law.name for law in made.program.laws[1:-1]} == {"signs"}


def test_what_is_not_derived_is_refused() -> None:
    raw = chain().replace(layers=(sw.Dense(), "tanh", sw.Dense(1)))
    task = sw.Task(X, [1.0, -1.0], test_inputs=[[1.0, 1.0, 0.0]])
    for ask in (sw.predict, lambda net, x: sw.predict_training(net, task)):
        with pytest.raises(
            ValueError, match=r"reads the inputs with weights that are uniform, and its 3"
        ):
            ask(raw, X)
    assert "kernel" in sw.measure(raw, X, networks=2, progress=False)
    normed = chain(sw.Dense(), sw.LayerNorm(), "tanh")
    with pytest.raises(ValueError, match=r"weights that are uniform leave a fourth cumulant"):
        sw.predict(normed, X, observables="ntk_nlo")
    assert "four_point_vertex" in sw.predict(normed, X[:1], observables=["V"])
    with pytest.raises(ValueError, match=r"weights of the read-out are uniform"):
        sw.predict_training(chain(), task, observables=["output_mean_nlo"])
    with pytest.raises(
        ValueError, match=r"LastLayer is measured by outputs that are Gaussian given"
    ):
        sw.measure_training(chain(), task, sw.training.LastLayer(), networks=2, progress=False)


@each(
    ("excess", "function", "words"),
    [
        (0.0, lambda z: z + 1.0, "is not odd"),
        (0.0, lambda z: 2.0 * z, "variance 4, and must make them of variance 1"),
        (1.0, lambda z: z, "`excess` of the law 'own' is 1, and numbers made by `of_normal` have"),
        (0.0, "z", "`WeightLaw.of_normal` must be a function"),
    ],
)
def test_a_law_must_be_what_it_says(excess: float, function, words: str) -> None:
    with pytest.raises(ValueError, match=words):
        WeightLaw("own", excess, function)


def test_other_names_are_refused() -> None:
    with pytest.raises(ValueError, match=r"`Dense.law` must be 'normal', 'uniform', 'rademacher'"):
        sw.Dense(law="gauss")
