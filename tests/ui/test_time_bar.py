"""The time bar: what it spans, and where its steps lead."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from sqlalchemy import Connection

from projections.ui.lines import drawn
from projections.ui.time_bar import DAY_MS, GRID_MS, Shown, bar
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


def shown(connection: Connection, at_ms: int, past: bool = True) -> dict[str, Any]:
    return bar(0, connection, NOW, Shown(at_ms, connection, past))


def test_the_present_is_at_the_end_of_a_day(connection: Connection) -> None:
    time = shown(connection, NOW, past=False)
    assert (time["to_ms"] - time["from_ms"], time["x"]) == (DAY_MS, 100)
    assert 0 <= time["to_ms"] - NOW < GRID_MS
    assert time["back"] == {
        "hour": "2026-11-25T09:00:07.000Z",
        "min": "2026-11-25T09:59:07.000Z",
        "round": "0/placement/round/2",
    }
    assert not any(time["on"].values())


def test_steps_on_end_at_the_present(connection: Connection) -> None:
    assert shown(connection, NOW - 90_000)["on"]["min"] == "2026-11-25T09:59:37.000Z"
    assert shown(connection, NOW - 90_000)["on"]["hour"] is None
    assert shown(connection, NOW - 60_000)["on"]["min"] is None


@given(ago=st.integers(0, 40 * DAY_MS))
def test_any_moment_lies_on_the_bar(ago: int) -> None:
    class Nothing:
        def execute(self, *_: object) -> "Nothing":
            return self

        def scalar(self) -> None:
            return None

        def __iter__(self) -> Iterator[Any]:
            return iter(())

    time = bar(0, Nothing(), NOW, Shown(NOW - ago, Nothing(), True))  # type: ignore[arg-type]
    assert time["from_ms"] <= NOW - ago <= time["to_ms"]
    assert 0 <= time["x"] <= 100


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
