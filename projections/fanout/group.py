"""Whether the group counts on this process: one that has no cells may stand by, or be cut off from its coordinator."""

from collections.abc import Callable
from time import monotonic
from typing import Any

from events.kafka_membership import WITHOUT_SECONDS, cells_again, no_cells


class Group:
    """Looks at the membership that faust keeps, and says once when the group gives out no cells for long."""

    def __init__(self, bootstrap: str, name: str, say: Callable[[str], None]) -> None:
        self.joined = False
        """Whether this process has cells, or is a member that was given none."""
        self._bootstrap = bootstrap
        self._name = name
        self._say = say
        self._without_since = monotonic()
        self._complained = False

    def look(self, consumer: Any, has_cells: bool) -> None:
        """`consumer` is faust's, which shows none of this but in what it is made of."""
        client = consumer._thread._consumer
        coordinator = None if client is None else client._coordinator
        member = coordinator is not None and coordinator.coordinator_id is not None and coordinator.generation > 0
        self.joined = has_cells or member
        now = monotonic()
        if self.joined:
            self._without_since = now
            if self._complained:
                self._complained = False
                self._say(cells_again(self._bootstrap, self._name))
        elif not self._complained and now > self._without_since + WITHOUT_SECONDS:
            self._complained = True
            self._say(no_cells(self._bootstrap, self._name))
