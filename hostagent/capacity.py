"""The capacity of this host, as the system and the control group of the agent say."""

import os
import platform
import re
import shutil
from contextlib import suppress
from pathlib import Path

from events.abilities import OUT_OF_MEMORY, USAGE, VALUE, abilities
from events.resources import Amounts, name_fault
from hostagent import oom

CGROUP = Path("/sys/fs/cgroup")
GPUS = Path("/proc/driver/nvidia/gpus")
MIB = 1024 * 1024


def detect(folder: Path, cgroup: Path = CGROUP, gpus: Path = GPUS) -> Amounts:
    """CPUs, memory, the free disk under `folder`, and NVIDIA's GPUs by model: `gpu/a100-sxm4-40gb`. They aren't counted
    in `gpu` too, which only settings offer.
    """
    cpu_milli = len(os.sched_getaffinity(0)) * 1000
    memory_mib = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") // MIB
    with suppress(OSError, ValueError):  # "max" and a missing file say that there is no bound
        quota, period = (cgroup / "cpu.max").read_text().split()
        cpu_milli = min(cpu_milli, int(quota) * 1000 // int(period))
    with suppress(OSError, ValueError):
        memory_mib = min(memory_mib, int((cgroup / "memory.max").read_text()) // MIB)
    disk_mib = shutil.disk_usage(folder).free // MIB
    return {"cpu": cpu_milli, "memory": memory_mib, "disk": disk_mib, **_models(gpus)}


def _models(gpus: Path) -> Amounts:
    """The GPUs of each model, in thousandths, as the driver lists them."""
    amounts: Amounts = {}
    for each in sorted(gpus.glob("*/information")):
        model = re.search(r"^Model:\s*(.+)$", each.read_text(), re.MULTILINE)
        name = f"gpu/{model_name(model[1])}" if model else ""
        if model and not name_fault(name):
            amounts[name] = amounts.get(name, 0) + 1000
    return amounts


def model_name(name: str) -> str:
    """The model of a GPU by the name that its driver gives it: NVIDIA A100-SXM4-40GB is a100-sxm4-40gb."""
    return re.sub(r"[^a-z0-9._-]+", "-", name.removeprefix("NVIDIA").lower()).strip("-._")


def attributes() -> dict[str, str]:
    """The attributes of this host for constraints; they include the abilities of its agent."""
    own = {"hostname": platform.node(), "os": platform.system().lower(), "arch": platform.machine()}
    return own | abilities() | {USAGE: VALUE} | ({OUT_OF_MEMORY: VALUE} if oom.counted() else {})
