"""The words of reasons for amounts and hosts."""

from collections.abc import Mapping
from typing import Any

from events.codes import Code
from events.quantities import write_amount
from events.reasons import kind_of
from events.resources import Amounts, Kinds, Unit, in_order
from events.words import plural, why_not
from projections.queries.reason import count_tasks

LARGE_MIB = 100 * 1024
"""From so many MiB on a tenth of a GiB is near enough."""


def amount(name: str, value: int, kinds: Kinds) -> str:
    """An amount of a resource in words: `2 cpu`, `4GiB memory`."""
    unit = kinds.units.get(name, Unit.MILLI)
    if unit is Unit.MIB and value >= LARGE_MIB and value % 1024:
        return f"{value / 1024:.1f}GiB {name}"
    return f"{write_amount(value, unit)} {name}"


def amounts(of: Mapping[str, int], kinds: Kinds) -> str:
    """Amounts in words, those that are 0 left out."""
    return ", ".join(amount(name, value, kinds) for name, value in in_order(dict(of)).items() if value) or "nothing"


def short(want: Amounts, room: Mapping[str, int]) -> list[str]:
    """The resources of which more is asked than there is room for; what `room` leaves out isn't bounded."""
    return [name for name, most in in_order(want).items() if name in room and most > room[name]]


def beyond(want: Amounts, have: Amounts, bound: Mapping[str, int]) -> list[str]:
    """The resources in which what is asked goes beyond a bound with what is held."""
    return [name for name, most in in_order(want).items() if name in bound and have.get(name, 0) + most > bound[name]]


def bound_text(names: list[str], want: Amounts, used: Amounts, bound: Mapping[str, int], kinds: Kinds) -> str:
    """Tells how much of a bound is held, and what is asked beyond it: ` (4 of 4 cpu held, 1 asked)`."""

    def one(name: str) -> str:
        unit = kinds.units.get(name, Unit.MILLI)
        have, most, more = (write_amount(each.get(name, 0), unit) for each in (used, bound, want))
        if used.get(name, 0) > bound.get(name, 0):
            return f"{have} {name} held, more than the {most} of now, {more} asked"
        return f"{have} of {most} {name} held, {more} asked"

    return f" ({'; '.join(map(one, names))})" if names else ""


def funnel(numbers: Mapping[str, Any], kinds: Kinds) -> str:
    """Tells how many hosts failed for which reason, and the one that lacked least."""
    hosts = numbers.get("hosts_considered")
    if not hosts:
        return ""
    counts = why_not(numbers.get("hosts_by_reason", {}))
    text = f" (of {hosts:,} host{'s' * (hosts != 1)} {counts})" if counts else f" ({plural(hosts, 'host')} looked at)"
    for near in numbers.get("nearest", ())[:1]:
        if not (near["lacks"] or near.get("devices") or "ports" in numbers.get("hosts_by_reason", {})):
            break  # it holds one task: the others lack what that one would take
        lacks = ", ".join(amount(name, value, kinds) for name, value in near["lacks"].items() if value > 0)
        short_of = f"short of {lacks or 'ports'}" if lacks or not near.get("devices") else near["devices"]
        text += f"; nearest {near['host_id']}, {short_of}"
    return text


def bound_host_text(tasks: int, numbers: Mapping[str, Any], kinds: Kinds) -> str:
    """Why tasks that may run on one host alone don't: the first hosts, and what is the matter with these. Some tasks
    may have got their places since it was said.
    """
    nearest, by_reason = numbers.get("nearest", ())[:tasks], numbers.get("hosts_by_reason", {})
    hosts = min(tasks, numbers.get("hosts_considered", 0))
    names = ", ".join(near["host_id"] for near in nearest)
    names += f" and {hosts - len(nearest):,} more" * (hosts > len(nearest))
    counts = why_not(by_reason, sum(by_reason.values()) <= hosts and hosts > 1)
    lacks = {name: value for name, value in nearest[0]["lacks"].items() if value > 0} if len(nearest) == 1 else {}
    short_of = f", short of {amounts(lacks, kinds)}" if lacks and "lost" not in by_reason else ""
    where = "on one host each" if hosts > 1 else f"on {names or 'a host that is gone'} alone"
    which = f"{names}: " * (hosts > 1)
    words = {"where": where, "hosts": which + (counts or "gone"), "short_of": short_of}
    return kind_of(Code.BOUND_HOST_BUSY).sentence.format(tasks=count_tasks(tasks), **words)
