"""Commands inside runs whose end is yet to be written."""

from collections import deque
from collections.abc import Callable

from events.records.tasks import ExecClosed
from hostagent.messages import ExecEnd, ExecLine

CLOSED_EXECS = 1000
"""So many commands are remembered whose end was written: a host may tell of it again within seconds."""


class OpenExecs:
    """Tells which ends count. Both the gateway of a command and its host may tell of its end; the host alone where
    that gateway was lost, and then whichever gateway it finds.
    """

    def __init__(self) -> None:
        self._open: dict[str, tuple[str, str]] = {}
        """Host and job of the commands that began here."""
        self._closed: deque[str] = deque(maxlen=CLOSED_EXECS)

    def begun(self, host_id: str, line: ExecLine) -> None:
        """A command begins here."""
        self._open[line.request] = host_id, line.job_id

    def of_host(self, host_id: str, end: ExecEnd, host_of: Callable[[str, int, int], str | None]) -> bool:
        """Whether a host may tell of this end: nobody tells of another's. An id that isn't known here is of a command
        that another gateway had; its end counts if its run is on that host. `host_of`: the host of a run.
        """
        if end.exec_id in self._open:
            return self._open[end.exec_id] == (host_id, end.job_id)
        return host_of(end.job_id, end.instance, end.run) == host_id

    def ends(self, event: ExecClosed) -> bool:
        """Whether this end is to be written: the first of its command is."""
        self._open.pop(event.exec_id, None)
        if event.exec_id in self._closed:
            return False
        self._closed.append(event.exec_id)
        return True
