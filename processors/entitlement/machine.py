"""Entitlement: owns the pool tree, the queues and what each pool holds; decides who may go on and who must leave."""

from collections.abc import Callable, Sequence
from typing import Any, ClassVar

import numpy as np

from events.bounds import INT_MAX
from events.cell_settings import SettingsChange
from events.codes import ENDED_JOBS, Code
from events.columns import I64, distinct, ints, longs, pack_longs
from events.records.base import Event
from events.records.entitlement import EntitlementsSet, GangsAdmitted, GangsHeld, PoolAnswered, PreemptionsOrdered
from events.records.lifecycle import (
    GangsQueued,
    InstancesChanged,
    JobAccepted,
    JobChanged,
    PreemptionAnswered,
    RunsAvailable,
    RunsEnded,
)
from events.records.placement import CapacityChanged, GangsReturned
from events.records.pools import CellConfigured, PoolDefined, PoolRemoved
from events.records.rounds import TimerPassed
from events.resources import Kinds
from processors.entitlement.admission import Admission, Refusal, held, refused_for_good
from processors.entitlement.entitlements import Shares
from processors.entitlement.leaving import LeavingRuns
from processors.entitlement.pool_commands import answer
from processors.entitlement.pool_tree import Entry, Tree, pool_row
from processors.entitlement.preemption import Preemption
from processors.entitlement.queues import Queues
from processors.entitlement.rows import (
    MEANINGS,
    WEIGHED,
    AskRow,
    CellRow,
    ConfiguredRow,
    DefinedRow,
    PoolFact,
    PoolRow,
    RemovedRow,
    ReportedRow,
    ask_row,
    root_row,
)
from processors.machine import Decided, Fact, Input, PeerRound
from processors.state.arena import locate, locate_ranges
from processors.state.causes import CurrentInput
from processors.state.conversion import Conversions
from processors.state.table import Table, struct_table

REPORT_EVERY_MS = 1000
"""How often EntitlementsSet is said: admission goes by the exact numbers, the views may be a second behind."""
COMMANDS_KEPT = 1000
"""So many of the newest commands about pools are known again when they are repeated."""


class Entitlement:
    """See `processors.machine.Machine`."""

    name: ClassVar[str] = "entitlement"
    facts: ClassVar[tuple[str, ...]] = ("paceline.pools",)
    peers: ClassVar[tuple[str, ...]] = ("lifecycle", "placement")
    logic: ClassVar[int] = 13
    state: ClassVar[int] = 7
    conversions: ClassVar[Conversions] = {}

    def __init__(self, cell: int = 0) -> None:
        self._number = cell
        self.pools: Table[str, PoolRow] = struct_table("pools", PoolRow)
        self.pools.put("/", root_row())
        self.foreign: Table[str, int] = struct_table("foreign", int)
        """The pools of other cells: the cell of each."""
        self.reported: Table[str, ReportedRow] = struct_table("said", ReportedRow)
        self.asks: Table[int, AskRow] = struct_table("asks", AskRow, int)
        self.commands: Table[str, int] = struct_table("commands", int)
        """Commands that were done: where they stand in the topic of pools."""
        self._cell: Table[str, CellRow] = struct_table("cell", CellRow)
        self._cell.put("cell", CellRow())
        self.queues = Queues()
        self._tree = self._new_tree()
        self._shares = Shares(self.queues, self.pools, self._cell)
        self._input = CurrentInput()
        self._leaving = LeavingRuns(self.queues, self.pools, self._input)
        self._idle = -1
        """The state of queues and pools, as `changes` counts them, in which nothing was to be said of any gang."""
        self._on: dict[type[Event], Callable[[Any, int], None]] = {
            JobAccepted: lambda event, now: self.queues.add(event),
            InstancesChanged: lambda event, now: self.queues.change_instances(event),
            GangsQueued: self._queued,
            RunsEnded: self._ended,
            RunsAvailable: self._leaving.available,
            PreemptionAnswered: self._leaving.answered,
            JobChanged: self._job_changed,
            GangsReturned: self._returned,
            CapacityChanged: self._capacity,
            PoolAnswered: self._answered,
            EntitlementsSet: self._set,
            GangsAdmitted: self._admitted,
            GangsHeld: self._held,
            PreemptionsOrdered: self._leaving.ordered,
            TimerPassed: self._timer,
        }

    @property
    def tables(self) -> Sequence[Table[Any, Any]]:
        """See `Machine.tables`."""
        queues = self.queues
        return (
            *(self.pools, self.foreign, self.reported, self.asks, self.commands, self._cell),
            *(queues.jobs, queues.shapes.table, queues.arena.table),
        )

    @property
    def cell(self) -> CellRow:
        """Capacity and settings."""
        return self._cell["cell"]

    def restored(self) -> None:
        """See `Machine.restored`."""
        self.queues.restored(Kinds(self.cell.settings.resources))
        self._tree = self._new_tree()
        self._shares.restored()
        self._idle = -1

    def apply(self, record: Input) -> None:
        """See `Machine.apply`."""
        match record:
            case Fact(_, offset, _, event, _):
                if isinstance(event, PoolDefined | PoolRemoved | CellConfigured):
                    self.asks.put(offset, ask_row(event))
            case PeerRound(machine, number, now, decisions):
                for index, decision in enumerate(decisions):
                    self._input.decision(machine, number, index)
                    self._apply(decision, now)
            case Decided(now, decision, number, index):
                self._input.decision(self.name, number, index)
                self._apply(decision, now)

    def decide(self, now: int, caught_up: bool, budget: int) -> list[Event]:
        """See `Machine.decide`; a unit is a fact answered, a task, a job that is told why it waits, or a pool."""
        if self.asks:
            return self._answers(budget)
        out: list[Event] = []
        left = budget
        if self._idle != self.queues.changes:
            out, left = self._gangs(budget)
            if not out:
                self._idle = self.queues.changes
        if caught_up and left > 0:
            out += self._leave(now, left)
            if not out and self.cell.reported_ms + REPORT_EVERY_MS <= now and self._is_news():
                out.append(self._report(budget))  # after what else is decided, so that it is said once
        return out

    def next_wakeup(self) -> int | None:
        """See `Machine.next_wakeup`."""
        delay = self.cell.settings.preemption_delay_ms
        times = [row.starving_ms + delay for row in self.pools.values() if row.starving_ms > 0]
        due = self.queues.next_due_ms()
        if due is not None:
            times.append(due)
        if self._is_news():
            times.append(self.cell.reported_ms + REPORT_EVERY_MS)
        return min(times, default=None)

    # What follows from the state.

    def shares(self) -> dict[str, ReportedRow]:
        """Entitlement, demand and allocation of each pool as the state is now."""
        return self._shares.all()

    def _unreported(self) -> list[str]:
        return [path for path, row in self.shares().items() if self.reported.get(path) != row]

    def _is_news(self) -> bool:
        """Whether EntitlementsSet is due: it also says since when pools are below reservations that were changed."""
        return bool(self.cell.changed_by or self._unreported())

    def _report(self, most: int) -> EntitlementsSet:
        unreported = self._unreported()
        paths = unreported[:most]
        rows = [self.shares()[path] for path in paths]
        columns: dict[str, Any] = {
            meaning: pack_longs([amount for row in rows for amount in getattr(row, meaning)]) for meaning in MEANINGS
        }
        columns |= {"pools": tuple(paths), "resources": self.queues.kinds.names, "partial": len(unreported) > most}
        return EntitlementsSet(causes=self.cell.causes, **columns)

    def _answers(self, budget: int) -> list[Event]:
        """Answers to facts about pools, each as the tree is after the ones before."""
        tree, done, settings = self._tree, dict(self.commands.items()), self.cell.settings
        before: list[Entry] = []
        out: list[Event] = []
        for offset in sorted(self.asks)[:budget]:
            fact = self.asks[offset].fact
            answered = answer(offset, fact, tree, self.queues.open_jobs, fact.command_id in done, settings)
            if answered.code == Code.DONE:
                done[fact.command_id] = offset
                was = tree.take(fact)
                before += [was] if was else []
            out.append(answered)
            if answered.code == Code.DONE and isinstance(fact, ConfiguredRow):
                break  # what comes after it is judged by the new settings
        for entry in reversed(before):
            tree.put(entry)
        return out

    def _new_tree(self) -> Tree:
        """The pools as the rows have them."""
        own = [Entry(path, row=row) for path, row in self.pools.items()]
        foreign = [Entry(path, cell=cell) for path, cell in self.foreign.items()]
        return Tree(self._number, self.queues.kinds, own + foreign)

    def _gangs(self, budget: int) -> tuple[list[Event], int]:
        """What is admitted, and what is said of gangs that wait; and what is left of the budget."""
        shares = self._shares
        admission = Admission(self.queues, self.pools, self.cell, shares.entitlement(), shares.allocation())
        out, left = admission.decide(budget)
        unexplained = self.queues.next_unexplained(max(0, left))
        for job_id, shape in unexplained:
            row = self.queues.jobs[job_id]
            gang, _ = self.queues.units(row, shape)
            asked = self.queues.asks(row, gang) if len(gang) else self.queues.need(shape)
            why, slots = Refusal(Code(row.parts[shape].returned), row.pool), self.queues.queued_slots(row, shape)
            out.append(held(self.queues, self.cell, (job_id, shape), slots, why, asked))
        return out, left - len(unexplained)

    def _leave(self, now: int, budget: int) -> list[Event]:
        """Preemptions that are due; TimerPassed for the deadlines that have no other answer. Where the budget ends it,
        what is left follows when this has been decided.
        """
        latest = now - self.cell.settings.preemption_delay_ms
        starving = sorted((row.starving_ms, pool) for pool, row in self.pools.items() if 0 < row.starving_ms <= latest)
        due = self.queues.next_due_ms()
        out: list[Event] = []
        nobody_gives = due is not None and due <= now
        if starving:
            shares = self._shares
            preemption = Preemption(self.queues, self.pools, shares.entitlement(), shares.allocation(), budget)
            for _, pool in starving:
                orders = preemption.decide(pool)
                out += orders
                if preemption.budget <= 0:
                    return out
                nobody_gives = nobody_gives or not orders
        if nobody_gives:
            out.append(TimerPassed(machine=self.name, due_ms=now))
        return out

    # What inputs and decisions do.

    def _apply(self, event: Event, now: int) -> None:
        handler = self._on.get(type(event))
        if handler:
            before = self.queues.changes
            handler(event, now)
            if self.queues.changes != before:
                self._cell.change("cell").note(event, self._input.cause)

    def _queued(self, event: GangsQueued, now: int) -> None:
        arena = self.queues.arena
        slots, index = self._ranges(event)
        run = ints(event.run)[index]
        new = (ints(event.admitted)[index] == 0) & (arena["ended"][slots] < run)
        new &= (arena["queued"][slots] == 0) & (arena["held"][slots] == 0)
        arena.set("queued", slots[new], run[new])
        self.queues.count_slots(slots[new], 1, 0)

    def _admitted(self, event: GangsAdmitted, now: int) -> None:
        slots, index = self._ranges(event)
        arena, cell = self.queues.arena, self._cell.change("cell")
        cell.served += 1
        arena.set("queued", slots, 0)
        arena.set("held", slots, ints(event.run)[index])
        arena.set("since", slots, min(cell.served, INT_MAX))
        self.queues.count_slots(slots, -1, 1)
        for pool in {self.queues.jobs[job_id].pool: None for job_id in event.job_ids}:
            self.pools.change(pool).served = cell.served

    def _ranges(self, event: GangsQueued | GangsAdmitted | GangsReturned) -> tuple[I64, I64]:
        return locate_ranges(event.job_ids, event.job, event.first, event.count, self.queues.stretch)

    def _held(self, event: GangsHeld, now: int) -> None:
        row = self.queues.jobs.change(event.job_id)
        shape = self.queues.part_of(row, event.instance)
        part, asked = row.parts[shape], self.queues.kinds.vector(event.asked)
        why = None if part.aside else refused_for_good(self.pools, self.cell, row, asked)
        if why is not None:
            self.queues.put_aside((event.job_id, shape), why.code, 0)
        part.reported_code = event.code
        if not part.aside or part.reported_code == part.returned:  # else it hears next why it is refused for good
            self.queues.unexplained.pop((event.job_id, shape), None)

    def _timer(self, event: TimerPassed, now: int) -> None:
        self.queues.release_due(now)
        for pool, row in self.pools.items():
            if 0 < row.starving_ms <= now - self.cell.settings.preemption_delay_ms:
                self.pools.change(pool).starving_ms = WEIGHED

    def _ended(self, event: RunsEnded, now: int) -> None:
        slots, known = locate(event.job_ids, event.job, event.instance, self.queues.stretch)
        slots, run, kept = slots[known], ints(event.run)[known], ints(event.kept)[known]
        arena = self.queues.arena
        arena.set("ended", slots, np.maximum(arena["ended"][slots], run))
        arena.set("leaving", slots, np.where(arena["leaving"][slots] == run, 0, arena["leaving"][slots]))
        holds, waits = arena["held"][slots] == run, arena["queued"][slots] == run
        arena.set("held", slots[holds], np.where(kept[holds] == 1, run[holds] + 1, 0))
        arena.set("queued", slots[waits], 0)
        self.queues.count_slots(slots[holds & (kept == 0)], 0, -1)
        self.queues.count_slots(slots[waits], -1, 0)

    def _returned(self, event: GangsReturned, now: int) -> None:
        arena = self.queues.arena
        slots, index = self._ranges(event)
        run = ints(event.run)[index]
        back = (arena["held"][slots] == run) & (arena["ended"][slots] < run)
        slots, run = slots[back], run[back]
        arena.set("held", slots, 0)
        arena.set("leaving", slots, 0)
        arena.set("queued", slots, run)
        self.queues.count_slots(slots, 1, -1)
        code = Code.BACKOFF if event.not_before_ms else event.code
        owners = arena["owner"][slots]
        for owner in distinct(owners).tolist():
            job_id = self.queues.at[owner - 1]
            for shape, _ in self.queues.split(self.queues.jobs[job_id], slots[owners == owner]):
                self.queues.put_aside((job_id, shape), code, max(0, event.not_before_ms))

    def _job_changed(self, event: JobChanged, now: int) -> None:
        if event.state in ENDED_JOBS:
            self.queues.drop(event.job_id)

    def _capacity(self, event: CapacityChanged, now: int) -> None:
        row = self._cell.change("cell")
        changed = row.version != event.version
        row.capacity, row.hosts, row.version = self.queues.kinds.vector(event.capacity), event.hosts, event.version
        self.queues.changes += 1
        if changed:
            self.queues.release_for_change()

    def _answered(self, event: PoolAnswered, now: int) -> None:
        fact = self.asks[event.pools_offset].fact
        self.asks.remove(event.pools_offset)
        if event.code != Code.DONE:
            return
        self._tree.take(fact)
        self.commands.put(event.command_id, event.pools_offset)
        if len(self.commands) > COMMANDS_KEPT:
            self.commands.remove(min(self.commands, key=self.commands.__getitem__))
        if self._is_foreign(fact):
            return
        if isinstance(fact, DefinedRow):
            pool, old = pool_row(fact, self.queues.kinds), self.pools.get(fact.path)
            if old is not None:
                pool.served, pool.starving_ms, pool.starving_by = old.served, old.starving_ms, old.starving_by
            self.pools.put(fact.path, pool)
        elif isinstance(fact, RemovedRow):
            self.pools.remove(fact.path)
            if fact.path in self.reported:
                self.reported.remove(fact.path)
        else:
            self._configured(fact.change)
        self.queues.changes += 1
        self.queues.release_for_change()

    def _configured(self, change: SettingsChange) -> None:
        """The cell has other settings, and may know more kinds."""
        kinds = self._cell.change("cell").configure(change)
        if len(kinds) > len(self.queues.kinds):
            for path, pool in list(self.pools.items()):
                self.pools.put(path, pool.widened(kinds))
            for path, row in list(self.reported.items()):
                self.reported.put(path, row.widened(kinds))
            self.queues.widen(kinds)
            self._tree = self._new_tree()
        self.queues.kinds = kinds

    def _is_foreign(self, fact: PoolFact) -> bool:
        """Notes what was done to a pool of another cell; False: it is one of this cell, or none."""
        if isinstance(fact, DefinedRow) and fact.cell != self._number:
            self.foreign.put(fact.path, fact.cell)
            return True
        if isinstance(fact, RemovedRow) and fact.path in self.foreign:
            self.foreign.remove(fact.path)
            return True
        return False

    def _set(self, event: EntitlementsSet, now: int) -> None:
        shape = len(event.pools), len(event.resources)
        rows = [longs(getattr(event, meaning)).reshape(shape).tolist() for meaning in MEANINGS]
        for at, path in enumerate(event.pools):
            if path in self.pools:
                self.reported.put(path, ReportedRow(*(tuple(row[at]) for row in rows)))
        if not event.partial:
            cell = self._cell.change("cell")
            cell.reported_ms, cell.changed_by = now, []
            self._leaving.starve(now)
