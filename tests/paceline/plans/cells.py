"""A cell in virtual time whose jobs are planned before they are submitted."""

import time
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from events.codec import decode, encode
from events.log.memory import MemoryLog
from events.log.port import NewRecord
from events.process.clock import SimulatedClock
from events.records.base import Event
from events.records.hosts import HostPoolAssigned, HostPoolDefined, HostPoolMoveRequested, HostsDrainRequested
from events.records.jobs import JobSubmitted
from events.records.parts import Simulated
from events.records.pools import PoolDefined, RebalanceRequested
from events.records.rounds import RoundCommitted
from events.rounds import decode_decisions
from events.topics import ALL, MACHINES
from hostagent.fleet import Fleet, SimHost
from paceline.client.host_models import HostPoolMovePlan, HostPoolPlan
from paceline.client.maintenance_models import DrainPlan
from paceline.client.plan_models import JobPlan, RebalancePlan
from paceline.client.pool_models import CellPlan
from paceline.plans.branch import branch_log
from paceline.plans.drain_plan import plan_drain
from paceline.plans.follower import restored, starts_of
from paceline.plans.host_pool_plan import plan_change
from paceline.plans.move_plan import plan_move
from paceline.plans.planning import Copy, plan_jobs
from paceline.plans.pool_plan import plan_pools
from paceline.plans.rebalance_plan import plan_rebalance
from paceline.plans.serve import copy_views
from paceline.simulate.world.cell import Cell, SimLog, VirtualClock
from processors.cell_machines import machines
from processors.runtime.store import MemoryStore
from projections.queries import entities
from projections.queries.pool_plans import cell_plan
from projections.views import tables
from projections.views.projector import Projector

WALL_S = 120.0
LONG_MS = 1_000_000_000
OF_THE_TIME = ("since", "round", "order", "until", "not_before")
"""What of a reason tells when it was given; the message may quote it."""


class PlannedCell:
    """`hosts` are simulated ones. Time passes when `run` is called."""

    def __init__(self, folder: Path, hosts: Sequence[SimHost]) -> None:
        folder.mkdir(exist_ok=True)
        self.clock = VirtualClock()
        self.log = SimLog(MemoryLog(self.clock.monotonic_ms), self.clock)
        self.stores = {name: MemoryStore() for name in MACHINES}
        stores = {name: partial(_same, store) for name, store in self.stores.items()}
        self.cell = Cell(self.log, self.clock, stores)
        self.cell.add_fleet("hosts", lambda gateway: Fleet(gateway, hosts, self.clock, 1, heartbeat_ms=None))
        self._folder, self._number = folder, 0
        self._projector = Projector(self.log, folder)
        self.run(1000)

    def append(self, *facts: Event) -> int:
        """Facts of users; the offset of the last."""
        return self.log.append([NewRecord(fact.topic, b"user", encode(fact)) for fact in facts])[-1]

    def run(self, ms: int) -> None:
        """Lets time pass."""
        end = self.clock.ms + ms
        while True:
            self.cell.run_until_quiet()
            at_ms = self.cell.next_ms()
            if at_ms is None or at_ms > end:
                self.clock.ms = end
                self.cell.run_until_quiet()
                return
            self.clock.ms = max(self.clock.ms, at_ms)

    def submit(self, job_id: str, pool: str, **spec: Any) -> int:
        """Submits a job that runs for long."""
        return self.append(job(job_id, pool, **spec))

    def plan(self, *facts: Event, job_id: str) -> JobPlan:
        """The plan of facts about a job, made on copies of everything."""
        return self.plan_jobs({job_id: facts})[0]

    def plan_jobs(self, jobs: Mapping[str, Sequence[Event]]) -> list[JobPlan]:
        """The plans of several jobs together."""
        copy, ends = self.copy(), self.ends()
        plans = plan_jobs(copy, jobs, time.monotonic() + WALL_S)
        copy.views.dispose()
        assert self.ends() == ends
        return plans

    def plan_pools(self, *pools: PoolDefined) -> CellPlan:
        """The plan of a change of pools, made on copies of everything."""
        ends, outlooks = self.ends(), []
        for change in ((), pools):
            copy = self.copy()
            outlooks.append(plan_pools(copy, change, time.monotonic() + WALL_S))
            copy.views.dispose()
        assert self.ends() == ends
        return cell_plan(0, *outlooks)

    def plan_drain(self, *host_ids: str, **fields: Any) -> DrainPlan:
        """The plan of a drain of hosts, made on copies of everything."""
        copy, ends = self.copy(), self.ends()
        fact = HostsDrainRequested(host_ids=host_ids, command_id="plan", **fields)
        plan = plan_drain(copy, fact, time.monotonic() + WALL_S)
        copy.views.dispose()
        assert self.ends() == ends
        return plan

    def plan_move(self, fact: HostPoolMoveRequested) -> HostPoolMovePlan:
        """The plan of a move between host pools, made on copies of everything."""
        copy, ends = self.copy(), self.ends()
        plan = plan_move(copy, fact, time.monotonic() + WALL_S)
        copy.views.dispose()
        assert self.ends() == ends
        return plan

    def plan_host_pools(self, fact: HostPoolDefined | HostPoolAssigned) -> HostPoolPlan:
        """The plan of a change of host pools, made on copies of everything."""
        copy, ends = self.copy(), self.ends()
        plan = plan_change(copy, fact, time.monotonic() + WALL_S)
        copy.views.dispose()
        assert self.ends() == ends
        return plan

    def plan_rebalance(self, job_id: str) -> RebalancePlan:
        """The plan of room for a job, made on copies of everything."""
        copy, ends = self.copy(), self.ends()
        plan = plan_rebalance(copy, RebalanceRequested(job_id=job_id, command_id="plan"), time.monotonic() + WALL_S)
        copy.views.dispose()
        assert self.ends() == ends
        return plan

    def ends(self) -> dict[str, int]:
        """The ends of all topics."""
        return self.log.ends([topic.name for topic in ALL])

    def copy(self) -> Copy:
        """Copies of the machines, the views and the end of the log."""
        self._projector.fold_whole()
        self._number += 1
        views = self._folder / f"plan-{self._number}.sqlite"
        folded, ends = copy_views(self._folder / "views.sqlite", views), self.ends()
        folds = {name: restored(make(), self.log, self.stores[name].copy()) for name, make in machines().items()}
        starts = {topic: min(at, folded.get(topic, 0)) for topic, at in starts_of(folds.values(), ends).items()}
        clock = SimulatedClock(self.clock.ms)
        return Copy(branch_log(self.log, starts, ends, clock), folds, tables.open_engine(views), clock)

    def decisions(self, starts: Mapping[str, int]) -> Iterator[Event]:
        """The decisions of rounds from those offsets on."""
        for topic, start in starts.items():
            for record in self.log.scan(topic, start):
                event = decode(record.value)
                if isinstance(event, RoundCommitted):
                    yield from decode_decisions(event)

    def outcome(self, job_id: str) -> dict[str, Any]:
        """What has become of a job, in the words of a plan: placed, waiting, reasons."""
        self._projector.fold_whole()
        with self._projector.views.read() as connection:
            row = entities.job_row(connection, job_id)
            if row is None:
                return {}
            return {
                "placed": row.ordered + row.running,
                "waiting": row.queued + row.backoff,
                "reasons": [timeless(each) for each in entities.explanation(connection, row)["reasons"]],
                "state": row.state,
            }

    def explained(self, job_id: str) -> Sequence[Mapping[str, Any]]:
        """The reasons for which a job waits."""
        self._projector.fold_whole()
        with self._projector.views.read() as connection:
            row = entities.job_row(connection, job_id)
            assert row is not None
            return entities.explanation(connection, row)["reasons"]

    def close(self) -> None:
        """Gives back the views."""
        self._projector.close()


def job(job_id: str, pool: str, **spec: Any) -> JobSubmitted:
    """A job whose tasks run for long, unless it says something else."""
    spec.setdefault("simulated", Simulated(duration_ms=LONG_MS))
    return JobSubmitted(job_id=job_id, pool=pool, command=("x",), **spec)


def timeless(reason: Mapping[str, Any]) -> dict[str, Any]:
    """A reason without what tells when it was given."""
    return {name: value for name, value in reason.items() if name not in (*OF_THE_TIME, "message", "change")}


def _same(store: MemoryStore) -> MemoryStore:
    return store
