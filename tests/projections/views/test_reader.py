"""The views of a server whose projector is another process: they may be deleted and made anew while it runs."""

import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
from starlette.testclient import TestClient

from paceline.cli.commands.admin import _rebuild
from projections.api.app import create_app
from projections.views.projector import Projector
from projections.views.reader import AttachedViews, ViewsAway, folded, reached
from tests.helpers.written_cell import Cell
from tests.projections.conftest import LISTEN, TOKEN


class Beside:
    """A projector and a server that is attached to its views."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.cell = Cell()
        self.projector = Projector(self.cell.log, folder)
        self.views = AttachedViews(folder / "views.sqlite")
        app = create_app(self.views, self.cell.log, token=TOKEN, listen=LISTEN, cell_info=dict)
        self.client = TestClient(app, f"http://{LISTEN}", raise_server_exceptions=False)

    def accept(self, job_id: str) -> None:
        self.cell.accept(job_id)
        while self.projector.step():
            pass

    def jobs(self) -> list[str]:
        return [job["job_id"] for job in self.client.get("/v1/jobs").json()["jobs"]]

    def delete(self) -> None:
        self.projector.close()
        for file in self.folder.glob("views.sqlite*"):
            file.unlink()


@pytest.fixture
def beside(tmp_path: Path) -> Iterator[Beside]:
    held = Beside(tmp_path)
    yield held
    held.projector.close()


def test_views_that_were_deleted_are_read_again_when_they_are_there_again(beside: Beside) -> None:
    beside.accept("a")
    assert beside.jobs() == ["a"]
    beside.delete()
    answer = beside.client.get("/v1/jobs")
    assert (answer.status_code, answer.json()["code"]) == (503, "VIEWS_AWAY")
    assert "paceline projector" in answer.json()["detail"]
    assert answer.headers["retry-after"]
    assert not list(beside.folder.glob("views.sqlite*")), "who looks makes nothing"
    beside.projector = Projector(beside.cell.log, beside.folder)
    beside.accept("b")
    assert beside.jobs() == ["b", "a"]
    beside.accept("c")
    assert beside.jobs() == ["c", "b", "a"], "the new file has lost nothing when the old one was given back"


def test_views_that_were_rebuilt_take_the_place_of_the_old(beside: Beside) -> None:
    beside.accept("a")
    assert beside.jobs() == ["a"]
    beside.projector.close()
    beside.cell.accept("b")
    _rebuild(beside.cell.log, beside.folder)
    assert beside.jobs() == ["b", "a"]


def test_what_is_being_read_goes_on_to_its_end(beside: Beside) -> None:
    beside.accept("a")
    with beside.views.read() as connection:
        before = folded(connection)
        beside.delete()
        beside.projector = Projector(beside.cell.log, beside.folder)
        beside.accept("b")
        assert beside.views.has({"paceline.jobs": 1})
        assert folded(connection) == before


def test_readers_see_views_as_a_whole_however_often_they_are_replaced(beside: Beside) -> None:
    beside.accept("a")
    with beside.views.read() as connection:
        whole = folded(connection), reached(connection)
    beside.projector.close()
    stop, wrong, reads = threading.Event(), [], [0]

    def read() -> None:
        while not stop.is_set():
            try:
                with beside.views.read() as connection:
                    seen = folded(connection), reached(connection)
                if seen != whole:
                    wrong.append(seen)
                reads[0] += 1
            except ViewsAway as error:
                wrong.append(error)

    threads = [threading.Thread(target=read) for _ in range(4)]
    for thread in threads:
        thread.start()
    for _ in range(20):
        _rebuild(beside.cell.log, beside.folder)
    stop.set()
    for thread in threads:
        thread.join()
    assert wrong == []
    assert reads[0]
