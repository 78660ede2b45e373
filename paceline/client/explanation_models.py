"""Why a job is where it is, as it stands on the wire. See `models.py`."""

from typing import TypedDict

from paceline.client.forecast_models import Forecast, NoForecast
from paceline.client.models import Amounts, Reason, StrategyInEffect


class NearHost(TypedDict):
    """A host that lacked least, and the amounts that it lacked. `devices`: in words what its devices and cores lacked,
    where amounts alone don't say it.
    """

    host_id: str
    lacks: Amounts
    devices: str


class GroupRoom(TypedDict):
    """Hosts with one value of an attribute, and the tasks of a gang for which they have room; "": without it."""

    value: str
    fit: int


class ReasonNumbers(TypedDict):
    """The numbers of a reason; those that its machine didn't give are null."""

    tasks: int | None
    round: int | None
    pool: str | None
    """The pool that says no."""
    asked: Amounts | None
    allocated: Amounts | None
    entitlement: Amounts | None
    limit: Amounts | None
    reserved: Amounts | None
    ahead: int | None
    jobs_ahead: int | None
    hosts_considered: int | None
    hosts_by_reason: dict[str, int] | None
    nearest: list[NearHost] | None
    level: str | None
    """The attribute, or host, in whose groups of hosts a gang, or each `segment` of it, must be."""
    segment: int | None
    groups: list[GroupRoom] | None
    """The groups with most room."""
    groups_considered: int | None
    fit: int | None
    missing: str | None
    order: int | None
    """The number of an order to preempt."""
    for_job: str | None
    from_jobs: dict[str, int] | None
    hosts: list[str] | None
    image: dict[str, int] | None
    """The numbers of `hosts` that were told to pull an image, of those that `have` it, and of `faults`."""
    until: str | None
    not_before: str | None


class WaitReason(ReasonNumbers):
    """One reason why tasks wait."""

    code: str
    tier: str
    message: str
    actor: str
    change: str
    """The remedy; empty: the message says it, or there is none."""
    since: str | None
    machine: str


class Explanation(TypedDict):
    """Why a job is where it is."""

    job_id: str
    state: str
    headline: Reason | None
    reasons: list[WaitReason]
    strategy_in_effect: StrategyInEffect | None
    """Null: of a daemon."""
    forecast: Forecast | None
    """When it is expected to begin, while it waits for its first run; null: see `no_forecast`."""
    no_forecast: NoForecast | None
    """Null: it has a forecast, or has begun or ended."""
    preempted_for_it: dict[str, int]
    """Runs that have left for it, by job."""
