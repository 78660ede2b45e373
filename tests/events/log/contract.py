"""What the log port promises, as one suite for every adapter: a test class per adapter inherits `LogContract` and gives
the fixture `subject`.
"""

import threading
from collections.abc import Callable
from dataclasses import dataclass
from time import monotonic

import pytest

from events.log.port import Log, LogGap, LogRecord, LogUnavailable, NewRecord, Reader

A = "contract.a"
B = "contract.b"
PATIENCE = 60.0
"""How long a test waits for what must come; nothing is decided by it but a failure."""


@dataclass(frozen=True)
class Subject:
    """A log that is empty, and what only its adapter can do to it."""

    log: Log
    truncate: Callable[[str, int], None]
    leave_hole: Callable[[str], None] | None = None


def new(topic: str, *values: bytes) -> list[NewRecord]:
    return [NewRecord(topic, b"key-" + value, value) for value in values]


def numbers(first: int, end: int) -> list[bytes]:
    return [b"%d" % number for number in range(first, end)]


def values(records: list[LogRecord]) -> list[bytes]:
    return [record.value for record in records]


def read(reader: Reader, count: int, limit: int = 1000) -> list[LogRecord]:
    """Polls until so many records came."""
    out: list[LogRecord] = []
    end = monotonic() + PATIENCE
    while len(out) < count:
        assert monotonic() < end, f"{len(out)} of {count} records came"
        taken = reader.poll(limit, 0.05)
        assert len(taken) <= limit
        out += taken
    return out


def meets_gap(reader: Reader) -> str:
    """Polls until the reader says that records are missing; no record may come first."""
    end = monotonic() + PATIENCE
    while monotonic() < end:
        try:
            assert reader.poll(100, 0.05) == []
        except LogGap as met:
            return str(met)
    raise AssertionError("the gap was not met")


def ends(reader: Reader) -> dict[str, int]:
    """What a reader says of the ends of its topics; a log that is slow to answer is asked again."""
    end = monotonic() + PATIENCE
    while True:
        try:
            return reader.ends()
        except LogUnavailable:
            assert monotonic() < end, "nobody answered"


def rest(log: Log, reader: Reader, topic: str) -> None:
    """Polls until the reader stands at the end of the topic."""
    end = monotonic() + PATIENCE
    while reader.position(topic) < ends(reader)[topic]:
        assert monotonic() < end, "the end was not reached"
        reader.poll(1000, 0.05)
    assert reader.position(topic) == log.bounds(topic)[1]


class LogContract:
    def test_an_empty_topic_starts_and_ends_at_zero(self, subject: Subject) -> None:
        assert subject.log.bounds(A) == (0, 0)
        assert list(subject.log.scan(A, 0)) == []
        reader = subject.log.reader({A: 0})
        assert reader.poll(10, 0) == []
        assert ends(reader) == {A: 0}
        reader.close()

    def test_what_was_appended_is_read_as_it_was_in_its_order(self, subject: Subject) -> None:
        log = subject.log
        assert log.append(new(A, b"0", b"1")) == [0, 1]
        assert log.append(new(A, b"2")) == [2]
        reader = log.reader({A: 0})
        got = read(reader, 3)
        assert [(record.topic, record.offset, record.key, record.value) for record in got] == [
            (A, 0, b"key-0", b"0"),
            (A, 1, b"key-1", b"1"),
            (A, 2, b"key-2", b"2"),
        ]
        assert reader.position(A) == 3
        reader.close()

    def test_a_batch_over_two_topics_keeps_the_order_of_each(self, subject: Subject) -> None:
        log = subject.log
        mixed = [
            record for pair in zip(new(A, *numbers(0, 50)), new(B, *numbers(50, 100)), strict=True) for record in pair
        ]
        assert log.append(mixed) == [number // 2 for number in range(100)]
        assert values(list(log.scan(A, 0))) == numbers(0, 50)
        assert values(list(log.scan(B, 0))) == numbers(50, 100)

    def test_nothing_appended_is_nothing_written(self, subject: Subject) -> None:
        assert subject.log.append([]) == []
        assert subject.log.bounds(A) == (0, 0)

    def test_a_reader_begins_where_it_is_told(self, subject: Subject) -> None:
        subject.log.append(new(A, *numbers(0, 10)))
        reader = subject.log.reader({A: 7})
        assert reader.position(A) == 7
        assert values(read(reader, 3)) == numbers(7, 10)
        reader.close()

    def test_a_reader_takes_no_more_than_its_limit_and_misses_nothing(self, subject: Subject) -> None:
        subject.log.append(new(A, *numbers(0, 25)))
        reader = subject.log.reader({A: 0})
        assert values(read(reader, 25, limit=4)) == numbers(0, 25)
        assert reader.poll(4, 0) == []
        reader.close()

    def test_two_readers_know_nothing_of_each_other(self, subject: Subject) -> None:
        subject.log.append(new(A, *numbers(0, 6)))
        one, other = subject.log.reader({A: 0}), subject.log.reader({A: 3, B: 0})
        assert values(read(one, 6)) == numbers(0, 6)
        assert other.position(A) == 3
        assert values(read(other, 3)) == numbers(3, 6)
        assert (one.position(A), other.position(A), other.position(B)) == (6, 6, 0)
        one.close()
        other.close()

    def test_a_reader_of_several_topics_reads_all_of_them(self, subject: Subject) -> None:
        subject.log.append([*new(A, *numbers(0, 300)), *new(B, b"b")])
        reader = subject.log.reader({A: 0, B: 0})
        got = read(reader, 301, limit=20)
        assert values([record for record in got if record.topic == A]) == numbers(0, 300)
        assert values([record for record in got if record.topic == B]) == [b"b"]
        assert ends(reader) == {A: 300, B: 1}
        reader.close()

    def test_ends_are_those_of_now(self, subject: Subject) -> None:
        reader = subject.log.reader({A: 0, B: 0})
        subject.log.append(new(A, b"0"))
        assert ends(reader) == subject.log.ends([A, B]) == {A: 1, B: 0}
        subject.log.append(new(B, b"0", b"1"))
        assert ends(reader) == subject.log.ends([A, B]) == {A: 1, B: 2}
        assert subject.log.ends([B]) == {B: 2}
        assert reader.position(A) == 0
        reader.close()

    def test_a_scan_ends_where_the_log_ended_when_it_began(self, subject: Subject) -> None:
        log = subject.log
        log.append(new(A, *numbers(0, 5)))
        scan = log.scan(A, 2)
        first = next(scan)
        log.append(new(A, b"later"))
        assert values([first, *scan]) == numbers(2, 5)
        assert list(log.scan(A, 6)) == []

    def test_time_never_goes_back(self, subject: Subject) -> None:
        for number in range(20):
            subject.log.append(new(A, *numbers(number, number + 3)))
        times = [record.at_ms for record in subject.log.scan(A, 0)]
        assert len(times) == 60
        assert times == sorted(times)
        assert times[0] > 0

    def test_a_record_may_be_a_mebibyte(self, subject: Subject) -> None:
        large = [bytes([number]) * (1 << 20) for number in range(8)]
        subject.log.append([NewRecord(A, b"", value) for value in large])
        reader = subject.log.reader({A: 0})
        assert values(read(reader, 8)) == large
        assert values(list(subject.log.scan(A, 0))) == large
        reader.close()

    def test_empty_keys_and_values_and_any_bytes_come_back(self, subject: Subject) -> None:
        odd = [(b"", b""), (b"\0\xff", b"\0"), (b"k" * 300, bytes(range(256)))]
        subject.log.append([NewRecord(A, key, value) for key, value in odd])
        assert [(record.key, record.value) for record in subject.log.scan(A, 0)] == odd

    def test_a_hundred_thousand_records(self, subject: Subject) -> None:
        for first in range(0, 100_000, 20_000):
            subject.log.append([NewRecord(A, b"k", value) for value in numbers(first, first + 20_000)])
        reader = subject.log.reader({A: 0})
        got = read(reader, 100_000, limit=5000)
        assert [record.offset for record in got] == list(range(100_000))
        assert values(got) == numbers(0, 100_000)
        assert sum(1 for _ in subject.log.scan(A, 0)) == 100_000
        reader.close()

    def test_a_position_before_the_start_is_a_gap(self, subject: Subject) -> None:
        log = subject.log
        log.append(new(A, *numbers(0, 10)))
        subject.truncate(A, 4)
        assert log.bounds(A) == (4, 10)
        reader = log.reader({A: 3})
        assert A in meets_gap(reader)
        reader.close()
        with pytest.raises(LogGap, match="starts at 4"):
            list(log.scan(A, 0))
        assert values(list(log.scan(A, 4))) == numbers(4, 10)
        fresh = log.reader({A: 4})
        assert values(read(fresh, 6)) == numbers(4, 10)
        fresh.close()

    def test_a_start_that_passes_a_reader_is_a_gap_and_never_a_skip(self, subject: Subject) -> None:
        log = subject.log
        log.append(new(A, *numbers(0, 3)))
        reader = log.reader({A: 0})
        assert values(read(reader, 3)) == numbers(0, 3)
        assert reader.poll(10, 0) == []
        log.append(new(B, b"b"))
        subject.truncate(A, 3)
        assert reader.poll(10, 0) == []
        reader.close()
        late = log.reader({A: 1})
        meets_gap(late)
        meets_gap(late)
        late.close()

    def test_a_topic_may_be_cut_to_nothing_and_goes_on_where_it_was(self, subject: Subject) -> None:
        log = subject.log
        log.append(new(A, *numbers(0, 5)))
        subject.truncate(A, 5)
        assert log.bounds(A) == (5, 5)
        assert list(log.scan(A, 5)) == []
        assert log.append(new(A, b"5")) == [5]
        assert values(list(log.scan(A, 5))) == [b"5"]

    def test_a_position_after_the_end_is_a_gap(self, subject: Subject) -> None:
        subject.log.append(new(A, *numbers(0, 3)))
        reader = subject.log.reader({A: 5})
        assert A in meets_gap(reader)
        reader.close()
        with pytest.raises(LogGap, match="ends at 3"):
            list(subject.log.scan(A, 4))

    def test_holes_between_offsets_are_passed(self, subject: Subject) -> None:
        if subject.leave_hole is None:
            pytest.skip("this log leaves no holes")
        log = subject.log
        log.append(new(A, b"0"))
        subject.leave_hole(A)
        log.append(new(A, b"1"))
        subject.leave_hole(A)
        reader = log.reader({A: 0})
        assert values(read(reader, 2)) == [b"0", b"1"]
        rest(log, reader, A)
        reader.close()
        start, end = log.bounds(A)
        assert (start, end > 3) == (0, True)
        assert values(list(log.scan(A, 0))) == [b"0", b"1"]
        assert values(list(log.scan(A, 1))) == [b"1"]
        assert list(log.scan(A, end - 1)) == []

    def test_a_reader_that_waits_gets_what_is_appended(self, subject: Subject) -> None:
        reader = subject.log.reader({A: 0, B: 0})
        got: list[LogRecord] = []
        waiting = threading.Thread(target=lambda: got.extend(read(reader, 1)))
        waiting.start()
        subject.log.append(new(B, b"news"))
        waiting.join(PATIENCE)
        assert values(got) == [b"news"]
        reader.close()

    def test_waiting_for_nothing_ends(self, subject: Subject) -> None:
        subject.log.wait(0.01)
        reader = subject.log.reader({A: 0})
        assert reader.poll(10, 0.01) == []
        reader.close()

    def test_many_threads_append_without_holes_or_doubles(self, subject: Subject) -> None:
        offsets: dict[int, list[int]] = {}

        def write(writer: int) -> None:
            own: list[int] = []
            for number in range(20):
                own += subject.log.append(new(A, b"%d-%d" % (writer, number), b"again"))
            offsets[writer] = own

        threads = [threading.Thread(target=write, args=(writer,)) for writer in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(PATIENCE)
        assert sorted(offset for own in offsets.values() for offset in own) == list(range(160))
        found = {record.offset: record.value for record in subject.log.scan(A, 0)}
        for writer, own in offsets.items():
            assert own == sorted(own)
            assert [found[offset] for offset in own[::2]] == [b"%d-%d" % (writer, number) for number in range(20)]
