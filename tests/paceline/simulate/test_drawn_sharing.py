"""Cells over hours, drawn by seed: with delays, lost hosts, firm work, objectives, limits and turns the bounds hold."""

import pytest

from paceline.simulate.scenario.random_sharing import draw_streams
from tests.paceline.simulate.sharing import play, play_drawn

SEEDS = 12
STREAMS = (3, 4, 5)


@pytest.mark.parametrize("seed", range(SEEDS))
def test_what_is_promised_of_sharing_holds_over_hours(seed: int) -> None:
    play_drawn(seed).close()


@pytest.mark.parametrize("seed", STREAMS)
def test_what_short_tasks_leave_over_is_lent_while_they_stream_past(seed: int) -> None:
    play(draw_streams(seed)).close()
