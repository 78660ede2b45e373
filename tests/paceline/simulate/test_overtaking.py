"""Who heads a queue waits no longer because others go past that need nothing of what it lacks."""

from tests.paceline.simulate.overtaking import compare

SEEDS = 5


def test_heads_wait_no_longer_where_others_go_past() -> None:
    heads, before, after, all_before, all_after = map(sum, zip(*map(compare, range(SEEDS)), strict=True))
    assert heads
    assert after <= before
    assert all_after < all_before
