"""One browser at a time: all tests of the web UI are one group of pytest-xdist."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser

from tests.ui.browser import Visitor, chromium

HERE = Path(__file__).parent


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if HERE in item.path.parents:
            item.add_marker(pytest.mark.xdist_group("browser"))


@pytest.fixture(scope="package")
def browser() -> Iterator[Browser]:
    """Ends with this folder: tests of other folders run event loops of their own in this thread."""
    with chromium() as running:
        yield running


@pytest.fixture
def visitor(browser: Browser) -> Iterator[Visitor]:
    """Opens pages; a test fails where one of them has done what no page may."""
    visits = Visitor(browser)
    yield visits
    visits.close()
    assert visits.faults == []
