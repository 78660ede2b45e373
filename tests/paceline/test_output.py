"""Tables on terminals: whole where they fit, shortened in the middle where not even one row would stay a line."""

import json

import pytest

from paceline.output import fitted, plain

ROWS = [["JOB", "STATE", "TASKS"], ["tiles-2026-11-27-europe-west-1f0c", "RUNNING", "3"], ["web", "PENDING", "1"]]


def width(row: list[str]) -> int:
    return sum(map(len, row)) + 2 * (len(row) - 1)


@pytest.mark.parametrize("columns", [36, 40, 48])
def test_rows_fit_a_narrow_terminal_and_names_keep_both_ends(columns: int) -> None:
    rows = fitted(ROWS, columns)
    assert max(map(width, rows)) <= columns
    name = rows[1][0]
    assert (name[:5], name[-5:], "…" in name) == ("tiles", "-1f0c", True)
    assert rows[2] == ROWS[2]


def test_a_table_that_fits_is_whole_and_one_that_never_fits_keeps_something_of_each_name() -> None:
    assert fitted(ROWS, 60) == ROWS
    assert fitted(ROWS, 5)[1] == ["tiles-…-1f0c", "RUNNING", "3"]


@pytest.mark.parametrize("character", "\u200b\u200e\u202e\u3164\ufeff\u00ad\U000e0041\ud800\x1b")
def test_what_a_terminal_would_not_show_is_written_as_its_escape_in_json(character: str) -> None:
    shown = plain(f"a{character}b")
    assert shown.isascii()
    assert json.loads(f'"{shown}"') == f"a{character}b"
    assert plain("ä\n\t漢") == "ä\n\t漢"
