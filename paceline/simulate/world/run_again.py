"""Makes the request of an API to run tasks of an ended job again, from the log alone."""

from collections.abc import Iterator

import numpy as np

from events.codec import decode, encode
from events.codes import ENDED_TASKS, RunCause, TaskState
from events.columns import distinct
from events.instance_ranges import read_ranges
from events.job_ends import is_over
from events.job_versions import wanted_spec
from events.log.port import Log
from events.records.base import Event
from events.records.jobs import JobReopenRequested, JobSubmitted, JobUpdateRequested
from events.records.lifecycle import JobAccepted, JobChanged, RunsEnded, UpdateStarted
from events.records.rounds import RoundCommitted
from events.topics import JOBS, rounds_of
from paceline.simulate.scenario.job_commands import Start


def request_to_run_again(log: Log, job_id: str, choice: Start | None, command_id: str) -> JobReopenRequested | None:
    """The request about a job as it stands now; None: it hasn't ended, or nothing of it is to run again. `wanted`:
    which instances, None: those that failed or were stopped.
    """
    job, ended, state, why = _as_it_is(log, job_id)
    if job is None or job.kind != "batch" or not ended:
        return None
    failed = (state == TaskState.FAILED) | ((state == TaskState.KILLED) & (why == RunCause.RUN_LIMIT))
    if choice is not None and choice.instances:
        again = np.concatenate([np.arange(first, first + count) for first, count in read_ranges(choice.instances)])
    elif choice is not None and choice.failed:
        again = np.flatnonzero(failed)
    else:
        again = np.flatnonzero(np.isin(state, (TaskState.FAILED, TaskState.KILLED)))
    if job.gang_min > 1 and (again < job.gang_min).any():
        again = np.concatenate([np.arange(job.gang_min), again])
    if not len(again):
        return None
    again = distinct(again.astype(np.int64))
    over = np.setdiff1d(np.arange(job.instances), again)
    return JobReopenRequested.pack(
        job_id=job_id,
        command_id=command_id,
        spec=encode(job),
        first=again,
        count=[1] * len(again),
        over_first=over,
        over_count=[1] * len(over),
        over_state=state[over],
    )


def _as_it_is(log: Log, job_id: str) -> tuple[JobSubmitted | None, bool, np.ndarray, np.ndarray]:
    """The specification that a job has, whether it has ended, and how each of its tasks has, by which cause."""
    job, ended, state, why = None, False, np.empty(0, dtype=np.int64), np.empty(0, dtype=np.int64)
    for event in _decisions(log):
        if isinstance(event, JobAccepted | UpdateStarted) and event.job_id == job_id and event.jobs_offset >= 0:
            fact = decode(next(log.scan(JOBS.name, event.jobs_offset)).value)
            assert isinstance(fact, JobSubmitted | JobUpdateRequested | JobReopenRequested)
            job, ended = (fact if isinstance(fact, JobSubmitted) else wanted_spec(fact)), False
            unchanged = 0 if isinstance(fact, JobSubmitted) else len(state)
            more = (job.instances if job is not None else 0) - unchanged
            state = np.append(state[:unchanged], np.full(max(0, more), TaskState.KILLED))
            why = np.append(why[:unchanged], np.zeros(max(0, more), dtype=np.int64))
        elif isinstance(event, JobChanged) and event.job_id == job_id:
            ended = is_over(event)
        elif isinstance(event, RunsEnded) and job is not None and job.kind == "batch" and job_id in event.job_ids:
            mine = event.job_array == event.job_ids.index(job_id)
            at = event.instance_array[mine]
            following = event.next_array[mine]
            state[at] = np.where(np.isin(following, ENDED_TASKS), following, state[at])
            why[at] = event.why_array[mine]
    return job, ended, state, why


def _decisions(log: Log) -> Iterator[Event]:
    topic = rounds_of("lifecycle")
    for record in log.scan(topic, log.bounds(topic)[0]):
        round_ = decode(record.value)
        if isinstance(round_, RoundCommitted):
            yield from map(decode, round_.decisions)
