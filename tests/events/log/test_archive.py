"""The archive: what was archived, and only that, may leave the log; verify and rebuild see the same history."""

from collections.abc import Callable, Iterator
from itertools import count
from pathlib import Path
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st
from sqlalchemy import create_engine

from events.log.archive import Archive, ArchiveFault, NeededFrom, TruncatableLog, archive, oldest_needed, remove
from events.log.archived import ArchivedLog, ArchivedReader
from events.log.embedded import EmbeddedLog
from events.log.kafka.kafka_log import KafkaLog
from events.log.memory import MemoryLog
from events.log.object_store import Files
from events.log.port import Log, LogGap, LogRecord, LogUnavailable, NewRecord
from events.topics import ALL, EVERY, SETTINGS, rounds_of
from paceline.history.verify import verify
from paceline.services.cell_log import with_archive
from processors.cell_machines import machines
from processors.runtime.bootstrap import begin
from processors.runtime.snapshots import needs, take
from projections.views import tables
from projections.views.comparison import rows_of
from projections.views.projector import Projector
from tests.events.log.contract import A, B, new, numbers, values
from tests.helpers.broker import Broker
from tests.helpers.drawn import examples
from tests.helpers.stored_cell import StoredCell

_names = count()


@pytest.fixture(params=["embedded", pytest.param("kafka", marks=pytest.mark.xdist_group("broker"))])
def log(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[TruncatableLog]:
    if request.param == "embedded":
        log: TruncatableLog = EmbeddedLog(tmp_path / "log")
    else:
        broker: Broker = request.getfixturevalue("broker")
        broker.make_topics([topic.name for topic in EVERY], 1, SETTINGS)
        log = KafkaLog(broker.address)
    yield log
    log.close()


@pytest.fixture(params=["memory", "folder"])
def url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    return f"memory://archive-{next(_names)}" if request.param == "memory" else str(tmp_path / "archive")


def found(log: Log) -> list[tuple[str, int, int, bytes]]:
    """What a verification of the whole history says."""
    checked = verify(log, machines())
    assert all(each.result.difference is None for each in checked), checked[-1].result.difference
    assert all(each.result.rounds for each in checked)
    return [(each.result.machine, each.result.rounds, each.result.events, each.result.hash) for each in checked]


def views(log: Log, folder: Path) -> dict[str, list[tuple[object, ...]]]:
    """All rows of views made anew from the start of the log."""
    folder.mkdir()
    projector = Projector(log, folder)
    ends = {topic.name: log.bounds(topic.name)[1] for topic in ALL}
    while projector.step() or any(projector.positions().get(topic, 0) < end for topic, end in ends.items()):
        pass
    projector.close()
    engine = create_engine(f"sqlite:///{folder / 'views.sqlite'}")
    with engine.connect() as connection:
        return {name: sorted(rows_of(connection, table), key=repr) for name, table in tables.metadata.tables.items()}


def test_a_history_in_two_parts_is_verified_and_viewed_as_the_whole_was(
    log: TruncatableLog, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("processors.runtime.driver.PARTS_MAX", 4)  # sla, with nothing to decide, has rounds too
    snapshots, url = str(tmp_path / "snapshots"), str(tmp_path / "archive")
    cell = StoredCell(log, tmp_path / "first")
    cell.pool("/p")
    cell.run_jobs("one", "two")
    for name, make in machines().items():
        take(cell.stores[name], snapshots, 0, make())  # type: ignore[arg-type]
    cell.run_jobs("three")
    cell.close()
    whole = found(log), views(log, tmp_path / "views before")

    needed = oldest_needed(needs(snapshots, log, machines()))
    removed = 0
    for topic in (each.name for each in ALL):
        archive(log, url, topic, needed[topic].position)
        assert (found(ArchivedLog(log, url)), topic) == (whole[0], topic)
        removed += remove(log, url, topic, needed[topic].position)
        assert log.bounds(topic)[0] == needed[topic].position
    assert removed > 20
    assert all(log.bounds(topic)[0] > 0 for topic in ("paceline.jobs", *map(rounds_of, machines())))
    assert verify(log, machines())[0].result.difference is not None, "the log alone is no longer whole"

    both = ArchivedLog(log, url)
    assert (found(both), views(both, tmp_path / "views after")) == whole
    for name, make in machines().items():
        said = begin(log, make(), tmp_path / "second" / "store" / name, snapshots).notice
        assert "the snapshot of round" in said, said
    (tmp_path / "second" / "gateway.msgpack").write_bytes((tmp_path / "first" / "gateway.msgpack").read_bytes())
    again = StoredCell(log, tmp_path / "second")
    assert [again.drivers[name].fold.state.hash for name in machines()] == [each[3] for each in whole[0]]
    again.run_jobs("four")
    hashes = [again.drivers[name].fold.state.hash for name in machines()]
    again.close()
    assert [each[3] for each in found(with_archive(log, url))] == hashes


def memory(records: int) -> MemoryLog:
    clock = count(1000)
    log = MemoryLog(lambda: next(clock))
    log.append(new(A, *numbers(0, records)))
    return log


few = st.integers(0, 9)


@examples(60)
@given(st.lists(st.tuples(few, st.integers(0, 2), few, few, few, few), min_size=1, max_size=8))
def test_whatever_is_archived_and_removed_readers_see_one_history(steps: list[tuple[int, ...]]) -> None:
    """Each step appends, leaves a hole, archives, removes, opens a reader and polls all of them, each so much."""
    url = f"memory://archive-{next(_names)}"
    log = memory(0)
    both = ArchivedLog(log, url)
    whole: list[LogRecord] = []
    readers: list[tuple[ArchivedReader, list[LogRecord], int]] = []
    with pytest.MonkeyPatch.context() as small:
        small.setattr("events.log.archive.STRETCH_RECORDS", 4)
        for appended, hole, archived, removed, first, polled in steps:
            start, end = log.bounds(A)
            log.append(new(A, *numbers(end, end + appended)))
            whole += list(log.scan(A, end))
            log.leave_hole(A, hole)
            archive(log, url, A, min(log.bounds(A)[1], start + archived))
            stretches = Archive(url, 0).stretches(A)
            remove(log, url, A, min(start + removed, stretches[-1].end if stretches else 0))
            end = log.bounds(A)[1]
            readers.append((both.reader({A: min(first, end)}), [], min(first, end)))
            for reader, got, _ in readers:
                got += reader.poll(polled, 0) if polled else []
            assert both.bounds(A) == (0, end)
            for position in range(end + 1):
                assert list(both.scan(A, position)) == [each for each in whole if each.offset >= position]
        for reader, got, first in readers:
            while reader.position(A) < reader.ends()[A]:
                got += reader.poll(3, 0)
            assert got == [each for each in whole if each.offset >= first]


def test_stretches_follow_one_another_and_are_of_a_bounded_size(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("events.log.archive.STRETCH_RECORDS", 10)
    log = memory(34)
    log.leave_hole(A, 5)
    assert [(each.start, each.end) for each in archive(log, url, A, 12)] == [(0, 10), (10, 12)]
    assert archive(log, url, A, 12) == []
    made = archive(log, url, A, 38)
    assert [(each.start, each.end, each.records) for each in made] == [(12, 22, 10), (22, 32, 10), (32, 38, 2)]
    log.append(new(A, b"39"))
    assert values(list(ArchivedLog(log, url).scan(A, 5))) == [*numbers(5, 34), b"39"]
    monkeypatch.setattr("events.log.archive.STRETCH_BYTES", 20)
    log.append([NewRecord(A, b"", b"x" * 15) for _ in range(4)])
    assert [each.records for each in archive(log, url, A, 44)] == [2, 2, 1]


def test_nothing_is_removed_that_is_not_archived(url: str) -> None:
    log = memory(20)
    with pytest.raises(ArchiveFault, match=f"Offsets 0 to 5 of {A} are not in the archive"):
        remove(log, url, A, 5)
    archive(log, url, A, 10)
    with pytest.raises(ArchiveFault, match=f"Offsets 10 to 11 of {A} are not in the archive"):
        remove(log, url, A, 11)
    with pytest.raises(ArchiveFault, match="ends at 20"):
        remove(log, url, A, 21)
    assert log.bounds(A) == (0, 20)
    assert remove(log, url, A, 7) == 7
    assert remove(log, url, A, 7) == 0
    assert log.bounds(A) == (7, 20)
    assert values(list(ArchivedLog(log, url).scan(A, 0))) == numbers(0, 20)


def flipped(path: Path) -> None:
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 1
    path.write_bytes(data)


def unfinished(path: Path) -> None:
    path.with_suffix(".json").unlink()


def another(path: Path) -> None:
    """The archive of another log, whole in itself."""
    folder = str(path.parents[2])
    path.unlink()
    path.with_suffix(".json").unlink()
    other = memory(10)
    other.topic(A).records[4] = other.topic(A).records[4]._replace(value=b"other")
    archive(other, folder, A, 10)


@pytest.mark.parametrize(
    ("harm", "said"),
    [
        (flipped, "it isn't what the file beside it says"),
        (lambda path: path.with_suffix(".json").write_text("{"), "can't be used"),
        (Path.unlink, "No such file"),
        (unfinished, "are not in the archive"),
        (another, f"Offset 4 of {A} is not the same in the log and in the archive"),
    ],
)
def test_an_archive_that_lacks_or_differs_removes_nothing(
    harm: Callable[[Path], None], said: str, tmp_path: Path
) -> None:
    log = memory(10)
    archive(log, str(tmp_path), A, 10)
    (stretch,) = (tmp_path / "cell-0" / A).glob("*.avro")
    harm(stretch)
    with pytest.raises(ArchiveFault, match=said):
        remove(log, str(tmp_path), A, 10)
    assert log.bounds(A) == (0, 10)


def test_a_stretch_that_was_lost_between_others_is_named(tmp_path: Path) -> None:
    log = memory(30)
    for upto in (10, 20, 30):
        archive(log, str(tmp_path), A, upto)
    remove(log, str(tmp_path), A, 30)
    for lost in (tmp_path / "cell-0" / A).glob("stretch-00000000000000000010-*"):
        lost.unlink()
    with pytest.raises(ArchiveFault, match=f"the archive of {A} in .* lacks offsets 10 to 20".replace("the", "The", 1)):
        list(ArchivedLog(log, str(tmp_path)).scan(A, 0))


def test_an_archive_that_ends_before_the_log_starts_is_no_history(url: str) -> None:
    log = memory(30)
    archive(log, url, A, 10)
    log.truncate(A, 20)
    both = ArchivedLog(log, url)
    assert both.bounds(A) == (20, 30)
    with pytest.raises(LogGap, match="starts at 20"):
        list(both.scan(A, 0))
    with pytest.raises(ArchiveFault, match="that doesn't fit"):
        archive(log, url, A, 30)


def test_a_crash_between_a_stretch_and_what_says_so_is_made_good(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    log = memory(10)
    write = "events.log.object_store.Files.write"
    honest = Files.write

    def crash(self: Files, name: str, data: bytes) -> None:
        if name.endswith(".json"):
            raise KeyboardInterrupt
        honest(self, name, data)

    with monkeypatch.context() as killed:
        killed.setattr(write, crash)
        with pytest.raises(KeyboardInterrupt):
            archive(log, url, A, 8)
    assert Archive(url, 0).stretches(A) == []
    assert [each.records for each in archive(log, url, A, 10)] == [10]
    assert remove(log, url, A, 10) == 10


def test_archives_of_cells_lie_beside_one_another(url: str) -> None:
    one, other = memory(3), MemoryLog(lambda: 1, cell=1)
    other.append(new(A, b"of cell 1"))
    archive(one, url, A, 3)
    archive(other, url, A, 1)
    remove(other, url, A, 1)
    assert values(list(ArchivedLog(other, url).scan(A, 0))) == [b"of cell 1"]


def test_a_reader_waits_while_the_archive_cannot_be_reached(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    log = memory(5)
    archive(log, url, A, 5)
    remove(log, url, A, 5)
    reader = ArchivedLog(log, url).reader({A: 0})
    with monkeypatch.context() as away:
        away.setattr("events.log.object_store.Files.names", lambda *_: (_ for _ in ()).throw(LogUnavailable("away")))
        for _ in range(2):
            with pytest.raises(LogUnavailable):
                reader.poll(10, 0)
    assert values(reader.poll(10, 0)) == numbers(0, 5)


def test_an_archive_that_goes_away_while_it_is_read_costs_no_record(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("events.log.archive.STRETCH_RECORDS", 4)
    log = memory(12)
    log.append(new(B, *numbers(0, 12)))
    for topic in (A, B):
        archive(log, url, topic, 10)
        remove(log, url, topic, 10)
    reader = ArchivedLog(log, url).reader({A: 0, B: 0})
    got: list[LogRecord] = []
    honest, chance = Files.read, Random(3)

    def read(self: Files, name: str) -> bytes:
        if chance.random() < 0.4:
            raise LogUnavailable("away")
        return honest(self, name)

    monkeypatch.setattr(Files, "read", read)
    times_away = 0
    while len(got) < 24:
        try:
            got += reader.poll(5, 0)
        except LogUnavailable:
            times_away += 1
    assert times_away > 3
    for topic in (A, B):
        assert values([each for each in got if each.topic == topic]) == numbers(0, 12)


def test_an_archive_is_left_alone_where_the_log_is_enough(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    log = memory(10)
    archive(log, url, A, 5)
    remove(log, url, A, 5)
    monkeypatch.setattr(Files, "names", lambda *_: (_ for _ in ()).throw(LogUnavailable("away")))
    both = ArchivedLog(log, url)
    assert values(list(both.scan(A, 5))) == numbers(5, 10)
    assert values(both.reader({A: 6}).poll(10, 0)) == numbers(6, 10)


def test_a_log_that_is_cut_after_the_archive_was_looked_at_goes_on_in_what_came_since(url: str) -> None:
    log = memory(10)
    both = ArchivedLog(log, url)
    for cut in (4, 8):
        archive(log, url, A, cut)
        remove(log, url, A, cut)
        assert both.bounds(A) == (0, 10)
        assert values(list(both.scan(A, 0))) == numbers(0, 10)


def test_what_is_cut_during_a_scan_is_read_from_the_archive(url: str, tmp_path: Path) -> None:
    log = EmbeddedLog(tmp_path / "log")
    log.append(new(A, *numbers(0, 9000)))
    scan = ArchivedLog(log, url).scan(A, 0)
    first = [next(scan) for _ in range(3)]
    archive(log, url, A, 8990)
    remove(log, url, A, 8990)
    assert values([*first, *scan]) == numbers(0, 9000)
    log.close()


def test_what_somebody_still_reads_is_not_free_to_go() -> None:
    assert oldest_needed({"the projector": {"a": 5, "b": 9}, "the gateway": {"a": 7}, "a snapshot": {"b": 2}}) == {
        "a": NeededFrom(5, "the projector"),
        "b": NeededFrom(2, "a snapshot"),
    }
