"""Slack: what revocable work of a pool may be entitled to, against the worked cases and the rule as it is written."""

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from events.cell_settings import KindRow
from events.resources import REVOCABLE, Kinds, Vector
from processors.entitlement.rows import PoolRow
from processors.entitlement.shares.slack import slack_of, within_limit
from processors.entitlement.shares.tree import ShareTree

CASES = {
    case["case_id"]: case for case in json.loads((Path(__file__).parents[1] / "cases" / "entitlement.json").read_text())
}
KINDS = Kinds([KindRow(REVOCABLE, "milli", None)])
RESOURCES = ("cpu", "memory", "disk", "gpu")
ON_SLACK = 4


def amount(values: dict[str, float], on_slack: bool = False) -> Vector:
    """Amounts of records; of revocable work its CPU is slack."""
    cores, memory, disk, devices = (values.get(name, 0) for name in RESOURCES)
    cpu = int(cores * 1000)
    return (0 if on_slack else cpu, int(memory), int(disk), int(devices * 1000), cpu if on_slack else 0)


def plus(*amounts: Vector) -> Vector:
    return tuple(map(sum, zip(*amounts, strict=True)))


@pytest.mark.parametrize("name", ["derived_slack_limit_10_percent", "slack_demand_exceeds_capacity"])
def test_worked_cases(name: str) -> None:
    """Theirs spreads head-room over idle pools too, so that only what pools want is compared."""
    case: dict[str, Any] = CASES[name]
    tree, rows, regular = ShareTree(KINDS), dict[str, PoolRow](), dict[str, Vector]()
    for pool in case["pools"]:
        path, parts = pool["path"], pool["resources"]
        reservation, share = (
            amount({kind: row[field] for kind, row in parts.items()}) for field in ("reservation", "share")
        )
        percent = pool["slack_limit_percent"]
        rows[path] = PoolRow(reservation, (-1,) * 5, (1,) * 5, slack_percent=20 if percent is None else int(percent))
        assert share[1] == 1
        tree.define(path, rows[path])
        given_work = case["inputs"].get(path, {})
        held = given_work.get("allocation", {}).get("slack", {})
        revocable = plus(amount(given_work.get("slack_demand", {}), True), amount(held, True))
        regular[path] = amount(given_work.get("demand", {}))
        tree.set_want(path, plus(regular[path], within_limit(rows[path], revocable, ON_SLACK)))
    tree.set_capacity(plus(amount(case["cluster_capacity"]), amount(case["cluster_slack_capacity"], True)))
    for path in case["inputs"]:
        theirs = case["reference_values"][path]["slack_entitlement"]
        ours = slack_of(rows[path], tree.entitlement(path), regular[path], ON_SLACK)
        assert ours[1:3] == (theirs["memory"], theirs["disk"]), path
        assert abs(ours[ON_SLACK] - theirs["cpu"] * 1000) < 2, path


AMOUNTS = st.lists(st.integers(0, 50), min_size=5, max_size=5).map(tuple)


@given(AMOUNTS, AMOUNTS, AMOUNTS, AMOUNTS, st.integers(0, 100))
def test_slack_is_what_is_written(
    entitled: Vector, regular: Vector, revocable: Vector, reservation: Vector, percent: int
) -> None:
    """By kind: at most a part of the reservation, and what other work leaves; beside it that work has the rest."""
    row = PoolRow((*reservation[:4], 0), (-1,) * 5, (1,) * 5, slack_percent=percent)
    slack = slack_of(row, entitled, regular, ON_SLACK)
    for kind in range(4):
        most = reservation[kind] * percent // 100 if reservation[kind] else 10**9
        need = min(most, revocable[kind])
        assert min(slack[kind], revocable[kind]) == max(0, min(entitled[kind] - regular[kind], need))
        assert slack[kind] == 0 or slack[kind] + regular[kind] <= entitled[kind]
    assert slack[ON_SLACK] == entitled[ON_SLACK]
