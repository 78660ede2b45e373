"""What this host has: asked of the system, and of the control group that the agent runs in."""

import os
import platform
import shutil
from contextlib import suppress
from pathlib import Path

from events.resources import Amounts

CGROUP = Path("/sys/fs/cgroup")
MIB = 1024 * 1024


def detect(folder: Path, cgroup: Path = CGROUP) -> Amounts:
    """CPUs, memory and the free disk under `folder`; GPUs are said by settings only."""
    cpu_milli = len(os.sched_getaffinity(0)) * 1000
    memory_mib = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") // MIB
    with suppress(OSError, ValueError):  # "max" and a missing file say that there is no bound
        quota, period = (cgroup / "cpu.max").read_text().split()
        cpu_milli = min(cpu_milli, int(quota) * 1000 // int(period))
    with suppress(OSError, ValueError):
        memory_mib = min(memory_mib, int((cgroup / "memory.max").read_text()) // MIB)
    return {"cpu": cpu_milli, "memory": memory_mib, "disk": shutil.disk_usage(folder).free // MIB}


def attributes() -> dict[str, str]:
    """What constraints may ask of any host."""
    return {"hostname": platform.node(), "os": platform.system().lower(), "arch": platform.machine()}
