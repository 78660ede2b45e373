"""A dry run of pools lets in what the bounds of the machine do."""

from types import SimpleNamespace
from typing import Any

from events.records.parts import ResourceKind
from events.resources import Kinds
from processors.entitlement.pools import Entry, Tree
from processors.entitlement.rows import PoolRow
from projections.queries.pool_outlook import Known, Outlook, Work

SEATS = ResourceKind("licence/maps", amount=3)


def test_no_more_is_let_in_than_there_are_licences() -> None:
    kinds = Kinds((SEATS,))
    need = kinds.vector({"cpu": 1, SEATS.name: 1})
    free = PoolRow((0,) * len(kinds), (-1,) * len(kinds), (1,) * len(kinds))
    tree = Tree(0, kinds, [Entry("/", free), Entry("/a", free)])

    def work(number: int, waiting: int, holding: int) -> Work:
        row: Any = SimpleNamespace(job_id=f"j{number}", pool="/a", gang_min=0, priority=0, number=number, kind="batch")
        return Work(row, need, waiting, holding)

    shared = kinds.vector({"cpu": 100, SEATS.name: 100})
    known = Known(kinds, shared, [work(0, 0, 1), work(1, 5, 0)], {}, lambda each: False)
    assert Outlook(tree, known).lets_in == {"j1": 2}
