"""The hosts of a branch: each run that is ordered has started and is healthy at once, each that is told to stop has
stopped, each image is there. Runs end in no other way. A host that isn't heard does nothing.
"""

from collections.abc import Iterable, Sequence
from typing import NamedTuple

import numpy as np

from events.codes import RunReport, TaskState
from events.records.base import Event
from events.records.lifecycle import ImagePrefetchOrdered, RunsOrdered, RunsStopping
from events.records.tasks import ImagePrefetched, RunsReported
from processors.lifecycle.machine import Lifecycle

STOPPED_CODE = 143
STARTS, STOPS = (RunReport.STARTED, RunReport.HEALTHY), (RunReport.STOPPED,)


class _Run(NamedTuple):
    job_id: str
    instance: int
    run: int
    host_id: str


class BranchHosts:
    """Answers what lifecycle orders. It begins with what is under way: runs that start or stop, images."""

    def __init__(self, lifecycle: Lifecycle) -> None:
        self._lifecycle = lifecycle
        self._due: list[tuple[tuple[RunReport, ...], list[_Run]]] = []
        for state, reports in ((TaskState.ORDERED, STARTS), (TaskState.STOPPING, STOPS)):
            self._owe(reports, self._under_way(state))
        self._pulled: list[Event] = []
        for host_id, digests in lifecycle.updates.image_waits.table.items():
            for job_id, digest in digests.items():
                self._pull((host_id,), job_id, digest)

    def told(self, decisions: Iterable[Event]) -> None:
        """Takes orders among the decisions of lifecycle."""
        for event in decisions:
            if isinstance(event, RunsOrdered):
                self._owe(STARTS, _named(event))
            elif isinstance(event, RunsStopping):
                self._owe(STOPS, _named(event))
            elif isinstance(event, ImagePrefetchOrdered):
                self._pull(event.host_ids, event.job_id, event.image_digest)

    def reports(self) -> list[Event]:
        """The reports that are due, each run once a record."""
        due, pulled, self._due, self._pulled = self._due, self._pulled, [], []
        return [*pulled, *(_report(runs, state) for states, runs in due for state in states)]

    def _owe(self, reports: tuple[RunReport, ...], runs: Sequence[_Run]) -> None:
        if here := [run for run in runs if self._is_heard(run.host_id)]:
            self._due.append((reports, here))

    def _pull(self, host_ids: Sequence[str], job_id: str, digest: str) -> None:
        self._pulled += (
            ImagePrefetched(host_id=host_id, session=0, job_id=job_id, image_digest=digest)
            for host_id in host_ids
            if self._is_heard(host_id)
        )

    def _is_heard(self, host_id: str) -> bool:
        row = self._lifecycle.hosts.table.get(host_id)
        return row is not None and not row.silent

    def _under_way(self, state: TaskState) -> list[_Run]:
        """The runs whose tasks have a state now."""
        lifecycle = self._lifecycle
        arena = lifecycle.tasks.arena
        slots = np.flatnonzero(arena["state"] == state)
        if not len(slots):
            return []
        names = {row.base: job_id for job_id, row in lifecycle.jobs.items()}
        rows = arena.rows(slots, "owner", "run", "host")
        return [
            _Run(names[owner - 1], slot - owner + 1, run, lifecycle.hosts.named(host)[0])
            for slot, (owner, run, host) in zip(slots.tolist(), rows, strict=True)
        ]


def _named(event: RunsOrdered | RunsStopping) -> list[_Run]:
    columns = (column.tolist() for column in (*event.items(), event.host_array))
    return [
        _Run(event.job_ids[job], instance, run, event.host_ids[host])
        for job, instance, run, host in zip(*columns, strict=True)
    ]


def _report(runs: Sequence[_Run], state: RunReport) -> RunsReported:
    jobs = {job_id: at for at, job_id in enumerate(dict.fromkeys(run.job_id for run in runs))}
    hosts = {host_id: at for at, host_id in enumerate(dict.fromkeys(run.host_id for run in runs))}
    return RunsReported.pack(
        gateway="plan",
        host_ids=tuple(hosts),
        host_session=[],
        job_ids=tuple(jobs),
        job=[jobs[run.job_id] for run in runs],
        instance=[run.instance for run in runs],
        run=[run.run for run in runs],
        host=[hosts[run.host_id] for run in runs],
        state=[state] * len(runs),
        exit_code=[STOPPED_CODE if state is RunReport.STOPPED else 0] * len(runs),
    )
