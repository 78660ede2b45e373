"""Folds what machines say of jobs that wait: one row per job and kind, each kind said by one machine alone.

`unplaced` and `asked` are placement's, `refused` and `right` entitlement's, `disruption` sla's; `unplaced` is of tasks
that are placed alone, `unplaced_gang` of a gang. A row goes when its machine says that what it was about has come to
pass, and with the end of its job; those of WAITS stay then, with 0 tasks: a machine says a reason again only when it is
another one, so tasks that came later may still wait for it.

What entitlement says of tasks that wait for admission is in `waiting.py`, orders to preempt are in `preemptions.py`.
"""

from collections.abc import Iterator
from typing import Any

import msgspec
import numpy as np

from events.codes import Code
from events.records.base import Event
from events.records.entitlement import CreditsSet, PreemptionRefused, PreemptionsOrdered, RightsSet, TurnSet
from events.records.placement import GangsReturned, GangsUnplaced, HostsReserved, PreemptionAsked, TasksPlaced
from events.records.sla import DisruptionAllowed, DisruptionDeferred
from events.turn_credit import is_left
from paceline.client.json_type import Json
from projections.views.cache import Cache
from projections.views.job_history import concerns
from projections.views.record_context import Folds, RecordContext
from projections.views.rows import ExplanationRow, to_json
from projections.views.sharing_rows import CreditRow, ReservationRow, TurnRow

WAITS = ("unplaced", "unplaced_gang")
KINDS = (*WAITS, "asked", "refused", "right", "disruption")
_LEFT_OUT = ("job_id", "job_ids", "code", "tasks", "cause")


class ReasonFold:
    """The fold of the reasons for which jobs wait."""

    def __init__(self, cache: Cache) -> None:
        self._cache = cache
        self._rows = cache.explanations
        self.folds: Folds = {
            GangsUnplaced: self._unplaced,
            GangsReturned: self._returned,
            TasksPlaced: self._placed,
            PreemptionAsked: self._asked,
            PreemptionRefused: self._refused,
            PreemptionsOrdered: self._ordered,
            RightsSet: self._rights,
            HostsReserved: self._reserved,
            TurnSet: self._turn,
            CreditsSet: self._credits,
            DisruptionDeferred: self._deferred,
            DisruptionAllowed: self._allowed,
        }

    def _unplaced(self, moment: RecordContext, event: GangsUnplaced) -> None:
        self._say(moment, event.job_id, WAITS[event.size > 1], event.code, event.tasks, _numbers(event))

    def _placed(self, moment: RecordContext, event: TasksPlaced) -> None:
        self._settle_all((*WAITS, "asked"), event)

    def _asked(self, moment: RecordContext, event: PreemptionAsked) -> None:
        if not event.job_id:  # it is for no job
            return
        numbers = {"hosts": len(event.host_ids), "victims": len(event.job_array), "spared": event.spared}
        numbers |= {"from_jobs": event.job_ids[:3], **_alternative(event)}
        self._say(moment, event.job_id, "asked", "", event.count, numbers)

    def _refused(self, moment: RecordContext, event: PreemptionRefused) -> None:
        if event.job_id:
            self._say(moment, event.job_id, "refused", event.code, event.count, _numbers(event))

    def _ordered(self, moment: RecordContext, event: PreemptionsOrdered) -> None:
        if event.for_job:
            self._settle(("refused",), event.for_job, event.for_count)

    def _allowed(self, moment: RecordContext, event: DisruptionAllowed) -> None:
        self._settle_all(("disruption",), event)

    def _say(self, moment: RecordContext, job_id: str, kind: str, code: str, tasks: int, numbers: Json | None) -> None:
        """Sets a reason; `since` stays while the code does, and so do the numbers where there are no new ones.

        A machine that hasn't heard yet that a job is over may still explain it: then there is nothing to explain.
        """
        job = self._cache.jobs.get(job_id)
        if job is None or job.ended_ms or not concerns(job, moment):
            return
        before = self._rows.get((job_id, kind))
        same = before is not None and before.code == code and before.tasks > 0
        text = to_json(numbers) if numbers is not None else (before.numbers if before else "{}")
        since = before.since_ms if before is not None and same else moment.now
        self._rows.put(ExplanationRow(job_id, kind, moment.machine, code, tasks, since, moment.round, text))

    def _returned(self, moment: RecordContext, event: GangsReturned) -> None:
        gang = event.gang_array == 1
        for kind, mine in zip(WAITS, (~gang, gang), strict=True):
            for job_id, tasks in per_job(event, np.where(mine, event.count_array, 0)):
                if tasks:
                    self._say(moment, job_id, kind, event.code, tasks, None)

    def _deferred(self, moment: RecordContext, event: DisruptionDeferred) -> None:
        columns = (event.unavailable_array.tolist(), event.max_unavailable_array.tolist())
        for (job_id, tasks), *numbers in zip(per_job(event), *columns, strict=True):
            numbers_by_name = dict(zip(("unavailable", "max_unavailable"), numbers, strict=True))
            self._say(moment, job_id, "disruption", event.code, tasks, numbers_by_name)

    def _settle_all(self, kinds: tuple[str, ...], event: TasksPlaced | DisruptionAllowed) -> None:
        """Tasks of jobs have what they waited for; their rows are read at once."""
        self._rows.load((job_id, kind) for job_id in event.job_ids for kind in kinds)
        for job_id, tasks in per_job(event):
            self._settle(kinds, job_id, tasks)

    def _settle(self, kinds: tuple[str, ...], job_id: str, tasks: int) -> None:
        """So many tasks have what they waited for."""
        for kind in kinds:
            row = self._rows.get((job_id, kind))
            if row is None:
                continue
            if row.tasks <= tasks and kind not in WAITS:
                self._rows.remove((job_id, kind))
            else:
                self._rows.put(msgspec.structs.replace(row, tasks=max(0, row.tasks - tasks)))

    def _rights(self, moment: RecordContext, event: RightsSet) -> None:
        """Takers and what they may take; those that are removed and not named again have no right any more."""
        for at in {*event.removed_job_array.tolist()} - {*event.job_array.tolist()}:
            self._rows.remove((event.job_ids[at], "right"))
        others = event.others_array.tolist()
        columns = (column.tolist() for column in (event.job_array, event.count_array, event.flags_array))
        for job, count, flags, most in zip(*columns, others, strict=False):
            numbers = {"others": _some(event.resources, most), "flags": flags}
            self._say(moment, event.job_ids[job], "right", "", count, numbers)

    def _reserved(self, moment: RecordContext, event: HostsReserved) -> None:
        rows, key = self._cache.reservations, (event.job_id, event.first)
        if event.state != Code.RESERVED:
            rows.remove(key)
        elif concerns(self._cache.jobs.get(event.job_id), moment):
            if event.alternative >= 0:
                numbers = {"hosts": len(event.host_ids), **_alternative(event)}
                self._say(moment, event.job_id, "asked", "", event.count, numbers)
            before = rows.get(key)
            hosts = to_json(event.host_ids)
            since = before.since_ms if before is not None and before.run == event.run else moment.now
            rows.put(
                ReservationRow(
                    event.job_id,
                    event.first,
                    event.count,
                    event.run,
                    hosts,
                    to_json(event.kept),
                    since,
                    event.until_ms,
                    moment.round,
                )
            )

    def _turn(self, moment: RecordContext, event: TurnSet) -> None:
        saved = self._cache.credits.change(event.pool)
        if saved is not None:
            passed = max(0, moment.now - saved.at_ms)
            saved.goes_on = int(event.state == Code.ENDED and is_left(*saved.amounts(), passed))
        if event.state != Code.STARTED:
            self._cache.turns.remove(event.pool)
            return
        unit = (event.job_id, event.first, event.count, event.run)
        self._cache.turns.put(TurnRow(event.pool, *unit, to_json(event.floor), moment.now))

    def _credits(self, moment: RecordContext, event: CreditsSet) -> None:
        columns = [column.tolist() for column in (event.credit_array, event.rate_array, event.full_array)]
        for at, pool in enumerate(event.pools):
            credit, rate, full = (_some(event.resources, column[at]) for column in columns)
            old = self._cache.credits.get(pool)
            goes_on = old.goes_on if old is not None and (full or credit) else 0
            if full or goes_on:
                maps = (to_json(credit), to_json(rate), to_json(full))
                self._cache.credits.put(CreditRow(pool, *maps, moment.now, goes_on))
            else:
                self._cache.credits.remove(pool)


def _alternative(event: PreemptionAsked | HostsReserved) -> Json:
    """The alternative of a job for which room is made, and why not those before it; empty: it has only one request."""
    return {"alternative": event.alternative, "passed": event.passed_codes} if event.alternative >= 0 else {}


def per_job(event: Any, count: Any = None) -> Iterator[tuple[str, int]]:
    """The jobs that a record names, with how many of their tasks."""
    sums = np.bincount(event.job_array, count, len(event.job_ids)).astype(np.int64)
    return zip(event.job_ids, sums.tolist(), strict=True)


def _some(names: tuple[str, ...], amounts: list[int]) -> dict[str, int]:
    return {name: amount for name, amount in zip(names, amounts, strict=True) if amount}


def _numbers(event: Event) -> Json:
    """The numbers of a reason."""
    fields = {name: getattr(event, name) for name in event.__struct_fields__ if name not in _LEFT_OUT}
    return {name: value for name, value in fields.items() if not isinstance(value, bytes)}
