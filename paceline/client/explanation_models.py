"""Why a job is where it is, as it stands on the wire. See `models.py`."""

from typing import Any, NotRequired, TypedDict

from paceline.client.models import Amounts


class WaitReason(TypedDict):
    """One reason why tasks wait. Absent numbers are not known to the machine that gave it."""

    code: str
    message: str
    tier: NotRequired[str]
    actor: NotRequired[str]
    since: NotRequired[str | None]
    tasks: NotRequired[int | None]
    pool: NotRequired[str | None]
    """The pool that says no."""
    asked: NotRequired[Amounts | None]
    allocated: NotRequired[Amounts | None]
    entitlement: NotRequired[Amounts | None]
    limit: NotRequired[Amounts | None]
    reserved: NotRequired[Amounts | None]
    ahead: NotRequired[int | None]
    jobs_ahead: NotRequired[int | None]
    order: NotRequired[int | None]
    """The number of an order to preempt."""
    for_job: NotRequired[str | None]
    from_jobs: NotRequired[dict[str, int] | None]
    hosts: NotRequired[list[str] | None]
    until: NotRequired[str | None]
    fit: NotRequired[int | None]
    missing: NotRequired[str | None]
    hosts_considered: NotRequired[int | None]
    hosts_by_reason: NotRequired[dict[str, int] | None]
    nearest: NotRequired[list[dict[str, Any]] | None]
    not_before: NotRequired[str | None]
    machine: NotRequired[str]
    round: NotRequired[int | None]


class Headline(TypedDict):
    """The reason that counts, and who can change it."""

    code: str
    message: str
    actor: str


class Explanation(TypedDict):
    """Why a job is where it is."""

    job_id: str
    state: str
    headline: Headline | None
    reasons: list[WaitReason]
    preempted_for_it: NotRequired[dict[str, int]]
    """Runs that have left for it, by job."""
