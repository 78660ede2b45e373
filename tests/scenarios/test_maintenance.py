"""Hosts are taken and given back: scenarios in a user's words, with the checker looking on all along."""

from pathlib import Path

import pytest

from events.codec import decode
from events.codes import Code, Step
from events.records.placement import HostMaintenanceChanged
from events.records.rounds import RoundCommitted
from events.rounds import decode_decisions
from events.topics import rounds_of
from paceline.simulate.scenario.parse import read_scenario
from paceline.simulate.session import RunOptions, of_scenario
from tests.scenarios.test_sharing import failures

SCENARIOS = sorted((Path(__file__).parent / "maintenance").glob("*.yaml"))


@pytest.mark.parametrize("path", SCENARIOS, ids=lambda path: path.stem)
def test_what_was_promised_holds(path: Path) -> None:
    assert failures(path) == []


def steps(path: Path, kills: bool) -> list[tuple[str, str, str]]:
    """The steps that the hosts of a campaign take: the host, the step and its code."""
    scenario = read_scenario(str(path))
    if not kills:
        rest = [event for event in scenario.events if event.lose is None and event.heal is None]
        scenario = scenario.model_copy(update={"events": rest})
    session = of_scenario(scenario, "", RunOptions())
    session.run.run_to_end()
    session.finish()
    taken = []
    for record in session.run.cell.log.scan(rounds_of("placement"), 0):
        event = decode(record.value)
        for each in decode_decisions(event) if isinstance(event, RoundCommitted) else ():
            if isinstance(each, HostMaintenanceChanged):
                columns = zip(each.host_ids, each.step_array.tolist(), strict=True)
                taken += [(host_id, Step(step).name, each.code) for host_id, step in columns]
    session.run.cell.close()
    return taken


def test_a_campaign_takes_the_same_steps_whenever_placement_is_killed() -> None:
    """A host that wasn't restarted, though it was away, is told as that."""
    path = SCENARIOS[0].with_name("campaign.yaml")
    taken = steps(path, kills=True)
    assert taken == steps(path, kills=False)
    assert [host_id for host_id, _, code in taken if code == Code.SAME_BOOT] == ["h-2"]
