"""Measures the use of the runs of a host, as the kernel counts it for their control groups and sessions.

A run in a control group is asked for by its group. All others are found by one pass over the processes of the machine:
a run has a session of its own. A run that ends between two samples is counted by what its end says.
"""

import asyncio
import os
from collections import deque
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import NamedTuple

from hostagent import kernel
from hostagent.groups import Group
from hostagent.levels import Levels
from hostagent.messages import HostUsage, RunUsage
from hostagent.run import Run
from hostagent.run_record import Process, RunKey, read_json
from hostagent.runs import Runs

SAMPLE_S = 5.0
"""So often it is measured."""
AVERAGE_SAMPLES = 12
"""The CPU that a host says is the mean over so many samples: a minute."""
IDLE_PART = 50
"""A run that uses less than this part of the CPU that it asked for is idle."""
TURN_RUNS = 50
"""So many runs are measured before others have their turn."""
TICK_MS = 1000 // os.sysconf("SC_CLK_TCK")
PAGE_KIB = os.sysconf("SC_PAGE_SIZE") // 1024


class Sample(NamedTuple):
    """The use of a run: CPU time in ms since it began, and its memory in KiB now."""

    cpu_ms: int
    memory_kib: int


@dataclass(slots=True)
class RunMeter:
    """The newest sample of a run. `cpu_milli`: thousandths of a core between the newest two samples."""

    sample: Sample
    at_ms: int
    busy_ms: int
    """When it last used some of the CPU that it asked for."""
    cpu_milli: int = 0

    def take(self, sample: Sample, now_ms: int, asked_milli: int) -> None:
        """Takes the next sample of a run that asked for so much CPU."""
        passed_ms = max(1, now_ms - self.at_ms)
        # a process that has ended takes its time along where nobody of its session waited for it
        cpu_ms = max(sample.cpu_ms, self.sample.cpu_ms)
        self.cpu_milli = (cpu_ms - self.sample.cpu_ms) * 1000 // passed_ms
        self.sample, self.at_ms = Sample(cpu_ms, sample.memory_kib), now_ms
        if self.cpu_milli * IDLE_PART >= asked_milli:
            self.busy_ms = now_ms


@dataclass
class UsageMeter:
    """Measures the runs of a host."""

    runs: Runs
    levels: Levels
    now_ms: Callable[[], int] = kernel.since_boot_ms
    meters: dict[RunKey, RunMeter] = field(default_factory=dict)
    """By run: all that live and were measured."""
    _totals: deque[tuple[int, int]] = field(default_factory=lambda: deque(maxlen=AVERAGE_SAMPLES + 1))
    """Times, and the CPU time in ms of all runs that there were until then."""

    async def sample(self) -> None:
        """Measures all live runs."""
        live = self.runs.alive()
        meters: dict[RunKey, RunMeter] = {}
        by_session: dict[int, Run] = {}
        for number, run in enumerate(live):
            if (group := self.levels.group_of(run)) is not None:
                self._take(meters, run, _of_group(group))
            elif session := session_of(run):
                by_session[session] = run
            if number % TURN_RUNS == TURN_RUNS - 1:
                await asyncio.sleep(0)
        for session, sample in of_sessions(by_session).items():
            self._take(meters, by_session[session], sample)
        self.meters = meters
        ended_ms = self.runs.ended_cpu_ms
        self._totals.append((self.now_ms(), ended_ms + sum(meter.sample.cpu_ms for meter in meters.values())))

    def cpu_milli(self) -> int:
        """Thousandths of a core that all runs use, over the last minute."""
        if len(self._totals) < 2:
            return 0
        (first_ms, first), (last_ms, last) = self._totals[0], self._totals[-1]
        return max(0, last - first) * 1000 // max(1, last_ms - first_ms)

    def memory_kib(self) -> int:
        """Memory that all runs use now."""
        return sum(meter.sample.memory_kib for meter in self.meters.values())

    def usage(self, job_id: str) -> HostUsage:
        """The use of the runs of a job, or of all, as it was measured last."""
        now_ms = self.now_ms()
        runs = [
            self._run_usage(run, meter, now_ms)
            for key, meter in self.meters.items()
            if job_id in ("", key.job_id) and (run := self.runs.get(key)) is not None and run.alive
        ]
        age_ms = now_ms - self._totals[-1][0] if self._totals else 0
        return HostUsage(age_ms, self.cpu_milli(), self.memory_kib(), runs)

    def _run_usage(self, run: Run, meter: RunMeter, now_ms: int) -> RunUsage:
        usage = RunUsage(
            *run.key,
            cpu_milli=meter.cpu_milli,
            cpu_ms=meter.sample.cpu_ms,
            memory_kib=meter.sample.memory_kib,
            peak_kib=run.peak_kib,
            asked_cpu_milli=run.standing.cpu if run.standing is not None else 0,
            asked_memory_kib=run.standing.memory >> 10 if run.standing is not None else 0,
            idle_s=(now_ms - meter.busy_ms) // 1000,
        )
        if (group := self.levels.group_of(run)) is not None:
            used = group.usage()
            usage.peak_kib, usage.throttled_ms = used.peak_memory_kib, used.throttled_ms
            usage.read_kib, usage.written_kib = used.read_kib, used.written_kib
            usage.forks_refused = used.forks_refused
        return usage

    def _take(self, meters: dict[RunKey, RunMeter], run: Run, sample: Sample) -> None:
        meter, now_ms = self.meters.get(run.key), self.now_ms()
        if meter is None:
            meter = RunMeter(sample, now_ms, now_ms)
        else:
            meter.take(sample, now_ms, run.standing.cpu if run.standing is not None else 0)
        run.peak_kib = max(run.peak_kib, sample.memory_kib)
        meters[run.key] = meter


def of_sessions(numbers: Iterable[int]) -> dict[int, Sample]:
    """The use of all processes of some sessions, and of their children that have ended; shared memory counts for each
    process. A session without a process is left out.
    """
    sums = dict.fromkeys(numbers, (0, 0))
    seen: set[int] = set()
    for name in os.listdir("/proc") if sums else ():
        fields = kernel.status_of(int(name)) if name.isdigit() else None
        if fields is None or (session := int(fields[3])) not in sums:
            continue
        ticks, pages = sums[session]
        sums[session] = ticks + sum(map(int, fields[11:15])), pages + int(fields[21])
        seen.add(session)
    return {each: Sample(sums[each][0] * TICK_MS, sums[each][1] * PAGE_KIB) for each in seen}


def _of_group(group: Group) -> Sample:
    return Sample(*group.load())


def session_of(run: Run) -> int:
    """The session of a run, 0: it has no process yet."""
    if not run.session:
        process = read_json(run.folder / "process.json", Process)
        run.session = process.pid if process is not None else 0
    return run.session
