"""The fan-out of one cell on a log that goes away, loses records, or stops it."""

from collections import Counter
from collections.abc import Iterable, Mapping
from math import inf
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from events.codec import encode
from events.log.memory import MemoryLog
from events.log.port import AppendUnknown, LogFault, LogGap, LogUnavailable, NewRecord
from events.topics import FANOUT, MACHINES, rounds_of
from projections.fanout import component
from projections.fanout.component import LAG, FanoutCell
from projections.fanout.unfold import OutputMessage
from tests.projections.fanout.complete import expected
from tests.projections.fanout.world import history


class Log(MemoryLog):
    """A log whose line to the broker may be down."""

    def __init__(self, source: MemoryLog, share: float = 1.0) -> None:
        super().__init__(lambda: 0, source.cell)
        self.link = SimpleNamespace(trouble="")
        self.error: Exception | None = None
        self.closed = False
        for machine in MACHINES:
            records = list(source.scan(rounds_of(machine), 0))
            self.append([NewRecord(each.topic, each.key, each.value) for each in records[: int(len(records) * share)]])

    def ends(self, topics: Iterable[str]) -> dict[str, int]:
        if self.error:
            raise self.error
        return super().ends(topics)

    def close(self) -> None:
        self.closed = True


class Publisher:
    """Appends messages to the log, and fails after so many."""

    def __init__(self, log: Log) -> None:
        self.log = log
        self.messages_left = 10**9

    def begin(self, ends: Mapping[str, int]) -> None: ...

    def publish(self, messages: Iterable[OutputMessage]) -> None:
        for out in messages:
            if not self.messages_left:
                raise AppendUnknown("nobody knows")
            self.messages_left -= 1
            self.log.append([NewRecord(out.topic, out.key.encode(), encode(out.event))])

    def close(self) -> None: ...


class Site:
    """A cell of the fan-out, and the lines that it wrote."""

    def __init__(self, folder: Path, log: Log, reached: dict[str, int] | None = None) -> None:
        self.log: Any = log
        self.lines: list[str] = []
        self.cell = FanoutCell(self.log, self.log, folder, self.lines.append, {} if reached is None else reached)
        self.publisher: Any = Publisher(log)
        self.cell._publisher = self.publisher

    def settle(self) -> None:
        """Steps until nothing is left to do, and looks once more."""
        while self.cell.step():
            pass
        self.cell._look_at = 0.0
        self.cell.step()

    def published(self) -> int:
        """The number of messages in the topics of the fan-out."""
        return sum(self.log.ends([topic.name for topic in FANOUT]).values())


def decided() -> int:
    return sum(map(len, expected(history()).values()))


def lag(machine: str) -> float:
    return LAG.labels("0", machine)._value.get()


def test_it_publishes_all_and_shows_where_it_is(tmp_path: Path) -> None:
    site = Site(tmp_path, Log(history()))
    assert site.cell.recovers()
    assert not site.cell.status()["ready"]
    site.settle()
    assert site.published() == decided()
    ends = site.log.ends(map(rounds_of, MACHINES))
    assert site.cell.positions() == ends
    status = site.cell.status()
    assert status["ready"]
    assert status["machines"]["sla"] == {"position": ends["paceline.sla"], "end": ends["paceline.sla"]}
    assert lag("sla") == 0


def test_a_step_ends_soon_and_the_rest_is_published_by_the_next(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(component, "STEP_S", 0.0)
    site = Site(tmp_path, Log(history()))
    assert site.cell.step()
    assert site.published() < decided()
    monkeypatch.undo()
    site.settle()
    assert site.published() == decided()


def test_a_broker_that_is_away_is_said_once_and_waited_for(tmp_path: Path) -> None:
    site = Site(tmp_path, Log(history()))
    site.log.error = LogUnavailable("a leader is missing")
    for _ in range(3):
        assert not site.cell.step()
    assert site.lines == ["a leader is missing"]
    assert site.cell.status() == {"ready": False, "trouble": "a leader is missing", "machines": {}}
    site.log.error = None
    site.settle()
    assert site.cell.status()["ready"]


def test_where_it_is_not_known_what_was_written_it_is_found_in_the_log(tmp_path: Path) -> None:
    site = Site(tmp_path, Log(history()))
    site.publisher.messages_left = 20
    while site.publisher.messages_left:
        site.cell.step()
    site.cell.step()
    assert site.lines == ["nobody knows"]
    site.publisher.messages_left = 10**9
    site.settle()
    values = Counter(record.value for topic in FANOUT for record in site.log.scan(topic.name, 0))
    outs = {encode(out.event): out.event for outs in expected(history()).values() for out in outs}
    assert values.keys() == outs.keys()
    repeated = {(outs[value].machine, outs[value].round) for value, times in values.items() if times > 1}
    assert len(repeated) == 1, "the round in which it failed"


def test_a_log_that_lost_what_was_published_stops_it_with_the_machine_in_its_line(tmp_path: Path) -> None:
    site = Site(tmp_path, Log(history()))
    site.settle()
    site.log.error = LogUnavailable("away")
    site.cell._look_at = 0.0
    site.cell.step()
    shorter: Any = Log(history(), 0.5)
    site.cell._log = site.cell._history = shorter
    with pytest.raises(LogGap, match=r"paceline.lifecycle ends at"):
        site.cell.step()
    assert site.cell.status()["machine"] == "lifecycle"
    assert lag("lifecycle") == inf, "its alarm rises"


def test_a_log_that_first_had_no_topics_and_then_empty_ones_stops_it(tmp_path: Path) -> None:
    reached: dict[str, int] = {}
    site = Site(tmp_path / "stopped", Log(history()), reached)
    site.settle()
    site.log.error = LogFault("no partition 0")
    site.cell._look_at = 0.0
    with pytest.raises(LogFault, match="no partition 0"):
        site.cell.step()
    site.cell.close()
    again = Site(tmp_path / "made anew without its files", Log(history(), 0.0), reached)
    with pytest.raises(LogGap, match=r"paceline.lifecycle ends at"):
        again.cell.step()


def test_its_end_gives_its_log_back_whatever_else_fails(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    site = Site(tmp_path, Log(history()))

    def fail() -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(site.cell, "_forget", fail)
    with pytest.raises(OSError, match="No space"):
        site.cell.close()
    assert site.log.closed
