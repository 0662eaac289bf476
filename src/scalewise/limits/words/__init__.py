"""Word2Vec at any width and in the limit, its training on a text, and what its vectors answer."""

from scalewise.limits.words._analogies import analogy_answers as analogy_answers
from scalewise.limits.words._analogies import analogy_chance as analogy_chance
from scalewise.limits.words._training import Word2Vec as Word2Vec
from scalewise.limits.words._training import train_words as train_words
from scalewise.limits.words._word2vec import Embeddings as Embeddings
from scalewise.limits.words._word2vec import WordBatch as WordBatch
from scalewise.limits.words._word2vec import limit as limit
from scalewise.limits.words._word2vec import network as network
from scalewise.limits.words._word2vec import objective as objective
from scalewise.limits.words._word2vec import step as step
