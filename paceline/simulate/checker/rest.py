"""Checks that preemption comes to rest where demand has settled. Turns, hosts that are cleared, and work whose slice is
over go on, each for longer than before; what follows from one of these comes soon after it, and nothing else.
"""

from events.codes import Outcome
from events.columns import ints
from events.records.entitlement import PoolAnswered, PreemptionsOrdered, TurnSet
from events.records.lifecycle import JobAccepted, JobChanged, JobPriorityChanged, PreemptionAnswered, RunsEnded
from events.records.placement import CapacityChanged
from paceline.simulate.checker.history import Round, Violation
from paceline.simulate.checker.rules import CLEAR

REST_MS = 2 * 3_600_000
"""So long after the last change of demand orders may follow from it: a run that was displaced too often is asked again
when the hour is over.
"""


class Rest:
    """Follows what changes demand, and orders."""

    def __init__(self) -> None:
        self._changed_ms = 0
        self._late = ""
        self._orders: dict[int, str] = {}
        """Open orders that nothing has led to for long, and what to say if somebody leaves by them."""

    def look(self) -> None:
        """Raises `Violation` where demand has settled and preemption hasn't come to rest."""
        if self._late:
            raise Violation(self._late)

    def round(self, round_: Round) -> None:
        """Takes a round of entitlement."""
        now = round_.now_ms
        for _, _, event, _ in round_.inputs:
            ends = ints(event.outcome).tolist() if isinstance(event, RunsEnded) else []
            if isinstance(event, PreemptionAnswered):
                late = self._orders.pop(event.number, "")
                self._late = late if event.code == "LEFT" else self._late
            changes = isinstance(event, JobAccepted | JobChanged | JobPriorityChanged | CapacityChanged)
            if changes or any(outcome != Outcome.PREEMPTED for outcome in ends):
                self._changed_ms = now
        for event in round_.decisions:
            if isinstance(event, PoolAnswered | TurnSet):
                self._changed_ms = now
            elif isinstance(event, PreemptionsOrdered) and event.for_job:
                self._ordered(event, round_)

    def _ordered(self, event: PreemptionsOrdered, round_: Round) -> None:
        if 1 in ints(event.slice).tolist() or CLEAR in ints(event.way).tolist():
            self._changed_ms = round_.now_ms
        elif round_.now_ms - self._changed_ms > REST_MS:
            since = (round_.now_ms - self._changed_ms) // 1000
            self._orders[event.order] = (
                f"{round_} orders others to leave for {event.for_job}, and demand is settled for {since} s"
            )
