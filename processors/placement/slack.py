"""The slack of hosts: what they lend of CPU that is reserved and unused, and which revocable runs end when it falls.

A gateway says in sixteenths of a host's CPU what it lends (HostsLoaded); that is its capacity of `REVOCABLE`. Where
revocable runs hold more for `PATIENCE_MS`, the newest are to end (RevocationAsked): they are idle beside all others by
then, so nobody waits for their CPU. The capacity of the cell is said again once it changed by 1/`STEPS_OF_CELL`, or
after `PATIENCE_MS`.
"""

from collections.abc import Container, Iterator

import msgspec
import numpy as np

from events.arrays.runs_by_host import RunsByHost
from events.bounds import LOAD_STEPS
from events.cell_settings import Settings
from events.columns import I64, Names, indexed
from events.records.hosts import HostOffered, HostsLoaded
from events.records.lifecycle import InstancesChanged, RunsEnded
from events.records.placement import CapacityChanged, RevocationAsked, TasksPlaced
from events.records.rounds import TimerPassed
from events.resources import REVOCABLE
from processors.placement.hosts import Hosts
from processors.placement.rows import LentRow
from processors.placement.runs import Runs
from processors.state.arena import locate
from processors.state.budget import Budget
from processors.state.causes import CauseRow, CurrentInput, recorded
from processors.state.table import Table, struct_table

PATIENCE_MS = 60_000
STEPS_OF_CELL = 64


class LendingRow(msgspec.Struct, frozen=True, array_like=True):
    """The slack of the cell as it was said last, when, and what has changed it since."""

    amount: int = 0
    at_ms: int = 0
    by: CauseRow | None = None
    """The record by which it changed last."""


class Slack:
    """Keeps what hosts lend; decides which runs end."""

    def __init__(self, hosts: Hosts, runs: Runs, current: CurrentInput) -> None:
        self.lending: Table[str, LendingRow] = struct_table("lending", LendingRow)
        self._hosts = hosts
        self._runs = runs
        self._input = current
        self._over: dict[str, int] = {}
        """Hosts that lend less than is held there, or where runs were asked to end, and what was in use there when they
        were looked at.
        """
        self._by_host = RunsByHost(lambda slots: runs.arena["host"][slots] - 1)
        """The revocable runs."""

    def restored(self) -> None:
        """Finds again where too much is held."""
        over = [host_id for host_id, row in self._hosts.lent.items() if row.over_ms or row.ending]
        self._over = {host_id: self._used(host_id) for host_id in over}
        self._by_host.restored(self._revocable(np.flatnonzero(self._runs.arena["host"])))

    # What is said.

    def loaded(self, event: HostsLoaded, now: int, settings: Settings) -> bool:
        """Hosts lend so much from now on; returns whether any lends more than before."""
        columns = zip(event.host_ids, event.host_session_array.tolist(), event.slack_array.tolist(), strict=False)
        rises = changes = False
        for host_id, session, number in columns if settings.slack else ():
            row = self._hosts.table.get(host_id)
            if row is None or row.lost or row.session != session:
                continue
            steps, old = min(max(0, number), LOAD_STEPS), self._hosts.lent.get(host_id)
            before = old.steps if old is not None else 0
            if steps != before:
                self._lend(host_id, steps, now)
                changes, rises = True, rises or steps > before
        if changes:
            self._review_cell(now)
        return rises

    def switched(self, on: bool, now: int) -> None:
        """The cell lends slack from now on, or no more."""
        for host_id, row in list(self._hosts.lent.items()) if not on else ():
            if row.steps:
                self._lend(host_id, 0, now)
        self._review_cell(now)

    def offered(self, event: HostOffered, now: int) -> None:
        """A host has another capacity, of which it lends a part."""
        if event.host_id in self._hosts.lent:
            self._review(event.host_id, now)

    def gone(self, host_id: str) -> None:
        """A host is lost or removed: it lends nothing, and its runs are over."""
        if host_id in self._hosts.lent:
            self._hosts.lent.remove(host_id)
            self._over.pop(host_id, None)

    def capacity_said(self, event: CapacityChanged, now: int) -> None:
        """The cell knows its capacity."""
        amount = event.capacity.get(REVOCABLE, 0)
        if amount or self.lending.get("cell"):
            self.lending.put("cell", LendingRow(amount, now))

    def asked(self, event: RevocationAsked, now: int) -> None:
        """Runs were asked to end: each leaves the host where it is, a gang several."""
        places = dict.fromkeys(event.host_ids)
        columns = (event.job_array, event.instance_array, event.run_array)
        for job, instance, run in zip(*(column.tolist() for column in columns), strict=True):
            each = event.job_ids[job], instance, run
            if not self._is_placed(*each):
                continue
            host_id = self._hosts.ids[self._runs.arena["host"][self._runs.jobs[each[0]].base + instance] - 1]
            places[host_id] = None
            if host_id in self._hosts.lent:
                self._hosts.lent.change(host_id).ending.append(each)
        for host_id in places:
            if host_id in self._hosts.lent:
                self._review(host_id, now)

    def placed(self, event: TasksPlaced, now: int) -> None:
        """Runs have places; to be called once they hold them."""
        if self._hosts.kinds.revocable >= 0:
            self._by_host.add(self._revocable(locate(event, self._runs.jobs)[0]))

    def instances_changed(self, event: InstancesChanged, now: int) -> None:
        """The tasks of a job may have other slots."""
        row = self._runs.jobs.get(event.job_id)
        if row is not None and self._hosts.kinds.revocable >= 0:
            self._by_host.add(self._revocable(np.arange(row.base, row.base + row.instances)))

    def ended(self, event: RunsEnded, now: int) -> None:
        """Runs are over; to be called once they hold nothing any more."""
        for host_id, used in list(self._over.items()):
            if used != self._used(host_id):
                self._review(host_id, now)

    def passed(self, event: TimerPassed, now: int) -> None:
        """A deadline passed at which nobody was there to end: it is looked again later."""
        for host_id in list(self._over):
            row = self._hosts.lent[host_id]
            if row.over_ms and row.over_ms + PATIENCE_MS <= event.due_ms:
                self._hosts.lent.change(host_id).over_ms = max(1, event.due_ms)

    # What is decided.

    def next_ms(self) -> int | None:
        """When the next runs are asked to end."""
        if not self._over:
            return None
        times = (self._hosts.lent[host_id].over_ms for host_id in self._over)
        first = min((at for at in times if at), default=None)
        return None if first is None else first + PATIENCE_MS

    def next_said_ms(self) -> int | None:
        """When the slack of the cell is said again."""
        if not len(self.lending) and not len(self._hosts.lent):
            return None
        row = self.lending.get("cell") or LendingRow()
        return row.at_ms + PATIENCE_MS if self._total() != row.amount else None

    def unsaid_by(self, now: int) -> CauseRow | None:
        """The record by which the slack of the cell is another one, where that is to be said now; None: it isn't."""
        at = self.next_said_ms()
        if at is None or at > now:
            return None
        return (self.lending.get("cell") or LendingRow()).by

    def decide(self, now: int, budget: Budget) -> RevocationAsked | None:
        """The runs that are to end now; a unit is a run."""
        if not self._over:
            return None
        jobs, hosts = Names(), Names()
        columns: list[tuple[int, int, int, int]] = []
        lent, used, causes = list[int](), list[int](), list[CauseRow]()
        leaving: dict[int, None] = {}
        for host_id in sorted(self._over):
            row = self._hosts.lent[host_id]
            if not row.over_ms or row.over_ms + PATIENCE_MS > now or budget.left <= 0:
                continue
            slots = self._newest(host_id, leaving)
            leaving.update(dict.fromkeys(slots))
            for slot in slots:
                job_id = self._runs.waits.job_of(slot)
                run, base = int(self._runs.arena["placed"][slot]), self._runs.jobs[job_id].base
                columns.append((jobs[job_id], slot - base, run, hosts[host_id]))
            if slots:
                lent.append(self._capacity(host_id))
                used.append(sum(amount for _, amount in self._held(host_id)))
                causes += [row.by] if row.by is not None else []
                budget.spend(len(slots))
        if not columns:
            return None
        job, instance, run_, host = zip(*columns, strict=True)
        return RevocationAsked.pack(
            job_ids=jobs.all(),
            job=job,
            instance=instance,
            run=run_,
            host_ids=hosts.all(),
            host=host,
            lent=lent,
            used=used,
            cause=recorded(causes[-1] if causes else None),
        )

    # How.

    def _lend(self, host_id: str, steps: int, now: int) -> None:
        if host_id in self._hosts.lent:
            row = self._hosts.lent.change(host_id)
        else:
            row = self._hosts.lent.put(host_id, LentRow())
        row.steps, row.by = steps, self._input.cause
        self._hosts.lends(host_id)
        number = self._hosts.table[host_id].number
        at = self._hosts.kinds.revocable
        if host_id in self._over or self._hosts.used[at, number] > self._hosts.capacity[at, number]:
            self._review(host_id, now)

    def _review(self, host_id: str, now: int) -> None:
        """Notes since when more is held on a host than it lends."""
        row = self._hosts.lent[host_id]
        ending = [each for each in row.ending if self._is_placed(*each)]
        is_over = sum(amount for _, amount in self._held(host_id, ending)) > self._capacity(host_id)
        over_ms = 0 if not is_over else row.over_ms or max(1, now)
        if ending != row.ending or over_ms != row.over_ms:
            row = self._hosts.lent.change(host_id)
            row.ending, row.over_ms = ending, over_ms
        if row.ending or row.over_ms:
            self._over[host_id] = self._used(host_id)
        else:
            self._over.pop(host_id, None)

    def _is_placed(self, job_id: str, instance: int, run: int) -> bool:
        row = self._runs.jobs.get(job_id)
        return row is not None and instance < row.instances and self._runs.arena["placed"][row.base + instance] == run

    def _capacity(self, host_id: str) -> int:
        """Thousandths of a CPU that a host lends."""
        return int(self._hosts.capacity[self._hosts.kinds.revocable, self._hosts.table[host_id].number])

    def _used(self, host_id: str) -> int:
        """Thousandths of a CPU that are in use of what it lends."""
        return int(self._hosts.used[self._hosts.kinds.revocable, self._hosts.table[host_id].number])

    def _revocable(self, slots: I64) -> I64:
        """Those of some tasks that are revocable."""
        at = self._hosts.kinds.revocable
        if at < 0 or not len(slots):
            return slots[:0]
        shapes, index = indexed(self._runs.arena["shape"][slots])
        needs = np.array([self._runs.shapes[number].need[at] for number in shapes.tolist()], dtype=np.int64)
        return slots[needs[index] > 0]

    def _held(self, host_id: str, ending: list[tuple[str, int, int]] | None = None) -> list[tuple[int, int]]:
        """The runs on a host that hold slack and weren't asked to end, by slot, and how much each holds."""
        arena, at = self._runs.arena, self._hosts.kinds.revocable
        slots = self._by_host.of(np.array([self._hosts.table[host_id].number]))
        ending = self._hosts.lent[host_id].ending if ending is None else ending
        leaving = {self._runs.jobs[job_id].base + instance for job_id, instance, _ in ending}
        shapes = arena["shape"][slots].tolist()
        return [
            (slot, amount)
            for slot, shape in zip(slots.tolist(), shapes, strict=True)
            if slot not in leaving and (amount := self._runs.shapes[shape].need[at])
        ]

    def _newest(self, host_id: str, leaving: Container[int]) -> list[int]:
        """The runs that are to end on a host: the newest, gangs whole, until the rest fits. `leaving`: those that are
        to end anyway.
        """
        amounts = {slot: amount for slot, amount in self._held(host_id) if slot not in leaving}
        excess = sum(amounts.values()) - self._capacity(host_id)
        since = self._runs.arena["placed_s"]
        victims: dict[int, None] = {}
        for slot in sorted(amounts, key=lambda slot: (-int(since[slot]), -slot)):
            if excess <= 0:
                break
            for member in self._members(slot) if slot not in victims else ():
                victims[member] = None
                excess -= amounts.get(member, 0)
        return sorted(victims)

    def _members(self, slot: int) -> Iterator[int]:
        unit: I64 = self._runs.unit(slot)
        yield from unit[self._runs.arena["placed"][unit] > 0].tolist()

    def _total(self) -> int:
        """Thousandths of a CPU that the cell lends."""
        at = self._hosts.kinds.revocable
        return int((self._hosts.capacity[at] * self._hosts.counts).sum()) if at >= 0 else 0

    def _review_cell(self, now: int) -> None:
        """Says the capacity of the cell at once where it is quite another one."""
        row, total = self.lending.get("cell") or LendingRow(), self._total()
        self.lending.put("cell", msgspec.structs.replace(row, by=self._input.cause))
        differs = abs(total - row.amount)
        if differs and (differs * STEPS_OF_CELL >= row.amount or now >= row.at_ms + PATIENCE_MS):
            self._hosts.changed()
