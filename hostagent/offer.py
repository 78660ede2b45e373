"""The offer of a host, as its agent tells the cell."""

from collections.abc import Sequence

import msgspec

from events.records.parts import HostDevice
from events.resources import GPU_MEMORY, Amounts
from hostagent import capacity
from hostagent.agent_settings import AgentSettings
from hostagent.agent_state import AgentState
from hostagent.hardware import HostHardware
from hostagent.host_secrets import HostSecrets
from hostagent.levels import Levels
from hostagent.messages import Hello, MachineIdentity, RunState


class HostOffer:
    """The offer of one agent. `capacity`: as of the last hello."""

    def __init__(self, settings: AgentSettings, hardware: HostHardware, levels: Levels, secrets: HostSecrets) -> None:
        self._settings = settings
        self._hardware = hardware
        self._levels = levels
        self._secrets = secrets
        self.capacity: Amounts = {}
        self._told: Sequence[HostDevice] = ()

    def hello(
        self, session: int, ports: tuple[int, int], runs: list[RunState], state: AgentState, machine: MachineIdentity
    ) -> Hello:
        """The words by which the agent connects, or says that its host offers something else by now."""
        settings, hardware = self._settings, self._hardware.now
        self.capacity = self._hardware.capacity(capacity.detect(settings.folder), settings.resources)
        attributes = capacity.attributes() | self._levels.attributes() | self._secrets.attributes()
        return Hello(
            session=session,
            capacity=self.capacity,
            sizes=[*settings.sizes, *({GPU_MEMORY} & self.capacity.keys())],
            port_first=ports[0],
            port_last=ports[1],
            attributes=attributes | settings.attributes,
            runs=runs,
            position=state.position,
            cell=state.cell,
            log=state.log,
            taints=settings.taints,
            machine=msgspec.structs.replace(machine, key=self._secrets.public),
            devices=list(hardware.devices),
            cores=[core.numa for core in hardware.cores],
        )

    def is_news(self) -> bool:
        """Whether the host has other devices than the cell was told."""
        return self._hardware.now.devices != self._told

    def told(self, hello: Hello | None) -> None:
        """The cell knows this; None: nothing else than before."""
        if hello is not None:
            self._told = tuple(hello.devices)
