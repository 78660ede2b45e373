"""Cells with devices, cores and alternatives, drawn by seed, under faults: the checker knows each device by itself."""

from collections import Counter

from events.codec import decode
from events.records.base import Event
from events.records.lifecycle import JobAccepted
from events.records.placement import HostDeviceChanged, TasksPlaced
from events.records.rounds import RoundCommitted
from paceline.simulate.faults.injection import Faults
from paceline.simulate.faults.trial import Trial
from paceline.simulate.scenario.random_devices import draw_devices
from paceline.simulate.world.cell import SimulatedCell
from tests.helpers.drawn import seeds
from tests.helpers.random_sharing import draw_delays
from tests.paceline.simulate.sharing import play

ACTS = 20


@seeds(60, 3)
def test_devices_under_faults_break_no_promise(seed: int) -> None:
    Trial(draw_devices(seed, ACTS), Faults(seed)).run()


def _decisions(cell: SimulatedCell, topic: str) -> list[Event]:
    rounds = [decode(record.value) for record in cell.log.scan(topic, 0)]
    return [decode(each) for round_ in rounds if isinstance(round_, RoundCommitted) for each in round_.decisions]


def test_the_scenarios_have_a_little_of_everything() -> None:
    met: Counter[str] = Counter()
    for seed in range(4):
        cell = play(draw_devices(seed, ACTS), draw_delays(seed))
        for event in (*_decisions(cell, "paceline.placement"), *_decisions(cell, "paceline.lifecycle")):
            if isinstance(event, TasksPlaced):
                met["devices"] += len(event.device_ids)
                met["cores"] += sum(name.startswith("core/") for name in event.device_ids)
                met["alternatives"] += bool(event.alternative)
            elif isinstance(event, HostDeviceChanged):
                met["set aside"] += event.disabled
            elif isinstance(event, JobAccepted):
                met["shares"] += any(shape.resources.get("gpu", 0) % 1000 for shape in event.shapes)
        cell.close()
    assert all(met[name] for name in ("devices", "cores", "alternatives", "set aside", "shares")), met
