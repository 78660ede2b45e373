"""Checks runs with a health check: available once they are healthy, told to stop when they are not."""

from events.codes import RunReport
from events.columns import ints, longs
from events.job_versions import wanted_spec
from events.records.base import Event
from events.records.jobs import JobReopenRequested, JobSubmitted, JobUpdateRequested
from events.records.lifecycle import JobAccepted, RunsAvailable, RunsEnded, RunsOrdered, RunsStopping, UpdateStarted
from events.records.tasks import HostInventory, RunsReported
from paceline.simulate.checker.history import Round, Violation
from paceline.simulate.checker.items import Task, runs_of

ROUNDS = 10
"""Lifecycle may take so many rounds to stop a run, as there is a bound on what one round decides."""
Named = tuple[Task, int]
"""A run."""


class Health:
    """Follows what lifecycle hears of health checks, and decides by it."""

    def __init__(self) -> None:
        self._asked: dict[int, bool] = {}
        """Whether a specification has a check, by its offset in the topic of jobs."""
        self._checked: dict[str, dict[int, bool]] = {}
        """Whether versions of jobs have one."""
        self._sessions: dict[str, int] = {}
        self._up: set[Named] = set()
        """Runs of such versions that were ordered and not told to stop."""
        self._healthy: set[Named] = set()
        self._unhealthy: dict[Named, int] = {}
        """In which round lifecycle heard of those that are up that their check fails."""

    def round(self, round_: Round) -> None:
        """Takes a round of lifecycle. Raises `Violation`."""
        for _, offset, event, _ in round_.inputs:
            self._take(event, offset, round_)
        for event in round_.decisions:
            self._decided(event, round_)
        for run, since in self._unhealthy.items():
            if round_.number > since + ROUNDS:
                raise Violation(f"{round_} leaves {run} alone, which is unhealthy since round {since}")

    def _take(self, event: Event, offset: int, round_: Round) -> None:
        match event:
            case JobSubmitted():
                self._asked[offset] = event.health is not None
            case JobUpdateRequested() | JobReopenRequested():
                spec = wanted_spec(event)
                self._asked[offset] = spec is not None and spec.health is not None
            case RunsReported():
                sessions = longs(event.host_session).tolist()
                columns = zip(runs_of(event), ints(event.host).tolist(), ints(event.state).tolist(), strict=True)
                for run, host, state in columns:
                    if sessions[host] >= self._sessions.get(event.host_ids[host], 0):
                        self._reported(run, state, round_)
            case HostInventory():
                self._sessions[event.host_id] = max(event.session, self._sessions.get(event.host_id, 0))
                for run, state in zip(runs_of(event), ints(event.state).tolist(), strict=True):
                    self._reported(run, state, round_)

    def _reported(self, run: Named, state: int, round_: Round) -> None:
        if run in self._up and state == RunReport.HEALTHY:
            self._healthy.add(run)
        elif run in self._up and state == RunReport.UNHEALTHY:
            self._unhealthy.setdefault(run, round_.number)

    def _decided(self, event: Event, round_: Round) -> None:
        match event:
            case JobAccepted():
                self._checked[event.job_id] = {1: self._asked[event.jobs_offset]}
            case UpdateStarted():
                of_job = self._checked[event.job_id]
                of_job[event.version] = of_job[event.like] if event.like else self._asked[event.jobs_offset]
            case RunsOrdered():
                runs = runs_of(event)
                versions = ints(event.version).tolist() or [1] * len(runs)
                pairs = zip(runs, versions, strict=True)
                self._up.update(run for run, version in pairs if self._checked[run[0][0]][version])
            case RunsAvailable():
                for run in runs_of(event):
                    if run in self._up and run not in self._healthy:
                        raise Violation(f"{round_} takes {run} for available, and its health check has not passed")
            case RunsStopping() | RunsEnded():
                for run in runs_of(event):
                    self._up.discard(run)
                    self._healthy.discard(run)
                    self._unhealthy.pop(run, None)
