"""What the fan-out does about its cells when the group changes, with cells that do as they are told."""

import asyncio
import gc
from concurrent.futures import Future
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from aiokafka.errors import IllegalGenerationError, UnknownError
from faust.types import TP

from events.log.kafka.membership import Wait
from events.log.port import LogGap
from events.process.cell_failures import Failures
from events.topics import EVERY
from projections.fanout.app import Fanout, FanoutApp, _CommittedConsumer, _CommittedThread, make_app, pass_over
from projections.fanout.group import Group
from tests.helpers.ports import kept_address


class Told:
    """A cell that fails at once if its number is odd, and takes as long to leave as `left` says."""

    def __init__(self, number: int) -> None:
        self.left: Future[None] = Future()
        self.failures = Failures(number, "test")
        if number % 2:
            self.failures.failed(LogGap(f"cell {number} is broken"))

    def look(self) -> None:
        pass

    def end(self) -> "Future[None]":
        if self.failures.current:
            self.left.set_result(None)
        return self.left


class Cells:
    """A fan-out whose group gives it the cells that it is told to."""

    def __init__(self, folder: Path, patch: pytest.MonkeyPatch) -> None:
        self.given: set[int] = set()
        self.ended = False
        patch.setattr(FanoutApp, "consumer", SimpleNamespace(assignment=self._assignment, _thread=None))
        patch.setattr(FanoutApp, "rebalancing", False)
        patch.setattr(Group, "look", lambda *_: None)
        app = make_app("127.0.0.1:9", folder, "one", 2.0, {})
        make_cell: Any = Told
        self.fanout = Fanout(app, make_cell, Group(Wait("127.0.0.1:9", "paceline.fanout", lambda _: None)))
        patch.setattr(self.fanout, "_end", self._end)

    def look(self, *given: int) -> None:
        """The group gives it these, and it looks."""
        self.given = set(given)
        asyncio.run(self.fanout._look())

    def _assignment(self) -> list[Any]:
        return [SimpleNamespace(topic=topic.name, partition=cell) for topic in EVERY for cell in self.given]

    def _end(self) -> None:
        self.ended = True


@pytest.fixture
def cells(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Cells:
    return Cells(tmp_path, monkeypatch)


def test_it_ends_when_all_its_cells_have_failed(cells: Cells) -> None:
    cells.look(1, 3)
    assert cells.ended


def test_it_goes_on_for_a_cell_that_is_sound(cells: Cells) -> None:
    cells.look(0, 1)
    assert not cells.ended


def test_it_goes_on_for_a_sound_cell_that_the_group_took_and_gave_back_before_it_had_left(cells: Cells) -> None:
    cells.look(0, 1)
    cells.look()
    cells.look(0, 1)
    assert not cells.ended


def test_it_ends_when_nobody_follows_the_group_any_more(cells: Cells, monkeypatch: pytest.MonkeyPatch) -> None:
    def lost(*_: object) -> None:
        raise AssertionError("no broker was known")

    monkeypatch.setattr(Group, "look", lost)
    cells.look(0)
    assert cells.ended
    assert "no broker was known" in cells.fanout._fault


def test_an_end_that_nobody_asked_for_is_told_with_what_made_it(tmp_path: Path) -> None:
    """Faust gives up where no broker is when it starts, and says only that it has."""
    app = make_app(kept_address(), tmp_path, "one", 2.0, {})
    make_cell: Any = Told
    fanout = Fanout(app, make_cell, Group(Wait("127.0.0.1:9", "paceline.fanout", lambda _: None)))
    assert "KafkaConnectionError" in fanout.run(lambda *_: None)


def test_one_that_reads_nothing_for_days_stays_in_the_group(cells: Cells) -> None:
    """A member that reads nothing for so long leaves, and would not come back; one without cells never reads."""
    assert cells.fanout.app.conf.broker_max_poll_interval > 10 * 365 * 86_400


def test_a_session_may_be_as_long_as_the_settings_let_it(tmp_path: Path) -> None:
    conf = make_app("127.0.0.1:9", tmp_path, "one", 300.0, {}).conf
    assert conf.broker_request_timeout >= conf.broker_session_timeout == 300.0


@pytest.mark.parametrize("broken", [False, True])
def test_positions_that_a_broker_cannot_keep_end_nothing(broken: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """A broker whose disk is full answers so before it ends."""
    kept: dict[tuple[str, int], int] = {}

    class Client:
        async def commit(self, offsets: dict[Any, Any]) -> None:
            if broken:
                raise UnknownError
            kept.update({(at.topic, at.partition): told.offset for at, told in offsets.items()})

    thread = _CommittedThread.__new__(_CommittedThread)
    monkeypatch.setattr(_CommittedThread, "_ensure_consumer", lambda _: Client())
    assert asyncio.run(thread._commit({TP("paceline.sla", 0): 7})) is not broken
    assert kept == ({} if broken else {("paceline.sla", 0): 7})


def test_the_group_is_told_of_nothing_that_another_process_has(cells: Cells, monkeypatch: pytest.MonkeyPatch) -> None:
    """Cells leave a moment before it is looked who is left; a commit of nothing would end faust's own thread."""
    one, two = TP("paceline.sla", 0), TP("paceline.sla", 1)
    consumer: Any = _CommittedConsumer(cells.fanout.app.transport, lambda _: None, lambda _: None, lambda _: None)
    given: set[TP] = set()
    told: list[dict[TP, int]] = []

    async def commit(offsets: dict[TP, int]) -> bool:
        told.append(offsets)
        return True

    monkeypatch.setattr(consumer, "assignment", lambda: given)
    monkeypatch.setattr(consumer, "_commit", commit)
    monkeypatch.setattr(cells.fanout.app, "published", lambda: {one: 7, two: 3})
    assert not asyncio.run(consumer.force_commit())
    given.add(one)
    assert asyncio.run(consumer.force_commit())
    given.add(two)
    assert asyncio.run(consumer.force_commit())
    assert told == [{one: 7}, {two: 3}]


@pytest.mark.parametrize(("error", "said"), [(IllegalGenerationError(), 0), (ValueError("a bug"), 1)])
def test_a_commit_that_fails_when_nobody_waits_for_it_any_more_is_no_news(
    error: Exception, said: int, caplog: pytest.LogCaptureFixture
) -> None:
    async def fails() -> None:
        raise error

    async def ends() -> None:
        asyncio.get_running_loop().set_exception_handler(pass_over)
        asyncio.ensure_future(fails())  # noqa: RUF006
        await asyncio.sleep(0)
        gc.collect()  # the loop is told of the failure when the task goes

    asyncio.run(ends())
    assert len(caplog.records) == said


def test_one_that_ends_is_not_ready(cells: Cells) -> None:
    cells.fanout._group.joined = True
    assert cells.fanout._health().ready
    asyncio.run(stopped(cells.fanout))
    assert not cells.fanout._health().ready


async def stopped(fanout: Fanout) -> None:
    fanout._stop()
