"""The columns of conditions, taints and devices are what looking at each host alone would say, whatever changes."""

import math
import random

import pytest

from events.conditions import MEETS, exclusive_names, first_unmet, meets, tops
from events.taints import is_tolerated
from processors.placement.constraints import CLOSED, SPARED, Constraints, Request
from processors.state.record_rows import ConstraintRow
from tests.helpers.drawn import seeds

NAMES, VALUES = ("rack", "kernel", "exclusive"), ("r1", "r2", "1.2", "2.0", "10")
OPERATORS = {
    "in": ("r1", "10"),
    "not_in": ("r2",),
    "exists": (),
    "absent": (),
    "greater": ("2",),
    "less": ("10",),
    "version": (">=1.2", "<10"),
    "glob": ("r*", "1*"),
}
TOLERATIONS = ("a", "a=r1", "b=", "c=2.0")
HOST_POOLS = ("shared", "p1", "p2", "p3", "p4")
Host = tuple[dict[str, str], dict[str, str], dict[str, str]]


def drawn_request(draw: random.Random) -> Request:
    conditions: list[ConstraintRow] = []
    for _ in range(draw.randrange(3)):
        parts = draw.choice([0, 0, 2])
        weight = draw.choice([0, 0, 7])
        if parts:
            conditions.append(ConstraintRow("", draw.choice(["any", "all"]), (), parts, weight))
        for _ in range(parts or 1):
            operator = draw.choice(sorted(OPERATORS))
            conditions.append(
                ConstraintRow(draw.choice(NAMES), operator, OPERATORS[operator], 0, 0 if parts else weight)
            )
    tolerations = tuple(sorted(draw.sample(TOLERATIONS, draw.randrange(3))))
    host_pools = tuple(draw.sample(HOST_POOLS, draw.choice([0, 0, 1, 2, 3, 5])))
    return Request(tuple(conditions), tolerations, tuple(draw.sample(["gpu", "x"], draw.randrange(2))), host_pools)


def drawn_values(draw: random.Random, names: tuple[str, ...]) -> dict[str, str]:
    return {name: draw.choice((*VALUES, "")) for name in names if draw.random() < 0.5}


def alone(request: Request, host: Host, host_pool: str) -> tuple[int, int]:
    """The first reason and the rank of a host, by itself."""
    attributes, taints, devices = host
    conditions = request.conditions
    unmet = first_unmet(conditions, attributes)
    if unmet == MEETS and request.host_pools and host_pool not in request.host_pools:
        unmet = len(conditions) + 2
    if unmet == MEETS and not all(is_tolerated(*taint, request.tolerations) for taint in taints.items()):
        unmet = len(conditions)
    mark = attributes.get("exclusive")
    if unmet == MEETS and mark is not None and mark not in exclusive_names(conditions):
        unmet = len(conditions) + 1
    if unmet != MEETS:
        return unmet, CLOSED
    rank = 0
    for at in tops(conditions):
        own = [_hard(each) for each in conditions[at : at + 1 + conditions[at].parts]]
        if first_unmet(own, attributes) != MEETS:
            rank += conditions[at].weight
    rank += SPARED if devices.keys() - {*request.devices} else 0
    if len(request.host_pools) < 2:
        return MEETS, rank
    place = min(request.host_pools.index(host_pool), 3)
    steps = 2 if len(request.host_pools) == 2 else 4
    return MEETS, place * (128 // steps) + min(math.ceil(rank / steps), 128 // steps - 1)


def _hard(condition: ConstraintRow) -> ConstraintRow:
    return ConstraintRow(condition.attribute, condition.operator, condition.values, condition.parts)


@seeds(40, 12)
def test_columns_follow_hosts(seed: int) -> None:
    draw = random.Random(seed)
    columns, hosts, host_pools = Constraints(), list[Host](), list[str]()
    requests = [drawn_request(draw) for _ in range(6)]
    for _ in range(30):
        host = drawn_values(draw, NAMES), drawn_values(draw, ("a", "b", "c")), drawn_values(draw, ("gpu", "x"))
        number = draw.randrange(len(hosts) + 1)
        if number == len(hosts):
            hosts.append(host)
            host_pools.append("shared")
        else:
            hosts[number] = host
        columns.changed(number, *host)
        at = draw.randrange(len(hosts))
        host_pools[at] = draw.choice(HOST_POOLS)
        columns.pooled(at, host_pools[at])
        if len(hosts) > 3 and draw.random() < 0.1:
            columns.changed(len(hosts) - 1, {}, {}, {})
            columns.pooled(len(hosts) - 1, "shared")
            columns.cut(len(hosts) - 1)
            hosts.pop()
            host_pools.pop()
        for request in draw.sample(requests, 3):
            own = columns.of(request)
            found = list(zip(own.unmet.tolist(), own.rank.tolist(), strict=True))
            assert found == [alone(request, *each) for each in zip(hosts, host_pools, strict=True)], request


def test_an_operator_looks_at_a_value_once_however_many_hosts_have_it(monkeypatch: pytest.MonkeyPatch) -> None:
    calls = list[str | None]()

    def counting(condition: ConstraintRow, value: str | None) -> bool:
        calls.append(value)
        return meets(condition, value)

    monkeypatch.setattr("processors.placement.attributes.meets", counting)
    columns, request = Constraints(), Request((ConstraintRow("rack", "glob", ("r*",)),))
    for number in range(1000):
        columns.changed(number, {"rack": f"r{number % 3}"}, {}, {})
    assert (columns.of(request).unmet == MEETS).all()
    assert sorted(map(str, calls)) == ["None", "r0", "r1", "r2"]
