"""The processes of a run at level cgroup: a process group in control groups, whose limits the kernel holds."""

from typing import Any

from hostagent.groups import Group, GroupFault, Limits
from hostagent.keeper.process_group import CannotSpawn, ProcessGroup


class ControlGroup(ProcessGroup):
    """Kills what leaves the process group too, and knows what all of it has used."""

    def __init__(self, order: dict[str, Any], files: int) -> None:
        super().__init__(order, files)
        self._group = Group(order["groups"])
        self._limits = Limits(**order["limits"])
        self._used: dict[str, Any] = {}

    def spawn(self, out: int, err: int) -> None:
        """Starts the process in its control group. Raises `CannotSpawn`."""
        try:
            self._group.make(self._limits)
            self._fork(out, err)
        except GroupFault as fault:
            raise CannotSpawn(self._order["command"], ValueError(str(fault)), lasting=False) from fault
        except CannotSpawn:
            self._group.remove()
            raise

    def enter(self) -> None:
        """In the child: joins the control group, while it may."""
        self._group.join()

    def kill(self) -> None:
        """Ends all processes of the run at once."""
        super().kill()
        self._group.kill()

    def goes_on(self) -> bool:
        """Whether the run has any process."""
        return super().goes_on() or bool(self._group.processes())

    def clear(self) -> bool:
        """Kills what is left, and removes the control group; False: it is to be called again, soon."""
        over = self._group.kill()
        if over or not self._used:
            used = self._group.usage()
            self._used = {
                "cpu_ms": used.cpu_ms,
                "memory_kib": used.peak_memory_kib,
                "throttled_ms": used.throttled_ms,
                "read_kib": used.read_kib,
                "written_kib": used.written_kib,
                "oom_kills": used.oom_kills,
                "forks_refused": used.forks_refused,
            }
        return over and self._group.remove()

    def used(self) -> dict[str, Any]:
        """The use of the run, once it was to be cleared away."""
        return self._used
