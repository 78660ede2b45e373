"""Whether the group counts on this process: one that has no cells may stand by, or be cut off from its coordinator."""

from typing import Any

from events.kafka_membership import Wait


class Group:
    """Looks at the membership that faust keeps; `wait` says so where the group gives out no cells for long."""

    def __init__(self, wait: Wait) -> None:
        self.joined = False
        """Whether this process has cells, or is a member that was given none."""
        self._wait = wait

    def leave(self, consumer: Any) -> None:
        """The end of `consumer` is to be told to the group: a member that keeps its name is missed only after its
        session, and given what it had when it is back before, though cells were added meanwhile.
        """
        client = getattr(consumer._thread, "_consumer", None)  # none before it has begun
        if client is not None and client._coordinator is not None:
            client._coordinator._group_instance_id = None

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
        self.joined = has_cells or member
        if self.joined:
            self._wait.over()
        else:
            self._wait.goes_on()
