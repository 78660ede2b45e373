"""The part of placement in sharing: rights, plans, reservations, and the memory of those that left."""

from collections.abc import Collection, Iterator, Sequence
from typing import Any

from events.records.base import Event
from events.records.entitlement import (
    PreemptionRefused,
    PreemptionsOrdered,
)
from events.records.lifecycle import InstancesChanged, JobChanged, PreemptionAnswered, RunsEnded
from events.records.placement import (
    HostLost,
    HostRemoved,
    HostsReserved,
    PreemptionAsked,
)
from events.records.rounds import TimerPassed
from processors.placement.assignment import Assignment
from processors.placement.hosts import Hosts
from processors.placement.rights import Rights
from processors.placement.room.kept import Holding, Holds, KeptRoom
from processors.placement.room.planner import Planner, Seen
from processors.placement.room.plans import REASON, Plans
from processors.placement.room.reservations import Reservations
from processors.placement.room.reserved_hosts import ReservedHosts, said
from processors.placement.room.table import RoomTable, Task
from processors.placement.room.victims import Victims
from processors.placement.runs import Runs
from processors.state.budget import Budget
from processors.state.causes import CauseRow, CurrentInput
from processors.state.cell_settings import CellSettings
from processors.state.deadlines import earliest
from processors.state.displacements import Displacements
from processors.state.table import Table


class Sharing:
    """Hears records after runs and hosts have."""

    def __init__(self, runs: Runs, hosts: Hosts, settings: CellSettings, current: CurrentInput) -> None:
        self._runs = runs
        self._hosts = hosts
        self._settings = settings
        self.room = RoomTable(runs)
        self.plans = Plans(self.room, runs, settings, current)
        self.rights = Rights(hosts, current, self.plans.planned)
        self.reservations = Reservations(self.room, runs, hosts, settings)
        self.displaced = Displacements()
        self._holds = Holds(hosts, runs, self.room)
        self.room.on_change = self._room_changed

    @property
    def tables(self) -> Sequence[Table[Any, Any]]:
        """Implements `Machine.tables`, its part."""
        return (
            self.rights.table,
            self.rights.givers,
            self.room.table,
            self.room.over,
            self.plans.orders,
            self.plans.barred,
            self.reservations.paused_units,
            self.reservations.paused_hosts,
            self.displaced.table,
        )

    def restored(self) -> None:
        """Implements `Machine.restored`, its part."""
        self.room.restored()
        self.plans.restored()
        self.rights.restored()
        self.reservations.restored()
        self.displaced.restored()
        self._holds.restored()

    # What is decided.

    def ends(self, now: int, budget: Budget, last_by: CauseRow | None) -> Iterator[HostsReserved]:
        """Says which reservations are over; `now` is 0 where time doesn't count."""
        for task, row, state in self.reservations.due(now):
            if budget.holds(len(row.hosts)):
                budget.spend(len(row.hosts))
                yield said(task, row, state, {}, last_by)

    def expired_ms(self, now: int) -> int | None:
        """The first time of plans and homes that is over now and comes before rights that are due."""
        first, right = self._kept_until_ms(), self.rights.tries.first()
        return first if first is not None and first <= now and (right is None or first <= right) else None

    def _kept_until_ms(self) -> int | None:
        return earliest(self.plans.next_ms(), self._runs.homes.next_ms())

    def may_ask(self, slot: int, now: int) -> bool:
        """Whether a parked unit may ask for a place now, by the slot of its first task."""
        job_id = self._runs.waits.job_of(slot)
        task = (job_id, slot - self._runs.jobs[job_id].base)
        run = int(self._runs.arena["waiting"][slot])
        return not self.plans.has(task) and not self.plans.why_barred(task, run, now)

    def holds(self) -> Holding:
        """The room held for units."""
        return self._holds.all()

    def decide(
        self,
        assignment: Assignment,
        holds: Holding,
        room: KeptRoom,
        now: int,
        budget: Budget,
        last_by: CauseRow | None,
    ) -> tuple[list[Event], int]:
        """Asks and reservations, and up to when all was looked at; to be asked when nothing found a place."""
        settings = self._settings.now
        victims = Victims(self._runs, self._hosts, self.plans, self.displaced, settings, now)
        seen = Seen(self._runs, self._hosts, assignment.view, holds, room, victims, now)
        planner = Planner(seen, self.rights, self.plans, budget)
        out: list[Event] = [*planner.asks()]
        reserved = ReservedHosts(seen, self.reservations, self.plans, budget)
        out += reserved.kept(last_by)
        if not out and not budget.cut:
            new = reserved.new(assignment, settings.reserve_for_ms, last_by)
            out += [new] if new else []
        return out, planner.tried_ms

    # What is said.

    def _room_changed(self, task: Task, reason: str) -> None:
        if reason == REASON:
            self.rights.plan_changed(*task)
        self._holds.changed(task)

    def asked(self, event: PreemptionAsked, now: int) -> None:
        """A plan was made."""
        self.reservations.withdraw((event.job_id, event.first))
        self.plans.asked(event, now)

    def ordered(self, event: PreemptionsOrdered, now: int) -> None:
        """Runs must leave."""
        self.plans.ordered(event, now)
        self.displaced.ordered(event)

    def refused(self, event: PreemptionRefused, now: int) -> None:
        """They need not."""
        self.rights.again(self.plans.refused(event, now), now)

    def answered(self, event: PreemptionAnswered, now: int) -> None:
        """They have left, or stay."""
        self.displaced.answered(event, now, self._settings.now.defer_for_ms)
        self.rights.again(self.plans.answered(event), now)

    def lost(self, event: HostLost, now: int) -> None:
        """A host is given up."""
        self.closed([event.host_id], now)

    def closed(self, host_ids: Collection[str], now: int) -> None:
        """Hosts take no new tasks any more: what is kept there for units is given back."""
        hosts = set(host_ids)
        self.rights.again(self.plans.lost(hosts), now)
        self.reservations.lost(hosts)

    def removed(self, event: HostRemoved, now: int) -> None:
        """A host is forgotten."""
        self.rights.again(self.plans.lost({event.host_id}), now)
        self.reservations.removed(event.host_id)

    def settle(self, event: Any, now: int) -> None:
        """Units of these jobs may have places, or wait no more."""
        self.plans.settle(event)
        self.reservations.settle(event, now)

    def ended(self, event: RunsEnded, now: int) -> None:
        """Runs are over."""
        self.displaced.ended(event, now)
        self.settle(event, now)

    def job_changed(self, event: JobChanged, now: int) -> None:
        """A job may be over."""
        self.settle(event, now)
        if event.job_id not in self._runs.jobs:
            self.displaced.dropped(event.job_id)

    def instances_changed(self, event: InstancesChanged, now: int) -> None:
        """A job has other instances."""
        self.settle(event, now)
        self.displaced.instances_changed(event)

    def passed(self, event: TimerPassed, now: int) -> None:
        """A deadline of placement has passed."""
        self.displaced.expire(now)
        self.rights.passed(event.due_ms, now)
        self.rights.again(self.plans.passed(event.due_ms), now)
        self._runs.homes.passed(event.due_ms)
