"""What the views hold after facts and rounds; rebuilt is the same as live; poison and strangers are set aside."""

import random
from contextlib import closing
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sqlalchemy import select

from events.codec import encode
from events.codes import Outcome, TaskState
from events.columns import pack_ints, pack_longs
from events.log.memory import MemoryReader
from events.log.port import LogFault, LogGap, LogUnavailable
from events.ranks import RANKS
from events.records.entitlement import CreditsSet, EntitlementsSet, PoolAnswered, TurnSet
from events.records.hosts import HostBack, HostConnected, HostSilent
from events.records.jobs import JobStopRequested
from events.records.lifecycle import CommandAnswered, JobRejected, PreemptionAnswered, RunsAvailable, RunsStopping
from events.records.parts import Cause
from events.records.placement import GangsReturned, HostLost, HostsReserved, TasksPlaced
from events.records.pools import PoolDefined, PoolRemoved
from events.records.tasks import RunsReported
from projections.queries.pages import rows_of
from projections.queries.tasks import TaskFilter, past_host, tasks_page
from projections.views import projector as module
from projections.views import tables
from projections.views.blocks import unpack
from projections.views.cache import TASK_COLUMNS, Cache
from projections.views.comparison import HISTORY
from projections.views.projector import Projector, rebuild
from projections.views.reasons import ReasonFold
from projections.views.record_context import RecordContext
from projections.views.rows import JobRow
from projections.views.tables import open_engine
from projections.views.waiting import Standing
from tests.helpers.drawn import examples
from tests.helpers.machines import columns, instances_changed
from tests.helpers.story import LogSummary
from tests.helpers.written_cell import (
    CORE,
    Cell,
    admitted,
    dump,
    ended,
    held,
    ordered,
    placed,
    preempted,
    queued,
    ranges,
    ranked,
    runs,
    unplaced,
)

ENTITLED, BORROWED = Standing.ENTITLED, Standing.BORROWED


@pytest.fixture
def cell() -> Cell:
    return Cell()


def fold(cell: Cell, folder: Path) -> dict[str, list]:
    """The rows as dicts by table; of histories those of jobs."""
    live = Projector(cell.log, folder)
    while live.step():
        pass
    rows = dump(live.views.engine)
    again = dump(rebuild(cell.log, folder / "again"))
    live.close()
    assert rows == again
    names = {table.name: [column.name for column in table.columns] for table in tables.metadata.sorted_tables}
    names["history"] = list(HISTORY)
    rows["history"] = [row for row in rows["history"] if not row[0].startswith("/")]
    return {name: [dict(zip(names[name], row, strict=True)) for row in held] for name, held in rows.items()}


@pytest.fixture(autouse=True)
def _folders(tmp_path):
    (tmp_path / "again").mkdir()


def test_tasks_keep_what_they_hold_while_their_job_grows_moves_and_shrinks(cell, tmp_path):
    cell.host()
    cell.accept("a", instances=2, ports=["x", "y"])
    cell.decide("lifecycle", ordered("a", (0, 1), 1, "h1", ports=pack_ints([10, 11, 12, 13])))
    cell.accept("b", instances=600)  # in the way
    have, stopped = [0, 1], ended("a", (0,), Outcome.STOPPED)
    for at in range(2, 40):
        cell.decide("lifecycle", instances_changed("a", have, [at]), queued("a", (at,), 1))
        have.append(at)
    cell.decide("lifecycle", stopped, instances_changed("a", have, removed=[0, 39]))
    found = fold(cell, tmp_path)
    job = found["jobs"][0]
    assert (job["instances"], job["removed"], job["ordered"], job["queued"], job["killed"]) == (39, 1, 1, 37, 0)
    assert 39 <= job["slots"] <= 60
    assert (found["pool_use"][0]["open_tasks"], found["hosts"][0]["runs"]) == (638, 1)
    assert [row["event"] for row in found["history"] if row["job_id"] == "a"].count("InstancesChanged") == 39
    engine = open_engine(tmp_path / "views.sqlite")
    with engine.connect() as connection:
        row = rows_of(connection, JobRow, select(tables.jobs).where(tables.jobs.c.job_id == "a"))[0]
        tasks = tasks_page(connection, row, TaskFilter(), 100, 0).items
        assert past_host(connection, row, 0, 1) == "h1", "the output of a task that was removed is found"
    engine.dispose()
    assert [(each["instance"], each["state"]) for each in tasks] == [(1, "ORDERED")] + [
        (at, "QUEUED") for at in range(2, 39)
    ]
    assert (tasks[0]["ports"], tasks[0]["host_id"]) == ([12, 13], "h1")
    assert sum(len(np.frombuffer(row["data"], "<i4").nonzero()[0]) for row in found["port_blocks"]) == 2
    cell.changed("KILLED")
    cell.changed("KILLED", "b")
    cell.forget("a", "b")
    found = fold(cell, tmp_path)
    assert found["task_blocks"] == found["port_blocks"] == []


def test_a_job_is_submitted_accepted_run_and_done(cell, tmp_path):
    cell.host()
    cell.accept("a", instances=3)
    cell.run("a", (0, 1, 2))
    cell.ms += 10
    cell.decide("lifecycle", RunsAvailable(**runs("a", (0, 1, 2))))
    cell.changed("RUNNING")
    found = fold(cell, tmp_path)
    job = found["jobs"][0]
    assert (job["state"], job["running"], job["queued"], job["started_ms"]) == ("RUNNING", 3, 0, cell.ms)
    host = found["hosts"][0]
    assert (host["runs"], host["allocated"]) == (3, '{"cpu":3000,"memory":1536}')
    cell.ms += 10
    cell.decide("lifecycle", ended("a", (0, 2), Outcome.SUCCEEDED), ended("a", (1,), Outcome.FAILED, exit_code=3))
    cell.changed("FAILED")
    found = fold(cell, tmp_path)
    job, host = found["jobs"][0], found["hosts"][0]
    assert (job["state"], job["succeeded"], job["failed"], job["ended_ms"]) == ("FAILED", 2, 1, cell.ms)
    assert (job["failed_instance"], job["failed_exit_code"]) == (1, 3)
    assert (host["runs"], host["allocated"]) == (0, "{}")
    assert [row["event"] for row in found["history"]] == [
        "JobSubmitted", "JobAccepted", "GangsQueued", "GangsAdmitted", "TasksPlaced", "RunsOrdered", "RunsAvailable",
        "JobChanged", "RunsEnded", "RunsEnded", "JobChanged",
    ]  # fmt: skip


def test_history_follows_cause_and_effect_within_a_millisecond(cell, tmp_path):
    cell.host()
    cell.accept("a")
    cell.run("a")
    events = [row["event"] for row in fold(cell, tmp_path)["history"]]
    assert events == ["JobSubmitted", "JobAccepted", "GangsQueued", "GangsAdmitted", "TasksPlaced", "RunsOrdered"]


@pytest.mark.parametrize(
    ("spec", "outcome", "kept", "count"),
    [
        ({}, Outcome.FAILED, 0, "failed"),
        ({"retries": {"max": 1}}, Outcome.FAILED, 1, "backoff"),
        ({"kind": "stateless"}, Outcome.SUCCEEDED, 1, "backoff"),
        ({}, Outcome.PREEMPTED, 0, "backoff"),
        ({}, Outcome.LOST, 0, "backoff"),
        ({}, Outcome.STOPPED, 0, "killed"),
    ],
)
def test_what_becomes_of_a_task_whose_run_ended(cell, tmp_path, spec, outcome, kept, count):
    cell.host()
    cell.accept("a", **spec)
    cell.run("a")
    cell.decide("lifecycle", ended("a", (0,), outcome, exit_code=1, kept=kept))
    assert fold(cell, tmp_path)["jobs"][0][count] == 1


def test_a_retry_that_fails_again_is_final(cell, tmp_path):
    cell.host()
    cell.accept("a", retries={"max": 1})
    cell.run("a")
    cell.decide("lifecycle", ended("a", (0,), Outcome.FAILED, kept=1), queued("a", (0,), 2, admitted=1))
    cell.decide("lifecycle", ordered("a", (0,), 2, "h1"))
    cell.decide("lifecycle", ended("a", (0,), Outcome.FAILED, run=2))
    job = fold(cell, tmp_path)["jobs"][0]
    assert (job["failed"], job["backoff"], job["queued"]) == (1, 0, 0)


def test_a_gang_waits_for_its_members_and_fails_for_good_when_its_retries_are_spent(cell, tmp_path):
    cell.host()
    cell.accept("a", instances=3, gang={"min": 2}, retries={"max": 1})
    cell.run("a", (0, 1, 2))
    cell.decide("lifecycle", ended("a", (0,), Outcome.FAILED, exit_code=1, following=TaskState.BACKOFF))
    cell.decide("lifecycle", ended("a", (1,), Outcome.WITH_GANG))
    job = fold(cell, tmp_path)["jobs"][0]
    assert (job["backoff"], job["ordered"], job["failed"]) == (2, 1, 0)
    cell.decide("lifecycle", queued("a", (0, 1), 2, gang=1))
    cell.decide("lifecycle", ordered("a", (0, 1), 2, "h1"))
    cell.decide("lifecycle", ended("a", (1,), Outcome.FAILED, run=2))
    cell.decide("lifecycle", ended("a", (0,), Outcome.WITH_GANG, run=2, following=TaskState.FAILED))
    job = fold(cell, tmp_path)["jobs"][0]
    assert (job["backoff"], job["ordered"], job["failed"]) == (0, 1, 2)


def test_a_stopped_job_is_killed_whatever_ended_its_runs(cell, tmp_path):
    cell.host()
    cell.accept("a", instances=3, retries={"max": 9})
    cell.run("a", (0, 1, 2))
    at = cell.fact(JobStopRequested(job_id="a", command_id="c"))
    cell.decide(
        "lifecycle",
        CommandAnswered(job_id="a", jobs_offset=at, command_id="c", code="DONE"),
        RunsStopping(**runs("a", (0, 1, 2)), host_ids=("h1",), host=pack_ints([0] * 3), cause=pack_ints([3] * 3)),
    )
    assert fold(cell, tmp_path)["jobs"][0]["stopping_tasks"] == 3
    ends = (Outcome.STOPPED, TaskState.KILLED), (Outcome.LOST, TaskState.KILLED), (Outcome.FAILED, TaskState.FAILED)
    over = [ended("a", (at,), outcome, following=state) for at, (outcome, state) in enumerate(ends)]
    cell.decide("lifecycle", *over)
    job = fold(cell, tmp_path)["jobs"][0]
    assert (job["killed"], job["failed"], job["stopping_tasks"]) == (2, 1, 0)


def test_a_run_that_nobody_wants_changes_no_task(cell, tmp_path):
    cell.host()
    cell.accept("a")
    cell.run("a")
    strange = RunsStopping(
        job_ids=("never", "a"), job=pack_ints([0, 1]), instance=pack_ints([0, 0]), run=pack_ints([1, 7]),
        host_ids=("h1",), host=pack_ints([0, 0]), cause=pack_ints([3, 3]),
    )  # fmt: skip
    cell.decide("lifecycle", strange)
    job = fold(cell, tmp_path)["jobs"][0]
    assert (job["ordered"], job["stopping_tasks"]) == (1, 0)


def test_a_rejected_job_shows_its_code_until_the_id_is_accepted(cell, tmp_path):
    at = cell.submit("a", pool="/none")
    cell.decide("lifecycle", JobRejected(job_id="a", jobs_offset=at, code="NO_SUCH_POOL", message="there is no pool"))
    job = fold(cell, tmp_path)["jobs"][0]
    assert (job["state"], job["code"], job["pool"]) == ("REJECTED", "NO_SUCH_POOL", "/none")
    cell.accept("a", pool="/p")
    found = fold(cell, tmp_path)
    assert len(found["jobs"]) == 1
    assert (found["jobs"][0]["state"], found["jobs"][0]["code"], found["jobs"][0]["pool"]) == ("PENDING", "", "/p")
    assert [row["offset"] for row in found["submissions"]] == [found["jobs"][0]["offset"]]


def test_a_repeat_and_a_thief_of_the_id_change_nothing(cell, tmp_path):
    cell.accept("a", instances=2)
    before = fold(cell, tmp_path)["jobs"]
    again = cell.submit("a", instances=2)
    thief = cell.submit("a", instances=5)
    cell.decide(
        "lifecycle",
        CommandAnswered(job_id="a", jobs_offset=again, command_id="", code="REPEATED"),
        JobRejected(job_id="a", jobs_offset=thief, code="ID_TAKEN", message="taken"),
    )
    found = fold(cell, tmp_path)
    assert found["jobs"] == before
    assert [row["code"] for row in found["answers"]] == ["DONE", "REPEATED", "ID_TAKEN"]
    assert len(found["submissions"]) == 1


def test_a_pool_shows_when_it_is_answered_and_goes_when_it_is_removed(cell, tmp_path):
    good = cell.fact(PoolDefined(path="/p", command_id="1"))
    bad = cell.fact(PoolDefined(path="/x/y", command_id="2"))
    assert fold(cell, tmp_path)["pools"] == []
    cell.decide(
        "entitlement",
        PoolAnswered(path="/p", pools_offset=good, command_id="1", code="DONE"),
        PoolAnswered(path="/x/y", pools_offset=bad, command_id="2", code="INVALID_POOL"),
    )
    amounts = {
        kind: pack_longs([index * 10, index * 10 + 1])
        for index, kind in enumerate(("entitlement", "demand", "allocation", "placed"))
    }
    cell.decide("entitlement", EntitlementsSet(pools=("/p",), resources=("cpu", "gpu/a100"), **amounts))
    found = fold(cell, tmp_path)
    assert [row["path"] for row in found["pools"]] == ["/p"]
    assert found["pools"][0]["demand"] == '{"cpu":10,"gpu/a100":11}'
    assert found["pool_facts"] == []
    gone = cell.fact(PoolRemoved(path="/p", command_id="3"))
    cell.decide("entitlement", PoolAnswered(path="/p", pools_offset=gone, command_id="3", code="DONE"))
    assert fold(cell, tmp_path)["pools"] == []


def test_a_pool_counts_its_open_jobs_and_tasks(cell, tmp_path):
    cell.accept("a", instances=3)
    cell.accept("b", instances=4)
    cell.changed("KILLED", "a")
    assert [(row["open_jobs"], row["open_tasks"]) for row in fold(cell, tmp_path)["pool_use"]] == [(1, 4)]


def test_a_host_falls_silent_comes_back_and_is_lost(cell, tmp_path):
    cell.host(session=2)
    cell.ms += 5
    cell.fact(HostSilent(host_id="h1", session=2))
    assert fold(cell, tmp_path)["hosts"][0]["silent_ms"] == cell.ms
    cell.fact(HostBack(host_id="h1", session=1))
    assert fold(cell, tmp_path)["hosts"][0]["silent_ms"] == cell.ms
    cell.fact(HostBack(host_id="h1", session=2))
    cell.decide("placement", HostLost(host_id="h1", session=2, code="CONFIRMED", silent_ms=5))
    cell.fact(HostConnected(host_id="h1", session=3, gateway="g"))
    host = fold(cell, tmp_path)["hosts"][0]
    assert (host["silent_ms"], host["lost_session"], host["lost_code"], host["session"]) == (0, 2, "CONFIRMED", 3)
    assert (host["reconciled_session"], host["offered"]) == (2, 0)


def test_ports_stand_with_their_tasks(cell, tmp_path):
    cell.host()
    cell.accept("x", instances=2, ports=["one"])
    cell.accept("a", instances=3, ports=["http", "admin"])
    cell.decide("lifecycle", ordered("a", (2, 0), 1, "h1", ports=pack_ints([31002, 31003, 31000, 31001])))
    found = fold(cell, tmp_path)
    data = np.frombuffer(found["port_blocks"][0]["data"], dtype="<i4")
    assert data[2:8].tolist() == [31000, 31001, 0, 0, 31002, 31003]


def test_a_reason_stays_until_what_it_waits_for_has_come(cell, tmp_path):
    cell.host()
    cell.accept("a", instances=3)
    started = cell.ms // 1000
    cell.decide("entitlement", held("a", (0, 1, 2), "ENTITLEMENT_REACHED"))
    cell.ms += 100_000
    cell.decide("entitlement", held("a", (0, 1, 2), "ENTITLEMENT_REACHED", allocated=CORE))
    found = fold(cell, tmp_path)
    assert [(row["code"], row["tasks"], row["round"]) for row in found["holds"]] == [("ENTITLEMENT_REACHED", 3, 2)]
    assert '"allocated":{"cpu":1000' in found["holds"][0]["numbers"]
    assert waiting(found, "a") == {2: 3}
    assert since(found, 0) == since(found, 2) == started, "it waits for the same since then"
    cell.decide("entitlement", held("a", (2,), "LIMIT_REACHED"))
    assert since(fold(cell, tmp_path), 2) == cell.ms // 1000
    cell.run("a", (0, 1))
    found = fold(cell, tmp_path)
    assert (waiting(found, "a"), [row["code"] for row in found["holds"]]) == ({3: 1}, ["LIMIT_REACHED"])
    cell.run("a", (2,))
    found = fold(cell, tmp_path)
    assert (found["waiting"], found["holds"]) == ([], [])


def test_the_reasons_of_all_jobs_that_were_placed_are_read_at_once(tmp_path):
    cache, read = Cache(), []
    with closing(open_engine(tmp_path / "views.sqlite").raw_connection()) as pooled:
        pooled.driver_connection.set_trace_callback(read.append)
        cache.begin(pooled.driver_connection)
        names = columns([(f"j{number}", 0, 1) for number in range(50)])
        names |= {"host_ids": (), "host_session": b"", "host": b""}
        ReasonFold(cache).folds[TasksPlaced](RecordContext("", 1, 1, 1, 1, "placement", 1), TasksPlaced(**names))
    assert len(read) == 1


def test_who_is_admitted_stands_as_its_rank_says(cell, tmp_path):
    rows = [row for row in RANKS if row.written is not None]
    cell.host()
    cell.accept("a", instances=len(rows))
    cell.decide("entitlement", *(admitted("a", (at,), entitled=row.written) for at, row in enumerate(rows)))
    entitled = sum(row.entitled for row in rows)
    assert waiting(fold(cell, tmp_path), "a") == {ENTITLED: entitled, BORROWED: len(rows) - entitled}


def test_who_is_admitted_and_given_back_stands_where_entitlement_last_said(cell, tmp_path):
    cell.host()
    cell.accept("a", instances=4)
    assert waiting(fold(cell, tmp_path), "a") == {0: 4}, "nobody has said anything"
    cell.decide("entitlement", admitted("a", (0, 1)), admitted("a", (2,), entitled=0))
    assert waiting(fold(cell, tmp_path), "a") == {0: 1, ENTITLED: 2, BORROWED: 1}
    cell.decide("entitlement", ranked("a", (0, 3), entitled=0))
    assert waiting(fold(cell, tmp_path), "a") == {0: 1, ENTITLED: 1, BORROWED: 2}, "nobody had admitted 3"
    cell.decide("entitlement", held("a", (0,), "BACKOFF"), held("a", (1,), "LIMIT_REACHED", run=2))
    assert waiting(fold(cell, tmp_path), "a") == {0: 1, ENTITLED: 1, BORROWED: 1, 1: 1}, "1 is at its first run"
    cell.run("a", (1,))
    cell.decide("lifecycle", ended("a", (1,), Outcome.FAILED, kept=1), queued("a", (1,), 2, admitted=1))
    assert waiting(fold(cell, tmp_path), "a")[ENTITLED] == 1, "it keeps its admission"
    cell.run("a", (1,), run=2)
    cell.decide("lifecycle", ended("a", (1,), Outcome.LOST, run=2), queued("a", (1,), 3))
    assert waiting(fold(cell, tmp_path), "a") == {0: 2, BORROWED: 1, 1: 1}
    cell.decide("lifecycle", ended("a", (0, 1, 2, 3), Outcome.STOPPED))
    cell.changed("KILLED")
    found = fold(cell, tmp_path)
    assert (found["waiting"], found["holds"]) == ([], [])


def waiting(found: dict[str, list], job_id: str) -> dict[int, int]:
    """How many tasks of a job wait, by their standing."""
    return {row["standing"]: row["tasks"] for row in found["waiting"] if row["job_id"] == job_id}


def since(found: dict[str, list], slot: int) -> int:
    """The second since when a task is as it is."""
    return int(unpack(found["task_blocks"][0]["data"], len(TASK_COLUMNS))[TASK_COLUMNS.index("since_s"), slot])


def test_an_order_names_winner_and_victims_until_it_is_answered(cell, tmp_path):
    cell.host()
    cell.accept("v", instances=3)
    cell.accept("w", pool="/q")
    cell.run("v", (0, 1, 2))
    cell.decide("entitlement", preempted(4, {"v": (0, 2)}, "w"))
    found = fold(cell, tmp_path)
    order = found["orders"][0]
    assert (order["for_job"], order["victims"], order["from_jobs"], order["answer"]) == ("w", 2, '{"v":2}', "")
    assert [(row["job_id"], row["number"], row["tasks"]) for row in found["victims"]] == [("v", 4, 2)]
    told = {row["job_id"]: row["said"] for row in found["history"] if row["event"] == "PreemptionsOrdered"}
    assert (told["v"]["for_job"], told["w"]["from_jobs"]) == ("w", {"v": 2})
    cell.ms += 5
    answer = PreemptionAnswered(number=4, order=Cause(machine="entitlement", round=2), code="LEFT", victims=2,
                                job_ids=(), job=b"", instance=b"", run=b"")  # fmt: skip
    cell.decide("lifecycle", answer)
    order = fold(cell, tmp_path)["orders"][0]
    assert (order["answer"], order["answered_ms"]) == ("LEFT", cell.ms)


def test_hosts_reserved_and_turns_are_there_until_they_are_over(cell, tmp_path):
    cell.accept("a", instances=2)
    unit = {"job_id": "a", "first": 0, "count": 2, "run": 1}
    reserved = {**unit, "host_ids": ("h1", "h2"), "tasks": pack_ints([1, 1]), "until_ms": cell.ms + 9}
    cell.decide("placement", HostsReserved(**reserved, kept={"cpu": 500}, state="RESERVED"))
    started = cell.ms
    cell.ms += 3
    cell.decide("placement", HostsReserved(**reserved, kept={"cpu": 900}, state="RESERVED"))
    names, one = ("cpu",), pack_longs([700])
    saved = CreditsSet(pools=("/p",), resources=names, credit=one, rate=pack_longs([7]), full=pack_longs([900]))
    cell.decide("entitlement", TurnSet(**unit, pool="/p", floor=CORE, state="STARTED"), saved)
    found = fold(cell, tmp_path)
    assert [(row["kept"], row["since_ms"]) for row in found["reservations"]] == [('{"cpu":900}', started)]
    assert [(row["pool"], row["job_id"], row["count"]) for row in found["turns"]] == [("/p", "a", 2)]
    assert [(row["credit"], row["full"]) for row in found["credits"]] == [('{"cpu":700}', '{"cpu":900}')]
    cell.decide("placement", HostsReserved(**reserved, kept={}, state="IN_VAIN"))
    none = CreditsSet(pools=("/p",), resources=names, credit=one, rate=one, full=pack_longs([0]))
    cell.decide("entitlement", TurnSet(**unit, pool="/p", floor={}, state="SLICE_USED"), none)
    found = fold(cell, tmp_path)
    assert found["reservations"] == found["turns"] == found["credits"] == []


def test_a_gang_without_a_place_keeps_its_numbers_when_it_is_returned(cell, tmp_path):
    cell.accept("a", instances=2)
    cell.decide("placement", unplaced("a", tasks=2, hosts_considered=4, hosts_by_reason={"cpu": 4}))
    cell.decide("placement", GangsReturned(**ranges("a", (0, 1)), gang=pack_ints([0, 0]), code="NO_HOST_FITS"))
    row = fold(cell, tmp_path)["explanations"][0]
    assert '"hosts_considered":4' in row["numbers"]
    cell.decide("placement", placed("a", (0, 1), 1, "h1"))
    assert fold(cell, tmp_path)["explanations"][0]["tasks"] == 0


def test_poison_and_strangers_are_in_quarantine(cell, tmp_path):
    cell.put("paceline.jobs", b"garbage")
    cell.put("paceline.jobs", encode(HostBack(host_id="h", session=1)))
    cell.put("paceline.lifecycle", b"\xc3\x01")
    claim = cell.log.topic("paceline.lifecycle").records[0]
    cell.put("paceline.lifecycle", claim.value, claim.key)
    cell.accept("a")
    found = fold(cell, tmp_path)
    assert [(row["topic"], row["reason"]) for row in found["quarantine"]] == [
        ("paceline.jobs", "NOT_AVRO"),
        ("paceline.jobs", "WRONG_TOPIC"),
        ("paceline.lifecycle", "NO_KEY"),
        ("paceline.lifecycle", "OLD_EPOCH"),
    ]
    assert found["jobs"][0]["state"] == "PENDING"


def test_reasons_of_hosts_are_kept_and_torn_columns_are_not(cell, tmp_path):
    fields = runs("a", (0, 1))
    both = pack_ints([4, 4])
    cell.fact(RunsReported(gateway="g", host_ids=("h",), **fields, host=pack_ints([0, 0]), state=both, exit_code=both,
                           reasons=("no such program",), reason=pack_ints([0, 1])))  # fmt: skip
    cell.fact(RunsReported(gateway="g", host_ids=("h",), **fields, host=pack_ints([0, 0]), state=both, exit_code=both,
                           reasons=("torn",), reason=pack_ints([1])))  # fmt: skip
    rows = fold(cell, tmp_path)["run_reports"]
    assert [(row["instance"], row["reason"]) for row in rows] == [(1, "no such program")]


def test_a_run_that_was_told_to_end_keeps_the_code_with_which_it_did(cell, tmp_path):
    cell.fact(RunsReported(gateway="g", host_ids=("h",), **runs("a", (0, 1, 2)), host=pack_ints([0] * 3),
                           state=pack_ints([3, 2, 1]), exit_code=pack_ints([0, 7, 0])))  # fmt: skip
    rows = fold(cell, tmp_path)["run_reports"]
    assert [(row["instance"], row["exit_code"]) for row in rows] == [(0, 0)]


def test_the_projector_goes_on_where_its_rows_stand(cell, tmp_path):
    cell.host()
    cell.accept("a", instances=2)
    first = Projector(cell.log, tmp_path)
    while first.step():
        pass
    first.close()
    cell.run("a", (0, 1))
    cell.accept("b", instances=600)
    second = Projector(cell.log, tmp_path)
    while second.step():
        pass
    assert dump(second.views.engine) == dump(rebuild(cell.log, tmp_path / "again"))


def test_what_was_read_is_folded_though_nobody_says_where_the_log_ends(cell, tmp_path, monkeypatch):
    def away(reader):
        raise LogUnavailable("no answer")

    live = Projector(cell.log, tmp_path)
    cell.accept("a")
    with monkeypatch.context() as broken:
        broken.setattr(MemoryReader, "ends", away)
        live.step()
    cell.accept("b")
    while live.step():
        pass
    assert dump(live.views.engine) == dump(rebuild(cell.log, tmp_path / "again"))


def test_views_of_another_format_are_made_anew(cell, tmp_path, monkeypatch):
    cell.accept("a")
    fold(cell, tmp_path)
    monkeypatch.setattr("projections.views.tables.FORMAT", "other")
    assert dump(open_engine(tmp_path / "views.sqlite"))["jobs"] == []


def test_missing_records_stop_the_views(cell, tmp_path):
    cell.accept("a")
    cell.log.truncate("paceline.jobs", 1)
    with pytest.raises(LogGap):
        rebuild(cell.log, tmp_path / "again")


def test_views_of_another_cell_are_refused_and_stay_as_they_are(cell, tmp_path):
    cell.accept("a")
    before = dump(rebuild(cell.log, tmp_path))
    other = Cell()
    other.accept("b")
    other.accept("c")
    live = Projector(other.log, tmp_path)
    with pytest.raises(LogFault, match=r"views\.sqlite are of another log: round 1 of lifecycle"):
        live.step()
    assert dump(live.views.engine) == before


def test_few_blocks_in_memory_give_the_same_rows(cell, tmp_path, monkeypatch):
    cell.host()
    for number in range(8):
        cell.accept(f"j{number}", instances=700)
    for number in (0, 7, 3, 0, 5):
        cell.decide("lifecycle", ordered(f"j{number}", (0, 600), 1, "h1"))
    whole = dump(rebuild(cell.log, tmp_path / "again"))
    monkeypatch.setattr(module, "RECORDS", 1)
    few = Projector(cell.log, tmp_path)
    few._cache.tasks._frames_max = 2
    while few.step():
        pass
    assert dump(few.views.engine) == whole


@examples(25)
@given(seed=st.integers(0, 1 << 32), batches=st.lists(st.integers(3, 60), min_size=1, max_size=5))
def test_rebuilt_is_live_whatever_the_batches(tmp_path_factory, seed, batches):
    folder = tmp_path_factory.mktemp("views")
    (folder / "again").mkdir()
    cell = LogSummary(seed, slow=True).cell
    rows = []
    for name in ("live", "again"):
        draw = random.Random(seed + len(rows))
        (folder / name).mkdir(exist_ok=True)
        engine = open_engine(folder / name / "views.sqlite")
        follower = Projector(cell.log, engine)
        with pytest.MonkeyPatch.context() as patch:
            while True:
                patch.setattr(module, "RECORDS", draw.choice(batches) if name == "live" else 5000)
                if not follower.step():
                    break
                if name == "live" and draw.random() < 0.1:
                    follower._transaction.connection.rollback()  # as it is undone where the process is gone
                    follower = Projector(cell.log, engine)
        rows.append(dump(engine))
        follower.close()
    assert rows[0] == rows[1]


def test_rows_wait_for_others_unless_somebody_waits_for_them(cell, tmp_path):
    live = Projector(cell.log, tmp_path, pace_ms=3_600_000)
    live.step()  # the first are written at once
    at = cell.submit("a")
    while live.step():
        pass
    assert (live.positions()["paceline.jobs"], live.wait_ms()) != (at + 1, None)
    live.views.awaited += 1
    live.step()
    assert live.positions()["paceline.jobs"] == at + 1
    assert [row[0] for row in dump(live.views.engine)["jobs"]] == ["a"]
    live.views.awaited -= 1
    cell.submit("b")
    live.step()
    live.close()
    assert len(dump(open_engine(tmp_path / "views.sqlite"))["jobs"]) == 2, "nor are they lost with the process"
