"""A branch of history: without a change it is history again, with one it is what a cell with that change would do."""

from typing import Any

import pytest
import yaml

from paceline.simulate.scenario.scenario import Scenario
from paceline.simulate.world.cell import START_MS
from paceline.whatif.branch import Branch, Change
from paceline.whatif.settings import change_of, read_setting
from paceline.whatif.stretch import Stretch, read_stretch
from tests.helpers import ROOT
from tests.helpers.drawn import drawn, some
from tests.paceline.whatif.recorded import THREE_TEAMS, Order, moment, of_file, orders, recording

ROOMS = ("sharing", "lifecycle", "placement", "maintenance", "host_pools")
TIED = ("image-there", "placement-restarts")
"""An image is there in the same millisecond as a job that it is for; a machine is away, which no log says."""
LONG = (
    "two-gangs-within-their-shares",
    "large-task-among-small",
    "five-pools-four-cores-long",
    "odd-sizes-long",
    "nested-gangs",
)
SCENARIOS = sorted(
    path for room in ROOMS for path in (ROOT / "tests" / "scenarios" / room).glob("*.yaml") if path.stem not in TIED
)
BY_SIZE = sorted(SCENARIOS, key=lambda path: (path.stem in LONG, len(path.read_bytes()) % 7, path))
"""In an order that mixes the rooms, those that take long last: the suite draws the first."""
MOMENTS = (0.1, 0.25, 0.5, 0.75)


def branched(stretch: Stretch, change: Change) -> set[Order]:
    """The orders of a branch."""
    branch = Branch(stretch, change, seed=1)
    branch.run()
    branch.close()
    return orders(branch.table, stretch.from_ms, stretch.to_ms)


@drawn
@pytest.mark.parametrize(
    ("path", "part"),
    [pytest.param(path, MOMENTS[at % 4], id=path.stem) for at, path in enumerate(some(BY_SIZE, 24))],
)
def test_without_a_change_every_run_is_ordered_when_and_where_it_was(path, part):
    log, end_ms = of_file(path)
    stretch = read_stretch(log, moment(end_ms, part), end_ms)
    assert branched(stretch, Change()) == orders(stretch.runs, stretch.from_ms, end_ms)


CHANGES: dict[str, dict[str, Any]] = {
    "/b:share=3": {"pool": {"path": "/b", "share": 3}},
    "/b:limit:cpu=4": {"pool": {"path": "/b", "limit": {"cpu": 4}}},
    "/b:reservation:cpu=12": {"pool": {"path": "/b", "reservation": {"cpu": 12}}},
    "/a:closed=true": {"pool": {"path": "/a", "closed": True}},
    "/b:strategy=spread": {"pool": {"path": "/b", "strategy": "spread"}},
}


@drawn
@pytest.mark.parametrize("setting", some(CHANGES, 2))
def test_a_change_gives_what_the_cell_does_that_has_it(setting):
    body = yaml.safe_load(THREE_TEAMS.read_text())
    log, end_ms = of_file(THREE_TEAMS)
    stretch = read_stretch(log, START_MS + 180_000, end_ms)
    told = branched(stretch, change_of(stretch, [read_setting(setting)], {}))
    truth, truth_end_ms = recording(
        Scenario.model_validate(body | {"events": [{"at": "3m", **CHANGES[setting]}], "end": "1h"})
    )
    runs = read_stretch(truth, START_MS + 180_000, truth_end_ms).runs
    assert told == orders(runs, stretch.from_ms, end_ms)
    assert told != orders(stretch.runs, stretch.from_ms, end_ms), "the change does nothing"


def test_a_coarser_resolution_has_fewer_moments_and_ends_at_its_multiples():
    log, end_ms = of_file(ROOT / "tests" / "scenarios" / "sharing" / "five-pools-four-cores.yaml")
    stretch = read_stretch(log, moment(end_ms, 0.25), end_ms)
    moments = {}
    for resolution_ms in (1, 1000):
        branch = Branch(stretch, Change(), seed=1, jitter_ms=50, resolution_ms=resolution_ms)
        seen: list[int] = []
        branch.run(seen.append)
        branch.close()
        moments[resolution_ms] = len(seen)
        ends = [at_ms for at_ms in branch.table.column("reported_ms") if at_ms >= stretch.from_ms]
        assert ends
        assert all(at_ms % resolution_ms == 0 for at_ms in ends)
    assert moments[1000] < moments[1]
