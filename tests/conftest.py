"""Settings for the whole test run: the same examples every time, unless asked for others."""

import os
from collections.abc import Mapping
from typing import Any

import numpy as np
import pytest
from hypothesis import settings

from daily import EVERY

settings.register_profile("repeatable", derandomize=True, deadline=None)
settings.register_profile("search", deadline=None)  # HYPOTHESIS_PROFILE=search looks for new ones
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "repeatable"))


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """What is collected, before thorough tests are left out of it."""
    config.stash[EVERY] = list(items)


_FIRST: dict[int, tuple[np.random.Generator, Mapping[str, Any]]] = {}


@pytest.fixture(autouse=True)
def own_draws(request: pytest.FixtureRequest) -> None:
    """A generator of a module draws for a test what it would if no other test had run."""
    for value in vars(request.module).values():
        if isinstance(value, np.random.Generator):
            # The generator is kept, so that no other one has its `id`.
            _, state = _FIRST.setdefault(id(value), (value, value.bit_generator.state))
            value.bit_generator.state = state
