"""Conformance: by default and with "all", `predict` and `measure` hold the same for every activation."""

from functools import cache

import numpy as np
import pytest
import xarray as xr
from jax import nn
from jax import numpy as jnp

import scalewise as sw
from grids import thorough
from scalewise.activations import BUILTIN_NAMES
from scalewise.observables import OBSERVABLES
from scalewise.selection import Selection, known, omissions, select

SELU, ALPHA = 1.0507009873554805, 1.6732632423543772
MADE = {  # functions of a user, and where they have kinks
    "my elu": (nn.elu, (0.0,)),
    "my selu": (lambda z: SELU * jnp.where(z > 0, z, ALPHA * jnp.expm1(z)), (0.0,)),
    "my hard tanh": (lambda z: jnp.clip(z, -1, 1), (-1.0, 1.0)),
    "my hard swish": (nn.hard_swish, (-3.0, 3.0)),
    "my step": (lambda z: jnp.where(z > 0.3, 1.0, -1.0), (0.3,)),
    "my softsign": (nn.soft_sign, (0.0,)),
}


@cache
def made(name: str) -> sw.Activation:
    function, kinks = MADE[name]
    return sw.activation(function, kinks=kinks, name=name)


X = np.array([[0.8, -0.3], [0.2, 0.7]])
SLOPES = {"metric_nlo", "ntk_nlo"}


def kept(data: xr.Dataset) -> set[str]:
    return {name for name in OBSERVABLES if name in data}


def network(sigma: str | sw.Activation, depth: int) -> sw.Network:
    return sw.MLP(depth, 4, sigma, input_dim=2, output_dim=1, C_b=0.1, C_W=0.3)


def test_default_and_all_are_what_exists_in_both_and_leave_out_the_same() -> None:
    wrong = []
    for sigma in [*map(sw.activation, BUILTIN_NAMES), *map(made, MADE)]:
        net = network(sigma, 2)
        for names in (None, "all"):
            theory, ensemble = (
                select(names, net, samples=len(X), drawn=drawn) for drawn in (False, True)
            )
            rows = [row for row in OBSERVABLES.values() if row.default or names]
            there = {row.name for row in rows if not row.obstacle(sigma)}
            absent = {row.name for row in rows} - there
            left_out = set(theory.left_out) == set(ensemble.left_out) == absent
            if not (left_out and set(theory.names) == set(ensemble.names) == there):
                wrong.append((sigma.name, names))
    assert not wrong


def test_what_is_selected_is_what_results_hold() -> None:
    net = network("relu", 2)
    for names in (None, "all"):
        theory = sw.predict(net, X, observables=names)
        ensemble = sw.measure(net, X, observables=names, networks=4, progress=False)
        chosen = select(names, net, samples=len(X))
        assert kept(theory) == set(chosen.names)
        assert kept(ensemble) == kept(theory) - SLOPES
        assert set(ensemble.left_out) - SLOPES == set(theory.left_out) - SLOPES


@pytest.mark.parametrize(
    "name",
    ["my selu", *thorough("my step", "my elu", "my hard tanh", "my hard swish", "my softsign")],
)
def test_everything_of_a_made_activation_is_predicted(name: str) -> None:
    sigma = made(name)
    usual, everything = (sw.predict(network(sigma, 2), X, observables=n) for n in (None, "all"))
    assert kept(usual) <= kept(everything)
    assert set(everything.left_out).isdisjoint(kept(everything))
    assert kept(everything) == {n for n, row in OBSERVABLES.items() if not row.obstacle(sigma)}
    for absent in everything.left_out:
        with pytest.raises(
            ValueError, match=rf"'{absent}' does not exist for 'my .*Leave '{absent}' out"
        ):
            sw.predict(network(sigma, 2), X, observables=["kernel", absent])


@pytest.mark.parametrize("name", ["my step", *thorough("my selu")])
def test_defaults_can_be_compared(name: str) -> None:
    net = network(made(name), 2)
    theory = sw.predict(net, X)
    ensemble = sw.measure(net, X, networks=200, widths=[8, 16], progress=False)
    assert kept(theory) == kept(ensemble)
    assert theory.left_out == ensemble.left_out
    assert sw.compare(theory, ensemble).passed is not False


def test_the_default_is_limited_by_work_and_says_so() -> None:
    taken = {}
    for depth in (2, 3, 16, 200):
        net = sw.MLP(depth, 8, "tanh", input_dim=2, output_dim=1)
        for samples in range(1, 200):
            names = set(select(None, net, samples=samples).names)
            assert names in (
                {"kernel", "ntk"},
                {"kernel", "ntk", "metric_nlo", "four_point_vertex"},
            )
            taken[depth, samples] = len(names) == 4
        # Once too large, always too large; three and four inputs of a smooth activation are cubed.
        few = [taken[depth, n] for n in range(5, 200)]
        assert few == sorted(few, reverse=True)
    assert [sum(taken[d, n] for n in range(1, 200)) for d in (2, 3, 16)] == [50, 42, 23]
    net = sw.MLP(16, 8, "tanh", input_dim=2, output_dim=1)
    assert not any(len(select("all", net, samples=n).left_out) for n in (2, 500))
    # What is left out by default is refused by no rule but the memory's.
    assert "four_point_vertex" in select("four_point_vertex", net, samples=500).names


def test_many_inputs_by_the_public_name() -> None:
    x = np.random.default_rng(0).standard_normal((2048, 8))
    net = sw.MLP(2, 100, "erf", input_dim=8, output_dim=1)
    usual = sw.predict(net, x[:512])
    named = sw.predict(net, x, observables=["kernel", "ntk"], layers=[2])
    assert kept(usual) == kept(named) == {"kernel", "ntk"}
    assert named.left_out == []
    assert usual.left_out == ["metric_nlo", "four_point_vertex"]
    np.testing.assert_allclose(usual.kernel[1], named.kernel[0, :512, :512], rtol=1e-12)
    angle = x[:9] @ x[:9].T / 8
    size = np.sqrt((1 + 2 * np.diag(angle))[:, None] * (1 + 2 * np.diag(angle)))
    np.testing.assert_allclose(
        named.kernel[0, :9, :9], 2 / np.pi * np.arcsin(2 * angle / size), rtol=1e-12
    )
    (words,) = omissions(usual.attrs)
    assert words.startswith("Without metric_nlo, four_point_vertex: Expectations over")
    measured = select(None, net, samples=512)
    assert measured.attributes()["left_out"] == usual.left_out
    with pytest.raises(ValueError, match=r"'four_point_vertex' of 512 inputs .* takes \d+ GiB"):
        sw.predict(net, x[:512], observables="four_point_vertex")


def test_names_are_checked() -> None:
    assert known("all") == tuple(OBSERVABLES)
    assert known(["ntk", "kernel", "ntk"]) == ("kernel", "ntk")
    assert known({"H1", "V", "ntk"}) == ("four_point_vertex", "ntk", "ntk_nlo")
    assert all(known(row.letter) == (name,) for name, row in OBSERVABLES.items())
    with pytest.raises(ValueError, match="does not know 'vertex'"):
        known("vertex")
    with pytest.raises(ValueError, match="is empty"):
        known([])
    one = Selection(("kernel", "ntk_A"), {"ddntk_R": "b."}).without({"ntk_A": "a."})
    assert one.names == ("kernel",)
    assert one.attributes() == {"left_out": ["ntk_A", "ddntk_R"], "left_out_because": ["a.", "b."]}


def test_a_set_of_letters_is_predicted() -> None:
    net, x = sw.MLP(3, 8, "tanh", input_dim=2, output_dim=1), np.eye(2)
    found = sw.predict(net, x, observables={"V", "K"})
    assert {"kernel", "four_point_vertex"} <= set(found)
    assert "ntk" not in found
