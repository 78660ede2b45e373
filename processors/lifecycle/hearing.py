"""Contact with hosts, as placement reports it: while a host is silent, no deadline of a run there passes."""

from collections.abc import Callable

import numpy as np

from events.codes import Hearing, TaskState
from events.columns import I64
from events.records.placement import HostHearingChanged
from processors.lifecycle.host_reports import Hosts
from processors.lifecycle.lookups import among
from processors.lifecycle.tasks import HELD, Tasks
from processors.state.seconds import second


class HostHearing:
    """Notes it in the rows of hosts. `changed` is called with the number of a host of which something else is said, the
    tasks that have runs there, and the time.
    """

    def __init__(self, tasks: Tasks, hosts: Hosts, changed: Callable[[int, I64, int], None]) -> None:
        self._tasks = tasks
        self._hosts = hosts
        self._changed = changed

    def said(self, event: HostHearingChanged, now: int) -> None:
        """Placement says it of hosts; what it says of a session that is over is void."""
        sessions, hearing = event.host_session_array.tolist(), event.hearing_array.tolist()
        for host_id, session, hears in zip(event.host_ids, sessions, hearing, strict=True):
            row = self._hosts.table.get(host_id)
            if row is None or session < row.session:
                continue
            row, silent = self._hosts.table.change(host_id), row.silent
            row.lost = hears == Hearing.LOST
            if hears == Hearing.HEARD:
                row.silent, row.heard_s = 0, second(now)
            else:
                row.silent = silent or second(now)  # it is as silent when it is given up
            self._hosts.derive(row)
            there = self._tasks.by_host.of(np.array([row.number - 1]))
            if silent and hears == Hearing.HEARD:
                self._go_on(there, silent, now)
            self._changed(row.number, there, now)

    def _go_on(self, slots: I64, silent: int, now: int) -> None:
        """The silence of their host is over: its time doesn't count for their deadlines."""
        arena = self._tasks.arena
        due = arena["due"][slots].astype(np.int64)
        waits = among(arena["state"][slots], (TaskState.ORDERED, TaskState.STOPPING)) & (due > 0) & (due < HELD)
        remaining = np.maximum(due[waits] - silent, 1)
        self._tasks.wait(slots[waits], np.minimum(second(now) + remaining, HELD - 1))
