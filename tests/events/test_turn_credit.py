"""When a credit for a turn suffices, and when something of it is left."""

import pytest

from events.turn_credit import is_left, suffices_after


@pytest.mark.parametrize(
    ("credit", "rate", "full", "goes_on", "after"),
    [
        ((0, 0), (1, 1), (0, 0), False, None),  # saved for nobody
        ((4, 0), (1, 0), (9, 0), False, 5),
        ((4, 0), (2, 3), (9, 9), False, 3),
        ((9, 7), (0, 1), (9, 9), False, 2),
        ((4, 9), (0, 1), (9, 9), False, None),
        ((9, 9), (-1, 1), (9, 9), False, None),  # it is being used
        ((9, 9), (0, 0), (9, 9), False, 0),
        ((4, 0), (0, 0), (9, 0), True, 0),  # the last turn has left some
        ((4, 0), (1, 0), (0, 0), True, None),
    ],
)
def test_a_credit_suffices_once_there_is_enough_of_all_kinds(
    credit: tuple[int, int], rate: tuple[int, int], full: tuple[int, int], goes_on: bool, after: int | None
) -> None:
    assert suffices_after(credit, rate, full, goes_on) == after


def test_something_is_left_where_it_is_of_each_kind() -> None:
    assert is_left((9, 0), (-1, 0), (9, 0), 8)
    assert not is_left((9, 9), (-1, -2), (9, 9), 8)
    assert not is_left((9, 0), (-1, 0), (9, 0), 9)
