"""Drains, campaigns and windows as users write them: over HTTP, in plan files and in scenarios."""

from collections.abc import Collection, Sequence
from typing import Annotated, Literal, Self

from pydantic import Field, StringConstraints, model_validator

from events.bounds import INT_MAX, WINDOW_MAX_MS, WINDOW_MIN_MS
from events.quantities import Milliseconds, SomeMilliseconds, write_ms
from events.records.hosts import HostsDrainRequested, MaintenanceRequested, MaintenanceWindowSet
from events.records.parts import DrainPlan, MaintenancePlan
from events.spec.job import ID_PATTERN
from events.spec.parts import ShortText, Spec, Word, at
from events.spec.sla import DisruptionWindow

HOSTS_MAX = 100_000
"""Hosts that one command names."""
FORCE_AFTER_MS = 600_000
REASON_MAX = 1000
MaintenanceId = Annotated[str, StringConstraints(pattern=ID_PATTERN)]
HostIds = Annotated[list[Word], Field(min_length=1, max_length=HOSTS_MAX)]
Count = Annotated[int, Field(ge=0, le=INT_MAX)]
Reason = Annotated[str, StringConstraints(max_length=REASON_MAX)]


class DrainSpec(Spec):
    """A drain: the way in which hosts are emptied."""

    batch: Literal["wait", "move"] = Field(
        default="wait", description="wait: batch tasks run to their end; move: preemptible ones leave at once."
    )
    deadline: Milliseconds = Field(
        default=0, json_schema_extra={"default": "0s"}, description="The deadline, from the request on; 0: none."
    )
    escalate: Literal["wait", "preempt", "force"] = Field(
        default="wait",
        description="At the deadline. wait: nothing happens; preempt: preemptible batch tasks leave; force: that, and "
        "force_after later all that is left is ended, whatever budgets say.",
    )
    force_after: Milliseconds | None = Field(
        default=None, description="For force: how long after the deadline; by default 10m."
    )

    @model_validator(mode="after")
    def _escalates_at_a_deadline(self) -> Self:
        if self.escalate != "wait" and not self.deadline:
            raise at("deadline", f"must be set: escalate {self.escalate} happens then", self.deadline)
        if self.force_after is not None and self.escalate != "force":
            raise at("force_after", "is for escalate force alone", self.force_after)
        return self

    @property
    def force_after_ms(self) -> int:
        """The time from the deadline until all that is left is ended; 0 where nothing is ended by force."""
        return (FORCE_AFTER_MS if self.force_after is None else self.force_after) if self.escalate == "force" else 0

    def to_part(self) -> DrainPlan:
        """The part of the fact of a campaign."""
        return DrainPlan(
            batch=self.batch,
            deadline_ms=self.deadline,
            escalate=self.escalate,
            force_after_ms=self.force_after_ms,
        )

    def to_event(
        self, host_ids: Sequence[str], command_id: str, reason: str = "", most: int = 0, force: bool = False
    ) -> HostsDrainRequested:
        """The fact that drains these hosts; `most`: so many of them, 0: all."""
        return HostsDrainRequested(
            host_ids=tuple(host_ids),
            command_id=command_id,
            most=most,
            batch=self.batch,
            deadline_ms=self.deadline,
            escalate=self.escalate,
            force_after_ms=self.force_after_ms,
            force=force,
            reason=reason,
        )


class Hosts(Spec):
    """Hosts: those with these ids, or those with an attribute."""

    ids: HostIds | None = Field(default=None, description="Their ids.")
    attribute: Word | None = Field(default=None, description="The name of an attribute.")
    values: Annotated[list[ShortText], Field(max_length=1000)] = Field(
        default=[], description="The hosts whose attribute has one of these values."
    )

    @model_validator(mode="after")
    def _names_some(self) -> Self:
        if (self.ids is None) == (self.attribute is None):
            raise at("ids", "must be set, or else attribute with values", self.ids)
        if (self.attribute is None) == bool(self.values):
            raise at("values", "set `attribute` and `values` together", self.values)
        return self


class Work(Spec):
    """The work on a host that is empty, and when it is over."""

    kind: Literal["reboot", "time", "manual"] = Field(
        default="manual",
        description="reboot: it is over when the host is back with another boot; time: after duration; manual: when an "
        "operator resumes the host.",
    )
    duration: SomeMilliseconds | None = Field(default=None, description="For time: how long it takes.")
    within: Milliseconds = Field(
        default=0,
        json_schema_extra={"default": "0s"},
        description="The host has failed when it takes longer; 0: it may take any time.",
    )

    @model_validator(mode="after")
    def _takes_a_time(self) -> Self:
        if (self.kind == "time") != (self.duration is not None):
            message = "must be set for the kind time" if self.kind == "time" else "is for the kind time alone"
            raise at("duration", message, self.duration)
        return self


class Check(Spec):
    """The check of a host after the work."""

    within: SomeMilliseconds = Field(
        default=600_000,
        json_schema_extra={"default": "10m"},
        description="The host has failed when it isn't up and well so long after the work.",
    )


class MaintenanceSpec(Spec):
    """A campaign: hosts that are emptied, worked on, checked and taken back, some at a time."""

    maintenance_id: MaintenanceId = Field(description="Its name: 1 to 128 of a-z, 0-9, dot, dash and underscore.")
    hosts: Hosts = Field(description="The hosts: their ids, or an attribute and its values.")
    at_a_time: Annotated[int, Field(ge=1, le=INT_MAX)] = Field(
        default=1, description="The most hosts that are emptied, worked on or checked at a time."
    )
    per_rack: Count = Field(default=0, description="The most of them in one rack; 0: no bound.")
    rack: Word = Field(default="rack", description="The attribute that names the rack of a host.")
    order: Literal["paced", "cheapest", "name"] = Field(
        default="paced",
        description="paced: so that the service with the tightest budget never waits; cheapest: hosts with the least "
        "to move first; name: by id.",
    )
    drain: DrainSpec = Field(default=DrainSpec(), description="How each host is emptied.")
    work: Work = Field(default=Work(), description="What is done with each host when it is empty.")
    check: Check = Field(default=Check(), description="What each host has to show after the work.")
    max_failed: Count = Field(
        default=0, description="So many hosts may fail since it was started or resumed; one more pauses it."
    )
    max_down: Count = Field(
        default=0, description="No host is started while more hosts are silent, lost or returning; 0: no bound."
    )
    stuck: Milliseconds = Field(
        default=0,
        json_schema_extra={"default": "0s"},
        description="A host that drains for so long is taken back and skipped; 0: never.",
    )
    window: ShortText = Field(default="", description="Hosts are started only while this window is open.")
    reason: Reason = Field(default="", description="Why; it is recorded in the log.")

    def to_event(self, host_ids: Collection[str], command_id: str) -> MaintenanceRequested:
        """The fact that starts it with these hosts."""
        return MaintenanceRequested(
            maintenance_id=self.maintenance_id,
            command_id=command_id,
            host_ids=tuple(host_ids),
            plan=MaintenancePlan(
                drain=self.drain.to_part(),
                at_a_time=self.at_a_time,
                per_rack=self.per_rack,
                rack=self.rack,
                order=self.order,
                work=self.work.kind,
                work_ms=self.work.duration or 0,
                within_ms=self.work.within,
                check_ms=self.check.within,
                max_failed=self.max_failed,
                max_down=self.max_down,
                stuck_ms=self.stuck,
                window_id=self.window,
            ),
            reason=self.reason,
        )


class WindowFields(DisruptionWindow):
    """The times at which hosts drain by themselves, or at which campaigns that name the window may start hosts."""

    hosts: Hosts = Field(description="The hosts: their ids, or an attribute and its values.")
    lead: Milliseconds = Field(
        default=0,
        json_schema_extra={"default": "0s"},
        description="How long before it opens its hosts begin to drain.",
    )
    escalate: Literal["preempt", "force", "cordon"] = Field(
        default="preempt",
        description="What happens when it opens with what is left on its hosts. preempt: preemptible batch tasks "
        "leave; force: all is ended, whatever budgets say; cordon: hosts drain for no window, it is for campaigns.",
    )
    reason: Reason = Field(default="", description="Why; it is recorded in the log.")

    @model_validator(mode="after")
    def _bounds(self) -> Self:
        if not WINDOW_MIN_MS <= self.duration <= WINDOW_MAX_MS:
            raise at("duration", f"must be {write_ms(WINDOW_MIN_MS)} to {write_ms(WINDOW_MAX_MS)}", self.duration)
        if self.lead > WINDOW_MAX_MS:
            raise at("lead", f"must be at most {write_ms(WINDOW_MAX_MS)}", self.lead)
        if self.lead and self.escalate == "cordon":
            raise at("lead", "is of no use with escalate cordon: hosts drain for no such window", self.lead)
        return self

    def to_fact(
        self, window_id: str, host_ids: Collection[str], command_id: str, year: int = 0
    ) -> MaintenanceWindowSet:
        """The fact that sets it for these hosts; the offsets of its zone are those from the begin of a year on."""
        return MaintenanceWindowSet(
            window_id=window_id,
            command_id=command_id,
            host_ids=tuple(host_ids),
            schedule=self.schedule,
            duration_ms=self.duration,
            zone=self.zone(year),
            lead_ms=self.lead,
            escalate=self.escalate,
            reason=self.reason,
        )


class WindowSpec(WindowFields):
    """A window of maintenance."""

    window_id: MaintenanceId = Field(description="Its name: 1 to 128 of a-z, 0-9, dot, dash and underscore.")


def plan_body(plan: MaintenancePlan) -> dict[str, object]:
    """The JSON of a plan, as it is written in files; its hosts aside."""
    drain: dict[str, object] = {"batch": plan.drain.batch, "deadline": write_ms(plan.drain.deadline_ms)}
    drain["escalate"] = plan.drain.escalate
    if plan.drain.escalate == "force":
        drain["force_after"] = write_ms(plan.drain.force_after_ms)
    work: dict[str, object] = {"kind": plan.work, "within": write_ms(plan.within_ms)}
    if plan.work == "time":
        work["duration"] = write_ms(plan.work_ms)
    return {
        "at_a_time": plan.at_a_time,
        "per_rack": plan.per_rack,
        "rack": plan.rack,
        "order": plan.order,
        "drain": drain,
        "work": work,
        "check": {"within": write_ms(plan.check_ms)},
        "max_failed": plan.max_failed,
        "max_down": plan.max_down,
        "stuck": write_ms(plan.stuck_ms),
        "window": plan.window_id,
    }
