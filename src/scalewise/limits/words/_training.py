r"""Training of Word2Vec on a text, block by block."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Annotated, Any

import numpy as np
from jaxtyping import Int
from numpy.random import Generator, Philox

from scalewise._checked import Count, Index, Must, NotNegative, Told, checked
from scalewise._readable import readable
from scalewise.limits.words._word2vec import Embeddings, WordBatch, step_of_known_words
from scalewise.sweeps.spi import opened, resumable


@checked
@dataclass(frozen=True)
@readable
class Word2Vec:
    r"""How to train.

    Args:
        learning_rate: $\eta$ at the start; it falls linearly to 0.
        weight_decay: $\gamma$.
        window: Largest distance of a context word; each word draws its own from 1 to this.
        negatives: k, negatives per word; 20 makes $p=1/21$.
        draws: N, shared by a batch, each with weight k/N.
        batch: B, words per step.
        power: Negatives are drawn as frequency to this power; 0 for uniformly, as in the source's text.
        subsample: Frequent words are kept with probability $\sqrt{t/f}+t/f$, t being this; infinite for all.
        epochs: Passes over the tokens.
        block: Tokens per saved step.
        seed: Same seed, same words in the same order.

    Source: TP4 J.3; window, power and subsampling as in the program that accompanies it.
    """

    learning_rate: NotNegative = 0.05
    weight_decay: NotNegative = 0.001
    window: Count = 8
    negatives: Count = 20
    draws: Count = 128
    batch: Count = 128
    power: NotNegative = 0.75
    subsample: Annotated[
        float | int, Must("a number of at least 0, infinite to keep all words", lambda v: v >= 0)
    ] = 1e-4
    epochs: Count = 1
    block: Count = 100_000
    seed: Index = 0


@checked
def train_words(
    embeddings: Embeddings,
    tokens: Int[np.ndarray, " token"],
    settings: Word2Vec,
    *,
    store: str | Path | None = None,
    progress: Told = None,
) -> Embeddings:
    """Train on a text; saved block by block, resumed after a kill.

    Args:
        embeddings: Where to start; the arrays are changed.
        tokens: The text as whole numbers of words.
        settings: How to train.
        store: A folder, or an address of fsspec, that keeps the run; nothing is written for ``None``.
        progress: Called with (blocks done, blocks in all).

    Returns:
        The embeddings after the last block; the same bits with and without interruptions.

    Raises:
        ValueError: If a token is not a word, the text is too short, training diverges, or the store is of
            another run.

    Source: TP4 J.3.
    """
    V = len(embeddings.context)
    if len(tokens) < 2 or tokens.min() < 0 or tokens.max() >= V:
        raise ValueError(
            f"`tokens` must be at least two words numbered from 0 to {V - 1}; got {len(tokens)} of them."
        )
    frequency = np.bincount(tokens, minlength=V) / len(tokens)
    with np.errstate(divide="ignore"):
        ratio = settings.subsample / frequency
    keep = np.minimum(np.sqrt(ratio) + ratio, 1)
    noise = np.cumsum(np.where(frequency > 0, frequency**settings.power, 0))
    pieces = -(-len(tokens) // settings.block)
    blocks = pieces * settings.epochs

    def step(index: int, state: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
        now = Embeddings(state["context"], state["target"])
        rng = Generator(Philox(np.random.SeedSequence([settings.seed, index])))
        start = (index % pieces) * settings.block
        piece = tokens[start : start + settings.block]
        piece = piece[rng.random(len(piece)) < keep[piece]]
        rate = settings.learning_rate * (1 - index / blocks)
        for batch in _batches(piece, noise, settings, rng):
            step_of_known_words(now, batch, rate, settings.weight_decay)
        return state

    described: dict[str, Any] = {
        **asdict(settings),
        "shape": list(embeddings.context.shape),
        "tokens": len(tokens),
    }
    state = {"context": embeddings.context, "target": embeddings.target}
    with opened(store, {**described, "steps": blocks}) as record:
        state = resumable(step, state, blocks, record=record, told=progress)
    return Embeddings(state["context"], state["target"])


def _batches(piece: np.ndarray, noise: np.ndarray, settings: Word2Vec, rng: Generator):
    """Batches of a piece of text, its words in random order."""
    if len(piece) < 2:
        return
    reach = np.concatenate([np.arange(-settings.window, 0), np.arange(1, settings.window + 1)])
    order = rng.permutation(len(piece))
    for start in range(0, len(order), settings.batch):
        at = order[start : start + settings.batch]
        radius = rng.integers(1, settings.window + 1, len(at))
        places = at[:, None] + reach
        inside = (places >= 0) & (places < len(piece)) & (np.abs(reach) <= radius[:, None])
        contexts = np.where(inside, piece[np.clip(places, 0, len(piece) - 1)], -1)
        draws = np.searchsorted(noise, rng.random(settings.draws) * noise[-1], side="right")
        weight = settings.negatives / settings.draws
        yield WordBatch(piece[at], contexts, draws, weight)
