"""Draws the cards of a cluster by two strategies, from the placements of a cell that runs in virtual time.

    python -m tests.processors.placement.devices.pictures

puts the pictures into docs/gpus.md anew.
"""

import re
from itertools import zip_longest
from pathlib import Path
from tempfile import TemporaryDirectory

from events.device_columns import devices_of
from events.records.placement import TasksPlaced
from paceline.simulate.checker.history import History
from paceline.simulate.scenario.parse import read_scenario
from paceline.simulate.session import RunOptions, of_scenario
from tests.helpers import ROOT

PAGE = ROOT / "docs" / "gpus.md"
SCENARIO = """
end: 8m
hosts:
  - {name: h, resources: {cpu: 16, memory: 64GiB}, devices: [
       {id: "0", kind: gpu, model: h100}, {id: "1", kind: gpu, model: h100}]}
  - {name: t, count: 2, resources: {cpu: 32, memory: 64GiB}, devices: [
       {id: "0", kind: gpu, model: t4}, {id: "1", kind: gpu, model: t4}, {id: "2", kind: gpu, model: t4}]}
pools: [{path: /p, strategy: STRATEGY}]
jobs:
  - {job_id: early, at: 1m, pool: /p, instances: 8, resources: {cpu: 1, gpu: 1}, devices: {models: {gpu: h100}},
     sim: {duration: 20s}}
  - {job_id: share, at: 4m, pool: /p, instances: 4, resources: {cpu: 1, gpu: 500m}, sim: {duration: 10h}}
  - {job_id: train, at: 6m, pool: /p, resources: {cpu: 4, gpu: 2}, devices: {models: {gpu: h100}}, sim: {duration: 10h}}
"""
WIDTH = 4
"""The characters of a card."""
_BLOCK = re.compile(r"(?<=<!-- pictures -->\n)(?:.*\n)*?(?=<!-- end of pictures -->\n)")


def picture(strategy: str) -> list[str]:
    """The hosts at the end: for each card the first letters of the jobs that have it, `.` where it is free."""
    with TemporaryDirectory() as folder:
        path = Path(folder) / "scenario.yaml"
        path.write_text(SCENARIO.replace("STRATEGY", strategy))
        scenario = read_scenario(str(path))
    session = of_scenario(scenario, "paceline simulate scenario.yaml", RunOptions())
    session.run.run_to_end()
    session.finish()
    hosts = {host_id: len(group.host_devices()) for group in scenario.hosts for host_id in group.names()}
    drawn = {(host_id, str(card)): "" for host_id, cards in hosts.items() for card in range(cards)}
    placed = set()
    for round_ in History(session.run.cell.log).read():
        for event in round_.decisions:
            if isinstance(event, TasksPlaced):
                for item, held in devices_of(event):
                    job_id = event.job_ids[event.job_array[item]]
                    placed.add(job_id)
                    for card, milli, _ in held if job_id != "early" else ():
                        drawn[event.host_ids[event.host_array[item]], card] += job_id[0] * (milli * WIDTH // 1000)
    session.run.cell.close()
    waits = [str(job.job_id) for job in scenario.jobs if job.job_id not in placed]
    return [
        strategy.upper(),
        *(
            f"{host_id:5}" + " ".join(f"{drawn[host_id, str(card)]:.<{WIDTH}}" for card in range(cards))
            for host_id, cards in hosts.items()
        ),
        *(f"{job_id} waits" for job_id in waits),
    ]


def pictures() -> str:
    """The pictures as they stand on the page."""
    sides = [picture(strategy) for strategy in ("pack", "adaptive")]
    rows = "\n".join(f"{left:23}{right}".rstrip() for left, right in zip_longest(*sides, fillvalue=""))
    return f"```yaml{SCENARIO}```\n\n```\n{rows}\n```\n"


def rendered() -> str:
    """The page with the pictures as they are now."""
    return _BLOCK.sub(lambda _: pictures(), PAGE.read_text())


if __name__ == "__main__":
    PAGE.write_text(rendered())
