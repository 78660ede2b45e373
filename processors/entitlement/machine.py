"""Entitlement: owns the pool tree, the queues and what each pool holds; decides who may go on and who must leave."""

from collections.abc import Callable, Sequence
from typing import Any, ClassVar

import numpy as np

from events.codec import decode, encode
from events.codes import ENDED_JOBS, Code
from events.columns import I64, ints, longs, pack_longs
from events.records.base import Event
from events.records.entitlement import EntitlementsSet, GangsAdmitted, GangsHeld, PoolAnswered, PreemptionsOrdered
from events.records.lifecycle import GangsQueued, JobAccepted, JobChanged, JobsForgotten, RunsEnded
from events.records.placement import CapacityChanged, GangsReturned
from events.records.pools import CellConfigured, PoolDefined, PoolRemoved
from events.records.rounds import TimerPassed
from processors.arena import locate, locate_ranges
from processors.entitlement.admission import Admission, Why, held
from processors.entitlement.answers import RESOURCES, answer, parent_of, pool_row
from processors.entitlement.preemption import Preemption
from processors.entitlement.queues import Queues
from processors.entitlement.rows import NO_LIMIT, NOTHING, Amount4, AskRow, CellRow, PoolRow, SaidRow, four, plus
from processors.entitlement.sharing import entitlements
from processors.machine import Decided, Fact, Input, PeerRound
from processors.table import Table, struct_table

SAY_EVERY_MS = 1000
"""How often EntitlementsSet is said: admission goes by the exact numbers, the views may be a second behind."""


class Entitlement:
    """See `processors.machine.Machine`."""

    name: ClassVar[str] = "entitlement"
    facts: ClassVar[tuple[str, ...]] = ("paceline.pools",)
    peers: ClassVar[tuple[str, ...]] = ("lifecycle", "placement")
    logic: ClassVar[int] = 1
    state: ClassVar[int] = 1

    def __init__(self) -> None:
        self.pools: Table[str, PoolRow] = struct_table("pools", PoolRow)
        self.pools.put("/", PoolRow(NOTHING, NO_LIMIT, (1, 1, 1, 1)))
        self.said: Table[str, SaidRow] = struct_table("said", SaidRow)
        self.asks: Table[int, AskRow] = struct_table("asks", AskRow, int)
        self._cell: Table[str, CellRow] = struct_table("cell", CellRow)
        self._cell.put("cell", CellRow())
        self.queues = Queues()
        self._shares: tuple[int, dict[str, SaidRow]] = (-1, {})
        self._on: dict[type[Event], Callable[[Any, int], None]] = {
            JobAccepted: lambda event, now: self.queues.add(event),
            GangsQueued: self._queued,
            RunsEnded: self._ended,
            JobChanged: self._job_changed,
            JobsForgotten: lambda event, now: self.queues.forget(event.job_ids),
            GangsReturned: self._returned,
            CapacityChanged: self._capacity,
            PoolAnswered: self._answered,
            EntitlementsSet: self._set,
            GangsAdmitted: self._admitted,
            GangsHeld: self._held,
            PreemptionsOrdered: self._preempted,
            TimerPassed: self._timer,
        }

    @property
    def tables(self) -> Sequence[Table[Any, Any]]:
        """See `Machine.tables`."""
        return (self.pools, self.said, self.asks, self._cell, self.queues.jobs, self.queues.arena.table)

    @property
    def cell(self) -> CellRow:
        """Capacity and settings."""
        return self._cell["cell"]

    def restored(self) -> None:
        """See `Machine.restored`."""
        self.queues.restored()
        self._shares = (-1, {})

    def apply(self, record: Input) -> None:
        """See `Machine.apply`."""
        match record:
            case Fact(_, offset, _, event):
                if isinstance(event, PoolDefined | PoolRemoved | CellConfigured):
                    self.asks.put(offset, AskRow(encode(event)))
            case PeerRound(_, _, now, decisions):
                for decision in decisions:
                    self._apply(decision, now)
            case Decided(now, decision):
                self._apply(decision, now)

    def decide(self, now: int, caught_up: bool, budget: int) -> list[Event]:
        """See `Machine.decide`."""
        for offset, ask in self.asks.items():  # one at a time: each answer depends on the tree that the last one left
            return [answer(offset, ask, self.pools, self.queues.open_jobs)]
        shares = self.shares()
        entitlement = {pool: row.entitlement for pool, row in shares.items()}
        allocation = {pool: row.allocation for pool, row in shares.items()}
        out = Admission(self.queues, self.pools, self.cell, entitlement, allocation).decide(budget)
        out += self._put_off()[:budget]
        if caught_up:
            out += self._preempt(now, entitlement, allocation)
            due = self.queues.next_due_ms()
            if due is not None and due <= now:
                out.append(TimerPassed(machine=self.name, due_ms=due))
            if self._unsaid() and self.cell.said_ms + SAY_EVERY_MS <= now:
                out.append(self._say())
        return out

    def next_wakeup(self) -> int | None:
        """See `Machine.next_wakeup`."""
        times = [self.queues.next_due_ms()]
        times += [row.starving_ms + self.cell.preemption_delay_ms for row in self.pools.values() if row.starving_ms]
        if self._unsaid():
            times.append(self.cell.said_ms + SAY_EVERY_MS)
        return min((time for time in times if time is not None), default=None)

    # What follows from the state.

    def shares(self) -> dict[str, SaidRow]:
        """Entitlement, demand and allocation of each pool as the state is now."""
        version, found = self._shares
        if version != self.queues.changes:
            found = self._count()
            self._shares = (self.queues.changes, found)
        return found

    def _count(self) -> dict[str, SaidRow]:
        paths = sorted(self.pools, key=lambda path: (path.count("/") if path != "/" else 0, path))
        index = {path: at for at, path in enumerate(paths)}
        parents = [-1 if path == "/" else index[parent_of(path)] for path in paths]
        allocation = [self.queues.allocation.get(path, NOTHING) for path in paths]
        waiting = [self.queues.waiting.get(path, NOTHING) for path in paths]
        demand = [plus(*pair) for pair in zip(waiting, allocation, strict=True)]
        rows = [self.pools[path] for path in paths]
        found = entitlements(
            parents,
            [row.reservation for row in rows],
            [row.limit for row in rows],
            [row.share for row in rows],
            demand,
            self.cell.capacity,
        )
        for at in range(len(paths) - 1, 0, -1):
            above = parents[at]
            allocation[above] = plus(allocation[above], allocation[at])
            demand[above] = plus(demand[above], demand[at])
        return {path: SaidRow(found[at], demand[at], allocation[at]) for path, at in index.items()}

    def _unsaid(self) -> list[str]:
        return [path for path, row in self.shares().items() if self.said.get(path) != row]

    def _say(self) -> EntitlementsSet:
        paths = self._unsaid()
        rows = [self.shares()[path] for path in paths]
        columns = {
            f"{kind}_{resource}": pack_longs([getattr(row, kind)[at] for row in rows])
            for kind in ("entitlement", "demand", "allocation")
            for at, resource in enumerate(RESOURCES)
        }
        return EntitlementsSet(pools=tuple(paths), **columns)

    def _put_off(self) -> list[Event]:
        """Jobs that were returned are told until when they wait."""
        out: list[Event] = []
        for job_id in self.queues.put_off_jobs():
            row = self.queues.jobs[job_id]
            out.append(held(job_id, row, row.queued, Why(Code(row.returned), row.pool, NOTHING, False), 0))
        return out

    def _preempt(self, now: int, entitlement: dict[str, Amount4], allocation: dict[str, Amount4]) -> list[Event]:
        out: list[Event] = []
        for pool in sorted(self.pools):
            since = self.pools[pool].starving_ms
            if not since or since + self.cell.preemption_delay_ms > now:
                continue
            orders = Preemption(self.queues, self.pools, entitlement, allocation).decide(pool)
            return orders or [TimerPassed(machine=self.name, due_ms=since + self.cell.preemption_delay_ms)]
        return out

    # What inputs and decisions do.

    def _apply(self, event: Event, now: int) -> None:
        handler = self._on.get(type(event))
        if handler:
            handler(event, now)

    def _queued(self, event: GangsQueued, now: int) -> None:
        arena = self.queues.arena
        slots, index = self._ranges(event)
        run = ints(event.run)[index]
        new = (ints(event.admitted)[index] == 0) & (arena["ended"][slots] < run)
        new &= (arena["queued"][slots] == 0) & (arena["held"][slots] == 0)
        arena.set("queued", slots[new], run[new])
        self._count_slots(slots[new], 1, 0)

    def _admitted(self, event: GangsAdmitted, now: int) -> None:
        slots, index = self._ranges(event)
        self.queues.arena.set("queued", slots, 0)
        self.queues.arena.set("held", slots, ints(event.run)[index])
        self._count_slots(slots, -1, 1)
        for job_id in event.job_ids:
            self._feed(self.queues.jobs[job_id].pool)

    def _ranges(self, event: GangsQueued | GangsAdmitted) -> tuple[I64, I64]:
        return locate_ranges(event.job_ids, event.job, event.first, event.count, self.queues.stretch)

    def _feed(self, pool: str) -> None:
        if pool in self.pools and self.pools[pool].starving_ms:
            self.pools.change(pool).starving_ms = 0

    def _held(self, event: GangsHeld, now: int) -> None:
        row = self.queues.jobs.change(event.job_id)
        row.said = event.code
        if row.pool in self.pools and event.code == Code.WAITING_FOR_PREEMPTION:
            if not self.pools[row.pool].starving_ms:
                self.pools.change(row.pool).starving_ms = now
        elif event.code not in (Code.BEHIND_IN_QUEUE, Code.RESERVATION_REACHED):
            self._feed(row.pool)
        if event.code == Code.NEVER_FITS and not row.wait_version:
            self.queues.put_off(event.job_id, event.code, 0, self.cell.version)

    def _preempted(self, event: PreemptionsOrdered, now: int) -> None:
        slots, known = locate(event.job_ids, event.job, event.instance, self.queues.stretch)
        self.queues.arena.set("leaving", slots[known], ints(event.run)[known])
        self.pools.change(event.for_pool).starving_ms = now

    def _timer(self, event: TimerPassed, now: int) -> None:
        self.queues.release_due(now)
        for pool in sorted(self.pools):
            since = self.pools[pool].starving_ms
            if since and since + self.cell.preemption_delay_ms == event.due_ms:
                waits = any(self.queues.waiting.get(pool, NOTHING))
                self.pools.change(pool).starving_ms = now if waits else 0

    def _ended(self, event: RunsEnded, now: int) -> None:
        slots, known = locate(event.job_ids, event.job, event.instance, self.queues.stretch)
        slots, run, kept = slots[known], ints(event.run)[known], ints(event.kept)[known]
        arena = self.queues.arena
        arena.set("ended", slots, np.maximum(arena["ended"][slots], run))
        arena.set("leaving", slots, np.where(arena["leaving"][slots] == run, 0, arena["leaving"][slots]))
        holds, waits = arena["held"][slots] == run, arena["queued"][slots] == run
        arena.set("held", slots[holds], np.where(kept[holds] == 1, run[holds] + 1, 0))
        arena.set("queued", slots[waits], 0)
        self._count_slots(slots[holds & (kept == 0)], 0, -1)
        self._count_slots(slots[waits], -1, 0)

    def _count_slots(self, slots: I64, queued: int, held_: int) -> None:
        if len(slots):
            self.queues.count_slots(slots, queued, held_)

    def _returned(self, event: GangsReturned, now: int) -> None:
        arena = self.queues.arena
        columns = (event.job, event.first, event.count, event.run)
        for job, first, count, run in zip(*(ints(column).tolist() for column in columns), strict=True):
            job_id = event.job_ids[job]
            row = self.queues.jobs.get(job_id)
            if row is None:
                continue
            slots = np.arange(row.base + first, row.base + first + count)
            slots = slots[(arena["held"][slots] == run) & (arena["ended"][slots] < run)]
            arena.set("held", slots, 0)
            arena.set("leaving", slots, 0)
            arena.set("queued", slots, run)
            self.queues.count(job_id, len(slots), -len(slots))
            if self.queues.jobs[job_id].queued:
                code = event.code if event.not_before_ms == 0 else Code.BACKOFF
                self.queues.put_off(job_id, code, event.not_before_ms, self.cell.version)

    def _job_changed(self, event: JobChanged, now: int) -> None:
        if event.state in ENDED_JOBS:
            self.queues.end(event.job_id)

    def _capacity(self, event: CapacityChanged, now: int) -> None:
        row = self._cell.change("cell")
        row.capacity, row.hosts, row.version = four(event.capacity), event.hosts, event.version
        self.queues.changes += 1
        self.queues.release_for_hosts()

    def _answered(self, event: PoolAnswered, now: int) -> None:
        ask = self.asks.get(event.pools_offset)
        if ask is None:
            return
        self.asks.remove(event.pools_offset)
        fact = decode(ask.value)
        if event.code != Code.DONE:
            return
        if isinstance(fact, PoolDefined):
            row = pool_row(fact)
            row.starving_ms = self.pools[fact.path].starving_ms if fact.path in self.pools else 0
            self.pools.put(fact.path, row)
        elif isinstance(fact, PoolRemoved):
            self.pools.remove(fact.path)
            if fact.path in self.said:
                self.said.remove(fact.path)
        elif isinstance(fact, CellConfigured) and fact.preemption_delay_ms > 0:
            self._cell.change("cell").preemption_delay_ms = min(fact.preemption_delay_ms, 1 << 40)
        self.queues.changes += 1

    def _set(self, event: EntitlementsSet, now: int) -> None:
        rows = {kind: _rows(event, kind) for kind in ("entitlement", "demand", "allocation")}
        for at, path in enumerate(event.pools):
            if path in self.pools:
                self.said.put(path, SaidRow(**{kind: row[at] for kind, row in rows.items()}))
        self._cell.change("cell").said_ms = now


def _rows(event: EntitlementsSet, kind: str) -> list[Amount4]:
    """The amounts of one kind, one per pool."""
    cpu, memory, disk, gpu = (longs(getattr(event, f"{kind}_{resource}")).tolist() for resource in RESOURCES)
    return list(zip(cpu, memory, disk, gpu, strict=True))
