"""The words for the pace of drains."""

from projections.queries.drain_pace import span


def test_times_are_told_in_the_unit_that_suits_them() -> None:
    assert [span(each) for each in (22, 119, 2200, 7200, 12_600, 200_000)] == [
        *("22 s", "119 s", "37 minutes", "2 hours", "3.5 hours", "2 days"),
    ]
