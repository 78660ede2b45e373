"""A history that was changed is found out, and the place is said."""

import random

import msgspec
import pytest

from events.codec import decode, encode
from events.codes import ENDED_JOBS
from events.records.lifecycle import JobChanged
from events.records.rounds import RoundCommitted
from events.topics import ALL
from paceline.history.heads import compare
from paceline.history.verify import root_difference, verify
from processors.cell_machines import machines
from tests.helpers.forge import forge
from tests.helpers.past import past
from tests.paceline.history import tamper


def test_the_history_has_what_is_to_be_changed():
    records = {topic.name: len(past().topic(topic.name).records) for topic in ALL}
    epochs = [each.result.epochs for each in verify(past(), machines())]
    assert min(records[f"paceline.{name}"] for name in ("lifecycle", "entitlement", "placement")) > 20, records
    assert epochs[:2] == [2, 2]


def test_every_change_is_found_with_its_place():
    found = tamper.run(150)
    assert found["found_by_rounds"] > 100 > found["found_by_head"]
    assert set(found["kinds"]) == set(tamper.KINDS)


def test_a_search_from_the_state_before_finds_what_a_search_from_the_start_finds():
    source = random.Random(99)
    checked = 0
    while checked < 2:
        observers = tamper.change(source)
        if observers is None or not tamper.covered(observers):
            continue
        checked += 1
        whole = [each.result.difference for each in verify(observers.log, machines())]
        assert next(each for each in whole if each is not None) == tamper.find(observers).difference


def test_a_cut_tail_is_found_by_the_head_alone():
    log = past()
    for topic in ("paceline.lifecycle", "paceline.tasks", "paceline.hosts"):
        held = log.topic(topic)
        cut = tamper.changed(log, topic, held.records[:-1], held.end - 1)
        difference = compare(cut, tamper.head())
        assert difference is not None
        told = f"{topic} was cut: it ends at {held.end - 1}, and it had {held.end} records when the head was saved"
        assert difference.reason == told
        assert (difference.places[0].topic, difference.places[0].end) == (topic, held.end)
    assert compare(log, tamper.head()) is None


def test_what_no_round_has_covered_yet_is_found_by_the_head_alone():
    log, source, met = past(), random.Random(7), 0
    for topic, open_end in tamper.head().topics.items():
        for offset in range(open_end.start, open_end.end):
            met += 1
            records = [each if each.offset != offset else tamper._altered(each, source) for each in log.scan(topic, 0)]
            observers = tamper.Change("altered", topic, (offset,), tamper.changed(log, topic, records, open_end.end))
            found = tamper.find(observers)
            assert found.by in ("head", "rounds")
            assert tamper.placed(observers, found.difference)
    assert met > 0


def kills(event: RoundCommitted) -> RoundCommitted:
    """Somebody's job shall have failed."""
    decisions = []
    for value in event.decisions:
        decision = decode(value)
        if isinstance(decision, JobChanged):
            value = encode(msgspec.structs.replace(decision, state="FAILED"))
        decisions.append(value)
    return msgspec.structs.replace(event, decisions=tuple(decisions))


def ends_a_job(event: RoundCommitted) -> bool:
    decided = map(decode, event.decisions)
    states = {each.state for each in decided if isinstance(each, JobChanged)}
    return bool(states) and states.issubset(ENDED_JOBS)


@pytest.mark.parametrize("which", [0, -1])
def test_a_forger_who_makes_all_hashes_fit_is_found_by_deciding_again(which):
    rounds = [decode(each.value) for each in past().scan("paceline.lifecycle", 0)]
    number = [each.round for each in rounds if isinstance(each, RoundCommitted) and ends_a_job(each)][which]
    forged = forge(past(), "lifecycle", number, kills)
    assert forge(past(), "lifecycle", 0, kills).topic("paceline.sla").records == past().topic("paceline.sla").records
    found = verify(forged, machines())
    difference = root_difference(forged, found)
    assert difference is not None
    assert (difference.machine, difference.round, difference.reason) == ("lifecycle", number, "decided otherwise")
    assert decode(difference.recorded).state == "FAILED"
    assert decode(difference.decided).state != "FAILED"
    divergence = next(each.result.divergence for each in found if each.result.difference is difference)
    assert divergence is not None
    assert (divergence.round, divergence.fault) == (number, "")
    assert {row.table for row in divergence.rows} >= {"ended"}


def test_a_forger_who_rewrites_nothing_rewrites_the_same_history():
    same = forge(past(), "lifecycle", 0, kills)
    for topic in ALL:
        assert same.topic(topic.name).records == past().topic(topic.name).records
