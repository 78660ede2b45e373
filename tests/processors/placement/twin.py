"""Placement as one would write it without numpy: a task at a time, a host at a time. `fill` and `view` must agree."""

from dataclasses import dataclass, field

from events.records.parts import Constraint


def weight_of(largest: int) -> tuple[int, int]:
    """Weight and shift of a kind: by its largest amount, rounded up to four binary digits."""
    unit = 1 << max(largest.bit_length() - 4, 0)
    rounded = max((largest + unit - 1) // unit * unit, 1)
    shift = max(rounded.bit_length() - 20, 0)
    return (2**31 - 1) // (rounded >> shift), shift


@dataclass
class TwinHost:
    name: str
    capacity: tuple[int, int, int, int]
    ports: list[int]
    attributes: dict[str, str]
    load: int = 8
    free: list[int] = field(default_factory=list)
    port_count: int = 0

    def __post_init__(self) -> None:
        self.port_count = len(self.ports)
        self.free = list(self.capacity)


@dataclass
class TwinJob:
    name: str
    tasks: int
    need: tuple[int, int, int, int]
    ports: int = 0
    claims: bool = True
    gang: int = 0
    strategy: str = "pack"
    constraints: tuple[Constraint, ...] = ()
    kept: dict[int, dict[str, tuple[int, int, int, int]]] = field(default_factory=dict)
    """By the first task of a unit, what is kept for it on which host."""


def meets(host: TwinHost, constraints: tuple[Constraint, ...]) -> bool:
    for one in constraints:
        there = one.attribute in host.attributes
        among = there and host.attributes[one.attribute] in one.values
        if not {"in": among, "not_in": not among, "exists": there, "absent": not there}[one.operator]:
            return False
    return True


def place(hosts: list[TwinHost], jobs: list[TwinJob]) -> dict[tuple[str, int], tuple[str, tuple[int, ...]]]:
    """Where each task goes, and its ports; tasks without a place are left out."""
    weights = [weight_of(max(host.capacity[r] for host in hosts)) for r in range(4)]
    found: dict[tuple[str, int], tuple[str, tuple[int, ...]]] = {}
    named = {host.name: host for host in hosts}
    for job in jobs:
        for kept in job.kept.values():
            for name, amounts in kept.items():
                named[name].free = [have - one for have, one in zip(named[name].free, amounts, strict=True)]
    for job in sorted(jobs, key=lambda job: not job.claims):
        mine = dict.fromkeys((host.name for host in hosts), 0)
        units = [(0, job.gang)] if job.gang else []
        units += sorted(((at, 1) for at in range(job.gang, job.tasks)), key=lambda unit: unit[0] not in job.kept)
        for first, size in units:
            placed = _with_own(hosts, job, weights, mine, first, size)
            found |= {(job.name, first + at): place for at, place in enumerate(placed)}
    return found


def _with_own(
    hosts: list[TwinHost], job: TwinJob, weights: list[tuple[int, int]], mine: dict[str, int], first: int, tasks: int
) -> list[tuple[str, tuple[int, ...]]]:
    """As `_together`, for a unit that sees what is kept for it; what it doesn't use of that stays kept."""
    kept = job.kept.get(first, {})
    before = {host.name: list(host.free) for host in hosts}
    for host in hosts:
        host.free = [have + one for have, one in zip(host.free, kept.get(host.name, (0, 0, 0, 0)), strict=True)]
    placed = _together(hosts, job, weights, mine, tasks)
    for host in hosts:
        host.free = [min(have, was) for have, was in zip(host.free, before[host.name], strict=True)]
    return placed


def _together(
    hosts: list[TwinHost], job: TwinJob, weights: list[tuple[int, int]], mine: dict[str, int], tasks: int
) -> list[tuple[str, tuple[int, ...]]]:
    placed: list[tuple[TwinHost, tuple[int, ...]]] = []
    for _ in range(tasks):
        host = _best(hosts, job, weights, mine)
        if host is None:
            for taken, ports in placed:
                mine[taken.name] -= 1
                taken.free = [have + one for have, one in zip(taken.free, job.need, strict=True)]
                taken.ports = sorted([*taken.ports, *ports])
            return []
        mine[host.name] += 1
        host.free = [have - one for have, one in zip(host.free, job.need, strict=True)]
        placed.append((host, tuple(host.ports[: job.ports])))
        host.ports = host.ports[job.ports :]
    return [(host.name, ports) for host, ports in placed]


def unevenness(hosts: list[TwinHost], host: TwinHost, job: TwinJob, weights: list[tuple[int, int]]) -> int:
    """By how much the shares that are used differ with one task more, of what it asks, in 1/1024."""
    shifts = [*(shift for _, shift in weights), weight_of(max(each.port_count for each in hosts))[1]]
    offered, free = [*host.capacity, host.port_count], [*host.free, len(host.ports)]
    shares = []
    for had, have, need, shift in zip(offered, free, [*job.need, job.ports], shifts, strict=True):
        if need:
            shares.append((((had - have + need) >> shift) * (2**30 // max(had >> shift, 1))) >> 20)
    return min(max(shares) - min(shares), 1023) if shares else 0


def _best(hosts: list[TwinHost], job: TwinJob, weights: list[tuple[int, int]], mine: dict[str, int]) -> TwinHost | None:
    best, best_key = None, (0, False, 0, 0)
    for number, host in enumerate(hosts):
        if not meets(host, job.constraints) or len(host.ports) < job.ports:
            continue
        if any(have < one for have, one in zip(host.free, job.need, strict=True)):
            continue
        score = sum((max(have, 0) >> shift) * one for have, (one, shift) in zip(host.free, weights, strict=True))
        spared = host.capacity[3] > 0 and not job.need[3]  # hosts with GPUs come last for work that asks for none
        key = {
            "pack": (0, spared, score, number),
            "spread": (mine[host.name], spared, -score, number),
            "balanced": (0, spared, unevenness(hosts, host, job, weights) << 26 | score >> 10, number),
            "load-aware": (0, spared, host.load << 30 | (2**36 - 1 - score) >> 6, number),
        }[job.strategy]
        if best is None or key < best_key:
            best, best_key = host, key
    return best
