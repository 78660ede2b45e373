"""An accepted round as messages of the fan-out: pure, so that a repeat of a round gives the same messages.

One message per run, whole gangs where gangs are admitted. Order: what the round skipped, then its decisions as they
stand, each one's items as they stand. So ids grow within a cell and machine, compared by (round, index, item).

Decision 014.
"""

from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple, TypedDict

import numpy as np

from events.acceptance import digest
from events.codec import CodecError, decode
from events.codes import Code, JobState, Outcome, TaskState
from events.columns import I32
from events.device_columns import devices_of
from events.ranks import are_entitled, ranks_of
from events.records.admissions import GangAdmitted
from events.records.base import Event, ItemsEvent, RangesEvent
from events.records.entitlement import GangsAdmitted, PreemptionsOrdered
from events.records.job_states import JobStateChanged
from events.records.lifecycle import (
    GangsQueued,
    JobAccepted,
    JobChanged,
    JobRejected,
    RunsAvailable,
    RunsEnded,
    RunsOrdered,
    RunsStopping,
)
from events.records.parts import PlacedDevice, Skipped
from events.records.placement import TasksPlaced
from events.records.placements import TaskPlaced
from events.records.preemptions import TaskPreempted
from events.records.quarantine import RecordQuarantined
from events.records.rounds import RoundCommitted
from events.records.task_states import TaskStateChanged
from events.topics import JOBS, rounds_of
from projections.views.job_states import REJECTED

Message = TaskPlaced | TaskPreempted | GangAdmitted | JobStateChanged | TaskStateChanged | RecordQuarantined
OUTPUTS: dict[str, tuple[type[Message], ...]] = {
    "lifecycle": (JobStateChanged, TaskStateChanged, RecordQuarantined),
    "entitlement": (GangAdmitted, TaskPreempted, RecordQuarantined),
    "placement": (TaskPlaced, RecordQuarantined),
    "sla": (RecordQuarantined,),
}
"""The messages that the rounds of each machine unfold to; each type has a topic of its own."""
SKIPPED = -1
"""The index of what the round itself says."""
ENDED = "ENDED"
_OUTCOMES = {int(outcome): outcome.name for outcome in Outcome}


class OutputMessage(NamedTuple):
    """A message: its topic, its key, its event id and the record."""

    topic: str
    key: str
    event_id: str
    event: Message


class Head(TypedDict):
    """The fields that every message begins with."""

    event_id: str
    cell: int
    machine: str
    round: int
    index: int
    item: int
    at_ms: int


class Place:
    """Where a decision stands; makes the heads of its items."""

    def __init__(self, round_: RoundCommitted, index: int) -> None:
        self._id = f"{round_.cell}/{round_.machine}/{round_.round}/{index}/"
        self._round = round_
        self._index = index

    def head(self, item: int) -> Head:
        """The head of one item."""
        round_ = self._round
        return Head(
            event_id=f"{self._id}{item}",
            cell=round_.cell,
            machine=round_.machine,
            round=round_.round,
            index=self._index,
            item=item,
            at_ms=round_.now,
        )


def unfold(round_: RoundCommitted, offset: int) -> Iterator[OutputMessage]:
    """The messages of an accepted round that stands at `offset`, in order. A decision that can't be decoded, or whose
    columns don't fit together, is named like a record that was skipped.
    """
    skipping = Place(round_, SKIPPED)
    for item, skipped in enumerate(round_.skipped):
        yield _quarantined(skipping.head(item), skipped)
    for index, raw in enumerate(round_.decisions):
        place = Place(round_, index)
        try:
            decision = decode(raw)
            turn = _UNFOLDERS.get(type(decision))
            if turn:
                yield from turn(place, decision)
        except (ValueError, IndexError) as error:
            reason = error.code if isinstance(error, CodecError) else "BAD_VALUE"
            yield _quarantined(place.head(SKIPPED), Skipped(rounds_of(round_.machine), offset, reason, digest(raw)))


def _quarantined(head: Head, skipped: Skipped) -> OutputMessage:
    event = RecordQuarantined(
        **head,
        record_topic=skipped.topic,
        record_offset=skipped.offset,
        reason=skipped.reason,
        digest=skipped.digest.hex(),
    )
    return OutputMessage(event.topic, f"{skipped.topic}:{skipped.offset}", head["event_id"], event)


def _job_accepted(place: Place, event: JobAccepted) -> Iterator[OutputMessage]:
    yield _job(
        place,
        event.job_id,
        event.job_id,
        state=JobState.PENDING.value,
        jobs_offset=event.jobs_offset,
        pool=event.pool,
        instances=event.instances,
    )


def _job_rejected(place: Place, event: JobRejected) -> Iterator[OutputMessage]:
    # Where the id is another job's, that job goes on: what is rejected is the submission alone.
    key = f"{JOBS.name}:{event.jobs_offset}" if event.code == Code.ID_TAKEN else event.job_id
    yield _job(
        place,
        key,
        event.job_id,
        state=REJECTED,
        code=event.code,
        message=event.message,
        jobs_offset=event.jobs_offset,
    )


def _job_changed(place: Place, event: JobChanged) -> Iterator[OutputMessage]:
    yield _job(
        place,
        event.job_id,
        event.job_id,
        state=event.state,
        succeeded=event.succeeded,
        failed=event.failed,
        killed=event.killed,
    )


def _job(place: Place, key: str, job_id: str, **more: Any) -> OutputMessage:
    head = place.head(0)
    none = {"code": "", "message": "", "jobs_offset": None, "pool": None, "instances": None}
    counts = {"succeeded": 0, "failed": 0, "killed": 0}
    event = JobStateChanged(**head, job_id=job_id, **{**none, **counts, **more})
    return OutputMessage(event.topic, key, head["event_id"], event)


def _queued(place: Place, event: GangsQueued) -> Iterator[OutputMessage]:
    yield from _task_states(place, *_runs(event), TaskState.QUEUED.name)


def _ordered(place: Place, event: RunsOrdered) -> Iterator[OutputMessage]:
    hosts = _named(event.host_ids, event.host_array)
    yield from _task_states(place, *_runs(event), TaskState.ORDERED.name, hosts=hosts)


def _available(place: Place, event: RunsAvailable) -> Iterator[OutputMessage]:
    yield from _task_states(place, *_runs(event), TaskState.RUNNING.name)


def _stopping(place: Place, event: RunsStopping) -> Iterator[OutputMessage]:
    yield from _task_states(
        place,
        *_runs(event),
        TaskState.STOPPING.name,
        hosts=_named(event.host_ids, event.host_array),
        outcomes=_outcomes(event.cause_array),
    )


def _ended(place: Place, event: RunsEnded) -> Iterator[OutputMessage]:
    codes = [None if code < 0 else code for code in event.exit_code_array.tolist()]
    yield from _task_states(place, *_runs(event), ENDED, outcomes=_outcomes(event.outcome_array), exit_codes=codes)


def _task_states(
    place: Place,
    job_ids: list[str],
    instances: list[int],
    runs: list[int],
    state: str,
    hosts: Sequence[str | None] = (),
    outcomes: Sequence[str | None] = (),
    exit_codes: Sequence[int | None] = (),
) -> Iterator[OutputMessage]:
    nobody = [None] * len(job_ids)
    columns = zip(job_ids, instances, runs, hosts or nobody, outcomes or nobody, exit_codes or nobody, strict=True)
    for item, (job_id, instance, run, host_id, outcome, exit_code) in enumerate(columns):
        head = place.head(item)
        event = TaskStateChanged(
            **head,
            job_id=job_id,
            instance=instance,
            run=run,
            state=state,
            host_id=host_id,
            outcome=outcome,
            exit_code=exit_code,
        )
        yield OutputMessage(event.topic, f"{job_id}/{instance}", head["event_id"], event)


def _admitted(place: Place, event: GangsAdmitted) -> Iterator[OutputMessage]:
    item = 0
    ranges = (event.job_array, event.first_array, event.count_array, event.run_array, event.gang_array)
    columns = (column.tolist() for column in (*ranges, are_entitled(ranks_of(event))))
    for job, first, count, run, gang, claim in zip(*columns, strict=True):
        size = count if gang else 1
        for start in range(first, first + count, size):
            head = place.head(item)
            job_id = event.job_ids[job]
            admitted = GangAdmitted(**head, job_id=job_id, first=start, count=size, run=run, entitled=claim)
            yield OutputMessage(admitted.topic, f"{job_id}/{start}", head["event_id"], admitted)
            item += 1


def _preempted(place: Place, event: PreemptionsOrdered) -> Iterator[OutputMessage]:
    columns = zip(*_runs(event), _named(event.from_pools, event.from_pool_array), strict=True)
    for item, (job_id, instance, run, from_pool) in enumerate(columns):
        head = place.head(item)
        preempted = TaskPreempted(
            **head,
            job_id=job_id,
            instance=instance,
            run=run,
            for_pool=event.for_pool,
            from_pool=from_pool,
            code=event.code,
            order=event.order,
            for_job=event.for_job,
        )
        yield OutputMessage(preempted.topic, f"{job_id}/{instance}", head["event_id"], preempted)


def _placed(place: Place, event: TasksPlaced) -> Iterator[OutputMessage]:
    sessions = event.host_session_array[event.host_array].tolist()
    devices = dict(devices_of(event))
    columns = zip(*_runs(event), _named(event.host_ids, event.host_array), sessions, _ports(event), strict=True)
    for item, (job_id, instance, run, host_id, session, ports) in enumerate(columns):
        head = place.head(item)
        placed = TaskPlaced(
            **head,
            job_id=job_id,
            instance=instance,
            run=run,
            host_id=host_id,
            host_session=session,
            ports=ports,
            devices=tuple(PlacedDevice(*each) for each in devices.get(item, ())),
        )
        yield OutputMessage(placed.topic, f"{job_id}/{instance}", head["event_id"], placed)


def _ports(event: TasksPlaced) -> list[tuple[int, ...]]:
    """The ports of each item; they stand one after another."""
    ports, ends = event.ports_array.tolist(), np.cumsum(event.port_count_array).tolist()
    return [tuple(ports[start:end]) for start, end in zip([0, *ends], ends, strict=False)]


def _runs(event: ItemsEvent | RangesEvent) -> tuple[list[str], list[int], list[int]]:
    """Job, instance and run of each item."""
    job, instance, run = event.items()
    return _named(event.job_ids, job), instance.tolist(), run.tolist()


def _named(names: Sequence[str], column: I32) -> list[str]:
    return [names[at] for at in column.tolist()]


def _outcomes(column: I32) -> list[str | None]:
    return [_OUTCOMES.get(code) for code in column.tolist()]


_UNFOLDERS: dict[type[Event], Callable[[Place, Any], Iterator[OutputMessage]]] = {
    JobAccepted: _job_accepted,
    JobRejected: _job_rejected,
    JobChanged: _job_changed,
    GangsQueued: _queued,
    RunsOrdered: _ordered,
    RunsAvailable: _available,
    RunsStopping: _stopping,
    RunsEnded: _ended,
    GangsAdmitted: _admitted,
    PreemptionsOrdered: _preempted,
    TasksPlaced: _placed,
}
