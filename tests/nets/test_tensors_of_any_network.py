"""Golden and agreement: tensors of finite width of drawn networks of any layers."""

import itertools
from dataclasses import replace
from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import scipy.linalg

import scalewise as sw
from architectures import (
    RATES,
    compositions,
    drawn_compositions,
    outputs_by_matrices,
    tied_compositions,
)
from grids import thorough
from networks import in_a_row
from refusals import unlike
from scalewise.nets import _estimators, _families
from scalewise.nets._dntk import Differentials, sample_dntk
from scalewise.nets._networks import precision
from scalewise.nets._ntk_statistics import Statistics, sample_statistics
from scalewise.networks._nodes import Drop
from scalewise.networks._weights import rates_of

RNG = np.random.default_rng(12)
X = RNG.normal(size=(2, 6, 2))
EVERY = compositions("tanh") | drawn_compositions("tanh") | tied_compositions("tanh")


def network(name: str, width: int = 4) -> sw.Network:
    return sw.Network(*EVERY[name], input_shape=(6, 2), width=width, **RATES)


def signs(entries: int) -> np.ndarray:
    """Vectors of signs (vector, entry) whose mean of products is that of independent ones."""
    return scipy.linalg.hadamard(2 ** int(np.ceil(np.log2(entries))))[:, :entries].astype(float)


def contracted(function, theta, rates) -> dict[str, np.ndarray]:
    """All that two outputs of one network have in common, from whole Jacobians: z and tensors by sample."""
    z, J = (
        function(theta),
        jax.jacrev(function)(theta),
    )  # (sample, output), (sample, output, parameter)
    hessian = jax.jacfwd(jax.jacrev(function))
    D, B = rates * J, hessian(theta)
    curves = jax.vmap(lambda d: jax.jvp(hessian, (theta,), (d,))[1][:, 0])(D[:, 1])
    bent = jnp.einsum("aipq,ckq->aickp", B, D)
    H = jnp.einsum("aip,bjp->aibj", J, D)
    dH = jnp.einsum("aickp,dlp->aickdl", bent, D)
    second = jnp.einsum("p,aickp,bjdlp->aickbjdl", rates, bent, bent)
    return {
        "z": z,
        "H": H,
        "B": jnp.einsum("ab,cd->acbd", H[:, 0, :, 1], H[:, 0, :, 1]),
        "F": jnp.einsum("a,b,cd->acbd", z[:, 0], z[:, 1], H[:, 0, :, 1]),
        "P": jnp.einsum("abc,d->abcd", dH[:, 0, :, 1, :, 1], z[:, 0]),
        "Q": jnp.einsum("abc,d->abcd", dH[:, 0, :, 0, :, 1], z[:, 1]),
        "R": jnp.einsum("capq,bp,dq->abcd", curves, D[:, 0], D[:, 1]),
        "S": jnp.einsum("acbd->abcd", second[:, 0, :, 1, :, 0, :, 1]),
        "T": jnp.einsum("acbd->acdb", second[:, 0, :, 0, :, 1, :, 1]),
        "U": jnp.einsum("acbd->adbc", second[:, 0, :, 1, :, 1, :, 0]),
    }


def flat_parameters(program, weights):
    """Weights by tap, and their rates, in a row; and back."""
    masks = {k: w for k, w in weights.items() if isinstance(program.nodes[k], Drop)}
    tapped = {
        k: (w.reshape(*w.shape[:-2], program.nodes[k].taps, -1, w.shape[-1]), b)
        for k, (w, b) in weights.items()
        if k not in masks
    }
    rates = {
        k: (np.full(w.shape, rates_of(program)[k][1]), np.full(b.shape, rates_of(program)[k][0]))
        for k, (w, b) in tapped.items()
    }
    theta, shaped = in_a_row(tapped)
    return theta, in_a_row(rates)[0], lambda flat: {**masks, **shaped(flat)}


def over_last_weights(net, weights) -> dict[str, np.ndarray]:
    """Means over the last weights of two outputs: all is of second degree in those of either, and even."""
    program, last = net.program, net.program.draws[-1]
    taps, below = program.nodes[last].taps, program.channels[program.nodes[last].of[0]]
    theta, rates, shaped = flat_parameters(program, weights)
    count, own = taps * below, net.own(net.depth)
    every = np.concatenate([rates, np.full(2 * count, own.lambda_W / count)])

    def outputs(flat):
        W = flat[len(theta) :].reshape(2, taps, below).transpose(1, 2, 0)
        return outputs_by_matrices(program, {**shaped(flat[: len(theta)]), last: (W, 0.0)}, X)

    def one(W):
        return contracted(outputs, jnp.concatenate([theta, W.ravel()]), every)

    basis = np.sqrt(own.C_W) * np.eye(count)
    pairs = np.stack([np.stack(pair) for pair in itertools.product(basis, basis)])
    found = jax.jit(partial(jax.lax.map, one))(pairs)
    means = {name: np.asarray(a).mean(axis=0) for name, a in found.items()}
    means["metric"] = own.C_b + np.einsum("kai,kbi->ab", found["z"], found["z"]) / 2 / len(pairs)
    means["ntk"] = np.einsum("aibi->ab", means["H"]) / 2
    return means


def over_pairs(net, layer: int, weights) -> dict[str, np.ndarray]:
    """Means over two neurons of a hidden layer: the first of even number, the second of odd."""
    program = net.program
    node = program.layers[layer - 1]
    below = replace(program, nodes=program.nodes[: node + 1])
    theta, rates, shaped = flat_parameters(program, weights)

    def one(pair):
        return contracted(
            lambda flat: outputs_by_matrices(below, shaped(flat), X)[:, pair], theta, rates
        )

    pairs = np.array([(i, j) for i in (0, 2) for j in (1, 3)])
    found = jax.jit(partial(jax.lax.map, one))(np.concatenate([pairs, pairs[:, ::-1]]))
    means = {name: np.asarray(a).mean(axis=0) for name, a in found.items()}
    means |= {name: np.asarray(found[name])[:4].mean(axis=0) for name in "BF"}
    upper, joint = np.triu_indices(2), []
    for own in (found["z"][:4], found["H"][:4]), (found["z"][4:], found["H"][4:]):
        metric = np.einsum("ka,kb->ab", own[0][:, :, 0], own[0][:, :, 0]) / 4
        joint += [metric[upper], np.asarray(own[1])[:, :, 0, :, 0].mean(axis=0)[upper]]
    return means | {"joint": np.concatenate(joint)}


def drawn(of, sample, vectors: np.ndarray) -> dict[str, np.ndarray]:
    """Of one network, the mean over signs; and its weights."""
    own = np.random.default_rng(3).normal(size=of.numbers.count)
    own = np.tile(own, (len(vectors), 1))
    own[:, own.shape[1] - vectors.shape[1] :] = vectors
    chunks = np.array_split(own, -(-len(own) // 64))
    parts = [sample(chunk, X, of=of) for chunk in chunks]
    means = {
        name: np.concatenate([np.asarray(p[name]) for p in parts])[:, 0].mean(axis=0)
        for name in parts[0]
    }
    return means | {"weights": jax.jit(of.numbers.drawn_from)(own[0])[0]}


def pairs_of_signs(entries: int) -> np.ndarray:
    """Two vectors of signs, independent on average."""
    own = signs(entries)
    return np.stack([np.concatenate(pair) for pair in itertools.product(own, own)])


def all_tensors(net, layer: int) -> dict[str, np.ndarray]:
    """What the ensemble keeps of one network, without noise of signs."""
    statistics = Statistics(net.program, (layer,), 2, ("joint", "B", "F"))
    differentials = Differentials(net.program, (layer,), 2, tuple("PQRSTU"), probes=2)
    vectors = pairs_of_signs(differentials.neurons[0].entries)
    found = drawn(statistics, sample_statistics, np.zeros((1, 0)))
    return found | drawn(differentials, sample_dntk, vectors)


def assert_same(found, exact) -> None:
    for name in "BFPQRSTU":
        largest = np.max(np.abs(exact[name]))
        assert largest > 1e-4
        limits = {"rtol": 1e-8, "atol": 1e-10 * largest, "err_msg": name}
        np.testing.assert_allclose(found[name], exact[name].ravel(), **limits)


MANY = (
    *("pooled", "skip, flat", "parallel", "norms", "gates and joins", "places and masks", "tokens"),
    *("heads of two", "maxima of the same weights", "recurrent", "tied gates"),
)


@pytest.mark.covers("B11", "C10", "C13", "C29", "C35")
@pytest.mark.parametrize("name", ["graph", *thorough(*MANY)])
def test_one_network_is_that_of_explicit_jacobians(name: str) -> None:
    net = network(name)
    with precision("float64"):
        found = all_tensors(net, net.depth)
        exact = over_last_weights(net, found["weights"])
    metric, omega = np.split(found["joint"], 2)
    upper = np.triu_indices(2)
    np.testing.assert_allclose(metric, exact["metric"][upper], rtol=1e-9)
    np.testing.assert_allclose(omega, exact["ntk"][upper], rtol=1e-9)
    assert_same(found, exact)


@pytest.mark.covers("B11", "C10", "C13", "C29", "C35")
@pytest.mark.thorough("test_one_network_is_that_of_explicit_jacobians")
def test_neurons_that_remember_themselves_are_taken_in_pairs() -> None:
    net = network("skip at one site")
    with precision("float64"):
        found = all_tensors(net, 3)
        exact = over_pairs(net, 3, found["weights"])
    np.testing.assert_allclose(found["joint"], exact["joint"], rtol=1e-9)
    assert_same(found, exact)


def test_groups_of_entries_with_signs_leave_no_bias() -> None:
    net = network("skip, flat")
    with precision("float64"):
        parts = ("joint", "B", "F")
        whole = Statistics(net.program, (net.depth,), 2, parts)
        exact = drawn(whole, sample_statistics, np.zeros((1, 0)))
        entries = whole.neurons[0].entries
        few_rows = Statistics(net.program, (net.depth,), 2, parts, rows=5)
        found = drawn(few_rows, sample_statistics, pairs_of_signs(entries))
    assert entries == 24
    assert few_rows.in_pairs
    np.testing.assert_allclose(found["joint"], np.tile(exact["joint"], 2), rtol=1e-9)
    for name in "BF":
        np.testing.assert_allclose(found[name], exact[name], rtol=1e-9)


def test_wide_layers_are_measured_in_groups(monkeypatch: pytest.MonkeyPatch) -> None:
    # The same networks by all rows of the NTK and by six: the noise of signs is in no tensor, but in all errors.
    rates = {"C_b": 0.1, "C_W": 1.4, "lambda_b": 0.5}
    net = sw.MLP(3, 30, "tanh", input_dim=2, output_dim=1, **rates)
    names = ["ntk_A", "ntk_B", "ntk_D", "ntk_F"]
    of_all, x = {"networks": 3000, "observables": names, "progress": False}, X[:1, 0]
    exact = sw.measure(net, x, **of_all)
    for module in (_estimators, _families):
        monkeypatch.setattr(module, "Statistics", partial(Statistics, rows=6))
    found = sw.measure(net, x, **of_all)
    for name in names:
        error, sem = (found[name] - exact[name]).values[1:], found[f"{name}_sem"].values[1:]
        np.testing.assert_array_less(np.abs(error), 4 * sem + 1e-5)
        assert np.max(sem) < 0.08 * np.max(np.abs(exact[name].values)), name


def test_zeros_of_many_networks_are_zeros() -> None:
    # The second derivatives of one layer of ReLU; a constant 0 was misread in large batches.
    net = sw.MLP(3, 48, "relu", input_dim=2, output_dim=1, C_W=2.0)
    of = Differentials(net.program, (2,), 2, ("P",))
    numbers = RNG.normal(size=(250, of.numbers.count)).astype("float32")
    found = sample_dntk(numbers, X[:, 0].astype("float32"), of=of)["P"]
    assert np.all(np.asarray(found) == 0.0)


CIRCULAR = {"taps": 3, "padding": "circular"}
# Entry 0000 of the convolutional network below, by quadrature over single units, from a program of its own.
CONVOLUTIONAL = {
    "four_point_vertex": 0.08643, "ntk_A": 0.0824, "ntk_B": 0.8159, "ntk_D": 0.0040, "ntk_F": 0.1419,
    "dntk_P": -0.151, "dntk_Q": -0.025, "ddntk_R": -1.078, "ddntk_S": 0.830, "ddntk_T": 0.0860, "ddntk_U": 0.1744,
}  # fmt: skip


@pytest.mark.optimised
@pytest.mark.thorough("test_one_network_is_that_of_explicit_jacobians")
def test_a_convolutional_network_reaches_the_coefficients_of_infinite_width() -> None:
    rng = np.random.default_rng(7)
    shared, own = rng.normal(size=(10, 1)), rng.normal(size=(10, 12))
    x = (np.sqrt(0.5) * (shared + own)).T.reshape(2, 6, 10)
    layers = (sw.Conv(**CIRCULAR), "tanh", sw.Conv(**CIRCULAR), "tanh", sw.GlobalAvgPool())
    hyper = {"C_b": 0.1, "C_W": 1.5, "lambda_b": 0.5}
    net = sw.Network(*layers, sw.Dense(1), input_shape=(6, 10), width=16, **hyper)
    names = list(CONVOLUTIONAL)
    found = sw.measure(
        net, x, networks=2500, widths=[16, 32], observables=names, seed=3, progress=False
    )
    for name, exact in CONVOLUTIONAL.items():
        value, sem = (float(found[name + end].values[-1, 0, 0, 0, 0]) for end in ("", "_sem"))
        # What the line leaves is quadratic, c/(16 32) with c some 5 times the value; the last digit of the value.
        assert abs(value - exact) < 4 * sem + 5 / 512 * abs(exact) + 0.001, (name, value, sem)
        assert sem < (1 if name == "ntk_D" else 0.1) * abs(exact), (name, sem)


def test_many_networks_at_once_are_those_of_a_few() -> None:
    """One sample and attention, of which XLA made numbers up."""
    layers = sw.Dense(), sw.Skip(sw.Attention(size=4)), sw.GlobalAvgPool(), sw.Dense(1)
    net = sw.Network(*layers, input_shape=(6, 3), width=16, **RATES)
    of = Statistics(net.program, (net.depth,), 1, ("joint",))
    rng = np.random.default_rng(0)
    x = rng.normal(size=(1, 6, 3)).astype("float32")
    numbers = jnp.asarray(rng.normal(size=(500, of.numbers.count)).astype("float32"))
    many, few = (sample_statistics(own, x, of=of)["joint"] for own in (numbers, numbers[:8]))
    np.testing.assert_allclose(many[:8], few, rtol=1e-4)


def test_what_cannot_be_predicted_is_measured_if_it_is_named() -> None:
    net = sw.Network(sw.Dense(), "relu", sw.Dropout(0.5), sw.Dense(1), input_shape=2, width=5)
    everything = sw.measure(net, X[:, 0], observables="all", networks=4, progress=False)
    assert "ntk_B" not in everything
    reasons = dict(zip(everything.left_out, everything.attrs["left_out_because"], strict=True))
    assert "Name it in `observables` to measure it." in reasons["ntk_B"]
    found = sw.measure(net, X[:, 0], observables=["A", "B", "Q"], networks=4, progress=False)
    assert all(np.all(np.isfinite(found[name])) for name in found.data_vars)


def test_layers_that_read_the_inputs_side_by_side_do_not_fluctuate() -> None:
    gate = sw.Parallel([sw.Dense()], [sw.Dense()], join="product")
    net = sw.Network(gate, sw.Dense(2), width=6, input_shape=2)
    names = ["ntk_A", "ntk_B", "ntk_F", "dntk_P", "dntk_Q"]
    found = sw.measure(net, X[:, 0], observables=names, networks=20, progress=False)
    for name in names:
        assert not found[name].values[:2].any()
        assert np.abs(found[name].values[2]).max() > 0


def test_what_does_not_exist_is_refused() -> None:
    def measured(layers, names, width=4):
        net = sw.Network(*layers, sw.Flatten(), sw.Dense(1), input_shape=(6, 2), width=width)
        return lambda: sw.measure(net, X, observables=names, networks=4)

    one = (sw.GlobalAvgPool(), sw.Dense(), sw.Skip("tanh", sw.Dense()))
    cases = [
        (measured((sw.Conv(3), sw.MaxPool(2)), "R"), "it takes three derivatives, and a maximum"),
        (
            measured((sw.Conv(3), "relu"), "S"),
            "'ddntk_S' does not exist for this network: it takes three",
        ),
        (measured((sw.Conv(3), "perceptron"), "B"), "it jumps|the activation jumps at z = 0"),
        (measured(one, "B", 1), "Layer 2 of `net` has one neuron, which remembers what it was"),
    ]
    assert unlike(cases) == []
