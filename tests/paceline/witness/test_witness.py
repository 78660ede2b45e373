"""A witness signs a chain of heads, and goes on with it whatever happens to its process."""

import shutil
from collections.abc import Iterable, Iterator

import pytest

from events.log.memory import MemoryLog
from events.log.port import LogRecord, LogUnavailable
from events.topics import ALL
from paceline.client.errors import PacelineError
from paceline.witness import witness as module
from paceline.witness.alarms import Alarm, Alarmed
from paceline.witness.head import SignedHead, check
from paceline.witness.notes import NoteFault, signed
from paceline.witness.published import Heads, Published
from processors.cell_machines import machines
from tests.helpers.past import past
from tests.paceline.witness.world import World, caught_up, copied, grow, part

ROUNDS = 625


def good(world: World, log: MemoryLog) -> SignedHead:
    """The newest head, once the chain and the log were checked."""
    chain = world.chain()
    assert chain.finding is None, chain.finding
    assert chain.newest is not None
    assert check(log, chain.newest) is None
    return chain.newest


def test_heads_say_where_machines_and_topics_stand(world: World) -> None:
    witness = world.follow(past())
    head = good(world, past())
    assert head.rounds == sum(each.decided for each in witness.machines) == ROUNDS
    assert {name: at.logic for name, at in head.machines.items()} == {
        name: make().logic for name, make in machines().items()
    }
    assert {name: end.end for name, end in head.topics.items()} == past().ends(topic.name for topic in ALL)
    assert all(at.first == 1 for at in head.machines.values())


def test_a_head_comes_every_minute_and_after_many_rounds(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    log = copied(until_ms=part(0.3))
    witness = world.witness(log)
    caught_up(witness)
    assert world.heads.numbers() == [1]
    grow(log, past(), part(0.6))
    caught_up(witness)
    assert world.heads.numbers() == [1]
    world.now_ms += module.EVERY_MS
    witness.step()
    assert world.heads.numbers() == [1, 2], "a minute has passed"
    world.now_ms += module.EVERY_MS
    witness.step()
    assert world.heads.numbers() == [1, 2, 3], "nothing has happened since, and it says so"
    monkeypatch.setattr(module, "EVERY_ROUNDS", 20)
    grow(log, past())
    caught_up(witness)
    assert world.heads.numbers() == [1, 2, 3, 4]
    witness.close()
    good(world, log)


@pytest.mark.parametrize("restarts", [True, False])
def test_a_clock_that_was_ahead_stops_no_heads(world: World, restarts: bool) -> None:
    log, day_ms = copied(until_ms=part(0.3)), 86_400_000
    world.now_ms += day_ms
    witness = world.witness(log)
    caught_up(witness)
    if restarts:
        witness.close()
        witness = world.witness(log)
    world.now_ms -= day_ms
    before = len(world.heads.numbers())
    for minute in range(1, 6):
        caught_up(witness)
        caught_up(witness)
        first = minute if restarts else minute - 1
        assert len(world.heads.numbers()) - before == first, "one a minute, as ever"
        world.now_ms += module.EVERY_MS
    witness.close()
    assert good(world, log).at_ms == world.heads.read(1).head.at_ms
    assert len(world.said) == 1
    assert "the clock is behind head 1, of 2027-01-16T" in world.said[0]


def test_heads_come_while_it_catches_up(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "ROUNDS_A_TURN", 7)
    monkeypatch.setattr(module, "EVERY_ROUNDS", 50)
    world.follow(past())
    assert len(world.heads.numbers()) > ROUNDS // 80
    for number in world.heads.numbers():
        assert check(past(), world.heads.read(number).head) is None, number
    assert good(world, past()).rounds > ROUNDS - 50


@pytest.mark.parametrize("share", [0.2, 0.5, 0.8])
def test_a_restart_goes_on_after_the_last_head(world: World, share: float) -> None:
    log = copied(until_ms=part(share))
    first = world.follow(log)
    grow(log, past())
    second = world.follow(log)
    assert sum(each.decided for each in first.machines) + sum(each.decided for each in second.machines) == ROUNDS
    assert world.heads.numbers() == [1, 2]
    good(world, log)


def test_a_witness_that_lost_its_folder_goes_on_after_its_published_head(world: World) -> None:
    log = copied(until_ms=part(0.5))
    before = world.follow(log)
    shutil.rmtree(world.folder / "state")
    grow(log, past())
    after = world.follow(log)
    assert sum(each.decided for each in after.machines) == ROUNDS - sum(each.decided for each in before.machines)
    assert [at.first for at in good(world, log).machines.values()] == [1, 1, 1, 1]


def test_a_witness_with_an_old_folder_goes_on_too(world: World) -> None:
    log = copied(until_ms=part(0.3))
    world.follow(log)
    shutil.copytree(world.folder / "state", world.folder / "old")
    grow(log, past(), part(0.6))
    world.follow(log)
    grow(log, past())
    world.follow(log, state="old")
    assert world.heads.numbers() == [1, 2, 3]
    good(world, log)


class Away(Heads):
    """Heads of which some are not published: the place doesn't answer."""

    def publish(self, published: Published) -> None:
        raise LogUnavailable("the place is away")


def test_a_head_that_was_signed_and_not_published_is_published_by_the_next_start(world: World) -> None:
    log = copied(until_ms=part(0.5))
    away = world.witness(log, heads=Away(str(world.folder / "heads"), 0))
    with pytest.raises(LogUnavailable):
        caught_up(away)
    with pytest.raises(LogUnavailable):
        away.step()
    away.close()
    kept = (world.folder / "state" / module.LAST).read_bytes()
    grow(log, past())
    world.follow(log)
    assert world.heads.read(1).note.pack() == kept, "what was signed once is not signed again"
    assert world.heads.numbers() == [1, 2]
    good(world, log)


def test_what_could_not_be_published_is_once_the_place_is_back(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    log = copied(until_ms=part(0.5))
    witness = world.witness(log)
    with monkeypatch.context() as broken:
        broken.setattr(world.heads, "publish", Away(".", 0).publish)
        with pytest.raises(LogUnavailable):
            caught_up(witness)
        grow(log, past())
        for _ in range(3):
            with pytest.raises(LogUnavailable):
                witness.step()
    assert sum(each.decided for each in witness.machines) == ROUNDS, "it goes on with replaying"
    caught_up(witness)
    assert world.heads.numbers() == [1]
    witness.sign()
    witness.close()
    assert good(world, log).rounds == ROUNDS


class Flaky(MemoryLog):
    """A log whose broker is away in the middle of one scan, counted from 1."""

    scans = 0
    fails_at = 0
    ends_fail = 0
    """So many times nobody knows where the log ends."""

    def ends(self, topics: Iterable[str]) -> dict[str, int]:
        if self.ends_fail:
            self.ends_fail -= 1
            raise LogUnavailable("the broker is away")
        return super().ends(topics)

    def scan(self, topic: str, start: int) -> Iterator[LogRecord]:
        self.scans += 1
        mine = self.scans
        for number, record in enumerate(super().scan(topic, start)):
            if mine == self.fails_at and number:
                raise LogUnavailable("the broker is away")
            yield record


@pytest.mark.parametrize("scans", [2, 3, 5, 9])
def test_a_log_that_is_away_for_a_while_changes_nothing(world: World, scans: int) -> None:
    log = Flaky(lambda: 0)
    grow(log, past())
    witness = world.witness(log)
    log.fails_at = scans
    with pytest.raises(LogUnavailable):
        caught_up(witness)
    log.ends_fail = 2
    for _ in range(2):
        with pytest.raises(LogUnavailable):
            witness.step()
    caught_up(witness)
    witness.close()
    assert good(world, past()).rounds == ROUNDS
    assert sum(each.decided for each in witness.machines) == ROUNDS


def test_a_witness_that_can_not_begin_now_begins_later(world: World) -> None:
    """Nothing is left open that the next attempt needs."""
    log = Flaky(lambda: 0)
    grow(log, past(), part(0.5))
    world.follow(log)
    ahead = world.witness(log)
    grow(log, past())
    ahead.step()
    ahead.step()
    for each in ahead.machines:
        each.write()
    ahead.close()
    for fails_at in range(1, 40):
        log.scans, log.fails_at = 0, fails_at
        try:
            world.witness(log).close()
        except LogUnavailable:
            continue
    log.fails_at = 0
    world.follow(log)
    assert good(world, past()).rounds == ROUNDS


def test_a_key_hands_over_by_a_head_that_both_have_signed(world: World) -> None:
    new = world.new_key("witness-2")
    world.follow(past())
    with pytest.raises(PacelineError, match="--old-key"):
        world.witness(past(), key=new)
    world.follow(past(), key=new, old_key=world.key)
    world.follow(past(), key=new)
    named = [world.heads.read(number) for number in world.heads.numbers()]
    assert [each.head.key for each in named] == [None, new.public, None]
    assert [len(each.note.signatures) for each in named] == [1, 2, 1]
    followed = world.chain()
    assert (followed.finding, followed.keys) == (None, [world.key.public, new.public])
    assert world.chain(new).finding is None, "who has pinned the new key believes what came before"
    with pytest.raises(PacelineError, match="--old-key"):
        world.witness(past())


def test_a_foreign_key_is_not_believed(world: World) -> None:
    world.follow(past())
    finding = world.chain(world.new_key("other")).finding
    assert finding is not None
    assert (finding.alarm, "no head is signed by other+" in str(finding)) == (Alarm.FORKED_HEADS, True)


def test_a_head_that_only_the_new_key_has_signed_is_no_handover(world: World) -> None:
    world.follow(past())
    new = world.new_key("thief")
    head = world.heads.read(1).head
    stolen = head._replace(number=2, before=head.hash, key=new.public)
    world.heads.publish(Published(stolen, signed(stolen.text, new)))
    finding = world.chain().finding
    assert finding is not None
    assert "head 2 isn't signed by witness-1+" in str(finding)


@pytest.mark.parametrize("left_out", [2, 3])
def test_a_head_that_was_left_out_is_missed(world: World, left_out: int) -> None:
    for _ in range(4):
        world.follow(past())
    (world.folder / "heads" / "cell-0" / f"head-{left_out:012}.txt").unlink()
    finding = world.chain().finding
    assert finding is not None
    assert (finding.alarm, finding.difference.reason) == (Alarm.FORKED_HEADS, f"head {left_out} is missing")


def test_a_witness_misses_its_own_newest_head(world: World) -> None:
    for _ in range(3):
        world.follow(past())
    for number in (2, 3):
        (world.folder / "heads" / "cell-0" / f"head-{number:012}.txt").unlink()
    with pytest.raises(Alarmed, match="FORKED_HEADS: head 3, which this witness has signed, is missing"):
        world.witness(past())


def test_two_witnesses_with_one_key_are_found(world: World) -> None:
    log = copied(until_ms=part(0.3))
    one = world.witness(log)
    other = world.witness(log, state="other")
    caught_up(one)
    world.now_ms += 1
    with pytest.raises(Alarmed, match="FORKED_HEADS: another head 1 is published"):
        caught_up(other)
    one.close()
    other.close()


def test_an_empty_log_has_no_head(world: World) -> None:
    world.follow(MemoryLog(lambda: 0))
    assert world.heads.numbers() == []
    with pytest.raises(PacelineError, match="no heads of cell 0"):
        world.chain()


def test_a_log_without_its_beginning_is_refused(world: World) -> None:
    log = copied()
    log.truncate("paceline.hosts", 5)
    with pytest.raises(Alarmed, match="CUT at placement round 1"):
        world.follow(log)


def test_only_the_very_text_of_a_head_is_one(world: World) -> None:
    world.follow(past())
    text = world.heads.read(1).note.text
    assert SignedHead.parse(text).text == text
    lines = text.splitlines(keepends=True)
    for number, line in enumerate(lines):
        left_out = "".join([*lines[:number], *lines[number + 1 :]])
        twice = "".join([*lines[:number], line, line, *lines[number + 1 :]])
        spoilt = "".join([*lines[:number], line.replace(" ", "  ", 1), *lines[number + 1 :]])
        for other in (twice, spoilt):
            with pytest.raises(NoteFault):
                SignedHead.parse(other)
        if line.split()[0] not in ("machine", "topic"):
            with pytest.raises(NoteFault):
                SignedHead.parse(left_out)
    with pytest.raises(NoteFault, match="newer Paceline"):
        SignedHead.parse(text.replace("head 1\n", "head 2\n", 1))
