r"""Word vectors: analogies solved better the wider the network, best in the limit, not at all without features.

A linear network predicts a word from the mean of its neighbours,
$$f=V\,U\,\tfrac1{|J|}\textstyle\sum_{j\in J}\xi^j,$$
against words drawn at random; the columns of $U$ are the word vectors. In the tangent-kernel limit they never
leave their random start. A question asks for $\arg\max_ih_i^\top(h_b-h_a+h_c)$ over all words but $a,b,c$.

Claims: accuracy rises with the width towards the exact limit in maximal update, and the tangent-kernel limit
answers any word, $1/(|V|-3)$. Besides the right answers, which are few in a small text, the place of the right
word among all is shown: its logarithm tells models apart much sooner.

Source: TP4 section 6 and J.3 (35)-(39). The text is another part of Wikipedia, the vocabulary its most frequent
words.
"""

from __future__ import annotations

from functools import lru_cache, partial
from typing import Any

import numpy as np
import xarray as xr
from matplotlib.axes import Axes

from scalewise.data import data_file, missing_data
from scalewise.experiments._form import Folder, Progress, settings
from scalewise.experiments._look import COLORS, MUTED, Number, Table, attributes, log_axes, panels
from scalewise.experiments._readers import read_analogies, read_text
from scalewise.limits import words
from scalewise.limits.words import Word2Vec, analogy_answers, analogy_chance
from scalewise.sweeps import sweep

TITLE = "Word analogies: finite widths, the limit that learns, and the limit that does not"
TEXT = (
    "Networks of several widths learn word vectors from a piece of Wikipedia, and so does their exact limit, "
    "one coordinate per word. The wider, the nearer to the top of all words stands the right answer of an "
    "analogy. In the tangent-kernel limit the vectors stay random and the answer is any word, the dashed line."
)
FILES = ("wiki100m.txt.xz", "questions-words.txt")


@settings(characters=3_000_000, learning_rate=0.3)  # small: a few million characters: ten seconds
class Config:
    r"""Settings.

    Args:
        vocabulary: V, the most frequent words.
        characters: Of the text; 0 for all 100 million.
        widths: $n$ of the finite networks.
        epochs: Passes over the text.
        learning_rate: $\eta$ at the start.
        subsample: Threshold frequency above which words are thinned out.
        batch: Words per step.
        draws: Negatives that a batch shares.
        seed: Of networks and batches.
    """

    vocabulary: int = 1000
    characters: int = 8_000_000
    widths: tuple[int, ...] = (4, 16, 64)
    epochs: int = 1
    learning_rate: float = 0.25
    subsample: float = 3e-4
    batch: int = 128
    draws: int = 128
    seed: int = 0

    @classmethod
    def paper(cls) -> Config:
        """The whole text three times with 5,000 words and the published rate: an hour and a quarter on one core."""
        return cls(
            vocabulary=5000,
            characters=0,
            widths=(16, 64, 256),
            epochs=3,
            learning_rate=0.05,
            subsample=1e-4,
        )


needs_data = partial(missing_data, *FILES)


def run(
    config: Config, *, store: Folder = None, progress: Progress = None, client: Any = None
) -> xr.Dataset:
    """Train every width and the limit on the same words, and ask the questions.

    Kept are blocks of text; counted are models.

    Returns:
        Over (model, question), the limit last: ``right``, ``right_cosine`` (directions instead of products) and
        ``place``, how many words beat the right one. Attributes: the config, and ``chance``.
    """
    for name in FILES:
        data_file(name)  # what is missing is said here, not by every cell
    widths = {**{f"width {n}": n for n in config.widths}, "limit": 0}
    found = sweep(
        partial(_answers, config=config),
        {"model": widths},
        store=store,
        progress=progress,
        client=client,
    )
    chance = analogy_chance(config.vocabulary)
    return xr.Dataset(
        {name: (("model", "question"), found[name].values) for name in found.data_vars},
        {"model": [*widths]},
        attributes(config, chance=chance),
    )


def _answers(model: int, store: str | None = None, *, config: Config) -> xr.Dataset:
    """Answers of a model of some width, 0 for the limit, after its training."""
    vocabulary, tokens = _text(config.vocabulary, config.characters)
    questions = read_analogies(vocabulary)
    settings = Word2Vec(
        epochs=config.epochs,
        learning_rate=config.learning_rate,
        subsample=config.subsample,
        batch=config.batch,
        draws=config.draws,
        seed=config.seed,
    )
    V = config.vocabulary
    start = words.network(V, model, seed=config.seed) if model else words.limit(V)
    h = words.train_words(start, tokens, settings, store=store).context
    right = {
        key: analogy_answers(h, questions[:, :3], cosine=cosine) == questions[:, 3]
        for key, cosine in (("right", False), ("right_cosine", True))
    }
    return xr.Dataset(
        {
            key: ("question", values)
            for key, values in {**right, "place": _places(h, questions)}.items()
        }
    )


@lru_cache(maxsize=1)
def _text(vocabulary: int, characters: int) -> tuple[list[str], np.ndarray]:
    return read_text(vocabulary, characters=characters or None)


def _places(h: np.ndarray, questions: np.ndarray) -> np.ndarray:
    """How many of the words that may be answered have a larger product than the right one."""
    a, b, c, d = questions.T
    score = (h[b] - h[a] + h[c]) @ h.T
    np.put_along_axis(score, questions[:, :3], -np.inf, axis=1)
    return (score > score[np.arange(len(d)), d][:, None]).sum(1)


def _mean(x: np.ndarray) -> tuple[float, float]:
    """Over questions; they share words, so the error is a lower bound."""
    return float(x.mean()), float(x.std() / len(x) ** 0.5)


def _logs(dataset: xr.Dataset) -> np.ndarray:
    return np.log1p(dataset.place.values)


def numbers(dataset: xr.Dataset) -> list[Number]:
    """The order of the models by the place of the right answer, and what chance leaves."""
    logs = _logs(dataset)
    better = logs[:-1] - logs[1:]  # of a model over the next narrower one, question by question
    ordered = better.mean(1) > 0
    over, error = _mean(logs[0] - logs[-1])
    found = dataset.right_cosine.values.astype(float)
    # Question by question: few of them are answered in a small text, and mostly by the same models.
    ahead = [_mean(found[-1] - width) for width in found[:-1]]
    right, spread = _mean(dataset.right.isel(model=-1).values.astype(float))
    by_chance = dataset.attrs["chance"]
    return [
        Number("neighbouring widths in order, share", 1, float(ordered.mean())),
        Number(
            "the limit beats the narrowest by four standard errors (1 for yes)",
            1,
            int(over > 4 * error),
        ),
        Number(
            "no width answers more than the limit by two standard errors (1 for yes)",
            1,
            int(all(more > -2 * error for more, error in ahead)),
        ),
        Number(
            "the limit beats chance by two standard errors (1 for yes)",
            1,
            int(right - by_chance > 2 * spread),
        ),
    ]


def tables(dataset: xr.Dataset) -> list[Table]:
    """Accuracies and places, with what chance gives."""
    V, logs = dataset.attrs["vocabulary"], _logs(dataset)
    rows: list[tuple[object, ...]] = [
        (
            "tangent kernel, by chance",
            100 * dataset.attrs["chance"],
            0.0,
            100 * dataset.attrs["chance"],
            float(np.expm1(np.log1p(np.arange(V - 3)).mean())),
        )
    ]
    for k, name in enumerate(dataset.model.values.tolist()):
        right, error = _mean(dataset.right.values[k].astype(float))
        directions = float(dataset.right_cosine.values[k].mean())
        place = float(np.expm1(logs[k].mean()))
        rows.append(
            (name, *(round(100 * x, 2) for x in (right, error, directions)), round(place, 2))
        )
    head = ("model", "right, %", "±", "right by directions, %", "words before the right one")
    return [Table.of(f"{dataset.question.size} analogies among {V} words", head, rows)]


@panels(2, height=3.4)
def figure(dataset: xr.Dataset, left: Axes, right: Axes) -> None:
    """Accuracy, and the place of the right word, by width."""
    names = dataset.model.values.tolist()
    at, logs = np.arange(len(names)), _logs(dataset)
    for key, color, label in (
        ("right", COLORS[0], "products"),
        ("right_cosine", COLORS[1], "directions"),
    ):
        means = np.array([_mean(row.astype(float)) for row in dataset[key].values])
        left.errorbar(
            at, 100 * means[:, 0], yerr=100 * means[:, 1], fmt="o-", color=color, label=label
        )
    left.axhline(100 * dataset.attrs["chance"], color=MUTED, ls="--", label="tangent kernel")
    means = np.array([_mean(row) for row in logs])
    low, high = (np.exp(means[:, 0] + s * means[:, 1]) for s in (-1, 1))
    middle = np.exp(means[:, 0])
    right.errorbar(at, middle, yerr=(middle - low, high - middle), fmt="o-", color=COLORS[0])
    V = dataset.attrs["vocabulary"]
    right.axhline(np.exp(np.log1p(np.arange(V - 3)).mean()), color=MUTED, ls="--")
    log_axes(right, "y")
    for axis in (left, right):
        axis.set_xticks(at, names)
    left.set(title="right answers, %")
    right.set(title="place of the right word, geometric mean")
    left.legend(loc="upper left")
