"""What leaves the views, and what stays."""

import random

import pytest

from events.codes import Outcome
from events.columns import pack_ints
from events.records.entitlement import PoolAnswered
from events.records.jobs import JobStopRequested
from events.records.lifecycle import CommandAnswered, JobRejected
from events.records.pools import PoolDefined
from events.records.tasks import RunsReported
from projections.views import projector, retention
from projections.views.projector import Projector, rebuild
from projections.views.tables import open_engine
from tests.helpers.written_cell import Cell, admitted, dump, ended, held, ordered, preempted, queued, runs, unplaced

OF_JOBS = (
    "jobs", "submissions", "history", "task_blocks", "port_blocks", "run_reports", "past_runs",
    "explanations", "waiting", "holds", "victims", "reservations",
)  # fmt: skip


@pytest.fixture
def cell() -> Cell:
    cell = Cell()
    cell.host()
    return cell


def rows(cell: Cell, tmp_path) -> dict[str, list]:
    """The rows, live with a restart after each step and rebuilt; of histories those of jobs."""
    engine = open_engine(tmp_path / "views.sqlite")
    while (live := Projector(cell.log, engine)).step():
        live.stop_reading()
    again = tmp_path / str(random.random())
    again.mkdir()
    found = dump(engine)
    assert found == dump(rebuild(cell.log, again))
    found["history"] = [row for row in found["history"] if not row[0].startswith("/")]
    return found


def reported(job_id: str, run: int, host_id: str = "h1") -> RunsReported:
    one = pack_ints([1])
    return RunsReported(gateway="g", host_ids=(host_id,), **runs(job_id, (0,), run), host=pack_ints([0]), state=one,
                        exit_code=one, reason=one, reasons=("it broke",))  # fmt: skip


def life(cell: Cell, job_id: str, first_run: int = 1, **fields: object) -> None:
    """A job with ports whose first run fails, with a reason, and whose second one succeeds."""
    fields = {"ports": ["http"], "retries": {"max": 1}, **fields}
    cell.accept(job_id, first_run=first_run, **fields)
    cell.decide("entitlement", held(job_id, (0,), run=first_run))
    cell.run(job_id, run=first_run)
    cell.decide("placement", unplaced(job_id))
    cell.decide("entitlement", preempted(first_run, {job_id: (0,)}, job_id, run=first_run))
    cell.fact(reported(job_id, first_run))
    cell.decide("lifecycle", ended(job_id, (0,), Outcome.FAILED, run=first_run, kept=1))
    cell.decide("lifecycle", queued(job_id, (0,), first_run + 1, admitted=1))
    cell.decide("lifecycle", ordered(job_id, (0,), first_run + 1, "h1", ports=pack_ints([31000])))
    cell.decide("lifecycle", ended(job_id, (0,), Outcome.SUCCEEDED, run=first_run + 1))
    cell.changed("SUCCEEDED", job_id)


def test_a_job_that_is_forgotten_leaves_all_views_and_its_neighbours_stay(cell, tmp_path):
    for job_id in "abc":
        life(cell, job_id)
    before = rows(cell, tmp_path)
    cell.forget("b")
    left = rows(cell, tmp_path)
    for table in ("jobs", "submissions", "history", "run_reports", "past_runs"):
        assert left[table] == [row for row in before[table] if "b" not in row[:2]], table
    cell.forget("a", "c")
    left = rows(cell, tmp_path)
    assert {table: left[table] for table in OF_JOBS} == {table: [] for table in OF_JOBS}


def test_a_job_of_many_blocks_leaves_none_of_them(cell, tmp_path):
    for job_id, size in (("a", 300), ("big", 3000), ("z", 5)):
        cell.accept(job_id, instances=size)
        cell.changed("KILLED", job_id)
    cell.forget("big")
    assert len(rows(cell, tmp_path)["task_blocks"]) == 2
    cell.forget("a", "z")
    assert rows(cell, tmp_path)["task_blocks"] == []


def test_an_id_that_returns_shows_the_new_job_alone(cell, tmp_path):
    life(cell, "a")
    cell.forget("a")
    life(cell, "a", first_run=3, instances=2)
    left = rows(cell, tmp_path)
    assert [row[:2] + row[6:7] for row in left["jobs"]] == [("a", left["submissions"][0][0], 2)]
    assert {row[2] for row in left["run_reports"]} == {3}
    assert sum("JobAccepted" in row for row in left["history"]) == 1


def test_a_submission_that_waits_while_its_id_is_forgotten_is_shown(cell, tmp_path):
    life(cell, "a")
    lifecycle = cell.writers["lifecycle"].positions
    read = lifecycle["paceline.jobs"]
    at = cell.submit("a", instances=7)
    cell.decide("lifecycle")
    cell.forget("a")
    left = rows(cell, tmp_path)
    assert [(row[2], row[6], "SUBMITTED" in row) for row in left["jobs"]] == [(at, 7, True)]
    assert [row[7] for row in left["history"]] == ["JobSubmitted"]
    assert lifecycle["paceline.jobs"] > read


def test_what_is_said_of_jobs_that_are_no_more_leaves_no_rows(cell, tmp_path):
    life(cell, "a")
    cell.forget("a")
    cell.decide("entitlement", held("a", (0,)), admitted("a", (0,)), preempted(7, {"a": (0,)}, "b"))
    cell.decide("placement", unplaced("a"))
    for job_id in ("a", "typo"):
        cell.fact(reported(job_id, 1))
        at = cell.fact(JobStopRequested(job_id=job_id, command_id="c"))
        cell.decide("lifecycle", CommandAnswered(job_id=job_id, jobs_offset=at, command_id="c", code="NOT_FOUND"))
    left = rows(cell, tmp_path)
    assert {table: left[table] for table in OF_JOBS} == {table: [] for table in OF_JOBS}
    assert [row[2] for row in left["answers"][-2:]] == ["a", "typo"], "the answers are kept a while"


class Unread:
    """A machine that reads nothing more."""

    def randint(self, low: int, high: int) -> int:
        return low


def test_what_a_machine_says_that_has_not_heard_of_the_new_job_is_not_said_of_it(cell, tmp_path):
    life(cell, "a")
    cell.forget("a")
    cell.accept("a", first_run=3)
    before = rows(cell, tmp_path)
    cell.slow = Unread()
    cell.decide("entitlement", held("a", (0,), run=3), admitted("a", (0,), run=3))
    cell.decide("placement", unplaced("a"))
    after = rows(cell, tmp_path)
    same = ("history", "explanations", "waiting", "holds", "task_blocks")
    assert [after[table] for table in same] == [before[table] for table in same]


def test_what_is_admitted_counts_in_the_pool_of_a_job_that_is_forgotten_meanwhile(cell, tmp_path):
    offset = cell.fact(PoolDefined(path="/p", command_id="c"))
    cell.decide("entitlement", PoolAnswered(pools_offset=offset, path="/p", code="DONE", command_id="c"))
    cell.accept("a", instances=3)
    cell.decide("entitlement")
    cell.slow = Unread()
    for instance in range(2):
        cell.changed("KILLED")
        cell.forget("a")
        cell.decide("entitlement", admitted("a", (instance,)))
        [counts] = [(row[0], row[8]) for row in rows(cell, tmp_path)["pools"]]
        assert counts == ("/p", instance + 1)
        cell.accept("a", instances=3, pool="/other")


def test_rejected_jobs_answers_and_rounds_leave_after_a_time(cell, tmp_path, monkeypatch):
    monkeypatch.setattr(retention, "SWEEP_ROUNDS", 1)
    at = cell.submit("wrong")
    cell.decide("lifecycle", JobRejected(job_id="wrong", jobs_offset=at, code="INVALID_SPEC", message="m"))
    life(cell, "lives on")
    cell.ms += retention.KEPT_MS
    cell.decide("lifecycle")
    assert "wrong" in str(rows(cell, tmp_path)["jobs"])
    cell.ms += 1
    cell.decide("lifecycle")
    left = rows(cell, tmp_path)
    assert [row[0] for row in left["jobs"]] == ["lives on"]
    assert "wrong" not in str(left)
    assert [row[1] for row in left["rounds"] if row[0] == "lifecycle"] == [cell.writers["lifecycle"].round - 1,
                                                                          cell.writers["lifecycle"].round]  # fmt: skip


def test_rows_that_leave_in_one_transaction_are_bounded(cell, tmp_path, monkeypatch):
    for number in range(400):
        cell.accept(f"j{number}")
        cell.changed("KILLED", f"j{number}")
    live = Projector(cell.log, tmp_path)
    live.fold_whole()
    for first in range(0, 400, 100):
        cell.forget(*(f"j{number}" for number in range(first, first + 100)))
    monkeypatch.setattr(projector, "DECISIONS_BYTES", 200 * projector.ROW_BYTES)  # fewer rows than 100 jobs have
    left = []
    while live.step():
        left.append(len(dump(live.views.engine)["jobs"]))
    assert left == [300, 200, 100, 0]
    live.close()


def test_the_hundred_newest_runs_of_a_task_are_kept_with_what_hosts_said_of_them(cell, tmp_path):
    cell.accept("a", kind="stateless")
    for run in range(1, 121):
        cell.run("a", run=run)
        cell.fact(reported("a", run))
        cell.decide("lifecycle", ended("a", (0,), Outcome.FAILED, run=run))
        cell.decide("lifecycle", queued("a", (0,), run + 1))
    cell.fact(reported("a", 7))
    cell.fact(reported("a", 21))
    cell.decide("lifecycle")
    left = rows(cell, tmp_path)
    assert [row[2] for row in left["past_runs"]] == [*range(21, 121)]
    assert {row[2] for row in left["run_reports"]} == {*range(21, 121)}


def test_what_another_host_says_of_a_run_is_not_kept(cell, tmp_path):
    cell.host("h1")
    cell.host("h2")
    cell.accept("a", kind="stateless")
    cell.run("a")
    for host_id in ("h2", "nobody", "h1", "h2"):
        cell.fact(reported("a", 1, host_id))
    cell.fact(reported("a", 2, "h2"))
    cell.decide("lifecycle", ended("a", (0,), Outcome.FAILED))
    cell.decide("lifecycle", queued("a", (0,), 2))
    cell.decide("lifecycle", ordered("a", (0,), 2, "h2"))
    cell.fact(reported("a", 1, "h2"))
    cell.fact(reported("a", 1, "h1"))
    cell.fact(reported("a", 2, "h1"))
    cell.fact(reported("a", 2, "h2"))
    cell.decide("lifecycle")
    assert [(row[2], row[4]) for row in rows(cell, tmp_path)["run_reports"]] == [(1, "h1"), (1, "h1"), (2, "h2")]
