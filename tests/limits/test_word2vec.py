"""Golden, property and agreement tests: Word2Vec by touched rows, its limit, analogies, resumed runs."""

import json
import math
import os
import signal
import subprocess
import sys
from dataclasses import asdict, replace
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from refusals import unlike
from scalewise.limits import SGD, linear, words
from scalewise.limits.linear import LinearNet
from scalewise.limits.words import Embeddings, Word2Vec, WordBatch, analogy_answers, analogy_chance
from scalewise.tasks import Loss

V = 12
RNG = np.random.default_rng(0)
# Word 7 is a negative of its own, and drawn twice; contexts repeat words and have different sizes.
BATCH = WordBatch(
    np.array([3, 7, 3, 0]),
    np.array([[1, 2, 1], [4, -1, -1], [5, 3, -1], [9, 8, 11]]),
    np.array([7, 2, 7, 10, 3]),
    0.6,
)


def copied(e: Embeddings) -> Embeddings:
    return Embeddings(e.context.copy(), e.target.copy())


def random_batch(rng: np.random.Generator, size: int = 2) -> WordBatch:
    contexts = rng.integers(0, V, (size, 3))
    contexts[0, 2] = -1
    return WordBatch(rng.integers(0, V, size), contexts, rng.integers(0, V, 4), 1.0)


def objective(context, target, batch: WordBatch):
    """The mean context, its products, and the two logarithms, written out word by word."""
    total = 0.0
    for word, places in zip(batch.words, batch.contexts, strict=True):
        J = [j for j in places if j >= 0]
        h = sum(context[j] for j in J) / len(J)
        total += jnp.log(jax.nn.sigmoid(h @ target[word]))
        for tau in batch.negatives:
            if tau != word:
                total += batch.weight * jnp.log(1 - jax.nn.sigmoid(h @ target[tau]))
    return total


@pytest.mark.covers("E19")
@pytest.mark.parametrize("width", [5, 600])  # rows gathered at once, and one by one
def test_a_step_is_the_slope_of_the_objective(width: int) -> None:
    e = words.network(V, width, sigma_u=1.5, sigma_v=1.2, dtype=np.float64)
    with jax.enable_x64(True):
        both = jax.jit(jax.value_and_grad(lambda u, v: objective(u, v, BATCH), argnums=(0, 1)))
        value, slopes = jax.tree.map(np.asarray, both(e.context, e.target))
    assert words.objective(e, BATCH) == pytest.approx(float(value), rel=1e-13)
    new = copied(e)
    words.step(new, BATCH, learning_rate=0.3)
    for before, after, slope in zip(
        (e.context, e.target), (new.context, new.target), slopes, strict=True
    ):
        np.testing.assert_allclose(after, before + 0.3 * slope, rtol=0, atol=1e-14)
    assert words.objective(new, BATCH) > value  # uphill


def test_one_target_by_hand() -> None:
    """(39): eta/|J| times the target's vector times 1 - sigma, or -sigma for a negative."""
    e = words.network(V, 3, sigma_v=1.0, dtype=np.float64)
    word, J, tau = 4, [1, 6], 9
    batch = WordBatch(np.array([word]), np.array([J]), np.array([tau]), 1.0)
    new = copied(e)
    words.step(new, batch, learning_rate=0.1)
    h = e.context[J].mean(0)
    up = 1 / (1 + math.exp(h @ e.target[word]))
    down = 1 / (1 + math.exp(-h @ e.target[tau]))
    change = 0.05 * (up * e.target[word] - down * e.target[tau])
    np.testing.assert_allclose(new.context[1] - e.context[1], change, rtol=1e-12)
    np.testing.assert_allclose(new.target[word] - e.target[word], 0.1 * up * h, rtol=1e-12)
    np.testing.assert_allclose(new.target[tau] - e.target[tau], -0.1 * down * h, rtol=1e-12)


@pytest.mark.parametrize("width", [5, 600])
def test_rows_decay_as_often_as_they_are_touched(width: int) -> None:
    e = words.network(V, width, sigma_v=1.0, dtype=np.float64)
    plain, decayed = copied(e), copied(e)
    words.step(plain, BATCH, learning_rate=0.1)
    words.step(decayed, BATCH, learning_rate=0.1, weight_decay=2.0)
    contexts = [0, 2, 1, 1, 1, 1, 0, 0, 1, 1, 0, 1]
    # Words once each; a draw counts 0.6 for every word it is a negative of.
    targets = np.array([1, 0, 4 * 0.6, 2 + 2 * 0.6, 0, 0, 0, 1 + 2 * 3 * 0.6, 0, 0, 4 * 0.6, 0])
    for name, counts in (("context", contexts), ("target", targets)):
        lost = getattr(plain, name) - getattr(decayed, name)
        keep = 0.8 ** np.array(counts)
        np.testing.assert_allclose(lost, (1 - keep)[:, None] * getattr(e, name), atol=1e-13)


@pytest.mark.covers("E19")
def test_it_is_algorithm_3_with_one_hot_inputs() -> None:
    """The same step by `linear.step`, dense, with the objective's loss."""
    limit = words.limit(V, sigma_v=0.8, dtype=np.float64)
    net = LinearNet(limit.context.T.copy(), limit.target.copy(), np.zeros(2 * V), 0.0)
    rng = np.random.default_rng(4)
    for _ in range(6):
        batch = random_batch(rng, 5)
        x = np.zeros((5, V))
        for row, J in zip(x, batch.contexts, strict=True):
            np.add.at(row, J[J >= 0], 1 / (J >= 0).sum())
        own = np.eye(V)[batch.words]
        often = (1 - own) * np.bincount(batch.negatives, minlength=V) * batch.weight

        def slope(f, y, often=often):
            p = 1 / (1 + np.exp(-f))
            return len(y) * (often * p - y * (1 - p))

        # The objective is a sum over the words and a loss is a mean; its value changes no step.
        loss = Loss(lambda f, y: 0 * f[..., 0], slope)
        net, _ = linear.step(net, x, own, SGD(0.4), loss=loss)
        words.step(limit, batch, learning_rate=0.4)
    np.testing.assert_allclose(limit.context, net.u.T, rtol=0, atol=1e-14)
    np.testing.assert_allclose(limit.target, net.v, rtol=0, atol=1e-14)


def trained(e: Embeddings, steps: int = 120) -> Embeddings:
    rng = np.random.default_rng(8)
    for _ in range(steps):
        words.step(e, random_batch(rng), learning_rate=0.3, weight_decay=0.001)
    return e


@pytest.mark.covers("E19")
@pytest.mark.parametrize("sigma_v", [0.0, 1.0])
def test_embeddings_of_wide_networks_approach_the_limit(sigma_v: float) -> None:
    limit = trained(words.limit(V, sigma_v=sigma_v, dtype=np.float64))
    gram = limit.context @ limit.context.T
    assert np.abs(gram - np.eye(V)).max() > 0.3
    gaps = []
    for n in (300, 9600):
        e = trained(words.network(V, n, sigma_v=sigma_v, dtype=np.float64, seed=1))
        gaps.append(np.abs(e.context @ e.context.T - gram).max())
    assert gaps[1] < 0.1
    assert math.log(gaps[0] / gaps[1]) / math.log(32) == pytest.approx(0.5, abs=0.25)


def test_columns_beyond_the_vocabulary_stay_zero_if_targets_start_there() -> None:
    short = words.limit(V, dtype=np.float64)
    long = Embeddings(*(np.pad(x, ((0, 0), (0, V))) for x in (short.context, short.target)))
    trained(long, 60)
    assert not long.context[:, V:].any()
    np.testing.assert_allclose(long.context[:, :V], trained(short, 60).context, atol=1e-14)
    used = trained(words.limit(V, sigma_v=1.0), 60)
    assert np.abs(used.context[:, V:]).max() > 0.1


def test_shared_negatives_have_the_mean_of_single_ones() -> None:
    """Over the draws, the update is that of k independent negatives per word."""
    e = words.network(V, 4, sigma_v=1.0, dtype=np.float64)
    rng = np.random.default_rng(3)
    noise = np.arange(1, V + 1) / np.arange(1, V + 1).sum()
    centres, contexts = np.array([0, 5]), np.array([[1, 2], [3, -1]])

    def update(batch: WordBatch) -> np.ndarray:
        new = copied(e)
        words.step(new, batch, learning_rate=1.0)
        return np.concatenate([new.context - e.context, new.target - e.target])

    expected = np.zeros((2 * V, 4))
    for i in range(2):
        one = centres[i : i + 1], contexts[i : i + 1]
        nothing = update(WordBatch(*one, np.array([int(centres[i])]), 1.0))
        expected += nothing
        for tau, p in enumerate(noise):
            expected += 3 * p * (update(WordBatch(*one, np.array([tau]), 1.0)) - nothing)
    draws = np.array(
        [update(WordBatch(centres, contexts, rng.choice(V, 6, p=noise), 0.5)) for _ in range(900)]
    )
    sem = draws.std(0) / 30
    assert np.all(np.abs(draws.mean(0) - expected) < 4.5 * sem + 1e-12)


def text(words: int = 20_000) -> np.ndarray:
    """Two topics of six words each, in runs of twenty."""
    rng = np.random.default_rng(2)
    topic = np.repeat(rng.integers(0, 2, words // 20), 20)
    return (6 * topic + rng.integers(0, 6, len(topic))).astype(np.int32)


QUICK = Word2Vec(subsample=1.0, batch=32, draws=64, negatives=5, window=3, block=2000, power=0.5)


@pytest.mark.parametrize("width", [4, 0])
def test_training_finds_the_topics(width: int) -> None:
    e = words.network(V, width, seed=2) if width else words.limit(V)
    e = words.train_words(e, text(), QUICK)
    h = e.context / np.linalg.norm(e.context, axis=1, keepdims=True)
    gram = h @ h.T
    same = gram[:6, :6][~np.eye(6, dtype=bool)].mean() + gram[6:, 6:][~np.eye(6, dtype=bool)].mean()
    assert same / 2 > gram[:6, 6:].mean() + 0.5


def test_the_same_seed_gives_the_same_run_and_another_does_not() -> None:
    runs = [
        words.train_words(words.limit(V), text(4000), replace(QUICK, seed=s)).context
        for s in (0, 0, 1)
    ]
    np.testing.assert_array_equal(runs[0], runs[1])
    assert np.abs(runs[0] - runs[2]).max() > 1e-3


SCRIPT = """
import json, sys, numpy as np
from scalewise.limits import words
from scalewise.limits.words import Word2Vec
tokens = np.load(sys.argv[1])
settings = Word2Vec(**json.loads(sys.argv[3]))
words.train_words(words.limit(12), tokens, settings, store=sys.argv[2],
               progress=lambda done, of: print(done, flush=True))
"""


@pytest.mark.covers("E19")
def test_a_run_killed_at_any_moment_goes_on_where_it_was(tmp_path: Path) -> None:
    tokens = text(40_000)
    np.save(tmp_path / "text.npy", tokens)
    store = tmp_path / "runs" / "one"
    arguments = [str(tmp_path / "text.npy"), str(store), json.dumps(asdict(QUICK))]
    with subprocess.Popen(
        [sys.executable, "-c", SCRIPT, *arguments], stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        finished = 0
        for line in process.stdout:
            finished = int(line)
            if finished >= 2:
                os.kill(process.pid, signal.SIGKILL)
                break
    assert process.returncode == -signal.SIGKILL
    seen: list[int] = []
    e = words.train_words(
        words.limit(V), tokens, QUICK, store=store, progress=lambda done, _: seen.append(done)
    )
    assert seen[0] >= finished  # no finished block was lost
    assert seen[-1] == 20
    whole = words.train_words(words.limit(V), tokens, QUICK)
    np.testing.assert_array_equal(e.context, whole.context)
    np.testing.assert_array_equal(e.target, whole.target)
    again: list[int] = []
    words.train_words(
        words.limit(V), tokens, QUICK, store=store, progress=lambda done, _: again.append(done)
    )
    assert again == [20]


def test_stores_of_other_runs_are_refused(tmp_path: Path) -> None:
    store, tokens = tmp_path / "run", text(2000)
    words.train_words(words.limit(V), tokens, QUICK, store=store)
    with pytest.raises(ValueError, match=r"other arguments \(seed: 0 there, 5 here\)"):
        words.train_words(words.limit(V), tokens, replace(QUICK, seed=5), store=store)
    (store / "run.json").write_text("nothing of the kind")
    with pytest.raises(ValueError, match="must be a new path or the store of an earlier run"):
        words.train_words(words.limit(V), tokens, QUICK, store=store)


@pytest.mark.covers("E19")
def test_analogies_and_their_three_words() -> None:
    """Vectors with an exact structure: b - a + c is d; the nearest of the three is never the answer."""
    base, step = RNG.normal(size=(5, 8)), 3 * RNG.normal(size=8)
    h = np.concatenate([base, base + step])
    h /= np.linalg.norm(h, axis=1, keepdims=True)
    questions = np.array([[i, 5 + i, j] for i in range(5) for j in range(5) if i != j])
    for cosine in (False, True):
        found = analogy_answers(h, questions, cosine=cosine)
        assert (found == 5 + questions[:, 2]).mean() > 0.5  # chance is 1 in 7
        assert not (found[:, None] == questions).any()
        for q, answer in zip(questions, found, strict=True):
            score = h @ (h[q[1]] - h[q[0]] + h[q[2]])
            assert answer == max(set(range(10)) - set(q.tolist()), key=lambda i: score[i])
    long = h * np.exp(RNG.normal(size=(10, 1)))
    np.testing.assert_array_equal(
        analogy_answers(long, questions, cosine=True), analogy_answers(h, questions)
    )


@pytest.mark.covers("E19")
def test_in_the_ntk_limit_answers_are_any() -> None:
    """Independent wide vectors that never move: every word equally often, so 1/(V - 3) are right."""
    count, rng = 20, np.random.default_rng(6)
    right = []
    for _ in range(1500):
        h = rng.normal(size=(count, 1500)).astype(np.float32)
        right.append(analogy_answers(h, np.array([[0, 1, 2]]))[0])
    counts = np.bincount(right, minlength=count)
    chance = analogy_chance(count)
    assert not counts[:3].any()
    assert chance == pytest.approx(1 / 17)
    spread = math.sqrt(1500 * chance * (1 - chance))
    assert np.all(np.abs(counts[3:] - 1500 * chance) < 4.5 * spread)


REFUSED = [
    (lambda: words.limit(1), "`vocabulary` must be a whole number of at least 2; got 1"),
    (
        lambda: words.limit(3, sigma_u=-1.0),
        "`sigma_u` must be a finite number of at least 0; got -1",
    ),
    (
        lambda: words.network(3, 0),
        "`width` must be a whole number of at least 1; got 0",
    ),
    (lambda: analogy_chance(3), "`vocabulary` must be a whole number of at least 4; got 3"),
    (
        lambda: analogy_answers(np.ones((4, 2)), np.array([[0, 1, 4]])),
        "`questions` must name words from 0 to 3; got 0 to 4",
    ),
    (lambda: Embeddings(np.ones((2, 3)), np.ones((2, 4))), "two arrays .* of one shape"),
    (
        lambda: WordBatch(np.array([1]), np.array([[-1, -1]]), np.array([0]), 1.0),
        "needs a context; a row of `contexts` is empty",
    ),
    (
        lambda: WordBatch(np.array([1, 2]), np.array([[0]]), np.array([0]), 1.0),
        "one row of `contexts` per word; got 1 for 2 words",
    ),
    (
        lambda: words.step(words.limit(V), BATCH, learning_rate=2.0, weight_decay=0.5),
        "`learning_rate` times `weight_decay` must be below 1",
    ),
    (lambda: trained_wildly(), "`words.step` diverged: .*Lower `learning_rate`"),
    (lambda: Word2Vec(batch=0), "`Word2Vec.batch` must be a whole number of at least 1; got 0"),
    (
        lambda: Word2Vec(power=-1.0),
        "`Word2Vec.power` must be a finite number of at least 0; got -1.0",
    ),
    (
        lambda: words.train_words(words.limit(3), text(100), QUICK),
        "`tokens` must be at least two words numbered from 0 to 2; got 100 of them",
    ),
]


def test_bad_numbers_are_refused() -> None:
    assert unlike(REFUSED) == []


def trained_wildly() -> None:
    e, context = words.limit(V), np.array([[2]])
    for word, other in [(1, 3), (3, 1)] * 5:  # what one step learns the next has to forget
        batch = WordBatch(np.array([word]), context, np.array([other]), 1.0)
        words.step(e, batch, learning_rate=1e15)
