"""Amounts of resources as pages show them: numbers of one unit, so that a column can be compared."""

from events.resources import Unit

GIB = 1024


def shown(value: int, unit: Unit) -> str:
    """An amount in cores, devices or GiB: 12,345.5. Cores are exact, GiB to a tenth from 100 on."""
    whole = value / (GIB if unit is Unit.MIB else 1000)
    return f"{whole:,.{1 if unit is Unit.MIB and whole >= 100 else 3}f}".rstrip("0").rstrip(".")


def titled(name: str, unit: Unit) -> str:
    """The head of a column of amounts."""
    return f"{name} GiB" if unit is Unit.MIB else name


def with_unit(value: int, unit: Unit) -> str:
    """An amount beside the name of its resource: 16, 64 GiB."""
    return f"{shown(value, unit)} GiB" if unit is Unit.MIB else shown(value, unit)


def percent(part: int, whole: int) -> float:
    """So much of a whole, for bars; more than all is all."""
    return round(min(100.0, 100 * part / whole), 2) if whole > 0 else 0.0
