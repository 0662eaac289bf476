"""Property: no decision by a name. A user may call an activation as he likes, and it stays what it computes.

Every verb is given twice the hyperbolic tangent under the name of each built-in activation; the name also
reports whoever compares it with one. Then the sources are read for such comparisons.
"""

import ast
import dataclasses
from functools import cache
from pathlib import Path

import jax.numpy as jnp
import numpy as np
import pytest

import scalewise as sw
from coverage_table import tree
from scalewise import gaussian, limits, nets, theory
from scalewise.activations import BUILTIN_NAMES
from scalewise.critical import (
    equivalent_rates,
    parallel_locus,
    perpendicular_locus,
    rates_along,
    susceptibilities,
)
from scalewise.limits import shallow

ROOT = Path(sw.__file__).parent
SOME = ("tanh", "linear")
X = np.array([[1.0, 0.5], [0.25, -1.0]])


@cache
def mine() -> sw.Activation:
    return sw.activation(lambda z: 2 * jnp.tanh(z), name="mine")


class Spy(str):
    """A name that may be shown, hashed and compared with itself, but not with that of a built-in."""

    __slots__ = ()

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Spy) and other in BUILTIN_NAMES:
            raise AssertionError(f"decided by the name {str.__str__(self)!r}")
        return str.__eq__(self, other)

    def __ne__(self, other: object) -> bool:
        return not self == other

    __hash__ = str.__hash__


def net(sigma, depth=3) -> sw.Network:
    return sw.MLP(depth, 6, sigma, input_dim=2, output_dim=1, C_b=0.1, C_W=0.4)


def weights(sigma):
    return nets.init_weights(net(sigma), seed=0, dtype="float64")


def wide(sigma) -> limits.Architecture:
    return limits.Architecture(sw.scaling.mup(depth=3), sigma)


TASK = sw.Task(X, [1.0, -1.0])
VERBS = {
    "criticality": lambda s: sw.criticality(s).C_W,
    "susceptibilities": lambda s: susceptibilities(s, 1.0, 1.0),
    "loci": lambda s: (*parallel_locus(s, 1.0), *perpendicular_locus(s, 1.0)),
    "rates_along": lambda s: rates_along(s, 1.0, (0.0,) * 3, (0.3,) * 3, 1.0, 1.0)[0],
    "equivalent_rates": lambda s: (
        *equivalent_rates(sw.criticality(s), 3)[0],
        sw.criticality(s).C_W,
    ),
    "single_moment": lambda s: gaussian.single_moment(s, 1.0, (0, 0)).value,
    "pair_moments": lambda s: [
        v.value for v in gaussian.pair_moments(s, 1.0, 0.5, 0.2, [(0, 0), (1, 1), (2, 2)]).values()
    ],
    "predict": lambda s: sw.predict(net(s, 2), X, observables=["kernel", "ntk", "ntk_D"]).ntk_D,
    "predict_training": lambda s: sw.predict_training(net(s), TASK, times=[1.0]).train_mean,
    "single_input_flow": lambda s: theory.single.single_input_flow(net(s), X).V,
    "angle_flow": lambda s: theory.deep.angle_flow(net(s), X[:1], X[1:]).psi,
    "nearby_inputs_flow": lambda s: theory.single.nearby_inputs_flow(net(s), X, X[::-1]).K00,
    "ntk_layer_contributions": lambda s: theory.single.ntk_layer_contributions(net(s), X),
    "asymptotics": lambda s: list(
        theory.deep.leading_forms(theory.deep.asymptotics(s), 50.0).values()
    ),
    "measure": lambda s: sw.measure(net(s), X, networks=4, progress=False).ntk,
    "empirical_ntk": lambda s: nets.empirical_ntk(net(s), weights(s), X),
    "layer_kernels": lambda s: limits.layer_kernels(wide(s), X).features,
    "train finite": lambda s: (
        limits.train(
            wide(s), TASK, limits.SGD(0.1), steps=2, on=limits.Finite(20)
        ).feature_kernel_mean
    ),
    "train lazy": lambda s: (
        limits.train(
            wide(s), TASK, limits.SGD(0.1), steps=2, on=limits.Lazy(50)
        ).feature_kernel_mean
    ),
    "train_kernel": lambda s: (
        limits.train(
            limits.Architecture(sw.scaling.ntk(depth=3), s),
            TASK,
            limits.SGD(0.1),
            steps=2,
            on=limits.Kernel(),
        ).kernel
    ),
    "program": lambda s: (
        limits.run(
            lambda space: {"m": space.mean(space.apply(s, space.vector()) ** 2)}, limits.Lazy(200)
        ).m
    ),
    "shallow": lambda s: shallow.limit_kernels(shallow.Reference(20, activation=s), X)[0],
}


def numbers(found) -> np.ndarray:
    return np.concatenate(
        [
            np.ravel(np.asarray(part, float))
            for part in (found if isinstance(found, tuple | list) else [found])
        ]
    )


# The name notices every comparison, whatever it is; only a table could be asked for one of them in silence.
@pytest.mark.parametrize(
    "names", [SOME, pytest.param(BUILTIN_NAMES, marks=pytest.mark.thorough)], ids=["some", "all"]
)
@pytest.mark.parametrize("verb", VERBS)
def test_a_name_decides_nothing(verb, names) -> None:
    ask = VERBS[verb]
    expected = numbers(ask(mine()))
    assert np.isfinite(expected).all()
    assert not np.allclose(expected, numbers(ask(sw.activation("tanh"))))
    wrong = [
        name
        for name in names
        if not np.array_equal(numbers(ask(dataclasses.replace(mine(), name=Spy(name)))), expected)
    ]
    assert wrong == []


def test_the_exact_backend_reads_the_polynomial_off_the_values() -> None:
    """Whatever it is called, and from its coefficients, not from a list of names."""
    for name in ("mine", "tanh", "linear", "quadratic"):
        sigma = sw.activation(lambda z: 3 * z**2 - 0.5 * z + 1, name=name)
        for order, power in ((0, lambda x: 3 * x**2 - 0.5 * x + 1.0), (1, lambda x: 6 * x - 0.5)):

            def program(space, sigma=sigma, order=order, power=power):
                x = space.vector()
                ours, spelt = space.apply(sigma, x, order=order), space.apply(power, x)
                other = x + x**2  # sees even and odd powers
                return {"m": space.mean(ours * other), "wanted": space.mean(spelt * other)}

            found = limits.run(program, limits.Exact())
            np.testing.assert_allclose(found.m, found.wanted, rtol=1e-12)
        with pytest.raises(ValueError, match="polynomial programs only"):
            limits.run(
                lambda space, name=name: {
                    "m": space.mean(
                        space.apply(dataclasses.replace(mine(), name=name), space.vector())
                    )
                },
                limits.Exact(),
            )


def test_two_functions_of_one_name_are_told_apart(tmp_path) -> None:
    """In a store, in a comparison, and in the attributes of every result."""
    one = sw.activation(lambda z: jnp.sin(z) + z, name="myact")
    # It differs far out only, where no weight of a kernel of order one lies.
    other = sw.activation(lambda z: jnp.sin(z) + z + jnp.maximum(z - 50, 0) ** 4, name="myact")
    assert one.digest() != other.digest()
    first, second = net(one), net(other)
    path = tmp_path / "run.zarr"
    arguments = {"networks": 4, "observables": "kernel", "progress": False}
    sw.measure(first, X, store=path, **arguments)
    sw.measure(first, X, store=path, **arguments)
    with pytest.raises(ValueError, match=r"holds a run with other arguments \(activation_digest"):
        sw.measure(second, X, store=path, **arguments)
    ensemble = sw.measure(second, X, **arguments)
    with pytest.raises(ValueError, match=r"both called 'myact' but have other values"):
        sw.compare(sw.predict(first, X, observables="kernel"), ensemble)
    digests = {
        found.attrs["activation_digest"]
        for found in (
            ensemble,
            sw.predict(second, X, observables="kernel"),
            limits.train(wide(other), TASK, limits.SGD(0.1), steps=1, on=limits.Finite(9)),
        )
    }
    assert digests == {other.digest()}


# The sources


def named(node: ast.AST) -> bool:
    """Whether this is the name of an activation, or the activation as a text."""
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "str":
        return bool(node.args) and sounds(node.args[0])
    return isinstance(node, ast.Attribute) and node.attr == "name" and sounds(node.value)


def sounds(node: ast.AST) -> bool:
    words = {"activation", "sigma", "phi", "known", "act"}
    return (isinstance(node, ast.Name) and node.id in words) or (
        isinstance(node, ast.Attribute) and node.attr in words
    )


def decisions(tree: ast.AST) -> list[int]:
    """Lines where such a name is compared, matched, looked up or asked how it begins."""
    asks = {"get", "startswith", "endswith", "setdefault", "pop", "index", "count", "lower"}
    lines = []
    for node in ast.walk(tree):
        parts: list[ast.AST] = []
        if isinstance(node, ast.Compare):
            parts = [node.left, *node.comparators]
        elif isinstance(node, ast.Match):
            parts = [node.subject]
        elif isinstance(node, ast.Subscript):
            parts = [node.slice]
        elif isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
            parts = [*node.args, node.func.value] if node.func.attr in asks else []
        if any(named(part) for part in parts):
            lines.append(node.lineno)
    return lines


def test_no_source_decides_by_the_name_of_an_activation() -> None:
    found = [
        f"{path.relative_to(ROOT)}:{line}"
        for path in sorted(ROOT.rglob("*.py"))
        for line in decisions(tree(path))
    ]
    assert found == []


@pytest.mark.parametrize(
    "source",
    [
        'if activation.name == "tanh": pass',
        'power = {"linear": 1}.get(known.name)',
        'if net.activation.name in ("relu", "linear"): pass',
        "form = FORMS[sigma.name]",
        'if str(net.activation) != "tanh": pass',
        'if self.phi.name.startswith("leaky"): pass',
        'match sigma.name:\n    case "tanh": pass',
    ],
)
def test_the_reading_of_the_sources_sees_a_decision(source) -> None:
    assert decisions(ast.parse(source)) == [1]
