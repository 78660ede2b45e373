"""Checks orders to preempt: each has one answer, which says what became of its runs, and those that it says stay aren't
preempted by that order.
"""

from collections.abc import Callable

from events.codes import Outcome
from events.columns import ints
from events.records.base import Event
from events.records.entitlement import PreemptionsOrdered
from events.records.lifecycle import JobsForgotten, PreemptionAnswered, RunsEnded, RunsStopping
from paceline.simulate.checker.history import Round, Violation
from paceline.simulate.checker.items import Task, runs_of

Run = tuple[Task, int]


class Preemptions:
    """Follows orders and their answers. `is_over`: whether a run is over, as lifecycle has decided."""

    def __init__(self, is_over: Callable[[Task, int], bool]) -> None:
        self._is_over = is_over
        self._open: dict[tuple[str, int, int], list[Run]] = {}
        self._kept_runs: set[Run] = set()
        """Runs of orders that sla has deferred: none of them leaves, unless another order names it."""
        self._stopped: set[Run] = set()
        """Runs that were told to stop as preempted."""

    def take_orders(self, round_: Round) -> None:
        """Takes a round of another machine."""
        for index, event in enumerate(round_.decisions):
            if isinstance(event, PreemptionsOrdered):
                self._open[round_.machine, round_.number, index] = [*runs_of(event)]

    def round(self, round_: Round) -> None:
        """Takes a round of lifecycle. Raises `Violation`."""
        for _, _, event, _ in round_.inputs:
            if isinstance(event, PreemptionsOrdered):
                self._kept_runs.difference_update(runs_of(event))
        for event in round_.decisions:
            self._decided(event, round_)

    def settled(self) -> None:
        """For a cell that has nothing left to do. Raises `Violation` where an order has no answer."""
        if self._open:
            raise Violation(f"the cell is at rest: orders to preempt {[*self._open][:3]} have no answer")

    def _decided(self, event: Event, round_: Round) -> None:
        match event:
            case PreemptionAnswered():
                self._answered(event, round_)
            case RunsStopping():
                for run, cause in zip(runs_of(event), ints(event.cause).tolist(), strict=True):
                    if cause == Outcome.PREEMPTED and run in self._kept_runs:
                        raise Violation(f"{round_} preempts {run[0]} run {run[1]}, which its order's answer says stays")
                    if cause == Outcome.PREEMPTED:
                        self._stopped.add(run)
            case RunsEnded() | JobsForgotten() if self._kept_runs:
                self._kept_runs = {each for each in self._kept_runs if not self._is_over(*each)}

    def _answered(self, event: PreemptionAnswered, round_: Round) -> None:
        at = (event.order.machine, event.order.round, event.order.index)
        if at not in self._open:
            raise Violation(f"{round_} answers the order to preempt {at}, which is answered or nobody has given")
        runs, deferred = self._open.pop(at), {*runs_of(event)}
        stays = [run for run in runs if not self._is_over(*run)]
        if event.code == "LEFT" and stays:
            raise Violation(f"{round_} says that all runs of the order {at} have left, and {stays[:3]} are not over")
        if not deferred <= {*stays} or (event.code == "DEFERRED") != bool(deferred):
            raise Violation(f"{round_} answers the order {at} {event.code} with {sorted(deferred)[:3]}")
        if event.code == "DEFERRED":
            stopped = [run for run in runs if run in self._stopped]
            if stopped:
                raise Violation(f"{round_} defers the order {at}, of which {stopped[:3]} were told to stop")
            self._kept_runs |= {*stays}
        self._stopped.difference_update(runs)
