"""One run as an agent knows it."""

import signal
import time
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from events.bounds import USE_MAX
from events.codes import LIVE_REPORTS, RunReport
from hostagent.last_words import last_words
from hostagent.messages import REASON_CHARS_MAX, RunState
from hostagent.oom import OutOfMemory
from hostagent.run_record import Check, Ending, RunKey, Standing


class Measured(NamedTuple):
    """A run to be measured. `limit`: bytes that its task asked for, 0: none."""

    key: RunKey
    folders: tuple[str, ...]
    limit: int


NO_TRACES = (-1, -1, False)


@dataclass(slots=True)
class Run:
    """A run on this host. `state` 0: not started yet. `reported`: the last state that the cell acknowledged."""

    key: RunKey
    folder: Path
    state: int = 0
    exit_code: int = 0
    reason: str = ""
    reported: int = 0
    stopping: bool = False
    ports: tuple[int, ...] = ()
    check: Check | None = None
    signal_number: int = 0
    disk: int = 0
    """Bytes of disk that its task asked for."""
    standing: Standing | None = None
    threads: tuple[int, ...] = ()
    """Those of its own cores."""
    cpus: str = ""
    """The threads that its group was kept on last, where it has no core of its own."""
    exceeded: str = ""
    """The reason why its host has ended it."""
    out_of_memory: bool = False
    cpu_ms: int = 0
    memory_kib: int = 0
    output_lost: int = 0
    throttled_ms: int = 0
    read_kib: int = 0
    written_kib: int = 0
    peak_kib: int = 0
    """Most memory that was measured while it lived."""
    session: int = 0
    """The session of its processes, once that was asked for."""
    grouped: bool = False
    """It has a control group."""
    has_shim: bool = False
    """An agent of 0.3 has started it: nobody says what becomes of it, so its folder is looked at."""
    forgotten_ns: int = 0
    killed_s: float | None = None
    """When the agent was told to kill it, while that is to be looked after: monotonic seconds."""
    traces: tuple[int, int, bool] = NO_TRACES
    """Bytes of its record and of its working folder, and whether it failed: taken once it has ended and is forgotten.
    """

    @property
    def name(self) -> str:
        """Its name to keepers."""
        return f"{self.key.job_id}/{self.key.instance}/{self.key.run}"

    @property
    def group(self) -> str:
        """The name of its control group."""
        return self.name.replace("/", ".")

    @property
    def forgotten(self) -> bool:
        """Whether the cell needs its record no more."""
        return self.forgotten_ns > 0

    @property
    def alive(self) -> bool:
        """Whether it has not ended."""
        return not self.state or self.state in LIVE_REPORTS

    @property
    def failed(self) -> bool:
        """Whether it has ended as nobody asked it to."""
        if self.state == RunReport.EXITED:
            return self.exit_code != 0
        return not self.alive and self.state not in (RunReport.STOPPED, RunReport.REVOKED)

    def report(self) -> RunState:
        """The state that is reported to the cell; a run on its way to start counts as started."""
        # A longer reason, or a larger number, would keep the host out of its cell.
        reason = self.reason[:REASON_CHARS_MAX]
        return RunState(
            *self.key,
            state=self.state or int(RunReport.STARTED),
            exit_code=self.exit_code,
            reason=reason,
            signal=self.signal_number,
            out_of_memory=self.out_of_memory,
            cpu_ms=min(self.cpu_ms, USE_MAX),
            memory_kib=min(self.memory_kib, USE_MAX),
            throttled_ms=min(self.throttled_ms, USE_MAX),
            read_kib=min(self.read_kib, USE_MAX),
            written_kib=min(self.written_kib, USE_MAX),
        )

    def learn_end(self, ending: Ending, out_of_memory: OutOfMemory) -> None:
        """Its keeper has written how it ended."""
        self.state, self.exit_code, self.reason = ending.state, ending.exit_code, ending.reason
        self.output_lost = ending.output_lost
        if ending.state == RunReport.REVOKED:
            self.reason = self.exceeded or "its host needed for others what it had lent"
        self.signal_number, self.cpu_ms = ending.signal, ending.cpu_ms
        self.memory_kib = ending.memory_kib if self.grouped else max(ending.memory_kib, self.peak_kib)
        self.throttled_ms, self.read_kib, self.written_kib = ending.throttled_ms, ending.read_kib, ending.written_kib
        by_init = self.exit_code == 128 + signal.SIGKILL and (bool(ending.oom_kills) or bool(self.exceeded))
        if (self.signal_number == signal.SIGKILL or by_init) and self.state == RunReport.EXITED:
            if self.exceeded:
                self.reason = self.exceeded
                return
            if ending.oom_kills is not None:
                self.out_of_memory = ending.oom_kills > 0
                if self.out_of_memory:
                    self.reason = (
                        f"killed by the kernel: out of memory, it used all of its {self.memory_kib // 1024} MiB"
                    )
                return
            with suppress(OSError):
                age_s = time.time() - (self.folder / "exit.json").stat().st_mtime
                self.out_of_memory = out_of_memory.killed(age_s)
            if self.out_of_memory:
                self.reason = "killed by the kernel: out of memory"
        elif self.state == RunReport.EXITED and not self.reason:
            self.reason = limits_met(ending, self.memory_kib)
            if self.exit_code and not self.reason:
                self.reason = last_words(self.folder)


def limits_met(ending: Ending, memory_kib: int) -> str:
    """The limits that kept a run from going well, though its first process ended by itself; empty: none was met."""
    if ending.oom_kills:
        killed = "a process" if ending.oom_kills == 1 else f"{ending.oom_kills} processes"
        return (
            f"the kernel killed {killed} of it, not its first: out of memory, it used all of its {memory_kib >> 10} MiB"
        )
    if ending.forks_refused and ending.exit_code:
        times = "once" if ending.forks_refused == 1 else f"{ending.forks_refused} times"
        return f"it had as many processes as it may (processes of its job): {times} no more could be started"
    return ""
