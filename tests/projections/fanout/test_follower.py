"""A follower that dies anywhere leaves no gap and repeats at most a round; what isn't history is not published."""

from collections import Counter
from collections.abc import Iterable, Iterator
from contextlib import suppress
from pathlib import Path

import msgspec
import pytest
from hypothesis import HealthCheck, given
from hypothesis import strategies as st

from events.codec import encode
from events.log.memory import MemoryLog
from events.log.port import LogGap, LogRecord, NewRecord
from events.records.rounds import RoundCommitted
from events.rounds import sealed
from events.topics import FANOUT, MACHINES, rounds_of
from projections.fanout.follower import Follower
from projections.fanout.unfold import OutputMessage
from tests.helpers.drawn import examples
from tests.projections.fanout.complete import expected, rounds
from tests.projections.fanout.world import history


class Killed(Exception):
    """The process dies."""


class Target:
    """A log that gets a history bit by bit, and dies after so many messages."""

    def __init__(self, folder: Path, source: MemoryLog) -> None:
        self.log = MemoryLog(lambda: 0, source.cell)
        self.folder = folder
        self.left = 10**9
        self.source = {machine: list(source.scan(rounds_of(machine), 0)) for machine in MACHINES}

    def grow(self, records: int) -> None:
        for machine in MACHINES:
            end = self.log.bounds(rounds_of(machine))[1]
            part = self.source[machine][end : end + records]
            self.log.append([NewRecord(record.topic, record.key, record.value) for record in part])

    def publish(self, outs: Iterable[OutputMessage]) -> None:
        for out in outs:
            if not self.left:
                raise Killed
            self.left -= 1
            self.log.append([NewRecord(out.topic, out.key.encode(), encode(out.event))])

    def follower(self, machine: str) -> Follower:
        follower = Follower(self.log, machine, self.publish, self.folder / machine)
        self.read_on(follower)
        return follower

    def read_on(self, follower: Follower) -> None:
        for record in self.log.scan(follower.topic, follower.position):
            follower.take(record)
        follower.reach(self.log.bounds(follower.topic)[1])

    def published(self) -> Iterator[tuple[str, list[bytes]]]:
        for topic in FANOUT:
            yield topic.name, [record.value for record in self.log.scan(topic.name, 0)]


def wanted(source: MemoryLog) -> dict[str, list[OutputMessage]]:
    by_topic: dict[str, list[OutputMessage]] = {topic.name: [] for topic in FANOUT}
    for outs in expected(source).values():
        for out in outs:
            by_topic[out.topic].append(out)
    return by_topic


lives = st.lists(
    st.tuples(st.integers(0, 40), st.integers(0, 60), st.booleans(), st.booleans()), min_size=1, max_size=12
)


@given(lives)
@examples(60, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_a_follower_that_dies_anywhere_leaves_no_gap_and_repeats_at_most_its_last_round(
    tmp_path_factory: pytest.TempPathFactory, lives: list[tuple[int, int, bool, bool]]
) -> None:
    target = Target(tmp_path_factory.mktemp("kept"), history())
    for records, messages, saves, forgets in lives:
        target.grow(records)
        for machine in MACHINES:
            if forgets:
                (target.folder / machine).unlink(missing_ok=True)
            target.left = messages
            with suppress(Killed):
                follower = target.follower(machine)
                if saves:
                    follower.save()
    target.left = 10**9
    target.grow(10**6)
    for machine in MACHINES:
        target.follower(machine)
    for topic, outs in wanted(history()).items():
        values = [record.value for record in target.log.scan(topic, 0)]
        for machine in MACHINES:
            event_of = {encode(out.event): out.event for out in outs if out.event.machine == machine}
            mine = [value for value in values if value in event_of]
            assert list(dict.fromkeys(mine)) == list(event_of), "all of it, in order"
            numbers = [event_of[value].round for value in mine]
            assert numbers == sorted(numbers), "only the last round comes again"
            again = {event_of[value].round for value, times in Counter(mine).items() if times > 1}
            assert len(again) <= len(lives), "one round for each time that it started again"


def test_a_follower_whose_file_is_new_reads_nothing_again(tmp_path: Path) -> None:
    target = Target(tmp_path, history())
    target.grow(10**6)
    target.follower("lifecycle").save()
    before = dict(target.published())
    again = target.follower("lifecycle")
    assert dict(target.published()) == before, "the file says that the last round is whole"
    assert again.position == target.log.bounds("paceline.lifecycle")[1]


def test_a_follower_passes_over_what_it_has_taken(tmp_path: Path) -> None:
    target = Target(tmp_path, history())
    follower = target.follower("lifecycle")
    target.grow(10**6)
    records = list(target.log.scan("paceline.lifecycle", 0))
    for record in [*records[:5], *records[3:9], *records]:
        follower.take(record)
    assert dict(target.published())["paceline.task-states"] == [
        encode(out.event) for out in wanted(history())["paceline.task-states"]
    ]


def test_rounds_of_a_zombie_and_bytes_of_strangers_are_not_published(tmp_path: Path) -> None:
    target = Target(tmp_path, history())
    late = MemoryLog(lambda: 0)
    claim = next(iter(history().scan("paceline.placement", 0)))
    late.append([NewRecord(*claim[:1], *claim[3:])] * 2)
    for record, round_ in rounds(history(), "placement"):
        late.append(zombies(round_, record))
    target.source["placement"] = list(late.scan("paceline.placement", 0))
    target.grow(10**6)
    target.follower("placement")
    ids = [out.event for out in wanted(history())["paceline.placements"]]
    assert dict(target.published())["paceline.placements"] == [encode(event) for event in ids]


def zombies(round_: RoundCommitted, record: LogRecord) -> list[NewRecord]:
    """A round among what isn't one: late ones, of an old epoch, of another cell, damaged ones, no record at all."""
    late = msgspec.structs.replace(round_, now=round_.now + 1)
    return [
        NewRecord(record.topic, b"", b"no record"),
        sealed(msgspec.structs.replace(late, epoch=0)),
        sealed(msgspec.structs.replace(late, cell=9)),
        NewRecord(record.topic, b"", encode(late)),
        NewRecord(record.topic, record.key, encode(late)),
        NewRecord(record.topic, record.key, record.value),
        NewRecord(record.topic, record.key, record.value),
        sealed(msgspec.structs.replace(late, round=round_.round - 1)),
    ]


def test_a_log_that_lost_rounds_which_were_published_is_a_gap(tmp_path: Path) -> None:
    target = Target(tmp_path, history())
    target.grow(10**6)
    target.follower("lifecycle")
    lost = Target(tmp_path / "none", history())
    lost.grow(10)
    for topic in FANOUT:
        lost.log.append([NewRecord(*record[0:1], *record[3:]) for record in target.log.scan(topic.name, 0)])
    with pytest.raises(LogGap, match="was published: records are missing"):
        lost.follower("lifecycle")


def test_topics_that_lost_their_messages_get_them_again(tmp_path: Path) -> None:
    target = Target(tmp_path, history())
    target.grow(10**6)
    for machine in MACHINES:
        target.follower(machine).save()
    again = Target(tmp_path, history())
    again.grow(10**6)
    for machine in MACHINES:
        again.follower(machine)
    assert dict(again.published()) == dict(target.published())


def test_a_damaged_file_is_as_good_as_none(tmp_path: Path) -> None:
    target = Target(tmp_path, history())
    target.grow(10**6)
    target.follower("placement").save()
    path = tmp_path / "placement"
    path.write_bytes(path.read_bytes()[:-3])
    assert target.follower("placement").position == target.log.bounds("paceline.placement")[1]


def test_the_rest_of_a_round_that_comes_late_does_not_bring_older_rounds_again(tmp_path: Path) -> None:
    target = Target(tmp_path, history())
    target.grow(10**6)
    target.follower("lifecycle")
    outs = wanted(history())["paceline.task-states"]
    largest = max((out.event.round for out in outs[: len(outs) // 2]), key=[o.event.round for o in outs].count)
    late = [out for out in outs if out.event.round == largest] * 20
    target.publish(late)
    before = dict(target.published())["paceline.task-states"]
    target.follower("lifecycle")
    after = dict(target.published())["paceline.task-states"]
    newest = [out for out in outs if out.event.round == outs[-1].event.round]
    assert len(late) > 100, "more than is looked at first"
    assert after[len(before) :] == [encode(out.event) for out in newest]


def test_a_log_that_lost_all_it_had_is_a_gap_though_the_topics_of_the_fanout_are_new_too(tmp_path: Path) -> None:
    target = Target(tmp_path, history())
    target.grow(10**6)
    target.follower("lifecycle").save()
    with pytest.raises(LogGap, match="ends at 0"):
        Target(tmp_path, history()).follower("lifecycle")
