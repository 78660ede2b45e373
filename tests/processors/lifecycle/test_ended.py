"""Jobs that have ended: what is still known of them, for how long, and what becomes of their ids."""

import random

from events.codes import JobState, RunReport
from events.columns import ints
from events.id_digests import DIGEST_BYTES, job_digest
from events.records.entitlement import PoolAnswered
from events.records.lifecycle import (
    CommandAnswered,
    GangsQueued,
    HostReconciled,
    JobAccepted,
    JobRejected,
    JobsForgotten,
    RunsEnded,
    RunsOrdered,
    RunsStopping,
)
from events.records.pools import CellConfigured
from processors.lifecycle.ended_jobs import EndedJob, EndedJobs
from processors.state.causes import CauseRow
from processors.state.table import State
from tests.helpers.drawn import seeds
from tests.helpers.machines import of, one, runs_of
from tests.processors.lifecycle.harness import World

A0 = ("a", 0, 1)
ENDED_BY = CauseRow("lifecycle", 1, 0)


def keeps(world: World, **settings: int) -> None:
    world.fact("paceline.pools", CellConfigured(command_id="c", **settings))
    at = world.offsets["paceline.pools"]
    world.peer("entitlement", PoolAnswered(path="/", pools_offset=at, command_id="c", code="DONE"))


def run(world: World, job_id: str, runs: int = 1, first: int = 1) -> None:
    """A job of one task that fails until its last run."""
    world.submit(job_id, retries_max=runs - 1)
    for number in range(first, first + runs):
        world.place((job_id, 0, number))
        world.report(RunReport.EXITED, (job_id, 0, number), exit_code=int(number < first + runs - 1))
    assert world.machine.state_of(job_id) == "SUCCEEDED"


def test_a_job_that_has_ended_leaves_all_tables_but_that_of_ended_jobs() -> None:
    world = World()
    run(world, "a")
    assert not len(world.machine.jobs)
    assert not world.machine.tasks.arena["owner"].any()
    assert len(world.machine.ended) == 1
    world.restart()
    assert world.machine.state_of("a") == "SUCCEEDED"


def test_a_repeat_and_a_late_stop_of_an_ended_job_are_answered_as_before() -> None:
    world = World()
    run(world, "a")
    world.restart()
    assert one(world.submit("a", retries_max=0), CommandAnswered).code == "REPEATED"
    taken = one(world.submit("a", instances=2), JobRejected)
    assert (taken.code, taken.message) == (
        "ID_TAKEN",
        "job a has another specification; `paceline job delete a` forgets it, or choose another id",
    )
    said = one(world.stop("a"), CommandAnswered)
    assert (said.code, said.message) == ("ALREADY_ENDED", "job a is SUCCEEDED")


def test_a_host_that_comes_back_with_a_run_of_an_ended_job_is_told_to_stop_it() -> None:
    world = World()
    world.submit("a")
    world.place(A0)
    world.report(RunReport.STARTED, A0)
    world.stop("a")
    world.report(RunReport.STOPPED, A0)
    said = world.inventory(2, A0)
    assert runs_of(one(said, RunsStopping)) == [A0]
    assert one(said, HostReconciled).stopped == 1


def test_an_id_is_known_for_the_set_time_and_may_then_return_with_a_later_run() -> None:
    world = World()
    keeps(world, forget_after_ms=1000)
    run(world, "a", runs=3)
    assert of(world.later(999), JobsForgotten) == []
    assert one(world.later(1), JobsForgotten).digests == job_digest("a")
    world.restart()
    assert one(world.stop("a"), CommandAnswered).code == "NOT_FOUND"
    said = world.submit("a", instances=5, gang_min=2)
    assert one(said, JobAccepted).first_run == 4
    assert ints(one(said, GangsQueued).run).tolist() == [4, 4]


def test_runs_of_a_returned_id_begin_above_those_of_any_of_its_tasks() -> None:
    world = World()
    keeps(world, forget_after_ms=1000)
    world.submit("a", instances=3, retries_max=1)
    world.place(*(("a", instance, 1) for instance in range(3)))
    for instance in (0, 2):
        world.report(RunReport.EXITED, ("a", instance, 1))
    world.report(RunReport.EXITED, ("a", 1, 1), exit_code=1)
    world.place(("a", 1, 2))
    world.report(RunReport.EXITED, ("a", 1, 2))
    assert world.machine.state_of("a") == "SUCCEEDED"
    one(world.later(1000), JobsForgotten)
    assert one(world.submit("a"), JobAccepted).first_run == 3


def test_reports_and_placements_of_a_forgotten_job_are_void_for_one_that_has_its_id() -> None:
    world = World()
    keeps(world, forget_after_ms=1000)
    run(world, "a", runs=2)
    world.later(1000)
    world.submit("a")
    for old in (1, 2):
        assert world.place(("a", 0, old)) == []
    assert runs_of(one(world.place(("a", 0, 3)), RunsOrdered)) == [("a", 0, 3)]
    for old in (1, 2):
        assert world.report(RunReport.EXITED, ("a", 0, old)) == []
    assert runs_of(one(world.inventory(2, ("a", 0, 2), ("a", 0, 3)), RunsStopping)) == [("a", 0, 2)]
    assert runs_of(one(world.report(RunReport.EXITED, ("a", 0, 3)), RunsEnded)) == [("a", 0, 3)]


def test_retries_of_a_returned_id_count_failures_and_not_runs() -> None:
    world = World()
    keeps(world, forget_after_ms=1000)
    run(world, "a", runs=5)
    world.later(1000)
    run(world, "a", runs=2, first=6)


def test_more_ended_jobs_than_the_bound_are_forgotten_at_once_the_oldest_first() -> None:
    world = World()
    keeps(world, ended_jobs_max=2)
    for name in "abcd":
        run(world, name)
    assert [world.machine.state_of(name) for name in "abcd"] == [None, None, "SUCCEEDED", "SUCCEEDED"]
    world.restart()
    assert [world.machine.state_of(name) for name in "abcd"] == [None, None, "SUCCEEDED", "SUCCEEDED"]


def test_jobs_that_end_close_to_each_other_are_forgotten_by_one_decision() -> None:
    world = World()
    keeps(world, forget_after_ms=100_000)
    for name in "abc":
        run(world, name)
        world.later(500)
    assert len(one(world.later(98_500), JobsForgotten).digests) == 3 * DIGEST_BYTES


def test_forgetting_names_no_job_in_a_record_of_today_and_reads_those_of_old_ones() -> None:
    ended = EndedJobs()
    for name in "abc":
        ended.add(name, EndedJob(bytes(8), 1, 1, JobState.FAILED), ENDED_BY)
    ended.forget(job_digest("b"))
    assert [ended.get(name) is not None for name in "abc"] == [True, False, True]
    ended.forget(job_digest("b") + job_digest("a"))
    assert ended.due(2, 0, 9, 9) == job_digest("c")


@seeds(4, 2)
def test_entries_are_found_as_in_a_dictionary_and_so_are_they_after_a_restart(seed: int) -> None:
    draw = random.Random(seed)
    ended, model, now, highest = EndedJobs(), {}, 0, dict[str, int]()
    state, rows = State([ended.table, ended.floors], []), {}
    for number in range(6000):
        now += draw.choice([0, 1, 5])
        job = EndedJob(
            draw.randbytes(8), now, draw.randrange(1, 9), draw.choice([*map(JobState, ("KILLED", "FAILED"))])
        )
        ended.add(f"j{number}", job, ENDED_BY)
        model[f"j{number}"] = job
        if draw.random() < 0.02:
            oldest = list(model)[: draw.choice([1, 30, 700, 9000])]
            if len(oldest) > 2 and draw.random() < 0.5:  # as in logs of old, out of order
                del oldest[0]
            ended.forget(b"".join(map(job_digest, oldest)))
            highest |= {name: model.pop(name).run for name in oldest}
            for table, key, row in state.take_changes():
                rows[table, key] = row
            copy = EndedJobs()
            for (table, key), row in sorted(rows.items()):
                if row is not None:
                    {"ended": copy.table, "run_floors": copy.floors}[table].load(key, row)
            copy.restored()
            assert (copy._first, copy._next, len(copy)) == (ended._first, ended._next, len(model))
            ended = draw.choice([ended, copy])
            state = State([ended.table, ended.floors], [])
            assert ended.due(now, 0, 10**6, 10**6) == b"".join(map(job_digest, model))
        if number % 50 == 0:
            for name in (f"j{draw.randrange(number + 1)}" for _ in range(20)):
                assert ended.get(name) == model.get(name)
                if name in highest:
                    assert ended.first_run(name) > highest[name]
