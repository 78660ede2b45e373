"""Abilities of agents beside running a process: attributes that they offer, and that jobs which need it wait for."""

from collections.abc import Collection, Sequence
from typing import Protocol

PREFIX = "paceline/"
HEALTH = "paceline/health"
STOP_SIGNAL = "paceline/stop-signal"
OPEN_FILES = "paceline/open-files"
VOLUMES = "paceline/volumes"
OUT_OF_MEMORY = "paceline/out-of-memory"
"""The host tells processes that were killed for want of memory from others; no job needs it."""
USAGE = "paceline/usage"
"""The host measures what its runs use, and tells who asks; no job needs it."""
CGROUP = "paceline/cgroup"
CONTAINER = "paceline/container"
CPUSET = "paceline/cpuset"
"""The host keeps runs on their own cores, and others off these; no job needs it."""
SECRETS = "paceline/secrets"
NEEDED = {
    HEALTH: "health check",
    STOP_SIGNAL: "stop_signal",
    OPEN_FILES: "open_files",
    VOLUMES: "volumes",
    CGROUP: "isolation",
    CONTAINER: "image",
    SECRETS: "secrets",
}
"""The field of a job that needs each ability."""
OF_HOSTS = (CGROUP, CONTAINER, SECRETS)
"""Abilities that a host must have beside this build's agent: it tries them out when it starts."""
DEVICE = "paceline/device"
"""Followed by the path of a device that containers of a host may have."""
IMAGE = "paceline/image"
"""Followed by the beginning of its digest: an image that a host has; containers of it go there first."""
IMAGE_WEIGHT = 1
"""The weight of that: the least a job can give a preference of its own, and beyond what those add up to."""
IMAGE_DIGITS = 16
VALUE = "yes"


class _Isolation(Protocol):
    """The fields of its isolation that do."""

    @property
    def level(self) -> str: ...
    @property
    def cpu_limit(self) -> int: ...
    @property
    def processes(self) -> int: ...
    @property
    def devices(self) -> Sequence[str]: ...


class _Asks(Protocol):
    """The fields of a job that need abilities of agents."""

    @property
    def health(self) -> object | None: ...
    @property
    def stop_signal(self) -> str: ...
    @property
    def open_files(self) -> int: ...
    @property
    def volumes(self) -> Sequence[str]: ...
    @property
    def secrets(self) -> Sequence[object]: ...
    @property
    def run_token(self) -> bool: ...
    @property
    def isolation(self) -> "_Isolation | None": ...


def abilities() -> dict[str, str]:
    """The attributes of any host whose agent is of this build."""
    return {attribute: VALUE for attribute in NEEDED if attribute not in OF_HOSTS}


def needed(job: _Asks) -> list[str]:
    """The attributes that a host must offer to run tasks of a job."""
    apart = job.isolation
    asks = {
        HEALTH: job.health is not None,
        STOP_SIGNAL: job.stop_signal != "TERM",
        OPEN_FILES: job.open_files > 0,
        VOLUMES: len(job.volumes) > 0,
        CGROUP: apart is not None and (apart.level == "cgroup" or apart.cpu_limit > 0 or apart.processes > 0),
        CONTAINER: apart is not None and apart.level == "container",
        SECRETS: len(job.secrets) > 0 or job.run_token,
    }
    devices = apart.devices if apart is not None else ()
    return [*(attribute for attribute, uses in asks.items() if uses), *(f"{DEVICE}{path}" for path in devices)]


def image_attribute(digits: str) -> str:
    """The attribute of hosts that have an image, by the first digits of its digest."""
    return f"{IMAGE}/{digits}"


def image_digits(digest: str) -> str:
    """The digits by which hosts tell an image, of its whole digest, sha256:HEX."""
    return digest.partition(":")[2][:IMAGE_DIGITS]


def enforced(attributes: Collection[str]) -> str:
    """A sentence about the limits that a host holds its runs to, for those who look at it."""
    if CGROUP not in attributes:
        return (
            "memory, CPU and processes aren't limited here, and no containers run; the agent said why when it started"
        )
    limits = "memory, CPU and processes where the agent has --run-as or --isolation cgroup, or the job asks for it"
    limits += "; runs are kept on their own cores, and others off these" if CPUSET in attributes else ""
    return f"{limits}; {'containers run' if CONTAINER in attributes else 'no containers run, the agent said why'}"


def is_own(attribute: str) -> bool:
    """Whether an attribute says what an agent can do, rather than what an operator says of the host."""
    return attribute.startswith(PREFIX)


def field_of(attribute: str) -> str:
    """The field of a job that needs an ability."""
    return "device_files" if attribute.startswith(DEVICE) else NEEDED[attribute]
