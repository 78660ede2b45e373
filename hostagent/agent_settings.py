"""The settings of an agent."""

import ssl
from dataclasses import dataclass, field
from pathlib import Path

from events.resources import Amounts
from hostagent.container_level import ContainerSettings
from hostagent.hardware import Source
from hostagent.host_certificate import HostCertificate
from hostagent.host_checks import HealthCommand
from hostagent.ports import LOCKS
from hostagent.retention import Retention


@dataclass(frozen=True)
class AgentSettings:
    """The settings of an agent. `urls`: of the gateways of its cell; `resources`, `attributes`: beside what is
    detected, or instead of it; `sizes`: which resources are in MiB, beside memory and disk. `ports_moved`: where
    another agent of this machine has these ports, others of the same number are taken; `port_locks`: see
    `hostagent.ports`. `run_as`: the user as whom tasks run, empty: the agent's; `isolation`:
    one of `hostagent.levels.CHOICES`; `umask`: that of tasks; `retention`: the runs that are kept for their output;
    `health`: commands that check the host; `tls`: how gateways are verified, None: by the CAs of the machine. `token`
    empty: the certificate that `tls` shows says who it is; `certificate`: that one, where the cell has given it, to be
    renewed. `hardware`: where devices and cores are found, None: the host offers but sums.
    """

    urls: tuple[str, ...]
    token: str
    folder: Path
    host_id: str
    resources: Amounts = field(default_factory=dict)
    attributes: dict[str, str] = field(default_factory=dict)
    taints: dict[str, str] = field(default_factory=dict)
    port_first: int = 31000
    port_last: int = 31999
    ports_moved: bool = True
    port_locks: Path = LOCKS
    run_as: str = ""
    isolation: str = "auto"
    umask: int = 0o022
    retention: Retention = field(default_factory=Retention)
    containers: ContainerSettings = field(default_factory=ContainerSettings)
    sizes: tuple[str, ...] = ()
    health: tuple[HealthCommand, ...] = ()
    tls: ssl.SSLContext | None = None
    certificate: HostCertificate | None = None
    hardware: Source | None = None
