"""Metrics of runs, updates and hosts for Prometheus, counted from lifecycle's decisions."""

from collections import Counter as Count

import numpy as np
from prometheus_client import Counter

from events.codes import Counts, Outcome, Overdue, RunCause, TaskState
from events.job_ends import is_over
from events.records.base import Event
from events.records.lifecycle import HostSuspected, JobChanged, RunsEnded, RunsOverdue, UpdateEnded

JOBS = Counter("paceline_jobs_ended_total", "Jobs that are over, by state.", ("cell", "state"))
ENDED = Counter("paceline_runs_ended_total", "Runs that ended, by outcome and cause.", ("cell", "outcome", "cause"))
RETRIES = Counter(
    "paceline_retries_total", "Runs that ended and are followed by another, by whose failure it was and cause.",
    ("cell", "fault", "cause"),
)  # fmt: skip
OVERDUE = Counter("paceline_runs_overdue_total", "Runs that took longer than they may.", ("cell", "deadline"))
UPDATES = Counter("paceline_updates_ended_total", "Updates that ended, by outcome and code.", ("cell", "state", "code"))
SUSPECTED = Counter("paceline_hosts_suspected_total", "Hosts that were suspected, by code.", ("cell", "code"))
COUNTED = frozenset((RunsEnded, RunsOverdue, JobChanged, UpdateEnded, HostSuspected))
"""The kinds of decisions that `count` counts."""
CAUSES, OUTCOMES, FAULTS = len(RunCause), len(Outcome) + 1, len(Counts)


def count(cell: str, decision: Event) -> None:
    """Counts a decision."""
    match decision:
        case RunsEnded():
            _ended(cell, decision)
        case RunsOverdue():
            for what, times in Count(decision.what_array.tolist()).items():
                OVERDUE.labels(cell, Overdue(what).name).inc(times)
        case JobChanged() if is_over(decision):
            JOBS.labels(cell, decision.state).inc()
        case UpdateEnded():
            UPDATES.labels(cell, decision.state, decision.code).inc()
        case HostSuspected():
            SUSPECTED.labels(cell, decision.code).inc()


def _ended(cell: str, event: RunsEnded) -> None:
    outcome = event.outcome_array
    cause, fault = event.why_array, event.counts_as_array
    again = event.next_array == TaskState.BACKOFF
    ended = np.bincount(outcome * CAUSES + cause, minlength=OUTCOMES * CAUSES)
    for at in np.flatnonzero(ended).tolist():
        ENDED.labels(cell, Outcome(at // CAUSES).name, RunCause(at % CAUSES).name).inc(int(ended[at]))
    retried = np.bincount((fault * CAUSES + cause)[again], minlength=FAULTS * CAUSES)
    for at in np.flatnonzero(retried).tolist():
        RETRIES.labels(cell, Counts(at // CAUSES).name, RunCause(at % CAUSES).name).inc(int(retried[at]))
