"""Golden: dNTK and ddNTKs of one network of any layers, against Jacobians of an explicit forward pass."""

from dataclasses import replace
from functools import cache

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import scalewise as sw
from architectures import RATES, fields_by_matrices
from grids import thorough
from networks import in_a_row
from refusals import unlike
from scalewise.nets import (
    Parameters,
    empirical_ddntk,
    empirical_differential,
    empirical_dntk,
    empirical_ntk,
    init_weights,
    layer_tensors,
    sample_differentials,
)
from scalewise.networks._weights import by_node, rates_of

RNG = np.random.default_rng(5)
TAP = {"taps": 2, "padding": "circular"}
GATE = sw.Parallel([sw.Dense()], [sw.Dense(), "sin"], join="product")
# Layers, inputs, width: gradients of few sites as two vectors, of many and of single places as they are.
NETWORKS = {
    "convolutions": ((sw.Conv(**TAP), sw.Skip("tanh", sw.Conv(**TAP)), "tanh", sw.Flatten(), sw.Dense(2)),
                     (3, 1), 2),
    "attention": ((sw.Dense(), sw.LayerNorm(0.1), sw.Skip(sw.Attention(heads=1, power=1.0)), sw.GlobalAvgPool(),
                   sw.Dense(1)), (2, 2), 3),
    "places": ((sw.Local(2), "tanh", sw.Conv(3, groups=2), "gelu", sw.GlobalAvgPool(), sw.Dense(1)), (3, 2), 2),
    "tied": ((sw.Recurrent("tanh"), sw.Shared("tanh", sw.Dense(), times=2), sw.GlobalAvgPool(), sw.Dense(1)),
             (2, 2), 3),
    "few sites": ((GATE, sw.Dense(), "tanh", sw.GlobalAvgPool(), sw.Dense(1)), (2, 3), 5),
}  # fmt: skip


def network(name: str) -> tuple[sw.Network, np.ndarray]:
    layers, shape, width = NETWORKS[name]
    x = np.random.default_rng(7).normal(size=(2, *shape))
    return sw.Network(*layers, input_shape=shape, width=width, **RATES), x


@cache
def defined(name: str, layer: int | None = None) -> tuple[np.ndarray, ...]:
    """H, dH, dd_I, dd_II of a layer by Jacobians over all parameters: (sample..., neuron...)."""
    net, x = network(name)
    program, parameters = net.program, init_weights(net, 3, dtype="float64")
    node = len(program.nodes) - 1 if layer is None else program.layers[layer - 1]
    below = replace(program, nodes=program.nodes[: node + 1])

    def fields(theta):
        weights = {
            k: (W.reshape(*W.shape[:-2], program.nodes[k].taps, -1, W.shape[-1]), b)
            for k, (W, b) in by_node(program, shaped(theta), jnp).items()
            if k <= node
        }
        return fields_by_matrices(below, weights, x)[-1].reshape(len(x), -1)

    with jax.enable_x64(True):
        flat, shaped = in_a_row(parameters)
        own = zip(rates_of(program).values(), *parameters, strict=True)
        each = [(np.full(W.shape, rate[1]), np.full(b.shape, rate[0])) for rate, W, b in own]
        lam = in_a_row(Parameters(*zip(*each, strict=True)))[0]
        functions = [fields]
        for nested in (jax.jacrev, jax.jacfwd, jax.jacfwd):
            functions.append(nested(functions[-1]))
        J, H2, T3 = (np.asarray(jax.jit(f)(flat)) for f in functions[1:])

    def contract(pattern, *arrays):
        return np.einsum(pattern, *arrays, optimize=True)

    return (
        contract("p,aip,bjp->abij", lam, J, J),
        contract("p,q,aipq,bjp,ckq->abcijk", lam, lam, H2, J, J),
        contract("p,q,r,aipqr,bjp,ckq,dlr->abcdijkl", lam, lam, lam, T3, J, J, J),
        contract("p,q,r,aipr,bjqr,ckp,dlq->abcdijkl", lam, lam, lam, H2, H2, J, J),
    )


def assert_equal(found, exact) -> None:
    limits = {"rtol": 1e-10, "atol": 1e-12 * max(1.0, np.abs(exact).max())}
    np.testing.assert_allclose(found, exact, **limits)


@pytest.mark.covers("C6")
@pytest.mark.parametrize(
    "name", ["convolutions", *thorough("attention", "places", "tied", "few sites")]
)
def test_differentials_are_their_definitions(name: str) -> None:
    (net, x), exact = network(name), defined(name)
    parameters = init_weights(net, 3, dtype="float64")
    found = empirical_dntk(net, parameters, x), *empirical_ddntk(net, parameters, x)
    for one, other in zip(found, exact[1:], strict=True):
        assert np.abs(other).max() > 1e-4
        assert_equal(one, other)
    where = {"outputs": (0, net.output_dim - 1, 0, 0), "samples": (0, 1, 1, 0)}
    for parents, tensor in (
        ((0, 0, 0), exact[2]),
        ((0, 0, 1), exact[3].transpose(0, 1, 3, 2, 4, 5, 7, 6)),
    ):
        got = empirical_differential(net, parameters, x, parents, **where)
        # In the tree factor 2 hangs on 0 and 3 on 1; in the printed order legs 3 and 4 do.
        index = (*where["samples"], *where["outputs"])
        value = tensor[index] if parents[-1] == 0 else exact[3][index]
        assert got == pytest.approx(value, rel=1e-9, abs=1e-12)


@pytest.mark.covers("C2", "C3", "C4", "C5")
@pytest.mark.parametrize(
    ("name", "layers"),
    [
        ("convolutions", (2,)),
        *thorough(("convolutions", (1,)), ("attention", (1, 2)), ("tied", (1, 2))),
    ],
)
def test_neurons_of_layers_are_channels_at_positions(name: str, layers: tuple[int, ...]) -> None:
    net, x = network(name)
    found = layer_tensors(net, init_weights(net, 3, dtype="float64"), x)
    assert len(found) == net.depth
    for layer in layers:
        exact, legs = defined(name, layer), (2, 3, 4, 4)
        tensors = [
            getattr(found[layer - 1], key) for key in ("ntk", "dntk", "dd_first", "dd_second")
        ]
        for one, other, k in zip(tensors, exact, legs, strict=True):
            assert_equal(one, np.moveaxis(other, range(k), range(-k, 0)))
    last = np.moveaxis(found[-1].ntk, (0, 1), (2, 3))
    assert_equal(last, empirical_ntk(net, init_weights(net, 3, dtype="float64"), x))


@pytest.mark.covers("C6")
def test_legs_may_differ_and_steps_come_in_batches(monkeypatch: pytest.MonkeyPatch) -> None:
    (net, x), (_, dH, first, second) = network("convolutions"), defined("convolutions")
    monkeypatch.setattr("scalewise.nets._contracted._AT_ONCE", 1)
    parameters = init_weights(net, 3, dtype="float64")
    legs = [RNG.standard_normal((k, 2)) for k in (1, 2, 3, 1)]
    exact = np.einsum("abcijk,pi,qj,rk->abcpqr", dH, *legs[:3])
    assert_equal(empirical_dntk(net, parameters, x, legs[:3]), exact)
    for found, whole in zip(
        empirical_ddntk(net, parameters, x, legs), (first, second), strict=True
    ):
        assert_equal(found, np.einsum("abcdijkl,pi,qj,rk,sl->abcdpqrs", whole, *legs))


@pytest.mark.covers("C6")
def test_a_maximum_has_the_dntk_of_its_slopes() -> None:
    layers = (
        sw.Conv(**TAP),
        "tanh",
        sw.MaxPool(2, stride=1),
        sw.Conv(2),
        "tanh",
        sw.GlobalAvgPool(),
        sw.Dense(1),
    )
    net = sw.Network(*layers, input_shape=(3, 1), width=2, **RATES)
    x = RNG.normal(size=(1, 3, 1))
    parameters = init_weights(net, 1, dtype="float64")
    got = empirical_dntk(net, parameters, x)[0, 0, 0, 0, 0, 0]
    # Half the change of the NTK along the gradient that it is made of.
    with jax.enable_x64(True):
        flat, shaped = in_a_row(parameters)
        own = zip(rates_of(net.program).values(), *parameters, strict=True)
        each = [(np.full(W.shape, rate[1]), np.full(b.shape, rate[0])) for rate, W, b in own]
        lam = in_a_row(Parameters(*zip(*each, strict=True)))[0]

        def output(theta):
            weights = {
                k: (W.reshape(net.program.nodes[k].taps, -1, W.shape[-1]), b)
                for k, (W, b) in by_node(net.program, shaped(theta), jnp).items()
            }
            return fields_by_matrices(net.program, weights, x)[-1][0, 0, 0]

        step = lam * jax.jit(jax.grad(output))(flat)
        ends = [shaped(flat + t * step) for t in (1e-5, -1e-5)]
    change = [empirical_ntk(net, end, x)[0, 0, 0, 0] for end in ends]
    assert got == pytest.approx((change[0] - change[1]) / 4e-5, rel=1e-6)
    assert abs(got) > 1e-3


@pytest.mark.covers("C6")
@pytest.mark.parametrize("name", ["convolutions", *thorough("attention")])
def test_an_ensemble_is_its_networks_one_by_one(name: str) -> None:
    net, x = network(name)
    draws = sample_differentials(net, x[:1], 3, seed=7, dtype="float64")
    own = init_weights(
        net, jax.random.fold_in(jax.random.key(7, impl="threefry2x32"), 2), dtype="float64"
    )
    trees = {"ntk": (0,), "dntk": (0, 0), "ddntk_I": (0, 0, 0), "ddntk_II": (0, 0, 1)}
    for key, tree in trees.items():
        one = empirical_differential(net, own, x, tree)  # of the first sample, as compiled above
        assert draws[key][2] == pytest.approx(one, rel=1e-10, abs=1e-12)


def test_products_with_outputs_are_averaged_over_last_weights_that_are_their_own() -> None:
    skipped = sw.networks.ResidualMLP(2, 3, "tanh", gamma=(0.0, 0.5), input_dim=3, output_dim=3)
    draws = sample_differentials(skipped, RNG.normal(size=(1, 3)), 4, dtype="float64")
    np.testing.assert_allclose(draws["z_dntk"], draws["z"] * draws["dntk"], rtol=1e-12)
    net, x = network("convolutions")
    draws = sample_differentials(net, x[:1], 3000, seed=1)
    product = draws["z"] * draws["dntk"]
    error = np.hypot(product.std(), draws["z_dntk"].std()) / np.sqrt(3000)
    assert abs(draws["z_dntk"].mean() - product.mean()) < 4 * error
    assert abs(draws["z_dntk"].mean()) > 10 * error
    assert draws["z_dntk"].std() < product.std()


def test_what_has_no_derivatives_is_refused() -> None:
    def asked(verb, *layers, shape=(4, 2)):
        net = sw.Network(*layers, sw.Flatten(), sw.Dense(1), input_shape=shape, width=3)
        x = np.ones((1, *shape))
        return lambda: (
            verb(net, x) if verb is sample else verb(net, init_weights(net, dtype="float64"), x)
        )

    def sample(net, x):
        return sample_differentials(net, x, 2)

    def tree(net, parameters, x):
        return empirical_differential(net, parameters, x, (0, 0))

    masks, pool = (sw.Dense(), "tanh", sw.Dropout(0.5)), (sw.Conv(2), sw.MaxPool(2))
    heads = (sw.Attention(heads=1, function="relu"),)
    cases = [
        (asked(v, *masks), "`net` has Dropout, whose masks are drawn anew")
        for v in (empirical_dntk, empirical_ddntk, layer_tensors, tree, sample)
    ]
    cases += [
        (asked(v, *pool), "a maximum over positions.*Take AvgPool for MaxPool")
        for v in (empirical_ddntk, layer_tensors, tree, sample)
    ]
    cases += [
        (asked(v, *heads), r"'relu'.* (its slope jumps|it has a kink at z = 0)")
        for v in (empirical_ddntk, layer_tensors, tree, sample)
    ]
    cases += [
        (asked(empirical_dntk, sw.Dense(), "perceptron"), "it jumps at z = 0"),
        (asked(layer_tensors, sw.Conv(3), "tanh", shape=(40, 2)), "layers of 120, 1 with 1 samples take"),
    ]  # fmt: skip
    assert unlike(cases) == []
