"""The bodies of answers to requests about many jobs."""

from typing import NotRequired, TypedDict

from paceline.client.json_type import Json


class BatchedJob(TypedDict):
    """The answer to a job of a batch. `status`: that of the answer to the job alone: 201 once it is
    accepted, 202 while it isn't decided, 200 where it was submitted before (`repeated`) and of a dry run, else the
    `problem`, as the answer to the job alone would have it. `job_id`: empty where the body names none.
    """

    job_id: str
    status: int
    state: NotRequired[str]
    repeated: NotRequired[bool]
    position: NotRequired[str]
    warnings: NotRequired[list[str]]
    events: NotRequired[list[Json]]
    """The records that a dry run would write."""
    problem: NotRequired[Json]


class JobBatch(TypedDict):
    """The jobs of a batch, in their order. `position`: of the last facts written, empty: nothing was."""

    jobs: list[BatchedJob]
    position: str
