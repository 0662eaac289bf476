"""Word analogies: what word vectors answer, and what vectors that never move would.

Source: TP4 (37) and J.3.2.
"""

from __future__ import annotations

from typing import Annotated

import numpy as np
from jaxtyping import Float, Int

from scalewise._checked import at_least, checked


@checked
def analogy_answers(
    vectors: Float[np.ndarray, "word width"],
    questions: Int[np.ndarray, "question 3"],
    *,
    cosine: bool = False,
) -> Int[np.ndarray, " question"]:
    r"""Answers to "$c$ is to what as $a$ is to $b$": $\arg\max_i\,h_i^\top(h_b-h_a+h_c)$, but for the three words.

    Args:
        vectors: $h$, a row per word.
        questions: $(a,b,c)$, numbers of words.
        cosine: Whether to compare directions of unit vectors, as usual, instead of the printed products.

    Returns:
        The word answered for each question.

    Raises:
        ValueError: If shapes do not fit, a number is not finite, a question names a word that is not there, or
            there are fewer than four words.

    Source: TP4 (37), with (a, b, c) = (woman, man, queen) for king.

    Example:
        >>> import numpy as np
        >>> from scalewise.limits.words import analogy_answers
        >>> man, woman, king, queen, tree = np.array([[1., 0], [0, 1], [2, 0], [1, 1], [-1, -1]])
        >>> words = np.array([man, woman, king, queen, tree])
        >>> analogy_answers(words, np.array([[1, 0, 3]])).tolist()
        [2]
    """
    h = vectors
    if len(h) < 4:
        raise ValueError(
            f"`vectors` needs a word beside the three of a question; got {len(h)} rows."
        )
    if questions.size and not 0 <= questions.min() <= questions.max() < len(h):
        raise ValueError(
            f"`questions` must name words from 0 to {len(h) - 1}; got {questions.min()} to "
            f"{questions.max()}."
        )
    if cosine:
        h = h / np.maximum(np.linalg.norm(h, axis=1, keepdims=True), 1e-30)
    named, place = np.unique(questions, return_inverse=True)
    with np.errstate(over="ignore", invalid="ignore"):
        G = h[named] @ h.T
    if not np.isfinite(G).all():
        raise ValueError("Inner products of `vectors` overflow. Scale the vectors down.")
    a, b, c = place.reshape(questions.shape).T
    score = G[b] - G[a] + G[c]
    np.put_along_axis(score, questions, -np.inf, axis=1)
    return score.argmax(1)


@checked
def analogy_chance(vocabulary: Annotated[int, at_least(4)]) -> float:
    r"""Accuracy in the NTK limit, $1/(V-3)$: inner products do not move and are independent, so the answer is any.

    Args:
        vocabulary: V, at least 4.

    Source: TP4 J.3.2.

    Example:
        >>> from scalewise.limits.words import analogy_chance
        >>> analogy_chance(1003)
        0.001
    """
    return 1 / (vocabulary - 3)
