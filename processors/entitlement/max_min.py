"""Exact weighted max-min sharing over the pool tree, in integers, each resource by itself.

Bertsekas and Gallager, Data Networks, 6.5.2 (max-min fair allocation by progressive filling), with weights as in
Demers, Keshav and Shenker (1989). Reservations come first; the rest of a pool goes to its children by share until each
has what it wants or nothing is left. Nobody can get more without another, who has less for its weight, getting less.
"""

from collections.abc import Sequence

from events.resources import Vector


def fill(total: int, wants: Sequence[int], weights: Sequence[int]) -> list[int]:
    """Divides `total` among wants by weights: the smallest want for its weight is met first; what can't be divided
    evenly goes, unit by unit, to the largest remainders, in the order given. Weight 0 gets nothing.
    """
    given = [0] * len(wants)
    active = [at for at, want in enumerate(wants) if want > 0 and weights[at] > 0]
    if not active:
        return given
    # Two different wants for their weights differ by at least 1 / max(weights)^2: scaled so, the floor keeps the order.
    scale = max(weights) ** 2
    active.sort(key=lambda at: wants[at] * scale // weights[at])
    weight = sum(weights[at] for at in active)
    left = total
    met = 0
    for at in active:
        if wants[at] * weight > left * weights[at]:
            break
        given[at] = wants[at]
        left -= wants[at]
        weight -= weights[at]
        met += 1
    active = active[met:]
    exact = left
    for at in active:
        given[at] = exact * weights[at] // weight
        left -= given[at]
    by_remainder = sorted(active, key=lambda at: (-(exact * weights[at] % weight), at))
    for at in by_remainder[:left]:
        given[at] += 1
    return given


def entitlements(
    parents: Sequence[int],
    reservation: Sequence[Vector],
    limit: Sequence[Vector],
    share: Sequence[Vector],
    demand: Sequence[Vector],
    capacity: Vector,
) -> list[Vector]:
    """What each pool may use now.

    Parents come before their children, siblings by path; pool 0 is the root. `demand` is that of the pools themselves;
    what is below is added, each capped by its limit (-1: none). Children together never exceed their parent.
    """
    below: list[list[int]] = [[] for _ in parents]
    for pool, parent in enumerate(parents[1:], 1):
        below[parent].append(pool)
    inputs = (reservation, limit, share, demand)
    kinds = (
        _one(parents, below, [[row[at] for row in rows] for rows in inputs], total) for at, total in enumerate(capacity)
    )
    return list(zip(*kinds, strict=True))


def _one(
    parents: Sequence[int], below: Sequence[Sequence[int]], inputs: Sequence[Sequence[int]], total: int
) -> list[int]:
    """The entitlements in one resource."""
    reservation, limit, share, demand = inputs
    wants = list(demand)
    for pool in range(len(parents) - 1, 0, -1):
        wants[pool] = max(0, wants[pool] if limit[pool] < 0 else min(wants[pool], limit[pool]))
        wants[parents[pool]] += wants[pool]
    given = [total] + [0] * (len(parents) - 1)
    for pool, children in enumerate(below):
        reserved = [min(wants[child], reservation[child]) for child in children]
        if sum(reserved) > given[pool]:
            reserved = fill(given[pool], reserved, [reservation[child] for child in children])
        rest = [wants[child] - have for child, have in zip(children, reserved, strict=True)]
        more = fill(given[pool] - sum(reserved), rest, [share[child] for child in children])
        for child, have, extra in zip(children, reserved, more, strict=True):
            given[child] = have + extra
    return given
