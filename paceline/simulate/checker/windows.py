"""Checks windows of maintenance: they lead, open and close when their schedule says, their hosts drain for so long and
no longer, those that an operator has taken back stay out, and no firm run is put on a host that a window empties before
the run is over.
"""

from dataclasses import dataclass, field

from events.codes import Stage
from events.records.base import Event
from events.records.hosts import MaintenanceWindowSet
from events.records.placement import HostMaintenanceChanged, MaintenanceWindowChanged, TasksPlaced
from paceline.simulate.checker.history import Round, Violation
from paceline.simulate.checker.hosts import Hosts
from paceline.simulate.checker.items import Task, places_of
from paceline.simulate.checker.openings import opening
from paceline.simulate.checker.stages import SOON_MS, Stages, goals_of

DRAIN_FOR_IT = ("LEADING", "OPEN")


@dataclass
class Window:
    """A window as placement has said it. Times are logical milliseconds."""

    fact: MaintenanceWindowSet
    state: str
    opens_ms: int
    closes_ms: int
    left_out: set[str] = field(default_factory=set)
    """Hosts that were taken back by hand since it leads."""

    @property
    def drains(self) -> bool:
        """Whether its hosts drain for it."""
        return self.fact.escalate != "cordon"


class Windows:
    """Follows placement. `hosts` and `stages` have taken each round of it."""

    def __init__(self, hosts: Hosts, stages: Stages) -> None:
        self._hosts = hosts
        self._stages = stages
        self._requests: dict[int, MaintenanceWindowSet] = {}
        """By offset."""
        self.windows: dict[str, Window] = {}

    def round(self, round_: Round) -> None:
        """Takes a round of placement. Raises `Violation`."""
        for _, offset, event, _ in round_.inputs:
            if isinstance(event, MaintenanceWindowSet):
                self._requests[offset] = event
        if not self.windows and not self._requests:
            return
        for event in round_.decisions:
            self._decided(event, round_)
        for host_id, goal in self._stages.goals.items():
            window = self.windows.get(goal.source) if goal.by == "window" else None
            if goal.by != "window":
                continue
            if window is None or window.state not in DRAIN_FOR_IT or host_id not in window.fact.host_ids:
                state = window.state if window is not None else "there no more"
                raise Violation(
                    f"{round_} leaves {host_id} {Stage(goal.stage).name} for {goal.source}, which is {state}"
                )

    def is_open(self, window_id: str) -> bool:
        """Whether a window is open."""
        return window_id in self.windows and self.windows[window_id].state == "OPEN"

    def at_rest(self, now: int) -> None:
        """Looks at a moment. Raises `Violation` where a window doesn't lead, open or close in time."""
        for name, window in self.windows.items():
            leads_ms = window.opens_ms - (window.fact.lead_ms if window.drains else 0)
            if window.state == "SET" and window.opens_ms > 0 and leads_ms < now - SOON_MS:
                raise Violation(f"at {now}, {name} is SET, it leads from {leads_ms} on")
            if window.state == "LEADING" and window.opens_ms < now - SOON_MS:
                raise Violation(f"at {now}, {name} is LEADING, it opens at {window.opens_ms}")
            if window.state in DRAIN_FOR_IT and window.closes_ms < now - SOON_MS:
                raise Violation(f"at {now}, {name} is {window.state}, it closes at {window.closes_ms}")

    def _decided(self, event: Event, round_: Round) -> None:
        match event:
            case MaintenanceWindowChanged():
                self._changed(event, round_)
            case HostMaintenanceChanged():
                self._staged(event, round_)
            case TasksPlaced():
                for task, run, host_id, _, _ in places_of(event):
                    self._place(task, run, host_id, round_)

    def _changed(self, event: MaintenanceWindowChanged, round_: Round) -> None:
        name, now, before = event.window_id, round_.now_ms, self.windows.get(event.window_id)
        what = f"{round_} has {name} {event.state} at {now} after {before}"
        if event.state == "REMOVED":
            self.windows.pop(name, None)
            return
        if event.state == "SET":
            self._set(event, before, round_, what)
        elif before is None:
            raise Violation(what)
        elif event.state in DRAIN_FOR_IT:
            first_ms = before.opens_ms - (before.fact.lead_ms if event.state == "LEADING" else 0)
            last_ms = before.opens_ms if event.state == "LEADING" else before.closes_ms
            if not first_ms <= now < last_ms or event.opens_ms != before.opens_ms:
                raise Violation(what)
            before.state = event.state
            self._all_drain(before, what)
        else:
            if now < before.closes_ms or (event.state == "CLOSED") != (before.state == "OPEN"):
                raise Violation(what)
            after_ms = max(before.closes_ms - 1, now - before.fact.duration_ms)
            self._must_open(before.fact, event, after_ms, what)
            self.windows[name] = Window(before.fact, "SET", event.opens_ms, event.closes_ms)

    def _set(self, event: MaintenanceWindowChanged, before: Window | None, round_: Round, what: str) -> None:
        fact = self._requests.get(event.cause.offset) if event.cause is not None else None
        if fact is None or fact.window_id != event.window_id:
            raise Violation(f"{what}, which nobody has asked for")
        window, now = Window(fact, "SET", event.opens_ms, event.closes_ms), round_.now_ms
        same = before is not None and (before.fact.schedule, before.fact.zone.name) == (fact.schedule, fact.zone.name)
        if before is not None and same and before.state != "SET" and now < before.opens_ms + fact.duration_ms:
            if event.opens_ms != before.opens_ms:
                raise Violation(f"{what}, and it was open")
            window.state, window.left_out = before.state, before.left_out
        else:
            self._must_open(fact, event, now, what)
        self.windows[event.window_id] = window

    @staticmethod
    def _must_open(fact: MaintenanceWindowSet, event: MaintenanceWindowChanged, after_ms: int, what: str) -> None:
        due_ms = opening(fact, after_ms)
        if due_ms is not None and (event.opens_ms, event.closes_ms) != (due_ms, due_ms + fact.duration_ms):
            raise Violation(f"{what}: it opens at {due_ms} next, not at {event.opens_ms}")

    def _all_drain(self, window: Window, what: str) -> None:
        """Each of its hosts that is there drains, or is in maintenance of others."""
        for host_id in window.fact.host_ids if window.drains else ():
            goal = self._stages.of(host_id)
            spared = host_id in window.left_out or host_id not in self._hosts.hosts or goal.step
            if not spared and goal.stage in (Stage.UP, Stage.CORDONED):
                raise Violation(f"{what}, and {host_id} is {Stage(goal.stage).name}")

    def _staged(self, event: HostMaintenanceChanged, round_: Round) -> None:
        for host_id, goal in goals_of(event).items():
            for name, window in self.windows.items():
                if event.code == "RESUMED" and window.state in DRAIN_FOR_IT and host_id in window.fact.host_ids:
                    window.left_out.add(host_id)
                if goal.by == "window" and goal.source == name and host_id in window.left_out:
                    raise Violation(f"{round_} drains {host_id} for {name}, which was taken back by hand")

    def _place(self, task: Task, run: int, host_id: str, round_: Round) -> None:
        job = self._hosts.jobs.get(task[0])
        if job is None or job.kind != "batch" or not job.longest_ms:
            return
        for name, window in self.windows.items():
            if not window.drains or not window.opens_ms or host_id not in window.fact.host_ids:
                continue
            over_ms = round_.now_ms + job.longest_ms
            if host_id not in window.left_out and (job.longest_ms < 0 or over_ms > window.opens_ms):
                what = f"{round_} places {task} run {run} on {host_id} at {round_.now_ms}"
                raise Violation(f"{what}, {name} opens at {window.opens_ms}, it may last {job.longest_ms}")
