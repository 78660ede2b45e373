"""The order in which hosts come for a task is the one that docs/placement.md tells."""

from pathlib import Path

from events.records.parts import Constraint
from events.records.placement import TasksPlaced
from events.records.pools import PoolDefined
from events.topics import rounds_of
from hostagent.fleet import SimHost
from tests.paceline.plans.cells import PlannedCell

CAPACITY = {"cpu": 4_000, "memory": 8_192, "disk": 100_000}


def test_hosts_without_devices_come_before_those_that_a_job_prefers(tmp_path: Path) -> None:
    with_gpu = SimHost(1, CAPACITY | {"gpu": 1_000}, {"rack": "r"}, "gpu")
    cell = PlannedCell(tmp_path, [with_gpu, SimHost(1, CAPACITY, {"rack": "s"}, "plain")])
    cell.append(PoolDefined(path="/p", command_id="p"))
    cell.run(1_000)
    starts = cell.ends()
    cell.submit("web", "/p", constraints=(Constraint("rack", "in", ("r",), weight=62),))
    cell.run(1_000)
    topic = rounds_of("placement")
    [placed] = [each for each in cell.decisions({topic: starts[topic]}) if isinstance(each, TasksPlaced)]
    cell.close()
    assert placed.host_ids == ("plain",)
    page = Path("docs/placement.md").read_text()
    assert page.index(" Hosts without devices") < page.index(" The least sum of unmet preferences")
