"""One browser at a time: all tests of the web UI are one group of pytest-xdist."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser

from tests.browser import cells
from tests.browser.browser import Visitor, chromium
from tests.browser.cells import Shown

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


@pytest.fixture(scope="package")
def _regular(browser: Browser) -> Iterator[Visitor]:
    visits = Visitor(browser)
    yield visits
    visits.close()


@pytest.fixture
def regular(_regular: Visitor) -> Iterator[Visitor]:
    """Somebody who has loaded what pages need, and opens one after the other; see `Visitor.turn_to`."""
    yield _regular
    faults, _regular.faults = _regular.faults, []
    assert faults == []


@pytest.fixture(scope="package")
def real(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Shown]:
    with cells.real(tmp_path_factory.mktemp("real")) as cell:
        yield cell


@pytest.fixture(scope="package")
def empty(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Shown]:
    with cells.empty(tmp_path_factory.mktemp("empty")) as cell:
        yield cell


@pytest.fixture(scope="package")
def many(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Shown]:
    with cells.many(tmp_path_factory.mktemp("many")) as cell:
        yield cell


@pytest.fixture(scope="package")
def cards(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Shown]:
    with cells.cards(tmp_path_factory.mktemp("cards")) as cell:
        yield cell


@pytest.fixture(scope="package")
def history(real: Shown, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Shown]:
    with cells.history(real, tmp_path_factory.mktemp("history")) as cell:
        yield cell


@pytest.fixture(scope="package")
def past(real: Shown) -> Shown:
    return cells.past(real)


@pytest.fixture(params=["real", "past", "empty", "many", "history", "cards"])
def cell(request: pytest.FixtureRequest) -> Shown:
    """Each of them."""
    shown: Shown = request.getfixturevalue(request.param)
    return shown
