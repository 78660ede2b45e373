"""Claims that find no place hold nothing under limits: what they would hold is lent meanwhile, to preemptible work.

A claim that has waited as long as capacity must be idle to be lent is parked where other work waits for room under a
limit that it takes: first placement is asked to (AdmissionsRanked), and once it has (GangsParked), no placement can
cross. It asks before it is placed; what was lent leaves (`confirm.py`), and once the limit has room it is a claim as
before. A licence is held from admission on, so claims that need one aren't parked.
"""

from collections.abc import Iterator

import numpy as np

from events.ranks import Rank
from events.records.base import Event
from events.records.entitlement import AdmissionsRanked
from events.resources import fits
from processors.entitlement.admission.admit import Admission, ranked
from processors.entitlement.admission.pass_usage import PassUsage
from processors.entitlement.bounds import LIMITS, Ask, room
from processors.entitlement.preemption.confirm import Asks
from processors.entitlement.preemption.limits import Limits
from processors.entitlement.preemption.unplaced import latest
from processors.entitlement.queues.parts import GANG, ROLES
from processors.entitlement.records import Folds
from processors.entitlement.state import State
from processors.state.causes import recorded
from processors.state.seconds import milliseconds
from processors.state.steps import Pass


class Parking:
    """Decides who is to be parked, and who is a claim again."""

    def __init__(self, state: State, limits: Limits, folds: Folds, asks: Asks) -> None:
        self._state = state
        self._queues = state.queues
        self._pools = state.pools
        self._limits = limits
        self._folds = folds
        self._asks = asks

    def decide(self, this: Pass) -> list[Event]:
        """At most so many tasks, but for one gang."""
        now, budget = this.now, this.budget.left
        back = self._back(budget)
        if back:
            return [self._ranked(back)]
        taken: list[Admission] = []
        for pool, since in self._overdue():
            if since <= latest(now - self._state.cell.settings.lend_after_ms) and budget > 0:
                found = self._of_pool(pool, now, budget)
                taken += found
                budget -= sum(len(each.slots) for each in found)
        return [self._ranked(taken)] if taken else []

    def next_ms(self) -> int | None:
        """When a claim has waited long enough next; None: there is none."""
        after, wait = self._state.cell.timer_ms, self._state.cell.settings.lend_after_ms
        times = [
            milliseconds(since) + wait for pool, _ in self._overdue() for since in self._queues.usage[pool].claims_since
        ]
        return min((at for at in times if at > after), default=None)

    def _overdue(self) -> Iterator[tuple[str, int]]:
        """The pools with claims that take room under limits for which others wait, and since when they have some."""
        queues, root = self._queues, self._queues.usage["/"]
        if root.claims == root.parked:
            return
        full = [level for level in self._limits.full_levels() if level in self._pools and self._takes(level)]
        for pool in sorted({pool for level in full for pool in queues.order.below(level)}):
            since = queues.usage[pool].claims_since
            if queues.order[pool].claims and since:
                yield pool, since.peekitem(0)[0]

    def _takes(self, level: str) -> bool:
        """Whether claims below a level take anything of what is limited there."""
        holding, limits = self._queues.usage[level], self._limited(level)
        pairs = zip(holding.claims, holding.parked, limits, strict=True)
        return any(is_limited and claimed > parked for claimed, parked, is_limited in pairs)

    def _limited(self, level: str) -> list[bool]:
        """Which kinds are limited at a level."""
        return [most >= 0 for most in self._pools[level].limit]

    def _of_pool(self, pool: str, now: int, budget: int) -> list[Admission]:
        """The claims of a pool that are to be parked; not those that have a plan."""
        queues, found = self._queues, list[Admission]()
        busy = {row.for_job for row in self._folds.orders.values()} | {row.job_id for row in self._asks.table.values()}
        levels = [self._limited(level) for level in queues.usage.levels(pool)]
        licences = [name in queues.kinds.licences for name in queues.kinds.names]
        until = latest(now - self._state.cell.settings.lend_after_ms)
        for *_, (job_id, key) in queues.order[pool].claims:
            row = queues.jobs[job_id]
            need = queues.unit_need(row, key)
            wanted = [kind for kind, want in enumerate(need) if want > 0]
            limited = any(level[kind] for level in levels for kind in wanted)
            if budget <= 0 or not limited or job_id in busy or any(licences[kind] for kind in wanted):
                continue
            slots = queues.claim_slots(row, key)
            slots = slots[(queues.arena["rank"][slots] == Rank.ENTITLED) & (queues.arena["due_s"][slots] <= until)]
            gang = key % ROLES == GANG
            if not len(slots) or (gang and len(slots) < row.gang_min):
                continue
            slots = slots if gang else slots[:budget]
            found.append(Admission(job_id, row, slots, gang, Rank.PARKING))
            budget -= len(slots)
        return found

    def _back(self, budget: int) -> list[Admission]:
        """Parked units for which limits have room again, where others have left for them."""
        queues, found = self._queues, list[Admission]()
        usage = PassUsage(self._state)
        for _, hold in sorted(self._state.holds.table.items()):
            row = queues.jobs.get(hold.job_id)
            if row is None or hold.first + hold.count > row.instances or budget <= 0:
                continue
            slots = np.arange(hold.first, hold.first + hold.count) + row.base
            if not (queues.arena["rank"][slots] == Rank.PARKED).all():
                continue
            need = queues.asked(row, slots)
            if fits(need, room(usage, Ask(hold.pool, 0, row.priority, need), (LIMITS,))):
                usage.take(hold.pool, 0, need)
                found.append(Admission(hold.job_id, row, slots, len(slots) > 1, Rank.ENTITLED))
                budget -= len(slots)
        return found

    def _ranked(self, taken: list[Admission]) -> AdmissionsRanked:
        return ranked(self._queues, taken, recorded(self._state.cell.last_by))
