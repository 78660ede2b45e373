"""Whether the group counts on this process: one that has no cells may stand by, or be cut off from its coordinator."""

import asyncio
from time import monotonic
from typing import Any

from aiokafka.errors import (
    GroupAuthorizationFailedError,
    InconsistentGroupProtocolError,
    InvalidGroupIdError,
    InvalidSessionTimeoutError,
)

from events.log.kafka.membership import Wait
from events.topics import FANOUT_GROUP

AGAIN_S = 1.0
SHARING_S = 300.0
"""Seconds that a rebalance of the group may take."""
_FINAL = (
    GroupAuthorizationFailedError,
    InconsistentGroupProtocolError,
    InvalidGroupIdError,
    InvalidSessionTimeoutError,
)


async def join_again(coordinator: Any, error: Exception) -> None:
    """Replaces the reaction of aiokafka's `coordinator` to an answer of the group that it doesn't know, such as a
    broker gives that is about to end: it joins again. As it comes it keeps the error for who asks for it next, which
    faust never does, and the group is followed no more. Raises what won't be otherwise the next time: `Group.look`
    finds that.
    """
    if isinstance(error, _FINAL):
        raise error
    await asyncio.wait([coordinator._closing], timeout=AGAIN_S)
    coordinator.coordinator_dead()
    coordinator.reset_generation()


def remedy(error: BaseException) -> str:
    """The advice to an operator about an error that ended the membership."""
    if isinstance(error, GroupAuthorizationFailedError):
        return f"Give its user the right to read group {FANOUT_GROUP}, with `kafka-acls.sh`."
    return "Start it again."


class Group:
    """Looks at the membership that faust keeps; `wait` says so where the group gives out no cells for long."""

    def __init__(self, wait: Wait) -> None:
        self.joined = False
        """Whether this process has cells, or is a member that was given none."""
        self._wait = wait
        self._settled_at = monotonic()

    def leave(self, consumer: Any) -> None:
        """The end of `consumer` is to be told to the group: a member that keeps its name is missed only after its
        session, and given what it had when it is back before, though cells were added meanwhile.
        """
        client = getattr(consumer._thread, "_consumer", None)  # none before it has begun
        if client is not None and client._coordinator is not None:
            client._coordinator._group_instance_id = None

    def look(self, consumer: Any, has_cells: bool, sharing: bool) -> None:
        """`consumer` is faust's, which shows none of this but in what it is made of; `sharing`: the group rebalances.
        Raises what ended the task that keeps the membership, nobody else is told; and where faust has lost its way in
        the sharing: it isn't done for long though the group is.
        """
        client = consumer._thread._consumer
        if not sharing or (client is not None and client._subscription.reassignment_in_progress):
            self._settled_at = monotonic()
        elif monotonic() - self._settled_at > SHARING_S:
            raise TimeoutError(f"the cells have been shared anew for {SHARING_S:.0f} s")
        coordinator = None if client is None else client._coordinator
        keeping = None if coordinator is None else coordinator._coordination_task
        if keeping is not None and keeping.done() and not keeping.cancelled() and (error := keeping.exception()):
            raise error.__cause__ or error
        member = coordinator is not None and coordinator.coordinator_id is not None and coordinator.generation > 0
        self.joined = has_cells or (member and (self.joined or not sharing))
        if self.joined:
            self._wait.assigned()
        else:
            self._wait.unassigned()
