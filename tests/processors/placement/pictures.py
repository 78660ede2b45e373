"""Draws a cluster before and after jobs are placed, from the TasksPlaced of a cell that runs in virtual time.

    python -m tests.processors.placement.pictures

puts the pictures into docs/placement.md anew.
"""

import re
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import NamedTuple

import msgspec

from events.records.placement import GangsUnplaced, TasksPlaced
from events.resources import Kinds
from paceline.simulate.checker.history import History
from paceline.simulate.scenario.parse import read_scenario
from paceline.simulate.session import RunOptions, of_scenario
from paceline.simulate.world.cell import START_MS
from projections.queries.sentences import funnel
from tests.helpers import ROOT

PAGE = ROOT / "docs" / "placement.md"
SCENARIO = """
end: 8m
hosts:
  - {name: a, count: 2, resources: {cpu: 8, memory: 64GiB}, attributes: {rack: a}}
  - {name: b, count: 2, resources: {cpu: 8, memory: 64GiB}, attributes: {rack: b}}
  - {name: gpu, resources: {cpu: 8, memory: 64GiB, gpu: 2}, attributes: {rack: b}}
  - {name: ml, resources: {cpu: 8, memory: 64GiB}, attributes: {rack: b}, taints: {dedicated: ml}}
pools: [{path: /p}]
jobs:
  - {job_id: old, at: 1m, pool: /p, instances: 9, resources: {cpu: 1}, sim: {duration: 10h}}
  - {job_id: tiles, at: 3m, pool: /p, instances: 3, resources: {cpu: 1}, sim: {duration: 10h}}
  - {job_id: web, at: 4m, pool: /p, instances: 4, resources: {cpu: 1}, strategy: spread, sim: {duration: 10h}}
  - {job_id: ranks, at: 5m, pool: /p, instances: 2, gang: {min: 2}, within: rack, resources: {cpu: 4},
     sim: {duration: 10h}}
  - {job_id: model, at: 6m, pool: /p, tolerations: [dedicated], constraints: [{attribute: rack, values: [b]}],
     resources: {cpu: 6}, sim: {duration: 10h}}
  - {job_id: huge, at: 7m, pool: /p, resources: {cpu: 8}, sim: {duration: 10h}}
"""
CORES = 8
"""Of each host."""
BEFORE_MS, AFTER_MS = 2 * 60_000, 8 * 60_000
_BLOCK = re.compile(r"(?<=<!-- pictures -->\n)(?:.*\n)*?(?=<!-- end of pictures -->\n)")


class Run(NamedTuple):
    """What a run of the scenario decided."""

    hosts: list[str]
    cores: dict[str, int]
    """Of a task, by job."""
    placed: list[tuple[int, str, str]]
    """Tasks: when, the job, the host."""
    waits: dict[str, GangsUnplaced]
    """The first reason of each job that waits at the end."""


def run() -> Run:
    """Runs the scenario."""
    with TemporaryDirectory() as folder:
        path = Path(folder) / "scenario.yaml"
        path.write_text(SCENARIO)
        scenario = read_scenario(str(path))
    session = of_scenario(scenario, "paceline simulate scenario.yaml", RunOptions())
    session.run.run_to_end()
    session.finish()
    placed: list[tuple[int, str, str]] = []
    waits: dict[str, GangsUnplaced] = {}
    for round_ in History(session.run.cell.log).read():
        for event in round_.decisions:
            if isinstance(event, TasksPlaced):
                columns = zip(event.job_array.tolist(), event.host_array.tolist(), strict=True)
                placed += (
                    (round_.now_ms - START_MS, event.job_ids[job], event.host_ids[host]) for job, host in columns
                )
            elif isinstance(event, GangsUnplaced):
                waits.setdefault(event.job_id, event)
    session.run.cell.close()
    done = {job_id for _, job_id, _ in placed}
    cores = {str(job.job_id): job.to_event().resources["cpu"] // 1000 for job in scenario.jobs}
    hosts = [host_id for group in scenario.hosts for host_id in group.names()]
    return Run(hosts, cores, placed, {job_id: event for job_id, event in waits.items() if job_id not in done})


def picture(result: Run, until_ms: int) -> str:
    """The hosts at a time: a character for each core, the first letter of the job that has it, `.` where it is free."""
    drawn = dict.fromkeys(result.hosts, "")
    for at_ms, job_id, host_id in result.placed:
        if at_ms <= until_ms:
            drawn[host_id] += job_id[0] * result.cores[job_id]
    return "\n".join(f"{host_id:6}{letters:.<{CORES}}" for host_id, letters in drawn.items())


def pictures() -> str:
    """The pictures as they stand on the page."""
    result = run()
    waits = [
        f"{job_id} waits: {event.code}{funnel(msgspec.to_builtins(event), Kinds())}"
        for job_id, event in result.waits.items()
    ]
    before, after = (picture(result, until_ms) for until_ms in (BEFORE_MS, AFTER_MS))
    lines = [f"{'BEFORE':20}AFTER"]
    lines += [f"{left:20}{right}" for left, right in zip(before.split("\n"), after.split("\n"), strict=True)]
    return f"```yaml{SCENARIO}```\n\n```\n" + "\n".join([*lines, "", *waits]) + "\n```\n"


def rendered() -> str:
    """The page with the pictures as they are now."""
    return _BLOCK.sub(lambda _: pictures(), PAGE.read_text())


if __name__ == "__main__":
    PAGE.write_text(rendered())
