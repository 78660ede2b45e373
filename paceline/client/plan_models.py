"""The plan of a job, as it stands on the wire: what the cell would decide about it. See `models.py`."""

from typing import NotRequired, TypedDict

from paceline.client.explanation_models import WaitReason
from paceline.client.models import Update


class PlannedHost(TypedDict):
    """A host on which tasks would start: how many, which instances (`0-9,12`), and after how many seconds the last."""

    host_id: str
    tasks: int
    instances: str
    after_s: float


class PlannedVictim(TypedDict):
    """A run that would be preempted for the job. `way`: by what right: OWN, GIVE, MOVE, CLEAR or LIMIT; `deferred`:
    its SLA doesn't let it go now.
    """

    job_id: str
    pool: str
    instance: int
    run: int
    host_id: str | None
    way: str
    after_s: float
    deferred: bool


class JobPlan(TypedDict):
    """The plan of a job, perhaps of several that are planned together, at a position of the log. `outcome` is PLACED,
    PARTLY_PLACED, WAITS, REFUSED, REPEATED or, of an update, UPDATED, UPDATE_WAITS, UPDATE_FAILS; `code` and `message`
    are the answer of the cell to the fact, null: it gave none in time.

    `tasks` are those of the job, `placed_at_once` those that have a host as soon as the machines have decided; the
    others wait first, for `reasons`. `placed` have one within `looked_ahead_s` simulated seconds; `waiting` haven't,
    for `later_reasons`. `cut_short`: the time of the plan was over before that of the simulation.
    """

    job_id: str
    pool: str
    cell: int
    outcome: str
    code: str | None
    message: str
    tasks: int
    placed_at_once: int
    placed: int
    waiting: int
    hosts: list[PlannedHost]
    preempts: list[PlannedVictim]
    reasons: list[WaitReason]
    later_reasons: list[WaitReason]
    update: Update | None
    at: str | None
    position: str
    looked_ahead_s: float
    cut_short: bool
    warnings: NotRequired[list[str]]


class JobPlans(TypedDict):
    """Plans of jobs that are submitted one after the other, in this order, with nothing else in between."""

    plans: list[JobPlan]


class TaskToMove(TypedDict):
    """A task that would be moved, the run that would end for it, and from which host to which. `to_host` None: it would
    wait for a place.
    """

    job_id: str
    instance: int
    run: int
    from_host: str
    to_host: str | None


class RebalancePlan(TypedDict):
    """The tasks that would be moved for a job now, and the hosts on which it would find room; or why it would be
    refused.
    """

    code: str
    message: str
    refused: bool
    host_ids: list[str]
    moves: list[TaskToMove]
