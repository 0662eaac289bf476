r"""Word2Vec (continuous bag of words, negative sampling) at finite width and in the limit of maximal update.

$$\Phi^J=\frac1{|J|}\sum_{j\in J}\Phi^j,\qquad s_\tau=\Phi^{J\top}\widehat\Phi^\tau,\qquad
  \mathcal L=\log\sigma(s_i)+\sum_{\tau\ne i}w_\tau\log(1-\sigma(s_\tau))\ \text{(maximised)}$$
for a word $i$ with context $J$. A step changes only the rows it touches:
$$\Delta\widehat\Phi^\tau=\eta\,c_\tau\Phi^J,\qquad
  \Delta\Phi^j=\frac\eta{|J|}\sum_\tau c_\tau\widehat\Phi^\tau,\qquad
  c_i=1-\sigma(s_i),\quad c_\tau=-w_\tau\sigma(s_\tau).$$
The limit is the same algorithm on coefficients (`linear`): rows of $\Phi$ start as $\sigma_u$ times unit
vectors, rows of $\widehat\Phi$ as $\sigma_v$ times others, so 2V columns; with $\widehat\Phi_0=0$ the second V stay
zero and are left out. 5,000 words take 200 MB in float32.

The words of a batch are updated together from the same state, and share their negatives: B words see
the same N draws with weight k/N each instead of k draws of their own. The mean of the update over the draws is
that of one word after another; what differs is the order $\eta^2B$ and the noise, and almost all of the work
becomes matrix products. Asynchronous training (Hogwild) is neither; it is not reproducible.

Source: TP4 J.3 (35)-(39). Printed, (36) and (38) have their two cases swapped; (39) is right for the objective
above. The prefactor of (39) is the gradient's, not the change of the mean.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Annotated

import numpy as np
import scipy.sparse as sp
from jaxtyping import Float, Int
from numpy.random import Generator, Philox

from scalewise._checked import Count, Index, NotNegative, Precision, at_least, checked
from scalewise._readable import readable

Vocabulary = Annotated[int, at_least(2)]
_NARROW = 512  # columns up to which rows are gathered at once; wide rows are faster one by one


@checked
@dataclass(frozen=True)
@readable
class Embeddings:
    r"""Word vectors; `step` changes the arrays in place.

    Args:
        context: $\Phi$, a row per word: the embedding in common use.
        target: $\widehat\Phi$, likewise.

    Raises:
        ValueError: If the shapes differ, or a number is not finite.
    """

    context: Float[np.ndarray, "word width"]
    target: Float[np.ndarray, "_word _width"]
    _such_as = "limits.words.limit(vocabulary)"

    def __post_init__(self) -> None:
        if self.context.shape != self.target.shape:
            raise ValueError(
                "`Embeddings` must hold two arrays (word, width) of one shape; got "
                f"{self.context.shape} and {self.target.shape}."
            )


@checked
@dataclass(frozen=True)
@readable
class WordBatch:
    """Words in their contexts, and the negatives they share.

    Args:
        words: $i$, ``(batch,)``.
        contexts: $J$, ``(batch, place)``; −1 where there is no word.
        negatives: $τ$, ``(draw,)``; a word is never its own negative.
        weight: $w$, how often each draw counts.

    Raises:
        ValueError: If the shapes do not fit, numbers of words are not whole, the weight is not a number of at
            least 0, or a word has no context.
    """

    words: Int[np.ndarray, " batch"]
    contexts: Int[np.ndarray, "_batch place"]
    negatives: Int[np.ndarray, " draw"]
    weight: NotNegative

    def __post_init__(self) -> None:
        if len(self.words) != len(self.contexts):
            raise ValueError(
                "`WordBatch` needs one row of `contexts` per word; got "
                f"{len(self.contexts)} for {len(self.words)} words."
            )
        if not np.all((self.contexts >= 0).any(1)):
            raise ValueError(
                "Every word of a `WordBatch` needs a context; a row of `contexts` is empty."
            )


@checked
def limit(
    vocabulary: Vocabulary,
    *,
    sigma_u: NotNegative = 1.0,
    sigma_v: NotNegative = 0.0,
    dtype: Precision = np.float32,
) -> Embeddings:
    r"""The limit at initialisation: $\Phi_0=(\sigma_uI,0)$, $\widehat\Phi_0=(0,\sigma_vI)$.

    Args:
        vocabulary: V, at least 2.
        sigma_u: $\sigma_u$.
        sigma_v: $\sigma_v$; 1 in the source's text, 0 in its program. With 0 the V columns that would stay zero
            are left out.
        dtype: ``numpy.float32`` or ``numpy.float64``.

    Returns:
        V rows of V or 2V columns; exact.

    Source: TP4 J.3.1.

    Example:
        >>> from scalewise.limits import words
        >>> words.limit(5).context.shape, words.limit(5, sigma_v=1.0).context.shape
        ((5, 5), (5, 10))
    """
    columns = 2 * vocabulary if sigma_v else vocabulary
    context = np.zeros((vocabulary, columns), dtype)
    target = np.zeros((vocabulary, columns), dtype)
    np.fill_diagonal(context, sigma_u)
    if sigma_v:
        np.fill_diagonal(target[:, vocabulary:], sigma_v)
    return Embeddings(context, target)


@checked
def network(
    vocabulary: Vocabulary,
    width: Count,
    *,
    sigma_u: NotNegative = 1.0,
    sigma_v: NotNegative = 0.0,
    seed: Index = 0,
    dtype: Precision = np.float32,
) -> Embeddings:
    r"""A network of finite width: entries $\mathcal N(0,\sigma_u^2/n)$ and $\mathcal N(0,\sigma_v^2/n)$.

    Args:
        vocabulary: V, at least 2.
        width: $n$, at least 1.
        sigma_u: $\sigma_u$.
        sigma_v: $\sigma_v$.
        seed: Same seed, same network.
        dtype: ``numpy.float32`` or ``numpy.float64``.

    Source: TP4 J.3.1, where the variance is printed as $\sigma_un^{-1}$ and means $\sigma_u^2/n$.
    """
    draw = Generator(Philox(seed)).standard_normal((2, vocabulary, width)) / math.sqrt(width)
    return Embeddings((sigma_u * draw[0]).astype(dtype), (sigma_v * draw[1]).astype(dtype))


@checked
def objective(embeddings: Embeddings, batch: WordBatch) -> float:
    r"""$\sum_i\big[\log\sigma(s_i)+\sum_{\tau\ne i}w\log(1-\sigma(s_\tau))\big]$ of a batch: to be maximised.

    Args:
        embeddings: Word vectors.
        batch: Words, contexts, negatives.

    Raises:
        ValueError: If a word of the batch is not among the embeddings.

    Source: TP4 (36), (38) with the two cases in their places.
    """
    _check_words(embeddings, batch)
    there = batch.contexts >= 0
    summed = np.einsum("bj,bjn->bn", there, embeddings.context[batch.contexts])
    h = summed / there.sum(1, keepdims=True)
    own = np.einsum("ij,ij->i", h, embeddings.target[batch.words])
    others = h @ embeddings.target[batch.negatives].T
    apart = batch.negatives != batch.words[:, None]
    # log sigma(s) = -log(1 + exp(-s)), without overflow.
    lost = np.logaddexp(0, -own).sum() + batch.weight * (np.logaddexp(0, others) * apart).sum()
    return -float(lost)


@checked
def step(
    embeddings: Embeddings,
    batch: WordBatch,
    *,
    learning_rate: NotNegative,
    weight_decay: NotNegative = 0.0,
) -> None:
    r"""One step of ascent on a batch, in place: the rows touched, and no others, change.

    Weight decay shrinks a row by $1-\eta\gamma$ each time it is touched: once for each word or context it is
    in, $w$ times for each word it is a negative of.

    Args:
        embeddings: Word vectors, changed.
        batch: Words, contexts, negatives.
        learning_rate: $\eta$, at least 0.
        weight_decay: $\gamma$, at least 0, below $1/\eta$.

    Raises:
        ValueError: If a rate is out of its range, a word is not among the embeddings, or the step diverges.

    Source: TP4 (39), and Algorithms 2 and 3 with one-hot inputs; the change of $\widehat\Phi$ is derived.
    """
    _check_words(embeddings, batch)
    step_of_known_words(embeddings, batch, learning_rate, weight_decay)


def step_of_known_words(embeddings: Embeddings, batch: WordBatch, eta: float, gamma: float) -> None:
    """The step, where all words are known to exist."""
    if eta * gamma >= 1:
        raise ValueError(
            f"`learning_rate` times `weight_decay` must be below 1; got {eta!r} and {gamma!r}."
        )
    with np.errstate(over="ignore", invalid="ignore"):
        finite = _ascend(embeddings.context, embeddings.target, batch, eta, gamma)
    if not finite:
        raise ValueError(
            f"`words.step` diverged: inner products are not finite. Lower `learning_rate` ({eta}), make the "
            "batch smaller or draw more negatives."
        )


def _ascend(Phi: np.ndarray, Psi: np.ndarray, batch: WordBatch, eta: float, gamma: float) -> bool:
    """The step; whether all products were finite."""
    there, share = _contexts(batch, Phi.dtype)
    ends = np.concatenate([[0], np.cumsum(there.sum(1))])
    known = batch.contexts[there]
    n, draws = len(batch.words), len(batch.negatives)
    h = sp.csr_array((share, known, ends), shape=(n, len(Phi))) @ Phi
    own, others = Psi[batch.words], Psi[batch.negatives]
    c_own = _sigmoid(-np.einsum("ij,ij->i", h, own))
    apart = batch.negatives != batch.words[:, None]
    c = -batch.weight * _sigmoid(h @ others.T) * apart
    dh = c @ others
    dh += c_own[:, None] * own
    # Rows of the targets: each word's own, then the negatives.
    touched, place = np.unique(np.concatenate([batch.words, batch.negatives]), return_inverse=True)
    gather = sp.csr_array((np.ones(n + draws, Phi.dtype), (place, np.arange(n + draws))))
    change = gather @ np.concatenate([c_own[:, None] * h, c.T @ h])
    counts = np.concatenate([np.ones(n), batch.weight * apart.sum(0)])
    _add_rows(Psi, touched, np.bincount(place, counts), eta, gamma, change)
    touched, place = np.unique(known, return_inverse=True)
    back = sp.csc_array((share, place, ends), shape=(len(touched), n)).tocsr()
    _add_rows(Phi, touched, np.bincount(place), eta, gamma, back @ dh)
    return bool(np.all(np.isfinite(c)) and np.all(np.isfinite(c_own)))


def _contexts(batch: WordBatch, dtype: np.dtype) -> tuple[np.ndarray, np.ndarray]:
    """Mask of the places that hold a word, and the share 1/|J| of each of these words."""
    there = batch.contexts >= 0
    sizes = there.sum(1)
    return there, np.repeat(1 / sizes, sizes).astype(dtype)


def _sigmoid(s: np.ndarray) -> np.ndarray:
    return 0.5 + 0.5 * np.tanh(0.5 * s)


def _add_rows(
    table: np.ndarray,
    rows: np.ndarray,
    counts: np.ndarray,
    eta: float,
    gamma: float,
    change: np.ndarray,
) -> None:
    """Shrink each of these rows as often as it was touched, and add eta times its change."""
    keep = (1 - eta * gamma) ** counts
    change *= eta
    if table.shape[1] <= _NARROW:
        table[rows] = keep[:, None].astype(table.dtype) * table[rows] + change
        return
    for r, i in enumerate(rows.tolist()):
        row = table[i]
        row *= keep[r]
        row += change[r]


def _check_words(embeddings: Embeddings, batch: WordBatch) -> None:
    """Refuse words that the embeddings do not have."""
    V = len(embeddings.context)
    for name, least in (("words", 0), ("contexts", -1), ("negatives", 0)):
        numbers = getattr(batch, name)
        if numbers.size and not least <= numbers.min() <= numbers.max() < V:
            raise ValueError(
                f"`WordBatch.{name}` must number words from {least} to {V - 1}, as there are embeddings; got "
                f"{numbers.min()} to {numbers.max()}. Take embeddings of the same vocabulary."
            )
