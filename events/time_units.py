"""The units of a time that users write; commands read them without loading what reads whole jobs."""

MS_OF_UNIT = {"ms": 1, "s": 1000, "m": 60_000, "h": 3_600_000, "d": 86_400_000}
"""Milliseconds of each unit, the smallest first. A day has 24 hours: in no zone and on no calendar."""
