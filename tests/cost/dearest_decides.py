"""Counts the own calls of each `decide` of a cell in virtual time, and prints the dearest of each machine as JSON.

Run as a process of its own with PYTHONHASHSEED=0. The cell is as hard as those were that hung: all hosts are full, a
daemon comes, gangs have waited so long that hosts are reserved for one, and 10,000 tasks wait. It ends when placement
has asked others to leave a few times: what follows is more of the same.
"""

import json
import sys
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from types import FrameType
from typing import Any

from events.records.placement import PreemptionAsked
from paceline.simulate.scenario.parse import read_scenario
from paceline.simulate.session import RunOptions, of_scenario
from processors.entitlement.machine import Entitlement
from processors.lifecycle.machine import Lifecycle
from processors.placement.machine import Placement
from processors.sla.machine import Sla

ROOT = str(Path(__file__).parents[2])
OWN = tuple(f"{ROOT}/{package}/" for package in ("events", "processors"))
CELL = """
end: 1m
cell: {{preemption_delay: 20s, reserve_after: 10s, reserve_for: 2m}}
hosts: [{{name: h, count: {hosts}, resources: {{cpu: 16, memory: 64GiB}}}}]
pools:
  - {{path: /a}}
  - {{path: /b, share: 2}}
  - {{path: /c, reservation: {{cpu: {hosts}, memory: {hosts}GiB}}}}
  - {{path: /system}}
jobs:
  - {{job_id: low, pool: /a, priority: 1, instances: {fill}, resources: {{cpu: 2}}, sim: {{duration: 9h}}}}
  - {{job_id: mid, pool: /a, priority: 2, instances: {fill}, resources: {{cpu: 2}}, sim: {{duration: 9h}}}}
  - {{job_id: high, pool: /b, priority: 3, instances: {fill}, resources: {{cpu: 2}}, sim: {{duration: 9h}}}}
  - {{job_id: serves, pool: /b, kind: stateless, instances: {fill}, resources: {{cpu: 2}}, sim: {{duration: 9h}}}}
  - {{job_id: logs, at: 30s, pool: /system, kind: daemon, resources: {{cpu: 0.1}}, sim: {{duration: 9h}}}}
  - &gang
    {{job_id: gang, at: 31s, pool: /c, instances: 20, gang: {{min: 20}}, resources: {{cpu: 15}}, sim: {{duration: 2m}}}}
  - {{<<: *gang, job_id: other-gang}}
{waiting}
"""
WAITING = """
  - {{job_id: wait-{number}, at: 32s, pool: /{pool}, priority: {priority}, instances: {tasks},
      resources: {{cpu: {cpu}}}, sim: {{duration: 5m}}}}
"""


def cell(hosts: int) -> tuple[str, int]:
    """The scenario, and how many tasks it asks for."""
    jobs = [1000] * 9 + [100] * 9 + [1] * 100
    waiting = [
        WAITING.format(number=at, pool="abc"[at % 3], priority=at % 5, tasks=tasks, cpu=1 + at % 4)
        for at, tasks in enumerate(jobs)
    ]
    text = CELL.format(hosts=hosts, fill=2 * hosts, waiting="".join(waiting).replace("\n\n", "\n"))
    return text, sum(jobs) + 8 * hosts + hosts + 40


ASKING = 7
"""So many decides that ask others to leave."""


class Enough(Exception):
    """All was seen."""


class Counter:
    """Calls of functions of the machines and of what they use while a `decide` runs."""

    def __init__(self) -> None:
        self.calls = 0
        self.dearest: dict[str, int] = {}
        self.asking = 0

    def watch(self, machine: type[Any]) -> None:
        """Counts from now on in this machine."""
        decide: Callable[..., Any] = machine.decide

        def counted(mine: Any, *moment: Any) -> Any:
            self.calls = 0
            sys.setprofile(self._count)
            try:
                decided = decide(mine, *moment)
            finally:
                sys.setprofile(None)
            self.dearest[machine.name] = max(self.dearest.get(machine.name, 0), self.calls)
            self.asking += any(isinstance(event, PreemptionAsked) for event in decided)
            if self.asking > ASKING:
                raise Enough
            return decided

        machine.decide = counted

    def _count(self, frame: FrameType, event: str, argument: object) -> None:
        if event == "call" and frame.f_code.co_filename.startswith(OWN):
            self.calls += 1


def main(hosts: int, path: Path) -> dict[str, Any]:
    """Runs the cell; `path`: a file to write the scenario to."""
    text, tasks = cell(hosts)
    path.write_text(text)
    counter = Counter()
    for machine in (Lifecycle, Entitlement, Placement, Sla):
        counter.watch(machine)
    session = of_scenario(read_scenario(str(path)), "", RunOptions())
    with suppress(Enough):
        session.run.run_to_end(lambda run: None)
    return {"tasks": tasks, "calls": counter.dearest}


if __name__ == "__main__":
    sys.stdout.write(json.dumps(main(int(sys.argv[1]), Path(sys.argv[2]))))
