"""Health checks of runs: asked by the agent, so that a keeper waits for nothing (decision 040).

The result of a check is kept in the folder of its run, so a restarted agent continues from there. A run is
checked from its start until it is healthy or not any more, is told to stop, or ends.
"""

import asyncio
import time
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Self

import httpx2

from events.codes import RunReport
from hostagent.check_command import ended
from hostagent.container_exec import ENVIRONMENT, entering
from hostagent.run import Run
from hostagent.run_record import Check, RunKey
from hostagent.runs import Runs

COMMANDS_MAX = 16
"""Programs of checks that run at the same time; others wait, and their time-out begins when they start."""


class HealthChecks:
    """Checks all runs that have a health check. `changed` is called when a run is healthy, or is so no more."""

    def __init__(self, runs: Runs, changed: Callable[[], None]) -> None:
        self._runs = runs
        self._changed = changed
        self._tasks: dict[RunKey, asyncio.Task[None]] = {}
        self._commands = asyncio.Semaphore(COMMANDS_MAX)
        limits = httpx2.Limits(max_keepalive_connections=0)
        self._client = httpx2.AsyncClient(trust_env=False, verify=False, limits=limits, timeout=None)

    def look(self) -> None:
        """Begins to check the runs that have started."""
        for run in self._runs.alive():
            if run.check is not None and run.key not in self._tasks and _checked(run):
                task = self._tasks[run.key] = asyncio.create_task(self._follow(run, run.check))
                task.add_done_callback(partial(self._done, run.key))

    def _done(self, key: RunKey, _: asyncio.Task[None]) -> None:
        del self._tasks[key]

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        tasks = list(self._tasks.values())
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        await self._client.aclose()

    async def _follow(self, run: Run, check: Check) -> None:
        """Checks one run again and again."""
        failed = passed = 0
        health = check.health
        await asyncio.sleep(_delay_s(run, health.delay_ms))
        while _checked(run):
            fault = await self._fault(check)
            failed, passed = (failed + 1, 0) if fault else (0, passed + 1)
            if not _checked(run):  # a process that is stopped answers no more: that says nothing about its health
                return
            if failed >= health.failures:
                self._runs.note_health(run, RunReport.UNHEALTHY, _reason(failed, fault))
                self._changed()
            elif passed >= health.successes and run.state == RunReport.STARTED:
                self._runs.note_health(run, RunReport.HEALTHY, "")
                self._changed()
            await asyncio.sleep(health.interval_ms / 1000)

    async def _fault(self, check: Check) -> str:
        """Why a check fails; empty: it passes."""
        health = check.health
        try:
            if health.kind == "command":
                async with self._commands:
                    return await _command_fault(check, health.timeout_ms / 1000)
            async with asyncio.timeout(health.timeout_ms / 1000):
                if health.kind == "http":
                    return await self._http_fault(f"http://127.0.0.1:{check.port}{health.path}")
                _, writer = await asyncio.open_connection("127.0.0.1", check.port)
                writer.close()
                return ""
        except TimeoutError:
            return f"no answer within {health.timeout_ms} ms"
        except (OSError, ValueError, httpx2.HTTPError) as error:
            return str(error) or type(error).__name__

    async def _http_fault(self, url: str) -> str:
        async with self._client.stream("GET", url) as response:
            passed = 200 <= response.status_code < 400
            return "" if passed else f"GET {url} was answered with {response.status_code}"


def _checked(run: Run) -> bool:
    return run.state in (RunReport.STARTED, RunReport.HEALTHY) and not run.stopping


def _delay_s(run: Run, delay_ms: int) -> float:
    """The rest of the delay, in seconds, before the first check of a run."""
    if run.state == RunReport.HEALTHY:
        return 0.0
    with suppress(OSError):
        passed = time.time() - (run.folder / "started").stat().st_mtime
        return min(delay_ms / 1000, max(0.0, delay_ms / 1000 - passed))
    return delay_ms / 1000


def _reason(failed: int, fault: str) -> str:
    times = "once" if failed == 1 else f"{failed} times in a row"
    return f"the health check failed {times}: {fault}"


async def _command_fault(check: Check, timeout_s: float) -> str:
    """Runs the program of a check as its task runs. In a container, what is below it is killed where it takes too
    long.
    """
    words, cwd, env = list(check.health.command), check.work, check.env
    if check.container:
        words, cwd, env = entering(Path(check.container), "check.json", words), "/", ENVIRONMENT
    code, text = await ended(words, cwd, env, timeout_s, check.identity(), bool(check.container))
    return f"{check.health.command[0]} exited with {code}: {text}" if code else ""
