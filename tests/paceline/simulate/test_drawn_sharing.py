"""Cells over hours, drawn by seed: with delays, lost hosts, firm work, objectives, limits and turns the bounds hold."""

import pytest

from tests.paceline.simulate.sharing import play_drawn

SEEDS = 12


@pytest.mark.parametrize("seed", range(SEEDS))
def test_what_is_promised_of_sharing_holds_over_hours(seed: int) -> None:
    play_drawn(seed).close()
