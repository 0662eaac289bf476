"""Settings for the whole test run: the same examples every time, unless asked for others."""

import os

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
