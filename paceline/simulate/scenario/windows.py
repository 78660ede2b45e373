"""Windows of maintenance in scenarios: one that is set, or removed."""

from collections.abc import Sequence

from msgspec.structs import replace
from pydantic import Field, model_validator

from events.quantities import Milliseconds
from events.records.hosts import MaintenanceWindowRemoved, MaintenanceWindowSet
from events.records.parts import ZoneOffsets
from events.spec.maintenance import MaintenanceId, WindowSpec
from events.spec.parts import at
from paceline.simulate.scenario.campaigns import host_ids
from paceline.simulate.scenario.parts import HostGroup, ScenarioPart

YEAR = 2023
"""Virtual time begins in it."""


class ScenarioWindow(WindowSpec):
    """A window as files have it; its `ids` name hosts or groups."""

    offsets: dict[Milliseconds, Milliseconds] = Field(
        default={}, description="Instead of `time_zone`: how far its clocks are ahead of UTC, from these times on."
    )

    @model_validator(mode="after")
    def _one_zone(self) -> "ScenarioWindow":
        if self.offsets and "time_zone" in self.model_fields_set:
            raise at("offsets", "stand instead of `time_zone`", self.offsets)
        return self


class Window(ScenarioPart):
    """A window that is set, or the id of one that is removed; exactly one."""

    set: ScenarioWindow | None = Field(default=None, description="The window, as files have it.")
    remove: MaintenanceId | None = Field(default=None, description="It is there no more; its hosts are taken back.")

    @model_validator(mode="after")
    def _one_thing(self) -> "Window":
        if (self.set is None) == (self.remove is None):
            raise at("set", "must stand alone, or `remove` instead", None)
        return self

    def names(self) -> Sequence[str]:
        """The hosts and groups that it names."""
        return self.set.hosts.ids or () if self.set is not None else ()

    def to_event(
        self, groups: Sequence[HostGroup], command_id: str, start_ms: int
    ) -> MaintenanceWindowSet | MaintenanceWindowRemoved:
        """The fact of the operator; virtual time begins at `start_ms`."""
        if self.set is None:
            return MaintenanceWindowRemoved(window_id=str(self.remove), command_id=command_id)
        fact = self.set.to_fact(self.set.window_id, host_ids(self.set.hosts, groups), command_id, YEAR)
        if not self.set.offsets:
            return fact
        changes = sorted(self.set.offsets.items())
        from_s = tuple((start_ms + at_ms) // 1000 for at_ms, _ in changes)
        return replace(fact, zone=ZoneOffsets("scenario", from_s, tuple(ms // 1000 for _, ms in changes)))
