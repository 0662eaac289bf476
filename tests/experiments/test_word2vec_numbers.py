"""Golden tests of the numbers of the word vectors, on results with known content."""

import numpy as np
import pytest
import xarray as xr

from scalewise.experiments.word2vec_analogies import numbers


def made_up(limit: int, widest: int, both: int = 30, questions: int = 100) -> xr.Dataset:
    """Of `questions`, both answer `both`, and each some that the other does not."""
    cosine = np.zeros((3, questions), dtype=bool)
    cosine[1:, :both] = True
    cosine[2, both : both + limit] = True
    cosine[1, both + limit : both + limit + widest] = True
    place = np.repeat(np.array([40.0, 20.0, 10.0])[:, None], questions, axis=1)
    place = place + np.arange(questions) % 7
    return xr.Dataset(
        {
            "right": (("model", "question"), cosine),
            "right_cosine": (("model", "question"), cosine),
            "place": (("model", "question"), place),
        },
        {"model": ["width 4", "width 64", "limit"]},
        {"chance": 0.001},
    )


@pytest.mark.parametrize(
    ("limit", "widest", "holds"),
    # The difference of 5 questions among 100 has a standard error of about 2.6, question by question.
    [(5, 0, 1), (2, 2, 1), (1, 5, 1), (0, 5, 0), (1, 12, 0)],
)
def test_a_width_that_answers_more_by_chance_alone(limit: int, widest: int, holds: int) -> None:
    found = {n.what: n.found for n in numbers(made_up(limit, widest))}
    assert found["no width answers more than the limit by two standard errors (1 for yes)"] == holds
    assert found["neighbouring widths in order, share"] == 1
    assert found["the limit beats the narrowest by four standard errors (1 for yes)"] == 1


def test_the_order_is_by_places() -> None:
    dataset = made_up(5, 0)
    swapped = dataset.copy(deep=True)
    swapped["place"].values[1:] = dataset["place"].values[:0:-1]
    assert numbers(swapped)[0].found == 0.5
