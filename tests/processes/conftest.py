"""Cells of processes run one after the other, whichever worker has the time for them: two at once need more cores than
there may be, and what they watch for comes too late.
"""

from pathlib import Path

import pytest

ONE_AFTER_THE_OTHER = pytest.mark.xdist_group("processes")


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Puts the tests of this folder into one group; others that start such cells name it themselves."""
    for item in items:
        if Path(__file__).parent in item.path.parents:
            item.add_marker(ONE_AFTER_THE_OTHER)
