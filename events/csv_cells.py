"""Cells of CSV files that people open in spreadsheets."""

from typing import Any

_FORMULA = tuple("=+-@\t\r\n＝＋－＠")


def harmless(value: Any) -> Any:
    """A cell; text that a spreadsheet would take for a formula begins with an apostrophe."""
    return f"'{value}" if isinstance(value, str) and value.lstrip(" ").startswith(_FORMULA) else value
