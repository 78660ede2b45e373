"""The views say of tasks what lifecycle itself holds, whatever happens to them."""

import random

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from events.codes import ENDED_TASKS, LIVE_TASKS, RunReport, TaskState
from events.columns import I32, pack_ints
from events.records.entitlement import PoolAnswered
from events.records.jobs import JobActionRequested, JobPriorityRequested, JobStopRequested
from events.records.placement import HostLost
from events.records.pools import PoolDefined
from events.records.tasks import RunsReported
from paceline.client.cell_models import CellSeries
from processors.lifecycle.machine import Lifecycle
from processors.lifecycle.task_table import GANG_WAIT, PLACED
from processors.runtime.driver import Driver
from processors.runtime.store import MemoryStore
from projections.queries.series import cell_series
from projections.queries.series_points import times_of
from projections.views import tables
from projections.views.blocks import unpack
from projections.views.cache import TASK_COLUMNS
from projections.views.named_tasks import COUNTS
from projections.views.projector import Projector
from projections.views.rows import JobRow
from projections.views.task_series import OPEN
from tests.helpers.drawn import examples
from tests.helpers.written_cell import Cell, placed, runs
from tests.processors.lifecycle.harness import order

SHAPES = (
    {"instances": 3},
    {"instances": 2, "retries": {"max": 2}},
    {"instances": 4, "gang": {"min": 3}, "retries": {"max": 1}},
    {"instances": 2, "kind": "stateless"},
    {"instances": 600, "retries": {"max": 1}},
    {"instances": 3, "retries": {"max": 2}, "on_preempt": "fail", "controller": True},
    {"instances": 4, "gang": {"min": 3}, "retries": {"max": 9}, "on_preempt": "fail"},
    {"instances": 5, "retries": {"max": 1}, "max_running": 2},
    {"instances": 3, "controller": {"on_end": "wait"}, "retries": {"max": 1}},
)
SHOWN = {PLACED: TaskState.QUEUED, GANG_WAIT: TaskState.BACKOFF}


class World:
    """Lifecycle runs for real, the other machines are written by hand."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        self.cell = Cell(machines=("entitlement", "placement", "sla"))
        self.machine = Lifecycle()
        self.driver = Driver(self.machine, self.cell.log, MemoryStore(), self, "test")
        for _ in self.driver.recover():
            pass
        at = self.cell.fact(PoolDefined(path="/p", command_id=f"s{self.cell.ms}"))
        self.cell.decide("entitlement", PoolAnswered(path="/p", pools_offset=at, command_id="c", code="DONE"))
        self.jobs = self.orders = 0
        self.quiet()

    def monotonic_ms(self) -> int:
        return self.cell.ms

    def quiet(self) -> None:
        while self.driver.run():
            pass

    def step(self) -> None:
        self.cell.ms += self.random.choice([0, 600, 2500])
        what = self.random.choice([self.submit, self.place, self.place, self.report, self.report, self.preempt,
                                   self.lose, self.stop, self.act, self.prioritise])  # fmt: skip
        what()
        if self.random.random() < 0.8:
            self.quiet()

    def submit(self) -> None:
        if self.jobs < len(SHAPES):
            self.cell.submit(f"j{self.jobs}", **SHAPES[self.jobs])
            self.jobs += 1

    def some(self, *states: int) -> tuple[str, tuple[int, ...], int] | None:
        """A few tasks of one job that are in these states and at the same run."""
        arena = self.machine.tasks.arena
        for job_id in self.random.sample(sorted(self.machine.jobs), len(self.machine.jobs)):
            row = self.machine.jobs[job_id]
            at = np.flatnonzero(np.isin(arena["state"][row.base : row.base + row.instances], states))
            if len(at):
                run = int(arena["run"][row.base + at[0]])
                same = [each for each in at.tolist() if arena["run"][row.base + each] == run]
                return job_id, tuple(same[: self.random.randint(1, len(same))]), run
        return None

    def place(self) -> None:
        if found := self.some(TaskState.QUEUED):
            job_id, instances, run = found
            self.cell.decide("placement", placed(job_id, instances, run, f"h{self.random.randrange(3)}"))

    def report(self) -> None:
        if found := self.some(*LIVE_TASKS):
            job_id, instances, run = found
            count = len(instances)
            say = self.random.choice([RunReport.STARTED, RunReport.EXITED, RunReport.STOPPED, RunReport.NOT_STARTED])
            self.cell.fact(
                RunsReported(gateway="g", host_ids=("h0",), **runs(job_id, instances, run),
                             host=pack_ints([0] * count), state=pack_ints([say] * count),
                             exit_code=pack_ints([self.random.choice([0, 1])] * count))
            )  # fmt: skip

    def preempt(self) -> None:
        if found := self.some(*LIVE_TASKS, TaskState.QUEUED):
            job_id, instances, run = found
            self.orders += 1
            self.cell.decide("entitlement", order(self.orders, *((job_id, at, run) for at in instances)))

    def lose(self) -> None:
        if self.random.random() < 0.3:
            self.cell.decide("placement", HostLost(host_id="h1", session=1, code="SILENT", silent_ms=60_000))

    def stop(self) -> None:
        if self.jobs and self.random.random() < 0.2:
            self.cell.fact(JobStopRequested(job_id=f"j{self.random.randrange(self.jobs)}", command_id="c"))

    def act(self) -> None:
        job_id, action = f"j{self.random.randrange(len(SHAPES))}", self.random.choice(["start", "hold", "release"])
        self.cell.fact(JobActionRequested(job_id=job_id, command_id=f"a{self.cell.ms}", action=action))

    def prioritise(self) -> None:
        job_id, priority = f"j{self.random.randrange(len(SHAPES))}", self.random.randrange(3)
        self.cell.fact(JobPriorityRequested(job_id=job_id, command_id=f"c{self.cell.ms}", priority=priority))


def check(world: World, views: Projector) -> None:
    arena = world.machine.tasks.arena
    with views.views.read() as connection:
        rows = [JobRow(*values) for values in connection.execute(tables.jobs.select().where(tables.jobs.c.base >= 0))]
        assert all(row.state == world.machine.state_of(row.job_id) for row in rows)
        assert {row.job_id for row in rows if not row.ended_ms} == {*world.machine.jobs}
        blocks = {
            row.block: unpack(row.data, len(TASK_COLUMNS)) for row in connection.execute(tables.task_blocks.select())
        }
        on_hosts = sum(row.runs for row in connection.execute(tables.hosts.select()))
        now = world.cell.ms // 10_000 * 10_000
        series = cell_series(connection, times_of(connection, now, now + 10_000))
    shown = (
        np.concatenate([blocks[number] for number in sorted(blocks)], axis=1)
        if blocks
        else np.zeros((len(TASK_COLUMNS), 0))
    )
    for row in rows:
        own = world.machine.jobs.get(row.job_id)
        if own is None:
            counted = np.bincount(shown[0, row.base : row.base + row.instances], minlength=len(TaskState))
            assert counted[list(ENDED_TASKS)].tolist() == [row.succeeded, row.failed, row.killed]
            continue
        assert (row.priority, row.stopping, row.held_ms > 0) == (own.priority, own.stopping, own.on_hold), row.job_id
        assert row.max_running == own.max_running, row.job_id
        states = [SHOWN.get(state, state) for state in arena["state"][own.base : own.base + own.instances].tolist()]
        assert shown[0, row.base : row.base + row.instances].tolist() == states, row.job_id
        for state, name in COUNTS.items():
            assert getattr(row, name) == states.count(state), (row.job_id, name)
    assert on_hosts == np.isin(shown[0], LIVE_TASKS).sum()
    check_series(series, now, [row for row in rows if not row.ended_ms], shown)


def check_series(series: CellSeries, now_ms: int, jobs: list[JobRow], tasks: I32) -> None:
    """The newest point of a plot is what the rows of tasks count now."""
    open_tasks = [tasks[:, row.base : row.base + row.instances] for row in jobs]
    states = np.concatenate([np.zeros(0, dtype=np.int32), *(each[0] for each in open_tasks)])
    for state in OPEN:
        assert (series["tasks"][state.name.lower()][-1] or 0) == (states == state).sum(), state
    state_s = TASK_COLUMNS.index("state_s")
    queued = [since for each in open_tasks for since in each[state_s][each[0] == TaskState.QUEUED].tolist()]
    assert (series["oldest_wait_ms"][-1] or 0) == (now_ms + 10_000 - min(queued) * 1000 if queued else 0)


@examples(20)
@given(seed=st.integers(0, 1 << 32))
def test_the_views_agree_with_lifecycle(tmp_path_factory, seed):
    world = World(seed)
    views = Projector(world.cell.log, tmp_path_factory.mktemp("views"))
    for _ in range(60):
        world.step()
        if world.random.random() < 0.3:
            world.quiet()
            while views.step():
                pass
            check(world, views)
    views.close()
