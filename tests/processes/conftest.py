"""Cells of processes run in two groups, one for each worker of `make test`: a fault is mostly a wait for a session or a
broker, so both come to their ends at about the same time.
"""

from pathlib import Path

import pytest

HERE = Path(__file__).parent
GROUPS = {"test_faults": "faults", "test_cluster": "faults"}
"""The group of a file; all others are in the one that starts with the ports of the Procfile."""


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Puts the tests of this folder into their groups; others that start such cells name one themselves."""
    for item in items:
        if HERE in item.path.parents:
            item.add_marker(pytest.mark.xdist_group(GROUPS.get(item.path.stem, "processes")))
