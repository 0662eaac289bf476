"""Golden tests of the numbers of the few-shot experiment, on results with known content."""

import numpy as np
import pytest
import xarray as xr

from scalewise.experiments.omniglot_maml import KERNELS, numbers


def made_up(limit: list[float], kernel: float = 0.48, narrow: float = 0.43) -> xr.Dataset:
    runs = len(limit)
    models = ["width 2", "limit", *KERNELS]
    kept = np.array([[narrow] * runs, limit, *[[kernel] * runs] * 2])
    start = np.repeat(np.array([0.3, 0.48, 0.48, 0.48])[:, None, None], runs, axis=1)
    return xr.Dataset(
        {
            "kept": (("model", "run"), kept),
            "kept_sem": (("model", "run"), np.full_like(kept, 0.009)),
            "accuracy": (("model", "run", "record"), np.concatenate([start, kept[..., None]], -1)),
            "steps": (("model", "record"), np.tile([0.0, 1000.0], (4, 1))),
            "published": ("model", [0.5534, 0.6642, 0.476, 0.4782]),
        },
        {"model": models},
    )


@pytest.mark.parametrize(
    ("limit", "beaten", "gains", "behind"),
    [
        # One run of two leaves early and keeps what it had: nothing of the claim is lost.
        ([0.529, 0.592], 2, 1, 1),
        ([0.59, 0.60], 2, 1, 1),
        ([0.53, 0.53, 0.595, 0.60, 0.598], 2, 1, 1),
        # Four standard errors over 600 tasks, of limit and kernel together: 0.036.
        ([0.513, 0.513], 0, 1, 1),
        ([0.519, 0.519], 2, 1, 1),
        ([0.48, 0.48], 0, 0, 1),
        ([0.44, 0.44], 0, 0, 0),
    ],
)
def test_what_the_limit_is_said_to_do(
    limit: list[float], beaten: int, gains: int, behind: int
) -> None:
    found = [number.found for number in numbers(made_up(limit))]
    assert found == [beaten, gains, behind]


def test_more_runs_tell_more() -> None:
    assert numbers(made_up([0.505] * 2))[0].found == 0
    assert numbers(made_up([0.505] * 8))[0].found == 2
