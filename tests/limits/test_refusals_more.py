"""Conformance: wrong arguments of linear nets, Word2Vec and shallow nets are refused in sentences."""

# Wrong types are the matter of this file.
# pyright: reportArgumentType=false, reportCallIssue=false

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

import scalewise as sw
from refusals import Refusals, unlike
from scalewise import limits as lim
from scalewise.limits import shallow as sh

X, Y = np.array([[1.2, 0.3], [-0.4, 1.0]]), np.array([[1.0], [-1.0]])
NAN = X * math.nan


NET = lim.linear.limit(2, 1)


def step(net: Any = NET, x: Any = X, y: Any = Y, **change: Any) -> Callable[[], Any]:
    return lambda: lim.linear.step(net, x, y, **{"sgd": lim.SGD(0.1), **change})


LINEAR: Refusals = [
    (lambda: lim.linear.outputs(NET, NAN), "`x` must hold finite numbers only"),
    (
        lambda: lim.linear.outputs(lim.linear.limit(2, 1, sigma_u=1e200), 1e200 * X),
        "features overflow at these inputs. Scale",
    ),
    (step(y=Y * math.nan), "`y` must hold finite numbers only"),
    (step(sgd=lim.SGD(1e308), x=1e5 * X), "diverged: .* Lower `eta`"),
]

WORDS = lim.words.limit(4)
BATCH = ([0], [[1]], [2], 1.0)


def batch(words: Any, contexts: Any, negatives: Any, weight: Any) -> Callable[[], Any]:
    return lambda: lim.words.step(
        WORDS, lim.words.WordBatch(words, contexts, negatives, weight), learning_rate=0.1
    )


def answers(vectors: Any, questions: Any) -> Callable[[], Any]:
    return lambda: lim.words.analogy_answers(vectors, questions)


def text(tokens: Any, **settings: Any) -> Callable[[], Any]:
    return lambda: lim.words.train_words(WORDS, tokens, lim.words.Word2Vec(**settings))


WORD2VEC: Refusals = [
    (lambda: lim.words.limit(3, dtype=int), "`dtype` must be float64 or float32"),
    (
        lambda: lim.words.network(3, 2, seed=-1),
        r"`seed` must be a whole number of at least 0; got -1\.",
    ),
    (lambda: lim.words.Embeddings(NAN, X), "`Embeddings.context` must hold finite numbers"),
    (batch([4], *BATCH[1:]), "`WordBatch.words` must number words from 0 to 3.* 4 to"),
    (batch([-1], *BATCH[1:]), "`WordBatch.words` must number words from 0 to 3"),
    (batch([0], [[9]], [2], 1.0), "`WordBatch.contexts` must number words from -1"),
    (batch([0], [[1, -2]], [2], 1.0), "`WordBatch.contexts` must number words from -1"),
    (batch([0], [[1]], [7], 1.0), "`WordBatch.negatives` must number words from 0"),
    (
        batch(*BATCH[:3], math.nan),
        r"`WordBatch\.weight` must be a finite number of at least 0; got nan\.",
    ),
    (
        lambda: lim.words.objective(WORDS, lim.words.WordBatch([0], [[9]], [1], 1.0)),
        "`WordBatch.contexts` must number words from -1 to 3",
    ),
    (
        text([0, 1], power=math.inf),
        r"`Word2Vec\.power` must be a finite number of at least 0; got inf\.",
    ),
    (answers(np.full((4, 4), math.inf), [[0, 1, 2]]), "`vectors` must hold finite numbers"),
    (answers(1e200 * np.eye(4), [[0, 1, 2]]), "products of `vectors` overflow. Scale"),
    (answers(np.eye(3), [[0, 1, 2]]), "`vectors` needs a word beside the three .* 3 ro"),
]


SIGNS, EYE = np.array([1.0, -1.0]), np.eye(2)
TASK, REF = sw.Task(X, SIGNS, loss="logistic"), sh.Reference(8)


def trained(**change: Any) -> Callable[[], Any]:
    given = {"task": TASK, "reference": REF, "scaling": "NTK", "on": lim.Finite(8), "steps": 1}
    return lambda: sh.train_shallow(**{**given, **change})


def limit(**change: Any) -> Callable[[], Any]:
    return trained(**{"scaling": "MF", "on": lim.Lazy(8), **change})


SHALLOW: Refusals = [
    (
        lambda: sh.Reference(8, sigma=1e200),
        r"`Reference\.sigma` must be a positive number with a finite square; got 1e\+200\.",
    ),
    (
        lambda: sh.independent_batches(3, -1),
        r"`steps` must be a whole number of at least 1; got -1\.",
    ),
    (
        trained(every=0),
        "`every` must be a whole number of at least 1 or a sequence of values, each a whole number ",
    ),
    (trained(scaling=(999, 0), on=lim.Finite(80)), "The powers of .* overflow at 80 units"),
    (
        trained(reference=sh.Reference(8, rate_a=1e200, rate_w=1e200), steps=3),
        "Outputs are not finite at step 1: .* Lower `rate_a` and `rate_w`",
    ),
    (
        trained(task=sw.Task(1e39 * X, SIGNS, loss="logistic"), on=lim.Finite(8, dtype=np.float32)),
        "not finite at step 0: outputs overflow .* Scale the inputs or `sigma`",
    ),
    (
        limit(reference=sh.Reference(8, rate_a=1e200, rate_w=1e200), steps=3),
        "Outputs are not finite at step",
    ),
    (
        limit(
            reference=sh.Reference(8, rate_a=1e308),
            scaling="NTK",
            task=sw.Task(1e9 * X, SIGNS, loss="logistic"),
        ),
        "Outputs are not finite at step 1",
    ),
    (limit(start=NAN[:1]), "`start` must hold finite numbers only"),
    (
        lambda: sh.draw_start(TASK, REF, 0),
        r"`replicas` must be a whole number of at least 1; got 0\.",
    ),
    (lambda: sh.limit_kernels(REF, 1e200 * X), "squares of `x` overflow. Scale"),
    (lambda: sh.error_probability(NAN, SIGNS), "`outputs` must hold finite numbers"),
    (lambda: sh.termination([math.nan]), "`probability` must hold finite numbers only"),
]
SHALLOW_NET = sh.draw_network(REF, sh.scaling("NTK"), 4, 2)
SAMPLE = sh.Sample(X[0], 1.0, X[1], -1.0)


def drawn(*change: Any) -> Callable[[], Any]:
    given = (REF, sh.scaling("MF"), 4, 2)
    return lambda: sh.draw_network(*(change + given[len(change) :]))


SHALLOW_NETS: Refusals = [
    (
        drawn(REF, sh.scaling("MF"), 4, 0),
        r"`features` must be a whole number of at least 1; got 0\.",
    ),
    (lambda: sh.output(SHALLOW_NET, np.eye(3)), r"`x` must have 2 features for this net; got 3\."),
    (lambda: sh.output(SHALLOW_NET, NAN), "`x` must hold finite numbers only"),
    (lambda: sh.tangent_kernels(SHALLOW_NET, X, NAN), "`others` must hold finite"),
    (lambda: sh.Sample(X[0], 0.5, X[0], 1), r"`Sample\.y_a` must be 1 or -1; got 0\.5\."),
    (
        lambda: sh.step(SHALLOW_NET, sh.Sample(X[0], 1.0, X[0, :1], 1.0)),
        "`Sample.x_a` and `x_w` need equally many features; got 2 and 1",
    ),
]
DIVERGENCES: Refusals = [
    (lambda: sh.gaussian_divergence(math.nan, 1, 0, 1), "`m` must hold finite numbers"),
    (
        lambda: sh.gaussian_divergence(SIGNS, np.ones(3), 0, 1),
        r"`m_star`, `v_star` need shapes that go together; got \(2,\), \(3,\)",
    ),
    (
        lambda: sh.logit_divergence(X, np.ones((4, 3))),
        r"of the same inputs, .* got shapes \(2, 2\) and \(4, 3\)",
    ),
    (lambda: sh.logit_divergence(1e200 * X, X), "`outputs` must be finite and differ"),
    (lambda: sh.probability_divergence(X, np.ones((2, 1))), "of the same inputs"),
    (lambda: sh.beta_fit([0.01, 0.99]), "spread more than any Beta law with their mean"),
    (lambda: sh.beta_divergence(SIGNS, 1, np.ones(3), 1), "shapes that go together"),
    (
        lambda: sh.dirichlet_divergence(np.ones(2), np.ones(1)),
        r"the same classes along their last axes; got shapes \(2,\) and \(1,\)",
    ),
]


def test_what_has_no_answer_is_refused() -> None:
    assert unlike(LINEAR + WORD2VEC + SHALLOW + SHALLOW_NETS + DIVERGENCES) == []


def test_lists_are_as_good_as_arrays() -> None:
    net, loss = lim.linear.step(NET, X.tolist(), Y.tolist(), lim.SGD(1))
    same, value = lim.linear.step(NET, X, Y, lim.SGD(1.0))
    assert loss == value
    np.testing.assert_array_equal(net.u, same.u)
    assert lim.words.analogy_answers(np.eye(4).tolist(), [[0, 1, 2]]).tolist() == [3]
    rows = [[0], [1]]
    tasks = (
        sw.Task(x, y, test_inputs=x, loss="logistic", batches=r)
        for x, y, r in ((X, SIGNS, np.array(rows)), (X.tolist(), [1, -1], rows))
    )
    found = [
        sh.train_shallow(t, REF, "NTK", steps=2, on=lim.Finite(8)).logits.values for t in tasks
    ]
    np.testing.assert_array_equal(*found)
