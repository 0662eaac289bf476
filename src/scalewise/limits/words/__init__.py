"""Word2Vec at any width and in the limit, its training on a text, and what its vectors answer."""

from scalewise.limits.words._analogies import analogy_answers, analogy_chance
from scalewise.limits.words._training import Word2Vec, train
from scalewise.limits.words._word2vec import (
    Embeddings,
    WordBatch,
    limit,
    network,
    objective,
    step,
)

__all__ = [
    "Embeddings",
    "Word2Vec",
    "WordBatch",
    "analogy_answers",
    "analogy_chance",
    "limit",
    "network",
    "objective",
    "step",
    "train",
]
