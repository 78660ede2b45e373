"""Who heads a queue waits no longer because others go past that need nothing of what it lacks."""

from tests.helpers.drawn import drawn, some
from tests.paceline.simulate.overtaking import compare


@drawn
def test_heads_wait_no_longer_where_others_go_past() -> None:
    results = map(compare, some(range(5), 2))
    heads, before, after, all_before, all_after = map(sum, zip(*results, strict=True))
    assert heads
    assert after <= before
    assert all_after < all_before
