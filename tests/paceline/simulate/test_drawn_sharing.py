"""Cells over hours, drawn by seed: with delays, lost hosts, firm work, objectives, limits and turns the bounds hold,
and so they do where hosts lend.
"""

from tests.helpers.drawn import seeds
from tests.helpers.random_sharing import draw_delays, draw_slack, draw_streams
from tests.paceline.simulate.sharing import play, play_drawn


@seeds(12, 3)
def test_what_is_promised_of_sharing_holds_over_hours(seed: int) -> None:
    play_drawn(seed).close()


@seeds([3, 4, 5], 1)
def test_what_short_tasks_leave_over_is_lent_while_they_stream_past(seed: int) -> None:
    play(draw_streams(seed)).close()


@seeds([1, 4, 43, 0, 2, 3, *range(5, 43), *range(44, 60)], 3)
def test_what_is_promised_of_slack_holds_while_hosts_lend_more_and_less(seed: int) -> None:
    play(draw_slack(seed), draw_delays(seed)).close()
