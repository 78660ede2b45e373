"""Whatever is done to a log is an alarm of the witness, or of whoever holds its heads, and the place is said."""

import random
from collections.abc import Callable
from typing import Any

import msgspec
import pytest

from events.codec import decode, encode
from events.codes import ENDED_JOBS
from events.log.memory import MemoryLog
from events.records.base import Event
from events.records.lifecycle import JobChanged
from events.records.rounds import RoundCommitted
from events.topics import ALL
from paceline.witness.alarms import Alarm, Alarmed, Finding
from paceline.witness.head import check
from processors.cell_machines import machines
from processors.machine import Machine
from tests.helpers.forge import forge
from tests.helpers.past import changed, past
from tests.paceline.history import tamper
from tests.paceline.witness.world import World, caught_up, copied, grow, part

HALF = 0.5


def after_half(world: World, share: float = HALF) -> MemoryLog:
    """The first half of the log, of which there is a head now."""
    log = copied(until_ms=part(share))
    world.follow(log)
    return log


def alarm(world: World, log: MemoryLog, **how: Any) -> Finding:
    """What a witness ends with that goes on with a log."""
    with pytest.raises(Alarmed) as ended:
        world.follow(log, **how)
    return ended.value.finding


def rounds_of(machine: str, log: MemoryLog) -> dict[int, RoundCommitted]:
    events = (decode(record.value) for record in log.scan(f"paceline.{machine}", 0))
    return {event.round: event for event in events if isinstance(event, RoundCommitted)}


def after_head(world: World, machine: str) -> int:
    """The first round of a machine after the last head that decided something."""
    newest = world.chain().newest
    assert newest is not None
    last = newest.machines[machine].round
    return next(number for number, event in rounds_of(machine, past()).items() if number > last + 3 and event.decisions)


def test_a_round_that_was_forged_after_the_head_is_other_code(world: World) -> None:
    after_half(world, 0.1)
    last = world.heads.read(1).head.machines["lifecycle"].round
    number = next(number for number, event in rounds_of("lifecycle", past()).items() if number > last and _ends(event))
    found = alarm(world, forge(past(), "lifecycle", number, _fails))
    assert (found.alarm, found.difference.machine, found.difference.round) == (Alarm.OTHER_CODE, "lifecycle", number)
    newest = world.chain().newest
    assert newest is not None
    assert newest.machines["lifecycle"].round == number - 1, "it signs what was good up to there"


def _ends(event: RoundCommitted) -> bool:
    states = {each.state for each in map(decode, event.decisions) if isinstance(each, JobChanged)}
    return bool(states) and states.issubset(ENDED_JOBS)


def _fails(event: RoundCommitted) -> RoundCommitted:
    decisions = [decode(each) for each in event.decisions]
    lies = [
        msgspec.structs.replace(each, state="FAILED") if isinstance(each, JobChanged) else each for each in decisions
    ]
    return msgspec.structs.replace(event, decisions=tuple(map(encode, lies)))


def other(name: str, change: Callable[[Machine], None]) -> dict[str, Callable[[], Machine]]:
    """The machines of this build, one of them changed."""
    makes = dict(machines())
    same = makes[name]

    def make() -> Machine:
        machine = same()
        machine.__class__ = type("Other", (type(machine),), {"__slots__": ()})
        change(machine)
        return machine

    return {**makes, name: make}


def test_another_build_under_the_same_logic_number_is_found_at_its_first_round(world: World) -> None:
    log = after_half(world)
    number = after_head(world, "placement")
    now = rounds_of("placement", past())[number].now

    def forgets(machine: Machine) -> None:
        decide = machine.decide

        def other_decide(_: Machine, at: int, caught_up: bool, budget: int) -> list[Event]:
            return decide(at, caught_up, budget)[: None if at < now else -1]

        setattr(type(machine), "decide", other_decide)  # noqa: B010 - a method of a class made for it

    grow(log, past())
    found = alarm(world, log, make=other("placement", forgets))
    assert (found.alarm, found.difference.machine) == (Alarm.OTHER_CODE, "placement")
    assert found.difference.round >= number
    assert found.difference.recorded is not None


def test_another_logic_is_for_another_witness_and_what_was_decided_is_signed(world: World) -> None:
    log = after_half(world)
    number = after_head(world, "entitlement")
    logic = machines()["entitlement"]().logic

    def upgraded(event: RoundCommitted) -> RoundCommitted:
        return msgspec.structs.replace(event, logic=logic + 1)

    newer = forge(past(), "entitlement", number, upgraded)
    found = alarm(world, newer)
    assert (found.alarm, found.difference.machine, found.difference.round) == (
        Alarm.OTHER_LOGIC,
        "entitlement",
        number,
    )
    newest = world.chain().newest
    assert newest is not None
    assert newest.machines["entitlement"].round == number - 1

    def newer_build(machine: Machine) -> None:
        type(machine).logic = logic + 1

    grow(log, newer)
    again = alarm(world, newer, make=other("entitlement", newer_build))
    assert again.difference.round == number + 1, "it decides that one, and meets one of the old logic again"


def test_rounds_of_an_older_logic_before_the_first_head_are_applied_and_the_head_says_so(world: World) -> None:
    logic = machines()["sla"]().logic

    def older(event: RoundCommitted) -> RoundCommitted:
        return msgspec.structs.replace(event, logic=logic - 1)

    number = 3
    log = past()
    for each in range(1, number):
        log = forge(log, "placement", each, lambda event: msgspec.structs.replace(event, logic=event.logic - 1))
    world.follow(log)
    newest = world.chain().newest
    assert newest is not None
    assert (newest.machines["placement"].first, newest.machines["lifecycle"].first) == (number, 1)


@pytest.mark.parametrize("topic", ["paceline.lifecycle", "paceline.tasks", "paceline.hosts", "paceline.placement"])
def test_a_log_that_was_cut_is_found_at_the_next_start(world: World, topic: str) -> None:
    log = after_half(world)
    held = log.topic(topic)
    found = alarm(world, changed(log, topic, held.records[:-1], held.end - 1))
    assert found.alarm is Alarm.CUT
    assert found.difference.places[0].topic == topic
    if topic in ("paceline.lifecycle", "paceline.placement"):
        assert found.difference.machine == topic.removeprefix("paceline.")
        assert found.difference.round > 0


def test_a_log_that_is_cut_while_a_witness_follows_is_found(world: World) -> None:
    log = copied(until_ms=part(HALF))
    witness = world.witness(log)
    witness.step()
    witness.step()
    held = log.topic("paceline.tasks")
    held.records, held.end = held.records[:-2], held.end - 2
    with pytest.raises(Alarmed, match=r"CUT: paceline\.tasks ends at"):
        witness.step()
    witness.close()


def test_a_log_that_goes_on_otherwise_is_a_fork(world: World) -> None:
    """As after a restore from a backup: the history before a moment is the same, that after it another."""
    log = after_half(world)
    number = world.heads.read(1).head.machines["lifecycle"].round - 5
    fork = copied(forge(past(), "lifecycle", number, lambda event: msgspec.structs.replace(event, now=event.now + 1)))
    found = alarm(world, fork)
    assert found.alarm is Alarm.FORKED
    assert (found.difference.machine, found.head) == ("lifecycle", 1)
    assert world.follow(log) is not None, "the log itself is as it was"


@pytest.mark.parametrize("goes_on", [True, False])
def test_records_that_are_removed_before_a_head_had_them_covered_are_an_alarm(world: World, goes_on: bool) -> None:
    """As by retention: those of an open end, of which the next head has a hash too."""
    log = after_half(world, 1)
    topic, end = next((name, end) for name, end in world.heads.read(1).head.topics.items() if end.start < end.end)
    witness = world.witness(log) if goes_on else None
    log.truncate(topic, end.end)
    with pytest.raises(Alarmed, match=rf"CUT: {topic} starts at {end.end}, but offset {end.start} is needed"):
        caught_up(witness or world.witness(log))
    if witness:
        witness.close()


def test_a_log_that_forks_while_a_witness_follows_is_found(world: World) -> None:
    log = copied(until_ms=part(HALF))
    witness = world.witness(log)
    for _ in range(4):
        witness.step()
    number = witness.machines[0].standing.round - 2
    grow(log, forge(past(), "lifecycle", number, lambda event: msgspec.structs.replace(event, now=event.now + 1)))
    with pytest.raises(Alarmed) as ended:
        witness.step()
    witness.close()
    finding = ended.value.finding
    assert finding.alarm in (Alarm.FORKED, Alarm.TAMPERED)
    assert finding.difference.machine in machines()


def test_another_log_is_a_fork(world: World) -> None:
    after_half(world)
    log = copied()
    first = log.topic("paceline.lifecycle").records[0]
    log.topic("paceline.lifecycle").records[0] = first._replace(at_ms=first.at_ms + 1)
    found = alarm(world, log)
    assert (found.alarm, "it began otherwise" in found.difference.reason) == (Alarm.FORKED, True)


def test_what_comes_after_a_head_can_not_be_altered_before_a_witness_sees_it(world: World) -> None:
    """Random changes behind the last head, that every witness finds itself."""
    log = after_half(world)
    head, source, met = world.heads.read(1).head, random.Random(4), 0
    while met < 12:
        change = tamper.change(source)
        if change is None or min(change.offsets) < head.topics[change.topic].end or not tamper.covered(change):
            continue
        met += 1
        mine = World.__new__(World)
        mine.__dict__.update(world.__dict__, folder=world.folder / f"trial-{met}")
        grow(log := copied(until_ms=part(HALF)), change.log)
        found = alarm(world, log, state=f"state-{met}") if world.heads.numbers() == [1] else None
        assert found is not None, change[:3]
        for number in world.heads.numbers()[1:]:  # what was good up to there
            (world.folder / "heads" / "cell-0" / f"head-{number:012}.txt").unlink()


def test_400_alterations_are_found_by_who_holds_the_heads(world: World) -> None:
    """Bytes, times, dropped, swapped and re-chained records, and cut topics: by the head alone, or by the links."""
    world.follow(past())
    head, source = world.heads.read(1).head, random.Random(42)
    found: dict[str, int] = {"head": 0, "links": 0}
    alarms = set()
    while sum(found.values()) < 400:
        change = _cut(source) if source.random() < 0.2 else tamper.change(source)
        if change is None:
            continue
        finding = check(change.log, head)
        if finding is not None:
            alarms.add(finding.alarm)
            found["head"] += 1
            continue
        assert change.kind not in ("cut", "re-chained"), f"found by the links only: {change[:3]}"
        assert tamper.find(change).difference is not None, f"not found: {change[:3]}"
        found["links"] += 1
    assert min(found.values()) > 60, found
    assert alarms == {Alarm.CUT, Alarm.FORKED}


def test_what_no_round_has_read_is_found_by_the_head(world: World) -> None:
    world.follow(past())
    head, source, met = world.heads.read(1).head, random.Random(7), 0
    for topic, end in head.topics.items():
        for offset in range(end.start, end.end):
            met += 1
            records = [
                tamper._altered(each, source) if each.offset == offset else each for each in past().scan(topic, 0)
            ]
            finding = check(changed(past(), topic, records, end.end), head)
            assert finding is not None
            assert finding.alarm in (Alarm.TAMPERED, Alarm.FORKED)
            assert any(each.topic == topic and each.start <= offset < each.end for each in finding.difference.places)
    assert met > 2


def _cut(source: random.Random) -> tamper.Change | None:
    topic = source.choice([topic.name for topic in ALL if past().topic(topic.name).records])
    held = past().topic(topic)
    left = source.randrange(len(held.records))
    return tamper.Change("cut", topic, (left,), changed(past(), topic, held.records[:left], held.records[left].offset))
