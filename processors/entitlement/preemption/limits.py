"""Room under limits, and licences: units that wait for it though their pool is entitled get it from others.

Placement knows nothing of limits, so entitlement itself orders: as soon as the first of a class has waited as long as
its pool waits for others to leave, and then each minute, while enough can be freed below the level that is full. Until
it is admitted, that room is its own; it stays so for as long as placement holds hosts.

Claims that find no place hold nothing under limits either (`Parking`): what they would hold is lent meanwhile, to
preemptible work. A claim that has waited as long as capacity must be idle to be lent is parked where other work waits
for room under a limit that it takes: first placement is asked to (AdmissionsRanked), and once it has (GangsParked), no
placement can cross. A parked claim requests its room before it is placed; runs that borrowed it leave (`confirm.py`),
and once the limit has room it is a claim as before. A licence is held from admission on, so claims that need one aren't
parked.
"""

from collections.abc import Callable, Iterator
from typing import NamedTuple

import numpy as np

from events.codes import Code, Way
from events.columns import I64
from events.ranks import Rank
from events.records.base import Event
from events.records.entitlement import PreemptionsOrdered
from events.resources import Vector, fits, scale
from events.work_classes import FIRM
from processors.entitlement.admission.admit import Admission, PassResult
from processors.entitlement.admission.pass_usage import PassUsage
from processors.entitlement.bounds import BOUNDS, LIMITS, Ask, closed_at, limited_kinds, room
from processors.entitlement.preemption.confirm import PreemptionRequests
from processors.entitlement.preemption.rights import Claims
from processors.entitlement.preemption.victims import LimitVictims, PlacedRuns, Taker, Victims, order_columns
from processors.entitlement.queues.parts import GANG, ROLES, PartKey
from processors.entitlement.queues.queues import Queues
from processors.entitlement.records import TaskRecords
from processors.entitlement.rows import JobRow, RefusalRow
from processors.entitlement.state import State
from processors.state.causes import recorded
from processors.state.deadlines import Deadlines
from processors.state.seconds import Wait
from processors.state.steps import Pass

AGAIN_MS = 60_000
"""The time between two searches for units that wait longer than they should. What can be freed changes with each run
that ends, so a search at each change would cost without end where nothing can be found.
"""


class LimitedParts:
    """Parts with `PartRow.limited_ms`, by what they were told and since when; a part that was told something else since
    is left out when it is looked up. `delay_ms`: how long a pool waits until others leave; below 0: for ever.
    """

    def __init__(self, queues: Queues, delay_ms: Callable[[str], int]) -> None:
        self._queues = queues
        self._delay_ms = delay_ms
        self._jobs: dict[str, dict[int, str]] = {}
        """By job and key of the part the level that is full, or none."""
        self._starts: Deadlines[PartKey] = Deadlines()
        self._levels: dict[str, dict[PartKey, None]] = {}

    def restored(self) -> None:
        """Derives all; the tables were loaded."""
        self._jobs.clear()
        self._starts.restore(())
        self._levels.clear()
        for job_id, row in self._queues.jobs.items():
            for key in row.parts:
                self.update(PartKey(job_id, key), row)

    def pools_changed(self) -> None:
        """Finds new times: pools may wait longer or less long until others leave."""
        for job_id, keys in list(self._jobs.items()):
            for key in list(keys):
                self.update(PartKey(job_id, key), self._queues.jobs[job_id])

    def __len__(self) -> int:
        """The number of jobs that have any."""
        return len(self._jobs)

    def update(self, part: PartKey, row: JobRow) -> None:
        """Notes a part whose refusal, or the time since when it waits, has changed."""
        self._remove(part)
        part_row, level = row.parts.get(part.key), ""
        if part_row is None or not part_row.limited_ms:
            return
        if part_row.refusal is not None and is_limited(part_row.refusal):
            level, delay = part_row.refusal.at, self._delay_ms(row.pool)
            self._levels.setdefault(level, {})[part] = None
            if delay >= 0:
                self._starts.set(part, part_row.limited_ms + delay)
        self._jobs.setdefault(part.job_id, {})[part.key] = level

    def drop(self, job_id: str) -> None:
        """Drops the parts of a job that has ended."""
        for key in list(self._jobs.get(job_id, ())):
            self._remove(PartKey(job_id, key))

    def starts(self, after: int, until: int) -> Iterator[PartKey]:
        """The parts for which others are to leave from a time after one until another on, in this order."""
        return filter(self._level, self._starts.due(until, after))

    def next_ms(self, after: int) -> int | None:
        """The next time from which on others are to leave for a part, after a time."""
        return next((at for at, part in self._starts.upcoming(after) if self._level(part)), None)

    def full_levels(self) -> list[str]:
        """The pools at whose limits any part waits."""
        return sorted(
            level for level, parts in self._levels.items() if any(self._level(part) == level for part in parts)
        )

    def _level(self, part: PartKey) -> str:
        """The pool at whose limit a part waits, as it was told last; empty: at none."""
        row = self._queues.jobs.get(part.job_id)
        part_row = row.parts.get(part.key) if row is not None else None
        refusal = part_row.refusal if part_row is not None else None
        return refusal.at if refusal is not None and is_limited(refusal) else ""

    def _remove(self, part: PartKey) -> None:
        levels = self._jobs.get(part.job_id, {})
        level = levels.pop(part.key, "")
        if not levels:
            self._jobs.pop(part.job_id, None)
        if level:
            del self._levels[level][part]
            if not self._levels[level]:
                del self._levels[level]
        self._starts.clear(part)


def is_limited(refusal: RefusalRow | None) -> bool:
    """Whether a part was told that a limit holds it up."""
    return refusal is not None and refusal.code == LIMITS.code


class Waiter(NamedTuple):
    """A part whose first units are entitled but for a limit."""

    pool: str
    part: PartKey
    row: JobRow
    units: int
    need: Vector
    """The need of one unit."""


class Limits:
    """Decides PreemptionsOrdered under limits. A part is due from `PartRow.limited_ms` on."""

    def __init__(self, state: State, claims: Claims) -> None:
        self._state = state
        self._queues = state.queues
        self._holds = state.holds
        self._claims = claims
        self.runs = PlacedRuns(state.queues)
        self._parts = LimitedParts(state.queues, self._delay_ms)

    def restored(self) -> None:
        """Derives all; the tables were loaded."""
        self.runs.forget()
        self._parts.restored()

    def pools_changed(self) -> None:
        """Finds new times: pools have other rules."""
        self._parts.pools_changed()

    # Decisions.

    def decide(self, this: Pass) -> list[Event]:
        """Return orders for all that are due now, at most so many runs; a gang goes whole."""
        now, budget = this.now, this.budget.left
        after, out = self._state.cell.timer_ms, list[Event]()
        if not len(self._parts):
            return out
        due = list(self._parts.starts(-1 if _next_search(after) <= now else after, now))
        if not due:
            return out
        victims = LimitVictims(self._state, self._claims, self.runs, now)
        usage = PassUsage(self._state)
        for part in due:
            waiter = self._waiter(part, usage)
            if waiter is not None and budget > 0:
                order = self._order(waiter, usage, victims, budget, self._state.cell.orders + len(out) + 1)
                if order is not None:
                    budget -= len(order.run) // 4
                    out.append(order)
        return out

    def next_ms(self) -> int | None:
        """Return when a part is due next; None: none is."""
        after = self._state.cell.timer_ms
        if not len(self._parts):
            return self._holds.next_ms(after)
        start, search = self._parts.next_ms(after), _next_search(after)
        if start is None or search < start:
            usage = PassUsage(self._state)
            if any(self._waiter(part, usage) for part in self._parts.starts(-1, after)):
                start = search
        hold = self._holds.next_ms(after)
        return min((at for at in (start, hold) if at is not None), default=None)

    def full_levels(self) -> list[str]:
        """Return the pools at whose limits any part waits."""
        return self._parts.full_levels()

    # Records.

    def refuse(self, part: PartKey, row: JobRow, now: int) -> None:
        """Notes since when a limit holds up a part that was refused."""
        part_row = row.parts[part.key]
        part_row.limited_ms = (part_row.limited_ms or now) if is_limited(part_row.refusal) else 0
        self._parts.update(part, row)

    def admit(self, slots: I64, now: int) -> None:
        """Lets units behind those that were admitted wait from now on, in their part."""
        for job_id, row, key, _ in self._queues.split(slots) if len(self._parts) else ():
            if row.parts[key].limited_ms:
                self._queues.jobs.change(job_id).parts[key].limited_ms = now
                self._parts.update(PartKey(job_id, key), row)

    def drop(self, job_id: str) -> None:
        """Drops the parts of a job that has ended."""
        self._parts.drop(job_id)

    def _delay_ms(self, pool: str) -> int:
        return self._claims.delay_ms(pool) if pool in self._state.pools else -1

    def _waiter(self, part: PartKey, usage: PassUsage) -> Waiter | None:
        """A part of which units would be entitled if limits had room, and for which nothing is kept yet."""
        queues, row = self._queues, self._queues.jobs[part.job_id]
        pool, key = row.pool, part.key
        if not self._state.order.waits(part) or closed_at(self._state.pools, self._state.usage.levels(pool)):
            return None
        if row.daemon:
            return None
        ask = Ask(pool, queues.kind(row, key), row.priority, queues.unit_need(row, key))
        units = min(fits(ask.need, room(usage, ask, BOUNDS.beside_limits[ask.kind])), queues.waiting_units(row, key))
        if units <= 0 or fits(ask.need, room(usage, ask, (LIMITS,))) or self._holds.has(part.job_id):
            return None
        return Waiter(pool, part, row, units, ask.need)

    def _order(
        self, waiter: Waiter, usage: PassUsage, victims: LimitVictims, budget: int, number: int
    ) -> PreemptionsOrdered | None:
        """The order for as many units as others can leave for; None: not enough can be freed."""
        slots = self._slots(waiter)
        is_gang = waiter.part.key % ROLES == GANG
        taker = Taker(waiter.pool, waiter.row.priority, waiter.need, self._claims.own_right(waiter.pool, waiter.need))
        units, groups = victims.make_room(taker, 1 if is_gang else len(slots), usage, budget)
        if not groups:
            return None  # runs that are leaving already suffice, or nothing does
        usage.take(waiter.pool, FIRM * (not waiter.row.preemptible), scale(waiter.need, units))
        return self._record(waiter, slots if is_gang else slots[:units], groups, number)

    def _slots(self, waiter: Waiter) -> I64:
        """The tasks of the gang; or the first neighbouring tasks that wait in one run, so many as are entitled."""
        slots = self._queues.slots(waiter.row, waiter.part.key, "queued")
        if waiter.part.key % ROLES == GANG:
            return slots
        slots = slots[: waiter.units]
        run = self._queues.arena["queued"][slots]
        breaks = np.flatnonzero((np.diff(slots) != 1) | (np.diff(run) != 0))
        return slots[: int(breaks[0]) + 1] if len(breaks) else slots

    def _record(self, waiter: Waiter, slots: I64, groups: list[Victims], number: int) -> PreemptionsOrdered:
        queues, sizes = self._queues, [len(each.slots) for each in groups]
        run = int(queues.arena["queued"][slots[0]])
        leave = np.concatenate([each.slots for each in groups])
        slices = np.repeat([int(each.by_slice) for each in groups], sizes)
        return PreemptionsOrdered.pack(
            order=number,
            **order_columns(queues, leave, np.full(len(leave), Way.LIMIT), slices),
            for_pool=waiter.pool,
            for_job=waiter.part.job_id,
            for_first=int(slots[0]) - waiter.row.base,
            for_count=len(slots),
            for_run=run,
            code=Code.LIMIT_REACHED,
            cause=recorded(self._state.cell.last_by),
        )


def _next_search(after: int) -> int:
    """The next full minute."""
    return (after // AGAIN_MS + 1) * AGAIN_MS


class Parking:
    """Decides which claims are to be parked, and which parked units are claims again."""

    def __init__(self, state: State, limits: Limits, task_records: TaskRecords, requests: PreemptionRequests) -> None:
        self._state = state
        self._queues = state.queues
        self._order = state.order
        self._usage = state.usage
        self._pools = state.pools
        self._limits = limits
        self._task_records = task_records
        self._requests = requests

    def decide(self, this: Pass) -> list[Event]:
        """Return at most so many tasks, but for one gang."""
        now, budget = this.now, this.budget.left
        if unpark := self._unparked(budget):
            return PassResult(unpark=unpark).records(self._state)
        park: list[Admission] = []
        for pool, since in self._overdue():
            if since <= self._wait.since_s(now) and budget > 0:
                of_pool = self._of_pool(pool, now, budget)
                park += of_pool
                budget -= sum(len(each.slots) for each in of_pool)
        return PassResult(park=park).records(self._state) if park else []

    def next_ms(self) -> int | None:
        """Return when a claim has waited long enough next; None: there is none."""
        after, wait = self._state.cell.timer_ms, self._wait
        times = [
            at
            for pool, _ in self._overdue()
            for since in self._usage[pool].claims_since
            if (at := wait.over_ms(since)) > after
        ]
        return min(times, default=None)

    @property
    def _wait(self) -> Wait:
        """The time that claims wait until they are parked."""
        return Wait(self._state.cell.settings.lend_after_ms)

    def _overdue(self) -> Iterator[tuple[str, int]]:
        """The pools with claims that take room under limits for which others wait, and since when they have some."""
        root = self._usage["/"]
        if root.claims == root.parked:
            return
        full = [level for level in self._limits.full_levels() if level in self._pools and self._takes(level)]
        for pool in sorted({pool for level in full for pool in self._order.below(level)}):
            since = self._usage[pool].claims_since
            if self._order[pool].claims and since:
                yield pool, since.peekitem(0)[0]

    def _takes(self, level: str) -> bool:
        """Whether claims below a level take anything of a kind that is limited there."""
        usage, limits = self._usage[level], limited_kinds(self._pools[level])
        pairs = zip(usage.claims, usage.parked, limits, strict=True)
        return any(is_limited and claimed > parked for claimed, parked, is_limited in pairs)

    def _of_pool(self, pool: str, now: int, budget: int) -> list[Admission]:
        """The claims of a pool that are to be parked; not those for which there is a plan."""
        queues, admissions = self._queues, list[Admission]()
        busy = {row.for_job for row in self._task_records.orders.values()}
        busy |= {row.job_id for row in self._requests.table.values()}
        levels = [limited_kinds(self._pools[level]) for level in self._usage.levels(pool)]
        licences = [name in queues.kinds.licences for name in queues.kinds.names]
        until = self._wait.since_s(now)
        for *_, (job_id, key) in self._order[pool].claims:
            row = queues.jobs[job_id]
            need = queues.unit_need(row, key)
            kinds = [kind for kind, want in enumerate(need) if want > 0]
            limited = any(level[kind] for level in levels for kind in kinds)
            if budget <= 0 or not limited or job_id in busy or any(licences[kind] for kind in kinds):
                continue
            slots = queues.claim_slots(row, key)
            slots = slots[(queues.arena["rank"][slots] == Rank.ENTITLED) & (queues.arena["due_s"][slots] <= until)]
            gang = key % ROLES == GANG
            if not len(slots) or (gang and len(slots) < row.gang_min):
                continue
            slots = slots if gang else slots[:budget]
            admissions.append(Admission(job_id, row, slots, gang, Rank.PARKING))
            budget -= len(slots)
        return admissions

    def _unparked(self, budget: int) -> list[Admission]:
        """The parked units for which limits have room again, where others have left for them."""
        queues, admissions = self._queues, list[Admission]()
        holds = sorted(self._state.holds.table.items())
        if not holds:
            return []
        usage = PassUsage(self._state)
        for _, hold in holds:
            row = queues.jobs.get(hold.job_id)
            if row is None or hold.first + hold.count > row.instances or budget <= 0:
                continue
            slots = np.arange(hold.first, hold.first + hold.count) + row.base
            if not (queues.arena["rank"][slots] == Rank.PARKED).all():
                continue
            need = queues.total_need(row, slots)
            if fits(need, room(usage, Ask(hold.pool, 0, row.priority, need), BOUNDS.limits[0])):
                usage.take(hold.pool, 0, need)
                admissions.append(Admission(hold.job_id, row, slots, len(slots) > 1, Rank.ENTITLED))
                budget -= len(slots)
        return admissions
