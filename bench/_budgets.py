"""Verdicts on the disruptions of 1,000 hosts that drain at once, and one changed instance, beside plain loops.

The sla machine alone on one core, without log and driver; a process of its own, so that its memory is its own.
"""

import gc
import json
import resource
import time
from collections.abc import Iterable, Iterator
from statistics import median

import numpy as np

from bench import sized
from events.codes import RunCause
from events.columns import spread
from events.records.base import Event
from events.records.lifecycle import DisruptionAsked, JobAccepted, RunsAvailable, RunsEnded, RunsOrdered
from events.records.parts import SlaPolicy, TaskShape
from events.sla import limit
from processors.machine import Decided, PeerRound
from processors.runtime.deciding import Limits
from processors.sla.availability import LOOKED_AT, Counts, tally
from processors.sla.machine import Sla
from processors.state.table import State

JOBS, INSTANCES, HOSTS, DRAINING = sized(10_000, 100), 100, sized(10_000, 100), sized(1_000, 10)
CHANGES = sized(2_000, 50)
START_MS = 1_800_000_000_000
POLICIES = (
    (2, None),
    (None, SlaPolicy(max_unavailable_percent=3)),
    (None, SlaPolicy(min_available=95)),
    (None, SlaPolicy(min_available_percent=97)),
    (1, None),
)
"""The SLAs of jobs, by turns."""


class Bench:
    """The machine, fed with rounds of lifecycle."""

    def __init__(self) -> None:
        self.machine = Sla()
        self.state = State(self.machine.tables, self.machine.peers)
        self.rounds = 0
        self.now = START_MS

    def hear(self, *events: Event) -> None:
        """A round of lifecycle."""
        self.rounds += 1
        self.machine.apply(PeerRound("lifecycle", self.rounds, self.now, events))

    def decide(self) -> int:
        """Decides until nothing is left, and applies what is decided; returns the number of verdicts."""
        verdicts = 0
        while decisions := self.machine.decide(self.now, True, Limits().budget):
            for index, decision in enumerate(decisions):
                self.machine.apply(Decided(self.now, decision, self.rounds, index))
                verdicts += len(decision.job) // 4  # type: ignore[attr-defined]
        return verdicts

    def fill(self) -> None:
        """All jobs run."""
        for job in range(JOBS):
            most, policy = POLICIES[job % len(POLICIES)]
            self.hear(
                JobAccepted(
                    job_id=f"j{job}",
                    jobs_offset=job,
                    pool="/p",
                    kind="stateless",
                    instances=INSTANCES,
                    shapes=(TaskShape({"cpu": 1}),),
                    max_unavailable=most,
                    sla=policy,
                )
            )
        names = tuple(f"j{job}" for job in range(JOBS))
        hosts = tuple(f"h{host}" for host in range(HOSTS))
        for first in range(0, JOBS, 100):
            some = names[first : first + 100]
            job, instance = columns(len(some))
            runs = {"job_ids": some, "job": job, "instance": instance, "run": np.ones(len(job), dtype=np.int64)}
            host = host_of(job + first, instance)
            self.hear(RunsOrdered.pack(**runs, host_ids=hosts, host_session=[1] * HOSTS, host=host))
            self.hear(RunsAvailable.pack(**runs))


def columns(jobs: int) -> tuple[np.ndarray, np.ndarray]:
    """The columns that name all instances of so many jobs."""
    job = np.repeat(np.arange(jobs), INSTANCES)
    return job, spread(np.zeros(jobs, dtype=np.int64), np.full(jobs, INSTANCES))


def host_of(job: np.ndarray, instance: np.ndarray) -> np.ndarray:
    """The hosts of instances, spread over all."""
    return (job * 7 + instance * (HOSTS // INSTANCES)) % HOSTS


def asks() -> Iterator[DisruptionAsked]:
    """Asks about all that runs on the hosts that drain, in records of 10,000."""
    job, instance = columns(JOBS)
    on = host_of(job, instance) < DRAINING
    job, instance = job[on], instance[on]
    for first in range(0, len(job), 10_000):
        names, index = np.unique(job[first : first + 10_000], return_inverse=True)
        count = len(index)
        yield DisruptionAsked.pack(
            job_ids=tuple(f"j{each}" for each in names.tolist()),
            job=index,
            instance=instance[first : first + 10_000],
            run=np.ones(count, dtype=np.int64),
            since=np.full(count, START_MS // 1000),
            why=np.full(count, int(RunCause.DRAIN)),
            unit=np.zeros(count, dtype=np.int64),
        )


def naive(bench: Bench, job_ids: Iterable[str]) -> int:
    """The same verdicts by a plain loop over the instances of each job; returns how many may go."""
    machine, may = bench.machine, 0
    for job_id in job_ids:
        row, counts = machine.jobs[job_id], Counts()
        waiting = []
        rows = machine.arena.rows(np.arange(row.base, row.base + row.instances), *LOOKED_AT, "asked_at")
        for instance, (*each, asked_at) in enumerate(rows):
            counted = tally(*each)
            counts.add(counted, 1)
            if counted.waiting:
                waiting.append((asked_at, instance, counted.missing))
        slack = limit(row.max_unavailable, row.policy, counts.expected) - counts.missing + counts.extra
        for _, _, missing in sorted(waiting):
            if missing or slack > 0:
                may += 1
                slack -= not missing
    return may


def change_us(bench: Bench) -> float:
    """One instance of a job that waits ends, is available again, and what may go goes: the time of one such change."""
    times = []
    for number in range(CHANGES):
        run = {"job_ids": (f"j{number % JOBS}",), "job": [0], "instance": [0], "run": [number // JOBS + 1]}
        ended = RunsEnded.pack(**run, outcome=[1], exit_code=[1], kept=[0])
        ordered = RunsAvailable.pack(**run | {"run": [number // JOBS + 2]})
        for event in (ended, ordered):
            begun = time.process_time_ns()
            bench.hear(event)
            bench.decide()
            times.append((time.process_time_ns() - begun) / 1000)
    return median(times)


def main() -> None:
    """Prints the figures and the references."""
    bench = Bench()
    bench.fill()
    bench.decide()
    bench.state.take_changes()
    gc.collect()
    gc.disable()
    records = list(asks())
    begun = time.process_time()
    for event in records:
        bench.hear(event)
    read_s = time.process_time() - begun
    begun = time.process_time()
    may = naive(bench, bench.machine.jobs)
    naive_s = time.process_time() - begun
    begun = time.process_time()
    verdicts = bench.decide()
    verdicts_s = read_s + time.process_time() - begun
    allowed = int(np.count_nonzero(bench.machine.arena["allowed"]))
    assert allowed == may, (allowed, may)
    one_us = change_us(bench)
    figures = {
        "verdicts_s": verdicts_s,
        "verdicts": verdicts,
        "verdicts_over_naive": verdicts_s / naive_s,
        "change_us": one_us,
        "change_over_naive": one_us / (naive_s * 1e6),
        "memory_mib": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024,
    }
    print(json.dumps({"figures": figures, "references": {"naive_verdicts_s": naive_s}}))


if __name__ == "__main__":
    main()
