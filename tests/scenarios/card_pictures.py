"""Draws who has which cards of a cluster before and after room was made, from a cell in virtual time.

    python -m tests.scenarios.card_pictures

puts the pictures into docs/gpus.md and docs/placement.md anew.
"""

import re
from functools import cache

from paceline.simulate.scenario.parse import read_scenario
from paceline.simulate.session import RunOptions, of_scenario
from paceline.simulate.world.cell import START_MS
from processors.placement.machine import Placement
from tests.helpers import ROOT

PAGES = [ROOT / "docs" / name for name in ("gpus.md", "placement.md")]
SCENARIO = ROOT / "tests" / "scenarios" / "placement" / "rebalanced.yaml"
MOMENTS = {"before": 65, "after": 300}
"""Seconds since the start: `whole` waits for eight cards; room was made for it."""
CARDS = 8
_BLOCK = re.compile(r"(?<=<!-- cards -->\n)(?:.*\n)*?(?=<!-- end of cards -->\n)")


def cards(at_s: int) -> dict[str, str]:
    """The cards of each host at a time, by the first letters of the jobs that have them."""
    session = of_scenario(read_scenario(str(SCENARIO)), "", RunOptions(until_ms=at_s * 1000))
    session.run.run_to_end()
    assert session.run.cell.clock.ms <= START_MS + at_s * 1000
    machine = session.run.cell.machines["placement"]
    assert isinstance(machine, Placement)
    drawn = {}
    for host, host_id in enumerate(machine.hosts.ids):
        row = ["."] * CARDS
        for slot, devices in machine.hosts.devices.of(host).items():
            for name, *_ in devices:
                row[int(name.rpartition(":")[2])] = machine.runs.waits.job_of(slot)[0]
        drawn[host_id] = " ".join(row)
    session.finish()
    return drawn


@cache
def rendered() -> str:
    """Both pictures beside each other."""
    before, after = (cards(at_s) for at_s in MOMENTS.values())
    width = len(next(iter(before.values())))
    lines = [f"      {'before':<{width}}     after"]
    lines += [f"{host_id}   {before[host_id]}     {after[host_id]}" for host_id in before]
    return "```\n" + "\n".join(lines) + "\n```\n"


def write() -> None:
    """Puts the pictures into the pages."""
    for page in PAGES:
        page.write_text(_BLOCK.sub(lambda _: rendered(), page.read_text()))


if __name__ == "__main__":
    write()
