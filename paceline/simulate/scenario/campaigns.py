"""Campaigns of maintenance in scenarios: one that is started, or what an operator does with it later."""

from collections.abc import Sequence

from pydantic import Field, model_validator

from events.records.hosts import MaintenanceActionRequested, MaintenanceRequested
from events.spec.maintenance import Hosts, MaintenanceId, MaintenanceSpec
from events.spec.parts import at
from paceline.simulate.scenario.parts import HostGroup, ScenarioPart

ACTS = ("pause", "resume", "abort")


class Campaign(ScenarioPart):
    """A campaign, as plan files have it; or the id of one, and what is done with it. Exactly one."""

    start: MaintenanceSpec | None = Field(
        default=None, description="The plan; `ids` of its hosts are those of hosts or groups."
    )
    pause: MaintenanceId | None = Field(default=None, description="It starts no more hosts.")
    resume: MaintenanceId | None = Field(default=None, description="It goes on, and failures are forgiven.")
    abort: MaintenanceId | None = Field(default=None, description="It ends once no host is worked on any more.")

    @model_validator(mode="after")
    def _one_thing(self) -> "Campaign":
        if len(self.model_fields_set & {"start", *ACTS}) != 1:
            raise at("start", f"must stand alone, or one of {', '.join(ACTS)} instead", None)
        return self

    @property
    def reboots(self) -> bool:
        """Whether it waits for hosts to be restarted."""
        return self.start is not None and self.start.work.kind == "reboot"

    def names(self) -> Sequence[str]:
        """The hosts and groups that it names."""
        return self.start.hosts.ids or () if self.start is not None else ()

    def to_event(
        self, groups: Sequence[HostGroup], command_id: str
    ) -> MaintenanceRequested | MaintenanceActionRequested:
        """The fact of the operator."""
        if self.start is not None:
            return self.start.to_event(host_ids(self.start.hosts, groups), command_id)
        action, name = next((act, str(getattr(self, act))) for act in ACTS if getattr(self, act) is not None)
        return MaintenanceActionRequested(maintenance_id=name, command_id=command_id, action=action)


def host_ids(hosts: Hosts, groups: Sequence[HostGroup]) -> list[str]:
    """The hosts that are named, in that order, or in that of the groups."""
    if hosts.attribute is not None:
        attribute, values = hosts.attribute, hosts.values
        return [host for group in groups if group.attributes.get(attribute) in values for host in group.names()]
    by_name = {group.name: group.names() for group in groups}
    return [host for name in hosts.ids or () for host in by_name.get(name, [name])]
