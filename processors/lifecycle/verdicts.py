"""The verdicts of sla on planned ends of runs, and the runs that records name."""

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from events.columns import I64
from events.records.lifecycle import DisruptionAsked, DisruptionWithdrawn
from events.records.sla import DisruptionAllowed, DisruptionDeferred
from processors.lifecycle.asks import GANG, UNIT
from processors.lifecycle.causes import SlaVerdict
from processors.lifecycle.lookups import Mask
from processors.lifecycle.task_table import TaskEvent
from processors.lifecycle.tasks import Tasks
from processors.state.arena import HasStretch, locate
from processors.state.handlers import Row

Hear = Callable[[I64], None]
"""Hears of which tasks there is a verdict."""


class PresentRuns:
    """Finds the runs that records name."""

    def __init__(self, tasks: Tasks, jobs: Mapping[str, HasStretch]) -> None:
        self._tasks = tasks
        self._jobs = jobs

    def named(self, event: Any) -> tuple[I64, Mask]:
        """The slots that a record names, and which of them name the present runs of their tasks."""
        slots, present = locate(event, self._jobs)
        run = event.run_array
        if len(run) != len(slots):
            return slots, np.zeros(len(slots), dtype=np.bool_)
        present[present] = self._tasks.arena["run"][slots[present]] == run[present]
        return slots, present

    def of(self, event: Any) -> I64:
        """The slots whose present runs a record names."""
        slots, present = self.named(event)
        present_slots: I64 = slots[present]
        return present_slots


class Verdicts:
    """Notes what was asked of sla and what it said; `allowed` and `deferred` hear of it."""

    def __init__(
        self,
        tasks: Tasks,
        runs: PresentRuns,
        number: Callable[[str], int],
        allowed: tuple[Hear, ...],
        deferred: tuple[Hear, ...],
    ) -> None:
        self._tasks = tasks
        self._number = number
        self._runs = runs
        self._hear_allowed = allowed
        self._hear_deferred = deferred
        self.rows: tuple[Row, ...] = (
            (DisruptionAsked, self._asked),
            (DisruptionWithdrawn, self._withdrawn),
            (DisruptionAllowed, self._allowed),
            (DisruptionDeferred, self._deferred),
        )

    def _asked(self, event: DisruptionAsked, now: int) -> None:
        slots, present = self._runs.named(event)
        self._tasks.note("verdict", slots[present], SlaVerdict.ASKED)
        why, unit = event.why_array, event.unit_array
        if len(why) != len(present) or len(unit) != len(present):
            return  # before 0.4
        numbers = np.array([0, *map(self._number, event.host_ids)], dtype=np.int64)
        of_host = numbers.take(np.maximum(unit, 0), mode="clip") + 1
        unit = np.where(unit < 0, GANG, np.where(unit > 0, of_host, 0))
        self._tasks.arena.set("asked", slots[present], (why + UNIT * unit)[present])

    def _withdrawn(self, event: DisruptionWithdrawn, now: int) -> None:
        self._tasks.note("verdict", self._runs.of(event), SlaVerdict.NONE)

    def _allowed(self, event: DisruptionAllowed, now: int) -> None:
        slots, present = self._runs.named(event)
        later, free = event.deferred_array > 0, event.free_array > 0
        if len(later) != len(present):
            return
        free = free if len(free) == len(later) else np.zeros_like(later)
        for verdict, which in (
            (TaskEvent.ALLOWED, ~later & ~free),
            (TaskEvent.ALLOWED_LATER, later & ~free),
            (TaskEvent.FREE, ~later & free),
            (TaskEvent.FREE_LATER, later & free),
        ):
            if not which.any():
                continue
            counts = self._tasks.record_verdict(verdict, slots[present & which])
            for hear in self._hear_allowed:
                hear(counts)

    def _deferred(self, event: DisruptionDeferred, now: int) -> None:
        if event.again:  # the ask has its verdict already, or was withdrawn since: then it is none on the next ask
            return
        counts = self._tasks.record_verdict(TaskEvent.DEFERRED, self._runs.of(event))
        for hear in self._hear_deferred:
            hear(counts)
