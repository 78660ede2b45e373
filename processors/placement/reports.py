"""Reports about tasks that found no place: the reason, and the return of some to their pools.

Where no change of runs can help, only another host, tasks go back at once, whoever they are of. Else borrowed work goes
back when its patience is over; a claim, what is entitled, waits on for as long as it takes.
"""

from bisect import bisect_left
from typing import Any

import numpy as np
from msgspec.structs import replace

from events.codes import Code
from events.columns import I32, I64
from events.ranks import Rank
from events.reasons import LASTING
from events.records.base import Event
from events.records.placement import GangsReturned, GangsUnplaced
from events.resources import UNBOUNDED
from processors.placement import bound_tasks
from processors.placement.assignment import Assignment, Unplaced
from processors.placement.explain import Reason, explanation, instances_text, reason
from processors.placement.group_rooms import GroupRooms, level_of
from processors.placement.runs import Runs
from processors.placement.shape_view import Parts, ShapeView
from processors.state.budget import Budget
from processors.state.causes import CauseRow, recorded

Returns = dict[tuple[Code, bool], list[tuple[Unplaced, I64]]]
"""The tasks that go back, by the reason and whether they are bound to hosts."""


class Reports:
    """One decision. Reads runs and the view as it is at the end, changes neither."""

    def __init__(self, runs: Runs, assignment: Assignment, budget: Budget, last_by: CauseRow | None) -> None:
        self._runs = runs
        self._assignment = assignment
        self._budget = budget
        self._last_by = last_by
        self._reasons: dict[tuple[object, ...], Reason] = {}
        self._explained: dict[tuple[ShapeView, int], GangsUnplaced] = {}

    def decide(self, now: int) -> list[Event]:
        """Reasons that are news, and returns."""
        out: list[Event] = []
        due = self._runs.admissions.patience_over(now).tolist()
        returns: Returns = {}
        for parts in self._by_report().values():
            plain = [part for part in parts if part.own is None] or parts  # what is kept for units is told by itself
            code = self._reason(plain[0]).code
            if code != parts[0].row.reported.get(parts[0].reported_as):
                if not self._budget.holds(1):
                    break
                self._budget.spend(1)
                out.append(self._explain(plain))
            for part in parts:
                self._return(part, due, returns)
            if self._budget.cut:
                break
        return out + [self._returned(*why, parts) for why, parts in returns.items()]

    def _by_report(self) -> dict[tuple[str, int], list[Unplaced]]:
        parts: dict[tuple[str, int], list[Unplaced]] = {}
        for each in self._assignment.unplaced:
            unplaced = each._replace(parts=self._waited_for(each))
            parts.setdefault((unplaced.tasks.job_id, unplaced.reported_as), []).append(unplaced)
        return parts

    def _waited_for(self, unplaced: Unplaced) -> Parts:
        """The alternative whose reason is that of the wait: the one for which room is kept, else the first that may
        find a place when runs have ended.
        """
        ways = self._assignment.view.ways(unplaced.parts)
        if unplaced.own is not None:
            return ways[max(unplaced.own.alternative, 0)]
        if len(ways) == 1 or unplaced.home or unplaced.code is not None:
            return ways[0]
        may = (each for each in ways if self._reason(unplaced._replace(parts=each)).code not in LASTING)
        return next(may, ways[0])

    def _reason(self, unplaced: Unplaced) -> Reason:
        if unplaced.home:
            return Reason(Code.WAITING_FOR_HOST, 0, (0,))
        if unplaced.code is not None:
            return Reason(unplaced.code, 0, (0,))
        neighbours = self._assignment.neighbours(unplaced.tasks.job_id)
        key: tuple[object, ...] = (*unplaced.parts, unplaced.own.code if unplaced.own else None)
        if neighbours is not None:
            key = (*key, unplaced.tasks.job_id)
        if unplaced.own and unplaced.gang:  # what is kept for a gang may hold some of its tasks already
            key = (*key, int(self._assignment.slots(unplaced)[0]))
        report = self._reasons.get(key)
        if report is None:
            report = self._reasons[key] = reason(self._assignment.view, unplaced.parts, unplaced.own, neighbours)
        return report

    def _explain(self, parts: list[Unplaced]) -> GangsUnplaced:
        first = parts[0]
        why, slots, row = self._reason(first), self._assignment.slots(first), first.row
        shape, size = first.parts[why.part]
        key = (shape, UNBOUNDED if len(first.parts) > 1 else size)
        neighbours = self._assignment.neighbours(first.tasks.job_id)
        is_own = first.own is not None or first.home or neighbours is not None
        previous = None if is_own else self._explained.get(key)
        if first.code is not None:
            alike = [part for part in parts if part.parts[0][0].number == shape.number]  # others lack something else
            hosts = np.concatenate([self._assignment.hosts_of(self._assignment.slots(part)) for part in alike])
            previous = bound_tasks.explanation(self._assignment.view, shape, hosts, first.code)
        elif previous is None:
            previous = explanation(self._assignment.view, *key, why.code, first.own, neighbours)
            self._explained |= {} if is_own else {key: previous}
        instances = slots - row.base
        shapes = self._runs.arena["shape"][slots]
        of_shape = instances[shapes == shape.number]
        return replace(
            previous,
            job_id=first.tasks.job_id,
            tasks=sum(len(self._assignment.slots(part)) for part in parts),
            size=len(slots) if first.gang else 1,
            fit=sum(why.fit),
            missing=instances_text(self._missing(first, why, instances, shapes)) if first.gang else "",
            instance=int(of_shape[0]),
            run=int(self._runs.arena["waiting"][row.base + int(of_shape[0])]),
            **self._groups(first, why.code),
            **(self._home(row.base + int(of_shape[0])) if first.home else {}),
            cause=recorded(self._last_by) if first.reported_as in row.reported else None,
        )

    def _groups(self, unplaced: Unplaced, code: Code) -> dict[str, Any]:
        """The groups of hosts in one of which all of a gang must be, or each of its segments."""
        level = level_of(unplaced.parts) if unplaced.gang and unplaced.code is None else None
        neighbours = self._assignment.neighbours(unplaced.tasks.job_id)
        if level is None or neighbours is None:
            return {}
        of_now = None if code in LASTING else neighbours
        return GroupRooms(self._assignment.view, unplaced.parts, level, of_now).fields()

    def _home(self, slot: int) -> dict[str, Any]:
        """The host that is kept for a task, and until when."""
        host_id = self._assignment.view.hosts.ids[int(self._runs.arena["home"][slot]) - 1]
        return {"host_id": host_id, "until_ms": self._runs.homes.until_ms(slot)}

    def _missing(self, unplaced: Unplaced, why: Reason, instances: I64, shapes: I32) -> I64:
        """The members of a gang that would find no place: of each shape the last ones."""
        missing = [
            instances[shapes == shape.number][fit:] for (shape, _), fit in zip(unplaced.parts, why.fit, strict=True)
        ]
        return np.sort(np.concatenate(missing))

    def _return(self, unplaced: Unplaced, due: list[int], returns: Returns) -> None:
        """Returns what can't be placed before hosts change, and borrowed work that has lost patience, as far as the
        budget goes.
        """
        why = self._reason(unplaced).code
        if why in LASTING:
            slots = self._assignment.slots(unplaced)
        elif unplaced.rank == Rank.BORROWED and self._any_due(unplaced, due):
            slots = np.intersect1d(self._assignment.slots(unplaced), due, assume_unique=True)
        else:
            return
        if unplaced.gang:
            if len(slots) and self._budget.holds(1):  # a gang is one range
                self._budget.spend(1)
                returns.setdefault((why, unplaced.code is not None), []).append((unplaced, slots))
            return
        most = max(0, self._budget.left)
        if len(slots) > most:
            self._budget.cut = True
        if len(slots[:most]):
            self._budget.spend(len(slots[:most]))
            returns.setdefault((why, unplaced.code is not None), []).append((unplaced, slots[:most]))

    def _any_due(self, unplaced: Unplaced, due: list[int]) -> bool:
        """Whether patience is over for some of the range: only saves work."""
        base, tasks = unplaced.row.base, unplaced.tasks
        return bisect_left(due, base + tasks.first) < bisect_left(due, base + tasks.end)

    def _returned(self, why: Code, bound: bool, parts: list[tuple[Unplaced, I64]]) -> GangsReturned:
        """The parts as ranges of neighbouring instances at one run; a gang is a range by itself."""
        slots = np.concatenate([each for _, each in parts])
        part = np.repeat(np.arange(len(parts)), [len(each) for _, each in parts])
        run = self._runs.arena["waiting"][slots]
        breaks = np.ones(len(slots), dtype=np.bool_)
        breaks[1:] = (np.diff(slots) != 1) | (np.diff(part) != 0) | (np.diff(run) != 0)
        first = np.flatnonzero(breaks)
        job_ids = tuple(dict.fromkeys(one.tasks.job_id for one, _ in parts))
        index = {job_id: at for at, job_id in enumerate(job_ids)}
        job = np.array([index[one.tasks.job_id] for one, _ in parts])
        base = np.array([one.row.base for one, _ in parts])
        gang = np.array([int(one.gang) for one, _ in parts])
        at = part[first]
        return GangsReturned.pack(
            job_ids=job_ids,
            job=job[at],
            first=slots[first] - base[at],
            count=np.diff(np.append(first, len(slots))),
            run=run[first],
            gang=gang[at],
            code=why,
            bound=bound,
        )
