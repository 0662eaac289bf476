"""Which trainings the decoder's experiment makes: enough to see every minimum, and no more."""

from __future__ import annotations

import numpy as np

from scalewise.experiments._text_runs import wanted

RATES = np.arange(9.0)


def searched(places: np.ndarray, line: list[bool]) -> tuple[np.ndarray, np.ndarray]:
    """Losses that the search has seen of parabolas with minima at (steps, size), and all of them."""
    every = (RATES[:, None] - places[:, None, :, None, None]) ** 2 + np.array([0.0, 0.1])
    losses = np.full(every.shape, np.nan)
    for _ in range(30):
        now = wanted(losses, line)
        if not now.any():
            return losses, every
        assert np.isnan(losses[now]).all()  # nothing is trained twice
        losses[now] = every[now]
    raise AssertionError("the search does not end")


def test_every_minimum_lies_inside_what_was_trained() -> None:
    places = np.array([[6.2, 4.0, 1.7, 6.0], [5.0, 6.9, 0.4, 0.0]])
    losses, every = searched(places, [True, True, True, False])
    assert np.isfinite(losses[0, 0, 0]).all()  # the base: every rate
    assert np.isnan(losses[1, 0, 3]).all()  # not on the line
    for steps, size in [(0, 1), (0, 2), (0, 3), (1, 0), (1, 1), (1, 2)]:
        k = every[steps, 0, size].mean(axis=-1).argmin()
        base = every[steps, 0, 0].mean(axis=-1).argmin()
        trained = np.isfinite(losses[steps, 0, size]).all(axis=-1)
        assert trained[max(k - 1, 0) : k + 2].all(), (steps, size)
        assert trained[base - 1 : base + 2].all(), (steps, size)
    assert np.isnan(losses).any(axis=-1).mean() > 0.2  # much is not trained at all


def test_where_everything_diverges_the_search_ends() -> None:
    losses = np.full((1, 1, 2, len(RATES), 2), np.nan)
    for _ in range(20):
        now = wanted(losses, [True, True])
        if not now.any():
            break
        losses[now] = np.inf
    assert not wanted(losses, [True, True]).any()
