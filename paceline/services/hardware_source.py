"""Where an agent finds the devices and cores of its host: in a file, from nvidia-smi, from Linux."""

from pathlib import Path

from events.host_devices import Core
from events.spec.host_devices import HostHardware
from hostagent import cores, nvidia
from hostagent.hardware import Hardware, HardwareFault, Source
from paceline.client.errors import Faults
from paceline.job_files import read_one
from paceline.services.data_folder import CannotStart

NVIDIA = "nvidia"
"""In place of a file: nvidia-smi is asked."""


def hardware_source(devices: str, cores_wanted: bool) -> Source | None:
    """The source that the settings name; None: they name none. Raises `CannotStart`."""
    if not devices and not cores_wanted:
        return None
    try:
        own = tuple(cores.detect()) if cores_wanted else ()
    except HardwareFault as fault:
        raise CannotStart(f"The cores of this host: {fault}.") from fault
    if devices == NVIDIA:
        return Source(lambda: Hardware(*nvidia.detect(), own), nvidia.LOOK_S)
    path = Path(devices)
    return Source((lambda: _read(path, own)) if devices else (lambda: Hardware(cores=own)))


def _read(path: Path, cores_found: tuple[Core, ...]) -> Hardware:
    """Reads the file; what it says of cores counts, where it says any. Raises `HardwareFault`."""
    try:
        hardware, _ = read_one(str(path), HostHardware)
    except Faults as faults:
        raise HardwareFault(str(faults)) from faults
    return Hardware(tuple(hardware.host_devices()), hardware.paths(), tuple(hardware.host_cores()) or cores_found)
