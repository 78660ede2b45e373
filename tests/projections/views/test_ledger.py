"""What tasks waited for, and what became of their running, against a twin that goes task by task."""

import random
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace
from sqlalchemy import select

from events.codec import decode
from events.codes import Code, Counts, Outcome, TaskState
from events.columns import pack_ints
from events.records.lifecycle import JobHeld, RunsAvailable, RunsEnded
from events.records.placement import GangsReturned
from paceline.client.waits_models import JobLedger, WaitLedger
from projections.queries.waits import job_ledger, pool_waits
from projections.views import ledger, tables
from projections.views.ledger import LOST
from projections.views.ledger_rows import WEEK_MS, begin_of, week_of
from projections.views.projector import Projector, rebuild
from projections.views.rows import JobRow
from tests.helpers.drawn import examples
from tests.helpers.written_cell import Cell, admitted, dump, ended, gangs, held, ordered, placed, runs, unplaced
from tests.projections.views.test_agreement import SHOWN, World

S = 1000
TABLES = ("jobs", "job_waits", "week_waits", "week_owners", "tallies", "unread", "series")
LIFECYCLE = "paceline.lifecycle"
WAITS = {TaskState.ORDERED: Code.STARTING, TaskState.NONE: Code.NOT_YET_EVALUATED}
LOSSES = {
    Outcome.PREEMPTED: LOST[1],
    Outcome.REVOKED: LOST[1],
    Outcome.RELOCATED: LOST[1],
    Outcome.LOST: LOST[2],
    Outcome.FAILED: LOST[3],
}


class Twin(World):
    """What lifecycle itself holds of each task, millisecond by millisecond, and what the others said of it."""

    def __init__(self, seed: int) -> None:
        self.codes: dict[tuple[str, int], str] = {}
        self.ran: dict[tuple[str, int], Counter[int]] = {}
        self.last_loss: dict[str, str] = {}
        self.jobs_ms: dict[str, Counter[str]] = defaultdict(Counter)
        self.weeks_ms: dict[int, Counter[str]] = defaultdict(Counter)
        self.read_to = 0
        super().__init__(seed)

    def step(self) -> None:
        self.quiet()
        self.look()
        self.pass_ms(self.random.choice([0, 1, 600, 2500, 2500, 90 * S, WEEK_MS * 9 // 7]))
        self.random.choice([self.submit, self.place, self.place, self.report, self.report, self.preempt,
                            self.lose, self.stop, self.act, self.hold_back, self.hold_back])()  # fmt: skip

    def place(self) -> None:
        if found := self.some(TaskState.QUEUED):
            job_id, instances, run = found
            self.cell.decide("entitlement", admitted(job_id, instances, run))
            self.codes.update(((job_id, at), "") for at in instances)
            self.cell.decide("placement", placed(job_id, instances, run, f"h{self.random.randrange(3)}"))

    def hold_back(self) -> None:
        """Entitlement says why tasks wait, or admits them."""
        if found := self.some(TaskState.QUEUED):
            job_id, instances, run = found
            code = self.random.choice(["", "LIMIT_REACHED", "ENTITLEMENT_REACHED"])
            said = held(job_id, instances, code, run) if code else admitted(job_id, instances, run)
            self.cell.decide("entitlement", said)
            self.codes.update(((job_id, at), code) for at in instances)

    def look(self) -> None:
        """What was decided since: a run that has ended, if only its wait, waits for nothing that was said of it."""
        for record in self.cell.log.reader({LIFECYCLE: self.read_to}).poll(1000, 0):
            self.read_to = record.offset + 1
            for decision in map(decode, getattr(decode(record.value), "decisions", ())):
                if isinstance(decision, RunsEnded):
                    self.ended(decision)
                    columns = (decision.job_array.tolist(), decision.instance_array.tolist())
                    for job, instance in zip(*columns, strict=True):
                        self.codes.pop((decision.job_ids[job], instance), None)

    def ended(self, event: RunsEnded) -> None:
        columns = (event.job_array, event.instance_array, event.outcome_array, event.counts_as_array)
        rows = list(zip(*(column.tolist() for column in columns), strict=True))
        for job, _, outcome, counts_as in rows:
            if outcome in LOSSES:
                is_host = outcome == Outcome.FAILED and counts_as == Counts.HOST
                self.last_loss[event.job_ids[job]] = LOST[2] if is_host else LOSSES[Outcome(outcome)]
        for job, instance, outcome, counts_as in rows:
            job_id = event.job_ids[job]
            loss = LOSSES.get(Outcome(outcome)) if outcome else None
            if outcome == Outcome.FAILED and counts_as == Counts.HOST:
                loss = LOST[2]
            if outcome == Outcome.WITH_GANG:
                loss = self.last_loss.get(job_id, LOST[3])
            for week, ms in self.ran.pop((job_id, instance), Counter()).items():
                if loss:
                    self.jobs_ms[job_id][loss] += ms
                    self.weeks_ms[week][loss] += ms

    def states(self) -> dict[tuple[str, int], int]:
        arena, out = self.machine.tasks.arena, {}
        for job_id, row in self.machine.jobs.items():
            states = arena["state"][row.base : row.base + row.instances].tolist()
            out.update({(job_id, at): SHOWN.get(state, state) for at, state in enumerate(states)})
        return out

    def pass_ms(self, ms: int) -> None:
        """Time passes, for each task in what it waits for or does."""
        while ms:
            week = week_of(self.cell.ms)
            part = min(ms, (week + 1) * WEEK_MS + WEEK_MS * 4 // 7 - self.cell.ms)
            for (job_id, at), state in self.states().items():
                for name in self.names(job_id, at, state):
                    self.jobs_ms[job_id][name] += part
                    self.weeks_ms[week][name] += part
                if state in (TaskState.RUNNING, TaskState.STOPPING):
                    self.ran.setdefault((job_id, at), Counter())[week] += part
            self.cell.ms, ms = self.cell.ms + part, ms - part

    def names(self, job_id: str, at: int, state: int) -> list[str]:
        if state in (TaskState.SUCCEEDED, TaskState.FAILED, TaskState.KILLED):
            return []
        if state in (TaskState.RUNNING, TaskState.STOPPING):
            return ["running"]
        if state == TaskState.QUEUED:
            return [self.codes.get((job_id, at)) or Code.NOT_YET_EVALUATED]
        if state == TaskState.BACKOFF:
            row = self.machine.jobs[job_id]
            return [Code.HELD if row.on_hold else Code.MAX_RUNNING if row.max_running else Code.BACKOFF]
        return [WAITS[TaskState(state)]]


def flat(sums) -> dict[str, int]:
    """What isn't 0 of an answer, but for what was kept."""
    running = {name.removesuffix("_ms"): ms for name, ms in sums["running"].items() if name != "kept_ms"}
    assert sums["running"]["kept_ms"] + sum(running.values()) == sums["running_ms"]
    assert sum(each["task_ms"] for each in sums["waiting"]) == sums["waiting_ms"]
    of = {"running": sums["running_ms"], **running, **{each["code"]: each["task_ms"] for each in sums["waiting"]}}
    return {name: ms for name, ms in of.items() if ms}


@examples(40)
@given(seed=st.integers(0, 1 << 32))
def test_the_ledger_is_that_of_a_twin_that_goes_task_by_task(tmp_path_factory, seed):
    twin = Twin(seed)
    follow(twin, tmp_path_factory.mktemp("views"), check)


@examples(40)
@given(seed=st.integers(0, 1 << 32))
def test_machines_that_read_late_change_nothing_in_how_long_tasks_waited_and_ran(tmp_path_factory, seed):
    twin = Twin(seed)
    twin.cell.slow = random.Random(seed)
    follow(twin, tmp_path_factory.mktemp("views"), check_times)


def follow(twin: Twin, folder: Path, check: Callable[[Twin, Projector], None]) -> None:
    """Views that follow the log of a twin are right at any time, and the same when they are made anew."""
    views = Projector(twin.cell.log, folder)
    for at in range(60):
        twin.step()
        if twin.random.random() < 0.3 or at == 59:
            twin.quiet()
            twin.look()
            for machine in ("entitlement", "placement"):  # they have read what lifecycle said
                twin.cell.decide(machine)
            views.fold_whole()
            check(twin, views)
    (folder / "again").mkdir()
    again, live = dump(rebuild(twin.cell.log, folder / "again")), dump(views.views.engine)
    assert {name: again[name] for name in TABLES} == {name: live[name] for name in TABLES}
    views.close()


def ledgers(views: Projector, now_ms: int) -> Iterator[tuple[str, JobLedger]]:
    with views.views.read() as connection:
        for row in connection.execute(tables.jobs.select()):
            job = JobRow(*row)
            yield job.job_id, job_ledger(connection, job, now_ms)


def check(twin: Twin, views: Projector) -> None:
    for job_id, found in ledgers(views, twin.cell.ms):
        assert flat(found) == +twin.jobs_ms[job_id], job_id
    with views.views.read() as connection:
        weeks = pool_waits(connection, "week", 0, twin.cell.ms, "/", None, 10_000)
    expected = [+sums for _, sums in sorted(twin.weeks_ms.items()) if +sums]
    assert [flat(each) for each in weeks["groups"]] == expected
    assert flat(weeks["total"]) == +sum(expected, Counter())


def check_times(twin: Twin, views: Projector) -> None:
    names = {"running", *LOST}
    for job_id, found in ledgers(views, twin.cell.ms):
        sums = twin.jobs_ms[job_id]
        assert found["waiting_ms"] == sum(ms for name, ms in sums.items() if name not in names), job_id
        assert {name: ms for name, ms in flat(found).items() if name in names} == {
            name: ms for name, ms in sums.items() if ms and name in names
        }


class Folded:
    """The views of a cell at its end, which are those that are made anew."""

    def __init__(self, cell: Cell, folder: Path) -> None:
        self.cell = cell
        self.views = Projector(cell.log, folder)
        self.views.fold_whole()
        (folder / "again").mkdir(exist_ok=True)
        assert dump(rebuild(cell.log, folder / "again")) == dump(self.views.views.engine)

    def job(self, job_id: str = "a") -> dict[str, int]:
        return flat(dict(ledgers(self.views, self.cell.ms))[job_id])

    def waits(self, by: str, since_ms: int = 0, pool: str = "/", owner: str | None = None) -> WaitLedger:
        with self.views.views.read() as connection:
            return pool_waits(connection, by, since_ms, self.cell.ms, pool, owner, 100)


@pytest.fixture
def cell() -> Cell:
    return Cell()


def test_tasks_that_come_while_others_wait_for_a_place_wait_for_what_was_said_of_those(cell, tmp_path):
    cell.accept("a", instances=5)
    cell.decide("entitlement", admitted("a", (0, 1, 2)), held("a", (3, 4)))
    cell.decide("placement", unplaced("a", "NO_HOST_FITS", 3))
    cell.ms += 10 * S
    cell.decide("entitlement", admitted("a", (3,)))
    cell.ms += S
    cell.decide("placement", placed("a", (0, 1), 1, "h1"))
    cell.decide("lifecycle", ordered("a", (0, 1), 1, "h1"))
    cell.ms += S
    cell.decide("placement", unplaced("a", "HOST_LIMIT_REACHED", 1))
    cell.ms += S
    assert Folded(cell, tmp_path).job() == {
        "LIMIT_REACHED": 2 * 10 * S + 3 * S,
        "NO_HOST_FITS": 3 * 10 * S + 4 * S + 2 * S + S,
        "HOST_LIMIT_REACHED": S,
        "STARTING": 2 * 2 * S,
    }


def test_a_task_that_was_returned_waits_for_its_only_host_until_it_is_admitted_again(cell, tmp_path):
    cell.accept("a", instances=2)
    cell.decide("entitlement", admitted("a", (0, 1)))
    cell.decide("placement", unplaced("a", "BOUND_HOST_LOST", 1), returned("a", (1,), "BOUND_HOST_LOST"))
    cell.ms += 10 * S
    cell.decide("entitlement", admitted("a", (1,)))
    cell.decide("placement")
    cell.ms += S
    assert Folded(cell, tmp_path).job() == {"BOUND_HOST_LOST": 10 * S, "NOT_YET_EVALUATED": 10 * S + 2 * S}


def test_what_runs_did_is_lost_by_what_ended_them_and_of_a_gang_by_what_ended_the_first(cell, tmp_path):
    cell.host()
    cell.accept("a", instances=6)
    cell.run("a", (0, 1, 2, 3, 4, 5))
    cell.decide("lifecycle", RunsAvailable(**runs("a", (0, 1, 2, 3, 4))))
    cell.ms += 1234
    of_host = replace(ended("a", (3,), Outcome.FAILED, following=TaskState.BACKOFF), counts_as=pack_ints([Counts.HOST]))
    cell.decide(
        "lifecycle",
        ended("a", (0,), Outcome.PREEMPTED),
        ended("a", (1,), Outcome.WITH_GANG),
        ended("a", (2,), Outcome.FAILED),
        of_host,
        ended("a", (4,), Outcome.SUCCEEDED),
        ended("a", (5,), Outcome.LOST),
    )
    assert Folded(cell, tmp_path).job() == {
        "running": 5 * 1234,
        "lost_to_preemption": 2 * 1234,
        "lost_to_failures": 1234,
        "lost_to_hosts": 1234,
        "STARTING": 1234,
    }


def test_a_job_that_is_held_waits_for_that(cell, tmp_path):
    cell.host()
    cell.accept("a", instances=3)
    cell.run("a", (0, 1, 2))
    cell.decide("lifecycle", ended("a", (0, 1), Outcome.FAILED, following=TaskState.BACKOFF))
    cell.ms += S
    cell.decide("lifecycle", JobHeld(job_id="a", held=True))
    cell.ms += 2 * S
    cell.decide("lifecycle", JobHeld(job_id="a", held=False))
    cell.ms += 3 * S
    cell.changed("KILLED")
    cell.ms += 4 * S
    assert Folded(cell, tmp_path).job() == {"BACKOFF": 2 * 4 * S, "HELD": 2 * 2 * S, "STARTING": 6 * S}


def test_weeks_have_what_was_waited_in_them_whenever_that_was_said(cell, tmp_path):
    week = week_of(cell.ms)
    cell.ms = begin_of(week + 1) - 10 * S
    cell.accept("a", instances=2, owner="ann")
    cell.accept("b", pool="/q", owner="bob")
    cell.decide("entitlement", held("a", (0, 1)))
    cell.ms = begin_of(week + 3) + 10 * S
    found = Folded(cell, tmp_path)
    groups = found.waits("week")["groups"]
    assert [each["week"] for each in groups] == ["2023-11-13", "2023-11-20", "2023-11-27", "2023-12-04"][: len(groups)]
    parts = [10 * S, WEEK_MS, WEEK_MS, 10 * S]
    assert [flat(each) for each in groups] == [{"LIMIT_REACHED": 2 * ms, "NOT_YET_EVALUATED": ms} for ms in parts]
    [ann] = found.waits("owner", cell.ms - 11 * S, pool="/p")["groups"]
    assert (ann["owner"], flat(ann)) == ("ann", {"LIMIT_REACHED": 2 * (WEEK_MS + 10 * S)})
    assert flat(found.waits("pool", cell.ms, owner="bob")["total"]) == {"NOT_YET_EVALUATED": 10 * S}


def test_owners_beyond_those_of_a_week_are_counted_together(cell, tmp_path, monkeypatch):
    monkeypatch.setattr(ledger, "OWNERS_MAX", 2)
    for at, owner in enumerate(["ann", "bob", "cid", "dan", "ann"]):
        cell.accept(f"j{at}", owner=owner)
    cell.ms += WEEK_MS
    cell.accept("later", owner="cid")
    cell.ms += S
    found = Folded(cell, tmp_path).waits("owner")["groups"]
    assert [(each["owner"], each["others"]) for each in found] == [
        (None, True), ("ann", False), ("bob", False), ("cid", False),
    ]  # fmt: skip
    assert [each["waiting_ms"] for each in found] == [2 * (WEEK_MS + S)] * 2 + [WEEK_MS + S, S]


def test_the_sums_of_a_job_go_with_it_and_those_of_its_pool_stay(cell, tmp_path):
    cell.accept("a")
    cell.decide("entitlement", held("a", (0,)))
    cell.ms += S
    cell.decide("lifecycle", ended("a", (0,), Outcome.STOPPED))
    cell.changed("KILLED")
    cell.decide("entitlement")
    cell.forget("a")
    found = Folded(cell, tmp_path)
    with found.views.views.read() as connection:
        assert connection.execute(select(tables.job_waits)).all() == []
    assert flat(found.waits("pool")["total"]) == {"LIMIT_REACHED": S}


def returned(job_id: str, instances: tuple[int, ...], code: str) -> GangsReturned:
    return GangsReturned(**gangs(job_id, instances), code=code)
