"""Trees of arrays that stand for no function: most tests of plans for them have no forward pass to show."""

from pathlib import Path

import pytest

HERE = Path(__file__).parent


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """That a plan warns of it is tested in test_forward.py."""
    for item in items:
        if item.path.parent == HERE and item.path.name != "test_forward.py":
            item.add_marker(pytest.mark.filterwarnings("ignore:The plan has not seen"))
