"""Checks of the host itself: those that every agent makes, and the health commands in its settings (decision 041).

A result is that of several looks in a row, so that one that fails once says nothing.
"""

import asyncio
import errno
import os
import secrets
import signal
from collections.abc import Awaitable, Callable, Collection, Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from email.utils import parsedate_to_datetime
from functools import partial
from pathlib import Path
from time import time

from events.codes import RunReport
from hostagent import kernel, pressure, run_as
from hostagent.check_command import ended
from hostagent.conditions import Conditions, state_of
from hostagent.messages import ConditionState, RunState

DISK_FULL, MEMORY_PRESSURE, CLOCK_SKEW, ORDERS_FAILING = "disk-full", "memory-pressure", "clock-skew", "orders-failing"
OWN = DISK_FULL, MEMORY_PRESSURE, CLOCK_SKEW, ORDERS_FAILING
"""The checks that every agent makes."""
LOOK_S = 10.0
"""Between two looks of these."""
LOOKS = 3
"""So many in a row make a result of them."""
FREE_PERCENT = 2
"""A disk is full where less of its blocks or its files is free."""
SKEW_S = 30.0
"""So much the clock may differ from that of the gateway."""
REFUSED_MOST = 5
"""So many runs in a row that could not be started make a result."""
REFUSED_S = 600.0
"""It is over where none was refused for so long: a host that is avoided is asked to start none."""
MARK = "PACELINE_HEALTH_CHECK"
"""The variable by which what a health command leaves is known."""

Found = tuple[str, str]
"""The code of what a look found, and one line of evidence; both empty: nothing."""
WELL: Found = "", ""


@dataclass(frozen=True)
class HealthCommand:
    """A health command of the settings: it is bad after `failures` in a row, and over after `successes`."""

    name: str
    command: tuple[str, ...]
    interval_s: float = 60.0
    timeout_s: float = 10.0
    failures: int = 3
    successes: int = 1


class HostChecks:
    """Makes all checks of a host until it is cancelled. `folder`: that of the agent."""

    def __init__(self, folder: Path, commands: Sequence[HealthCommand], changed: Callable[[], None]) -> None:
        self._folder = folder
        self._commands = commands
        names = [*OWN, *(each.name for each in commands)]
        self.conditions = Conditions(folder / "conditions.json", names, changed)
        self._skew_s: float | None = None
        self._refused: list[str] = []
        """Why runs in a row could not be started, until one was."""
        self._refused_ms = 0

    def answered(self, date: str, began_s: float) -> None:
        """A gateway has answered a request that was sent at `began_s`; `date`: the time that it gave, in its header."""
        with suppress(ValueError, TypeError):
            theirs, now = parsedate_to_datetime(date).timestamp(), time()
            # it is a whole second, and was written at some time since the request
            self._skew_s = min(0.0, now - theirs) if now < theirs else max(0.0, began_s - theirs - 1)

    def told(self, runs: Iterable[RunState], states: Collection[ConditionState]) -> None:
        """The cell knows what became of some runs, and these results of checks."""
        for run in runs:
            if run.state == RunReport.NOT_STARTED:
                self.refused(run.reason)
            elif run.state in (RunReport.STARTED, RunReport.HEALTHY):
                self._refused.clear()
        self.conditions.told(states)

    def refused(self, reason: str) -> None:
        """An order to start a run could not be carried out."""
        self._refused = [*self._refused, reason][-REFUSED_MOST:]
        self._refused_ms = kernel.since_boot_ms()

    async def follow(self) -> None:
        """Makes the checks."""
        own: dict[str, Callable[[], Found]] = {
            DISK_FULL: partial(disk_fault, self._folder),
            MEMORY_PRESSURE: memory_fault,
            CLOCK_SKEW: self.skew,
            ORDERS_FAILING: self.failing,
        }
        async with asyncio.TaskGroup() as tasks:
            for name, look in own.items():
                tasks.create_task(self._check(name, partial(asyncio.to_thread, look), LOOK_S, LOOKS, LOOKS))
            for each in self._commands:
                look_s = each.interval_s
                tasks.create_task(
                    self._check(each.name, partial(command_fault, each), look_s, each.failures, each.successes)
                )

    async def _check(
        self, name: str, look: Callable[[], Awaitable[Found]], every_s: float, failures: int, successes: int
    ) -> None:
        failed = passed = 0
        while True:
            code, text = await look()
            failed, passed = (failed + 1, 0) if code else (0, passed + 1)
            if failed >= failures or passed >= successes:
                self.conditions.say(state_of(name, code, text))
            await asyncio.sleep(every_s)

    def skew(self) -> Found:
        """Whether the clock of the host differs from that of the gateway."""
        skew_s = self._skew_s or 0.0
        way = "ahead of" if skew_s > 0 else "behind"
        return (
            ("SKEWED", f"The clock is {abs(skew_s):.0f} s {way} that of the gateway.") if abs(skew_s) > SKEW_S else WELL
        )

    def failing(self) -> Found:
        """Whether orders to start runs fail."""
        if kernel.since_boot_ms() - self._refused_ms > REFUSED_S * 1000:
            self._refused.clear()
        if len(self._refused) < REFUSED_MOST:
            return WELL
        return "NOT_STARTED", f"{REFUSED_MOST} runs in a row could not be started, the last one: {self._refused[-1]}"


def disk_fault(folder: Path) -> Found:
    """Whether the disk of a folder takes nothing more."""
    path = folder / "disk.check"
    try:
        path.write_bytes(b"x" * 4096)
        path.unlink()
        free = os.statvfs(folder)
    except OSError as error:
        code = {errno.EROFS: "READ_ONLY", errno.ENOSPC: "FULL", errno.EDQUOT: "FULL"}.get(error.errno or 0, "FAILING")
        return code, f"{folder} can't be written: {error.strerror or error}"
    for kind, free_now, total in (("space", free.f_bavail, free.f_blocks), ("files", free.f_favail, free.f_files)):
        if total and free_now * 100 < total * FREE_PERCENT:
            return "FULL", f"{100 * free_now / total:.1f} % of the {kind} of the disk of {folder} are free"
    return WELL


def memory_fault() -> Found:
    """Whether memory is short."""
    why = pressure.shortage()
    return ("SHORT", why) if why else WELL


async def command_fault(check: HealthCommand) -> Found:
    """Runs a health command as the user of the agent. Whatever it has started ends with it."""
    mark = secrets.token_hex(8)
    env = run_as.environment(None) | {MARK: mark}
    try:
        code, text = await ended(check.command, "/", env, check.timeout_s, {}, whole=True)
    except TimeoutError:
        return "TIMEOUT", f"{check.command[0]} gave no answer within {check.timeout_s:g} s"
    except (OSError, ValueError) as error:
        return "NOT_STARTED", f"{check.command[0]}: {getattr(error, 'strerror', None) or error}"
    finally:
        await asyncio.shield(asyncio.to_thread(_end_marked, f"{MARK}={mark}".encode()))
    return (f"EXIT_{code}" if code > 0 else f"SIGNAL_{-code}", text or "It wrote nothing.") if code else WELL


def _end_marked(mark: bytes) -> None:
    """Kills what a command has left: also what has left its group, and has another parent."""
    for pid in _marked(mark):
        with suppress(OSError):
            os.kill(pid, signal.SIGKILL)


def _marked(mark: bytes) -> Iterator[int]:
    for name in os.listdir("/proc"):
        with suppress(OSError):
            if name.isdigit():
                with open(f"/proc/{name}/environ", "rb") as file:
                    if mark in file.read().split(b"\0"):
                        yield int(name)


def names_fault(names: Collection[str]) -> str:
    """Why health commands can't be called so; empty: they can."""
    reserved = [name for name in names if name in (*OWN, "suspected", "default")]
    return f"{reserved[0]} is the name of a check that every host has" if reserved else ""
