"""The time bar: what it spans, and where its steps lead."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any
from unittest.mock import patch

import pytest
from hypothesis import given
from hypothesis import strategies as st
from sqlalchemy import Connection

from projections.queries.log_time import begin_ms
from projections.ui.format import iso
from projections.ui.lines import drawn
from projections.ui.time_bar import DAY_MS, GRIDS_MS, HOUR_MS, SHORTEST_MS, Shown, bar
from tests.projections.conftest import Api

NOW = 1_795_600_800_000 + 7_000


@pytest.fixture
def connection(tmp_path: Path) -> Iterator[Connection]:
    """The views of a cell with a few rounds of placement."""
    api = Api(tmp_path)
    for _ in range(3):
        api.cell.decide("placement")
    api.fold()
    with api.projector.views.read() as connection:
        yield connection
    api.close()


def shown(connection: Connection, at_ms: int, past: bool = True, now_ms: int = NOW) -> dict[str, Any]:
    return bar(0, connection, now_ms, Shown(at_ms, 3, past))


def test_the_present_is_at_the_end_of_a_day(connection: Connection) -> None:
    now_ms = begin_ms(connection) + 3 * DAY_MS
    time = shown(connection, now_ms, past=False, now_ms=now_ms)
    assert (time["to_ms"] - time["from_ms"], time["x"]) == (DAY_MS, 100)
    assert 0 <= time["to_ms"] - now_ms < GRIDS_MS[-1]
    assert time["back"] == {
        "hour": iso(now_ms - HOUR_MS),
        "min": iso(now_ms - 60_000),
        "round": "0/placement/round/2",
    }
    assert not any(time["on"].values())


def test_the_bar_of_a_young_cell_begins_with_it(connection: Connection) -> None:
    begin = begin_ms(connection)
    now_ms = begin + 20 * 60_000
    time = shown(connection, now_ms, past=False, now_ms=now_ms)
    assert 0 <= begin - time["from_ms"] < GRIDS_MS[0]
    assert 0 <= time["to_ms"] - now_ms < GRIDS_MS[0]
    assert time["back"]["hour"] == iso(begin)
    assert time["back"]["min"] == iso(now_ms - 60_000)
    assert len(time["ticks"]) >= 2
    assert shown(connection, begin, now_ms=now_ms)["back"] == {
        "hour": None,
        "min": None,
        "round": "0/placement/round/2",
    }


def test_steps_on_end_at_the_present(connection: Connection) -> None:
    assert shown(connection, NOW - 90_000)["on"]["min"] == "2026-11-25T09:59:37.000Z"
    assert shown(connection, NOW - 90_000)["on"]["hour"] is None
    assert shown(connection, NOW - 60_000)["on"]["min"] is None


class Nothing:
    """Views without a row."""

    @property
    def connection(self) -> "Nothing":
        return self

    def cursor(self) -> "Nothing":
        return self

    def execute(self, *_: object) -> "Nothing":
        return self

    def scalar(self) -> None:
        return None

    def scalars(self) -> "Nothing":
        return self

    def __iter__(self) -> Iterator[Any]:
        return iter(())


@given(ago=st.integers(0, 40 * DAY_MS), age=st.integers(0, 40 * DAY_MS))
def test_any_moment_lies_on_the_bar(ago: int, age: int) -> None:
    with patch("projections.ui.time_bar.begin_ms", lambda _: NOW - age):
        time = shown(Nothing(), NOW - ago)  # type: ignore[arg-type]
    assert time["from_ms"] <= NOW - ago <= time["to_ms"]
    assert 0 <= time["x"] <= 100
    assert SHORTEST_MS <= time["to_ms"] - time["from_ms"] <= DAY_MS
    assert all(0 < float(x) < 100 for x, _ in time["ticks"])


@pytest.mark.parametrize(
    ("values", "line", "area"),
    [
        ([], "", ""),
        ([None], "", ""),
        ([0, 0], "M0 10.0L1 10.0", "M0 10.0L1 10.0V10H0Z"),
        ([None, 1, 2], "M1 5.0L2 0.0", "M1 5.0L2 0.0V10H1Z"),
    ],
)
def test_a_line_of_values(values: list[float | None], line: str, area: str) -> None:
    assert drawn(values, 10)[:2] == (line, area)
