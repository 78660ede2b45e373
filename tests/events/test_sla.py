"""How much of a job its SLA lets go: by numbers and percentages, beside sums by hand."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from events.records.parts import SlaPolicy
from events.sla import Bounds, has_sla, hourly, limit, never_allows


@pytest.mark.parametrize(
    ("wanted", "most", "policy", "expected"),
    [
        (10, 3, {}, 3),
        (2, 3, {}, 2),
        (10, None, {"max_unavailable_percent": 25}, 2),
        (3, None, {"max_unavailable_percent": 25}, 1),
        (3, None, {"max_unavailable_percent": 0}, 0),
        (0, None, {"max_unavailable_percent": 25}, 0),
        (10, None, {"min_available": 9}, 1),
        (8, None, {"min_available": 9}, 0),
        (3, None, {"min_available_percent": 90}, 0),
        (15, None, {"min_available_percent": 90}, 1),
        (20, 5, {"min_available_percent": 90}, 2),
        (20, 1, {"min_available_percent": 90}, 1),
        (7, None, {"min_healthy_ms": 30_000}, 7),
    ],
)
def test_the_strictest_bound_holds_and_parts_are_rounded_for_what_is_available(
    wanted: int, most: int | None, policy: dict[str, int], expected: int
) -> None:
    assert limit(most, SlaPolicy(**policy), wanted) == expected


BOUND = st.none() | st.integers(0, 100)


@given(BOUND, BOUND, BOUND, BOUND, st.integers(0, 1000))
def test_what_is_left_is_no_less_than_what_must_be_available(
    most: int | None, percent: int | None, least: int | None, least_percent: int | None, wanted: int
) -> None:
    allowed = Bounds(most, percent, least, least_percent).limit(wanted)
    assert 0 <= allowed <= wanted
    left = wanted - allowed
    if allowed:
        assert left >= (least or 0)
        assert left * 100 >= (least_percent or 0) * wanted
        assert most is None or allowed <= most
        assert percent is None or allowed == 1 or allowed * 100 <= percent * wanted


def test_an_hour_has_the_stricter_of_its_bounds() -> None:
    assert hourly(None, 10) is None
    assert hourly(SlaPolicy(), 10) is None
    assert hourly(SlaPolicy(per_hour=4, per_hour_percent=20), 10) == 2
    assert hourly(SlaPolicy(per_hour_percent=20), 2) == 1


def test_a_job_has_an_sla_where_it_says_anything_and_it_may_never_allow_a_disruption() -> None:
    assert not has_sla(None, None)
    assert has_sla(0, None)
    assert has_sla(None, SlaPolicy(min_healthy_ms=1))
    assert never_allows(0, None, 3)
    assert never_allows(None, SlaPolicy(min_available_percent=90), 3)
    assert never_allows(3, SlaPolicy(per_hour=0), 3)
    assert not never_allows(0, SlaPolicy(replace="before"), 3)
    assert not never_allows(0, None, 0)
    assert not never_allows(None, None, 3)
