"""The hosts of a branch: each run that is ordered has started and is healthy at once, each that is told to stop has
stopped, each image is there. Runs end in no other way. A host that isn't heard does nothing.
"""

from collections.abc import Iterable, Sequence

from events.codes import RunReport, TaskState
from events.records.base import Event
from events.records.lifecycle import ImagePrefetchOrdered, RunsOrdered, RunsStopping
from events.records.tasks import ImagePrefetched
from paceline.plans.run_reports import STOPPED_CODE, HostRun, Report, reported, runs_of, runs_on_hosts
from processors.lifecycle.machine import Lifecycle

STARTS, STOPS = (RunReport.STARTED, RunReport.HEALTHY), (RunReport.STOPPED,)


class BranchHosts:
    """Answers what lifecycle orders. It begins with what is under way: runs that start or stop, images."""

    def __init__(self, lifecycle: Lifecycle) -> None:
        self._lifecycle = lifecycle
        self._due: list[tuple[tuple[RunReport, ...], list[HostRun]]] = []
        for state, reports in ((TaskState.ORDERED, STARTS), (TaskState.STOPPING, STOPS)):
            self._owe(reports, [run for run, _ in runs_on_hosts(lifecycle, (state,))])
        self._pulled: list[Event] = []
        for host_id, digests in lifecycle.updates.image_waits.table.items():
            for job_id, digest in digests.items():
                self._pull((host_id,), job_id, digest)

    def told(self, decisions: Iterable[Event]) -> None:
        """Takes orders among the decisions of lifecycle."""
        for event in decisions:
            if isinstance(event, RunsOrdered):
                self._owe(STARTS, runs_of(event))
            elif isinstance(event, RunsStopping):
                self._owe(STOPS, runs_of(event))
            elif isinstance(event, ImagePrefetchOrdered):
                self._pull(event.host_ids, event.job_id, event.image_digest)

    def reports(self) -> list[Event]:
        """The reports that are due, each run once a record."""
        due, pulled, self._due, self._pulled = self._due, self._pulled, [], []
        answers = (
            [Report(run, state, STOPPED_CODE if state is RunReport.STOPPED else 0) for run in runs]
            for states, runs in due
            for state in states
        )
        return [*pulled, *(reported("plan", reports) for reports in answers)]

    def _owe(self, reports: tuple[RunReport, ...], runs: Sequence[HostRun]) -> None:
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
