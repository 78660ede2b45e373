"""The four machines of a cell."""

from collections.abc import Callable
from functools import partial

from processors.entitlement.machine import Entitlement
from processors.lifecycle.machine import Lifecycle
from processors.machine import Machine
from processors.placement.machine import Placement
from processors.sla.machine import Sla


def machines(cell: int = 0) -> dict[str, Callable[[], Machine]]:
    """Factories of the machines of a cell, by name, in the order of `events.topics.MACHINES`. Replay makes them of the
    cell whose log it reads.
    """
    return {
        "lifecycle": partial(Lifecycle, cell),
        "entitlement": partial(Entitlement, cell),
        "placement": Placement,
        "sla": Sla,
    }
