"""A cell with its views and its API."""

import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from msgspec.structs import astuple
from starlette.testclient import TestClient

from events.codec import decode
from events.records.base import Event
from events.records.entitlement import PoolAnswered
from events.records.pools import PoolDefined
from events.signing_keys import SigningKeys
from paceline.client.output_ask import OutputAsk
from projections.api.app import create_app
from projections.views.cache import Rows
from projections.views.projector import Projector
from tests.helpers.answer_types import must_be_declared, must_conform
from tests.helpers.written_cell import Cell

TOKEN = "secret"
LISTEN = "127.0.0.1:7400"


class Page(NamedTuple):
    offset: int
    data: bytes
    next_offset: int
    ended: bool
    end: int = 6
    other_end: int = 0
    lost: int = 0


class CheckedClient(TestClient):
    """A client that compares answers with their types."""

    def request(self, method: str, url: Any, **more: Any) -> Any:
        answer = super().request(method, url, **more)
        must_be_declared(method, str(url), answer)
        if (
            method != "HEAD"
            and answer.status_code in (200, 201, 202)
            and answer.headers.get("content-type") == "application/json"
        ):
            must_conform(method, str(url), str(answer.status_code), answer.json())
        return answer


class Plans:
    """Plans that are answered as a test says."""

    def __init__(self, cell: int = 0) -> None:
        self.cell = cell
        self.facts: list[Any] = []
        self.answer: Any = None
        self.prepared = 0

    def plan(self, jobs: Mapping[str, Sequence[Event]]) -> Any:
        self.facts += [fact for facts in jobs.values() for fact in facts]
        return [{**self.answer, "job_id": job_id} for job_id in jobs]

    def prepare(self) -> None:
        self.prepared += 1

    def plan_pools(self, facts: Sequence[Event]) -> Any:
        self.facts += facts
        return {"cell": self.cell, "changes": [], "pools": [], "lets_in": [], "preempts": []}

    def plan_drain(self, fact: Event) -> Any:
        self.facts.append(fact)
        if isinstance(self.answer, Exception):
            raise self.answer
        return self.answer


class Api:
    """The API of a cell written by hand; `fold` brings the views to the end of the log."""

    def __init__(
        self, folder: Path, number: int = 0, streams_max: int = 2, secrets: Any = None, keys: SigningKeys | None = None
    ) -> None:
        self.cell = Cell(number=number)
        self.projector = Projector(self.cell.log, folder)
        self.asked: list[tuple[Any, ...]] = []
        self.waits: list[tuple[int, ...]] = []
        self.plans = Plans(number)
        self.app = create_app(
            self.projector.views,
            self.cell.log,
            token=TOKEN,
            listen=LISTEN,
            cell_info=lambda: {"cell": number},
            task_log=self.task_log,
            streams_max=streams_max,
            plans=self.plans,
            secrets=secrets,
            signing_keys=keys,
        )
        self.client = CheckedClient(
            self.app, f"http://{LISTEN}", headers={"Authorization": f"Bearer {TOKEN}"}, raise_server_exceptions=False
        )
        self._stop = threading.Event()
        self._thread: threading.Thread | None = None
        self._alone = threading.RLock()
        """Whoever decides and folds: a test, or the machine that answers beside it."""

    async def task_log(self, ask: OutputAsk, host_id: str | None) -> Page:
        self.asked.append((*ask[:6], host_id))
        if ask.wait_ms:
            self.waits.append(ask[6:])
        if ask.job_id == "gone":
            raise LookupError("the host has no output of that run, or no longer")
        return Page(0, b"hello\n", 6, True)

    def fold(self) -> None:
        with self._alone:
            while self.projector.step():
                pass

    def pool(self, path: str = "/p", **fields: Any) -> None:
        at = self.cell.fact(PoolDefined(path=path, command_id="c", **fields))
        self.cell.decide("entitlement", PoolAnswered(path=path, pools_offset=at, command_id="c", code="DONE"))
        self.fold()

    def granted(self, *facts: Event) -> None:
        """Facts about who may what, which entitlement has answered."""
        with self._alone:
            for fact in facts:
                at = self.cell.fact(fact)
                self.cell.decide("entitlement", PoolAnswered(path="/", pools_offset=at, command_id="c", code="DONE"))
            self.fold()

    def answer(self, topic: str, machine: str, says: Callable[[int, Any], tuple[Event, ...]]) -> None:
        """From now on a machine answers each new fact of a topic, in a thread of its own."""
        start = self.cell.log.bounds(topic)[1]

        def run() -> None:
            at = start
            while not self._stop.wait(0.002):
                with self._alone:
                    for record in list(self.cell.log.scan(topic, at)):
                        at = record.offset + 1
                        self.cell.decide(machine, *says(record.offset, decode(record.value)))
                    self.fold()

        self._thread = threading.Thread(target=run, daemon=True)
        self._thread.start()

    def get(self, path: str, status: int = 200, **more: Any) -> Any:
        answer = self.client.get(path, **more)
        assert answer.status_code == status, answer.text
        return answer.json()

    def problem(self, answer: Any, status: int, code: str) -> Any:
        assert answer.status_code == status, answer.text
        assert answer.headers["content-type"] == "application/problem+json"
        body = answer.json()
        assert (body["status"], body["code"]) == (status, code)
        assert body["title"]
        assert body["type"].startswith("/problems/")
        return body

    def close(self) -> None:
        self._stop.set()
        if self._thread:
            self._thread.join()
        self.projector.close()


@pytest.fixture
def api(tmp_path: Path) -> Iterator[Api]:
    held = Api(tmp_path)
    yield held
    held.close()


@pytest.fixture(autouse=True)
def _written_whole(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever a test folds into the views, the file holds what the projector holds in memory."""
    flush = Rows.flush

    def checked(self: Rows[Any]) -> None:
        written = {key: self._rows[key] for key in self._changed}
        flush(self)
        for key, row in written.items():
            assert self.connection is not None
            found = self.connection.execute(f"{self._select}{self._mark})", self._values(key)).fetchone()
            assert found == (None if row is None else astuple(row)), f"a row of {self._table}"

    monkeypatch.setattr(Rows, "flush", checked)
