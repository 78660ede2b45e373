"""The disruptions that wait for a verdict, each with what goes or stays with it."""

from collections.abc import Iterable
from typing import NamedTuple

from events.codes import RunCause
from processors.sla.availability import Availability, Flag, is_healthy, is_ready
from processors.sla.rows import JobRow
from processors.state.table import Table

_UPDATE, _PREEMPT = int(RunCause.UPDATE), int(RunCause.PREEMPT)
_PATIENT, _AGED = int(Flag.PATIENT), int(Flag.AGED)
GANG = -1
COLUMNS = ("available", "asked_at", "why", "unit", "allowed", "flags", "told")


class Ask(NamedTuple):
    """A run that shall go."""

    slot: int
    job_id: str
    since: int
    unit: int
    ready: bool
    """It is available and wanted: others miss it."""
    healthy: bool
    """It counts as available now: that it goes costs one."""
    by_others: bool
    """Not an update asks, so the hour counts."""
    replaceable: bool
    """Not an order to preempt asks, so that a surplus instance is set for it."""
    patient: bool
    aged: bool
    code: int


class Unit(NamedTuple):
    """Runs that go together, or stay; most often it is one."""

    since: int
    """The second of the oldest of them."""
    priority: int
    """The lowest of their jobs."""
    asks: tuple[Ask, ...]

    @property
    def order(self) -> tuple[int, int, str, int]:
        """Oldest first, then the lower priority."""
        return self.since, self.priority, self.asks[0].job_id, self.asks[0].slot

    @property
    def is_single(self) -> bool:
        """Whether it is a run that goes alone, whatever others do."""
        return not self.asks[0].unit

    def jobs(self) -> dict[str, list[Ask]]:
        """Its ready runs by job: what costs something."""
        by_job: dict[str, list[Ask]] = {}
        for ask in self.asks:
            if ask.ready:
                by_job.setdefault(ask.job_id, []).append(ask)
        return by_job


def units_of(job_ids: Iterable[str], jobs: Table[str, JobRow], available: Availability) -> list[Unit]:
    """The units that wait in some jobs, in the order in which they are served. The jobs hold whole units."""
    singles: list[Unit] = []
    gathered: dict[tuple[int, str], list[Ask]] = {}
    for job_id in job_ids:
        priority, slots = jobs[job_id].priority, available.waiting(job_id)
        for slot, row in zip(slots.tolist(), available.arena.rows(slots, *COLUMNS), strict=True):
            ask = _ask(slot, job_id, *row)
            if not ask.unit:
                singles.append(Unit(ask.since, priority, (ask,)))
            else:
                gathered.setdefault((ask.unit, job_id if ask.unit == GANG else ""), []).append(ask)
    whole = [
        Unit(min(ask.since for ask in asks), min(jobs[ask.job_id].priority for ask in asks), tuple(asks))
        for asks in gathered.values()
    ]
    return sorted(singles + whole, key=lambda unit: unit.order)


def _ask(
    slot: int, job_id: str, available: int, asked_at: int, why: int, unit: int, allowed: int, flags: int, code: int
) -> Ask:
    ready = bool(is_ready(available, allowed, flags))
    return Ask(
        slot=slot,
        job_id=job_id,
        since=asked_at,
        unit=unit,
        ready=ready,
        healthy=ready and bool(is_healthy(available, allowed, flags)),
        by_others=why != _UPDATE,
        replaceable=why != _PREEMPT,
        patient=bool(flags & _PATIENT),
        aged=bool(flags & _AGED),
        code=code,
    )
