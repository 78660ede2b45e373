"""Whether the group counts on this process: one that has no cells may stand by, or be cut off from its coordinator."""

from typing import Any

from events.kafka_membership import Wait


class Group:
    """Looks at the membership that faust keeps; `wait` says so where the group gives out no cells for long."""

    def __init__(self, wait: Wait) -> None:
        self.joined = False
        """Whether this process has cells, or is a member that was given none."""
        self._wait = wait
        self._asked_again = False

    def look(self, consumer: Any, has_cells: bool) -> None:
        """`consumer` is faust's, which shows none of this but in what it is made of. Raises what ended the task that
        keeps the membership: nobody else is told.
        """
        client = consumer._thread._consumer
        coordinator = None if client is None else client._coordinator
        keeping = None if coordinator is None else coordinator._coordination_task
        if keeping is not None and keeping.done() and not keeping.cancelled() and (error := keeping.exception()):
            raise error
        member = coordinator is not None and coordinator.coordinator_id is not None and coordinator.generation > 0
        if coordinator is not None and member and not self._asked_again:
            # One that comes back is given what it had, and nobody looks whether cells were added meanwhile; the leader
            # of a group who asks again makes it share anew.
            needed = coordinator._rejoin_needed_fut
            self._asked_again = not needed.done()  # done: it joins just now, and would not hear
            if self._asked_again:
                needed.get_loop().call_soon_threadsafe(coordinator.request_rejoin)
        self.joined = has_cells or member
        if self.joined:
            self._wait.over()
        else:
            self._wait.goes_on()
