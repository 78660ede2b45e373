"""The units of a time that users write; commands read them without loading what reads whole jobs."""

import re

MS_OF_UNIT = {"ms": 1, "s": 1000, "m": 60_000, "h": 3_600_000, "d": 86_400_000}
"""Milliseconds of each unit, the smallest first. A day has 24 hours: in no zone and on no calendar."""
_SPAN = re.compile(rf"([0-9]{{1,9}}(?:\.[0-9]{{1,9}})?)({'|'.join(MS_OF_UNIT)})", re.ASCII)


def span_s(text: str) -> float | None:
    """The seconds of a time with a unit; None where the text is none."""
    match = _SPAN.fullmatch(text)
    return float(match[1]) * MS_OF_UNIT[match[2]] / 1000 if match else None
