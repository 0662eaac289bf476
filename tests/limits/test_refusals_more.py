"""Conformance: wrong arguments of linear nets, Word2Vec and shallow nets are refused in sentences."""

# Wrong types are the matter of this file.
# pyright: reportArgumentType=false, reportCallIssue=false

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from scalewise import limits as lim
from scalewise.limits import shallow as sh

pytestmark = pytest.mark.usefixtures("as_users_have_it")
Refusals = list[tuple[Callable[[], Any], type[Exception], str]]

X, Y = np.array([[1.2, 0.3], [-0.4, 1.0]]), np.array([[1.0], [-1.0]])
NAN = X * math.nan


NET = lim.linear.limit(2, 1)


def step(net: Any = NET, x: Any = X, y: Any = Y, **change: Any) -> Callable[[], Any]:
    return lambda: lim.linear.step(net, x, y, **{"sgd": lim.SGD(0.1), **change})


LINEAR: Refusals = [
    (lambda: lim.linear.limit(1.5, 1), ValueError, "`inputs` is a dimension and must be a whole"),
    (lambda: lim.linear.limit(2, "1"), ValueError, "`outputs` is a dimension .*; got '1'"),
    (lambda: lim.linear.limit(2, 1, alpha="a"), ValueError, "`alpha` must be finite and at least"),
    (lambda: lim.linear.network(2.5, 2, 1), ValueError, "`width` counts hidden units and must be"),
    (lambda: lim.linear.network(2, 2, 1, seed=None), ValueError, "`seed` must be a whole number"),
    (lambda: lim.linear.sample(3, 2), TypeError, "`limit` must be a LinearNet, .*; got int 3"),
    (
        lambda: lim.linear.LinearNet([1.0], X, X),
        ValueError,
        r"`LinearNet.u` must be .*\(hidden, input\)",
    ),
    (lambda: lim.linear.outputs(NET, NAN), ValueError, "`x` must hold finite numbers only"),
    (lambda: lim.linear.outputs(NET, X[0]), ValueError, r"`x` must be .* \(sample, feature\); got"),
    (lambda: lim.linear.outputs(NET, "x"), ValueError, r"`x` must be an array of real numbers"),
    (lambda: lim.linear.outputs("net", X), TypeError, "`net` must be a LinearNet"),
    (lambda: lim.linear.outputs(NET, X * 1j), ValueError, "`x` must be .* got complex ones"),
    (
        lambda: lim.linear.outputs(lim.linear.limit(2, 1, sigma_u=1e200), 1e200 * X),
        ValueError,
        "features overflow at these inputs. Scale",
    ),
    (step(x=[[1.0, 2.0], [1.0]]), ValueError, "`x` must be an array of real numbers"),
    (step(loss=len), TypeError, r"`loss` must be one of mse, .* or a Loss\(value, gradient\)"),
    (step(y=Y * math.nan), ValueError, "`y` must hold finite numbers only"),
    (step(sgd=0.1), TypeError, r"`sgd` must be SGD\(eta\); got float 0.1"),
    (step(sgd=lim.SGD(1e308), x=1e5 * X), ValueError, "diverged: .* Lower `eta`"),
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
    return lambda: lim.words.train(WORDS, tokens, lim.words.Word2Vec(**settings))


WORD2VEC: Refusals = [
    (lambda: lim.words.limit(2.5), ValueError, "`vocabulary` counts words and must be a whole"),
    (lambda: lim.words.limit(3, dtype=int), ValueError, "`dtype` must be float64 or float32"),
    (lambda: lim.words.network(3, 2, seed=-1), ValueError, "`seed` must be at least 0"),
    (lambda: lim.words.network(3, 2, dtype="foo"), ValueError, "`dtype` must be float64 or"),
    (
        lambda: lim.words.Embeddings(NAN, X),
        ValueError,
        "`Embeddings.context` must hold finite numbers",
    ),
    (lambda: lim.words.Embeddings(X, X[0]), ValueError, r"`Embeddings.target` .* \(word, width\)"),
    (batch([4], *BATCH[1:]), ValueError, "`WordBatch.words` must number words from 0 to 3.* 4 to"),
    (batch([-1], *BATCH[1:]), ValueError, "`WordBatch.words` must number words from 0 to 3"),
    (batch([0], [[9]], [2], 1.0), ValueError, "`WordBatch.contexts` must number words from -1"),
    (batch([0], [[1, -2]], [2], 1.0), ValueError, "`WordBatch.contexts` must number words from -1"),
    (batch([0], [[1]], [7], 1.0), ValueError, "`WordBatch.negatives` must number words from 0"),
    (batch([0.5], *BATCH[1:]), ValueError, "`WordBatch.words` must be an array of whole numbers"),
    (batch(*BATCH[:3], math.nan), ValueError, "`WordBatch.weight` must be finite and at least 0"),
    (lambda: lim.words.objective(WORDS, 3), TypeError, "`batch` must be a WordBatch; got int"),
    (
        lambda: lim.words.objective(WORDS, lim.words.WordBatch([0], [[9]], [1], 1.0)),
        ValueError,
        "`WordBatch.contexts` must number words from -1 to 3",
    ),
    (text([0.5, 1.0]), ValueError, "`tokens` must be an array of whole numbers of shape .token.;"),
    (text("ab"), ValueError, "`tokens` must be an array of whole numbers"),
    (text([0, 1], window=1.5), ValueError, "`Word2Vec.window` must be a whole number of at least"),
    (text([0, 1], seed=None), ValueError, "`Word2Vec.seed` must be a whole number of at least 0"),
    (text([0, 1], subsample="a"), ValueError, "`Word2Vec.subsample` must be a number"),
    (text([0, 1], power=math.inf), ValueError, "`Word2Vec.power` must be finite and at least 0"),
    (answers(np.eye(4), [[0, 1]]), ValueError, r"`questions` .* of shape \(question, 3\); got sh"),
    (answers(np.eye(4), [[0, 1, 2.0]]), ValueError, "`questions` must be an array of whole"),
    (answers(np.eye(4)[0], [[0, 1, 2]]), ValueError, r"`vectors` .* of shape \(word, width\)"),
    (
        answers(np.full((4, 4), math.inf), [[0, 1, 2]]),
        ValueError,
        "`vectors` must hold finite numbers",
    ),
    (answers(1e200 * np.eye(4), [[0, 1, 2]]), ValueError, "products of `vectors` overflow. Scale"),
    (
        answers(np.eye(3), [[0, 1, 2]]),
        ValueError,
        "`vectors` needs a word beside the three .* 3 ro",
    ),
    (
        lambda: lim.words.analogy_chance("a"),
        ValueError,
        "`vocabulary` must be at least 4 .* got 'a'",
    ),
]


SIGNS, EYE = np.array([1.0, -1.0]), np.eye(2)
TASK, REF = lim.Task(X, SIGNS, loss="logistic"), sh.Reference(8)


def trained(**change: Any) -> Callable[[], Any]:
    given = {"task": TASK, "reference": REF, "scaling": "NTK", "on": lim.Finite(8), "steps": 1}
    return lambda: sh.train(**{**given, **change})


def limit(**change: Any) -> Callable[[], Any]:
    return trained(**{"scaling": "MF", "on": lim.Lazy(8), **change})


SHALLOW: Refusals = [
    (lambda: sh.Reference(8.0), ValueError, "`Reference.width` counts units and must be a whole"),
    (lambda: sh.Reference(8, sigma="a"), ValueError, "`Reference.sigma` must be finite and posit"),
    (lambda: sh.Reference(8, sigma=1e200), ValueError, "`Reference.sigma` must have a finite squ"),
    (lambda: sh.Reference(8, rate_a="a"), ValueError, "`Reference.rate_a` must be finite and at l"),
    (lambda: sh.independent_batches(3, -1), ValueError, "`steps` must be at least 1; got -1"),
    (lambda: sh.independent_batches(3.5, 1), ValueError, "`samples` must be a whole number"),
    (lambda: sh.independent_batches(3, 1, batch=1.5), ValueError, "`batch` must be from 1 .* 1.5"),
    (lambda: sh.independent_batches(3, 1, seed=None), ValueError, "`seed` must be a whole number"),
    (lambda: sh.scaling(3), ValueError, "A scaling has two exponents, .* or a name; got 3"),
    (lambda: sh.scaling({"a", "b"}), ValueError, "A scaling has two exponents, .* or a name; got"),
    (lambda: sh.ShallowScaling("a", 0, 0), ValueError, "`q_sigma` is an exponent"),
    (trained(steps=1.5), ValueError, "`steps` must be a whole number of at least 0; got 1.5"),
    (trained(steps="a"), ValueError, "`steps` must be a whole number of at least 0; got 'a'"),
    (
        trained(every="a"),
        ValueError,
        "`every` must be a whole number .* steps from 0 to 1; got 'a'",
    ),
    (trained(every=0), ValueError, "`every` must be at least 1; got 0"),
    (trained(every=[0.5]), ValueError, r"`every` must be a whole number .* got \[0.5\]"),
    (
        trained(scaling=(999, 0), on=lim.Finite(80)),
        ValueError,
        "The powers of .* overflow at 80 units",
    ),
    (trained(task=X), TypeError, "`task` must be a Task of `scalewise.limits`; got ndarray"),
    (trained(reference=8), TypeError, "`reference` must be a Reference .* got int 8"),
    (trained(on=8), TypeError, r"`on` must be Finite\(width\) or Lazy\(units\); got int 8"),
    (
        trained(on=lim.Infinite(0.1)),
        TypeError,
        r"`on` must be Finite\(width\) or Lazy\(units\); got Infinite",
    ),
    (
        trained(reference=sh.Reference(8, rate_a=1e200, rate_w=1e200), steps=3),
        ValueError,
        "Outputs are not finite at step 1: .* Lower `rate_a` and `rate_w`",
    ),
    (
        trained(
            task=lim.Task(1e39 * X, SIGNS, loss="logistic"), on=lim.Finite(8, dtype=np.float32)
        ),
        ValueError,
        "not finite at step 0: outputs overflow .* Scale the inputs or `sigma`",
    ),
    (
        limit(reference=sh.Reference(8, rate_a=1e200, rate_w=1e200), steps=3),
        ValueError,
        "Outputs are not finite at step",
    ),
    (
        limit(
            reference=sh.Reference(8, rate_a=1e308),
            scaling="NTK",
            task=lim.Task(1e9 * X, SIGNS, loss="logistic"),
        ),
        ValueError,
        "Outputs are not finite at step 1",
    ),
    (limit(start="a"), ValueError, "`start` must be an array of real numbers"),
    (limit(start=NAN[:1]), ValueError, "`start` must hold finite numbers only"),
    (lambda: sh.draw_start(X, REF), TypeError, "`task` must be a Task"),
    (lambda: sh.draw_start(TASK, REF, 0), ValueError, "`replicas` must be at least 1; got 0"),
    (lambda: sh.limit_kernels(8, X), TypeError, "`reference` must be a Reference"),
    (lambda: sh.limit_kernels(REF, "a"), ValueError, "`x` must be an array of real numbers"),
    (lambda: sh.limit_kernels(REF, 1e200 * X), ValueError, "squares of `x` overflow. Scale"),
    (lambda: sh.error_probability("a", SIGNS), ValueError, "`outputs` must be an array of real"),
    (lambda: sh.error_probability(NAN, SIGNS), ValueError, "`outputs` must hold finite numbers"),
    (lambda: sh.termination([math.nan]), ValueError, "`probability` must hold finite numbers only"),
    (lambda: sh.termination(0.5), ValueError, r"`probability` must be .* of shape \(step\); got"),
]
SHALLOW_NET = sh.draw_network(REF, sh.scaling("NTK"), 4, 2)
SAMPLE = sh.Sample(X[0], 1.0, X[1], -1.0)


def drawn(*change: Any) -> Callable[[], Any]:
    given = (REF, sh.scaling("MF"), 4, 2)
    return lambda: sh.draw_network(*(change + given[len(change) :]))


SHALLOW_NETS: Refusals = [
    (drawn(8), TypeError, "`reference` must be a Reference"),
    (drawn(REF, "MF"), TypeError, r"`scaling` must be a scaling, such as shallow.scaling\('MF'\)"),
    (drawn(REF, sh.scaling("MF"), 4.5), ValueError, "`width` counts hidden units and must be a wh"),
    (drawn(REF, sh.scaling("MF"), 4, 0), ValueError, "`features` must be at least 1; got 0"),
    (
        lambda: sh.output(SHALLOW_NET, X[0]),
        ValueError,
        r"`x` must be .* of shape \(input, 2\); got",
    ),
    (lambda: sh.output(SHALLOW_NET, np.eye(3)), ValueError, r"`x` must be .* shape \(input, 2\)"),
    (lambda: sh.output(SHALLOW_NET, NAN), ValueError, "`x` must hold finite numbers only"),
    (lambda: sh.output("net", X), TypeError, "`net` must be a ShallowNetwork"),
    (lambda: sh.tangent_kernels(SHALLOW_NET, X, NAN), ValueError, "`others` must hold finite"),
    (lambda: sh.kernel_increments(SHALLOW_NET, X, X, X), TypeError, "`sample` must be a Sample"),
    (lambda: sh.step(SHALLOW_NET, X), TypeError, "`sample` must be a Sample of .* got ndarray"),
    (
        lambda: sh.output_change(SHALLOW_NET, "x", SAMPLE),
        ValueError,
        "`x` must be an array of real",
    ),
    (lambda: sh.Sample(X, 1.0, X[0], 1.0), ValueError, r"`Sample.x_a` must be .* \(feature\)"),
    (lambda: sh.Sample(X[0], 0.5, X[0], 1), ValueError, "`Sample.y_a` must be 1 or -1 and finite"),
    (
        lambda: sh.step(SHALLOW_NET, sh.Sample(X[0], 1.0, X[0, :1], 1.0)),
        ValueError,
        "`Sample.x_a` and `x_w` need equally many features; got 2 and 1",
    ),
]
DIVERGENCES: Refusals = [
    (lambda: sh.gaussian_divergence("a", 1, 0, 1), ValueError, "`m` must be an array of real num"),
    (lambda: sh.gaussian_divergence(math.nan, 1, 0, 1), ValueError, "`m` must hold finite numbers"),
    (
        lambda: sh.gaussian_divergence(SIGNS, np.ones(3), 0, 1),
        ValueError,
        r"`m_star`, `v_star` need shapes that go together; got \(2,\), \(3,\)",
    ),
    (
        lambda: sh.logit_divergence(X, np.ones((4, 3))),
        ValueError,
        r"of the same inputs, .* got shapes \(2, 2\) and \(4, 3\)",
    ),
    (lambda: sh.logit_divergence("a", X), ValueError, "`outputs` must be an array of real numbers"),
    (lambda: sh.logit_divergence(1e200 * X, X), ValueError, "`outputs` must be finite and differ"),
    (lambda: sh.probability_divergence(X, np.ones((2, 1))), ValueError, "of the same inputs"),
    (lambda: sh.divergence_floor(4.5), ValueError, "from 2 seeds on, and 4 .* got 4.5 and 4.5"),
    (lambda: sh.divergence_floor("a"), ValueError, "from 2 seeds on, and 4 .* got 'a' and 'a'"),
    (lambda: sh.beta_fit("a"), ValueError, "`probabilities` must be an array of real numbers"),
    (
        lambda: sh.beta_fit([0.01, 0.99]),
        ValueError,
        "spread more than any Beta law with their mean",
    ),
    (lambda: sh.beta_divergence(SIGNS, 1, np.ones(3), 1), ValueError, "shapes that go together"),
    (
        lambda: sh.dirichlet_fit([0.5, 0.5]),
        ValueError,
        r"seeds first and classes last; got shape .2,.",
    ),
    (
        lambda: sh.dirichlet_divergence(np.ones(2), np.ones(1)),
        ValueError,
        r"the same classes along their last axes; got shapes \(2,\) and \(1,\)",
    ),
]


@pytest.mark.parametrize(
    ("call", "error", "match"), LINEAR + WORD2VEC + SHALLOW + SHALLOW_NETS + DIVERGENCES
)
def test_refused(call: Callable[[], Any], error: type[Exception], match: str) -> None:
    with pytest.raises(error, match=match):
        call()


def test_lists_are_as_good_as_arrays() -> None:
    net, loss = lim.linear.step(NET, X.tolist(), Y.tolist(), lim.SGD(1))
    same, value = lim.linear.step(NET, X, Y, lim.SGD(1.0))
    assert loss == value
    np.testing.assert_array_equal(net.u, same.u)
    assert lim.words.analogy_answers(np.eye(4).tolist(), [[0, 1, 2]]).tolist() == [3]
    rows = [[0], [1]]
    tasks = (
        lim.Task(x, y, test_inputs=x, loss="logistic", batches=r)
        for x, y, r in ((X, SIGNS, np.array(rows)), (X.tolist(), [1, -1], rows))
    )
    found = [sh.train(t, REF, "NTK", steps=2, on=lim.Finite(8)).logits.values for t in tasks]
    np.testing.assert_array_equal(*found)
