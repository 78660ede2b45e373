"""A log written by hand: facts, and rounds of the four machines that obey the protocol."""

import random
from typing import Any

from sqlalchemy import Engine

from events.acceptance import NO_HASH, digest
from events.choices import SCORE_ONE
from events.codec import encode
from events.codes import Outcome, TaskState
from events.columns import pack_ints, pack_longs
from events.id_digests import job_digest
from events.log.memory import MemoryLog
from events.log.port import Log, NewRecord
from events.records.base import Event
from events.records.entitlement import AdmissionsRanked, GangsAdmitted, GangsHeld, PreemptionsOrdered
from events.records.hosts import HostConnected, HostOffered
from events.records.jobs import JobSubmitted
from events.records.lifecycle import (
    GangsQueued,
    HostReconciled,
    JobAccepted,
    JobChanged,
    JobsForgotten,
    RunsEnded,
    RunsOrdered,
)
from events.records.parts import Seen, Segment, TaskShape
from events.records.placement import GangsUnplaced, TasksPlaced
from events.records.rounds import EpochStarted, RoundCommitted
from events.rounds import sealed
from events.spec.job import JobSpec
from events.topics import MACHINES, rounds_of
from projections.views.comparison import rows_of
from projections.views.tables import metadata

READS = {
    "lifecycle": ("paceline.jobs", "paceline.pools", "paceline.tasks", "paceline.entitlement", "paceline.placement",
                  "paceline.sla"),
    "entitlement": ("paceline.pools", "paceline.lifecycle", "paceline.placement"),
    "placement": ("paceline.hosts", "paceline.entitlement", "paceline.lifecycle"),
    "sla": ("paceline.pools", "paceline.hosts", "paceline.lifecycle", "paceline.entitlement"),
}  # fmt: skip
CORE = {"cpu": 1000, "memory": 512}


class Writer:
    """One machine, as far as the log shows it."""

    def __init__(self, machine: str) -> None:
        self.machine = machine
        self.round = self.epoch = 0
        self.hash = NO_HASH
        self.positions = dict.fromkeys(READS[machine], 0)
        self.known: dict[str, int] = {}


class Cell:
    """The log of a cell and a clock that only tests move."""

    def __init__(
        self,
        slow: random.Random | None = None,
        machines: tuple[str, ...] = MACHINES,
        number: int = 0,
        log: Log | None = None,
    ) -> None:
        self.slow = slow
        self.ms = 1_700_000_000_000
        self.log = log or MemoryLog(lambda: self.ms, number)
        self.writers = {machine: Writer(machine) for machine in MACHINES}
        self._rounds: dict[tuple[str, int], dict[str, int]] = {}
        for machine in machines:
            self.claim(machine)

    def put(self, topic: str, value: bytes, key: bytes = b"") -> int:
        return self.log.append([NewRecord(topic, key, value)])[0]

    def fact(self, event: Event) -> int:
        return self.put(event.topic, encode(event), str(getattr(event, "job_id", "")).encode())

    def claim(self, machine: str, epoch: int | None = None) -> int:
        writer = self.writers[machine]
        writer.epoch = writer.epoch + 1 if epoch is None else epoch
        claim = EpochStarted(cell=self.log.cell, machine=machine, epoch=writer.epoch, claimant="test", logic=1, state=1,
                             round=writer.round, start_hash=NO_HASH)  # fmt: skip
        return self.log.append([sealed(claim, writer.hash)])[0]

    def decide(self, machine: str, *decisions: Event) -> int:
        """A round. It has read its topics to their ends; with `slow` anything may still be unread but submissions."""
        writer = self.writers[machine]
        segments = []
        for topic in READS[machine]:
            end = self.log.bounds(topic)[1]
            if self.slow is not None and topic != "paceline.jobs":
                end = self.slow.randint(writer.positions[topic], end)
            if end > writer.positions[topic]:
                segments.append(Segment(topic=topic, start=writer.positions[topic], end=end))
                for offset in range(writer.positions[topic], end):
                    for seen, position in self._rounds.get((topic, offset), {}).items():
                        writer.known[seen] = max(writer.known.get(seen, 0), position)
                writer.positions[topic] = end
        for topic, position in writer.positions.items():
            writer.known[topic] = max(writer.known.get(topic, 0), position)
        writer.round += 1
        record = RoundCommitted(
            cell=self.log.cell,
            machine=machine,
            epoch=writer.epoch,
            round=writer.round,
            now=self.ms,
            caught_up=True,
            budget=1000,
            inputs=tuple(segments),
            skipped=(),
            inputs_hash=NO_HASH,
            start_hash=NO_HASH,
            seen=tuple(Seen(topic=topic, position=writer.known[topic]) for topic in sorted(writer.known)),
            decisions=tuple(map(encode, decisions)),
            prev_hash=writer.hash,
            logic=1,
            state=1,
        )
        writer.hash = digest(encode(record))
        [offset] = self.log.append([sealed(record)])
        self._rounds[(rounds_of(machine), offset)] = dict(writer.known)
        return offset

    # What happens often.

    def submit(self, job_id: str = "a", **fields: Any) -> int:
        return self.fact(job(job_id, **fields))

    def accept(self, job_id: str = "a", offset: int | None = None, first_run: int = 1, **fields: Any) -> int:
        """Submits a job and lets lifecycle accept and queue it."""
        at = self.submit(job_id, **fields) if offset is None else offset
        return self.decide("lifecycle", *accepted(job(job_id, **fields), at, first_run))

    def forget(self, *job_ids: str) -> int:
        return self.decide("lifecycle", JobsForgotten(digests=b"".join(map(job_digest, job_ids))))

    def host(self, host_id: str = "h1", session: int = 1, cpu: int = 8000, **attributes: str) -> None:
        self.fact(HostConnected(host_id=host_id, session=session, gateway="g"))
        capacity = {"cpu": cpu, "memory": 8192}
        attributes = {"arch": "arm64", **attributes}
        self.fact(HostOffered(host_id=host_id, session=session, capacity=capacity, attributes=attributes))
        self.decide("lifecycle", HostReconciled(host_id=host_id, session=session, kept=0, ended=0, stopped=0))

    def run(self, job_id: str = "a", instances: tuple[int, ...] = (0,), run: int = 1, host_id: str = "h1") -> None:
        """Admits, places and orders runs."""
        self.decide("entitlement", admitted(job_id, instances, run))
        self.decide("placement", placed(job_id, instances, run, host_id))
        self.decide("lifecycle", ordered(job_id, instances, run, host_id))

    def changed(self, state: str, job_id: str = "a") -> None:
        self.decide("lifecycle", JobChanged(job_id=job_id, state=state))


def job(job_id: str = "a", **fields: Any) -> JobSubmitted:
    spec = {"pool": "/p", "command": ["true"], "resources": {"cpu": 1, "memory": "512MiB"}, **fields}
    return JobSpec.model_validate(spec).to_event(job_id)


def accepted(event: JobSubmitted, offset: int, first_run: int = 1) -> tuple[JobAccepted, GangsQueued]:
    gang = min(event.gang_min, event.instances) if event.gang_min > 1 else 0
    parts = [(0, gang, 1)] * bool(gang) + [(gang, event.instances - gang, 0)] * (event.instances > gang)
    queued = GangsQueued(
        job_ids=(event.job_id,),
        job=pack_ints([0] * len(parts)),
        first=pack_ints([part[0] for part in parts]),
        count=pack_ints([part[1] for part in parts]),
        run=pack_ints([first_run] * len(parts)),
        gang=pack_ints([part[2] for part in parts]),
        admitted=pack_ints([0] * len(parts)),
    )
    shapes = (TaskShape(event.resources, len(event.ports)),)
    answer = JobAccepted(job_id=event.job_id, jobs_offset=offset, pool=event.pool, kind=event.kind, shapes=shapes,
                         instances=event.instances, gang_min=gang, first_run=first_run,
                         max_unavailable=event.max_unavailable, sla=event.sla)  # fmt: skip
    return answer, queued


def runs(job_id: str, instances: tuple[int, ...], run: int = 1) -> dict[str, Any]:
    count = len(instances)
    return {
        "job_ids": (job_id,),
        "job": pack_ints([0] * count),
        "instance": pack_ints(instances),
        "run": pack_ints([run] * count),
    }


def ranges(job_id: str, instances: tuple[int, ...], run: int = 1) -> dict[str, Any]:
    count = len(instances)
    return {
        "job_ids": (job_id,),
        "job": pack_ints([0] * count),
        "first": pack_ints(instances),
        "count": pack_ints([1] * count),
        "run": pack_ints([run] * count),
    }


def on_host(host_id: str, count: int) -> dict[str, Any]:
    return {"host_ids": (host_id,), "host_session": pack_longs([1]), "host": pack_ints([0] * count)}


def placed(job_id: str, instances: tuple[int, ...], run: int, host_id: str) -> TasksPlaced:
    choices = {"score": pack_ints([SCORE_ONE] * len(instances)), "feasible": pack_ints([2] * len(instances))}
    return TasksPlaced(**runs(job_id, instances, run), **on_host(host_id, len(instances)), **choices)


def port_columns(ports: bytes, items: int) -> dict[str, bytes]:
    """The ports of a record, as many for each item."""
    return {"ports": ports, "port_count": pack_ints([len(ports) // 4 // items] * items)} if ports else {}


def ordered(job_id: str, instances: tuple[int, ...], run: int, host_id: str, ports: bytes = b"") -> RunsOrdered:
    return RunsOrdered(
        **runs(job_id, instances, run), **on_host(host_id, len(instances)), **port_columns(ports, len(instances))
    )


def ended(
    job_id: str,
    instances: tuple[int, ...],
    outcome: int,
    run: int = 1,
    exit_code: int = 0,
    kept: int = 0,
    following: TaskState | None = None,
) -> RunsEnded:
    """`following`: the state of the tasks then; else that of tasks alone, which have no retry unless `kept`."""
    count = len(instances)
    final = {
        Outcome.SUCCEEDED: TaskState.SUCCEEDED,
        Outcome.FAILED: TaskState.FAILED,
        Outcome.STOPPED: TaskState.KILLED,
    }
    following = following or (TaskState.BACKOFF if kept else final.get(Outcome(outcome), TaskState.BACKOFF))
    return RunsEnded(
        **runs(job_id, instances, run),
        outcome=pack_ints([outcome] * count),
        exit_code=pack_ints([exit_code] * count),
        kept=pack_ints([kept] * count),
        next=pack_ints([following] * count),
    )


def queued(job_id: str, instances: tuple[int, ...], run: int, admitted: int = 0, gang: int = 0) -> GangsQueued:
    fields = ranges(job_id, instances, run)
    if gang:
        fields = {**ranges(job_id, instances[:1], run), "count": pack_ints([len(instances)])}
    count = len(fields["job"]) // 4
    return GangsQueued(**fields, gang=pack_ints([gang] * count), admitted=pack_ints([admitted] * count))


def held(job_id: str, instances: tuple[int, ...], code: str = "LIMIT_REACHED", run: int = 1, **more: Any) -> GangsHeld:
    """Why tasks of a job aren't admitted; with `gang` they are one."""
    gang = more.pop("gang", 0)
    fields = {"pool": "/p", "at": "/p", "asked": CORE, **gangs(job_id, instances, run, gang), **more}
    return GangsHeld(code=code, **fields)


def unplaced(job_id: str, code: str = "NO_HOST_FITS", tasks: int = 1, **more: Any) -> GangsUnplaced:
    """Why tasks of a job find no place."""
    return GangsUnplaced(job_id=job_id, code=code, tasks=tasks, **{"need": CORE, "hosts_considered": 0,
                                                                   "hosts_by_reason": {}, **more})  # fmt: skip


def gangs(job_id: str, instances: tuple[int, ...], run: int = 1, gang: int = 0) -> dict[str, Any]:
    """Ranges of tasks; with `gang` they are one."""
    if gang:
        return {**ranges(job_id, instances[:1], run), "count": pack_ints([len(instances)]), "gang": pack_ints([1])}
    return {**ranges(job_id, instances, run), "gang": pack_ints([0] * len(instances))}


def admitted(job_id: str, instances: tuple[int, ...], run: int = 1, entitled: int = 1, gang: int = 0) -> GangsAdmitted:
    fields = gangs(job_id, instances, run, gang)
    return GangsAdmitted(**fields, entitled=pack_ints([entitled] * (len(fields["job"]) // 4)))


def ranked(job_id: str, instances: tuple[int, ...], run: int = 1, entitled: int = 1) -> AdmissionsRanked:
    fields = gangs(job_id, instances, run)
    return AdmissionsRanked(**fields, entitled=pack_ints([entitled] * len(instances)))


def preempted(
    number: int, victims: dict[str, tuple[int, ...]], for_job: str, run: int = 1, way: int = 2, **more: Any
) -> PreemptionsOrdered:
    """An order that runs of jobs leave pool /p for the first task of another job."""
    job = [at for at, instances in enumerate(victims.values()) for _ in instances]
    count = len(job)
    fields = {
        "for_pool": "/q", "for_first": 0, "for_count": 1, "for_run": 1, "code": "BELOW_ENTITLEMENT",
        "host_ids": ("h1",), "from_pools": ("/p",), **more,
    }  # fmt: skip
    return PreemptionsOrdered(
        order=number, for_job=for_job, job_ids=tuple(victims), job=pack_ints(job),
        instance=pack_ints([each for instances in victims.values() for each in instances]),
        run=pack_ints([run] * count), way=pack_ints([way] * count), slice=pack_ints([0] * count),
        from_pool=pack_ints([0] * count), **fields,
    )  # fmt: skip


def dump(engine: Engine) -> dict[str, list[tuple[Any, ...]]]:
    """All rows of all tables."""
    with engine.connect() as connection:
        return {table.name: sorted(rows_of(connection, table)) for table in metadata.sorted_tables}
