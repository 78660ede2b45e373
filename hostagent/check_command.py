"""Programs of health checks: run with a time-out, heard for their last words, and ended with what they started."""

import asyncio
import os
import resource
import signal
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import Any

from hostagent import kernel, open_files

OUTPUT_CHARS = 300
"""So much of the output of a command that failed is reported: its end."""
REST_S = 0.2
"""So long after the end of a program its last output is waited for."""


async def ended(
    words: Sequence[str],
    cwd: str,
    env: Mapping[str, str],
    timeout_s: float,
    identity: Mapping[str, Any],
    whole: bool = False,
) -> tuple[int, str]:
    """Runs a program and returns its exit code and the end of its output. It is over when the program is: what it
    leaves in its process group is killed, and what has left that is not waited for. `whole`: where it takes too long,
    all processes below it are killed. Raises `TimeoutError`, and `OSError` where it can't be started.
    """
    out, out_end = os.pipe()
    with open(out, "rb", buffering=0) as pipe:
        try:
            process = await asyncio.create_subprocess_exec(
                *words,
                cwd=cwd,
                env=env,
                stdin=asyncio.subprocess.DEVNULL,
                stdout=out_end,
                stderr=out_end,
                start_new_session=True,
                **identity,
            )
        finally:
            os.close(out_end)
        with suppress(OSError, ValueError):  # the agent's own limit is higher
            resource.prlimit(process.pid, resource.RLIMIT_NOFILE, (open_files.given(),) * 2)
        tail = _Tail()
        transport, _ = await asyncio.get_running_loop().connect_read_pipe(lambda: tail, pipe)
        try:
            async with asyncio.timeout(timeout_s):
                code = await process.wait()
        finally:
            below = kernel.descendants(process.pid) if whole and process.returncode is None else ()
            for pid in list(below):
                with suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
            with suppress(ProcessLookupError, PermissionError):
                os.killpg(process.pid, signal.SIGKILL)
            await process.wait()
            with suppress(TimeoutError):
                async with asyncio.timeout(REST_S):
                    await tail.over.wait()
            transport.close()
    return code, tail.text()


class _Tail(asyncio.Protocol):
    """The end of what a program writes."""

    def __init__(self) -> None:
        self.over = asyncio.Event()
        """Nobody writes any more."""
        self._data = b""

    def data_received(self, data: bytes) -> None:
        self._data = (self._data + data)[-4 * OUTPUT_CHARS :]

    def connection_lost(self, exc: Exception | None) -> None:
        self.over.set()

    def text(self) -> str:
        """It, for a report."""
        return self._data.decode(errors="replace").strip()[-OUTPUT_CHARS:]
