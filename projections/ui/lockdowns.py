"""Lockdowns as every page shows them."""

from events.records.parts import Actor
from projections.actor_names import is_verified, named
from projections.queries.access import lockdowns
from projections.ui.page_values import PageValues
from projections.ui.scene import Scene


def lockdowns_of(scene: Scene) -> list[PageValues]:
    """The lockdowns that concern a reader, of all cells: of what it may read, and of pools above that."""
    return [
        {"cell": number, "pool": pool, "reason": each.reason, "from_ms": each.from_ms, "by": said_by(each.actor)}
        for number, cell in scene.cells.items()
        for pool, each in sorted(lockdowns(cell.connection).items())
    ]


def said_by(actor: Actor | None) -> PageValues | None:
    """The name of an actor, and whether it is known for sure; None: it isn't said."""
    return None if actor is None else {"name": named(actor), "verified": is_verified(actor)}
