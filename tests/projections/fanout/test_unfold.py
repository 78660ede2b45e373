"""Rounds unfold to messages: every run of every column exactly once, under its key, with ids never used twice."""

from collections import Counter
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from events.acceptance import NO_HASH, digest
from events.codec import decode, encode
from events.codes import Outcome
from events.columns import ints, pack_ints, pack_longs
from events.ranks import RANKS, RankRow, entitled_of
from events.records.base import Event
from events.records.entitlement import GangsAdmitted, PreemptionsOrdered
from events.records.lifecycle import (
    GangsQueued,
    JobRejected,
    RunsAvailable,
    RunsEnded,
    RunsOrdered,
    RunsStopping,
)
from events.records.parts import Skipped
from events.records.placement import TasksPlaced
from events.records.rounds import RoundCommitted
from events.topics import FANOUT, MACHINES
from projections.fanout.unfold import OUTPUTS, OutputMessage, unfold
from tests.helpers.drawn import examples
from tests.projections.fanout.complete import expected, rounds
from tests.projections.fanout.world import history

JOBS = ("a", "b/c", "")
HOSTS = ("h1", "h2")
runs = st.lists(st.tuples(st.integers(0, 2), st.integers(0, 10**6), st.integers(1, 99), st.integers(0, 1)), max_size=30)


def round_of(machine: str, *decisions: Event | bytes, skipped: tuple[Skipped, ...] = ()) -> RoundCommitted:
    return RoundCommitted(
        cell=3,
        machine=machine,
        epoch=1,
        round=7,
        now=1234,
        caught_up=True,
        budget=1,
        inputs=(),
        skipped=skipped,
        inputs_hash=NO_HASH,
        start_hash=NO_HASH,
        seen=(),
        decisions=tuple(each if isinstance(each, bytes) else encode(each) for each in decisions),
        prev_hash=NO_HASH,
        logic=1,
        state=1,
    )


def columns(items: list[tuple[int, int, int, int]]) -> dict[str, Any]:
    job, instance, run, _ = zip(*items, strict=True) if items else ((), (), (), ())
    return {"job_ids": JOBS, "job": pack_ints(job), "instance": pack_ints(instance), "run": pack_ints(run)}


def hosts(items: list[tuple[int, int, int, int]]) -> dict[str, Any]:
    return {"host_ids": HOSTS, "host": pack_ints(host for _, _, _, host in items)}


def tasks(outs: list[OutputMessage]) -> list[tuple[str, int, int]]:
    for out in outs:
        assert out.key == f"{out.event.job_id}/{out.event.instance}"
    return [(out.event.job_id, out.event.instance, out.event.run) for out in outs]


@given(runs, st.lists(st.integers(0, 3), min_size=3, max_size=3))
def test_each_placed_run_is_one_message_with_its_own_host_and_ports(
    items: list[tuple[int, int, int, int]], port_count: list[int]
) -> None:
    ports = [[9000 + 10 * at + port for port in range(port_count[job])] for at, (job, *_) in enumerate(items)]
    placed = TasksPlaced(
        **columns(items),
        **hosts(items),
        host_session=pack_longs([2**40, 5]),
        ports=pack_ints(port for each in ports for port in each),
        port_count=pack_ints(map(len, ports)) if any(ports) else b"",
    )
    outs = list(unfold(round_of("placement", placed), 0))
    assert tasks(outs) == [(JOBS[job], instance, run) for job, instance, run, _ in items]
    assert [list(out.event.ports) for out in outs] == ports
    assert [(out.event.host_id, out.event.host_session) for out in outs] == [
        (HOSTS[host], (2**40, 5)[host]) for *_, host in items
    ]


@given(runs)
def test_each_run_of_each_change_of_state_is_one_message(items: list[tuple[int, int, int, int]]) -> None:
    none = pack_ints([0] * len(items))
    outcome = pack_ints(1 + at % len(Outcome) for at in range(len(items)))
    exit_code = pack_ints(at - 1 for at in range(len(items)))
    decisions: dict[str, Event] = {
        "ORDERED": RunsOrdered(**columns(items), **hosts(items), host_session=pack_longs([1, 2])),
        "RUNNING": RunsAvailable(**columns(items)),
        "STOPPING": RunsStopping(**columns(items), **hosts(items), cause=outcome),
        "ENDED": RunsEnded(**columns(items), outcome=outcome, exit_code=exit_code, kept=none),
    }
    outs = list(unfold(round_of("lifecycle", *decisions.values()), 0))
    for state in decisions:
        mine = [out for out in outs if out.event.state == state]
        assert tasks(mine) == [(JOBS[job], instance, run) for job, instance, run, _ in items]
        named = [HOSTS[host] for *_, host in items] if state in ("ORDERED", "STOPPING") else [None] * len(items)
        assert [out.event.host_id for out in mine] == named
        ends = [Outcome(1 + at % len(Outcome)).name for at in range(len(items))]
        told = ends if state in ("STOPPING", "ENDED") else [None] * len(items)
        assert [out.event.outcome for out in mine] == told
    codes = [out.event.exit_code for out in outs if out.event.state == "ENDED"]
    assert codes == [None, *range(len(items))][: len(items)]
    assert_ids(outs)


ranges = st.lists(
    st.tuples(st.integers(0, 2), st.integers(0, 1000), st.integers(1, 9), st.integers(1, 9), st.booleans()), max_size=9
)


@given(ranges)
def test_a_range_of_gangs_is_unfolded_and_a_gang_stays_whole(items: list[tuple[int, int, int, int, bool]]) -> None:
    names = ("job", "first", "count", "run", "gang")
    packed: dict[str, Any] = {name: pack_ints(int(each[at]) for each in items) for at, name in enumerate(names)}
    admitted = list(unfold(round_of("entitlement", GangsAdmitted(job_ids=JOBS, **packed)), 0))
    wanted = []
    for job, first, count, run, gang in items:
        wanted += [(JOBS[job], first, count, run)] if gang else [(JOBS[job], first + at, 1, run) for at in range(count)]
    assert [(out.event.job_id, out.event.first, out.event.count, out.event.run) for out in admitted] == wanted
    assert all(out.key == f"{out.event.job_id}/{out.event.first}" for out in admitted)
    queued = GangsQueued(job_ids=JOBS, **packed, admitted=pack_ints([0] * len(items)))
    outs = list(unfold(round_of("lifecycle", queued), 0))
    assert tasks(outs) == [(JOBS[job], first + at, run) for job, first, count, run, _ in items for at in range(count)]
    assert_ids(admitted)
    assert_ids(outs)


@pytest.mark.parametrize("row", [row for row in RANKS if row.written is not None], ids=lambda row: row.rank.name)
def test_an_admission_says_what_the_row_of_its_rank_does(row: RankRow) -> None:
    ranges_ = {"job": [0], "first": [0], "count": [1], "run": [1], "gang": [0], "entitled": entitled_of([row.rank])}
    event = GangsAdmitted.pack(job_ids=JOBS, **ranges_)
    assert [out.event.entitled for out in unfold(round_of("entitlement", event), 0)] == [row.entitled]


def test_an_admission_says_whether_it_is_entitled_and_a_preemption_for_whom() -> None:
    ranges_ = {"job": [0, 1], "first": [0, 4], "count": [2, 1], "run": [1, 1], "gang": [1, 0]}
    each: dict[str, Any] = {name: pack_ints(values) for name, values in ranges_.items()}
    said = [GangsAdmitted(job_ids=JOBS, **each, entitled=pack_ints([1, 0])), GangsAdmitted(job_ids=JOBS, **each)]
    outs = list(unfold(round_of("entitlement", *said), 0))
    assert [out.event.entitled for out in outs] == [True, False, True, True]
    items = [(0, 3, 1, 0), (1, 0, 2, 0)]
    order = PreemptionsOrdered(
        **columns(items), order=7, way=pack_ints([1, 2]), slice=pack_ints([0, 0]), from_pools=("/p", "/q"),
        from_pool=pack_ints([1, 0]), for_pool="/w", for_job="w", for_first=0, for_count=1, for_run=1, code="LEFT",
    )  # fmt: skip
    outs = list(unfold(round_of("entitlement", order), 0))
    assert tasks(outs) == [("a", 3, 1), ("b/c", 0, 2)]
    assert [(out.event.from_pool, out.event.for_pool, out.event.for_job, out.event.order) for out in outs] == [
        ("/q", "/w", "w", 7),
        ("/p", "/w", "w", 7),
    ]
    assert_ids(outs)


def assert_ids(outs: list[OutputMessage]) -> None:
    """Ids are those of the values, in both places, and grow."""
    places = [(out.event.round, out.event.index, out.event.item) for out in outs]
    assert places == sorted(set(places))
    for out, place in zip(outs, places, strict=True):
        assert out.event.event_id == out.event_id == "/".join(map(str, (out.event.cell, out.event.machine, *place)))
        assert out.topic == out.event.topic
        assert type(out.event) in OUTPUTS[out.event.machine]
        assert decode(encode(out.event)) == out.event


def test_ids_of_a_whole_history_are_unique_and_grow() -> None:
    made = expected(history())
    assert {out.topic for outs in made.values() for out in outs} == {topic.name for topic in FANOUT}
    for outs in made.values():
        assert_ids(outs)


def test_a_history_tells_each_decided_run_and_job_once() -> None:
    made = expected(history())
    counted = Counter(type(out.event).__name__ for outs in made.values() for out in outs)
    decided: Counter[str] = Counter()
    for machine in MACHINES:
        for _, round_ in rounds(history(), machine):
            decided["RecordQuarantined"] += len(round_.skipped)
            for decision in map(decode, round_.decisions):
                name = type(decision).__name__
                if name in ("RunsOrdered", "RunsAvailable", "RunsStopping", "RunsEnded"):
                    decided["TaskStateChanged"] += len(ints(decision.run))
                elif name == "GangsQueued":
                    decided["TaskStateChanged"] += int(np.sum(ints(decision.count)))
                elif name in ("JobAccepted", "JobRejected", "JobChanged"):
                    decided["JobStateChanged"] += 1
                elif isinstance(decision, TasksPlaced):
                    decided["TaskPlaced"] += len(ints(decision.run))
                elif isinstance(decision, PreemptionsOrdered):
                    decided["TaskPreempted"] += len(ints(decision.run))
                elif isinstance(decision, GangsAdmitted):
                    count, gang = ints(decision.count), ints(decision.gang)
                    decided["GangAdmitted"] += int(np.where(gang, 1, count).sum())
    assert counted == decided
    assert all(counted.values())


def test_a_message_of_a_refused_repeat_of_an_id_is_not_under_the_key_of_the_job_that_goes_on() -> None:
    for code, key in (("ID_TAKEN", "paceline.jobs:9"), ("INVALID_SPEC", "a")):
        [out] = unfold(round_of("lifecycle", JobRejected(job_id="a", jobs_offset=9, code=code, message="no")), 0)
        assert (out.key, out.event.state, out.event.code) == (key, "REJECTED", code)


def test_what_a_machine_skipped_is_named_with_the_machine() -> None:
    skipped = (Skipped("paceline.jobs", 4, "NOT_AVRO", b"\1\2"), Skipped("paceline.jobs", 6, "TRUNCATED", b""))
    first, second = unfold(round_of("sla", skipped=skipped), 0)
    assert (first.key, first.event_id) == ("paceline.jobs:4", "3/sla/7/-1/0")
    assert (first.event.reason, first.event.digest, first.event.machine) == (
        "NOT_AVRO",
        "0102",
        "sla",
    )
    assert second.event_id == "3/sla/7/-1/1"


good = encode(RunsAvailable(job_ids=("a",), job=pack_ints([0]), instance=pack_ints([0]), run=pack_ints([1])))
torn = encode(RunsAvailable(job_ids=("a",), job=pack_ints([1, 0]), instance=pack_ints([0]), run=pack_ints([1])))


@pytest.mark.parametrize(("bad", "reason"), [(b"\xc3\x01newer___", "UNKNOWN_SCHEMA"), (torn, "BAD_VALUE")])
def test_a_decision_that_cant_be_read_is_named_and_the_others_are_published(bad: bytes, reason: str) -> None:
    outs = list(unfold(round_of("lifecycle", good, bad, good), 55))
    assert [(out.topic, out.event.index) for out in outs] == [
        ("paceline.task-states", 0),
        ("paceline.quarantine", 1),
        ("paceline.task-states", 2),
    ]
    named = outs[1].event
    assert (outs[1].key, named.reason, named.digest) == (
        "paceline.lifecycle:55",
        reason,
        digest(bad).hex(),
    )
    assert outs[1].event_id == "3/lifecycle/7/1/-1"


@given(st.lists(st.binary(max_size=60), max_size=4))
@examples(50)
def test_no_bytes_in_a_round_stop_the_fanout(decisions: list[bytes]) -> None:
    outs = list(unfold(round_of("lifecycle", *decisions), 1))
    assert len(outs) == len(decisions)
    assert {type(out.event).__name__ for out in outs} <= {"RecordQuarantined"}
