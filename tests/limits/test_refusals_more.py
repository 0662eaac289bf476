"""Conformance: wrong arguments of linear nets, Word2Vec, MAML and shallow nets are refused in sentences."""

# Wrong types are the matter of this file.
# pyright: reportArgumentType=false, reportCallIssue=false

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from typing import Any

import jaxtyping
import numpy as np
import pytest

from scalewise import limits as lim

Refusals = list[tuple[Callable[[], Any], type[Exception], str]]

X, Y = np.array([[1.2, 0.3], [-0.4, 1.0]]), np.array([[1.0], [-1.0]])
NAN = X * math.nan


@pytest.fixture(autouse=True)
def as_users_have_it() -> Iterator[None]:
    """Annotations are checked in tests only; a user meets the messages."""
    jaxtyping.config.update("jaxtyping_disable", True)
    yield
    jaxtyping.config.update("jaxtyping_disable", False)


NET = lim.linear_limit(2, 1)


def step(net: Any = NET, x: Any = X, y: Any = Y, **change: Any) -> Callable[[], Any]:
    given = {"loss": lim.half_square, "learning_rate": 0.1, **change}
    return lambda: lim.linear_step(net, x, y, **given)


LINEAR: Refusals = [
    (lambda: lim.linear_limit(1.5, 1), ValueError, "`inputs` is a dimension and must be a whole"),
    (lambda: lim.linear_limit(2, "1"), ValueError, "`outputs` is a dimension .*; got '1'"),
    (lambda: lim.linear_limit(2, 1, alpha="a"), ValueError, "`alpha` must be finite and at least"),
    (lambda: lim.linear_network(2.5, 2, 1), ValueError, "`width` counts hidden units and must be"),
    (lambda: lim.linear_network(2, 2, 1, seed=None), ValueError, "`seed` must be a whole number"),
    (lambda: lim.sample_linear(3, 2), TypeError, "`limit` must be a LinearNet, .*; got int 3"),
    (lambda: lim.LinearNet([1.0], X, X), ValueError, r"`LinearNet.u` must be .*\(hidden, input\)"),
    (lambda: lim.linear_outputs(NET, NAN), ValueError, "`x` must hold finite numbers only"),
    (lambda: lim.linear_outputs(NET, X[0]), ValueError, r"`x` must be .* \(sample, feature\); got"),
    (lambda: lim.linear_outputs(NET, "x"), ValueError, r"`x` must be an array of real numbers"),
    (lambda: lim.linear_outputs("net", X), TypeError, "`net` must be a LinearNet"),
    (lambda: lim.linear_outputs(NET, X * 1j), ValueError, "`x` must be .* got shape .* complex"),
    (
        lambda: lim.linear_outputs(lim.linear_limit(2, 1, sigma_u=1e200), 1e200 * X),
        ValueError,
        "features overflow at these inputs. Scale",
    ),
    (step(x=[[1.0, 2.0], [1.0]]), ValueError, "`x` must be an array of real numbers"),
    (step(loss="mse"), TypeError, r"`loss` must be a function loss\(f, y\).*half_square.*'mse'"),
    (step(loss=lambda f, y: (0.0, 1.0)), ValueError, r"shape \(2, 1\); got a slope of shape \(\)"),
    (step(y=Y * math.nan), ValueError, "`y` must hold finite numbers only"),
    (step(clip="a"), ValueError, "`clip` is the largest norm .* must be positive; got 'a'"),
    (step(learning_rate=None), ValueError, "`learning_rate` must be finite and at least 0; got No"),
    (step(learning_rate=1e308, x=1e5 * X), ValueError, "diverged: .* Lower `learning_rate`"),
    (step(y=[0.0, 1.0], loss=lim.cross_entropy), ValueError, "`y` must be an array of whole"),
    (lambda: lim.cross_entropy(NAN, np.array([0, 1])), ValueError, "`f` must hold finite numbers"),
    (lambda: lim.cross_entropy(X[0], np.array(0)), ValueError, r"`f` must have shape \(..., samp"),
]

WORDS = lim.word2vec_limit(4)
BATCH = ([0], [[1]], [2], 1.0)


def batch(words: Any, contexts: Any, negatives: Any, weight: Any) -> Callable[[], Any]:
    return lambda: lim.word2vec_step(
        WORDS, lim.WordBatch(words, contexts, negatives, weight), learning_rate=0.1
    )


def answers(vectors: Any, questions: Any) -> Callable[[], Any]:
    return lambda: lim.analogy_answers(vectors, questions)


def text(tokens: Any, **settings: Any) -> Callable[[], Any]:
    return lambda: lim.train_word2vec(WORDS, tokens, lim.Word2Vec(**settings))


WORD2VEC: Refusals = [
    (lambda: lim.word2vec_limit(2.5), ValueError, "`vocabulary` counts words and must be a whole"),
    (lambda: lim.word2vec_limit(3, dtype=int), ValueError, "`dtype` must be float64 or float32"),
    (lambda: lim.word2vec_network(3, 2, seed=-1), ValueError, "`seed` must be at least 0"),
    (lambda: lim.word2vec_network(3, 2, dtype="foo"), ValueError, "`dtype` must be float64 or"),
    (lambda: lim.Embeddings(NAN, X), ValueError, "`Embeddings.context` must hold finite numbers"),
    (lambda: lim.Embeddings(X, X[0]), ValueError, r"`Embeddings.target` .* \(word, width\)"),
    (batch([4], *BATCH[1:]), ValueError, "`WordBatch.words` must number words from 0 to 3.* 4 to"),
    (batch([-1], *BATCH[1:]), ValueError, "`WordBatch.words` must number words from 0 to 3"),
    (batch([0], [[9]], [2], 1.0), ValueError, "`WordBatch.contexts` must number words from -1"),
    (batch([0], [[1, -2]], [2], 1.0), ValueError, "`WordBatch.contexts` must number words from -1"),
    (batch([0], [[1]], [7], 1.0), ValueError, "`WordBatch.negatives` must number words from 0"),
    (batch([0.5], *BATCH[1:]), ValueError, "`WordBatch.words` must be an array of whole numbers"),
    (batch(*BATCH[:3], math.nan), ValueError, "`WordBatch.weight` must be finite and at least 0"),
    (lambda: lim.word2vec_objective(WORDS, 3), TypeError, "`batch` must be a WordBatch; got int"),
    (
        lambda: lim.word2vec_objective(WORDS, lim.WordBatch([0], [[9]], [1], 1.0)),
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
    (lambda: lim.analogy_chance("a"), ValueError, "`vocabulary` must be at least 4 .* got 'a'"),
]


@pytest.mark.parametrize(("call", "error", "match"), LINEAR + WORD2VEC)
def test_refused(call: Callable[[], Any], error: type[Exception], match: str) -> None:
    with pytest.raises(error, match=match):
        call()


def test_lists_are_as_good_as_arrays() -> None:
    net, loss = lim.linear_step(NET, X.tolist(), Y.tolist(), loss=lim.half_square, learning_rate=1)
    same, value = lim.linear_step(NET, X, Y, loss=lim.half_square, learning_rate=1.0)
    assert loss == value
    np.testing.assert_array_equal(net.u, same.u)
    assert lim.analogy_answers(np.eye(4).tolist(), [[0, 1, 2]]).tolist() == [3]
