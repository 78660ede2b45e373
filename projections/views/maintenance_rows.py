"""The rows of maintenance: stages of hosts, campaigns, windows, and what is asked of sla for the runs of hosts.

Each column has one owning topic, see `rows.py`.
"""

import msgspec

from events.natural_order import natural_key


class HostStageRow(msgspec.Struct):
    """The stage of a host that is cordoned, drains, is drained, checked, or has a place in a campaign that goes on."""

    host_id: str
    stage: int = 0
    """A `Stage`."""
    cordon: int = 0
    batch: int = 0
    """1: preemptible batch tasks leave at once."""
    step: int = 0
    """A `Step`; 0: it is in no campaign."""
    preempt_at: int = 0
    """The second of its deadline; 0: none."""
    force_at: int = 0
    """The second from which all that is left is ended; 0: never."""
    check_until: int = 0
    """The second until which it must be well again; 0: it isn't checked."""
    code: str = ""
    by: str = ""
    """The owner: operator, campaign, window, health or taint."""
    source: str = ""
    """The campaign, window, condition or taint."""
    message: str = ""
    since_ms: int = 0
    """Since when it has its stage."""
    begun_ms: int = 0
    """Since when it isn't UP."""
    reason: str = ""
    """Why, in the words of who asked for it last."""
    actor: str = ""
    """The actor, as `actor_names.kept` has it, in JSON; empty: not said."""


class HostCommandRow(msgspec.Struct):
    """A fact of an operator about hosts, until later ones are answered; `value` is the encoded record."""

    offset: int
    value: bytes


class MaintenanceRow(msgspec.Struct):
    """A campaign; `fact` is the encoded MaintenanceRequested that began it."""

    maintenance_id: str
    number: int
    """Where the round stands that took it, so that newer ones have greater numbers."""
    fact: bytes
    state: str
    code: str
    message: str
    hosts: int
    started_ms: int
    changed_ms: int
    """Since when it has its state."""
    ended_ms: int = 0


class MaintenanceHostRow(msgspec.Struct):
    """A host of a campaign."""

    maintenance_id: str
    host_id: str
    step: int
    since_ms: int
    """Since when it is at its step."""
    code: str = ""
    message: str = ""
    begun_ms: int = 0
    """When it began to drain for the campaign; 0: not yet."""
    place: str = ""
    """Its place in the natural order of ids."""

    def __post_init__(self) -> None:
        self.place = self.place or natural_key(self.host_id)


class MaintenanceWindowRow(msgspec.Struct):
    """A window of maintenance; `fact` is the encoded MaintenanceWindowSet that holds. Times are milliseconds;
    0: none.
    """

    window_id: str
    fact: bytes
    state: str
    """SET, LEADING or OPEN."""
    opens_ms: int
    """When it opens next, or has opened."""
    closes_ms: int
    set_ms: int
    changed_ms: int
    """Since when it has its state."""
    closed_ms: int = 0
    """When it was last open until."""
    missed_ms: int = 0
    """The last opening that was missed."""


class DisruptionRow(msgspec.Struct):
    """An instance whose run lifecycle asked sla to disrupt. Owners: lifecycle (to `why`), sla (the rest)."""

    job_id: str
    instance: int
    run: int = 0
    """The run that is asked for; 0: none is any more."""
    since_s: int = 0
    """Second of the first planned cause of the run."""
    why: int = 0
    """A `RunCause`; 0: not known."""
    judged_run: int = 0
    """The run of the last verdict."""
    code: str = ""
    """The reason code by which it waits; empty: it may go."""
    judged_ms: int = 0
    """Since when it waits by that code."""


class DeferralRow(msgspec.Struct):
    """The numbers of the last verdict of sla by which instances of a job wait for a code."""

    job_id: str
    code: str
    unavailable: int
    max_unavailable: int
    group: str
    until_s: int
    """Second of the next time at which they may go; 0: not known."""
    judged_ms: int
