"""What is skipped is decided once, when it is delivered; the round says it, and every later reader does as it says."""

from collections.abc import Callable

import pytest
from msgspec.structs import replace

import events.delivery
import processors.runtime.fold
from events.acceptance import digest
from events.codec import CodecError, decode, encode
from events.records.base import Event
from events.records.jobs import JobStopRequested
from events.records.parts import Skipped
from events.records.rounds import RoundCommitted
from events.rounds import UnreadableRound
from processors.runtime.fold import HistoryDiffers
from processors.runtime.replay import replay
from processors.runtime.store import MemoryStore, StoreFault
from processors.state.table import RowChange
from tests.helpers.toys import Left
from tests.processors.runtime.duo import Duo

JOBS = "paceline.jobs"
LATER = encode(JobStopRequested(job_id="a", command_id="later"))
"""What an older build can't read."""
SAYS = "what it names as skipped is not among its inputs"


def older(value: bytes) -> Event:
    if value == LATER:
        raise CodecError("UNKNOWN_SCHEMA", "no schema has the fingerprint 0123456789abcdef")
    return decode(value)


def skipping(patch: pytest.MonkeyPatch) -> Duo:
    """A history in which an older build met a record that it could not read."""
    duo = Duo()
    with patch.context() as older_build:
        older_build.setattr(events.delivery, "decode", older)
        duo.start("left")
        duo.ask("one")
        duo.rest()
        duo.put(JOBS, LATER)
        duo.ask("two")
        duo.rest()
    return duo


def test_what_was_skipped_stays_skipped_for_a_build_that_can_read_it(monkeypatch: pytest.MonkeyPatch) -> None:
    duo = skipping(monkeypatch)
    [skip] = [skip for round_ in duo.rounds("left") for skip in round_.skipped]
    assert (skip.topic, skip.offset, skip.reason, skip.digest) == (JOBS, 1, "UNKNOWN_SCHEMA", digest(LATER))
    found = replay(Left(), duo.log)
    assert (found.difference, found.hash) == (None, duo.drivers["left"].fold.state.hash)
    hashed = duo.drivers["left"].fold.state.hash
    duo.disks["left"] = MemoryStore()
    newer = duo.start("left")
    assert newer.fold.state.hash == hashed
    assert "later" not in newer.machine.balls  # type: ignore[attr-defined]
    duo.put(JOBS, LATER)
    duo.rest()
    assert "later" in newer.machine.balls, "what comes now is read"  # type: ignore[attr-defined]
    assert replay(Left(), duo.log).difference is None


def test_an_input_that_was_applied_and_cannot_be_read_stops_with_the_version_to_install(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    duo = Duo()
    duo.start("left")
    duo.put(JOBS, LATER)
    duo.rest()
    monkeypatch.setattr(processors.runtime.fold, "decode", older)
    duo.disks["left"] = MemoryStore()
    ends = duo.log.ends(["paceline.left"])
    says = r"round 1 of left in cell 0 .*it took in paceline\.jobs:0, .*UNKNOWN_SCHEMA.*Install Paceline .* or newer"
    with pytest.raises(UnreadableRound, match=says):
        duo.start("left")
    assert duo.log.ends(ends) == ends, "nothing was claimed"
    difference = replay(Left(), duo.log).difference
    assert difference is not None
    assert "it took in paceline.jobs:0" in difference.reason


def of_others(skip: Skipped) -> tuple[Skipped, ...]:
    return (replace(skip, digest=digest(b"other")),)


def beyond(skip: Skipped) -> tuple[Skipped, ...]:
    return (skip, replace(skip, offset=skip.offset + 9))


def twice(skip: Skipped) -> tuple[Skipped, ...]:
    return (skip, skip)


@pytest.mark.parametrize("wrong", [of_others, beyond, twice], ids=lambda wrong: wrong.__name__)
def test_a_round_whose_skipped_inputs_are_not_those_that_it_names_is_a_difference(
    wrong: Callable[[Skipped], tuple[Skipped, ...]], monkeypatch: pytest.MonkeyPatch
) -> None:
    duo = Duo()
    duo.start("left")
    duo.put(JOBS, b"no record")
    duo.ask("one")
    duo.rest()
    assert duo.rounds("left")[-1].skipped
    duo.rewrite("left", lambda round_: replace(round_, skipped=wrong(round_.skipped[0])))
    difference = replay(Left(), duo.log).difference
    assert difference is not None
    assert SAYS in difference.reason
    duo.disks["left"] = MemoryStore()
    with pytest.raises(HistoryDiffers, match=SAYS):
        duo.start("left")


def test_a_round_that_was_decided_on_another_state_is_not_followed() -> None:
    def elsewhere(round_: RoundCommitted) -> RoundCommitted:
        return replace(round_, start_hash=digest(b"another state"))

    duo = Duo()
    duo.start("left")
    duo.ask("one")
    duo.rest()
    duo.rewrite("left", elsewhere)
    says = "round 1: the state before it has another hash"
    difference = replay(Left(), duo.log).difference
    assert difference is not None
    assert says in difference.reason
    duo.disks["left"] = MemoryStore()
    with pytest.raises(HistoryDiffers, match=says):
        duo.start("left")


def test_a_store_whose_rows_are_not_those_of_its_round_is_refused() -> None:
    duo = Duo()
    duo.start("left")
    duo.ask("one")
    duo.rest()
    disk = duo.disks["left"]
    progress, row = disk.progress(), next(each for each in disk.rows() if each.table == "balls")
    assert progress is not None
    assert row.row is not None
    disk.commit([RowChange(row.table, row.key, row.row[:-1] + b"\x07")], progress)
    with pytest.raises(StoreFault, match="doesn't hash to its round 1: it is damaged"):
        duo.start("left")


def test_an_owner_that_was_restored_knows_of_each_topic_what_the_one_before_it_knew() -> None:
    """Of its own topic too, which it doesn't read as an input: it was told by the rounds of another."""
    duo = Duo()
    duo.start("left", "right")
    duo.ask("one", "two")
    duo.rest()
    before = {seen.topic: seen.position for seen in duo.rounds("left")[-1].seen}
    assert before["paceline.left"] > 0
    duo.drivers.pop("right")
    duo.start("left")
    duo.ask("three")
    duo.rest()
    after = {seen.topic: seen.position for seen in duo.rounds("left")[-1].seen}
    assert after.keys() == before.keys()
    assert all(after[topic] >= position for topic, position in before.items())
