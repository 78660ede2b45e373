"""Windows of maintenance: the times at which hosts drain by themselves, or at which campaigns may start hosts.

From `lead` before a window opens its hosts drain; at its opening what is left leaves by its escalation, and when it
closes the hosts are taken back. A host that somebody else has (an operator, a campaign) stays theirs, with the earlier
times of both. A window that closed while nothing was decided is told as MISSED, and isn't made up for. Schedules are
expanded by `events/schedules.py`; machines have no time zones.
"""

from collections.abc import Container, Iterable, Iterator
from itertools import islice, pairwise

import msgspec
import numpy as np

from events.bounds import WINDOW_MAX_MS, WINDOW_MIN_MS
from events.codes import Code, Stage
from events.maintenance_refusals import NO_FORCE, no_window, window_refused
from events.records.base import Event
from events.records.hosts import HostConnected, MaintenanceWindowRemoved, MaintenanceWindowSet
from events.records.parts import Cause, DrainPlan, ZoneOffsets
from events.records.placement import HostMaintenanceChanged, HostsAnswered, MaintenanceWindowChanged
from events.schedules import next_opening, schedule_fault
from processors.placement.hosts import Hosts
from processors.placement.packing import Mask
from processors.placement.stages import HEALTH, WINDOW, Goal, Stages, changed
from processors.state.causes import CauseRow, CurrentInput, host_fact, recorded
from processors.state.cell_settings import CellSettings
from processors.state.deadlines import Deadlines, earliest
from processors.state.table import Table, struct_table

SET, LEADING, OPEN = "SET", "LEADING", "OPEN"
"""The states of a window that is there."""
CLOSED, MISSED, REMOVED = "CLOSED", "MISSED", "REMOVED"
"""Names of what else becomes of it in `MaintenanceWindowChanged`."""
ESCALATIONS = ("preempt", "force", "cordon")
WINDOWS_MAX = 1_000
_NEVER_MS = 1 << 62


class WindowRow(msgspec.Struct, array_like=True):
    """A window. Times are logical milliseconds; `opens_ms` 0: it opens never again."""

    host_ids: tuple[str, ...]
    schedule: str
    duration_ms: int
    zone: tuple[str, tuple[int, ...], tuple[int, ...], int]
    lead_ms: int
    escalate: str
    cause: CauseRow | None
    """The fact that set it."""
    state: str = SET
    opens_ms: int = 0
    closes_ms: int = 0
    left_out: dict[str, None] = {}
    """Hosts that an operator has taken back, out of it until the next time."""

    @property
    def drains(self) -> bool:
        """Whether its hosts drain for it; else it is for campaigns alone."""
        return self.escalate != "cordon"

    @property
    def next_ms(self) -> int:
        """When it is in another state; 0: never."""
        if self.state == OPEN:
            return self.closes_ms
        leads = self.state == SET and self.drains
        return max(1, self.opens_ms - self.lead_ms) if leads and self.opens_ms else self.opens_ms

    def opening(self, after_ms: int) -> tuple[int, int]:
        """When it opens and closes next; 0, 0: never."""
        second = next_opening(self.schedule, ZoneOffsets(*self.zone), after_ms // 1000)
        return (second * 1000, second * 1000 + self.duration_ms) if second is not None else (0, 0)


class WindowAskRow(msgspec.Struct, array_like=True):
    """A request of an operator about a window; `window` None: it is to be removed."""

    window_id: str
    command_id: str
    at_ms: int
    window: WindowRow | None


class Windows:
    """Decides `MaintenanceWindowChanged`, what follows for hosts, and answers operators."""

    def __init__(self, hosts: Hosts, stages: Stages, settings: CellSettings, current: CurrentInput) -> None:
        self.table: Table[str, WindowRow] = struct_table("windows", WindowRow)
        self.asks: Table[int, WindowAskRow] = struct_table("window_asks", WindowAskRow, int)
        self._hosts = hosts
        self._stages = stages
        self._settings = settings
        self._input = current
        self._next: Deadlines[str] = Deadlines()
        """When windows lead, open or close."""
        self._of_host: dict[str, dict[str, None]] = {}
        """The windows of each host."""
        self.emptying: dict[str, None] = {}
        """Windows that open again and empty their hosts, by id."""
        self._back: dict[str, None] = {}
        """Hosts of windows that were taken back, or came back, since they were looked at. Only saves work."""
        self.looked_ms = 0
        """The logical time of the decision that is made."""

    def restored(self) -> None:
        """Finds again what is derived."""
        self._next.restore((window_id, row.next_ms) for window_id, row in self.table.items() if row.next_ms)
        self._of_host, self.emptying = {}, {}
        for window_id, row in self.table.items():
            self._index(window_id, row)
        self._back = dict.fromkeys(self._of_host)

    def is_open(self, window_id: str) -> bool:
        """Whether a window is open."""
        row = self.table.get(window_id)
        return row is not None and row.state == OPEN

    def too_late(self, longest_ms: int) -> Mask:
        """The hosts on which a run that lasts so long isn't sure to be over when a window next opens; -1: nobody knows
        how long.
        """
        opens_ms = np.full(len(self._hosts.ids), _NEVER_MS, dtype=np.int64)
        for window_id in self.emptying:
            row = self.table[window_id]
            hosts = [host_id for host_id in row.host_ids if host_id in self._hosts.table]
            numbers = [self._hosts.table[host_id].number for host_id in hosts if host_id not in row.left_out]
            opens_ms[numbers] = np.minimum(opens_ms[numbers], row.opens_ms)
        too_late: Mask = opens_ms < (_NEVER_MS if longest_ms < 0 else self.looked_ms + longest_ms)
        return too_late

    # What is said.

    def set_asked(self, event: MaintenanceWindowSet, now: int) -> None:
        """An operator sets a window."""
        zone = event.zone
        window = WindowRow(
            tuple(dict.fromkeys(event.host_ids)),
            event.schedule,
            event.duration_ms,
            (zone.name, zone.from_s, zone.offset_s, zone.until_s),
            event.lead_ms,
            event.escalate,
            self._input.cause,
        )
        self.asks.put(self._input.offset, WindowAskRow(event.window_id, event.command_id, now, window))

    def removal_asked(self, event: MaintenanceWindowRemoved, now: int) -> None:
        """An operator removes a window."""
        self.asks.put(self._input.offset, WindowAskRow(event.window_id, event.command_id, now, None))

    def answered(self, event: HostsAnswered, now: int) -> None:
        """The operator has an answer; where it is DONE, the window is as it was asked for."""
        ask = self.asks.get(event.hosts_offset)
        if ask is None:
            return
        self.asks.remove(event.hosts_offset)
        if event.code != Code.DONE:
            return
        before = self.table.get(ask.window_id)
        if before is not None:
            self._drop(ask.window_id, before)
        if ask.window is not None:
            window = self.table.put(ask.window_id, _begun(ask.window, before, now))
            self._index(ask.window_id, window)
            self._next.set(ask.window_id, window.next_ms or None)

    def changed(self, event: MaintenanceWindowChanged, now: int) -> None:
        """A window has another state."""
        if event.state in (SET, REMOVED):  # the answer to the operator brings it
            return
        row = self.table.change(event.window_id)
        row.state = SET if event.state in (CLOSED, MISSED) else event.state
        row.opens_ms, row.closes_ms = event.opens_ms, event.closes_ms
        if row.state == SET:
            row.left_out = {}
        self._next.set(event.window_id, row.next_ms or None)
        if not row.opens_ms:
            self.emptying.pop(event.window_id, None)

    def connected(self, event: HostConnected, now: int) -> None:
        """A host is there, maybe one that was forgotten meanwhile."""
        if event.host_id in self._of_host:
            self._back[event.host_id] = None

    def host_changed(self, event: HostMaintenanceChanged, now: int) -> None:
        """Hosts that an operator takes back are out of windows that go on, until their next time; others aren't."""
        for host_id in event.host_ids if self._of_host else ():
            if host_id in self._of_host:
                self._back[host_id] = None
            if event.code != Code.RESUMED:
                continue
            for window_id in self._of_host.get(host_id, ()):
                if self.table[window_id].state != SET:
                    self.table.change(window_id).left_out[host_id] = None

    # What is decided.

    def next_ms(self) -> int | None:
        """When a window changes; an operator's ask is due at once."""
        asked_ms = next(iter(self.asks.values())).at_ms if self.asks else None
        return earliest(asked_ms, self._next.first())

    def decide(self, now: int, budget: int) -> list[Event]:
        """One answer, one window that leads, opens or closes, with what follows for its hosts, or hosts that are back;
        to be asked only when caught up. One alone, since the next may be about the same hosts.
        """
        for offset, ask in islice(self.asks.items(), 1):
            return [*self._answer(ask, offset, now)]
        for window_id in self._next.due(now):
            return [*self._turned(window_id, self.table[window_id], now)]
        return [*self._wanted(now)]

    def _wanted(self, now: int) -> Iterator[HostMaintenanceChanged]:
        """Hosts that are back drain for the first window that goes on and wants them."""
        of_window: dict[str, list[str]] = {}
        for host_id in sorted(self._back):
            stage, window_id = self._stages.of(host_id), self._other(host_id, "")
            is_free = stage.stage in (Stage.UP, Stage.CORDONED) and not stage.in_campaign
            if window_id is None or not is_free or host_id not in self._hosts.table:
                del self._back[host_id]
            else:
                of_window.setdefault(window_id, []).append(host_id)
        for window_id, host_ids in of_window.items():
            row = self.table[window_id]
            yield from self._drained(window_id, row, now, recorded(row.cause), host_ids)

    def _answer(self, ask: WindowAskRow, offset: int, now: int) -> Iterator[Event]:
        """Decides what follows from a request, and the answer to it."""
        code, message, refused = self._judge(ask)
        if code == Code.DONE:
            cause, before = host_fact(offset), self.table.get(ask.window_id)
            window = _begun(ask.window, before, now) if ask.window is not None else None
            if before is not None:
                goes_on = window.host_ids if window is not None and window.state != SET and window.drains else ()
                yield from self._taken_back(ask.window_id, before, cause, goes_on)
            if window is None:
                yield _said(ask.window_id, REMOVED, 0, 0, cause)
            else:
                if window.state != SET and window.drains:
                    yield from self._drained(ask.window_id, window, now, cause, window.host_ids)
                yield _said(ask.window_id, SET, window.opens_ms, window.closes_ms, cause)
                message = _note(window)
        yield HostsAnswered(
            hosts_offset=offset,
            command_id=ask.command_id,
            code=code,
            message=message,
            host_ids=tuple(refused),
            codes=(Code.NOT_FOUND,) * len(refused),
        )

    def _judge(self, ask: WindowAskRow) -> tuple[Code, str, list[str]]:
        """Whether a request is followed; else why not, and the hosts that aren't there."""
        before, window = self.table.get(ask.window_id), ask.window
        if window is None:
            return (Code.DONE, "", []) if before else (Code.NOT_FOUND, no_window(ask.window_id), [])
        if fault := _fault(window):
            return Code.INVALID_SPEC, fault, []
        if window.escalate == "force" and not self._settings.now.drain_force:
            return Code.FORCE_NOT_ALLOWED, NO_FORCE, []
        if before is None and len(self.table) >= WINDOWS_MAX:
            return Code.INVALID_SPEC, f"The cell has {WINDOWS_MAX} windows, which is the most.", []
        unknown = [host_id for host_id in window.host_ids if host_id not in self._hosts.table]
        if unknown:
            return Code.NOT_FOUND, window_refused(unknown), unknown
        return Code.DONE, "", []

    def _turned(self, window_id: str, row: WindowRow, now: int) -> Iterator[Event]:
        """A window leads, opens or closes; its hosts change after it."""
        due = Cause(due_ms=row.next_ms)
        if now >= row.closes_ms:
            # It may open again as it closes, or have done so while nothing was decided.
            opens_ms, closes_ms = row.opening(max(row.closes_ms - 1000, now - row.duration_ms))
            if row.state == SET:
                due = Cause(due_ms=row.opens_ms)
            else:
                leads = row.drains and 0 < opens_ms - row.lead_ms <= now
                yield from self._taken_back(window_id, row, due, row.host_ids if leads else ())
            state = CLOSED if row.state == OPEN else MISSED
            yield _said(window_id, state, opens_ms, closes_ms, due)
            return
        state = OPEN if now >= row.opens_ms else LEADING
        if row.drains:
            yield from self._drained(window_id, row, now, due, row.host_ids)
        yield _said(window_id, state, row.opens_ms, row.closes_ms, due)

    def _drained(
        self, window_id: str, row: WindowRow, now: int, cause: Cause | None, host_ids: Iterable[str]
    ) -> Iterator[HostMaintenanceChanged]:
        """Hosts of it drain. Operators keep theirs, with the earlier times of both; health, which never forces, not."""
        plan = DrainPlan(batch="move", deadline_ms=max(1, row.opens_ms - now), escalate=row.escalate)
        of_whom: dict[tuple[str, str], dict[str, Goal]] = {}
        for host_id in host_ids:
            stage = self._stages.of(host_id)
            if host_id not in self._hosts.table or host_id in row.left_out or stage.in_campaign:
                continue
            if stage.stage in (Stage.DRAINED, Stage.CHECKING):
                continue
            anew = row.state == SET and (stage.by, stage.source) == (
                WINDOW,
                window_id,
            )  # it has it from the time before
            goal = stage.drained(plan, now, replace=anew and now < row.opens_ms)
            if goal != stage.goal:
                theirs = stage.drains and stage.by != HEALTH
                whose = (stage.by, stage.source) if theirs else (WINDOW, window_id)
                of_whom.setdefault(whose, {})[host_id] = goal
        for (by, source), hosts in of_whom.items():
            yield changed(hosts, Code.WINDOW, by=by, source=source, cause=cause)

    def _taken_back(
        self, window_id: str, row: WindowRow, cause: Cause, goes_on: Container[str] = ()
    ) -> Iterator[HostMaintenanceChanged]:
        """The hosts that the window has are UP or CORDONED again, but for those that another one goes on with."""
        back: dict[str, Goal] = {}
        passed: dict[str, dict[str, Goal]] = {}
        for host_id in row.host_ids:
            stage = self._stages.of(host_id)
            if (stage.by, stage.source) != (WINDOW, window_id) or host_id in goes_on:
                continue
            other = self._other(host_id, window_id)
            if other is None:
                back[host_id] = stage.taken_back()
            else:
                passed.setdefault(other, {})[host_id] = stage.goal
        if back:
            yield changed(back, Code.WINDOW, cause=cause)
        for other, hosts in passed.items():
            yield changed(hosts, Code.WINDOW, by=WINDOW, source=other, cause=cause)

    def _other(self, host_id: str, window_id: str) -> str | None:
        """Another window for which a host is empty now."""
        for other in self._of_host.get(host_id, ()):
            row = self.table[other]
            if other != window_id and row.drains and row.state != SET and host_id not in row.left_out:
                return other
        return None

    def _drop(self, window_id: str, row: WindowRow) -> None:
        self.table.remove(window_id)
        self._next.clear(window_id)
        self.emptying.pop(window_id, None)
        for host_id in row.host_ids:
            self._of_host[host_id].pop(window_id)
            if not self._of_host[host_id]:
                del self._of_host[host_id]

    def _index(self, window_id: str, row: WindowRow) -> None:
        for host_id in row.host_ids:
            self._of_host.setdefault(host_id, {})[window_id] = None
        if row.drains and row.opens_ms:
            self.emptying[window_id] = None


def _said(window_id: str, state: str, opens_ms: int, closes_ms: int, cause: Cause) -> MaintenanceWindowChanged:
    return MaintenanceWindowChanged(
        window_id=window_id, state=state, opens_ms=opens_ms, closes_ms=closes_ms, cause=cause
    )


def _begun(window: WindowRow, before: WindowRow | None, now: int) -> WindowRow:
    """A window as it is set: one that goes on keeps its opening where its schedule is the same, else that is over, and
    nothing happens before its next regular opening.
    """
    same = before is not None and (before.schedule, before.zone[0]) == (window.schedule, window.zone[0])
    if before is not None and same and before.state != SET and now < before.opens_ms + window.duration_ms:
        state, left_out, opens_ms = before.state, dict(before.left_out), before.opens_ms
        closes_ms = opens_ms + window.duration_ms
    else:
        state, left_out, (opens_ms, closes_ms) = SET, {}, window.opening(now)
    return msgspec.structs.replace(window, state=state, opens_ms=opens_ms, closes_ms=closes_ms, left_out=left_out)


def _note(row: WindowRow) -> str:
    """Returns what is said of a window that is set as it was asked for."""
    if not row.opens_ms:
        return "It never opens."
    again_ms, _ = row.opening(row.closes_ms - 1000)
    if row.drains and again_ms and again_ms - row.lead_ms <= row.closes_ms:
        return "Its hosts stay drained from its first time to the next: that leads before the first has closed."
    return ""


def _fault(row: WindowRow) -> str:
    """The fault of a window; empty: there is none."""
    if fault := schedule_fault(row.schedule):
        return f"schedule: {fault}."
    if not WINDOW_MIN_MS <= row.duration_ms <= WINDOW_MAX_MS:
        return f"duration_ms is {row.duration_ms}, it must be {WINDOW_MIN_MS} to {WINDOW_MAX_MS}."
    if not 0 <= row.lead_ms <= WINDOW_MAX_MS:
        return f"lead_ms is {row.lead_ms}, it must be 0 to {WINDOW_MAX_MS}."
    if row.escalate not in ESCALATIONS:
        return f"escalate is {row.escalate[:40]!r}, it must be one of {', '.join(ESCALATIONS)}."
    _, from_s, offset_s, _ = row.zone
    if len(from_s) != len(offset_s) or any(a >= b for a, b in pairwise(from_s)):
        return "zone: each offset needs the second from which it holds, and these ascend."
    return ""
