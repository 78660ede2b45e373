"""A second opinion on a log: what must hold after every round, told without the code of the machines.

checker = Checker(log)
checker.look()      # after each step of the cell, or once at the end
checker.at_rest(ms) # whenever nothing has anything to do at a moment, where clocks are sound: times are judged too
checker.settled()   # when the cell has nothing left to do
"""

from collections.abc import Iterable
from typing import Protocol

from events.log.port import Log
from paceline.simulate.checker.access import Access
from paceline.simulate.checker.avoided import Avoided
from paceline.simulate.checker.beside import Beside
from paceline.simulate.checker.bound import Bound
from paceline.simulate.checker.budgets import Budgets
from paceline.simulate.checker.campaigns import Campaigns
from paceline.simulate.checker.claims import Claims
from paceline.simulate.checker.devices import Devices
from paceline.simulate.checker.health import Health
from paceline.simulate.checker.history import History, Round, Violation
from paceline.simulate.checker.host_pools import Reachable
from paceline.simulate.checker.hosts import Hosts
from paceline.simulate.checker.idle import IDLE_MS, STEPS, Idle
from paceline.simulate.checker.leaving import Leaving
from paceline.simulate.checker.nearness import Nearness
from paceline.simulate.checker.orders import Orders
from paceline.simulate.checker.plans import Plans
from paceline.simulate.checker.pools import Pools
from paceline.simulate.checker.preemptions import Preemptions
from paceline.simulate.checker.reasons import Reasons
from paceline.simulate.checker.rest import Rest
from paceline.simulate.checker.runs import Runs
from paceline.simulate.checker.serving import Serving
from paceline.simulate.checker.shrunk import Shrunk
from paceline.simulate.checker.stages import Stages
from paceline.simulate.checker.strategies import AdmittedStrategies, PlacedStrategies
from paceline.simulate.checker.unplaced import Unplaced
from paceline.simulate.checker.updates import Updates
from paceline.simulate.checker.wanted import Wanted
from paceline.simulate.checker.windows import Windows

__all__ = ["Checker", "Violation"]


LOOK_MS = IDLE_MS // STEPS
"""So often times are judged though nothing has happened."""


class Fold(Protocol):
    """Follows the rounds of a machine, and judges each."""

    def round(self, round_: Round) -> None:
        """Takes the next round. Raises `Violation`."""
        ...


class Checker:
    """Reads a log of one cell forward and raises `Violation` at the first round after which something doesn't hold."""

    def __init__(self, log: Log) -> None:
        self.history = History(log)
        self._log = log
        self._ends: dict[str, int] = {}
        self._looked_ms = 0
        self.rounds = 0
        self.decisions = 0
        self._runs = Runs()
        self._hosts = Hosts()
        self._pools = Pools(self.history, log.cell)
        self._access = Access(self.history)
        self._orders = Orders(self._pools)
        self._reasons = Reasons(self._pools)
        devices = Devices()
        self._plans = Plans(self._hosts, self._pools, devices)
        self._serving = Serving(self._hosts, self._plans, self._pools)
        self._rest = Rest()
        self._idle = Idle(self._hosts, self._plans, self._pools)
        self._claims = Claims(self._hosts, self._plans, self._pools, self._orders)
        self._preemptions = Preemptions(self._runs.is_over)
        self._bound = Bound(self._hosts)
        self._beside = Beside(self._hosts)
        self._avoided = Avoided(self._hosts, self._bound)
        self._stages = Stages(self._hosts, self._bound)
        self._windows = Windows(self._hosts, self._stages)
        self._campaigns = Campaigns(self._hosts, self._windows)
        self._folds: dict[str, tuple[Fold, ...]] = {
            "lifecycle": (self._runs, self._preemptions, Health(), Updates(), Wanted(), self._bound, Leaving()),
            "entitlement": (
                self._pools,
                self._access,
                AdmittedStrategies(self._pools),
                Reachable(self._pools),
                self._orders,
                self._reasons,
                self._rest,
            ),
            "placement": (
                self._bound,
                self._hosts,
                self._beside,
                devices,
                PlacedStrategies(self._hosts),
                Nearness(self._hosts, self._plans, devices),
                self._plans,
                Unplaced(self._hosts, self._plans, devices),
                self._serving,
                self._avoided,
                self._stages,
                self._windows,
                self._campaigns,
                Shrunk(self._hosts, self._pools.units, devices),
            ),
            "sla": (Budgets(),),
        }

    def look(self) -> None:
        """Takes what is new in the log."""
        for round_ in self.history.read():
            self.rounds += 1
            self.decisions += len(round_.decisions)
            self._look_at(round_)

    @property
    def events(self) -> int:
        """Facts and decisions read."""
        return self.history.facts() + self.decisions

    def open_jobs(self, submitted: Iterable[str]) -> list[str]:
        """The jobs that have no answer, or were accepted and have no outcome."""
        return [*self._runs.open_jobs(), *(job_id for job_id in submitted if job_id not in self._runs.answered)]

    def silent_hosts(self) -> list[str]:
        """Hosts that are silent and not given up."""
        return self._hosts.silent()

    @property
    def ended_unasked(self) -> int:
        """Runs that have ended by themselves."""
        return self._runs.ended_unasked

    def live(self) -> bool:
        """Whether anything runs."""
        return self._runs.live()

    def stalled(self) -> None:
        """Checks a cell in which nothing has run for long."""
        self._runs.stalled(self._pools.has_room)

    def at_rest(self, now_ms: int) -> None:
        """Checks a cell in which nothing happens at a moment of virtual time, and over time."""
        ends = self._log.ends(self.history.topics)
        if ends == self._ends and now_ms - self._looked_ms < LOOK_MS:
            return
        self._ends, self._looked_ms = ends, now_ms
        self.look()
        self._reasons.at_rest(now_ms)
        self._idle.look(now_ms)
        self._claims.look(now_ms)
        self._bound.at_rest(now_ms)
        self._hosts.revocations.at_rest(now_ms)
        self._avoided.at_rest(now_ms)
        self._stages.at_rest(now_ms)
        self._campaigns.at_rest(now_ms)
        self._windows.at_rest(now_ms)
        self._rest.look()

    def settled(self) -> None:
        """Checks a cell that has nothing left to do."""
        self._runs.settled()
        self._orders.settled()
        self._preemptions.settled()
        self._access.settled()

    def _look_at(self, round_: Round) -> None:
        for fold in self._folds.get(round_.machine, ()):
            fold.round(round_)
        self._runs.take_reasons(round_)
        self._preemptions.take_orders(round_)
