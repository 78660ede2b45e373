"""A fold that knows the pools of jobs, whichever machine it is of, and that may take facts in otherwise."""

from collections.abc import Callable

from events.codec import decode_once
from events.codes import ENDED_JOBS
from events.log.port import LogRecord
from events.records.base import Event
from events.records.lifecycle import JobAccepted, JobChanged
from events.records.parts import Skipped
from events.records.rounds import RoundCommitted
from events.rounds import Delivered, decode_decisions
from events.topics import rounds_of
from processors.entitlement.machine import Entitlement
from processors.lifecycle.machine import Lifecycle
from processors.machine import Machine
from processors.runtime.fold import Fold

LIFECYCLE = rounds_of("lifecycle")
Alter = Callable[[LogRecord], LogRecord]


class WatchedFold(Fold):
    """`alter`: makes another fact of one that a round has recorded."""

    def __init__(self, machine: Machine, cell: int, alter: Alter | None = None) -> None:
        super().__init__(machine, cell)
        self.alter = alter
        self._pools: dict[str, str] = {}
        """The pools of open jobs that were accepted since it began, where the machine has no rows of them."""

    def take_recorded(self, record: LogRecord, skip: Skipped | None, own: Delivered) -> None:
        """Implements `Fold.take_recorded`."""
        if self.alter is not None and skip is None and record.topic not in self._machines:
            record = self.alter(record)
        super().take_recorded(record, skip, own)
        if record.topic == LIFECYCLE and not isinstance(self.machine, Entitlement):
            event = decode_once(record.value)
            for decision in decode_decisions(event) if isinstance(event, RoundCommitted) else ():
                self._note(decision)

    def pool_of(self, job_id: str) -> str:
        """The pool of a job; empty: it isn't known."""
        machine = self.machine
        if isinstance(machine, Lifecycle | Entitlement):
            jobs = machine.jobs if isinstance(machine, Lifecycle) else machine.queues.jobs
            row = jobs.get(job_id)
            return row.pool if row is not None else ""
        return self._pools.get(job_id, "")

    def _note(self, decision: Event) -> None:
        if isinstance(decision, JobAccepted):
            self._pools[decision.job_id] = decision.pool
        elif isinstance(decision, JobChanged) and decision.state in ENDED_JOBS and not decision.kept:
            self._pools.pop(decision.job_id, None)
