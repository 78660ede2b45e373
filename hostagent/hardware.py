"""The devices and whole cores of this host, and what runs are told of those that they have."""

import asyncio
import logging
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import NamedTuple

import msgspec

from events.host_devices import Core, sums
from events.records.parts import HostDevice
from events.resources import Amounts, is_gpu
from hostagent.messages import DeviceOrder, RunOrder

log = logging.getLogger("paceline.agent")

LOOK_S = 2.0
"""So often devices are looked at again, where their source doesn't say another."""
FAULTS = 2
"""After so many looks in a row that failed no device is well."""
VIRTUAL = re.compile(r"(?P<kind>[a-z0-9._/-]+):(?P<number>[0-9]{1,4})")
"""Devices of kinds of which the host says but a sum."""
NUMBERED = re.compile(r"([a-z0-9._/-]+[:-])?([0-9]{1,4})")
"""Ids of GPUs that CUDA knows by a number."""


class HardwareFault(Exception):
    """Devices or cores can't be found out; the message says why."""


class Hardware(NamedTuple):
    """All that there is. `paths`: the files of devices, by their ids, which a container that has the device gets;
    `cores`: by their numbers.
    """

    devices: tuple[HostDevice, ...] = ()
    paths: Mapping[str, tuple[str, ...]] = {}
    cores: tuple[Core, ...] = ()


class RunHardware(NamedTuple):
    """The part of a run: its variables, the files of its devices, the threads of its cores."""

    env: Mapping[str, str] = {}
    paths: tuple[str, ...] = ()
    threads: tuple[int, ...] = ()
    defaults: Mapping[str, str] = {}
    """Variables that its job may set otherwise: without a GPU of its own it isn't to take another's."""


NO_HARDWARE = RunHardware()


class Source(NamedTuple):
    """Where devices are found. `look`: raises `HardwareFault`; called from any thread."""

    look: Callable[[], Hardware]
    every_s: float = LOOK_S


class HostHardware:
    """Knows what there is now. `source` None: the host has but sums. `resources`: amounts that the settings name;
    `say`: told of devices that come, go, or aren't well; `warn`: that they can't be looked at. Raises `HardwareFault`.
    """

    def __init__(
        self,
        source: Source | None,
        resources: Amounts,
        say: Callable[[str], None],
        warn: Callable[[str], None] = log.warning,
    ) -> None:
        self._source = source
        self._say, self._warn = say, warn
        self._faults, self._fault = 0, ""
        self.now = source.look() if source is not None else Hardware()
        if twice := sorted(
            resources.keys() & ({each.kind for each in self.now.devices} | sums(self.now.devices).keys())
        ):
            raise HardwareFault(f"the settings offer {twice[0]}; its devices say themselves how many there are")
        if self.now.devices or self.now.cores:
            say(f"has {summary(self.now)}")

    def capacity(self, detected: Amounts, resources: Amounts) -> Amounts:
        """Makes the offer of the host of what is detected and what the settings name."""
        if any(is_gpu(each.kind) for each in self.now.devices):  # the driver counts the same ones
            detected = {name: amount for name, amount in detected.items() if not is_gpu(name)}
        cores = {"cpu": 1000 * len(self.now.cores)} if self.now.cores else {}
        return detected | cores | resources | sums(self.now.devices)

    async def follow(self, changed: Callable[[], None]) -> None:
        """Looks again and again, until it is cancelled."""
        while self._source is not None:
            await asyncio.sleep(self._source.every_s)
            if (devices := await asyncio.to_thread(self.look)) != self.now.devices:
                self._say(f"devices: {difference(self.now.devices, devices)}")
                self.now = self.now._replace(devices=devices)
                changed()

    def look(self) -> tuple[HostDevice, ...]:
        """The devices as they are; none is well where that can't be found out."""
        assert self._source is not None
        try:
            seen, self._faults, self._fault = self._source.look(), 0, ""
        except HardwareFault as fault:
            self._faults += 1
            if self._faults >= FAULTS and str(fault) != self._fault:
                self._warn(f"devices can't be looked at, none takes new tasks: {fault}")
                self._fault = str(fault)
            if self._faults < FAULTS:
                return self.now.devices
            return tuple(msgspec.structs.replace(each, healthy=False) for each in self.now.devices)
        self.now = self.now._replace(paths=seen.paths)
        return seen.devices

    def of_run(self, item: RunOrder, contained: bool) -> RunHardware:
        """The part of an ordered run; `contained`: it runs as a container, which sees its own devices alone. Raises
        `ValueError` where the host lacks what it is to have.
        """
        own = {each.id: each for each in self.now.devices}
        kinds = [self._kind(order, own) for order in item.devices]
        gpus = [order.id for order, kind in zip(item.devices, kinds, strict=True) if is_gpu(kind)]
        env = _cuda(gpus, contained) if gpus else {}
        hides = not gpus and any(is_gpu(each.kind) for each in own.values())
        if item.devices:
            rows = [
                {"id": order.id, "kind": kind, "milli": order.milli, "memory": order.memory}
                for order, kind in zip(item.devices, kinds, strict=True)
            ]
            env |= {"PACELINE_DEVICES": msgspec.json.encode(rows).decode()}
        if item.cores:
            env |= {"PACELINE_CORES": ",".join(map(str, item.cores))}
        if strangers := [number for number in item.cores if number >= len(self.now.cores)]:
            raise ValueError(f"this host has no core {strangers[0]}")
        paths = dict.fromkeys(path for order in item.devices for path in self.now.paths.get(order.id, ()))
        threads = tuple(thread for number in item.cores for thread in self.now.cores[number].threads)
        return RunHardware(env, tuple(paths), threads, {"CUDA_VISIBLE_DEVICES": ""} if hides else {})

    def _kind(self, order: DeviceOrder, own: Mapping[str, HostDevice]) -> str:
        """The kind of a device. Raises `ValueError` where there is none, or it isn't well."""
        if (device := own.get(order.id)) is not None:
            if not device.healthy:
                raise ValueError(f"device {order.id} of this host isn't well")
            return device.kind
        virtual = VIRTUAL.fullmatch(order.id)
        if virtual is None or virtual["kind"] in {each.kind for each in own.values()}:
            raise ValueError(f"this host has no device {order.id}, or no longer")
        return virtual["kind"]


def _cuda(gpus: Sequence[str], contained: bool) -> dict[str, str]:
    """The variables that CUDA reads. A number counts the GPUs in the order of the bus, as nvidia-smi does; in a
    container those that it has.
    """
    numbers = [NUMBERED.fullmatch(gpu) for gpu in gpus]
    if not all(numbers):
        return {"CUDA_VISIBLE_DEVICES": ",".join(gpus)}
    own = range(len(gpus)) if contained else [int(each[2]) for each in numbers if each is not None]
    return {"CUDA_VISIBLE_DEVICES": ",".join(map(str, own)), "CUDA_DEVICE_ORDER": "PCI_BUS_ID"}


def summary(hardware: Hardware) -> str:
    """Lists what a host has, for people."""
    kinds = [each.kind for each in hardware.devices]
    parts = [f"{kinds.count(kind)} {kind}" for kind in dict.fromkeys(kinds)]
    if hardware.cores:
        parts.append(f"{len(hardware.cores)} cores in {len({core.numa for core in hardware.cores})} NUMA nodes")
    return ", ".join(parts)


def difference(before: Iterable[HostDevice], after: Iterable[HostDevice]) -> str:
    """Tells what has changed, for people."""
    old, new = {each.id: each for each in before}, {each.id: each for each in after}
    words = [f"{each} is gone" for each in old if each not in new] + [
        f"{each} is new" for each in new if each not in old
    ]
    both = [each for each in old if each in new]
    words += [f"{each} isn't well" for each in both if old[each].healthy and not new[each].healthy]
    words += [f"{each} is well again" for each in both if new[each].healthy and not old[each].healthy]
    return "; ".join(words) or "they say something else of themselves"
