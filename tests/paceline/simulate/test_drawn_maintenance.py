"""Cells that are maintained, drawn by seed: services with SLAs and batch work on hosts that come, go and are emptied,
with delays between machines and a restart of each.
"""

from paceline.simulate.scenario.random_maintenance import draw_maintenance
from tests.helpers.drawn import seeds
from tests.helpers.random_sharing import draw_delays
from tests.paceline.simulate.sharing import play

ACTS = 40


@seeds([2, 10], 1)
def test_what_is_promised_of_maintenance_holds(seed: int) -> None:
    play(draw_maintenance(seed, ACTS), draw_delays(seed)).close()
