"""The same random numbers for every test, and one thread for many small products."""

from collections.abc import Iterator

import pytest
import torch


@pytest.fixture(autouse=True)
def _repeatable() -> Iterator[None]:
    threads = torch.get_num_threads()
    torch.default_generator.manual_seed(0)
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(threads)
