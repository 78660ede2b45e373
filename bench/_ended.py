"""Ends many jobs in the four machines and the gateway, in a process of its own: python -m bench._ended JOBS."""

import json
import sys
import time
from collections.abc import Sequence
from typing import Any

import psutil

from events.codec import encode
from events.codes import Outcome, TaskState
from events.records.base import Event
from events.records.entitlement import GangsAdmitted, PoolAnswered
from events.records.jobs import JobSubmitted
from events.records.lifecycle import GangsQueued, JobAccepted, JobChanged, RunsEnded
from events.records.parts import Simulated
from events.records.pools import PoolDefined
from hostagent.gateway.desired_runs import DesiredRuns
from processors.cell_machines import machines
from processors.machine import Decided, Fact, Machine, PeerRound
from processors.state.table import State

BATCH = 1000
"""Jobs of one round."""
START_MS, BATCH_MS = 1_700_000_000_000, 100
POOL = "/bench"
OPEN_MAX = 10 * BATCH


class Cell:
    """Machines and gateway that fold rounds as a log would give them."""

    def __init__(self) -> None:
        self.machines: dict[str, Machine] = {name: make() for name, make in machines().items()}
        self._states = [State(machine.tables, machine.peers) for machine in self.machines.values()]
        self._desired_runs = DesiredRuns()
        self._rounds = dict.fromkeys(self.machines, 0)
        pool = PoolDefined(path=POOL, command_id="bench", open_jobs_max=OPEN_MAX, open_tasks_max=OPEN_MAX)
        self.fact("paceline.pools", 0, START_MS, pool)
        self.round("entitlement", START_MS, [PoolAnswered(path=POOL, pools_offset=0, command_id="bench", code="DONE")])

    def fact(self, topic: str, offset: int, at_ms: int, event: Event) -> None:
        """A fact, to all machines that read its topic."""
        for machine in self.machines.values():
            if topic in machine.facts:
                machine.apply(Fact(topic, offset, at_ms, event, encode(event)))
        if isinstance(event, JobSubmitted):
            self._desired_runs.asked(offset, event)

    def round(self, name: str, now: int, decisions: Sequence[Event]) -> None:
        """A round of a machine, to that machine and to all that read it; the state is hashed, as at each round."""
        self._rounds[name] += 1
        for other, machine in self.machines.items():
            if other == name:
                for index, decision in enumerate(decisions):
                    machine.apply(Decided(now, decision, self._rounds[name], index))
            elif name in machine.peers:
                machine.apply(PeerRound(name, self._rounds[name], now, tuple(decisions)))
        for decision in decisions if name == "lifecycle" else ():
            self._desired_runs.take(decision)
        for state in self._states:
            state.take_changes()

    def live(self, first: int, count: int) -> None:
        """So many jobs of one task are submitted, admitted, and ended."""
        now, runs = START_MS + first // BATCH * BATCH_MS, _runs(first, count)
        for at, job_id in enumerate(runs["job_ids"], first):
            job = JobSubmitted(job_id=job_id, pool=POOL, resources={"cpu": 100}, simulated=Simulated(1000))
            self.fact("paceline.jobs", at, now, job)
        lifecycle = self.machines["lifecycle"].decide(now, True, 2 * count)  # half of a budget is for answers
        assert sum(isinstance(each, JobAccepted) for each in lifecycle) == count
        self.round("lifecycle", now, lifecycle)
        zeros = [0] * count
        queued = next(each for each in lifecycle if isinstance(each, GangsQueued))
        ranges = {name: getattr(queued, name) for name in ("job_ids", "job", "first", "count", "run", "gang")}
        self.round("entitlement", now, [GangsAdmitted(**ranges)])
        ended = RunsEnded.pack(
            **runs, outcome=[Outcome.SUCCEEDED] * count, next=[TaskState.SUCCEEDED] * count, exit_code=zeros, kept=zeros
        )
        changed = [JobChanged(job_id=job_id, state="SUCCEEDED", succeeded=1) for job_id in runs["job_ids"]]
        self.round("lifecycle", now, [ended, *changed])


def _runs(first: int, count: int) -> dict[str, Any]:
    return {
        "job_ids": tuple(f"bench-job-{number:012d}" for number in range(first, first + count)),
        "job": range(count),
        "instance": [0] * count,
        "run": [1] * count,
    }


def main(jobs: int) -> None:
    """Prints the memory of the process once all have ended, and its growth by job; then what the ids alone take."""
    cell, process, begin = Cell(), psutil.Process(), time.perf_counter()
    cell.live(0, BATCH)
    before = process.memory_info().rss
    for first in range(BATCH, jobs, BATCH):
        cell.live(first, BATCH)
    memory, seconds = process.memory_info().rss, time.perf_counter() - begin
    figures = {
        "ended_jobs_memory_mib": memory / 2**20,
        "ended_job_memory_bytes": (memory - before) / (jobs - BATCH),
        "ended_job_fold_us": seconds / jobs * 1e6,
    }
    begin_mib = process.memory_info().rss
    ids = {f"bench-job-{number:012d}" for number in range(jobs)}
    beside = {"raw_set_of_their_ids_mib": (process.memory_info().rss - begin_mib) / 2**20}
    assert len(ids) == jobs
    print(json.dumps({"figures": figures, "references": beside}))


if __name__ == "__main__":
    main(int(sys.argv[1]))
