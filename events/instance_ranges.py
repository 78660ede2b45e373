"""Instances as people write them: `0-9,12` is the first ten and instance 12."""

import re
from collections.abc import Iterable

PATTERN = r"^\d{1,9}(-\d{1,9})?(,\d{1,9}(-\d{1,9})?)*$"
_PART = re.compile(r"(\d+)(?:-(\d+))?")


def read_ranges(text: str) -> list[tuple[int, int]]:
    """The ranges in a text that matches `PATTERN`, each as its first instance and how many. Raises `ValueError` where
    one ends before it begins.
    """
    ranges = []
    for first, last in _PART.findall(text):
        count = int(last or first) - int(first) + 1
        if count < 1:
            raise ValueError(f"{first}-{last} ends before it begins; write {last}-{first}")
        ranges.append((int(first), count))
    return ranges


def write_ranges(ranges: Iterable[tuple[int, int]]) -> str:
    """The text of ranges, each given as its first instance and how many."""
    return ",".join(str(first) if count == 1 else f"{first}-{first + count - 1}" for first, count in ranges)
