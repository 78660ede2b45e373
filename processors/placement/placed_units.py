"""Hosts for a unit whose tasks ask several things, by a look at all hosts."""

from collections.abc import Sequence

from events.columns import I64
from processors.placement.gang_search import Part, Ports, in_turn, together
from processors.placement.packing import Weights


def places(
    free: I64, weight: Weights, parts: Sequence[Part], ports: Ports, level: I64 | None, score: I64
) -> list[I64] | None:
    """Hosts for all tasks of a unit, or None. Changes nothing. Where tasks of several shapes must have the same port,
    those that ask most go first, and the others elsewhere; other ways aren't looked for.
    """
    by_part = together(free, weight, parts, level, score).hosts
    if by_part is None or not _meet(ports, by_part):
        return by_part
    largest = sorted(range(len(parts)), key=lambda at: -parts[at].score)
    by_part = in_turn(free, weight, parts, level, largest, ports)
    whole = all(len(hosts) == part.size for hosts, part in zip(by_part, parts, strict=True))
    return by_part if whole else None


def _meet(ports: Ports, by_part: Sequence[I64]) -> bool:
    """Whether tasks would have the same fixed port on a host."""
    fixed = [
        (port, host)
        for numbers, hosts in zip(ports, by_part, strict=True)
        for port in numbers
        for host in hosts.tolist()
    ]
    return len(set(fixed)) < len(fixed)
