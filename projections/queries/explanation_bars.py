"""The numbers of a reason as bars: what is asked, what is held, and what the bound is."""

import re
from collections.abc import Mapping
from typing import Any, NamedTuple

_SIZE = re.compile(r"(\d+)(MiB|GiB|TiB)")
_FACTORS = {"MiB": 1, "GiB": 1 << 10, "TiB": 1 << 20}
BOUNDS = ("limit", "reserved", "entitlement")
"""The names of bounds of a resource in a reason; the first that it has counts."""


class Measure(NamedTuple):
    """One resource of a reason. Percents are of the width of the bar; amounts are as users write them, empty where the
    reason doesn't name one.
    """

    name: str
    short: bool
    asked: str
    held: str
    free: str
    bound: str
    bound_name: str
    held_percent: float
    asked_percent: float
    bound_percent: float


def measures(reason: Mapping[str, Any]) -> list[Measure]:
    """The resources that a reason tells what is asked of, and out of what; none where it names no bound."""
    bound_name = next((name for name in BOUNDS if reason.get(name)), "")
    if not reason.get("asked") or not bound_name:
        return []
    return [_measure(name, reason, bound_name) for name in reason["asked"]]


def _measure(name: str, reason: Mapping[str, Any], bound_name: str) -> Measure:
    asked, held, bound = reason["asked"][name], (reason.get("allocated") or {}).get(name), reason[bound_name].get(name)
    wanted, has, most = (_number(each) for each in (asked, held or 0, bound or 0))
    whole = max(has + wanted, most) * 1.04 or 1.0
    free = max(0.0, most - has) if bound is not None and held is not None else None
    return Measure(
        name,
        bound is not None and has + wanted > most,
        str(asked),
        "" if held is None else str(held),
        "" if free is None else _text(free, asked),
        "" if bound is None else str(bound),
        bound_name,
        has / whole * 100,
        wanted / whole * 100,
        most / whole * 100,
    )


def _number(amount: float | str) -> float:
    """An amount of the API as a number: of a size its MiB."""
    if isinstance(amount, str):
        match = _SIZE.fullmatch(amount)
        return int(match[1]) * _FACTORS[match[2]] if match else 0.0
    return amount


def _text(number: float, like: float | str) -> str:
    if not isinstance(like, str):
        return f"{number:.3f}".rstrip("0").rstrip(".")
    unit = next((unit for unit in ("TiB", "GiB") if number and number % _FACTORS[unit] == 0), "MiB")
    return f"{number / _FACTORS[unit]:.0f}{unit}"
