"""What stands in a machine's topic: strays do nothing, what can't be read or is missing stops every reader of it."""

import random
import re

import pytest
from msgspec.structs import replace

import events.codec
import events.rounds
from events.acceptance import Acceptance, Chain
from events.codec import decode
from events.delivery import Inbox
from events.log.port import LogGap, LogRecord, NewRecord
from events.recent import Recent
from events.records.base import Event
from events.records.rounds import EpochStarted, RoundCommitted
from events.rounds import BrokenHistory, Delivered, EarlierHistory, RoundFault, UnreadableRound, accept, sealed
from events.topics import rounds_of
from processors.runtime.driver import Driver, ForeignRound, Superseded
from processors.runtime.replay import replay
from tests.helpers.toys import TOYS, Left
from tests.processors.runtime.duo import NEWER, Duo, newer, of, with_decision

GARBAGE = 10_000
BALLS = ("one", "two", "three")
LEFT = rounds_of("left")


def played() -> Duo:
    duo = Duo()
    duo.start("left", "right")
    for ball in BALLS:
        duo.ask(ball)
        duo.rest()
    return duo


def garbage(number: int, sound: LogRecord) -> NewRecord:
    draw = random.Random(number)
    match number % 4:
        case 0:
            return NewRecord(LEFT, draw.randbytes(20), draw.randbytes(40))
        case 1:
            return NewRecord(LEFT, b"left", sound.value)
        case 2:
            return NewRecord(LEFT, sound.key, draw.randbytes(40))
        case _:
            key = sound.key.replace(b"epoch=1 ", b"epoch=%d " % draw.randrange(9))
            return NewRecord(LEFT, key.replace(b"round=", b"round=1"), sound.value + b"x")


def read_all(duo: Duo, name: str = "left") -> Chain:
    chain = Chain()
    for record in duo.log.scan(rounds_of(name), 0):
        accept(record, chain, name, 0)
    return chain


def deliver_all(duo: Duo) -> list[Delivered]:
    topics = ("paceline.jobs", *map(rounds_of, TOYS))
    inbox = Inbox(dict.fromkeys(topics, 0), {}, {name: Chain() for name in TOYS}, 0)
    for topic in topics:
        inbox.add(duo.log.scan(topic, 0))
    return list(inbox.deliver(1_000_000))


def stops(duo: Duo, fault: type[RoundFault], says: str) -> None:
    """Every reader of left's topic stops, with the same sentence; nothing is claimed; verification tells it."""
    ends = duo.log.ends([LEFT, rounds_of("right")])
    for disk in (duo.disks["left"].copy(), type(duo.disks["left"])()):
        driver = Driver(Left(), duo.log, disk, duo.clock, "late")
        with pytest.raises(fault, match=says):
            list(driver.recover())
    with pytest.raises(fault, match=says):
        read_all(duo)
    with pytest.raises(fault, match=says):
        deliver_all(duo)
    with pytest.raises(fault, match=says):
        duo.drivers["right"].run()
    with pytest.raises(fault, match=says):
        duo.drivers["right"].run()  # and again: it isn't passed over
    difference = replay(Left(), duo.log).difference
    assert difference is not None
    assert re.search(says, difference.reason)
    assert duo.log.ends(ends) == ends, "nobody wrote anything"


def test_ten_thousand_records_of_garbage_in_a_machines_topic_do_nothing() -> None:
    duo = played()
    sound = duo.log.topic(LEFT).records[-1]
    before = read_all(duo)
    duo.log.append([garbage(number, sound) for number in range(GARBAGE)])
    chain = read_all(duo)
    assert (chain.epoch, chain.round, chain.hash) == (before.epoch, before.round, before.hash)
    duo.ask("four")
    duo.rest()
    duo.start("left", "right")
    duo.ask("five")
    duo.rest()
    left = duo.drivers["left"].machine
    assert isinstance(left, Left)
    assert {ball: row.stage for ball, row in left.balls.items()} == dict.fromkeys((*BALLS, "four", "five"), 4)
    for name, toy in TOYS.items():
        found = replay(toy(), duo.log)
        assert (found.difference, found.hash) == (None, duo.drivers[name].fold.state.hash)
    assert not any(record.skipped for name in TOYS for record in duo.rounds(name)), "garbage there is no skipped input"


def test_a_history_from_before_there_were_keys_is_not_begun_anew() -> None:
    duo = Duo()
    earlier = played().log.topic(LEFT).records
    duo.log.append([NewRecord(LEFT, b"left", record.value) for record in earlier])
    with pytest.raises(EarlierHistory, match=r"paceline\.left was written by an earlier Paceline.*new topics"):
        duo.start("left")
    assert duo.log.bounds(LEFT)[1] == len(earlier), "nothing was claimed"


def test_a_log_that_lost_the_very_last_round_is_named_and_not_the_store() -> None:
    duo = played()
    topic = duo.log.topic(LEFT)
    del topic.records[-1]
    topic.end -= 1
    with pytest.raises(LogGap, match=r"records are missing\. Restore the log"):
        duo.start("left")


def test_a_round_in_a_newer_schema_stops_every_reader_with_the_version_to_install(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    duo = played()
    last = duo.rounds("left")[-1]
    next_ = replace(last, round=last.round + 1, prev_hash=read_all(duo).hash, inputs=(), skipped=(), decisions=())
    [offset] = duo.log.append([newer(sealed(next_), monkeypatch)])
    says = (
        rf"round {next_.round} of left in cell 0 at {LEFT}:{offset}, which Paceline 9\.1 wrote with the schema "
        rf"RoundCommitted {NEWER[2:10].hex()}, can't be read by this Paceline.*Install Paceline 9\.1 or newer"
    )
    stops(duo, UnreadableRound, says)
    with pytest.raises(UnreadableRound, match=says):
        duo.drivers["left"].run()


def test_a_decision_in_a_newer_schema_stops_every_reader(monkeypatch: pytest.MonkeyPatch) -> None:
    duo = played()
    last = duo.rounds("left")[-1]
    next_ = replace(last, round=last.round + 1, prev_hash=read_all(duo).hash, inputs=(), skipped=(), decisions=())
    duo.log.append([sealed(with_decision(next_, NEWER))])
    stops(duo, UnreadableRound, f"round {next_.round} of left.*UNKNOWN_SCHEMA.*{NEWER[2:10].hex()}")


def test_a_claim_of_a_newer_build_supersedes_a_live_owner_by_its_key_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    duo = played()
    owner = duo.drivers["left"]
    claim = decode(duo.log.topic(LEFT).records[0].value)
    assert isinstance(claim, EpochStarted)
    chain = read_all(duo)
    claim = replace(claim, epoch=2, round=chain.round)
    duo.log.append([newer(sealed(claim, chain.hash), monkeypatch)])
    with pytest.raises(Superseded, match=r"Paceline 9\.1 has taken left of cell 0: epoch 2"):
        owner.run()


@pytest.mark.parametrize("damage", ["value", "key", "removed"])
def test_damage_to_a_round_that_a_later_one_continues_stops_every_reader(damage: str) -> None:
    duo = played()
    records = duo.log.topic(LEFT).records
    at = len(records) - 3
    if damage == "removed":
        del records[at]
    else:
        value = getattr(records[at], damage)
        records[at] = records[at]._replace(**{damage: value[:-1] + bytes([value[-1] ^ 1])})
    after = records[at + (damage != "removed")]
    with pytest.raises(BrokenHistory, match=rf"at {LEFT}:{after.offset} doesn't continue.*NOT_NEXT.*restore the log"):
        read_all(duo)
    fresh = Driver(Left(), duo.log, type(duo.disks["left"])(), duo.clock, "late")
    ends = duo.log.ends([LEFT])
    with pytest.raises(BrokenHistory):
        list(fresh.recover())
    assert duo.log.ends([LEFT]) == ends, "nothing was claimed"
    difference = replay(Left(), duo.log).difference
    assert difference is not None
    place = difference.places[0]
    assert place.start <= records[at].offset < place.end


def test_damage_to_the_last_round_is_told_to_the_owner_of_its_store() -> None:
    duo = played()
    records = duo.log.topic(LEFT).records
    records[-1] = records[-1]._replace(value=records[-1].value + b"x")
    with pytest.raises(BrokenHistory, match=rf"at {LEFT}:{records[-1].offset} was changed.*restore the log"):
        duo.start("left")
    difference = replay(Left(), duo.log).difference
    assert difference is not None
    assert f"{LEFT}:{records[-1].offset} has another value than its key says" in difference.reason


def test_a_second_history_beside_the_first_is_found_by_whoever_followed_that() -> None:
    """An owner that has lost the last round decides anew; who had read that round doesn't go on as if nothing were."""
    duo = played()
    chain = read_all(duo)
    last = duo.rounds("left")[-1]
    claim = decode(duo.log.topic(LEFT).records[0].value)
    assert isinstance(claim, EpochStarted)
    duo.log.append([sealed(replace(claim, epoch=2, round=last.round - 1), last.prev_hash)])
    duo.log.append([sealed(replace(last, epoch=2, now=last.now + 1))])
    with pytest.raises(BrokenHistory, match=f"round {chain.round} of left.*HASH_DOESNT_FIT"):
        read_all(duo)


@pytest.mark.parametrize(
    ("wrong", "verdict"),
    [
        ({"epoch": 5}, Acceptance.NOT_CLAIMED),
        ({"prev_hash": b"x" * 32}, Acceptance.HASH_DOESNT_FIT),
        ({"round": 99}, Acceptance.NOT_NEXT),
    ],
)
def test_a_round_of_a_history_that_is_not_here_stops_every_reader(
    wrong: dict[str, object], verdict: Acceptance
) -> None:
    duo = played()
    last = duo.rounds("left")[-1]
    next_ = replace(last, round=last.round + 1, prev_hash=read_all(duo).hash, inputs=(), skipped=(), decisions=())
    duo.log.append([sealed(replace(next_, **wrong))])
    stops(duo, BrokenHistory, f"of left in cell 0 at {LEFT}.*doesn't continue what stands before it: {verdict}")


@pytest.mark.parametrize("more", [1, 2])
def test_a_claim_of_a_history_that_is_not_here_stops_every_reader(more: int) -> None:
    duo = played()
    claim = decode(duo.log.topic(LEFT).records[0].value)
    assert isinstance(claim, EpochStarted)
    duo.log.append([sealed(replace(claim, epoch=1 + more, round=99))])
    stops(duo, BrokenHistory, f"the claim of epoch {1 + more} of left")


def test_a_round_in_its_epoch_that_an_owner_has_not_written_stops_it() -> None:
    duo = played()
    last = duo.rounds("left")[-1]
    next_ = replace(last, round=last.round + 1, prev_hash=read_all(duo).hash, inputs=(), skipped=(), decisions=())
    duo.log.append([sealed(next_)])
    with pytest.raises(ForeignRound, match=f"round {next_.round} of left.*this process hasn't written it"):
        duo.drivers["left"].run()


def test_a_value_that_says_otherwise_than_its_key_stops_every_reader() -> None:
    duo = played()
    last = duo.rounds("left")[-1]
    next_ = replace(last, round=last.round + 1, prev_hash=read_all(duo).hash, inputs=(), skipped=(), decisions=())
    sound, other = sealed(next_), sealed(replace(next_, round=next_.round + 1))
    key = sound.key.rpartition(b" hash=")[0] + b" hash=" + other.key.rpartition(b" hash=")[2]
    duo.log.append([other._replace(key=key)])
    stops(duo, BrokenHistory, f"round {next_.round} of left.*{Acceptance.NOT_ITS_KEY}")


def test_what_one_reader_of_a_process_has_read_the_others_need_not_decode(monkeypatch: pytest.MonkeyPatch) -> None:
    duo, decoded = played(), []

    def decode_once(data: bytes) -> Event:
        decoded.append(data)
        return events.codec.decode_once(data)

    monkeypatch.setattr(events.rounds, "decode_once", decode_once)
    rounds = [each.decisions() for each in deliver_all(duo) if isinstance(each.event, RoundCommitted)]
    assert decoded == [], "this process wrote the rounds itself, and has read the claims"
    Recent.clear_all()
    assert rounds == [each.decisions() for each in deliver_all(duo) if isinstance(each.event, RoundCommitted)]
    assert rounds == [each.decisions() for each in deliver_all(duo) if isinstance(each.event, RoundCommitted)]
    assert len(decoded) == len(TOYS) + len(rounds) + sum(map(len, rounds))


def test_keys_are_short_texts_of_a_form_that_never_changes() -> None:
    record = played().log.topic(LEFT).records[1]
    event = decode(record.value)
    assert isinstance(event, RoundCommitted)
    assert of(record, event) == record
    said = record.key.decode().split()
    assert said[:6] == ["paceline", "round", "machine=left", "cell=0", "epoch=1", "round=1"]
    assert [each.partition("=")[0] for each in said[6:]] == ["prev", "schema", "build", "hash"]
    assert len(record.key) < 300
