"""Checks explanations: each gang that waits for admission has one, and its numbers agree with its code."""

from collections import Counter
from collections.abc import Mapping

from events.records.entitlement import GangsHeld
from events.task_shapes import shape_of
from paceline.simulate.checker.history import Round, Violation
from paceline.simulate.checker.items import Task, ranges_of, upwards
from paceline.simulate.checker.pools import Pools
from paceline.simulate.checker.revocations import REVOCABLE

Amounts = Mapping[str, int]
LOOK_MS = 10_000
"""Not each moment is looked at: queues are long."""
PATIENCE_MS = 5_000
"""So long a gang may wait until it is told why."""


class Reasons:
    """Follows the explanations of entitlement. `pools` has taken the round before."""

    def __init__(self, pools: Pools) -> None:
        self._pools = pools
        self._units = pools.units
        self._looked_ms = 0
        self._told: dict[Task, tuple[int, GangsHeld]] = {}

    def round(self, round_: Round) -> None:
        """Takes a round of entitlement. Raises `Violation`."""
        for event in round_.decisions:
            if isinstance(event, GangsHeld):
                self._held(event, round_)

    def at_rest(self, now: int) -> None:
        """For a cell in which nothing happens at this moment. Raises `Violation`."""
        if now - self._looked_ms < LOOK_MS:
            return
        self._looked_ms, lines = now, None
        for task, run in self._units.queued.items():
            if self._units.bound.get(task) == run:
                continue
            explained_run, event = self._told.get(task, (0, None))
            if (explained_run != run or event is None) and now - self._units.queued_ms[task] > PATIENCE_MS:
                raise Violation(f"at {now}, {task} run {run} waits and isn't told why")
            if event is None or event.code != "BEHIND_IN_QUEUE":
                continue
            lines = self._lines() if lines is None else lines
            mine, line = self._precedence(task), lines.get(self._line(task), Counter())
            if line[mine] <= 1 and max(line, default=mine) <= mine:
                raise Violation(f"at {now}, {task} is told that others come before it, and none does")

    def _held(self, event: GangsHeld, round_: Round) -> None:
        for gangs in ranges_of(event):
            for task in gangs.tasks():
                job = self._units.jobs.get(task[0])
                if job is None or self._units.queued.get(task) != gangs.run:
                    continue
                self._told[task] = (gangs.run, event)
                what = f"{round_} tells {task} {event.code}"
                if event.pool != job.pool or event.at not in ("/", *upwards(job.pool)):
                    raise Violation(f"{what} of {event.pool} at {event.at}, it is in {job.pool}")
                if event.firm != self._pools.is_firm(job) or event.controllers != (job.controller and task[1] == 0):
                    raise Violation(f"{what}, as of another class")
        if event.job_ids and (why := self._contradicts(event)):
            raise Violation(f"{round_} tells {event.job_ids[0]} {event.code}, and {why}: {event}")

    def _contradicts(self, event: GangsHeld) -> str:
        """Says which of its numbers contradicts its code; empty: none."""
        defined = self._pools.defined.get(event.at)
        match event.code:
            case "LIMIT_REACHED":
                return "" if _exceeds(event.asked, event.allocated, event.limit) else "it would fit within that"
            case "SLACK_REACHED" | "RESERVATION_REACHED" | "CONTROLLER_LIMIT_REACHED":
                return "" if _exceeds(event.asked, event.allocated, event.limit, 0) else "it would fit within that"
            case "ENTITLEMENT_REACHED":
                return (
                    "" if _exceeds(event.asked, event.allocated, event.entitlement, 0) else "it would fit within that"
                )
            case "POOL_CLOSED":
                return "" if self._pools.is_closed(event.pool) else "the pool is open"
            case "SHARE_OF_NOTHING":
                nothing = defined is not None and (0 in defined.share.values() or not defined.share_default)
                return "" if nothing else "the pool has a share"
            case "NOT_YET_EVALUATED":
                return "it was evaluated"
        return ""

    def _lines(self) -> dict[tuple[str, str], Counter[int]]:
        """The number of gangs of each class of each pool that wait, or are borrowed and keep their place, by
        precedence.
        """
        lines: dict[tuple[str, str], Counter[int]] = {}
        borrowed = (task for task, admission in self._units.held.items() if not admission.entitled)
        for task in (*self._units.queued, *borrowed):
            if task not in self._units.gangs or self._units.unit(task)[:1] == (task,):
                line = self._line(task)
                if line not in lines:
                    lines[line] = Counter()
                lines[line][self._precedence(task)] += 1
        return lines

    def _precedence(self, task: Task) -> int:
        """The priority of a task in its line; daemons stand there in the order in which they came."""
        return 0 if self._units.jobs[task[0]].kind == "daemon" else self._units.priority[task[0]]

    def _line(self, task: Task) -> tuple[str, str]:
        job = self._units.jobs[task[0]]
        if REVOCABLE in shape_of(job, task[1]).resources:
            return job.pool, "revocable"
        return job.pool, "daemon" if job.kind == "daemon" else "soft" if job.preemptible else "firm"


def _exceeds(need: Amounts, allocated: Amounts, most: Amounts, default: int | None = None) -> bool:
    """Whether what is asked, on top of what is held, is more than there may be, of some resource."""
    for name, amount in need.items():
        bound = most.get(name, default)
        if amount and bound is not None and allocated.get(name, 0) + amount > bound:
            return True
    return False
