"""A decision as it was recorded beside the one in its place."""

from collections.abc import Sequence

from paceline.output import Column, table


def sides(rows: Sequence[tuple[str, str, str, str]], title: str, decided: str = "DECIDED AGAIN") -> None:
    """Prints both sides of what differs, a line for each field."""
    table(
        rows,
        [
            Column("", lambda row: row[0] or " "),
            Column(title, lambda row: row[1]),
            Column("RECORDED", lambda row: row[2]),
            Column(decided, lambda row: row[3]),
        ],
    )
