"""The rows of campaigns."""

from enum import StrEnum

import msgspec

from events.codes import Step
from events.records.parts import DrainPlan
from processors.state.causes import CauseRow

ACTIVE = (Step.DRAIN, Step.WORK, Step.CHECK)
"""The steps of a host that is taken from the cell."""
OVER = (Step.DONE, Step.FAILED, Step.SKIPPED)


class State(StrEnum):
    """The states of a campaign (`MaintenanceChanged.state`)."""

    RUNNING = "RUNNING"
    PAUSED = "PAUSED"
    """It starts no host; the steps of others go on."""
    ABORTING = "ABORTING"
    """It waits for the end of work and checks."""
    ABORTED = "ABORTED"
    DONE = "DONE"

    @property
    def is_over(self) -> bool:
        """Whether it has ended."""
        return self in (State.ABORTED, State.DONE)


class DrainRow(msgspec.Struct, frozen=True, array_like=True):
    """A `DrainPlan`."""

    batch: str = "wait"
    deadline_ms: int = 0
    escalate: str = "wait"
    force_after_ms: int = 0

    @property
    def part(self) -> DrainPlan:
        """The part of a record."""
        return msgspec.convert(self, DrainPlan, from_attributes=True)


class PlanRow(msgspec.Struct, frozen=True, array_like=True):
    """A `MaintenancePlan`."""

    drain: DrainRow
    at_a_time: int
    per_rack: int
    rack: str
    order: str
    work: str
    work_ms: int
    within_ms: int
    check_ms: int
    max_failed: int
    max_down: int
    stuck_ms: int
    window_id: str


class CampaignRow(msgspec.Struct, array_like=True):
    """A campaign. `counts`: its hosts by `Step`; `failed`: those that have failed since it was started or resumed;
    `waits`, `waits_ms`: why it starts no host though it might, and since when it says so; empty: it doesn't say that.
    """

    number: int
    plan: PlanRow
    command_id: str
    by: CauseRow
    state: str = State.RUNNING
    counts: list[int] = []
    failed: int = 0
    waits: str = ""
    waits_ms: int = 0
    again_ms: int = 0
    """When room is looked for again; 0: nothing has changed since there was none."""

    @property
    def active(self) -> int:
        """Counts the hosts that it has taken from the cell."""
        return sum(self.counts[step] for step in ACTIVE)

    @property
    def open(self) -> int:
        """Counts the hosts that aren't over."""
        return self.active + self.counts[Step.PENDING]


class CampaignHostRow(msgspec.Struct, array_like=True):
    """A host that isn't over in its campaign. `session`, `boot`: the connection of its agent, and the boot of its
    machine, when it was empty; `since_ms`: when its step began.
    """

    campaign: str
    step: int
    since_ms: int
    session: int = -1
    boot: str = ""


class CampaignAskRow(msgspec.Struct, array_like=True):
    """The request of an operator about a campaign, while it waits for its answer. `action`: start, pause, resume or
    abort.
    """

    maintenance_id: str
    command_id: str
    action: str
    at_ms: int
    host_ids: tuple[str, ...] = ()
    plan: PlanRow | None = None
