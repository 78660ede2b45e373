"""Whether a process of `paceline up` has its cell, and what it runs only while it has."""

import time
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from typing import TYPE_CHECKING

from events.log.port import LogUnavailable
from hostagent.agent import Agent
from hostagent.agent_settings import AgentSettings
from hostagent.gateway.component import Gateway
from paceline.output import note
from processors.runtime.in_process import Component

if TYPE_CHECKING:
    from events.log.kafka.membership import Membership

KAFKA_LOOK_S = 1.0
"""So often a process that waits for its cell looks whether another still has it."""


class KafkaOwnership:
    """Whether the group of the cell gives it to this process: polled as a component, asked by the processors.

    It joins once nobody else is there. The group gives the cell to members by name, so one that joined beside the
    owner could be given it in the middle of its work.

    `join` makes the membership; `other` names who is in the group, empty: nobody, or an earlier life of this process.
    """

    def __init__(self, join: Callable[[], "Membership"], other_owner: Callable[[], str], cell: int) -> None:
        self._join = join
        self._other_owner = other_owner
        self._cell = cell
        self._membership: Membership | None = None
        self._is_owner = False
        self._next = 0.0
        self._waits = False

    def is_owner(self) -> bool:
        """Whether the cell is assigned to this process."""
        return self._is_owner

    def step(self) -> bool:
        """Looks whether it may join, then keeps the membership going."""
        if time.monotonic() < self._next:
            return False
        if self._membership is None and not self._may_join():
            self._next = time.monotonic() + KAFKA_LOOK_S
            return False
        self._membership = self._membership or self._join()
        cells = self._membership.cells()
        owned, self._is_owner = self._is_owner, self._cell in (cells or ())
        self._next = time.monotonic() + (0.5 if self._is_owner else 0.05)
        if cells is not None and not self._is_owner:
            self._wait("another process")
        if self._is_owner and self._waits:
            self._waits = False
            note(f"cell {self._cell} is run by this process now")
        return self._is_owner != owned

    def wait_ms(self) -> int | None:
        """When it wants to look again."""
        return max(0, int((self._next - time.monotonic()) * 1000))

    def close(self) -> None:
        """Leaves the group."""
        if self._membership is not None:
            self._membership.close()

    def _may_join(self) -> bool:
        try:
            other_owner = self._other_owner()
        except LogUnavailable:  # the log says so itself
            return False
        if other_owner:
            self._wait(other_owner)
        return not other_owner

    def _wait(self, other_owner: str) -> None:
        if not self._waits:
            self._waits = True
            note(f"waiting for the cell: {other_owner} has it. Until that one ends, this process only serves the API.")


class WhileOwned:
    """Gateway, simulated hosts and agent: they begin once `owns` holds, and pause while it doesn't. A process that has
    no cell must not speak for hosts: another one serves them, and would lose them and their runs.
    """

    def __init__(self, gateway: Gateway, other_components: Sequence[Component], is_owner: Callable[[], bool]) -> None:
        self._gateway = gateway
        self._parts: Sequence[Component] = [gateway, *other_components]
        self._is_owner = is_owner

    def step(self) -> bool:
        """Steps them in turn."""
        if not self._is_owner():
            self._gateway.serving = False  # agents are turned away at once, nothing piles up
            return False
        busy = False
        for part in self._parts:
            busy = part.step() or busy
        return busy

    def wait_ms(self) -> int | None:
        """When one of them wants to be stepped."""
        waits = [part.wait_ms() for part in self._parts] if self._is_owner() else []
        return min((wait for wait in waits if wait is not None), default=None)

    def close(self) -> None:
        """Closes them, the last first."""
        with ExitStack() as closing:
            for part in self._parts:
                closing.callback(part.close)


class LocalAgent:
    """The agent of this machine, in a thread of its own from the first step on."""

    def __init__(self, settings: AgentSettings) -> None:
        """Raises `AgentFault` where another agent has folder or ports."""
        self.remaining_runs = 0
        """The number of runs that go on after its end."""
        self._agent = Agent(settings, note)
        self._agent.take()
        self._begun = False

    def step(self) -> bool:
        """Begins."""
        if not self._begun:
            self._begun = True
            self._agent.start()
        return False

    def wait_ms(self) -> int | None:
        """It has a thread."""
        return None

    def close(self) -> None:
        """Ends it; runs go on."""
        self.remaining_runs = self._agent.stop()
