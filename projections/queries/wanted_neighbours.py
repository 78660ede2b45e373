"""Whether tasks of a specification wait for others beside which they want to be: what its submitter is warned of."""

from collections.abc import Iterator, Sequence

from sqlalchemy import Connection, select, text

from events.codec import decode
from events.codes import Code
from events.records.jobs import JobSubmitted
from events.records.parts import TaskAffinity
from paceline.client.models import FitWarning
from projections.queries.versions import submissions
from projections.views import tables

JOBS_MAX = 20
"""So many jobs with a label are looked at."""
_HAS_LABEL = text(
    "jobs.state IN ('PENDING', 'RUNNING') AND EXISTS "
    "(SELECT 1 FROM json_each(jobs.labels) AS each WHERE each.key = :key AND each.value = :value)"
)


def affinity_warnings(connection: Connection, job: JobSubmitted) -> Iterator[FitWarning]:
    """A sentence for each label that no task has which runs: whose job waits for this one, or that there is none."""
    for term in _waiting_for(job):
        label = f"{term.label}={term.value}"
        rows = _having(connection, term)
        if any(running for _, running, _ in rows):
            continue
        for other_id, _, other in rows:
            back = next(_waiting_for(other), None)
            if back is not None and job.labels.get(back.label) == back.value:
                circle = f"job {other_id} has it and waits itself for {back.label}={back.value}, which this job has"
                message = f"it waits for a task with the label {label}: {circle}, so neither goes first"
                yield {"code": Code.AFFINITY_UNMET, "message": message}
                break
        else:
            jobs = ", ".join(job_id for job_id, _, _ in rows[:3])
            why = f"no task of {jobs} runs now" if jobs else "no job has it"
            yield {"code": Code.AFFINITY_UNMET, "message": f"it waits for a task with the label {label}: {why}"}


def sentences(connection: Connection, offsets: Sequence[int]) -> dict[str, str]:
    """By job what its tasks wait for, of the submissions at some offsets."""
    return {
        job_id: "; ".join(each["message"] for each in affinity_warnings(connection, job))
        for job_id, job in submissions(connection, offsets).items()
    }


def _waiting_for(job: JobSubmitted) -> Iterator[TaskAffinity]:
    """The labels beside which tasks of a job must be, and that it hasn't itself."""
    for term in job.rules.affinity if job.rules is not None else ():
        if not term.apart and not term.weight and job.labels.get(term.label) != term.value:
            yield term


def _having(connection: Connection, term: TaskAffinity) -> list[tuple[str, int, JobSubmitted]]:
    """Jobs with a label that aren't over: id, how many tasks run, and the submission."""
    jobs, specs = tables.jobs.c, tables.submissions.c
    query = (
        select(jobs.job_id, jobs.running, specs.value)
        .join(tables.submissions, specs.offset == jobs.offset)
        .where(_HAS_LABEL.bindparams(key=term.label, value=term.value))
        .order_by(jobs.job_id)
        .limit(JOBS_MAX)
    )
    rows = ((job_id, running, decode(value)) for job_id, running, value in connection.execute(query))
    return [(job_id, running, event) for job_id, running, event in rows if isinstance(event, JobSubmitted)]
