"""Memory that is short on a host: runs end in an order that the cell knows, before the kernel chooses any.

First revocable runs, the one furthest above what it asked for; then preemptible ones that use more than they asked for,
those of lowest priority, the newest first. Who isn't preemptible, or stays within what he asked for, isn't ended.
"""

import asyncio
from collections.abc import Callable, Iterable
from contextlib import suppress
from typing import NamedTuple

from hostagent.run_record import RunKey

LOOK_S = 2.0
"""So often it is looked, and one run ends at most."""
STALLED_PERCENT = 10.0
"""Memory is short where all tasks of the machine stood still for want of it in so much of the last ten seconds, or"""
LEAST_KIB, LEAST_PERCENT = 256 * 1024, 2
"""where less is available than the larger of both."""
PRESSURE, MEMORY = "/proc/pressure/memory", "/proc/meminfo"


class Candidate(NamedTuple):
    """A run that may be ended. `memory_kib`: what it uses; `asked_kib`: what it asked for."""

    key: RunKey
    revocable: bool
    preemptible: bool
    priority: int
    memory_kib: int
    asked_kib: int
    started_ms: int


def is_short(pressure: str, memory: str) -> str:
    """Why memory is short, by the files of the kernel; empty: it isn't."""
    fields = {line.partition(":")[0]: line.split() for line in memory.splitlines() if ":" in line}
    total, available = (int(fields[name][1]) if name in fields else 0 for name in ("MemTotal", "MemAvailable"))
    if total and available < max(LEAST_KIB, total * LEAST_PERCENT // 100):
        return f"{available // 1024} MiB of memory were left on its host"
    for line in pressure.splitlines():
        kind, *words = line.split()
        stalled = next((word[len("avg10=") :] for word in words if word.startswith("avg10=")), "0")
        if kind == "full" and float(stalled) >= STALLED_PERCENT:
            return f"all processes of its host stood still for want of memory in {stalled} % of the time"
    return ""


def shortage() -> str:
    """Why memory is short on this machine; empty: it isn't."""
    return is_short(_read(PRESSURE), _read(MEMORY))


def first_to_end(candidates: Iterable[Candidate]) -> RunKey | None:
    """The run that ends next; None: none may."""
    runs = list(candidates)
    revocable = [run for run in runs if run.revocable]
    if revocable:
        return max(revocable, key=lambda run: (run.memory_kib - run.asked_kib, run.started_ms, run.key)).key
    beyond = [run for run in runs if run.preemptible and 0 < run.asked_kib < run.memory_kib]
    return min(beyond, key=lambda run: (run.priority, -run.started_ms, run.key)).key if beyond else None


async def follow(candidates: Callable[[], Iterable[Candidate]], revoke: Callable[[RunKey, str], None]) -> None:
    """Ends runs while memory is short, until it is cancelled."""
    while True:
        await asyncio.sleep(LOOK_S)
        why = shortage()
        if why and (key := first_to_end(candidates())) is not None:
            with suppress(OSError):  # on a full disk it is tried again
                revoke(key, why)


def _read(path: str) -> str:
    try:
        with open(path, encoding="ascii") as file:
            return file.read()
    except OSError:  # a kernel without it
        return ""
