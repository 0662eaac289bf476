"""Golden and agreement: the NTK of any layers at order 1/n, against recursions, numbers and drawn networks."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import scalewise as sw
from grids import thorough
from scalewise.networks._by_jax import forward, precision, whole_ntk
from scalewise.networks._forward import fixed_fields
from scalewise.networks._nodes import Draw
from scalewise.networks._weights import Parameters, by_node, rates_of, shapes_of
from scalewise.theory.order import _given, _influences, _responses, _shifts
from scalewise.theory.order._given import drawn, equal
from scalewise.theory.order._heads import of_heads
from scalewise.theory.order._paired import meets_itself
from scalewise.theory.order._particles import Particles
from scalewise.theory.order._populations import populations
from scalewise.theory.order._responses import order_one

RNG = np.random.default_rng(7)
PLAIN, PLACED = RNG.normal(size=(3, 4)), RNG.normal(size=(2, 4, 3))
RATES = {"C_b": 0.1, "C_W": 1.5, "lambda_b": 0.5, "lambda_W": 0.8}
Layers = tuple[object, ...]


def few(monkeypatch: pytest.MonkeyPatch, units: int = 1 << 11) -> None:
    """As many units as an error of a percent takes."""
    monkeypatch.setattr(_responses, "_MOST", units)


def recursions(letters: str, sigma: str, x: np.ndarray, within: float) -> None:
    """Layers of an MLP of two widths, within 6 of the stated errors."""
    net = sw.MLP(3, [20, 50], sigma, input_dim=4, output_dim=1, **RATES)
    asked = ["H1" if letter == "H" else letter for letter in letters]
    found = order_one(net, x, asked, range(1, net.depth + 1))
    known = sw.predict(net, x, observables=asked)
    for name in known:
        row = sw.OBSERVABLES.get(str(name))
        if row is None:
            continue
        (value, error), exact = found[row.letter], known[name].values
        assert error[-1].max() < within * np.abs(exact[-1]).max(), str(name)
        noise = np.hypot(
            error, known[f"{name}_error"].values
        )  # of kinks recursions are sampled, too
        np.testing.assert_array_less(np.abs(value - exact), 6 * noise + 1e-12, err_msg=str(name))


def test_fully_connected_layers_have_their_recursions(monkeypatch: pytest.MonkeyPatch) -> None:
    few(monkeypatch)
    recursions("ABDFH", "tanh", PLAIN[:2], 0.05)


@pytest.mark.thorough("test_fully_connected_layers_have_their_recursions")
@pytest.mark.parametrize(
    ("sigma", "letters"), [("gelu", "ABDFH"), ("relu", "BF"), ("sin", "ABDFH")]
)
def test_of_other_activations_too(
    monkeypatch: pytest.MonkeyPatch, sigma: str, letters: str
) -> None:
    few(monkeypatch, 1 << 12)
    recursions(letters, sigma, PLAIN, 0.05)


def test_drawn_tangents_and_signs_do_in_place_of_all(monkeypatch: pytest.MonkeyPatch) -> None:
    """On average, with more noise; two letters are given different tangents."""
    few(monkeypatch)
    monkeypatch.setattr(_given, "_COLUMNS", 0)
    monkeypatch.setattr(_shifts, "_MOST_DIRECTIONS", 0)
    recursions("BFH", "tanh", PLAIN[:1], 0.5)


def test_pairs_of_inputs_one_after_the_other_are_all_inputs_at_once(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """On the same paths, to rounding but for what two labels do not see of a third."""
    few(monkeypatch)
    net = sw.Network(
        *(sw.Conv(2, padding="circular"), "tanh", sw.Conv(2), "tanh", sw.GlobalAvgPool()),
        *(sw.Dense(1),), input_shape=(4, 3), width=30, **RATES,
    )  # fmt: skip
    whole = order_one(net, PLACED, ["V", "B"], [3])
    monkeypatch.setattr(_influences, "_TOGETHER", 0)
    for letter, (value, error) in order_one(net, PLACED, ["V", "B"], [3]).items():
        other, its_error = whole[letter]
        np.testing.assert_array_less(np.abs(value - other), 5 * np.hypot(error, its_error))
        assert error.max() < 0.02 * value.max()


NODES: dict[str, dict[str, Any]] = {
    "softmax": {},
    "causal, an activation": {"causal": True, "function": "erf"},
}


@pytest.mark.parametrize("name", ["softmax", *thorough("causal, an activation")])
def test_tangents_of_heads_are_those_of_autodiff(name: str) -> None:
    """By tangents along the columns of a root of their covariance, one after the other."""
    net = sw.Network(
        *(sw.Dense(), "tanh", sw.Attention(size=2, **NODES[name]), sw.GlobalAvgPool(), sw.Dense(1)),
        input_shape=(4, 3), width=8, C_b=0.1, C_W=1.2,
    )  # fmt: skip
    program = net.program
    ends = (program.layers[-1],)
    own = populations(program, ends)
    (here,) = (k for k, node in enumerate(program.nodes) if "attention" in node.said)
    given = program.nodes[here].of
    with precision("float64"):
        g = drawn(program, own, len(PLACED), 16, 0)
        made = Particles.run(program, ends, fixed_fields(program, PLACED), equal(own, g), normals=g)
        roots = {k: RNG.normal(size=(8, 8)) for k in set(given)}
        law = of_heads(
            made, lambda i, j: roots[i] @ roots[j].T if i == j else jnp.zeros((8, 8)), here
        )
        total = np.zeros((8, 8))
        for k, root in roots.items():
            for column in range(8):
                for inner in range(2):
                    y = np.zeros((8, made.flat(k).shape[1]))
                    y[:, inner::2] = root[:, column, None]

                    def out(z: Any, k: int = k) -> Any:
                        below = [z if i == k else made.fields[i] for i in given]
                        again = replace(made, fields=dict(made.fields))
                        again.fields |= dict(zip(given, below, strict=True))
                        again.add(here)
                        return again.flat(here)

                    z = made.fields[k]
                    slope = jax.jvp(out, (z,), (jnp.asarray(y.reshape(z.shape)),))[1]
                    total += np.asarray((slope * made.shares(here)) @ slope.T)
    np.testing.assert_allclose(law, total, rtol=1e-9, atol=1e-12)


def quadratic(z: Any) -> Any:
    return jnp.tanh(z) + 0.3 * jnp.tanh(z) ** 2


# The reference's case, arch_design.md section 11.3: recursions with site matrices from 3 scrambles of 2^16 nodes.
def reference_inputs() -> np.ndarray:
    rng = np.random.default_rng(7)
    base = rng.normal(size=(10, 1))
    x = np.sqrt(0.5) * base + np.sqrt(0.5) * rng.normal(size=(10, 12))
    return x.reshape(10, 2, 6).transpose(1, 2, 0)


REFERENCE = {"V": 0.08643, "A": 0.0824, "D": 0.0040, "B": 0.8159, "F": 0.1419, "H1": 0.0031}


@pytest.mark.thorough("test_pairs_of_inputs_one_after_the_other_are_all_inputs_at_once")
def test_convolutions_have_the_numbers_of_recursions_with_site_matrices() -> None:
    net = sw.Network(
        *(sw.Conv(3, padding="circular"), "tanh", sw.Conv(3, padding="circular"), "tanh"),
        *(sw.GlobalAvgPool(), sw.Dense(1)), input_shape=(6, 10), width=32,
        C_b=0.1, C_W=1.5, lambda_b=0.5, lambda_W=1.0,
    )  # fmt: skip
    for letter, (value, error) in order_one(net, reference_inputs(), list(REFERENCE), [3]).items():
        apart = value.ravel()[0] - REFERENCE[letter]
        assert abs(apart) < 4 * np.hypot(error.ravel()[0], 4e-4), letter


NETWORKS: dict[str, tuple[Layers, np.ndarray]] = {
    "norm": (
        (
            sw.Dense(), sw.LayerNorm(), sw.activation(quadratic), sw.Dense(), sw.LayerNorm(),
            sw.activation(quadratic), sw.Dense(1),
        ),
        PLAIN,
    ),
    "attention": (
        (
            sw.Dense(), "tanh", sw.Skip(sw.Attention(size=4)), "tanh", sw.GlobalAvgPool(),
            sw.Dense(1),
        ),
        PLACED,
    ),
    "heads that grow": (
        (
            sw.Dense(), "tanh", sw.Skip(sw.Attention(heads=1, tied=True)), "tanh",
            sw.GlobalAvgPool(), sw.Dense(1),
        ),
        PLACED,
    ),
    "gates": (
        (
            sw.Dense(), sw.RMSNorm(0.1),
            sw.Parallel([sw.Dense()], [sw.Dense(), "tanh"], join="product"), sw.Dense(1),
        ),
        PLAIN,
    ),
    "sums behind activations": (
        (
            sw.Dense(), sw.Skip(sw.Dense(), "tanh"), sw.LayerNorm(), sw.activation(quadratic),
            sw.Dense(1),
        ),
        PLAIN,
    ),
    "skips": (
        (
            sw.Conv(3, padding="circular"), sw.Skip("tanh", sw.Conv(3, padding="circular")), "tanh",
            sw.GlobalAvgPool(), sw.Dense(1),
        ),
        PLACED,
    ),
    "again": (
        (sw.Dense(), "tanh", sw.Shared(sw.Dense(), "tanh", times=2), sw.Dense(1)),
        PLAIN,
    ),
    "kinks": (
        (sw.Conv(3), "relu", sw.Conv(3), sw.MaxPool(2), sw.GlobalAvgPool(), sw.Dense(1)),
        PLACED,
    ),
    "beside": (
        (
            sw.Dense(), "tanh", sw.Parallel([sw.Dense(), "tanh"], [], join="concat"), sw.Dense(),
            "tanh", sw.Dense(1),
        ),
        PLAIN,
    ),
}  # fmt: skip


def network(name: str, width: int = 64) -> sw.Network:
    layers, x = NETWORKS[name]
    return sw.Network(*layers, input_shape=x.shape[1:], width=width, **RATES)


def drawn_networks(net: sw.Network, x: np.ndarray, count: int) -> list[np.ndarray]:
    """Averages over last weights in each of many networks: metric, NTK, and terms of B and F.

    From the NTK of the neurons below, by differentiation of explicit weights.
    """
    program, node = net.program, net.program.nodes[-1]
    assert isinstance(node, Draw)
    assert node.taps == 1
    cut, own = node.of[0], node.own
    hidden = replace(
        program,
        nodes=program.nodes[: cut + 1],
        positions=program.positions[: cut + 1],
        channels=program.channels[: cut + 1],
    )
    shapes, n = shapes_of(hidden), program.channels[cut]

    def one(key: Any) -> tuple[Any, ...]:
        weights, biases = [], []
        for k, (shape, its) in shapes.items():
            key, first, second = jax.random.split(key, 3)
            draw = hidden.nodes[k]
            assert isinstance(draw, Draw)
            law = draw.own
            weights.append(jax.random.normal(first, shape) * np.sqrt(law.C_W / hidden.fan_in(k)))
            biases.append(jax.random.normal(second, its) * np.sqrt(law.C_b))
        values = by_node(hidden, Parameters(tuple(weights), tuple(biases)), jnp)
        fields, _ = forward(hidden, values, x)
        X, h = fields[-1].reshape(len(x), n), whole_ntk(hidden, values, rates_of(hidden), [x])
        square = X @ X.T / n
        G = own.C_b + own.C_W * square
        H = own.lambda_b + own.lambda_W * square + own.C_W * jnp.einsum("kakb->ab", h) / n
        B = own.C_W**2 / n * jnp.einsum("kalb,kcld->acbd", h, h)
        F = own.C_W**2 / n * jnp.einsum("ak,bl,kcld->acbd", X, X, h)
        return G, H, B, F

    batch, found = jax.jit(jax.vmap(one)), []
    x = x.astype(np.float32)
    for number in range(count // 50):
        key = jax.random.fold_in(jax.random.key(n, impl="rbg"), number)
        found.append([np.asarray(part, float) for part in batch(jax.random.split(key, 50))])
    return [np.concatenate(parts) for parts in zip(*found, strict=True)]


def estimates(parts: list[np.ndarray], n: int) -> dict[str, np.ndarray]:
    G, H, B, F = parts
    g, h = G - G.mean(axis=0), H - H.mean(axis=0)

    def covariance(one: np.ndarray, other: np.ndarray) -> np.ndarray:
        return n * np.einsum("iab,icd->abcd", one, other) / (len(one) - 1)

    return {
        "K": G.mean(axis=0),
        "Theta": H.mean(axis=0),
        "D": covariance(g, h),
        "A": covariance(h, h),
        "B": B.mean(axis=0),
        "F": F.mean(axis=0),
    }


def measured(
    net: sw.Network, x: np.ndarray, count: int
) -> dict[str, tuple[np.ndarray, np.ndarray]]:
    """Estimates with standard errors, from 20 groups of networks."""
    parts, n = drawn_networks(net, x, count), net.program.channels[net.program.nodes[-1].of[0]]
    whole = estimates(parts, n)
    groups = [estimates([part[start::20] for part in parts], n) for start in range(20)]
    return {
        key: (value, np.std([own[key] for own in groups], axis=0, ddof=1) / np.sqrt(20))
        for key, value in whole.items()
    }


def agree(name: str, letters: list[str], networks: int) -> None:
    """From widths 32 and 64 to 1/n = 0, which each can be far from."""
    x = NETWORKS[name][1]
    theory = order_one(network(name), x, letters, [network(name).depth])
    narrow, wide = (measured(network(name, n), x, networks) for n in (32, 64))
    for letter in letters:
        value, error = (part[0] for part in theory[letter])
        (one, its), (other, its_own) = narrow[letter], wide[letter]
        apart = 2 * other - one - value
        noise = np.sqrt(its**2 + 4 * its_own**2 + error**2)
        np.testing.assert_array_less(np.abs(apart), 5 * noise, err_msg=letter)
        assert error.max() < 0.05 * np.abs(value).max()


def test_drawn_networks_with_norms_agree(monkeypatch: pytest.MonkeyPatch) -> None:
    few(monkeypatch)
    agree("norm", ["B", "F"], 1000)


@pytest.mark.thorough("test_drawn_networks_with_norms_agree")
@pytest.mark.parametrize("name", NETWORKS)
def test_drawn_networks_of_every_kind_agree(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    few(monkeypatch, 1 << 12)
    agree(name, ["B", "F"] if name == "kinks" else ["A", "B", "D", "F"], 4000)


@pytest.mark.thorough("test_fully_connected_layers_have_their_recursions")
@pytest.mark.parametrize(
    ("name", "least"),
    [
        ("norm", 8.0),
        ("sums behind activations", 8.0),
        ("gates", 4.0),
        ("attention", 3.0),
        ("skips", 3.0),
    ],
)
def test_the_mean_ntk_of_drawn_networks_is_shifted(
    name: str, least: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    few(monkeypatch, 1 << 12)
    shifted(name, 8000, least)


def shifted(name: str, networks: int, least: float) -> None:
    """At width 32 the theory explains a shift of so many standard errors."""
    net, x = network(name, 32), NETWORKS[name][1]
    value, error = (part[0] for part in order_one(net, x, ["H1"], [net.depth])["H1"])
    mean, noise = measured(net, x, networks)["Theta"]
    lead = sw.predict(net, x, observables="ntk", layers=net.depth)
    apart = mean - lead.ntk.values[0]
    its_own = lead.ntk_error.values[0] if "ntk_error" in lead else 0.0
    assert np.abs(apart / noise).max() > least
    explained = np.abs(apart - value / 32) / np.sqrt(noise**2 + (error / 32) ** 2 + its_own**2)
    assert explained.max() < 4.5


def again(times: int) -> sw.Network:
    """Weights that act on a neuron so many times."""
    layers = sw.Dense(), "gelu", sw.Shared(sw.Dense(), "gelu", times=times), sw.Dense(1)
    rates = {"C_b": 0.5, "C_W": 1.5, "lambda_b": 0.5, "lambda_W": 1.0}
    return sw.Network(*layers, input_shape=(4,), width=32, **rates)


ONCE = np.random.default_rng(0).normal(size=(1, 4))


@pytest.mark.parametrize(("times", "expected"), [(2, 0.0), (3, 0.772)])
def test_tangents_that_meet_again_add_to_the_mean_ntk(times: int, expected: float) -> None:
    """Of weights in a chain from the third time on; the number is that which drawn networks ask for, below."""
    net = again(times)
    program, ends = net.program, (net.program.layers[-1],)
    with precision("float64"):
        asked = _responses._Asked(program, ends, ONCE, ("H1",))
        units = asked._units(1 << 8, 0, tangents=True)
        (found,) = _shifts._change_of_pairs(
            asked.fixed, units, 0, asked.averaged, 1, program=program, ends=ends
        )
    assert abs(32 * found - expected) < 0.02
    assert meets_itself(program) == (expected > 0)


@pytest.mark.thorough("test_tangents_that_meet_again_add_to_the_mean_ntk")
def test_the_mean_ntk_of_weights_that_act_three_times(monkeypatch: pytest.MonkeyPatch) -> None:
    """Golden: n (NTK at width n - NTK) of 3.4 and 1.9 million drawn networks of widths 16 and 32; 6.2 without."""
    few(monkeypatch, 1 << 11)
    (value,), (error,) = (part.ravel() for part in order_one(again(3), ONCE, ["H1"], [5])["H1"])
    assert error < 0.05
    assert abs(2 * 7.240 - 7.651 - value) < 4 * np.hypot(0.075, error)


@pytest.mark.thorough("test_tangents_that_meet_again_add_to_the_mean_ntk")
def test_the_mean_ntk_of_states(monkeypatch: pytest.MonkeyPatch) -> None:
    """Golden: of 2.8 and 1.1 million recurrent networks of widths 16 and 32; 2.68 without what meets again."""
    few(monkeypatch, 1 << 11)
    rates = {"C_b": 0.5, "C_W": 1.5, "lambda_b": 0.5, "lambda_W": 1.0}
    layers = sw.Recurrent("gelu"), sw.Flatten(), sw.Dense(1)
    net = sw.Network(*layers, input_shape=(4, 3), width=32, **rates)
    x = np.random.default_rng(0).normal(size=(1, 4, 3))
    (value,), (error,) = (part.ravel() for part in order_one(net, x, ["H1"], [net.depth])["H1"])
    assert error < 0.1
    assert abs(2 * 3.290 - 3.576 - value) < 4 * np.hypot(0.073, error)


def test_predict_tells_them_by_name(monkeypatch: pytest.MonkeyPatch) -> None:
    few(monkeypatch, 1 << 10)
    found = sw.predict(network("beside"), PLAIN[:1], observables=["ntk", "ntk_B", "F"], layers=4)
    beside = {"ntk_B_error", "ntk_F_error", "ntk_size", "ntk_B_size", "ntk_F_size"}
    beside |= {"expansion_parameter", "ntk_expansion_parameter"}
    assert set(found) == {"ntk", "ntk_B", "ntk_F"} | beside
    assert found.ntk_B.shape == (1, 1, 1, 1, 1)
    assert float(found.ntk_B_error.max()) > 0


REFUSED: dict[str, tuple[Layers, str]] = {
    "second derivatives in each channel, and there is a kink at z = 0": (
        (sw.Conv(3), sw.LayerNorm(), "relu", sw.GlobalAvgPool(), sw.Dense(1)), "A"
    ),
    "a norm over 3 channels divides by a variance whose inverse has no mean": (
        (sw.Dense(3), sw.LayerNorm(), "tanh", sw.GlobalAvgPool(), sw.Dense(1)), "V"
    ),
    "it takes 3 channels at least": (
        (sw.Dense(), sw.RMSNorm(), sw.Dense(2), sw.RMSNorm(), sw.GlobalAvgPool(), sw.Dense(1)), "P"
    ),
    "heads that grow let all positions see the same mean": (
        (sw.Dense(), "tanh", sw.Attention(heads=2), sw.GlobalAvgPool(), sw.Dense(1)), "P"
    ),
    "a covariance that is singular there": (
        (sw.Attention(heads=1), sw.GlobalAvgPool(), sw.Dense(1)), "G1"
    ),
    "and a maximum has kinks": ((sw.Conv(3), sw.MaxPool(2), sw.Flatten(), sw.Dense(1)), "D"),
}  # fmt: skip


@pytest.mark.parametrize("sentence", REFUSED)
def test_what_is_not_known_is_refused(sentence: str) -> None:
    layers, letter = REFUSED[sentence]
    net = sw.Network(*layers, input_shape=(4, 3), width=8)
    with pytest.raises(ValueError, match=sentence):
        sw.predict(net, PLACED, observables=letter)
