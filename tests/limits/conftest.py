"""Shared by the tests of the limits."""

from collections.abc import Iterator

import jaxtyping
import pytest


@pytest.fixture
def as_users_have_it() -> Iterator[None]:
    """Annotations are checked in tests only; a user meets the messages."""
    jaxtyping.config.update("jaxtyping_disable", True)
    yield
    jaxtyping.config.update("jaxtyping_disable", False)
