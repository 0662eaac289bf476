"""Conformance: nothing where something must be, and shapes that do not fit, get one sentence of ours."""

import traceback

import numpy as np

import scalewise as sw
from scalewise import limits, nets, scaling, training
from scalewise.gaussian import pair_moments, single_moment
from scalewise.training import GradientDescent, GradientFlow, kernel_of

X = np.array([[1.0, 0.5, 0.2], [0.3, -0.4, 0.9]])
NET = sw.MLP(2, 16, "tanh", input_dim=3, output_dim=1)
TASK = sw.Task(X, [[1.0], [-1.0]], test_inputs=X[:1] + 1, test_targets=[[0.5]])
LIMIT, SGD = limits.Architecture(scaling.mup(depth=3), "tanh"), limits.SGD(0.1)


def shape(**changes):
    return sw.MLP(
        **{"depth": 2, "width": 8, "activation": "tanh", "input_dim": 3, "output_dim": 1} | changes
    )


CALLS = [
    *(lambda x=x: sw.predict(NET, x) for x in ([], [[]], np.zeros((0, 3)))),
    lambda: sw.predict(NET, X, observables=[]),
    lambda: sw.predict(NET, X, layers=[]),
    lambda: sw.measure(NET, [], networks=10),
    lambda: sw.measure(NET, X, networks=10, widths=[]),
    lambda: sw.measure(NET, X, networks=10, observables=[]),
    lambda: sw.measure_training(NET, TASK, networks=10, widths=[]),
    lambda: sw.measure_training(NET, TASK, networks=10, observables=[]),
    lambda: sw.predict_training(NET, TASK, observables=[]),
    lambda: sw.predict_training(NET, TASK, observables=(), weights=nets.init_weights(NET)),
    lambda: sw.predict_training(NET, sw.Task(X, np.eye(2)[:, :1], loss="huber"), observables=[]),
    lambda: shape(width=[]), lambda: shape(C_W=[]), lambda: shape(C_b=[]), lambda: shape(activation=[]),
    lambda: sw.Task([], []), lambda: sw.Task([[]], [[]]), lambda: sw.Task(X, []),
    lambda: sw.design(TASK, 1000, depths=[]),
    lambda: sw.design(TASK, 1000, activations=[]),
    lambda: sw.design(TASK, 1000, weight_scales=[]),
    lambda: sw.design(TASK, 1000, bias_variances=[]),
    lambda: sw.predict_training(NET, TASK, GradientFlow(), times=[]),
    lambda: GradientDescent([]),
    lambda: training.hypothesis_probabilities([]),
    lambda: training.hypothesis_probabilities([1.0], []),
    lambda: training.evidence_of_networks(NET, TASK, depths=[], weight_variances=[1.0]),
    lambda: training.evidence_of_networks(NET, TASK, depths=[2], weight_variances=[]),
    lambda: training.algorithms_side_by_side(NET, TASK, {}),
    lambda: training.log_evidence([], []),
    lambda: training.leave_one_out(np.zeros((0, 0)), np.zeros((0, 1))),
    lambda: sw.sweep(lambda: 1.0, {}), lambda: sw.sweep(lambda a: 1.0, {"a": []}),
    lambda: limits.train(LIMIT, TASK, SGD, steps=2, on=limits.Lazy(8), every=[]),
    lambda: limits.Architecture(scaling.mup(depth=3), "tanh", ratios=[]),
    lambda: scaling.abc([], [], 0), lambda: scaling.pqr([], [], 0),
    lambda: pair_moments("tanh", 1.0, 1.0, 0.5, []), lambda: single_moment("tanh", 1.0, []),
    lambda: pair_moments("tanh", [1.0, 2.0], [1.0, 2.0, 3.0], 0.0),
    lambda: kernel_of(NET)([]), lambda: kernel_of(NET).diag(np.zeros((0, 3))),
    lambda: kernel_of(NET).pairs(X, X[:1]), lambda: kernel_of(NET).pairs(1.0, 2.0),
    lambda: nets.empirical_ntk(NET, nets.init_weights(NET), []),
    lambda: limits.LazyMatrix(4, 4, seed=0).forward(np.zeros((2, 3))), lambda: limits.maml.Tasks([], [], [], []),
]  # fmt: skip


def test_nothing_is_refused_by_a_sentence() -> None:
    wrong = []
    for place, call in enumerate(CALLS):
        try:
            wrong.append(f"call {place} is taken: {call()}"[:200])
        except (ValueError, TypeError) as error:
            last = traceback.extract_tb(error.__traceback__)[-1]
            ours = "/scalewise/" in last.filename and (last.line or "").startswith("raise")
            if not (ours and str(error).endswith(".")):
                wrong.append(f"call {place}: {error}")
    assert not wrong, "\n".join(wrong)
