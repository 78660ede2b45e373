"""Cells that are maintained, drawn by seed: services with SLAs and batch work on hosts that come, go and are emptied,
with delays between machines and a restart of each.
"""

import os

from paceline.simulate.faults.injection import Faults
from paceline.simulate.faults.trial import Trial
from paceline.simulate.scenario.random_maintenance import draw_maintenance
from tests.helpers.drawn import seeds
from tests.helpers.random_sharing import draw_delays
from tests.paceline.simulate.sharing import play

ACTS = 40
FEW_ACTS = 12
MANY_ACTS, MANY_HOSTS = 8, 50
SEEDS = int(os.environ.get("PACELINE_SEEDS", "20"))
"""The soak draws so many seeds of them."""


@seeds(60, 2)
def test_what_is_promised_of_maintenance_holds(seed: int) -> None:
    play(draw_maintenance(seed, ACTS), draw_delays(seed)).close()


@seeds(SEEDS, 5)
def test_the_same_holds_on_many_hosts(seed: int) -> None:
    play(draw_maintenance(seed, MANY_ACTS, MANY_HOSTS), draw_delays(seed)).close()


@seeds(24, 2)
def test_maintenance_under_faults_breaks_no_promise(seed: int) -> None:
    Trial(draw_maintenance(seed, FEW_ACTS), Faults(seed)).run()
