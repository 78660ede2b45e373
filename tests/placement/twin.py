"""Placement as one would write it without numpy: a task at a time, a host at a time. `fill` and `view` must agree."""

from dataclasses import dataclass, field

from events.records.parts import Constraint

SCALE = 1 << 40


@dataclass
class TwinHost:
    name: str
    capacity: tuple[int, int, int, int]
    ports: list[int]
    attributes: dict[str, str]
    free: list[int] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.free = list(self.capacity)


@dataclass
class TwinJob:
    name: str
    tasks: int
    need: tuple[int, int, int, int]
    ports: int = 0
    priority: int = 0
    gang: int = 0
    spread: bool = False
    constraints: tuple[Constraint, ...] = ()


def meets(host: TwinHost, constraints: tuple[Constraint, ...]) -> bool:
    for one in constraints:
        there = one.attribute in host.attributes
        among = there and host.attributes[one.attribute] in one.values
        if not {"in": among, "not_in": not among, "exists": there, "absent": not there}[one.operator]:
            return False
    return True


def place(hosts: list[TwinHost], jobs: list[TwinJob]) -> dict[tuple[str, int], tuple[str, tuple[int, ...]]]:
    """Where each task goes, and its ports; tasks without a place are left out."""
    weights = [SCALE // max(1, max(host.capacity[r] for host in hosts)) for r in range(4)]
    found: dict[tuple[str, int], tuple[str, tuple[int, ...]]] = {}
    for _, job in enumerate(jobs):
        mine = dict.fromkeys((host.name for host in hosts), 0)
        gang = _together(hosts, job, weights, mine, job.gang)
        tasks = dict(enumerate(gang)) if gang else {}
        for instance in range(job.gang, job.tasks):
            placed = _together(hosts, job, weights, mine, 1)
            if not placed:
                break
            tasks[instance] = placed[0]
        found |= {(job.name, instance): place for instance, place in tasks.items()}
    return found


def _together(
    hosts: list[TwinHost], job: TwinJob, weights: list[int], mine: dict[str, int], tasks: int
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


def _best(hosts: list[TwinHost], job: TwinJob, weights: list[int], mine: dict[str, int]) -> TwinHost | None:
    best, best_key = None, (0, 0, 0)
    for number, host in enumerate(hosts):
        if not meets(host, job.constraints) or len(host.ports) < job.ports:
            continue
        if any(have < one for have, one in zip(host.free, job.need, strict=True)):
            continue
        score = sum(have * weight for have, weight in zip(host.free, weights, strict=True))
        key = (mine[host.name], -score, number) if job.spread else (0, score, number)
        if best is None or key < best_key:
            best, best_key = host, key
    return best
