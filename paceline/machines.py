"""The four machines of a cell."""

from collections.abc import Callable

from processors.entitlement.machine import Entitlement
from processors.lifecycle.machine import Lifecycle
from processors.machine import Machine
from processors.placement.machine import Placement
from processors.sla.machine import Sla


def machines() -> dict[str, Callable[[], Machine]]:
    """What makes each machine anew, by name, in the order of `events.topics.MACHINES`."""
    return {"lifecycle": Lifecycle, "entitlement": Entitlement, "placement": Placement, "sla": Sla}
