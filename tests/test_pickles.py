"""Property: every public noun goes to another process and comes back equal, kernels for other programs too."""

from __future__ import annotations

import copy
import dataclasses
import pickle
import subprocess
import sys
from collections.abc import Mapping
from importlib import import_module
from typing import Any

import jax.numpy as jnp
import numpy as np
import pytest
import xarray as xr

import scalewise as sw
from conformance.test_arguments import GIVEN, ROOMS, exported
from described_models import mlp, planned
from scalewise import limits, scaling, theory, training
from scalewise.gaussian import pair_moments
from scalewise.limits import learning, linear, maml, shallow, words
from scalewise.training import kernel_of

X = np.array([[1.0, 0.5, 0.2], [0.3, -0.4, 0.9]])


def swell(z):
    return z + 0.1 * jnp.tanh(2 * z) ** 2


def same(a: Any, b: Any) -> bool:
    """Whether two are alike all the way down, arrays by their numbers."""
    if isinstance(a, np.ndarray | np.generic):
        return type(a) is type(b) and a.dtype == b.dtype and np.array_equal(a, b, equal_nan=True)
    if isinstance(a, xr.Dataset | xr.DataArray):
        return a.identical(b)
    if isinstance(a, Mapping):
        return a.keys() == b.keys() and all(same(a[k], b[k]) for k in a)
    if isinstance(a, tuple | list):
        return type(a) is type(b) and len(a) == len(b) and all(map(same, a, b))
    if type(a) is not type(b):
        return False
    if dataclasses.is_dataclass(a) and not isinstance(a, sw.Activation):
        return all(same(getattr(a, f.name), getattr(b, f.name)) for f in dataclasses.fields(a))
    if type(a).__eq__ is object.__eq__ and not callable(a):
        return (
            same(vars(a), vars(b)) if hasattr(a, "__dict__") else pickle.dumps(a) == pickle.dumps(b)
        )
    return bool(a == b) or a != a


def nouns() -> list[Any]:
    """One of each, by the name of its class or of the function that returns it."""
    net = sw.MLP(3, 8, "tanh", input_dim=3, output_dim=1)
    task = sw.Task(X, [[1.0], [-1.0]], test_inputs=X[:1] + 1, test_targets=[[0.5]])
    strategy = scaling.mup(depth=3)
    deep = limits.Architecture(strategy, "relu")
    dense, flow = sw.predict(net, X), training.GradientFlow(1.0)
    table = planned(strategy, model=mlp)
    return [
        *(sw.activation(a) for a in ("tanh", "leaky_relu(0.3)", swell)),
        sw.activation("relu").kinks[0],
        sw.criticality("relu"), sw.criticality("tanh"), sw.criticality(swell),
        net, sw.MLP(3, 8, swell, input_dim=3, output_dim=1),
        sw.networks.ResidualMLP(3, 8, "relu", gamma=0.5, input_dim=3, output_dim=1),
        sw.networks.apply_strategy(net, strategy), sw.networks.WeightLaw("normal", 0.0, np.positive),
        task, sw.Task(X, np.eye(2), loss="cross_entropy"),
        dense, sw.compare(dense, sw.measure(net, X, networks=20)), sw.at_width(dense, width=8),
        pair_moments("tanh", 1.0, 1.0, 0.5),
        strategy, scaling.classify(strategy), scaling.limit_of(1),
        *table.tensors[:1], table,
        flow, training.GradientDescent(0.1, 3), training.GradientDescent([0.1, 0.2]),
        training.NTKGP(noise_variance=0.1), training.ByDescent((0.1, 0.2), 2),
        training.Bayes(0.1), training.LastLayer(), training.TwoStepNewton(),
        training.leave_one_out(np.eye(2), [[1.0], [2.0]], noise_variance=0.1), sw.design(task, 1000),
        sw.predict_training(net, task, flow), training.OUTCOMES, sw.OBSERVABLES,
        kernel_of(net), kernel_of(net).for_sklearn(),
        deep, limits.SGD(0.1), limits.Finite(8), limits.Lazy(8), limits.Infinite(0.1), limits.Exact(),
        limits.Kernel(), limits.Printed(2), training.Projectors(), scaling.abc((0, 0, 0), (0, 0, 0), 0),
        linear.limit(3, 2), maml.gram_net(linear.limit(3, 2)), maml.Maml(), maml.ReluNTK(), maml.ReluGP(),
        maml.kernel_model(maml.ReluNTK(), 3, 2), words.limit(10), words.Word2Vec(), shallow.scaling("MF"),
        shallow.Reference(8), shallow.draw_network(shallow.Reference(8), shallow.scaling("MF"), 8, 3),
        learning.one_step(scaling.mup(), "tanh", square=1.0, eta=0.1),
        theory.single.single_input_flow(net, X[:1]), theory.flow.kernel_flow(net, X),
        theory.deep.asymptotics("tanh"),
    ]  # fmt: skip


# Rooms of programs, pages and models of other libraries; and what other nouns consist of.
ELSEWHERE = {"gaussian", "jax", "limits.program", "plan", "report", "torch"}
INSIDE = {
    "ABC", "Algorithm",
    "LayerExponents", "LayerKernels", "LazyMatrix", "LimitDynamics",
    "Order", "Region", "Sample", "StepPowers", "Stepwise", "Tasks", "WidthPowers", "WordBatch",
}  # fmt: skip


def test_every_noun_comes_back_equal() -> None:
    wrong, made = [], nouns()
    for noun in made:
        for how in (lambda v: pickle.loads(pickle.dumps(v)), copy.deepcopy):
            try:
                found = how(noun)
            except Exception as error:
                wrong.append((type(noun).__name__, repr(error)))
                continue
            if not same(found, noun):
                wrong.append((type(noun).__name__, "differs"))
    assert not wrong, "\n".join(map(str, wrong))
    public = {
        name
        for room in set(ROOMS) - ELSEWHERE
        for name, found in exported(import_module(f"scalewise.{room}"))
        if isinstance(found, type)
    }
    assert public - {type(noun).__name__ for noun in made} - GIVEN == INSIDE


def test_a_kernel_for_scikit_learn_is_copied_and_fitted_in_another_process() -> None:
    base, process = (import_module(f"sklearn.{name}") for name in ("base", "gaussian_process"))
    kernel = kernel_of(sw.MLP(3, 8, "tanh", input_dim=3, output_dim=1)).for_sklearn()
    model = process.GaussianProcessRegressor(2.0 * kernel, optimizer=None).fit(X, [1.0, -1.0])
    wanted = model.predict(X + 0.1)
    for copied in (base.clone(model).fit(X, [1.0, -1.0]), pickle.loads(pickle.dumps(model))):
        np.testing.assert_array_equal(copied.predict(X + 0.1), wanted)
    assert base.clone(kernel) == kernel
    code = (
        "import pickle, sys, numpy as np; model = pickle.loads(sys.stdin.buffer.read()); "
        f"print(model.predict(np.array({(X + 0.1).tolist()})).tolist())"
    )
    told = subprocess.run(
        [sys.executable, "-c", code], input=pickle.dumps(model), capture_output=True, check=True
    )
    np.testing.assert_allclose(eval(told.stdout), wanted, rtol=1e-12)


@pytest.mark.parametrize("program", ["tinygp", "gpytorch"])
def test_a_kernel_for_other_programs_comes_back(program: str) -> None:
    pytest.importorskip(program, reason=f"{program} is not among the packages of the tests")
    kernel = getattr(kernel_of(sw.MLP(3, 8, "tanh", input_dim=3, output_dim=1)), f"for_{program}")()
    for found in (pickle.loads(pickle.dumps(kernel)), copy.deepcopy(kernel)):
        assert type(found) is type(kernel)
        assert found.own == kernel.own
