"""The devices and cores of a host in files: those that an agent is given, and the hosts of scenarios."""

from collections.abc import Iterator
from typing import Annotated, Self

from pydantic import Discriminator, Field, StringConstraints, Tag, model_validator

from events.bounds import DEVICE, HOST_CORES_MAX, HOST_DEVICES_MAX
from events.host_devices import ID, NUMA_MAX, Core, list_fault
from events.quantities import Mebibytes
from events.records.parts import HostDevice
from events.spec.parts import ResourceName, ShortText, Spec, at

DeviceId = Annotated[str, StringConstraints(pattern=rf"^{ID.pattern}$")]
Node = Annotated[int, Field(ge=0, le=NUMA_MAX)]
DevicePath = Annotated[str, StringConstraints(pattern=rf"^{DEVICE.pattern}$")]


class DeviceSpec(Spec):
    """One device. `paths`: its files, which a container that has the device gets."""

    id: DeviceId
    kind: ResourceName
    model: ShortText = ""
    memory: Mebibytes = 0
    numa: Annotated[int, Field(ge=-1, le=NUMA_MAX)] = -1
    link_group: ShortText = ""
    of: str = ""
    excludes: list[str] = Field(default=[])
    healthy: bool = True
    paths: list[DevicePath] = Field(default=[])

    def device(self) -> HostDevice:
        """The device as records have it."""
        return HostDevice(
            id=self.id,
            kind=self.kind,
            model=self.model,
            memory=self.memory,
            numa=self.numa,
            link_group=self.link_group,
            of=self.of,
            excludes=tuple(self.excludes),
            healthy=self.healthy,
        )


class AlikeDevices(Spec):
    """Devices of one kind, KIND-0 and so on, shared out in their order among NUMA nodes and link groups; 0 of these:
    they are at none, in none.
    """

    count: Annotated[int, Field(ge=1, le=HOST_DEVICES_MAX)]
    model: ShortText = ""
    memory: Mebibytes = 0
    numa: Annotated[int, Field(ge=0, le=NUMA_MAX)] = 0
    link_groups: Annotated[int, Field(ge=0, le=HOST_DEVICES_MAX)] = 0

    def devices(self, kind: str) -> Iterator[HostDevice]:
        """The devices, as records have them."""
        for number in range(self.count):
            yield HostDevice(
                id=f"{kind}-{number}",
                kind=kind,
                model=self.model,
                memory=self.memory,
                numa=number * self.numa // self.count if self.numa else -1,
                link_group=f"{kind}-{number * self.link_groups // self.count}" if self.link_groups else "",
            )


class CoreLayout(Spec):
    """So many whole cores in each of so many NUMA nodes. Nobody says which threads they are, so none are pinned."""

    nodes: Annotated[int, Field(ge=1, le=NUMA_MAX + 1)] = 1
    cores: Annotated[int, Field(ge=1, le=HOST_CORES_MAX)]

    def layout(self) -> list[Core]:
        """The cores, by their numbers."""
        return [Core(node) for node in range(self.nodes) for _ in range(self.cores)]


class CoreSpec(Spec):
    """One whole core."""

    numa: Node = 0
    threads: Annotated[list[Annotated[int, Field(ge=0, le=(1 << 16) - 1)]], Field(min_length=1)]


ONE_BY_ONE, BY_KIND, IN_NODES = "[one by one]", "[by kind]", "[in nodes]"
"""The forms of devices and cores, as errors name them."""
Devices = Annotated[
    Annotated[list[DeviceSpec], Field(max_length=HOST_DEVICES_MAX), Tag(ONE_BY_ONE)]
    | Annotated[dict[ResourceName, AlikeDevices], Tag(BY_KIND)],
    Discriminator(lambda value: ONE_BY_ONE if isinstance(value, list) else BY_KIND),
]
Cores = Annotated[
    Annotated[list[CoreSpec], Field(max_length=HOST_CORES_MAX), Tag(ONE_BY_ONE)] | Annotated[CoreLayout, Tag(IN_NODES)],
    Discriminator(lambda value: ONE_BY_ONE if isinstance(value, list) else IN_NODES),
]


class HostHardware(Spec):
    """`devices`: one by one, or by kind; `cores`: a layout, or one by one."""

    devices: Devices = Field(default=[])
    cores: Cores = Field(default=[])

    @model_validator(mode="after")
    def _fit(self) -> Self:
        if fault := list_fault(self.host_devices()):
            raise at("devices", fault, None)
        if len(self.host_cores()) > HOST_CORES_MAX:
            raise at("cores", f"makes {len(self.host_cores())} cores, at most {HOST_CORES_MAX} are allowed", None)
        threads = [thread for core in self.host_cores() for thread in core.threads]
        if len({*threads}) < len(threads):
            raise at("cores", "a thread is of one core alone", None)
        return self

    def host_devices(self) -> list[HostDevice]:
        """The devices, as records have them."""
        if isinstance(self.devices, list):
            return [each.device() for each in self.devices]
        return [each for kind, alike in self.devices.items() for each in alike.devices(kind)]

    def paths(self) -> dict[str, tuple[str, ...]]:
        """The files of devices that have some, by the id of the device."""
        listed = self.devices if isinstance(self.devices, list) else []
        return {each.id: tuple(each.paths) for each in listed if each.paths}

    def host_cores(self) -> list[Core]:
        """The whole cores, by their numbers."""
        if isinstance(self.cores, CoreLayout):
            return self.cores.layout()
        return [Core(each.numa, tuple(each.threads)) for each in self.cores]
