"""The whole cores of this machine that its runs may have, as Linux says."""

import os
from collections.abc import Iterable
from pathlib import Path

from events.host_devices import Core
from hostagent.hardware import HardwareFault

SYSTEM = Path("/sys/devices/system")


def detect(system: Path = SYSTEM, allowed: set[int] | None = None) -> list[Core]:
    """The cores whose threads are all online and `allowed` (None: to this process), by NUMA node, socket and number.
    Raises `HardwareFault` where Linux doesn't say which threads make a core.
    """
    threads = {int(path.name[3:]): path / "topology" for path in (system / "cpu").glob("cpu[0-9]*")}
    nodes = {
        thread: int(path.name[4:])
        for path in (system / "node").glob("node[0-9]*")
        for thread in numbers(_read(path / "cpulist"))
    }
    allowed = os.sched_getaffinity(0) if allowed is None else allowed
    cores = {
        (nodes.get(thread, 0), int(_read(topology / "physical_package_id") or 0), siblings)
        for thread, topology in threads.items()
        if (siblings := tuple(numbers(_read(topology / "thread_siblings_list")))) and allowed.issuperset(siblings)
    }
    if not cores:
        raise HardwareFault(f"{system}/cpu doesn't say which threads make a core")
    return [Core(node, siblings) for node, _, siblings in sorted(cores)]


def numbers(text: str) -> list[int]:
    """The numbers of a list of Linux, such as 0-3,8."""
    out: list[int] = []
    for part in filter(None, text.strip().split(",")):
        first, _, last = part.partition("-")
        out += range(int(first), int(last or first) + 1)
    return out


def listed(threads: Iterable[int]) -> str:
    """The list of Linux of some numbers."""
    ranges: list[list[int]] = []
    for thread in sorted(threads):
        if ranges and thread == ranges[-1][1] + 1:
            ranges[-1][1] = thread
        else:
            ranges.append([thread, thread])
    return ",".join(str(first) if first == last else f"{first}-{last}" for first, last in ranges)


def _read(path: Path) -> str:
    """A file; empty where it isn't there, as of a thread that is offline."""
    try:
        return path.read_text().strip()
    except OSError:
        return ""
