"""Applies records about tasks to their columns, and to the rows that go with them."""

from collections.abc import Callable

import numpy as np

from events.bounds import INT_MAX
from events.codes import Code, Outcome
from events.columns import I32, I64
from events.ranks import Rank, are_entitled, ranks_of, with_place
from events.reasons import LASTING
from events.records.entitlement import AdmissionsRanked, GangsAdmitted, PreemptionsOrdered
from events.records.lifecycle import GangsQueued, PreemptionAnswered, RunsEnded
from events.records.placement import GangsParked, GangsReturned, HostsReserved, TasksPlaced
from events.resources import Vector, add
from events.task_shapes import queued_shapes
from processors.entitlement.queues.demands import asked
from processors.entitlement.queues.parts import PartKey, by
from processors.entitlement.queues.queues import OF_ADMISSION
from processors.entitlement.rows import BackoffRow, KeptRow, OrderRow
from processors.entitlement.state import State
from processors.state.alternatives import NONE, alternatives_of, groups_to_change, waiting_again, with_alternative
from processors.state.arena import REMOVED, locate, locate_ranges
from processors.state.deadlines import Deadlines
from processors.state.leaving import Leaving
from processors.state.seconds import second
from processors.state.shapes import Shape, shapes_of
from processors.state.table import Table, struct_table

Ranges = GangsQueued | GangsAdmitted | AdmissionsRanked | GangsReturned | GangsParked
Items = RunsEnded | TasksPlaced | PreemptionsOrdered | PreemptionAnswered


class TaskRecords:
    """Follows the life of tasks. `orders`: those that aren't answered, by number; `kept`: what reserved hosts keep, by
    job and first instance of the gang; `backoffs`: by pool and `Queues.backoff_key`.
    """

    def __init__(self, state: State) -> None:
        self._state = state
        self._queues = state.queues
        self._marks = state.marks
        self._pools = state.pools
        self.orders: Table[int, OrderRow] = struct_table("orders", OrderRow, int)
        self.kept: Table[tuple[str, int], KeptRow] = struct_table("kept", KeptRow, tuple[str, int])
        self.backoffs: Table[tuple[str, int], BackoffRow] = struct_table("backoffs", BackoffRow, tuple[str, int])
        self._backoff_ends: Deadlines[tuple[str, int]] = Deadlines()
        self._leaving = Leaving(state.queues.arena, state.queues.at)

    def restored(self) -> None:
        """The tables were loaded."""
        self._leaving.restored()
        self._backoff_ends.restore((key, row.until_ms) for key, row in self.backoffs.items())

    # What is asked.

    def backoffs_over(self, after: int, now: int) -> list[str]:
        """The pools of which a shape ceased to back off after one time, until another."""
        return [pool for pool, _ in self._backoff_ends.due(now, after)]

    def next_ms(self) -> int | None:
        """The next time at which a shape ceases to back off."""
        return self._backoff_ends.first(self._state.cell.timer_ms)

    def late_ms(self) -> int | None:
        """The next time at which an order is overdue."""
        after = self._state.cell.timer_ms
        return min([row.until_ms for row in self.orders.values() if row.until_ms > after], default=None)

    def spoken_for(self) -> Vector:
        """The amount kept on reserved hosts, and that which orders without an answer free for units without a place."""
        queues, total = self._queues, self._queues.nothing
        for row in self.kept.values():
            total = add(total, row.amount)
        for order in self.orders.values():
            job = queues.jobs.get(order.for_job)
            if job is not None and not order.limit and order.for_first + order.for_count <= job.instances:
                slots = np.arange(order.for_first, order.for_first + order.for_count) + job.base
                if not queues.arena["placed"][slots].any():
                    total = add(total, queues.total_need(job, slots))
        return total

    def is_parked(self, job_id: str, first: int) -> bool:
        """Whether a unit holds nothing under limits, or is to."""
        row = self._queues.jobs.get(job_id)
        return row is not None and self._queues.arena["rank"][row.base + first] in (Rank.PARKING, Rank.PARKED)

    # What is folded.

    def queued(self, event: GangsQueued, now: int) -> None:
        """Units wait for admission."""
        arena = self._queues.arena
        slots, index = self._ranges(event)
        run = event.run_array[index]
        if event.shapes:
            self._reshape(event, slots, index)
        new = (event.admitted_array[index] == 0) & (arena["ended"][slots] < run)
        new &= (arena["queued"][slots] == 0) & (arena["held"][slots] == 0)
        self._queues.update(slots[new], queued=run[new])

    def admitted(self, event: GangsAdmitted, now: int) -> I64:
        """Units were admitted; returns their tasks."""
        slots, index = self._ranges(event)
        cell = self._state.change_cell()
        cell.served += 1
        rank = ranks_of(event)[index]
        number = min(cell.served, INT_MAX)
        self._queues.update(
            slots,
            queued=0,
            held=event.run_array[index],
            rank=rank,
            due_s=np.where(rank == Rank.ENTITLED, second(now), 0),
            number=self._coming_back(slots, event.run_array[index], number) if self._queues.comeback.parts else number,
        )
        for pool in {self._queues.jobs[job_id].pool: None for job_id in event.job_ids}:
            self._pools.change(pool).served = cell.served
        return slots

    def ranked(self, event: AdmissionsRanked, now: int) -> None:
        """Units are entitled that were borrowed, or the other way round, or are to be parked."""
        arena = self._queues.arena
        slots, index = self._ranges(event)
        current = arena["held"][slots] == event.run_array[index]
        slots, index = slots[current], index[current]
        rank = ranks_of(event)[index]
        park = (rank == Rank.PARKING) & are_entitled(arena["rank"][slots]) & (arena["placed"][slots] == 0)
        self._queues.update(slots[park], rank=Rank.PARKING)
        slots, rank = slots[rank != Rank.PARKING], rank[rank != Rank.PARKING]
        claims = (rank == Rank.ENTITLED) & (arena["placed"][slots] == 0)
        self._queues.update(slots, rank=rank, due_s=np.where(claims, second(now), 0))

    def parked(self, event: GangsParked, now: int) -> None:
        """Placement has parked units that it was asked to park."""
        slots, index = self._ranges(event)
        arena = self._queues.arena
        good = (arena["held"][slots] == event.run_array[index]) & (arena["rank"][slots] == Rank.PARKING)
        self._queues.update(slots[good], rank=Rank.PARKED)

    def placed(self, event: TasksPlaced, now: int) -> I64:
        """Runs have a place; returns their tasks."""
        tasks, run = self._items(event)
        arena = self._queues.arena
        current = arena["held"][tasks] == run
        slots: I64 = tasks[current]
        if event.alternative:
            _, exists = locate(event, self._queues.jobs)
            self._take(slots, event.alternative_array[exists][current])
        rank = with_place(arena["rank"][slots])
        self._queues.update(slots, placed=run[current], placed_s=second(now), due_s=0, rank=rank)
        if len(self.backoffs):
            self._forget_backoffs(slots)
        return slots

    def returned(self, event: GangsReturned, now: int) -> None:
        """Placement gave units back: they wait again. For good: none of their part is tried before hosts change, or, of
        tasks that are bound to hosts, only they aren't; else their shape backs off in their pool, longer each time.
        """
        arena = self._queues.arena
        slots, index = self._ranges(event)
        run = event.run_array[index]
        back = (arena["held"][slots] == run) & (arena["ended"][slots] < run) & (arena["placed"][slots] == 0)
        slots, run = slots[back], run[back]
        cleared = dict.fromkeys(OF_ADMISSION, 0) | {"number": self._coming_back(slots, run, 0)}
        self._queues.update(slots, queued=-run if event.bound else run, **cleared)
        if event.bound:
            self._queues.bound |= dict.fromkeys(event.job_ids)
            return
        for job_id, row, key, _ in self._queues.split(slots):
            if event.code in LASTING:
                self._queues.put_aside(PartKey(job_id, key), event.code)
            else:
                self._back_off(row.pool, self._queues.backoff_key(row, key), now)

    def ended(self, event: RunsEnded, now: int) -> None:
        """Runs are over; where the admission is kept, the next run claims a place."""
        slots, run = self._items(event)
        _, exists = locate(event, self._queues.jobs)
        keeps = event.kept_array[exists] == 1
        arena = self._queues.arena
        arena.set("ended", slots, np.maximum(arena["ended"][slots], run))
        holds, waits = arena["held"][slots] == run, np.abs(arena["queued"][slots]) == run
        over, again = slots[holds & ~keeps], holds & keeps
        self._queues.update(over, **dict.fromkeys(OF_ADMISSION, 0))
        if self._queues.shapes.of_devices:
            self._wait_again(over)
        self._queues.update(slots[waits], queued=0)
        slots, run = slots[again], run[again]
        if not len(slots):
            return
        lost = event.outcome_array[exists][again] == Outcome.LOST
        due_s = np.where(are_entitled(arena["rank"][slots]), second(now), 0)
        for job_id, job, key, part in self._queues.split(slots[lost]) if lost.any() else ():
            if job.service:
                arena.set("number", part, -1 - arena["held"][part])
                self._queues.comeback.parts.setdefault(PartKey(job_id, key), False)
        self._queues.update(slots, held=run + 1, placed=0, leaving=0, placed_s=0, due_s=due_s)

    def ordered(self, event: PreemptionsOrdered, until_ms: int) -> None:
        """Runs were ordered to leave; from `until_ms` on those that haven't are late."""
        slots, run = self._items(event)
        current = self._queues.arena["held"][slots] == run
        self._queues.update(slots[current], leaving=event.order)
        self._leaving.add(event.order, slots[current])
        row = OrderRow(
            event.for_pool,
            event.for_job,
            event.for_first,
            event.for_count,
            event.for_run,
            event.job_ids,
            until_ms,
            not event.host_ids,
        )
        self.orders.put(event.order, row)
        cell = self._state.change_cell()
        cell.orders = max(cell.orders, event.order)

    def answered(self, event: PreemptionAnswered, now: int) -> None:
        """An order is done with: what hasn't left stays."""
        row = self.orders.get(event.number)
        if row is None:
            return
        self._queues.update(self._leaving.take(event.number, self._queues.stretch), leaving=0)
        self.orders.remove(event.number)
        self._marks.touch(row.for_pool)

    def reserved(self, event: HostsReserved, now: int) -> None:
        """Hosts are reserved for a unit, or not any more."""
        key = event.job_id, event.first
        if event.state == Code.RESERVED and self._queues.kinds.unknown(event.kept) == []:
            self.kept.put(key, KeptRow(event.run, self._queues.kinds.vector(event.kept)))
        elif key in self.kept:
            self.kept.remove(key)
        self._queues.changes += 1

    def passed(self, now: int) -> None:
        """Time has passed: who wasn't given back again for a while has nothing remembered of it; and who hasn't left in
        time isn't counted on any more.
        """
        self._overdue(now)
        latest = now - self._state.cell.settings.return_backoff_max_ms
        for name in self._backoff_ends.due(latest - 1):
            self._forget_backoff(name)

    def _overdue(self, now: int) -> None:
        arena = self._queues.arena
        for number, row in self.orders.items():
            for job_id in row.job_ids if row.until_ms <= now else ():
                base, size = self._queues.stretch(job_id)
                late = np.flatnonzero(arena["leaving"][base : base + size] == number) + base
                if len(late):
                    self._queues.update(late, leaving=-number)

    def _coming_back(self, slots: I64, run: I32, number: int) -> I32:
        """The numbers of tasks at these runs: that of one that comes back says so, others have this one."""
        had = self._queues.arena["number"][slots]
        return np.where((had < 0) & (had == -run), had, number).astype(np.int32)

    def _reshape(self, event: GangsQueued, slots: I64, index: I64) -> None:
        """Tasks that are queued ask something else from this run on."""
        shapes = shapes_of(event, self._queues.kinds.vector, any_of=True)
        shape = queued_shapes(event)[index]
        new = (shape >= 0) & (self._queues.arena["ended"][slots] < event.run_array[index])
        slots, shape = slots[new], shape[new]
        owner = self._queues.arena["owner"][slots].astype(np.int64) - 1
        for base, at in by(np.arange(len(slots)), owner) if shapes else ():
            job_id = self._queues.at[base]
            self._queues.reshape(
                job_id,
                slots[at],
                shape[at],
                [each if each.rules is None else self._asked(job_id, each) for each in shapes],
            )

    def _asked(self, job_id: str, shape: Shape) -> Shape:
        """The shape by which tasks of a job wait."""
        queues = self._queues
        return asked(shape, queues.jobs[job_id].gang_min, queues.kinds.vector, queues.bounds)

    def _take(self, slots: I64, numbers: I32) -> None:
        """Tasks hold what the alternative asks that they took, whatever they waited for."""
        vector = self._queues.kinds.vector
        self._ask_as(slots, numbers, lambda _, shape, number: with_alternative(shape, number, vector))

    def _wait_again(self, slots: I64) -> None:
        """Tasks whose runs are over may take any alternative again."""
        vector = self._queues.kinds.vector
        numbers = np.full(len(slots), NONE)
        self._ask_as(slots, numbers, lambda job_id, shape, _: self._asked(job_id, waiting_again(shape, vector)))

    def _ask_as(self, slots: I64, numbers: I64 | I32, change: Callable[[str, Shape, int], Shape]) -> None:
        """Gives those tasks other shapes that have taken another alternative than these numbers."""
        queues = self._queues
        for job_id, shape, number, mine in groups_to_change(queues.arena, queues.shapes, queues.at, slots, numbers):
            queues.reshape(job_id, mine, np.zeros(len(mine), dtype=np.int64), [change(job_id, shape, number)])

    def ask_again(self) -> None:
        """Hosts are others: tasks that may take any alternative ask the most of those that hosts could hold now."""
        queues, arena = self._queues, self._queues.arena
        for number in sorted(queues.shapes.of_devices):
            if number not in queues.shapes.of_devices or not alternatives_of(queues.shapes[number]):
                continue
            shape, owner = queues.shapes[number], arena["owner"]
            slots = np.flatnonzero((arena["shape"] == number) & (owner > 0) & (arena["ended"] != REMOVED))
            for base, mine in by(slots, owner[slots].astype(np.int64) - 1):
                job_id = queues.at[base]
                again = self._asked(job_id, shape)
                if again != shape:
                    queues.reshape(job_id, mine, np.zeros(len(mine), dtype=np.int64), [again])

    def _back_off(self, pool: str, key: int, now: int) -> None:
        settings, old = self._state.cell.settings, self.backoffs.get((pool, key))
        if old is not None and now < old.until_ms:
            return  # one of those that were lent before the first came back
        first, most = settings.return_backoff_ms, settings.return_backoff_max_ms
        delay = first if old is None else min(2 * old.delay_ms, most)
        self.backoffs.put((pool, key), BackoffRow(now + delay, delay))
        self._backoff_ends.set((pool, key), now + delay)

    def _forget_backoffs(self, slots: I64) -> None:
        """Units of a shape found a place: it is lent as before."""
        for _, row, key, _ in self._queues.split(slots):
            name = row.pool, self._queues.backoff_key(row, key)
            if name in self.backoffs:
                self._forget_backoff(name)

    def _forget_backoff(self, name: tuple[str, int]) -> None:
        self._backoff_ends.clear(name)
        self.backoffs.remove(name)

    def _ranges(self, event: Ranges) -> tuple[I64, I64]:
        return locate_ranges(event, self._queues.jobs)

    def _items(self, event: Items) -> tuple[I64, I32]:
        slots, exists = locate(event, self._queues.jobs)
        return slots[exists], event.run_array[exists]
