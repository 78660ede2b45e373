"""Why a job is where it is, as it stands on the wire. See `models.py`."""

from typing import Any, NotRequired, TypedDict

from paceline.client.models import Amounts


class ReasonNumbers(TypedDict):
    """The numbers of a reason; those that its machine didn't give are null."""

    tasks: NotRequired[int | None]
    round: NotRequired[int | None]
    pool: NotRequired[str | None]
    """The pool that says no."""
    asked: NotRequired[Amounts | None]
    allocated: NotRequired[Amounts | None]
    entitlement: NotRequired[Amounts | None]
    limit: NotRequired[Amounts | None]
    reserved: NotRequired[Amounts | None]
    ahead: NotRequired[int | None]
    jobs_ahead: NotRequired[int | None]
    hosts_considered: NotRequired[int | None]
    hosts_by_reason: NotRequired[dict[str, int] | None]
    nearest: NotRequired[list[dict[str, Any]] | None]
    fit: NotRequired[int | None]
    missing: NotRequired[str | None]
    order: NotRequired[int | None]
    """The number of an order to preempt."""
    for_job: NotRequired[str | None]
    from_jobs: NotRequired[dict[str, int] | None]
    hosts: NotRequired[list[str] | None]
    until: NotRequired[str | None]
    not_before: NotRequired[str | None]


class WaitReason(ReasonNumbers):
    """One reason why tasks wait."""

    code: str
    tier: NotRequired[str]
    message: str
    actor: NotRequired[str]
    change: NotRequired[str]
    """The remedy; empty: the message says it, or there is none."""
    since: NotRequired[str | None]
    machine: NotRequired[str]


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
