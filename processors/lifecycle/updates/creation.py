"""A job whose policy says so is created by its first update: that adds its instances as any update adds some."""

import msgspec

from events.records.lifecycle import JobAccepted, UpdateStarted
from events.records.parts import UpdatePolicy
from processors.lifecycle.rows import SubmittedRow
from processors.lifecycle.updates.versions import policy_for
from processors.state.causes import job_fact

CREATE = "create"
NUMBER = VERSION = 1
"""The number of the update that creates a job, and the version that it takes the instances to."""


def is_created(job: SubmittedRow) -> bool:
    """Whether an update creates the job."""
    return job.update is not None and job.update.creation


def without_instances(accepted: JobAccepted) -> JobAccepted:
    """The job as it is before the update has added any instance."""
    return msgspec.structs.replace(accepted, instances=0, first=b"", count=b"", shape=b"")


def created(offset: int, job: SubmittedRow, spec_hash: bytes) -> UpdateStarted:
    """The update that creates a job."""
    assert job.update is not None
    policy = policy_for(job.kind, job.update)
    return UpdateStarted(
        job_id=job.job_id,
        number=NUMBER,
        kind=CREATE,
        from_version=0,
        version=VERSION,
        jobs_offset=offset,
        spec_hash=spec_hash,
        policy=UpdatePolicy(**msgspec.structs.asdict(policy)),
        paused=policy.start_paused,
        added=job.instances,
        cause=job_fact(offset),
    )
