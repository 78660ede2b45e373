"""The facts that the gateway writes, made of what agents say."""

from collections.abc import Mapping, Sequence

import numpy as np

from events.codec import encode
from events.columns import Names
from events.log.port import NewRecord
from events.records.base import Event
from events.records.hosts import HostConnected, HostHealthReported, HostImages, HostOffered, HostsLoaded, HostVolumes
from events.records.parts import Actor, Volume
from events.records.tasks import ExecOpened, HostInventory, ImagePrefetched, RunsReported
from hostagent.messages import (
    DETAILS,
    NO_DETAILS,
    ConditionState,
    ExecLine,
    Hello,
    HostLoad,
    ImageState,
    Reports,
    RunState,
    VolumeState,
)
from hostagent.task_columns import Column

RUN_BYTES = 76
"""The columns of a report, for each run."""


def fact(event: Event, key: str) -> NewRecord:
    """A fact as a record to append."""
    return NewRecord(event.topic, key.encode(), encode(event))


def connected(host_id: str, hello: Hello, gateway: str) -> list[NewRecord]:
    """The facts of a new session."""
    names = Names()
    job = [names[run.job_id] for run in hello.runs]
    inventory = HostInventory.pack(
        host_id=host_id,
        session=hello.session,
        job_ids=names.all(),
        job=job,
        instance=(run.instance for run in hello.runs),
        run=(run.run for run in hello.runs),
        state=(run.state for run in hello.runs),
        exit_code=(run.exit_code for run in hello.runs),
    )
    opened = HostConnected(
        host_id=host_id,
        session=hello.session,
        gateway=gateway,
        machine=hello.machine.id,
        boot=hello.machine.boot,
        machine_name=hello.machine.name,
        key=hello.machine.key or None,
    )
    return [fact(opened, host_id), fact(offered(host_id, hello), host_id), fact(inventory, host_id)]


def offered(host_id: str, hello: Hello) -> HostOffered:
    """The record of what a host offers."""
    return HostOffered.pack(
        host_id=host_id,
        session=hello.session,
        capacity=hello.capacity,
        sizes=tuple(hello.sizes),
        port_first=hello.port_first,
        port_last=hello.port_last,
        attributes=hello.attributes,
        taints=hello.taints,
        devices=tuple(hello.devices),
        cores=hello.cores,
    )


def exec_opened(host_id: str, line: ExecLine, actor: Actor | None) -> NewRecord:
    """The fact that a user enters a run."""
    event = ExecOpened(
        exec_id=line.request,
        host_id=host_id,
        job_id=line.job_id,
        instance=line.instance,
        run=line.run,
        actor=actor,
        command=line.command or ("port-forward", str(line.port)),
        terminal=line.terminal,
    )
    return fact(event, line.job_id)


def volumes_of(host_id: str, session: int, volumes: Sequence[VolumeState]) -> NewRecord:
    """The fact of all volumes of a host."""
    parts = tuple(Volume(each.job_id, each.instance, each.name, each.created_ms) for each in volumes)
    return fact(HostVolumes(host_id=host_id, session=session, volumes=parts), host_id)


def images_of(host_id: str, session: int, images: Sequence[str]) -> NewRecord:
    """The fact of all images of a host."""
    return fact(HostImages(host_id=host_id, session=session, images=tuple(images)), host_id)


def prefetched(host_id: str, session: int, image: ImageState) -> NewRecord:
    """The fact of what has come of an image that a host was to pull."""
    event = ImagePrefetched(
        host_id=host_id, session=session, job_id=image.job_id, image_digest=image.digest, fault=image.fault
    )
    return fact(event, host_id)


def checked(host_id: str, session: int, state: ConditionState) -> NewRecord:
    """The fact of another result of a check of a host."""
    event = HostHealthReported(
        host_id=host_id, session=session, condition=state.name, bad=state.bad, code=state.code, text=state.text
    )
    return fact(event, host_id)


def loaded(gateway: str, loads: Mapping[str, tuple[int, HostLoad]]) -> NewRecord:
    """The fact of what hosts use; `loads`: the session of each, and what it said in it."""
    parts = [load for _, load in loads.values()]
    event = HostsLoaded.pack(
        gateway=gateway,
        host_ids=tuple(loads),
        host_session=(session for session, _ in loads.values()),
        cpu_used=(load.cpu for load in parts),
        memory_used=(load.memory for load in parts),
        slack=(load.slack for load in parts),
    )
    return fact(event, gateway)


def columns_of(host_id: str, runs: Sequence[RunState]) -> Reports:
    """The reports of one agent as columns."""
    jobs, reasons = Names(), Names()
    details = [run.details() for run in runs]
    return Reports(
        host_ids=(host_id,),
        job_ids=tuple(dict.fromkeys(run.job_id for run in runs)),
        host=np.zeros(len(runs), dtype=np.int32),
        job=np.array([jobs[run.job_id] for run in runs], dtype=np.int32),
        instance=np.array([run.instance for run in runs], dtype=np.int32),
        run=np.array([run.run for run in runs], dtype=np.int32),
        state=np.array([run.state for run in runs], dtype=np.int32),
        exit_code=np.array([run.exit_code for run in runs], dtype=np.int32),
        reason=np.array([reasons[run.reason] + 1 if run.reason else 0 for run in runs], dtype=np.int32),
        reasons=reasons.all(),
        details=np.array(details, dtype=np.int64) if any(map(any, details)) else NO_DETAILS,
    )


def size_of(reports: Reports) -> int:
    """About how many bytes reports take in a fact."""
    names = (*reports.host_ids, *reports.job_ids, *reports.reasons)
    return RUN_BYTES * len(reports.job) + sum(len(name.encode()) + 2 for name in names)


def reported(gateway: str, reports: Sequence[tuple[Sequence[int], Reports]]) -> NewRecord:
    """One fact for the reports of many, each with the sessions of its hosts. A host that was heard in two sessions is
    named for each.
    """
    jobs, reasons = Names(), Names()
    hosts: dict[tuple[str, int], int] = {}
    host = []
    for sessions, part in reports:
        hosts_and_sessions = zip(part.host_ids, sessions, strict=True)
        host.append(
            np.array([hosts.setdefault(each, len(hosts)) for each in hosts_and_sessions], dtype=np.int32)[part.host]
        )
    parts = [part for _, part in reports]

    def indexed(names: Names, of: Sequence[str], index: Column) -> Column:
        return np.array([names[name] for name in of], dtype=np.int32)[index] if len(index) else index

    job = [indexed(jobs, part.job_ids, part.job) for part in parts]
    columns = {
        name: np.concatenate([getattr(part, name) for part in parts])
        for name in ("instance", "run", "state", "exit_code")
    }
    if any(part.reasons for part in parts):
        every = (indexed(reasons, ("", *part.reasons), part.reason) for part in parts)
        columns["reason"] = np.concatenate(list(every))
    if any(len(part.details) for part in parts):
        shape = len(DETAILS)
        rows = [part.details if len(part.details) else np.zeros((len(part.job), shape), np.int64) for part in parts]
        columns |= zip(DETAILS, np.concatenate(rows).T, strict=True)
    event = RunsReported.pack(
        gateway=gateway,
        host_ids=tuple(host_id for host_id, _ in hosts),
        host_session=(session for _, session in hosts),
        job_ids=jobs.all(),
        host=np.concatenate(host),
        job=np.concatenate(job),
        reasons=reasons.all()[1:],  # the first is "", for none
        **columns,
    )
    return fact(event, gateway)
