"""Host pools in scenarios: those of a cell, and what operators do with them."""

from pydantic import Field, model_validator

from events.records.hosts import HostPoolDefined
from events.spec.host_pool_name import HostPoolName
from events.spec.host_pools import HostPoolSpec, MoveSpec
from events.spec.parts import Spec, at
from paceline.simulate.scenario.parts import Host


class ScenarioHostPool(HostPoolSpec):
    """A host pool with its name."""

    name: HostPoolName

    def fact(self, command_id: str) -> HostPoolDefined:
        """The fact of the operator."""
        return self.to_event(self.name, command_id)


class HostPoolChange(Spec):
    """A host pool that is defined, or the name of one that is removed; exactly one."""

    define: ScenarioHostPool | None = None
    remove: HostPoolName | None = None

    @model_validator(mode="after")
    def _one_thing(self) -> "HostPoolChange":
        if (self.define is None) == (self.remove is None):
            raise at("define", "must stand alone, or `remove` instead", None)
        return self

    def fact(self, command_id: str) -> HostPoolDefined:
        """The fact of the operator."""
        if self.define is not None:
            return self.define.fact(command_id)
        return HostPoolDefined(name=str(self.remove), command_id=command_id, removed=True)


class HostMove(MoveSpec):
    """Hosts of a host pool that are emptied and put into another one."""

    target: HostPoolName
    host: Host | None = Field(default=None, description="A host, or all of a group, instead of a count.")


class HostAssignment(Spec):
    """A host, or all of a group, and the host pool that they are put into."""

    host: Host
    host_pool: HostPoolName = Field(description="shared, or one that is defined.")
